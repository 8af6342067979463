//! The figures of the scenario, their tables and their bars.

use std::collections::BTreeMap;

use serde::Serialize;

use super::slow::{Asked, Slow};
use crate::budget::{Budget, at_least, at_most};
use crate::document::{Figures, Sheet, cells, maybe};
use crate::report::short;
use crate::stats::Percentiles;

/// Everything that was measured.
#[derive(Debug, Default, Serialize)]
pub struct Claims {
    /// By the number of claims and hosts.
    pub bind: BTreeMap<u64, Bind>,
    /// Other controllers on the same.
    pub peers: Vec<Peer>,
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
    /// Seconds in which a plain client writes the same claims, hosts and states to a server with as many hosts.
    pub alone_seconds: f64,
    /// Seconds in which it writes the same events.
    pub events_alone_seconds: f64,
    /// Of the events, how many were written before the last association.
    pub events_in_time_percent: f64,
    /// What the plain client needs, with the events that were written by then, over the measured time.
    pub efficiency_by_client: f64,
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

/// Another controller.
#[derive(Debug, Serialize)]
pub struct Peer {
    /// Its command.
    pub command: String,
    /// By the number of claims and hosts.
    pub bind: BTreeMap<u64, Theirs>,
}

impl Peer {
    /// One that has not been measured yet.
    pub fn new(command: &str) -> Self {
        Self { command: command.to_owned(), bind: BTreeMap::new() }
    }
}

/// As many claims as hosts, served by another controller.
#[derive(Debug, Serialize)]
pub struct Theirs {
    /// Whether it left the hosts alone before anybody claimed one.
    pub settled: bool,
    /// Claims that it associated in time.
    pub bound: u64,
    /// From the first claim to the last association, or the time that it had.
    pub seconds: f64,
    /// Claims associated each second.
    pub per_second: f64,
    /// Those that Berth associates each second over that, where both are known.
    pub ratio: Option<f64>,
    /// Seconds in which the bench created the claims.
    pub create_seconds: f64,
    /// Milliseconds from a claim to its association, of those that were associated.
    pub ms: Option<Percentiles>,
    /// Writes of the process to claims and hosts.
    pub writes_per_bind: Option<f64>,
    /// Its other writes, leases and events apart.
    pub other_writes: u64,
    /// Writes refused because somebody else had been first.
    pub conflicts: u64,
    /// Processor time of the process.
    pub cpu_ms_per_bind: Option<f64>,
    /// Its share of what it and the server used together.
    pub cpu_share_percent: f64,
    /// Peak memory.
    pub peak_kib: u64,
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
    /// Those of the others who waited longest beside the flood.
    pub slowest: Vec<Slow>,
}

/// The claims at which Berth has a bar to clear beside another controller.
const MANY: u64 = 10_000;

impl Claims {
    /// Notes what the n-th other controller did.
    pub fn beside(&mut self, n: usize, size: u64, mut theirs: Theirs) {
        theirs.ratio = self.bind.get(&size).filter(|_| theirs.bound > 0).map(|b| b.per_second / theirs.per_second);
        if let Some(peer) = self.peers.get_mut(n) {
            peer.bind.insert(size, theirs);
        }
    }

    fn sheets_of_peers(&self) -> [Sheet; 2] {
        let mut all = Sheet::new(&[
            "other controller",
            "claims on as many hosts",
            "settled first",
            "bound",
            "s",
            "binds/s",
            "Berth's over its",
            "writes/bind",
            "other writes",
            "conflicts",
            "CPU ms/bind",
            "of both, %",
            "peak MiB",
            "p50 ms",
            "p99 ms",
        ]);
        let mut commands = Sheet::new(&["other controller", "its command"]);
        for (n, peer) in self.peers.iter().enumerate() {
            commands.row(vec![(n + 1).to_string(), peer.command.clone()]);
            for (size, b) in &peer.bind {
                all.row(vec![
                    (n + 1).to_string(),
                    size.to_string(),
                    if b.settled { "yes" } else { "no" }.to_owned(),
                    b.bound.to_string(),
                    short(b.seconds),
                    short(b.per_second),
                    maybe(b.ratio),
                    maybe(b.writes_per_bind),
                    b.other_writes.to_string(),
                    b.conflicts.to_string(),
                    maybe(b.cpu_ms_per_bind),
                    short(b.cpu_share_percent),
                    short(b.peak_kib as f64 / 1024.0),
                    maybe(b.ms.map(|p| p.p50)),
                    maybe(b.ms.map(|p| p.p99)),
                ]);
            }
        }
        [all, commands]
    }

    fn sheet_of_slowest(&self) -> Sheet {
        let header = ["slowest beside the flood", "ms", "host the claim's, ms", "server at work, ms", "requests, ms"];
        let mut all = Sheet::new(&header);
        for slow in self.flood.iter().flat_map(|flood| &flood.slowest) {
            let requests: Vec<String> = slow.requests.iter().map(Asked::text).collect();
            let (claim, host) = (slow.claim.clone(), maybe(slow.host_ms));
            all.row(vec![claim, short(slow.ms), host, short(slow.server_ms), requests.join("; ")]);
        }
        all
    }

