//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand};

use crate::leg::Pace;
use crate::scenario;

/// Measures a controller against a real API server, beside the server's own ceiling and any other controller.
#[derive(Debug, Parser)]
#[command(name = "berth-bench", version, after_help = EXIT_CODES)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 measured and correct; 1 the run failed, its oracle found something wrong, or a \
budget is missed under --gate; 2 bad flags, nothing was started; 3 the machine was not quiet (see --allow-disturbed); \
130 and 143 interrupted.";

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run one scenario and print one JSON document.
    Run(Box<Run>),
    /// Measure the addresses of clusters: hook answers, time to an endpoint, memory.
    Vip(Box<crate::vip::Vip>),
    /// Measure the capacity of groups at zero replicas: time to annotated, restarts, cloud calls, memory.
    Capacity(Box<crate::capacity::Capacity>),
    /// Measure claims on hosts: binds, hosts that change hands, one tenant's flood, memory.
    Claims(Box<crate::claims::Claims>),
    /// Measure clusters on CloudStack: time to a verdict, calls for one and for many, objects written, silence.
    Clusters(Box<crate::clusters::Clusters>),
    /// Measure machines on dedicated hosts: time against the cloud's request limits, calls, releases.
    Hosts(Box<crate::hosts::Hosts>),
    /// Measure Metal3 machines on claims: time to provisioned, writes, silence, memory, hosts given back.
    Machines(Box<crate::machines::Machines>),
    /// Print the scenarios.
    List,
    /// The independent watcher: stamps events of a kind until its input closes.
    #[command(hide = true)]
    Watch(Watch),
    /// A minimal controller that lists and watches the kind of a scenario, to test the runner.
    #[command(hide = true)]
    StandIn(StandIn),
    /// The definition the minimal controller needs.
    #[command(hide = true)]
    StandInCrds,
}

/// Flags of `run`.
#[derive(Debug, Args)]
pub struct Run {
    /// What to measure.
    #[arg(long, value_parser = names(), default_value = "idle")]
    pub scenario: String,
    /// How many objects the cluster holds.
    #[arg(long, allow_negative_numbers = true, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    pub objects: u64,
    /// The program under test.
    #[arg(long, default_value = "target/release/berth")]
    pub subject: PathBuf,
    /// Its arguments; {kubeconfig}, {health} and {metrics} are filled in.
    #[arg(
        long,
        allow_hyphen_values = true,
        default_value = "run --kubeconfig {kubeconfig} --health-addr {health} --metrics-bind-address {metrics} --webhook-port 0 --controllers claims"
    )]
    pub subject_args: String,
    /// The command that prints the custom resource definitions; {subject} is filled in.
    #[arg(long, default_value = "{subject} crds")]
    pub crds: String,
    /// Another controller's command with the same placeholders, run on the same scenario, alternating.
    #[arg(long)]
    pub peer: Option<String>,
    /// How many pairs (without a peer: how many legs); 5, or 1 with --quick.
    #[arg(long, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub pairs: Option<u32>,
    /// The seed of the object set.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Where the JSON document goes; standard output without it.
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// Where the tables go as Markdown, with the command that made them.
    #[arg(long)]
    pub markdown: Option<PathBuf>,
    /// The whole run is given up after this long, in seconds.
    #[arg(long, allow_negative_numbers = true, default_value_t = 7200, value_parser = clap::value_parser!(u64).range(10..=86_400))]
    pub time_limit_seconds: u64,
    /// Short waits, few requests, W only once: proves that everything works, its figures mean little.
    #[arg(long)]
    pub quick: bool,
    /// Length of the idle window; 300, or 20 with --quick.
    #[arg(long, allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub idle_seconds: Option<u64>,
    /// Silence that counts as settled; 30, or 3 with --quick.
    #[arg(long, allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub settle_seconds: Option<u64>,
    /// How long settling may take.
    #[arg(long, allow_negative_numbers = true, default_value_t = 1800, value_parser = clap::value_parser!(u64).range(5..=86_400))]
    pub settle_timeout_seconds: u64,
    /// How long to wait for a load average of at most 0.5 before a leg; 300, or 0 with --quick.
    #[arg(long, allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(0..=3600))]
    pub load_wait_seconds: Option<u64>,
    /// Requests of each kind for the ceiling W; 3000, or 300 with --quick.
    #[arg(long, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(10..=100_000))]
    pub ceiling_requests: Option<u32>,
    /// Leave out the leg without objects, and with it the bars for an empty cluster.
    #[arg(long)]
    pub no_empty_leg: bool,
    /// Where servers keep their data while they run; removed at the end.
    #[arg(long, default_value = "target/bench")]
    pub work_dir: PathBuf,
    /// Keep the data and logs of this run.
    #[arg(long)]
    pub keep: bool,
    /// End with exit code 0 although the machine was busy; the document is marked either way.
    #[arg(long)]
    pub allow_disturbed: bool,
    /// End with exit code 1 when a budget is missed.
    #[arg(long)]
    pub gate: bool,
}

