//! `Machine`, `MachineSet`, `MachineDeployment` and `MachinePool` of Cluster API.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

use super::common::{ConditionView, Conditions, Failure, ObjectRef, RawDeprecated, RawNewer, RawRef, read_ref};
use super::soft::{or_default, soft, soft_structs, text};
use crate::meta::{lean_meta, owned_meta};

/// A machine that is, or is to become, a node.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Machine {
    /// Metadata without `managedFields`.
    #[serde(default, deserialize_with = "lean_meta")]
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(default, deserialize_with = "or_default")]
    pub spec: MachineSpec,
    /// What is there.
    #[serde(default, deserialize_with = "or_default")]
    pub status: MachineStatus,
}

crate::view! { Machine, group: super::CLUSTER_API_GROUP, versions: ["v1beta2", "v1beta1"], plural: "machines", scope: Namespaced }

/// A number of equal machines.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct MachineSet {
    /// Metadata, with the owners of annotations.
    #[serde(default, deserialize_with = "owned_meta")]
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(default, deserialize_with = "or_default")]
    pub spec: MachineGroupSpec,
    /// What is there.
    #[serde(default, deserialize_with = "or_default")]
    pub status: MachineGroupStatus,
}

crate::view! { MachineSet, group: super::CLUSTER_API_GROUP, versions: ["v1beta2", "v1beta1"], plural: "machinesets", scope: Namespaced }

/// A number of equal machines that can be changed by rolling them over.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct MachineDeployment {
    /// Metadata, with the owners of annotations.
    #[serde(default, deserialize_with = "owned_meta")]
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(default, deserialize_with = "or_default")]
    pub spec: MachineGroupSpec,
    /// What is there.
    #[serde(default, deserialize_with = "or_default")]
    pub status: MachineGroupStatus,
}

crate::view! { MachineDeployment, group: super::CLUSTER_API_GROUP, versions: ["v1beta2", "v1beta1"], plural: "machinedeployments", scope: Namespaced }

/// A number of equal machines that the infrastructure itself keeps.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct MachinePool {
    /// Metadata, with the owners of annotations.
    #[serde(default, deserialize_with = "owned_meta")]
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(default, deserialize_with = "or_default")]
    pub spec: MachineGroupSpec,
    /// What is there.
    #[serde(default, deserialize_with = "or_default")]
    pub status: MachineGroupStatus,
}

crate::view! { MachinePool, group: super::CLUSTER_API_GROUP, versions: ["v1beta2", "v1beta1"], plural: "machinepools", scope: Namespaced }

/// What is wanted of a machine.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(from = "RawMachineSpec")]
pub struct MachineSpec {
    /// The cluster the machine belongs to.
    pub cluster_name: Option<String>,
    /// The object that makes the bootstrap data.
    pub bootstrap_ref: Option<ObjectRef>,
    /// The secret that holds the bootstrap data, once it is there.
    pub data_secret_name: Option<String>,
    /// The infrastructure machine object.
    pub infrastructure_ref: Option<ObjectRef>,
    /// The namespace that reference names, which only the older API can.
    pub infrastructure_namespace: Option<String>,
    /// Kubernetes version.
    pub version: Option<String>,
    /// Provider id as written.
    pub provider_id: Option<String>,
    /// The failure domain the machine is to run in.
    pub failure_domain: Option<String>,
    /// Taints of the node.
    pub taints: Vec<Taint>,
}

/// A taint of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Taint {
    /// The key.
    #[serde(default, deserialize_with = "or_default")]
    pub key: String,
    /// The value, often empty.
    #[serde(default, deserialize_with = "or_default")]
    pub value: String,
    /// What it does to pods; unknown effects are kept.
    #[serde(default, deserialize_with = "or_default")]
    pub effect: String,
}

/// An address of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct MachineAddress {
    /// `InternalIP`, `Hostname` and so on; unknown ones are kept.
    #[serde(default, rename = "type", deserialize_with = "or_default")]
    pub type_: String,
    /// The address.
    #[serde(default, deserialize_with = "or_default")]
    pub address: String,
}

