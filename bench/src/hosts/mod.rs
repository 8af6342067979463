//! Machines on dedicated hosts: how close to the best schedule that the cloud's request limits allow, with how many calls,
//! and how soon hosts are given back.
//!
//! The process under test is the real binary, beside a strict simulator of EC2 with the published request limits. It is
//! set to those limits by its own flags; a second leg leaves it as it is shipped, and must never be told to slow down.

mod ledger;
mod report;
mod world;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use http::Method;
use serde_json::Value;
use sim::ec2::Handle;
use sim::ec2::world::settings::Delays;

use crate::audit::Tail;
use crate::document::Document;
use crate::http::{Body, Pool};
use crate::oracle::version;
use crate::server::Server;
use crate::stage::{self, Common, Stage, Subject};
use crate::stats::percentiles;
use crate::watch::{Stamp, Watcher};
use crate::{child, cloud, scenario};
use ledger::{Buckets, Ledger};
use report::{Hosts as Figures, Life};
use world::MACHINES;

/// Flags of `hosts`.
#[derive(Debug, Args)]
pub struct Hosts {
    /// Flags of every scenario.
    #[command(flatten)]
    pub common: Common,
    /// Machines, each on a host of its own, one size after the other; 1,000 take at least 500 s to launch.
    #[arg(long, value_delimiter = ',', default_value = "1,100,1000", value_parser = clap::value_parser!(u64).range(1..=5000))]
    pub sizes: Vec<u64>,
    /// More flags of the process under test: request limits as the cloud publishes them, and no caps.
    #[arg(long, allow_hyphen_values = true, default_value = PUBLISHED)]
    pub subject_flags: String,
    /// Machines of the leg with the limits as they are shipped, over ten clusters; 0 leaves that leg out.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(0..=200))]
    pub shipped: u64,
}

const PUBLISHED: &str = "--aws-rate=describe=20:100 --aws-rate=launch=2:5 --aws-rate=hosts=5:50 --aws-rate=other=5:50 \
--max-hosts-per-cluster=100000 --max-allocations-per-hour=100000";
const IN_FLIGHT: usize = 32;
/// Silence after which nothing more is expected.
const QUIET: Duration = Duration::from_secs(3);
/// Texts that stamps of machines show.
const SHOWN: [&str; 2] = ["/status/dedicatedHost/id", "/spec/instanceID"];

/// Runs the scenario; the exit code.
pub async fn main(args: &Hosts) -> Result<u8> {
    let document = stage::bounded(args.common.end(), Box::pin(run(args))).await?;
    document.publish(&args.common)
}

async fn run(args: &Hosts) -> Result<Document<Figures>> {
    let stage = Stage::set("hosts", &args.common).await?;
    let flags = child::words(&args.subject_flags).context("--subject-flags")?;
    let definitions = world::definitions(&stage).await?;
    let plain = scenario::plain();
    let before = stage.ceiling(&definitions, &plain).await?;
    let (mut figures, mut wrong) = (Figures::default(), Vec::new());
    for size in &args.sizes {
        let leg =
            Leg { stage: &stage, definitions: &definitions, count: *size, flags: &flags, buckets: Buckets::PUBLISHED };
        if let Some(life) = stage.part(&format!("{size} machines"), &mut wrong, Box::pin(leg.run())).await {
            figures.published.insert(*size, life);
        }
    }
    if args.shipped > 0 {
        let leg = Leg {
            stage: &stage,
            definitions: &definitions,
            count: args.shipped,
            flags: &[],
            buckets: Buckets::SHIPPED,
        };
        if let Some(life) = stage.part("the limits as they are shipped", &mut wrong, Box::pin(leg.run())).await {
            figures.shipped.insert(args.shipped, life);
        }
    }
    let after = stage.ceiling(&definitions, &plain).await?;
    Ok(Document::new(&stage, vec![before, after], figures, wrong))
}

/// When things were first seen, in microseconds of the Unix clock.
#[derive(Debug, Default)]
struct Seen {
    born: BTreeMap<String, i64>,
    host: BTreeMap<String, i64>,
    instance: BTreeMap<String, i64>,
    gone: BTreeMap<String, i64>,
}

impl Seen {
    fn take(&mut self, stamp: &Stamp) {
        let moments = [
            (&mut self.born, stamp.event == "ADDED"),
            (&mut self.host, !stamp.shows(0).is_empty()),
            (&mut self.instance, !stamp.shows(1).is_empty()),
            (&mut self.gone, stamp.event == "DELETED"),
        ];
        for (moments, is_so) in moments {
            if is_so {
                moments.entry(stamp.key.clone()).or_insert(stamp.at_us);
            }
        }
    }

    /// Seconds from birth.
    fn since_birth(&self, moments: &BTreeMap<String, i64>) -> Vec<f64> {
        moments.iter().filter_map(|(key, at)| Some((*at - self.born.get(key)?) as f64 / 1e6)).collect()
    }

    /// Seconds from the first machine to the last instance.
    fn span(&self) -> f64 {
        let span = self.born.values().min().zip(self.instance.values().max());
        span.map(|(from, to)| (*to - *from) as f64 / 1e6).unwrap_or_default()
    }
}

/// Machines that are created at once, run, and are deleted at once.
struct Leg<'a> {
    stage: &'a Stage<'a>,
    definitions: &'a [Value],
    count: u64,
    flags: &'a [String],
    buckets: Buckets,
}

