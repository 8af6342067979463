//! The figures of the scenario, their tables and their bars.

use std::collections::BTreeMap;

use serde::Serialize;

use super::ledger::Ledger;
use crate::budget::{Budget, at_most};
use crate::document::{Figures, Sheet, cells};
use crate::report::short;
use crate::stats::Percentiles;

/// Everything that was measured.
#[derive(Debug, Default, Serialize)]
pub struct Hosts {
    /// With the request limits that the cloud publishes, by the number of machines.
    pub published: BTreeMap<u64, Life>,
    /// With the request limits that are shipped.
    pub shipped: BTreeMap<u64, Life>,
}

/// Machines from their creation to their end.
#[derive(Debug, Serialize)]
pub struct Life {
    /// Seconds from a machine to its host's id.
    pub host_seconds: Option<Percentiles>,
    /// Seconds from a machine to its instance.
    pub instance_seconds: Option<Percentiles>,
    /// From the first machine to the last instance.
    pub seconds: f64,
    /// The best that the cloud's request limits allow.
    pub best_seconds: f64,
    /// From the deletion of the first machine until the last one was gone.
    pub gone_seconds: f64,
    /// Calls until every machine had its instance.
    pub calls_up: Ledger,
    /// Calls of the whole life.
    pub calls: Ledger,
    /// Calls while nothing was to be done.
    pub idle_calls: usize,
    /// For how long nothing was to be done.
    pub idle_seconds: u64,
    /// Writes to the API server until every machine had its instance.
    pub writes_per_machine: f64,
    /// Writes refused because somebody else had been first.
    pub conflicts: u64,
    /// Seconds that hosts were paid for before they had an instance.
    pub empty_seconds: Option<Percentiles>,
    /// Seconds from an empty host to its release.
    pub release_seconds: Option<Percentiles>,
    /// Processor time until every machine had its instance.
    pub cpu_seconds: f64,
    /// Resident memory with all machines up, after the silence.
    pub rss_kib: u64,
    /// Peak memory until then.
    pub peak_kib: u64,
}

/// Entries of one page of the shorter of the two lists.
const PAGE: u64 = 500;

impl Life {
    fn changes_each(&self, machines: u64) -> f64 {
        self.calls.changes() as f64 / machines as f64
    }

    /// Requests of one look at all hosts and all instances, over the requests of each minute in which nothing happened.
    fn idle_bar(&self, machines: u64) -> f64 {
        let pages = machines.div_ceil(PAGE).max(1) as f64;
        // A look each minute, one more for the edges of the window, and what is asked for rarely.
        2.0 * pages * (self.idle_seconds as f64 / 60.0 + 1.0) + 4.0
    }
}

impl Figures for Hosts {
    const SCHEMA: &'static str = "berth-bench/hosts/1";

    fn sheets(&self) -> Vec<Sheet> {
        let mut all = Sheet::new(&[
            "machines, request limits",
            "all launched, s",
            "best schedule, s",
            "all gone, s",
            "calls that change/machine",
            "trials",
            "reads/min",
            "idle calls",
            "throttled",
            "writes/machine",
            "CPU s",
            "RSS MiB",
        ]);
        let mut times = Sheet::new(&["seconds", "p50", "p95", "p99", "max", "samples"]);
        let mut row = |what: String, p: Option<Percentiles>| times.row(std::iter::once(what).chain(cells(p)).collect());
        let legs = self.published.iter().map(|leg| ("published", leg));
        for (limits, (size, life)) in legs.chain(self.shipped.iter().map(|leg| ("shipped", leg))) {
            all.row(vec![
                format!("{size}, {limits}"),
                short(life.seconds),
                short(life.best_seconds),
                short(life.gone_seconds),
                short(life.changes_each(*size)),
                life.calls.trials.values().sum::<usize>().to_string(),
                short(life.calls_up.reads_per_minute()),
                format!("{} in {} s", life.idle_calls, life.idle_seconds),
                life.calls.throttled.to_string(),
                short(life.writes_per_machine),
                short(life.cpu_seconds),
                short(life.rss_kib as f64 / 1024.0),
            ]);
            let at_once = |what: &str| format!("{what}, {size} at once, {limits}");
            row(at_once("machine to host"), life.host_seconds);
            row(at_once("machine to instance"), life.instance_seconds);
            row(at_once("host paid for without an instance"), life.empty_seconds);
            row(at_once("host empty to released"), life.release_seconds);
        }
        vec![all, times]
    }

    fn budgets(&self) -> Vec<Budget> {
        let mut rows = Vec::new();
        for (size, life) in &self.published {
            let what = |part: &str| format!("{size} machines: {part}");
            // One machine by itself may take half a second more than the cloud, many a twentieth.
            let bar = (life.best_seconds + 0.5).max(life.best_seconds * 1.05);
            rows.push(at_most(what("all have their instance"), bar, "s", Some(life.seconds)));
            let calls = life.calls.over_needed(usize::try_from(*size).unwrap_or(usize::MAX));
            rows.push(at_most(what("calls that change something, over those needed"), 1.02, "x", Some(calls)));
            let throttled = life.calls.throttled_later as f64;
            rows.push(at_most(what("throttled answers after the first 10 s"), 0.0, "", Some(throttled)));
            rows.push(at_most(what("host empty to released: p99"), 5.0, "s", life.release_seconds.map(|p| p.p99)));
            let empty = life.empty_seconds.map(|p| p.p99);
            rows.push(at_most(what("host paid for without an instance: p99"), 10.0, "s", empty));
            let idle = life.idle_calls as f64;
            rows.push(at_most(what("calls while nothing is to be done"), life.idle_bar(*size), "", Some(idle)));
        }
        for (size, life) in &self.shipped {
            let throttled = life.calls.throttled as f64;
            rows.push(at_most(format!("{size} machines, shipped limits: throttled answers"), 0.0, "", Some(throttled)));
        }
        rows
    }
}