/// What is there of a machine.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(from = "RawMachineStatus")]
pub struct MachineStatus {
    /// The phase; unknown ones are kept.
    pub phase: Option<String>,
    /// The node the machine became.
    pub node_name: Option<String>,
    /// Addresses.
    pub addresses: Vec<MachineAddress>,
    /// Whether the infrastructure was provisioned.
    pub infrastructure_provisioned: bool,
    /// Whether the bootstrap data was made.
    pub bootstrap_data_secret_created: bool,
    /// A failure that the older contract calls terminal.
    pub failure: Option<Failure>,
    /// The generation the status speaks of.
    pub observed_generation: Option<i64>,
    /// The conditions.
    pub conditions: Conditions,
}

/// What is wanted of a MachineSet or MachineDeployment.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineGroupSpec {
    /// The cluster the machines belong to.
    #[serde(default, deserialize_with = "text")]
    pub cluster_name: Option<String>,
    /// How many machines are wanted.
    #[serde(default, deserialize_with = "soft")]
    pub replicas: Option<i32>,
    /// Whether a MachineDeployment is paused; a MachineSet never is.
    #[serde(default, deserialize_with = "or_default")]
    pub paused: bool,
    /// What the machines look like.
    #[serde(default, deserialize_with = "or_default")]
    pub template: MachineTemplate,
}

/// What the machines of a group look like.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(from = "RawMachineTemplate")]
pub struct MachineTemplate {
    /// Labels of the machines.
    pub labels: BTreeMap<String, String>,
    /// Annotations of the machines.
    pub annotations: BTreeMap<String, String>,
    /// Spec of the machines.
    pub spec: MachineSpec,
}

