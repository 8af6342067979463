//! Claims on hosts: how fast many claims get a host each, how soon a host that is given back has its next claim, and what
//! one tenant's flood costs the others.
//!
//! The process under test is the real binary with its admission webhooks. Hosts are made available beforehand, with the
//! status their controller would write: claims that only reserve a host need nothing driven.

mod alone;
pub mod oracle;
mod peer;
mod report;
mod slow;
mod stamps;
pub mod world;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use http::Method;
use serde_json::Value;

use crate::audit::{Tail, Tally};
use crate::ceiling::Ceiling;
use crate::document::Document;
use crate::http::{Body, Pool};
use crate::oracle::version;
use crate::server::Server;
use crate::stage::{self, Common, Stage, Subject, Used, kib_each};
use crate::stats::percentiles;
use crate::watch::Watcher;
use alone::Written;
use peer::Command;
use report::{Bind, Churn, Claims as Figures, Flood, Peer};
use stamps::Seen;
use world::{CLAIMS, HOSTS, create, tenant, tenants};

/// Flags of `claims`.
#[derive(Debug, Args)]
pub struct Claims {
    /// Flags of every scenario.
    #[command(flatten)]
    pub common: Common,
    /// Claims on as many hosts, one size after the other.
    #[arg(long, value_delimiter = ',', default_value = "100,1000,5000,10000", value_parser = clap::value_parser!(u64).range(1..=50_000))]
    pub sizes: Vec<u64>,
    /// Claims that wait while hosts change hands; 0 leaves that part out.
    #[arg(long, default_value_t = 5000, value_parser = clap::value_parser!(u64).range(0..=50_000))]
    pub waiting: u64,
    /// Hosts that change hands.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=50_000))]
    pub churn: u64,
    /// How many of them each second.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub churn_rate: u64,
    /// Claims of the tenant that floods; 0 leaves that part out.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(0..=50_000))]
    pub flood: u64,
    /// Other tenants, with one claim each.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub others: u64,
    /// Claims of other tenants each second.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub others_rate: u64,
    /// Another controller's command, given the same sizes after the program under test; {kubeconfig}, {health} and {metrics}
    /// are filled in; repeatable.
    #[arg(long, value_parser = peer::command)]
    pub peer: Vec<Command>,
    /// The command that prints the definitions of other controllers; without it they work with those of the program under
    /// test.
    #[arg(long, value_parser = peer::plain_command)]
    pub peer_crds: Option<Command>,
    /// How long another controller has for the claims of one size, in seconds; claims it has not bound by then are left out.
    #[arg(long, default_value_t = 900, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub peer_seconds: u64,
}

/// So many of those who waited longest are shown one by one.
const SLOWEST: usize = 10;
/// Silence after which nothing more is expected.
const QUIET: Duration = Duration::from_secs(3);
const IN_FLIGHT: usize = 64;

/// Runs the scenario; the exit code.
pub async fn main(args: &Claims) -> Result<u8> {
    let document = stage::bounded(args.common.end(), Box::pin(run(args))).await?;
    document.publish(&args.common)
}

async fn run(args: &Claims) -> Result<Document<Figures>> {
    let stage = Stage::set("claims", &args.common).await?;
    let definitions = world::definitions(&stage).await?;
    let before = stage.ceiling(&definitions, &world::Shapes).await?;
    let theirs = match &args.peer_crds {
        Some(command) => stage::printed(&command.words).await?,
        None => definitions.clone(),
    };
    let (mut figures, mut wrong) = (Figures::default(), Vec::new());
    figures.peers = args.peer.iter().map(|command| Peer::new(&command.line)).collect();
    let limit = Duration::from_secs(args.peer_seconds);
    for size in &args.sizes {
        let bind = Box::pin(bind(&stage, &definitions, *size, &before));
        if let Some(bind) = stage.part(&format!("{size} claims"), &mut wrong, bind).await {
            figures.bind.insert(*size, bind);
        }
        for (n, command) in args.peer.iter().enumerate() {
            let (name, dir) = (format!("{size} claims, other controller {}", n + 1), format!("other-{n}-{size}"));
            let dir = stage.path(&dir);
            let bind = Box::pin(peer::bind(&stage, &theirs, *size, (command, limit), &dir));
            if let Some(bind) = stage.part(&name, &mut wrong, bind).await {
                figures.beside(n, *size, bind);
            }
        }
    }
    if args.waiting > 0 {
        let churn = Box::pin(churn(&stage, &definitions, args));
        figures.churn = stage.part("hosts that change hands", &mut wrong, churn).await;
    }
    if args.flood > 0 {
        let flood = Box::pin(flood(&stage, &definitions, args));
        figures.flood = stage.part("the flood", &mut wrong, flood).await;
    }
    let after = stage.ceiling(&definitions, &world::Shapes).await?;
    Ok(Document::new(&stage, vec![before, after], figures, wrong))
}

