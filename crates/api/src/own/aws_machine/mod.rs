//! AWSMachine: one EC2 instance of a Cluster API machine, and the dedicated host it runs on.
//!
//! The field set is that of the Cluster API provider for AWS, so that objects written for it are stored as they are; what
//! Berth adds is in [`DynamicHostAllocation`], in [`DedicatedHost`] and in the fields about host resource groups and
//! licences. Bounds are wider than what EC2 takes: they limit the size of an object, not what a user may ask for.
#![allow(clippy::duplicated_attributes, reason = "printer columns repeat their types and priorities")]

mod host;
mod parts;
pub(super) mod rules;
mod status;

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema;
pub use host::{CapacityFallback, DynamicHostAllocation, HostReuse, HostSharing, ReleasePolicy, SharingPolicy, Switch};
pub use parts::{
    AmiReference, CloudInit, CpuOptions, ElasticIpPool, HostAffinity, Ignition, IgnitionProxy, IgnitionStorage,
    IgnitionTls, InstanceMetadataOptions, MarketType, PrivateDnsName, ResourceFilter, ResourceReference,
    SpotMarketOptions, Tenancy, Volume,
};
pub(super) use status::lenient;
pub use status::{AWSMachineStatus, DedicatedHost, MachineInitialization, OwnedHost};

