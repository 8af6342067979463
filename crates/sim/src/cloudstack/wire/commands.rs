//! The commands the simulator knows, as the service publishes them.

use std::collections::BTreeMap;
use std::sync::LazyLock;

/// What a parameter holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// Any text.
    Text,
    /// `true` or `false`.
    Boolean,
    /// A whole number.
    Number,
    /// The id of something that exists.
    Id,
    /// Texts or ids, separated by commas.
    List,
    /// Numbered names and values.
    Map,
    /// A day or a moment.
    Date,
}

/// A parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// What it holds.
    pub kind: Type,
    /// Whether it must be there.
    pub required: bool,
}

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Its name.
    pub name: &'static str,
    /// Whether it answers with a job.
    pub is_async: bool,
    /// Its parameters.
    pub parameters: BTreeMap<&'static str, Parameter>,
}

/// The catalogue as text: a line per command, `name sync|async parameter:type[!]…`.
pub const CATALOGUE: &str = include_str!("commands.txt");

static COMMANDS: LazyLock<BTreeMap<&'static str, Command>> = LazyLock::new(|| {
    let lines = CATALOGUE.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(command).map(|command| (command.name, command)).collect()
});

fn command(line: &'static str) -> Option<Command> {
    let mut words = line.split(' ');
    let (name, is_async) = (words.next()?, words.next()? == "async");
    let parameter = |word: &'static str| {
        let (name, kind) = word.split_once(':')?;
        let (kind, required) = kind.strip_suffix('!').map_or((kind, false), |kind| (kind, true));
        let kind = match kind {
            "string" => Type::Text,
            "boolean" => Type::Boolean,
            "integer" | "long" => Type::Number,
            "uuid" => Type::Id,
            "list" => Type::List,
            "map" => Type::Map,
            "date" => Type::Date,
            _ => return None,
        };
        Some((name, Parameter { kind, required }))
    };
    Some(Command { name, is_async, parameters: words.filter_map(parameter).collect() })
}

/// A command by its name, in any spelling of its letters.
#[must_use]
pub fn find(name: &str) -> Option<&'static Command> {
    COMMANDS.values().find(|command| command.name.eq_ignore_ascii_case(name))
}

/// All commands.
pub fn all() -> impl Iterator<Item = &'static Command> {
    COMMANDS.values()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_catalogue_is_read_whole() {
        for line in CATALOGUE.lines().filter(|line| !line.starts_with('#')) {
            let words = line.split(' ').count();
            let command = command(line).unwrap();
            assert_eq!(command.parameters.len() + 2, words, "{line}");
        }
        let deploy = find("DEPLOYVIRTUALMACHINE").unwrap();
        assert!(deploy.is_async && deploy.parameters["zoneid"].required);
        assert_eq!(deploy.parameters["networkids"].kind, Type::List);
        assert!(find("noSuchCommand").is_none());
    }
}
