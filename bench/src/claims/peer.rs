//! Another controller on the same claims and hosts.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use super::report::Theirs;
use super::world::{CLAIMS, HOSTS, tenant, tenants};
use super::{QUIET, Scene, Side, catch_up, create_all, oracle};
use crate::audit::Tail;
use crate::http::Pool;
use crate::stage::{self, Stage, Used};
use crate::stats::percentiles;
use crate::{child, proc, run};

/// What a controller that has bound everything still has to store of it; no longer, because some never rest.
const LAST_WRITES: Duration = Duration::from_secs(30);

/// A command with placeholders.
#[derive(Clone, Debug)]
pub struct Command {
    /// As it was given.
    pub line: String,
    /// Its words.
    pub words: Vec<String>,
}

/// Reads a command that may have the placeholders of a controller, before anything is started.
pub fn command(line: &str) -> Result<Command, String> {
    read(line, &[("kubeconfig", "k"), ("health", "h"), ("metrics", "m")]).map_err(|error| format!("{error:#}"))
}

/// Reads a command without placeholders.
pub fn plain_command(line: &str) -> Result<Command, String> {
    read(line, &[]).map_err(|error| format!("{error:#}"))
}

fn read(line: &str, known: &[(&str, &str)]) -> Result<Command> {
    let words = child::words(line)?;
    child::fill(&words, known)?;
    run::program(Path::new(words.first().context("the command is empty")?))?;
    Ok(Command { line: line.to_owned(), words })
}

/// As many claims as hosts, all at once, for as long as the limit allows. It is told what was bound by then, and the oracle
/// judges what is there once the controller was stopped.
pub async fn bind(
    stage: &Stage<'_>,
    definitions: &[Value],
    count: u64,
    (command, limit): (&Command, Duration),
    dir: &Path,
) -> Result<(Theirs, Vec<String>)> {
    stage.say(&format!("{count} claims on {count} hosts for {}", command.line));
    let n = usize::try_from(count).context("too many claims")?;
    let namespaces = (0..tenants(count)).map(tenant).collect();
    let side = Side::Other(command, limit.min(stage.patience()));
    let mut scene = Scene::set(stage, definitions, dir, count, namespaces, side).await?;

    let mut audit = Tail::at_end(&scene.server.audit_log())?;
    let used = Used::now(&scene.subject, &scene.server)?;
    stage.say(&format!("creating {count} claims"));
    let driver = Pool::connect(&scene.server.kubeconfig(), 8, "berth-bench-driver").await?;
    let (waited, created) = tokio::join!(scene.until_bound(n, limit), create_all(&driver, count));
    let create_seconds = created?;
    scene.subject.process.alive()?;
    let bound = scene.seen.bound.len();
    match waited {
        Ok(()) => {
            scene.subject.silent(&scene.server, QUIET, LAST_WRITES).await?;
        }
        // A clock that stopped is an error below; time that ran out is a result.
        Err(error) => stage.say(&format!("{error:#}")),
    }
    let used = Used::now(&scene.subject, &scene.server)?.since(used);
    let requests = audit.of_subject()?;
    let peak_kib = proc::memory(scene.subject.process.pid())?.peak_kib;

    let Scene { server, pool, subject, mut claims, mut hosts, mut seen, settled, .. } = scene;
    subject.stop().await?;
    let seconds = if bound < n { limit.as_secs_f64() } else { seen.span_seconds().unwrap_or_default() };
    let ms = percentiles(&seen.bind_ms(|_| true));
    catch_up(&mut seen, &mut claims, &mut hosts).await?;
    let mut wrong = oracle::judge(&pool, n, (bound == n).then_some(n)).await?;
    wrong.extend(seen.snatched());
    let own_writes = requests.writes_to(&[CLAIMS, HOSTS]);
    let each = |value: f64| (bound > 0).then(|| value / bound as f64);
    let figures = Theirs {
        settled,
        bound: bound as u64,
        seconds,
        per_second: bound as f64 / seconds.max(f64::EPSILON),
        ratio: None,
        create_seconds,
        ms,
        writes_per_bind: each(own_writes as f64),
        other_writes: requests.writes - requests.events - own_writes,
        conflicts: requests.conflicts,
        cpu_ms_per_bind: each(used.subject * 1e3),
        cpu_share_percent: used.share_percent(),
        peak_kib,
        requests: requests.by_verb,
    };
    claims.stop().await?;
    hosts.stop().await?;
    drop(pool);
    server.stop().await?;
    stage::clear(dir)?;
    Ok((figures, wrong))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_cannot_run_is_refused_before_anything_is_started() {
        let good = command("env A=b sh --kubeconfig {kubeconfig} --health={health} -m {metrics}").unwrap();
        assert_eq!(good.words.get(2).map(String::as_str), Some("sh"));
        for (line, part) in
            [("", "empty"), ("sh {nope}", "nope"), ("sh 'x", "quote"), ("./no/such/program", "not there")]
        {
            assert!(command(line).unwrap_err().contains(part), "{line}");
        }
        assert!(plain_command("sh {kubeconfig}").is_err() && plain_command("cat a.yaml").is_ok());
    }
}
