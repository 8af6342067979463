//! AWSMachines.

use std::collections::BTreeMap;

use api::key::ObjectKey;
use api::names::hosts::{
    ABANDON_HOST_ANNOTATION, LAST_HOST_TAGS_ANNOTATION, LAST_SECURITY_GROUPS_ANNOTATION, LAST_TAGS_ANNOTATION,
    LAST_VOLUME_TAGS_ANNOTATION, MACHINE_FINALIZER,
};
use api::names::{CLUSTER_NAME_LABEL, HOSTS_PREFIX, InstanceId, PAUSED_ANNOTATION, WATCH_FILTER_LABEL};
use api::own::{AWSMachineSpec, AWSMachineStatus};
use api::raw::AWSMachine;
use api::reasons::hosts::Reason;
use api::reasons::{DEDICATED_HOST_RELEASE, INSTANCE_READY, READY};
use api::status::{Condition, find};
use jiff::Timestamp;
use kit::feed::Project;
use kit::room::Stand;
use serde_json::Value;

use crate::journal::{Journal, JournalError};

/// AWSMachines, with an index of their clusters.
pub struct Machines;

/// An AWSMachine, as decisions use it.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineFacts {
    /// The server's unique id of the object; it changes when the object is moved.
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
    pub finalizers: Vec<String>,
    /// Which of them is ours.
    pub finalizer: &'static str,
    /// The cluster it belongs to, by its label.
    pub cluster: Option<Box<str>>,
    /// The label by which controllers divide machines among them.
    pub filter: Option<Box<str>>,
    /// The Machine that owns it.
    pub owner: Option<Box<str>>,
    /// The annotations that matter here.
    pub annotations: BTreeMap<String, String>,
    /// Its spec; the default when it cannot be read.
    pub spec: AWSMachineSpec,
    /// Why its spec cannot be read.
    pub problem: Option<Box<str>>,
    /// Its status as stored.
    pub status: AWSMachineStatus,
    /// Its journal.
    pub journal: Result<Journal, JournalError>,
}

/// Whether an annotation is part of what is known of a machine.
pub(crate) fn matters(key: &str) -> bool {
    let ours = key.strip_prefix(HOSTS_PREFIX).is_some_and(|rest| rest.starts_with('/'));
    let theirs =
        [LAST_TAGS_ANNOTATION, LAST_VOLUME_TAGS_ANNOTATION, LAST_SECURITY_GROUPS_ANNOTATION, PAUSED_ANNOTATION];
    ours || theirs.contains(&key)
}

impl MachineFacts {
    /// The facts of a machine as received from a feed or a live read.
    #[must_use]
    pub fn of(machine: AWSMachine) -> Self {
        let AWSMachine { metadata, spec, status } = machine;
        let label = |name: &str| metadata.labels.as_ref().and_then(|l| l.get(name)).map(|v| v.as_str().into());
        let (cluster, filter) = (label(CLUSTER_NAME_LABEL), label(WATCH_FILTER_LABEL));
        let owner = metadata.owner_references.iter().flatten().find(|owner| {
            let group = owner.api_version.split('/').next().unwrap_or_default();
            owner.kind == "Machine" && group == api::views::CLUSTER_API_GROUP
        });
        let annotations: BTreeMap<String, String> =
            metadata.annotations.unwrap_or_default().into_iter().filter(|(key, _)| matters(key)).collect();
        let name = format!(
            "{}/{}",
            metadata.namespace.as_deref().unwrap_or_default(),
            metadata.name.as_deref().unwrap_or_default()
        );
        let journal = Journal::read(&name, |key| annotations.get(key).map(String::as_str));
        // What must be given back is known even when the rest of the spec cannot be read.
        let text = |field: &str| spec.get(field).and_then(Value::as_str).map(str::to_owned);
        let (provider_id, instance_id) = (text("providerID"), text("instanceID"));
        let (spec, problem) = match serde_json::from_value::<AWSMachineSpec>(spec) {
            Ok(spec) => (spec, None),
            Err(error) => {
                let plain = AWSMachineSpec { provider_id, instance_id, ..AWSMachineSpec::default() };
                (plain, Some(format!("spec: {error}").into()))
            }
        };
        Self {
            uid: metadata.uid.unwrap_or_default().into(),
            generation: metadata.generation.unwrap_or_default(),
            created: metadata.creation_timestamp.map_or(Timestamp::UNIX_EPOCH, |time| time.0),
            deleting: metadata.deletion_timestamp.is_some(),
            deleted_at: metadata.deletion_timestamp.map(|time| time.0),
            finalizers: metadata.finalizers.unwrap_or_default(),
            finalizer: MACHINE_FINALIZER,
            cluster,
            filter,
            owner: owner.map(|owner| owner.name.as_str().into()),
            annotations,
            spec,
            problem,
            status: serde_json::from_value(status).unwrap_or_default(),
            journal,
        }
    }

