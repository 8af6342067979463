//! The index behind a feed: plain data, no I/O, so that every order of events can be tested.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use api::key::ObjectKey;
use kube::ResourceExt;
use tokio::time::Instant;

use super::{Project, Seen};

/// A change of one object's projection.
#[derive(Debug)]
pub struct Delta<S> {
    /// Which object.
    pub key: ObjectKey,
    /// What was known before.
    pub old: Option<Arc<S>>,
    /// What is known now; `None` means gone.
    pub new: Option<Arc<S>>,
}

/// A version of an object, as the server names it.
///
/// Kubernetes promises since 1.35 that resource versions of one kind compare as integers; a version that is not one
/// is only ever equal to itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// The server's unique id of the object.
    pub uid: Box<str>,
    /// The server's text.
    pub resource_version: Box<str>,
}

impl Version {
    /// The version of an object as received.
    #[must_use]
    pub fn of(object: &impl kube::Resource) -> Self {
        Self {
            uid: object.uid().unwrap_or_default().into(),
            resource_version: object.resource_version().unwrap_or_default().into(),
        }
    }

    fn number(&self) -> Option<u64> {
        self.resource_version.parse().ok()
    }

    /// Whether `self` shows at least what `other` wrote.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        match (self.number(), other.number()) {
            (Some(mine), Some(theirs)) => mine >= theirs,
            _ => self.resource_version == other.resource_version,
        }
    }

    fn older_than(&self, other: &Self) -> bool {
        matches!((self.number(), other.number()), (Some(mine), Some(theirs)) if mine < theirs)
    }
}

struct Kept<S> {
    slim: Arc<S>,
    version: Version,
    /// The relist that showed this object last.
    epoch: u32,
}

/// A write that the watch has not shown yet is given up after this long: the object may have been deleted between
/// our write and now, and then nothing will ever show it.
const WRITE_MEMORY: Duration = Duration::from_secs(30);

struct Wrote {
    version: Version,
    at: Instant,
}

/// So many deletions are remembered: the watch may show the end of an object before the write that ended it has been noted.
const ENDINGS: usize = 1024;

/// The objects that an index finds by one value. Most values, a uid or an owner, are those of one object, and the smallest set
/// takes the room of eleven.
enum Keys {
    One(ObjectKey),
    Many(BTreeSet<ObjectKey>),
}

impl Keys {
    fn insert(&mut self, key: &ObjectKey) {
        match self {
            Self::One(only) if only == key => {}
            Self::One(only) => *self = Self::Many(BTreeSet::from([only.clone(), key.clone()])),
            Self::Many(keys) => {
                keys.insert(key.clone());
            }
        }
    }

    /// Takes an object out; says whether none is left.
    fn remove(&mut self, key: &ObjectKey) -> bool {
        match self {
            Self::One(only) => only == key,
            Self::Many(keys) => {
                keys.remove(key);
                keys.is_empty()
            }
        }
    }

