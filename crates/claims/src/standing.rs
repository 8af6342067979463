//! Rediscovery: which hosts carry the claim's reference, and what became of the one it had.
//!
//! The reference on the host is the only authority. The claim's status is a hint: it says which of two hosts is meant,
//! and that there was one at all.

use std::sync::Arc;

use api::key::ObjectKey;
use api::views::METAL3_GROUP;

use crate::facts::{ClaimFacts, Consumer, HostFacts};

/// A host and where it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Namespace and name.
    pub key: ObjectKey,
    /// What is known of it.
    pub facts: Arc<HostFacts>,
}

/// How a claim stands with its host.
#[derive(Clone, Debug, PartialEq)]
pub enum Standing<'s> {
    /// No host carries its reference, and none did.
    Free,
    /// Hosts carry its reference.
    Bound {
        /// The one that counts.
        host: &'s Found,
        /// The others, which are given back.
        extras: Vec<&'s Found>,
    },
    /// The host that the status names is gone, or in other hands.
    Lost {
        /// Whether something ran on it: then another host would be a second machine of the same identity.
        deployed: bool,
    },
}

/// Whether a host's reference means this claim. An empty uid does: it was cleared for a move, or upstream wrote it.
#[must_use]
pub fn is_ours(consumer: Option<&Consumer>, key: &ObjectKey, claim: &ClaimFacts) -> bool {
    consumer.is_some_and(|consumer| names_claim(consumer, key) && consumer.means(&claim.uid))
}

/// Whether a reference names a claim of this key, whatever its uid.
#[must_use]
pub fn names_claim(consumer: &Consumer, key: &ObjectKey) -> bool {
    consumer.claim().as_ref() == Some(key)
}

/// The reference to a claim that its host carries.
#[must_use]
pub fn consumer(key: &ObjectKey, claim: &ClaimFacts) -> Consumer {
    Consumer {
        group: METAL3_GROUP.into(),
        kind: "HostClaim".into(),
        namespace: key.namespace().unwrap_or_default().into(),
        name: key.name().into(),
        uid: claim.uid.clone(),
    }
}

/// How the claim stands, given every host whose reference names it.
#[must_use]
pub fn standing<'s>(key: &ObjectKey, claim: &ClaimFacts, hosts: &'s [Found]) -> Standing<'s> {
    let mut ours: Vec<&Found> = hosts.iter().filter(|h| is_ours(h.facts.consumer.as_ref(), key, claim)).collect();
    let status = &claim.status;
    let named = status.bare_metal_host.as_ref().map(|host| host.key());
    let selected = status.selected_host.as_ref().map(|host| host.key());
    // Smallest first: what the status names, then what it intended, then what already runs something.
    ours.sort_by_key(|host| {
        let not = |key: &Option<ObjectKey>| key.as_ref() != Some(&host.key);
        (not(&named), not(&selected), !host.facts.is_deployed(), host.key.clone())
    });
    let mut ours = ours.into_iter();
    match (ours.next(), named) {
        (Some(host), _) => Standing::Bound { host, extras: ours.collect() },
        (None, Some(_)) => Standing::Lost { deployed: status.was_deployed() },
        (None, None) => Standing::Free,
    }
}
