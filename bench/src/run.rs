//! A whole run: prepare the data, measure W around each pair, alternate the sides, report.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::ceiling::{self, Ceiling};
use crate::child;
use crate::cli::Run;
use crate::http::Pool;
use crate::leg::{self, Leg, Pace, Primed, Side};
use crate::report::{Report, Result as Outcome};
use crate::scenario::{self, Scenario};
use crate::server::{Server, copy_data};
use crate::{proc, seed};

/// A flag that cannot be used; nothing was started.
#[derive(Debug)]
pub struct BadFlag {
    /// The flag.
    pub flag: &'static str,
    /// What is wrong with it.
    pub why: String,
}

/// What a run works with, all flags checked.
pub struct Plan {
    args: Run,
    scenario: Box<dyn Scenario>,
    sides: Vec<Side>,
    crds: Vec<String>,
    subject: PathBuf,
}

impl Plan {
    /// Checks every flag before anything is started.
    pub fn new(args: Run) -> std::result::Result<Self, BadFlag> {
        let bad = |flag: &'static str| move |e: anyhow::Error| BadFlag { flag, why: format!("{e:#}") };
        let scenario = scenario::all()
            .into_iter()
            .find(|s| s.name() == args.scenario)
            .ok_or_else(|| BadFlag { flag: "--scenario", why: format!("no scenario {}", args.scenario) })?;
        let subject = program(&args.subject).map_err(bad("--subject"))?;
        let check = |flag: &'static str, line: &str, own: Option<&Path>| {
            let template = child::words(line).map_err(bad(flag))?;
            let trial = [("kubeconfig", "k"), ("health", "h"), ("metrics", "m"), ("subject", "s")];
            child::fill(&template, if flag == "--crds" { &trial } else { trial.get(..3).unwrap_or_default() })
                .map_err(bad(flag))?;
            let mut all: Vec<String> = own.map(|p| p.display().to_string()).into_iter().collect();
            all.extend(template);
            match all.first() {
                None => Err(BadFlag { flag, why: "the command is empty".into() }),
                Some(first) if first != "{subject}" => program(Path::new(first)).map_err(bad(flag)).map(|_| all),
                Some(_) => Ok(all),
            }
        };
        let mut sides =
            vec![Side { name: "subject", command: check("--subject-args", &args.subject_args, Some(&subject))? }];
        if let Some(peer) = &args.peer {
            sides.push(Side { name: "peer", command: check("--peer", peer, None)? });
        }
        let crds = child::fill(&check("--crds", &args.crds, None)?, &[("subject", &subject.display().to_string())])
            .map_err(bad("--crds"))?;
        if let Some(dir) = args.out.as_deref().and_then(Path::parent).filter(|d| !d.as_os_str().is_empty())
            && !dir.is_dir()
        {
            return Err(BadFlag { flag: "--out", why: format!("{} is not a directory", dir.display()) });
        }
        Ok(Self { args, scenario, sides, crds, subject })
    }

    /// The flags.
    pub fn args(&self) -> &Run {
        &self.args
    }

    /// Where the document goes.
    pub fn out(&self) -> Option<&Path> {
        self.args.out.as_deref()
    }
}

/// The file of a program: a path as it is, a bare name from `PATH`.
pub fn program(path: &Path) -> Result<PathBuf> {
    if path.components().count() > 1 {
        return path.canonicalize().with_context(|| format!("{} is not there", path.display()));
    }
    let dirs = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&dirs)
        .map(|d| d.join(path))
        .find(|p| p.is_file())
        .with_context(|| format!("{} is not on the PATH", path.display()))
}

