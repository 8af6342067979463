//! What every kind of claimed compute promises, as tests.
//!
//! A kind says how its controller is started, what exists on its platform and how that platform misbehaves
//! ([`Kind`]); [`contract!`](crate::contract!) makes one test of each promise. A promise that a kind cannot give is skipped
//! by its own declaration, and the skip is printed.
//!
//! The worlds of these tests are in memory and their time is paused, so hours pass in milliseconds. [`fake`] is the
//! smallest kind that keeps every promise, and its flaws show that each test can fail.
#![allow(clippy::indexing_slicing, reason = "JSON is indexed, which cannot panic")]

pub mod fake;
mod promises;
mod script;

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use api::own::Capability;
use serde_json::Value;
use sim::server::{Clock, Gate};
use sim::sweep::World;

pub use promises::{PROMISES, Promise};

use crate::heartbeat::KindProfile;

/// The namespace of the tests' claims.
pub const TENANT: &str = "tenant";
/// Another tenant's namespace, whose secrets and name are nobody else's business.
pub const OTHER: &str = "other-tenant";
/// A Secret with the key `userData`, `metaData`, `networkData` and `value`, each holding `<key> of the tenant`.
pub const DATA: &str = "data";

/// The world of one test: server, clock and platform.
pub type Place<K> = World<<K as Kind>::Platform>;

/// One machine, or whatever a claim of the kind gets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resource {
    /// The platform's name of it.
    pub id: String,
    /// The uid of the claim it was made or taken for.
    pub claim: String,
    /// Whether it runs what was asked for.
    pub running: bool,
    /// Whether it is switched on.
    pub powered: bool,
    /// The image that runs, where claims choose one.
    pub image: Option<String>,
    /// What reached the guest: `userData`, `metaData`, `networkData`.
    pub data: BTreeMap<String, String>,
    /// How often it was rebooted.
    pub reboots: u32,
}

/// How a platform behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    /// Everything works at once.
    Well,
    /// What is begun does not end until the mood is better.
    Slow,
    /// What is tried fails, with words that no tenant may read.
    Failing,
}

/// A kind, as the tests need it.
pub trait Kind: Sync {
    /// The platform: what lies outside of the tested controller.
    type Platform: Send + Sync;

    /// The kind as its controller registers it.
    fn profile(&self) -> KindProfile;

    /// A new platform. What it does for the controller passes the gate, unless the API server is the platform.
    fn platform(&self, gate: &Gate, clock: &Clock) -> Self::Platform;

    /// What administrators have set up, with room for three claims of the tenant.
    fn prepare(&self, place: &Place<Self>) -> impl Future<Output = ()> + Send
    where
        Self: Sized;

    /// The controller: runs until it is dropped, and begins again from stored state only.
    fn process(&self, place: Arc<Place<Self>>, client: kube::Client) -> impl Future<Output = ()> + Send
    where
        Self: Sized;

    /// The spec of a claim that gets a machine which runs something.
    fn spec(&self) -> Value;

    /// Everything that exists for claims.
    fn resources(&self, place: &Place<Self>) -> Vec<Resource>
    where
        Self: Sized;

    /// Changes how the platform behaves from now on.
    fn mood(&self, place: &Place<Self>, mood: Mood)
    where
        Self: Sized;

    /// Destroys a resource without telling the controller.
    fn lose(&self, place: &Place<Self>, id: &str)
    where
        Self: Sized;

    /// How often the controller has asked the platform anything.
    fn calls(&self, place: &Place<Self>) -> usize
    where
        Self: Sized;

    /// What the platform's failures say that no tenant may read: endpoints, credentials, other tenants.
    fn sensitive(&self) -> Vec<String>;

    /// A failure domain that exists; needed with the capability `failureDomain`.
    fn zone(&self) -> &'static str {
        ""
    }

    /// The argument that names the credentials of a claim; `None` when claims name none.
    fn credentials(&self) -> Option<&'static str> {
        None
    }

    /// A Secret with credentials that work; needed where a claim's credentials have a form of their own.
    fn account(&self, _place: &Place<Self>, namespace: &str, name: &str) -> Value
    where
        Self: Sized,
    {
        script::secret(namespace, name)
    }

    /// An image that the kind cannot deploy; `None` when it deploys any.
    fn bad_image(&self) -> Option<Value> {
        None
    }
}

/// Whether the kind can do this.
fn can<K: Kind>(kind: &K, capability: Capability) -> bool {
    kind.profile().capabilities.contains(&capability)
}

/// How a promise was kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kept {
    /// All of it.
    Whole,
    /// But for what the kind declares that it cannot do.
    Except(Vec<String>),
}

/// A promise that was not kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{promise} is broken by {kind}: {words}\n{why}")]
pub struct Broken {
    /// Its number.
    pub promise: &'static str,
    /// What was promised.
    pub words: &'static str,
    /// Who broke it.
    pub kind: &'static str,
    /// What was seen.
    pub why: String,
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole => f.write_str("kept"),
            Self::Except(skipped) => write!(f, "kept; skipped: {}", skipped.join("; ")),
        }
    }
}

/// Tests one promise, prints what was skipped, and fails with what was seen.
///
/// # Panics
/// When the promise is broken.
#[allow(clippy::panic, clippy::print_stdout, reason = "this is how a test ends")]
pub fn assert_kept<K: Kind>(kind: &K, number: &str) {
    let Some(promise) = PROMISES.iter().find(|promise| promise.number == number) else {
        panic!("there is no promise {number}");
    };
    match promise.test(kind) {
        Ok(kept) => println!("{number} of {}: {kept}", kind.profile().name),
        Err(broken) => panic!("{broken}"),
    }
}

/// Makes one test of each promise, for the kind that the expression gives.
#[macro_export]
macro_rules! contract {
    (@ $kind:expr; $($name:ident $number:literal),+) => {
        $(
            #[test]
            fn $name() {
                $crate::contract::assert_kept(&$kind, $number);
            }
        )+
    };
    ($kind:expr) => {
        $crate::contract!(@ $kind;
            k1 "K1", k2 "K2", k3 "K3", k4 "K4", k5 "K5", k6 "K6", k7 "K7", k8 "K8", k9 "K9", k10 "K10", k11 "K11",
            k12 "K12", k13 "K13", k14 "K14", k15 "K15");
    };
}
