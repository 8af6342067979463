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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn claim(status: &Value) -> ClaimFacts {
        let object = json!({"metadata": {"namespace": "t", "name": "c", "uid": "u"},
            "spec": {"poweredOn": true, "kind": "baremetal"}, "status": status});
        ClaimFacts::of(serde_json::from_value(object).unwrap())
    }

    fn host(name: &str, uid: &str, deployed: bool) -> Found {
        let consumer =
            json!({"apiVersion": "metal3.io/v1", "kind": "HostClaim", "namespace": "t", "name": "c", "uid": uid});
        let image = deployed.then(|| json!({"url": "a"}));
        let object = json!({"metadata": {"namespace": "infra", "name": name, "uid": name},
            "spec": {"consumerRef": consumer, "image": image}});
        let facts = Arc::new(HostFacts::of(serde_json::from_value(object).unwrap()));
        Found { key: ObjectKey::namespaced("infra", name), facts }
    }

    #[test]
    fn of_several_hosts_the_one_counts_that_the_status_names_then_the_one_it_meant_then_the_one_that_runs() {
        let key = ObjectKey::namespaced("t", "c");
        let hosts = [
            host("d", "u", false),
            host("c", "", true),
            host("b", "u", false),
            host("a", "u", false),
            host("z", "v", true),
        ];
        let at = |name: &str| json!({"namespace": "infra", "name": name});
        let selected = |name: &str| json!({"namespace": "infra", "name": name, "uid": name});
        for (status, counts) in [
            (json!({"bareMetalHost": at("d"), "selectedHost": selected("b")}), "d"),
            (json!({"bareMetalHost": at("gone"), "selectedHost": selected("b")}), "b"),
            (json!({"bareMetalHost": at("z"), "selectedHost": selected("z")}), "c"),
            (json!({}), "c"),
        ] {
            let claim = claim(&status);
            let Standing::Bound { host, extras } = standing(&key, &claim, &hosts) else { unreachable!("{status}") };
            assert_eq!((host.key.name(), extras.len()), (counts, 3), "{status}: who names another uid is not ours");
        }
        let free = [host("b", "u", false), host("a", "u", false)];
        let claim = claim(&json!({}));
        let Standing::Bound { host, .. } = standing(&key, &claim, &free) else { unreachable!() };
        assert_eq!(host.key.name(), "a", "and else the first by name");
    }
}
