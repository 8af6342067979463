//! A key pair from a directory, as secrets are mounted.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::StreamExt;
use inotify::{EventMask, Inotify, WatchMask};
use tokio::io::AsyncReadExt;
use tokio_util::sync::CancellationToken;

use super::{CertMetrics, Pair, PairError, Slot, standing};
use crate::clock::Clock;
use crate::gates::{Gate, GateState};
use crate::secret::Secret;

/// How often the files are read even if nothing was announced: some file systems announce nothing.
pub(super) const POLL: Duration = Duration::from_secs(60);
/// The same while there is nothing to serve yet.
const POLL_EMPTY: Duration = Duration::from_secs(2);
/// Files of a pair are written one after the other; what follows this soon belongs to the same change.
const SETTLE: Duration = Duration::from_millis(50);
/// No key pair is larger than this.
const FILE_LIMIT: u64 = 1 << 20;

/// Why the files were not taken.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// A file cannot be read.
    #[error("cannot read {path}: {source}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says. It is in the text because the gate shows only that.
        source: io::Error,
    },
    /// The files are not a pair to be served.
    #[error("new pair in {dir} not taken: {source}", dir = dir.display())]
    Pair {
        /// The directory.
        dir: PathBuf,
        /// What is wrong.
        source: PairError,
    },
}

/// Follows `tls.crt` and `tls.key` in a directory and fills a slot with every good pair.
#[derive(Debug)]
pub struct Directory {
    dir: PathBuf,
    slot: Slot,
    gate: Gate,
    clock: Clock,
    metrics: CertMetrics,
    loaded: Option<(Vec<u8>, Secret<Vec<u8>>)>,
    /// The last complaint, so that a lasting problem is logged once.
    complaint: Option<String>,
}

impl Directory {
    /// A source that has read nothing yet.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>, slot: Slot, gate: Gate, clock: Clock, metrics: CertMetrics) -> Self {
        Self { dir: dir.into(), slot, gate, clock, metrics, loaded: None, complaint: None }
    }

    /// Follows the directory until `stop`. Never gives up: what is missing may come.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut watch = None;
        loop {
            // The watch comes before the reading, so that no change falls in between.
            if watch.is_none() {
                watch = Watch::on(&self.dir).ok();
            }
            // The gate, the log and the metric have the outcome.
            let _ = self.refresh().await;
            let pause = if self.loaded.is_some() { POLL } else { POLL_EMPTY };
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
                alive = changed(watch.as_mut()) => if !alive { watch = None },
            }
        }
    }

    /// Reads the files once; takes them if they are new and good; returns whether the slot changed.
    ///
    /// # Errors
    /// When the files were not taken; what was served before is still served.
    pub async fn refresh(&mut self) -> Result<bool, DirectoryError> {
        let outcome = self.take().await;
        let now = self.clock.now();
        let problem = outcome.as_ref().err().map(ToString::to_string);
        let served = self.slot.validity();
        if let Some(validity) = served {
            self.metrics.serving(self.gate.name(), validity);
        }
        if let Some(problem) = &problem
            && self.complaint.as_ref() != Some(problem)
        {
            self.metrics.refused(self.gate.name());
            tracing::warn!(gate = self.gate.name(), error = problem, serving = served.is_some(), "key pair not taken");
        }
        let (state, detail) = standing(served, problem.as_deref(), now);
        match state {
            GateState::Ready => self.gate.ready(detail),
            GateState::Waiting => self.gate.waiting(detail),
            GateState::Blocked => self.gate.blocked(detail),
        }
        self.complaint = problem;
        outcome
    }

    async fn take(&mut self) -> Result<bool, DirectoryError> {
        let certificate = read(&self.dir.join("tls.crt")).await?;
        let key = read(&self.dir.join("tls.key")).await?;
        if self.loaded.as_ref().is_some_and(|(old, old_key)| *old == certificate && *old_key.expose() == key) {
            return Ok(false);
        }
        let refused = |source| DirectoryError::Pair { dir: self.dir.clone(), source };
        let pair = Pair::from_pem(&certificate, &key).map_err(refused)?;
        pair.check(self.clock.now()).map_err(refused)?;
        let not_after = pair.validity().not_after;
        self.slot.store(pair);
        self.loaded = Some((certificate, Secret::new(key)));
        tracing::info!(gate = self.gate.name(), %not_after, "key pair loaded");
        Ok(true)
    }
}

pub(super) async fn read(path: &Path) -> Result<Vec<u8>, DirectoryError> {
    let bounded = async {
        let mut bytes = Vec::new();
        let file = tokio::fs::File::open(path).await?;
        if file.take(FILE_LIMIT + 1).read_to_end(&mut bytes).await? as u64 > FILE_LIMIT {
            return Err(io::Error::other("larger than 1 MiB"));
        }
        Ok(bytes)
    };
    bounded.await.map_err(|source| DirectoryError::Read { path: path.to_owned(), source })
}

/// Tells when anything in a directory changes.
pub(super) struct Watch(inotify::EventStream<Vec<u8>>);

