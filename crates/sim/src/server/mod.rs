//! An API server in memory, for tests: the kube client talks to it as to a real one.
//!
//! It keeps objects as JSON under one revision and does what controllers rely on: conflicts, preconditions,
//! generation, status subresources, finalizers, owner garbage collection, selectors, paging, server-side
//! apply with field ownership, merge and JSON patch, watches with bookmarks and 410, metadata-only reads and
//! discovery. The suite in [`crate::conformance`] passes on it and on a real server.
//!
//! Not modelled, and therefore never a reason for a refusal here: authorization, admission webhooks, CEL
//! rules, patterns and formats of schemas, conversion webhooks (all versions of a kind show the same fields).
//! Refused with a clear error: streaming initial lists, strategic merge patch, YAML that is not JSON.
//!
//! ```
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use kube::api::{Api, PostParams};
//! use sim::server::{Action, Kind, Rule, Server};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(async {
//! let server = Server::new(7); // the seed: uids, generated names, chance
//! server.register(Kind::namespaced("example.test", "v1", "Widget", "widgets"));
//!
//! let handle = server.client("tester"); // one controllable connection
//! let maps: Api<ConfigMap> = Api::namespaced(handle.kube(), "default");
//! let mut map = ConfigMap::default();
//! map.metadata.name = Some("a".into());
//! maps.create(&PostParams::default(), &map).await.unwrap();
//!
//! // The next patch is committed, but its answer is lost.
//! server.inject(Rule::any().method("PATCH").client("tester"), Action::DropAnswer);
//! // What a controller's cache is filled from stays as it is now.
//! handle.freeze(server.revision());
//! handle.thaw();
//! // The process dies: nothing is answered any more, its watches end.
//! handle.crash();
//!
//! // Looking and acting from outside, without a client:
//! assert!(server.get("configmaps", "default", "a").is_some());
//! server.put(serde_json::json!({
//!     "apiVersion": "example.test/v1", "kind": "Widget",
//!     "metadata": { "name": "w", "namespace": "default" }, "spec": { "size": 3 },
//! })).unwrap();
//! assert_eq!(server.log().last().unwrap().effect, Some(1));
//! # });
//! ```
#![allow(clippy::indexing_slicing, reason = "only JSON objects built or checked here are indexed, which cannot panic")]

mod apply;
mod builtin;
mod check;
mod collect;
mod discovery;
mod faults;
mod fields;
mod gate;
mod hand;
mod handle;
mod http;
mod kinds;
mod log;
mod managed;
mod patch;
mod rng;
mod schema;
mod select;
mod status;
mod store;
mod stored;
mod verbs;
mod watch;
mod write;

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

pub use faults::{Action, EventAction, FaultId, RequestInfo, Rule};
pub use gate::{Effect, Gate, Moment, Pass};
pub(crate) use handle::Line;
pub use handle::{Handle, Service};
pub use kinds::Kind;
pub use log::{Entry, Outcome};
pub use rng::Rng;
pub use store::Key;
pub use stored::stored;

/// Reads the time; given by the test, so that a run can be repeated.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// A clock that begins at 2026-01-01 and follows tokio's time, so that it can be paused.
#[must_use]
pub fn tokio_clock() -> Clock {
    let start = tokio::time::Instant::now();
    let epoch = Timestamp::constant(1_767_225_600, 0);
    Arc::new(move || {
        let passed = tokio::time::Instant::now().saturating_duration_since(start);
        epoch.checked_add(SignedDuration::try_from(passed).unwrap_or(SignedDuration::ZERO)).unwrap_or(epoch)
    })
}

/// A refused direct call on the server.
#[derive(Debug, thiserror::Error)]
#[error("{what} was refused with {code} {reason}: {message}")]
pub struct Refused {
    /// What was tried.
    pub what: String,
    /// HTTP status code.
    pub code: u16,
    /// Machine-readable reason.
    pub reason: String,
    /// The server's words.
    pub message: String,
}

pub(crate) struct Inner {
    core: Mutex<write::Core>,
    clock: Clock,
    /// Wakes those who wait for a change in the order in which they began to wait: tokio's channel for values wakes its
    /// receivers in an order that it draws, and then the same seed would give another run.
    ticks: tokio::sync::Notify,
    faults: Mutex<faults::Faults>,
    log: Mutex<log::Log>,
    in_flight: AtomicU64,
    watches: AtomicU64,
    cut: AtomicU64,
    expire: AtomicU64,
    nudge: AtomicU64,
}

pub(crate) struct OpenWatch(Arc<Inner>);

