//! How things look on a terminal: marks, colours, wrapped text, columns and trees. Everything here is text in, text out.

mod explanation;
mod table;
mod tree;

use std::io::IsTerminal;

use kit::explain::Level;
use kit::telemetry::coloured;

pub use explanation::explanation;
pub use table::{grid, table};
pub use tree::{folded, tree};

/// Where text is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Screen {
    /// Columns; none when lines may be as long as they are.
    pub width: Option<usize>,
    /// Whether colours are shown.
    pub colour: bool,
}

/// The least that text beside something else needs; with less it moves to a line of its own.
const BESIDE: usize = 24;

impl Screen {
    /// Standard output: as wide as the terminal or as `COLUMNS` says, with colours on a terminal unless `NO_COLOR` is set.
    pub fn standard_output() -> Self {
        let out = std::io::stdout();
        let columns = std::env::var_os("COLUMNS");
        let given = columns.and_then(|columns| columns.to_str()?.parse().ok()).filter(|width| *width > 0);
        let width = given.or_else(|| terminal_size::terminal_size_of(&out).map(|(width, _)| usize::from(width.0)));
        let colour = coloured(out.is_terminal(), std::env::var_os("NO_COLOR").as_deref());
        Self { width, colour }
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// The sign of a level.
    fn mark(self, level: Level) -> String {
        let (code, sign) = match level {
            Level::Ok => ("32", "✓"),
            Level::Waiting => ("33", "…"),
            Level::Problem => ("31", "✗"),
            Level::Aside => ("2", "-"),
            Level::Unknown => ("35", "?"),
        };
        self.paint(code, sign)
    }

    fn heading(self, text: &str) -> String {
        self.paint("1", text)
    }

    /// Adds `text` after `first`, its further lines after `rest`; both are `indent` columns wide on the screen.
    fn paragraph(self, out: &mut String, first: &str, rest: &str, indent: usize, text: &str) {
        let room = self.width.map(|width| width.saturating_sub(indent).max(1));
        let mut lead = first;
        for line in wrap(text, room) {
            out.push_str(format!("{lead}{line}").trim_end());
            out.push('\n');
            lead = rest;
        }
    }

    /// Whether text of this length, or at least a readable column of it, has room after `indent` columns.
    fn has_room(self, indent: usize, text: &str) -> bool {
        self.width.is_none_or(|width| indent + columns(text).min(BESIDE) <= width)
    }
}

/// One paragraph of text.
pub fn text(screen: Screen, text: &str) -> String {
    let mut out = String::new();
    screen.paragraph(&mut out, "", "", 0, text);
    out
}

/// Things below a sentence, each on lines of its own.
pub fn list(screen: Screen, items: &[String]) -> String {
    let mut out = String::new();
    for item in items {
        screen.paragraph(&mut out, "  ", "    ", 4, item);
    }
    out
}

/// A value, or a sign that there is none.
pub fn cell(value: Option<&str>) -> String {
    value.filter(|value| !value.is_empty()).unwrap_or("-").to_owned()
}

/// `12 hosts: 5 free, 7 used`.
pub fn tally(all: usize, what: &str, counts: &[(usize, &str)]) -> String {
    let parts = counts.iter().filter(|(count, _)| *count > 0).map(|(count, sort)| format!("{count} {sort}"));
    format!("{}: {}", count(all, what), parts.collect::<Vec<_>>().join(", "))
}

/// `1 host` or `2 hosts`.
pub fn count(number: usize, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        _ if what.ends_with("ss") => format!("{number} {what}es"),
        _ if what.ends_with('y') => format!("{number} {}ies", what.trim_end_matches('y')),
        _ => format!("{number} {what}s"),
    }
}

/// A time span as kubectl shows it: the two largest units at most.
pub fn age(seconds: i64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    match seconds {
        0..=119 => format!("{seconds}s"),
        120..=7199 => format!("{minutes}m"),
        7200..=172_799 => format!("{hours}h"),
        _ => format!("{days}d"),
    }
}

/// Programs that lines which are meant to be copied begin with.
const PROGRAMS: [&str; 5] = ["berth ", "kubectl ", "clusterctl ", "helm ", "aws "];

/// One line of a list of checks, with a sign in a colour, a name as wide as `names`, and below what to do about it. A command
/// is never cut, so that it can be copied.
pub fn checked(screen: Screen, sign: (&str, &str), name: (&str, usize), found: &str, fix: Option<&str>) -> String {
    let (mut out, (name, names)) = (String::new(), name);
    let (indent, beside) = (names + 4, screen.has_room(names + 4, found));
    let (rest, mark) = (" ".repeat(if beside { indent } else { 4 }), screen.paint(sign.0, sign.1));
    if beside {
        screen.paragraph(&mut out, &format!("{mark} {name:names$}  "), &rest, indent, found);
    } else {
        out += &format!("{mark} {name}\n");
        screen.paragraph(&mut out, &rest, &rest, rest.len(), found);
    }
    if let Some(fix) = fix {
        let whole = PROGRAMS.iter().any(|program| fix.starts_with(program));
        let screen = if whole { Screen { width: None, ..screen } } else { screen };
        screen.paragraph(&mut out, &format!("{rest}→ "), &format!("{rest}  "), rest.len() + 2, fix);
    }
    out
}

/// One thing with a sign, a sentence and the points it rests on.
pub fn points(screen: Screen, level: Level, title: &str, sentence: &str, points: &[String]) -> String {
    let mut out = String::new();
    screen.paragraph(&mut out, &format!("{} ", screen.mark(level)), "  ", 2, title);
    screen.paragraph(&mut out, "  ", "  ", 2, sentence);
    for point in points {
        screen.paragraph(&mut out, "    · ", "      ", 6, point);
    }
    out
}

/// How many columns a text takes.
fn columns(text: &str) -> usize {
    text.chars().count()
}

/// Text that others wrote, without what would move the cursor or change the terminal.
pub fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// The lines of a text at this width; words are never broken, so that names can be copied.
fn wrap(text: &str, width: Option<usize>) -> Vec<String> {
    let text = plain(text);
    let Some(width) = width else { return vec![text] };
    let (mut lines, mut line) = (Vec::new(), String::new());
    for word in text.split_whitespace() {
        if !line.is_empty() && columns(&line) + 1 + columns(word) > width {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    lines
}

#[cfg(test)]
pub mod tests;
