//! What the simulators that are programs share.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{Error, KeyPair};

/// Why a program ends before it was told to.
#[derive(Debug)]
pub enum Problem {
    /// A flag says what cannot be done.
    Flag(String),
    /// It did not work.
    Failed(String),
}

impl From<String> for Problem {
    fn from(what: String) -> Self {
        Self::Failed(what)
    }
}

/// Flags of every simulator.
#[derive(Debug, Args)]
pub struct Listen {
    /// Port to listen on; 0 = a free one.
    #[arg(long, default_value_t = 0)]
    pub port: u16,
    /// Certificate chain (PEM) to serve TLS with.
    #[arg(long, requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Private key (PEM) of that certificate.
    #[arg(long, requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Chance comes from this number alone.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

impl Listen {
    /// The key pair to serve TLS with, if one is named.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn key_pair(&self) -> Result<Option<KeyPair>, Problem> {
        let read = |flag: &str, path: &Path| {
            std::fs::read(path).map_err(|e| Problem::Flag(format!("{flag}: {}: {e}", path.display())))
        };
        match (&self.tls_cert, &self.tls_key) {
            (Some(cert), Some(key)) => {
                Ok(Some(KeyPair { chain: read("--tls-cert", cert)?, key: read("--tls-key", key)? }))
            }
            _ => Ok(None),
        }
    }
}

/// The wish to stop. Listened for from the beginning, so that none is missed.
#[derive(Debug)]
pub struct Stop(Signal);

impl Stop {
    /// Begins to listen.
    ///
    /// # Errors
    /// When the system does not let it.
    pub fn listen() -> Result<Self, String> {
        signal(SignalKind::terminate()).map(Self).map_err(|e| e.to_string())
    }

    /// Waits until somebody wishes it.
    pub async fn wished(mut self) {
        tokio::select! {
            _ = self.0.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
    }
}

/// An error with its cause, in one line.
#[must_use]
pub fn told(error: &Error) -> String {
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

/// The end of a program: what went wrong is said under its name. The code is 2 where a flag was wrong, else 1.
#[must_use]
pub fn ended(name: &str, outcome: Result<(), Problem>) -> ExitCode {
    let (what, code) = match outcome {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Problem::Flag(what)) => (what, 2),
        Err(Problem::Failed(what)) => (what, 1),
    };
    eprintln!("{name}: {what}");
    ExitCode::from(code)
}
