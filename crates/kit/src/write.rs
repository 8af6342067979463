//! The only code that writes objects.
//!
//! Own fields go by server-side apply, fields of foreign objects by a patch of exactly our keys that names what it was
//! based on. Views never replace a whole object: they would delete what they do not model. Every write passes a fault
//! point before and after it, and its answer tells the version it made.

use std::fmt;

use api::key::ObjectKey;
use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, Patch as Operations, PatchOperation, RemoveOperation, TestOperation};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions, ValidationDirective};
use kube::core::Request;
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::class::{Class, Classify, class_of};
use crate::fault::{self, Side};
use crate::feed::Version;
use crate::kinds::Kind;

/// Which object to write, and as which incarnation it was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its kind.
    pub kind: Kind,
    /// Where it is.
    pub key: ObjectKey,
    /// The incarnation that was decided on; another object of the same name is never written.
    pub uid: Box<str>,
}

impl Target {
    /// The target for an object as received.
    #[must_use]
    pub fn of<K: Resource<DynamicType = ()>>(object: &K) -> Self {
        Self {
            kind: Kind::of::<K>(),
            key: ObjectKey::of(object),
            uid: object.meta().uid.clone().unwrap_or_default().into(),
        }
    }

    fn collection(&self) -> String {
        collection(&self.kind, self.key.namespace())
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.kind, self.key)
    }
}

fn collection(kind: &Kind, namespace: Option<&str>) -> String {
    let root = if kind.group.is_empty() { "api" } else { "apis" };
    let namespace = namespace.map(|n| format!("namespaces/{n}/")).unwrap_or_default();
    format!("/{root}/{}/{namespace}{}", kind.api_version(), kind.plural)
}

/// Why a write did not happen, or may not have happened.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The object, or what the decision was based on, has changed.
    #[error("{verb} {target}: it has changed meanwhile")]
    Changed {
        /// What was being done.
        verb: &'static str,
        /// To what.
        target: String,
    },
    /// The server said no, or nothing.
    #[error("{verb} {target}")]
    Refused {
        /// What was being done.
        verb: &'static str,
        /// To what.
        target: String,
        /// The server's words.
        #[source]
        source: Box<kube::Error>,
    },
    /// The request could not be built.
    #[error("{verb} {target}: building the request")]
    Build {
        /// What was being done.
        verb: &'static str,
        /// To what.
        target: String,
        /// What is wrong with it.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl Classify for Error {
    fn class(&self) -> Class {
        match self {
            Self::Changed { .. } => Class::Stale,
            // What is not found when creating is the namespace or the kind: no race, and it may stay so for long.
            Self::Refused { verb: "create", source, .. } if is_code(source, 404) => Class::Transient { at_least: None },
            Self::Refused { source, .. } => source.class(),
            Self::Build { .. } => Class::Terminal,
        }
    }
}

/// What a create found.
#[derive(Debug, Clone, PartialEq)]
pub enum Created {
    /// The object is new.
    New(Version),
    /// An object of that name was there already (ours from a lost answer, or somebody else's): judge it by owner.
    Existing(Value),
}

/// What a create found, whole.
#[derive(Debug, Clone, PartialEq)]
pub enum Stored {
    /// The object is new, and this is how the server stored it.
    New(Value),
    /// An object of that name was there already: judge it by owner.
    Existing(Value),
}

/// What became of fields that were offered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Offered {
    /// They are as offered.
    Taken(Version),
    /// Somebody else says otherwise; each line names a field and who that is.
    Theirs(Vec<String>),
}

/// Writes in the name of one room.
#[derive(Clone)]
pub struct Writer {
    client: Client,
    room: &'static str,
    manager: String,
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    metadata: AnswerMeta,
}

/// Only what we need of an answer: managed fields are skipped while decoding.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AnswerMeta {
    uid: String,
    resource_version: String,
}

impl Answer {
    fn version(self) -> Version {
        Version { uid: self.metadata.uid.into(), resource_version: self.metadata.resource_version.into() }
    }
}

impl Writer {
    /// A writer whose field manager is `berth-<room>`.
    #[must_use]
    pub fn new(client: Client, room: &'static str) -> Self {
        Self { client, room, manager: format!("berth-{room}") }
    }

