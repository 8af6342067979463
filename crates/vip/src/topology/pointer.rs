//! JSON pointers (RFC 6901): reading them from settings, writing them into patches and messages.

/// One step from an object or list to what lies in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// Into an object.
    Key(&'a str),
    /// Into a list.
    Index(usize),
}

impl Step<'_> {
    /// Whether a part of a pointer means this step.
    pub fn is(self, token: &str) -> bool {
        match self {
            Self::Key(key) => key == token,
            Self::Index(number) => index(token) == Some(number),
        }
    }
}

/// The number that a part of a pointer means in a list; `01` and `+1` are none.
pub fn index(token: &str) -> Option<usize> {
    let plain = token == "0" || (!token.starts_with(['0', '+']) && !token.is_empty());
    if plain { token.parse().ok() } else { None }
}

/// Adds a part to a pointer.
pub fn push(pointer: &mut String, token: &str) {
    pointer.push('/');
    for c in token.chars() {
        match c {
            '~' => pointer.push_str("~0"),
            '/' => pointer.push_str("~1"),
            c => pointer.push(c),
        }
    }
}

/// Writes a pointer.
pub fn write<'a>(tokens: impl IntoIterator<Item = &'a str>) -> String {
    let mut pointer = String::new();
    for token in tokens {
        push(&mut pointer, token);
    }
    pointer
}

/// Writes the pointer to what a trail leads to.
pub fn of(trail: &[Step<'_>]) -> String {
    let mut pointer = String::new();
    for step in trail {
        match step {
            Step::Key(key) => push(&mut pointer, key),
            Step::Index(number) => push(&mut pointer, &number.to_string()),
        }
    }
    pointer
}

/// Whether a trail and a pointer lie on one line: one leads through the other.
pub fn meet(trail: &[Step<'_>], tokens: &[String]) -> bool {
    trail.iter().zip(tokens).all(|(step, token)| step.is(token))
}

/// Reads one part of a pointer.
fn token(text: &str) -> Result<String, String> {
    let mut token = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        token.push(match c {
            '~' => match rest.next() {
                Some('0') => '~',
                Some('1') => '/',
                _ => return Err(format!("`{text}`: after `~` only 0 or 1 may stand")),
            },
            c => c,
        });
    }
    // The library that applies patches in Cluster API takes an empty key for the object itself.
    if token.is_empty() { Err("a part of the path is empty".to_owned()) } else { Ok(token) }
}

/// Reads parts of a path between slashes.
pub fn tokens(text: &str) -> Result<Vec<String>, String> {
    text.split('/').map(token).collect()
}

/// Reads a pointer, which begins with a slash.
pub fn read(text: &str) -> Result<Vec<String>, String> {
    let rest = text.strip_prefix('/').ok_or_else(|| format!("`{text}` does not begin with `/`"))?;
    tokens(rest)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_pointer_with_a_bad_escape_or_an_empty_part_is_refused() {
        for text in ["", "a", "/", "//a", "/a//b", "/a/", "/~", "/a~2"] {
            assert!(read(text).is_err(), "{text}");
        }
        assert_eq!(read("/a~1b/~0/0"), Ok(vec!["a/b".to_owned(), "~".to_owned(), "0".to_owned()]));
    }

    #[test]
    fn only_plain_numbers_mean_an_element() {
        assert_eq!((index("0"), index("17")), (Some(0), Some(17)));
        for text in ["", "-", "-1", "+1", "01", "00", "1a", "99999999999999999999999"] {
            assert_eq!(index(text), None, "{text}");
        }
    }

    #[test]
    fn a_trail_meets_what_lies_before_and_behind_it() {
        let trail = [Step::Key("a"), Step::Index(1)];
        let meets = |text: &str| meet(&trail, &read(text).unwrap());
        assert!(meets("/a") && meets("/a/1") && meets("/a/1/b"));
        assert!(!meets("/b") && !meets("/a/0") && !meets("/a/01"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn what_is_written_reads_back(tokens in proptest::collection::vec("[a~/01-]{1,4}", 1..5)) {
            let text = write(tokens.iter().map(String::as_str));
            prop_assert_eq!(read(&text), Ok(tokens.clone()));
            let trail: Vec<_> = tokens.iter().map(|token| Step::Key(token)).collect();
            prop_assert_eq!(of(&trail), text);
        }

        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,20}") {
            let _ = read(&text);
        }
    }
}
