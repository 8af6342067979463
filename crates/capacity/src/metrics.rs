//! What is counted, and what is read when somebody scrapes.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kit::lacks::Lacks;
use kit::manager::Manager;
use kit::room::{Roll, Stand};
use kit::telemetry::Metrics;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;

use crate::config::MACHINE_API_MIGRATION;
use crate::facts::{GroupKey, GroupKind, ROOM};
use crate::shelf::{Found, Place, Standing};

/// How a pass over a group ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Result {
    /// Annotations were written.
    Changed,
    /// They were right already.
    Unchanged,
    /// The group is left alone.
    Skipped,
    /// The cloud is being asked.
    Asking,
    /// The catalogue does not know the type.
    UnknownType,
    /// Only a person can help.
    Terminal,
    /// It passes by itself.
    Error,
}

impl Result {
    fn as_str(self) -> &'static str {
        match self {
            Self::Changed => "changed",
            Self::Unchanged => "unchanged",
            Self::Skipped => "skipped",
            Self::Asking => "asking",
            Self::UnknownType => "unknown_type",
            Self::Terminal => "terminal",
            Self::Error => "error",
        }
    }
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct KindResult {
    kind: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RegionResult {
    provider: &'static str,
    region: String,
    result: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RegionLabel {
    provider: &'static str,
    region: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct GateLabel {
    name: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct KindLabel {
    kind: &'static str,
}

/// The counters of the room; clones share them.
#[derive(Clone, Debug)]
pub struct CapacityMetrics {
    groups: Family<KindResult, Counter>,
    lookups: Family<RegionResult, Counter>,
    refreshes: Family<RegionResult, Counter>,
    refresh_seconds: Histogram,
    patches: Family<KindResult, Counter>,
    gates: Family<GateLabel, Gauge>,
    overrides: Arc<Mutex<HashMap<GroupKey, usize>>>,
    makers: Arc<Mutex<BTreeSet<String>>>,
    places: Arc<Mutex<BTreeSet<String>>>,
    rolls: Arc<[(GroupKind, Roll)]>,
    pub(crate) lacks: Lacks,
}

/// Regions come from what users write, so the labels of metrics must not follow them without end.
const REGIONS: usize = 64;

impl Default for CapacityMetrics {
    fn default() -> Self {
        Self {
            groups: Family::default(),
            lookups: Family::default(),
            refreshes: Family::default(),
            refresh_seconds: Histogram::new([0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 60.0]),
            patches: Family::default(),
            gates: Family::default(),
            overrides: Arc::default(),
            makers: Arc::default(),
            places: Arc::default(),
            rolls: Arc::new([]),
            lacks: Lacks::default(),
        }
    }
}

impl CapacityMetrics {
    /// Adds them to the registry as `berth_capacity_…`.
    #[must_use]
    pub fn register(manager: &Manager) -> Self {
        let open = |kind: GroupKind| (kind, Roll::open(manager, ROOM, kind.as_str()));
        let new = Self { rolls: Arc::new(GroupKind::ALL.map(open)), lacks: Lacks::of(manager), ..Self::default() };
        let metrics = manager.metrics();
        metrics.register("capacity_groups", "Passes over groups of machines, by how they ended", new.groups.clone());
        metrics.register("capacity_lookups", "Instance types looked up in the catalogue", new.lookups.clone());
        metrics.register("capacity_refreshes", "Lists of instance types asked of the cloud", new.refreshes.clone());
        metrics.register(
            "capacity_refresh_duration_seconds",
            "How long a list of instance types took",
            new.refresh_seconds.clone(),
        );
        metrics.register("capacity_patches", "Writes of annotations, by how they ended", new.patches.clone());
        metrics.register("capacity_feature_gate", "Feature gates, 1 = on", new.gates.clone());
        metrics.register_collector(Overrides(Arc::clone(&new.overrides)));
        new
    }

    /// Shows the age and size of catalogues, read from `standing` at each scrape.
    pub fn show(&self, metrics: &Metrics, standing: impl Fn() -> Vec<Standing> + Send + Sync + 'static) {
        metrics.register_collector(Catalogues(Box::new(standing)));
    }

    /// Says whether the gate of OpenShift's migration is on.
    pub fn gate(&self, on: bool) {
        self.gates.get_or_create(&GateLabel { name: MACHINE_API_MIGRATION }).set(i64::from(on));
    }

    /// A pass over a group ended.
    pub fn passed(&self, kind: GroupKind, result: Result) {
        self.groups.get_or_create(&KindResult { kind: kind.full(), result: result.as_str() }).inc();
    }

    /// Annotations were written, or not.
    pub fn patched(&self, kind: GroupKind, result: &'static str) {
        self.patches.get_or_create(&KindResult { kind: kind.full(), result }).inc();
    }

    /// A type was looked up.
    pub fn lookup(&self, place: &Place, found: &Found) {
        let result = match found {
            Found::Known { stale: false, .. } => "hit",
            Found::Known { stale: true, .. } => "stale",
            Found::Unknown { .. } => "negative",
            Found::Recall | Found::Ask(_) | Found::Wait | Found::Failed { .. } => "miss",
        };
        let labels = RegionResult { provider: place.provider(), region: self.region(place), result };
        self.lookups.get_or_create(&labels).inc();
    }

    /// A list was asked for.
    pub fn refreshed(&self, place: &Place, done: bool, took: Duration) {
        let result = if done { "done" } else { "failed" };
        let labels = RegionResult { provider: place.provider(), region: self.region(place), result };
        self.refreshes.get_or_create(&labels).inc();
        self.refresh_seconds.observe(took.as_secs_f64());
    }

    /// How a group stands, as a pass has found; `None` when it is gone, or left alone.
    pub fn stands(&self, key: &GroupKey, stand: Option<Stand>) {
        if let Some((_, roll)) = self.rolls.iter().find(|(kind, _)| *kind == key.kind) {
            roll.tell(key, stand);
        }
    }

    /// How many keys of a group are a user's.
    pub fn overrides(&self, key: &GroupKey, count: usize) {
        let mut all = self.overrides.lock().unwrap_or_else(PoisonError::into_inner);
        if count == 0 {
            all.remove(key);
        } else {
            all.insert(key.clone(), count);
        }
    }

    /// Whether nobody was told of this maker of accelerators yet.
    pub fn is_new_maker(&self, maker: &str) -> bool {
        let mut makers = self.makers.lock().unwrap_or_else(PoisonError::into_inner);
        makers.len() < REGIONS && makers.insert(maker.to_owned())
    }

    fn region(&self, place: &Place) -> String {
        let likely = match place {
            Place::Ec2(place) => aws::place::Partition::known(&place.region).is_some(),
            Place::Acs(_) => true,
        };
        // Nobody knows which regions and zones there are: the first ones get names of their own.
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let name = place.region();
        let own = likely && (places.contains(name) || (places.len() < REGIONS && places.insert(name.to_owned())));
        if own { name.to_owned() } else { "other".to_owned() }
    }
}

#[derive(Debug)]
struct Overrides(Arc<Mutex<HashMap<GroupKey, usize>>>);

impl Collector for Overrides {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::result::Result<(), std::fmt::Error> {
        let mut counts = GroupKind::ALL.map(|kind| (kind, 0_i64));
        for (key, count) in self.0.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            for (kind, sum) in &mut counts {
                if *kind == key.kind {
                    *sum += i64::try_from(*count).unwrap_or_default();
                }
            }
        }
        let help = "Annotations that users have set otherwise";
        let mut metric = encoder.encode_descriptor("capacity_overrides", help, None, MetricType::Gauge)?;
        for (kind, sum) in counts {
            ConstGauge::new(sum).encode(metric.encode_family(&KindLabel { kind: kind.full() })?)?;
        }
        Ok(())
    }
}

struct Catalogues(Box<dyn Fn() -> Vec<Standing> + Send + Sync>);

impl std::fmt::Debug for Catalogues {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Catalogues")
    }
}

impl Collector for Catalogues {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::result::Result<(), std::fmt::Error> {
        let mut all = (self.0)();
        // One region may be kept for several endpoints; the oldest is the one to worry about.
        all.sort_by(|a, b| (a.provider, &a.region).cmp(&(b.provider, &b.region)).then(b.age.cmp(&a.age)));
        all.dedup_by(|a, b| (a.provider, &a.region) == (b.provider, &b.region));
        all.truncate(REGIONS);
        let label = |s: &Standing| RegionLabel { provider: s.provider, region: s.region.clone() };
        let help = "Age of the catalogue of a region";
        let mut metric = encoder.encode_descriptor("capacity_catalogue_age_seconds", help, None, MetricType::Gauge)?;
        for standing in &all {
            let age = i64::try_from(standing.age.as_secs()).unwrap_or(i64::MAX);
            ConstGauge::new(age).encode(metric.encode_family(&label(standing))?)?;
        }
        let help = "Instance types in the catalogue of a region";
        let mut metric = encoder.encode_descriptor("capacity_catalogue_entries", help, None, MetricType::Gauge)?;
        for standing in &all {
            let entries = i64::try_from(standing.entries).unwrap_or(i64::MAX);
            ConstGauge::new(entries).encode(metric.encode_family(&label(standing))?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shelf::Ec2Place;

    #[test]
    fn labels_follow_the_first_regions_only() {
        let metrics = CapacityMetrics::default();
        let label =
            |name: &str| metrics.region(&Place::Ec2(Ec2Place { region: name.parse().unwrap(), endpoint: None }));
        assert_eq!((label("us-east-1").as_str(), label("xx-moon-1").as_str()), ("us-east-1", "other"));
        let all: BTreeSet<String> = (1..200).map(|number| label(&format!("us-moon-{number}"))).collect();
        assert_eq!((all.len(), all.contains("other")), (REGIONS, true));
        assert_eq!(label("us-east-1"), "us-east-1", "who came first keeps its name");
    }
}
