//! Claims.

use std::collections::BTreeMap;

use api::meta::ObjectMeta;
use api::names::claims::{
    BAREMETAL_FINALIZER, BLOCK_MOVE_ANNOTATION, DELETE_FOR_MOVE_ANNOTATION, DETACHED_ANNOTATION, REBOOT_ANNOTATION,
    UNHEALTHY_ANNOTATION,
};
use api::names::hosts::ALLOCATION_ANNOTATION;
use api::names::{CLUSTER_NAME_LABEL, PAUSED_ANNOTATION};
use api::own::{BAREMETAL, HostClaimSpec, HostClaimStatus, HostMetadata};
use api::raw::HostClaim;
use claim_kind::held::Held;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Texts;
use crate::labels::Selector;
use crate::names::fingerprint;

/// HostClaims, with indexes of the Secrets they name, of their clusters and of their uids.
pub struct Claims;

/// A HostClaim, as decisions use it. What is skipped is kept beside its shorthand, or found again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClaimFacts {
    /// The server's unique id of the object.
    #[serde(skip)]
    pub uid: Box<str>,
    /// The generation of its spec.
    pub generation: i64,
    /// When it was made.
    #[serde(skip)]
    pub created: Timestamp,
    /// Whether it is being deleted.
    #[serde(skip)]
    pub deleting: bool,
    /// Since when it is being deleted.
    pub deleted_at: Option<Timestamp>,
    /// Its finalizers.
    pub finalizers: Box<[Box<str>]>,
    /// Its labels, as far as there is room for them.
    pub labels: Texts,
    /// The annotations that mean something here, and of others as many as there is room for, by their
    /// [`fingerprint`].
    pub annotations: Texts,
    /// Whether it has more labels or annotations than are kept, so that nobody knows which keys are the tenant's own.
    pub crowded: bool,
    /// The cluster it belongs to, by its label.
    #[serde(skip)]
    pub cluster: Option<Box<str>>,
    /// Its spec; the default when it cannot be read.
    pub spec: HostClaimSpec,
    /// The labels of the hosts it wants; nothing can be chosen by one that cannot be used.
    #[serde(skip, default = "anything")]
    pub selector: Result<Selector, Box<str>>,
    /// Its status as stored.
    pub status: HostClaimStatus,
    /// Who wrote its status.
    pub managers: Box<[Box<str>]>,
    /// Why its spec cannot be read, with the path of the field.
    pub problem: Option<Box<str>>,
}

impl ClaimFacts {
    /// The facts of a claim as received from a feed or a live read.
    #[must_use]
    pub fn of(claim: HostClaim) -> Self {
        let HostClaim { metadata, spec, status } = claim;
        // Whose claim it is must be known even when the rest cannot be read.
        let kind = spec.get("kind").and_then(serde_json::Value::as_str).map(str::to_owned);
        let (spec, problem) = match super::spec::<HostClaimSpec>(spec) {
            Ok(spec) => (spec, None),
            Err(problem) => {
                let plain = HostClaimSpec::default();
                let kind = kind.unwrap_or_else(|| plain.kind.clone());
                (HostClaimSpec { kind, ..plain }, Some(problem))
            }
        };
        let selector = selector(&spec);
        let managers = managers(&metadata);
        let (labels, more_labels) = some(metadata.labels, |key| key == CLUSTER_NAME_LABEL);
        let (annotations, more_annotations) = some(metadata.annotations, speaks);
        Self {
            uid: metadata.uid.unwrap_or_default().into(),
            generation: metadata.generation.unwrap_or_default(),
            created: metadata.creation_timestamp.map_or(Timestamp::UNIX_EPOCH, |time| time.0),
            deleting: metadata.deletion_timestamp.is_some(),
            deleted_at: metadata.deletion_timestamp.map(|time| time.0),
            finalizers: metadata.finalizers.unwrap_or_default().into_iter().map(Into::into).collect(),
            cluster: labels.get(CLUSTER_NAME_LABEL).cloned(),
            labels,
            annotations,
            crowded: more_labels || more_annotations,
            spec,
            selector,
            status: super::status(status),
            managers,
            problem,
        }
    }

