//! Every version of every object of some kinds, from the start, in the order it came to be.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use kube::Client;
use kube::api::{Api, DynamicObject, ListParams, ObjectList, WatchEvent, WatchParams};
use kube::discovery::ApiResource;
use serde_json::Value;
use tokio::task::JoinSet;

use crate::plane::PlaneError;
use crate::server::Server;

/// How long a version may take from the server to the record: longer than one watch lives, so that one that ended
/// unnoticed costs time and no version.
const LAG: Duration = Duration::from_secs(120);
/// How long one watch lives, in seconds. A busy server may end a watch without its client noticing; the next one goes on
/// where the last event left off, so nothing is lost.
const LIFE: u32 = 20;

/// An object as it was at one moment, or its end.
#[derive(Clone, Debug)]
pub struct Version {
    /// When, on the server's one clock: its revisions count the writes to all kinds together.
    pub revision: u64,
    /// Whether the object was gone from then on; its last state is kept here.
    pub gone: bool,
    /// Its kind.
    pub kind: &'static str,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Which of several objects of this name.
    pub uid: String,
    /// All of it except `managedFields`.
    pub object: Value,
}

#[derive(Debug, Default)]
struct Inner {
    versions: Vec<Arc<Version>>,
    /// The latest version of each object, by kind, namespace and name; `None` for one that is gone.
    latest: BTreeMap<Key, Option<Arc<Version>>>,
    /// Why the record has a hole, if it has one.
    broken: Option<String>,
}

