//! Where in an object something is wrong, and what.

use std::fmt;

use serde::Serialize;
use serde_json::{Value, json};

/// The way to a field, as the API server writes it: `spec.hosts[3].name`, `spec.args[zone]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct FieldPath(String);

impl FieldPath {
    /// The object itself.
    #[must_use]
    pub const fn root() -> Self {
        Self(String::new())
    }

    /// A field of the object.
    #[must_use]
    pub fn new(field: &str) -> Self {
        Self(field.to_owned())
    }

    /// A field of this one.
    #[must_use]
    pub fn child(&self, field: &str) -> Self {
        if self.0.is_empty() { Self::new(field) } else { Self(format!("{}.{field}", self.0)) }
    }

    /// An item of this list.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }

    /// An entry of this map.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        Self(format!("{}[{}]", self.0, shorten(key)))
    }

    /// The path as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<&str> for FieldPath {
    fn from(path: &str) -> Self {
        Self(path.to_owned())
    }
}

/// What is wrong with a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ErrorKind {
    /// It is missing.
    Required,
    /// Its value is not acceptable.
    Invalid,
    /// Its value is there already.
    Duplicate,
    /// Its value is none of those known.
    NotSupported,
    /// It may not be set here.
    Forbidden,
    /// Its text is too long.
    TooLong,
    /// Its list is too long.
    TooMany,
    /// It may not change.
    Immutable,
    /// What it names does not exist.
    NotFound,
}

impl ErrorKind {
    /// The words the API server uses.
    const fn words(self) -> &'static str {
        match self {
            Self::Required => "Required value",
            Self::Invalid | Self::Immutable => "Invalid value",
            Self::Duplicate => "Duplicate value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::NotFound => "Not found",
        }
    }

    /// The machine-readable reason the API server uses.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid | Self::Immutable => "FieldValueInvalid",
            Self::Duplicate => "FieldValueDuplicate",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::NotFound => "FieldValueNotFound",
        }
    }
}

/// One thing that is wrong with an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// Where.
    pub path: FieldPath,
    /// What.
    pub kind: ErrorKind,
    /// One sentence for a human.
    pub detail: String,
    /// The value, shortened; absent where it says nothing or is secret.
    pub value: Option<String>,
}

impl FieldError {
    fn new(path: &FieldPath, kind: ErrorKind, detail: impl Into<String>, value: Option<String>) -> Self {
        Self { path: path.clone(), kind, detail: detail.into(), value }
    }

    /// A field is missing.
    #[must_use]
    pub fn required(path: &FieldPath, detail: impl Into<String>) -> Self {
        Self::new(path, ErrorKind::Required, detail, None)
    }

    /// A value is not acceptable.
    #[must_use]
    pub fn invalid(path: &FieldPath, value: &impl Serialize, detail: impl Into<String>) -> Self {
        Self::new(path, ErrorKind::Invalid, detail, Some(shown(value)))
    }

    /// A secret value is not acceptable; it is not shown.
    #[must_use]
    pub fn invalid_secret(path: &FieldPath, detail: impl Into<String>) -> Self {
        Self::new(path, ErrorKind::Invalid, detail, None)
    }

    /// A value is there already.
    #[must_use]
    pub fn duplicate(path: &FieldPath, value: &impl Serialize) -> Self {
        Self::new(path, ErrorKind::Duplicate, "", Some(shown(value)))
    }

    /// A value is none of those known.
    #[must_use]
    pub fn not_supported(path: &FieldPath, value: &impl Serialize, supported: &[&str]) -> Self {
        let list: Vec<String> = supported.iter().map(|value| format!("{value:?}")).collect();
        let detail = format!("supported values: {}", list.join(", "));
        Self::new(path, ErrorKind::NotSupported, detail, Some(shown(value)))
    }

    /// A field may not be set here.
    #[must_use]
    pub fn forbidden(path: &FieldPath, detail: impl Into<String>) -> Self {
        Self::new(path, ErrorKind::Forbidden, detail, None)
    }

