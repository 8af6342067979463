//! One leg: one side, once, on its own copy of the data.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use http::Method;
use serde::Serialize;
use serde_json::Value;

use crate::audit::{Tail, Tally};
use crate::child::{self, Process, now_us};
use crate::http::{Body, Pool, probe};
use crate::metrics::{self, ByVerb, CrossCheck};
use crate::proc::Busy;
use crate::scenario::{Ended, Kind, Scenario};
use crate::server::Server;
use crate::stats::{Percentiles, percentiles};
use crate::watch::Watcher;
use crate::{oracle, proc, seed};

/// A controller to measure.
#[derive(Clone, Debug)]
pub struct Side {
    /// `subject` or `peer`.
    pub name: &'static str,
    /// Its command with placeholders.
    pub command: Vec<String>,
}

/// How long things are waited for.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Silence that counts as settled.
    pub settle: Duration,
    /// Settling may take no longer.
    pub settle_bound: Duration,
    /// The idle window.
    pub idle: Duration,
    /// Silence before resident memory is read, when the idle window is long enough.
    pub silence: Duration,
    /// How long a quiet machine is waited for before a leg is marked as disturbed.
    pub load_wait: Duration,
}

/// The load average above which a leg does not start.
pub const QUIET_LOAD: f64 = 0.5;
/// A stop may take no longer than the longest bar for stops.
const STOP_BOUND: Duration = Duration::from_secs(30);

/// What one leg gave.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Leg {
    /// `subject` or `peer`.
    pub side: String,
    /// The pair it belongs to, from 1; 0 is the leg without objects.
    pub pair: usize,
    /// Objects in the kind when it started.
    pub objects: usize,
    /// Load average when it started.
    pub load_average: f64,
    /// Whether the machine was busy with something else.
    pub disturbed: bool,
    /// From exec until `/readyz` answered 200; nothing without a health address.
    pub exec_to_ready_ms: Option<f64>,
    /// From exec until the later of ready and its last request that is no watch and no lease.
    pub exec_to_settled_ms: Option<f64>,
    /// Its requests from exec to settled.
    pub requests_start: Tally,
    /// Its requests in the idle window.
    pub requests_idle: Tally,
    /// The two independent counts of the scenario's kind.
    pub cross_check: CrossCheck,
    /// Resident memory when settled.
    pub rss_settled_kib: Option<u64>,
    /// Resident memory after the silence.
    pub rss_idle_kib: Option<u64>,
    /// Peak memory from start to settled.
    pub peak_kib: Option<u64>,
    /// User plus system seconds from exec to settled.
    pub cpu_start_seconds: Option<f64>,
    /// Length of the idle window.
    pub idle_seconds: f64,
    /// Share of one core used in the idle window.
    pub idle_cpu_percent: Option<f64>,
    /// From SIGTERM to the end of the process.
    pub stop_ms: Option<f64>,
    /// Its exit code; nothing when a signal ended it.
    pub exit_code: Option<i32>,
    /// Events the independent watcher stamped.
    pub watcher_events: usize,
    /// Latencies of the scenario, from the watcher's raw stamps.
    pub latencies_ms: BTreeMap<String, Percentiles>,
    /// What the oracle found wrong.
    pub oracle: Vec<String>,
}

/// Follows the audit log and keeps what matters.
struct Counter {
    tail: Tail,
    kind: Kind,
    /// Requests of the process under test in the present window.
    window: Tally,
    /// All agents' requests of the kind since the start.
    of_kind: ByVerb,
    /// The last request of the process that is neither a watch nor about a lease.
    last_us: Option<i64>,
}

impl Counter {
    fn new(log: &Path, kind: Kind) -> Result<Self> {
        let tail = Tail::at_end(log)?;
        Ok(Self { tail, kind, window: Tally::default(), of_kind: ByVerb::new(), last_us: None })
    }

    fn read(&mut self) -> Result<()> {
        for r in self.tail.read()? {
            metrics::count(&mut self.of_kind, &r, self.kind.group, self.kind.plural);
            if r.of_subject() {
                self.window.add(&r);
                if r.verb != "watch" && !r.lease() {
                    self.last_us = self.last_us.max(Some(r.at_us));
                }
            }
        }
        Ok(())
    }
}

/// A started process under test.
struct Started {
    process: Process,
    ready_ms: Option<f64>,
}

