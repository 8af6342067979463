//! A real Kubernetes API server for tests, the demo and the bench, started and stopped by the process that uses it.
//!
//! The server is, in this order: the `kube-apiserver` and `etcd` named by `KUBEBUILDER_ASSETS`, the program named by
//! `BERTH_PLANE`, or `target/plane/bin/plane` as `make plane` builds it. Nothing here outlives its parent: a guard
//! process ends what a killed test run leaves behind.
#![allow(
    clippy::disallowed_methods,
    reason = "this is the test bench, not the product: real clocks and the environment are its subject"
)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

mod account;
mod assets;
mod audit;
mod find;
mod install;
mod managers;
mod process;

pub use account::{account, grant};
pub use audit::{Request, unused};
pub use find::Server;
pub use install::{apply, aws_network_definitions, install_crds, objects, open_definition, webhooks_by_url};
pub use managers::{
    Manager, capi, capi_with, cloudstack_definitions, cluster_api_definitions, ipam, kubeadm_bootstrap,
    kubeadm_bootstrap_with, kubeadm_control_plane, kubeadm_control_plane_with, provider_definitions,
};
pub use process::{Process, free_port, http_get, wait_http};

/// How long a server may take until it is ready.
const READY: Duration = Duration::from_secs(120);

/// What can go wrong around a real server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlaneError {
    /// Neither a built plane nor other server binaries are on this machine.
    #[error("no API server found: run `make plane`, or set KUBEBUILDER_ASSETS or BERTH_PLANE (looked at {tried})")]
    NotFound {
        /// The places that were looked at.
        tried: String,
    },
    /// A manager's binary or manifests are not built.
    #[error("{what} is not built: run `make capi` (looked for {path})")]
    NotBuilt {
        /// The missing part.
        what: &'static str,
        /// Where it should be.
        path: PathBuf,
    },
    /// A file or process operation failed.
    #[error("{doing}: {source}")]
    Io {
        /// What was being done.
        doing: String,
        /// Why it failed.
        source: std::io::Error,
    },
    /// A process ended although it should run.
    #[error("{name} ended with {status}; the end of its log {log} says:\n{tail}")]
    Exited {
        /// The process.
        name: String,
        /// Its exit status in words.
        status: String,
        /// Its log file.
        log: PathBuf,
        /// The last lines of the log.
        tail: String,
    },
    /// A process runs but did not become ready in time.
    #[error("{name} was not ready after {seconds} s ({last}); the end of its log {log} says:\n{tail}")]
    NotReady {
        /// The process.
        name: String,
        /// How long it was waited for.
        seconds: u64,
        /// The last answer.
        last: String,
        /// Its log file.
        log: PathBuf,
        /// The last lines of the log.
        tail: String,
    },
    /// A request to the server failed.
    #[error("{doing}: {source}")]
    Kube {
        /// What was being done.
        doing: String,
        /// Why it failed.
        source: Box<kube::Error>,
    },
    /// A kubeconfig, certificate or manifest cannot be used.
    #[error("{doing}: {why}")]
    Bad {
        /// What was being done.
        doing: String,
        /// Why it failed.
        why: String,
    },
}

impl PlaneError {
    pub(crate) fn io(doing: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Io { doing, source }
    }

    pub(crate) fn kube(doing: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Kube { doing, source: Box::new(source) }
    }

    pub(crate) fn bad<E: std::fmt::Display>(doing: impl Into<String>) -> impl FnOnce(E) -> Self {
        let doing = doing.into();
        move |why| Self::Bad { doing, why: why.to_string() }
    }
}

/// How a server is started.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Where it keeps its files; a fresh temporary directory, removed at the end, when absent.
    pub dir: Option<PathBuf>,
    /// Where it writes one JSON line per request; a relative path is one below its directory.
    pub audit_log: Option<PathBuf>,
    /// More flags for kube-apiserver, each starting with `--`.
    pub apiserver_args: Vec<String>,
}

/// A running API server; it ends when this is dropped.
#[derive(Debug)]
pub struct Plane {
    dir: PathBuf,
    temporary: bool,
    server: Server,
    options: Options,
    running: Mutex<Vec<Process>>,
    store: AtomicU16,
}

