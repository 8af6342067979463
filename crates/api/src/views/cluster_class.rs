//! `ClusterClass` of Cluster API.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

use super::common::{ConditionView, Conditions, ObjectRef, RawDeprecated, RawNewer, RawRef, read_ref};
use super::soft::{or_default, soft, soft_structs, text};
use crate::meta::lean_meta;

/// A pattern that clusters are made from.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct ClusterClass {
    /// Metadata without `managedFields`.
    #[serde(default, deserialize_with = "lean_meta")]
    pub metadata: ObjectMeta,
    /// What clusters of the class consist of.
    #[serde(default, deserialize_with = "or_default")]
    pub spec: ClusterClassSpec,
    /// What Cluster API found out about the class.
    #[serde(default, deserialize_with = "or_default")]
    pub status: ClusterClassStatus,
}

crate::view! { ClusterClass, group: super::CLUSTER_API_GROUP, versions: ["v1beta2", "v1beta1"], plural: "clusterclasses", scope: Namespaced }

/// What clusters of a class consist of.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(from = "RawSpec")]
pub struct ClusterClassSpec {
    /// Template of the infrastructure cluster.
    pub infrastructure: Option<ObjectRef>,
    /// Template of the control plane.
    pub control_plane: Option<ObjectRef>,
    /// Template of the machines of the control plane.
    pub control_plane_machines: Option<ObjectRef>,
    /// Classes of MachineDeployments.
    pub machine_deployments: Vec<WorkerClass>,
    /// Classes of MachinePools.
    pub machine_pools: Vec<WorkerClass>,
    /// Variables declared in the class itself.
    pub variables: Vec<ClassVariable>,
    /// Patches in the order they are applied.
    pub patches: Vec<ClassPatch>,
}

/// A class of workers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerClass {
    /// Name of the class.
    pub class: String,
    /// Template of the bootstrap object.
    pub bootstrap: Option<ObjectRef>,
    /// Template of the infrastructure machine.
    pub infrastructure: Option<ObjectRef>,
}

/// A variable declared in a class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct ClassVariable {
    /// Name.
    #[serde(default, deserialize_with = "or_default")]
    pub name: String,
    /// Whether clusters must set it.
    #[serde(default, deserialize_with = "or_default")]
    pub required: bool,
}

/// A patch of a class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassPatch {
    /// Name.
    pub name: String,
    /// The template that switches the patch on or off.
    pub enabled_if: Option<String>,
    /// The extension that makes the patch; absent for patches written in the class.
    pub external: Option<ExternalPatch>,
}

/// The handlers of an external patch, each as `<handler>.<extension config>`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExternalPatch {
    /// Makes the patches.
    pub generate_patches: Option<String>,
    /// Checks the result.
    pub validate_topology: Option<String>,
    /// Declares variables.
    pub discover_variables: Option<String>,
    /// Settings handed to the handlers.
    pub settings: BTreeMap<String, String>,
}

/// What Cluster API found out about a class.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(from = "RawStatus")]
pub struct ClusterClassStatus {
    /// Variables of the class and of its external patches.
    pub variables: Vec<VariableStatus>,
    /// The generation the status speaks of.
    pub observed_generation: Option<i64>,
    /// The conditions.
    pub conditions: Conditions,
}

/// A variable that clusters of the class may set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VariableStatus {
    /// Name.
    #[serde(default, deserialize_with = "or_default")]
    pub name: String,
    /// Whether its definitions differ.
    #[serde(default, deserialize_with = "or_default")]
    pub definitions_conflict: bool,
    /// Who defines it.
    #[serde(default, deserialize_with = "or_default")]
    pub definitions: Vec<VariableDefinition>,
}

/// One definition of a variable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct VariableDefinition {
    /// `inline`, or the name of the patch that declares it.
    #[serde(default, deserialize_with = "or_default")]
    pub from: String,
    /// Whether clusters must set it.
    #[serde(default, deserialize_with = "or_default")]
    pub required: bool,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawSpec {
    #[serde(default, deserialize_with = "or_default")]
    infrastructure: RawTemplate,
    #[serde(default, deserialize_with = "or_default")]
    control_plane: RawControlPlane,
    #[serde(default, deserialize_with = "or_default")]
    workers: RawWorkers,
    #[serde(default, deserialize_with = "or_default")]
    variables: Vec<ClassVariable>,
    #[serde(default, deserialize_with = "or_default")]
    patches: Vec<RawPatch>,
}