impl Watch {
    pub(super) fn on(dir: &Path) -> io::Result<Self> {
        let inotify = Inotify::init()?;
        // A mounted Secret changes by one rename of the link `..data`; editors and copies write and rename files.
        let mask = WatchMask::CREATE
            | WatchMask::CLOSE_WRITE
            | WatchMask::MOVED_TO
            | WatchMask::DELETE
            | WatchMask::ATTRIB
            | WatchMask::DELETE_SELF
            | WatchMask::MOVE_SELF
            | WatchMask::ONLYDIR;
        inotify.watches().add(dir, mask)?;
        Ok(Self(inotify.into_event_stream(vec![0; 4096])?))
    }

    /// Waits for one event; false means that the directory itself went away and this watch with it.
    async fn next(&mut self) -> bool {
        match self.0.next().await {
            Some(Ok(event)) => {
                let gone = EventMask::IGNORED | EventMask::DELETE_SELF | EventMask::MOVE_SELF | EventMask::UNMOUNT;
                !event.mask.intersects(gone)
            }
            Some(Err(_)) | None => false,
        }
    }
}

/// Waits for a burst of changes to pass; false when the watch is of no more use.
pub(super) async fn changed(watch: Option<&mut Watch>) -> bool {
    let Some(watch) = watch else { return std::future::pending().await };
    let mut alive = watch.next().await;
    // A directory that changes all the time is still read.
    for _ in 0..20 {
        if !alive {
            break;
        }
        match tokio::time::timeout(SETTLE, watch.next()).await {
            Ok(more) => alive = more,
            Err(_) => break,
        }
    }
    alive
}

#[cfg(test)]
mod tests {
    use super::super::tests::pair;
    use super::*;
    use crate::gates::Gates;
    use std::fs;

    fn source(dir: &Path, clock: Clock) -> (Directory, Gates, Slot) {
        let (gates, slot) = (Gates::new(), Slot::new());
        let source = Directory::new(dir, slot.clone(), gates.gate("certs"), clock, CertMetrics::default());
        (source, gates, slot)
    }

    fn write(dir: &Path, cert: &str, key: &str) {
        fs::write(dir.join("tls.crt"), cert).unwrap();
        fs::write(dir.join("tls.key"), key).unwrap();
    }

    #[tokio::test]
    async fn missing_files_block_with_their_path_and_a_later_pair_opens_the_gate() {
        let dir = tempfile::tempdir().unwrap();
        let (mut source, gates, slot) = source(dir.path(), Clock::system());
        source.refresh().await.unwrap_err();
        let report = gates.report();
        assert!(!report.ready && report.to_string().contains("tls.crt"), "{report}");
        let (cert, key) = pair("a");
        write(dir.path(), &cert, &key);
        assert!(source.refresh().await.unwrap());
        assert!(gates.report().ready && slot.validity().is_some());
        assert!(!source.refresh().await.unwrap(), "equal files change nothing");
    }

    #[tokio::test]
    async fn a_bad_pair_is_not_taken_and_the_old_one_stays() {
        let dir = tempfile::tempdir().unwrap();
        let (mut source, gates, slot) = source(dir.path(), Clock::system());
        let ((cert, key), (other, _)) = (pair("a"), pair("b"));
        write(dir.path(), &cert, &key);
        source.refresh().await.unwrap();
        let before = slot.validity();
        for (cert, key) in [(&other, &key), (&cert, &"junk".to_owned()), (&String::new(), &key)] {
            write(dir.path(), cert, key);
            source.refresh().await.unwrap_err();
            assert_eq!(slot.validity(), before);
            let report = gates.report();
            assert!(report.ready && report.to_string().starts_with("[~]certs"), "{report}");
        }
        fs::remove_file(dir.path().join("tls.key")).unwrap();
        source.refresh().await.unwrap_err();
        assert!(gates.report().ready);
    }

    #[tokio::test]
    async fn an_expired_pair_is_not_taken() {
        let dir = tempfile::tempdir().unwrap();
        let clock = Clock::simulated("4100-01-01T00:00:00Z".parse().unwrap(), 1);
        let (mut source, gates, slot) = source(dir.path(), clock);
        let (cert, key) = pair("a");
        write(dir.path(), &cert, &key);
        source.refresh().await.unwrap_err();
        assert!(slot.validity().is_none());
        assert!(gates.report().to_string().contains("expired at 4096-01-01"), "{}", gates.report());
    }

    /// Real time: inotify speaks from outside the runtime. Each wait ends with an event, long before the poll would.
    #[tokio::test]
    async fn a_change_is_seen_without_waiting_for_the_poll() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("certs");
        fs::create_dir(&dir).unwrap();
        let (source, gates, _) = source(&dir, Clock::system());
        let stop = CancellationToken::new();
        let running = source.run(stop.clone());
        let script = async {
            let wait = |text: &'static str| {
                let gates = gates.clone();
                async move {
                    let seen = async {
                        loop {
                            let change = gates.changed();
                            if gates.report().to_string().contains(text) {
                                return;
                            }
                            change.await;
                        }
                    };
                    tokio::time::timeout(Duration::from_secs(20), seen).await.expect(text);
                }
            };
            wait("tls.crt").await;
            let ((cert, key), (_, other)) = (pair("a"), pair("b"));
            write(&dir, &cert, &key);
            wait("[+]certs certificate expires").await;
            fs::write(dir.join("tls.key"), other).unwrap();
            wait("does not belong").await;
            fs::write(dir.join("tls.key"), &key).unwrap();
            wait("[+]certs certificate expires").await;
            stop.cancel();
        };
        tokio::join!(running, script);
    }
}
