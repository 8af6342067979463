//! Copies of a tenant's secrets in the namespace of its host. Contents are read on demand and never kept or logged.
//!
//! A copy is a promise about two objects, itself and the host that is held for its claim, and a server keeps such a promise
//! for nobody: what creates a copy may arrive when the host has gone back already. Where no lease keeps other processes
//! away a copy is therefore made empty; then claim and host are looked at, and only then it is filled, as the version that
//! was there before that look. Whoever gives the host back deletes every copy first, so what comes late fills nothing.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::key::ObjectKey;
use api::names::claims as names;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kit::class::{Class, Classify};
use kit::feed::{Feed, Seen, Version};
use kit::kinds::Kind;
use kit::write::{self, Created, Stored, Target, Writer};
use kube::Api;
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::facts::{SecretFacts, SecretRef, Secrets};
use crate::parts::{Fault, Part};

/// Why a copy could not be made or deleted.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server did not give a secret.
    #[error("read the secret {key}")]
    Read {
        /// The secret.
        key: ObjectKey,
        /// The server's words.
        #[source]
        source: Box<kube::Error>,
    },
    /// The server did not list the copies.
    #[error("list the copies in namespace {namespace}")]
    List {
        /// The namespace.
        namespace: String,
        /// The server's words.
        #[source]
        source: Box<kube::Error>,
    },
    /// The index does not show our own last write yet, or a copy is about to be made anew.
    #[error("the index of secrets is behind")]
    Behind,
    /// The server did not take a change.
    #[error(transparent)]
    Write(#[from] write::Error),
}

impl Classify for Error {
    fn class(&self) -> Class {
        match self {
            Self::Read { source, .. } | Self::List { source, .. } => source.class(),
            Self::Behind => Class::Stale,
            Self::Write(error) => error.class(),
        }
    }
}

/// What an empty copy holds where it must hold something: `{}`, in base64.
const NOTHING: &str = "e30=";

/// For whom a copy is made.
pub struct Copy<'a> {
    /// Which part it is.
    pub part: Part,
    /// The tenant's secret.
    pub source: ObjectKey,
    /// Where the copy goes.
    pub at: &'a SecretRef,
    /// The uid of the claim.
    pub claim: &'a str,
    /// The host's name.
    pub host: &'a str,
    /// The host's uid.
    pub host_uid: &'a str,
}

/// How copying ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Copied {
    /// The copy was made, or made right.
    Done,
    /// The copy was right.
    Unchanged,
    /// The tenant's secret is not there.
    NoSource,
    /// The tenant's secret, at that version, or its place cannot be used.
    Unusable(Version, Fault),
}

/// Makes and deletes copies.
#[derive(Clone)]
pub struct Copies {
    writer: Writer,
    secrets: Feed<Secrets>,
    /// Whether a lease keeps other processes from working at the same time.
    leased: bool,
    /// The version in which each copy was right.
    right: Arc<Mutex<BTreeMap<ObjectKey, Version>>>,
}

impl Copies {
    /// Copies are written through `writer`, and the feed of secrets is told about it.
    #[must_use]
    pub fn new(writer: Writer, secrets: Feed<Secrets>, leased: bool) -> Self {
        Self { writer, secrets, leased, right: Arc::default() }
    }

