//! The document and the tables of the scenario.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::audit::Tally;
use crate::budget::{Budget, at_least, at_most};
use crate::ceiling::Ceiling;
use crate::document::{Figures, Sheet, cells};
use crate::proc::Memory;
use crate::report::short;
use crate::stats::{Percentiles, percentiles};

/// Everything that was measured.
#[derive(Debug, Serialize)]
pub struct Vip {
    /// Who played the topology controller.
    topology: String,
    /// Who played the address provider.
    provider: String,
    /// Milliseconds of the first call about a cluster, which makes its claim and does not wait.
    first_call_ms: Option<Percentiles>,
    /// By the number of clusters applied at once.
    bring_up: BTreeMap<u64, BringUp>,
    /// By the number of connections.
    known: BTreeMap<usize, Known>,
    /// Milliseconds of GeneratePatches with 200 templates.
    patches_ms: Option<Percentiles>,
    /// Whether equal requests had equal answers.
    patches_equal: bool,
    clusters: usize,
    rss_kib: u64,
    peak_kib: u64,
}

/// From an applied Cluster to its endpoint.
#[derive(Debug, Serialize)]
struct BringUp {
    /// Seconds until a watch showed the endpoint.
    seconds: Option<Percentiles>,
    /// Seconds that the provider took for a claim, waiting for its turn included.
    provider_seconds: Option<Percentiles>,
    /// Seconds that the server alone needs for what must be written: Cluster, claim, address, state of the claim, endpoint.
    server_alone_seconds: f64,
    /// That, over the time until the last endpoint was shown.
    efficiency: f64,
    /// Requests of the process under test, for each cluster, by verb and resource.
    requests_each: BTreeMap<String, f64>,
}

/// Calls about clusters that have their address.
#[derive(Debug, Serialize)]
struct Known {
    /// Milliseconds at a steady rate.
    ms: Option<Percentiles>,
    /// Answers a second when every connection asks again at once.
    per_second: f64,
    /// Answers in one second of processor time of the process under test.
    per_core_second: f64,
    /// Requests that it made to the API server meanwhile.
    api_requests: usize,
}

impl Vip {
    /// No figures yet.
    pub fn new(args: &super::Vip) -> Self {
        Self {
            topology: format!("stand-in with {} workers, HTTP/2 over TLS", args.topology_workers),
            provider: format!("stand-in with {} workers", args.provider_workers),
            first_call_ms: None,
            bring_up: BTreeMap::new(),
            known: BTreeMap::new(),
            patches_ms: None,
            patches_equal: false,
            clusters: 0,
            rss_kib: 0,
            peak_kib: 0,
        }
    }

    /// The first calls, in milliseconds.
    pub fn first_call(&mut self, ms: &[f64]) {
        self.first_call_ms = percentiles(ms);
    }

    /// One size of clusters applied at once, in seconds, beside the server's own ceiling and what was asked of it.
    pub fn bring_up(&mut self, size: u64, seconds: &[f64], provider: &[f64], w: &Ceiling, asked: &Tally) {
        let (seconds, provider_seconds) = (percentiles(seconds), percentiles(provider));
        let server_alone_seconds = w.seconds(3 * size, size, size);
        let each = |(what, count): (&String, &u64)| (what.clone(), *count as f64 / size.max(1) as f64);
        let one = BringUp {
            efficiency: seconds.map_or(0.0, |s| server_alone_seconds / s.max.max(f64::EPSILON)),
            seconds,
            provider_seconds,
            server_alone_seconds,
            requests_each: asked.by_verb.iter().map(each).collect(),
        };
        self.bring_up.insert(size, one);
    }

    /// Calls with the address known, in milliseconds.
    pub fn known(&mut self, connections: usize, ms: &[f64], seconds: f64, cpu: f64, api_requests: usize) {
        let calls = ms.len() as f64;
        let known = Known {
            ms: percentiles(ms),
            per_second: calls / seconds.max(f64::EPSILON),
            // The kernel counts in hundredths of a second.
            per_core_second: calls / cpu.max(0.01),
            api_requests,
        };
        self.known.insert(connections, known);
    }