/// What is there of a MachineSet or MachineDeployment.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(from = "RawMachineGroupStatus")]
pub struct MachineGroupStatus {
    /// The phase of a MachineDeployment; unknown ones are kept.
    pub phase: Option<String>,
    /// Machines there are.
    pub replicas: Option<i32>,
    /// Machines that are ready.
    pub ready_replicas: Option<i32>,
    /// Machines that have been ready for long enough.
    pub available_replicas: Option<i32>,
    /// Machines that look like the template.
    pub up_to_date_replicas: Option<i32>,
    /// The generation the status speaks of.
    pub observed_generation: Option<i64>,
    /// The conditions.
    pub conditions: Conditions,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawMachineSpec {
    #[serde(default, deserialize_with = "text")]
    cluster_name: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    bootstrap: RawBootstrap,
    #[serde(default, deserialize_with = "soft")]
    infrastructure_ref: Option<RawRef>,
    #[serde(default, deserialize_with = "text")]
    version: Option<String>,
    #[serde(default, rename = "providerID", deserialize_with = "text")]
    provider_id: Option<String>,
    #[serde(default, deserialize_with = "text")]
    failure_domain: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    taints: Vec<Taint>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawBootstrap {
    #[serde(default, deserialize_with = "soft")]
    config_ref: Option<RawRef>,
    #[serde(default, deserialize_with = "text")]
    data_secret_name: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawMachineStatus {
    #[serde(default, deserialize_with = "text")]
    phase: Option<String>,
    #[serde(default, deserialize_with = "soft")]
    node_ref: Option<RawRef>,
    #[serde(default, deserialize_with = "or_default")]
    addresses: Vec<MachineAddress>,
    #[serde(default, deserialize_with = "soft")]
    infrastructure_ready: Option<bool>,
    #[serde(default, deserialize_with = "soft")]
    bootstrap_ready: Option<bool>,
    #[serde(default, deserialize_with = "or_default")]
    initialization: RawInitialization,
    #[serde(default, deserialize_with = "text")]
    failure_reason: Option<String>,
    #[serde(default, deserialize_with = "text")]
    failure_message: Option<String>,
    #[serde(default, deserialize_with = "soft")]
    observed_generation: Option<i64>,
    #[serde(default, deserialize_with = "or_default")]
    conditions: Vec<ConditionView>,
    #[serde(default, deserialize_with = "soft")]
    v1beta2: Option<RawNewer>,
    #[serde(default, deserialize_with = "or_default")]
    deprecated: RawDeprecated,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawInitialization {
    #[serde(default, deserialize_with = "soft")]
    infrastructure_provisioned: Option<bool>,
    #[serde(default, deserialize_with = "soft")]
    bootstrap_data_secret_created: Option<bool>,
}

#[derive(Default, Deserialize)]
struct RawMachineTemplate {
    #[serde(default, deserialize_with = "or_default")]
    metadata: RawTemplateMeta,
    #[serde(default, deserialize_with = "or_default")]
    spec: MachineSpec,
}

#[derive(Default, Deserialize)]
struct RawTemplateMeta {
    #[serde(default, deserialize_with = "or_default")]
    labels: BTreeMap<String, String>,
    #[serde(default, deserialize_with = "or_default")]
    annotations: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawMachineGroupStatus {
    #[serde(default, deserialize_with = "text")]
    phase: Option<String>,
    #[serde(default, deserialize_with = "soft")]
    replicas: Option<i32>,
    #[serde(default, deserialize_with = "soft")]
    ready_replicas: Option<i32>,
    #[serde(default, deserialize_with = "soft")]
    available_replicas: Option<i32>,
    #[serde(default, deserialize_with = "soft")]
    up_to_date_replicas: Option<i32>,
    #[serde(default, deserialize_with = "soft")]
    updated_replicas: Option<i32>,
    #[serde(default, deserialize_with = "soft")]
    observed_generation: Option<i64>,
    #[serde(default, deserialize_with = "or_default")]
    conditions: Vec<ConditionView>,
    #[serde(default, deserialize_with = "soft")]
    v1beta2: Option<RawNewer>,
    #[serde(default, deserialize_with = "or_default")]
    deprecated: RawDeprecated,
}

soft_structs!(
    MachineSpec,
    MachineStatus,
    MachineAddress,
    MachineGroupSpec,
    MachineGroupStatus,
    MachineTemplate,
    Taint,
    RawBootstrap,
    RawInitialization,
    RawTemplateMeta
);

impl From<RawMachineSpec> for MachineSpec {
    fn from(raw: RawMachineSpec) -> Self {
        Self {
            cluster_name: raw.cluster_name,
            bootstrap_ref: read_ref(raw.bootstrap.config_ref),
            data_secret_name: raw.bootstrap.data_secret_name,
            infrastructure_namespace: raw.infrastructure_ref.as_ref().and_then(RawRef::namespace).map(str::to_owned),
            infrastructure_ref: read_ref(raw.infrastructure_ref),
            version: raw.version,
            provider_id: raw.provider_id,
            failure_domain: raw.failure_domain,
            taints: raw.taints,
        }
    }
}

impl From<RawMachineStatus> for MachineStatus {
    fn from(raw: RawMachineStatus) -> Self {
        let older = raw.deprecated.v1beta1.unwrap_or_default();
        let done = raw.initialization;
        Self {
            phase: raw.phase,
            node_name: read_ref(raw.node_ref).map(|r| r.name),
            addresses: raw.addresses,
            infrastructure_provisioned: done.infrastructure_provisioned.or(raw.infrastructure_ready).unwrap_or(false),
            bootstrap_data_secret_created: done.bootstrap_data_secret_created.or(raw.bootstrap_ready).unwrap_or(false),
            failure: Failure::read(
                raw.failure_reason.or(older.failure_reason),
                raw.failure_message.or(older.failure_message),
            ),
            observed_generation: raw.observed_generation,
            conditions: Conditions::read(raw.conditions, raw.v1beta2.map(|n| n.conditions), Some(older.conditions)),
        }
    }
}

impl From<RawMachineTemplate> for MachineTemplate {
    fn from(raw: RawMachineTemplate) -> Self {
        Self { labels: raw.metadata.labels, annotations: raw.metadata.annotations, spec: raw.spec }
    }
}

impl From<RawMachineGroupStatus> for MachineGroupStatus {
    fn from(raw: RawMachineGroupStatus) -> Self {
        let older = raw.deprecated.v1beta1.map(|o| o.conditions);
        // The counters of the newer contract follow other rules than the older ones of the same name, so those of the
        // newer contract win wherever they are.
        let newer = raw.v1beta2.as_ref();
        let (ready, available, up_to_date) = (
            newer.and_then(|n| n.ready_replicas),
            newer.and_then(|n| n.available_replicas),
            newer.and_then(|n| n.up_to_date_replicas),
        );
        Self {
            phase: raw.phase,
            replicas: raw.replicas,
            ready_replicas: ready.or(raw.ready_replicas),
            available_replicas: available.or(raw.available_replicas),
            up_to_date_replicas: up_to_date.or(raw.up_to_date_replicas).or(raw.updated_replicas),
            observed_generation: raw.observed_generation,
            conditions: Conditions::read(raw.conditions, raw.v1beta2.map(|n| n.conditions), older),
        }
    }
}