/// What happened to some kinds on an in-memory server after a revision: `plural.group` and the name to give it.
#[must_use]
pub fn since(server: &Server, revision: u64, kinds: &[(&str, &'static str)]) -> Vec<Arc<Version>> {
    let mut versions = Vec::new();
    for (key, revision, gone, object) in server.changes(revision) {
        let Some((_, kind)) = kinds.iter().find(|(resource, _)| *resource == key.resource) else { continue };
        let uid = object.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default().to_owned();
        let object = Value::clone(&object);
        versions.push(Arc::new(Version {
            revision,
            gone,
            kind,
            namespace: key.namespace,
            name: key.name,
            uid,
            object,
        }));
    }
    versions
}

/// A record that goes on until it is dropped.
pub struct Record {
    kinds: Vec<(&'static str, Api<DynamicObject>)>,
    inner: Arc<Mutex<Inner>>,
    _tasks: JoinSet<()>,
}

impl Record {
    /// Begins; nothing that exists already is missed, nor anything that happens later.
    pub async fn of(client: &Client, kinds: Vec<(&'static str, ApiResource)>) -> Result<Self, PlaneError> {
        let inner: Arc<Mutex<Inner>> = Arc::default();
        let mut tasks = JoinSet::new();
        let api = |(kind, resource)| (kind, Api::all_with(client.clone(), &resource));
        let kinds: Vec<(&'static str, Api<DynamicObject>)> = kinds.into_iter().map(api).collect();
        for (kind, api) in &kinds {
            let list = list(api, kind).await?;
            for object in list.items {
                keep(&inner, kind, object, false);
            }
            let from = list.metadata.resource_version.unwrap_or_default();
            tasks.spawn(follow(api.clone(), kind, from, inner.clone()));
        }
        Ok(Self { kinds, inner, _tasks: tasks })
    }

    /// Everything up to now, in order. Fails when a version was missed.
    pub async fn history(&self) -> Result<Vec<Arc<Version>>, PlaneError> {
        for (kind, api) in &self.kinds {
            let begun = Instant::now();
            let list = list(api, kind).await?;
            let now = list.items.iter().map(|object| (key(kind, object), revision(object))).collect::<BTreeMap<_, _>>();
            while let Some(behind) = self.behind(kind, &now) {
                if begun.elapsed() > LAG {
                    let why = format!("the record is behind: {behind}");
                    return Err(PlaneError::Bad { doing: "recording".to_owned(), why });
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
        let inner = lock(&self.inner);
        if let Some(why) = &inner.broken {
            return Err(PlaneError::Bad { doing: "recording".to_owned(), why: why.clone() });
        }
        let mut versions = inner.versions.clone();
        versions.sort_by_key(|version| version.revision);
        Ok(versions)
    }

    /// The objects of a kind in a namespace as the record knows them now.
    pub fn present(&self, kind: &'static str, namespace: &str) -> Vec<Arc<Version>> {
        let from = (kind, namespace.to_owned(), String::new());
        let inner = lock(&self.inner);
        let here = inner.latest.range(from..).take_while(|(key, _)| key.0 == kind && key.1 == namespace);
        here.filter_map(|(_, version)| version.clone()).collect()
    }

    fn behind(&self, kind: &'static str, now: &BTreeMap<Key, u64>) -> Option<String> {
        let inner = lock(&self.inner);
        if inner.broken.is_some() {
            return None;
        }
        let older = now.iter().find(|(key, revision)| {
            inner.latest.get(*key).is_none_or(|seen| {
                // One that is gone by now has been seen in every version it had.
                seen.as_ref().is_some_and(|seen| seen.revision < **revision)
            })
        });
        let dead = || {
            let mut live = inner.latest.iter().filter(|(key, seen)| key.0 == kind && seen.is_some());
            // What was made after the list is not in it, and not dead.
            let newest = now.values().max().copied().unwrap_or_default();
            live.find(|(key, seen)| !now.contains_key(*key) && seen.as_ref().is_some_and(|seen| seen.revision < newest))
                .map(|(key, _)| key)
        };
        older.map(|(key, _)| key).or_else(dead).map(|(kind, namespace, name)| format!("{kind} {namespace}/{name}"))
    }
}

type Key = (&'static str, String, String);

/// All objects of a kind. The server cannot list a kind in the first moments after its definition.
async fn list(api: &Api<DynamicObject>, kind: &str) -> Result<ObjectList<DynamicObject>, PlaneError> {
    let begun = Instant::now();
    loop {
        match api.list(&ListParams::default()).await {
            Err(kube::Error::Api(status)) if status.code == 429 && begun.elapsed() < LAG => {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            other => return other.map_err(PlaneError::kube(format!("listing {kind} for the record"))),
        }
    }
}

fn lock(inner: &Mutex<Inner>) -> MutexGuard<'_, Inner> {
    inner.lock().unwrap_or_else(PoisonError::into_inner)
}

fn key(kind: &'static str, object: &DynamicObject) -> Key {
    (kind, object.metadata.namespace.clone().unwrap_or_default(), object.metadata.name.clone().unwrap_or_default())
}

fn revision(object: &DynamicObject) -> u64 {
    object.metadata.resource_version.as_deref().and_then(|text| text.parse().ok()).unwrap_or_default()
}

fn keep(inner: &Mutex<Inner>, kind: &'static str, mut object: DynamicObject, gone: bool) {
    object.metadata.managed_fields = None;
    let (revision, key) = (revision(&object), key(kind, &object));
    let version = Arc::new(Version {
        revision,
        gone,
        kind,
        namespace: key.1.clone(),
        name: key.2.clone(),
        uid: object.metadata.uid.clone().unwrap_or_default(),
        object: serde_json::to_value(&object).unwrap_or_default(),
    });
    let mut inner = lock(inner);
    let before = inner.latest.insert(key, (!gone).then(|| version.clone())).flatten();
    // A controller that writes its status for nothing but a new time would fill the record with one and the same version.
    let news = |before: &Version| gone || before.uid != version.uid || plain(&before.object) != plain(&version.object);
    if before.is_none_or(|before| news(&before)) {
        inner.versions.push(version);
    }
}

/// An object without what changes when nothing else does.
fn plain(object: &Value) -> Value {
    let mut plain = object.clone();
    if let Some(metadata) = plain.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("resourceVersion");
    }
    if let Some(status) = plain.get_mut("status").and_then(Value::as_object_mut) {
        status.remove("lastUpdated");
    }
    plain
}

/// Follows one kind. The server sends each version once and in order; should it no longer have some, that is a hole.
async fn follow(api: Api<DynamicObject>, kind: &'static str, mut from: String, inner: Arc<Mutex<Inner>>) {
    loop {
        let params = WatchParams { bookmarks: true, timeout: Some(LIFE), ..WatchParams::default() };
        match api.watch(&params, &from).await {
            Ok(events) => {
                let mut events = std::pin::pin!(events);
                let end = tokio::time::Instant::now() + 2 * Duration::from_secs(LIFE.into());
                while let Ok(Some(Ok(event))) = tokio::time::timeout_at(end, events.next()).await {
                    let (object, gone) = match event {
                        WatchEvent::Added(object) | WatchEvent::Modified(object) => (object, false),
                        WatchEvent::Deleted(object) => (object, true),
                        WatchEvent::Bookmark(mark) => {
                            from.clone_from(&mark.metadata.resource_version);
                            continue;
                        }
                        WatchEvent::Error(status) => {
                            lock(&inner).broken = Some(format!("{kind} after {from}: {}", status.message));
                            return;
                        }
                    };
                    if let Some(version) = &object.metadata.resource_version {
                        from.clone_from(version);
                    }
                    keep(&inner, kind, object, gone);
                }
            }
            Err(kube::Error::Api(status)) if status.code == 410 => {
                lock(&inner).broken = Some(format!("{kind} after {from}: {}", status.message));
                return;
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}
