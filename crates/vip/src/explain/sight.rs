//! What somebody who asks can see: lists read once, as the same world that the room follows.

use api::views::{
    Cluster, ClusterClass, ExtensionConfig, GlobalInClusterIPPool, IPAddress, IPAddressClaim, InClusterIPPool,
    Namespace,
};
use kit::clock::Clock;
use kit::feed::Feed;
use kit::kinds::Kind;

use crate::facts::World;

/// A kind that the judgement rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Clusters.
    Clusters,
    /// Classes of clusters.
    Classes,
    /// Claims for addresses.
    Claims,
    /// Addresses given to claims.
    Addresses,
    /// Pools of one namespace.
    Pools,
    /// Pools of all namespaces.
    GlobalPools,
    /// Namespaces.
    Namespaces,
    /// Registrations of runtime extensions.
    Extensions,
}

/// Something that could not be read.
pub type Unseen = kit::explain::Unseen<Part>;

/// Everything that was read.
#[derive(Clone, Debug, Default)]
pub struct Lists {
    /// The version of Clusters that is served.
    pub version: Option<String>,
    /// Clusters.
    pub clusters: Vec<Cluster>,
    /// Classes of clusters.
    pub classes: Vec<ClusterClass>,
    /// Claims for addresses.
    pub claims: Vec<IPAddressClaim>,
    /// Addresses given to claims.
    pub addresses: Vec<IPAddress>,
    /// Pools of one namespace.
    pub pools: Vec<InClusterIPPool>,
    /// Pools of all namespaces.
    pub global_pools: Vec<GlobalInClusterIPPool>,
    /// Namespaces.
    pub namespaces: Vec<Namespace>,
    /// Registrations of runtime extensions.
    pub extensions: Vec<ExtensionConfig>,
    /// What could not be read.
    pub unseen: Vec<Unseen>,
}

/// The world as one person saw it once.
#[derive(Debug)]
pub struct Sight {
    pub(super) world: World,
    pub(super) extensions: Vec<ExtensionConfig>,
    pub(super) unseen: Vec<Unseen>,
}

impl Sight {
    /// What these lists show.
    #[must_use]
    pub fn of(lists: Lists, clock: &Clock) -> Self {
        let clock = || clock.clone();
        let mut clusters = Kind::of::<Cluster>();
        clusters.version = lists.version.unwrap_or(clusters.version);
        let world = World {
            clusters: Feed::of(clock(), clusters, lists.clusters),
            classes: Feed::of(clock(), Kind::of::<ClusterClass>(), lists.classes),
            claims: Feed::of(clock(), Kind::of::<IPAddressClaim>(), lists.claims),
            addresses: Feed::of(clock(), Kind::of::<IPAddress>(), lists.addresses),
            pools: Feed::of(clock(), Kind::of::<InClusterIPPool>(), lists.pools),
            global_pools: Feed::of(clock(), Kind::of::<GlobalInClusterIPPool>(), lists.global_pools),
            namespaces: Feed::of(clock(), Kind::of::<Namespace>(), lists.namespaces),
        };
        Self { world, extensions: lists.extensions, unseen: lists.unseen }
    }

    /// Whether nothing at all of a kind was read.
    pub(super) fn is_blind(&self, part: Part) -> bool {
        kit::explain::is_blind(&self.unseen, &part)
    }

    /// Whether some of a kind was not read.
    pub(super) fn misses(&self, part: Part) -> bool {
        kit::explain::misses(&self.unseen, &part)
    }
}
