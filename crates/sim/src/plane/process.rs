//! Child processes that are stopped gently, watched while they run, and never outlive their parent.

use super::PlaneError;
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// How long a process may take to end after it was asked to.
const GRACE: Duration = Duration::from_secs(10);

/// What kube-apiserver says for every closed connection to etcd; nobody ever found a cause in it.
const NOISE: &str = "addrConn.createTransport failed";

/// Sends process `$1` the signal to end when it reads a line, which is [`Process::stop`] asking. When its standard input is
/// closed instead, the parent is dead: then it sees the end through and removes directory `$2`. Closing a pipe is the one
/// thing even a killed parent still does.
const GUARD: &str = r#"
if read -r _; then kill -TERM "$1"; exit; fi
kill -TERM "$1" 2>/dev/null
n=0
while kill -0 "$1" 2>/dev/null && [ "$n" -lt 100 ]; do sleep 0.1; n=$((n + 1)); done
kill -KILL "$1" 2>/dev/null
if [ -n "$2" ]; then rm -rf -- "$2"; fi
"#;

/// A child process with a log file; it is stopped when this is dropped, and when the parent dies.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    guard: Option<Child>,
    log: PathBuf,
    ended: Option<ExitStatus>,
}

impl Process {
    /// Starts a command with both outputs going to `log`. Should the parent die, `remove` is deleted afterwards.
    pub fn start(name: &str, mut command: Command, log: &Path, remove: Option<&Path>) -> Result<Self, PlaneError> {
        let open = |path: &Path| File::options().create(true).append(true).open(path);
        let out = open(log).map_err(PlaneError::io(format!("opening the log {}", log.display())))?;
        let err = out.try_clone().map_err(PlaneError::io("sharing a log file"))?;
        // Own process groups: an interrupt at the terminal reaches the parent alone, which then stops everything in order.
        command.stdin(Stdio::null()).stdout(out).stderr(err).process_group(0);
        let child = command
            .spawn()
            .map_err(PlaneError::io(format!("starting {name} ({})", command.get_program().to_string_lossy())))?;
        let mut process = Self { name: name.into(), child, guard: None, log: log.into(), ended: None };
        let guard = Command::new("sh")
            .args(["-c", GUARD, "guard"])
            .arg(process.pid().to_string())
            .arg(remove.unwrap_or(Path::new("")))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn();
        match guard {
            Ok(guard) => process.guard = Some(guard),
            Err(source) => {
                process.stop();
                return Err(PlaneError::Io { doing: format!("starting the guard of {name}"), source });
            }
        }
        Ok(process)
    }

    /// Its name in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its log file.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// The exit status, once it has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().ok().flatten();
            if self.ended.is_some() {
                self.dismiss_guard();
            }
        }
        self.ended
    }

    /// Why it does not run any more, if it does not.
    pub fn failure(&mut self) -> Option<PlaneError> {
        let status = self.ended()?;
        Some(PlaneError::Exited {
            name: self.name.clone(),
            status: status.to_string(),
            log: self.log.clone(),
            tail: self.log_tail(),
        })
    }

    /// The error for a process that runs but does not get ready.
    pub fn not_ready(&self, after: Duration, last: impl Into<String>) -> PlaneError {
        PlaneError::NotReady {
            name: self.name.clone(),
            seconds: after.as_secs(),
            last: last.into(),
            log: self.log.clone(),
            tail: self.log_tail(),
        }
    }

    /// The last lines of its log.
    pub fn log_tail(&self) -> String {
        tail(&self.log, 15)
    }

    /// Asks it to end, waits, and ends it by force when it does not.
    pub fn stop(&mut self) {
        if self.ended().is_some() {
            return;
        }
        let asked =
            self.guard.as_mut().and_then(|guard| guard.stdin.as_mut()).is_some_and(|s| s.write_all(b"\n").is_ok());
        let begun = Instant::now();
        while self.ended().is_none() {
            if !asked || begun.elapsed() > GRACE {
                let _ = self.child.kill();
                self.ended = self.child.wait().ok();
                self.dismiss_guard();
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Ends the guard without letting it act: the process it names is gone, and the number may be given to another.
    fn dismiss_guard(&mut self) {
        if let Some(mut guard) = self.guard.take() {
            let _ = guard.kill();
            let _ = guard.wait();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The last `lines` lines of a file, long ones shortened.
pub(super) fn tail(path: &Path, lines: usize) -> String {
    let read = || -> std::io::Result<String> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(16 * 1024)))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let text = read().unwrap_or_else(|error| format!("(cannot be read: {error})"));
    let mut kept: Vec<String> = text
        .lines()
        .rev()
        .filter(|line| !line.contains(NOISE))
        .take(lines)
        .map(|line| format!("  {}", line.chars().take(400).collect::<String>()))
        .collect();
    kept.reverse();
    kept.join("\n")
}

/// A new directory below the system's temporary one.
pub(super) fn temp_dir() -> Result<PathBuf, PlaneError> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let nanos = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.subsec_nanos());
    let name = format!("berth-plane-{}-{}-{nanos:x}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let dir = std::env::temp_dir().join(name);
    std::fs::create_dir(&dir).map_err(PlaneError::io(format!("creating {}", dir.display())))?;
    Ok(dir)
}

/// Where ports for servers are taken from: below what Linux gives to outgoing connections, so that no connection can take a
/// port between its being chosen here and the server listening on it.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// A port on 127.0.0.1 for a server of this process. Nobody else is given it while this process lives.
pub fn free_port() -> Result<u16, PlaneError> {
    static HELD: Mutex<Vec<UnixListener>> = Mutex::new(Vec::new());
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    let begin = usize::try_from(std::process::id()).unwrap_or_default().wrapping_mul(61);
    for port in PORTS.cycle().skip(begin % PORTS.len()).take(PORTS.len()) {
        let Ok(lock) = hold(port) else { continue };
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            held.push(lock);
            return Ok(port);
        }
    }
    Err(PlaneError::io("looking for a free port")(ErrorKind::AddrInUse.into()))
}

/// The lock on a port: a socket whose name one process can have at a time. Such names are as far known as ports are, on this
/// machine or in this container, and whatever ends the process, the kernel takes its name back. No file is left behind.
fn hold(port: u16) -> std::io::Result<UnixListener> {
    UnixListener::bind_addr(&SocketAddr::from_abstract_name(format!("berth-port-{port}"))?)
}

/// Status and body of a plain GET on 127.0.0.1, within two seconds.
pub async fn http_get(port: u16, path: &str) -> std::io::Result<(u16, String)> {
    let get = async {
        let mut stream = tokio::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
        stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").as_bytes()).await?;
        let mut bytes = Vec::new();
        stream.take(4 * 1024 * 1024).read_to_end(&mut bytes).await?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let status = text.split(' ').nth(1).and_then(|code| code.parse().ok());
        let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body).to_owned();
        status.map(|status| (status, body)).ok_or_else(|| std::io::Error::other("not an HTTP answer"))
    };
    tokio::time::timeout(Duration::from_secs(2), get).await?
}

