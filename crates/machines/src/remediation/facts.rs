//! What is kept of the objects that remediation looks at.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::key::ObjectKey;
use api::names::claims::{REBOOT_PREFIX, UNHEALTHY_ANNOTATION};
use api::own::metal3::{Metal3RemediationSpec, Metal3RemediationStatus};
use api::own::{HostClaimSpec, HostClaimStatus};
use api::raw;
use api::views::{CLUSTER_API_GROUP, INFRASTRUCTURE_GROUP, Machine};
use kit::feed::{Feed, Project};
use kit::manager::{self, Manager};

use super::names::{ANNOTATIONS_BACKUP, FINALIZER, LABELS_BACKUP, OWNER_REMEDIATED};
use crate::config::Config;
use crate::data::facts::{Clusters, Head, MetalMachines, Owner, owner, read};
use crate::data::names::beside;
use crate::facts::Secrets;

/// Metal3Remediations.
pub struct Remediations;

/// A Metal3Remediation, as decisions use it.
#[derive(Clone, Debug, PartialEq)]
pub struct RemediationFacts {
    /// Its metadata.
    pub head: Head,
    /// The Machine that is ill.
    pub machine: Option<Owner>,
    /// The annotations of the Node before it was deleted.
    pub annotations: Option<Box<str>>,
    /// The labels of the Node before it was deleted.
    pub labels: Option<Box<str>>,
    /// Its spec.
    pub spec: Metal3RemediationSpec,
    /// Its status as stored.
    pub status: Metal3RemediationStatus,
}

impl RemediationFacts {
    /// Whether it is ours to keep.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.head.has(FINALIZER)
    }

    /// Whether the Node was stored before it was deleted.
    #[must_use]
    pub fn has_backup(&self) -> bool {
        self.annotations.is_some() || self.labels.is_some()
    }
}

impl Project for Remediations {
    type Source = raw::Metal3Remediation;
    type Slim = RemediationFacts;
    const INDEXES: &'static [&'static str] = &["machine"];

    fn slim(source: Self::Source) -> RemediationFacts {
        let note = |key: &str| -> Option<Box<str>> {
            source.metadata.annotations.as_ref().and_then(|all| all.get(key)).map(|text| text.as_str().into())
        };
        RemediationFacts {
            head: Head::of(&source.metadata),
            machine: owner(&source.metadata, CLUSTER_API_GROUP, "Machine"),
            annotations: note(ANNOTATIONS_BACKUP),
            labels: note(LABELS_BACKUP),
            spec: read(source.spec),
            status: read(source.status),
        }
    }

    fn keys(_: usize, key: &ObjectKey, facts: &RemediationFacts) -> Vec<Box<str>> {
        facts.machine.iter().map(|machine| beside(key, &machine.name).to_string().into()).collect()
    }
}

/// Machines, as far as their remediation depends on them.
pub struct Patients;

/// A Machine, as decisions about its remediation use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatientFacts {
    /// The server's unique id of the object.
    pub uid: Box<str>,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// The cluster it belongs to.
    pub cluster: Option<Box<str>>,
    /// Its Metal3Machine.
    pub metal: Option<Box<str>>,
    /// Its Node.
    pub node: Option<Box<str>>,
    /// Whether its owner was asked to replace it.
    pub handed_over: bool,
}

impl Project for Patients {
    type Source = Machine;
    type Slim = PatientFacts;
    const INDEXES: &'static [&'static str] = &["metal"];

    fn slim(source: Machine) -> PatientFacts {
        let metal = source.spec.infrastructure_ref.filter(|infrastructure| infrastructure.kind == "Metal3Machine");
        let asked = source.status.conditions.get(OWNER_REMEDIATED);
        PatientFacts {
            uid: source.metadata.uid.unwrap_or_default().into(),
            deleting: source.metadata.deletion_timestamp.is_some(),
            cluster: source.spec.cluster_name.map(Into::into),
            metal: metal.map(|metal| metal.name.into()),
            node: source.status.node_name.map(Into::into),
            handed_over: asked.is_some_and(|condition| condition.status == "False"),
        }
    }

    fn keys(_: usize, key: &ObjectKey, patient: &PatientFacts) -> Vec<Box<str>> {
        patient.metal.iter().map(|metal| beside(key, metal).to_string().into()).collect()
    }
}

/// HostClaims, as far as remediation depends on them.
pub struct Powers;

/// A HostClaim, as decisions about remediation use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PowerFacts {
    /// The server's unique id of the object.
    pub uid: Box<str>,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// The uid of the Metal3Machine it was made for.
    pub machine: Option<Box<str>>,
    /// Whether its machine is to be on.
    pub wanted: bool,
    /// Whether its machine is on, as far as anybody knows.
    pub on: Option<bool>,
    /// The annotations that keep its machine off.
    pub held_off: BTreeSet<Box<str>>,
    /// Whether its machine must not be used again.
    pub unhealthy: bool,
}

impl Project for Powers {
    type Source = raw::HostClaim;
    type Slim = PowerFacts;

    fn slim(source: raw::HostClaim) -> PowerFacts {
        let (spec, status): (HostClaimSpec, HostClaimStatus) = (read(source.spec), read(source.status));
        let metadata = &source.metadata;
        let notes = || metadata.annotations.iter().flatten();
        PowerFacts {
            uid: metadata.uid.as_deref().unwrap_or_default().into(),
            deleting: metadata.deletion_timestamp.is_some(),
            machine: owner(metadata, INFRASTRUCTURE_GROUP, "Metal3Machine").map(|owner| owner.uid),
            wanted: spec.wants_power(),
            on: status.powered_on,
            held_off: notes()
                .filter(|(key, _)| key.starts_with(REBOOT_PREFIX))
                .map(|(key, _)| key.as_str().into())
                .collect(),
            unhealthy: notes().any(|(key, _)| key == UNHEALTHY_ANNOTATION),
        }
    }
}

/// Everything that is followed.
#[derive(Clone)]
pub struct World {
    /// Metal3Remediations.
    pub remediations: Feed<Remediations>,
    /// Machines.
    pub patients: Feed<Patients>,
    /// Metal3Machines.
    pub metal: Feed<MetalMachines>,
    /// HostClaims.
    pub powers: Feed<Powers>,
    /// Clusters, for their pauses.
    pub clusters: Feed<Clusters>,
    /// Secrets, for the versions of kubeconfigs.
    pub secrets: Feed<Secrets>,
    /// The settings of the room.
    pub config: Arc<Config>,
}

impl World {
    /// Starts, or joins, the feeds.
    ///
    /// # Errors
    /// When another room follows one of the kinds in a way that cannot be shared.
    pub fn follow(manager: &Manager, config: Arc<Config>) -> Result<Self, manager::Error> {
        Ok(Self {
            remediations: manager.feed()?,
            patients: manager.feed()?,
            metal: manager.feed()?,
            powers: manager.feed()?,
            clusters: manager.feed()?,
            secrets: manager.feed()?,
            config,
        })
    }

    /// Waits until every index is complete, or known to have nothing to hold.
    pub async fn settled(&self) {
        self.remediations.settled().await;
        self.patients.settled().await;
        self.metal.settled().await;
        self.powers.settled().await;
        self.clusters.settled().await;
        self.secrets.settled().await;
    }
}
