//! Metal3MachineTemplate: what the Metal3Machines of a group look like.
#![allow(clippy::duplicated_attributes, reason = "names and printer columns repeat their words")]

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::TemplateMetadata;
use super::machine::Metal3MachineSpec;

/// What the machines of a group look like.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta2",
    kind = "Metal3MachineTemplate",
    plural = "metal3machinetemplates",
    shortname = "m3mt",
    shortname = "m3machinetemplate",
    shortname = "m3machinetemplates",
    shortname = "metal3mt",
    shortname = "metal3machinetemplate",
    category = "cluster-api",
    category = "berth",
    namespaced,
    derive = "PartialEq",
    doc = "What the Metal3Machines of a group look like; changed by creating another one.",
    printcolumn(name = "Kind", type_ = "string", json_path = ".spec.template.spec.kind"),
    printcolumn(name = "Node Reuse", type_ = "boolean", json_path = ".spec.nodeReuse"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Data Template",
        type_ = "string",
        json_path = ".spec.template.spec.dataTemplate.name",
        priority = "1"
    ),
    printcolumn(name = "Image", type_ = "string", json_path = ".spec.template.spec.image.url", priority = "1")
)]
#[serde(rename_all = "camelCase")]
pub struct Metal3MachineTemplateSpec {
    /// Whether a machine that is replaced gets the host of its predecessor; it can be changed.
    #[serde(default)]
    pub node_reuse: bool,

    /// The machines.
    pub template: Metal3MachineTemplateResource,
}

/// A machine that is to be made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Metal3MachineTemplateResource {
    /// Labels and annotations of the machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "TemplateMetadata::json_schema")]
    pub metadata: Option<TemplateMetadata>,

    /// The spec of the machines.
    pub spec: Metal3MachineSpec,
}