impl Run {
    /// Pairs to run.
    pub fn pairs(&self) -> usize {
        self.pairs.unwrap_or(if self.quick { 1 } else { 5 }) as usize
    }

    /// Requests of each kind for W.
    pub fn ceiling(&self) -> usize {
        self.ceiling_requests.unwrap_or(if self.quick { 300 } else { 3000 }) as usize
    }

    /// How long things are waited for.
    pub fn pace(&self) -> Pace {
        let or = |given: Option<u64>, quick: u64, full: u64| {
            Duration::from_secs(given.unwrap_or(if self.quick { quick } else { full }))
        };
        Pace {
            settle: or(self.settle_seconds, 3, 30),
            settle_bound: Duration::from_secs(self.settle_timeout_seconds),
            idle: or(self.idle_seconds, 20, 300),
            silence: Duration::from_secs(60),
            load_wait: or(self.load_wait_seconds, 0, 300),
        }
    }
}

/// Flags of `watch`.
#[derive(Debug, Args)]
pub struct Watch {
    /// How to reach the server.
    #[arg(long)]
    pub kubeconfig: PathBuf,
    /// The collection's path.
    #[arg(long)]
    pub path: String,
    /// Where to begin.
    #[arg(long)]
    pub resource_version: String,
    /// A JSON pointer to a text that each event shows; repeatable.
    #[arg(long)]
    pub show: Vec<String>,
}

/// Flags of `stand-in`.
#[derive(Debug, Args)]
pub struct StandIn {
    /// How to reach the server.
    #[arg(long)]
    pub kubeconfig: PathBuf,
    /// Where `/readyz` is served.
    #[arg(long)]
    pub health: String,
    /// Write to one object at every start.
    #[arg(long)]
    pub touch: bool,
}

fn names() -> PossibleValuesParser {
    PossibleValuesParser::new(scenario::all().iter().map(|s| s.name()).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(args: &[&str]) -> (i32, String) {
        let e = Cli::try_parse_from([&["berth-bench", "run"], args].concat()).unwrap_err();
        (e.exit_code(), e.to_string())
    }

    #[test]
    fn a_bad_flag_is_a_usage_error_that_names_the_flag() {
        for (args, flag) in [
            (["--scenario", "nope"], "--scenario"),
            (["--objects", "-1"], "--objects"),
            (["--pairs", "0"], "--pairs"),
            (["--idle-seconds", "x"], "--idle-seconds"),
        ] {
            let (code, text) = refused(&args);
            assert_eq!(code, 2, "{text}");
            assert!(text.contains(flag), "{text}");
        }
    }

    #[test]
    fn quick_shortens_every_wait_that_was_not_given() {
        let Command::Run(r) = Cli::parse_from(["berth-bench", "run", "--quick", "--idle-seconds", "7"]).command else {
            panic!("not a run")
        };
        assert_eq!((r.pairs(), r.ceiling()), (1, 300));
        assert_eq!((r.pace().settle.as_secs(), r.pace().idle.as_secs(), r.pace().load_wait.as_secs()), (3, 7, 0));
    }

    #[test]
    fn the_full_run_follows_the_rules_of_measuring() {
        let Command::Run(r) = Cli::parse_from(["berth-bench", "run"]).command else { panic!("not a run") };
        assert_eq!((r.pairs(), r.ceiling(), r.objects), (5, 3000, 10_000));
        let p = r.pace();
        assert_eq!(
            (p.settle.as_secs(), p.idle.as_secs(), p.silence.as_secs(), p.load_wait.as_secs()),
            (30, 300, 60, 300)
        );
    }
}
