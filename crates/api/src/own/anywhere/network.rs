//! The network of a cluster, and how its machines reach the outside.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::shared::free_form;

/// Addresses and the network plugin of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterNetwork {
    /// Addresses of pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "CidrBlocks::json_schema")]
    pub pods: Option<CidrBlocks>,

    /// Addresses of services.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "CidrBlocks::json_schema")]
    pub services: Option<CidrBlocks>,

    /// The older way to name the network plugin; admission stores it as cniConfig.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 63))]
    pub cni: String,

    /// The network plugin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "CniConfig::json_schema")]
    pub cni_config: Option<CniConfig>,

    /// How names are resolved on machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "Dns::json_schema")]
    pub dns: Option<Dns>,

    /// How addresses of pods are split among nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "NodeNetwork::json_schema")]
    pub nodes: Option<NodeNetwork>,
}

/// Ranges of addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CidrBlocks {
    /// The ranges; exactly one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), inner(length(max = 64)), extend("x-kubernetes-list-type" = "atomic"))]
    pub cidr_blocks: Vec<String>,
}

/// The network plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CniConfig {
    /// Settings of Cilium.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "Cilium::json_schema")]
    pub cilium: Option<Cilium>,

    /// A plugin for test clusters of another kind; refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "Kindnetd::json_schema")]
    pub kindnetd: Option<Kindnetd>,
}

/// A plugin that takes no settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct Kindnetd {}

/// Settings of Cilium.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Cilium {
    /// Which pods obey network policies: default, always or never.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 63))]
    pub policy_enforcement_mode: String,

    /// Whether Cilium is left alone once it was installed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip_upgrade: Option<bool>,

    /// Interfaces whose outgoing traffic is masqueraded.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024))]
    pub egress_masquerade_interfaces: String,

    /// How packets travel between nodes: overlay or direct.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 63))]
    pub routing_mode: String,

    /// Addresses that are routed without masquerading.
    #[serde(default, rename = "ipv4NativeRoutingCIDR", skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 64))]
    pub ipv4_native_routing_cidr: String,

    /// Addresses that are routed without masquerading.
    #[serde(default, rename = "ipv6NativeRoutingCIDR", skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 64))]
    pub ipv6_native_routing_cidr: String,

    /// Whether Cilium removes configurations of other plugins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cni_exclusive: Option<bool>,

    /// Values of Cilium's chart; refused, because the chart is not rendered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "free_form")]
    pub helm_values: Option<Value>,
}

/// How names are resolved on machines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Dns {
    /// The file that says who resolves names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "ResolvConf::json_schema")]
    pub resolv_conf: Option<ResolvConf>,
}

/// A file that says who resolves names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResolvConf {
    /// Its path on the machine.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024))]
    pub path: String,
}

/// How addresses of pods are split among nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeNetwork {
    /// Length of the prefix of the range that each node gets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 128))]
    pub cidr_mask_size: Option<i32>,
}

/// Proxies that machines use to reach the outside.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Proxy {
    /// The proxy for http, as host:port or a url.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 2048))]
    pub http_proxy: String,

    /// The proxy for https, as host:port or a url.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 2048))]
    pub https_proxy: String,

    /// What is reached without a proxy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(max = 1024)), extend("x-kubernetes-list-type" = "atomic"))]
    pub no_proxy: Vec<String>,
}

/// A registry that stands in for those images come from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RegistryMirror {
    /// Its address or name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub endpoint: String,

    /// Its port.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 16))]
    pub port: String,

    /// Which registry is found below which path of the mirror.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "atomic"))]
    pub oci_namespaces: Vec<OciNamespace>,

    /// The certificate it is trusted by, as PEM.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 65536))]
    pub ca_cert_content: String,

    /// Whether it is trusted without a certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub insecure_skip_verify: Option<bool>,

    /// Whether it asks for a user and a password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authenticate: Option<bool>,
}

/// A registry and the path of the mirror it is found below.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OciNamespace {
    /// The path of the mirror.
    #[schemars(length(max = 1024))]
    pub namespace: String,

    /// The registry.
    #[schemars(length(max = 253))]
    pub registry: String,
}
