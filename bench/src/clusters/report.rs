//! The figures of the scenario, their tables and their bars.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::world::{GENERATED, PLAYED};
use crate::budget::{Budget, at_least, at_most};
use crate::document::{Figures, Sheet, cells, maybe};
use crate::report::short;
use crate::stats::Percentiles;

/// Everything that was measured.
#[derive(Debug, Serialize)]
pub struct Clusters {
    /// Who was played by the bench, and how.
    pub played: BTreeMap<&'static str, &'static str>,
    /// Milliseconds that every answer of CloudStack is delayed by.
    pub delay_ms: u64,
    /// Clusters that share nothing, one after the other.
    pub verdict: Verdict,
    /// Equal clusters on one datacenter, all at once, by their number.
    pub equal: BTreeMap<u64, Equal>,
    /// Calls to CloudStack for the most clusters over those for the fewest.
    pub calls_ratio: Option<f64>,
}

/// Clusters with a datacenter, a machine configuration and keys of their own, so that nothing is known beforehand.
#[derive(Debug, Serialize)]
pub struct Verdict {
    /// How many.
    pub clusters: u64,
    /// How many are applied each second.
    pub per_second: u64,
    /// Of these, with a template that is not there.
    pub refused: u64,
    /// Milliseconds from the first object of a cluster to the verdict on the last of its checks.
    pub ms: Option<Percentiles>,
    /// Of these, until its datacenter was judged.
    pub datacenter_ms: Option<Percentiles>,
    /// Calls to CloudStack by command.
    pub calls: BTreeMap<String, usize>,
}

/// Equal clusters on one datacenter.
#[derive(Debug, Serialize)]
pub struct Equal {
    /// From the first cluster until the last generated object was there.
    pub seconds: f64,
    /// Generated objects each second.
    pub objects_per_second: f64,
    /// Time that the server alone needs for the writes until then, those of the played ones included, over the measured time:
    /// W for all but the generated objects, and what those took when a plain client created them.
    pub efficiency: f64,
    /// From the first generated object to the last when a plain client creates the same ones.
    pub objects_alone_seconds: f64,
    /// Milliseconds from a cluster until the last of its generated objects was there.
    pub written_ms: Option<Percentiles>,
    /// Milliseconds from a cluster until it was ready.
    pub ready_ms: Option<Percentiles>,
    /// Calls to CloudStack by command.
    pub calls: BTreeMap<String, usize>,
    /// Writes of the process until all were ready, leases and events apart.
    pub writes_per_cluster: f64,
    /// The same over those that are needed.
    pub writes_over_needed: f64,
    /// Events.
    pub events_per_cluster: f64,
    /// Writes refused with 409: somebody had been first.
    pub conflicts: u64,
    /// Requests of the process by verb and resource.
    pub requests: BTreeMap<String, u64>,
    /// Writes of the played ones.
    pub played_writes_per_cluster: f64,
    /// Processor time of the process.
    pub cpu_ms_per_cluster: f64,
    /// Its share of what it and the server used together.
    pub cpu_share_percent: f64,
    /// While nothing was to be done.
    pub idle: Idle,
    /// The same files once more.
    pub again: Again,
    /// Resident memory with all clusters ready, after the silence.
    pub rss_kib: u64,
    /// Peak memory until then.
    pub peak_kib: u64,
}

/// All clusters are ready, and nothing happens.
#[derive(Debug, Serialize)]
pub struct Idle {
    /// For how long.
    pub seconds: u64,
    /// Requests of the process to the API server, leases, heartbeats and watches apart.
    pub requests: u64,
    /// Reports that it serves a kind of claims.
    pub heartbeats: u64,
    /// Calls to CloudStack.
    pub calls: usize,
    /// What was asked of the API server.
    pub by_verb: BTreeMap<String, u64>,
}

/// Files that are applied again as they are.
#[derive(Debug, Serialize)]
pub struct Again {
    /// Objects in them.
    pub objects: usize,
    /// Writes of the process that follow.
    pub writes: u64,
    /// Its requests, leases and watches apart.
    pub requests: u64,
    /// Calls to CloudStack.
    pub calls: usize,
}

/// Writes that clusters need, by kind of request, because they cost the server differently.
#[derive(Clone, Copy, Debug)]
pub struct Needed {
    /// Of each cluster: the cluster itself, which the bench writes; what is generated for it.
    pub creates: u64,
    /// Of each cluster: its finalizer, and that its network plugin was installed.
    pub patches: u64,
    /// Of each cluster: which bundle is used, which is stored before it has an effect; that it is ready comes after the last
    /// object.
    pub statuses: u64,
    /// Of all together, when they come at once: that they own their datacenter and their machine configuration.
    pub shared: u64,
}

/// Until everything is written.
pub const NEEDED: Needed = Needed { creates: 10, patches: 2, statuses: 1, shared: 2 };

impl Needed {
    /// Those of the process under test until so many clusters are ready: all but the clusters themselves, and that they are
    /// ready.
    pub fn own(self, clusters: u64) -> u64 {
        (self.creates - 1 + self.patches + self.statuses + 1) * clusters + self.shared
    }
}

/// Calls that one cluster needs: domain, account, zone, network, template and offering, once each.
const CALLS: f64 = 6.0;
/// Fewer clusters than this would only show how long one request takes.
const MANY: u64 = 100;

/// All calls.
pub fn sum(calls: &BTreeMap<String, usize>) -> usize {
    calls.values().sum()
}

impl Idle {
    /// A datacenter is looked at anew every ten minutes, with four calls; a shorter window has none.
    fn most_calls(&self) -> f64 {
        4.0 * (self.seconds / 600) as f64
    }
}

