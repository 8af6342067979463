//! Signatures as the server computes them. Pure.

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use kit::secret::Secret;

/// A value as the server encodes it before it signs: letters, digits and `.-*_` stay, a blank is `%20`, `~` is encoded.
#[must_use]
pub fn encode(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b".-*_".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// The text that is signed: encoded values, sorted by the names as they are sent, all in small letters.
#[must_use]
pub fn canonical(parameters: &[(String, String)]) -> String {
    let mut sorted: Vec<&(String, String)> = parameters.iter().collect();
    sorted.sort();
    let pairs: Vec<String> = sorted.iter().map(|(name, value)| format!("{name}={}", encode(value))).collect();
    pairs.join("&").to_lowercase()
}

/// The signature of a text.
#[must_use]
pub fn signature(secret: &Secret<String>, text: &str) -> String {
    // The protocol knows no other; HMAC does not lean on what is broken in SHA-1.
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, secret.expose().as_bytes());
    STANDARD.encode(hmac::sign(&key, text.as_bytes()))
}

/// A moment as `expires` has it.
#[must_use]
pub fn moment(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S+0000").to_string()
}

/// The body of a form, or the query of a URL.
#[must_use]
pub fn form(parameters: &[(String, String)]) -> String {
    let pairs: Vec<String> =
        parameters.iter().map(|(name, value)| format!("{}={}", encode(name), encode(value))).collect();
    pairs.join("&")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pairs(given: &[(&str, &str)]) -> Vec<(String, String)> {
        given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn the_example_of_the_documentation_is_signed_as_published() {
        let key = "plgWJfZK4gyS3mOMTVmjUVg-X-jlWlnfaUJ9GAbBbf9EdM-kAYMmAiLqzzq1ElZLYq_u38zCm0bewzGUdP66mg";
        let secret = "VDaACYb0LV9eNjTetIOElcVQkvJck_J_QljX_FcHRj87ZKiy0z0ty0ZsYBkoXkY9b7eq1EhwJaw7FF3akA3KBQ";
        let text = canonical(&pairs(&[("command", "listUsers"), ("response", "json"), ("apikey", key)]));
        assert_eq!(
            text,
            "apikey=plgwjfzk4gys3momtvmjuvg-x-jlwlnfauj9gabbbf9edm-kaymmailqzzq1elzlyq_u38zcm0bewzgudp66mg\
             &command=listusers&response=json"
        );
        assert_eq!(signature(&secret.to_owned().into(), &text), "TTpdDq/7j/J58XCRHomKoQXEQds=");
    }

    #[test]
    fn odd_characters_are_signed_as_the_server_reads_them() {
        let text = canonical(&pairs(&[
            ("name", "Zone 1 (A*~é+&=)"),
            ("command", "listZones"),
            ("apiKey", "AK-1_a"),
            ("response", "json"),
            ("signatureVersion", "3"),
            ("expires", "2030-01-01T00:00:00+0000"),
            ("page", "1"),
            ("pagesize", "100"),
        ]));
        assert_eq!(
            text,
            "apikey=ak-1_a&command=listzones&expires=2030-01-01t00%3a00%3a00%2b0000\
             &name=zone%201%20%28a*%7e%c3%a9%2b%26%3d%29&page=1&pagesize=100&response=json&signatureversion=3"
        );
        assert_eq!(signature(&"SK-1_b".to_owned().into(), &text), "qUPsy+pMQ0ycsC3iYSwi70vhQkA=");
    }

    #[test]
    fn moments_are_written_in_utc_without_fractions() {
        let at: Timestamp = "2030-01-01T00:00:00.9Z".parse().unwrap();
        assert_eq!(moment(at), "2030-01-01T00:00:00+0000");
    }

    proptest! {
        #[test]
        fn the_order_in_which_parameters_are_given_does_not_matter(given in prop::collection::btree_map("[a-zA-Z0-9.\\[\\]]{1,8}", ".{0,12}", 0..8)) {
            let forth: Vec<(String, String)> = given.into_iter().collect();
            let mut back = forth.clone();
            back.reverse();
            prop_assert_eq!(canonical(&forth), canonical(&back));
            let text = form(&forth);
            prop_assert!(text.is_ascii() && !text.contains(' ') && !text.contains('+'));
        }
    }
}
