//! How the network data of a machine is made: links, networks on them, and services.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::shared::{self, is_default};

/// The network data of a machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkData {
    /// The interfaces.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(schema_with = "NetworkLinks::json_schema")]
    pub links: NetworkLinks,

    /// The networks on the interfaces.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(schema_with = "Networks::json_schema")]
    pub networks: Networks,

    /// Services for all networks.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(schema_with = "NetworkServices::json_schema")]
    pub services: NetworkServices,
}

/// Interfaces by type.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkLinks {
    /// Plain interfaces.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 512), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["id"]))]
    pub ethernets: Vec<EthernetLink>,

    /// Several interfaces that act as one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 512), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["id"]))]
    pub bonds: Vec<BondLink>,

    /// Tagged networks on another interface.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 512), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["vlanID"]))]
    pub vlans: Vec<VlanLink>,
}

/// A plain interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EthernetLink {
    /// What the interface is, such as phy or vif.
    #[serde(rename = "type")]
    #[schemars(extend("enum" = ["bridge", "dvs", "hw_veb", "hyperv", "ovs", "tap", "vhostuser", "vif", "phy"]))]
    pub type_: String,

    /// Name of the link inside the network data.
    #[schemars(schema_with = "shared::key")]
    pub id: String,

    /// Name of the interface in the running system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 15), regex(pattern = r"^[a-zA-Z][a-zA-Z0-9._-]*$"))]
    pub name: Option<String>,

    /// Largest packet.
    #[serde(default = "mtu")]
    #[schemars(range(min = 0, max = 9000))]
    pub mtu: i32,

    /// Its hardware address.
    #[serde(default)]
    #[schemars(schema_with = "LinkMac::json_schema")]
    pub mac_address: LinkMac,
}

const fn mtu() -> i32 {
    1500
}

/// Several interfaces that act as one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BondLink {
    /// How the interfaces share the work.
    #[schemars(extend("enum" = ["balance-rr", "active-backup", "balance-xor", "broadcast", "balance-tlb", "balance-alb", "802.3ad"]))]
    pub bond_mode: String,

    /// How packets are spread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["layer2", "layer3+4", "layer2+3"]))]
    pub bond_xmit_hash_policy: Option<String>,

    /// Name of the link inside the network data.
    #[schemars(schema_with = "shared::key")]
    pub id: String,

    /// Name of the interface in the running system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 15), regex(pattern = r"^[a-zA-Z][a-zA-Z0-9._-]*$"))]
    pub name: Option<String>,

    /// Largest packet.
    #[serde(default = "mtu")]
    #[schemars(range(min = 0, max = 9000))]
    pub mtu: i32,

    /// Its hardware address.
    #[serde(default)]
    #[schemars(schema_with = "LinkMac::json_schema")]
    pub mac_address: LinkMac,

    /// The links it is made of, by id.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 512), inner(length(min = 1, max = 512)), extend("x-kubernetes-list-type" = "set"))]
    pub bond_links: Vec<String>,

    /// Further parameters, as the deployed system knows them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 512), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub parameters: Vec<BondParameter>,
}

/// A parameter of a bond.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BondParameter {
    /// Name of the parameter.
    #[schemars(schema_with = "shared::key")]
    pub name: String,

    /// Its value, handed on as it is.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    #[schemars(schema_with = "shared::anything")]
    pub value: Value,
}

/// A tagged network on another interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VlanLink {
    /// The tag of the network.
    #[serde(rename = "vlanID")]
    #[schemars(range(min = 0, max = 4096))]
    pub vlan_id: i32,

    /// The link it is on, by id.
    #[schemars(schema_with = "shared::key")]
    pub vlan_link: String,

    /// Name of the link inside the network data.
    #[schemars(schema_with = "shared::key")]
    pub id: String,

    /// Name of the interface in the running system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 15), regex(pattern = r"^[a-zA-Z][a-zA-Z0-9._-]*$"))]
    pub name: Option<String>,

    /// Largest packet.
    #[serde(default = "mtu")]
    #[schemars(range(min = 0, max = 9000))]
    pub mtu: i32,

    /// Its hardware address.
    #[serde(default)]
    #[schemars(schema_with = "LinkMac::json_schema")]
    pub mac_address: LinkMac,
}

/// Where a hardware address comes from: the first that is given counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LinkMac {
    /// The address itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub string: Option<String>,

    /// The interface of the host that has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub from_host_interface: Option<String>,

    /// The annotation that holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "FromAnnotation::json_schema")]
    pub from_annotation: Option<FromAnnotation>,
}

