//! What is measured: one file per scenario, one line in [`all`].
//!
//! To add a scenario for a new capability:
//!
//! 1. Write `scenario/<name>.rs` with a type that implements [`Shape`] and [`Scenario`]: the kind it fills the cluster with,
//!    one object from a seed and an index (a pure function, so that both sides get the same set), and what must be true at
//!    the end.
//! 2. If the controller has to do something (bind, create, delete), put the user's actions into [`Scenario::drive`] and turn
//!    the watcher's stamps into raw latencies in [`Scenario::latencies`]. The runner calls `drive` once the process under
//!    test has settled, waits until it has settled again, and never reads the controller's own metrics.
//! 3. Add rows to [`Scenario::budgets`] when the capability has bars of its own; the common ones are there already.
//! 4. Add the type to [`all`].
//!
//! The runner does the rest: servers, seeding, the ceiling W, alternating sides, counting, memory, processor time, stopping,
//! the cross-check and the report.

mod idle;

use std::collections::BTreeMap;

use anyhow::Result;
use futures::future::BoxFuture;
use serde_json::Value;

use crate::budget::Budget;
use crate::http::Pool;
use crate::oracle::Snapshot;
use crate::watch::Stamp;

/// A custom kind as the API server serves it.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// API group.
    pub group: &'static str,
    /// Version.
    pub version: &'static str,
    /// Plural name.
    pub plural: &'static str,
    /// Kind name.
    pub kind: &'static str,
}

impl Kind {
    /// The path of the collection over all namespaces.
    pub fn path(&self) -> String {
        format!("/apis/{}/{}/{}", self.group, self.version, self.plural)
    }

    /// The path of the collection in a namespace.
    pub fn within(&self, namespace: &str) -> String {
        format!("/apis/{}/{}/namespaces/{namespace}/{}", self.group, self.version, self.plural)
    }

    /// The name of its definition.
    pub fn crd(&self) -> String {
        format!("{}.{}", self.plural, self.group)
    }
}

/// One object of the set.
pub struct Seeded {
    /// The collection it is created in.
    pub collection: String,
    /// Its name.
    pub name: String,
    /// What is created.
    pub object: Value,
    /// Who owns fields of it beside its creator: fields that the new object does not have yet.
    pub managed_fields: Value,
}

/// What a scenario did to the cluster, for the oracle.
pub struct Ended<'a> {
    /// The objects before the process under test was started.
    pub before: &'a Snapshot,
    /// The objects after it was stopped.
    pub after: &'a Snapshot,
    /// What the watcher saw in between.
    pub stamps: &'a [Stamp],
}

/// Objects of one kind, as many as wanted: what servers are filled with and what the ceiling W is measured with.
pub trait Shape: Send + Sync {
    /// The kind.
    fn kind(&self) -> Kind;

    /// Object `index` of the set with this seed.
    fn object(&self, seed: u64, index: u64) -> Seeded;

    /// A merge patch that changes the status of any object of the kind, for the ceiling W.
    fn status_patch(&self, round: u64) -> Value;

    /// Other objects whose metadata is patched in place of these, for the ceiling W: what a patch costs the server depends on
    /// what is patched.
    fn patched(&self) -> Option<&dyn Shape> {
        None
    }
}

/// One thing to measure.
pub trait Scenario: Shape {
    /// The name on the command line.
    fn name(&self) -> &'static str;

    /// One sentence for `--help` and the report.
    fn about(&self) -> &'static str;

    /// The user's actions once the process under test has settled, and whether there were any; none by default.
    fn drive<'a>(&'a self, _server: &'a Pool) -> BoxFuture<'a, Result<bool>> {
        Box::pin(std::future::ready(Ok(false)))
    }

    /// Raw latencies in milliseconds by name, from the watcher's stamps; none by default.
    fn latencies(&self, _stamps: &[Stamp]) -> BTreeMap<String, Vec<f64>> {
        BTreeMap::new()
    }

    /// Everything that is wrong at the end; an empty list closes the run as correct.
    fn oracle(&self, ended: &Ended<'_>) -> Vec<String>;

    /// Bars beyond the common ones.
    fn budgets(&self, _objects: u64) -> Vec<Budget> {
        Vec::new()
    }
}

/// The objects that W is measured with where a capability has no writes of its own to compare with.
pub fn plain() -> impl Shape {
    idle::Idle
}

/// Every scenario there is.
pub fn all() -> Vec<Box<dyn Scenario>> {
    vec![Box::new(idle::Idle)]
}

/// Deterministic numbers from a seed; the same on every machine.
pub struct Dice(u64);

impl Dice {
    /// Numbers for one object of a set.
    pub fn new(seed: u64, index: u64) -> Self {
        Self(seed ^ index.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// The next 64 bits (splitmix64).
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }

    /// One of the words.
    pub fn word(&mut self, words: &[&'static str]) -> &'static str {
        let n = self.between(0, words.len().max(1) as u64 - 1) as usize;
        words.get(n).copied().unwrap_or_default()
    }
}
