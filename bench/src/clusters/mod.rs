//! Clusters on CloudStack: how soon it is known whether a cluster can be made, what that costs CloudStack, and how fast
//! everything of it is written.
//!
//! The process under test is the real binary with the room `clusters` and its admission webhooks, beside the strict simulator
//! of CloudStack, which answers late. Everybody else is played by this program, and the document says so
//! ([`world::PLAYED`]).

mod alone;
mod oracle;
mod played;
mod report;
mod stamps;
mod world;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::Value;
use sim::cloudstack::Handle;
use tokio::time::{Instant, sleep_until};

use crate::audit::{Tail, Tally};
use crate::ceiling::Ceiling;
use crate::document::Document;
use crate::http::{Body, Pool};
use crate::machines::stamps::{ms, span};
use crate::oracle::version;
use crate::scenario::Kind;
use crate::server::Server;
use crate::stage::{self, Common, Stage, Subject, Used};
use crate::stats::percentiles;
use crate::watch::{Stamp, Watcher};
use alone::Alone;
use played::Played;
use report::{Again, Clusters as Figures, Equal, Idle, NEEDED, Verdict, objects, sum};
use stamps::Seen;
use world::{CHECKS, CLUSTERS, DATACENTERS, MACHINES, SYSTEM};

/// Flags of `clusters`.
#[derive(Debug, Args)]
pub struct Clusters {
    /// Flags of every scenario.
    #[command(flatten)]
    pub common: Common,
    /// Equal clusters on one datacenter, all at once, one size after the other.
    #[arg(long, value_delimiter = ',', default_value = "1,100", value_parser = clap::value_parser!(u64).range(1..=world::MOST))]
    pub sizes: Vec<u64>,
    /// Clusters that share nothing, applied one after the other.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=world::MOST))]
    pub verdicts: u64,
    /// How many of these are applied each second; more than two are held back by the process itself, for CloudStack's sake.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=100))]
    pub rate: u64,
    /// By how much every answer of CloudStack is delayed, in milliseconds.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u64).range(0..=10_000))]
    pub delay: u64,
}

/// Silence after which nothing more is expected.
const QUIET: Duration = Duration::from_secs(3);
const IN_FLIGHT: usize = 32;

/// Runs the scenario; the exit code.
pub async fn main(args: &Clusters) -> Result<u8> {
    let document = stage::bounded(args.common.end(), Box::pin(run(args))).await?;
    document.publish(&args.common)
}

async fn run(args: &Clusters) -> Result<Document<Figures>> {
    let stage = Stage::set("clusters", &args.common).await?;
    let definitions = world::definitions(&stage).await?;
    let before = stage.ceiling(&definitions, &world::Shapes).await?;
    let (mut equal, mut wrong) = (BTreeMap::new(), Vec::new());
    let delay = Duration::from_millis(args.delay);
    let scene = Box::pin(Scene::set(&stage, &definitions, delay)).await?;
    let (verdict, problems) =
        Box::pin(scene.verdicts(&stage, args)).await.context("clusters that share nothing are judged")?;
    wrong.extend(problems);
    for size in &args.sizes {
        let scene = Box::pin(Scene::set(&stage, &definitions, delay)).await?;
        let (leg, problems) =
            Box::pin(scene.equal(&stage, *size, &before)).await.with_context(|| format!("{size} equal clusters"))?;
        equal.insert(*size, leg);
        wrong.extend(problems.into_iter().map(|problem| format!("{size} equal clusters: {problem}")));
    }
    let ends = equal.values().next().zip(equal.values().next_back());
    let calls_ratio = ends.map(|(fewest, most)| sum(&most.calls) as f64 / (sum(&fewest.calls) as f64).max(1.0));
    let figures =
        Figures { played: world::PLAYED.into_iter().collect(), delay_ms: args.delay, verdict, equal, calls_ratio };
    let after = stage.ceiling(&definitions, &world::Shapes).await?;
    Ok(Document::new(&stage, vec![before, after], figures, wrong))
}

/// A server with everything that an operator prepares, a CloudStack, the room at work on both, and whoever is played.
struct Scene {
    dir: PathBuf,
    server: Server,
    pool: Pool,
    acs: Handle,
    subject: Subject,
    played: Played,
    seen: Seen,
    wrong: Vec<String>,
}

