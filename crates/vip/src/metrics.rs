//! What is counted, and what is read from the indexes when somebody scrapes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::key::ObjectKey;
use kit::feed::Seen;
use kit::telemetry::{Metrics, gauge, gauges};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;

use crate::facts::{ClaimFacts, GLOBAL_POOL_KIND, Owner, POOL_KIND, Pool, World};
use crate::names::{ALLOCATED, CONTROL_PLANE_SOURCE, Role, Slot};
use crate::pools::is_open;

/// Labels of a role and a class; classes are few.
#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct ClassLabels {
    role: &'static str,
    cluster_class: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ErrorLabels {
    role: &'static str,
    cluster_class: String,
    reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct PassLabels {
    cluster_class: String,
    result: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct PassClass {
    cluster_class: String,
}

/// The counters of the room.
#[derive(Clone, Debug)]
pub struct VipMetrics {
    allocations: Family<ClassLabels, Counter>,
    errors: Family<ErrorLabels, Counter>,
    duration: Family<ClassLabels, Histogram>,
    rounds: Histogram,
    fallbacks: Counter,
    orphans: Counter,
    conflicts: Counter,
    passes: Family<PassLabels, Counter>,
    pass_seconds: Family<PassClass, Histogram>,
}

impl VipMetrics {
    /// Adds them to the registry as `berth_vip_…`.
    #[must_use]
    pub fn register(metrics: &Metrics, world: &World) -> Self {
        let seconds = || Histogram::new([0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0]);
        let new = Self {
            allocations: Family::default(),
            errors: Family::default(),
            duration: Family::new_with_constructor(seconds),
            rounds: Histogram::new([1.0, 2.0, 3.0, 5.0, 8.0, 13.0, 21.0, 50.0]),
            fallbacks: Counter::default(),
            orphans: Counter::default(),
            conflicts: Counter::default(),
            passes: Family::default(),
            pass_seconds: Family::new_with_constructor(|| {
                Histogram::new([0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0])
            }),
        };
        metrics.register("vip_allocations", "Addresses written to Clusters", new.allocations.clone());
        metrics.register(
            "vip_allocation_errors",
            "Hook answers that made a cluster wait for a person",
            new.errors.clone(),
        );
        metrics.register("vip_allocation_duration_seconds", "Claim made to Cluster written", new.duration.clone());
        metrics.register("vip_gate_rounds", "Calls per cluster until it was let through", new.rounds.clone());
        metrics.register("vip_pool_fallbacks", "Claims moved to another pool", new.fallbacks.clone());
        metrics.register(
            "vip_orphan_claims_deleted",
            "Claims deleted because their Cluster never came",
            new.orphans.clone(),
        );
        metrics.register("vip_conflicts", "Addresses found in use by another cluster", new.conflicts.clone());
        metrics.register("vip_reconcile", "Passes of the housekeeper over a cluster", new.passes.clone());
        metrics.register("vip_reconcile_duration_seconds", "How long such a pass took", new.pass_seconds.clone());
        metrics.register_collector(Gauges { world: world.clone() });
        new
    }

    /// An address stands on a Cluster.
    pub fn allocated(&self, role: Role, class: &str, took: Option<Duration>) {
        let labels = ClassLabels { role: role.as_str(), cluster_class: class.to_owned() };
        self.allocations.get_or_create(&labels).inc();
        if let Some(took) = took {
            self.duration.get_or_create(&labels).observe(took.as_secs_f64());
        }
    }

    /// The housekeeper has looked at a cluster of this class.
    pub fn passed(&self, class: &str, result: &'static str, took: Duration) {
        self.passes.get_or_create(&PassLabels { cluster_class: class.to_owned(), result }).inc();
        self.pass_seconds.get_or_create(&PassClass { cluster_class: class.to_owned() }).observe(took.as_secs_f64());
    }

    /// A cluster waits for a person.
    pub fn waits(&self, role: Role, class: &str, reason: &'static str) {
        let labels = ErrorLabels { role: role.as_str(), cluster_class: class.to_owned(), reason };
        self.errors.get_or_create(&labels).inc();
    }

    /// A cluster was let through after that many calls.
    pub fn opened(&self, rounds: u32) {
        self.rounds.observe(f64::from(rounds));
    }

    /// A claim was moved to another pool.
    pub fn fell_back(&self) {
        self.fallbacks.inc();
    }

    /// A claim without a Cluster was deleted.
    pub fn swept(&self) {
        self.orphans.inc();
    }

    /// An address is in use by another cluster.
    pub fn conflict(&self) {
        self.conflicts.inc();
    }
}

/// Read from the indexes at each scrape, so that they cost nothing in between and cannot drift.
#[derive(Debug)]
struct Gauges {
    world: World,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct PoolLabels {
    pool_kind: &'static str,
    pool_namespace: String,
    pool_name: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct ClaimLabels {
    role: &'static str,
    namespace: String,
}

impl Gauges {
    /// Whether the Clusters that own a claim are all gone, or were made again: the garbage collector takes it away.
    fn is_left_behind(&self, key: &ObjectKey, claim: &ClaimFacts) -> bool {
        let gone = |owner: &Owner| {
            let cluster = ObjectKey::namespaced(key.namespace().unwrap_or_default(), owner.name.as_ref());
            *owner.kind == *"Cluster"
                && match self.world.clusters.get(&cluster) {
                    Seen::At(cluster) => cluster.uid != owner.uid,
                    Seen::Absent => true,
                    Seen::Behind => false,
                }
        };
        !claim.owners.is_empty() && claim.owners.iter().all(gone)
    }

    /// How many pools name a class and a role, and have an address left. Classes of one name are one: labels hold no
    /// namespace, and pools rarely do.
    fn available(&self) -> BTreeMap<ClassLabels, i64> {
        let pool = |kind: &'static str| move |(key, facts)| Pool::new(kind, &key, facts);
        let own = self.world.pools.all().into_iter().map(pool(POOL_KIND));
        let pools: Vec<Pool> =
            own.chain(self.world.global_pools.all().into_iter().map(pool(GLOBAL_POOL_KIND))).collect();
        let mut found: BTreeMap<ClassLabels, BTreeSet<Box<str>>> = BTreeMap::new();
        for (class, _) in self.world.classes.all() {
            for role in Role::ALL {
                let labels = ClassLabels { role: role.as_str(), cluster_class: class.name().to_owned() };
                let open = pools.iter().filter(|pool| is_open(pool, &class, role)).map(Pool::index_value);
                found.entry(labels).or_default().extend(open);
            }
        }
        found.into_iter().map(|(labels, pools)| (labels, i64::try_from(pools.len()).unwrap_or(i64::MAX))).collect()
    }
}

impl Collector for Gauges {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let own = self.world.pools.all().into_iter().map(|pool| (POOL_KIND, pool));
        let global = self.world.global_pools.all().into_iter().map(|pool| (GLOBAL_POOL_KIND, pool));
        let mut pools: BTreeMap<PoolLabels, [i64; 3]> = BTreeMap::new();
        for (pool_kind, (key, facts)) in own.chain(global) {
            let Some(counts) = &facts.counts else { continue };
            let pool_namespace = key.namespace().unwrap_or_default().to_owned();
            let labels = PoolLabels { pool_kind, pool_namespace, pool_name: key.name().to_owned() };
            pools.insert(labels, [counts.total, counts.free, counts.used]);
        }
        let names = ["total", "free", "used"];
        for (number, name) in names.into_iter().enumerate() {
            let values = pools.iter().filter_map(|(labels, counts)| Some((labels.clone(), *counts.get(number)?)));
            let help = "Addresses of a pool, as its provider counts them";
            gauges(&mut encoder, &format!("vip_pool_addresses_{name}"), help, values)?;
        }
        let mut claims: BTreeMap<ClaimLabels, [i64; 2]> = BTreeMap::new();
        let mut left_behind = 0;
        for (key, claim) in self.world.claims.all() {
            let Some((slot, _)) = Slot::of_claim(key.name()).filter(|(slot, _)| claim.is_ours(*slot)) else { continue };
            left_behind += usize::from(self.is_left_behind(&key, &claim));
            let namespace = key.namespace().unwrap_or_default().to_owned();
            let [ready, pending] = claims.entry(ClaimLabels { role: slot.role.as_str(), namespace }).or_default();
            *if claim.address.is_some() { ready } else { pending } += 1;
        }
        let all = claims.iter().map(|(labels, [ready, pending])| (labels.clone(), ready + pending));
        gauges(&mut encoder, "vip_claims_total", "Claims of this room", all)?;
        let ready = claims.iter().map(|(labels, [ready, _])| (labels.clone(), *ready));
        gauges(&mut encoder, "vip_claims_ready", "Claims that hold an address", ready)?;
        let pending = claims.iter().map(|(labels, [_, pending])| (labels.clone(), *pending));
        gauges(&mut encoder, "vip_claims_pending", "Claims that wait for an address", pending)?;
        let help = "Claims whose Cluster is gone and that the garbage collector has not taken away yet";
        gauge(&mut encoder, "vip_claims_left_behind", help, left_behind)?;
        let help = "Pools that could give an address to a cluster of a class now";
        gauges(&mut encoder, "vip_pools_available", help, self.available())?;
        let unprotected = self.world.clusters.all().into_iter().filter(|(key, cluster)| {
            cluster.annotation(CONTROL_PLANE_SOURCE) == Some(ALLOCATED)
                && !cluster.deleting
                && self.world.claims.get(&Slot::CONTROL_PLANE.claim_of(key)) == Seen::Absent
        });
        let help = "Clusters whose address no claim protects";
        gauge(&mut encoder, "vip_unprotected_vips", help, unprotected.count())
    }
}