    /// A writer with a field manager of its own: objects that another controller made are taken over under its name.
    #[must_use]
    pub fn with_manager(client: Client, room: &'static str, manager: &str) -> Self {
        Self { client, room, manager: manager.to_owned() }
    }

    /// The client underneath, for live reads.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Applies our full set of status fields; we own them alone, so conflicts are overruled.
    ///
    /// # Errors
    /// `Changed` when the object is gone or is another incarnation.
    pub async fn status(&self, target: &Target, status: &impl Serialize) -> Result<Version, Error> {
        self.report(target, status, None).await
    }

    /// Applies our full set of status fields, unless the object has moved on since `based_on`: for a status that is
    /// itself a decision, like an intent that must be stored before it is carried out.
    ///
    /// # Errors
    /// `Changed` when the object has moved on, is gone or is another incarnation.
    pub async fn status_at(
        &self,
        target: &Target,
        status: &impl Serialize,
        based_on: &Version,
    ) -> Result<Version, Error> {
        self.report(target, status, Some(based_on)).await
    }

    /// Applies status fields of a foreign object that nobody else says otherwise; whoever owns one of them with another
    /// value keeps it.
    ///
    /// # Errors
    /// `Changed` when somebody else owns one of the fields, or the object is gone or is another incarnation.
    pub async fn offer_status(&self, target: &Target, status: &impl Serialize) -> Result<Version, Error> {
        let body = status_body(target, status);
        self.patch("describe", target, Some("status"), &Patch::Apply(without_nulls(body)), false).await
    }

    async fn report(
        &self,
        target: &Target,
        status: &impl Serialize,
        based_on: Option<&Version>,
    ) -> Result<Version, Error> {
        let mut body = status_body(target, status);
        if let Some(version) = based_on {
            set_metadata(&mut body, "resourceVersion", &version.resource_version);
        }
        self.patch("report the status of", target, Some("status"), &Patch::Apply(without_nulls(body)), true).await
    }

