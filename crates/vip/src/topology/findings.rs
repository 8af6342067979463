//! What is wrong with a topology, in an order that does not depend on that of the templates.

use std::collections::{BTreeMap, BTreeSet};

/// How many places a finding names.
const PLACES: usize = 5;

/// Texts, each with the places it is about.
#[derive(Debug, Default)]
pub struct Findings(BTreeMap<(u8, String), BTreeSet<String>>);

impl Findings {
    /// Notes that a text is true of a place. Findings are sorted by rank, then by text.
    pub fn note(&mut self, rank: u8, text: impl Into<String>, place: String) {
        self.0.entry((rank, text.into())).or_default().insert(place);
    }

    /// Nothing, or one message with all findings.
    pub fn verdict(self) -> Result<(), String> {
        if self.0.is_empty() {
            return Ok(());
        }
        let lines = self.0.into_iter().map(|((_, text), places)| {
            let more = places.len().saturating_sub(PLACES);
            let named = places.into_iter().take(PLACES).collect::<Vec<_>>().join(", ");
            if more == 0 { format!("{text}: {named}") } else { format!("{text}: {named} and {more} more") }
        });
        Err(lines.collect::<Vec<_>>().join("; "))
    }
}

/// A value from a user, short enough for a message.
pub fn quote(value: &str) -> String {
    const MOST: usize = 80;
    match value.char_indices().nth(MOST) {
        Some((end, _)) => format!("`{}…`", value.get(..end).unwrap_or_default()),
        None => format!("`{value}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_sorted_and_name_five_places_at_most() {
        let mut findings = Findings::default();
        for number in (0..7).rev() {
            findings.note(2, "late", format!("p{number}"));
        }
        findings.note(1, "early", "x".to_owned());
        findings.note(1, "early", "x".to_owned());
        assert_eq!(findings.verdict().unwrap_err(), "early: x; late: p0, p1, p2, p3, p4 and 2 more");
        assert_eq!(Findings::default().verdict(), Ok(()));
    }

    #[test]
    fn long_values_are_cut_between_characters() {
        assert_eq!(quote("a"), "`a`");
        assert_eq!(quote(&"é".repeat(81)), format!("`{}…`", "é".repeat(80)));
        assert_eq!(quote(&"é".repeat(80)), format!("`{}`", "é".repeat(80)));
    }
}
