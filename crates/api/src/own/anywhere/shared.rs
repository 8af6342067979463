//! What several parts of the kinds have in common.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// An object by kind and name, in the namespace of who refers to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct Ref {
    /// Kind of the object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 63))]
    pub kind: String,

    /// Name of the object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub name: String,
}

/// The cluster that manages another one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagementCluster {
    /// Name of the managing Cluster.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub name: String,
}

/// A bundle by namespace and name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct BundlesRef {
    /// Group and version of the bundle.
    #[schemars(length(max = 317))]
    pub api_version: String,

    /// Name of the Bundles object.
    #[schemars(length(max = 253))]
    pub name: String,

    /// Namespace of the Bundles object.
    #[schemars(length(max = 63))]
    pub namespace: String,
}

/// Something in CloudStack, by id or name; with both, they must denote the same thing.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Named {
    /// Its id in CloudStack.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub id: String,

    /// Its name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub name: String,
}

impl Named {
    /// Whether neither id nor name is given.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.id.is_empty() && self.name.is_empty()
    }
}

/// When a machine counts as unhealthy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HealthCheck {
    /// How many machines, or how much of them in percent, may be unhealthy while unhealthy ones are still replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "int_or_string")]
    pub max_unhealthy: Option<IntOrString>,

    /// How long a new machine may take until its node is there, as a duration such as 10m0s.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 64))]
    pub node_startup_timeout: String,

    /// How long a node may be not ready, as a duration such as 5m0s.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 64))]
    pub unhealthy_machine_timeout: String,
}

/// A taint of nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Taint {
    /// What happens to pods that do not tolerate it.
    #[schemars(length(max = 63))]
    pub effect: String,

    /// Key of the taint.
    #[schemars(length(max = 317))]
    pub key: String,

    /// When it was added; not used for machines.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 64))]
    pub time_added: String,

    /// Value of the taint.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 63))]
    pub value: String,
}

/// A whole number or a percentage.
pub(super) fn int_or_string(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"x-kubernetes-int-or-string": true, "maxLength": 16})
}

/// An object whose fields somebody else defines.
pub(super) fn free_form(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}
