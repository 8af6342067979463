//! Groups at zero replicas that say what their machines would offer: how long until all say it, and what a restart costs.
//!
//! The process under test is the real binary, beside a strict simulator of EC2 with the published request limits.

mod report;
mod world;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::Value;
use sim::ec2::Handle;
use sim::ec2::catalogue::InstanceType;

use crate::audit::{Request, Tail, Tally};
use crate::ceiling::Ceiling;
use crate::cloud;
use crate::document::Document;
use crate::http::{Pool, served};
use crate::oracle::version;
use crate::server::Server;
use crate::stage::{self, Common, Stage, Subject, Used};
use crate::stats::percentiles;
use crate::watch::Watcher;
use report::{Annotate, Capacity as Figures, Late, Paced, Restart};
use world::{CPU, GROUPS, TEMPLATES};

/// Flags of `capacity`.
#[derive(Debug, Args)]
pub struct Capacity {
    /// Flags of every scenario.
    #[command(flatten)]
    pub common: Common,
    /// Groups that are there before the process, one size after the other.
    #[arg(long, value_delimiter = ',', default_value = "1,1000,10000", value_parser = clap::value_parser!(u64).range(1..=200_000))]
    pub sizes: Vec<u64>,
    /// Distinct instance types.
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u64).range(1..=200))]
    pub types: u64,
    /// Groups created at a steady rate; 0 leaves that part out.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(0..=100_000))]
    pub paced: u64,
    /// How many of them each second.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub rate: u64,
    /// Groups whose template comes later; 0 leaves that part out.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(0..=10_000))]
    pub late: u64,
    /// How many templates each second.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub late_rate: u64,
}

/// Silence after which nothing more is expected.
const QUIET: Duration = Duration::from_secs(3);
const IN_FLIGHT: usize = 64;

/// Runs the scenario; the exit code.
pub async fn main(args: &Capacity) -> Result<u8> {
    let document = stage::bounded(args.common.end(), Box::pin(run(args))).await?;
    document.publish(&args.common)
}

async fn run(args: &Capacity) -> Result<Document<Figures>> {
    let stage = Stage::set("capacity", &args.common).await?;
    let (definitions, types) = (world::definitions()?, world::types(args.types));
    let before = stage.ceiling(&definitions, &world::Shapes).await?;
    let (mut figures, mut wrong) =
        (Figures { types: args.types, pages: world::pages(), ..Figures::default() }, Vec::new());
    for size in &args.sizes {
        let annotate = Box::pin(annotate(&stage, &definitions, &types, *size, &before));
        if let Some(annotated) = stage.part(&format!("{size} groups"), &mut wrong, annotate).await {
            figures.annotate.insert(*size, annotated);
        }
    }
    if args.paced + args.late > 0 {
        let paced = Box::pin(paced(&stage, &definitions, &types, args));
        (figures.paced, figures.late) = stage.part("a steady rate", &mut wrong, paced).await.unwrap_or_default();
    }
    let after = stage.ceiling(&definitions, &world::Shapes).await?;
    Ok(Document::new(&stage, vec![before, after], figures, wrong))
}

/// Starts the room with its cloud.
async fn start(stage: &Stage<'_>, server: &Server, ec2: &Handle) -> Result<Subject> {
    let mut flags = vec!["--controllers=capacity".to_owned(), "--webhook-port=0".to_owned()];
    flags.extend(cloud::flags(ec2));
    stage.subject(server, "berth", &flags).await
}

/// When each group was first seen, and first seen annotated.
#[derive(Debug, Default)]
struct Seen {
    born: BTreeMap<String, i64>,
    annotated: BTreeMap<String, i64>,
}

impl Seen {
    /// Reads the clock until so many groups are annotated.
    async fn until(&mut self, clock: &mut Watcher, count: usize, patience: Duration) -> Result<()> {
        let done = |stamp: crate::watch::Stamp| {
            if stamp.event == "ADDED" {
                self.born.entry(stamp.key.clone()).or_insert(stamp.at_us);
            }
            if !stamp.shows(0).is_empty() {
                self.annotated.entry(stamp.key).or_insert(stamp.at_us);
            }
            self.annotated.len() >= count
        };
        let waited = clock.until(&format!("{count} groups are annotated"), patience, done).await;
        waited.with_context(|| format!("{} groups were annotated", self.annotated.len()))
    }

