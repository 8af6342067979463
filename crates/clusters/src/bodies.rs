//! Generated objects as they were last read or written, so that a pass reads only what has changed since.
//!
//! A body counts for as long as the index shows just the version it has, or does not show our own write of it yet, and never
//! for long: what an index has missed is found by the next look that comes on time. Nothing is kept of a cluster that is
//! carried out or goes; then, and whenever there is a doubt, the server is asked.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::key::ObjectKey;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kit::feed::Version;
use serde_json::Value;
use tokio::time::Instant;

use crate::compare;
use crate::manifest::word;

/// A body is believed for this long: less than the longest pause of a cluster that waits for its control plane.
const LASTS: Duration = Duration::from_secs(20);
/// So many bodies are kept at once, about five kilobytes each; beyond that objects are read.
const MOST: usize = 8_192;
/// What users write is not looked at again for this long before something follows from it.
const LATELY: Duration = Duration::from_secs(5);

/// The kind and the name of a generated object.
pub type Named = (String, String);

/// What an index shows of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shown {
    /// The object at a version.
    At(Version),
    /// No such object.
    Absent,
    /// Not yet what we wrote.
    Behind,
}

/// The version of an object as received.
#[must_use]
pub fn version_of(object: &Value) -> Version {
    Version {
        uid: word(object, "/metadata/uid").into(),
        resource_version: word(object, "/metadata/resourceVersion").into(),
    }
}

#[derive(Debug)]
struct Body {
    /// As text, which takes a fraction of the room; nothing when there is no such object.
    found: Option<(Version, Box<str>)>,
    at: Instant,
}

type All = BTreeMap<ObjectKey, BTreeMap<Named, Body>>;

/// What is remembered of generated objects, by the cluster they are for.
#[derive(Debug, Default)]
pub struct Bodies {
    all: Mutex<All>,
}

impl Bodies {
    fn lock(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What an object is, as far as that is certain: with the outer nothing the server has to be asked, with the inner
    /// nothing there is no such object.
    #[must_use]
    pub fn recall(&self, cluster: &ObjectKey, object: &Named, shown: &Shown, now: Instant) -> Option<Option<Value>> {
        let all = self.lock();
        let body = all.get(cluster)?.get(object)?;
        if now.saturating_duration_since(body.at) >= LASTS {
            return None;
        }
        match (&body.found, shown) {
            (None, Shown::Absent) => Some(None),
            // What is written is remembered before anybody can ask, so this is that write.
            (Some((_, text)), Shown::Behind) => serde_json::from_str(text).ok().map(Some),
            (Some((version, text)), Shown::At(seen)) if version.uid == seen.uid && version.covers(seen) => {
                serde_json::from_str(text).ok().map(Some)
            }
            // Somebody changed, made or deleted it; or the index has never shown it, and nobody knows why.
            _ => None,
        }
    }

    /// The server said at `now` what an object is, or that there is none.
    pub fn keep(&self, cluster: &ObjectKey, object: Named, found: Option<&Value>, now: Instant) {
        let found = found.map(|found| (version_of(found), lean(found).into_boxed_str()));
        let mut all = self.lock();
        let full = all.values().map(BTreeMap::len).sum::<usize>() >= MOST;
        if full {
            for bodies in all.values_mut() {
                bodies.retain(|_, body| now.saturating_duration_since(body.at) < LASTS);
            }
            all.retain(|_, bodies| !bodies.is_empty());
        }
        let fits = !full || all.values().map(BTreeMap::len).sum::<usize>() < MOST;
        if fits {
            all.entry(cluster.clone()).or_default().insert(object, Body { found, at: now });
        } else if let Some(bodies) = all.get_mut(cluster) {
            // What was said before must not stand in the place of what was said just now.
            bodies.remove(&object);
        }
    }

    /// Nothing is known of an object any more.
    pub fn doubt(&self, cluster: &ObjectKey, object: &Named) {
        if let Some(bodies) = self.lock().get_mut(cluster) {
            bodies.remove(object);
        }
    }

    /// Nothing is kept of a cluster.
    pub fn forget(&self, cluster: &ObjectKey) {
        self.lock().remove(cluster);
    }

    /// How many bodies are kept of all clusters.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().values().map(BTreeMap::len).sum()
    }

    /// Whether nothing is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// An object as text, of the notes on who owns which field only our own.
fn lean(object: &Value) -> String {
    let mut object = object.clone();
    if let Some(Value::Array(entries)) = object.pointer_mut("/metadata/managedFields") {
        entries.retain(compare::is_own);
    }
    object.to_string()
}

/// What tells whether an object of a user is still the one that was decided on.
#[derive(Clone, Debug, PartialEq)]
pub struct Wish {
    uid: Option<String>,
    generation: Option<i64>,
    deleted: Option<Time>,
}

impl Wish {
    /// That of an object.
    #[must_use]
    pub fn of(meta: &ObjectMeta) -> Self {
        Self { uid: meta.uid.clone(), generation: meta.generation, deleted: meta.deletion_timestamp.clone() }
    }
}

/// What the server lately said of objects of users; clusters that share one look once for all of them.
#[derive(Debug, Default)]
pub struct Wishes {
    all: Mutex<BTreeMap<(String, ObjectKey), (Wish, Instant)>>,
}

impl Wishes {
    /// Whether the server said just this a moment ago.
    #[must_use]
    pub fn is_known(&self, kind: &str, key: &ObjectKey, wish: &Wish, now: Instant) -> bool {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.get(&(kind.to_owned(), key.clone()));
        known.is_some_and(|(known, at)| known == wish && is_lately(*at, now))
    }