    /// Applies the full set of fields we own of an object of ours. `body` carries `apiVersion`, `kind` and a name. With
    /// an empty uid in `target` the object is made if it is not there.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn apply(&self, target: &Target, body: Value) -> Result<Version, Error> {
        self.patch("apply", target, None, &applied(target, body), true).await
    }

    /// The same, and the object as the server stored it: whoever has to know it need not read it.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn apply_whole(&self, target: &Target, body: Value) -> Result<Value, Error> {
        self.patched("apply", target, None, &applied(target, body), true).await
    }

    /// Puts a whole object in the place of the one that is there, with every field that is in `body` and no other: for what an
    /// apply leaves behind, the fields and list items of a release before that others own by now. `body` is made from the JSON
    /// of the object as it was just read, never from a view, and carries its uid and its resource version.
    ///
    /// # Errors
    /// `Changed` when the object has moved on since, or is another incarnation.
    pub async fn replace(&self, target: &Target, body: &Value) -> Result<Version, Error> {
        let verb = "replace";
        // Without a version the server would overwrite whatever is there.
        if body.pointer("/metadata/resourceVersion").and_then(Value::as_str).is_none_or(str::is_empty) {
            return Err(Error::Changed { verb, target: target.to_string() });
        }
        let request = Request::new(target.collection());
        let params = PostParams { dry_run: false, field_manager: Some(self.manager.clone()) };
        let built = request.replace(target.key.name(), &params, body.to_string().into_bytes());
        let mut built = built.map_err(build(verb, &target.to_string()))?;
        // As in a patch; kube has no parameter for it here.
        let strict = format!("{}&fieldValidation=Strict", built.uri());
        *built.uri_mut() = strict.parse().map_err(build(verb, &target.to_string()))?;
        fault::point(self.room, verb, Side::Before).await;
        let answer = self.client.request::<Answer>(built).await;
        fault::point(self.room, verb, Side::After).await;
        answer.map(Answer::version).map_err(|error| judge(verb, target.to_string(), error))
    }

    /// Applies the full set of fields we own of an object that others may change too: whoever owns one of them with
    /// another value keeps it, and is named. What we ourselves wrote when we made the object is no such claim.
    ///
    /// # Errors
    /// `Changed` when the object has moved on since `based_on`, is gone or is another incarnation.
    pub async fn offer(&self, target: &Target, mut body: Value, based_on: &Version) -> Result<Offered, Error> {
        set_metadata(&mut body, "uid", &target.uid);
        set_metadata(&mut body, "resourceVersion", &based_on.resource_version);
        let patch = Patch::Apply(without_nulls(body));
        match self.send::<Answer>("apply", target, None, &patch, false).await? {
            Ok(answer) => Ok(Offered::Taken(answer.version())),
            Err(error) => {
                let Some(claims) = claims(&error) else { return Err(judge("apply", target.to_string(), error)) };
                let ours = format!("conflict with \"{}\"", self.manager);
                let theirs: Vec<String> = claims
                    .iter()
                    .filter(|(_, message)| !message.starts_with(&ours))
                    .map(|(field, message)| format!("{}: {message}", field.trim_start_matches('.')))
                    .collect();
                if !theirs.is_empty() {
                    return Ok(Offered::Theirs(theirs));
                }
                self.patch("apply", target, None, &patch, true).await.map(Offered::Taken)
            }
        }
    }

    /// Changes exactly the given keys of a foreign object. With `based_on` the server refuses the write when the
    /// object has moved on since.
    ///
    /// # Errors
    /// `Changed` when it has moved on, or is another incarnation.
    pub async fn merge(&self, target: &Target, mut body: Value, based_on: Option<&Version>) -> Result<Version, Error> {
        set_metadata(&mut body, "uid", &target.uid);
        if let Some(version) = based_on {
            set_metadata(&mut body, "resourceVersion", &version.resource_version);
        }
        self.patch("change", target, None, &Patch::Merge(body), false).await
    }

    /// Sends JSON patch operations, of which at least one tests what the decision was based on.
    ///
    /// # Errors
    /// `Changed` when a test failed.
    pub async fn operations(&self, target: &Target, operations: Vec<PatchOperation>) -> Result<Version, Error> {
        self.patch("change", target, None, &guarded(target, operations), false).await
    }

    /// Sends JSON patch operations on the status, of which at least one tests what the decision was based on.
    ///
    /// # Errors
    /// `Changed` when a test failed.
    pub async fn status_operations(&self, target: &Target, operations: Vec<PatchOperation>) -> Result<Version, Error> {
        self.patch("change the status of", target, Some("status"), &guarded(target, operations), false).await
    }

    /// Adds our finalizer to the list as it was seen; `None` when it is there already and nothing was sent.
    ///
    /// # Errors
    /// `Changed` when the list is another one by now.
    pub async fn add_finalizer(
        &self,
        target: &Target,
        seen: &[String],
        at: &Version,
        ours: &str,
    ) -> Result<Option<Version>, Error> {
        if seen.iter().any(|f| f == ours) {
            return Ok(None);
        }
        let mut next = seen.to_vec();
        next.push(ours.to_owned());
        // An absent list cannot be tested, so an object without finalizers is tested by its version.
        let based_on = if seen.is_empty() {
            test("/metadata/resourceVersion", json!(at.resource_version))
        } else {
            test("/metadata/finalizers", json!(seen))
        };
        self.operations(target, vec![based_on, add("/metadata/finalizers", json!(next))]).await.map(Some)
    }

    /// Takes our finalizer off the list as it was seen; `None` when it is not there and nothing was sent.
    /// Callers check live that nothing is left outside first.
    ///
    /// # Errors
    /// `Changed` when the list is another one by now; an object that is already gone counts as done.
    pub async fn remove_finalizer(
        &self,
        target: &Target,
        seen: &[String],
        ours: &str,
    ) -> Result<Option<Version>, Error> {
        if !seen.iter().any(|f| f == ours) {
            return Ok(None);
        }
        let next: Vec<String> = seen.iter().filter(|f| *f != ours).cloned().collect();
        let operations = vec![test("/metadata/finalizers", json!(seen)), add("/metadata/finalizers", json!(next))];
        match self.operations(target, operations).await {
            Ok(version) => Ok(Some(version)),
            Err(Error::Refused { source, .. }) if is_code(&source, 404) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Creates an object. The name must be deterministic: when the answer to an earlier attempt was lost, the object
    /// is there already and is handed back to be judged by uid and owner.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn create(&self, kind: &Kind, namespace: Option<&str>, body: &Value) -> Result<Created, Error> {
        let made = self.made::<Answer>(kind, namespace, body).await?;
        Ok(made.map_or_else(Created::Existing, |answer| Created::New(answer.version())))
    }

    /// The same, and the object as the server stored it.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn create_whole(&self, kind: &Kind, namespace: Option<&str>, body: &Value) -> Result<Stored, Error> {
        let made = self.made::<Value>(kind, namespace, body).await?;
        Ok(made.map_or_else(Stored::Existing, Stored::New))
    }

    /// Creates an object; the answer, or what was there already.
    async fn made<T: DeserializeOwned>(
        &self,
        kind: &Kind,
        namespace: Option<&str>,
        body: &Value,
    ) -> Result<Result<T, Value>, Error> {
        let name = body.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let target = format!("{} {name}", kind.kind);
        let request = Request::new(collection(kind, namespace));
        let params = PostParams { dry_run: false, field_manager: Some(self.manager.clone()) };
        let built = request.create(&params, body.to_string().into_bytes()).map_err(build("create", &target))?;
        fault::point(self.room, "create", Side::Before).await;
        let answer = self.client.request::<T>(built).await;
        fault::point(self.room, "create", Side::After).await;
        match answer {
            Ok(answer) => Ok(Ok(answer)),
            Err(kube::Error::Api(status)) if status.is_already_exists() => {
                let get = request.get(name, &kube::api::GetParams::default()).map_err(build("read", &target))?;
                match self.client.request::<Value>(get).await {
                    Ok(found) => Ok(Err(found)),
                    Err(error) => Err(judge("read", target, error)),
                }
            }
            Err(error) => Err(judge("create", target, error)),
        }
    }

    /// Deletes just this incarnation, and with `based_on` only if it has not moved on. Gone already counts as done.
    ///
    /// # Errors
    /// `Changed` when it has moved on, or another object has its name.
    pub async fn delete(&self, target: &Target, based_on: Option<&Version>) -> Result<(), Error> {
        let preconditions = Preconditions {
            uid: Some(target.uid.to_string()),
            resource_version: based_on.map(|v| v.resource_version.to_string()),
        };
        let params = DeleteParams::background().preconditions(preconditions);
        let request = Request::new(target.collection());
        let built = request.delete(target.key.name(), &params).map_err(build("delete", &target.to_string()))?;
        fault::point(self.room, "delete", Side::Before).await;
        let answer = self.client.request::<Value>(built).await;
        fault::point(self.room, "delete", Side::After).await;
        match answer {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            Err(error) => Err(judge("delete", target.to_string(), error)),
        }
    }

    async fn patch(
        &self,
        verb: &'static str,
        target: &Target,
        part: Option<&str>,
        patch: &Patch<Value>,
        force: bool,
    ) -> Result<Version, Error> {
        self.patched(verb, target, part, patch, force).await.map(Answer::version)
    }

    /// Sends a patch, and gives as much of the answer as is asked for.
    async fn patched<T: DeserializeOwned>(
        &self,
        verb: &'static str,
        target: &Target,
        part: Option<&str>,
        patch: &Patch<Value>,
        force: bool,
    ) -> Result<T, Error> {
        match self.send(verb, target, part, patch, force).await? {
            Ok(answer) => Ok(answer),
            // A failed `test` of a JSON patch is answered 422, like an invalid object; but only the latter has causes.
            Err(kube::Error::Api(status))
                if matches!(patch, Patch::Json(_))
                    && status.code == 422
                    && status.details.as_ref().is_none_or(|details| details.causes.is_empty()) =>
            {
                Err(Error::Changed { verb, target: target.to_string() })
            }
            Err(error) => Err(judge(verb, target.to_string(), error)),
        }
    }

    /// Sends a patch, and gives the answer as it came.
    async fn send<T: DeserializeOwned>(
        &self,
        verb: &'static str,
        target: &Target,
        part: Option<&str>,
        patch: &Patch<Value>,
        force: bool,
    ) -> Result<Result<T, kube::Error>, Error> {
        let params = PatchParams {
            dry_run: false,
            force,
            field_manager: Some(self.manager.clone()),
            // A field the server does not know would be dropped in silence; better to hear of it.
            field_validation: Some(ValidationDirective::Strict),
        };
        let request = Request::new(target.collection());
        let built = match part {
            Some(part) => request.patch_subresource(part, target.key.name(), &params, patch),
            None => request.patch(target.key.name(), &params, patch),
        };
        let built = built.map_err(build(verb, &target.to_string()))?;
        let point = part.unwrap_or("patch");
        fault::point(self.room, point, Side::Before).await;
        let answer = self.client.request::<T>(built).await;
        fault::point(self.room, point, Side::After).await;
        Ok(answer)
    }
}

