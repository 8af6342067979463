//! Claims.

use api::key::ObjectKey;
use api::meta::ObjectMeta;
use api::names::claims::BAREMETAL_FINALIZER;
use api::names::{CLUSTER_NAME_LABEL, PAUSED_ANNOTATION};
use api::own::{HostClaimSpec, HostClaimStatus};
use api::raw::HostClaim;
use jiff::Timestamp;
use kit::feed::Project;

use super::Texts;
use crate::labels::Selector;

/// HostClaims, with indexes of the Secrets they name, of their clusters and of their uids.
pub struct Claims;

/// A HostClaim, as decisions use it.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimFacts {
    /// The server's unique id of the object.
    pub uid: Box<str>,
    /// The generation of its spec.
    pub generation: i64,
    /// When it was made.
    pub created: Timestamp,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Since when it is being deleted.
    pub deleted_at: Option<Timestamp>,
    /// Its finalizers.
    pub finalizers: Box<[Box<str>]>,
    /// Its labels.
    pub labels: Texts,
    /// Its annotations, without the copy that kubectl keeps of the whole object.
    pub annotations: Texts,
    /// The cluster it belongs to, by its label.
    pub cluster: Option<Box<str>>,
    /// Its spec; the default when it cannot be read.
    pub spec: HostClaimSpec,
    /// The labels of the hosts it wants; nothing can be chosen by one that cannot be used.
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
        let selector = Selector::read(&spec.host_selector).map_err(|faults| {
            let faults: Vec<String> = faults.iter().map(|fault| format!("spec.hostSelector.{fault}")).collect();
            faults.join("; ").into()
        });
        let managers = managers(&metadata);
        Self {
            uid: metadata.uid.unwrap_or_default().into(),
            generation: metadata.generation.unwrap_or_default(),
            created: metadata.creation_timestamp.map_or(Timestamp::UNIX_EPOCH, |time| time.0),
            deleting: metadata.deletion_timestamp.is_some(),
            deleted_at: metadata.deletion_timestamp.map(|time| time.0),
            finalizers: metadata.finalizers.unwrap_or_default().into_iter().map(Into::into).collect(),
            cluster: metadata.labels.as_ref().and_then(|l| l.get(CLUSTER_NAME_LABEL)).map(|v| v.as_str().into()),
            labels: super::texts(metadata.labels, |_| true),
            annotations: super::texts(metadata.annotations, |key| key != super::LAST_APPLIED),
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

impl Project for Claims {
    type Source = HostClaim;
    type Slim = ClaimFacts;
    const INDEXES: &'static [&'static str] = &["secret", "cluster", "uid"];

    fn slim(source: HostClaim) -> ClaimFacts {
        ClaimFacts::of(source)
    }

    fn keys(index: usize, key: &ObjectKey, claim: &ClaimFacts) -> Vec<Box<str>> {
        let beside = |name: &str| ObjectKey::namespaced(key.namespace().unwrap_or_default(), name).to_string().into();
        match index {
            0 => claim.secrets().map(beside).collect(),
            1 => claim.cluster.iter().map(|cluster| beside(cluster)).collect(),
            _ => vec![claim.uid.clone()],
        }
    }
}
