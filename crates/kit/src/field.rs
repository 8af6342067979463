//! Faults of an object, each with the path of its field, so that a user can fix all of them at once.

use std::fmt;

/// The path of a field as users write it: `spec.hosts[3].name`, `spec.args[zone]`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldPath(String);

impl FieldPath {
    /// A path that starts at a top-level field.
    #[must_use]
    pub fn new(field: &str) -> Self {
        Self(field.to_owned())
    }

    /// A field of the object at this path.
    #[must_use]
    pub fn field(&self, name: &str) -> Self {
        Self(format!("{}.{name}", self.0))
    }

    /// An item of the list at this path.
    #[must_use]
    pub fn index(&self, number: usize) -> Self {
        Self(format!("{}[{number}]", self.0))
    }

    /// An entry of the map at this path.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        Self(format!("{}[{key}]", self.0))
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

/// What kind of fault it is, in the words of the API server's own causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The field must be given.
    Required,
    /// The value cannot be used.
    Invalid,
    /// The value stands in the list already.
    Duplicate,
    /// The value is none of those allowed.
    NotSupported,
    /// The field, or a change of it, is not allowed here.
    Forbidden,
    /// The text is too long.
    TooLong,
    /// The list or map has too many entries.
    TooMany,
}

impl FaultKind {
    /// The reason of a cause in the API server's answers.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid => "FieldValueInvalid",
            Self::Duplicate => "FieldValueDuplicate",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
        }
    }
}

/// Values longer than this are cut in messages.
const SHOWN: usize = 64;

/// One fault of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// Which field.
    pub path: FieldPath,
    /// What kind of fault.
    pub kind: FaultKind,
    /// What is wrong, as the end of a sentence that starts with the value.
    pub detail: String,
    /// The value, shortened; never given for secrets.
    pub value: Option<String>,
}

impl FieldError {
    /// A value that cannot be used.
    #[must_use]
    pub fn invalid(path: FieldPath, value: &str, detail: impl Into<String>) -> Self {
        Self::with(path, FaultKind::Invalid, detail).showing(value)
    }

    /// A field that must be given.
    #[must_use]
    pub fn required(path: FieldPath, detail: impl Into<String>) -> Self {
        Self::with(path, FaultKind::Required, detail)
    }

    /// A field, or a change of it, that is not allowed.
    #[must_use]
    pub fn forbidden(path: FieldPath, detail: impl Into<String>) -> Self {
        Self::with(path, FaultKind::Forbidden, detail)
    }

    /// A fault of another kind.
    #[must_use]
    pub fn with(path: FieldPath, kind: FaultKind, detail: impl Into<String>) -> Self {
        Self { path, kind, detail: detail.into(), value: None }
    }

    /// The same, showing the value (shortened).
    #[must_use]
    pub fn showing(mut self, value: &str) -> Self {
        let mut shown: String = value.chars().take(SHOWN).collect();
        if shown.len() < value.len() {
            shown.push('…');
        }
        self.value = Some(shown);
        self
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Some(value) => write!(f, "{}: {value:?} {}", self.path, self.detail),
            None => write!(f, "{}: {}", self.path, self.detail),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_read_as_users_write_them() {
        let path = FieldPath::new("spec").field("hosts").index(3).field("args").key("zone");
        assert_eq!(path.to_string(), "spec.hosts[3].args[zone]");
    }

    #[test]
    fn long_values_are_cut_on_a_character_and_control_characters_escaped() {
        let error = FieldError::invalid(FieldPath::new("spec"), &"é\n".repeat(100), "is odd");
        let text = error.to_string();
        assert!(text.chars().count() < 200 && !text.contains('\n'), "{text}");
        assert!(text.ends_with("…\" is odd"), "{text}");
    }
}
