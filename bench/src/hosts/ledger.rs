//! What the cloud's request log says: calls for each machine, throttled answers, and how soon hosts went back.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use sim::ec2::world::log::Entry;
use sim::ec2::world::oracle::InstanceFacts;

/// Calls of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Ledger {
    /// Calls that change something, trials apart, by operation.
    pub mutating: BTreeMap<String, usize>,
    /// Trials of calls that would change something, by operation.
    pub trials: BTreeMap<String, usize>,
    /// Reads by operation.
    pub reads: BTreeMap<String, usize>,
    /// Answers that said to slow down.
    pub throttled: usize,
    /// Those later than ten seconds after the first call.
    pub throttled_later: usize,
    /// Seconds from the first to the last call.
    pub seconds: f64,
}

const SLOW_DOWN: &str = "RequestLimitExceeded";
/// What a machine needs once in its life; some of it may be asked for many at once.
const NEEDED: [&str; 4] = ["AllocateHosts", "RunInstances", "TerminateInstances", "ReleaseHosts"];
const GRACE: f64 = 10.0;

fn seconds(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64()
}

impl Ledger {
    /// Counts a log.
    pub fn of(log: &[Entry]) -> Self {
        let mut ledger = Self::default();
        let Some(first) = log.first().map(|entry| entry.at) else { return ledger };
        for entry in log.iter().filter(|entry| entry.service == "ec2") {
            ledger.seconds = ledger.seconds.max(seconds(first, entry.at));
            if entry.code == SLOW_DOWN {
                ledger.throttled += 1;
                ledger.throttled_later += usize::from(seconds(first, entry.at) > GRACE);
            }
            let by = match entry {
                e if e.action.starts_with("Describe") => &mut ledger.reads,
                e if e.parameter("DryRun") == Some("true") => &mut ledger.trials,
                _ => &mut ledger.mutating,
            };
            *by.entry(entry.action.clone()).or_default() += 1;
        }
        ledger
    }

    /// Calls that change something.
    pub fn changes(&self) -> usize {
        self.mutating.values().sum()
    }

    /// All of them over those that were needed: of an operation that a machine needs once at most as many as there are
    /// machines, of any other none.
    pub fn over_needed(&self, machines: usize) -> f64 {
        let needed: usize = NEEDED.iter().filter_map(|name| self.mutating.get(*name)).map(|n| (*n).min(machines)).sum();
        self.changes() as f64 / needed.max(1) as f64
    }

    /// Reads.
    pub fn all_reads(&self) -> usize {
        self.reads.values().sum()
    }

    /// Reads each minute.
    pub fn reads_per_minute(&self) -> f64 {
        self.all_reads() as f64 * 60.0 / self.seconds.max(1.0)
    }
}

/// Size and tokens per second of the buckets that decide how fast machines can have hosts and instances.
#[derive(Clone, Copy, Debug)]
pub struct Buckets {
    allocate: (u64, f64),
    launch: (u64, f64),
}

impl Buckets {
    /// What the cloud publishes.
    pub const PUBLISHED: Self = Self { allocate: (50, 5.0), launch: (5, 2.0) };
    /// What the product keeps to by itself.
    pub const SHIPPED: Self = Self { allocate: (5, 2.0), launch: (5, 2.0) };

    /// Seconds in which `count` machines can have their hosts and instances when each needs a call of its own, and no
    /// instance is launched before its host is there.
    pub fn best_seconds(self, count: u64, pending: Duration) -> f64 {
        let after = |(size, rate): (u64, f64)| count.saturating_sub(size) as f64 / rate;
        after(self.allocate).max(after(self.launch)) + pending.as_secs_f64()
    }
}

