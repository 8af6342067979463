//! What is counted, and what is read when somebody scrapes.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::reasons::hosts::Reason;
use jiff::Timestamp;
use kit::clock::Clock;
use kit::lacks::Lacks;
use kit::room::Stand;
use kit::telemetry::Metrics;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;

use crate::classes::Class;
use crate::facts::World;
use crate::journal::Phase;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Outcome {
    result: &'static str,
    class: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Ending {
    phase: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RegionLabel {
    region: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct HostLabel {
    cluster: String,
    state: String,
    instance_type: String,
    az: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct ClusterLabel {
    cluster: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct KindLabel {
    kind: &'static str,
}

/// From hosts that are there at once to those that EC2 has none of for hours.
fn seconds() -> Histogram {
    Histogram::new([1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0])
}

/// The counters of the room; clones share them.
#[derive(Clone, Debug)]
pub struct HostsMetrics {
    allocations: Family<Outcome, Counter>,
    releases: Family<Outcome, Counter>,
    ended: Family<Ending, Counter>,
    orphans: Family<RegionLabel, Gauge>,
    waits: Family<KindLabel, Histogram, fn() -> Histogram>,
    known: Arc<Mutex<Vec<String>>>,
    pub(crate) lacks: Lacks,
}

impl Default for HostsMetrics {
    fn default() -> Self {
        Self {
            allocations: Family::default(),
            releases: Family::default(),
            ended: Family::default(),
            orphans: Family::default(),
            waits: Family::new_with_constructor(seconds),
            known: Arc::default(),
            lacks: Lacks::default(),
        }
    }
}

fn outcome(done: bool, class: Class) -> Outcome {
    if done { Outcome { result: "done", class: "none" } } else { Outcome { result: "refused", class: class.as_str() } }
}

impl HostsMetrics {
    /// Adds them to the registry as `berth_hosts_…`.
    #[must_use]
    pub fn register(metrics: &Metrics, world: &World, clock: &Clock, filter: Option<String>) -> Self {
        let new = Self::default();
        metrics.register(
            "hosts_allocations",
            "Requests for dedicated hosts, by how they ended",
            new.allocations.clone(),
        );
        metrics.register("hosts_releases", "Dedicated hosts to be released, by how it ended", new.releases.clone());
        metrics.register("hosts_ended", "Dedicated hosts that are off our hands, by how", new.ended.clone());
        metrics.register("hosts_orphaned", "Dedicated hosts that belong to no machine", new.orphans.clone());
        metrics.register("hosts_allocation_seconds", "Machine or claim made to host allocated", new.waits.clone());
        let (world, clock) = (world.clone(), clock.clone());
        metrics.register_collector(Counted { world, clock, filter, paid: Mutex::default() });
        new
    }

    /// The first hosts of a machine or claim of this kind were allocated so long after it was made.
    pub fn waited(&self, kind: &'static str, took: Duration) {
        self.waits.get_or_create(&KindLabel { kind }).observe(took.as_secs_f64());
    }

    /// Hosts were asked for.
    pub fn allocated(&self, done: bool, class: Class) {
        self.allocations.get_or_create(&outcome(done, class)).inc();
    }

    /// A host was to be given back.
    pub fn released(&self, done: bool, class: Class) {
        self.releases.get_or_create(&outcome(done, class)).inc();
    }

    /// Hosts are off our hands.
    pub fn ended(&self, phase: Phase, hosts: usize) {
        let hosts = u64::try_from(hosts).unwrap_or_default();
        self.ended.get_or_create(&Ending { phase: phase.as_str() }).inc_by(hosts);
    }

    /// Orphans of a region were counted.
    pub fn orphans(&self, region: &str, count: usize) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.iter().any(|name| name == region) {
            // Regions come from what users write, so the labels must not follow them without end.
            if known.len() >= 64 {
                return;
            }
            known.push(region.to_owned());
        }
        let label = RegionLabel { region: region.to_owned() };
        self.orphans.get_or_create(&label).set(i64::try_from(count).unwrap_or(i64::MAX));
    }
}

/// Counts hosts from the journals and statuses of machines.
struct Counted {
    world: World,
    clock: Clock,
    /// The label of machines that are ours; all are without one.
    filter: Option<String>,
    paid: Mutex<Paid>,
}

/// For how long hosts were paid for since the process began, as far as those who looked saw it.
#[derive(Debug, Default)]
struct Paid {
    seen: Option<Timestamp>,
    seconds: BTreeMap<ClusterLabel, u64>,
}

/// Clusters whose sums are kept although they have no host any more.
const CLUSTERS: usize = 1_024;
/// So many clusters are told of whose machines are not ready.
const UNREADY: usize = 1_024;

/// The clusters that have waited longest. A machine costs nothing before it has a host, and names its cluster as it likes:
/// whoever may make machines must not make series without end.
fn longest(waits: BTreeMap<ClusterLabel, i64>) -> Vec<(ClusterLabel, i64)> {
    let mut all: Vec<(ClusterLabel, i64)> = waits.into_iter().collect();
    // Those that have waited as long stay in the order of their names.
    all.sort_by_key(|(_, seconds)| Reverse(*seconds));
    all.truncate(UNREADY);
    all
}

impl Paid {
    /// Adds the time since the last look for every host that is there.
    fn look(&mut self, hosts: &BTreeMap<ClusterLabel, u64>, now: Timestamp) -> BTreeMap<ClusterLabel, u64> {
        let before = self.seen.unwrap_or(now);
        self.seen = Some(now.max(before));
        let passed = u64::try_from(now.as_second().saturating_sub(before.as_second())).unwrap_or_default();
        for (cluster, count) in hosts {
            let sum = self.seconds.entry(cluster.clone()).or_default();
            *sum = sum.saturating_add(count.saturating_mul(passed));
        }
        if self.seconds.len() > CLUSTERS {
            self.seconds.retain(|cluster, _| hosts.contains_key(cluster));
        }
        self.seconds.clone()
    }
}

impl std::fmt::Debug for Counted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Counted")
    }
}

impl Collector for Counted {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let mut hosts: BTreeMap<HostLabel, i64> = BTreeMap::new();
        let mut idle: BTreeMap<ClusterLabel, i64> = BTreeMap::new();
        let mut waits: BTreeMap<ClusterLabel, i64> = BTreeMap::new();
        let mut unready: BTreeMap<ClusterLabel, i64> = BTreeMap::new();
        let mut all: BTreeMap<ClusterLabel, u64> = BTreeMap::new();
        let moment = self.clock.now();
        let now = moment.as_second();
        for (_, machine) in self.world.machines.all() {
            let stand = machine.stand(self.filter.as_deref()).filter(|stand| stand.reason() != Reason::Paused.as_str());
            if let Some(since) = stand.and_then(Stand::waiting_since) {
                let cluster = machine.cluster.as_deref().unwrap_or_default().to_owned();
                let wait = unready.entry(ClusterLabel { cluster }).or_default();
                *wait = (*wait).max(now.saturating_sub(since));
            }
            let Ok(journal) = &machine.journal else { continue };
            let Some(allocation) = journal.allocation.as_ref().filter(|a| !a.phase.is_over()) else { continue };
            let cluster = machine.cluster.as_deref().unwrap_or_default().to_owned();
            let status = machine.status.dedicated_host.clone().unwrap_or_default();
            for host in &allocation.hosts {
                let known = status.hosts.iter().find(|known| known.id == host.as_str());
                let label = HostLabel {
                    cluster: cluster.clone(),
                    state: known.and_then(|known| known.state.clone()).unwrap_or_else(|| "unknown".to_owned()),
                    instance_type: machine.spec.instance_type.clone(),
                    az: allocation.terms.zone.to_string(),
                };
                *hosts.entry(label).or_default() += 1;
            }
            let count = u64::try_from(allocation.hosts.len()).unwrap_or(u64::MAX);
            *all.entry(ClusterLabel { cluster: cluster.clone() }).or_default() += count;
            let used = i64::from(machine.status.ready == Some(true));
            let empty = i64::try_from(allocation.hosts.len()).unwrap_or_default().saturating_sub(used);
            if allocation.phase == Phase::Releasing {
                let wait = waits.entry(ClusterLabel { cluster: cluster.clone() }).or_default();
                *wait = (*wait).max(now.saturating_sub(allocation.at.as_second()));
            }
            *idle.entry(ClusterLabel { cluster }).or_default() += empty.max(0);
        }
        let help = "Dedicated hosts of machines";
        let mut metric = encoder.encode_descriptor("hosts_dedicated_hosts", help, None, MetricType::Gauge)?;
        for (label, count) in hosts {
            ConstGauge::new(count).encode(metric.encode_family(&label)?)?;
        }
        let help = "Dedicated hosts of machines on which nothing runs";
        let mut metric = encoder.encode_descriptor("hosts_idle", help, None, MetricType::Gauge)?;
        for (label, count) in idle {
            ConstGauge::new(count).encode(metric.encode_family(&label)?)?;
        }
        let help = "For how long the oldest release of a dedicated host has been waiting";
        let mut metric = encoder.encode_descriptor("hosts_release_wait_seconds", help, None, MetricType::Gauge)?;
        for (label, seconds) in waits {
            ConstGauge::new(seconds).encode(metric.encode_family(&label)?)?;
        }
        let help =
            "For how long a machine has not been ready, of those that are not paused the one that has waited longest";
        let mut metric = encoder.encode_descriptor("hosts_unready_seconds", help, None, MetricType::Gauge)?;
        for (label, seconds) in longest(unready) {
            ConstGauge::new(seconds).encode(metric.encode_family(&label)?)?;
        }
        let paid = self.paid.lock().unwrap_or_else(PoisonError::into_inner).look(&all, moment);
        let help = "For how long dedicated hosts were paid for, all of a cluster together, since the process began";
        let mut metric = encoder.encode_descriptor("hosts_allocated_seconds", help, None, MetricType::Counter)?;
        for (label, seconds) in paid {
            ConstCounter::new(seconds).encode(metric.encode_family(&label)?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_clusters_without_end_those_are_told_of_that_have_waited_longest() {
        let label = |number: usize| ClusterLabel { cluster: format!("c{number:05}") };
        let wait = |number: usize| i64::try_from(number).unwrap();
        let told = longest((0..UNREADY + 10).map(|number| (label(number), wait(number))).collect());
        assert_eq!((told.len(), &told[0]), (UNREADY, &(label(UNREADY + 9), wait(UNREADY + 9))));
        assert!(told.iter().all(|(_, seconds)| *seconds >= 10));
        let alike = longest([(label(2), 5), (label(1), 5)].into());
        assert_eq!(alike, [(label(1), 5), (label(2), 5)]);
    }

    #[test]
    fn seconds_of_all_hosts_of_a_cluster_are_added_from_look_to_look() {
        let label = |name: &str| ClusterLabel { cluster: name.to_owned() };
        let at = |second| Timestamp::from_second(second).unwrap();
        let hosts = |all: &[(&str, u64)]| all.iter().map(|(name, count)| (label(name), *count)).collect();
        let mut paid = Paid::default();
        assert_eq!(paid.look(&hosts(&[("a", 2)]), at(100))[&label("a")], 0, "the first look begins");
        assert_eq!(paid.look(&hosts(&[("a", 2), ("b", 1)]), at(160))[&label("a")], 120);
        let last = paid.look(&hosts(&[("b", 3)]), at(170));
        assert_eq!((last[&label("a")], last[&label("b")]), (120, 90), "what was paid is not forgotten");
        assert_eq!(paid.look(&hosts(&[("b", 3)]), at(150))[&label("b")], 90, "time that goes back adds nothing");
        for n in 0..2 * CLUSTERS {
            paid.look(&hosts(&[(&n.to_string(), 1)]), at(200));
        }
        assert!(paid.seconds.len() <= CLUSTERS + 1);
    }
}
