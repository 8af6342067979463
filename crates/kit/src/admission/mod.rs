//! Admission: a review comes in, a verdict goes out.
//!
//! Rooms register defaulting and validation as pure functions ([`Admission::mutate`], [`Admission::validate`]); the
//! controller calls the same functions again, because a webhook may have been down when an object was written. All
//! errors of an object are told at once, each with the path of its field, in the API server's own form. Nothing that
//! comes in can make the server fail: what cannot be decoded is refused with a sentence.

pub mod claimed;
mod convert;
mod count;
mod merge;
mod ours;
mod webhook;

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use k8s_openapi::api::authentication::v1::UserInfo;
pub use kube::core::admission::Operation;
use kube::core::gvk::{GroupVersionKind, GroupVersionResource};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use crate::field::{FaultKind, FieldError, FieldPath};
use crate::serve::Failure;
use crate::telemetry::Metrics;
use count::Count;
pub use ours::Ours;
pub use webhook::{Duty, Service, Webhook, mutating, validating};

/// The largest object that is admitted, without its managed fields.
pub const OBJECT_LIMIT: usize = 512 * 1024;
/// Versions of reviews that are answered, each in its own: both have the same form.
const VERSIONS: [&str; 2] = ["admission.k8s.io/v1", "admission.k8s.io/v1beta1"];
/// More errors than this are only counted.
const ERRORS_SHOWN: usize = 50;
/// The API server cuts longer warnings.
const WARNING_LIMIT: usize = 256;

/// One request, with the objects decoded as `T`.
#[derive(Clone, Debug)]
pub struct Review<T> {
    /// What is being done.
    pub operation: Operation,
    /// To what kind.
    pub kind: GroupVersionKind,
    /// To which resource.
    pub resource: GroupVersionResource,
    /// To which part of it, for instance `status`.
    pub sub_resource: Option<String>,
    /// The object's name; empty while the server is still to generate it.
    pub name: String,
    /// The object's namespace, if it has one.
    pub namespace: Option<String>,
    /// Who asks.
    pub user: UserInfo,
    /// Whether nothing will be stored.
    pub dry_run: bool,
    /// The new object; absent on DELETE.
    pub object: Option<T>,
    /// The old object, on UPDATE and DELETE.
    pub old: Option<T>,
}

/// What a validation says: the object is admitted if there is no error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Everything that is wrong.
    pub errors: Vec<FieldError>,
    /// What the user should know although it is admitted.
    pub warnings: Vec<String>,
}

impl From<Vec<FieldError>> for Verdict {
    fn from(errors: Vec<FieldError>) -> Self {
        Self { errors, warnings: Vec::new() }
    }
}

/// What is said of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The request as such is refused, whatever the object holds, with this sentence.
    Refused(String),
    /// The object was judged.
    Judged(Verdict),
}

impl From<Verdict> for Answer {
    fn from(verdict: Verdict) -> Self {
        Self::Judged(verdict)
    }
}

impl From<Vec<FieldError>> for Answer {
    fn from(errors: Vec<FieldError>) -> Self {
        Self::Judged(errors.into())
    }
}

/// Why the registered webhooks cannot be served.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum AdmissionError {
    /// Two webhooks have one path.
    #[error("two webhooks are registered for the path {path:?}")]
    DuplicatePath {
        /// The path.
        path: String,
    },
    /// A path has characters that mean something else.
    #[error(
        "the webhook path {path:?} must start with \"/\" and hold only letters, digits, \"/\", \"-\", \"_\" and \".\""
    )]
    Path {
        /// The path.
        path: String,
    },
}

type Judge = Arc<dyn Fn(&Incoming) -> Outcome + Send + Sync>;

/// The webhooks of a process.
#[derive(Clone, Default)]
pub struct Admission {
    webhooks: BTreeMap<String, Judge>,
    converters: BTreeMap<String, convert::Converter>,
    wrong: Option<String>,
    count: Count,
}

impl Admission {
    /// Without webhooks.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts the reviews that are answered as `berth_admission_reviews_total`.
    #[must_use]
    pub fn measured(self, metrics: &Metrics) -> Self {
        Self { count: Count::register(metrics), ..self }
    }

