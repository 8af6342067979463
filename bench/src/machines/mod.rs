//! Machines on claims: how long many Metal3 machines take from nothing to provisioned, with how many writes, what they cost
//! while nothing happens, how long the command line takes to show them, and how soon their hosts are free again.
//!
//! The process under test is the real binary with the rooms `claims` and `machines` and their admission webhooks. Everybody
//! else is played by this program, and the document says so ([`world::PLAYED`]): Cluster API, the operator of hosts, kubelets.

mod oracle;
mod report;
pub mod stamps;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use http::Method;
use serde_json::Value;
use tokio::task::JoinSet;

use crate::audit::{Request, Tail, Tally};
use crate::ceiling::Ceiling;
use crate::child::{free_address, printed};
use crate::claims::world::{HOSTS, start};
use crate::document::Document;
use crate::http::{Body, Pool};
use crate::oracle::version;
use crate::proc;
use crate::server::Server;
use crate::stage::{self, Common, Stage, Subject, kib_each};
use crate::stats::{percentiles, spread};
use crate::watch::{Stamp, Watcher};
use report::{Down, Idle, Machines as Figures, Memory, NEEDED, Requests, Screen, Up};
use stamps::{Seen, ms, span};
use world::MACHINES;

/// Flags of `machines`.
#[derive(Debug, Args)]
pub struct Machines {
    /// Flags of every scenario.
    #[command(flatten)]
    pub common: Common,
    /// Machines of one cluster, on as many hosts.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=20_000))]
    pub count: u64,
}

/// Silence after which nothing more is expected.
const QUIET: Duration = Duration::from_secs(3);
const IN_FLIGHT: usize = 64;
/// How often each screen is shown.
const SHOWN: usize = 9;
/// How long after the last one. Nobody asks for a screen ten times a second, and the server lets a second list of one kind
/// within 100 ms wait for the rest of those.
const BETWEEN: Duration = Duration::from_millis(300);

/// Runs the scenario; the exit code.
pub async fn main(args: &Machines) -> Result<u8> {
    let document = stage::bounded(args.common.end(), Box::pin(run(args))).await?;
    document.publish(&args.common)
}

async fn run(args: &Machines) -> Result<Document<Figures>> {
    let stage = Stage::set("machines", &args.common).await?;
    let definitions = world::definitions(&stage).await?;
    let before = stage.ceiling(&definitions, &world::Shapes).await?;
    let dir = stage.path("machines");
    let mut scene = Box::pin(Scene::set(&stage, &definitions, &dir, args.count)).await?;
    let up = Box::pin(scene.up(&stage, &before)).await.context("machines come up")?;
    let (idle, memory) = Box::pin(scene.idle(&stage)).await.context("machines are up")?;
    let screens = Box::pin(scene.screens(&stage)).await.context("machines are shown")?;
    let down = Box::pin(scene.down(&stage)).await.context("machines go")?;
    let after_kib = proc::memory(scene.subject.process.pid())?.rss_kib;
    let figures = Figures {
        machines: args.count,
        played: world::PLAYED.into_iter().collect(),
        up,
        idle,
        screens,
        memory: Memory {
            before_kib: scene.before_kib,
            rss_kib: memory.rss_kib,
            peak_kib: memory.peak_kib,
            // Smaller numbers would only show what the allocator rounds up to.
            kib_per_machine: kib_each(memory.rss_kib, scene.before_kib, args.count).filter(|_| args.count >= 1000),
            after_kib,
        },
        down,
    };
    let wrong = scene.end(&dir).await?;
    let after = stage.ceiling(&definitions, &world::Shapes).await?;
    Ok(Document::new(&stage, vec![before, after], figures, wrong))
}

/// A server with hosts and everything that machines need, the rooms at work on it, and the clock.
struct Scene {
    server: Server,
    pool: Pool,
    subject: Subject,
    machines: Watcher,
    hosts: Watcher,
    seen: Seen,
    // Dropping it stops the simulator.
    simulator: JoinSet<()>,
    count: u64,
    /// What creates the machines.
    objects: Vec<Value>,
    /// Secrets before there were machines.
    secrets: BTreeSet<String>,
    /// Resident memory then.
    before_kib: u64,
    wrong: Vec<String>,
}

