//! Owners of objects that many clusters refer to, named for all who ask at the same time: one write after the other, each for
//! everybody who has come meanwhile, so that nobody's write is refused for that of another.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::key::ObjectKey;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kit::feed::Version;

/// The owners of an object at a version of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Owned {
    /// The version.
    pub version: Version,
    /// The owners.
    pub owners: Vec<OwnerReference>,
}

impl Owned {
    /// Whether somebody is an owner.
    #[must_use]
    pub fn names(&self, uid: &str) -> bool {
        self.owners.iter().any(|owner| owner.uid == uid)
    }
}

/// Somebody who waits to be named.
#[derive(Clone, Debug)]
struct Waiting {
    owner: OwnerReference,
    named: Arc<AtomicBool>,
}

/// Those who want to be named as owners of one object.
#[derive(Debug, Default)]
pub(crate) struct Line {
    waiting: Mutex<Vec<Waiting>>,
    /// Held by whoever writes; what was written last.
    pub(crate) turn: tokio::sync::Mutex<Option<Owned>>,
}

impl Line {
    fn lock(&self) -> MutexGuard<'_, Vec<Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits to be named, until the place is given up.
    pub(crate) fn enter(&self, owner: OwnerReference) -> Place<'_> {
        let mine = Waiting { owner, named: Arc::default() };
        self.lock().push(mine.clone());
        Place { line: self, mine }
    }

    /// Everybody who waits. Those who gave up are not among them: an owner that is gone would take the object with it.
    pub(crate) fn all(&self) -> Batch {
        Batch(self.lock().clone())
    }
}

/// Those who are named together.
#[derive(Debug)]
pub(crate) struct Batch(Vec<Waiting>);

impl Batch {
    /// The owners of an object with everybody who waits.
    pub(crate) fn with(&self, owners: &[OwnerReference]) -> Vec<OwnerReference> {
        let mut all = owners.to_vec();
        for one in &self.0 {
            if !all.iter().any(|owner| owner.uid == one.owner.uid) {
                all.push(one.owner.clone());
            }
        }
        all
    }

    /// They are named.
    pub(crate) fn done(&self) {
        for one in &self.0 {
            one.named.store(true, Ordering::Release);
        }
    }
}

/// A place in a line.
#[derive(Debug)]
pub(crate) struct Place<'l> {
    line: &'l Line,
    mine: Waiting,
}

impl Place<'_> {
    /// Whether whoever wrote meanwhile named us too.
    pub(crate) fn is_named(&self) -> bool {
        self.mine.named.load(Ordering::Acquire)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.line.lock().retain(|one| !Arc::ptr_eq(&one.named, &self.mine.named));
    }
}

/// The lines before all objects, by kind and name.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    lines: Mutex<BTreeMap<(String, ObjectKey), Arc<Line>>>,
}

impl Owners {
    /// The line before an object. Lines in which nobody waits are forgotten when others come: what was written last is then
    /// known by the index, or by the refusal of the next write.
    pub(crate) fn line(&self, kind: &str, key: &ObjectKey) -> Arc<Line> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let name = (kind.to_owned(), key.clone());
        if !lines.contains_key(&name) && lines.len() >= LINES {
            lines.retain(|_, line| Arc::strong_count(line) > 1);
        }
        Arc::clone(lines.entry(name).or_default())
    }
}

/// So many lines are kept, whether somebody waits in them or not.
const LINES: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(uid: &str) -> OwnerReference {
        OwnerReference { uid: uid.to_owned(), ..OwnerReference::default() }
    }

    fn uids(owners: &[OwnerReference]) -> Vec<&str> {
        owners.iter().map(|owner| owner.uid.as_str()).collect()
    }

    #[test]
    fn one_write_names_everybody_who_waits_and_nobody_who_gave_up() {
        let line = Line::default();
        let (first, second) = (line.enter(owner("a")), line.enter(owner("b")));
        drop(line.enter(owner("gone")));
        let batch = line.all();
        assert_eq!(uids(&batch.with(&[owner("x"), owner("b")])), ["x", "b", "a"]);
        let late = line.enter(owner("c"));
        assert!(!first.is_named() && !second.is_named());
        batch.done();
        assert!(first.is_named() && second.is_named() && !late.is_named());
        drop((first, second));
        assert_eq!(uids(&line.all().with(&[])), ["c"]);
    }

    #[test]
    fn lines_in_which_nobody_waits_are_forgotten() {
        let owners = Owners::default();
        let key = |number: usize| ObjectKey::namespaced("n", number.to_string());
        let held = owners.line("Kind", &key(0));
        assert!(
            Arc::ptr_eq(&held, &owners.line("Kind", &key(0))) && !Arc::ptr_eq(&held, &owners.line("Other", &key(0)))
        );
        for number in 1..=LINES {
            owners.line("Kind", &key(number));
        }
        assert!(Arc::ptr_eq(&held, &owners.line("Kind", &key(0))));
        assert!(owners.lines.lock().unwrap().len() <= LINES);
    }
}
