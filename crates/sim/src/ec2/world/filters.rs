//! Filters of the describe calls: names an operation knows, values with wildcards.

use std::collections::BTreeMap;

use super::super::wire::params::Fields;
use super::super::wire::refusal::Refusal;

/// The most filter values of one request.
const MOST_VALUES: usize = 200;

/// The filters of one request; all must match, each by one of its values.
#[derive(Clone, Debug, Default)]
pub struct Filters {
    list: Vec<(String, Vec<String>)>,
}

impl Filters {
    /// Reads `Filter.N`. A name must be in `known`; an entry that ends in a colon stands for all that begin so.
    pub fn parse(fields: &mut Fields, known: &[&str]) -> Result<Self, Refusal> {
        let mut list = Vec::new();
        let mut values_given = 0;
        for mut filter in fields.groups("Filter")? {
            let name = filter.required("Name")?;
            let values = filter.texts("Value")?;
            filter.finish()?;
            let fits = |entry: &&str| if entry.ends_with(':') { name.starts_with(*entry) } else { name == **entry };
            if !known.iter().any(fits) {
                return Err(Refusal::bad("InvalidParameterValue", format!("The filter '{name}' is invalid")));
            }
            if values.is_empty() {
                return Err(Refusal::bad(
                    "InvalidParameterValue",
                    format!("The filter '{name}' has no value: a filter needs at least one"),
                ));
            }
            values_given += values.len();
            list.push((name, values));
        }
        if values_given > MOST_VALUES {
            return Err(Refusal::bad(
                "FilterLimitExceeded",
                format!("The maximum number of filter values specified on a single call is {MOST_VALUES}"),
            ));
        }
        Ok(Self { list })
    }

    /// True when there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Whether an object passes; `values` gives all values it has under a filter's name.
    pub fn pass(&self, values: impl Fn(&str) -> Vec<String>) -> bool {
        self.list.iter().all(|(name, wanted)| {
            let have = values(name);
            wanted.iter().any(|pattern| have.iter().any(|value| matches(pattern, value)))
        })
    }
}

/// The values of the tag filters `tag-key` and `tag:<key>`; `None` for other names.
#[must_use]
pub fn tag_values(name: &str, tags: &BTreeMap<String, String>) -> Option<Vec<String>> {
    match name {
        "tag-key" => Some(tags.keys().cloned().collect()),
        _ => name.strip_prefix("tag:").map(|key| tags.get(key).cloned().into_iter().collect()),
    }
}

/// Compares with `*` for any text and `?` for one character; a backslash takes the next character as it is.
#[must_use]
pub fn matches(pattern: &str, text: &str) -> bool {
    let mut tokens = Vec::new();
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        tokens.push(match c {
            '*' => Token::Any,
            '?' => Token::One,
            '\\' => Token::Exactly(chars.next().unwrap_or('\\')),
            c => Token::Exactly(c),
        });
    }
    // One bit for each prefix of the pattern that can match so far: linear in the text for any pattern.
    let mut reached = vec![false; tokens.len() + 1];
    if let Some(first) = reached.first_mut() {
        *first = true;
    }
    spread(&tokens, &mut reached);
    for c in text.chars() {
        let mut next = vec![false; tokens.len() + 1];
        for (at, token) in tokens.iter().enumerate() {
            if !reached.get(at).copied().unwrap_or(false) {
                continue;
            }
            let to = match token {
                Token::Any => at,
                Token::One => at + 1,
                Token::Exactly(wanted) if *wanted == c => at + 1,
                Token::Exactly(_) => continue,
            };
            if let Some(cell) = next.get_mut(to) {
                *cell = true;
            }
        }
        spread(&tokens, &mut next);
        reached = next;
    }
    reached.last().copied().unwrap_or(false)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    Any,
    One,
    Exactly(char),
}

fn spread(tokens: &[Token], reached: &mut [bool]) {
    for (at, token) in tokens.iter().enumerate() {
        let here = reached.get(at).copied().unwrap_or(false);
        if here
            && *token == Token::Any
            && let Some(cell) = reached.get_mut(at + 1)
        {
            *cell = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ec2::wire::form;

    fn fields(text: &str) -> Fields {
        Fields::new(form::pairs(text).unwrap()).unwrap()
    }

    #[test]
    fn wildcards_match_as_documented() {
        for (pattern, text, expected) in [
            ("a", "a", true),
            ("a", "b", false),
            ("*", "", true),
            ("m5.*", "m5.large", true),
            ("m5.*", "m5d.large", false),
            ("m?.large", "m5.large", true),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b*", "xxbxxa", false),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("", "", true),
            ("?", "", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn unknown_empty_and_too_many_filters_are_refused() {
        for (text, code) in [
            ("Filter.1.Name=nope&Filter.1.Value.1=x", "InvalidParameterValue"),
            ("Filter.1.Name=state", "InvalidParameterValue"),
            ("Filter.1.Value.1=x", "MissingParameter"),
            ("Filter.1.Name=state&Filter.1.Values.1=x", "UnknownParameter"),
        ] {
            assert_eq!(Filters::parse(&mut fields(text), &["state", "tag:"]).unwrap_err().code, code, "{text}");
        }
        let many: Vec<String> = (1..=201).map(|n| format!("Filter.1.Value.{n}=x")).collect();
        let text = format!("Filter.1.Name=state&{}", many.join("&"));
        assert_eq!(Filters::parse(&mut fields(&text), &["state"]).unwrap_err().code, "FilterLimitExceeded");
    }

    #[test]
    fn all_filters_must_match_each_by_one_value() {
        let text = "Filter.1.Name=a&Filter.1.Value.1=1&Filter.1.Value.2=2&Filter.2.Name=tag:b&Filter.2.Value.1=3";
        let filters = Filters::parse(&mut fields(text), &["a", "tag:"]).unwrap();
        let have = |a: &str, b: &str| {
            let (a, b) = (a.to_owned(), b.to_owned());
            move |name: &str| vec![if name == "a" { a.clone() } else { b.clone() }]
        };
        assert!(filters.pass(have("2", "3")));
        assert!(!filters.pass(have("2", "4")));
        assert!(!filters.pass(have("3", "3")));
        assert!(!filters.pass(|_| Vec::new()));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn wildcards_agree_with_a_naive_matcher(pattern in "[ab*?]{0,7}", text in "[ab]{0,7}") {
            fn naive(p: &[u8], t: &[u8]) -> bool {
                match (p.first(), t.first()) {
                    (None, None) => true,
                    (Some(b'*'), _) => naive(&p[1..], t) || !t.is_empty() && naive(p, &t[1..]),
                    (Some(b'?'), Some(_)) => naive(&p[1..], &t[1..]),
                    (Some(a), Some(b)) if a == b => naive(&p[1..], &t[1..]),
                    _ => false,
                }
            }
            prop_assert_eq!(matches(&pattern, &text), naive(pattern.as_bytes(), text.as_bytes()));
        }
    }
}