    /// Berth's rate over that of the fastest other controller, for each size with a bar.
    fn least_ratios(&self) -> BTreeMap<u64, Option<f64>> {
        let mut all = BTreeMap::new();
        for (size, theirs) in self.peers.iter().flat_map(|peer| &peer.bind).filter(|(size, _)| **size >= MANY) {
            let least: &mut Option<f64> = all.entry(*size).or_insert(theirs.ratio);
            *least = least.zip(theirs.ratio).map(|(a, b)| a.min(b)).or(*least).or(theirs.ratio);
        }
        all
    }
}

impl Figures for Claims {
    const SCHEMA: &'static str = "berth-bench/claims/1";

    fn sheets(&self) -> Vec<Sheet> {
        let mut all = Sheet::new(&[
            "claims on as many hosts",
            "s",
            "binds/s",
            "efficiency",
            "by a plain client, s",
            "its events, s",
            "of them in time, %",
            "efficiency against it",
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
                short(b.alone_seconds),
                short(b.events_alone_seconds),
                short(b.events_in_time_percent),
                short(b.efficiency_by_client),
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
        let [peers, commands] = self.sheets_of_peers();
        vec![all, times, self.sheet_of_slowest(), peers, commands]
    }

    fn budgets(&self) -> Vec<Budget> {
        let mut rows = Vec::new();
        for (size, b) in &self.bind {
            let what = |part: &str| format!("{size} claims: {part}");
            if *size >= 1000 {
                rows.push(at_least(what("efficiency"), 0.8, "", Some(b.efficiency)));
                rows.push(at_least(what("efficiency against a plain client"), 0.8, "", Some(b.efficiency_by_client)));
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
        for (size, ratio) in self.least_ratios() {
            rows.push(at_least(format!("{size} claims: rate over that of another controller"), 20.0, "x", ratio));
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

#[cfg(test)]
mod tests {
    use super::*;

    fn theirs(bound: u64, per_second: f64) -> Theirs {
        Theirs {
            settled: true,
            bound,
            seconds: 1.0,
            per_second,
            ratio: None,
            create_seconds: 1.0,
            ms: None,
            writes_per_bind: None,
            other_writes: 0,
            conflicts: 0,
            cpu_ms_per_bind: None,
            cpu_share_percent: 0.0,
            peak_kib: 0,
            requests: BTreeMap::new(),
        }
    }

    fn ours(per_second: f64) -> Bind {
        Bind {
            seconds: 1.0,
            per_second,
            create_seconds: 1.0,
            efficiency: 1.0,
            alone_seconds: 1.0,
            events_alone_seconds: 1.0,
            events_in_time_percent: 100.0,
            efficiency_by_client: 1.0,
            ms: None,
            writes_per_bind: 3.0,
            other_writes: 0,
            events_per_bind: 0.0,
            requests_per_bind: 3.0,
            conflicts: 0,
            hosts_examined_per_bind: None,
            cpu_ms_per_bind: 1.0,
            cpu_share_percent: 1.0,
            rss_kib: None,
            peak_kib: None,
            kib_per_host: None,
            kib_per_claim: None,
            requests: BTreeMap::new(),
        }
    }

    #[test]
    fn the_bar_is_about_the_fastest_of_the_other_controllers_and_many_claims() {
        let mut figures = Claims { peers: vec![Peer::new("a"), Peer::new("b"), Peer::new("c")], ..Claims::default() };
        figures.bind = BTreeMap::from([(100, ours(60.0)), (10_000, ours(60.0))]);
        for (n, size, bound, per_second) in
            [(0, 100, 100, 50.0), (0, 10_000, 900, 2.0), (1, 10_000, 0, 0.0), (2, 10_000, 10_000, 4.0)]
        {
            figures.beside(n, size, theirs(bound, per_second));
        }
        assert_eq!(figures.peers[0].bind[&100].ratio, Some(1.2));
        assert_eq!(figures.least_ratios(), BTreeMap::from([(10_000, Some(15.0))]));
        let bar = figures.budgets().into_iter().find(|budget| budget.what.contains("another controller")).unwrap();
        assert_eq!((bar.measured, bar.pass), (Some(15.0), false));
        let shown: String = figures.sheets().iter().map(Sheet::markdown).collect();
        assert!(shown.contains("| 3 | 10000 | yes | 10000 |") && shown.contains("| 2 | b |"), "{shown}");
        // Nobody who binds nothing makes the bar.
        figures.peers.retain(|peer| peer.command == "b");
        assert_eq!(figures.least_ratios(), BTreeMap::from([(10_000, None)]));
    }
}