    /// Calls of GeneratePatches, in milliseconds.
    pub fn patches(&mut self, ms: &[f64], equal: bool) {
        (self.patches_ms, self.patches_equal) = (percentiles(ms), equal);
    }

    /// Memory with this many clusters.
    pub fn memory(&mut self, clusters: usize, memory: Memory) {
        (self.clusters, self.rss_kib, self.peak_kib) = (clusters, memory.rss_kib, memory.peak_kib);
    }
}

impl Figures for Vip {
    const SCHEMA: &'static str = "berth-bench/vip/3";

    fn sheets(&self) -> Vec<Sheet> {
        let mut figures = Sheet::new(&["figure", "p50", "p95", "p99", "max", "samples"]);
        let mut row = |what: String, p: Option<Percentiles>| {
            figures.row(std::iter::once(what).chain(cells(p)).collect());
        };
        for (connections, known) in &self.known {
            let rate = format!("{}/s, {} per core second", short(known.per_second), short(known.per_core_second));
            row(format!("address known, {connections} connections, ms ({rate})"), known.ms);
        }
        row("first call, ms".to_owned(), self.first_call_ms);
        for (size, one) in &self.bring_up {
            row(format!("applied to endpoint, {size} at once, s"), one.seconds);
            row(format!("  of which the provider, {size} at once, s"), one.provider_seconds);
        }
        row("GeneratePatches, 200 templates, ms".to_owned(), self.patches_ms);
        let mut bursts = Sheet::new(&["at once", "server alone, s", "efficiency", "requests for each cluster"]);
        for (size, one) in &self.bring_up {
            let asked = one.requests_each.iter().map(|(what, each)| format!("{what} {}", short(*each)));
            bursts.row(vec![
                size.to_string(),
                short(one.server_alone_seconds),
                short(one.efficiency),
                asked.collect::<Vec<_>>().join(", "),
            ]);
        }
        vec![figures, bursts]
    }

    fn budgets(&self) -> Vec<Budget> {
        let mut rows = Vec::new();
        for (connections, known) in &self.known {
            let what = |part: &str| format!("hook answer, address known, {connections} connections: {part}");
            rows.push(at_most(what("p50"), 1.0, "ms", known.ms.map(|p| p.p50)));
            rows.push(at_most(what("p99"), 5.0, "ms", known.ms.map(|p| p.p99)));
            rows.push(at_most(what("requests to the API server"), 0.0, "", Some(known.api_requests as f64)));
            // 2,000 answers a second on one core.
            let slow = 1e3 / known.per_core_second;
            rows.push(at_most(what("processor time of an answer"), 0.5, "ms", Some(slow)));
        }
        rows.push(at_most("first call, no waiting: p99", 150.0, "ms", self.first_call_ms.map(|p| p.p99)));
        for (size, one) in &self.bring_up {
            let what = format!("Cluster applied to endpoint set, {size} at once: p99");
            rows.push(at_most(what, 2.0, "s", one.seconds.map(|p| p.p99)));
            // Fewer clusters are over before the server is busy.
            if *size >= 100 {
                let what = format!("Cluster applied to endpoint set, {size} at once: efficiency");
                rows.push(at_least(what, 0.8, "", Some(one.efficiency)));
            }
        }
        rows.push(at_most("GeneratePatches, 200 templates: p99", 50.0, "ms", self.patches_ms.map(|p| p.p99)));
        let unequal = f64::from(u8::from(!self.patches_equal));
        rows.push(at_most("GeneratePatches: unequal answers", 0.0, "", Some(unequal)));
        let what = format!("resident memory, {} clusters", self.clusters);
        rows.push(at_most(what, 64.0, "MiB", Some(self.rss_kib as f64 / 1024.0)));
        rows
    }
}