impl Drop for OpenWatch {
    fn drop(&mut self) {
        self.0.watches.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Inner {
    pub(crate) fn core(&self) -> MutexGuard<'_, write::Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> Timestamp {
        (self.clock)()
    }

    pub(crate) fn tick(&self) {
        self.ticks.notify_waiters();
    }

    pub(crate) fn cuts(&self) -> u64 {
        self.cut.load(Ordering::SeqCst)
    }

    pub(crate) fn expiries(&self) -> u64 {
        self.expire.load(Ordering::SeqCst)
    }

    pub(crate) fn nudges(&self) -> u64 {
        self.nudge.load(Ordering::SeqCst)
    }

    pub(crate) fn open_watch(self: &Arc<Self>) -> OpenWatch {
        self.watches.fetch_add(1, Ordering::SeqCst);
        OpenWatch(self.clone())
    }

    pub(crate) fn faults(&self) -> MutexGuard<'_, faults::Faults> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn log(&self) -> MutexGuard<'_, log::Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The server. Cheap to clone; all clones are the same server.
#[derive(Clone)]
pub struct Server {
    inner: Arc<Inner>,
}

impl Server {
    /// A server with the built-in kinds and the namespaces `default` and `kube-system`, on tokio's time.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self::with_clock(seed, tokio_clock())
    }

    /// The same with a given clock.
    #[must_use]
    pub fn with_clock(seed: u64, clock: Clock) -> Self {
        let core = write::Core {
            store: store::Store::new(),
            registry: kinds::Registry::with_builtins(),
            rng: Rng::new(seed),
            inspect: Vec::new(),
            collector: true,
        };
        let server = Self {
            inner: Arc::new(Inner {
                core: Mutex::new(core),
                clock,
                ticks: tokio::sync::Notify::new(),
                faults: Mutex::default(),
                log: Mutex::default(),
                in_flight: AtomicU64::new(0),
                watches: AtomicU64::new(0),
                cut: AtomicU64::new(0),
                expire: AtomicU64::new(0),
                nudge: AtomicU64::new(0),
            }),
        };
        for namespace in http::first_namespaces() {
            // The kinds and names are our own, so this cannot be refused.
            let _ = server.put(namespace);
        }
        server
    }

    /// The server's clock.
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.inner.clock.clone()
    }

    /// Adds a resource type (a created CustomResourceDefinition does the same).
    pub fn register(&self, kind: Kind) {
        self.inner.core().registry.add(kind);
    }

    /// A new connection under a name of its own.
    #[must_use]
    pub fn client(&self, name: &str) -> Handle {
        Handle::new(self.inner.clone(), name)
    }

    /// A kube client on a connection nobody will disturb.
    #[must_use]
    pub fn kube(&self) -> kube::Client {
        self.client("default").kube()
    }

