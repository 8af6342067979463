//! Metal3Cluster and Metal3ClusterTemplate: what a cluster on claimed hosts needs of its infrastructure.
#![allow(clippy::duplicated_attributes, reason = "names and printer columns repeat their words")]

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::aws_machine::lenient;
use super::super::{TemplateMetadata, schema};
use super::shared::{Deprecated, Initialization};

/// What a cluster needs of its infrastructure.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta2",
    kind = "Metal3Cluster",
    plural = "metal3clusters",
    shortname = "m3c",
    shortname = "m3cluster",
    shortname = "m3clusters",
    shortname = "metal3c",
    shortname = "metal3cluster",
    category = "cluster-api",
    category = "berth",
    namespaced,
    status = "Metal3ClusterStatus",
    derive = "PartialEq",
    doc = "What a Cluster API cluster needs of its infrastructure: its endpoint and its failure domains.",
    printcolumn(name = "Endpoint", type_ = "string", json_path = ".spec.controlPlaneEndpoint.host"),
    printcolumn(name = "Ready", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].status"#),
    printcolumn(name = "Reason", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].reason"#),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Cluster",
        type_ = "string",
        json_path = r".metadata.labels.cluster\.x-k8s\.io/cluster-name",
        priority = "1"
    ),
    printcolumn(name = "Port", type_ = "integer", json_path = ".spec.controlPlaneEndpoint.port", priority = "1"),
    printcolumn(
        name = "Provisioned",
        type_ = "string",
        json_path = ".status.initialization.provisioned",
        priority = "1"
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].message"#,
        priority = "1"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct Metal3ClusterSpec {
    /// Where the control plane is reached.
    #[serde(default, skip_serializing_if = "ControlPlaneEndpoint::is_unset")]
    #[schemars(schema_with = "ControlPlaneEndpoint::json_schema")]
    pub control_plane_endpoint: ControlPlaneEndpoint,

    /// Whether a cloud provider in the cluster sets the provider ids of its nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cloud_provider_enabled: Option<bool>,

    /// The failure domains of the cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub failure_domains: Vec<FailureDomain>,
}

/// Where a control plane is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlaneEndpoint {
    /// Name or address of the control plane.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 512))]
    pub host: String,

    /// Port of the control plane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 65535))]
    pub port: Option<i32>,
}

impl ControlPlaneEndpoint {
    /// Whether nothing was said.
    #[must_use]
    pub fn is_unset(&self) -> bool {
        *self == Self::default()
    }

    /// Whether host and port are both known.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        !self.host.is_empty() && self.port.is_some_and(|port| port > 0)
    }
}

/// A failure domain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailureDomain {
    /// Name of the failure domain.
    #[schemars(length(min = 1, max = 256))]
    pub name: String,

    /// Whether control plane machines may be in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane: Option<bool>,

    /// Further facts about it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::texts::<64, 4096>")]
    pub attributes: BTreeMap<String, String>,
}

/// How the infrastructure of a cluster is doing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Metal3ClusterStatus {
    /// The generation of the spec this status was computed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,

    /// What was reached once and is never taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "Initialization::json_schema")]
    pub initialization: Option<Initialization>,

    /// When anything in this status last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub last_updated: Option<Time>,

    /// The failure domains that machines can be placed in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub failure_domains: Vec<FailureDomain>,

    /// The aspects of the state of the cluster, by type.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "lenient")]
    #[schemars(schema_with = "schema::machine_conditions")]
    pub conditions: Vec<Condition>,

    /// What only the older version shows; kept as others wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "Deprecated::json_schema")]
    pub deprecated: Option<Deprecated>,
}

crate::conditioned!(Metal3ClusterStatus);

/// What the infrastructure of the clusters of a class looks like.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta2",
    kind = "Metal3ClusterTemplate",
    plural = "metal3clustertemplates",
    shortname = "m3ct",
    category = "cluster-api",
    category = "berth",
    namespaced,
    derive = "PartialEq",
    doc = "What the Metal3Clusters of a class look like; changed by creating another one.",
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct Metal3ClusterTemplateSpec {
    /// The clusters.
    pub template: Metal3ClusterTemplateResource,
}

/// A cluster that is to be made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Metal3ClusterTemplateResource {
    /// Labels and annotations of the clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "TemplateMetadata::json_schema")]
    pub metadata: Option<TemplateMetadata>,

    /// The spec of the clusters.
    pub spec: Metal3ClusterSpec,
}
