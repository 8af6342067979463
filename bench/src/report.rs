//! The document and the tables.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::budget::{self, Budget};
use crate::ceiling::{self, Ceiling};
use crate::cli::Run;
use crate::document::{self, Sheet};
use crate::leg::{Leg, Primed, QUIET_LOAD, Side};
use crate::proc::Binary;
use crate::scenario::Scenario;
use crate::stats::{Spread, ratios, spread};

/// The version of the document's shape.
pub const SCHEMA: &str = "berth-bench/2";

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Result {
    /// Correct, on a quiet machine.
    Passed,
    /// Correct, but the machine was busy: not to be used as a figure.
    Disturbed,
    /// The oracle found something wrong.
    Failed,
}

/// The conditions W was measured under.
#[derive(Debug, Serialize)]
pub struct CeilingSetup {
    /// Connections.
    pub connections: usize,
    /// Requests in flight.
    pub in_flight: usize,
}

/// One run, whole.
#[derive(Debug, Serialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// When the run ended.
    pub date: String,
    /// The commit of the work tree it ran in, when there is one.
    pub commit: Option<String>,
    /// Processors of the machine.
    pub cores: usize,
    /// The scenario.
    pub scenario: String,
    /// What it is.
    pub about: String,
    /// Objects in the cluster.
    pub objects: u64,
    /// The seed of the set.
    pub seed: u64,
    /// Pairs run.
    pub pairs: usize,
    /// Whether waits were cut short.
    pub quick: bool,
    /// How it ended.
    pub result: Result,
    /// Which legs ran on a busy machine.
    pub disturbed: Vec<String>,
    /// What the oracle found wrong, by leg.
    pub oracle: Vec<String>,
    /// The commands, placeholders as given.
    pub commands: BTreeMap<String, String>,
    /// The subject's program.
    pub binary: Binary,
    /// How W was measured.
    pub ceiling_setup: CeilingSetup,
    /// W before the first pair and after each pair; only the first with `quick`.
    pub ceilings: Vec<Ceiling>,
    /// The subject without objects.
    pub empty: Option<Leg>,
    /// The first, uncounted run of each side on the data.
    pub primed: Vec<Primed>,
    /// Every counted leg, in the order they ran.
    pub legs: Vec<Leg>,
    /// By side and figure.
    pub figures: BTreeMap<String, BTreeMap<String, Spread>>,
    /// Subject over peer, within pairs.
    pub ratios: BTreeMap<String, Spread>,
    /// The subject's bars.
    pub budgets: Vec<Budget>,
}

