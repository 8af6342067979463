//! What is counted and told about hooks.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

use api::key::ObjectKey;
use kit::clock::Clock;
use kit::telemetry::Metrics;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use tokio::time::Instant;

use super::paths::Hook;
use super::wire::Status;

/// Answers remembered, to tell news from repetition; beyond that the oldest is forgotten and told once more.
const REMEMBERED: usize = 4096;
/// Unknown settings told; a made-up key per request must not fill the memory.
const UNKNOWN: usize = 64;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RequestLabels {
    hook: &'static str,
    status: &'static str,
    blocking: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct HookLabels {
    hook: &'static str,
}

/// One answer, as far as it is counted and told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told<'a> {
    pub(super) hook: Hook,
    pub(super) cluster: Option<&'a ObjectKey>,
    pub(super) status: Status,
    pub(super) retry_after: u16,
    pub(super) message: &'a str,
}

/// Counts and tells what the hooks do.
pub(super) struct Record {
    clock: Clock,
    requests: Family<RequestLabels, Counter>,
    duration: Family<HookLabels, Histogram>,
    inflight: Gauge,
    memory: Mutex<Memory>,
}

impl Record {
    /// Adds its metrics to the registry as `berth_vip_hook_…`.
    pub(super) fn register(metrics: &Metrics, clock: Clock) -> Self {
        let buckets = || Histogram::new([0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0]);
        let new = Self {
            clock,
            requests: Family::default(),
            duration: Family::new_with_constructor(buckets),
            inflight: Gauge::default(),
            memory: Mutex::default(),
        };
        metrics.register("vip_hook_requests", "Hook requests answered", new.requests.clone());
        metrics.register("vip_hook_duration_seconds", "From request to answer of a hook", new.duration.clone());
        metrics.register("vip_hook_inflight", "Hook requests being answered", new.inflight.clone());
        new
    }

    /// Starts a request; it ends when the guard is dropped, also by a panic or by a client that went away.
    pub(super) fn begin(&self, hook: Hook) -> Running<'_> {
        self.inflight.inc();
        Running { record: self, hook, started: self.clock.instant() }
    }

    /// Counts an answer.
    pub(super) fn count(&self, told: Told<'_>) {
        let blocking = if told.retry_after > 0 { "true" } else { "false" };
        let labels = RequestLabels { hook: told.hook.as_str(), status: told.status.as_str(), blocking };
        self.requests.get_or_create(&labels).inc();
    }

    /// Counts and tells an answer: once when it differs from the last one to the same cluster, else to debuggers only.
    pub(super) fn answered(&self, told: Told<'_>, started: Instant) {
        self.count(told);
        let elapsed_ms = self.clock.instant().saturating_duration_since(started).as_millis();
        let cluster = told.cluster.map(ToString::to_string).unwrap_or_default();
        let (hook, outcome) = (told.hook.as_str(), outcome(told));
        let (retry_after, detail) = (told.retry_after, told.message);
        if self.memory().is_news(told.hook, &cluster, digest(outcome, detail)) {
            tracing::info!(room = "vip", hook, cluster, outcome, retry_after, detail, elapsed_ms, "hook answered");
        } else {
            tracing::debug!(room = "vip", hook, cluster, outcome, retry_after, detail, elapsed_ms, "hook answered");
        }
    }

    /// Tells each setting that nobody knows, once.
    pub(super) fn unknown(&self, keys: Vec<String>) {
        for key in keys {
            let news = {
                let mut memory = self.memory();
                memory.unknown.len() < UNKNOWN && memory.unknown.insert(key.clone())
            };
            if news {
                tracing::warn!(
                    room = "vip",
                    setting = key,
                    "unknown setting of an ExtensionConfig or ClusterClass ignored"
                );
            }
        }
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn outcome(told: Told<'_>) -> &'static str {
    match (told.status, told.retry_after) {
        (Status::Success, 0) => "open",
        (Status::Success, _) => "waiting",
        (Status::Failure, _) => "refused",
    }
}

fn digest(outcome: &str, message: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (outcome, message).hash(&mut hasher);
    hasher.finish()
}

/// A request that is being answered.
pub(super) struct Running<'r> {
    record: &'r Record,
    hook: Hook,
    pub(super) started: Instant,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.record.inflight.dec();
        let elapsed = self.record.clock.instant().saturating_duration_since(self.started);
        let labels = HookLabels { hook: self.hook.as_str() };
        self.record.duration.get_or_create(&labels).observe(elapsed.as_secs_f64());
    }
}