/// An annotation of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FromAnnotation {
    /// Whose annotation it is: machine, metal3machine or baremetalhost.
    #[schemars(schema_with = "shared::source_object")]
    pub object: String,

    /// The annotation.
    #[schemars(length(min = 1, max = 512))]
    pub annotation: String,
}

/// Networks by how a machine gets its address there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Networks {
    /// IPv4, with an address from a pool.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 512), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["id"]))]
    pub ipv4: Vec<StaticNetwork>,

    /// IPv4, with an address by DHCP.
    #[serde(default, rename = "ipv4DHCP", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 512), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["id"]))]
    pub ipv4_dhcp: Vec<DynamicNetwork>,

    /// IPv6, with an address from a pool.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 512), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["id"]))]
    pub ipv6: Vec<StaticNetwork>,

    /// IPv6, with an address by DHCP.
    #[serde(default, rename = "ipv6DHCP", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 512), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["id"]))]
    pub ipv6_dhcp: Vec<DynamicNetwork>,

    /// IPv6, with an address the machine makes of what routers announce.
    #[serde(default, rename = "ipv6SLAAC", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 512), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["id"]))]
    pub ipv6_slaac: Vec<DynamicNetwork>,
}

/// A network in which a machine has an address from a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StaticNetwork {
    /// Name of the network inside the network data.
    #[schemars(schema_with = "shared::key")]
    pub id: String,

    /// The link it is on, by id.
    #[schemars(schema_with = "shared::key")]
    pub link: String,

    /// Name of the IPPool of ipam.metal3.io the address is taken from.
    #[serde(default, rename = "ipAddressFromIPPool", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub ip_address_from_ip_pool: Option<String>,

    /// The pool the address is taken from, of any kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "PoolRef::json_schema")]
    pub from_pool_ref: Option<PoolRef>,

    /// The annotation that names the pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "FromAnnotation::json_schema")]
    pub from_pool_annotation: Option<FromAnnotation>,

    /// The routes of the network.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 512), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["network"]))]
    pub routes: Vec<Route>,
}

/// A network in which a machine gets its address by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DynamicNetwork {
    /// Name of the network inside the network data.
    #[schemars(schema_with = "shared::key")]
    pub id: String,

    /// The link it is on, by id.
    #[schemars(schema_with = "shared::key")]
    pub link: String,

    /// The routes of the network.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 512), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["network"]))]
    pub routes: Vec<Route>,
}

/// A pool of addresses in the namespace of the template.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoolRef {
    /// Name of the pool.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,

    /// Kind of the pool.
    #[serde(default = "pool_kind")]
    #[schemars(length(max = 63))]
    pub kind: String,

    /// Group of the kind of the pool.
    #[serde(default = "pool_group")]
    #[schemars(length(max = 253))]
    pub api_group: String,
}

pub(super) fn pool_group() -> String {
    "ipam.metal3.io".to_owned()
}

pub(super) fn pool_kind() -> String {
    "IPPool".to_owned()
}

/// A route.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Route {
    /// The network that is reached.
    #[schemars(length(max = 45))]
    pub network: String,

    /// Length of the prefix of that network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 128))]
    pub prefix: Option<i32>,

    /// Whom packets are handed to.
    #[serde(default)]
    #[schemars(schema_with = "Gateway::json_schema")]
    pub gateway: Gateway,

    /// Services of that network.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(schema_with = "NetworkServices::json_schema")]
    pub services: NetworkServices,
}

/// Where the address of a gateway comes from: the first that is given counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Gateway {
    /// The address itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 45))]
    pub string: Option<String>,

    /// Name of the IPPool of ipam.metal3.io whose gateway it is.
    #[serde(default, rename = "fromIPPool", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub from_ip_pool: Option<String>,

    /// The pool whose gateway it is, of any kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "PoolRef::json_schema")]
    pub from_pool_ref: Option<PoolRef>,

    /// The annotation that names the pool whose gateway it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "FromAnnotation::json_schema")]
    pub from_pool_annotation: Option<FromAnnotation>,
}

/// Services of a network.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkServices {
    /// Addresses of name servers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 512), inner(length(max = 45)), extend("x-kubernetes-list-type" = "set"))]
    pub dns: Vec<String>,

    /// Name of the IPPool of ipam.metal3.io whose name servers are taken as well.
    #[serde(default, rename = "dnsFromIPPool", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub dns_from_ip_pool: Option<String>,
}
