//! The kinds that users write.

use api::key::ObjectKey;
use api::names::clusters::{CILIUM_INSTALLED_ANNOTATION, FINALIZER, ON};
use api::own::anywhere as own;
use api::raw;
use api::reasons::clusters::VALID;
use api::reasons::{PAUSED, READY};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kit::feed::Project;
use kit::room::Stand;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::admit::{default_cluster, default_datacenter, is_paused, is_self_managed};

/// Metadata without what changes with every write.
fn steady(mut metadata: ObjectMeta) -> ObjectMeta {
    metadata.resource_version = None;
    metadata.managed_fields = None;
    metadata
}

/// Whether something changed that users write.
pub(crate) fn moved(old: &ObjectMeta, new: &ObjectMeta) -> bool {
    old.generation != new.generation
        || old.annotations != new.annotations
        || old.uid != new.uid
        || old.deletion_timestamp != new.deletion_timestamp
}

fn decode<T: DeserializeOwned + Default>(part: Value) -> (T, Option<Box<str>>) {
    let part = if part.is_null() { Value::Object(serde_json::Map::new()) } else { part };
    match serde_json::from_value(part) {
        Ok(read) => (read, None),
        Err(error) => (T::default(), Some(format!("spec: {error}").into())),
    }
}

/// A status, part by part: one that cannot be read must not empty those that can, for by them a cluster is known to be
/// carried out.
pub(crate) fn read_status(status: Value) -> own::ClusterStatus {
    let Value::Object(parts) = status else { return own::ClusterStatus::default() };
    let whole = |value: &Value| serde_json::from_value::<own::ClusterStatus>(value.clone());
    if let Ok(status) = whole(&Value::Object(parts.clone())) {
        return status;
    }
    let good = parts.into_iter().filter_map(|(name, mut part)| {
        if let ("conditions", Value::Array(all)) = (name.as_str(), &mut part) {
            all.retain(|one| serde_json::from_value::<own::GradedCondition>(one.clone()).is_ok());
        }
        let alone = serde_json::json!({ name.as_str(): part });
        whole(&alone).is_ok().then_some((name, part))
    });
    whole(&Value::Object(good.collect())).unwrap_or_default()
}

/// A Cluster, as decisions use it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClusterFacts {
    /// The object with its defaults; without a status.
    pub object: own::Cluster,
    /// Its status as stored.
    pub status: own::ClusterStatus,
    /// Why its spec cannot be read.
    pub problem: Option<Box<str>>,
}

impl ClusterFacts {
    /// The facts of a Cluster as received.
    #[must_use]
    pub fn of(source: raw::Cluster) -> Self {
        let manager = source.spec.pointer("/managementCluster/name").and_then(Value::as_str).map(str::to_owned);
        let (mut spec, problem) = decode::<own::ClusterSpec>(source.spec);
        default_cluster(&mut spec);
        if problem.is_some() {
            // Whether it manages itself is known even when the rest of it cannot be read.
            spec.management_cluster = manager.map(|name| own::ManagementCluster { name });
        }
        let object = own::Cluster { metadata: steady(source.metadata), spec, status: None };
        Self { object, status: read_status(source.status), problem }
    }

    /// Whether only its status differs.
    #[must_use]
    pub fn same_but_for_status(&self, other: &Self) -> bool {
        self.object == other.object && self.problem == other.problem
    }

    /// Its metadata.
    #[must_use]
    pub fn meta(&self) -> &ObjectMeta {
        &self.object.metadata
    }

    /// Its uid.
    #[must_use]
    pub fn uid(&self) -> &str {
        self.meta().uid.as_deref().unwrap_or_default()
    }

    /// The generation of its spec.
    #[must_use]
    pub fn generation(&self) -> i64 {
        self.meta().generation.unwrap_or_default()
    }

    /// When it was made, in seconds.
    #[must_use]
    pub fn created(&self) -> i64 {
        self.meta().creation_timestamp.as_ref().map(|time| time.0.as_second()).unwrap_or_default()
    }

    /// How it stands for those who count; none where it manages itself, which Berth does not look after.
    #[must_use]
    pub fn stand(&self) -> Option<Stand> {
        if self.is_self_managed() {
            return None;
        }
        let ready = self.status.conditions.iter().find(|condition| condition.type_ == READY);
        let because: &str = match ready {
            _ if self.is_paused() => PAUSED,
            _ if !self.status.failure_reason.is_empty() => &self.status.failure_reason,
            Some(ready) => &ready.reason,
            None => "",
        };
        let made = Timestamp::from_second(self.created()).unwrap_or_default();
        Some(match (&self.meta().deletion_timestamp, ready) {
            (Some(since), _) => Stand::deleting(because, since.0),
            (None, Some(ready)) if ready.status == "True" => Stand::ready(),
            (None, Some(ready)) => Stand::waiting(because, ready.last_transition_time.0),
            (None, None) if because.is_empty() => Stand::unjudged(made),
            (None, None) => Stand::waiting(because, made),
        })
    }