/// Runs the plan to its report.
pub async fn run(plan: &Plan) -> Result<Report> {
    let Plan { args, scenario, sides, .. } = plan;
    let scenario = scenario.as_ref();
    let pace = args.pace();
    let began = Instant::now();
    let say = |text: &str| eprintln!("berth-bench: {:>6.1} s: {text}", began.elapsed().as_secs_f64());
    std::fs::create_dir_all(&args.work_dir).with_context(|| format!("creating {}", args.work_dir.display()))?;
    let work = tempfile::Builder::new().prefix("run-").disable_cleanup(args.keep).tempdir_in(&args.work_dir);
    let work = work.with_context(|| format!("creating a directory in {}", args.work_dir.display()))?;
    let dir = |name: &str| work.path().join(name);
    let definitions = definitions(&plan.crds).await?;
    let binary = proc::binary(&plan.subject, work.path()).context("looking at --subject")?;

    say("measuring W before pair 1");
    let mut ceilings = vec![measure(&dir("ceiling"), &definitions, plan).await?];

    let empty = match sides.first() {
        Some(subject) if args.objects > 0 && !args.no_empty_leg => {
            say("the subject without objects");
            // Memory is read after a minute of silence; the long idle window belongs to the legs with objects.
            let pace = Pace { idle: pace.idle.min(pace.silence), ..pace };
            Some(one(subject, scenario, &dir("leg"), Some(&definitions), 0, pace).await?)
        }
        _ => None,
    };
    let mut primed: Vec<Primed> = Vec::new();
    for side in sides {
        say(&format!("{} objects on which the {} has settled", args.objects, side.name));
        primed.push(prepare(side, plan, &dir(side.name), &definitions).await?);
    }

    let mut legs: Vec<Leg> = Vec::new();
    for pair in 1..=args.pairs() {
        for side in sides {
            say(&format!("pair {pair} of {}: {}", args.pairs(), side.name));
            copy_data(&dir(side.name), &dir("leg"))?;
            legs.push(one(side, scenario, &dir("leg"), None, pair, pace).await?);
        }
        if !args.quick {
            say(&format!("measuring W after pair {pair}"));
            ceilings.push(measure(&dir("ceiling"), &definitions, plan).await?);
        }
    }
    if args.keep {
        say(&format!("data and logs are kept in {}", work.path().display()));
    }
    Ok(Report::new(args, scenario, sides, binary, ceilings, empty, primed, legs))
}

/// Objects that each side settles on by itself, whatever their number.
const SAMPLE: u64 = 20;

/// Fills `data` with objects that a side has nothing to do for. It settles on some of them by itself, and the others get the
/// state that it gave to those; where it gave them different ones, it settles on all by itself.
async fn prepare(side: &Side, plan: &Plan, data: &Path, definitions: &[Value]) -> Result<Primed> {
    let (args, scenario, pace) = (&plan.args, plan.scenario.as_ref(), plan.args.pace());
    let sample = args.objects.min(SAMPLE);
    let server = Server::unlogged(data).await?;
    let pool = Pool::connect(&server.kubeconfig(), 8, "berth-bench-seed").await?;
    seed::install(&pool, definitions, scenario).await?;
    seed::fill(&pool, scenario, args.seed, (0, sample)).await?;
    drop(pool);
    server.stop().await?;
    let primed = leg::prime(side, scenario, data, pace).await?;
    if args.objects <= sample {
        return Ok(primed);
    }
    let server = Server::unlogged(data).await?;
    let alike = seed::multiply(&server, scenario, args.seed, (sample, args.objects)).await?;
    if !alike {
        let pool = Pool::connect(&server.kubeconfig(), 8, "berth-bench-seed").await?;
        seed::fill(&pool, scenario, args.seed, (sample, args.objects)).await?;
    }
    server.stop().await?;
    if alike { Ok(primed) } else { leg::prime(side, scenario, data, pace).await }
}

/// One leg in `data`, which is removed afterwards.
async fn one(
    side: &Side,
    scenario: &dyn Scenario,
    data: &Path,
    definitions: Option<&[Value]>,
    pair: usize,
    pace: Pace,
) -> Result<Leg> {
    let leg = leg::run(side, scenario, data, definitions, pair, pace)
        .await
        .with_context(|| format!("leg of the {} in pair {pair}", side.name))?;
    std::fs::remove_dir_all(data).with_context(|| format!("removing {}", data.display()))?;
    Ok(leg)
}

async fn measure(dir: &Path, definitions: &[Value], plan: &Plan) -> Result<Ceiling> {
    let Plan { args, scenario, .. } = plan;
    ceiling::measure(dir, definitions, scenario.as_ref(), args.seed, args.ceiling(), args.pace().load_wait).await
}

async fn definitions(command: &[String]) -> Result<Vec<Value>> {
    seed::definitions(&child::printed(command).await?)
}

/// The exit code for a report.
pub fn exit_code(report: &Report, args: &Run) -> u8 {
    match report.result {
        Outcome::Failed => 1,
        _ if args.gate && report.budgets.iter().any(|b| !b.pass) => 1,
        Outcome::Disturbed if !args.allow_disturbed => 3,
        Outcome::Disturbed | Outcome::Passed => 0,
    }
}
