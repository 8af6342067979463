//! Tells people and meters what was done about a cluster's addresses, in the same words whoever did it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::key::ObjectKey;
use api::views::Namespace;
use kit::clock::Clock;
use kit::events::Events;
use kit::kinds::Kind;
use kit::write::Target;
use tokio::time::{Instant, timeout};

use crate::facts::{ClusterFacts, PoolName, World};
use crate::metrics::VipMetrics;
use crate::names::Slot;
use crate::scene::Scene;
use crate::survey::{Stance, State, age, survey};

/// The longest that telling people may hold up what is told.
const TELLING: Duration = Duration::from_secs(1);
/// What lasts is told again after this.
const REPEAT: Duration = Duration::from_secs(300);
/// How much of what was told is remembered.
const MEMORY: usize = 4096;

/// Says what happened, as events on the Cluster and as counts.
#[derive(Clone)]
pub struct Teller {
    events: Events,
    metrics: VipMetrics,
    world: World,
    clock: Clock,
    /// Claims, by uid, of whose long wait people were told.
    warned: Arc<Mutex<BTreeSet<Box<str>>>>,
    /// Clusters, by uid, whose templates were refused, and when people were told.
    refused: Arc<Mutex<BTreeMap<Box<str>, Instant>>>,
}

impl Teller {
    /// A teller of events and counts about the Clusters of `world`.
    #[must_use]
    pub fn new(events: Events, metrics: VipMetrics, world: World, clock: Clock) -> Self {
        Self { events, metrics, world, clock, warned: Arc::default(), refused: Arc::default() }
    }

    /// The counters, for what is not told to people.
    #[must_use]
    pub fn metrics(&self) -> &VipMetrics {
        &self.metrics
    }

    /// The Cluster as the target of events and writes.
    #[must_use]
    pub fn target(&self, key: &ObjectKey, cluster: &ClusterFacts) -> Target {
        Target { kind: self.world.clusters.kind(), key: key.clone(), uid: cluster.uid.clone() }
    }

    /// A claim was made.
    pub async fn claimed(&self, key: &ObjectKey, cluster: &ClusterFacts, slot: Slot, pool: &PoolName) {
        let note = format!("IPAddressClaim {} asks {pool} for the {slot} address", slot.claim(key.name()));
        self.note(key, cluster, "VIPClaimCreated", &note).await;
    }

    /// A claim without an owner was taken over.
    pub async fn adopted(&self, key: &ObjectKey, cluster: &ClusterFacts, slot: Slot) {
        let note = format!("IPAddressClaim {} had no owner and is this Cluster's now", slot.claim(key.name()));
        self.note(key, cluster, "VIPClaimAdopted", &note).await;
    }

    /// A claim was given up for another pool.
    pub async fn fell_back(&self, scene: &Scene, cluster: &ClusterFacts, slot: Slot, better: &PoolName) {
        self.metrics.fell_back();
        let from = scene.claim(slot).and_then(|claim| claim.pool.as_ref()).map(ToString::to_string).unwrap_or_default();
        let note = format!("{from} has no address left; {better} is asked for the {slot} address");
        self.note(&scene.key, cluster, "VIPPoolFallback", &note).await;
    }

    /// A claim that is not needed was deleted.
    pub async fn released(&self, key: &ObjectKey, cluster: &ClusterFacts, slot: Slot, why: &str) {
        let note = format!("IPAddressClaim {} was deleted: {why}", slot.claim(key.name()));
        self.note(key, cluster, "VIPReleased", &note).await;
    }

    /// A claim whose Cluster never came was deleted.
    pub async fn swept(&self, key: &ObjectKey, slot: Slot) {
        self.metrics.swept();
        let namespace = ObjectKey::cluster_scoped(key.namespace().unwrap_or_default());
        let target = Target { kind: Kind::of::<Namespace>(), key: namespace, uid: Box::default() };
        let note = format!("IPAddressClaim {} had no owner and no Cluster, and was deleted", slot.claim(key.name()));
        self.say(&target, false, "VIPOrphanDeleted", &note).await;
    }

