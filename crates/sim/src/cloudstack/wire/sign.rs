//! Signatures as the server checks them: rebuilt from the decoded parameters, not from the bytes that came.

use std::time::Duration;

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use jiff::fmt::strtime;

use crate::time::later;

/// A signature may not hold longer than this.
const LONGEST: Duration = Duration::from_secs(15 * 60);

/// What Java's `URLEncoder` makes of a value, with `%20` for blanks.
fn java(value: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'*' | b'_');
    let each = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    value.bytes().map(each).collect()
}

/// The text the server signs: all parameters but the signature, sorted by name, in small letters.
#[must_use]
pub fn text(pairs: &[(String, String)]) -> String {
    let mut kept: Vec<&(String, String)> =
        pairs.iter().filter(|(name, _)| !name.eq_ignore_ascii_case("signature")).collect();
    kept.sort_by(|a, b| a.0.cmp(&b.0));
    let joined: Vec<String> = kept.iter().map(|(name, value)| format!("{name}={}", java(value))).collect();
    joined.join("&").to_lowercase()
}

/// The signature of a request under a secret.
#[must_use]
pub fn signature(secret: &str, pairs: &[(String, String)]) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, secret.as_bytes());
    STANDARD.encode(hmac::sign(&key, text(pairs).as_bytes()))
}

/// Whether a request is signed with this secret.
#[must_use]
pub fn holds(secret: &str, pairs: &[(String, String)], given: &str) -> bool {
    let Ok(given) = STANDARD.decode(given) else { return false };
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, secret.as_bytes());
    hmac::verify(&key, text(pairs).as_bytes(), &given).is_ok()
}

/// Whether the expiry of a request is in order. Requests of version 3 must have one; `enforced` makes it everybody's
/// duty and bounds how far ahead it may be.
#[must_use]
pub fn timely(version: Option<&str>, expires: Option<&str>, now: Timestamp, enforced: bool) -> bool {
    match (version, expires) {
        (Some("3"), Some(expires)) => {
            // The server takes both spellings of the zone.
            let expires = expires.strip_suffix('Z').map_or_else(|| expires.to_owned(), |local| format!("{local}+0000"));
            let read = strtime::parse("%Y-%m-%dT%H:%M:%S%z", expires).and_then(|parts| parts.to_timestamp());
            read.is_ok_and(|until| until >= now && (!enforced || until <= later(now, LONGEST)))
        }
        (Some("3"), None) => false,
        _ => !enforced,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(given: &[(&str, &str)]) -> Vec<(String, String)> {
        given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn the_example_of_the_documentation_holds() {
        let key = "plgWJfZK4gyS3mOMTVmjUVg-X-jlWlnfaUJ9GAbBbf9EdM-kAYMmAiLqzzq1ElZLYq_u38zCm0bewzGUdP66mg";
        let secret = "VDaACYb0LV9eNjTetIOElcVQkvJck_J_QljX_FcHRj87ZKiy0z0ty0ZsYBkoXkY9b7eq1EhwJaw7FF3akA3KBQ";
        let request = pairs(&[("command", "listUsers"), ("response", "json"), ("apikey", key)]);
        assert_eq!(signature(secret, &request), "TTpdDq/7j/J58XCRHomKoQXEQds=");
        assert!(holds(secret, &request, "TTpdDq/7j/J58XCRHomKoQXEQds="));
        assert!(!holds(secret, &request, "TTpdDq/7j/J58XCRHomKoQXEQdt=") && !holds("x", &request, "?"));
    }

    #[test]
    fn odd_characters_are_encoded_as_java_does() {
        let request = pairs(&[("name", "Zone 1 (A*~é+&=)"), ("apiKey", "AK-1_a"), ("signature", "left out")]);
        assert_eq!(text(&request), "apikey=ak-1_a&name=zone%201%20%28a*%7e%c3%a9%2b%26%3d%29");
    }

    #[test]
    fn expiries_are_checked_at_both_ends() {
        let now: Timestamp = "2030-01-01T00:00:00Z".parse().unwrap();
        for (version, expires, free, enforced) in [
            (Some("3"), Some("2030-01-01T00:10:00+0000"), true, true),
            (Some("3"), Some("2030-01-01T02:10:00+0200"), true, true),
            (Some("3"), Some("2030-01-01T00:15:00Z"), true, true),
            (Some("3"), Some("2029-12-31T23:59:59+0000"), false, false),
            (Some("3"), Some("2030-01-01T00:16:00+0000"), true, false),
            (Some("3"), Some("tomorrow"), false, false),
            (Some("3"), None, false, false),
            (None, None, true, false),
            (Some("2"), Some("x"), true, false),
        ] {
            assert_eq!(timely(version, expires, now, false), free, "{version:?} {expires:?}");
            assert_eq!(timely(version, expires, now, true), enforced, "{version:?} {expires:?}");
        }
    }
}