    /// Milliseconds from the given moments to annotated.
    fn ms(&self, from: &BTreeMap<String, i64>) -> Vec<f64> {
        let took = |(key, at): (&String, &i64)| Some((*at - from.get(key)?) as f64 / 1e3);
        self.annotated.iter().filter_map(took).collect()
    }
}

/// Groups that wait for the process, and its next start.
async fn annotate(
    stage: &Stage<'_>,
    definitions: &[Value],
    types: &[InstanceType],
    count: u64,
    w: &Ceiling,
) -> Result<(Annotate, Vec<String>)> {
    stage.say(&format!("creating {count} groups"));
    let (dir, n, ec2) =
        (stage.path("annotate"), usize::try_from(count).context("too many groups")?, cloud::start().await?);
    let server = Server::unlogged(&dir).await?;
    let pool = Pool::connect(&server.kubeconfig(), 8, "berth-bench-driver").await?;
    world::prepare(&pool, definitions, &ec2, types).await?;
    world::fill(&server, count).await?;
    drop(pool);
    server.stop().await?;

    let server = Server::start(&dir).await?;
    let pool = Pool::connect(&server.kubeconfig(), 2, "berth-bench-driver").await?;
    served(&pool, &[GROUPS.path()]).await?;
    let from = version(&pool, &GROUPS.path()).await?;
    let log = dir.join("watcher.log");
    let mut clock = Watcher::start(&server.kubeconfig(), &GROUPS.path(), &from, &[CPU], &log).await?;
    stage.say(&format!("annotating {count} groups"));
    let (mut audit, mut seen) = (Tail::at_end(&server.audit_log())?, Seen::default());
    let idle = Used { subject: 0.0, server: server.cpu_seconds()? };
    let starting = async { start(stage, &server, &ec2).await };
    let (mut subject, ()) = tokio::try_join!(starting, seen.until(&mut clock, n, stage.patience_for(n)))?;
    let silent = subject.silent(&server, QUIET, stage.patience()).await?;
    let last = seen.annotated.values().max().copied().unwrap_or(subject.process.started_us);
    let seconds = (last - subject.process.started_us) as f64 / 1e6;
    // The catalogue is kept for the next process, whatever the number of groups.
    let (kept, asked): (Vec<_>, Vec<_>) =
        audit.read()?.into_iter().filter(Request::of_subject).partition(|request| request.what == "configmaps");
    let kept_writes = kept.iter().filter(|request| request.writes()).count() as u64;
    let mut requests = Tally::default();
    asked.iter().for_each(|request| requests.add(request));
    let used = Used::now(&subject, &server)?;
    let memory = stage.memory(&subject).await?;
    subject.stop().await?;
    clock.stop().await?;
    let mut wrong = world::judge(&pool, n).await?;
    if !silent {
        wrong.push(format!("not silent {:?} after every group was annotated", stage.patience()));
    }
    let cloud_calls = world::calls(&ec2);

    stage.say(&format!("once more with all {count} annotated"));
    ec2.clear_log();
    let mut audit = Tail::at_end(&server.audit_log())?;
    let mut subject = start(stage, &server, &ec2).await?;
    if !subject.silent(&server, QUIET, stage.patience()).await? {
        wrong.push(format!("not silent {:?} after a restart", stage.patience()));
    }
    let asked = audit.read()?;
    let asked = asked.iter().filter(|r| r.of_subject() && r.verb != "watch" && !r.lease());
    let last = asked.clone().map(|r| r.at_us).max().max(subject.at_work_us).unwrap_or(subject.process.started_us);
    let writes = asked.filter(|r| r.writes()).count() as u64;
    let again = stage.memory(&subject).await?;
    let restart = Restart {
        ready_ms: subject.ready_ms,
        settled_seconds: ((last - subject.process.started_us) as f64 / 1e6).max(subject.ready_ms / 1e3),
        writes,
        cloud_calls: world::calls(&ec2),
        rss_kib: again.rss_kib,
        peak_kib: again.peak_kib,
    };
    subject.stop().await?;
    stage.say(&format!("all {count} again, by a plain client"));
    let alone_seconds = world::annotate_again(&server).await?;
    drop(pool);
    server.stop().await?;
    ec2.stop();
    stage::clear(&dir)?;
    let figures = Annotate {
        seconds,
        per_second: count as f64 / seconds.max(f64::EPSILON),
        alone_seconds,
        efficiency: alone_seconds / seconds.max(f64::EPSILON),
        efficiency_by_ceiling: w.seconds(0, count, 0) / seconds.max(f64::EPSILON),
        writes: requests.writes_to(&[GROUPS]),
        other_writes: requests.writes - requests.writes_to(&[GROUPS]),
        kept_writes,
        conflicts: requests.conflicts,
        cloud_calls,
        cpu_seconds: used.subject,
        cpu_share_percent: used.since(idle).share_percent(),
        rss_kib: memory.rss_kib,
        peak_kib: memory.peak_kib,
        restart,
    };
    Ok((figures, wrong))
}

