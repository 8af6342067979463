//! The figures of the scenario, their tables and their bars.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::budget::{Budget, at_least, at_most};
use crate::document::{Figures, Sheet, cells, maybe};
use crate::report::short;
use crate::stats::Percentiles;

/// Everything that was measured.
#[derive(Debug, Default, Serialize)]
pub struct Claims {
    /// By the number of claims and hosts.
    pub bind: BTreeMap<u64, Bind>,
    /// Hosts that change hands.
    pub churn: Option<Churn>,
    /// One tenant's flood.
    pub flood: Option<Flood>,
}

/// As many claims as hosts.
#[derive(Debug, Serialize)]
pub struct Bind {
    /// From the first claim to the last association.
    pub seconds: f64,
    /// Claims associated each second.
    pub per_second: f64,
    /// Seconds in which the bench created the claims.
    pub create_seconds: f64,
    /// Time that the server alone needs for a create, two status patches and a metadata patch of each claim, over the
    /// measured time.
    pub efficiency: f64,
    /// Milliseconds from a claim to its association.
    pub ms: Option<Percentiles>,
    /// Writes of the process to claims and hosts.
    pub writes_per_bind: f64,
    /// Its other writes, leases and events apart: one to each policy says how many hosts are held
    /// through it.
    pub other_writes: u64,
    /// Events it wrote.
    pub events_per_bind: f64,
    /// All its requests.
    pub requests_per_bind: f64,
    /// Writes refused because somebody else had been first.
    pub conflicts: u64,
    /// As the process counts it.
    pub hosts_examined_per_bind: Option<f64>,
    /// Processor time of the process.
    pub cpu_ms_per_bind: f64,
    /// Its share of what it and the server used together.
    pub cpu_share_percent: f64,
    /// Resident memory with all hosts and claims after the silence.
    pub rss_kib: Option<u64>,
    /// Peak memory until then.
    pub peak_kib: Option<u64>,
    /// Resident memory for each host.
    pub kib_per_host: Option<f64>,
    /// Resident memory for each claim.
    pub kib_per_claim: Option<f64>,
    /// Its requests by verb and resource.
    pub requests: BTreeMap<String, u64>,
}

/// Claims are deleted while others wait.
#[derive(Debug, Serialize)]
pub struct Churn {
    /// Claims that wait.
    pub waiting: u64,
    /// Hosts that change hands.
    pub hosts: u64,
    /// Claims deleted each second.
    pub per_second: u64,
    /// Milliseconds from the deletion of a claim until its host is free.
    pub delete_to_free_ms: Option<Percentiles>,
    /// Milliseconds from there until the next claim is associated.
    pub free_to_bound_ms: Option<Percentiles>,
    /// Writes of the process for each host, from deletion to the next association, events apart.
    pub writes_per_host: f64,
    /// Writes refused because somebody else had been first.
    pub conflicts: u64,
    /// Its requests by verb and resource.
    pub requests: BTreeMap<String, u64>,
}

/// One tenant floods.
#[derive(Debug, Serialize)]
pub struct Flood {
    /// Claims of the flood.
    pub claims: u64,
    /// Other tenants with one claim each.
    pub others: u64,
    /// Claims of others each second.
    pub per_second: u64,
    /// Seconds in which the flood was created.
    pub create_seconds: f64,
    /// Milliseconds from claim to association for others alone.
    pub alone_ms: Option<Percentiles>,
    /// The same beside the flood.
    pub beside_ms: Option<Percentiles>,
    /// The same for the flood.
    pub flood_ms: Option<Percentiles>,
    /// p99 beside over p99 alone.
    pub ratio: Option<f64>,
}

impl Figures for Claims {
    const SCHEMA: &'static str = "berth-bench/claims/1";

    fn sheets(&self) -> Vec<Sheet> {
        let mut all = Sheet::new(&[
            "claims on as many hosts",
            "s",
            "binds/s",
            "efficiency",
            "writes/bind",
            "other writes",
            "events/bind",
            "conflicts",
            "hosts looked at/bind",
            "CPU ms/bind",
            "of both, %",
            "KiB/host",
            "KiB/claim",
            "RSS MiB",
        ]);
        for (size, b) in &self.bind {
            all.row(vec![
                size.to_string(),
                short(b.seconds),
                short(b.per_second),
                short(b.efficiency),
                short(b.writes_per_bind),
                b.other_writes.to_string(),
                short(b.events_per_bind),
                b.conflicts.to_string(),
                maybe(b.hosts_examined_per_bind),
                short(b.cpu_ms_per_bind),
                short(b.cpu_share_percent),
                maybe(b.kib_per_host),
                maybe(b.kib_per_claim),
                maybe(b.rss_kib.map(|kib| kib as f64 / 1024.0)),
            ]);
        }
        let mut times = Sheet::new(&["milliseconds", "p50", "p95", "p99", "max", "samples"]);
        let mut row = |what: String, p: Option<Percentiles>| times.row(std::iter::once(what).chain(cells(p)).collect());
        for (size, b) in &self.bind {
            row(format!("claim to associated, {size} at once"), b.ms);
        }
        if let Some(c) = &self.churn {
            row(format!("claim deleted to host free, {}/s, {} waiting", c.per_second, c.waiting), c.delete_to_free_ms);
            row(format!("host free to next claim associated, {} waiting", c.waiting), c.free_to_bound_ms);
        }
        if let Some(f) = &self.flood {
            row(format!("claim to associated, {} tenants, {}/s", f.others, f.per_second), f.alone_ms);
            row(format!("  the same beside a flood of {} claims", f.claims), f.beside_ms);
            row("  the flood itself".to_owned(), f.flood_ms);
        }
        vec![all, times]
    }

    fn budgets(&self) -> Vec<Budget> {
        let mut rows = Vec::new();
        for (size, b) in &self.bind {
            let what = |part: &str| format!("{size} claims: {part}");
            if *size >= 1000 {
                rows.push(at_least(what("efficiency"), 0.8, "", Some(b.efficiency)));
            }
            rows.push(at_most(what("writes per bind"), 3.0, "", Some(b.writes_per_bind)));
            rows.push(at_most(
                what("conflicts per 100 binds"),
                1.0,
                "",
                Some(b.conflicts as f64 * 100.0 / *size as f64),
            ));
            if *size >= 1000 {
                rows.push(at_most(what("memory per host"), 20.0, "KiB", b.kib_per_host));
                rows.push(at_most(what("memory per claim"), 10.0, "KiB", b.kib_per_claim));
            }
        }
        if let (Some((few, first)), Some((most, last))) = (self.bind.first_key_value(), self.bind.last_key_value())
            && few < most
        {
            let growth = first.hosts_examined_per_bind.zip(last.hosts_examined_per_bind).map(|(a, b)| b / a.max(1.0));
            rows.push(at_most(format!("hosts looked at per bind, {most} over {few} hosts"), 1.1, "x", growth));
        }
        if let Some(c) = &self.churn {
            let what = format!("host free to waiting claim associated, {} waiting: p99", c.waiting);
            rows.push(at_most(what, 250.0, "ms", c.free_to_bound_ms.map(|p| p.p99)));
            rows.push(at_most("claim deleted to host free: p99", 500.0, "ms", c.delete_to_free_ms.map(|p| p.p99)));
        }
        if let Some(f) = &self.flood {
            let what = format!("other tenants beside a flood of {}: p99 over p99 alone", f.claims);
            rows.push(at_most(what, 2.0, "x", f.ratio));
        }
        rows
    }
}