    fn add(mut self, path: &str, judge: Judge) -> Self {
        if self.webhooks.insert(path.to_owned(), judge).is_some() {
            self.wrong = Some(path.to_owned());
        }
        self
    }

    /// Defaults new and changed objects: the function changes the object in place, and the answer is the difference.
    #[must_use]
    pub fn mutate<T>(self, path: &str, default: impl Fn(&Review<T>, &mut T) + Send + Sync + 'static) -> Self
    where
        T: DeserializeOwned + Serialize + Clone + 'static,
    {
        self.add(
            path,
            Arc::new(move |incoming| {
                let review = match incoming.decode::<T>() {
                    Ok(review) => review,
                    Err(refusal) => return *refusal,
                };
                let (Some(raw), Some(object)) = (&incoming.object, &review.object) else { return Outcome::allowed() };
                let mut changed = object.clone();
                default(&review, &mut changed);
                match (serde_json::to_value(object), serde_json::to_value(&changed)) {
                    (Ok(before), Ok(after)) => {
                        Outcome { patch: merge::patch(raw, &before, &after), ..Outcome::allowed() }
                    }
                    _ => Outcome::refused(500, "InternalError", "cannot encode the defaulted object".to_owned()),
                }
            }),
        )
    }

    /// Validates objects: every error and warning that the function returns is told.
    #[must_use]
    pub fn validate<T, V>(self, path: &str, validate: impl Fn(&Review<T>) -> V + Send + Sync + 'static) -> Self
    where
        T: DeserializeOwned + 'static,
        V: Into<Answer>,
    {
        self.add(
            path,
            Arc::new(move |incoming| {
                if let Some(refusal) = incoming.oversized() {
                    return refusal;
                }
                let review = match incoming.decode::<T>() {
                    Ok(review) => review,
                    Err(refusal) => return *refusal,
                };
                let Verdict { errors, warnings } = match validate(&review).into() {
                    Answer::Judged(verdict) => verdict,
                    Answer::Refused(refusal) => return Outcome::refused(400, "BadRequest", refusal),
                };
                let outcome = if errors.is_empty() { Outcome::allowed() } else { incoming.invalid(&errors) };
                Outcome { warnings, ..outcome }
            }),
        )
    }

    /// Converts objects between the versions of their kinds: the function makes an object of the asked group and version,
    /// or says why not.
    #[must_use]
    pub fn convert(
        mut self,
        path: &str,
        convert: impl Fn(&Value, &str) -> Result<Value, String> + Send + Sync + 'static,
    ) -> Self {
        if self.converters.insert(path.to_owned(), Arc::new(convert)).is_some() {
            self.wrong = Some(path.to_owned());
        }
        self
    }

    /// The paths that are registered.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.webhooks.keys().chain(self.converters.keys()).map(String::as_str)
    }

    /// Serves the webhooks; on a server of their own, pair it with [`failure_answer`].
    ///
    /// # Errors
    /// When two webhooks share a path or a path is not usable.
    pub fn router(self) -> Result<Router, AdmissionError> {
        if let Some(path) = &self.wrong {
            return Err(AdmissionError::DuplicatePath { path: path.clone() });
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || "/-_.".contains(c);
        let odd = |path: &&str| !path.starts_with('/') || !path.chars().all(plain);
        if let Some(path) = self.paths().find(odd) {
            return Err(AdmissionError::Path { path: path.to_owned() });
        }
        if let Some(path) = self.converters.keys().find(|path| self.webhooks.contains_key(*path)) {
            return Err(AdmissionError::DuplicatePath { path: path.clone() });
        }
        let mut router = Router::new();
        for (path, converter) in self.converters {
            let name = path.clone();
            let handler = move |body: Bytes| async move { convert::respond(&name, &converter, &body) };
            router = router.route(&path, post(handler));
        }
        for (path, judge) in self.webhooks {
            let handler = {
                let (path, count) = (path.clone(), self.count.clone());
                move |body: Bytes| async move { respond(&path, &judge, &count, &body) }
            };
            router = router.route(&path, post(handler));
        }
        // The server has a limit of its own; axum's is below what an update of two large objects needs.
        Ok(router.layer(DefaultBodyLimit::disable()))
    }
}

fn respond(path: &str, judge: &Judge, count: &Count, body: &[u8]) -> Response {
    let envelope = match parse(body) {
        Ok(envelope) => envelope,
        Err(detail) => {
            tracing::warn!(path, error = detail, "review not understood");
            return (StatusCode::BAD_REQUEST, format!("{detail}\n")).into_response();
        }
    };
    let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| judge(&envelope))).unwrap_or_else(|_| {
        tracing::error!(path, uid = envelope.uid, "admission function panicked");
        Outcome::refused(500, "InternalError", "internal error: the object was not checked".to_owned())
    });
    count.answered(&envelope.kind.kind, &envelope.operation, outcome.allowed);
    tracing::debug!(path, uid = envelope.uid, outcome = outcome.allowed, "review answered");
    outcome.answer(&envelope)
}

