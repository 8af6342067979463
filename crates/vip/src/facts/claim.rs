//! Claims for addresses, and the addresses they were given.

use std::net::IpAddr;

use api::key::ObjectKey;
use api::views::{IPAddress, IPAddressClaim, ObjectRef};
use jiff::Timestamp;
use kit::feed::{Project, Version};

use super::pool::{POOL_KIND, pool_value};
use super::{PoolName, address, entries, index_value};
use crate::names::{MANAGED_BY, MANAGER, ROLE, Slot, TRIED_POOLS};

/// IPAddressClaims, with an index of the cluster they are named for.
pub struct Claims;

/// Who owns a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Version of the reference.
    pub api_version: Box<str>,
    /// Kind.
    pub kind: Box<str>,
    /// Name.
    pub name: Box<str>,
    /// The server's unique id.
    pub uid: Box<str>,
}

/// An IPAddressClaim, as decisions use it.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimFacts {
    /// Its incarnation and version, for guarded writes.
    pub version: Version,
    /// When it was made.
    pub created: Timestamp,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Whether somebody paused it, as a move between management clusters does.
    pub paused: bool,
    /// Its owners.
    pub owners: Vec<Owner>,
    /// Its role label.
    pub role: Option<Box<str>>,
    /// Whether it carries our mark.
    pub managed: bool,
    /// The pool it asks.
    pub pool: Option<PoolName>,
    /// The pools that were asked before.
    pub tried: Vec<PoolName>,
    /// The name of the address it was given.
    pub address: Option<Box<str>>,
    /// Why its provider cannot fill it, where the provider says so.
    pub refusal: Option<Box<str>>,
}

impl ClaimFacts {
    /// The facts of a claim as received.
    #[must_use]
    pub fn of(claim: IPAddressClaim) -> Self {
        let version = Version::of(&claim);
        let IPAddressClaim { metadata, spec, status } = claim;
        let label = |key: &str| metadata.labels.as_ref().and_then(|l| l.get(key)).map(String::as_str);
        let annotation = |key: &str| metadata.annotations.as_ref().and_then(|a| a.get(key));
        let ready = status.conditions.get("Ready").filter(|ready| ready.status == "False");
        Self {
            version,
            created: metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |t| t.0),
            deleting: metadata.deletion_timestamp.is_some(),
            paused: annotation(api::names::PAUSED_ANNOTATION).is_some(),
            owners: metadata.owner_references.iter().flatten().map(Owner::of).collect(),
            role: label(ROLE).map(Into::into),
            managed: label(MANAGED_BY) == Some(MANAGER),
            pool: spec.pool.map(PoolName::of),
            tried: annotation(TRIED_POOLS).map(|l| entries(l).filter_map(PoolName::read).collect()).unwrap_or_default(),
            address: status.address_name.map(Into::into),
            refusal: ready.map(|ready| ready.reason.as_str().into()),
        }
    }

    /// Whether this capability made the claim, or an admin or an earlier release made it for it.
    #[must_use]
    pub fn is_ours(&self, slot: Slot) -> bool {
        self.role.as_deref() == Some(slot.role.as_str())
    }
}

impl Owner {
    fn of(reference: &k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference) -> Self {
        Self {
            api_version: reference.api_version.as_str().into(),
            kind: reference.kind.as_str().into(),
            name: reference.name.as_str().into(),
            uid: reference.uid.as_str().into(),
        }
    }
}

impl Project for Claims {
    type Source = IPAddressClaim;
    type Slim = ClaimFacts;
    const INDEXES: &'static [&'static str] = &["cluster", "waiting", "pool"];

    fn slim(source: IPAddressClaim) -> ClaimFacts {
        ClaimFacts::of(source)
    }

    fn keys(index: usize, key: &ObjectKey, claim: &ClaimFacts) -> Vec<Box<str>> {
        let cluster = Slot::of_claim(key.name()).map(|(_, cluster)| index_value(key.namespace(), cluster));
        match index {
            0 => cluster.into_iter().collect(),
            // Claims without an address, by the pool they ask.
            2 => match &claim.pool {
                Some(pool) if claim.address.is_none() && !claim.deleting => {
                    let namespace = key.namespace().filter(|_| *pool.kind == *POOL_KIND);
                    vec![pool_value(pool, namespace)]
                }
                _ => Vec::new(),
            },
            // Claims without an address, so that a change of a pool can wake their clusters.
            _ if claim.address.is_none() && cluster.is_some() => vec!["".into()],
            _ => Vec::new(),
        }
    }
}

/// IPAddresses, with an index of the address itself.
pub struct Addresses;

/// An IPAddress, as decisions use it.
#[derive(Clone, Debug, PartialEq)]
pub struct AddressFacts {
    /// When it was given away.
    pub created: Timestamp,
    /// The claim that holds it.
    pub claim: Option<Box<str>>,
    /// The very claim, where the provider says so as the contract asks: another one may have had the name before.
    pub claim_uid: Option<Box<str>>,
    /// The address; none when it cannot be read.
    pub address: Option<IpAddr>,
    /// The pool it comes from.
    pub pool: Option<ObjectRef>,
}

impl Project for Addresses {
    type Source = IPAddress;
    type Slim = AddressFacts;
    const INDEXES: &'static [&'static str] = &["address"];

    fn slim(source: IPAddress) -> AddressFacts {
        let owners = source.metadata.owner_references.unwrap_or_default();
        AddressFacts {
            created: source.metadata.creation_timestamp.map_or(Timestamp::UNIX_EPOCH, |time| time.0),
            claim_uid: owners.into_iter().find(|owner| owner.kind == "IPAddressClaim").map(|owner| owner.uid.into()),
            claim: source.spec.claim_name.map(Into::into),
            address: source.spec.address.as_deref().and_then(address),
            pool: source.spec.pool,
        }
    }

    fn keys(_: usize, _: &ObjectKey, facts: &AddressFacts) -> Vec<Box<str>> {
        facts.address.iter().map(|address| address.to_string().into()).collect()
    }
}
