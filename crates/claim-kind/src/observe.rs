//! Reads one kind from the index: everything a decision needs is in the object itself.

use std::sync::Arc;

use api::key::ObjectKey;
use api::meta::lean_meta;
use api::own::HostClaimKindSpec;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kit::class::{Class, Classify};
use kit::feed::{Feed, Project, Seen};
use kit::kinds;
use kit::write::Target;
use serde::Deserialize;

use crate::admit;
use crate::status::Availability;

/// A HostClaimKind as it is received: without managed fields, and never failing on what somebody else stored.
#[derive(Clone, Debug, Deserialize)]
pub struct HostClaimKind {
    #[serde(default, deserialize_with = "lean_meta")]
    metadata: ObjectMeta,
    #[serde(default)]
    pub(crate) spec: serde_json::Value,
    #[serde(default)]
    status: serde_json::Value,
}

api::view! { HostClaimKind, group: "berth.dev", versions: ["v1alpha1"], plural: "hostclaimkinds", scope: Cluster }

/// What is kept of each kind: who it is, its heartbeat, what is wrong with it and what its status says.
#[derive(Clone, Debug, PartialEq)]
pub struct Kind {
    /// The server's unique id of the object.
    pub uid: Box<str>,
    /// The generation of its spec.
    pub generation: i64,
    /// The controller that its spec names.
    pub controller: Box<str>,
    /// When its controller was last heard.
    pub heartbeat: Option<Timestamp>,
    /// What makes its spec unusable. The spec itself is not kept: nothing else of it is used here.
    pub problem: Option<Box<str>>,
    /// The part of the status that is ours, as stored.
    pub stored: Availability,
}

impl Project for Kind {
    type Source = HostClaimKind;
    type Slim = Self;

    fn slim(source: HostClaimKind) -> Self {
        let HostClaimKind { metadata, spec, status } = source;
        let controller = spec.get("controllerName").and_then(serde_json::Value::as_str).unwrap_or_default().into();
        // What cannot be read was stored past the schema; it is reported like any other fault of the spec.
        let problem = match serde_json::from_value::<HostClaimKindSpec>(spec) {
            Ok(spec) => admit::problem(&spec),
            Err(error) => Some(format!("spec: {error}")),
        };
        Self {
            uid: metadata.uid.unwrap_or_default().into(),
            generation: metadata.generation.unwrap_or_default(),
            controller,
            heartbeat: status.get("lastHeartbeat").and_then(read::<Time>).map(|time| time.0),
            problem: problem.map(Into::into),
            stored: Availability {
                observed_generation: status.get("observedGeneration").and_then(serde_json::Value::as_i64),
                conditions: status
                    .get("conditions")
                    .and_then(serde_json::Value::as_array)
                    .map(|all| all.iter().filter_map(read).collect())
                    .unwrap_or_default(),
            },
        }
    }
}

/// Reads what fits and leaves the rest: the schema's `date-time` admits times that have no representation here, and one
/// of them must not fail the list of all kinds.
fn read<T: serde::de::DeserializeOwned>(value: &serde_json::Value) -> Option<T> {
    serde_json::from_value(value.clone()).ok()
}

/// One kind at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Its name.
    pub key: ObjectKey,
    /// What the index holds.
    pub kind: Arc<Kind>,
    /// When this was read.
    pub now: Timestamp,
}

impl Snapshot {
    /// The object to write to.
    #[must_use]
    pub fn target(&self) -> Target {
        Target { kind: kinds::Kind::of::<HostClaimKind>(), key: self.key.clone(), uid: self.kind.uid.clone() }
    }
}

/// Why nothing could be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The index does not show our own last write yet.
    #[error("the index is behind our own write")]
    Behind,
}

impl Classify for Error {
    fn class(&self) -> Class {
        Class::Stale
    }
}

/// Gathers the snapshot of `key`.
///
/// # Errors
/// When the index is behind our own write.
pub fn observe(kinds: &Feed<Kind>, key: &ObjectKey, now: Timestamp) -> Result<Option<Snapshot>, Error> {
    match kinds.get(key) {
        Seen::At(kind) => Ok(Some(Snapshot { key: key.clone(), kind, now })),
        Seen::Absent => Ok(None),
        Seen::Behind => Err(Error::Behind),
    }
}