/// The answer of a server that failed before or in a webhook, in the form that the API server shows to its user.
#[must_use]
pub fn failure_answer(failure: &Failure) -> Response {
    let envelope = failure.body.as_deref().and_then(|body| parse(body).ok());
    match envelope {
        Some(envelope) => {
            let message = failure.kind.message().to_owned();
            Outcome::refused(failure.kind.status().as_u16(), "InternalError", message).answer(&envelope)
        }
        None => crate::serve::plain_failure(failure),
    }
}

/// A decoded envelope with undecoded objects.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Incoming {
    /// The version of the review.
    #[serde(skip)]
    version: &'static str,
    uid: String,
    operation: Operation,
    kind: GroupVersionKind,
    resource: GroupVersionResource,
    #[serde(default)]
    sub_resource: Option<String>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    namespace: Option<String>,
    #[serde(default)]
    user_info: UserInfo,
    #[serde(default)]
    dry_run: Option<bool>,
    #[serde(default)]
    object: Option<Value>,
    #[serde(default)]
    old_object: Option<Value>,
}

fn parse(body: &[u8]) -> Result<Incoming, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Envelope {
        #[serde(default)]
        api_version: String,
        #[serde(default)]
        kind: String,
        request: Option<Incoming>,
    }
    // The decoder's own limit of 128 levels turns deep nesting into an error before it can exhaust the stack.
    let envelope: Envelope = serde_json::from_slice(body)
        .map_err(|error| format!("cannot decode the AdmissionReview: {}", brief(&error)))?;
    let version = VERSIONS.into_iter().find(|version| *version == envelope.api_version);
    let Some(version) = version.filter(|_| envelope.kind == "AdmissionReview") else {
        let got = cut(&format!("{:?} {:?}", envelope.api_version, envelope.kind));
        return Err(format!("expected admission.k8s.io/v1 AdmissionReview, got {got}"));
    };
    let request = envelope.request.ok_or_else(|| "the AdmissionReview holds no request".to_owned())?;
    Ok(Incoming { version, ..request })
}

/// What the decoder says, without the tail of a value it quotes.
fn brief(error: &serde_json::Error) -> String {
    cut(&error.to_string())
}

fn cut(text: &str) -> String {
    let mut short: String = text.chars().take(200).collect();
    if text.chars().nth(200).is_some() {
        short.push('…');
    }
    short
}

/// One error as the API server lists it; the field has an entry of its own, so it is not repeated.
fn cause(error: &FieldError) -> Value {
    let text = error.to_string();
    let message = text.strip_prefix(error.path.as_str()).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(&text);
    json!({"reason": error.kind.reason(), "message": message, "field": error.path.as_str()})
}

impl Incoming {
    fn decode<T: DeserializeOwned>(&self) -> Result<Review<T>, Box<Outcome>> {
        let object = self.part::<T>("object", self.object.as_ref())?;
        // An old object that nobody can decode must not make the new one, which repairs it, impossible.
        let old = match self.part::<T>("old object", self.old_object.as_ref()) {
            Ok(old) => old,
            Err(_) if object.is_some() || self.operation == Operation::Delete => None,
            Err(refusal) => return Err(refusal),
        };
        Ok(Review {
            operation: self.operation.clone(),
            kind: self.kind.clone(),
            resource: self.resource.clone(),
            sub_resource: self.sub_resource.clone(),
            name: self.name.clone().unwrap_or_default(),
            namespace: self.namespace.clone(),
            user: self.user_info.clone(),
            dry_run: self.dry_run.unwrap_or_default(),
            object,
            old,
        })
    }