/// Which fields others own with another value, and the server's words on who; `None` when that is not what went wrong.
fn claims(error: &kube::Error) -> Option<Vec<(String, String)>> {
    let kube::Error::Api(status) = error else { return None };
    let causes = status.details.as_ref().map(|details| details.causes.as_slice()).unwrap_or_default();
    let owned = |cause: &&kube::core::response::StatusCause| cause.reason == "FieldManagerConflict";
    let all: Vec<(String, String)> =
        causes.iter().filter(owned).map(|cause| (cause.field.clone(), cause.message.clone())).collect();
    (status.code == 409 && !all.is_empty()).then_some(all)
}

/// An apply of all our fields, for this incarnation only if it is known.
fn applied(target: &Target, mut body: Value) -> Patch<Value> {
    if !target.uid.is_empty() {
        set_metadata(&mut body, "uid", &target.uid);
    }
    Patch::Apply(without_nulls(body))
}

/// The operations, for this incarnation only.
fn guarded(target: &Target, operations: Vec<PatchOperation>) -> Patch<Value> {
    let mut all = vec![test("/metadata/uid", json!(target.uid))];
    all.extend(operations);
    Patch::Json(Operations(all))
}

fn status_body(target: &Target, status: &impl Serialize) -> Value {
    json!({
        "apiVersion": target.kind.api_version(),
        "kind": target.kind.kind,
        "metadata": { "name": target.key.name(), "namespace": target.key.namespace(), "uid": target.uid },
        "status": status,
    })
}

