//! Other people's words, made fit for a condition, an event or a log line.

/// One line of at most `limit` characters: runs of white space become one blank, control characters go, and what is cut
/// ends in an ellipsis.
#[must_use]
pub fn one_line(text: &str, limit: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line: String = words.join(" ").chars().filter(|c| !c.is_control()).collect();
    match line.char_indices().nth(limit) {
        Some((at, _)) => format!("{}…", line.get(..at).unwrap_or_default()),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn white_space_is_folded_and_the_rest_is_cut() {
        assert_eq!(one_line(" a\n\tb  c ", 10), "a b c");
        assert_eq!(one_line("äöüß", 3), "äöü…");
        assert_eq!(one_line("a\u{7}b", 10), "ab");
    }

    proptest! {
        #[test]
        fn any_text_becomes_one_short_line(text in any::<String>(), limit in 0usize..50) {
            let line = one_line(&text, limit);
            prop_assert!(line.chars().count() <= limit + 1);
            prop_assert!(!line.chars().any(char::is_control));
        }
    }
}