    fn right(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, Version>> {
        self.right.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a copy is as it was when it was right; what it holds is not looked at. The first version that a process
    /// meets counts as right when the server knows of nobody else who wrote what it holds: somebody may have while no
    /// process was there to see it.
    #[must_use]
    pub fn is_untouched(&self, key: &ObjectKey, copy: &SecretFacts) -> bool {
        let mut right = self.right();
        match right.get(key) {
            Some(version) => *version == copy.version,
            None if copy.sole => {
                right.insert(key.clone(), copy.version.clone());
                true
            }
            None => false,
        }
    }

    /// Forgets a copy that is gone.
    pub fn forget(&self, key: &ObjectKey) {
        self.right().remove(key);
    }

    fn wrote(&self, key: &ObjectKey, version: Version) {
        self.secrets.wrote(key, &version);
        self.right().insert(key.clone(), version);
    }

    fn api(&self, namespace: &str) -> Api<Secret> {
        Api::namespaced(self.writer.client().clone(), namespace)
    }

    /// Brings the copy to the state of its source. Nothing is handed over or taken away before `sure` has said that the host
    /// is still the claim's. Without a lease that goes for the copy too: only the one is filled, or taken away, that was there
    /// before it was asked.
    ///
    /// # Errors
    /// What the server said, or what `sure` has against it.
    pub async fn make<E: From<Error>, F: Future<Output = Result<(), E>>>(
        &self,
        copy: &Copy<'_>,
        sure: impl Fn() -> F,
    ) -> Result<Copied, E> {
        let read = |source| Error::Read { key: copy.source.clone(), source: Box::new(source) };
        let namespace = copy.source.namespace().unwrap_or_default();
        let Some(source) = self.api(namespace).get_opt(copy.source.name()).await.map_err(read)? else {
            return Ok(Copied::NoSource);
        };
        let version = Version::of(&source);
        let Some(data) = content(copy.part, source.data) else { return Ok(Copied::Unusable(version, Fault::NoKey)) };
        let type_ = type_of(copy.part, source.type_.as_deref());
        let body = body(copy, &version, type_, &data);
        let place = copy.at.namespace.as_deref().unwrap_or_default();
        let key = ObjectKey::namespaced(place, copy.at.name.clone());
        let refused = |error| E::from(Error::Write(error));
        let found = match self.read(&key).await? {
            Some(found) => found,
            None if self.leased => {
                sure().await?;
                match self.writer.create(&kind(), Some(place), &body).await.map_err(refused)? {
                    Created::New(made) => {
                        self.wrote(&key, made);
                        return Ok(Copied::Done);
                    }
                    Created::Existing(found) => found,
                }
            }
            None => match self.writer.create_whole(&kind(), Some(place), &empty(&body)).await.map_err(refused)? {
                Stored::New(found) | Stored::Existing(found) => found,
            },
        };
        let ours = found.pointer(&label_pointer()).and_then(Value::as_str) == Some(copy.claim);
        if !ours {
            return Ok(Copied::Unusable(version, Fault::NameTaken));
        }
        self.refresh(&key, &found, body, type_, sure).await
    }

    /// A copy that the index shows, as it is now: where one is, nobody has to try to make it.
    async fn read(&self, key: &ObjectKey) -> Result<Option<Value>, Error> {
        if !matches!(self.secrets.get(key), Seen::At(_)) {
            return Ok(None);
        }
        let read = |source| Error::Read { key: key.clone(), source: Box::new(source) };
        let found = self.api(key.namespace().unwrap_or_default()).get_opt(key.name()).await.map_err(read)?;
        let value = |found| serde_json::to_value(found).map_err(|error| read(kube::Error::SerdeError(error)));
        found.map(value).transpose()
    }

    async fn refresh<E: From<Error>, F: Future<Output = Result<(), E>>>(
        &self,
        key: &ObjectKey,
        found: &Value,
        mut body: Value,
        type_: &str,
        sure: impl Fn() -> F,
    ) -> Result<Copied, E> {
        let refused = |error| E::from(Error::Write(error));
        let text = |pointer: &str| found.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let target = Target { kind: kind(), key: key.clone(), uid: text("/metadata/uid").into() };
        let version = Version { uid: target.uid.clone(), resource_version: text("/metadata/resourceVersion").into() };
        // A secret's type cannot be changed: the copy is made anew, by the pass that its end brings.
        if text("/type") != type_ {
            // Whoever goes by an old wish would take away what another process has made right.
            sure().await?;
            self.writer.delete(&target, Some(&version)).await.map_err(refused)?;
            return Err(Error::Behind.into());
        }
        if says(found, &body) {
            self.right().insert(key.clone(), version);
            return Ok(Copied::Unchanged);
        }
        if let Some(body) = body.as_object_mut() {
            body.remove("type");
            let stale = found.get("data").and_then(Value::as_object).into_iter().flat_map(|data| data.keys());
            if let Some(data) = body.get_mut("data").and_then(Value::as_object_mut) {
                for key in stale {
                    data.entry(key.clone()).or_insert(Value::Null);
                }
            }
        }
        sure().await?;
        let made = self.writer.merge(&target, body, Some(&version)).await.map_err(refused)?;
        self.wrote(key, made);
        Ok(Copied::Done)
    }

    /// Deletes copies as they were when that was decided: one that has been written since is wanted again.
    ///
    /// # Errors
    /// What the server said.
    pub async fn delete(&self, copies: &BTreeMap<ObjectKey, Version>) -> Result<(), Error> {
        for (key, version) in copies {
            match self.secrets.get(key) {
                Seen::At(_) => {}
                Seen::Absent => continue,
                Seen::Behind => return Err(Error::Behind),
            }
            let target = Target { kind: kind(), key: key.clone(), uid: version.uid.clone() };
            self.writer.delete(&target, Some(version)).await?;
        }
        Ok(())
    }

    /// Deletes the copies of this claim in a namespace whose names begin so; says whether none is left, as the server
    /// sees it.
    ///
    /// # Errors
    /// What the server said.
    pub async fn drop_all(&self, namespace: &str, claim: &str, prefix: &str) -> Result<bool, Error> {
        let found = self.list(namespace, claim, prefix).await?;
        if found.is_empty() {
            return Ok(true);
        }
        for target in &found {
            self.writer.delete(target, None).await?;
        }
        Ok(self.list(namespace, claim, prefix).await?.is_empty())
    }

    async fn list(&self, namespace: &str, claim: &str, prefix: &str) -> Result<Vec<Target>, Error> {
        let selector = ListParams::default().labels(&format!("{}={claim}", names::CLAIM_UID_LABEL));
        let listed = self.api(namespace).list_metadata(&selector).await;
        let listed =
            listed.map_err(|source| Error::List { namespace: namespace.to_owned(), source: Box::new(source) })?;
        let target = |object: &kube::core::PartialObjectMeta<Secret>| Target {
            kind: kind(),
            key: ObjectKey::namespaced(namespace, object.metadata.name.clone().unwrap_or_default()),
            uid: object.metadata.uid.clone().unwrap_or_default().into(),
        };
        let ours = |target: &Target| target.key.name().starts_with(prefix) && Part::is_copy(target.key.name(), claim);
        Ok(listed.items.iter().map(target).filter(ours).collect())
    }
}

fn kind() -> Kind {
    Kind::of::<Secret>()
}

/// Whether a copy holds exactly this, and carries at least these marks.
fn says(found: &Value, body: &Value) -> bool {
    let among = |pointer: &str| {
        let mut marks = body.pointer(pointer).and_then(Value::as_object).into_iter().flatten();
        let there = found.pointer(pointer);
        marks.all(|(key, value)| there.and_then(|there| there.get(key)) == Some(value))
    };
    let same = |pointer: &str| found.pointer(pointer) == body.pointer(pointer);
    same("/data") && same("/metadata/ownerReferences") && among("/metadata/labels") && among("/metadata/annotations")
}

fn label_pointer() -> String {
    format!("/metadata/labels/{}", names::CLAIM_UID_LABEL.replace('/', "~1"))
}

/// What the host's controller reads of a secret: one key for data, everything for registry credentials.
fn content(part: Part, data: Option<BTreeMap<String, ByteString>>) -> Option<BTreeMap<String, ByteString>> {
    let mut data = data.unwrap_or_default();
    if part == Part::Pull {
        return (!data.is_empty()).then_some(data);
    }
    let (key, value) = data.remove_entry(part.field()).or_else(|| data.remove_entry("value"))?;
    Some(BTreeMap::from([(key, value)]))
}

/// The type of a copy. Types of Kubernetes itself ask for keys that a single part of data does not have.
fn type_of(part: Part, type_: Option<&str>) -> &str {
    let known = |type_: &&str| {
        part == Part::Pull || !type_.split('/').next().is_some_and(|domain| domain.ends_with("kubernetes.io"))
    };
    type_.filter(known).unwrap_or("Opaque")
}

/// The same copy with nothing in it yet. It does not say of which version of its source it is, so nobody takes it for one.
fn empty(body: &Value) -> Value {
    let mut empty = body.clone();
    let typed = body.get("type").and_then(Value::as_str).is_some_and(|type_| type_ != "Opaque");
    // Types of Kubernetes itself ask for their keys, and some of them for JSON.
    for value in
        empty.pointer_mut("/data").and_then(Value::as_object_mut).into_iter().flat_map(|data| data.values_mut())
    {
        *value = Value::from(NOTHING);
    }
    if let Some(fields) = empty.as_object_mut().filter(|_| !typed) {
        fields.remove("data");
    }
    if let Some(metadata) = empty.pointer_mut("/metadata").and_then(Value::as_object_mut) {
        metadata.remove("annotations");
    }
    empty
}

fn body(copy: &Copy<'_>, version: &Version, type_: &str, data: &BTreeMap<String, ByteString>) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": copy.at.name,
            "namespace": copy.at.namespace,
            "labels": {
                names::CLAIM_UID_LABEL: copy.claim,
                names::ENVIRONMENT_LABEL: names::ENVIRONMENT_BAREMETAL,
            },
            "annotations": { names::SOURCE_VERSION_ANNOTATION: version.resource_version },
            "ownerReferences": [{
                "apiVersion": "metal3.io/v1alpha1",
                "kind": "BareMetalHost",
                "name": copy.host,
                "uid": copy.host_uid,
            }],
        },
        "type": type_,
        "data": data,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_copy_holds_nothing_of_its_source_and_what_its_type_asks_for() {
        let at = SecretRef { name: "h1-hc-12345678-pull".into(), namespace: Some("infra".into()) };
        let source = ObjectKey::namespaced("red", "registry");
        let copy = Copy { part: Part::Pull, source, at: &at, claim: "u", host: "h1", host_uid: "h" };
        let version = Version { uid: "s".into(), resource_version: "7".into() };
        for (type_, key, left) in [
            ("Opaque", "anything", None),
            ("kubernetes.io/dockerconfigjson", ".dockerconfigjson", Some(json!({".dockerconfigjson": NOTHING}))),
        ] {
            let data = BTreeMap::from([(key.to_owned(), ByteString(b"secret".to_vec()))]);
            let full = body(&copy, &version, type_, &data);
            let empty = empty(&full);
            assert_eq!((empty.get("data"), &empty["type"]), (left.as_ref(), &json!(type_)));
            // Nobody takes it for a copy of that version, and everybody for one of that claim and that host.
            assert_eq!(empty["metadata"].get("annotations"), None);
            for kept in ["name", "namespace", "labels", "ownerReferences"] {
                assert_eq!(empty["metadata"][kept], full["metadata"][kept], "{type_} {kept}");
            }
            assert!(!empty.to_string().contains(&full["data"][key].to_string()), "{empty}");
        }
    }
}