/// Who serves the claims.
#[derive(Clone, Copy)]
enum Side<'a> {
    /// The room, behind its admission webhooks.
    Room,
    /// Another controller, which may take so long until it leaves the hosts alone.
    Other(&'a Command, Duration),
}

/// A server with hosts, a controller at work on it, and the clock.
struct Scene {
    server: Server,
    pool: Pool,
    subject: Subject,
    claims: Watcher,
    hosts: Watcher,
    seen: Seen,
    /// Resident memory before any host was there and with all of them.
    bare_kib: u64,
    /// Whether the controller left the hosts alone before anybody claimed one.
    settled: bool,
}

impl Scene {
    async fn set(
        stage: &Stage<'_>,
        definitions: &[Value],
        dir: &Path,
        hosts: u64,
        namespaces: Vec<String>,
        side: Side<'_>,
    ) -> Result<Self> {
        let server = Server::start(dir).await?;
        let pool = Pool::connect(&server.kubeconfig(), 8, "berth-bench-driver").await?;
        let first = namespaces.first().cloned().context("a tenant")?;
        world::prepare(&pool, definitions, namespaces).await?;
        let (mut subject, patience) = match side {
            Side::Room => {
                let port = stage::port(&crate::child::free_address()?)?;
                (world::start(stage, &server, &pool, ("claims", port), &first).await?, stage.patience())
            }
            Side::Other(command, patience) => {
                world::credentials(&pool, hosts).await?;
                (stage.other(&server, "other", &command.words).await?, patience)
            }
        };
        subject.silent(&server, QUIET, patience).await?;
        let bare_kib = crate::proc::memory(subject.process.pid())?.rss_kib;
        stage.say(&format!("creating {hosts} hosts"));
        world::hosts(&server, hosts).await?;
        let settled = subject.silent(&server, QUIET, patience).await?;
        let log = dir.join("watcher.log");
        let kubeconfig = server.kubeconfig();
        let from = version(&pool, &CLAIMS.path()).await?;
        let claims = Watcher::start(&kubeconfig, &CLAIMS.path(), &from, &stamps::OF_CLAIMS, &log).await?;
        let from = version(&pool, &HOSTS.path()).await?;
        let hosts = Watcher::start(&kubeconfig, &HOSTS.path(), &from, &stamps::OF_HOSTS, &log).await?;
        Ok(Self { server, pool, subject, claims, hosts, seen: Seen::default(), bare_kib, settled })
    }

    /// Reads the clock of claims until so many are bound.
    async fn until_bound(&mut self, bound: usize, patience: Duration) -> Result<()> {
        let (seen, what) = (&mut self.seen, format!("{bound} claims are bound"));
        let done = |stamp: crate::watch::Stamp| {
            seen.claim(&stamp);
            seen.bound.len() >= bound
        };
        let waited = self.claims.until(&what, patience, done).await;
        waited.with_context(|| {
            format!(
                "{} claims were bound; the process says:\n{}",
                self.seen.bound.len(),
                self.subject.process.log_end()
            )
        })
    }

    /// Reads both clocks until they are silent.
    async fn catch_up(&mut self) -> Result<()> {
        catch_up(&mut self.seen, &mut self.claims, &mut self.hosts).await
    }

