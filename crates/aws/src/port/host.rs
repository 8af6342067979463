//! Dedicated hosts.

use api::names::{AccountId, AvailabilityZone, ClientToken, HostId, InstanceFamily, InstanceId, InstanceType};
use jiff::Timestamp;

use super::common::{Filter, Tags};
use kit::open;

open! {
    /// The state of a dedicated host; only `Available` accepts launches.
    HostState {
        /// Ready for instances.
        Available = "available",
        /// New, being modified, scrubbed (mac), or the target of a recovery.
        Pending = "pending",
        /// Being looked at after a fault.
        UnderAssessment = "under-assessment",
        /// Broken.
        PermanentFailure = "permanent-failure",
        /// Given back; visible for a while.
        Released = "released",
        /// Broken and given back.
        ReleasedPermanentFailure = "released-permanent-failure",
    }
}

impl HostState {
    /// Whether the host is given back and no longer paid for.
    #[must_use]
    pub fn is_released(&self) -> bool {
        matches!(self, Self::Released | Self::ReleasedPermanentFailure)
    }
}

/// What the host can take: one type, or any type of a family. EC2 forbids to name both.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HostShape {
    /// Only this type.
    Type(InstanceType),
    /// Any type of this family (Nitro families only).
    Family(InstanceFamily),
}

/// A switch of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Switch {
    /// On.
    On,
    /// Off.
    Off,
}

impl Switch {
    /// The text on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Off => "off",
        }
    }
}

/// Asks for hosts. Equal requests with an equal token give the same hosts, within one zone.
///
/// Automatic placement is always off: a host with it on takes any untargeted launch of the account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllocateHosts {
    /// Makes a repetition the same request.
    pub token: ClientToken,
    /// Where.
    pub zone: AvailabilityZone,
    /// What kind.
    pub shape: HostShape,
    /// How many.
    pub quantity: u32,
    /// Whether instances move to another host when this one fails; `None` leaves it to EC2.
    pub recovery: Option<Switch>,
    /// Whether instances move before scheduled maintenance; `None` leaves it to EC2.
    pub maintenance: Option<Switch>,
    /// The outpost to allocate on.
    pub outpost_arn: Option<String>,
    /// The hardware of the outpost to allocate on.
    pub asset_ids: Vec<String>,
    /// The tags of the hosts.
    pub tags: Tags,
}

/// Which hosts to describe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostQuery {
    /// Exactly these; an unknown one is an error of the call.
    Ids(Vec<HostId>),
    /// Those that match all filters; none means all of the account.
    ///
    /// EC2 knows `auto-placement`, `availability-zone`, `client-token`, `host-reservation-id`, `instance-type`, `state`
    /// and `tag-key` here, not `tag:<key>`: compare tag values yourself.
    Matching(Vec<Filter>),
}

impl HostQuery {
    /// The hosts allocated under a token.
    #[must_use]
    pub fn by_token(token: &ClientToken) -> Self {
        Self::Matching(vec![Filter::new("client-token", [token.as_str()])])
    }

    /// The hosts that carry a tag of this key, whatever its value.
    #[must_use]
    pub fn by_tag_key(key: &str) -> Self {
        Self::Matching(vec![Filter::new("tag-key", [key])])
    }
}

/// Room for one instance type on a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostRoom {
    /// The type, as EC2 names it.
    pub instance_type: String,
    /// How many more fit.
    pub available: u32,
    /// How many fit on an empty host.
    pub total: u32,
}

/// An instance on a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostedInstance {
    /// The instance.
    pub id: InstanceId,
    /// Its type, as EC2 names it.
    pub instance_type: String,
    /// Whose it is.
    pub owner: Option<AccountId>,
}

/// A dedicated host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Its id.
    pub id: HostId,
    /// Its state.
    pub state: HostState,
    /// Where it stands.
    pub zone: Option<AvailabilityZone>,
    /// The only type it takes; `None` for family hosts.
    pub instance_type: Option<String>,
    /// The family it takes; EC2 leaves it out for hosts of a single type.
    pub instance_family: Option<String>,
    /// The token it was allocated with.
    pub client_token: Option<String>,
    /// When it was allocated.
    pub allocated: Option<Timestamp>,
    /// When it was given back.
    pub released: Option<Timestamp>,
    /// The room that is left, by type.
    pub room: Vec<HostRoom>,
    /// The virtual processors that are left.
    pub free_vcpus: Option<u32>,
    /// What runs on it.
    pub instances: Vec<HostedInstance>,
    /// Whether untargeted launches may land on it.
    pub auto_placement: Option<String>,
    /// Whether instances move to another host when this one fails.
    pub recovery: Option<String>,
    /// Whether instances move before scheduled maintenance.
    pub maintenance: Option<String>,
    /// The reservation that keeps it from being released.
    pub reservation: Option<String>,
    /// Whose it is.
    pub owner: Option<AccountId>,
    /// Whether EC2 itself manages it in a host resource group.
    pub in_resource_group: bool,
    /// Its tags.
    pub tags: Tags,
}

impl Host {
    /// How many more instances of the type fit; `None` when EC2 says nothing about the type.
    #[must_use]
    pub fn room_for(&self, instance_type: &InstanceType) -> Option<u32> {
        self.room.iter().find(|room| room.instance_type == instance_type.as_str()).map(|room| room.available)
    }
}

/// Changes hosts; what is `None` stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModifyHosts {
    /// Which.
    pub hosts: Vec<HostId>,
    /// Recovery on or off.
    pub recovery: Option<Switch>,
    /// Maintenance on or off.
    pub maintenance: Option<Switch>,
    /// Untargeted launches on or off.
    pub auto_placement: Option<Switch>,
}
