//! Everything that is known of one cluster's addresses at one moment, as plain data.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use api::key::ObjectKey;
use jiff::Timestamp;
use serde_json::Value;

use crate::config::Config;
use crate::facts::{AddressFacts, ClaimFacts, ClassFacts, ClusterFacts, Pool, PoolName};
use crate::names::Slot;
use kit::feed::Version;

/// How long two fresh claims have held one address before one of them may go on.
const SETTLED: Duration = Duration::from_secs(30);

/// What the indexes show around one cluster.
#[derive(Clone, Debug)]
pub struct Scene {
    /// The cluster.
    pub key: ObjectKey,
    /// When this was read.
    pub now: Timestamp,
    /// The flags, with the settings laid over them.
    pub config: Arc<Config>,
    /// The class, if it is there.
    pub class: Option<Arc<ClassFacts>>,
    /// The labels of the namespace.
    pub namespace_labels: Arc<BTreeMap<String, String>>,
    /// The claims that bear this cluster's names.
    pub holdings: BTreeMap<Slot, Holding>,
    /// Every pool.
    pub pools: Vec<Pool>,
    /// Who else uses an address that this cluster has, or would get.
    pub uses: Vec<Use>,
    /// Pools that were given up during this move of a claim.
    pub tried: BTreeMap<Slot, Vec<PoolName>>,
    /// Whether this process has already looked after the endpoint of the infrastructure cluster.
    pub pointed: bool,
    /// Slots whose long wait this process has already told people of.
    pub warned: BTreeSet<Slot>,
}

/// What the index shows of a claim.
#[derive(Clone, Debug)]
pub enum Holding {
    /// Our own write of it has not been shown yet.
    Behind,
    /// It is there.
    Claim {
        /// The claim.
        claim: Arc<ClaimFacts>,
        /// The address object it names, if that is there.
        address: Option<Arc<AddressFacts>>,
    },
}

/// Somebody else's use of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Use {
    /// The address.
    pub address: IpAddr,
    /// Who uses it.
    pub by: User,
}

/// Who uses an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum User {
    /// Another cluster.
    Cluster {
        /// Which.
        key: ObjectKey,
        /// The port of its endpoint, when the address is its endpoint.
        port: Option<i32>,
        /// Whether its owner chose the address.
        manual: bool,
    },
    /// A claim that is not this cluster's.
    Claim(ObjectKey),
    /// The claim of another cluster that shows the address no more than this one does.
    Rival {
        /// The claim.
        claim: ObjectKey,
        /// Since when it has the address.
        since: Timestamp,
    },
}

impl std::fmt::Display for User {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Cluster { key, .. } => write!(f, "the endpoint of Cluster {key}"),
            Self::Claim(claim) | Self::Rival { claim, .. } => write!(f, "held by IPAddressClaim {claim}"),
        }
    }
}

/// What a live read showed of the Cluster.
#[derive(Clone, Debug)]
pub enum Live {
    /// It was not read.
    Unread,
    /// There is none.
    Absent,
    /// It is there.
    At(Box<LiveCluster>),
}

/// A Cluster as it is on the server now.
#[derive(Clone, Debug)]
pub struct LiveCluster {
    /// What decisions use.
    pub facts: ClusterFacts,
    /// Its version, for guarded writes.
    pub version: Version,
    /// All its topology variables, because a patch must carry the whole list.
    pub variables: Vec<Value>,
}

impl Holding {
    /// The bound address, if the claim has one: named by the claim, held by it, and readable.
    #[must_use]
    pub fn bound(&self, claim_name: &str) -> Option<IpAddr> {
        let Self::Claim { claim, address: Some(address) } = self else { return None };
        claim.address.as_ref()?;
        // Indexes lag each on its own: an address of an earlier claim of this name may still be shown.
        let own = address.claim_uid.as_ref().is_none_or(|uid| *uid == claim.version.uid);
        (own && address.claim.as_deref() == Some(claim_name)).then_some(address.address).flatten()
    }
}

impl Scene {
    /// The claim of a slot, if the index shows one.
    #[must_use]
    pub fn claim(&self, slot: Slot) -> Option<&ClaimFacts> {
        match self.holdings.get(&slot) {
            Some(Holding::Claim { claim, .. }) => Some(claim),
            _ => None,
        }
    }

    /// The address bound to a slot's claim.
    #[must_use]
    pub fn bound(&self, slot: Slot) -> Option<IpAddr> {
        self.holdings.get(&slot)?.bound(&slot.claim(self.key.name()))
    }

    /// When one of two fresh claims that hold one address may go on: then every index has shown both of them for long, so
    /// both clusters know which of them it is. None where this cluster's claim is not the one.
    #[must_use]
    pub fn turn(&self, slot: Slot, rival: &ObjectKey, since: Timestamp) -> Option<Timestamp> {
        let Some(Holding::Claim { address: Some(address), .. }) = self.holdings.get(&slot) else { return None };
        let own = (address.created, slot.claim_of(&self.key));
        let later = (own.0).max(since).checked_add(SETTLED).ok()?;
        (own < (since, rival.clone())).then_some(later)
    }

    /// The address bound to a slot's claim that this very Cluster owns.
    #[must_use]
    pub fn owned(&self, slot: Slot, uid: &str) -> Option<IpAddr> {
        let claim = self.claim(slot)?;
        if claim.deleting || !claim.owners.iter().any(|owner| *owner.uid == *uid) {
            return None;
        }
        self.bound(slot)
    }
}