/// `ref` in the older API, `templateRef` in the newer one.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawTemplate {
    #[serde(default, rename = "ref", deserialize_with = "soft")]
    older: Option<RawRef>,
    #[serde(default, deserialize_with = "soft")]
    template_ref: Option<RawRef>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawControlPlane {
    #[serde(default, rename = "ref", deserialize_with = "soft")]
    older: Option<RawRef>,
    #[serde(default, deserialize_with = "soft")]
    template_ref: Option<RawRef>,
    #[serde(default, deserialize_with = "or_default")]
    machine_infrastructure: RawTemplate,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawWorkers {
    #[serde(default, deserialize_with = "or_default")]
    machine_deployments: Vec<RawWorkerClass>,
    #[serde(default, deserialize_with = "or_default")]
    machine_pools: Vec<RawWorkerClass>,
}

/// The templates stand in `template` in the older API and directly in the class in the newer one.
#[derive(Default, Deserialize)]
struct RawWorkerClass {
    #[serde(default, deserialize_with = "or_default")]
    class: String,
    #[serde(default, deserialize_with = "soft")]
    template: Option<RawWorkerTemplates>,
    #[serde(default, deserialize_with = "or_default")]
    bootstrap: RawTemplate,
    #[serde(default, deserialize_with = "or_default")]
    infrastructure: RawTemplate,
}

#[derive(Default, Deserialize)]
struct RawWorkerTemplates {
    #[serde(default, deserialize_with = "or_default")]
    bootstrap: RawTemplate,
    #[serde(default, deserialize_with = "or_default")]
    infrastructure: RawTemplate,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawPatch {
    #[serde(default, deserialize_with = "or_default")]
    name: String,
    #[serde(default, deserialize_with = "text")]
    enabled_if: Option<String>,
    #[serde(default, deserialize_with = "soft")]
    external: Option<RawExternal>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawExternal {
    #[serde(default, deserialize_with = "text")]
    generate_extension: Option<String>,
    #[serde(default, deserialize_with = "text")]
    generate_patches_extension: Option<String>,
    #[serde(default, deserialize_with = "text")]
    validate_extension: Option<String>,
    #[serde(default, deserialize_with = "text")]
    validate_topology_extension: Option<String>,
    #[serde(default, deserialize_with = "text")]
    discover_variables_extension: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    settings: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawStatus {
    #[serde(default, deserialize_with = "or_default")]
    variables: Vec<VariableStatus>,
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
    ClusterClassSpec,
    ClusterClassStatus,
    ClassVariable,
    VariableStatus,
    VariableDefinition,
    RawTemplate,
    RawControlPlane,
    RawWorkers,
    RawWorkerClass,
    RawWorkerTemplates,
    RawPatch,
    RawExternal
);

impl RawTemplate {
    fn read(self) -> Option<ObjectRef> {
        read_ref(self.template_ref).or_else(|| read_ref(self.older))
    }
}

impl From<RawWorkerClass> for WorkerClass {
    fn from(raw: RawWorkerClass) -> Self {
        let older = raw.template.unwrap_or_default();
        Self {
            class: raw.class,
            bootstrap: raw.bootstrap.read().or_else(|| older.bootstrap.read()),
            infrastructure: raw.infrastructure.read().or_else(|| older.infrastructure.read()),
        }
    }
}

impl From<RawPatch> for ClassPatch {
    fn from(raw: RawPatch) -> Self {
        Self {
            name: raw.name,
            enabled_if: raw.enabled_if,
            external: raw.external.map(|e| ExternalPatch {
                generate_patches: e.generate_patches_extension.or(e.generate_extension),
                validate_topology: e.validate_topology_extension.or(e.validate_extension),
                discover_variables: e.discover_variables_extension,
                settings: e.settings,
            }),
        }
    }
}

impl From<RawSpec> for ClusterClassSpec {
    fn from(raw: RawSpec) -> Self {
        let control_plane = raw.control_plane;
        Self {
            infrastructure: raw.infrastructure.read(),
            control_plane: read_ref(control_plane.template_ref).or_else(|| read_ref(control_plane.older)),
            control_plane_machines: control_plane.machine_infrastructure.read(),
            machine_deployments: raw.workers.machine_deployments.into_iter().map(Into::into).collect(),
            machine_pools: raw.workers.machine_pools.into_iter().map(Into::into).collect(),
            variables: raw.variables,
            patches: raw.patches.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<RawStatus> for ClusterClassStatus {
    fn from(raw: RawStatus) -> Self {
        Self {
            variables: raw.variables,
            observed_generation: raw.observed_generation,
            conditions: Conditions::read(
                raw.conditions,
                raw.v1beta2.map(|n| n.conditions),
                raw.deprecated.v1beta1.map(|o| o.conditions),
            ),
        }
    }
}
