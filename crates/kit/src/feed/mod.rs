//! One watch per kind, projected before it is stored, with secondary indexes and change notices.
//!
//! - Several rooms may keep different things of one kind: each projection has an index of its own, all filled by the
//!   same watch.
//! - Memory follows the projection, not the object: [`Project::slim`] runs before anything is kept.
//! - A notice is sent only when the projection changed, so a status that others rewrite does not wake us.
//! - A relist is compared with the index: what vanished while we were disconnected is announced as gone.
//! - Our own writes are remembered until the watch has shown them, so that nobody decides on the past.
//! - A kind that is not served yet is waited for; one that stops being served is announced as gone.

mod index;
mod lists;
mod run;
mod wire;

use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use api::key::ObjectKey;
use api::meta::View;
use serde::de::DeserializeOwned;
use tokio::sync::Notify;

use index::Index;
pub use index::{Delta, Version};
pub(crate) use lists::client;
pub use run::Scope;
pub(crate) use run::{Question, Reconnect, Source, Watch};

use crate::clock::Clock;
use crate::kinds::Kind;

/// What can be watched: a lenient view of one kind, which skips managed fields while decoding.
pub trait Watched: View + Clone + DeserializeOwned + Debug + Send + 'static {}

impl<K: View + Clone + DeserializeOwned + Debug + Send + 'static> Watched for K {}

/// What is kept of the objects of one kind.
pub trait Project: Send + Sync + 'static {
    /// What the server sends, or as much of it as this projection reads.
    type Source: Watched;
    /// What decisions use.
    type Slim: PartialEq + Send + Sync + 'static;
    /// Names of the secondary indexes, in the order [`Project::keys`] numbers them.
    const INDEXES: &'static [&'static str] = &[];
    /// Keeps what decisions use.
    fn slim(source: Self::Source) -> Self::Slim;
    /// The values of one object in the index with this number.
    fn keys(_index: usize, _key: &ObjectKey, _slim: &Self::Slim) -> Vec<Box<str>> {
        Vec::new()
    }
}

/// How far a feed has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The first list is not complete.
    Listing,
    /// The server does not serve the kind; there is nothing to know about it.
    Missing,
    /// The index has held a complete list at least once.
    Synced,
}

/// What the index knows of one object.
#[derive(Debug, PartialEq, Eq)]
pub enum Seen<S> {
    /// The object is there.
    At(Arc<S>),
    /// There is no such object.
    Absent,
    /// The index is older than our own last write: decide later.
    Behind,
}

impl<S> Clone for Seen<S> {
    fn clone(&self) -> Self {
        match self {
            Self::At(slim) => Self::At(Arc::clone(slim)),
            Self::Absent => Self::Absent,
            Self::Behind => Self::Behind,
        }
    }
}

type Observer<S> = Box<dyn Fn(&Delta<S>) + Send + Sync>;

/// A shared, always current index of one projection of a kind. Cloning shares it.
pub struct Feed<P: Project> {
    inner: Arc<Inner<P>>,
}

struct Inner<P: Project> {
    kind: RwLock<Kind>,
    clock: Clock,
    index: RwLock<Index<P>>,
    observers: RwLock<Vec<Observer<P::Slim>>>,
    phase: Mutex<Phase>,
    /// Wakes those who wait for another phase in the order in which they began to: tokio's channel for values draws one.
    entered: Notify,
}

impl<P: Project> Clone for Feed<P> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<P: Project> Feed<P> {
    /// An empty feed, to be filled by a watch.
    fn new(clock: Clock) -> Self {
        let inner = Inner {
            kind: RwLock::new(Kind::of::<P::Source>()),
            clock,
            index: RwLock::new(Index::new()),
            observers: RwLock::new(Vec::new()),
            phase: Mutex::new(Phase::Listing),
            entered: Notify::new(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// A feed that shows these objects of this kind and nothing else, for judging once what would be followed otherwise.
    #[must_use]
    pub fn of(clock: Clock, kind: Kind, objects: impl IntoIterator<Item = P::Source>) -> Self {
        let feed = Self::new(clock);
        *feed.inner.kind.write().unwrap_or_else(PoisonError::into_inner) = kind;
        for object in objects {
            feed.write().put(object, None);
        }
        feed.advance(Phase::Synced);
        feed
    }

    /// The kind this feed follows, at the version that is served; before that is known, at the preferred one.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.inner.kind.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Calls `observer` for each change from now on. It must be quick: it runs on the feed's own task.
    pub fn observe(&self, observer: impl Fn(&Delta<P::Slim>) + Send + Sync + 'static) {
        self.inner.observers.write().unwrap_or_else(PoisonError::into_inner).push(Box::new(observer));
    }

    /// What is known of `key`, unless the index lags our own write.
    #[must_use]
    pub fn get(&self, key: &ObjectKey) -> Seen<P::Slim> {
        self.read().get(key, self.inner.clock.instant())
    }

    /// The version of the object whose projection is still `held`, as the index gave it out; `None` when it gives out
    /// another one by now. A write based on this version is refused when anything has changed since.
    #[must_use]
    pub fn version(&self, key: &ObjectKey, held: &Arc<P::Slim>) -> Option<Version> {
        self.read().version(key, held)
    }

    /// The objects with `value` in the index called `name`, ordered by key. Unknown index names hold nothing.
    #[must_use]
    pub fn by(&self, name: &str, value: &str) -> Vec<(ObjectKey, Arc<P::Slim>)> {
        self.read().by(name, value)
    }

    /// Every object, ordered by key. For command lines and sweeps over all; decisions use [`Feed::by`].
    #[must_use]
    pub fn all(&self) -> Vec<(ObjectKey, Arc<P::Slim>)> {
        self.read().all()
    }

    /// The keys that `accepts`, in order: one seed gives one history.
    #[must_use]
    pub fn keys(&self, accepts: impl Fn(&ObjectKey) -> bool) -> Vec<ObjectKey> {
        self.read().keys(accepts)
    }

    /// How many objects the index holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.read().len()
    }

    /// Whether the index is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Remembers our own write of `key`, which made version `written`: until the watch has shown it, [`Feed::get`]
    /// says `Behind`.
    pub fn wrote(&self, key: &ObjectKey, written: &Version) {
        self.write().wrote(key, written, self.inner.clock.instant());
    }

    /// How far the feed has come.
    #[must_use]
    pub fn phase(&self) -> Phase {
        *self.inner.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the index is complete, or known to have nothing to hold.
    pub async fn settled(&self) {
        loop {
            // Begun before looking, so that a change in between is not missed.
            let entered = self.inner.entered.notified();
            if self.phase() != Phase::Listing {
                return;
            }
            entered.await;
        }
    }

    /// Says whether that is another phase than before.
    fn advance(&self, phase: Phase) -> bool {
        let before = std::mem::replace(&mut *self.inner.phase.lock().unwrap_or_else(PoisonError::into_inner), phase);
        if before != phase {
            self.inner.entered.notify_waiters();
        }
        before != phase
    }

    fn read(&self) -> RwLockReadGuard<'_, Index<P>> {
        self.inner.index.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Index<P>> {
        self.inner.index.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn announce(&self, deltas: &[Delta<P::Slim>]) {
        let observers = self.inner.observers.read().unwrap_or_else(PoisonError::into_inner);
        for delta in deltas {
            for observer in observers.iter() {
                observer(delta);
            }
        }
    }
}
