//! Control over a Unix socket: one JSON command per line, one JSON answer per line.
//!
//! | command | answer |
//! |---|---|
//! | `{"set": [rules]}` | `{"ok": true, "rules": 3}` |
//! | `{"clear": true}` | `{"ok": true, "rules": 0}` |
//! | `{"hits": true}` | `{"ok": true, "requests": 9, "dropped": 0, "hits": [...]}` |
//! | `{"stop": true}` | `{"ok": true}`, then the proxy ends |
//! | anything else | `{"ok": false, "field": "rules[0].when.nth", "error": "..."}` |

use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::Error;
use super::engine::lock;
use super::rules::{self, MAX_DOCUMENT_BYTES, RuleError};
use super::serve::Shared;

/// Room for the command around a document of the largest size.
const MAX_LINE: usize = MAX_DOCUMENT_BYTES + 64;

fn failed(path: &Path, problem: impl std::fmt::Display) -> Error {
    Error::Option { field: "control", problem: format!("{}: {problem}", path.display()) }
}

/// The listening socket; its file goes when it does.
pub(super) struct Socket {
    listener: UnixListener,
    path: PathBuf,
}

impl Socket {
    /// Binds the path; a socket that nobody listens on any more is replaced, anything else is left alone.
    pub(super) async fn bind(path: &Path) -> Result<Self, Error> {
        if let Ok(found) = std::fs::symlink_metadata(path) {
            if !found.file_type().is_socket() {
                return Err(failed(path, "exists and is not a socket"));
            }
            if UnixStream::connect(path).await.is_ok() {
                return Err(failed(path, "another process listens there"));
            }
            std::fs::remove_file(path).map_err(|e| failed(path, e))?;
        }
        let listener = UnixListener::bind(path).map_err(|e| failed(path, e))?;
        let socket = Self { listener, path: path.to_owned() };
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(|e| failed(path, e))?;
        Ok(socket)
    }

    pub(super) async fn run(self, shared: Arc<Shared>) {
        let mut sessions = JoinSet::new();
        loop {
            tokio::select! {
                () = shared.stop.cancelled() => break,
                Some(_) = sessions.join_next(), if !sessions.is_empty() => {}
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        sessions.spawn(session(stream, shared.clone()));
                    }
                    Err(error) => {
                        tracing::warn!(%error, "could not accept a control connection");
                        sleep(Duration::from_millis(50)).await;
                    }
                },
            }
        }
        sessions.shutdown().await;
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::debug!(%error, "could not remove the control socket");
        }
    }
}

async fn session(stream: UnixStream, shared: Arc<Shared>) {
    let mut stream = BufReader::new(stream);
    let mut line = Vec::new();
    loop {
        line.clear();
        let bound = u64::try_from(MAX_LINE).unwrap_or(u64::MAX);
        match (&mut stream).take(bound).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let too_long = line.len() >= MAX_LINE && line.last() != Some(&b'\n');
        let (answer, stop) = if too_long {
            (refused(&RuleError { field: "command".into(), problem: "the line is too long".into() }), false)
        } else {
            answer(&line, &shared)
        };
        let sent = stream.write_all(format!("{answer}\n").as_bytes()).await.is_ok();
        if stop {
            shared.stop.cancel();
        }
        if !sent || stop || too_long {
            return;
        }
    }
}

fn refused(error: &RuleError) -> Value {
    json!({"ok": false, "field": error.field, "error": error.to_string()})
}

/// Carries out one command; the second value says whether the proxy is to stop.
fn answer(line: &[u8], shared: &Shared) -> (Value, bool) {
    let bad = |field: &str, problem: &str| {
        (refused(&RuleError { field: field.to_owned(), problem: problem.to_owned() }), false)
    };
    let command = match serde_json::from_slice::<Value>(line) {
        Ok(Value::Object(command)) => command,
        Ok(_) => return bad("command", "must be an object"),
        Err(error) => return bad("command", &format!("not JSON: {error}")),
    };
    let mut entries = command.into_iter();
    let (Some((name, value)), None) = (entries.next(), entries.next()) else {
        return bad("command", "must have exactly one of set, clear, hits and stop");
    };
    if name != "set" && value != Value::Bool(true) {
        return bad(&name, "must be true");
    }
    match name.as_str() {
        "set" => {
            let set = rules::from_value(value).and_then(|rules| {
                let count = rules.len();
                lock(&shared.engine).set(rules, Instant::now()).map(|()| count)
            });
            match set {
                Ok(count) => (json!({"ok": true, "rules": count}), false),
                Err(error) => (refused(&error), false),
            }
        }
        "clear" => match lock(&shared.engine).set(Vec::new(), Instant::now()) {
            Ok(()) => (json!({"ok": true, "rules": 0}), false),
            Err(error) => (refused(&error), false),
        },
        "hits" => {
            let requests = lock(&shared.engine).requests();
            let log = lock(&shared.log);
            (json!({"ok": true, "requests": requests, "dropped": log.dropped, "hits": log.all()}), false)
        }
        "stop" => (json!({"ok": true}), true),
        other => bad(other, "unknown command; known are set, clear, hits and stop"),
    }
}

/// Sends one command to a running proxy and gives its answer.
pub async fn command(socket: &Path, command: &Value) -> Result<Value, Error> {
    let exchange = async {
        let mut stream = BufReader::new(UnixStream::connect(socket).await?);
        stream.write_all(format!("{command}\n").as_bytes()).await?;
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        Ok::<String, std::io::Error>(line)
    };
    let line = tokio::time::timeout(Duration::from_secs(10), exchange)
        .await
        .map_err(|e| failed(socket, e))?
        .map_err(|e| failed(socket, e))?;
    serde_json::from_str(&line).map_err(|e| failed(socket, e))
}