impl Scene {
    async fn set(stage: &Stage<'_>, definitions: &[Value], delay: Duration) -> Result<Self> {
        let dir = stage.path("clusters");
        let acs = world::start(delay).await?;
        let server = Server::start(&dir).await?;
        let pool = Pool::connect(&server.kubeconfig(), 8, "berth-bench-driver").await?;
        world::prepare(&pool, definitions, &acs).await?;
        let played = Played::start(&server.kubeconfig(), server.stored_kubeconfig()?).await?;
        let mut subject = Box::pin(world::subject(stage, &server, &pool, &acs)).await?;
        subject.silent(&server, QUIET, stage.patience()).await?;
        let (seen, wrong) = (Seen::default(), Vec::new());
        Ok(Self { dir, server, pool, acs, subject, played, seen, wrong })
    }

    async fn clock(&self, kind: Kind, shown: &[&str]) -> Result<Watcher> {
        let (log, from): (&Path, String) = (&self.dir.join("watcher.log"), version(&self.pool, &kind.path()).await?);
        Watcher::start(&self.server.kubeconfig(), &kind.path(), &from, shown, log).await
    }

    /// Notes what is wrong when the process does not come to rest.
    async fn rest(&mut self, stage: &Stage<'_>, when: &str) -> Result<()> {
        if !self.subject.silent(&self.server, QUIET, stage.patience()).await? {
            self.wrong.push(format!("not silent {:?} after {when}", stage.patience()));
        }
        Ok(())
    }

    /// Calls to CloudStack since its log was cleared, by command.
    fn calls(&self) -> BTreeMap<String, usize> {
        let mut calls = BTreeMap::new();
        for entry in self.acs.log() {
            *calls.entry(entry.command).or_default() += 1;
        }
        calls
    }

    /// Clusters with everything of their own, one after the other.
    async fn verdicts(mut self, stage: &Stage<'_>, args: &Clusters) -> Result<(Verdict, Vec<String>)> {
        let (count, n) = (args.verdicts, usize::try_from(args.verdicts).context("too many clusters")?);
        stage.say(&format!("{count} clusters that share nothing, {} each second", args.rate));
        let keys: Vec<Value> = (0..count).map(|n| world::credentials(&world::name(n), &self.acs)).collect();
        let path = format!("/api/v1/namespaces/{SYSTEM}/secrets");
        self.pool.create_all(&path, &keys).await.context("storing keys")?;
        self.rest(stage, "keys were stored").await?;
        let mut datacenters = self.clock(DATACENTERS, &stamps::OF_PARTS).await?;
        let mut machines = self.clock(MACHINES, &stamps::OF_PARTS).await?;
        let mut clusters = self.clock(CLUSTERS, &stamps::OF_CLUSTERS).await?;
        self.acs.clear_log();
        let (pool, acs, seen) = (&self.pool, &self.acs, &mut self.seen);
        let applying = async {
            let start = Instant::now();
            for number in 0..count {
                sleep_until(start + Duration::from_secs_f64(number as f64 / args.rate as f64)).await;
                for (kind, object) in own_file(number, acs) {
                    send(pool, 0, kind, &object).await?;
                }
            }
            anyhow::Ok(())
        };
        let done = |stamp: Stamp| {
            seen.machine(&stamp);
            seen.judged.len() >= n
        };
        let patience = stage.patience() + Duration::from_secs(count / args.rate);
        let told = tokio::try_join!(machines.until("every cluster is judged", patience, done), applying);
        told.with_context(|| {
            format!("{} were; the process says:\n{}", self.seen.judged.len(), self.subject.process.log_end())
        })?;
        let refused = (0..count).filter(|number| world::is_wrong(*number)).count();
        let seen = &mut self.seen;
        let settled = |stamp: Stamp| {
            seen.cluster(&stamp);
            seen.refused.len() >= refused && seen.ready.len() >= n - refused
        };
        clusters.until("every verdict has its effect", stage.patience_for(n), settled).await?;
        for stamp in datacenters.drain(Duration::from_millis(500)).await? {
            self.seen.datacenter(&stamp);
        }
        let calls = self.calls();
        self.wrong.extend(oracle::judged(&self.pool, count).await?);
        for clock in [datacenters, machines, clusters] {
            clock.stop().await?;
        }
        let verdict = Verdict {
            clusters: count,
            per_second: args.rate,
            refused: refused as u64,
            ms: percentiles(&ms(&self.seen.born, &self.seen.judged)),
            datacenter_ms: percentiles(&ms(&self.seen.born, &self.seen.placed)),
            calls,
        };
        Ok((verdict, self.leave_alone().await?.end().await?))
    }

