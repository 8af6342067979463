//! `KubeadmControlPlane` and `MachineHealthCheck` of Cluster API.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

use super::common::{ConditionView, Conditions, ObjectRef, RawDeprecated, RawNewer, RawRef, read_ref};
use super::soft::{or_default, soft, soft_structs, text};
use crate::meta::lean_meta;

/// Group of the kinds that make machines nodes.
pub const BOOTSTRAP_GROUP: &str = "bootstrap.cluster.x-k8s.io";

/// A control plane that kubeadm makes.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct KubeadmControlPlane {
    /// Metadata without `managedFields`.
    #[serde(default, deserialize_with = "lean_meta")]
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(default, deserialize_with = "or_default")]
    pub spec: KubeadmControlPlaneSpec,
    /// What is there.
    #[serde(default, deserialize_with = "or_default")]
    pub status: KubeadmControlPlaneStatus,
}

crate::view! { KubeadmControlPlane, group: super::CONTROL_PLANE_GROUP, versions: ["v1beta2", "v1beta1"], plural: "kubeadmcontrolplanes", scope: Namespaced }

/// What is wanted of a control plane.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(from = "RawSpec")]
pub struct KubeadmControlPlaneSpec {
    /// How many machines are wanted.
    pub replicas: Option<i32>,
    /// Kubernetes version.
    pub version: Option<String>,
    /// The template of its machines.
    pub infrastructure_ref: Option<ObjectRef>,
}

/// What is there of a control plane.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(from = "RawStatus")]
pub struct KubeadmControlPlaneStatus {
    /// Machines there are.
    pub replicas: Option<i32>,
    /// Machines that are ready.
    pub ready_replicas: Option<i32>,
    /// Machines that look as wanted.
    pub up_to_date_replicas: Option<i32>,
    /// The lowest version of its machines.
    pub version: Option<String>,
    /// Whether the control plane accepted requests once.
    pub initialized: bool,
    /// The generation the status speaks of.
    pub observed_generation: Option<i64>,
    /// The conditions.
    pub conditions: Conditions,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawSpec {
    #[serde(default, deserialize_with = "soft")]
    replicas: Option<i32>,
    #[serde(default, deserialize_with = "text")]
    version: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    machine_template: RawMachineTemplate,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawMachineTemplate {
    #[serde(default, deserialize_with = "soft")]
    infrastructure_ref: Option<RawRef>,
    #[serde(default, deserialize_with = "or_default")]
    spec: RawMachineTemplateSpec,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawMachineTemplateSpec {
    #[serde(default, deserialize_with = "soft")]
    infrastructure_ref: Option<RawRef>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawStatus {
    #[serde(default, deserialize_with = "soft")]
    replicas: Option<i32>,
    #[serde(default, deserialize_with = "soft")]
    ready_replicas: Option<i32>,
    #[serde(default, deserialize_with = "soft")]
    up_to_date_replicas: Option<i32>,
    #[serde(default, deserialize_with = "soft")]
    updated_replicas: Option<i32>,
    #[serde(default, deserialize_with = "text")]
    version: Option<String>,
    #[serde(default, deserialize_with = "soft")]
    initialized: Option<bool>,
    #[serde(default, deserialize_with = "or_default")]
    initialization: RawInitialization,
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
    control_plane_initialized: Option<bool>,
}

soft_structs!(
    KubeadmControlPlaneSpec,
    KubeadmControlPlaneStatus,
    RawMachineTemplate,
    RawMachineTemplateSpec,
    RawInitialization
);

impl From<RawSpec> for KubeadmControlPlaneSpec {
    fn from(raw: RawSpec) -> Self {
        let RawMachineTemplate { infrastructure_ref, spec } = raw.machine_template;
        let reference = spec.infrastructure_ref.or(infrastructure_ref);
        Self { replicas: raw.replicas, version: raw.version, infrastructure_ref: read_ref(reference) }
    }
}

impl From<RawStatus> for KubeadmControlPlaneStatus {
    fn from(raw: RawStatus) -> Self {
        let initialized = raw.initialization.control_plane_initialized.or(raw.initialized);
        let older = raw.deprecated.v1beta1.map(|o| o.conditions);
        let newer = raw.v1beta2.as_ref();
        let (ready, up_to_date) = (newer.and_then(|n| n.ready_replicas), newer.and_then(|n| n.up_to_date_replicas));
        Self {
            replicas: raw.replicas,
            ready_replicas: ready.or(raw.ready_replicas),
            up_to_date_replicas: up_to_date.or(raw.up_to_date_replicas).or(raw.updated_replicas),
            version: raw.version,
            initialized: initialized.unwrap_or_default(),
            observed_generation: raw.observed_generation,
            conditions: Conditions::read(raw.conditions, raw.v1beta2.map(|n| n.conditions), older),
        }
    }
}

/// How machines of a group join their cluster; only who it is is kept.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct KubeadmConfigTemplate {
    /// The standard metadata.
    #[serde(default, deserialize_with = "lean_meta")]
    pub metadata: ObjectMeta,
}

crate::view! { KubeadmConfigTemplate, group: BOOTSTRAP_GROUP, versions: ["v1beta2", "v1beta1"], plural: "kubeadmconfigtemplates", scope: Namespaced, only: metadata }

/// When machines are unhealthy; only who it is is kept.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct MachineHealthCheck {
    /// The standard metadata.
    #[serde(default, deserialize_with = "lean_meta")]
    pub metadata: ObjectMeta,
}

crate::view! { MachineHealthCheck, group: super::CLUSTER_API_GROUP, versions: ["v1beta2", "v1beta1"], plural: "machinehealthchecks", scope: Namespaced, only: metadata }