/// Waits until a process answers 200, noticing when it ends instead.
pub async fn wait_http(process: &mut Process, port: u16, path: &str, bound: Duration) -> Result<(), PlaneError> {
    let begun = Instant::now();
    loop {
        if let Some(failure) = process.failure() {
            return Err(failure);
        }
        let last = match http_get(port, path).await {
            Ok((200, _)) => return Ok(()),
            Ok((status, body)) => format!("{path} answers {status}: {}", body.trim()),
            Err(error) => format!("{path}: {error}"),
        };
        if begun.elapsed() > bound {
            return Err(process.not_ready(bound, last));
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alive(pid: u32) -> bool {
        // A zombie waits to be reaped and does nothing any more.
        std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
    }

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    fn eventually(what: &str, mut check: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !check() {
            assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn a_port_is_given_once_and_never_to_a_connection() {
        let ports: std::collections::BTreeSet<u16> = (0..50).map(|_| free_port().unwrap()).collect();
        assert_eq!(ports.len(), 50, "{ports:?}");
        assert!(ports.iter().all(|port| PORTS.contains(port)), "{ports:?}");
        for port in ports {
            assert!(hold(port).is_err(), "another process could take {port}");
        }
        let connection = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        assert!(!PORTS.contains(&connection.local_addr().unwrap().port()));
    }

    #[test]
    fn stopping_asks_first() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let script = "trap 'echo asked; exit 0' TERM; echo up; while :; do sleep 0.05; done";
        let mut process = Process::start("polite", shell(script), &log, None).unwrap();
        eventually("it starts", || process.log_tail().contains("up"));
        process.stop();
        assert!(process.log_tail().contains("asked"));
        assert_eq!(process.ended().unwrap().code(), Some(0));
        assert!(!alive(process.pid()));
    }

    #[test]
    fn an_early_end_is_told_with_its_code_and_its_last_words() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let mut process = Process::start("short", shell("echo the disk is full >&2; exit 3"), &log, None).unwrap();
        let mut failure = None;
        eventually("it ends", || {
            failure = process.failure();
            failure.is_some()
        });
        let text = failure.unwrap().to_string();
        assert!(text.contains("short") && text.contains('3') && text.contains("the disk is full"), "{text}");
    }

    #[test]
    fn a_killed_parent_takes_its_children_and_their_directory_with_it() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        std::fs::create_dir(&data).unwrap();
        let log = dir.path().join("log");
        let mut process = Process::start("orphan", shell("while :; do sleep 0.05; done"), &log, Some(&data)).unwrap();
        let pid = process.pid();
        assert!(alive(pid));
        // What the kernel does when a parent dies, and nothing else: its end of the pipe is closed.
        drop(process.guard.as_mut().unwrap().stdin.take());
        eventually("the guard ends the process", || !alive(pid));
        // The zombie is this process's to reap; a real orphan would be reaped by init.
        assert!(process.child.wait().is_ok());
        eventually("the guard removes the directory", || !data.exists());
    }
}