impl Plane {
    /// Starts a server in a fresh temporary directory and blocks until it is ready.
    pub fn start() -> Result<Self, PlaneError> {
        Self::start_with(Options::default())
    }

    /// Starts a server and blocks until it is ready, at most two minutes.
    pub fn start_with(options: Options) -> Result<Self, PlaneError> {
        let server = Server::find()?;
        let (dir, temporary) = match &options.dir {
            Some(dir) => (dir.clone(), false),
            None => (process::temp_dir()?, true),
        };
        std::fs::create_dir_all(&dir).map_err(PlaneError::io(format!("creating {}", dir.display())))?;
        let dir = dir.canonicalize().map_err(PlaneError::io(format!("resolving {}", dir.display())))?;
        let (running, store) = (Mutex::new(Vec::new()), AtomicU16::new(0));
        let plane = Self { dir, temporary, server, options, running, store };
        // A free port may be taken between choosing and listening: that is nobody's failure.
        let mut attempts = 3;
        loop {
            attempts -= 1;
            match plane.launch(None) {
                Err(PlaneError::Exited { tail, .. }) if attempts > 0 && tail.contains("address already in use") => {}
                other => return other.map(|()| plane),
            }
        }
    }

    /// The one server that all tests of this process share; it ends with the process.
    pub fn shared() -> Result<&'static Self, &'static PlaneError> {
        static SHARED: OnceLock<Result<Plane, PlaneError>> = OnceLock::new();
        SHARED.get_or_init(Self::start).as_ref()
    }

    /// A client with administrator rights that shows every failure, because it retries none.
    pub async fn client(&self) -> Result<kube::Client, PlaneError> {
        let mut config = self.config().await?;
        config.default_retry = false;
        kube::Client::try_from(config).map_err(PlaneError::kube("making a client"))
    }

    /// The client configuration with administrator rights, to be changed by the caller.
    pub async fn config(&self) -> Result<kube::Config, PlaneError> {
        install::config(&self.kubeconfig_path()).await
    }

    /// The administrator's kubeconfig file.
    pub fn kubeconfig_path(&self) -> PathBuf {
        self.dir.join("kubeconfig")
    }

    /// The certificate of the authority that signed every other one (PEM).
    pub fn ca(&self) -> Result<String, PlaneError> {
        self.read("ca.crt")
    }

    /// A serving certificate for 127.0.0.1 and localhost (PEM).
    pub fn webhook_cert(&self) -> Result<String, PlaneError> {
        self.read("webhook.crt")
    }

    /// The key of [`Plane::webhook_cert`] (PEM).
    pub fn webhook_key(&self) -> Result<String, PlaneError> {
        self.read("webhook.key")
    }

    /// A directory with the serving certificate under the names that managers look for: `tls.crt`, `tls.key`, `ca.crt`.
    pub fn webhook_cert_dir(&self) -> Result<PathBuf, PlaneError> {
        let dir = self.dir.join("webhook");
        std::fs::create_dir_all(&dir).map_err(PlaneError::io(format!("creating {}", dir.display())))?;
        for (from, to) in [("webhook.crt", "tls.crt"), ("webhook.key", "tls.key"), ("ca.crt", "ca.crt")] {
            std::fs::copy(self.dir.join(from), dir.join(to)).map_err(PlaneError::io(format!("copying {from}")))?;
        }
        Ok(dir)
    }

    /// The directory with certificates, data, kubeconfig and logs.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The log of the API server.
    pub fn log(&self) -> PathBuf {
        self.dir.join("plane.log")
    }

    /// The port on 127.0.0.1 at which etcd, the store behind the API server, answers without asking who it is.
    pub fn store_port(&self) -> u16 {
        self.store.load(Ordering::Relaxed)
    }

    /// The process that serves the API.
    pub fn pid(&self) -> Option<u32> {
        self.running().last().map(Process::pid)
    }

    /// Whether the garbage collector and the namespace controller run: not with `KUBEBUILDER_ASSETS`.
    pub fn has_controllers(&self) -> bool {
        matches!(self.server, Server::Plane(_))
    }