async fn start(side: &Side, kubeconfig: &Path, log: &Path, bound: Duration) -> Result<Started> {
    let (health, metrics) = (child::free_address()?, child::free_address()?);
    let kubeconfig = kubeconfig.display().to_string();
    let values = [("kubeconfig", kubeconfig.as_str()), ("health", health.as_str()), ("metrics", metrics.as_str())];
    let argv = child::fill(&side.command, &values)?;
    let mut process = Process::start(side.name, &argv, log)?;
    if !side.command.iter().any(|w| w.contains("{health}")) {
        return Ok(Started { process, ready_ms: None });
    }
    loop {
        let ready = probe(&health, "/readyz").await.ok() == Some(200);
        let since = process.started.elapsed();
        if ready {
            return Ok(Started { process, ready_ms: Some(since.as_secs_f64() * 1e3) });
        }
        process.alive()?;
        if since > bound {
            bail!("the {} is not ready after {bound:?}; the end of its log:\n{}", side.name, process.log_end());
        }
        // Close enough for a bar of 300 ms at first, and no load of its own later.
        tokio::time::sleep(Duration::from_millis(if since.as_secs() < 2 { 3 } else { 20 })).await;
    }
}

/// Waits until the process has sent nothing for `pace.settle`; milliseconds from exec to its last request, or nothing when
/// it never falls silent.
async fn settle(started: &mut Started, counter: &mut Counter, pace: Pace) -> Result<Option<f64>> {
    let ready_us = started.ready_ms.map_or(0, |ms| (ms * 1e3).ceil() as i64);
    let (from, mut busy) = (Instant::now(), Busy::of(started.process.pid())?);
    loop {
        counter.read()?;
        started.process.alive()?;
        let requests = counter.last_us.unwrap_or(0).max(started.process.started_us + ready_us);
        let last = requests.max(busy.look(now_us())?.unwrap_or(0));
        if now_us() - last >= pace.settle.as_micros() as i64 {
            return Ok(Some((last - started.process.started_us) as f64 / 1e3));
        }
        if from.elapsed() > pace.settle_bound {
            return Ok(None);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Waits until nobody asks for the kind any more, so that both counts begin at the same request.
async fn quiet(counter: &mut Counter) -> Result<()> {
    let (mut last, bound) = (Instant::now(), Instant::now() + Duration::from_secs(120));
    while last.elapsed() < Duration::from_secs(1) && Instant::now() < bound {
        let before = counter.of_kind.clone();
        counter.read()?;
        if counter.of_kind != before {
            last = Instant::now();
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

/// Waits for a quiet machine; the load average at the end, and whether it stayed too busy. A machine that was waited for in
/// vain is not waited for again: the run is disturbed anyway, and shall end.
pub async fn wait_for_quiet_machine(bound: Duration) -> Result<(f64, bool)> {
    static IN_VAIN: AtomicBool = AtomicBool::new(false);
    let from = Instant::now();
    loop {
        let load = proc::load_average()?;
        if load <= QUIET_LOAD {
            return Ok((load, false));
        }
        if from.elapsed() >= bound || IN_VAIN.load(Ordering::Relaxed) {
            IN_VAIN.store(true, Ordering::Relaxed);
            return Ok((load, true));
        }
        tokio::time::sleep(Duration::from_secs(1).min(bound)).await;
    }
}

/// What the first run of a side on its data did.
#[derive(Clone, Debug, Serialize)]
pub struct Primed {
    /// `subject` or `peer`.
    pub side: String,
    /// Writes it made, leases apart.
    pub writes: u64,
    /// Seconds from exec to its last request.
    pub seconds: f64,
}

/// Runs a side once until it has settled, so that its data is what it would have written itself.
pub async fn prime(side: &Side, scenario: &dyn Scenario, data: &Path, pace: Pace) -> Result<Primed> {
    let server = Server::start(data).await?;
    let mut counter = Counter::new(&server.audit_log(), scenario.kind())?;
    let log = data.join(format!("{}-prime.log", side.name));
    let mut started = start(side, &server.kubeconfig(), &log, pace.settle_bound).await?;
    let Some(ms) = settle(&mut started, &mut counter, pace).await? else {
        let top: Vec<String> = counter.window.by_verb.iter().map(|(k, n)| format!("{k}: {n}")).collect();
        bail!(
            "the {} never fell silent within {:?} on the prepared data: {}",
            side.name,
            pace.settle_bound,
            top.join(", ")
        );
    };
    started.process.stop(STOP_BOUND).await?;
    server.stop().await?;
    Ok(Primed { side: side.name.to_owned(), writes: counter.window.writes, seconds: ms / 1e3 })
}

/// Measures one side on its prepared data; on an empty directory the definitions are installed first.
pub async fn run(
    side: &Side,
    scenario: &dyn Scenario,
    data: &Path,
    definitions: Option<&[Value]>,
    pair: usize,
    pace: Pace,
) -> Result<Leg> {
    let server = Server::start(data).await?;
    let kind = scenario.kind();
    let pool = Pool::connect(&server.kubeconfig(), 1, "berth-bench-runner").await?;
    if let Some(definitions) = definitions {
        seed::install(&pool, definitions, scenario).await?;
    }
    quiet(&mut Counter::new(&server.audit_log(), kind)?).await?;
    let before = oracle::snapshot(&pool, &kind.path()).await?;
    let mut watcher =
        Watcher::start(&server.kubeconfig(), &kind.path(), &before.version, &[], &data.join("watcher.log")).await?;
    let (load_average, disturbed) = wait_for_quiet_machine(pace.load_wait).await?;
    let metrics_before = kind_metrics(&pool, kind).await?;
    let mut counter = Counter::new(&server.audit_log(), kind)?;

    let log: PathBuf = data.join(format!("{}.log", side.name));
    let mut started = start(side, &server.kubeconfig(), &log, pace.settle_bound).await?;
    let pid = started.process.pid();
    let settled = settle(&mut started, &mut counter, pace).await?;
    let mut wrong = Vec::new();
    if settled.is_some()
        && scenario.drive(&pool).await.context("driving the scenario")?
        && settle(&mut started, &mut counter, pace).await?.is_none()
    {
        wrong.push(format!("not settled {:?} after the scenario's actions", pace.settle_bound));
    }
    let at_settled = proc::memory(pid)?;
    let mut leg = Leg {
        side: side.name.to_owned(),
        pair,
        objects: before.objects.len(),
        load_average,
        disturbed,
        exec_to_ready_ms: started.ready_ms,
        exec_to_settled_ms: settled,
        rss_settled_kib: Some(at_settled.rss_kib),
        peak_kib: Some(at_settled.peak_kib),
        cpu_start_seconds: Some(proc::cpu_seconds(pid)?),
        requests_start: std::mem::take(&mut counter.window),
        ..Leg::default()
    };
    idle(&mut leg, &mut started, &mut counter, pace).await?;
    let (took, status) = started.process.stop(STOP_BOUND).await?;
    leg.stop_ms = Some(took.as_secs_f64() * 1e3);
    leg.exit_code = status.code();

    let metrics_after = kind_metrics(&pool, kind).await?;
    counter.read()?;
    leg.cross_check = metrics::cross_check(&metrics_before, &metrics_after, std::mem::take(&mut counter.of_kind));
    let stamps = watcher.drain(Duration::from_millis(500)).await?;
    watcher.stop().await?;
    let after = oracle::snapshot(&pool, &kind.path()).await?;
    leg.watcher_events = stamps.len();
    leg.latencies_ms =
        scenario.latencies(&stamps).into_iter().filter_map(|(k, v)| Some((k, percentiles(&v)?))).collect();
    leg.oracle = wrong;
    leg.oracle.extend(scenario.oracle(&Ended { before: &before, after: &after, stamps: &stamps }));
    if !leg.cross_check.agrees {
        let CrossCheck { metric, audit, .. } = &leg.cross_check;
        leg.oracle.push(format!("requests of the kind differ: metric {metric:?}, audit log {audit:?}"));
    }
    if leg.exit_code != Some(0) {
        leg.oracle.push(format!("after SIGTERM the process ended with {status} instead of exit code 0"));
    }
    drop(pool);
    server.stop().await?;
    Ok(leg)
}

/// The idle window: processor, memory after the silence, requests.
async fn idle(leg: &mut Leg, started: &mut Started, counter: &mut Counter, pace: Pace) -> Result<()> {
    let pid = started.process.pid();
    let (from, cpu) = (Instant::now(), proc::cpu_seconds(pid)?);
    // The silence began when the process settled, `settle` ago.
    let silent_at = pace.silence.saturating_sub(pace.settle).min(pace.idle);
    while from.elapsed() < pace.idle {
        let left = pace.idle.saturating_sub(from.elapsed());
        tokio::time::sleep(left.min(Duration::from_millis(500))).await;
        started.process.alive()?;
        if leg.rss_idle_kib.is_none() && from.elapsed() >= silent_at {
            leg.rss_idle_kib = Some(proc::memory(pid)?.rss_kib);
        }
    }
    leg.idle_seconds = from.elapsed().as_secs_f64();
    leg.idle_cpu_percent = Some((proc::cpu_seconds(pid)? - cpu) / leg.idle_seconds.max(f64::EPSILON) * 100.0);
    leg.rss_idle_kib = leg.rss_idle_kib.or(Some(proc::memory(pid)?.rss_kib));
    counter.read()?;
    leg.requests_idle = std::mem::take(&mut counter.window);
    Ok(())
}

async fn kind_metrics(pool: &Pool, kind: Kind) -> Result<ByVerb> {
    let bytes = pool.ok(0, Method::GET, "/metrics", Body::None).await.context("reading the server's metrics")?;
    Ok(metrics::requests(&String::from_utf8_lossy(&bytes), kind.group, kind.plural))
}