    /// A text is too long.
    #[must_use]
    pub fn too_long(path: &FieldPath, limit: usize) -> Self {
        Self::new(path, ErrorKind::TooLong, format!("may not be more than {limit} bytes"), None)
    }

    /// A list is too long.
    #[must_use]
    pub fn too_many(path: &FieldPath, count: usize, limit: usize) -> Self {
        Self::new(path, ErrorKind::TooMany, format!("must have at most {limit} items"), Some(count.to_string()))
    }

    /// A field may not change.
    #[must_use]
    pub fn immutable(path: &FieldPath, value: &impl Serialize) -> Self {
        Self::new(path, ErrorKind::Immutable, "field is immutable", Some(shown(value)))
    }

    /// What a field names does not exist.
    #[must_use]
    pub fn not_found(path: &FieldPath, value: &impl Serialize) -> Self {
        Self::new(path, ErrorKind::NotFound, "", Some(shown(value)))
    }

    /// The message without the path, as the API server puts it into a cause.
    fn body(&self) -> String {
        let mut text = self.kind.words().to_owned();
        for part in [self.value.as_deref().unwrap_or_default(), self.detail.as_str()] {
            if !part.is_empty() {
                text.push_str(": ");
                text.push_str(part);
            }
        }
        text
    }

    pub(super) fn cause(&self) -> Value {
        json!({"reason": self.kind.reason(), "message": self.body(), "field": self.path.as_str()})
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.as_str().is_empty() {
            f.write_str(&self.body())
        } else {
            write!(f, "{}: {}", self.path, self.body())
        }
    }
}

/// A value as JSON, not longer than a line.
fn shown(value: &impl Serialize) -> String {
    serde_json::to_string(value).map(|text| shorten(&text)).unwrap_or_default()
}

/// At most 64 characters, on one line.
pub(super) fn shorten(text: &str) -> String {
    const LIMIT: usize = 64;
    let clean = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut short: String = clean.take(LIMIT).collect();
    if text.chars().nth(LIMIT).is_some() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn paths_read_as_the_api_server_writes_them() {
        let spec = FieldPath::new("spec");
        assert_eq!(spec.child("hosts").index(3).child("name").to_string(), "spec.hosts[3].name");
        assert_eq!(spec.child("args").key("zone").to_string(), "spec.args[zone]");
        assert_eq!(FieldPath::root().child("kind").as_str(), "kind");
    }

    #[test]
    fn messages_read_as_the_api_server_writes_them() {
        let path = FieldPath::new("spec").child("x");
        for (error, text) in [
            (FieldError::required(&path, "a name is needed"), "spec.x: Required value: a name is needed"),
            (FieldError::invalid(&path, &"v", "not good"), "spec.x: Invalid value: \"v\": not good"),
            (FieldError::invalid_secret(&path, "too short"), "spec.x: Invalid value: too short"),
            (FieldError::duplicate(&path, &7), "spec.x: Duplicate value: 7"),
            (
                FieldError::not_supported(&path, &"c", &["a", "b"]),
                "spec.x: Unsupported value: \"c\": supported values: \"a\", \"b\"",
            ),
            (FieldError::forbidden(&path, "not here"), "spec.x: Forbidden: not here"),
            (FieldError::too_long(&path, 63), "spec.x: Too long: may not be more than 63 bytes"),
            (FieldError::too_many(&path, 11, 10), "spec.x: Too many: 11: must have at most 10 items"),
            (FieldError::immutable(&path, &"v"), "spec.x: Invalid value: \"v\": field is immutable"),
            (FieldError::not_found(&path, &"v"), "spec.x: Not found: \"v\""),
        ] {
            assert_eq!(error.to_string(), text);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn no_value_makes_a_message_long_or_breaks_its_line(value in "(.|\n){0,2000}") {
            let error = FieldError::invalid(&FieldPath::new("a"), &value, "no").to_string();
            prop_assert!(error.chars().count() < 110 && !error.contains('\n'), "{}", error);
        }
    }
}
