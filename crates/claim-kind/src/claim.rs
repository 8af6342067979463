//! Claims of one kind, as the controller of a kind whose machines are made for them keeps them.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;

use api::key::ObjectKey;
use api::names::claims::{
    BLOCK_MOVE_ANNOTATION, DELETE_FOR_MOVE_ANNOTATION, REBOOT_ANNOTATION, REBOOT_PREFIX, finalizer,
};
use api::names::{CLUSTER_NAME_LABEL, PAUSED_ANNOTATION};
use api::own::{BAREMETAL, HostClaimSpec, HostClaimStatus};
use api::raw::HostClaim;
use api::reasons::{ASSOCIATED, PROVISIONED, READY, SYNCHRONIZED};
use jiff::Timestamp;
use kit::feed::Project;
use kit::room::Stand;
use serde_json::Value;

/// The index of claims by the Secrets they name, each as `namespace/name`.
pub const BY_SECRET: &str = "secret";
/// The index of claims by the Cluster they belong to, as `namespace/name`.
pub const BY_CLUSTER: &str = "cluster";

/// The longest value that is kept of an annotation; none that makes sense is longer.
pub const LONGEST: usize = 4096;
/// So many held reboots of a claim are kept.
const HELD: usize = 64;

/// Labels as they are kept.
pub type Texts = BTreeMap<Box<str>, Box<str>>;

/// A kind that a controller serves.
pub trait Served: Send + Sync + 'static {
    /// Its name.
    const KIND: &'static str;
    /// The argument that names the Secret with the credentials of a claim.
    const IDENTITY: Option<&'static str> = None;

    /// The labels by which quotas tell the machine of a claim from others.
    fn labels(_claim: &ClaimFacts) -> Texts {
        Texts::new()
    }
}

/// HostClaims of one kind, with indexes of the Secrets they name and of their clusters.
pub struct Claims<K>(PhantomData<fn() -> K>);

/// A HostClaim, as decisions use it.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimFacts {
    /// The server's unique id of the object.
    pub uid: Box<str>,
    /// The generation of its spec.
    pub generation: i64,
    /// When it was made.
    pub created: Timestamp,
    /// Since when it is being deleted.
    pub deleted_at: Option<Timestamp>,
    /// Its finalizers.
    pub finalizers: Vec<String>,
    /// The cluster it belongs to, by its label.
    pub cluster: Option<Box<str>>,
    /// The annotations that mean something here.
    pub annotations: Texts,
    /// Its spec; the default, of its kind, when it cannot be read.
    pub spec: HostClaimSpec,
    /// Its status as stored; one that cannot be read is one that was never written.
    pub status: HostClaimStatus,
    /// Why its spec cannot be read.
    pub problem: Option<Box<str>>,
}

impl ClaimFacts {
    /// The facts of a claim as received from a feed or a live read.
    #[must_use]
    pub fn of(claim: HostClaim) -> Self {
        let HostClaim { metadata, spec, status } = claim;
        let kind = kind_of(&spec).to_owned();
        let (spec, problem) = match serde_json::from_value::<HostClaimSpec>(spec) {
            Ok(spec) => (spec, None),
            Err(error) => (HostClaimSpec { kind, ..HostClaimSpec::default() }, Some(format!("spec: {error}").into())),
        };
        let labels = metadata.labels.unwrap_or_default();
        Self {
            uid: metadata.uid.unwrap_or_default().into(),
            generation: metadata.generation.unwrap_or_default(),
            created: metadata.creation_timestamp.map_or(Timestamp::UNIX_EPOCH, |time| time.0),
            deleted_at: metadata.deletion_timestamp.map(|time| time.0),
            finalizers: metadata.finalizers.unwrap_or_default(),
            cluster: labels.get(CLUSTER_NAME_LABEL).map(|name| name.as_str().into()),
            annotations: speaking(metadata.annotations.unwrap_or_default()),
            spec,
            status: serde_json::from_value(status).unwrap_or_default(),
            problem,
        }
    }

    /// Whether it is being deleted.
    #[must_use]
    pub fn is_deleting(&self) -> bool {
        self.deleted_at.is_some()
    }

