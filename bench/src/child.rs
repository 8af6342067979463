//! Child processes: started from templates, logged to files, stopped by pid on every way out.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use tokio::process::{Child, Command};

/// A running child; dropping it kills it.
pub struct Process {
    child: Child,
    // Ends the child when this program is killed and cannot do it itself; see [`guard`].
    _guard: Child,
    pid: u32,
    name: String,
    log: PathBuf,
    /// When it was started.
    pub started: Instant,
    /// The same moment in microseconds of the Unix clock, to compare with the audit log.
    pub started_us: i64,
}

/// Microseconds of the Unix clock.
pub fn now_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// Splits a command line into words; single and double quotes hold a word together, nothing else is special.
pub fn words(line: &str) -> Result<Vec<String>> {
    let (mut out, mut word, mut open, mut quote) = (Vec::new(), String::new(), false, None);
    for c in line.chars() {
        match (quote, c) {
            (Some(q), c) if c == q => quote = None,
            (Some(_), c) => word.push(c),
            (None, '\'' | '"') => (quote, open) = (Some(c), true),
            (None, c) if c.is_whitespace() => {
                if open {
                    out.push(std::mem::take(&mut word));
                }
                open = false;
            }
            (None, c) => {
                word.push(c);
                open = true;
            }
        }
    }
    if quote.is_some() {
        bail!("a quote is not closed in {line:?}");
    }
    if open {
        out.push(word);
    }
    Ok(out)
}

/// Replaces `{name}` in every word; an unknown placeholder is an error.
pub fn fill(words: &[String], values: &[(&str, &str)]) -> Result<Vec<String>> {
    words
        .iter()
        .map(|w| {
            let done = values.iter().fold(w.clone(), |s, (name, value)| s.replace(&format!("{{{name}}}"), value));
            match done.split_once('{').and_then(|(_, r)| r.split_once('}')) {
                Some((name, _)) if !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase()) => {
                    let known: Vec<&str> = values.iter().map(|(n, _)| *n).collect();
                    bail!("unknown placeholder {{{name}}} in {w:?}; known: {}", known.join(", "))
                }
                _ => Ok(done),
            }
        })
        .collect()
}

/// What a command that prints and ends has printed; it has a minute.
pub async fn printed(command: &[String]) -> Result<String> {
    let (program, args) = command.split_first().context("the command is empty")?;
    let ran = Command::new(program).args(args).kill_on_drop(true).output();
    let out = tokio::time::timeout(Duration::from_secs(60), ran)
        .await
        .with_context(|| format!("{program} did not end within 60 s"))?
        .with_context(|| format!("running {program}"))?;
    if !out.status.success() {
        bail!("{} failed ({}): {}", command.join(" "), out.status, String::from_utf8_lossy(&out.stderr).trim());
    }
    String::from_utf8(out.stdout).with_context(|| format!("what {program} printed is not UTF-8"))
}

/// A free TCP port on loopback, as an address.
pub fn free_address() -> Result<String> {
    Ok(format!("127.0.0.1:{}", sim::plane::free_port()?))
}