    /// Equal clusters on one datacenter, all at once.
    async fn equal(mut self, stage: &Stage<'_>, count: u64, w: &Ceiling) -> Result<(Equal, Vec<String>)> {
        let n = usize::try_from(count).context("too many clusters")?;
        stage.say(&format!("{count} equal clusters on one datacenter"));
        let mut clusters = self.clock(CLUSTERS, &stamps::OF_CLUSTERS).await?;
        let mut checks = self.clock(CHECKS, &stamps::OF_CHECKS).await?;
        self.acs.clear_log();
        let (mut audit, used) = (Tail::at_end(&self.server.audit_log())?, Used::now(&self.subject, &self.server)?);
        let files = shared_files(count, &self.acs);
        let (pool, seen) = (&self.pool, &mut self.seen);
        let all = |stamp: Stamp| {
            seen.check(&stamp);
            seen.written.len() >= n
        };
        let written = checks.until("everything is written", stage.patience_for(n), all);
        let told = tokio::try_join!(written, apply(pool, &files));
        told.with_context(|| {
            format!("{} clusters were; the process says:\n{}", self.seen.written.len(), self.subject.process.log_end())
        })?;
        let seen = &mut self.seen;
        let all = |stamp: Stamp| {
            seen.cluster(&stamp);
            seen.ready.len() >= n
        };
        let ready = clusters.until("every cluster is ready", stage.patience_for(n), all).await;
        ready.with_context(|| format!("{} were", self.seen.ready.len()))?;
        self.rest(stage, "every cluster was ready").await?;
        let used = Used::now(&self.subject, &self.server)?.since(used);
        let (mut tally, mut played) = (Tally::default(), 0_u64);
        for request in audit.read()? {
            if request.of_subject() {
                tally.add(&request);
            }
            played += u64::from(request.agent == played::AGENT && request.writes());
        }
        let calls = self.calls();
        self.wrong.extend(oracle::written(&self.pool, count).await?);
        let (idle, memory) = self.idle(stage).await?;
        let again = self.again(stage, &files).await?;
        for clock in [clusters, checks] {
            clock.stop().await?;
        }
        let seen = std::mem::take(&mut self.seen);
        let mut alone = self.leave_alone().await?;
        stage.say("creating the same objects by a plain client");
        let (objects_alone, created) = alone.create_again().await?;
        if created != n * objects() {
            alone.wrong.push(format!("{created} objects were created again instead of {}", n * objects()));
        }
        let seconds = span(&seen.born, &seen.written).unwrap_or_default();
        let each = |value: u64| value as f64 / count as f64;
        // The played control plane stores a kubeconfig and reports once; what is reported on workers comes after the end.
        let patches = NEEDED.patches * count + NEEDED.shared;
        let others = NEEDED.creates + 1 - objects() as u64;
        let rest = w.seconds(others * count, patches, (NEEDED.statuses + 1) * count);
        let own = tally.writes - tally.events;
        let equal = Equal {
            seconds,
            objects_per_second: (n * objects()) as f64 / seconds.max(f64::EPSILON),
            efficiency: (rest + objects_alone) / seconds.max(f64::EPSILON),
            objects_alone_seconds: objects_alone,
            written_ms: percentiles(&ms(&seen.born, &seen.written)),
            ready_ms: percentiles(&ms(&seen.born, &seen.ready)),
            calls,
            writes_per_cluster: each(own),
            writes_over_needed: own as f64 / NEEDED.own(count) as f64,
            events_per_cluster: each(tally.events),
            conflicts: tally.conflicts,
            requests: tally.by_verb,
            played_writes_per_cluster: each(played),
            cpu_ms_per_cluster: used.subject * 1e3 / count as f64,
            cpu_share_percent: used.share_percent(),
            idle,
            again,
            rss_kib: memory.rss_kib,
            peak_kib: memory.peak_kib,
        };
        Ok((equal, alone.end().await?))
    }

