//! AWSMachineTemplate: what the AWSMachines of a group look like.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::aws_machine::{AWSMachineSpec, lenient};
use super::schema;

/// What the machines of a group look like.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta2",
    kind = "AWSMachineTemplate",
    plural = "awsmachinetemplates",
    shortname = "awsmt",
    category = "cluster-api",
    category = "berth",
    namespaced,
    status = "AWSMachineTemplateStatus",
    derive = "PartialEq",
    doc = "What the AWSMachines of a group look like; changed by creating another one.",
    printcolumn(name = "Type", type_ = "string", json_path = ".spec.template.spec.instanceType"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct AWSMachineTemplateSpec {
    /// The machines.
    pub template: AWSMachineTemplateResource,
}

/// A machine that is to be made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AWSMachineTemplateResource {
    /// Labels and annotations of the machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "TemplateMetadata::json_schema")]
    pub metadata: Option<TemplateMetadata>,

    /// The spec of the machines.
    pub spec: AWSMachineSpec,
}

/// Labels and annotations of objects that are to be made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TemplateMetadata {
    /// Labels of the machines.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::texts::<256, 63>")]
    pub labels: BTreeMap<String, String>,

    /// Annotations of the machines.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::texts::<256, 262144>")]
    pub annotations: BTreeMap<String, String>,
}

/// What nodes come of a template, for autoscalers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AWSMachineTemplateStatus {
    /// What a node offers, by resource.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::quantities")]
    pub capacity: BTreeMap<String, Value>,

    /// What a node is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "TemplateNodeInfo::json_schema")]
    pub node_info: Option<TemplateNodeInfo>,

    /// The aspects of the state of the template, by type.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "lenient")]
    #[schemars(schema_with = "schema::machine_conditions")]
    pub conditions: Vec<Condition>,
}

/// What a node is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TemplateNodeInfo {
    /// Its architecture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["amd64", "arm64"]))]
    pub architecture: Option<String>,

    /// Its operating system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["linux", "windows"]))]
    pub operating_system: Option<String>,
}
