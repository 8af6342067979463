//! How the metadata of a machine is made: one list per source, each entry with the key it fills.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::shared;

/// The metadata of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MetaData {
    /// Fixed texts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 512), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key"]))]
    pub strings: Vec<MetaDataString>,

    /// Names of objects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 512), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key"]))]
    pub object_names: Vec<MetaDataObjectName>,

    /// Texts made of the number of the machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 512), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key"]))]
    pub indexes: Vec<MetaDataIndex>,

    /// Addresses from pools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 512), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key"]))]
    pub ip_addresses_from_pool: Vec<FromPool>,

    /// Lengths of the prefixes of addresses from pools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 512), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key"]))]
    pub prefixes_from_pool: Vec<FromPool>,

    /// Gateways of pools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 512), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key"]))]
    pub gateways_from_pool: Vec<FromPool>,

    /// Name servers of pools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 512), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key"]))]
    pub dns_servers_from_pool: Vec<FromPool>,

    /// Hardware addresses of the host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 512), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key"]))]
    pub from_host_interfaces: Vec<MetaDataHostInterface>,

    /// Labels of objects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 512), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key"]))]
    pub from_labels: Vec<MetaDataFromLabel>,

    /// Annotations of objects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 512), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key"]))]
    pub from_annotations: Vec<MetaDataFromAnnotation>,

    /// The namespace of the machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 512), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key"]))]
    pub namespaces: Vec<MetaDataNamespace>,
}

/// A fixed text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MetaDataString {
    /// The key in the metadata.
    #[schemars(schema_with = "shared::key")]
    pub key: String,

    /// The text.
    #[schemars(length(max = 4096))]
    pub value: String,
}

/// The name of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MetaDataObjectName {
    /// The key in the metadata.
    #[schemars(schema_with = "shared::key")]
    pub key: String,

    /// Whose name it is: machine, metal3machine or baremetalhost.
    #[schemars(schema_with = "shared::source_object")]
    pub object: String,
}

/// A text made of the number of the machine: prefix, then offset + number * step, then suffix.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MetaDataIndex {
    /// The key in the metadata.
    #[schemars(schema_with = "shared::key")]
    pub key: String,

    /// What the first machine gets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub offset: Option<i32>,

    /// How far apart two machines are.
    #[serde(default = "one")]
    #[schemars(range(min = 0))]
    pub step: i32,

    /// Text before the number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub prefix: Option<String>,

    /// Text after the number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub suffix: Option<String>,
}

const fn one() -> i32 {
    1
}

/// Something an address pool gives.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FromPool {
    /// The key in the metadata.
    #[schemars(schema_with = "shared::key")]
    pub key: String,

    /// Name of the pool.
    #[schemars(length(min = 1, max = 512))]
    pub name: String,

    /// Group of the kind of the pool.
    #[serde(default = "super::network::pool_group")]
    #[schemars(length(max = 512))]
    pub api_group: String,

    /// Kind of the pool.
    #[serde(default = "super::network::pool_kind")]
    #[schemars(length(max = 512))]
    pub kind: String,
}

/// A hardware address of the host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MetaDataHostInterface {
    /// The key in the metadata.
    #[schemars(schema_with = "shared::key")]
    pub key: String,

    /// Name of the interface as the inspection of the host found it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub interface: Option<String>,

    /// Whether the address the host boots from is taken, whichever interface has it.
    #[serde(default, rename = "fromBootMAC", skip_serializing_if = "Option::is_none")]
    pub from_boot_mac: Option<bool>,
}

/// A label of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MetaDataFromLabel {
    /// The key in the metadata.
    #[schemars(schema_with = "shared::key")]
    pub key: String,

    /// Whose label it is: machine, metal3machine or baremetalhost.
    #[schemars(schema_with = "shared::source_object")]
    pub object: String,

    /// The label.
    #[schemars(length(min = 1, max = 512))]
    pub label: String,
}

/// An annotation of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MetaDataFromAnnotation {
    /// The key in the metadata.
    #[schemars(schema_with = "shared::key")]
    pub key: String,

    /// Whose annotation it is: machine, metal3machine or baremetalhost.
    #[schemars(schema_with = "shared::source_object")]
    pub object: String,

    /// The annotation.
    #[schemars(length(min = 1, max = 512))]
    pub annotation: String,
}

/// The namespace of the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MetaDataNamespace {
    /// The key in the metadata.
    #[schemars(schema_with = "shared::key")]
    pub key: String,
}