impl Scene {
    async fn set(stage: &Stage<'_>, definitions: &[Value], dir: &Path, count: u64) -> Result<Self> {
        stage.say(&format!("{count} hosts, Nodes, Machines and bootstrap Secrets"));
        let server = Server::start(dir).await?;
        let pool = Pool::connect(&server.kubeconfig(), 8, "berth-bench-driver").await?;
        let port = stage::port(&free_address()?)?;
        world::prepare(&server, &pool, definitions, port).await?;
        let (rooms, tenant) = ("claims,machines", world::namespace());
        let mut subject = Box::pin(start(stage, &server, &pool, (rooms, port), &tenant)).await?;
        world::cluster(&server, &pool).await?;
        world::hosts(&server, &pool, count).await?;
        let objects = world::machines(&pool, count).await?;
        let simulator = world::simulator(&server).await?;
        subject.silent(&server, QUIET, stage.patience()).await?;
        let before_kib = stage.memory(&subject).await?.rss_kib;
        let (log, kubeconfig) = (dir.join("watcher.log"), server.kubeconfig());
        let from = version(&pool, &MACHINES.path()).await?;
        let machines = Watcher::start(&kubeconfig, &MACHINES.path(), &from, &stamps::OF_MACHINES, &log).await?;
        let from = version(&pool, &HOSTS.path()).await?;
        let hosts = Watcher::start(&kubeconfig, &HOSTS.path(), &from, &stamps::OF_HOSTS, &log).await?;
        let secrets = oracle::secrets(&pool).await?;
        let (seen, wrong) = (Seen::default(), Vec::new());
        Ok(Self { server, pool, subject, machines, hosts, seen, simulator, count, objects, secrets, before_kib, wrong })
    }

    fn size(&self) -> Result<usize> {
        usize::try_from(self.count).context("too many machines")
    }

    /// Notes what is wrong when the process does not come to rest.
    async fn rest(&mut self, stage: &Stage<'_>, when: &str) -> Result<()> {
        if !self.subject.silent(&self.server, QUIET, stage.patience()).await? {
            self.wrong.push(format!("not silent {:?} after {when}", stage.patience()));
        }
        Ok(())
    }

    /// All machines at once, until each is provisioned.
    async fn up(&mut self, stage: &Stage<'_>, w: &Ceiling) -> Result<Up> {
        let (n, count) = (self.size()?, self.count);
        stage.say(&format!("creating {count} machines"));
        let mut audit = Tail::at_end(&self.server.audit_log())?;
        let cpu = self.subject.cpu_seconds()?;
        let (collection, objects) = (MACHINES.within(&world::namespace()), &self.objects);
        let make = |i: usize| {
            let object = objects.get(i).context("no such machine")?;
            Ok((Method::POST, collection.clone(), Body::Json(object.to_string().into())))
        };
        let (pool, seen, clock) = (&self.pool, &mut self.seen, &mut self.machines);
        let creating = async { pool.many(n, IN_FLIGHT, make).await.context("creating machines") };
        let done = |stamp: Stamp| {
            seen.machine(&stamp);
            seen.provisioned.len() >= n
        };
        let all = clock.until("every machine is provisioned", stage.patience_for(n), done);
        let told = tokio::try_join!(all, creating);
        let ((), (_, create_seconds)) = told.with_context(|| {
            format!(
                "{} machines were; the process says:\n{}",
                self.seen.provisioned.len(),
                self.subject.process.log_end()
            )
        })?;
        self.rest(stage, "every machine was provisioned").await?;
        self.catch_up().await?;
        let cpu = self.subject.cpu_seconds()? - cpu;
        let (requests, host_writes) = counted(&audit.read()?, count);
        self.wrong.extend(oracle::up(&self.pool, n).await?);
        let seconds = span(&self.seen.born, &self.seen.provisioned).unwrap_or_default();
        let alone = w.seconds(
            NEEDED.creates * count,
            NEEDED.patches * count,
            // The operator of hosts only ever replaces the status.
            NEEDED.statuses * count + host_writes,
        );
        let seen = &self.seen;
        Ok(Up {
            seconds,
            per_second: count as f64 / seconds.max(f64::EPSILON),
            create_seconds,
            efficiency: alone / seconds.max(f64::EPSILON),
            ms: percentiles(&ms(&seen.born, &seen.provisioned)),
            bound_ms: percentiles(&ms(&seen.born, &seen.bound)),
            told_ms: percentiles(&ms(&seen.deployed, &seen.provisioned)),
            writes_over_needed: requests.writes_per_machine / NEEDED.own() as f64,
            cpu_ms_per_machine: cpu * 1e3 / count as f64,
            host_writes_per_machine: host_writes as f64 / count as f64,
            requests,
        })
    }

