//! The addresses of clusters: how fast hooks answer, and how soon a new cluster has its endpoint.
//!
//! The process under test is the real binary with its hooks over TLS, on a real API server with the kinds of Cluster API. Two
//! parts are played by this program, and the document says so: the topology controller ([`topology`]: it calls the hook with
//! the copy of the Cluster that its watch showed, waits as long as the answer asks, and calls again) and the address
//! provider ([`provider`]: it gives each claim the next address of its pool).

mod calls;
mod oracle;
mod provider;
mod report;
mod topology;
mod world;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;

use crate::child::{self, Process};
use crate::http::{Pool, probe};
use crate::leg::wait_for_quiet_machine;
use crate::server::Server;
use crate::{proc, stats};
use report::Report;
use topology::Topology;
use world::World;

/// Flags of `vip`.
#[derive(Debug, Args)]
pub struct Vip {
    /// The program under test.
    #[arg(long, default_value = "target/release/berth")]
    pub subject: PathBuf,
    /// Clusters applied at once, one size after the other.
    #[arg(long, value_delimiter = ',', default_value = "1,100,500", value_parser = clap::value_parser!(u64).range(1..=5000))]
    pub sizes: Vec<u64>,
    /// Clusters there are when memory is measured.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub clusters: u64,
    /// Hook calls per number of connections.
    #[arg(long, default_value_t = 5000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub calls: u64,
    /// Hook calls a second while latencies are measured; the rate that can be reached is measured beside it.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub rate: u64,
    /// First calls, each about a cluster of its own.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub first_calls: u64,
    /// Calls of GeneratePatches, each with 200 templates.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub patch_calls: u64,
    /// Hook calls that the topology controller has open at once; 50 in Cluster API from v1.11, 10 before.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub topology_workers: u64,
    /// Claims that the address provider works on at once.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..=256))]
    pub provider_workers: u64,
    /// Silence before memory is read, in seconds.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(0..=3600))]
    pub silence_seconds: u64,
    /// How long to wait for a load average of at most 0.5, in seconds.
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u64).range(0..=3600))]
    pub load_wait_seconds: u64,
    /// Where the JSON document goes; standard output without it.
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// Where the server keeps its data while it runs; removed at the end.
    #[arg(long, default_value = "target/bench")]
    pub work_dir: PathBuf,
    /// End with exit code 0 although the machine was busy; the document is marked either way.
    #[arg(long)]
    pub allow_disturbed: bool,
    /// End with exit code 1 when a budget is missed.
    #[arg(long)]
    pub gate: bool,
}

/// Nothing that is waited for may take longer.
pub const BOUND: Duration = Duration::from_secs(300);

/// A new cluster's wait is not mentioned for five seconds.
const SILENCE: Duration = Duration::from_secs(7);

/// Runs the scenario and prints its document and its tables; the exit code.
pub async fn main(args: &Vip) -> Result<u8> {
    let report = run(args).await?;
    eprint!("{}", report.tables());
    let text = serde_json::to_string_pretty(&report).context("writing the document")? + "\n";
    match &args.out {
        Some(path) => std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))?,
        None => print!("{text}"),
    }
    Ok(match &report {
        report if !report.oracle.is_empty() => 1,
        report if args.gate && report.budgets.iter().any(|budget| !budget.pass) => 1,
        report if report.disturbed && !args.allow_disturbed => 3,
        _ => 0,
    })
}