/// What instance is wanted, and on whose hardware it runs.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta2",
    kind = "AWSMachine",
    plural = "awsmachines",
    shortname = "awsm",
    category = "cluster-api",
    category = "berth",
    namespaced,
    status = "AWSMachineStatus",
    derive = "PartialEq",
    doc = "One EC2 instance of a Cluster API machine, and the dedicated host it runs on.",
    printcolumn(name = "Instance", type_ = "string", json_path = ".spec.instanceID"),
    printcolumn(name = "Ready", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].status"#),
    printcolumn(name = "Reason", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].reason"#),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Cluster",
        type_ = "string",
        json_path = r".metadata.labels.cluster\.x-k8s\.io/cluster-name",
        priority = "1"
    ),
    printcolumn(name = "State", type_ = "string", json_path = ".status.instanceState", priority = "1"),
    printcolumn(name = "InstanceID", type_ = "string", json_path = ".spec.providerID", priority = "1"),
    printcolumn(
        name = "Machine",
        type_ = "string",
        json_path = r#".metadata.ownerReferences[?(@.kind=="Machine")].name"#,
        priority = "1"
    ),
    printcolumn(name = "Host", type_ = "string", json_path = ".status.dedicatedHost.id", priority = "1"),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].message"#,
        priority = "1"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct AWSMachineSpec {
    /// The id of the instance as its node carries it; the controller sets it.
    #[serde(default, rename = "providerID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub provider_id: Option<String>,

    /// The id of the instance; the controller sets it.
    #[serde(default, rename = "instanceID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub instance_id: Option<String>,

    /// The instance type, such as m5.4xlarge.
    #[schemars(length(min = 2, max = 128))]
    pub instance_type: String,

    /// The image to boot.
    #[serde(default, skip_serializing_if = "AmiReference::is_empty")]
    #[schemars(schema_with = "AmiReference::json_schema")]
    pub ami: AmiReference,

    /// The name of the image to look for when no id is given, with {{.BaseOS}} and {{.K8sVersion}} to be filled in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub image_lookup_format: Option<String>,

    /// The account that owns the image to look for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub image_lookup_org: Option<String>,

    /// The operating system of the image to look for.
    #[serde(default, rename = "imageLookupBaseOS", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub image_lookup_base_os: Option<String>,

    /// The subnet of the instance; without it one of the cluster's is chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "ResourceReference::json_schema")]
    pub subnet: Option<ResourceReference>,

    /// Security groups besides those of the cluster; they can be changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), extend("x-kubernetes-list-type" = "atomic"))]
    pub additional_security_groups: Vec<ResourceReference>,

    /// Security groups to use instead of the cluster's, by role.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::texts::<64, 256>")]
    pub security_group_overrides: BTreeMap<String, String>,

    /// The name of the instance profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub iam_instance_profile: Option<String>,

    /// The SSH key: absent takes the cluster's, empty takes none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub ssh_key_name: Option<String>,

    /// Whether the instance gets a public address; absent leaves it to the subnet.
    #[serde(default, rename = "publicIP", skip_serializing_if = "Option::is_none")]
    pub public_ip: Option<bool>,

    /// The root disk; absent takes it as the image has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "Volume::json_schema")]
    pub root_volume: Option<Volume>,

    /// Further disks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), extend("x-kubernetes-list-type" = "atomic"))]
    pub non_root_volumes: Vec<Volume>,

    /// How the instance reads its own metadata.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "InstanceMetadataOptions::json_schema")]
    pub instance_metadata_options: Option<InstanceMetadataOptions>,

    /// Tags of the instance, its disks, its interfaces and its dedicated host; they can be changed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::texts::<256, 1024>")]
    pub additional_tags: BTreeMap<String, String>,

    /// False sends the user data compressed; true and absent send it as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uncompressed_user_data: Option<bool>,

    /// How cloud-init gets its data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "CloudInit::json_schema")]
    pub cloud_init: Option<CloudInit>,

    /// How Ignition gets its data; it excludes cloudInit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "Ignition::json_schema")]
    pub ignition: Option<Ignition>,

    /// Whose instances share the hardware; host places the instance on a dedicated host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "Tenancy::json_schema")]
    pub tenancy: Option<Tenancy>,

    /// The dedicated host to run on, one that exists already.
    #[serde(default, rename = "hostID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 19), regex(pattern = r"^h-[0-9a-f]{17}$"))]
    pub host_id: Option<String>,

    /// Whether a stopped instance starts on the same dedicated host again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "HostAffinity::json_schema")]
    pub host_affinity: Option<HostAffinity>,

    /// Allocates a dedicated host for this machine, and releases it with the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "DynamicHostAllocation::json_schema")]
    pub dynamic_host_allocation: Option<DynamicHostAllocation>,

    /// The host resource group to launch into; EC2 then chooses, allocates and releases the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 20, max = 2048),
        regex(pattern = r"^arn:aws[a-z-]*:resource-groups:[a-z0-9-]+:[0-9]{12}:group/.+$")
    )]
    pub host_resource_group_arn: Option<String>,

    /// The licence configurations that the instance is counted against.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10), inner(length(min = 20, max = 2048), regex(pattern = r"^arn:aws[a-z-]*:license-manager:[a-z0-9-]+:[0-9]{12}:license-configuration:.+$")), extend("x-kubernetes-list-type" = "atomic"))]
    pub license_configuration_arns: Vec<String>,

    /// The placement group; not with tenancy host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub placement_group_name: Option<String>,

    /// The partition of the placement group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 7))]
    pub placement_group_partition: Option<i64>,

    /// How the instance is named inside its network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "PrivateDnsName::json_schema")]
    pub private_dns_name: Option<PrivateDnsName>,

    /// Options of the processors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "CpuOptions::json_schema")]
    pub cpu_options: Option<CpuOptions>,

    /// How the instance is paid for; on dedicated hosts only OnDemand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "MarketType::json_schema")]
    pub market_type: Option<MarketType>,

    /// Runs the instance on spare capacity that can be taken away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "SpotMarketOptions::json_schema")]
    pub spot_market_options: Option<SpotMarketOptions>,

    /// The capacity reservation to launch into; not with tenancy host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub capacity_reservation_id: Option<String>,

    /// Whether capacity reservations are used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["", "None", "CapacityReservationsOnly", "Open"]))]
    pub capacity_reservation_preference: Option<String>,

    /// Network interfaces that exist already.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 2), inner(length(max = 2048)), extend("x-kubernetes-list-type" = "atomic"))]
    pub network_interfaces: Vec<String>,

    /// The type of the first network interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["interface", "efa"]))]
    pub network_interface_type: Option<String>,

    /// Whether the first IPv6 address becomes the primary one.
    #[serde(default, rename = "assignPrimaryIPv6", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["enabled", "disabled"]))]
    pub assign_primary_ipv6: Option<String>,

    /// Where public addresses are taken from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "ElasticIpPool::json_schema")]
    pub elastic_ip_pool: Option<ElasticIpPool>,
}

impl AWSMachineSpec {
    /// Whose hardware the instance runs on, also where admission has not written it into the spec.
    #[must_use]
    pub fn effective_tenancy(&self) -> Tenancy {
        let unsaid = if self.dynamic_host_allocation.is_some() { Tenancy::Host } else { Tenancy::Default };
        self.tenancy.unwrap_or(unsaid)
    }

    /// Whether the instance stays on its host, also where admission has not written it into the spec.
    #[must_use]
    pub fn effective_affinity(&self) -> HostAffinity {
        let unsaid = if self.dynamic_host_allocation.is_some() { HostAffinity::Host } else { HostAffinity::Default };
        self.host_affinity.unwrap_or(unsaid)
    }

    /// Whether user data is to be compressed: only an explicit no to uncompressed data asks for it.
    #[must_use]
    pub fn compresses_user_data(&self) -> bool {
        self.uncompressed_user_data == Some(false)
    }
}

#[cfg(test)]
mod tests;
