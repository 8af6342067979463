//! What the scenarios with a command of their own share: their flags, their directory, the process under test.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::Value;

use crate::audit::Tail;
use crate::ceiling::{self, Ceiling};
use crate::child::{self, Process, now_us};
use crate::http::probe;
use crate::proc::{self, Busy, Memory, Processors};
use crate::scenario::Shape;
use crate::server::Server;

/// How long the end of a run may take: W once more, and its documents.
const CLOSING: Duration = Duration::from_secs(300);

/// Flags that every scenario has.
#[derive(Debug, Args)]
pub struct Common {
    /// The program under test.
    #[arg(long, default_value = "target/release/berth")]
    pub subject: PathBuf,
    /// Where the JSON document goes; standard output without it.
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// Where the tables go as Markdown, with the command that made them.
    #[arg(long)]
    pub markdown: Option<PathBuf>,
    /// Requests of each kind for the ceiling W.
    #[arg(long, default_value_t = 3000, value_parser = clap::value_parser!(u64).range(10..=100_000))]
    pub ceiling_requests: u64,
    /// Silence before memory is read, in seconds.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(0..=3600))]
    pub silence_seconds: u64,
    /// How long to wait for a load average of at most 0.5, in seconds.
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u64).range(0..=3600))]
    pub load_wait_seconds: u64,
    /// How long any one thing is waited for before the run is given up, in seconds.
    #[arg(long, default_value_t = 600, value_parser = clap::value_parser!(u64).range(5..=86_400))]
    pub wait_seconds: u64,
    /// No part goes on after this long, in seconds; what was measured by then is printed.
    #[arg(long, default_value_t = 3600, value_parser = clap::value_parser!(u64).range(10..=86_400))]
    pub time_limit_seconds: u64,
    /// Where servers keep their data while they run; removed at the end.
    #[arg(long, default_value = "target/bench")]
    pub work_dir: PathBuf,
    /// End with exit code 0 although the machine was busy; the document is marked either way.
    #[arg(long)]
    pub allow_disturbed: bool,
    /// End with exit code 1 when a budget is missed.
    #[arg(long)]
    pub gate: bool,
}

impl Common {
    /// The most that all parts together may take.
    fn limit(&self) -> Duration {
        Duration::from_secs(self.time_limit_seconds)
    }

    /// The most that the whole run may take: its parts, and W once more.
    pub fn end(&self) -> Duration {
        self.limit() + CLOSING
    }
}

/// One run: its directory and its clock.
pub struct Stage<'a> {
    /// The flags.
    pub args: &'a Common,
    /// Load average before anything began, and whether it was too high.
    pub load: (f64, bool),
    /// Processor time of the machine before anything began.
    pub processors: Processors,
    began: Instant,
    work: tempfile::TempDir,
}

impl<'a> Stage<'a> {
    /// Checks the flags, makes a directory and waits for a quiet machine.
    pub async fn set(name: &str, args: &'a Common) -> Result<Self> {
        if !args.subject.is_file() {
            bail!("--subject {} is not a file", args.subject.display());
        }
        std::fs::create_dir_all(&args.work_dir).with_context(|| format!("creating {}", args.work_dir.display()))?;
        let work = tempfile::Builder::new().prefix(&format!("{name}-")).tempdir_in(&args.work_dir);
        let work = work.with_context(|| format!("creating a directory in {}", args.work_dir.display()))?;
        let began = Instant::now();
        let load = crate::leg::wait_for_quiet_machine(Duration::from_secs(args.load_wait_seconds)).await?;
        Ok(Self { args, load, processors: Processors::now()?, began, work })
    }

    /// A line for whoever waits.
    pub fn say(&self, text: &str) {
        eprintln!("berth-bench: {:>6.1} s: {text}", self.began.elapsed().as_secs_f64());
    }