    fn iter(&self) -> impl Iterator<Item = &ObjectKey> {
        let (one, many) = match self {
            Self::One(only) => (Some(only), None),
            Self::Many(keys) => (None, Some(keys)),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }
}

pub(super) struct Index<P: Project> {
    objects: HashMap<ObjectKey, Kept<P::Slim>>,
    secondary: Vec<HashMap<Box<str>, Keys>>,
    wrote: HashMap<ObjectKey, Wrote>,
    /// The uids of the objects whose deletion the watch has shown last.
    ended: VecDeque<Box<str>>,
    epoch: u32,
}

impl<P: Project> Index<P> {
    pub(super) fn new() -> Self {
        Self {
            objects: HashMap::new(),
            secondary: P::INDEXES.iter().map(|_| HashMap::new()).collect(),
            wrote: HashMap::new(),
            ended: VecDeque::new(),
            epoch: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.objects.len()
    }

    pub(super) fn get(&self, key: &ObjectKey, now: Instant) -> Seen<P::Slim> {
        let entry = self.objects.get(key);
        if let Some(wrote) = self.wrote.get(key)
            && now.saturating_duration_since(wrote.at) < WRITE_MEMORY
            && !entry.is_some_and(|e| e.version.covers(&wrote.version))
        {
            return Seen::Behind;
        }
        entry.map_or(Seen::Absent, |e| Seen::At(Arc::clone(&e.slim)))
    }

    pub(super) fn version(&self, key: &ObjectKey, held: &Arc<P::Slim>) -> Option<Version> {
        // A projection that comes out equal keeps its place, so what was given out stays the same value at a newer version.
        self.objects.get(key).filter(|entry| Arc::ptr_eq(&entry.slim, held)).map(|entry| entry.version.clone())
    }

    pub(super) fn by(&self, name: &str, value: &str) -> Vec<(ObjectKey, Arc<P::Slim>)> {
        let Some(number) = P::INDEXES.iter().position(|n| *n == name) else { return Vec::new() };
        let keys = self.secondary.get(number).and_then(|index| index.get(value));
        let entry = |key: &ObjectKey| self.objects.get(key).map(|e| (key.clone(), Arc::clone(&e.slim)));
        keys.map(|keys| keys.iter().filter_map(entry).collect()).unwrap_or_default()
    }

    pub(super) fn all(&self) -> Vec<(ObjectKey, Arc<P::Slim>)> {
        let entry = |key: &ObjectKey| self.objects.get(key).map(|e| (key.clone(), Arc::clone(&e.slim)));
        in_order(self.objects.keys().collect()).into_iter().filter_map(entry).collect()
    }

    pub(super) fn keys(&self, accepts: impl Fn(&ObjectKey) -> bool) -> Vec<ObjectKey> {
        in_order(self.objects.keys().filter(|key| accepts(key)).collect()).into_iter().cloned().collect()
    }

    pub(super) fn wrote(&mut self, key: &ObjectKey, version: &Version, now: Instant) {
        self.wrote.retain(|_, w| now.saturating_duration_since(w.at) < WRITE_MEMORY);
        let shown = self.objects.get(key).is_some_and(|e| e.version.covers(version));
        let newer = self.wrote.get(key).is_some_and(|w| w.version.covers(version));
        if !shown && !newer && !self.ended.contains(&version.uid) {
            self.wrote.insert(key.clone(), Wrote { version: version.clone(), at: now });
        }
    }

    /// Begins the relist with this number.
    pub(super) fn begin(&mut self, epoch: u32) {
        self.epoch = epoch;
    }

    /// Takes over one object, listed in relist `epoch` or, with `None`, watched.
    pub(super) fn put(&mut self, source: P::Source, epoch: Option<u32>) -> Vec<Delta<P::Slim>> {
        let key = ObjectKey::of(&source);
        let version = Version::of(&source);
        let settled = match self.wrote.get(&key) {
            Some(wrote) if version.covers(&wrote.version) => {
                self.wrote.remove(&key);
                true
            }
            _ => false,
        };
        let epoch = epoch.unwrap_or(self.epoch);
        let Some(entry) = self.objects.get_mut(&key) else {
            let slim = Arc::new(P::slim(source));
            self.link(&key, &slim);
            self.objects.insert(key.clone(), Kept { slim: Arc::clone(&slim), version, epoch });
            return vec![Delta { key, old: None, new: Some(slim) }];
        };
        entry.epoch = epoch;
        // A list served by a lagging server may be older than what the watch has already shown.
        // The same goes for an earlier object of that name: versions of one kind compare whatever the uid.
        if version.older_than(&entry.version) {
            return Vec::new();
        }
        let replaced = entry.version.uid != version.uid;
        let slim = Arc::new(P::slim(source));
        let changed = replaced || *entry.slim != *slim;
        entry.version = version;
        if !changed {
            // Nothing decisions use has changed, but somebody waits for the index to catch up with our write.
            let same = Arc::clone(&entry.slim);
            return if settled {
                vec![Delta { key, old: Some(Arc::clone(&same)), new: Some(same) }]
            } else {
                Vec::new()
            };
        }
        let old = std::mem::replace(&mut entry.slim, Arc::clone(&slim));
        self.unlink(&key, &old);
        self.link(&key, &slim);
        if replaced {
            // Same name, another object: the old one is gone, and nothing of it may be inherited.
            return vec![
                Delta { key: key.clone(), old: Some(old), new: None },
                Delta { key, old: None, new: Some(slim) },
            ];
        }
        vec![Delta { key, old: Some(old), new: Some(slim) }]
    }

    /// The watch says that the object that was last at version `last` is gone.
    pub(super) fn remove(&mut self, key: &ObjectKey, last: &Version) -> Vec<Delta<P::Slim>> {
        if self.ended.len() >= ENDINGS {
            self.ended.pop_front();
        }
        self.ended.push_back(last.uid.clone());
        self.take(key, last)
    }

    fn take(&mut self, key: &ObjectKey, last: &Version) -> Vec<Delta<P::Slim>> {
        // What we wrote to its successor is still to be shown.
        if self.wrote.get(key).is_some_and(|wrote| wrote.version.uid == last.uid) {
            self.wrote.remove(key);
        }
        // A repeated or late notice of an earlier object of that name.
        let entry = self.objects.get(key);
        if entry.is_some_and(|entry| entry.version.uid != last.uid && last.older_than(&entry.version)) {
            return Vec::new();
        }
        let Some(entry) = self.objects.remove(key) else { return Vec::new() };
        self.unlink(key, &entry.slim);
        vec![Delta { key: key.clone(), old: Some(entry.slim), new: None }]
    }

    /// Ends relist `epoch` of the objects in `namespace` (all without one): what it did not show is gone.
    pub(super) fn finish(&mut self, epoch: u32, namespace: Option<&str>) -> Vec<Delta<P::Slim>> {
        let lost = |(key, entry): (&ObjectKey, &Kept<P::Slim>)| {
            let ours = namespace.is_none() || key.namespace() == namespace;
            (ours && entry.epoch != epoch).then(|| (key.clone(), entry.version.clone()))
        };
        let gone = by_key(self.objects.iter().filter_map(lost).collect());
        gone.iter().flat_map(|(key, last)| self.take(key, last)).collect()
    }

    fn link(&mut self, key: &ObjectKey, slim: &P::Slim) {
        for (number, index) in self.secondary.iter_mut().enumerate() {
            for value in P::keys(number, key, slim) {
                match index.entry(value) {
                    Entry::Occupied(mut keys) => keys.get_mut().insert(key),
                    Entry::Vacant(place) => {
                        place.insert(Keys::One(key.clone()));
                    }
                }
            }
        }
    }

    fn unlink(&mut self, key: &ObjectKey, slim: &P::Slim) {
        for (number, index) in self.secondary.iter_mut().enumerate() {
            for value in P::keys(number, key, slim) {
                if index.get_mut(&value).is_some_and(|keys| keys.remove(key)) {
                    index.remove(&value);
                }
            }
        }
    }
}

// Sorting is many instructions, and everything above is compiled once for each of many kinds.

fn in_order(mut keys: Vec<&ObjectKey>) -> Vec<&ObjectKey> {
    keys.sort();
    keys
}

fn by_key(mut objects: Vec<(ObjectKey, Version)>) -> Vec<(ObjectKey, Version)> {
    objects.sort_by(|a, b| a.0.cmp(&b.0));
    objects
}

#[cfg(test)]
mod tests;