    /// The value of an annotation.
    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.get(key).map(|value| &**value)
    }

    /// Whether the finalizer of its kind is on it.
    #[must_use]
    pub fn has_finalizer(&self) -> bool {
        self.finalizers.contains(&finalizer(&self.spec.kind))
    }

    /// Whether somebody paused this one claim.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.annotation(PAUSED_ANNOTATION).is_some()
    }

    /// Whether a machine of it was made or is about to be: what is stored before anything is made.
    #[must_use]
    pub fn has_trace(&self) -> bool {
        self.status.is_bound() || self.status.provisioning_state.is_some()
    }

    /// How it stands: what it has to get first says why it is not ready.
    #[must_use]
    pub fn stand(&self) -> Stand {
        let parts = [ASSOCIATED, SYNCHRONIZED, PROVISIONED];
        Stand::judged(&self.status.conditions, READY, &parts, self.created, self.deleted_at)
    }

    /// The keys of the reboots that it holds: while there is one the machine stays off.
    pub fn held_reboots(&self) -> impl Iterator<Item = &str> {
        self.annotations.keys().filter_map(|key| key.strip_prefix(REBOOT_PREFIX))
    }

    /// The names of the Secrets with its data, all in its own namespace.
    pub fn data_secrets(&self) -> impl Iterator<Item = &str> {
        let data = [&self.spec.user_data, &self.spec.network_data, &self.spec.meta_data];
        data.into_iter().filter_map(|secret| secret.as_ref()?.name.as_deref()).filter(|name| !name.is_empty())
    }
}

/// The kind that a claim asks for.
pub(crate) fn kind_of(spec: &Value) -> &str {
    spec.get("kind").and_then(Value::as_str).unwrap_or(BAREMETAL)
}

/// The annotations that ask for something: a tenant may write a quarter of a megabyte of others.
fn speaking(all: BTreeMap<String, String>) -> Texts {
    const KEYS: [&str; 4] = [PAUSED_ANNOTATION, REBOOT_ANNOTATION, BLOCK_MOVE_ANNOTATION, DELETE_FOR_MOVE_ANNOTATION];
    let (held, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|(key, _)| key.starts_with(REBOOT_PREFIX));
    let others = others.into_iter().filter(|(key, _)| KEYS.contains(&key.as_str()));
    let small = |(key, value): (String, String)| -> (Box<str>, Box<str>) {
        let value: String = if value.len() > LONGEST { value.chars().take(LONGEST).collect() } else { value };
        (key.into(), value.into())
    };
    others.chain(held.into_iter().take(HELD)).map(small).collect()
}

impl<K: Served> Project for Claims<K> {
    type Source = HostClaim;
    /// `None` for a claim of another kind, of which nothing is kept.
    type Slim = Option<Arc<ClaimFacts>>;
    const INDEXES: &'static [&'static str] = &[BY_SECRET, BY_CLUSTER];

    fn slim(source: HostClaim) -> Option<Arc<ClaimFacts>> {
        (kind_of(&source.spec) == K::KIND).then(|| Arc::new(ClaimFacts::of(source)))
    }

    fn keys(index: usize, key: &ObjectKey, claim: &Option<Arc<ClaimFacts>>) -> Vec<Box<str>> {
        let Some(claim) = claim else { return Vec::new() };
        let beside = |name: &str| ObjectKey::namespaced(key.namespace().unwrap_or_default(), name).to_string().into();
        match index {
            0 => {
                let identity = K::IDENTITY.and_then(|argument| claim.spec.args.get(argument));
                claim.data_secrets().chain(identity.map(String::as_str)).map(beside).collect()
            }
            _ => claim.cluster.iter().map(|cluster| beside(cluster)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    struct Vm;

    impl Served for Vm {
        const KIND: &'static str = "vm";
        const IDENTITY: Option<&'static str> = Some("identity");
    }

    fn claim(spec: Value) -> HostClaim {
        let metadata = json!({"namespace": "t", "name": "c", "uid": "u", "labels": {CLUSTER_NAME_LABEL: "village"},
            "annotations": {"reboot.metal3.io/a": "", "reboot.metal3.io": "x".repeat(5000), "other": "y"}});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
    }

    #[test]
    fn only_claims_of_the_kind_are_kept_and_found_by_what_they_name() {
        assert_eq!(Claims::<Vm>::slim(claim(json!({"kind": "other"}))), None);
        assert_eq!(Claims::<Vm>::slim(claim(json!({}))), None, "a claim without a kind is one of hosts");
        let slim = Claims::<Vm>::slim(claim(
            json!({"kind": "vm", "args": {"identity": "cloud"}, "userData": {"name": "boot", "namespace": "elsewhere"}}),
        ));
        let keys = |index| Claims::<Vm>::keys(index, &ObjectKey::namespaced("t", "c"), &slim);
        assert_eq!(keys(0), ["t/boot".into(), "t/cloud".into()]);
        assert_eq!(keys(1), ["t/village".into()]);
        let facts = slim.unwrap();
        assert_eq!(facts.held_reboots().collect::<Vec<_>>(), ["a"]);
        assert_eq!(facts.annotation(REBOOT_ANNOTATION).map(str::len), Some(LONGEST));
        assert_eq!(facts.annotation("other"), None);
    }

    #[test]
    fn a_claim_that_cannot_be_read_is_still_known_by_its_kind() {
        let facts = Claims::<Vm>::slim(claim(json!({"kind": "vm", "poweredOn": "maybe"}))).unwrap();
        assert!(facts.problem.is_some() && facts.spec.kind == "vm" && !facts.has_trace());
    }
}
