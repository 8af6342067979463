//! Reads of a claim what tells whether anybody looks after it.

use std::sync::Arc;

use api::key::ObjectKey;
use api::own::BAREMETAL;
use api::raw::HostClaim;
use api::reasons::ASSOCIATED;
use api::reasons::claims::Reason;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kit::feed::{Project, Version};
use kit::kinds;
use kit::room::Stand;
use kit::write::Target;
use serde::Serialize;
use serde_json::Value;

use crate::decide::Pulse;

/// HostClaims, indexed by their kind.
pub struct Claims;

/// The index of claims by their kind.
pub const BY_KIND: &str = "kind";

/// The part of a claim's status that is written here: the one condition, and only while nobody serves the claim.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Word {
    /// `Associated`, or nothing.
    pub conditions: Vec<Condition>,
}

impl api::status::Conditioned for Word {
    fn conditions(&self) -> &[Condition] {
        &self.conditions
    }

    fn conditions_mut(&mut self) -> &mut Vec<Condition> {
        &mut self.conditions
    }

    /// Which generation was acted on is for the claim's controller to say.
    fn set_observed_generation(&mut self, _: i64) {}
}

/// What is kept of each claim.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// The server's unique id of the object.
    pub uid: Box<str>,
    /// The generation of its spec.
    pub generation: i64,
    /// The kind of compute it asks for.
    pub kind: Box<str>,
    /// When `Associated` last changed, whoever wrote it.
    pub judged: Option<Timestamp>,
    /// Its place in the list of conditions.
    pub place: usize,
    /// The condition, as stored.
    pub stored: Word,
}

impl Claim {
    /// Whether the condition says that nobody serves the claim.
    #[must_use]
    pub fn is_marked(&self) -> bool {
        self.stored.conditions.iter().any(|condition| condition.reason == Reason::NoControllerForKind.as_str())
    }

    /// How the claim stands, while nobody serves it.
    #[must_use]
    pub fn stand(&self) -> Option<Stand> {
        let since = self.judged.filter(|_| self.is_marked())?;
        Some(Stand::waiting(Reason::NoControllerForKind.as_str(), since))
    }
}

impl Project for Claims {
    type Source = HostClaim;
    type Slim = Claim;
    const INDEXES: &'static [&'static str] = &[BY_KIND];

    fn slim(source: HostClaim) -> Claim {
        let HostClaim { metadata, spec, status } = source;
        let found = status.get("conditions").and_then(Value::as_array).and_then(|all| {
            all.iter().enumerate().find_map(|(place, one)| {
                let condition: Condition = serde_json::from_value(one.clone()).ok()?;
                (condition.type_ == ASSOCIATED).then_some((place, condition))
            })
        });
        Claim {
            uid: metadata.uid.unwrap_or_default().into(),
            generation: metadata.generation.unwrap_or_default(),
            kind: spec.get("kind").and_then(Value::as_str).unwrap_or(BAREMETAL).into(),
            judged: found.as_ref().map(|(_, condition)| condition.last_transition_time.0),
            place: found.as_ref().map_or(0, |(place, _)| *place),
            stored: Word { conditions: found.into_iter().map(|(_, condition)| condition).collect() },
        }
    }

    fn keys(_: usize, _: &ObjectKey, claim: &Claim) -> Vec<Box<str>> {
        vec![claim.kind.clone()]
    }
}

/// One claim at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Where it is.
    pub key: ObjectKey,
    /// The kind of the object, as it is served.
    pub resource: kinds::Kind,
    /// The claim.
    pub claim: Arc<Claim>,
    /// The version of it that was read.
    pub version: Version,
    /// Whether a room of this process serves its kind.
    pub here: bool,
    /// The heartbeat of its kind; `None` when the kind is not registered.
    pub pulse: Option<Pulse>,
    /// When this was read.
    pub now: Timestamp,
}

impl Snapshot {
    /// The claim, to write to.
    #[must_use]
    pub fn target(&self) -> Target {
        Target { kind: self.resource.clone(), key: self.key.clone(), uid: self.claim.uid.clone() }
    }
}
