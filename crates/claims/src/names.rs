//! Names that are made of other names: labels and annotations have room for 63 characters only.

use api::names::claims::AVOID_PREFIX;
use aws_lc_rs::digest::{SHA256, digest};

/// Hexadecimal digits of the digest of a text.
pub(crate) fn hex(text: &str, digits: usize) -> String {
    let digest = digest(&SHA256, text.as_bytes());
    let all: String = digest.as_ref().iter().take(digits.div_ceil(2)).map(|byte| format!("{byte:02x}")).collect();
    all.chars().take(digits).collect()
}

/// A text itself when it is short, and otherwise what stands for it: enough to know it again.
#[must_use]
pub fn fingerprint(text: &str) -> Box<str> {
    if text.len() <= 64 { text.into() } else { hex(text, 64).into() }
}

/// Eight hexadecimal digits that stand for a text, such as the uid of a claim or the name of a tenant.
#[must_use]
pub fn short(text: &str) -> String {
    hex(text, 8)
}

/// The value of the label that keeps a host for a reuse group of a tenant.
#[must_use]
pub fn reuse_value(tenant: &str, group: &str) -> String {
    format!("hc-{}", hex(&format!("{tenant}/{group}"), 16))
}

/// The annotation on a host that one tenant is not to get.
#[must_use]
pub fn avoid_annotation(tenant: &str) -> String {
    format!("{AVOID_PREFIX}{}", short(tenant))
}

/// A place on a circle for a text: the same on every replica, and near to no other.
pub(crate) fn spread(text: &str) -> u64 {
    let digest = digest(&SHA256, text.as_bytes());
    digest.as_ref().iter().take(8).fold(0, |number, byte| (number << 8) | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn derived_names_are_short_stable_and_different() {
        assert_eq!(reuse_value("t", "cp-a"), reuse_value("t", "cp-a"));
        assert_ne!(reuse_value("t", "cp-a"), reuse_value("t", "cp-b"));
        assert_eq!(reuse_value("t", "cp-a").len(), 19);
        // `printf t | sha256sum`
        assert_eq!(avoid_annotation("t"), "berth.dev/avoid-e3b98a4d");
        assert_eq!(short("t"), "e3b98a4d");
        assert_eq!(spread("t") >> 32, 0xe3b9_8a4d);
    }
}
