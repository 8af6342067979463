//! What comes in and what goes out, as JSON. Nothing here waits, logs or looks at a clock.

use std::collections::BTreeMap;
use std::num::NonZeroU16;

use api::key::ObjectKey;
use api::names::{DnsLabel, DnsSubdomain, NameError};
use api::views::Cluster;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::paths::{API_VERSION, Hook, Names};

/// A request of BeforeClusterCreate or BeforeClusterDelete.
#[derive(Clone, Debug, PartialEq)]
pub struct LifecycleRequest {
    /// The settings of the ExtensionConfig.
    pub settings: BTreeMap<String, String>,
    /// The Cluster, in whichever version Cluster API speaks. It has a name and a namespace.
    pub cluster: Cluster,
    /// The name and namespace of the Cluster.
    pub key: ObjectKey,
}

/// Why a request cannot be read. The text is the same for the same mistake, wherever in the body it is: a text that
/// changes is a write to the Cluster, and that is another call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The body is no JSON.
    #[error("the request is not JSON")]
    NotJson,
    /// A field holds something else than it should.
    #[error("the request cannot be read: {field}: {problem}")]
    Field {
        /// The path of the field.
        field: String,
        /// What is wrong.
        problem: String,
    },
}

#[derive(Deserialize)]
struct RawRequest {
    #[serde(default)]
    settings: Option<BTreeMap<String, String>>,
    cluster: Option<Cluster>,
}

impl LifecycleRequest {
    /// Reads a request; `apiVersion` and `kind` are not looked at, unknown fields are skipped.
    ///
    /// # Errors
    /// Names the field that is missing or cannot be read.
    pub fn read(body: &[u8]) -> Result<Self, RequestError> {
        let mut json = serde_json::Deserializer::from_slice(body);
        let raw: RawRequest = serde_path_to_error::deserialize(&mut json).map_err(|error| {
            let field = error.path().to_string();
            reason(field, error.inner())
        })?;
        json.end().map_err(|_| RequestError::NotJson)?;
        let missing = |field: &str| RequestError::Field { field: field.to_owned(), problem: "missing".to_owned() };
        let cluster = raw.cluster.ok_or_else(|| missing("cluster"))?;
        let named = |value: &Option<String>, field: &str| match value.as_deref() {
            Some(value) if !value.is_empty() => Ok(value.to_owned()),
            _ => Err(missing(field)),
        };
        let name = named(&cluster.metadata.name, "cluster.metadata.name")?;
        let namespace = named(&cluster.metadata.namespace, "cluster.metadata.namespace")?;
        // Names become paths of requests and keys that are remembered: only what the API server would store is taken.
        let odd = |field: &str, problem: NameError| RequestError::Field {
            field: field.to_owned(),
            problem: problem.to_string(),
        };
        name.parse::<DnsSubdomain>().map_err(|error| odd("cluster.metadata.name", error))?;
        namespace.parse::<DnsLabel>().map_err(|error| odd("cluster.metadata.namespace", error))?;
        let key = ObjectKey::namespaced(namespace, name);
        Ok(Self { settings: raw.settings.unwrap_or_default(), cluster, key })
    }
}

fn reason(field: String, error: &serde_json::Error) -> RequestError {
    if !error.is_data() {
        return RequestError::NotJson;
    }
    let text = error.to_string();
    let problem = text.rsplit_once(" at line ").map_or(text.as_str(), |(problem, _)| problem).to_owned();
    let field = if field == "." { "request".to_owned() } else { field };
    RequestError::Field { field, problem }
}

/// What a hook that can wait is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Cluster API may go on.
    Open {
        /// What a person should know; often nothing.
        message: String,
    },
    /// Cluster API waits and calls again.
    Retry {
        /// When to call again. Zero would mean to go on, so it cannot be said here.
        seconds: NonZeroU16,
        /// Why it waits.
        message: String,
    },
    /// Only a person can help. Cluster API tries again ever more rarely.
    Refuse {
        /// What is wrong.
        message: String,
    },
}

impl Answer {
    /// Cluster API may go on.
    #[must_use]
    pub const fn open() -> Self {
        Self::Open { message: String::new() }
    }

    /// Cluster API waits and calls again after some seconds, at least one.
    #[must_use]
    pub fn retry(seconds: u16, message: impl Into<String>) -> Self {
        Self::Retry { seconds: NonZeroU16::new(seconds).unwrap_or(NonZeroU16::MIN), message: message.into() }
    }

