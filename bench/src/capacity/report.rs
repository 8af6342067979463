//! The figures of the scenario, their tables and their bars.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::budget::{Budget, at_least, at_most};
use crate::document::{Figures, Sheet, cells, maybe};
use crate::report::short;
use crate::stats::Percentiles;

/// Everything that was measured.
#[derive(Debug, Default, Serialize)]
pub struct Capacity {
    /// Types that templates name.
    pub types: u64,
    /// Pages in which the cloud lists all its types.
    pub pages: usize,
    /// By the number of groups.
    pub annotate: BTreeMap<u64, Annotate>,
    /// Groups created at a steady rate.
    pub paced: Option<Paced>,
    /// Templates that come after their groups.
    pub late: Option<Late>,
}

/// Groups that were there before the process.
#[derive(Debug, Serialize)]
pub struct Annotate {
    /// From exec until the last group was annotated.
    pub seconds: f64,
    /// Groups annotated each second.
    pub per_second: f64,
    /// Seconds in which a plain client writes other values of the same annotations to the same groups.
    pub alone_seconds: f64,
    /// These over the measured time.
    pub efficiency: f64,
    /// The time that W gives for as many patches of one short annotation, over the measured time.
    pub efficiency_by_ceiling: f64,
    /// Writes of the process to groups.
    pub writes: u64,
    /// Its other writes, leases and the kept catalogue apart.
    pub other_writes: u64,
    /// Writes to keep the catalogue for the next process.
    pub kept_writes: u64,
    /// Writes refused because somebody else had been first.
    pub conflicts: u64,
    /// Calls to the cloud by operation.
    pub cloud_calls: BTreeMap<String, usize>,
    /// Processor time of the process.
    pub cpu_seconds: f64,
    /// Its share of what it and the server used together.
    pub cpu_share_percent: f64,
    /// Resident memory when everything is annotated, after the silence.
    pub rss_kib: u64,
    /// Peak memory until then.
    pub peak_kib: u64,
    /// The next start, with everything annotated.
    pub restart: Restart,
}

/// A start with nothing to do.
#[derive(Debug, Serialize)]
pub struct Restart {
    /// Milliseconds from exec until it was ready.
    pub ready_ms: f64,
    /// From exec to its last request, watches and leases apart.
    pub settled_seconds: f64,
    /// Writes, leases apart.
    pub writes: u64,
    /// Calls to the cloud by operation.
    pub cloud_calls: BTreeMap<String, usize>,
    /// Resident memory after the silence.
    pub rss_kib: u64,
    /// Peak memory until then.
    pub peak_kib: u64,
}

/// Groups created at a steady rate.
#[derive(Debug, Serialize)]
pub struct Paced {
    /// How many.
    pub groups: u64,
    /// How many each second were wanted.
    pub wanted_per_second: u64,
    /// How many each second the server took.
    pub per_second: f64,
    /// Milliseconds from a group until it was annotated.
    pub ms: Option<Percentiles>,
}

/// Templates that come after their groups.
#[derive(Debug, Serialize)]
pub struct Late {
    /// How many.
    pub groups: u64,
    /// How many templates each second.
    pub per_second: u64,
    /// Milliseconds from a template until its group was annotated.
    pub ms: Option<Percentiles>,
}

fn mib(kib: u64) -> String {
    short(kib as f64 / 1024.0)
}

fn all_calls(calls: &BTreeMap<String, usize>) -> usize {
    calls.values().sum()
}

impl Figures for Capacity {
    const SCHEMA: &'static str = "berth-bench/capacity/1";

    fn sheets(&self) -> Vec<Sheet> {
        let mut first = Sheet::new(&[
            "groups",
            "exec to all annotated, s",
            "groups/s",
            "by a plain client, s",
            "efficiency, by that client",
            "efficiency, by W",
            "writes",
            "other writes",
            "conflicts",
            "cloud calls",
            "CPU s",
            "of both, %",
            "RSS MiB",
            "peak MiB",
        ]);
        let mut again = Sheet::new(&[
            "start with all annotated",
            "ready, ms",
            "settled, s",
            "writes",
            "cloud calls",
            "RSS MiB",
            "peak MiB",
        ]);
        for (size, a) in &self.annotate {
            first.row(vec![
                size.to_string(),
                short(a.seconds),
                short(a.per_second),
                short(a.alone_seconds),
                short(a.efficiency),
                short(a.efficiency_by_ceiling),
                a.writes.to_string(),
                a.other_writes.to_string(),
                a.conflicts.to_string(),
                all_calls(&a.cloud_calls).to_string(),
                short(a.cpu_seconds),
                short(a.cpu_share_percent),
                mib(a.rss_kib),
                mib(a.peak_kib),
            ]);
            let r = &a.restart;
            again.row(vec![
                size.to_string(),
                short(r.ready_ms),
                short(r.settled_seconds),
                r.writes.to_string(),
                all_calls(&r.cloud_calls).to_string(),
                mib(r.rss_kib),
                mib(r.peak_kib),
            ]);
        }
        let mut times = Sheet::new(&["milliseconds", "p50", "p95", "p99", "max", "samples"]);
        let mut row = |what: String, p: Option<Percentiles>| times.row(std::iter::once(what).chain(cells(p)).collect());
        if let Some(p) = &self.paced {
            let rate = maybe(Some(p.per_second));
            row(format!("group to annotated, {} at {rate}/s ({} wanted)", p.groups, p.wanted_per_second), p.ms);
        }
        if let Some(l) = &self.late {
            row(format!("late template to annotated, {} at {}/s", l.groups, l.per_second), l.ms);
        }
        vec![first, again, times]
    }

    fn budgets(&self) -> Vec<Budget> {
        let mut rows = Vec::new();
        for (size, a) in &self.annotate {
            let what = |part: &str| format!("{size} groups: {part}");
            if *size >= 1000 {
                rows.push(at_least(what("efficiency"), 0.8, "", Some(a.efficiency)));
            }
            rows.push(at_most(what("writes per group"), 1.0, "", Some(a.writes as f64 / *size as f64)));
            let calls = all_calls(&a.cloud_calls) as f64;
            rows.push(at_most(what("cloud calls"), self.pages as f64, "", Some(calls)));
            rows.push(at_most(what("writes to keep the catalogue"), 1.0, "", Some(a.kept_writes as f64)));
            rows.push(at_most(what("writes of a restart"), 0.0, "", Some(a.restart.writes as f64)));
            let calls = all_calls(&a.restart.cloud_calls) as f64;
            rows.push(at_most(what("cloud calls of a restart"), 0.0, "", Some(calls)));
            let (settled, bar) = (a.restart.settled_seconds, if *size > 10_000 { 30.0 } else { 5.0 });
            rows.push(at_most(what("restart to settled"), bar, "s", Some(settled)));
            if *size > 10_000 {
                let ratio = a.restart.peak_kib as f64 / a.restart.rss_kib.max(1) as f64;
                rows.push(at_most(what("peak over settled memory"), 1.5, "x", Some(ratio)));
            }
        }
        if let Some(p) = &self.paced {
            let what = format!("group to annotated, {} at {}/s: p99", p.groups, p.wanted_per_second);
            rows.push(at_most(what, 10_000.0, "ms", p.ms.map(|ms| ms.p99)));
        }
        if let Some(l) = &self.late {
            rows.push(at_most("template known late to annotated: p99", 1000.0, "ms", l.ms.map(|ms| ms.p99)));
        }
        rows
    }
}
