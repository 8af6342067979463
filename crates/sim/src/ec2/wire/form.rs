//! Queries and form bodies.

use super::refusal::Refusal;
pub use crate::percent::{decode, encode};

/// The pairs of a query or form body, in their order.
pub fn pairs(text: &str) -> Result<Vec<(String, String)>, Refusal> {
    let broken = || Refusal::bad("MalformedQueryString", "The query string contains a syntax error.");
    text.split('&')
        .filter(|part| !part.is_empty())
        .map(|part| {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            Ok((decode(name).ok_or_else(broken)?, decode(value).ok_or_else(broken)?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn what_is_encoded_decodes_to_itself(text in ".{0,40}", name in "[A-Za-z0-9.]{1,10}") {
            prop_assert_eq!(decode(&encode(&text)), Some(text.clone()));
            let body = format!("{}={}", encode(&name), encode(&text));
            prop_assert_eq!(pairs(&body).unwrap(), vec![(name, text)]);
        }

        #[test]
        fn no_text_breaks_the_decoder(text in ".{0,60}") {
            let _ = pairs(&text);
        }
    }

    #[test]
    fn broken_escapes_are_refused() {
        for text in ["a=%", "a=%4", "a=%zz", "a=%ff"] {
            assert_eq!(pairs(text).unwrap_err().code, "MalformedQueryString", "{text}");
        }
        assert_eq!(pairs("a=b+c&&d").unwrap(), [("a".into(), "b c".into()), ("d".into(), String::new())]);
    }
}
