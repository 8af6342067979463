//! Pools of addresses, of both kinds.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use api::key::ObjectKey;
use api::meta::ObjectMeta;
use api::names::PAUSED_ANNOTATION;
use api::views::{AddressPoolSpec, AddressPoolStatus, GlobalInClusterIPPool, InClusterIPPool, ObjectRef, PoolCounts};
use ipnet::IpNet;
use kit::feed::Project;

use super::{entries, ours};
use crate::names::{CLUSTER_CLASS, Family};

/// Kind of the pools of one namespace.
pub const POOL_KIND: &str = "InClusterIPPool";
/// Kind of the pools of all namespaces.
pub const GLOBAL_POOL_KIND: &str = "GlobalInClusterIPPool";

/// Pools of one namespace, with an index of the classes they name.
pub struct Pools;
/// Pools of all namespaces, with an index of the classes they name.
pub struct GlobalPools;

/// A pool as a claim names it: the namespace is the claim's.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolName {
    /// Kind.
    pub kind: Box<str>,
    /// Name.
    pub name: Box<str>,
}

impl PoolName {
    /// The pool that a reference names.
    #[must_use]
    pub fn of(reference: ObjectRef) -> Self {
        Self { kind: reference.kind.into(), name: reference.name.into() }
    }

    /// Reads `Kind/name`.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let (kind, name) = text.split_once('/')?;
        (!kind.is_empty() && !name.is_empty()).then(|| Self { kind: kind.into(), name: name.into() })
    }
}

impl fmt::Display for PoolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind, self.name)
    }
}

/// A pool with its name.
#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    /// Its kind and name.
    pub name: PoolName,
    /// Its namespace; none for a global pool.
    pub namespace: Option<Box<str>>,
    /// What is known of it.
    pub facts: Arc<PoolFacts>,
    /// Claims of others that ask it and have no address yet.
    pub pending: usize,
}

impl Pool {
    /// A pool of a feed.
    #[must_use]
    pub fn new(kind: &str, key: &ObjectKey, facts: Arc<PoolFacts>) -> Self {
        let name = PoolName { kind: kind.into(), name: key.name().into() };
        Self { name, namespace: key.namespace().map(Into::into), facts, pending: 0 }
    }

    /// Whether it has an address left for one more, as far as is known. A provider fills claims one by one: what others
    /// already asked for is as good as gone, or many clusters at once would all queue at one pool.
    #[must_use]
    pub fn has_room(&self) -> bool {
        let pending = i64::try_from(self.pending).unwrap_or(i64::MAX);
        self.facts.counts.as_ref().is_none_or(|counts| counts.free > pending)
    }

    /// The value under which claims that ask it are indexed.
    #[must_use]
    pub fn index_value(&self) -> Box<str> {
        pool_value(&self.name, self.namespace.as_deref())
    }
}

/// The value of a pool in the index of claims that ask it.
pub(super) fn pool_value(name: &PoolName, namespace: Option<&str>) -> Box<str> {
    format!("{}:{name}", namespace.unwrap_or_default()).into()
}

/// Addresses from the first to the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first.
    pub first: IpAddr,
    /// The last.
    pub last: IpAddr,
}

impl Range {
    /// Reads an address, `first-last` or a network.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let text = text.trim();
        if let Ok(net) = text.parse::<IpNet>() {
            return Some(Self { first: net.network(), last: net.broadcast() });
        }
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let range = Self { first: first.trim().parse().ok()?, last: last.trim().parse().ok()? };
        (Family::of(range.first) == Family::of(range.last)).then_some(range)
    }

    /// Whether the address lies in it.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        Family::of(address) == Family::of(self.first) && self.first <= address && address <= self.last
    }
}

/// A pool, as decisions use it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PoolFacts {
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Whether somebody paused it.
    pub paused: bool,
    /// Its labels, those of this capability only.
    pub labels: BTreeMap<String, String>,
    /// Its annotations, those of this capability only.
    pub annotations: BTreeMap<String, String>,
    /// The addresses it may give away.
    pub ranges: Vec<Range>,
    /// The addresses it never gives away.
    pub excluded: Vec<Range>,
    /// How many there are, once its provider has counted them.
    pub counts: Option<PoolCounts>,
}

