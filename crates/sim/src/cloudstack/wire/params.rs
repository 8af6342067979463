//! The parameters of one command, taken apart one by one; what nobody takes is refused.

use std::collections::{BTreeMap, BTreeSet};

use super::commands::{Command, Type};
use super::refusal::Refusal;

/// Parameters that every request may have.
const COMMON: [&str; 6] = ["command", "apikey", "response", "signature", "signatureversion", "expires"];

/// The parameters of a request.
#[derive(Clone, Debug)]
pub struct Params {
    command: &'static Command,
    given: BTreeMap<String, String>,
    taken: BTreeSet<String>,
}

impl Params {
    /// Checks names, types and presence against the catalogue. Names count in any spelling of their letters.
    ///
    /// # Errors
    /// When a parameter is unknown or missing, or a value is not of its type.
    pub fn new(command: &'static Command, pairs: &[(String, String)]) -> Result<Self, Refusal> {
        let mut given = BTreeMap::new();
        for (name, value) in pairs {
            let name = name.to_lowercase();
            if !COMMON.contains(&name.as_str()) {
                given.insert(name, value.clone());
            }
        }
        for (name, value) in &given {
            let base = name.split('[').next().unwrap_or(name);
            let Some(parameter) = command.parameters.get(base) else {
                let text =
                    format!("the command {} has no parameter {name} (a real server would pass over it)", command.name);
                return Err(Refusal::parameter(text));
            };
            if (base != name) != (parameter.kind == Type::Map) {
                return Err(Refusal::value(command.name, name, value));
            }
            let fits = match parameter.kind {
                Type::Boolean => value == "true" || value == "false",
                Type::Number => value.parse::<i64>().is_ok(),
                Type::Id => !value.is_empty(),
                Type::Text | Type::List | Type::Map | Type::Date => true,
            };
            if !fits {
                return Err(Refusal::value(command.name, name, value));
            }
        }
        let this = Self { command, given, taken: BTreeSet::new() };
        let absent = |name: &str| {
            let map = format!("{name}[");
            !this.given.iter().any(|(key, value)| (key == name && !value.is_empty()) || key.starts_with(&map))
        };
        match command.parameters.iter().find(|(name, parameter)| parameter.required && absent(name)) {
            Some((name, _)) => Err(Refusal::missing(command.name, name)),
            None => Ok(this),
        }
    }

    /// A text.
    pub fn text(&mut self, name: &str) -> Option<String> {
        self.taken.insert(name.to_owned());
        self.given.get(name).filter(|value| !value.is_empty()).cloned()
    }

    /// A truth value.
    pub fn flag(&mut self, name: &str) -> Option<bool> {
        self.text(name).map(|value| value == "true")
    }

    /// A number that is not negative.
    ///
    /// # Errors
    /// When it is.
    pub fn number(&mut self, name: &str) -> Result<Option<u64>, Refusal> {
        let Some(value) = self.text(name) else { return Ok(None) };
        value.parse().map(Some).map_err(|_| Refusal::value(self.command.name, name, &value))
    }

    /// The entries of a list.
    pub fn list(&mut self, name: &str) -> Vec<String> {
        let text = self.text(name).unwrap_or_default();
        text.split(',').map(str::trim).filter(|entry| !entry.is_empty()).map(str::to_owned).collect()
    }

    /// The entries of a map that is written as `name[0].key=…&name[0].value=…`.
    ///
    /// # Errors
    /// When an entry has no key or is written otherwise.
    pub fn map(&mut self, name: &str) -> Result<BTreeMap<String, Option<String>>, Refusal> {
        let prefix = format!("{name}[");
        let mut entries: BTreeMap<String, (Option<String>, Option<String>)> = BTreeMap::new();
        for (full, value) in self.given.iter().filter(|(full, _)| full.starts_with(&prefix)) {
            let bad = || Refusal::value(self.command.name, full, value);
            let rest = full.get(prefix.len()..).unwrap_or_default();
            let (at, part) = rest.split_once("].").ok_or_else(bad)?;
            let entry = entries.entry(at.to_owned()).or_default();
            match part {
                "key" => entry.0 = Some(value.clone()),
                "value" => entry.1 = Some(value.clone()),
                _ => return Err(bad()),
            }
            self.taken.insert(full.clone());
        }
        let whole = entries.into_values().map(|(key, value)| Some((key?, value))).collect::<Option<_>>();
        whole.ok_or_else(|| Refusal::parameter(format!("{name}: an entry has no key")))
    }

    /// Ends the reading.
    ///
    /// # Errors
    /// When a parameter is in the catalogue but not modelled.
    pub fn finish(self) -> Result<(), Refusal> {
        match self.given.keys().find(|name| !self.taken.contains(*name)) {
            None => Ok(()),
            Some(name) => Err(Refusal::parameter(format!("the simulator does not model the parameter {name}"))),
        }
    }

    /// The command's name.
    #[must_use]
    pub fn command(&self) -> &'static str {
        self.command.name
    }
}

#[cfg(test)]
mod tests {
    use super::super::commands::find;
    use super::*;

    fn read(command: &str, given: &[(&str, &str)]) -> Result<Params, Refusal> {
        let pairs: Vec<(String, String)> = given.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        Params::new(find(command).unwrap(), &pairs)
    }

    #[test]
    fn names_types_and_presence_are_checked() {
        for (command, given, said) in [
            ("listZones", &[("zonename", "x")][..], "has no parameter zonename"),
            ("listZones", &[("page", "one")], "Invalid parameter page value=one"),
            ("listZones", &[("available", "yes")], "Invalid parameter available value=yes"),
            ("listZones", &[("name[0].key", "x")], "Invalid parameter name[0].key"),
            ("listTemplates", &[], "due to missing parameter templatefilter"),
            ("createTags", &[("resourcetype", "UserVm"), ("resourceids", "x")], "due to missing parameter tags"),
        ] {
            let refusal = read(command, given).unwrap_err();
            assert!(refusal.text.contains(said) && refusal.code == 431, "{refusal:?}");
        }
    }

    #[test]
    fn what_is_taken_is_known_and_what_is_left_is_refused() {
        let given =
            [("NAME", "a"), ("tags[0].key", "k"), ("tags[0].value", "v"), ("tags[1].key", "w"), ("apiKey", "x")];
        let mut params = read("listZones", &given).unwrap();
        assert_eq!(params.text("name").as_deref(), Some("a"));
        let tags = params.map("tags").unwrap();
        assert_eq!(tags, BTreeMap::from([("k".into(), Some("v".into())), ("w".into(), None)]));
        assert_eq!(params.finish(), Ok(()));
        assert!(read("listZones", &given).unwrap().finish().unwrap_err().text.contains("does not model"));
    }
}