    /// The Cluster, which was `cluster` before, carries its addresses now. `endpoint` says whether it was given its
    /// endpoint by that; of the other addresses those are told that it did not show, if they are `new` to it.
    pub async fn written(&self, scene: &Scene, cluster: &ClusterFacts, endpoint: bool, new: impl Fn(Slot) -> bool) {
        let survey = survey(cluster, scene);
        let class = cluster.class.as_ref().map_or("", ObjectKey::name);
        if survey.stance == Stance::Manual {
            let host = survey.goal.endpoint.as_ref().map(|e| e.host.as_str()).unwrap_or_default();
            let note = format!("{host} was chosen by hand; no address is taken from a pool");
            return self.note(&scene.key, cluster, "VIPManual", &note).await;
        }
        for (slot, want) in &survey.wants {
            let State::Bound { address, pool } = &want.state else { continue };
            let unshown = cluster.annotation(slot.annotation()).is_none() && new(*slot);
            let given = endpoint && *slot == Slot::CONTROL_PLANE;
            if !unshown && !given {
                continue;
            }
            let took = scene.claim(*slot).map(|claim| age(claim, scene.now));
            self.metrics.allocated(slot.role, class, took);
            let pool = pool.as_ref().map(ToString::to_string).unwrap_or_default();
            let seconds = took.map_or(0.0, |took| took.as_secs_f64());
            let note = format!("{slot} address {address} from {pool}, {seconds:.1} s after it was claimed");
            self.note(&scene.key, cluster, "VIPAllocated", &note).await;
        }
    }

    /// The slots of whose long wait people have been told.
    #[must_use]
    pub fn warned(&self, scene: &Scene) -> BTreeSet<Slot> {
        let warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        let told = |slot: &Slot| scene.claim(*slot).is_some_and(|claim| warned.contains(&claim.version.uid));
        Slot::ALL.into_iter().filter(told).collect()
    }

    /// A claim has waited so long that somebody should look at its provider.
    pub async fn waits(&self, scene: &Scene, cluster: &ClusterFacts, slot: Slot) {
        let Some(claim) = scene.claim(slot) else { return };
        {
            let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
            if warned.len() >= MEMORY {
                warned.clear();
            }
            warned.insert(claim.version.uid.clone());
        }
        let pool = claim.pool.as_ref().map_or_else(|| "its pool".to_owned(), ToString::to_string);
        let name = slot.claim(scene.key.name());
        let note = format!("IPAddressClaim {name} has got no address from {pool} for more than a minute");
        self.say(&self.target(&scene.key, cluster), true, "VIPWaiting", &note).await;
    }

    /// The rendered templates of a Cluster were refused, with these findings.
    pub async fn refused(&self, key: &ObjectKey, uid: &str, findings: &str) {
        let now = self.clock.instant();
        {
            let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
            // Cluster API asks again and again; people are told once in a while.
            refused.retain(|_, told| now.saturating_duration_since(*told) < REPEAT);
            if refused.contains_key(uid) || refused.len() >= MEMORY {
                return;
            }
            refused.insert(uid.into(), now);
        }
        let target = Target { kind: self.world.clusters.kind(), key: key.clone(), uid: uid.into() };
        self.say(&target, true, "VIPTopologyInvalid", findings).await;
    }

    async fn note(&self, key: &ObjectKey, cluster: &ClusterFacts, reason: &str, note: &str) {
        self.say(&self.target(key, cluster), false, reason, note).await;
    }

    async fn say(&self, target: &Target, warning: bool, reason: &str, note: &str) {
        // An event is worth a moment, not an answer.
        if timeout(TELLING, self.events.say(target, warning, reason, note)).await.is_err() {
            tracing::debug!(object = %target, reason, "event not published in time");
        }
    }
}