    /// The current revision.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.inner.core().store.rev
    }

    /// One object, by `plural.group` (or `plural`), namespace (or empty) and name.
    #[must_use]
    pub fn get(&self, resource: &str, namespace: &str, name: &str) -> Option<Value> {
        let key = Key::new(resource, namespace, name);
        self.inner.core().store.get(&key).map(|v| Value::clone(v))
    }

    /// All objects of a type, of one namespace unless it is empty.
    #[must_use]
    pub fn list(&self, resource: &str, namespace: &str) -> Vec<Value> {
        let core = self.inner.core();
        core.store.range(resource, namespace).map(|(_, v)| Value::clone(v)).collect()
    }

    /// Every object there is, by key.
    #[must_use]
    pub fn objects(&self) -> Vec<(Key, Value)> {
        let core = self.inner.core();
        core.store.all().map(|(k, v)| (k.clone(), Value::clone(v))).collect()
    }

    /// Every change after a revision, oldest first: key, revision, whether the object was gone from then on, and its (last)
    /// state. Changes that were compacted away are not in it.
    #[must_use]
    pub fn changes(&self, after: u64) -> Vec<(Key, u64, bool, Arc<Value>)> {
        let core = self.inner.core();
        core.store.since(after).map(|e| (e.key.clone(), e.rev, e.deleted, e.object.clone())).collect()
    }

    /// Creates an object or replaces the one that is there, status included; the hand of the test.
    ///
    /// # Errors
    /// When the kind is not registered or the object is not acceptable.
    pub fn put(&self, object: Value) -> Result<Value, Refused> {
        let done = self.direct(|core, now| core.put_whole(object, now));
        done.map_err(|f| refused("putting an object", &f))
    }

    /// Changes an object in place by a function; the hand of the test.
    ///
    /// # Errors
    /// When there is no such object, or the result is not acceptable.
    pub fn edit(
        &self,
        resource: &str,
        namespace: &str,
        name: &str,
        change: impl FnOnce(&mut Value),
    ) -> Result<Value, Refused> {
        let what = format!("editing {resource} {namespace}/{name}");
        let mut object = self.get(resource, namespace, name).ok_or_else(|| Refused {
            what: what.clone(),
            code: 404,
            reason: "NotFound".into(),
            message: "no such object".into(),
        })?;
        change(&mut object);
        let done = self.direct(|core, now| core.put_whole(object, now));
        done.map_err(|f| refused(&what, &f))
    }

    /// Deletes an object as a user would (finalizers hold it); false when there was none.
    pub fn delete(&self, resource: &str, namespace: &str, name: &str) -> bool {
        let key = Key::new(resource, namespace, name);
        self.direct(|core, now| {
            let there = core.store.get(&key).is_some();
            core.begin_delete(&key, "", now);
            there
        })
    }

    /// Creates a namespace unless it is there.
    pub fn namespace(&self, name: &str) {
        if self.get(kinds::NAMESPACES, "", name).is_none() {
            // A name that is not acceptable shows itself at the first use.
            let _ =
                self.put(serde_json::json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } }));
        }
    }

    fn direct<T>(&self, work: impl FnOnce(&mut write::Core, Timestamp) -> T) -> T {
        let now = self.inner.now();
        let out = {
            let mut core = self.inner.core();
            let out = work(&mut core, now);
            core.collect(now);
            out
        };
        self.inner.tick();
        out
    }

    /// Runs the garbage collector now; it otherwise runs after every write.
    pub fn collect(&self) {
        self.direct(|core, now| core.collect(now));
    }

    /// Switches the automatic garbage collector on or off.
    pub fn set_collector(&self, on: bool) {
        self.inner.core().collector = on;
    }

    /// Does something to the requests a rule meets.
    pub fn inject(&self, rule: Rule, action: Action) -> FaultId {
        self.inner.faults().add(rule, action)
    }

    /// How many requests a fault has met.
    #[must_use]
    pub fn hits(&self, fault: FaultId) -> u64 {
        self.inner.faults().hits(fault)
    }

    /// Ends one fault.
    pub fn stop_fault(&self, fault: FaultId) {
        self.inner.faults().stop(fault);
    }

    /// Ends all injected faults.
    pub fn stop_faults(&self) {
        self.inner.faults().stop_all();
    }

    /// Forgets history up to and including `revision`: older watches get 410.
    pub fn compact(&self, revision: u64) {
        self.inner.core().store.compact(revision);
        self.inner.tick();
    }

    /// Ends every open watch without a word.
    pub fn cut_watches(&self) {
        self.inner.cut.fetch_add(1, Ordering::SeqCst);
        self.inner.tick();
    }

    /// Ends every open watch with 410 `Expired`.
    pub fn expire_watches(&self) {
        self.inner.expire.fetch_add(1, Ordering::SeqCst);
        self.inner.tick();
    }

    /// Sends a bookmark on every open watch that asked for them.
    pub fn bookmark(&self) {
        self.inner.nudge.fetch_add(1, Ordering::SeqCst);
        self.inner.tick();
    }

    /// The requests so far (the last 100,000).
    #[must_use]
    pub fn log(&self) -> Vec<Entry> {
        self.inner.log().entries()
    }

    /// How many requests there were.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.inner.log().requests()
    }

    /// How many mutating requests reached the store.
    #[must_use]
    pub fn effects(&self) -> u64 {
        self.inner.log().effects()
    }

    /// Requests that are not answered yet; open watches do not count.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.inner.in_flight.load(Ordering::SeqCst)
    }

    /// Open watches.
    #[must_use]
    pub fn open_watches(&self) -> u64 {
        self.inner.watches.load(Ordering::SeqCst)
    }

    /// Waits until `done` says so, looking again after every change; false after `limit`.
    pub async fn wait_until(&self, limit: Duration, mut done: impl FnMut(&Server) -> bool) -> bool {
        let deadline = tokio::time::Instant::now() + limit;
        loop {
            // Begun before looking, so that a change in between is not missed.
            let ticked = self.inner.ticks.notified();
            if done(self) {
                return true;
            }
            if tokio::time::timeout_at(deadline, ticked).await.is_err() {
                return done(self);
            }
        }
    }
}

fn refused(what: &str, failure: &status::Failure) -> Refused {
    Refused {
        what: what.to_owned(),
        code: failure.code,
        reason: failure.reason.to_owned(),
        message: failure.message.clone(),
    }
}