/// Seconds from the moment a host was really empty until it was given back, for each host.
pub fn release_seconds(log: &[Entry], instances: &[InstanceFacts], empties: Duration) -> Vec<f64> {
    let ids = |entry: &Entry, name: &str| -> Vec<String> {
        let named = entry.parameters.iter().filter(|(key, _)| key.starts_with(name));
        named.map(|(_, value)| value.clone()).collect()
    };
    let done = |action: &'static str, name: &'static str| -> BTreeMap<String, Timestamp> {
        let entries = log.iter().filter(move |e| e.action == action && e.code.is_empty());
        entries.flat_map(|e| ids(e, name).into_iter().map(move |id| (id, e.at))).collect()
    };
    let first = |action: &'static str, name: &'static str| -> BTreeMap<String, Timestamp> {
        let entries = log.iter().rev().filter(move |e| e.action == action && e.code.is_empty());
        entries.flat_map(|e| ids(e, name).into_iter().map(move |id| (id, e.at))).collect()
    };
    let (ended, released) = (first("TerminateInstances", "InstanceId."), done("ReleaseHosts", "HostId."));
    let took = |instance: &InstanceFacts| {
        let (ended, released) = (ended.get(&instance.id)?, released.get(instance.host.as_ref()?)?);
        Some((seconds(*ended, *released) - empties.as_secs_f64()).max(0.0))
    };
    instances.iter().filter_map(took).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::ec2::world::instance::InstanceState;

    fn entry(at: i64, action: &str, parameters: &[(&str, &str)], code: &str) -> Entry {
        Entry {
            number: 1,
            at: Timestamp::from_second(at).unwrap(),
            service: "ec2".into(),
            action: action.into(),
            region: "us-east-1".into(),
            account: String::new(),
            access_key: String::new(),
            user_agent: String::new(),
            parameters: parameters.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
            status: 200,
            code: code.into(),
            request_id: String::new(),
            scripted: false,
        }
    }

    #[test]
    fn trials_reads_and_throttled_answers_are_counted_apart() {
        let log = [
            entry(0, "DescribeHosts", &[], ""),
            entry(1, "RunInstances", &[("DryRun", "true")], "DryRunOperation"),
            entry(2, "AllocateHosts", &[], SLOW_DOWN),
            entry(30, "AllocateHosts", &[], SLOW_DOWN),
            entry(60, "AllocateHosts", &[], ""),
        ];
        let ledger = Ledger::of(&log);
        assert_eq!((ledger.changes(), ledger.trials["RunInstances"], ledger.reads["DescribeHosts"]), (3, 1, 1));
        assert_eq!((ledger.throttled, ledger.throttled_later), (2, 1));
        assert_eq!((ledger.seconds, ledger.reads_per_minute()), (60.0, 1.0));
    }

    #[test]
    fn a_call_too_many_shows_although_others_were_shared() {
        let calls = |all: &[(&str, usize)]| Ledger {
            mutating: all.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect(),
            ..Ledger::default()
        };
        let shared = [("AllocateHosts", 100), ("RunInstances", 100), ("TerminateInstances", 1), ("ReleaseHosts", 1)];
        assert_eq!(calls(&shared).over_needed(100), 1.0);
        assert_eq!(calls(&[("AllocateHosts", 150)]).over_needed(100), 1.5);
        assert_eq!(calls(&[("RunInstances", 100), ("CreateTags", 100)]).over_needed(100), 2.0);
        assert_eq!(calls(&[]).over_needed(100), 0.0);
    }

    #[test]
    fn the_best_schedule_is_that_of_the_slower_bucket() {
        assert_eq!(Buckets::PUBLISHED.best_seconds(1, Duration::from_secs(2)), 2.0);
        assert_eq!(Buckets::PUBLISHED.best_seconds(1000, Duration::ZERO), 497.5);
        assert_eq!(Buckets::SHIPPED.best_seconds(105, Duration::ZERO), 50.0);
    }

    #[test]
    fn a_release_counts_from_the_moment_the_host_was_empty() {
        let log = [
            entry(10, "TerminateInstances", &[("InstanceId.1", "i-1")], ""),
            entry(15, "ReleaseHosts", &[("HostId.1", "h-1")], "InvalidHost.Occupied"),
            entry(22, "ReleaseHosts", &[("HostId.1", "h-1")], ""),
        ];
        let instance = InstanceFacts {
            account: String::new(),
            region: String::new(),
            id: "i-1".into(),
            kind: "m5.large".into(),
            state: InstanceState::Terminated,
            host: Some("h-1".into()),
            client_token: None,
            tags: BTreeMap::new(),
            stops: 0,
        };
        assert_eq!(release_seconds(&log, &[instance], Duration::from_secs(10)), [2.0]);
    }
}