type CeilingRow = (&'static str, fn(&Ceiling) -> f64);
type Figure = (&'static str, fn(&Leg) -> Option<f64>);

/// Every figure of a leg that is summarised and compared.
const FIGURES: [Figure; 13] = [
    ("exec to ready, ms", |l| l.exec_to_ready_ms),
    ("exec to settled, ms", |l| l.exec_to_settled_ms),
    ("requests to settled", |l| Some(l.requests_start.total as f64)),
    ("lists to settled", |l| Some(l.requests_start.lists as f64)),
    ("writes to settled", |l| Some(l.requests_start.writes as f64)),
    ("processor to settled, s", |l| l.cpu_start_seconds),
    ("peak memory, MiB", |l| l.peak_kib.map(mib)),
    ("resident when settled, MiB", |l| l.rss_settled_kib.map(mib)),
    ("resident after silence, MiB", |l| l.rss_idle_kib.map(mib)),
    ("requests while idle", |l| Some(l.requests_idle.total as f64)),
    ("writes while idle", |l| Some(l.requests_idle.writes as f64)),
    ("processor while idle, %", |l| l.idle_cpu_percent),
    ("SIGTERM to exit, ms", |l| l.stop_ms),
];

fn mib(kib: u64) -> f64 {
    kib as f64 / 1024.0
}

impl Report {
    /// Puts everything together.
    #[allow(clippy::too_many_arguments, reason = "the parts of one document, named at the only call")]
    pub fn new(
        args: &Run,
        scenario: &dyn Scenario,
        sides: &[Side],
        binary: Binary,
        ceilings: Vec<Ceiling>,
        empty: Option<Leg>,
        primed: Vec<Primed>,
        legs: Vec<Leg>,
    ) -> Self {
        let named =
            |l: &Leg| format!("{} {}", l.side, if l.pair == 0 { "empty".into() } else { format!("pair {}", l.pair) });
        let all: Vec<&Leg> = empty.iter().chain(&legs).collect();
        let oracle: Vec<String> =
            all.iter().flat_map(|l| l.oracle.iter().map(move |w| format!("{}: {w}", named(l)))).collect();
        let moment = |n: usize| if n == 0 { "W before pair 1".to_owned() } else { format!("W after pair {n}") };
        let w = ceilings.iter().enumerate().map(|(n, c)| (moment(n), c.disturbed, c.load_average));
        let disturbed: Vec<String> = all
            .iter()
            .map(|l| (named(l), l.disturbed, l.load_average))
            .chain(w)
            .filter(|(_, disturbed, _)| *disturbed)
            .map(|(name, _, load)| format!("{name}: load average {load:.2} above {QUIET_LOAD}"))
            .collect();
        let result = match (oracle.is_empty(), disturbed.is_empty()) {
            (false, _) => Result::Failed,
            (true, false) => Result::Disturbed,
            (true, true) => Result::Passed,
        };
        let of = |side: &str| legs.iter().filter(|l| l.side == side).cloned().collect::<Vec<_>>();
        let (ours, theirs) = (of("subject"), of("peer"));
        let figures = sides
            .iter()
            .map(|s| {
                let legs = of(s.name);
                let by = |(name, f): &Figure| {
                    Some(((*name).to_owned(), spread(&legs.iter().filter_map(f).collect::<Vec<_>>())?))
                };
                (s.name.to_owned(), FIGURES.iter().filter_map(by).collect())
            })
            .collect();
        let ratios = FIGURES
            .iter()
            .filter_map(|(name, f)| {
                let pairs: Vec<_> = ours.iter().zip(&theirs).map(|(a, b)| (f(a), f(b))).collect();
                Some(((*name).to_owned(), spread(&ratios(&pairs))?))
            })
            .collect();
        let mut budgets = budget::common(args.objects, &ours, empty.as_ref(), Some(&binary));
        budgets.extend(scenario.budgets(args.objects));
        Self {
            schema: SCHEMA,
            date: jiff::Timestamp::now().to_string(),
            commit: commit(),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            scenario: scenario.name().to_owned(),
            about: scenario.about().to_owned(),
            objects: args.objects,
            seed: args.seed,
            pairs: args.pairs(),
            quick: args.quick,
            result,
            disturbed,
            oracle,
            commands: sides.iter().map(|s| (s.name.to_owned(), s.command.join(" "))).collect(),
            binary,
            ceiling_setup: CeilingSetup { connections: ceiling::CONNECTIONS, in_flight: ceiling::IN_FLIGHT },
            ceilings,
            empty,
            primed,
            legs,
            figures,
            ratios,
            budgets,
        }
    }

    /// The tables for people.
    pub fn tables(&self) -> String {
        let mut out = format!(
            "\n{} with {} objects, {} pairs, seed {}, commit {}, {}{}\n",
            self.scenario,
            self.objects,
            self.pairs,
            self.seed,
            self.commit.as_deref().unwrap_or("unknown"),
            self.date,
            if self.quick { " (quick: figures mean little)" } else { "" }
        );
        for sheet in self.sheets() {
            out += &format!("\n{}\n", sheet.text());
        }
        for d in &self.disturbed {
            out += &format!("DISTURBED {d}\n");
        }
        for w in &self.oracle {
            out += &format!("WRONG {w}\n");
        }
        out + match self.result {
            Result::Passed => "oracle: passed\n",
            Result::Disturbed => "oracle: passed; the machine was busy: do not use these figures\n",
            Result::Failed => "oracle: FAILED; this run counts as a failure\n",
        }
    }

    /// The same for a page of the book.
    pub fn markdown(&self) -> String {
        let mut out = format!(
            "Commit {}, {}, {} cores shared with the API server, {} pairs, made by `{}`.\n",
            self.commit.as_deref().unwrap_or("unknown"),
            self.date.split('T').next().unwrap_or_default(),
            self.cores,
            self.pairs,
            document::command(),
        );
        for sheet in self.sheets() {
            out += &format!("\n{}", sheet.markdown());
        }
        out
    }

    fn sheets(&self) -> [Sheet; 3] {
        [self.ceiling_table(), self.figure_table(), self.budget_table()]
    }

    fn ceiling_table(&self) -> Sheet {
        let server = self.ceilings.first().map_or("", |c| &c.server);
        let mut t = Sheet::new(&[&format!("W of server {server}, per second"), "median", "min", "max"]);
        let rows: [CeilingRow; 6] = [
            ("create", |c| c.create.per_second),
            ("patch metadata", |c| c.patch_metadata.per_second),
            ("patch status", |c| c.patch_status.per_second),
            ("empty patch", |c| c.patch_empty.per_second),
            ("get", |c| c.get.per_second),
            ("objects in cached lists", |c| c.list_objects as f64 / c.list_seconds),
        ];
        for (name, f) in rows {
            if let Some(s) = spread(&self.ceilings.iter().map(f).collect::<Vec<_>>()) {
                t.row(vec![name.to_owned(), short(s.median), short(s.min), short(s.max)]);
            }
        }
        t
    }

    fn figure_table(&self) -> Sheet {
        let peer = self.figures.contains_key("peer");
        let mut t =
            Sheet::new(if peer { &["figure", "subject", "peer", "subject / peer"] } else { &["figure", "subject"] });
        let show = |s: Option<&Spread>| {
            s.map_or_else(|| "-".to_owned(), |s| format!("{} ({} to {})", short(s.median), short(s.min), short(s.max)))
        };
        for (name, _) in FIGURES {
            let side = |side: &str| show(self.figures.get(side).and_then(|f| f.get(name)));
            let mut row = vec![name.to_owned(), side("subject")];
            if peer {
                row.push(side("peer"));
                row.push(show(self.ratios.get(name)));
            }
            t.row(row);
        }
        t
    }

    fn budget_table(&self) -> Sheet {
        let mut t = Sheet::new(&["budget", "measured", "bar", ""]);
        for budget in &self.budgets {
            t.row(budget.row());
        }
        t
    }
}

/// Three significant digits are all a wall clock deserves.
pub fn short(x: f64) -> String {
    match x.abs() {
        a if a >= 100.0 || x.fract() == 0.0 => format!("{x:.0}"),
        a if a >= 10.0 => format!("{x:.1}"),
        a if a >= 0.1 => format!("{x:.2}"),
        _ => format!("{x:.4}"),
    }
}

/// The commit of the work tree, when there is one.
pub fn commit() -> Option<String> {
    let out = std::process::Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output().ok()?;
    let text = String::from_utf8(out.stdout).ok()?.trim().to_owned();
    (out.status.success() && !text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use crate::{run, scenario};
    use clap::Parser;

    fn args(extra: &[&str]) -> Run {
        match Cli::parse_from([&["berth-bench", "run", "--objects", "10000"], extra].concat()).command {
            Command::Run(r) => *r,
            other => panic!("not a run: {other:?}"),
        }
    }

    fn leg(side: &str, pair: usize, settled: f64) -> Leg {
        Leg {
            side: side.into(),
            pair,
            exec_to_ready_ms: Some(10.0),
            exec_to_settled_ms: Some(settled),
            rss_idle_kib: Some(30 << 10),
            idle_cpu_percent: Some(0.0),
            stop_ms: Some(5.0),
            ..Leg::default()
        }
    }

    fn report(args: &Run, legs: Vec<Leg>) -> Report {
        let scenario = scenario::all().remove(0);
        let sides = ["subject", "peer"].map(|name| Side { name, command: vec!["x".into()] });
        let binary = Binary { path: "x".into(), bytes: 1, stripped_bytes: Some(1), is_static: true };
        let primed = vec![Primed { side: "subject".into(), writes: 0, seconds: 1.0 }];
        Report::new(args, scenario.as_ref(), &sides, binary, Vec::new(), None, primed, legs)
    }

    #[test]
    fn the_ratio_is_the_median_of_pairs_with_its_extremes() {
        let mut legs = Vec::new();
        for (pair, (ours, theirs)) in [(100.0, 200.0), (100.0, 400.0), (300.0, 300.0)].into_iter().enumerate() {
            legs.push(leg("subject", pair + 1, ours));
            legs.push(leg("peer", pair + 1, theirs));
        }
        let r = report(&args(&[]), legs);
        let ratio = r.ratios["exec to settled, ms"];
        assert_eq!((ratio.median, ratio.min, ratio.max, ratio.samples), (0.5, 0.25, 1.0, 3));
        assert_eq!(r.figures["peer"]["exec to settled, ms"].median, 300.0);
        assert_eq!((r.result, run::exit_code(&r, &args(&[]))), (Result::Passed, 0));
        assert!(r.tables().contains("0.50 (0.25 to 1)"), "{}", r.tables());
    }

    #[test]
    fn a_disturbed_run_is_marked_whether_it_is_allowed_or_not() {
        let mut busy = leg("subject", 1, 100.0);
        (busy.disturbed, busy.load_average) = (true, 2.5);
        for (extra, code) in [(&[][..], 3), (&["--allow-disturbed"][..], 0)] {
            let a = args(extra);
            let r = report(&a, vec![busy.clone()]);
            assert_eq!((r.result, run::exit_code(&r, &a)), (Result::Disturbed, code));
            assert!(r.tables().contains("DISTURBED subject pair 1: load average 2.50"));
            assert_eq!(serde_json::to_value(&r).unwrap()["result"], "disturbed");
        }
    }

    #[test]
    fn a_wrong_end_fails_the_run_whatever_else_is_allowed() {
        let mut wrong = leg("peer", 1, 1.0);
        wrong.disturbed = true;
        wrong.oracle.push("1 objects lost, for example a".into());
        let a = args(&["--allow-disturbed"]);
        let r = report(&a, vec![leg("subject", 1, 1.0), wrong]);
        assert_eq!((r.result, run::exit_code(&r, &a)), (Result::Failed, 1));
        assert!(r.tables().contains("WRONG peer pair 1: 1 objects lost"));
    }

    #[test]
    fn a_missed_budget_fails_only_when_it_is_a_gate() {
        let slow = || vec![leg("subject", 1, 6000.0)];
        let (open, gated) = (args(&[]), args(&["--gate"]));
        assert_eq!(run::exit_code(&report(&open, slow()), &open), 0);
        assert_eq!(run::exit_code(&report(&gated, slow()), &gated), 1);
        assert!(report(&open, slow()).tables().contains("FAIL"));
    }
}
