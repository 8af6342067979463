//! The dedicated hosts that an AWSMachine asks for.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::schema;

/// A dedicated host that is allocated for one machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "!has(self.instanceFamily) || !has(self.instanceType) || self.instanceType.startsWith(self.instanceFamily + '.')",
        "message": "instanceType must be of instanceFamily; give one of them"
    },
    {
        "rule": "!has(self.assetIDs) || self.assetIDs.size() == 0 || has(self.outpostArn)",
        "message": "assetIDs need outpostArn"
    },
    {
        "rule": "!has(self.assetIDs) || self.assetIDs.size() == 0 || self.assetIDs.size() == (has(self.quantity) ? self.quantity : 1)",
        "message": "quantity must be the number of assetIDs"
    }
]))]
pub struct DynamicHostAllocation {
    /// The family of the host, such as m5: it then takes every type of that family; absent allocates a host for the machine's own type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 2, max = 20), regex(pattern = r"^[a-z]([a-z]|-[a-z])*-?[0-9][a-z0-9]*(-[a-z0-9]+)*$"))]
    pub instance_family: Option<String>,

    /// The only type that the host takes; it must be the machine's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 4, max = 64), regex(pattern = r"^[a-z][a-z0-9-]*\.[a-z0-9-]+$"))]
    pub instance_type: Option<String>,

    /// The zone of the host; absent takes the zone of the subnet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 9, max = 63), regex(pattern = r"^[a-z]{2}(-[a-z]+)+-[0-9]+([a-z]|(-[a-z0-9]+)+)$"))]
    pub availability_zone: Option<String>,

    /// How many hosts are allocated, 1 by default; the machine runs on one of them and the others are spares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10))]
    pub quantity: Option<i32>,

    /// Whether the hosts are released when the machine is deleted, true by default; it can be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_release: Option<bool>,

    /// Tags of the hosts besides those of the machine; they can be changed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::texts::<256, 1024>")]
    pub tags: BTreeMap<String, String>,

    /// Whether EC2 moves the instance to another host when this one fails, off by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "Switch::json_schema")]
    pub host_recovery: Option<Switch>,

    /// Whether EC2 moves the instance to another host for maintenance; absent leaves it to EC2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "Switch::json_schema")]
    pub host_maintenance: Option<Switch>,

    /// The Outpost on which the host is allocated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 20, max = 2048),
        regex(pattern = r"^arn:aws[a-z-]*:outposts:[a-z0-9-]+:[0-9]{12}:outpost/op-[0-9a-f]{17}$")
    )]
    pub outpost_arn: Option<String>,

    /// The hardware of the Outpost on which the hosts are allocated, one for each.
    #[serde(default, rename = "assetIDs", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10), inner(length(min = 1, max = 64)), extend("x-kubernetes-list-type" = "atomic"))]
    pub asset_ids: Vec<String>,

    /// Whether machines share the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "HostSharing::json_schema")]
    pub sharing: Option<HostSharing>,

    /// Whether the machine waits for its hosts to be released when it is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "ReleasePolicy::json_schema")]
    pub release_policy: Option<ReleasePolicy>,

    /// Where a host is tried when the zone has none left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "CapacityFallback::json_schema")]
    pub capacity_fallback: Option<CapacityFallback>,

    /// Whether a host that an earlier machine left behind is taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "HostReuse::json_schema")]
    pub reuse: Option<HostReuse>,
}

impl DynamicHostAllocation {
    /// How many hosts are allocated.
    #[must_use]
    pub fn hosts(&self) -> i32 {
        self.quantity.unwrap_or(1)
    }

    /// Whether the hosts are released when the machine is deleted.
    #[must_use]
    pub fn releases(&self) -> bool {
        self.auto_release.unwrap_or(true)
    }

    /// Whether other machines may run on the hosts.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.sharing.as_ref().is_some_and(|sharing| sharing.policy == Some(SharingPolicy::Shared))
    }
}

/// Whether something is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Switch {
    /// It is done.
    On,
    /// It is not done.
    Off,
}

impl Switch {
    /// The word as EC2 spells it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Off => "off",
        }
    }
}

/// Whether machines share a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "!has(self.policy) || self.policy != 'Shared' || has(self.group)",
    "message": "group must be given when the policy is Shared"
}]))]
pub struct HostSharing {
    /// Exclusive, which is the default, or Shared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "SharingPolicy::json_schema")]
    pub policy: Option<SharingPolicy>,

    /// The machines that share hosts: those of the same cluster that name the same group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$"))]
    pub group: Option<String>,

    /// How many machines share one host at most; absent takes as many as fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub max_instances_per_host: Option<i32>,
}

/// Who may run on a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum SharingPolicy {
    /// Only the machine it was allocated for.
    #[default]
    Exclusive,
    /// Every machine of the group.
    Shared,
}

/// Whether a machine waits for its hosts to be released.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum ReleasePolicy {
    /// It goes when its hosts are gone.
    #[default]
    WaitForRelease,
    /// It goes when its instance is gone, and the hosts follow.
    Background,
}

/// Where a host is tried when the zone has none left.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CapacityFallback {
    /// Further zones of the cluster, in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(min = 9, max = 63)), extend("x-kubernetes-list-type" = "atomic"))]
    pub zones: Vec<String>,
}

/// Whether a host that an earlier machine left behind is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum HostReuse {
    /// A host is always allocated.
    #[default]
    Never,
    /// One is only allocated when no fitting one was left behind.
    PreferRetained,
}
