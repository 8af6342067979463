//! A value that must not be shown.

use std::fmt;

/// Holds a secret: printing it gives `***`, and it cannot be serialized.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Secret<T>(T);

impl<T> Secret<T> {
    /// Wraps the value.
    pub const fn new(value: T) -> Self {
        Self(value)
    }

    /// The value itself, for the one place that must have it.
    pub const fn expose(&self) -> &T {
        &self.0
    }

    /// Unwraps the value, for the one place that must own it.
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T> From<T> for Secret<T> {
    fn from(value: T) -> Self {
        Self(value)
    }
}

impl<T> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl<T> fmt::Display for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl<'de, T: serde::Deserialize<'de>> serde::Deserialize<'de> for Secret<T> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // A decoder's message may quote what it could not decode, which here may be the secret.
        T::deserialize(deserializer).map(Self).map_err(|_| serde::de::Error::custom("undecodable secret value"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printing_shows_stars_whatever_the_format() {
        #[derive(Debug)]
        #[expect(dead_code, reason = "only printed")]
        struct Holder {
            key: Secret<String>,
            many: Vec<Secret<[u8; 3]>>,
        }
        let holder = Holder { key: "canary".to_owned().into(), many: vec![Secret::new([99, 97, 110])] };
        let shown = format!("{holder:?} {holder:#?} {} {:>20}", holder.key, holder.key);
        assert!(!shown.contains("canary") && !shown.contains("99"), "{shown}");
        assert!(shown.contains("***"));
        assert_eq!(holder.key.expose(), "canary");
    }

    #[test]
    fn a_decoding_error_does_not_quote_the_secret() {
        let error = serde_json::from_str::<Secret<u8>>("\"canary\"").unwrap_err().to_string();
        assert!(!error.contains("canary"), "{error}");
        assert_eq!(serde_json::from_str::<Secret<u8>>("7").unwrap().into_inner(), 7);
    }
}
