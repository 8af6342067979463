//! What somebody who asks can see: lists read once, judged by the same yard that the room runs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::key::ObjectKey;
use api::own::BAREMETAL;
use api::raw::{HostClaim, HostClaimQuota, HostDeployPolicy};
use api::views::{BareMetalHost, Cluster, HardwareData, Namespace};
use jiff::Timestamp;
use kit::feed::Project;
use serde_json::Value;

use crate::facts::{
    ClaimFacts, Consumer, Hardware, HardwareFacts, HostFacts, KeptClaim, PolicyFacts, QuotaFacts, Spaces,
};
use crate::yard::{Settings, Yard};

/// A kind that the judgement rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Claims.
    Claims,
    /// Hosts.
    Hosts,
    /// What inspection found in hosts.
    Hardware,
    /// Who may use which hosts.
    Policies,
    /// Namespaces.
    Namespaces,
    /// How many hosts tenants may hold.
    Quotas,
    /// Clusters.
    Clusters,
}

/// Without all of these nothing can be said about single hosts.
const DECISIVE: [Part; 4] = [Part::Hosts, Part::Policies, Part::Namespaces, Part::Quotas];

/// Something that could not be read.
pub type Unseen = kit::explain::Unseen<Part>;

/// Everything that was read.
#[derive(Clone, Debug, Default)]
pub struct Lists {
    /// Claims.
    pub claims: Vec<HostClaim>,
    /// Hosts.
    pub hosts: Vec<BareMetalHost>,
    /// What inspection found in hosts.
    pub hardware: Vec<HardwareData>,
    /// Who may use which hosts.
    pub policies: Vec<HostDeployPolicy>,
    /// Namespaces.
    pub namespaces: Vec<Namespace>,
    /// How many hosts tenants may hold.
    pub quotas: Vec<HostClaimQuota>,
    /// Clusters.
    pub clusters: Vec<Cluster>,
    /// What could not be read.
    pub unseen: Vec<Unseen>,
}

impl Lists {
    /// Whether one of the claims that are looked at may be without its host, so that hosts are judged for it. What inspection
    /// found in hosts decides about nothing else.
    #[must_use]
    pub fn seeks(&self, looked_at: impl Fn(&ObjectKey) -> bool) -> bool {
        let mut held: BTreeMap<ObjectKey, Vec<Consumer>> = BTreeMap::new();
        for consumer in self.hosts.iter().filter_map(|host| host.spec.consumer_ref.clone()).map(Consumer::of) {
            if let Some(claim) = consumer.claim() {
                held.entry(claim).or_default().push(consumer);
            }
        }
        let seeks = |claim: &HostClaim| {
            let (key, uid) = (ObjectKey::of(claim), claim.metadata.uid.as_deref().unwrap_or_default());
            let other = claim.spec.get("kind").and_then(Value::as_str).is_some_and(|kind| kind != BAREMETAL);
            let has = || held.get(&key).is_some_and(|all| all.iter().any(|consumer| consumer.means(uid)));
            looked_at(&key) && !other && !has()
        };
        self.claims.iter().any(seeks)
    }
}

/// The world as one person saw it once.
#[derive(Debug)]
pub struct Sight {
    pub(super) claims: BTreeMap<ObjectKey, Arc<ClaimFacts>>,
    pub(super) hosts: BTreeMap<ObjectKey, Arc<HostFacts>>,
    /// By claim: the hosts whose reference names it, in their order.
    pub(super) consumed: BTreeMap<ObjectKey, Vec<ObjectKey>>,
    pub(super) hardware: BTreeMap<ObjectKey, Arc<HardwareFacts>>,
    pub(super) policies: BTreeMap<ObjectKey, Arc<PolicyFacts>>,
    paused: BTreeSet<ObjectKey>,
    pub(super) yard: Yard,
    pub(super) unseen: Vec<Unseen>,
}