    async fn end(self, dir: &Path) -> Result<()> {
        self.subject.stop().await?;
        self.claims.stop().await?;
        self.hosts.stop().await?;
        drop(self.pool);
        self.server.stop().await?;
        stage::clear(dir)
    }
}

async fn catch_up(seen: &mut Seen, claims: &mut Watcher, hosts: &mut Watcher) -> Result<()> {
    for stamp in claims.drain(Duration::from_millis(500)).await? {
        seen.claim(&stamp);
    }
    for stamp in hosts.drain(Duration::from_millis(500)).await? {
        seen.host(&stamp);
    }
    Ok(())
}

/// Creates so many claims, all at once; how many seconds that took.
async fn create_all(driver: &Pool, count: u64) -> Result<f64> {
    let n = usize::try_from(count).context("too many claims")?;
    let make = |i: usize| Ok(create(&tenant(i as u64 % tenants(count)), &format!("claim-{i:05}"), i as u64));
    driver.many(n, IN_FLIGHT, make).await.map(|(_, seconds)| seconds).context("creating claims")
}

/// As many claims as hosts, all at once.
async fn bind(stage: &Stage<'_>, definitions: &[Value], count: u64, w: &Ceiling) -> Result<(Bind, Vec<String>)> {
    stage.say(&format!("{count} claims on {count} hosts"));
    let (dir, n) = (stage.path(&format!("bind-{count}")), usize::try_from(count).context("too many claims")?);
    let namespaces = (0..tenants(count)).map(tenant).collect();
    let mut scene = Scene::set(stage, definitions, &dir, count, namespaces, Side::Room).await?;
    // Smaller numbers would only show what the allocator rounds up to.
    let memory = count >= 1000;
    let with_hosts = if memory { Some(stage.memory(&scene.subject).await?) } else { None };

    let mut audit = Tail::at_end(&scene.server.audit_log())?;
    let (steps, binds) = examined(&scene.subject).await?;
    let used = Used::now(&scene.subject, &scene.server)?;
    stage.say(&format!("creating {count} claims"));
    let driver = Pool::connect(&scene.server.kubeconfig(), 8, "berth-bench-driver").await?;
    let ((), create_seconds) =
        tokio::try_join!(scene.until_bound(n, stage.patience_for(n)), create_all(&driver, count))?;
    let silent = scene.subject.silent(&scene.server, QUIET, stage.patience()).await?;
    scene.catch_up().await?;
    let used = Used::now(&scene.subject, &scene.server)?.since(used);
    let asked = audit.read()?;
    let mut requests = Tally::default();
    asked.iter().filter(|request| request.of_subject()).for_each(|request| requests.add(request));
    let (steps, binds) = {
        let (s, b) = examined(&scene.subject).await?;
        (s - steps, b - binds)
    };
    let with_claims = if memory { Some(stage.memory(&scene.subject).await?) } else { None };

    let mut wrong = oracle::judge(&scene.pool, n, Some(n)).await?;
    wrong.extend(scene.seen.snatched());
    if !silent {
        wrong.push(format!("not silent {:?} after every claim was bound", stage.patience()));
    }
    let seconds = scene.seen.span_seconds().unwrap_or_default();
    let last = scene.seen.bound.values().max().copied().unwrap_or_default();
    let told = asked.iter().filter(|r| r.of_subject() && r.writes() && r.what.starts_with("events") && r.at_us <= last);
    let told_in_time = told.count() as f64 / (requests.events as f64).max(1.0);
    let written = Written::read(&scene.pool).await?;
    let each = |value: u64| value as f64 / count as f64;
    let own_writes = requests.writes_to(&[CLAIMS, HOSTS]);
    let mut figures = Bind {
        seconds,
        per_second: count as f64 / seconds.max(f64::EPSILON),
        create_seconds,
        alone_seconds: 0.0,
        events_alone_seconds: 0.0,
        events_in_time_percent: told_in_time * 100.0,
        efficiency_by_client: 0.0,
        // The user's create, the intent and the state on the claim, and the host.
        efficiency: w.seconds(count, count, 2 * count) / seconds.max(f64::EPSILON),
        ms: percentiles(&scene.seen.bind_ms(|_| true)),
        writes_per_bind: each(own_writes),
        other_writes: requests.writes - requests.events - own_writes,
        events_per_bind: each(requests.events),
        requests_per_bind: each(requests.total),
        conflicts: requests.conflicts,
        hosts_examined_per_bind: (binds > 0.0).then(|| steps / binds),
        cpu_ms_per_bind: used.subject * 1e3 / count as f64,
        cpu_share_percent: used.share_percent(),
        rss_kib: with_claims.map(|m| m.rss_kib),
        peak_kib: with_claims.map(|m| m.peak_kib),
        kib_per_host: with_hosts.and_then(|m| kib_each(m.rss_kib, scene.bare_kib, count)),
        kib_per_claim: with_claims.zip(with_hosts).and_then(|(more, less)| kib_each(more.rss_kib, less.rss_kib, count)),
        requests: requests.by_verb,
    };
    scene.end(&dir).await?;
    let alone = written.again(stage, definitions, &dir).await?;
    figures.alone_seconds = alone.binds;
    figures.events_alone_seconds = alone.events;
    figures.efficiency_by_client = (alone.binds + alone.events * told_in_time) / seconds.max(f64::EPSILON);
    Ok((figures, wrong))
}