async fn run(args: &Vip) -> Result<Report> {
    let began = Instant::now();
    let say = |text: &str| eprintln!("berth-bench: {:>6.1} s: {text}", began.elapsed().as_secs_f64());
    std::fs::create_dir_all(&args.work_dir).with_context(|| format!("creating {}", args.work_dir.display()))?;
    let work = tempfile::Builder::new().prefix("vip-").tempdir_in(&args.work_dir).context("creating a directory")?;
    let server = Server::start(&work.path().join("server")).await?;
    let pool = Pool::connect(&server.kubeconfig(), 8, "berth-bench-driver").await?;
    say("installing the kinds of Cluster API, a class and three pools");
    let world = World::prepare(&pool).await?;
    let provider = provider::Provider::start(&server.kubeconfig(), args.provider_workers as usize).await?;
    let topology = Topology::start(&server.kubeconfig(), args.topology_workers as usize).await?;
    let (load_average, disturbed) = wait_for_quiet_machine(Duration::from_secs(args.load_wait_seconds)).await?;
    let mut report = Report::new(args, load_average, disturbed);

    say(&format!("first calls about {} clusters, without waiting for the address", args.first_calls));
    let subject = Subject::start(args, &server, work.path(), "first", &["--allocation-wait=0"]).await?;
    let hooks = subject.hooks(&server, 1).await?;
    report.first_call(&calls::first(&pool, &hooks, &world, &topology, args.first_calls).await?);
    drop(hooks);
    subject.stop().await?;

    let subject = Subject::start(args, &server, work.path(), "subject", &[]).await?;
    let hooks = subject.hooks(&server, args.topology_workers as usize).await?;
    for size in &args.sizes {
        say(&format!("{size} clusters at once"));
        let names = world.names(&format!("at-{size}"), *size);
        let times = topology.bring_up(&pool, &hooks, &names).await?;
        report.bring_up(*size, &times, &provider.times(&names));
    }
    say("until the process is silent");
    silence(&server).await?;
    for connections in [1, 8, 64] {
        say(&format!("{} calls with the address known, {connections} connections", args.calls));
        let hooks = subject.hooks(&server, connections).await?;
        let bodies = calls::about_finished(&hooks, &topology).await?;
        let mut audit = crate::audit::Tail::at_end(&server.audit_log())?;
        let before = proc::cpu_seconds(subject.process.pid())?;
        let seconds = calls::flood(&hooks, &bodies, args.calls, connections).await?;
        let cpu = proc::cpu_seconds(subject.process.pid())? - before;
        let times = calls::steady(&hooks, &bodies, args.calls, connections, args.rate).await?;
        let asked = audit.read()?.into_iter().filter(|r| r.of_subject() && r.verb != "watch" && !r.lease()).count();
        report.known(connections, &times, seconds, cpu, asked);
    }
    say(&format!("{} calls of GeneratePatches with 200 templates", args.patch_calls));
    let (times, equal) = calls::patches(&hooks, &topology, args.patch_calls).await?;
    report.patches(&times, equal);

    let there = topology.count();
    let more = (args.clusters as usize).saturating_sub(there);
    say(&format!("{more} more clusters, then {} s of silence", args.silence_seconds));
    let names = world.names("more", more as u64);
    topology.bring_up(&pool, &hooks, &names).await?;
    tokio::time::sleep(Duration::from_secs(args.silence_seconds)).await;
    report.memory(topology.count(), proc::memory(subject.process.pid())?);
    drop(hooks);
    subject.stop().await?;
    say("the oracle");
    report.oracle = oracle::judge(&pool, topology.count()).await?;
    drop((topology, provider, pool));
    server.stop().await?;
    Ok(report.finished())
}

/// Waits until the process has asked the server for nothing for longer than it lets a new cluster wait before it says so.
async fn silence(server: &Server) -> Result<()> {
    let (mut audit, until) = (crate::audit::Tail::at_end(&server.audit_log())?, Instant::now() + BOUND);
    let mut last = Instant::now();
    while last.elapsed() < SILENCE && Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(200)).await;
        if audit.read()?.iter().any(|request| request.of_subject() && request.verb != "watch") {
            last = Instant::now();
        }
    }
    Ok(())
}

/// The process under test.
struct Subject {
    process: Process,
    port: u16,
}

impl Subject {
    async fn start(args: &Vip, server: &Server, work: &std::path::Path, name: &str, more: &[&str]) -> Result<Self> {
        let (health, hooks) = (child::free_address()?, child::free_address()?);
        let port: u16 = hooks.rsplit(':').next().and_then(|port| port.parse().ok()).context("choosing a port")?;
        let mut argv: Vec<String> = vec![args.subject.display().to_string(), "run".to_owned()];
        let kubeconfig = server.kubeconfig().display().to_string();
        let certs = server.cert_dir()?.display().to_string();
        let flags = [
            "--controllers=vip",
            "--kubeconfig",
            &kubeconfig,
            "--health-addr",
            &health,
            "--metrics-bind-address=0",
            "--webhook-port=0",
            "--runtime-extension-bind-host=127.0.0.1",
            &format!("--runtime-extension-port={port}"),
            "--runtime-extension-cert-dir",
            &certs,
        ]
        .map(str::to_owned);
        argv.extend(flags);
        argv.extend(more.iter().map(|flag| (*flag).to_owned()));
        let mut process = Process::start(name, &argv, &work.join(format!("{name}.log")))?;
        let until = Instant::now() + BOUND;
        while probe(&health, "/readyz").await.ok() != Some(200) {
            process.alive()?;
            anyhow::ensure!(Instant::now() < until, "not ready after {BOUND:?}; its log:\n{}", process.log_end());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(Self { process, port })
    }

    /// Connections to its hooks.
    async fn hooks(&self, server: &Server, connections: usize) -> Result<Pool> {
        Pool::trusting(&server.cert_dir()?.join("ca.crt"), self.port, connections, "berth-bench-topology").await
    }

    async fn stop(self) -> Result<()> {
        let (_, status) = self.process.stop(Duration::from_secs(30)).await?;
        anyhow::ensure!(status.success(), "after SIGTERM the process ended with {status} instead of exit code 0");
        Ok(())
    }
}

/// The usual percentiles of samples in milliseconds.
fn percentiles(samples: &[f64]) -> Option<stats::Percentiles> {
    stats::percentiles(samples)
}
