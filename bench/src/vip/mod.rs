//! The addresses of clusters: how fast hooks answer, and how soon a new cluster has its endpoint.
//!
//! The process under test is the real binary with its hooks over TLS, on a real API server with the kinds of Cluster API. Two
//! parts are played by this program, and the document says so: the topology controller ([`topology`]: it calls the hook with
//! the copy of the Cluster that its watch showed, waits as long as the answer asks, and calls again) and the address
//! provider ([`provider`]: it gives each claim the next address of its pool).

mod calls;
mod oracle;
pub mod provider;
mod report;
mod topology;
mod world;

use std::time::Duration;

use anyhow::Result;
use clap::Args;

use crate::audit::Tally;
use crate::document::Document;
use crate::http::Pool;
use crate::server::Server;
use crate::stage::{self, Common, Stage, Subject};
use crate::{child, scenario};
use report::Vip as Figures;
use topology::Topology;
use world::World;

/// Flags of `vip`.
#[derive(Debug, Args)]
pub struct Vip {
    /// Flags of every scenario.
    #[command(flatten)]
    pub common: Common,
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
}

/// Nothing that is waited for may take longer.
pub const BOUND: Duration = Duration::from_secs(300);

/// A new cluster's wait is not mentioned for five seconds.
const SILENCE: Duration = Duration::from_secs(7);

/// Runs the scenario; the exit code.
pub async fn main(args: &Vip) -> Result<u8> {
    let document = stage::bounded(args.common.end(), Box::pin(run(args))).await?;
    document.publish(&args.common)
}

async fn run(args: &Vip) -> Result<Document<Figures>> {
    let stage = Stage::set("vip", &args.common).await?;
    let plain = scenario::plain();
    let definitions = stage.documents("crds").await?;
    let before = stage.ceiling(&definitions, &plain).await?;
    let server = Server::start(&stage.path("server")).await?;
    let pool = Pool::connect(&server.kubeconfig(), 8, "berth-bench-driver").await?;
    stage.say("installing the kinds of Cluster API, a class and three pools");
    let world = World::prepare(&pool).await?;
    let provider = provider::Provider::start(&server.kubeconfig(), args.provider_workers as usize).await?;
    let topology = Topology::start(&server.kubeconfig(), args.topology_workers as usize).await?;
    let mut figures = Figures::new(args);

    stage.say(&format!("first calls about {} clusters, without waiting for the address", args.first_calls));
    let subject = Hooked::start(&stage, &server, "first", &["--allocation-wait=0"]).await?;
    let hooks = subject.hooks(&server, 1).await?;
    figures.first_call(&calls::first(&pool, &hooks, &world, &topology, args.first_calls).await?);
    drop(hooks);
    subject.subject.stop().await?;

    let mut subject = Hooked::start(&stage, &server, "subject", &[]).await?;
    let hooks = subject.hooks(&server, args.topology_workers as usize).await?;
    for size in &args.sizes {
        stage.say(&format!("{size} clusters at once"));
        let names = world.names(&format!("at-{size}"), *size);
        let mut audit = crate::audit::Tail::at_end(&server.audit_log())?;
        let times = topology.bring_up(&pool, &hooks, &names).await?;
        let mut asked = Tally::default();
        audit.read()?.iter().filter(|r| r.of_subject() && r.verb != "watch" && !r.lease()).for_each(|r| asked.add(r));
        figures.bring_up(*size, &times, &provider.times(&names), &before, &asked);
    }
    stage.say("until the process is silent");
    subject.subject.silent(&server, SILENCE, BOUND).await?;
    for connections in [1, 8, 64] {
        stage.say(&format!("{} calls with the address known, {connections} connections", args.calls));
        let hooks = subject.hooks(&server, connections).await?;
        let bodies = calls::about_finished(&hooks, &topology).await?;
        let mut audit = crate::audit::Tail::at_end(&server.audit_log())?;
        let before = subject.subject.cpu_seconds()?;
        let seconds = calls::flood(&hooks, &bodies, args.calls, connections).await?;
        let cpu = subject.subject.cpu_seconds()? - before;
        let times = calls::steady(&hooks, &bodies, args.calls, connections, args.rate).await?;
        let asked = audit.read()?.into_iter().filter(|r| r.of_subject() && r.verb != "watch" && !r.lease()).count();
        figures.known(connections, &times, seconds, cpu, asked);
    }
    stage.say(&format!("{} calls of GeneratePatches with 200 templates", args.patch_calls));
    let (times, equal) = calls::patches(&hooks, &topology, args.patch_calls).await?;
    figures.patches(&times, equal);

    let there = topology.count();
    let more = (args.clusters as usize).saturating_sub(there);
    stage.say(&format!("{more} more clusters, then {} s of silence", args.common.silence_seconds));
    let names = world.names("more", more as u64);
    topology.bring_up(&pool, &hooks, &names).await?;
    figures.memory(topology.count(), stage.memory(&subject.subject).await?);
    drop(hooks);
    subject.subject.stop().await?;
    stage.say("the oracle");
    let wrong = oracle::judge(&pool, topology.count()).await?;
    drop((topology, provider, pool));
    server.stop().await?;
    let after = stage.ceiling(&definitions, &plain).await?;
    Ok(Document::new(&stage, vec![before, after], figures, wrong))
}

/// The process under test and the port of its hooks.
struct Hooked {
    subject: Subject,
    port: u16,
}

impl Hooked {
    async fn start(stage: &Stage<'_>, server: &Server, name: &str, more: &[&str]) -> Result<Self> {
        let port = stage::port(&child::free_address()?)?;
        let mut flags = [
            "--controllers=vip",
            "--webhook-port=0",
            "--runtime-extension-bind-host=127.0.0.1",
            &format!("--runtime-extension-port={port}"),
            &format!("--runtime-extension-cert-dir={}", server.cert_dir()?.display()),
        ]
        .map(str::to_owned)
        .to_vec();
        flags.extend(more.iter().map(|flag| (*flag).to_owned()));
        Ok(Self { subject: stage.subject(server, name, &flags).await?, port })
    }

    /// Connections to its hooks.
    async fn hooks(&self, server: &Server, connections: usize) -> Result<Pool> {
        Pool::trusting(&server.cert_dir()?.join("ca.crt"), self.port, connections, "berth-bench-topology").await
    }
}
