//! What is counted, and what is read from the indexes when somebody scrapes.

mod tenants;

use std::collections::BTreeMap;
use std::time::Duration;

use api::key::ObjectKey;
use api::own::BAREMETAL;
use kit::feed::{Scope, Seen};
use kit::telemetry::{Metrics, gauge, gauges};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;

use crate::facts::{WAITING, World};
use crate::shared::SharedYard;
use tenants::Tenants;

/// The counters of the room.
#[derive(Clone, Debug)]
pub struct ClaimMetrics {
    bind_seconds: Histogram,
    select_seconds: Histogram,
    select_steps: Histogram,
    bind_conflicts: Counter,
    duplicates: Counter,
    release_seconds: Histogram,
}

impl ClaimMetrics {
    /// Adds them to the registry as `berth_claims_…`.
    #[must_use]
    pub fn register(metrics: &Metrics, world: &World, yard: &SharedYard, scope: &Scope) -> Self {
        let seconds = || Histogram::new([0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0, 7200.0]);
        let new = Self {
            bind_seconds: seconds(),
            select_seconds: Histogram::new([0.000_1, 0.000_5, 0.001, 0.002, 0.005, 0.01, 0.05, 0.25, 1.0]),
            select_steps: Histogram::new([1.0, 2.0, 4.0, 8.0, 16.0, 64.0, 256.0, 1024.0]),
            bind_conflicts: Counter::default(),
            duplicates: Counter::default(),
            release_seconds: seconds(),
        };
        metrics.register("claims_bind_seconds", "Claim made to host bound", new.bind_seconds.clone());
        metrics.register("claims_select_seconds", "Finding a host for a claim", new.select_seconds.clone());
        metrics.register("claims_select_steps", "Hosts looked at to find one", new.select_steps.clone());
        metrics.register("claims_bind_conflicts", "Hosts that went to somebody else first", new.bind_conflicts.clone());
        metrics.register(
            "claims_duplicate_bindings",
            "Second hosts of a claim that were given back",
            new.duplicates.clone(),
        );
        metrics.register("claims_release_seconds", "Claim deleted to host given back", new.release_seconds.clone());
        metrics.register_collector(Gauges { world: world.clone(), yard: yard.clone(), scope: scope.clone() });
        new
    }

    /// A host was bound after that time and that many hosts looked at.
    pub fn bound(&self, took: Duration, examined: u32) {
        self.bind_seconds.observe(took.as_secs_f64());
        self.select_steps.observe(f64::from(examined));
    }

    /// A host was looked for, for that long.
    pub fn sought(&self, took: Duration) {
        self.select_seconds.observe(took.as_secs_f64());
    }

    /// A host went to somebody else first.
    pub fn conflict(&self) {
        self.bind_conflicts.inc();
    }

    /// A second host of a claim was given back.
    pub fn healed(&self) {
        self.duplicates.inc();
    }

    /// A deleted claim's host was given back after that time.
    pub fn released(&self, took: Duration) {
        self.release_seconds.observe(took.as_secs_f64());
    }
}

/// Read from the indexes at each scrape, so that they cost nothing in between and cannot drift.
struct Gauges {
    world: World,
    yard: SharedYard,
    scope: Scope,
}

impl std::fmt::Debug for Gauges {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Gauges")
    }
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct PhaseLabels {
    kind: &'static str,
    phase: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct ReasonLabels {
    reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct NamespaceLabels {
    namespace: String,
}

impl Collector for Gauges {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let mut phases: BTreeMap<PhaseLabels, i64> = BTreeMap::new();
        let mut waiting: BTreeMap<ReasonLabels, i64> = BTreeMap::new();
        let mut tenants: BTreeMap<Box<str>, i64> = BTreeMap::new();
        for (key, claim) in self.world.claims.all() {
            // Tenants write the kind, and nobody wants a series for each of their words.
            let kind = if claim.baremetal { BAREMETAL } else { "other" };
            *phases.entry(PhaseLabels { kind, phase: claim.phase }).or_default() += 1;
            if claim.phase == WAITING {
                *waiting.entry(ReasonLabels { reason: claim.stand.reason() }).or_default() += 1;
                *tenants.entry(key.namespace().unwrap_or_default().into()).or_default() += 1;
            }
        }
        gauges(&mut encoder, "claims_claims", "Claims by kind and phase", phases)?;
        gauges(&mut encoder, "claims_waiting_claims", "Claims without a host, by reason", waiting)?;
        let orphans = self.world.hosts.all().into_iter().filter(|(_, host)| {
            let named = host.consumer.as_ref().and_then(|consumer| Some((consumer, consumer.claim()?)));
            named.is_some_and(|(consumer, claim)| match self.world.claims.get(&claim) {
                Seen::At(claim) => !consumer.means(&claim.uid),
                Seen::Absent => self.scope.holds(claim.namespace()),
                Seen::Behind => false,
            })
        });
        gauge(&mut encoder, "claims_orphan_hosts", "Hosts whose claim does not exist", orphans.count())?;
        let free = self.yard.lock().free();
        let free =
            free.into_iter().map(|(namespace, free)| (NamespaceLabels { namespace: namespace.into() }, count(free)));
        gauges(&mut encoder, "claims_free_hosts", "Hosts that anybody admitted may have", free)?;
        let copies = self.world.secrets.all().into_iter().filter(|(key, secret)| secret.host(key).is_some()).count();
        gauge(&mut encoder, "claims_secret_copies", "Secrets copied for claims", copies)?;
        let space = |tenant: &str| match self.world.spaces.get(&ObjectKey::cluster_scoped(tenant)) {
            Seen::At(space) => Some(space),
            Seen::Absent | Seen::Behind => None,
        };
        Tenants::of(&self.world.quotas.all(), &tenants, space).encode(encoder)
    }
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
