//! `berth bundle`: everything that somebody who helps needs to see, in one archive, without secrets.
//!
//! Objects are read with the rights of whoever asks; what those do not cover is listed and never a failure. Secrets are
//! never read, and what other objects and texts hold of them is taken out before anything is written.

mod gather;
mod index;
mod names;
mod redact;
mod sink;
mod tar;
mod text;
mod wanted;

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use kit::clock::Clock;

use crate::Usage;
use crate::cli::ClusterOptions;
use crate::screen::Screen;

use gather::{Gather, Progress};
use index::Manifest;
use sink::Place;

/// Bytes of one container's log that are kept: its end.
const MOST_LOG: usize = 10 << 20;
/// Why most kinds are left out of most bundles.
const UNKNOWN: &str = "the server does not know it";

/// Flags of `berth bundle`.
#[derive(Args, Debug)]
pub struct BundleOptions {
    #[command(flatten)]
    pub cluster: ClusterOptions,
    /// File to write, if it ends in .tar.gz or .tgz, or else directory to make (default: berth-bundle-TIME.tar.gz here)
    #[arg(short, long, value_name = "FILE|DIR")]
    pub output: Option<PathBuf>,
    /// Only objects and events of this namespace; repeatable (default: all)
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Vec<api::names::DnsLabel>,
    /// Namespace Berth runs in: its pods, logs, metrics, ConfigMaps and lease
    #[arg(long, value_name = "NAME", default_value = "berth-system")]
    pub operator_namespace: api::names::DnsLabel,
}

/// Writes a bundle and says what is in it.
pub async fn bundle(options: BundleOptions) -> anyhow::Result<()> {
    let agent = concat!("berth-bundle/", env!("CARGO_PKG_VERSION"));
    let client = crate::connect(&options.cluster, agent).await?;
    let now = Clock::system().now();
    let path = options.output.clone().unwrap_or_else(|| default_path(&now.to_string()));
    let changed = u64::try_from(now.as_second()).unwrap_or_default();
    let mut place = open(&path, changed)?;
    let manifest = Manifest {
        made: now.to_string(),
        berth: env!("CARGO_PKG_VERSION").to_owned(),
        operator_namespace: options.operator_namespace.to_string(),
        ..Manifest::default()
    };
    let namespaces: Vec<String> = options.namespace.iter().map(ToString::to_string).collect();
    let mut gather = Gather::new(&client, &mut place, &namespaces, Progress::standard_error(), manifest);
    let outcome = gather.all().await;
    let manifest = gather.manifest;
    if let Err(error) = outcome {
        place.discard();
        return Err(error);
    }
    place.finish().with_context(|| format!("writing {}", path.display()))?;
    let screen = index::summary(Screen::standard_output(), &path.display().to_string(), &manifest);
    Ok(std::io::stdout().write_all(screen.as_bytes())?)
}

fn open(path: &Path, changed: u64) -> anyhow::Result<Place> {
    Place::open(path, changed).map_err(|error| Usage(format!("--output: {}: {error}", path.display())).into())
}

/// A name that sorts by time and has nothing in it that a shell or a file system minds.
fn default_path(now: &str) -> PathBuf {
    let whole = now.split('.').next().unwrap_or_default().trim_end_matches('Z');
    let time: String = whole.chars().filter(|c| c.is_ascii_alphanumeric()).collect();
    PathBuf::from(format!("berth-bundle-{time}Z.tar.gz"))
}

#[cfg(test)]
mod tests;
