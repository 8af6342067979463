//! The authorities of clients from a file, as secrets and config maps are mounted.

use std::path::{Path, PathBuf};

use tokio_util::sync::CancellationToken;

use super::directory::{DirectoryError, POLL, Watch, changed, read};
use crate::class::chain;
use crate::serve::{Clients, TlsError};

/// Why the file was not taken.
#[derive(Debug, thiserror::Error)]
pub enum ClientFileError {
    /// It cannot be read.
    #[error(transparent)]
    Read(#[from] DirectoryError),
    /// It holds no usable authorities.
    #[error("new authorities in {path} not taken", path = path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        #[source]
        source: TlsError,
    },
}

/// Follows a file and hands every good content to the servers that check clients by it.
#[derive(Debug)]
pub struct ClientFile {
    path: PathBuf,
    clients: Clients,
    loaded: Vec<u8>,
    /// The last complaint, so that a lasting problem is logged once.
    complaint: Option<String>,
}

impl ClientFile {
    /// Follows `path`, of which `clients` has taken `loaded` already.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>, clients: Clients, loaded: Vec<u8>) -> Self {
        Self { path: path.into(), clients, loaded, complaint: None }
    }

    /// Follows the file until `stop`. Never gives up: what is missing may come.
    pub async fn run(mut self, stop: CancellationToken) {
        let folder = self.path.parent().unwrap_or_else(|| Path::new(".")).to_owned();
        let mut watch = None;
        loop {
            // The watch comes before the reading, so that no change falls in between.
            if watch.is_none() {
                watch = Watch::on(&folder).ok();
            }
            match self.refresh().await {
                Ok(true) => tracing::info!(path = %self.path.display(), "authorities of clients loaded"),
                Ok(false) => self.complaint = None,
                Err(error) => {
                    let problem = chain(&error);
                    if self.complaint.as_ref() != Some(&problem) {
                        tracing::warn!(error = problem, "authorities of clients not taken, the old ones stay");
                    }
                    self.complaint = Some(problem);
                }
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(POLL) => {}
                alive = changed(watch.as_mut()) => if !alive { watch = None },
            }
        }
    }

    /// Reads the file once; takes it if it is new and good; returns whether anything changed.
    ///
    /// # Errors
    /// When it was not taken; the old authorities are still in force.
    pub async fn refresh(&mut self) -> Result<bool, ClientFileError> {
        let pem = read(&self.path).await?;
        if pem == self.loaded {
            return Ok(false);
        }
        self.clients.store(&pem).map_err(|source| ClientFileError::Unusable { path: self.path.clone(), source })?;
        self.loaded = pem;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::pair;
    use super::*;

    #[tokio::test]
    async fn a_new_file_is_taken_and_a_bad_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ca.crt");
        let (old, new) = (pair("a").0, pair("b").0);
        std::fs::write(&path, &old).unwrap();
        let clients = Clients::from_pem(old.as_bytes()).unwrap();
        let mut file = ClientFile::new(&path, clients, old.into_bytes());
        assert!(!file.refresh().await.unwrap(), "equal content changes nothing");
        std::fs::write(&path, "junk").unwrap();
        assert!(matches!(file.refresh().await, Err(ClientFileError::Unusable { .. })));
        std::fs::write(&path, &new).unwrap();
        assert!(file.refresh().await.unwrap());
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(file.refresh().await, Err(ClientFileError::Read(_))));
    }
}