impl Clusters {
    fn calls(&self) -> Sheet {
        let sizes: Vec<&u64> = self.equal.keys().collect();
        let mut header =
            vec!["calls to CloudStack".to_owned(), format!("{} that share nothing", self.verdict.clusters)];
        header.extend(sizes.iter().map(|size| format!("{size} on one datacenter")));
        let mut sheet = Sheet { header, rows: Vec::new() };
        let all = self.equal.values().map(|equal| &equal.calls).chain([&self.verdict.calls]);
        let commands: BTreeSet<&String> = all.flat_map(BTreeMap::keys).collect();
        let cell = |calls: &BTreeMap<String, usize>, command: &str| {
            calls.get(command).map_or_else(|| "-".to_owned(), usize::to_string)
        };
        for command in commands {
            let mut row = vec![command.clone(), cell(&self.verdict.calls, command)];
            row.extend(self.equal.values().map(|equal| cell(&equal.calls, command)));
            sheet.row(row);
        }
        let mut row = vec!["all".to_owned(), sum(&self.verdict.calls).to_string()];
        row.extend(self.equal.values().map(|equal| sum(&equal.calls).to_string()));
        sheet.row(row);
        sheet
    }

    fn requests(&self) -> Sheet {
        let mut header = vec!["requests of the process for each cluster".to_owned()];
        header.extend(self.equal.keys().map(|size| format!("{size} at once")));
        let mut sheet = Sheet { header, rows: Vec::new() };
        let all: BTreeSet<&String> = self.equal.values().flat_map(|equal| equal.requests.keys()).collect();
        for what in all {
            let each = |(size, equal): (&u64, &Equal)| {
                maybe(equal.requests.get(what).map(|count| *count as f64 / *size as f64))
            };
            sheet.row([vec![what.clone()], self.equal.iter().map(each).collect()].concat());
        }
        sheet
    }
}

impl Figures for Clusters {
    const SCHEMA: &'static str = "berth-bench/clusters/1";

    fn sheets(&self) -> Vec<Sheet> {
        let mut played = Sheet::new(&["part", "played by"]);
        for (part, how) in PLAYED {
            played.row(vec![part.to_owned(), how.to_owned()]);
        }
        let mut all = Sheet::new(&[
            "equal clusters on one datacenter",
            "all objects written, s",
            "objects/s",
            "by a plain client, s",
            "efficiency",
            "calls to CloudStack",
            "writes/cluster",
            "over those needed",
            "events/cluster",
            "conflicts",
            "CPU ms/cluster",
            "of both, %",
            "idle requests",
            "idle calls",
            "writes when applied again",
            "RSS MiB",
        ]);
        let mut times = Sheet::new(&["milliseconds", "p50", "p95", "p99", "max", "samples"]);
        let mut row = |what: String, p: Option<Percentiles>| times.row(std::iter::once(what).chain(cells(p)).collect());
        let each = format!("{} one after the other, {} each second", self.verdict.clusters, self.verdict.per_second);
        row(format!("apply to verdict, {each}"), self.verdict.ms);
        row(format!("  of these, to that on the datacenter, {each}"), self.verdict.datacenter_ms);
        for (size, equal) in &self.equal {
            all.row(vec![
                size.to_string(),
                short(equal.seconds),
                short(equal.objects_per_second),
                short(equal.objects_alone_seconds),
                short(equal.efficiency),
                sum(&equal.calls).to_string(),
                short(equal.writes_per_cluster),
                short(equal.writes_over_needed),
                short(equal.events_per_cluster),
                equal.conflicts.to_string(),
                short(equal.cpu_ms_per_cluster),
                short(equal.cpu_share_percent),
                format!("{} in {} s", equal.idle.requests, equal.idle.seconds),
                format!("{} in {} s", equal.idle.calls, equal.idle.seconds),
                format!("{} for {} objects", equal.again.writes, equal.again.objects),
                short(equal.rss_kib as f64 / 1024.0),
            ]);
            row(format!("cluster to all of its objects written, {size} at once"), equal.written_ms);
            row(format!("cluster to ready, {size} at once"), equal.ready_ms);
        }
        vec![played, all, times, self.calls(), self.requests()]
    }

    fn budgets(&self) -> Vec<Budget> {
        let mut rows = Vec::new();
        let what = format!("{} ms API: apply to verdict: p99", self.delay_ms);
        rows.push(at_most(what, 1000.0, "ms", self.verdict.ms.map(|p| p.p99)));
        if let Some(equal) = self.equal.get(&1) {
            rows.push(at_most("1 cluster: calls to CloudStack", CALLS, "", Some(sum(&equal.calls) as f64)));
        }
        if self.equal.len() > 1 {
            rows.push(at_most("calls for the most clusters over those for the fewest", 1.2, "x", self.calls_ratio));
        }
        for (size, equal) in &self.equal {
            let what = |part: &str| format!("{size} clusters: {part}");
            if *size >= MANY {
                rows.push(at_least(what("efficiency"), 0.8, "", Some(equal.efficiency)));
            }
            let again = equal.again.writes as f64;
            rows.push(at_most(what("writes when the same is applied again"), 0.0, "", Some(again)));
            let idle = equal.idle.requests as f64;
            rows.push(at_most(what("requests while idle, leases, heartbeats and watches apart"), 0.0, "", Some(idle)));
            let calls = equal.idle.calls as f64;
            rows.push(at_most(what("calls to CloudStack while idle"), equal.idle.most_calls(), "", Some(calls)));
        }
        rows
    }
}

/// Generated objects of one cluster.
pub fn objects() -> usize {
    GENERATED.iter().map(|(_, count)| count).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_needed_is_the_cluster_and_its_objects() {
        assert_eq!(NEEDED.creates as usize, 1 + objects());
        assert_eq!([NEEDED.own(1), NEEDED.own(100)], [15, 1302]);
    }
}
