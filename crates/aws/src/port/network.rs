//! Networks, disks and tags, as far as the rooms look at them.

use std::net::{IpAddr, Ipv6Addr};

use api::names::{AvailabilityZone, InstanceId, NetworkInterfaceId, SecurityGroupId, SubnetId, VolumeId, VpcId};

use super::common::Tags;

/// A subnet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subnet {
    /// Its id.
    pub id: SubnetId,
    /// Its VPC.
    pub vpc: Option<VpcId>,
    /// Where it lies.
    pub zone: Option<AvailabilityZone>,
    /// `pending`, `available`, ….
    pub state: String,
    /// Addresses that are left.
    pub free_addresses: Option<u32>,
    /// Whether instances get a public address unless they say otherwise.
    pub public_by_default: bool,
    /// Its tags.
    pub tags: Tags,
}

/// A virtual private cloud.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vpc {
    /// Its id.
    pub id: VpcId,
    /// Its set of DHCP options; `default` when it has none of its own.
    pub dhcp_options: Option<String>,
    /// Its tags.
    pub tags: Tags,
}

/// A set of DHCP options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DhcpOptions {
    /// Its id.
    pub id: String,
    /// The domain names it gives.
    pub domain_names: Vec<String>,
}

/// A security group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecurityGroup {
    /// Its id.
    pub id: SecurityGroupId,
    /// Its name.
    pub name: Option<String>,
    /// Its VPC.
    pub vpc: Option<VpcId>,
    /// Its tags.
    pub tags: Tags,
}

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkInterface {
    /// Its id.
    pub id: NetworkInterfaceId,
    /// The instance it is attached to.
    pub instance: Option<InstanceId>,
    /// Its subnet.
    pub subnet: Option<SubnetId>,
    /// Its private address.
    pub private_ip: Option<IpAddr>,
    /// Its IPv6 addresses.
    pub ipv6: Vec<Ipv6Addr>,
    /// Its security groups.
    pub security_groups: Vec<SecurityGroupId>,
    /// Its tags.
    pub tags: Tags,
}

/// A disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    /// Its id.
    pub id: VolumeId,
    /// `creating`, `available`, `in-use`, ….
    pub state: String,
    /// The instances it is attached to.
    pub attached_to: Vec<InstanceId>,
    /// Its tags.
    pub tags: Tags,
}

/// One tag of one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TagDescription {
    /// The resource.
    pub resource_id: String,
    /// What it is: `instance`, `dedicated-host`, ….
    pub resource_type: String,
    /// The key.
    pub key: String,
    /// The value.
    pub value: String,
}