    /// The server said this at `now`.
    pub fn heard(&self, kind: &str, key: &ObjectKey, wish: Wish, now: Instant) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, (_, at)| is_lately(*at, now));
        all.insert((kind.to_owned(), key.clone()), (wish, now));
    }
}

/// Whether something that was said then needs no other look before something follows from it.
#[must_use]
pub fn is_lately(then: Instant, now: Instant) -> bool {
    now.saturating_duration_since(then) < LATELY
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::names::clusters::FIELD_MANAGER;
    use serde_json::json;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::namespaced("n", name)
    }

    fn named() -> Named {
        ("KubeadmControlPlane".to_owned(), "c".to_owned())
    }

    fn at(uid: &str, version: &str) -> Shown {
        Shown::At(Version { uid: uid.into(), resource_version: version.into() })
    }

    fn object(version: &str) -> Value {
        json!({"metadata": {"uid": "u", "resourceVersion": version}, "spec": {"replicas": 3}})
    }

    fn begun() -> Instant {
        kit::clock::Clock::simulated("2030-01-01T00:00:00Z".parse().unwrap(), 1).instant()
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_counts_while_the_index_shows_just_that_or_not_yet_our_write() {
        let (bodies, now) = (Bodies::default(), begun());
        let recall =
            |shown: &Shown, after: u64| bodies.recall(&key("c"), &named(), shown, now + Duration::from_secs(after));
        assert_eq!(recall(&Shown::Absent, 0), None, "nobody ever looked");
        bodies.keep(&key("c"), named(), Some(&object("7")), now);
        let found = Some(Some(object("7")));
        assert_eq!([recall(&at("u", "7"), 0), recall(&at("u", "6"), 0)], [found.clone(), found.clone()]);
        assert_eq!(recall(&Shown::Behind, 0), found, "our own write is judged by its answer");
        for doubt in [at("u", "8"), at("another", "7"), Shown::Absent] {
            assert_eq!(recall(&doubt, 0), None, "{doubt:?}");
        }
        assert_eq!([recall(&at("u", "7"), 19), recall(&at("u", "7"), 20)], [found, None], "not for ever");
        bodies.keep(&key("c"), named(), None, now);
        assert_eq!(recall(&Shown::Absent, 0), Some(None));
        for doubt in [at("u", "9"), Shown::Behind] {
            assert_eq!(recall(&doubt, 0), None, "{doubt:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn little_is_kept_and_nothing_of_clusters_that_are_done() {
        let (bodies, now) = (Bodies::default(), begun());
        let mut stored = object("7");
        stored["metadata"]["managedFields"] = json!([
            {"manager": FIELD_MANAGER, "operation": "Apply", "fieldsV1": {"f:spec": {}}},
            {"manager": "manager", "operation": "Update", "fieldsV1": {"f:status": {}}},
        ]);
        bodies.keep(&key("c"), named(), Some(&stored), now);
        let kept = bodies.recall(&key("c"), &named(), &at("u", "7"), now).unwrap().unwrap();
        assert_eq!(kept["metadata"]["managedFields"].as_array().unwrap().len(), 1);
        assert!(compare::is_ours(&kept));
        bodies.doubt(&key("c"), &named());
        assert!(bodies.is_empty());
        bodies.keep(&key("c"), named(), Some(&stored), now);
        bodies.forget(&key("c"));
        assert!(bodies.is_empty());
        for number in 0..MOST {
            bodies.keep(&key("d"), ("Kind".to_owned(), number.to_string()), None, now);
        }
        bodies.keep(&key("c"), named(), Some(&stored), now);
        assert_eq!(bodies.recall(&key("c"), &named(), &at("u", "7"), now), None, "beyond that objects are read");
        let later = now + LASTS;
        bodies.keep(&key("c"), named(), Some(&stored), later);
        assert_eq!(bodies.len(), 1, "what counts no longer makes room");
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_user_wrote_is_looked_at_once_in_a_moment() {
        let (wishes, now) = (Wishes::default(), begun());
        let meta = |generation: i64| ObjectMeta { generation: Some(generation), ..ObjectMeta::default() };
        let known = |generation: i64, after: Duration| {
            wishes.is_known("Cluster", &key("c"), &Wish::of(&meta(generation)), now + after)
        };
        assert!(!known(1, Duration::ZERO));
        wishes.heard("Cluster", &key("c"), Wish::of(&meta(1)), now);
        assert!(known(1, Duration::from_secs(1)) && !known(2, Duration::from_secs(1)) && !known(1, LATELY));
        assert!(!wishes.is_known("Cluster", &key("d"), &Wish::of(&meta(1)), now));
    }
}
