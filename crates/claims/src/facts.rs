//! What decisions use of each kind, and the feeds that keep it.

mod claim;
mod cluster;
mod hardware;
mod host;
mod kept;
mod ruled;
mod secret;
mod short;
mod space;
mod world;

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_json::Value;

pub use claim::{ClaimFacts, Claims, LONGEST};
pub use cluster::{ClusterFacts, Clusters};
pub use hardware::{Hardware, HardwareFacts, Nic};
pub use host::{Consumer, HostFacts, Hosts, Image, Mark, SecretRef};
pub use kept::{KeptClaim, WAITING, Wish};
pub use ruled::{Policies, PolicyFacts, QuotaFacts, Quotas, Ruled};
pub use secret::{SecretFacts, Secrets};
pub use space::{SpaceFacts, Spaces};
pub use world::World;

/// Labels or annotations.
pub type Texts = BTreeMap<Box<str>, Box<str>>;

/// The annotation in which kubectl keeps a copy of the whole object.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Keeps those entries that `keep` accepts, in their small form.
fn texts(all: Option<BTreeMap<String, String>>, keep: impl Fn(&str) -> bool) -> Texts {
    let mut small = Texts::new();
    for (key, value) in all.unwrap_or_default().into_iter().filter(|(key, _)| keep(key)) {
        small.insert(key.into(), value.into());
    }
    small
}

/// Reads a spec; what is wrong with it names the field.
///
/// # Errors
/// The path of the field that cannot be read, and why.
fn spec<T: DeserializeOwned + Default>(value: Value) -> Result<T, Box<str>> {
    if value.is_null() {
        return Ok(T::default());
    }
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        let path = if path == "." { "spec".to_owned() } else { format!("spec.{path}") };
        format!("{path}: {}", error.into_inner()).into()
    })
}

/// Reads a status; one that cannot be read is one that was never written, because all of it can be found again.
fn status<T: DeserializeOwned + Default>(value: Value) -> T {
    serde_json::from_value(value).unwrap_or_default()
}

#[cfg(test)]
mod tests;