    /// Its finalizers.
    #[must_use]
    pub fn finalizers(&self) -> &[String] {
        self.meta().finalizers.as_deref().unwrap_or_default()
    }

    /// Whether our finalizer is on it.
    #[must_use]
    pub fn has_finalizer(&self) -> bool {
        self.finalizers().iter().any(|finalizer| finalizer == FINALIZER)
    }

    /// Whether it is being deleted.
    #[must_use]
    pub fn is_deleting(&self) -> bool {
        self.meta().deletion_timestamp.is_some()
    }

    /// Whether it asks to be left alone.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        is_paused(self.meta())
    }

    /// Whether it manages itself.
    #[must_use]
    pub fn is_self_managed(&self) -> bool {
        is_self_managed(&self.object)
    }

    /// The value of an annotation.
    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.meta().annotations.as_ref()?.get(key).map(String::as_str)
    }

    /// Whether its network plugin was installed once.
    #[must_use]
    pub fn had_cni(&self) -> bool {
        self.annotation(CILIUM_INSTALLED_ANNOTATION).is_some()
    }

    /// Whether an annotation switches something on.
    #[must_use]
    pub fn is_on(&self, key: &str) -> bool {
        self.annotation(key) == Some(ON)
    }

    /// The name of its datacenter.
    #[must_use]
    pub fn datacenter(&self) -> &str {
        self.object.spec.datacenter_ref.as_ref().map(|reference| reference.name.as_str()).unwrap_or_default()
    }

    /// The names of the machine configurations it refers to, each once, in order.
    #[must_use]
    pub fn machines(&self) -> Vec<&str> {
        let spec = &self.object.spec;
        let plane = spec.control_plane_configuration.iter().filter_map(|plane| plane.machine_group_ref.as_ref());
        let groups = spec.worker_node_group_configurations.iter().filter_map(|group| group.machine_group_ref.as_ref());
        let mut names: Vec<&str> = plane.chain(groups).map(|reference| reference.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// The name of the cluster that manages it.
    #[must_use]
    pub fn manager(&self) -> &str {
        self.object.spec.management_cluster.as_ref().map(|manager| manager.name.as_str()).unwrap_or_default()
    }
}

/// Clusters, with indexes of what they refer to.
pub struct Clusters;

impl Project for Clusters {
    type Source = raw::Cluster;
    type Slim = ClusterFacts;
    const INDEXES: &'static [&'static str] = &["datacenter", "machine", "identity", "manager", "name"];

    fn slim(source: raw::Cluster) -> ClusterFacts {
        ClusterFacts::of(source)
    }

    fn keys(index: usize, key: &ObjectKey, slim: &ClusterFacts) -> Vec<Box<str>> {
        let beside = |name: &str| format!("{}/{name}", key.namespace().unwrap_or_default()).into_boxed_str();
        match index {
            0 => vec![beside(slim.datacenter())],
            1 => slim.machines().into_iter().map(beside).collect(),
            2 => slim.object.spec.identity_provider_refs.iter().map(|reference| beside(&reference.name)).collect(),
            3 => vec![slim.manager().into()],
            _ => vec![key.name().into()],
        }
    }
}

/// A CloudStackDatacenterConfig, as decisions use it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DatacenterFacts {
    /// The object with its defaults and its status as stored.
    pub object: own::CloudStackDatacenterConfig,
    /// Why its spec cannot be read.
    pub problem: Option<Box<str>>,
}

impl DatacenterFacts {
    /// The facts of a datacenter as received.
    #[must_use]
    pub fn of(source: raw::CloudStackDatacenterConfig) -> Self {
        let (mut spec, problem) = decode::<own::CloudStackDatacenterConfigSpec>(source.spec);
        default_datacenter(&mut spec);
        let status = serde_json::from_value(source.status).unwrap_or_default();
        let object = own::CloudStackDatacenterConfig { metadata: steady(source.metadata), spec, status };
        Self { object, problem }
    }

    /// Its status as stored.
    #[must_use]
    pub fn status(&self) -> own::CloudStackDatacenterConfigStatus {
        self.object.status.clone().unwrap_or_default()
    }

    /// How it stands for those who count.
    #[must_use]
    pub fn stand(&self) -> Stand {
        let metadata = &self.object.metadata;
        let made = metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
        let deleted = metadata.deletion_timestamp.as_ref().map(|time| time.0);
        Stand::judged(&self.status().conditions, VALID, &[], made, deleted)
    }

    /// Whether nothing differs by which clusters decide, but perhaps its owners. Its conditions, what its zones were found to
    /// be and when, and its labels are for people.
    #[must_use]
    pub fn same_for_clusters(&self, other: &Self) -> bool {
        let used = |facts: &Self| {
            let status = facts.status();
            (status.spec_valid, status.failure_message, status.observed_generation)
        };
        let (one, two) = (&self.object, &other.object);
        !moved(&one.metadata, &two.metadata)
            && one.spec == two.spec
            && self.problem == other.problem
            && used(self) == used(other)
    }
}