    fn part<T: DeserializeOwned>(&self, what: &str, value: Option<&Value>) -> Result<Option<T>, Box<Outcome>> {
        let Some(value) = value.filter(|value| !value.is_null()) else { return Ok(None) };
        // Rooms read the same types from values of their own, and each way to read a type is compiled by itself.
        serde_json::from_value(value.clone()).map(Some).map_err(|error| {
            let message = format!("cannot decode the {what} as {}: {}", self.kind.kind, brief(&error));
            Box::new(Outcome::refused(422, "Invalid", message))
        })
    }

    /// Refuses what is too large, unless it is an old object that at least does not grow.
    fn oversized(&self) -> Option<Outcome> {
        let size = self.object.as_ref().map(size)?;
        if size <= OBJECT_LIMIT || self.old_object.as_ref().is_some_and(|old| size <= self::size(old)) {
            return None;
        }
        let message = format!("the object has {size} bytes, more than the {OBJECT_LIMIT} that are admitted");
        Some(Outcome::refused(413, "RequestEntityTooLarge", message))
    }

    fn invalid(&self, errors: &[FieldError]) -> Outcome {
        let mut sentences: Vec<String> = errors.iter().take(ERRORS_SHOWN).map(ToString::to_string).collect();
        if errors.len() > ERRORS_SHOWN {
            sentences.push(format!("and {} more errors", errors.len() - ERRORS_SHOWN));
        }
        let GroupVersionKind { group, kind, .. } = &self.kind;
        let qualified = if group.is_empty() { kind.clone() } else { format!("{kind}.{group}") };
        let name = self.name.clone().unwrap_or_default();
        let list = match sentences.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let causes: Vec<Value> = errors.iter().take(ERRORS_SHOWN).map(cause).collect();
        let mut refused = Outcome::refused(422, "Invalid", format!("{qualified} {name:?} is invalid: {list}"));
        refused.details = Some(json!({"name": name, "group": group, "kind": kind, "causes": causes}));
        refused
    }
}

/// The size of an object as its user wrote it: the server's own bookkeeping is not his fault.
fn size(object: &Value) -> usize {
    let length = |value: &Value| serde_json::to_string(value).map_or(0, |text| text.len());
    length(object).saturating_sub(object.pointer("/metadata/managedFields").map_or(0, length))
}

#[derive(Clone, Debug)]
struct Outcome {
    allowed: bool,
    code: u16,
    reason: &'static str,
    message: String,
    details: Option<Value>,
    patch: json_patch::Patch,
    warnings: Vec<String>,
}

impl Outcome {
    fn allowed() -> Self {
        let patch = json_patch::Patch::default();
        Self {
            allowed: true,
            code: 200,
            reason: "",
            message: String::new(),
            details: None,
            patch,
            warnings: Vec::new(),
        }
    }

    fn refused(code: u16, reason: &'static str, message: String) -> Self {
        Self { allowed: false, code, reason, message, ..Self::allowed() }
    }

    fn answer(self, to: &Incoming) -> Response {
        let mut response = json!({"uid": to.uid, "allowed": self.allowed});
        if let Value::Object(response) = &mut response {
            if !self.allowed {
                let mut status = json!({
                    "status": "Failure", "code": self.code, "reason": self.reason, "message": self.message,
                });
                if let (Some(details), Value::Object(status)) = (self.details, &mut status) {
                    status.insert("details".to_owned(), details);
                }
                response.insert("status".to_owned(), status);
            } else if !self.patch.0.is_empty() {
                let patch = serde_json::to_string(&self.patch).unwrap_or_default();
                response.insert("patchType".to_owned(), Value::from("JSONPatch"));
                response.insert("patch".to_owned(), Value::from(STANDARD.encode(patch)));
            }
            if !self.warnings.is_empty() {
                let short = |text: &String| text.chars().take(WARNING_LIMIT).collect::<String>();
                let warnings: Vec<String> = self.warnings.iter().take(ERRORS_SHOWN).map(short).collect();
                response.insert("warnings".to_owned(), Value::from(warnings));
            }
        }
        let review = json!({"apiVersion": to.version, "kind": "AdmissionReview", "response": response});
        ([(CONTENT_TYPE, "application/json")], review.to_string()).into_response()
    }
}

#[cfg(test)]
mod tests;