    /// The value of an annotation.
    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.get(key).map(String::as_str)
    }

    /// Whether our finalizer is on it.
    #[must_use]
    pub fn has_finalizer(&self) -> bool {
        self.finalizers.iter().any(|finalizer| finalizer == self.finalizer)
    }

    /// Whether somebody paused this one machine.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.annotations.contains_key(PAUSED_ANNOTATION)
    }

    /// Whether an operator gave its hosts up.
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        self.annotation(ABANDON_HOST_ANNOTATION) == Some("true")
    }

    /// Whether the hosts are given back with the machine.
    #[must_use]
    pub fn releases(&self) -> bool {
        self.spec.dynamic_host_allocation.as_ref().is_none_or(|dynamic| dynamic.releases())
    }

    /// The instance its spec names, by either of two fields.
    #[must_use]
    pub fn instance(&self) -> Option<InstanceId> {
        let named = self.spec.instance_id.as_deref();
        let by_provider = self.spec.provider_id.as_deref().and_then(|id| id.rsplit('/').next());
        by_provider.into_iter().chain(named).find_map(|id| id.parse().ok())
    }

    /// The tags on its hosts as last applied.
    #[must_use]
    pub fn last_host_tags(&self) -> Option<&str> {
        self.annotation(LAST_HOST_TAGS_ANNOTATION)
    }

    /// How it stands; none where another controller looks after it, by the label that divides machines among them.
    #[must_use]
    pub fn stand(&self, filter: Option<&str>) -> Option<Stand> {
        if filter.is_some() && filter != self.filter.as_deref() {
            return None;
        }
        let conditions = &self.status.conditions;
        // A host waits for its instance: while that cannot be ended, this is what stands in the way, and not the wait.
        let stuck = |condition: &Condition| condition.reason == Reason::DeletingFailed.as_str();
        let parts: &[&str] = match find(conditions, INSTANCE_READY) {
            _ if !self.deleting => &[],
            Some(instance) if stuck(instance) => &[INSTANCE_READY],
            _ => &[DEDICATED_HOST_RELEASE, INSTANCE_READY],
        };
        Some(Stand::judged(conditions, READY, parts, self.created, self.deleted_at))
    }

    /// Whether two states of it differ in anything but the status, which we alone write.
    #[must_use]
    pub fn same_but_for_status(&self, other: &Self) -> bool {
        let Self {
            uid,
            generation,
            created: _,
            deleting,
            deleted_at: _,
            finalizers,
            finalizer: _,
            cluster,
            filter,
            owner,
            annotations,
            spec,
            problem,
            status: _,
            journal: _,
        } = self;
        *uid == other.uid
            && *generation == other.generation
            && *deleting == other.deleting
            && *finalizers == other.finalizers
            && *cluster == other.cluster
            && *filter == other.filter
            && *owner == other.owner
            && *annotations == other.annotations
            && *spec == other.spec
            && *problem == other.problem
    }
}

impl Project for Machines {
    type Source = AWSMachine;
    type Slim = MachineFacts;
    const INDEXES: &'static [&'static str] = &["cluster"];

    fn slim(source: AWSMachine) -> MachineFacts {
        MachineFacts::of(source)
    }

    fn keys(_: usize, key: &ObjectKey, slim: &MachineFacts) -> Vec<Box<str>> {
        let of = |cluster: &str| format!("{}/{cluster}", key.namespace().unwrap_or_default()).into();
        slim.cluster.as_deref().map(of).into_iter().collect()
    }
}
