//! What decisions use of each kind, and the feeds that keep it.

mod claim;
mod class;
mod cluster;
mod pool;

use std::collections::BTreeMap;
use std::net::IpAddr;

use api::key::ObjectKey;
use api::views::Namespace;
use kit::feed::{Feed, Phase, Project};
use kit::manager::{self, Manager};

pub use claim::{AddressFacts, Addresses, ClaimFacts, Claims, Owner};
pub use class::{ClassFacts, Classes};
pub use cluster::{CONTROL_PLANE_VIP_READY, ClusterFacts, Clusters, INGRESS_VIP_READY, VipStatus};
pub use pool::{GLOBAL_POOL_KIND, GlobalPools, POOL_KIND, Pool, PoolFacts, PoolName, Pools, Range};

use crate::names::PREFIX;

/// Everything the room follows.
#[derive(Clone)]
pub struct World {
    /// Clusters.
    pub clusters: Feed<Clusters>,
    /// Classes of clusters.
    pub classes: Feed<Classes>,
    /// Claims for addresses.
    pub claims: Feed<Claims>,
    /// Addresses given to claims.
    pub addresses: Feed<Addresses>,
    /// Pools of one namespace.
    pub pools: Feed<Pools>,
    /// Pools of all namespaces.
    pub global_pools: Feed<GlobalPools>,
    /// Namespaces, for their labels.
    pub namespaces: Feed<Namespaces>,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").field("clusters", &self.clusters.len()).finish_non_exhaustive()
    }
}

impl World {
    /// Starts, or joins, the feeds.
    ///
    /// # Errors
    /// When another room follows one of the kinds with another projection.
    pub fn follow(manager: &Manager) -> Result<Self, manager::Error> {
        Ok(Self {
            clusters: manager.feed()?,
            classes: manager.feed()?,
            claims: manager.feed()?,
            addresses: manager.feed()?,
            pools: manager.feed()?,
            global_pools: manager.feed()?,
            namespaces: manager.feed()?,
        })
    }

    /// Waits until every index is complete, or known to have nothing to hold.
    pub async fn settled(&self) {
        self.clusters.settled().await;
        self.classes.settled().await;
        self.claims.settled().await;
        self.addresses.settled().await;
        self.pools.settled().await;
        self.global_pools.settled().await;
        self.namespaces.settled().await;
    }

    /// The kinds whose index is not complete yet.
    #[must_use]
    pub fn unsettled(&self) -> Vec<&'static str> {
        let phases = [
            ("clusters", self.clusters.phase()),
            ("clusterclasses", self.classes.phase()),
            ("ipaddressclaims", self.claims.phase()),
            ("ipaddresses", self.addresses.phase()),
            ("inclusterippools", self.pools.phase()),
            ("globalinclusterippools", self.global_pools.phase()),
            ("namespaces", self.namespaces.phase()),
        ];
        phases.into_iter().filter(|(_, phase)| *phase == Phase::Listing).map(|(kind, _)| kind).collect()
    }
}

/// Namespaces, reduced to their labels.
pub struct Namespaces;

impl Project for Namespaces {
    type Source = Namespace;
    type Slim = BTreeMap<String, String>;

    fn slim(source: Namespace) -> Self::Slim {
        source.metadata.labels.unwrap_or_default()
    }
}

/// The labels or annotations that are ours.
fn ours(all: Option<BTreeMap<String, String>>) -> BTreeMap<String, String> {
    all.unwrap_or_default().into_iter().filter(|(key, _)| key.starts_with(PREFIX)).collect()
}

/// An address without brackets, prefix length and spelling: the text that is compared and written.
#[must_use]
pub fn address(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    let text = text.split_once('/').map_or(text, |(address, _)| address);
    let text = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or(text);
    text.parse().ok()
}

/// The entries of a comma list, without spaces and empty entries.
pub fn entries(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|entry| !entry.is_empty())
}

/// The key of a Cluster as an index value.
#[must_use]
pub fn index_value(namespace: Option<&str>, name: &str) -> Box<str> {
    ObjectKey::namespaced(namespace.unwrap_or_default(), name).to_string().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_compared_without_their_spelling() {
        assert_eq!(address(" 10.0.0.1/24 "), address("10.0.0.1"));
        assert_eq!(address("[2001:DB8:0:0::1]").unwrap().to_string(), "2001:db8::1");
        assert_eq!(address("api.example.org"), None);
        assert_eq!(address(""), None);
    }
}
