//! What became of a HostClaim.
//!
//! All of it can be found again from spec, metadata and hosts: moving a claim to another cluster does not bring it along.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema;
use crate::key::ObjectKey;

/// Which machine was found and how it is doing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostClaimStatus {
    /// The generation of the spec this status was computed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,

    /// Whether the claim is associated, synchronized and provisioned.
    #[serde(default)]
    pub ready: bool,

    /// When anything in this status last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub last_updated: Option<Time>,

    /// The host that is about to be bound, written before the host itself is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "SelectedHost::json_schema")]
    pub selected_host: Option<SelectedHost>,

    /// The bound host; an indication, because the host's own consumerRef decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "HostReference::json_schema")]
    pub bare_metal_host: Option<HostReference>,

    /// The hardware data of the bound host, once there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "HostReference::json_schema")]
    pub hardware_data: Option<HostReference>,

    /// The uid of the bound host, which its node carries in the label metal3.io/uuid.
    #[serde(default, rename = "hostUID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub host_uid: Option<String>,

    /// Whether the machine is switched on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub powered_on: Option<bool>,

    /// How far the machine is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "ProvisioningState::json_schema")]
    pub provisioning_state: Option<ProvisioningState>,

    /// The image that runs on the machine, as its owner reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "DeployedImage::json_schema")]
    pub image: Option<DeployedImage>,

    /// Addresses of the machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 512), extend("x-kubernetes-list-type" = "atomic"))]
    pub addresses: Vec<HostAddress>,

    /// The hardware address the machine boots from.
    #[serde(default, rename = "bootMACAddress", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub boot_mac_address: Option<String>,

    /// Network interfaces of the machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), extend("x-kubernetes-list-type" = "atomic"))]
    pub nics: Vec<HostNic>,

    /// Labels and annotations of the host, as far as its owner lets tenants see them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "HostMetadata::json_schema")]
    pub host_metadata: Option<HostMetadata>,

    /// The failure domain the machine is in, even when another one was wished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub failure_domain: Option<String>,

    /// The provider id of the machine's node, for kinds whose nodes learn it from a cloud.
    #[serde(default, rename = "providerID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub provider_id: Option<String>,

    /// The id of the machine where it lives, for kinds other than baremetal.
    #[serde(default, rename = "resourceID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub resource_id: Option<String>,

    /// Why no host was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "Unbound::json_schema")]
    pub unbound: Option<Unbound>,

    /// The reboot that is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "PendingReboot::json_schema")]
    pub pending_reboot: Option<PendingReboot>,

    /// How many hosts failed the claim and were given back for another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub replacements: Option<i32>,

    /// State of the claim: Ready sums up Associated, Synchronized and Provisioned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

impl HostClaimStatus {
    /// The most addresses that are reported.
    pub const ADDRESSES: usize = 512;
    /// The most network interfaces that are reported.
    pub const NICS: usize = 256;

    /// Whether a machine was found: a host for baremetal, anything with an id for other kinds.
    #[must_use]
    pub fn is_bound(&self) -> bool {
        self.bare_metal_host.is_some() || self.resource_id.is_some()
    }

    /// Whether something ran on the machine: another one would have the same identity.
    #[must_use]
    pub fn was_deployed(&self) -> bool {
        self.image.is_some() || self.provisioning_state == Some(ProvisioningState::Provisioned)
    }

    /// Whether the machine has an image or custom deploy, or is getting it.
    #[must_use]
    pub fn is_deployed(&self) -> bool {
        use ProvisioningState::{Error, Provisioned, Provisioning};
        self.image.is_some() || matches!(self.provisioning_state, Some(Provisioning | Provisioned | Error))
    }
}

/// A host that was chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SelectedHost {
    /// The namespace of the host.
    #[schemars(length(max = 63))]
    pub namespace: String,

    /// The name of the host.
    #[schemars(length(max = 253))]
    pub name: String,

    /// The uid of the host.
    #[schemars(length(max = 128))]
    pub uid: String,
}

/// A host, or what belongs to it under the same name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostReference {
    /// The namespace.
    #[schemars(length(max = 63))]
    pub namespace: String,

    /// The name.
    #[schemars(length(max = 253))]
    pub name: String,
}

impl SelectedHost {
    /// Where the host is.
    #[must_use]
    pub fn key(&self) -> ObjectKey {
        ObjectKey::namespaced(self.namespace.as_str(), self.name.as_str())
    }
}

impl HostReference {
    /// Where it is.
    #[must_use]
    pub fn key(&self) -> ObjectKey {
        ObjectKey::namespaced(self.namespace.as_str(), self.name.as_str())
    }
}

/// How far a machine is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum ProvisioningState {
    /// Nothing is deployed on it.
    Available,
    /// It is being deployed.
    Provisioning,
    /// It is deployed.
    Provisioned,
    /// What was deployed is being removed.
    Deprovisioning,
    /// It failed.
    Error,
    /// Its owner does not say.
    Unknown,
}

impl ProvisioningState {
    /// The state as it stands in the status.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Available => "Available",
            Self::Provisioning => "Provisioning",
            Self::Provisioned => "Provisioned",
            Self::Deprovisioning => "Deprovisioning",
            Self::Error => "Error",
            Self::Unknown => "Unknown",
        }
    }
}

/// An image that runs on a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeployedImage {
    /// Where it came from.
    #[schemars(length(max = 4096))]
    pub url: String,

    /// Its checksum, or where that came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub checksum: Option<String>,
}

/// An address of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostAddress {
    /// What the address is: InternalIP, Hostname, InternalDNS and the like.
    #[serde(rename = "type")]
    #[schemars(length(min = 1, max = 63))]
    pub type_: String,

    /// The address itself.
    #[schemars(length(min = 1, max = 256))]
    pub address: String,
}

/// A network interface of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostNic {
    /// The hardware address.
    #[serde(default, rename = "MAC", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub mac: Option<String>,

    /// The address it had when the machine was inspected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub ip: Option<String>,

    /// The name the operating system gives it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub name: Option<String>,
}

/// Labels and annotations of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostMetadata {
    /// Labels of the host.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::texts::<128, 63>")]
    pub labels: BTreeMap<String, String>,

    /// Annotations of the host; values of more than 4096 characters are left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::texts::<64, 4096>")]
    pub annotations: BTreeMap<String, String>,
}

impl HostMetadata {
    /// The most labels that are kept.
    pub const LABELS: usize = 128;
    /// The most annotations that are kept.
    pub const ANNOTATIONS: usize = 64;
    /// The longest value of an annotation that is kept, in characters.
    pub const ANNOTATION_CHARS: usize = 4096;
}

/// Why no host was chosen, in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Unbound {
    /// The number of hosts that were considered: those of namespaces that admit the claim.
    #[schemars(range(min = 0))]
    pub total: i32,

    /// How many of them fell out for which reason; each is counted once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["reason"])
    )]
    pub reasons: Vec<UnboundReason>,

    /// When they were counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub observed_at: Option<Time>,
}

/// How many hosts fell out for one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnboundReason {
    /// The reason, in one word.
    #[schemars(length(min = 1, max = 64))]
    pub reason: String,

    /// The number of hosts.
    #[schemars(range(min = 0))]
    pub count: i32,
}

/// A reboot that was asked for once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PendingReboot {
    /// What makes a repeated request the same request.
    #[schemars(length(min = 1, max = 63))]
    pub id: String,

    /// How the machine is rebooted: hard or soft.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub mode: Option<String>,
}

crate::conditioned!(HostClaimStatus);