/// Hosts looked at so far, and binds.
async fn examined(subject: &Subject) -> Result<(f64, f64)> {
    let name = "berth_claims_select_steps";
    Ok((subject.metric(&format!("{name}_sum")).await?, subject.metric(&format!("{name}_count")).await?))
}

/// Bound claims are deleted one after the other while many others wait.
async fn churn(stage: &Stage<'_>, definitions: &[Value], args: &Claims) -> Result<(Churn, Vec<String>)> {
    stage.say(&format!("{} hosts change hands, {} claims wait", args.churn, args.waiting));
    let (dir, held) = (stage.path("churn"), usize::try_from(args.churn).context("too many hosts")?);
    let waiting = usize::try_from(args.waiting).context("too many claims")?;
    let namespaces = (0..tenants(args.waiting)).map(tenant).collect();
    let mut scene = Scene::set(stage, definitions, &dir, args.churn, namespaces, Side::Room).await?;
    let spread = tenants(args.waiting);
    let first = |i: usize| (tenant(i as u64 % spread), format!("first-{i:05}"));
    let driver = Pool::connect(&scene.server.kubeconfig(), 8, "berth-bench-driver").await?;
    let make = |i: usize| {
        let (namespace, name) = first(i);
        Ok(create(&namespace, &name, i as u64))
    };
    tokio::try_join!(scene.until_bound(held, stage.patience_for(held)), driver.many(held, IN_FLIGHT, make))?;
    stage.say(&format!("{} more claims", args.waiting));
    let make = |i: usize| Ok(create(&tenant(i as u64 % spread), &format!("wait-{i:05}"), i as u64));
    driver.many(waiting, IN_FLIGHT, make).await?;
    scene.subject.silent(&scene.server, QUIET, stage.patience()).await?;
    scene.catch_up().await?;

    stage.say(&format!("deleting {} claims, {} a second", args.churn, args.churn_rate));
    let mut audit = Tail::at_end(&scene.server.audit_log())?;
    let delete = |i: usize| {
        let (namespace, name) = first(i);
        Ok((Method::DELETE, format!("{}/{name}", CLAIMS.within(&namespace)), Body::None))
    };
    let served = held.min(waiting);
    let deleting = async { driver.paced(held, args.churn_rate, IN_FLIGHT, delete).await.context("deleting claims") };
    tokio::try_join!(scene.until_bound(held + served, stage.patience_for(held + served)), deleting)?;
    let silent = scene.subject.silent(&scene.server, QUIET, stage.patience()).await?;
    scene.catch_up().await?;
    let requests = audit.of_subject()?;
    let (release, handover) = (scene.seen.release_ms(), scene.seen.handover_ms());
    let mut wrong = oracle::judge(&scene.pool, waiting, Some(served)).await?;
    wrong.extend(scene.seen.snatched());
    for (what, found, wanted) in [("given back", release.len(), held), ("handed over", handover.len(), served)] {
        if found != wanted {
            wrong.push(format!("{found} hosts were seen {what} instead of {wanted}"));
        }
    }
    if !silent {
        wrong.push(format!("not silent {:?} after the last host changed hands", stage.patience()));
    }
    let figures = Churn {
        waiting: args.waiting,
        hosts: args.churn,
        per_second: args.churn_rate,
        delete_to_free_ms: percentiles(&release),
        free_to_bound_ms: percentiles(&handover),
        writes_per_host: (requests.writes - requests.events) as f64 / args.churn as f64,
        conflicts: requests.conflicts,
        requests: requests.by_verb,
    };
    scene.end(&dir).await?;
    Ok((figures, wrong))
}