impl Leg<'_> {
    async fn subject(&self, server: &Server, ec2: &Handle) -> Result<Subject> {
        let mut flags = vec!["--controllers=hosts".to_owned(), "--webhook-port=0".to_owned()];
        flags.extend(["ec2", "sts"].map(|service| format!("--aws-endpoint={service}={}", ec2.endpoint)));
        flags.extend_from_slice(self.flags);
        let keys = [format!("AWS_ACCESS_KEY_ID={}", ec2.access_key), format!("AWS_SECRET_ACCESS_KEY={}", ec2.secret)];
        self.stage.subject_in(&keys, server, "berth", &flags).await
    }

    async fn run(&self) -> Result<(Life, Vec<String>)> {
        let (stage, count) = (self.stage, self.count);
        stage.say(&format!("{count} machines on hosts of their own"));
        let (dir, n) = (stage.path("hosts"), usize::try_from(count).context("too many machines")?);
        let ec2 = cloud::start().await?;
        let server = Server::start(&dir).await?;
        let pool = Pool::connect(&server.kubeconfig(), 8, "berth-bench-driver").await?;
        world::prepare(&pool, self.definitions, &ec2).await?;
        let machines = world::machines(&pool, &ec2, count).await?;
        let from = version(&pool, &MACHINES.path()).await?;
        let mut clock =
            Watcher::start(&server.kubeconfig(), &MACHINES.path(), &from, &SHOWN, &dir.join("watcher.log")).await?;
        let mut subject = self.subject(&server, &ec2).await?;
        subject.silent(&server, QUIET, stage.patience()).await?;
        ec2.clear_log();

        let mut delays = Delays::default();
        ec2.settings(|settings| delays = settings.delays.clone());
        // What the buckets allow at best, and then as much again.
        let best = self.buckets.best_seconds(count, delays.allocate);
        let patience = stage.patience() + Duration::from_secs_f64(2.0 * best);
        let (mut seen, mut audit) = (Seen::default(), Tail::at_end(&server.audit_log())?);
        let create = |i: usize| {
            let (path, object) = machines.get(i).context("no such machine")?;
            Ok((Method::POST, path.clone(), Body::Json(object.to_string().into())))
        };
        let placed = async {
            let done = |stamp: Stamp| {
                seen.take(&stamp);
                seen.instance.len() >= n
            };
            clock.until(&format!("{n} machines have an instance"), patience, done).await
        };
        let told =
            tokio::try_join!(placed, async { pool.many(n, IN_FLIGHT, create).await.context("creating machines") });
        told.with_context(|| {
            format!("{} hosts and {} instances; {}", seen.host.len(), seen.instance.len(), subject.process.log_end())
        })?;
        subject.silent(&server, QUIET, patience).await?;
        let requests = audit.of_subject()?;
        let empty: Vec<f64> = ec2.hosts().iter().map(|host| host.empty.as_secs_f64()).collect();
        let up = Ledger::of(&ec2.log());
        let (cpu, calls) = (subject.cpu_seconds()?, ec2.log().len());
        let memory = stage.memory(&subject).await?;
        let idle_calls = ec2.log().len().saturating_sub(calls);

        stage.say(&format!("deleting {count} machines"));
        let delete = |i: usize| {
            let (path, object) = machines.get(i).context("no such machine")?;
            let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
            Ok((Method::DELETE, format!("{path}/{name}"), Body::None))
        };
        let ended = async {
            let done = |stamp: Stamp| {
                seen.take(&stamp);
                seen.gone.len() >= n
            };
            clock.until(&format!("{n} machines are gone"), patience, done).await
        };
        let began = child::now_us();
        let told =
            tokio::try_join!(ended, async { pool.many(n, IN_FLIGHT, delete).await.context("deleting machines") });
        told.with_context(|| format!("{} machines were gone; {}", seen.gone.len(), subject.process.log_end()))?;
        let gone = seen.gone.values().max().map(|last| (*last - began) as f64 / 1e6).unwrap_or_default();
        let log = ec2.log();
        let released = ledger::release_seconds(&log, &ec2.instances(), delays.shut_down + delays.vacate);
        let wrong = leaks(&ec2, n);
        subject.stop().await?;
        clock.stop().await?;
        drop(pool);
        server.stop().await?;
        ec2.stop();
        stage::clear(&dir)?;
        let life = Life {
            host_seconds: percentiles(&seen.since_birth(&seen.host)),
            instance_seconds: percentiles(&seen.since_birth(&seen.instance)),
            seconds: seen.span(),
            best_seconds: best,
            gone_seconds: gone,
            calls_up: up,
            calls: Ledger::of(&log),
            idle_calls,
            idle_seconds: stage.args.silence_seconds,
            writes_per_machine: requests.writes as f64 / count as f64,
            conflicts: requests.conflicts,
            empty_seconds: percentiles(&empty),
            release_seconds: percentiles(&released),
            cpu_seconds: cpu,
            rss_kib: memory.rss_kib,
            peak_kib: memory.peak_kib,
        };
        Ok((life, wrong))
    }
}

/// What is wrong at the end: hosts that are still paid for, and more or fewer of anything than machines.
fn leaks(ec2: &Handle, machines: usize) -> Vec<String> {
    let (hosts, instances) = (ec2.hosts(), ec2.instances());
    let mut wrong = Vec::new();
    let kept: Vec<&str> = hosts.iter().filter(|host| !host.state.is_released()).map(|host| host.id.as_str()).collect();
    if let Some(first) = kept.first() {
        wrong.push(format!("{} hosts are still paid for without an owner, for example {first}", kept.len()));
    }
    for (what, found) in [("hosts were allocated", hosts.len()), ("instances were launched", instances.len())] {
        if found != machines {
            wrong.push(format!("{found} {what} for {machines} machines"));
        }
    }
    let mut used: Vec<&str> = instances.iter().filter_map(|instance| instance.host.as_deref()).collect();
    used.sort_unstable();
    used.dedup();
    if used.len() != machines {
        wrong.push(format!("{} hosts were used by {machines} machines", used.len()));
    }
    wrong
}
