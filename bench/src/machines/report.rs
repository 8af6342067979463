//! The figures of the scenario, their tables and their bars.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::world::PLAYED;
use crate::audit::Tally;
use crate::budget::{Budget, at_least, at_most};
use crate::document::{Figures, Sheet, cells, maybe};
use crate::report::short;
use crate::stats::{Percentiles, Spread};

/// Everything that was measured.
#[derive(Debug, Serialize)]
pub struct Machines {
    /// Machines on as many hosts.
    pub machines: u64,
    /// Who was played by the bench, and how.
    pub played: BTreeMap<&'static str, &'static str>,
    /// From nothing to provisioned.
    pub up: Up,
    /// While nothing was to be done.
    pub idle: Idle,
    /// What the command line shows of them.
    pub screens: Vec<Screen>,
    /// The process under test.
    pub memory: Memory,
    /// From provisioned to nothing.
    pub down: Down,
}

/// All machines are created at once.
#[derive(Debug, Serialize)]
pub struct Up {
    /// From the first machine until the last one was provisioned.
    pub seconds: f64,
    /// Machines provisioned each second.
    pub per_second: f64,
    /// Seconds in which the bench created them.
    pub create_seconds: f64,
    /// Time that the server alone needs for the writes that are needed, those of the hosts' operator included, over the
    /// measured time.
    pub efficiency: f64,
    /// Milliseconds from a machine until it was provisioned.
    pub ms: Option<Percentiles>,
    /// Of these, until a host named its claim.
    pub bound_ms: Option<Percentiles>,
    /// Of these, from a deployed host to a provisioned machine.
    pub told_ms: Option<Percentiles>,
    /// Writes of the process, leases and events apart, over those that are needed.
    pub writes_over_needed: f64,
    /// Processor time of the process.
    pub cpu_ms_per_machine: f64,
    /// Writes of the played operator of hosts.
    pub host_writes_per_machine: f64,
    /// Requests of the process.
    #[serde(flatten)]
    pub requests: Requests,
}

/// All machines are deleted at once.
#[derive(Debug, Serialize)]
pub struct Down {
    /// From the first deletion until the last host was free.
    pub seconds: f64,
    /// Milliseconds from the deletion of a machine until its host was free.
    pub free_ms: Option<Percentiles>,
    /// Milliseconds from the deletion of a machine until it was gone.
    pub gone_ms: Option<Percentiles>,
    /// Writes of the played operator of hosts.
    pub host_writes_per_machine: f64,
    /// Requests of the process.
    #[serde(flatten)]
    pub requests: Requests,
}

/// Requests of the process under test, as the server counted them.
#[derive(Debug, Serialize)]
pub struct Requests {
    /// Writes, leases and events apart.
    pub writes_per_machine: f64,
    /// Events.
    pub events_per_machine: f64,
    /// All of them.
    pub requests_per_machine: f64,
    /// Writes refused with 409: somebody had been first, or another manager owns a field.
    pub conflicts: u64,
    /// Which ones.
    pub refused: BTreeMap<String, u64>,
    /// By verb and resource.
    pub requests: BTreeMap<String, u64>,
}

impl Requests {
    /// What was counted, for so many machines.
    pub fn of(tally: Tally, refused: BTreeMap<String, u64>, machines: u64) -> Self {
        let each = |value: u64| value as f64 / machines as f64;
        Self {
            writes_per_machine: each(tally.writes - tally.events),
            events_per_machine: each(tally.events),
            requests_per_machine: each(tally.total),
            conflicts: tally.conflicts,
            refused,
            requests: tally.by_verb,
        }
    }
}

/// All machines are up, and nothing happens.
#[derive(Debug, Serialize)]
pub struct Idle {
    /// For how long.
    pub seconds: u64,
    /// Requests of the process, leases and watches apart.
    pub requests: u64,
    /// About leases, and heartbeats of kinds of claims.
    pub leases: u64,
    /// Watches that were opened again.
    pub watches: u64,
    /// What they were.
    pub by_verb: BTreeMap<String, u64>,
}

/// One command of the command line, asked several times with all machines up.
#[derive(Debug, Serialize)]
pub struct Screen {
    /// Which one.
    pub command: String,
    /// Milliseconds from its start to its end.
    pub ms: Option<Spread>,
    /// Milliseconds in which a plain client, which reads none of it, has the same lists, all asked for at once.
    pub lists_alone_ms: Option<Spread>,
    /// Bytes of these lists.
    pub lists_bytes: usize,
    /// Lines that it printed.
    pub lines: u64,
    /// Requests to the server, those of the operator meanwhile included.
    pub requests: f64,
}

/// Resident memory of the process in KiB.
#[derive(Debug, Serialize)]
pub struct Memory {
    /// With everything but the machines and their claims.
    pub before_kib: u64,
    /// With all machines up, after the silence.
    pub rss_kib: u64,
    /// Peak until then.
    pub peak_kib: u64,
    /// For each machine with its claim.
    pub kib_per_machine: Option<f64>,
    /// Once all machines are gone.
    pub after_kib: u64,
}

/// Writes that each machine needs, in the order of its life: by kind of request, because they cost the server differently.
#[derive(Clone, Copy, Debug)]
pub struct Needed {
    /// The machine itself, which the bench writes; its claim; the copy of its data beside the host.
    pub creates: u64,
    /// Of the machine its finalizer together with which claim it has, and its provider id; of the claim what is to run; of
    /// the host whose it is and what is to run; of the Node its provider id.
    pub patches: u64,
    /// Of the claim the intent, the host and that it is provisioned; of the machine that it is provisioned.
    pub statuses: u64,
}