impl Sight {
    /// What these lists show, judged as by an operator with these settings.
    #[must_use]
    pub fn of(lists: Lists, settings: Settings, now: Timestamp) -> Self {
        let mut sight = Self {
            claims: keyed(lists.claims, ClaimFacts::of),
            hosts: keyed(lists.hosts, HostFacts::of),
            consumed: BTreeMap::new(),
            hardware: keyed(lists.hardware, Hardware::slim),
            policies: keyed(lists.policies, PolicyFacts::of),
            paused: lists.clusters.iter().filter(|cluster| cluster.is_paused()).map(ObjectKey::of).collect(),
            yard: Yard::new(settings),
            unseen: lists.unseen,
        };
        for (key, host) in &sight.hosts {
            if let Some(claim) = host.consumer.as_ref().and_then(Consumer::claim) {
                sight.consumed.entry(claim).or_default().push(key.clone());
            }
        }
        let yard = &mut sight.yard;
        for (key, space) in keyed(lists.namespaces, Spaces::slim) {
            yard.space(key.name(), Some(space), now);
        }
        for (key, quota) in keyed(lists.quotas, QuotaFacts::of) {
            yard.quota(key.name(), Some(quota), now);
        }
        for (key, policy) in &sight.policies {
            yard.policy(key, Some(Arc::clone(policy)), now);
        }
        for (key, hardware) in &sight.hardware {
            yard.hardware(key, Some(Arc::clone(hardware)), now);
        }
        for (key, host) in &sight.hosts {
            yard.host(key, Some(Arc::clone(host)), now);
        }
        for (key, claim) in &sight.claims {
            yard.claim(key, Some(Arc::new(KeptClaim::of(claim))), now);
            let cluster = claim.cluster.as_deref().map(|name| beside(key, name));
            yard.rest(key, cluster.is_some_and(|cluster| sight.paused.contains(&cluster)), now);
        }
        yard.open(now);
        sight
    }

    /// Whether single hosts can be judged: everything that decides about them was read.
    #[must_use]
    pub fn judges_hosts(&self) -> bool {
        !DECISIVE.iter().any(|part| kit::explain::misses(&self.unseen, part))
    }

    /// What is worth telling of what could not be read: who sees no hosts misses nothing by not seeing their rules.
    pub(super) fn unseen(&self) -> impl Iterator<Item = &Unseen> {
        let blind = kit::explain::is_blind(&self.unseen, &Part::Hosts);
        self.unseen.iter().filter(move |unseen| !blind || matches!(unseen.part, Part::Hosts | Part::Clusters))
    }

    /// Whether a claim or its cluster is paused.
    pub(super) fn is_paused(&self, key: &ObjectKey, claim: &ClaimFacts) -> bool {
        let cluster = claim.cluster.as_deref().map(|name| beside(key, name));
        claim.is_paused() || cluster.is_some_and(|cluster| self.paused.contains(&cluster))
    }
}

fn beside(key: &ObjectKey, name: &str) -> ObjectKey {
    ObjectKey::namespaced(key.namespace().unwrap_or_default(), name)
}

fn keyed<K: kube::Resource<DynamicType = ()>, S>(
    objects: Vec<K>,
    slim: impl Fn(K) -> S,
) -> BTreeMap<ObjectKey, Arc<S>> {
    objects.into_iter().map(|object| (ObjectKey::of(&object), Arc::new(slim(object)))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn lists(kind: &str, consumer: &Value) -> Lists {
        let claim = json!({"metadata": {"namespace": "team", "name": "web", "uid": "u"}, "spec": {"kind": kind}});
        let host = json!({"metadata": {"namespace": "yard", "name": "h"}, "spec": {"consumerRef": consumer}});
        let (claim, host) = (serde_json::from_value(claim).unwrap(), serde_json::from_value(host).unwrap());
        Lists { claims: vec![claim], hosts: vec![host], ..Lists::default() }
    }

    fn consumer(kind: &str, name: &str, uid: &str) -> Value {
        json!({"apiVersion": "metal3.io/v1alpha1", "kind": kind, "namespace": "team", "name": name, "uid": uid})
    }

    #[test]
    fn a_claim_seeks_a_host_until_one_names_just_this_claim() {
        for (host, seeks) in [
            (consumer("HostClaim", "web", "u"), false),
            (consumer("HostClaim", "web", ""), false),
            (consumer("HostClaim", "web", "another"), true),
            (consumer("HostClaim", "other", "u"), true),
            (consumer("Metal3Machine", "web", "u"), true),
            (Value::Null, true),
        ] {
            assert_eq!(lists("baremetal", &host).seeks(|_| true), seeks, "{host}");
        }
        assert!(!lists("cloudstack-vm", &Value::Null).seeks(|_| true), "what is made needs no host of ours");
        assert!(!lists("baremetal", &Value::Null).seeks(|_| false), "nobody looks at it");
    }
}
