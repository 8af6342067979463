//! Error answers in the shape the real server gives them.

use serde_json::{Value, json};

use super::kinds::Kind;

/// A refused request: becomes a `Status` body.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) code: u16,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    pub(crate) details: Value,
    /// The real server answers an unknown path in plain text.
    pub(crate) plain: bool,
}

impl Failure {
    pub(crate) fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: Value::Null, plain: false }
    }

    pub(crate) fn body(&self) -> Value {
        let mut body = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code,
        });
        if !self.details.is_null()
            && let Some(map) = body.as_object_mut()
        {
            map.insert("details".into(), self.details.clone());
        }
        body
    }

    pub(crate) fn unknown_path() -> Self {
        Self { plain: true, ..Self::new(404, "NotFound", "404 page not found\n") }
    }

    pub(crate) fn not_found(kind: &Kind, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{} \"{name}\" not found", kind.resource())).about(kind, name)
    }

    pub(crate) fn exists(kind: &Kind, name: &str) -> Self {
        Self::new(409, "AlreadyExists", format!("{} \"{name}\" already exists", kind.resource())).about(kind, name)
    }

    pub(crate) fn conflict(kind: &Kind, name: &str, why: &str) -> Self {
        Self::new(409, "Conflict", format!("Operation cannot be fulfilled on {} \"{name}\": {why}", kind.resource()))
            .about(kind, name)
    }

    pub(crate) fn stale(kind: &Kind, name: &str) -> Self {
        Self::conflict(
            kind,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub(crate) fn method_not_allowed() -> Self {
        Self::new(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
    }

    pub(crate) fn unsupported(message: impl Into<String>) -> Self {
        Self::new(415, "UnsupportedMediaType", message)
    }

    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    pub(crate) fn invalid(kind: &Kind, name: &str, reason: &str, field: &str, why: &str) -> Self {
        let mut it = Self::new(422, "Invalid", format!("{} \"{name}\" is invalid: {field}: {why}", qualified(kind)))
            .about(kind, name);
        if let Some(details) = it.details.as_object_mut() {
            details.insert("kind".into(), json!(kind.kind));
            details.insert("causes".into(), json!([{ "reason": reason, "message": why, "field": field }]));
        }
        it
    }

    pub(crate) fn about(mut self, kind: &Kind, name: &str) -> Self {
        let mut details = json!({ "name": name, "kind": kind.plural });
        if !kind.group.is_empty() {
            details["group"] = json!(kind.group);
        }
        self.details = details;
        self
    }
}

fn qualified(kind: &Kind) -> String {
    if kind.group.is_empty() { kind.kind.clone() } else { format!("{}.{}", kind.kind, kind.group) }
}
