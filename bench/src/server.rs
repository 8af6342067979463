//! A real API server per leg, each on its own data directory.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use http::HeaderValue;
use http::header::USER_AGENT;
use sim::plane::{Options, Plane};

use crate::store::Store;

/// A running API server with its store and an audit log; dropping it stops it.
pub struct Server {
    plane: Plane,
    audit_log: PathBuf,
}

impl Server {
    /// Starts a server on `dir` (kept data is used) and waits until it is ready.
    pub async fn start(dir: &Path) -> Result<Self> {
        Self::launch(dir, true).await
    }

    /// User and system seconds of the server and its store so far.
    pub fn cpu_seconds(&self) -> Result<f64> {
        crate::proc::cpu_seconds(self.plane.pid().context("the server does not run")?)
    }

    /// The same without an audit log, which costs each request: to fill a store whose requests nobody counts.
    pub async fn unlogged(dir: &Path) -> Result<Self> {
        Self::launch(dir, false).await
    }

    async fn launch(dir: &Path, logged: bool) -> Result<Self> {
        std::fs::create_dir_all(dir).with_context(|| format!("creating {}", dir.display()))?;
        let dir = dir.canonicalize().with_context(|| format!("finding {}", dir.display()))?;
        let audit_log = dir.join("audit.log");
        // Left by an earlier start on the same directory; absent on a fresh one.
        let _ = std::fs::remove_file(&audit_log);
        let options = Options {
            dir: Some(dir),
            audit_log: logged.then(|| audit_log.clone()),
            // The server would begin a new file every 100 MiB, which are about 100,000 requests.
            apiserver_args: if logged { vec!["--audit-log-maxsize=100000".to_owned()] } else { Vec::new() },
        };
        let plane = tokio::task::spawn_blocking(move || Plane::start_with(options)).await;
        let plane = plane.context("starting the API server")?.context("starting the API server")?;
        Ok(Self { plane, audit_log })
    }

    /// Its administrator's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.plane.kubeconfig_path()
    }

    /// The store behind it.
    pub fn store(&self) -> Store {
        Store::at(self.plane.store_port())
    }

    /// A directory with `tls.crt` and `tls.key` for servers on loopback, and with `ca.crt`, their authority.
    pub fn cert_dir(&self) -> Result<PathBuf> {
        self.plane.webhook_cert_dir().context("making certificates")
    }

    /// A kubeconfig of its administrator that needs no file beside it, as Secrets hold it.
    pub fn stored_kubeconfig(&self) -> Result<String> {
        let kubeconfig = sim::provider::kubeconfig(&self.plane).context("making a kubeconfig")?;
        Ok(kubeconfig.to_string())
    }

    /// A client with the administrator's rights that calls itself `agent`.
    pub async fn client(&self, agent: &'static str) -> Result<kube::Client> {
        let mut config = self.plane.config().await.context("reading the kubeconfig")?;
        config.default_retry = false;
        config.headers.push((USER_AGENT, HeaderValue::from_static(agent)));
        kube::Client::try_from(config).context("making a client")
    }

    /// Its audit log.
    pub fn audit_log(&self) -> PathBuf {
        self.audit_log.clone()
    }

    /// Stops it; the data directory can be copied afterwards. A server that had ended by itself is an error.
    pub async fn stop(self) -> Result<()> {
        tokio::task::spawn_blocking(move || {
            let failure = self.plane.failure();
            self.plane.stop();
            failure.map_or(Ok(()), Err)
        })
        .await
        .context("stopping the API server")?
        .context("the API server ended while it was in use")
    }
}

/// Copies a stopped server's data directory, without its logs.
pub fn copy_data(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to).with_context(|| format!("creating {}", to.display()))?;
    for entry in std::fs::read_dir(from).with_context(|| format!("reading {}", from.display()))? {
        let entry = entry.with_context(|| format!("reading {}", from.display()))?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type().with_context(|| format!("looking at {}", source.display()))?.is_dir() {
            copy_data(&source, &target)?;
        } else if source.extension().is_none_or(|e| e != "log") && entry.file_name() != "ready" {
            std::fs::copy(&source, &target)
                .with_context(|| format!("copying {} to {}", source.display(), target.display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copied_data_directory_leaves_logs_and_readiness_behind() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("a"), dir.path().join("b"));
        std::fs::create_dir_all(from.join("etcd/member")).unwrap();
        for f in ["etcd/member/db", "ca.crt", "audit.log", "ready"] {
            std::fs::write(from.join(f), f).unwrap();
        }
        copy_data(&from, &to).unwrap();
        assert_eq!(std::fs::read_to_string(to.join("etcd/member/db")).unwrap(), "etcd/member/db");
        assert!(to.join("ca.crt").exists() && !to.join("audit.log").exists() && !to.join("ready").exists());
    }
}