/// Datacenters, with an index of the secrets of their zones.
pub struct Datacenters;

impl Project for Datacenters {
    type Source = raw::CloudStackDatacenterConfig;
    type Slim = DatacenterFacts;
    const INDEXES: &'static [&'static str] = &["secret"];

    fn slim(source: raw::CloudStackDatacenterConfig) -> DatacenterFacts {
        DatacenterFacts::of(source)
    }

    fn keys(_: usize, _: &ObjectKey, slim: &DatacenterFacts) -> Vec<Box<str>> {
        let mut names: Vec<Box<str>> =
            slim.object.spec.availability_zones.iter().map(|zone| zone.credentials_ref.as_str().into()).collect();
        names.sort();
        names.dedup();
        names
    }
}

/// A CloudStackMachineConfig, as decisions use it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MachineFacts {
    /// The object with its status as stored.
    pub object: own::CloudStackMachineConfig,
    /// Why its spec cannot be read.
    pub problem: Option<Box<str>>,
}

/// Machine configurations.
pub struct Machines;

impl Project for Machines {
    type Source = raw::CloudStackMachineConfig;
    type Slim = MachineFacts;

    fn slim(source: raw::CloudStackMachineConfig) -> MachineFacts {
        let (spec, problem) = decode(source.spec);
        let status = serde_json::from_value(source.status).unwrap_or_default();
        let object = own::CloudStackMachineConfig { metadata: steady(source.metadata), spec, status };
        MachineFacts { object, problem }
    }
}

impl MachineFacts {
    /// Whether nothing differs by which clusters decide, but perhaps its owners. Its status is what they say of it themselves.
    #[must_use]
    pub fn same_for_clusters(&self, other: &Self) -> bool {
        let (one, two) = (&self.object, &other.object);
        !moved(&one.metadata, &two.metadata) && one.spec == two.spec && self.problem == other.problem
    }
}

/// What is kept of who tells the API server who users are.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IdentityFacts {
    /// Its metadata.
    pub metadata: ObjectMeta,
    /// What it says, if it is an OIDCConfig.
    pub oidc: own::OIDCConfigSpec,
    /// Why its spec cannot be read.
    pub problem: Option<Box<str>>,
}

/// OIDCConfigs.
pub struct Oidcs;

impl Project for Oidcs {
    type Source = raw::OIDCConfig;
    type Slim = IdentityFacts;

    fn slim(source: raw::OIDCConfig) -> IdentityFacts {
        let (oidc, problem) = decode(source.spec);
        IdentityFacts { metadata: steady(source.metadata), oidc, problem }
    }
}

/// AWSIamConfigs.
pub struct Iams;

impl Project for Iams {
    type Source = raw::AWSIamConfig;
    type Slim = IdentityFacts;

    fn slim(source: raw::AWSIamConfig) -> IdentityFacts {
        IdentityFacts { metadata: steady(source.metadata), ..IdentityFacts::default() }
    }
}

/// A bundle.
pub type Bundle = own::Bundles;

/// Bundles.
pub struct AllBundles;

impl Project for AllBundles {
    type Source = raw::Bundles;
    type Slim = Bundle;

    fn slim(source: raw::Bundles) -> Bundle {
        own::Bundles { metadata: steady(source.metadata), spec: decode(source.spec).0 }
    }
}

/// A release.
pub type Release = own::EKSARelease;

/// Releases.
pub struct Releases;

impl Project for Releases {
    type Source = raw::EKSARelease;
    type Slim = Release;

    fn slim(source: raw::EKSARelease) -> Release {
        own::EKSARelease { metadata: steady(source.metadata), spec: decode(source.spec).0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_cannot_be_read_neither_makes_a_cluster_its_own_manager_nor_empties_its_status() {
        let source: raw::Cluster = serde_json::from_value(json!({
            "metadata": {"name": "c", "namespace": "n"},
            "spec": {"managementCluster": {"name": "mgmt"}, "workerNodeGroupConfigurations": "many"},
            "status": {
                "reconciledGeneration": 4, "renderRevision": 1, "inputsHash": "h",
                "eksdReleaseRef": {"name": "only"},
                "conditions": [
                    {"type": "Ready", "status": "True", "lastTransitionTime": null},
                    {"type": "WorkersReady", "status": "True", "lastTransitionTime": "2030-01-01T00:00:00Z"},
                ],
            },
        }))
        .unwrap();
        let facts = ClusterFacts::of(source);
        assert!(facts.problem.is_some() && !facts.is_self_managed());
        assert_eq!((facts.status.reconciled_generation, facts.status.inputs_hash.as_str()), (Some(4), "h"));
        assert_eq!(facts.status.conditions.len(), 1);
    }
}
