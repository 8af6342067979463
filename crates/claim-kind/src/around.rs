//! What surrounds the claims of one kind: their quotas, what claims of other kinds hold of them, namespaces, clusters and
//! Secrets, and who waits for room.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::key::ObjectKey;
use api::own::HostClaimQuotaSpec;
use api::raw::HostClaimQuota;
use api::views::{Cluster, Namespace, Secret};
use jiff::Timestamp;
use kit::feed::{Feed, Project, Seen, Version};
use kit::manager::{self, Manager};
use kit::queue::{Priority, Work};

use crate::claim::{BY_CLUSTER, BY_SECRET, ClaimFacts, Claims, Served, Texts};
use crate::held::{Held, Holders};
use crate::quota::{Allowance, Full, Quota};
use crate::table::{News, Seat, Table};

/// HostClaimQuotas, as those see them who make machines.
pub struct Quotas;

/// A HostClaimQuota.
#[derive(Clone, Debug, PartialEq)]
pub struct QuotaFacts {
    /// Its spec; the default when it cannot be read, which binds nobody.
    pub spec: HostClaimQuotaSpec,
    /// Why it cannot be read.
    pub problem: Option<Box<str>>,
}

impl Project for Quotas {
    type Source = HostClaimQuota;
    type Slim = QuotaFacts;

    fn slim(source: HostClaimQuota) -> QuotaFacts {
        match serde_json::from_value(source.spec) {
            Ok(spec) => QuotaFacts { spec, problem: None },
            Err(error) => {
                QuotaFacts { spec: HostClaimQuotaSpec::default(), problem: Some(format!("spec: {error}").into()) }
            }
        }
    }
}

/// Namespaces, by their labels.
pub struct Spaces;

impl Project for Spaces {
    type Source = Namespace;
    type Slim = Texts;

    fn slim(source: Namespace) -> Texts {
        let labels = source.metadata.labels.unwrap_or_default();
        labels.into_iter().map(|(key, value)| (key.into(), value.into())).collect()
    }
}

/// Clusters, by whether they are paused.
pub struct Clusters;

impl Project for Clusters {
    type Source = Cluster;
    type Slim = bool;

    fn slim(source: Cluster) -> bool {
        source.is_paused()
    }
}

/// Secrets, by their versions.
pub struct Secrets;

impl Project for Secrets {
    type Source = Secret;
    type Slim = Version;

    fn slim(source: Secret) -> Version {
        Version::of(&source)
    }
}

/// An index does not show our own last write yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the index is behind our own write")]
pub struct Behind;

/// Whoever comes first among those who wait: the higher priority, then the older claim.
type Rank = (Reverse<i32>, Timestamp, Box<str>);

/// A claim that waits for room.
#[derive(Clone, Debug)]
struct Waiting {
    rank: Rank,
    tenant: Box<str>,
    labels: Texts,
}

#[derive(Debug, Default)]
struct Ledger {
    allowance: Allowance,
    waiting: BTreeMap<ObjectKey, Waiting>,
}

impl Ledger {
    /// Takes room for a claim, unless somebody who waits and comes first would be left without.
    fn take(&mut self, key: &ObjectKey, asks: Waiting) -> Result<(), Full> {
        let mut ahead: Vec<&Waiting> = self
            .waiting
            .iter()
            .filter(|(other, one)| *other != key && one.rank < asks.rank)
            .map(|(_, one)| one)
            .collect();
        if !ahead.is_empty() {
            ahead.sort_by(|a, b| a.rank.cmp(&b.rank));
            let mut trial = self.allowance.clone();
            for one in ahead {
                // Whoever would not get room anyway keeps nobody from it.
                let _ = trial.take(&one.rank.2, &one.tenant, one.labels.clone());
            }
            if let Err(full) = trial.take(&asks.rank.2, &asks.tenant, asks.labels.clone()) {
                self.waiting.insert(key.clone(), asks);
                return Err(full);
            }
        }
        match self.allowance.take(&asks.rank.2, &asks.tenant, asks.labels.clone()) {
            Ok(()) => {
                self.waiting.remove(key);
                Ok(())
            }
            Err(full) => {
                self.waiting.insert(key.clone(), asks);
                Err(full)
            }
        }
    }

