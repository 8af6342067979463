//! Instances: launching, describing, ending, and what hangs on them.

use std::net::{IpAddr, Ipv6Addr};

use api::names::{
    AvailabilityZone, ClientToken, HostId, ImageId, InstanceId, InstanceType, NetworkInterfaceId, SecurityGroupId,
    SubnetId, VolumeId, VpcId,
};
use jiff::Timestamp;
use kit::secret::Secret;

use super::common::{Filter, Tags};
use kit::open;

open! {
    /// The state of an instance.
    InstanceState {
        /// Starting.
        Pending = "pending",
        /// Running.
        Running = "running",
        /// Being ended.
        ShuttingDown = "shutting-down",
        /// Ended; visible for about an hour.
        Terminated = "terminated",
        /// Being stopped.
        Stopping = "stopping",
        /// Stopped.
        Stopped = "stopped",
    }
}

open! {
    /// On whose hardware an instance runs.
    Tenancy {
        /// Shared.
        Default = "default",
        /// Of one account.
        Dedicated = "dedicated",
        /// On a dedicated host.
        Host = "host",
    }
}

open! {
    /// Whether an instance comes back to its host after a stop.
    Affinity {
        /// Any host.
        Default = "default",
        /// The same host.
        Host = "host",
    }
}

/// Where an instance is to run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// On whose hardware.
    pub tenancy: Option<Tenancy>,
    /// On which host.
    pub host: Option<HostId>,
    /// Whether it is tied to its host.
    pub affinity: Option<Affinity>,
    /// In which host resource group; excludes host and affinity.
    pub host_resource_group_arn: Option<String>,
    /// In which placement group.
    pub group_name: Option<String>,
    /// In which partition of the placement group.
    pub partition: Option<u32>,
}

/// A disk of a new instance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockDevice {
    /// The device name.
    pub device_name: String,
    /// The size in GiB.
    pub size: Option<u32>,
    /// `gp3`, `io2`, ….
    pub volume_type: Option<String>,
    /// Operations per second.
    pub iops: Option<u32>,
    /// MiB per second.
    pub throughput: Option<u32>,
    /// Whether it is encrypted; `None` leaves it to the account.
    pub encrypted: Option<bool>,
    /// With which key.
    pub kms_key_id: Option<String>,
}

/// How an instance reaches its metadata service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetadataOptions {
    /// `enabled` or `disabled`.
    pub http_endpoint: Option<String>,
    /// `optional` or `required`.
    pub http_tokens: Option<String>,
    /// How many hops an answer may travel.
    pub http_put_response_hop_limit: Option<u32>,
    /// `enabled` or `disabled`.
    pub http_protocol_ipv6: Option<String>,
    /// `enabled` or `disabled`.
    pub instance_metadata_tags: Option<String>,
}

/// Launches exactly one instance. Equal requests with an equal token give the same instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunInstance {
    /// Makes a repetition the same request.
    pub token: ClientToken,
    /// Only ask whether it would work: the answer is an error with the code `DryRunOperation` or the real reason.
    pub dry_run: bool,
    /// The image.
    pub image: ImageId,
    /// The type.
    pub instance_type: InstanceType,
    /// The subnet, and thereby the zone.
    pub subnet: SubnetId,
    /// The security groups.
    pub security_groups: Vec<SecurityGroupId>,
    /// Whether it gets a public address; `None` leaves it to the subnet.
    pub public_ip: Option<bool>,
    /// The SSH key.
    pub key_name: Option<String>,
    /// The name of the instance profile.
    pub profile: Option<String>,
    /// The disks.
    pub block_devices: Vec<BlockDevice>,
    /// The metadata service.
    pub metadata: MetadataOptions,
    /// User data as it is, at most 16 KiB; encoded on the wire, never shown.
    pub user_data: Option<Secret<Vec<u8>>>,
    /// Where it runs.
    pub placement: Placement,
    /// The licence configurations.
    pub license_configuration_arns: Vec<String>,
    /// The tags of the instance, its volumes and its network interfaces.
    pub tags: Tags,
}

/// Which instances to describe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InstanceQuery {
    /// Exactly these; an unknown one is an error of the call.
    Ids(Vec<InstanceId>),
    /// Those that match all filters; none means all of the account.
    Matching(Vec<Filter>),
}

impl InstanceQuery {
    /// The instance launched under a token.
    #[must_use]
    pub fn by_token(token: &ClientToken) -> Self {
        Self::Matching(vec![Filter::new("client-token", [token.as_str()])])
    }

    /// The instances that carry this tag.
    #[must_use]
    pub fn by_tag(key: &str, value: &str) -> Self {
        Self::Matching(vec![Filter::new(&format!("tag:{key}"), [value])])
    }
}

/// A network interface as an instance shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstanceInterface {
    /// Its id.
    pub id: Option<NetworkInterfaceId>,
    /// Its place on the instance.
    pub device_index: Option<u32>,
    /// Its private name.
    pub private_dns: Option<String>,
    /// Its private address.
    pub private_ip: Option<IpAddr>,
    /// Its public name.
    pub public_dns: Option<String>,
    /// Its public address.
    pub public_ip: Option<IpAddr>,
    /// Its IPv6 addresses.
    pub ipv6: Vec<Ipv6Addr>,
    /// Its security groups.
    pub security_groups: Vec<SecurityGroupId>,
}

/// Why an instance is in its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateReason {
    /// The code, without `Client.` or `Server.`.
    pub code: String,
    /// The text.
    pub message: String,
}

/// An instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// Its id.
    pub id: InstanceId,
    /// Its state.
    pub state: InstanceState,
    /// Why it is in that state.
    pub state_reason: Option<StateReason>,
    /// Its type, as EC2 names it.
    pub instance_type: String,
    /// Its image.
    pub image: Option<ImageId>,
    /// Where it runs.
    pub zone: Option<AvailabilityZone>,
    /// Its host.
    pub host: Option<HostId>,
    /// On whose hardware.
    pub tenancy: Option<Tenancy>,
    /// Whether it is tied to its host.
    pub affinity: Option<Affinity>,
    /// The host resource group.
    pub host_resource_group_arn: Option<String>,
    /// Its subnet.
    pub subnet: Option<SubnetId>,
    /// Its VPC.
    pub vpc: Option<VpcId>,
    /// The token it was launched with.
    pub client_token: Option<String>,
    /// When it was launched.
    pub launched: Option<Timestamp>,
    /// `spot`, `scheduled`, or nothing.
    pub lifecycle: Option<String>,
    /// Its private name.
    pub private_dns: Option<String>,
    /// Its private address.
    pub private_ip: Option<IpAddr>,
    /// Its public name.
    pub public_dns: Option<String>,
    /// Its public address.
    pub public_ip: Option<IpAddr>,
    /// Its network interfaces.
    pub interfaces: Vec<InstanceInterface>,
    /// Its volumes.
    pub volumes: Vec<VolumeId>,
    /// Its security groups.
    pub security_groups: Vec<SecurityGroupId>,
    /// Its metadata service.
    pub metadata: MetadataOptions,
    /// Its tags.
    pub tags: Tags,
}

/// What became of an instance that was to be ended, stopped or started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateChange {
    /// The instance.
    pub id: InstanceId,
    /// Its state before.
    pub before: InstanceState,
    /// Its state now.
    pub now: InstanceState,
}