    /// Only a person can help.
    #[must_use]
    pub fn refuse(message: impl Into<String>) -> Self {
        Self::Refuse { message: message.into() }
    }

    /// The text for a person.
    #[must_use]
    pub fn message(&self) -> &str {
        match self {
            Self::Open { message } | Self::Retry { message, .. } | Self::Refuse { message } => message,
        }
    }

    /// Whether Cluster API agreed, as a status.
    #[must_use]
    pub const fn status(&self) -> Status {
        match self {
            Self::Open { .. } | Self::Retry { .. } => Status::Success,
            Self::Refuse { .. } => Status::Failure,
        }
    }

    /// After how many seconds Cluster API calls again; zero lets it go on.
    #[must_use]
    pub fn retry_after(&self) -> u16 {
        match self {
            Self::Retry { seconds, .. } => seconds.get(),
            Self::Open { .. } | Self::Refuse { .. } => 0,
        }
    }
}

/// The two outcomes that Cluster API knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Status {
    /// It worked.
    Success,
    /// It did not.
    Failure,
}

impl Status {
    /// The word on the wire and in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Success => "Success",
            Self::Failure => "Failure",
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Response<'r> {
    api_version: &'static str,
    kind: String,
    status: Status,
    message: &'r str,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_seconds: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    handlers: Option<Vec<Handler>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Handler {
    name: String,
    request_hook: RequestHook,
    timeout_seconds: u64,
    failure_policy: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RequestHook {
    api_version: &'static str,
    hook: &'static str,
}

impl<'r> Response<'r> {
    fn of(hook: Hook, status: Status, message: &'r str) -> Self {
        let retry_after_seconds = hook.can_wait().then_some(0);
        let kind = format!("{hook}Response");
        Self { api_version: API_VERSION, kind, status, message, retry_after_seconds, handlers: None }
    }

    fn json(&self) -> Bytes {
        // A struct of texts and numbers has no value that serde_json refuses.
        serde_json::to_vec(self).unwrap_or_default().into()
    }
}

/// The answer of a hook that can wait.
#[must_use]
pub fn lifecycle(hook: Hook, answer: &Answer) -> Bytes {
    let response = Response::of(hook, answer.status(), answer.message());
    Response { retry_after_seconds: Some(answer.retry_after()), ..response }.json()
}

/// The failure of any hook, in its own type.
#[must_use]
pub fn failure(hook: Hook, message: &str) -> Bytes {
    Response::of(hook, Status::Failure, message).json()
}

/// Which handlers there are. It depends on nothing but the names, because Cluster API ends its own process when it is
/// not told within a minute of its start.
#[must_use]
pub fn discovery(names: &Names) -> Bytes {
    let handlers = Hook::ALL.into_iter().filter_map(|hook| {
        Some(Handler {
            name: names.handler(hook)?,
            request_hook: RequestHook { api_version: API_VERSION, hook: hook.as_str() },
            timeout_seconds: hook.timeout().as_secs(),
            failure_policy: hook.failure_policy().as_str(),
        })
    });
    let response = Response::of(Hook::Discovery, Status::Success, "");
    Response { handlers: Some(handlers.collect()), ..response }.json()
}

/// What every answer begins with, whoever wrote it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Head {
    /// The outcome.
    pub status: Status,
    /// The text for a person.
    #[serde(default)]
    pub message: String,
}

