use proptest::prelude::*;

use super::*;

/// A screen at three widths, one below the other.
pub fn at_widths(draw: impl Fn(Screen) -> String) -> String {
    let mut all = String::new();
    for width in [40, 100, 200] {
        let text = draw(Screen { width: Some(width), colour: false });
        for line in text.lines() {
            let words = line.split_whitespace().filter(|word| word.chars().any(char::is_alphanumeric)).count();
            let copied = line.trim_start().trim_start_matches("→ ");
            let command = PROGRAMS.iter().any(|program| copied.starts_with(program));
            assert!(line.chars().count() <= width || command || words <= 4, "wider than {width}: {line:?}");
            assert_eq!(line, line.trim_end(), "blanks at the end");
        }
        all += &format!("{width} columns {}\n{text}", "=".repeat(width - 11));
    }
    all
}

/// A document as programs read it.
pub fn document<T: serde::Serialize>(kind: &'static str, value: &T) -> String {
    crate::explain::rendered(crate::cli::Output::Json, kind, value, |_| unreachable!("nobody asked for text")).unwrap()
}

#[test]
fn words_are_kept_whole_and_lines_within_the_width() {
    assert_eq!(wrap("one two three", Some(7)), ["one two", "three"]);
    assert_eq!(wrap("a-name-that-is-too-long b", Some(4)), ["a-name-that-is-too-long", "b"]);
    assert_eq!(wrap("as  it is", None), ["as  it is"]);
    assert_eq!(wrap("", Some(4)), [""]);
}

#[test]
fn one_of_a_sort_is_not_told_as_many() {
    let told = |number| ["Metal3Cluster", "HostDeployPolicy", "ClusterClass"].map(|what| count(number, what));
    assert_eq!(told(1), ["1 Metal3Cluster", "1 HostDeployPolicy", "1 ClusterClass"]);
    assert_eq!(told(0), ["0 Metal3Clusters", "0 HostDeployPolicies", "0 ClusterClasses"]);
    assert_eq!(tally(2, "address", &[(2, "there")]), "2 addresses: 2 there");
}

#[test]
fn a_table_without_room_becomes_blocks() {
    let rows = [["team-a/prod".to_owned(), "10.0.0.1".to_owned(), "a sentence that says why".to_owned()]];
    let draw = |width| table(Screen { width: Some(width), colour: false }, ["CLUSTER", "ADDRESS", "STATE"], &rows);
    assert_eq!(draw(60), "CLUSTER      ADDRESS   STATE\nteam-a/prod  10.0.0.1  a sentence that says why\n");
    assert_eq!(draw(30), "CLUSTER  team-a/prod\nADDRESS  10.0.0.1\nSTATE    a sentence that says\n         why\n");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn wrapping_loses_no_word(text in "[a-z ]{0,80}", width in 1usize..60) {
        let lines = wrap(&text, Some(width));
        let words: Vec<&str> = lines.iter().flat_map(|line| line.split_whitespace()).collect();
        prop_assert_eq!(words, text.split_whitespace().collect::<Vec<_>>());
        for line in &lines {
            prop_assert!(line.len() <= width || !line.contains(' '));
        }
    }
}