    /// Seconds since the run began.
    pub fn seconds(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// A file or directory of the run.
    pub fn path(&self, name: &str) -> PathBuf {
        self.work.path().join(name)
    }

    /// How long any one thing is waited for.
    pub fn patience(&self) -> Duration {
        Duration::from_secs(self.args.wait_seconds)
    }

    /// The same for so many objects, a tenth of a second each.
    pub fn patience_for(&self, objects: usize) -> Duration {
        self.patience() + Duration::from_millis(100) * u32::try_from(objects).unwrap_or(u32::MAX)
    }

    /// What a printing command of the subject writes, such as `crds`.
    pub async fn documents(&self, command: &str) -> Result<Vec<Value>> {
        printed(&[self.args.subject.display().to_string(), command.to_owned()]).await
    }

    /// Measures W with objects of this shape, on a server of its own.
    pub async fn ceiling(&self, definitions: &[Value], shape: &dyn Shape) -> Result<Ceiling> {
        self.say("measuring W, the ceiling of the server itself");
        let requests = usize::try_from(self.args.ceiling_requests).context("--ceiling-requests")?;
        ceiling::measure(&self.path("ceiling"), definitions, shape, 1, requests, Duration::ZERO).await
    }

    /// Starts the process under test with more flags and waits until it is ready.
    pub async fn subject(&self, server: &Server, name: &str, flags: &[String]) -> Result<Subject> {
        self.subject_in(&[], server, name, flags).await
    }

    /// The same with more variables, each `NAME=value`.
    pub async fn subject_in(&self, env: &[String], server: &Server, name: &str, flags: &[String]) -> Result<Subject> {
        let (health, metrics) = (child::free_address()?, child::free_address()?);
        let mut argv = vec!["env".to_owned()];
        argv.extend_from_slice(env);
        argv.extend([self.args.subject.display().to_string(), "run".to_owned()]);
        let kubeconfig = server.kubeconfig().display().to_string();
        argv.extend(
            ["--kubeconfig", &kubeconfig, "--health-addr", &health, "--metrics-bind-address", &metrics]
                .map(str::to_owned),
        );
        argv.extend_from_slice(flags);
        self.started(name, &argv, Some(&health), metrics).await
    }

    /// Starts another controller: a command whose placeholders are filled in. One that says where its health is asked for is
    /// waited for.
    pub async fn other(&self, server: &Server, name: &str, command: &[String]) -> Result<Subject> {
        let (health, metrics) = (child::free_address()?, child::free_address()?);
        let kubeconfig = server.kubeconfig().display().to_string();
        let argv = child::fill(command, &[("kubeconfig", &kubeconfig), ("health", &health), ("metrics", &metrics)])?;
        let tells = command.iter().any(|word| word.contains("{health}"));
        self.started(name, &argv, tells.then_some(health.as_str()), metrics).await
    }

    async fn started(&self, name: &str, argv: &[String], health: Option<&str>, metrics: String) -> Result<Subject> {
        let mut process = Process::start(name, argv, &self.path(&format!("{name}.log")))?;
        let until = process.started + self.patience();
        while let Some(address) = health
            && probe(address, "/readyz").await.ok() != Some(200)
        {
            process.alive()?;
            if Instant::now() > until {
                bail!("{name} is not ready after {:?}; its log:\n{}", self.patience(), process.log_end());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let ready_ms = process.started.elapsed().as_secs_f64() * 1e3;
        Ok(Subject { process, ready_ms, at_work_us: None, metrics })
    }

    /// Runs one part within what is left of the time. What goes wrong in it stands in the document under its name; what
    /// other parts measured is not lost with it.
    pub async fn part<T>(
        &self,
        name: &str,
        wrong: &mut Vec<String>,
        work: impl Future<Output = Result<(T, Vec<String>)>>,
    ) -> Option<T> {
        let left = self.args.limit().saturating_sub(self.began.elapsed());
        match bounded(left, work).await {
            Ok((figures, problems)) => {
                wrong.extend(problems.into_iter().map(|problem| format!("{name}: {problem}")));
                Some(figures)
            }
            Err(error) => {
                self.say(&format!("{name}: {error:#}"));
                wrong.push(format!("{name}: {error:#}"));
                None
            }
        }
    }

    /// Memory after the silence.
    pub async fn memory(&self, subject: &Subject) -> Result<Memory> {
        tokio::time::sleep(Duration::from_secs(self.args.silence_seconds)).await;
        proc::memory(subject.process.pid())
    }
}

/// The process under test.
pub struct Subject {
    /// The process.
    pub process: Process,
    /// Milliseconds from exec until it said that it is ready.
    pub ready_ms: f64,
    /// When it was last seen at work.
    pub at_work_us: Option<i64>,
    metrics: String,
}

impl Subject {
    /// User and system seconds so far.
    pub fn cpu_seconds(&self) -> Result<f64> {
        proc::cpu_seconds(self.process.pid())
    }

    /// The sum of all samples of one of its metrics; labels do not matter.
    pub async fn metric(&self, name: &str) -> Result<f64> {
        let text = crate::http::text(&self.metrics, "/metrics").await?;
        Ok(sum(&text, name))
    }

    /// Waits until for `quiet` it was not at work and has asked the server for nothing but leases, at most `bound`; whether it
    /// fell silent.
    pub async fn silent(&mut self, server: &Server, quiet: Duration, bound: Duration) -> Result<bool> {
        let (mut audit, mut busy) = (Tail::at_end(&server.audit_log())?, Busy::of(self.process.pid())?);
        let (mut last, until) = (Instant::now(), Instant::now() + bound);
        while last.elapsed() < quiet {
            if Instant::now() > until {
                return Ok(false);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
            self.process.alive()?;
            let at_work = busy.look(now_us())?;
            let asked = audit.read()?.iter().any(|r| r.of_subject() && r.verb != "watch" && !r.lease());
            if asked || at_work > self.at_work_us {
                last = Instant::now();
            }
            self.at_work_us = self.at_work_us.max(at_work);
        }
        Ok(true)
    }

    /// Asks it to end; ending otherwise than with exit code 0 is an error.
    pub async fn stop(self) -> Result<()> {
        let log = self.process.log_end();
        let (_, status) = self.process.stop(Duration::from_secs(30)).await?;
        if !status.success() {
            bail!("after SIGTERM the process ended with {status} instead of exit code 0; its log:\n{log}");
        }
        Ok(())
    }
}

/// Processor seconds of the process under test and of the server, which share a machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Used {
    /// The process.
    pub subject: f64,
    /// The server.
    pub server: f64,
}

impl Used {
    /// Until now.
    pub fn now(subject: &Subject, server: &Server) -> Result<Self> {
        Ok(Self { subject: subject.cpu_seconds()?, server: server.cpu_seconds()? })
    }

    /// Since an earlier moment.
    pub fn since(self, earlier: Self) -> Self {
        Self { subject: self.subject - earlier.subject, server: self.server - earlier.server }
    }

    /// How much of what both used is the process's.
    pub fn share_percent(self) -> f64 {
        self.subject * 100.0 / (self.subject + self.server).max(f64::EPSILON)
    }
}

fn sum(text: &str, name: &str) -> f64 {
    let samples = text.lines().filter_map(|line| {
        let rest = line.strip_prefix(name)?;
        (rest.starts_with('{') || rest.starts_with(' ')).then(|| rest.rsplit(' ').next())?
    });
    samples.filter_map(|value| value.parse::<f64>().ok()).sum()
}

/// Kibibytes more than at another moment, for each of `count` things.
pub fn kib_each(more: u64, less: u64, count: u64) -> Option<f64> {
    (count > 0).then(|| (more as f64 - less as f64).max(0.0) / count as f64)
}

/// The port of an address.
pub fn port(address: &str) -> Result<u16> {
    address.rsplit(':').next().and_then(|port| port.parse().ok()).with_context(|| format!("the port of {address}"))
}

/// The objects that a command prints.
pub async fn printed(command: &[String]) -> Result<Vec<Value>> {
    let text = child::printed(command).await?;
    let all: Vec<Value> =
        serde_saphyr::from_multiple(&text).with_context(|| format!("reading what `{}` printed", command.join(" ")))?;
    Ok(all.into_iter().flat_map(sim::plane::objects).collect())
}

/// Runs something within its time; what it has started ends with it.
pub async fn bounded<T>(limit: Duration, work: impl Future<Output = Result<T>>) -> Result<T> {
    let seconds = limit.as_secs();
    tokio::time::timeout(limit, work)
        .await
        .unwrap_or_else(|_| bail!("given up after {seconds} s; --time-limit-seconds allows more"))
}

/// Removes a directory of the run early, because disks are small.
pub fn clear(dir: &Path) -> Result<()> {
    std::fs::remove_dir_all(dir).with_context(|| format!("removing {}", dir.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_one_name_are_added_and_longer_names_left_out() {
        let text = "# TYPE a counter\na_total{x=\"1 2\"} 2\na_total{x=\"3\"} 3.5\na_total_more 9\nb_sum 4\n";
        assert_eq!((sum(text, "a_total"), sum(text, "b_sum"), sum(text, "c")), (5.5, 4.0, 0.0));
    }

    #[derive(clap::Parser)]
    struct Flags {
        #[command(flatten)]
        common: Common,
    }

    #[tokio::test(start_paused = true)]
    async fn a_part_that_fails_or_takes_too_long_costs_no_other_part() {
        let flags = <Flags as clap::Parser>::parse_from(["bench", "--time-limit-seconds", "60"]);
        let work = tempfile::tempdir().unwrap();
        let processors = Processors::default();
        let stage = Stage { args: &flags.common, load: (0.0, false), processors, began: Instant::now(), work };
        let mut wrong = Vec::new();
        let good = stage.part("good", &mut wrong, async { Ok((1, vec!["one was lost".to_owned()])) }).await;
        let bad = stage.part::<u8>("bad", &mut wrong, async { bail!("no server") }).await;
        let slow = stage.part::<u8>("slow", &mut wrong, std::future::pending()).await;
        assert_eq!((good, bad, slow), (Some(1), None, None));
        assert_eq!(wrong.first().map(String::as_str), Some("good: one was lost"));
        assert_eq!(wrong.get(1).map(String::as_str), Some("bad: no server"));
        assert!(wrong.get(2).is_some_and(|told| told.starts_with("slow: given up after ")), "{wrong:?}");
    }

    #[test]
    fn nothing_is_divided_by_nothing() {
        assert_eq!(kib_each(300, 100, 100), Some(2.0));
        assert_eq!(kib_each(100, 300, 100), Some(0.0));
        assert_eq!(kib_each(300, 100, 0), None);
    }
}
