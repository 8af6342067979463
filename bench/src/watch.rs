//! The clock: a process of its own that watches a kind over its own connection, without a cache, and stamps events.

use std::io::{Read, Write};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use http_body_util::BodyExt;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::ChildStdin;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinSet;

use crate::child::{Process, now_us};
use crate::http::Pool;

/// A server that has just been started reads its store before it lets anybody watch: a hundred thousand objects take it
/// more than half a minute.
const STANDS: Duration = Duration::from_secs(300);

/// One stamped event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Stamp {
    /// When the watcher read it, in microseconds of the Unix clock.
    pub at_us: i64,
    /// `OPEN` once the watch stands, then `ADDED`, `MODIFIED` or `DELETED`.
    #[serde(rename = "type")]
    pub event: String,
    /// `namespace/name`, or the name of a cluster-scoped object.
    #[serde(default)]
    pub key: String,
    /// The object's resource version.
    #[serde(default)]
    pub version: String,
    /// Types of the conditions that are `True`.
    #[serde(default)]
    pub conditions: Vec<String>,
    /// The texts at the places that were asked for, in that order; empty where there is none.
    #[serde(default)]
    pub shown: Vec<String>,
}

impl Stamp {
    /// The text at the n-th place that was asked for.
    pub fn shows(&self, n: usize) -> &str {
        self.shown.get(n).map(String::as_str).unwrap_or_default()
    }

    /// Whether a condition is `True`.
    pub fn is(&self, condition: &str) -> bool {
        self.conditions.iter().any(|c| c == condition)
    }
}

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    event: String,
    object: Object,
}

#[derive(Deserialize)]
struct Object {
    #[serde(default)]
    metadata: Meta,
    #[serde(default)]
    status: Status,
    #[serde(default)]
    message: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    #[serde(default)]
    name: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    resource_version: String,
}

// An error event carries a `Status` object, whose `status` is a string: both shapes must read.
#[derive(Deserialize)]
#[serde(untagged)]
enum Status {
    Object {
        #[serde(default)]
        conditions: Vec<Condition>,
    },
    Other(#[allow(dead_code)] serde_json::Value),
}

impl Default for Status {
    fn default() -> Self {
        Self::Object { conditions: Vec::new() }
    }
}

#[derive(Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

/// The watcher's main: prints one line of JSON per event until its input closes.
pub async fn main(kubeconfig: &Path, path: &str, from: &str, show: &[String]) -> Result<()> {
    let pool = Pool::connect(kubeconfig, 1, "berth-bench-watch").await?;
    // The parent holds the other end: when it goes away, for whatever reason, so does the watcher.
    let (gone, parent) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read(&mut [0u8; 1]);
        let _ = gone.send(());
    });
    let mut out = std::io::stdout();
    let print = |s: &Stamp| -> Result<()> {
        serde_json::to_writer(&mut out, s).context("printing an event")?;
        out.write_all(b"\n").and_then(|()| out.flush()).context("printing an event")
    };
    tokio::select! {
        _ = parent => Ok(()),
        end = follow(&pool, path, from, show, print) => end,
    }
}

/// Tells of every change since a version. A server may end any watch at any time; it is opened again where it ended.
pub async fn follow<F>(pool: &Pool, path: &str, from: &str, show: &[String], mut tell: F) -> Result<()>
where
    F: FnMut(&Stamp) -> Result<()>,
{
    let mut version = from.to_owned();
    loop {
        let query = format!("{path}?watch=1&allowWatchBookmarks=true&timeoutSeconds=7200&resourceVersion={version}");
        let answer = pool.watch(&query).await?;
        let open = Stamp {
            at_us: now_us(),
            event: "OPEN".into(),
            key: String::new(),
            version: version.clone(),
            conditions: vec![],
            shown: vec![],
        };
        tell(&open)?;
        let (mut body, mut rest) = (answer.into_body(), Vec::new());
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.context("reading the watch")?.into_data() else { continue };
            let at_us = now_us();
            rest.extend_from_slice(&data);
            while let Some(end) = rest.iter().position(|b| *b == b'\n') {
                let line: Vec<u8> = rest.drain(..=end).collect();
                let event: Event = serde_json::from_slice(&line).context("decoding a watch event")?;
                if event.event == "ERROR" {
                    bail!("watching {path}: {}", event.object.message);
                }
                version.clone_from(&event.object.metadata.resource_version);
                if event.event != "BOOKMARK" {
                    tell(&Stamp { shown: texts(&line, show)?, ..stamp(event, at_us) })?;
                }
            }
        }
    }
}

fn stamp(event: Event, at_us: i64) -> Stamp {
    let Meta { name, namespace, resource_version } = event.object.metadata;
    let conditions = match event.object.status {
        Status::Object { conditions } => {
            conditions.into_iter().filter(|c| c.status == "True").map(|c| c.kind).collect()
        }
        Status::Other(_) => Vec::new(),
    };
    let key = if namespace.is_empty() { name } else { format!("{namespace}/{name}") };
    Stamp { at_us, event: event.event, key, version: resource_version, conditions, shown: Vec::new() }
}

/// The texts at JSON pointers into the object of an event; a yes or no is told by its word.
fn texts(line: &[u8], pointers: &[String]) -> Result<Vec<String>> {
    if pointers.is_empty() {
        return Ok(Vec::new());
    }
    let event: serde_json::Value = serde_json::from_slice(line).context("decoding a watch event")?;
    let text = |pointer: &String| {
        let found = event.get("object").and_then(|object| object.pointer(pointer));
        match found {
            Some(serde_json::Value::String(text)) => text.clone(),
            Some(serde_json::Value::Bool(is_so)) => is_so.to_string(),
            _ => String::new(),
        }
    };
    Ok(pointers.iter().map(text).collect())
}