/// The last answer to each cluster, as far as there is room.
#[derive(Debug, Default)]
struct Memory {
    last: BTreeMap<(Hook, String), u64>,
    order: VecDeque<(Hook, String)>,
    unknown: BTreeSet<String>,
}

impl Memory {
    fn is_news(&mut self, hook: Hook, cluster: &str, digest: u64) -> bool {
        let key = (hook, cluster.to_owned());
        if let Some(last) = self.last.get_mut(&key) {
            return std::mem::replace(last, digest) != digest;
        }
        if self.order.len() >= REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.last.remove(&oldest);
        }
        self.order.push_back(key.clone());
        self.last.insert(key, digest);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_news_once_per_hook_and_cluster() {
        let mut memory = Memory::default();
        let (create, delete) = (Hook::BeforeClusterCreate, Hook::BeforeClusterDelete);
        let seen = [(create, "a", 1), (create, "a", 1), (create, "b", 1), (create, "a", 2), (delete, "a", 2)];
        let news: Vec<bool> = seen.into_iter().map(|(hook, name, digest)| memory.is_news(hook, name, digest)).collect();
        assert_eq!(news, [true, false, true, true, true]);
    }

    #[test]
    fn memory_has_an_end_and_the_oldest_is_forgotten_first() {
        let mut memory = Memory::default();
        for number in 0..REMEMBERED + 10 {
            assert!(memory.is_news(Hook::BeforeClusterCreate, &number.to_string(), 1));
        }
        assert_eq!((memory.last.len(), memory.order.len()), (REMEMBERED, REMEMBERED));
        assert!(!memory.is_news(Hook::BeforeClusterCreate, "10", 1));
        assert!(memory.is_news(Hook::BeforeClusterCreate, "9", 1));
    }

    #[test]
    fn requests_are_counted_by_outcome_and_in_flight_until_they_end() {
        let metrics = Metrics::new();
        let record = Record::register(&metrics, Clock::system());
        let told = |status, retry_after| Told {
            hook: Hook::BeforeClusterCreate,
            cluster: None,
            status,
            retry_after,
            message: "",
        };
        let running = record.begin(Hook::BeforeClusterCreate);
        assert!(metrics.encode().contains("\nberth_vip_hook_inflight 1\n"));
        record.answered(told(Status::Success, 2), running.started);
        record.answered(told(Status::Success, 0), running.started);
        record.answered(told(Status::Failure, 0), running.started);
        drop(running);
        let text = metrics.encode();
        for (status, blocking) in [("Success", "true"), ("Success", "false"), ("Failure", "false")] {
            let labels = format!("hook=\"BeforeClusterCreate\",status=\"{status}\",blocking=\"{blocking}\"");
            assert!(text.contains(&format!("berth_vip_hook_requests_total{{{labels}}} 1\n")), "{text}");
        }
        assert!(text.contains("\nberth_vip_hook_inflight 0\n"), "{text}");
        assert!(text.contains("berth_vip_hook_duration_seconds_count{hook=\"BeforeClusterCreate\"} 1\n"), "{text}");
    }

    #[test]
    fn unknown_settings_are_remembered_up_to_a_number() {
        let record = Record::register(&Metrics::new(), Clock::system());
        record.unknown(Vec::new());
        assert!(record.memory().unknown.is_empty());
        record.unknown((0..1000).map(|number| format!("key{number}")).collect());
        assert_eq!(record.memory().unknown.len(), UNKNOWN);
    }
}