    /// Nothing happens for a while.
    async fn idle(&mut self, stage: &Stage<'_>) -> Result<(Idle, proc::Memory)> {
        stage.say("nothing to do");
        let mut audit = Tail::at_end(&self.server.audit_log())?;
        let memory = stage.memory(&self.subject).await?;
        let mut idle =
            Idle { seconds: stage.args.silence_seconds, requests: 0, leases: 0, watches: 0, by_verb: BTreeMap::new() };
        for request in audit.read()?.iter().filter(|request| request.of_subject()) {
            *match request {
                request if request.lease() || beats(request) => &mut idle.leases,
                request if request.verb == "watch" => &mut idle.watches,
                _ => &mut idle.requests,
            } += 1;
            *idle.by_verb.entry(format!("{} {}", request.verb, request.what)).or_default() += 1;
        }
        Ok((idle, memory))
    }

    /// What people ask the command line for, from its start to its end.
    async fn screens(&mut self, stage: &Stage<'_>) -> Result<Vec<Screen>> {
        stage.say("showing them");
        let subject = stage.args.subject.display().to_string();
        let kubeconfig = format!("--kubeconfig={}", self.server.kubeconfig().display());
        let (cluster, here) = (format!("cluster/{}", world::CLUSTER), format!("--namespace={}", world::namespace()));
        let asked: [(&str, &[&str]); 3] =
            [("tree", &[&cluster, &here]), ("claims", &[&here]), ("hosts", &["--all-namespaces"])];
        let mut screens = Vec::new();
        for (screen, words) in asked {
            let words = [&subject, screen, &kubeconfig].into_iter().chain(words.iter().copied());
            let command: Vec<String> = words.map(str::to_owned).collect();
            let mut audit = Tail::at_end(&self.server.audit_log())?;
            let (mut took, mut lines) = (Vec::new(), 0);
            for _ in 0..SHOWN {
                tokio::time::sleep(BETWEEN).await;
                let begun = Instant::now();
                lines = printed(&command).await?.lines().count();
                took.push(begun.elapsed().as_secs_f64() * 1e3);
            }
            let requests = audit.read()?;
            let of_screen = requests.iter().filter(|request| request.of_subject() && !request.lease());
            let requests = of_screen.clone().count();
            let lists: BTreeSet<&str> =
                of_screen.filter(|request| request.verb == "list").map(|r| r.path.as_str()).collect();
            let (alone, lists_bytes) = self.lists(&lists.into_iter().collect::<Vec<_>>()).await?;
            screens.push(Screen {
                command: screen.to_owned(),
                ms: spread(&took),
                lists_alone_ms: spread(&alone),
                lists_bytes,
                lines: lines as u64,
                requests: requests as f64 / SHOWN as f64,
            });
        }
        Ok(screens)
    }