/// The runner's end of a watcher process.
pub struct Watcher {
    process: Process,
    stamps: UnboundedReceiver<Result<Stamp>>,
    _input: ChildStdin,
    // Empties the pipe at all times: a full pipe would stop the clock.
    _reader: JoinSet<()>,
}

impl Watcher {
    /// Starts a watcher at a resource version, with texts of each object to show, and waits until its watch stands.
    pub async fn start(kubeconfig: &Path, path: &str, from: &str, show: &[&str], log: &Path) -> Result<Self> {
        let me = std::env::current_exe().context("finding this program")?;
        let mut argv: Vec<String> = [
            me.display().to_string().as_str(),
            "watch",
            "--kubeconfig",
            &kubeconfig.display().to_string(),
            "--path",
            path,
            "--resource-version",
            from,
        ]
        .map(str::to_owned)
        .to_vec();
        argv.extend(show.iter().map(|pointer| format!("--show={pointer}")));
        let mut process = Process::piped("the watcher", &argv, log)?;
        let (input, output) = process.pipes();
        let mut lines = BufReader::new(output.context("the watcher has no output")?).lines();
        let (sender, stamps) = unbounded_channel();
        let mut reader = JoinSet::new();
        reader.spawn(async move {
            while let Some(line) = lines.next_line().await.context("reading the watcher").transpose() {
                let stamp = line.and_then(|l| serde_json::from_str(&l).context("decoding a line of the watcher"));
                if sender.send(stamp).is_err() {
                    return;
                }
            }
        });
        let input = input.context("the watcher has no input")?;
        let mut watcher = Self { process, stamps, _input: input, _reader: reader };
        match tokio::time::timeout(STANDS, watcher.next()).await {
            Ok(Ok(Some(first))) if first.event == "OPEN" => Ok(watcher),
            Ok(Ok(Some(first))) => bail!("the watcher began with {first:?}"),
            Ok(Err(e)) => Err(e),
            _ => bail!("the watcher did not start; its log:\n{}", watcher.process.log_end()),
        }
    }

    async fn next(&mut self) -> Result<Option<Stamp>> {
        self.stamps.recv().await.transpose()
    }

    /// Everything stamped so far; returns once the watcher has been silent for `quiet`.
    pub async fn drain(&mut self, quiet: Duration) -> Result<Vec<Stamp>> {
        let mut out = Vec::new();
        loop {
            match tokio::time::timeout(quiet, self.next()).await {
                Err(_) => return Ok(out),
                Ok(Ok(Some(s))) if s.event == "OPEN" => {}
                Ok(Ok(Some(s))) => out.push(s),
                Ok(Ok(None)) => bail!("the watcher ended; its log:\n{}", self.process.log_end()),
                Ok(Err(e)) => return Err(e),
            }
        }
    }

    /// Hands on every stamp until `done` says that it was the last one, which must be within `bound`.
    pub async fn until(&mut self, what: &str, bound: Duration, mut done: impl FnMut(Stamp) -> bool) -> Result<()> {
        let end = tokio::time::Instant::now() + bound;
        loop {
            match tokio::time::timeout_at(end, self.next()).await {
                Err(_) => bail!("{what}: not within {bound:?}"),
                Ok(Ok(Some(s))) if s.event == "OPEN" => {}
                Ok(Ok(Some(s))) => {
                    if done(s) {
                        return Ok(());
                    }
                }
                Ok(Ok(None)) => bail!("{what}: the watcher ended; its log:\n{}", self.process.log_end()),
                Ok(Err(e)) => return Err(e),
            }
        }
    }

    /// Stops it.
    pub async fn stop(self) -> Result<()> {
        self.process.stop(Duration::from_secs(5)).await.map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_becomes_a_stamp_with_its_true_conditions() {
        let text = r#"{"type":"MODIFIED","object":{"metadata":{"name":"a","namespace":"n","resourceVersion":"7"},
            "status":{"conditions":[{"type":"Ready","status":"True"},{"type":"Paused","status":"False"}]}}}"#;
        let s = stamp(serde_json::from_str(text).unwrap(), 5);
        assert_eq!((s.key.as_str(), s.version.as_str(), s.at_us), ("n/a", "7", 5));
        assert_eq!(s.conditions, ["Ready"]);
    }

    #[test]
    fn asked_for_texts_are_shown_in_order_and_empty_where_absent() {
        let line = br#"{"type":"ADDED","object":{"metadata":{"annotations":{"a/b":"c"}},"spec":{"n":1,"on":true}}}"#;
        let pointers = ["/metadata/annotations/a~1b", "/spec/n", "/spec/on", "/status/x"].map(str::to_owned);
        assert_eq!(texts(line, &pointers).unwrap(), ["c", "", "true", ""]);
        assert!(texts(b"no json", &[]).unwrap().is_empty());
    }

    #[test]
    fn an_error_event_is_readable() {
        let text =
            r#"{"type":"ERROR","object":{"kind":"Status","metadata":{},"status":"Failure","message":"too old"}}"#;
        let e: Event = serde_json::from_str(text).unwrap();
        assert_eq!((e.event.as_str(), e.object.message.as_str()), ("ERROR", "too old"));
    }
}