/// Other tenants claim one host each, first alone and then beside a tenant who claims thousands.
async fn flood(stage: &Stage<'_>, definitions: &[Value], args: &Claims) -> Result<(Flood, Vec<String>)> {
    stage.say(&format!("{} tenants beside a flood of {} claims", args.others, args.flood));
    let (dir, others) = (stage.path("flood"), usize::try_from(args.others).context("too many tenants")?);
    let many = usize::try_from(args.flood).context("too many claims")?;
    let namespaces = (0..args.others).map(tenant).chain(["flood".to_owned()]).collect();
    let hosts = args.flood + 2 * args.others;
    let mut scene = Scene::set(stage, definitions, &dir, hosts, namespaces, Side::Room).await?;
    let driver = Pool::connect(&scene.server.kubeconfig(), 8, "berth-bench-driver").await?;
    // Numbered through, so that for every claim there is a host that fits it.
    let make = |name: &'static str, from: u64| move |i: usize| Ok(create(&tenant(i as u64), name, from + i as u64));
    stage.say("the others alone");
    tokio::try_join!(
        scene.until_bound(others, stage.patience_for(others)),
        driver.paced(others, args.others_rate, IN_FLIGHT, make("alone", 0))
    )?;
    scene.subject.silent(&scene.server, QUIET, stage.patience()).await?;
    // First the flood, then the others: a server that is busy with the requests of a tenant is slow for everybody, whoever
    // serves claims. What is measured is who comes first among those who wait.
    let flooder = Pool::connect(&scene.server.kubeconfig(), 4, "berth-bench-flooder").await?;
    let mut audit = Tail::at_end(&scene.server.audit_log())?;
    let drop_by_drop = |i: usize| Ok(create("flood", &format!("flood-{i:05}"), 2 * args.others + i as u64));
    let flooded = async {
        stage.say("the flood");
        let (_, seconds) = flooder.many(many, IN_FLIGHT, drop_by_drop).await?;
        stage.say("the others beside the flood");
        driver.paced(others, args.others_rate, IN_FLIGHT, make("beside", args.others)).await?;
        anyhow::Ok(seconds)
    };
    let (flood_seconds, ()) =
        tokio::try_join!(flooded, scene.until_bound(2 * others + many, stage.patience_for(2 * others + many)))?;
    scene.subject.silent(&scene.server, QUIET, stage.patience()).await?;
    scene.catch_up().await?;
    let mut wrong = oracle::judge(&scene.pool, 2 * others + many, Some(2 * others + many)).await?;
    wrong.extend(scene.seen.snatched());
    let (alone, beside) =
        (scene.seen.bind_ms(|key| key.ends_with("/alone")), scene.seen.bind_ms(|key| key.ends_with("/beside")));
    let (alone, beside) = (percentiles(&alone), percentiles(&beside));
    let figures = Flood {
        claims: args.flood,
        others: args.others,
        per_second: args.others_rate,
        create_seconds: flood_seconds,
        alone_ms: alone,
        beside_ms: beside,
        flood_ms: percentiles(&scene.seen.bind_ms(|key| key.starts_with("flood/"))),
        slowest: slow::slowest(&scene.seen, &audit.read()?, |key| key.ends_with("/beside"), SLOWEST),
        ratio: alone.zip(beside).map(|(alone, beside)| beside.p99 / alone.p99.max(f64::EPSILON)),
    };
    scene.end(&dir).await?;
    Ok((figures, wrong))
}