    /// The value of an annotation.
    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.get(key).map(|value| &**value)
    }

    /// Whether our finalizer is on it.
    #[must_use]
    pub fn has_finalizer(&self) -> bool {
        self.finalizers.iter().any(|finalizer| &**finalizer == BAREMETAL_FINALIZER)
    }

    /// How its disks are to be cleaned, when it says so.
    #[must_use]
    pub fn cleaning(&self) -> Option<&'static str> {
        self.spec.automated_cleaning_mode.map(api::own::CleaningMode::as_str)
    }

    /// Whether somebody paused this one claim.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.annotation(PAUSED_ANNOTATION).is_some()
    }

    /// The names of the Secrets it refers to, all in its own namespace.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        let data = [&self.spec.user_data, &self.spec.network_data, &self.spec.meta_data];
        let data = data.into_iter().filter_map(|secret| secret.as_ref()?.name.as_deref());
        let pull = self.spec.image.as_ref().and_then(|image| image.oci_auth_secret_name.as_deref());
        data.chain(pull).filter(|name| !name.is_empty())
    }

    /// The machine of a claim of another kind: quotas count it like a host.
    #[must_use]
    pub fn held_elsewhere(&self) -> Option<Held> {
        if self.spec.kind == BAREMETAL {
            return None;
        }
        Held::of(&self.uid, &self.spec.kind, &self.status, self.annotation(ALLOCATION_ANNOTATION))
    }
}

fn anything() -> Result<Selector, Box<str>> {
    Ok(Selector::default())
}

/// The labels of the hosts that a spec asks for, or what is wrong with them.
pub(super) fn selector(spec: &HostClaimSpec) -> Result<Selector, Box<str>> {
    Selector::read(&spec.host_selector).map_err(|faults| {
        let faults: Vec<String> = faults.iter().map(|fault| format!("spec.hostSelector.{fault}")).collect();
        faults.join("; ").into()
    })
}

/// So many labels and so many annotations of a claim are kept that only its tenant knows the meaning of.
const FOREIGN: usize = HostMetadata::LABELS;
/// The longest value that is kept of an annotation that matters; none that makes sense is longer.
pub const LONGEST: usize = 4096;

/// Whether an annotation asks for something, or tells of something, that matters to the claim.
fn speaks(key: &str) -> bool {
    const KEYS: [&str; 6] = [
        PAUSED_ANNOTATION,
        ALLOCATION_ANNOTATION,
        DETACHED_ANNOTATION,
        BLOCK_MOVE_ANNOTATION,
        DELETE_FOR_MOVE_ANNOTATION,
        UNHEALTHY_ANNOTATION,
    ];
    key.starts_with(REBOOT_ANNOTATION) || KEYS.contains(&key)
}

/// The texts that matter, and of the others as many and as much as there is room for; whether some were left out. A
/// tenant may write a quarter of a megabyte on each of its claims, and every replica keeps all claims.
fn some(all: Option<BTreeMap<String, String>>, matters: fn(&str) -> bool) -> (Texts, bool) {
    let all = all.unwrap_or_default().into_iter().filter(|(key, _)| key != super::LAST_APPLIED);
    let (ours, others): (Vec<_>, Vec<_>) = all.partition(|(key, _)| matters(key));
    let crowded = ours.len() > FOREIGN || others.len() > FOREIGN;
    let ours = ours.into_iter().take(FOREIGN).map(|(key, value)| {
        let value: String = if value.len() > LONGEST { value.chars().take(LONGEST).collect() } else { value };
        (key.into(), value.into())
    });
    let others = others.into_iter().take(FOREIGN).map(|(key, value)| (key.into(), fingerprint(&value)));
    (ours.chain(others).collect(), crowded)
}

/// Those who wrote the status, each once.
fn managers(metadata: &ObjectMeta) -> Box<[Box<str>]> {
    let entries = metadata.managed_fields.iter().flatten();
    let status = entries.filter(|entry| entry.subresource.as_deref() == Some("status"));
    let mut managers: Vec<Box<str>> = status.filter_map(|entry| entry.manager.as_deref().map(Into::into)).collect();
    managers.sort();
    managers.dedup();
    managers.into()
}