/// A shell that waits on a pipe this program holds: a closed pipe is the one trace even a killed program leaves.
fn guard(pid: u32) -> std::io::Result<Child> {
    Command::new("sh")
        .args(["-c", "read -r _; kill -TERM \"$0\"", &pid.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
}

impl Process {
    /// Starts a command with both outputs appended to `log`.
    pub fn start(name: &str, argv: &[String], log: &Path) -> Result<Self> {
        let out = File::options().create(true).append(true).open(log).context("creating a log file")?;
        let err = out.try_clone().context("creating a log file")?;
        Self::spawn(name, argv, log, Stdio::null(), out.into(), err.into())
    }

    /// Starts a command whose input and output the caller holds; errors go to `log`.
    pub fn piped(name: &str, argv: &[String], log: &Path) -> Result<Self> {
        let err = File::options().create(true).append(true).open(log).context("creating a log file")?;
        Self::spawn(name, argv, log, Stdio::piped(), Stdio::piped(), err.into())
    }

    fn spawn(name: &str, argv: &[String], log: &Path, input: Stdio, out: Stdio, err: Stdio) -> Result<Self> {
        let (program, args) = argv.split_first().with_context(|| format!("the command of {name} is empty"))?;
        let mut command = Command::new(program);
        command.args(args).stdin(input).stdout(out).stderr(err).kill_on_drop(true);
        let (started, started_us) = (Instant::now(), now_us());
        let child = command.spawn().with_context(|| format!("starting {name} ({program})"))?;
        let pid = child.id().with_context(|| format!("{name} ended at once"))?;
        let _guard = guard(pid).with_context(|| format!("starting the guard of {name}"))?;
        Ok(Self { child, _guard, pid, name: name.to_owned(), log: log.to_owned(), started, started_us })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The pipes of a process started with [`Process::piped`].
    pub fn pipes(&mut self) -> (Option<tokio::process::ChildStdin>, Option<tokio::process::ChildStdout>) {
        (self.child.stdin.take(), self.child.stdout.take())
    }

    /// Fails with the end of its log when the process is not running any more.
    pub fn alive(&mut self) -> Result<()> {
        match self.child.try_wait().with_context(|| format!("looking at {}", self.name))? {
            None => Ok(()),
            Some(status) => bail!("{} ended early ({status}); the end of its log:\n{}", self.name, self.log_end()),
        }
    }

    /// The last lines it logged.
    pub fn log_end(&self) -> String {
        let text = std::fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines.iter().skip(lines.len().saturating_sub(15)).map(|l| format!("  {l}\n")).collect()
    }

    /// Asks it to end (SIGTERM) and waits; how long that took and how it ended. After `bound` it is killed, which is an
    /// error.
    pub async fn stop(mut self, bound: Duration) -> Result<(Duration, ExitStatus)> {
        let began = Instant::now();
        // The standard library can only kill; the shell's builtin sends the polite signal to exactly this pid.
        let sent =
            Command::new("sh").args(["-c", "kill -TERM \"$0\"", &self.pid.to_string()]).kill_on_drop(true).output();
        let sent = sent.await.with_context(|| format!("sending SIGTERM to {}", self.name))?;
        match tokio::time::timeout(bound, self.child.wait()).await {
            Ok(status) => Ok((began.elapsed(), status.with_context(|| format!("waiting for {}", self.name))?)),
            Err(_) => {
                self.child.kill().await.with_context(|| format!("killing {}", self.name))?;
                bail!(
                    "{} did not end within {bound:?} of SIGTERM and was killed {}",
                    self.name,
                    String::from_utf8_lossy(&sent.stderr)
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_hold_words_together() {
        assert_eq!(words("a  'b c' d\"e f\" ''").unwrap(), ["a", "b c", "de f", ""]);
        assert!(words("a 'b").is_err());
        assert!(words("  ").unwrap().is_empty());
    }

    #[test]
    fn placeholders_are_filled_and_unknown_ones_are_refused() {
        let w = words("run --k={kubeconfig} {health} {\"x\":1}").unwrap();
        let values = [("kubeconfig", "/k"), ("health", "h:1")];
        assert_eq!(fill(&w, &values).unwrap().join(" "), "run --k=/k h:1 {x:1}");
        let e = fill(&words("{nope}").unwrap(), &values).unwrap_err().to_string();
        assert!(e.contains("{nope}") && e.contains("kubeconfig"), "{e}");
    }

    #[tokio::test]
    async fn a_child_that_ignores_the_signal_is_killed_and_that_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let argv = words("sh -c 'trap : TERM; echo armed; while :; do read x; done <&2'").unwrap();
        let mut p = Process::piped("stubborn", &argv, &log).unwrap();
        use tokio::io::AsyncReadExt;
        let (_in, out) = p.pipes();
        let mut byte = [0u8; 1];
        out.unwrap().read_exact(&mut byte).await.unwrap();
        let e = p.stop(Duration::from_millis(200)).await.unwrap_err().to_string();
        assert!(e.contains("stubborn") && e.contains("killed"), "{e}");
    }

    #[tokio::test]
    async fn an_early_end_is_told_with_the_log() {
        let dir = tempfile::tempdir().unwrap();
        let argv = words("sh -c 'echo the reason; exit 3'").unwrap();
        let mut p = Process::start("frail", &argv, &dir.path().join("log")).unwrap();
        p.child.wait().await.unwrap();
        let e = p.alive().unwrap_err().to_string();
        assert!(e.contains("frail") && e.contains("the reason"), "{e}");
    }
}