    /// Who waits, first come first.
    fn queue(&self) -> Vec<ObjectKey> {
        let mut all: Vec<(&ObjectKey, &Waiting)> = self.waiting.iter().collect();
        all.sort_by(|(_, a), (_, b)| a.rank.cmp(&b.rank));
        all.into_iter().map(|(key, _)| key.clone()).collect()
    }
}

/// Claims of a kind and what surrounds them; clones share it.
pub struct Around<K: Served> {
    claims: Feed<Claims<K>>,
    holders: Feed<Holders>,
    quotas: Feed<Quotas>,
    spaces: Feed<Spaces>,
    clusters: Feed<Clusters>,
    secrets: Feed<Secrets>,
    ledger: Arc<Mutex<Ledger>>,
    /// Locked before the ledger, where both are.
    seat: Seat,
}

impl<K: Served> Clone for Around<K> {
    fn clone(&self) -> Self {
        Self {
            claims: self.claims.clone(),
            holders: self.holders.clone(),
            quotas: self.quotas.clone(),
            spaces: self.spaces.clone(),
            clusters: self.clusters.clone(),
            secrets: self.secrets.clone(),
            ledger: Arc::clone(&self.ledger),
            seat: self.seat.clone(),
        }
    }
}

fn lock(ledger: &Mutex<Ledger>) -> MutexGuard<'_, Ledger> {
    ledger.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<K: Served> Around<K> {
    /// Starts, or joins, the feeds.
    ///
    /// # Errors
    /// When another room follows one of the kinds in a way that cannot be shared.
    pub fn follow(manager: &Manager) -> Result<Self, manager::Error> {
        Ok(Self {
            claims: manager.feed()?,
            holders: manager.feed()?,
            quotas: manager.feed()?,
            spaces: manager.feed()?,
            clusters: manager.feed()?,
            secrets: manager.feed()?,
            ledger: Arc::default(),
            seat: manager.common::<Table>().seat(),
        })
    }

    /// Waits until every index is complete, or known to have nothing to hold.
    pub async fn settled(&self) {
        self.claims.settled().await;
        self.holders.settled().await;
        self.quotas.settled().await;
        self.spaces.settled().await;
        self.clusters.settled().await;
        self.secrets.settled().await;
    }

    /// The claims.
    #[must_use]
    pub fn claims(&self) -> &Feed<Claims<K>> {
        &self.claims
    }

    /// A claim of the kind and the version of it that is shown; `None` when there is none.
    ///
    /// # Errors
    /// When the index is behind our own write.
    pub fn claim(&self, key: &ObjectKey) -> Result<Option<(Arc<ClaimFacts>, Version)>, Behind> {
        let held = match self.claims.get(key) {
            Seen::At(held) => held,
            Seen::Absent => return Ok(None),
            Seen::Behind => return Err(Behind),
        };
        let Some(claim) = held.as_ref() else { return Ok(None) };
        let version = self.claims.version(key, &held).ok_or(Behind)?;
        Ok(Some((Arc::clone(claim), version)))
    }

    /// Whether a claim must be left alone: it, or the cluster it belongs to, is paused.
    #[must_use]
    pub fn is_paused(&self, key: &ObjectKey, claim: &ClaimFacts) -> bool {
        let cluster = |name: &str| {
            let cluster = ObjectKey::namespaced(key.namespace().unwrap_or_default(), name);
            matches!(self.clusters.get(&cluster), Seen::At(paused) if *paused)
        };
        claim.is_paused() || claim.cluster.as_deref().is_some_and(cluster)
    }

    /// Takes room for the machine of a claim before it is made; a claim that has it keeps it.
    ///
    /// # Errors
    /// The quota that leaves none: the claim waits, and is woken when there may be room.
    pub fn take(&self, key: &ObjectKey, claim: &ClaimFacts) -> Result<(), Full> {
        let tenant = key.namespace().unwrap_or_default();
        let turn = self.seat.turn();
        let mut ledger = lock(&self.ledger);
        let priority = ledger.allowance.priority(tenant, claim.spec.priority);
        let rank = (Reverse(priority), claim.created, claim.uid.clone());
        let known = ledger.allowance.holds(&claim.uid);
        let took = ledger.take(key, Waiting { rank, tenant: tenant.into(), labels: K::labels(claim) });
        // Whoever has nothing yet and may have nothing keeps nobody else from it.
        let gave = took.is_err() && !claim.has_trace() && ledger.allowance.give_back(&claim.uid);
        drop(ledger);
        if took.is_ok() && !known {
            let held = Held { uid: claim.uid.clone(), kind: K::KIND.into(), place: None, labels: K::labels(claim) };
            turn.tell(News { claim: key, uid: &claim.uid, held: Some(&held) });
        } else if gave {
            turn.tell(News { claim: key, uid: &claim.uid, held: None });
        }
        took
    }

    /// A claim has a machine, whatever its status says.
    pub fn hold(&self, key: &ObjectKey, claim: &ClaimFacts) {
        let mut ledger = lock(&self.ledger);
        ledger.waiting.remove(key);
        ledger.allowance.hold(&claim.uid, key.namespace().unwrap_or_default(), K::labels(claim));
    }

    /// A claim asks for nothing at present: it waits no more, and gives back what it took and has not used.
    pub fn leave(&self, key: &ObjectKey, claim: &ClaimFacts) {
        let turn = self.seat.turn();
        let mut ledger = lock(&self.ledger);
        ledger.waiting.remove(key);
        let gave = !claim.has_trace() && ledger.allowance.give_back(&claim.uid);
        drop(ledger);
        if gave {
            turn.tell(News { claim: key, uid: &claim.uid, held: None });
        }
    }

    /// Has claims looked at when they, or what surrounds them, change.
    pub fn wake(&self, work: &Arc<Work<ObjectKey>>) {
        let queue = |ledger: &Mutex<Ledger>, work: &Work<ObjectKey>| {
            for claim in lock(ledger).queue() {
                work.add_now(claim, Priority::Background);
            }
        };
        let (ledger, own) = (Arc::clone(&self.ledger), Arc::clone(work));
        self.seat.listen(move |news| match news.held {
            Some(held) => {
                lock(&ledger).allowance.hold_elsewhere(news.claim.namespace().unwrap_or_default(), held);
            }
            None => {
                lock(&ledger).allowance.give_back(news.uid);
                queue(&ledger, &own);
            }
        });
        let (ledger, own, seat) = (Arc::clone(&self.ledger), Arc::clone(work), self.seat.clone());
        self.claims.observe(move |delta| {
            let (old, new) =
                (delta.old.as_deref().and_then(Option::as_ref), delta.new.as_deref().and_then(Option::as_ref));
            if old.is_none() && new.is_none() {
                return;
            }
            let mut freed = false;
            {
                let turn = seat.turn();
                let mut ledger = lock(&ledger);
                // Without our finalizer a claim that is being deleted has nothing left, whoever else holds it.
                let over = |claim: &ClaimFacts| claim.is_deleting() && !claim.has_finalizer();
                let gone = old.filter(|old| new.is_none_or(|new| new.uid != old.uid || over(new)));
                if let Some(gone) = gone {
                    ledger.allowance.give_back(&gone.uid);
                    ledger.waiting.remove(&delta.key);
                    freed = true;
                }
                if let Some(new) = new.filter(|new| new.has_trace() && !over(new)) {
                    ledger.allowance.hold(&new.uid, delta.key.namespace().unwrap_or_default(), K::labels(new));
                }
                drop(ledger);
                if let Some(gone) = gone {
                    turn.tell(News { claim: &delta.key, uid: &gone.uid, held: None });
                }
            }
            own.add_now(delta.key.clone(), Priority::Urgent);
            if freed {
                queue(&ledger, &own);
            }
        });
        let (ledger, own) = (Arc::clone(&self.ledger), Arc::clone(work));
        self.holders.observe(move |delta| {
            let other = |held: &&Arc<Held>| *held.kind != *K::KIND;
            let old = delta.old.as_deref().and_then(Option::as_ref).filter(other);
            let new = delta.new.as_deref().and_then(Option::as_ref).filter(other);
            let freed = old.filter(|old| new.is_none_or(|new| new != *old));
            {
                let mut ledger = lock(&ledger);
                if let Some(old) = freed {
                    ledger.allowance.give_back(&old.uid);
                }
                if let Some(new) = new {
                    ledger.allowance.hold_elsewhere(delta.key.namespace().unwrap_or_default(), new);
                }
            }
            if freed.is_some() {
                queue(&ledger, &own);
            }
        });
        let (ledger, own) = (Arc::clone(&self.ledger), Arc::clone(work));
        self.quotas.observe(move |delta| {
            let quota = delta.new.as_ref().map(|facts| Quota::new(facts.spec.clone(), facts.problem.clone()));
            lock(&ledger).allowance.quota(delta.key.name(), quota);
            queue(&ledger, &own);
        });
        let (ledger, own) = (Arc::clone(&self.ledger), Arc::clone(work));
        self.spaces.observe(move |delta| {
            lock(&ledger).allowance.space(delta.key.name(), delta.new.as_deref().cloned());
            queue(&ledger, &own);
        });
        let (claims, own) = (self.claims.clone(), Arc::clone(work));
        self.clusters.observe(move |delta| {
            for (claim, _) in claims.by(BY_CLUSTER, &delta.key.to_string()) {
                own.add_now(claim, Priority::Urgent);
            }
        });
        let (claims, own) = (self.claims.clone(), Arc::clone(work));
        self.secrets.observe(move |delta| {
            for (claim, _) in claims.by(BY_SECRET, &delta.key.to_string()) {
                own.add_now(claim, Priority::Urgent);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn asks(uid: &str, priority: i32, second: i64, zone: &str) -> (ObjectKey, Waiting) {
        let rank = (Reverse(priority), Timestamp::from_second(second).unwrap(), uid.into());
        let labels = Texts::from([("zone".into(), zone.into())]);
        (ObjectKey::namespaced("red", uid), Waiting { rank, tenant: "red".into(), labels })
    }

    fn ledger(quotas: &[(&str, serde_json::Value)]) -> Ledger {
        let mut ledger = Ledger::default();
        for (name, spec) in quotas {
            let quota = Quota::new(serde_json::from_value(spec.clone()).unwrap(), None);
            ledger.allowance.quota(name, Some(quota));
        }
        ledger
    }

    #[test]
    fn room_that_comes_free_goes_to_whoever_comes_first() {
        let mut ledger = ledger(&[("gold", json!({"tenants": {"names": ["red"]}, "hard": {"hosts": 1}}))]);
        let take = |ledger: &mut Ledger, (key, asks): (ObjectKey, Waiting)| ledger.take(&key, asks).is_ok();
        assert!(take(&mut ledger, asks("holder", 0, 1, "a")));
        assert!(!take(&mut ledger, asks("late", 0, 9, "a")));
        assert!(!take(&mut ledger, asks("early", 0, 5, "a")));
        assert!(!take(&mut ledger, asks("urgent", 7, 9, "a")));
        let names: Vec<String> = ledger.queue().iter().map(|key| key.name().to_owned()).collect();
        assert_eq!(names, ["urgent", "early", "late"]);
        ledger.allowance.give_back("holder");
        assert!(!take(&mut ledger, asks("late", 0, 9, "a")) && !take(&mut ledger, asks("early", 0, 5, "a")));
        assert!(take(&mut ledger, asks("urgent", 7, 9, "a")));
    }

    #[test]
    fn who_cannot_use_the_room_keeps_nobody_from_it() {
        let zone = json!({"tenants": {"names": ["red"]}, "hard": {"hosts": 0},
            "hostSelector": {"matchLabels": {"zone": "full"}}});
        let all = json!({"tenants": {"names": ["red"]}, "hard": {"hosts": 1}});
        let mut ledger = ledger(&[("zone", zone), ("all", all)]);
        let (key, urgent) = asks("urgent", 7, 1, "full");
        assert_eq!(&*ledger.take(&key, urgent).unwrap_err().name, "zone");
        let (key, other) = asks("other", 0, 2, "free");
        assert_eq!(ledger.take(&key, other), Ok(()));
    }
}