    /// Nothing happens for a while.
    async fn idle(&mut self, stage: &Stage<'_>) -> Result<(Idle, crate::proc::Memory)> {
        stage.say("nothing to do");
        self.acs.clear_log();
        let mut audit = Tail::at_end(&self.server.audit_log())?;
        let memory = stage.memory(&self.subject).await?;
        let (tally, heartbeats) = quiet(&mut audit)?;
        let idle = Idle {
            seconds: stage.args.silence_seconds,
            requests: tally.total,
            heartbeats,
            calls: sum(&self.calls()),
            by_verb: tally.by_verb,
        };
        Ok((idle, memory))
    }

    /// The same files once more.
    async fn again(&mut self, stage: &Stage<'_>, files: &[(Kind, Value)]) -> Result<Again> {
        stage.say("applying the same files again");
        let before = oracle::picture(&self.pool).await?;
        self.acs.clear_log();
        let mut audit = Tail::at_end(&self.server.audit_log())?;
        apply(&self.pool, files).await?;
        self.rest(stage, "the same files were applied again").await?;
        let (tally, _) = quiet(&mut audit)?;
        let after = oracle::picture(&self.pool).await?;
        let moved = oracle::moved(&before, &after);
        self.wrong.extend(moved.into_iter().map(|what| format!("the same files were applied again: {what}")));
        Ok(Again { objects: files.len(), writes: tally.writes, requests: tally.total, calls: sum(&self.calls()) })
    }

    /// Stops everybody but the server.
    async fn leave_alone(self) -> Result<Alone> {
        self.subject.stop().await?;
        drop(self.played);
        drop(self.pool);
        Ok(Alone { dir: self.dir, server: self.server, acs: self.acs, wrong: self.wrong })
    }
}

/// Requests of the process, leases and watches apart, and how often it said that it serves a kind of claims: the room does
/// that twice a minute, whatever clusters there are.
fn quiet(audit: &mut Tail) -> Result<(Tally, u64)> {
    let (mut tally, mut heartbeats) = (Tally::default(), 0);
    for request in audit.read()?.iter().filter(|one| one.of_subject() && !one.lease() && one.verb != "watch") {
        match request.what.starts_with("hostclaimkinds.") {
            true => heartbeats += 1,
            false => tally.add(request),
        }
    }
    Ok((tally, heartbeats))
}

/// What a user applies for a cluster with everything of its own, in this order.
fn own_file(number: u64, acs: &Handle) -> [(Kind, Value); 3] {
    let (name, template) = (world::name(number), if world::is_wrong(number) { "kube-1.31-lost" } else { "kube-1.31" });
    [
        (DATACENTERS, world::datacenter(&name, &name, acs)),
        (MACHINES, world::machine(&name, template)),
        (CLUSTERS, world::cluster(number, &name, &name)),
    ]
}

/// What a user applies for equal clusters on one datacenter.
fn shared_files(count: u64, acs: &Handle) -> Vec<(Kind, Value)> {
    let parts = [(DATACENTERS, world::datacenter("dc", "global", acs)), (MACHINES, world::machine("m", "kube-1.31"))];
    parts.into_iter().chain((0..count).map(|number| (CLUSTERS, world::cluster(number, "dc", "m")))).collect()
}

async fn send(pool: &Pool, n: usize, kind: Kind, object: &Value) -> Result<()> {
    let (method, path, body): (_, _, Body) = world::apply(kind, object)?;
    pool.ok(n, method, &path, body).await.map(drop).with_context(|| format!("applying a {}", kind.kind))
}

/// Applies files, many objects at a time.
async fn apply(pool: &Pool, files: &[(Kind, Value)]) -> Result<()> {
    let make = |n: usize| {
        let (kind, object) = files.get(n).context("no such object")?;
        world::apply(*kind, object)
    };
    pool.many(files.len(), IN_FLIGHT, make).await.map(drop).context("applying")
}
