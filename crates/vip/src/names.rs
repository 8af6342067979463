//! The public names of this capability: labels, annotations, variables, placeholders, claims.
//!
//! They are spelled as the first allocator of this kind spelled them, so that its pools, classes and clusters work
//! unchanged.

use std::fmt;
use std::net::IpAddr;

use api::key::ObjectKey;

/// Prefix of every label and annotation.
pub const PREFIX: &str = "vip.capi.gorizond.io/";

macro_rules! keys {
    ($($(#[$doc:meta])* $name:ident = $suffix:literal;)+) => {
        $($(#[$doc])* pub const $name: &str = concat!("vip.capi.gorizond.io/", $suffix);)+
    };
}

keys! {
    /// On a pool: the class it serves, or `true` with the list in the annotation of the same name. On a Cluster without
    /// topology: the class to match pools with.
    CLUSTER_CLASS = "cluster-class";
    /// On a pool: the role it serves, or `true` with the list in the annotation. On a claim: its role.
    ROLE = "role";
    /// On a claim: made by this capability.
    MANAGED_BY = "managed-by";
    /// On a global pool: the namespaces it serves.
    NAMESPACES = "namespaces";
    /// On a global pool: the labels of the namespaces it serves.
    NAMESPACE_SELECTOR = "namespace-selector";
    /// On a pool: higher goes first.
    PRIORITY = "priority";
    /// On a Cluster: narrows the pools for the control plane.
    POOL = "pool";
    /// On a Cluster: narrows the pools for the ingress.
    INGRESS_POOL = "ingress-pool";
    /// On a Cluster or class: `false` leaves the cluster alone, `true` insists.
    CONTROL_PLANE_ENABLED = "control-plane-enabled";
    /// On a Cluster or class: whether an ingress address is required, refused, or taken where there is one.
    INGRESS_ENABLED = "ingress-enabled";
    /// On a Cluster: an address is allocated but the endpoint is the user's.
    VIP_ONLY = "vip-only";
    /// On a Cluster or class: the families wanted, the first for the endpoint.
    IP_FAMILIES = "ip-families";
    /// On a Cluster or class: the port of the endpoint.
    PORT = "port";
    /// On a Cluster: the pool of the control-plane address, as `Kind/name`.
    CONTROL_PLANE_POOL = "control-plane-pool";
    /// On a Cluster: where the control-plane address comes from.
    CONTROL_PLANE_SOURCE = "control-plane-source";
    /// On a Cluster, as annotation and, for IPv4, as label: the ingress address.
    INGRESS_VIP = "ingress-vip";
    /// On a claim: the pools that were tried before the present one.
    TRIED_POOLS = "tried-pools";
    /// On a claim that is older than its Cluster: the name of the Cluster to come.
    FOR_CLUSTER = "for-cluster";
    /// On a claim that is older than its Cluster: since when it waits for it.
    UNOWNED_SINCE = "unowned-since";
}

/// Value of [`MANAGED_BY`].
pub const MANAGER: &str = "vip-allocator";
/// Value of [`CONTROL_PLANE_SOURCE`]: the address was taken from a pool.
pub const ALLOCATED: &str = "allocated";
/// Value of [`CONTROL_PLANE_SOURCE`]: the user chose the address.
pub const MANUAL: &str = "manual";
/// What a template yields where a ClusterClass names a value that does not exist.
pub const NO_VALUE: &str = "<no value>";

/// What an address is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// The API server.
    ControlPlane,
    /// The workloads.
    Ingress,
}

impl Role {
    /// Both roles.
    pub const ALL: [Self; 2] = [Self::ControlPlane, Self::Ingress];

    /// The word in labels and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ControlPlane => "control-plane",
            Self::Ingress => "ingress",
        }
    }

    /// The annotation of a Cluster that narrows the pools for this role.
    #[must_use]
    pub const fn pin(self) -> &'static str {
        match self {
            Self::ControlPlane => POOL,
            Self::Ingress => INGRESS_POOL,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// The family of an address.
    #[must_use]
    pub const fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }

    /// The word in annotations.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V4 => "ipv4",
            Self::V6 => "ipv6",
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One of the addresses a cluster can have: a role, in its first or second family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot {
    /// What it is for.
    pub role: Role,
    /// Whether it is the address of the second family.
    pub second: bool,
}

impl Slot {
    /// The control plane's first address: the endpoint.
    pub const CONTROL_PLANE: Self = Self { role: Role::ControlPlane, second: false };
    /// The ingress's first address.
    pub const INGRESS: Self = Self { role: Role::Ingress, second: false };
    /// All four, in the order of everything that is written.
    pub const ALL: [Self; 4] = [
        Self::CONTROL_PLANE,
        Self { role: Role::ControlPlane, second: true },
        Self::INGRESS,
        Self { role: Role::Ingress, second: true },
    ];

    /// The name of the claim, in the namespace of the Cluster. Cluster names are at most 63 characters long and the
    /// prefixes differ before the first letter of a name can, so claims of different clusters or slots never meet.
    #[must_use]
    pub fn claim(self, cluster: &str) -> String {
        format!("{}{cluster}", self.prefix())
    }

    /// The key of the claim of a Cluster.
    #[must_use]
    pub fn claim_of(self, cluster: &ObjectKey) -> ObjectKey {
        ObjectKey::namespaced(cluster.namespace().unwrap_or_default(), self.claim(cluster.name()))
    }

    const fn prefix(self) -> &'static str {
        match (self.role, self.second) {
            (Role::ControlPlane, false) => "vip-cp-",
            (Role::ControlPlane, true) => "vip2-cp-",
            (Role::Ingress, false) => "vip-ingress-",
            (Role::Ingress, true) => "vip2-ingress-",
        }
    }

    /// The slot and the cluster that a claim's name stands for.
    #[must_use]
    pub fn of_claim(name: &str) -> Option<(Self, &str)> {
        Self::ALL.into_iter().find_map(|slot| {
            let cluster = name.strip_prefix(slot.prefix())?;
            (!cluster.is_empty()).then_some((slot, cluster))
        })
    }

    /// The annotation of the Cluster that shows the address.
    #[must_use]
    pub const fn annotation(self) -> &'static str {
        match (self.role, self.second) {
            (Role::ControlPlane, false) => "vip.capi.gorizond.io/control-plane-vip",
            (Role::ControlPlane, true) => "vip.capi.gorizond.io/control-plane-vip-secondary",
            (Role::Ingress, false) => INGRESS_VIP,
            (Role::Ingress, true) => "vip.capi.gorizond.io/ingress-vip-secondary",
        }
    }

    /// The topology variable that carries the address where the class defines it.
    #[must_use]
    pub const fn variable(self) -> &'static str {
        match (self.role, self.second) {
            (Role::ControlPlane, false) => "clusterVip",
            (Role::ControlPlane, true) => "clusterVipSecondary",
            (Role::Ingress, false) => "ingressVip",
            (Role::Ingress, true) => "ingressVipSecondary",
        }
    }

    /// The text in a template that is replaced by the address.
    #[must_use]
    pub const fn placeholder(self) -> &'static str {
        match (self.role, self.second) {
            (Role::ControlPlane, false) => "@@VIP_CONTROL_PLANE@@",
            (Role::ControlPlane, true) => "@@VIP_CONTROL_PLANE_SECONDARY@@",
            (Role::Ingress, false) => "@@VIP_INGRESS@@",
            (Role::Ingress, true) => "@@VIP_INGRESS_SECONDARY@@",
        }
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.role, if self.second { " (second family)" } else { "" })
    }
}

/// The text in a template that is replaced by the port of the endpoint.
pub const PORT_PLACEHOLDER: &str = "@@VIP_CONTROL_PLANE_PORT@@";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_name_stands_for_one_slot_of_one_cluster() {
        for slot in Slot::ALL {
            for cluster in ["a", "cp-a", "ingress-a", "vip-cp-a"] {
                assert_eq!(Slot::of_claim(&slot.claim(cluster)), Some((slot, cluster)));
            }
            assert_eq!(Slot::of_claim(&slot.claim("")), None);
        }
        assert_eq!(Slot::of_claim("vip-other-a"), None);
    }

    #[test]
    fn every_name_has_the_prefix_and_is_used_once() {
        let mut seen = std::collections::BTreeSet::new();
        for slot in Slot::ALL {
            assert!(slot.annotation().starts_with(PREFIX));
            for name in [slot.annotation(), slot.variable(), slot.placeholder()] {
                assert!(seen.insert(name), "{name}");
            }
        }
    }
}