/// As the steps of both rooms need them.
pub const NEEDED: Needed = Needed { creates: 3, patches: 6, statuses: 4 };

impl Needed {
    /// Those of the process under test: all but the machine itself.
    pub fn own(self) -> u64 {
        self.creates + self.patches + self.statuses - 1
    }
}

fn mib(kib: u64) -> String {
    short(kib as f64 / 1024.0)
}

impl Machines {
    fn requests(&self) -> Sheet {
        let mut sheet = Sheet::new(&["requests of the process for each machine", "until provisioned", "until gone"]);
        let (up, down) = (&self.up.requests.requests, &self.down.requests.requests);
        let each = |all: &BTreeMap<String, u64>, what: &str| {
            maybe(all.get(what).map(|count| *count as f64 / self.machines as f64))
        };
        for what in up.keys().chain(down.keys()).collect::<BTreeSet<_>>() {
            sheet.row(vec![what.clone(), each(up, what), each(down, what)]);
        }
        let (late_up, late_down) = (&self.up.requests.refused, &self.down.requests.refused);
        for what in late_up.keys().chain(late_down.keys()).collect::<BTreeSet<_>>() {
            sheet.row(vec![format!("  of these refused with 409: {what}"), each(late_up, what), each(late_down, what)]);
        }
        let own = |requests: &Requests| short(requests.writes_per_machine);
        sheet.row(vec!["writes, events and leases apart".to_owned(), own(&self.up.requests), own(&self.down.requests)]);
        let played = [self.up.host_writes_per_machine, self.down.host_writes_per_machine].map(short);
        sheet.row([vec!["writes of the played operator of hosts".to_owned()], played.to_vec()].concat());
        sheet
    }
}

impl Figures for Machines {
    const SCHEMA: &'static str = "berth-bench/machines/1";

    fn sheets(&self) -> Vec<Sheet> {
        let mut played = Sheet::new(&["part", "played by"]);
        for (part, how) in PLAYED {
            played.row(vec![part.to_owned(), how.to_owned()]);
        }
        let mut all = Sheet::new(&[
            "machines on as many hosts",
            "all provisioned, s",
            "machines/s",
            "efficiency",
            "writes/machine",
            "over those needed",
            "events/machine",
            "conflicts",
            "CPU ms/machine",
            "idle requests",
            "all hosts free, s",
            "writes/machine deleted",
        ]);
        let (up, down) = (&self.up, &self.down);
        all.row(vec![
            self.machines.to_string(),
            short(up.seconds),
            short(up.per_second),
            short(up.efficiency),
            short(up.requests.writes_per_machine),
            short(up.writes_over_needed),
            short(up.requests.events_per_machine),
            (up.requests.conflicts + down.requests.conflicts).to_string(),
            short(up.cpu_ms_per_machine),
            format!("{} in {} s", self.idle.requests, self.idle.seconds),
            short(down.seconds),
            short(down.requests.writes_per_machine),
        ]);
        let mut memory =
            Sheet::new(&["MiB of the process", "before machines", "all up", "peak", "all gone", "KiB/machine"]);
        let m = &self.memory;
        memory.row(vec![
            self.machines.to_string(),
            mib(m.before_kib),
            mib(m.rss_kib),
            mib(m.peak_kib),
            mib(m.after_kib),
            maybe(m.kib_per_machine),
        ]);
        let mut times = Sheet::new(&["milliseconds", "p50", "p95", "p99", "max", "samples"]);
        let mut row = |what: &str, p: Option<Percentiles>| {
            let what = format!("{what}, {} at once", self.machines);
            times.row(std::iter::once(what).chain(cells(p)).collect());
        };
        row("machine to provisioned", up.ms);
        row("  of these, machine to its host", up.bound_ms);
        row("  of these, host deployed to machine provisioned", up.told_ms);
        row("machine deleted to host free", down.free_ms);
        row("machine deleted to machine gone", down.gone_ms);
        let of_lists = "the same lists alone, ms, median";
        let mut screens =
            Sheet::new(&["berth", "ms, median", "least", "most", of_lists, "their MiB", "requests", "lines"]);
        for screen in &self.screens {
            let ms = |of: fn(&Spread) -> f64| maybe(screen.ms.as_ref().map(of));
            let times = [ms(|ms| ms.median), ms(|ms| ms.min), ms(|ms| ms.max)];
            let alone = maybe(screen.lists_alone_ms.as_ref().map(|ms| ms.median));
            let mib = short(screen.lists_bytes as f64 / f64::from(1 << 20));
            let rest = [alone, mib, short(screen.requests), screen.lines.to_string()];
            screens.row([vec![screen.command.clone()], times.to_vec(), rest.to_vec()].concat());
        }
        vec![played, all, times, self.requests(), screens, memory]
    }

    fn budgets(&self) -> Vec<Budget> {
        let what = |part: &str| format!("{} machines: {part}", self.machines);
        let mut rows = Vec::new();
        if self.machines >= 1000 {
            rows.push(at_least(what("efficiency"), 0.8, "", Some(self.up.efficiency)));
        }
        let conflicts = (self.up.requests.conflicts + self.down.requests.conflicts) as f64;
        rows.push(at_most(what("conflicts per 100 machines"), 1.0, "", Some(conflicts * 100.0 / self.machines as f64)));
        let idle = self.idle.requests as f64;
        rows.push(at_most(what("requests while idle, leases and watches apart"), 0.0, "", Some(idle)));
        for screen in self.screens.iter().filter(|_| self.machines <= 1000) {
            let took = screen.ms.as_ref().map(|ms| ms.median);
            rows.push(at_most(what(&format!("berth {}, median", screen.command)), 200.0, "ms", took));
        }
        rows
    }
}
