//! Metal3DataTemplate: what machines are told at their first boot, and the numbers it gives them.
#![allow(clippy::duplicated_attributes, reason = "names and printer columns repeat their words")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::aws_machine::lenient;
use super::super::schema;
use super::meta_data::MetaData;
use super::network::NetworkData;

/// What machines are told at their first boot.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta2",
    kind = "Metal3DataTemplate",
    plural = "metal3datatemplates",
    shortname = "m3dt",
    shortname = "m3datatemplate",
    shortname = "m3datatemplates",
    shortname = "metal3dt",
    shortname = "metal3datatemplate",
    category = "cluster-api",
    category = "berth",
    namespaced,
    status = "Metal3DataTemplateStatus",
    derive = "PartialEq",
    doc = "What machines are told at their first boot: how their metadata and network data are rendered.",
    printcolumn(name = "Cluster", type_ = "string", json_path = ".spec.clusterName"),
    printcolumn(name = "Ready", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].status"#),
    printcolumn(name = "Reason", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].reason"#),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Updated", type_ = "date", json_path = ".status.lastUpdated", priority = "1"),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].message"#,
        priority = "1"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct Metal3DataTemplateSpec {
    /// The cluster whose machines use the template.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 512))]
    pub cluster_name: String,

    /// The metadata of a machine; absent renders none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "MetaData::json_schema")]
    pub meta_data: Option<MetaData>,

    /// The network data of a machine; absent renders none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "NetworkData::json_schema")]
    pub network_data: Option<NetworkData>,
}

/// The numbers that were given to machines.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Metal3DataTemplateStatus {
    /// The generation of the spec this status was computed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,

    /// When anything in this status last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub last_updated: Option<Time>,

    /// The numbers that are taken, and by which data claim.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16384), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["index"]))]
    pub indexes: Vec<TakenIndex>,

    /// The aspects of the state of the template, by type.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "lenient")]
    #[schemars(schema_with = "schema::machine_conditions")]
    pub conditions: Vec<Condition>,
}

crate::conditioned!(Metal3DataTemplateStatus);

/// A number that is taken.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TakenIndex {
    /// The number.
    #[schemars(range(min = 0))]
    pub index: i32,

    /// Name of the Metal3DataClaim that has it.
    #[schemars(length(min = 1, max = 512))]
    pub name: String,
}