    /// What the server needs for lists, all asked for at once, by one who reads none of them; and how many bytes they are.
    async fn lists(&self, paths: &[&str]) -> Result<(Vec<f64>, usize)> {
        let (mut took, mut bytes) = (Vec::new(), 0);
        for _ in 0..SHOWN {
            tokio::time::sleep(BETWEEN).await;
            let begun = Instant::now();
            let asked = paths.iter().enumerate().map(|(n, path)| self.pool.ok(n, Method::GET, path, Body::None));
            bytes = futures::future::try_join_all(asked).await?.iter().map(bytes::Bytes::len).sum();
            took.push(begun.elapsed().as_secs_f64() * 1e3);
        }
        Ok((took, bytes))
    }

    /// All machines are deleted at once, until each is gone and its host free.
    async fn down(&mut self, stage: &Stage<'_>) -> Result<Down> {
        let (n, count) = (self.size()?, self.count);
        stage.say(&format!("deleting {count} machines"));
        let mut audit = Tail::at_end(&self.server.audit_log())?;
        let delete = |i: usize| Ok((Method::DELETE, world::path(i as u64), Body::None));
        let (pool, seen, clock) = (&self.pool, &mut self.seen, &mut self.machines);
        let deleting = async { pool.many(n, IN_FLIGHT, delete).await.context("deleting machines") };
        let done = |stamp: Stamp| {
            seen.machine(&stamp);
            seen.gone.len() >= n
        };
        let all = clock.until("every machine is gone", stage.patience_for(n), done);
        let told = tokio::try_join!(all, deleting);
        told.with_context(|| {
            format!("{} machines were; the process says:\n{}", self.seen.gone.len(), self.subject.process.log_end())
        })?;
        let (seen, clock) = (&mut self.seen, &mut self.hosts);
        let free = |stamp: Stamp| {
            seen.host(&stamp);
            seen.free.len() >= n
        };
        let waited = clock.until("every host is free", stage.patience_for(n), free).await;
        waited.with_context(|| format!("{} hosts were", self.seen.free.len()))?;
        self.rest(stage, "every machine was gone").await?;
        let (requests, host_writes) = counted(&audit.read()?, count);
        self.wrong.extend(oracle::down(&self.pool, n, &self.secrets).await?);
        let seen = &self.seen;
        Ok(Down {
            seconds: span(&seen.asked, &seen.free).unwrap_or_default(),
            free_ms: percentiles(&ms(&seen.asked, &seen.free)),
            gone_ms: percentiles(&ms(&seen.asked, &seen.gone)),
            host_writes_per_machine: host_writes as f64 / count as f64,
            requests,
        })
    }

    /// Reads both clocks until they are silent.
    async fn catch_up(&mut self) -> Result<()> {
        for stamp in self.machines.drain(Duration::from_millis(500)).await? {
            self.seen.machine(&stamp);
        }
        for stamp in self.hosts.drain(Duration::from_millis(500)).await? {
            self.seen.host(&stamp);
        }
        Ok(())
    }

    /// Stops everything; what was wrong.
    async fn end(self, dir: &Path) -> Result<Vec<String>> {
        self.subject.stop().await?;
        drop(self.simulator);
        self.machines.stop().await?;
        self.hosts.stop().await?;
        drop(self.pool);
        self.server.stop().await?;
        stage::clear(dir)?;
        Ok(self.wrong)
    }
}

/// Whether it says that a kind of claim is served, which is as good as a lease.
fn beats(request: &Request) -> bool {
    request.writes() && request.what == "hostclaimkinds.berth.dev/status"
}

/// Requests of the process under test, and how often the played operator of hosts wrote.
fn counted(requests: &[Request], machines: u64) -> (Requests, u64) {
    let (mut tally, mut refused) = (Tally::default(), BTreeMap::new());
    for request in requests.iter().filter(|request| request.of_subject()) {
        tally.add(request);
        if request.writes() && request.code == 409 {
            *refused.entry(format!("{} {}", request.verb, request.what)).or_default() += 1;
        }
    }
    let played = requests.iter().filter(|request| request.agent == world::SIMULATOR && request.writes());
    (Requests::of(tally, refused, machines), played.count() as u64)
}