impl Head {
    /// Reads the outcome of an answer; `None` when it is no answer.
    #[must_use]
    pub fn read(body: &[u8]) -> Option<Self> {
        serde_json::from_slice(body).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read(value: &Value) -> Result<LifecycleRequest, RequestError> {
        LifecycleRequest::read(value.to_string().as_bytes())
    }

    #[test]
    fn a_request_needs_no_version_and_no_kind_and_unknown_fields_are_skipped() {
        let cluster = json!({"metadata": {"name": "prod", "namespace": "team-a"}, "new": [1], "spec": {"newer": {}}});
        let bare = read(&json!({ "cluster": cluster })).unwrap();
        assert_eq!(bare.key.to_string(), "team-a/prod");
        assert!(bare.settings.is_empty());
        let other = json!({"apiVersion": "x/v9", "kind": "Other", "settings": null, "cluster": cluster, "more": 1});
        assert_eq!(read(&other).unwrap(), bare);
        let settings = json!({"settings": {"a": "b"}, "cluster": cluster});
        assert_eq!(read(&settings).unwrap().settings, BTreeMap::from([("a".to_owned(), "b".to_owned())]));
    }

    #[test]
    fn a_name_that_no_server_would_store_is_refused() {
        for (namespace, name) in [("n", "../x"), ("n/../m", "x"), ("n", "X"), ("n?watch=1", "x")] {
            let request = json!({"cluster": {"metadata": {"namespace": namespace, "name": name}}});
            let error = read(&request).unwrap_err().to_string();
            assert!(error.contains("cluster.metadata.name"), "{error}");
        }
    }

    #[test]
    fn a_request_that_cannot_be_read_names_the_field_and_no_position() {
        let cluster = json!({"metadata": {"name": "prod", "namespace": "team-a"}});
        for (request, field) in [
            (json!({}), "cluster: missing"),
            (json!({"cluster": null}), "cluster: missing"),
            (json!({"cluster": {}}), "cluster.metadata.name: missing"),
            (json!({"cluster": {"metadata": {"name": "a", "namespace": ""}}}), "cluster.metadata.namespace: missing"),
            (json!({"cluster": {"metadata": {"name": 5}}}), "cluster.metadata.name: invalid type"),
            (json!({"cluster": "prod"}), "cluster: invalid type"),
            (json!({"settings": {"k": 5}, "cluster": cluster}), "settings.k: invalid type"),
            (json!(["x"]), ": invalid"),
            (json!(5), "request: invalid type"),
        ] {
            let error = read(&request).unwrap_err().to_string();
            assert!(error.contains(field) && !error.contains("line"), "{request}: {error}");
        }
        for body in ["", "{", "nonsense", "{\"cluster\":", "{} {}", "\u{0}"] {
            assert_eq!(LifecycleRequest::read(body.as_bytes()), Err(RequestError::NotJson), "{body}");
        }
        let twice = format!("{} {{}}", json!({ "cluster": cluster }));
        assert_eq!(LifecycleRequest::read(twice.as_bytes()), Err(RequestError::NotJson));
    }

    #[test]
    fn retrying_never_means_going_on() {
        assert_eq!(Answer::retry(0, "x").retry_after(), 1);
        assert_eq!(Answer::retry(15, "x").retry_after(), 15);
        assert_eq!(Answer::open().retry_after(), 0);
        assert_eq!(Answer::refuse("x").status(), Status::Failure);
    }

    #[test]
    fn answers_have_the_shape_that_cluster_api_decodes() {
        let shown = |bytes: Bytes| serde_json::from_slice::<Value>(&bytes).unwrap();
        let api = "hooks.runtime.cluster.x-k8s.io/v1alpha1";
        assert_eq!(
            shown(lifecycle(Hook::BeforeClusterCreate, &Answer::retry(2, "waiting"))),
            json!({"apiVersion": api, "kind": "BeforeClusterCreateResponse", "status": "Success", "message": "waiting",
                "retryAfterSeconds": 2})
        );
        assert_eq!(
            shown(lifecycle(Hook::BeforeClusterDelete, &Answer::open())),
            json!({"apiVersion": api, "kind": "BeforeClusterDeleteResponse", "status": "Success", "message": "",
                "retryAfterSeconds": 0})
        );
        assert_eq!(
            shown(failure(Hook::BeforeClusterCreate, "bad")),
            json!({"apiVersion": api, "kind": "BeforeClusterCreateResponse", "status": "Failure", "message": "bad",
                "retryAfterSeconds": 0})
        );
        assert_eq!(
            shown(failure(Hook::GeneratePatches, "bad")),
            json!({"apiVersion": api, "kind": "GeneratePatchesResponse", "status": "Failure", "message": "bad"})
        );
    }

    #[test]
    fn the_head_of_an_answer_is_read_and_nonsense_is_none() {
        let head = Head { status: Status::Success, message: String::new() };
        assert_eq!(Head::read(br#"{"items":[],"status":"Success"}"#), Some(head));
        for bad in ["", "null", "{}", r#"{"status":"Maybe"}"#, r#"{"status":"Success"} x"#] {
            assert_eq!(Head::read(bad.as_bytes()), None, "{bad}");
        }
    }
}