impl PoolFacts {
    fn of(metadata: ObjectMeta, spec: &AddressPoolSpec, status: AddressPoolStatus) -> Self {
        let paused = metadata.annotations.as_ref().is_some_and(|a| a.contains_key(PAUSED_ANNOTATION));
        let ranges = |texts: &[String]| texts.iter().filter_map(|text| Range::read(text)).collect();
        Self {
            deleting: metadata.deletion_timestamp.is_some(),
            paused,
            labels: ours(metadata.labels),
            annotations: ours(metadata.annotations),
            ranges: ranges(&spec.addresses),
            excluded: ranges(&spec.excluded_addresses),
            counts: status.counts,
        }
    }

    /// The family of its addresses; a pool has one.
    #[must_use]
    pub fn family(&self) -> Option<Family> {
        self.ranges.first().map(|range| Family::of(range.first))
    }

    /// Whether it has an address left, as far as is known.
    #[must_use]
    pub fn has_capacity(&self) -> bool {
        self.counts.as_ref().is_none_or(|counts| counts.free > 0)
    }

    /// Whether it could give this address away.
    #[must_use]
    pub fn offers(&self, address: IpAddr) -> bool {
        let within = |ranges: &[Range]| ranges.iter().any(|range| range.contains(address));
        within(&self.ranges) && !within(&self.excluded)
    }

    /// The values of a label that may be the word itself or `true` with a list in the annotation of the same key.
    pub fn words(&self, key: &str) -> impl Iterator<Item = &str> {
        let label = self.labels.get(key).map(String::as_str).unwrap_or_default();
        let list =
            if label == "true" { self.annotations.get(key).map(String::as_str).unwrap_or_default() } else { label };
        entries(list)
    }
}

/// The two kinds of pools differ in where they live, not in what is kept of them.
macro_rules! project {
    ($pools:ty, $source:ty) => {
        impl Project for $pools {
            type Source = $source;
            type Slim = PoolFacts;
            const INDEXES: &'static [&'static str] = &["class"];

            fn slim(source: $source) -> PoolFacts {
                PoolFacts::of(source.metadata, &source.spec, source.status)
            }

            fn keys(_: usize, _: &ObjectKey, pool: &PoolFacts) -> Vec<Box<str>> {
                pool.words(CLUSTER_CLASS).map(Into::into).collect()
            }
        }
    };
}

project! { Pools, InClusterIPPool }
project! { GlobalPools, GlobalInClusterIPPool }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_ranges_and_networks_are_read_and_others_are_not() {
        let inside = |text: &str, address: &str| Range::read(text).unwrap().contains(address.parse().unwrap());
        assert!(inside("10.0.0.5", "10.0.0.5") && !inside("10.0.0.5", "10.0.0.6"));
        assert!(inside("10.0.0.5-10.0.0.9", "10.0.0.9") && !inside("10.0.0.5 - 10.0.0.9", "10.0.0.10"));
        assert!(inside("2001:db8::/120", "2001:db8::ff") && !inside("2001:db8::/120", "10.0.0.1"));
        for bad in ["", "pool", "10.0.0.1-2001:db8::1", "10.0.0.300"] {
            assert_eq!(Range::read(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_label_is_the_word_or_points_to_the_list() {
        let mut pool = PoolFacts::default();
        assert_eq!(pool.words("k").count(), 0);
        pool.annotations.insert("k".to_owned(), " a, ns/b ,, * ".to_owned());
        assert_eq!(pool.words("k").count(), 0, "the annotation alone says nothing");
        pool.labels.insert("k".to_owned(), "true".to_owned());
        assert_eq!(pool.words("k").collect::<Vec<_>>(), ["a", "ns/b", "*"]);
        pool.labels.insert("k".to_owned(), "x,y".to_owned());
        assert_eq!(pool.words("k").collect::<Vec<_>>(), ["x", "y"]);
    }
}