fn set_metadata(body: &mut Value, field: &str, value: &str) {
    let Some(object) = body.as_object_mut() else { return };
    let metadata = object.entry("metadata").or_insert_with(|| json!({}));
    if let Some(metadata) = metadata.as_object_mut() {
        metadata.insert(field.to_owned(), json!(value));
    }
}

fn judge(verb: &'static str, target: String, error: kube::Error) -> Error {
    match &error {
        kube::Error::Api(status) if status.code != 404 && class_of(status) == Class::Stale => {
            Error::Changed { verb, target }
        }
        _ => Error::Refused { verb, target, source: Box::new(error) },
    }
}

fn is_code(error: &kube::Error, code: u16) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == code)
}

fn build<E: std::error::Error + Send + Sync + 'static>(verb: &'static str, target: &str) -> impl FnOnce(E) -> Error {
    let target = target.to_owned();
    move |source| Error::Build { verb, target, source: Box::new(source) }
}

/// A JSON patch operation that makes the whole patch fail unless `path` holds `value`.
#[must_use]
pub fn test(path: &str, value: Value) -> PatchOperation {
    PatchOperation::Test(TestOperation { path: self::path(path), value })
}

/// A JSON patch operation that sets `path`.
#[must_use]
pub fn add(path: &str, value: Value) -> PatchOperation {
    PatchOperation::Add(AddOperation { path: self::path(path), value })
}

/// A JSON patch operation that takes `path` away.
#[must_use]
pub fn remove(path: &str) -> PatchOperation {
    PatchOperation::Remove(RemoveOperation { path: self::path(path) })
}

fn path(text: &str) -> PointerBuf {
    PointerBuf::parse(text).unwrap_or_default()
}

/// In an apply, `null` clears a field and an absent one means "not mine any more": absent options are left out.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            Value::Object(map.into_iter().filter(|(_, v)| !v.is_null()).map(|(k, v)| (k, without_nulls(v))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(without_nulls).collect()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nulls_never_reach_an_apply() {
        let body = json!({"a": null, "b": {"c": null, "d": [ {"e": null, "f": 1} ]}});
        assert_eq!(without_nulls(body), json!({"b": {"d": [ {"f": 1} ]}}));
    }

    #[test]
    fn paths_follow_the_group_and_the_namespace() {
        let kind =
            |group: &str| Kind { group: group.into(), version: "v1".into(), kind: "K".into(), plural: "ks".into() };
        assert_eq!(collection(&kind(""), Some("n")), "/api/v1/namespaces/n/ks");
        assert_eq!(collection(&kind("g.io"), None), "/apis/g.io/v1/ks");
    }
}