    /// What ended, and how, if anything that should run has ended.
    pub fn failure(&self) -> Option<PlaneError> {
        self.running().iter_mut().find_map(Process::failure)
    }

    /// Stops the server and starts it again on the same data and port; clients find it where it was.
    pub fn restart(&self) -> Result<(), PlaneError> {
        self.stop();
        self.launch(Some(self.port()?))
    }

    /// Stops the server; its data stays until this is dropped.
    pub fn stop(&self) {
        let mut running = self.running();
        while let Some(mut process) = running.pop() {
            process.stop();
        }
    }

    fn running(&self) -> MutexGuard<'_, Vec<Process>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, name: &str) -> Result<String, PlaneError> {
        let path = self.dir.join(name);
        std::fs::read_to_string(&path).map_err(PlaneError::io(format!("reading {}", path.display())))
    }

    /// The API server's port, as the kubeconfig says it.
    fn port(&self) -> Result<u16, PlaneError> {
        let text = self.read("kubeconfig")?;
        text.split("https://127.0.0.1:")
            .nth(1)
            .map(|rest| rest.chars().take_while(char::is_ascii_digit).collect::<String>())
            .and_then(|digits| digits.parse().ok())
            .ok_or_else(|| PlaneError::Bad { doing: "reading the port".into(), why: "not in the kubeconfig".into() })
    }

    fn launch(&self, port: Option<u16>) -> Result<(), PlaneError> {
        let remove = self.temporary.then_some(self.dir.as_path());
        let store = free_port()?;
        let started = match &self.server {
            Server::Assets(bin) => assets::launch(bin, &self.dir, &self.options, (port, store), remove)?,
            Server::Plane(bin) => vec![self.launch_plane(bin, (port, store), remove)?],
        };
        self.running().extend(started);
        self.store.store(store, Ordering::Relaxed);
        Ok(())
    }

    fn launch_plane(
        &self,
        bin: &Path,
        (port, store): (Option<u16>, u16),
        remove: Option<&Path>,
    ) -> Result<Process, PlaneError> {
        let mut command = Command::new(bin);
        command.arg("-dir").arg(&self.dir).arg("-port").arg(port.unwrap_or(0).to_string());
        command.arg("-etcd-port").arg(store.to_string());
        if let Some(log) = &self.options.audit_log {
            command.arg("-audit-log").arg(self.dir.join(log));
        }
        for arg in &self.options.apiserver_args {
            command.arg(format!("-apiserver-arg={arg}"));
        }
        let ready = self.dir.join("ready");
        if ready.exists() {
            std::fs::remove_file(&ready).map_err(PlaneError::io("removing an old ready file"))?;
        }
        let mut process = Process::start("plane", command, &self.log(), remove)?;
        let begun = Instant::now();
        while !ready.exists() {
            if let Some(failure) = process.failure() {
                return Err(failure);
            }
            if begun.elapsed() > READY {
                return Err(process.not_ready(READY, "no ready file"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(process)
    }
}

impl Drop for Plane {
    fn drop(&mut self) {
        self.stop();
        if self.temporary {
            let _ = std::fs::remove_dir_all(&self.dir);
        }
    }
}

/// Whether a test without a server must fail (`BERTH_REQUIRE_SERVER=1`) instead of being skipped.
pub fn required() -> bool {
    std::env::var("BERTH_REQUIRE_SERVER").is_ok_and(|v| !matches!(v.as_str(), "" | "0" | "false"))
}

/// The shared server for the test `name`, or `None` with a visible notice where no server is built.
///
/// # Panics
/// When a server is required and absent, or present and broken: both must fail the test that asks.
#[allow(clippy::panic, reason = "it is called by tests only, and a broken server must fail them")]
pub fn for_test(name: &str) -> Option<&'static Plane> {
    match Plane::shared() {
        Ok(plane) => Some(plane),
        Err(error @ PlaneError::NotFound { .. }) if !required() => {
            eprintln!("SKIPPED {name}: {error}");
            None
        }
        Err(error) => panic!("{name}: {error}"),
    }
}