/// Groups that are created while the process runs, then groups whose templates come later.
async fn paced(
    stage: &Stage<'_>,
    definitions: &[Value],
    types: &[InstanceType],
    args: &Capacity,
) -> Result<((Option<Paced>, Option<Late>), Vec<String>)> {
    let (dir, ec2) = (stage.path("paced"), cloud::start().await?);
    let server = Server::start(&dir).await?;
    let pool = Pool::connect(&server.kubeconfig(), 8, "berth-bench-driver").await?;
    world::prepare(&pool, definitions, &ec2, types).await?;
    let mut subject = start(stage, &server, &ec2).await?;
    subject.silent(&server, QUIET, stage.patience()).await?;
    let log = dir.join("watcher.log");
    let from = version(&pool, &GROUPS.path()).await?;
    let mut clock = Watcher::start(&server.kubeconfig(), &GROUPS.path(), &from, &[CPU], &log).await?;
    let (mut seen, n) = (Seen::default(), usize::try_from(args.paced).context("too many groups")?);
    let mut figures = (None, None);
    if n > 0 {
        stage.say(&format!("{n} groups at {} a second", args.rate));
        let creating = pool.paced(n, args.rate, IN_FLIGHT, |i| Ok(world::create("paced", i as u64)));
        let (seconds, ()) = tokio::try_join!(creating, seen.until(&mut clock, n, stage.patience_for(n)))?;
        let ms = percentiles(&seen.ms(&seen.born));
        let per_second = n as f64 / seconds.max(f64::EPSILON);
        figures.0 = Some(Paced { groups: args.paced, wanted_per_second: args.rate, per_second, ms });
    }
    let late = usize::try_from(args.late).context("too many groups")?;
    if late > 0 {
        stage.say(&format!("{late} groups whose template comes later, {} a second", args.late_rate));
        pool.many(late, IN_FLIGHT, |i| Ok(world::create_early(i as u64))).await.context("creating groups")?;
        subject.silent(&server, QUIET, stage.patience()).await?;
        let from = version(&pool, &TEMPLATES.path()).await?;
        let mut templates = Watcher::start(&server.kubeconfig(), &TEMPLATES.path(), &from, &[], &log).await?;
        seen.annotated.clear();
        let creating = pool.paced(late, args.late_rate, IN_FLIGHT, |i| world::create_late(i as u64, types));
        tokio::try_join!(creating, seen.until(&mut clock, late, stage.patience_for(late)))?;
        let stamps = templates.drain(Duration::from_millis(500)).await?;
        templates.stop().await?;
        let came = stamps.into_iter().map(|stamp| (stamp.key, stamp.at_us)).collect();
        figures.1 = Some(Late { groups: args.late, per_second: args.late_rate, ms: percentiles(&seen.ms(&came)) });
    }
    subject.stop().await?;
    clock.stop().await?;
    let wrong = world::judge(&pool, n + late).await?;
    drop(pool);
    server.stop().await?;
    ec2.stop();
    stage::clear(&dir)?;
    Ok((figures, wrong))
}
