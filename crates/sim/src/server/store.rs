//! Objects by key, one revision for all, and the history that watches and stale reads are served from.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    ops::Bound,
    sync::Arc,
};

use serde_json::{Value, json};

/// The address of one object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// `plural.group`, or `plural` in the core group.
    pub resource: String,
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    /// The object's name.
    pub name: String,
}

impl Key {
    /// A key from its three parts.
    #[must_use]
    pub fn new(resource: &str, namespace: &str, name: &str) -> Self {
        Self { resource: resource.into(), namespace: namespace.into(), name: name.into() }
    }
}

/// One committed change.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) rev: u64,
    pub(crate) key: Key,
    pub(crate) before: Option<Arc<Value>>,
    /// The new state, or the last state when `deleted`.
    pub(crate) object: Arc<Value>,
    pub(crate) deleted: bool,
}

/// How many changes are kept for watches before old ones are forgotten.
const HISTORY: usize = 200_000;

#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) rev: u64,
    pub(crate) compacted: u64,
    objects: BTreeMap<Key, Arc<Value>>,
    history: VecDeque<Event>,
    uids: HashMap<String, Key>,
    dependents: HashMap<String, BTreeSet<Key>>,
}

impl Store {
    pub(crate) fn new() -> Self {
        Self {
            rev: 1,
            compacted: 0,
            objects: BTreeMap::new(),
            history: VecDeque::new(),
            uids: HashMap::new(),
            dependents: HashMap::new(),
        }
    }

    pub(crate) fn get(&self, key: &Key) -> Option<&Arc<Value>> {
        self.objects.get(key)
    }

    pub(crate) fn by_uid(&self, uid: &str) -> Option<&Key> {
        self.uids.get(uid)
    }

    pub(crate) fn dependents(&self, uid: &str) -> Vec<Key> {
        self.dependents.get(uid).into_iter().flatten().cloned().collect()
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (&Key, &Arc<Value>)> {
        self.objects.iter()
    }

    /// Objects of one type, of one namespace when it is not empty, in key order.
    pub(crate) fn range<'a>(
        &'a self,
        resource: &str,
        namespace: &str,
    ) -> impl Iterator<Item = (&'a Key, &'a Arc<Value>)> + use<'a> {
        let from = Key::new(resource, namespace, "");
        let (resource, namespace) = (resource.to_owned(), namespace.to_owned());
        self.objects
            .range((Bound::Included(from), Bound::Unbounded))
            .take_while(move |(k, _)| k.resource == resource && (namespace.is_empty() || k.namespace == namespace))
    }

    /// The same as it was at revision `rev`.
    pub(crate) fn range_at(&self, rev: u64, resource: &str, namespace: &str) -> Vec<(Key, Arc<Value>)> {
        let now = self.range(resource, namespace).map(|(k, v)| (k.clone(), v.clone()));
        if rev >= self.rev {
            return now.collect();
        }
        let mut then: BTreeMap<Key, Arc<Value>> = now.collect();
        for event in self.history.iter().rev().take_while(|e| e.rev > rev) {
            if event.key.resource != resource || (!namespace.is_empty() && event.key.namespace != namespace) {
                continue;
            }
            match &event.before {
                Some(before) => then.insert(event.key.clone(), before.clone()),
                None => then.remove(&event.key),
            };
        }
        then.into_iter().collect()
    }

    /// One object as it was at revision `rev`.
    pub(crate) fn get_at(&self, rev: u64, key: &Key) -> Option<Arc<Value>> {
        let mut state = self.objects.get(key).cloned();
        for event in self.history.iter().rev().take_while(|e| e.rev > rev) {
            if event.key == *key {
                state = event.before.clone();
            }
        }
        state
    }

    /// Changes after `rev`, oldest first.
    pub(crate) fn since(&self, rev: u64) -> impl Iterator<Item = &Event> {
        let from = self.history.partition_point(|e| e.rev <= rev);
        self.history.range(from..)
    }

    pub(crate) fn compact(&mut self, rev: u64) {
        while self.history.front().is_some_and(|e| e.rev <= rev) {
            self.history.pop_front();
        }
        self.compacted = self.compacted.max(rev.min(self.rev));
    }

    pub(crate) fn put(&mut self, key: Key, mut value: Value) -> Arc<Value> {
        self.rev += 1;
        value["metadata"]["resourceVersion"] = json!(self.rev.to_string());
        let value = Arc::new(value);
        let before = self.objects.insert(key.clone(), value.clone());
        if let Some(before) = &before {
            self.unindex(&key, before);
        }
        self.index(&key, &value);
        self.record(Event { rev: self.rev, key, before, object: value.clone(), deleted: false });
        value
    }

    /// Removes an object; gives its last state stamped with the revision of its removal.
    pub(crate) fn remove(&mut self, key: &Key) -> Option<Arc<Value>> {
        let before = self.objects.remove(key)?;
        self.unindex(key, &before);
        self.rev += 1;
        let mut last = Value::clone(&before);
        last["metadata"]["resourceVersion"] = json!(self.rev.to_string());
        let last = Arc::new(last);
        self.record(Event {
            rev: self.rev,
            key: key.clone(),
            before: Some(before),
            object: last.clone(),
            deleted: true,
        });
        Some(last)
    }

    fn record(&mut self, event: Event) {
        self.history.push_back(event);
        if self.history.len() > HISTORY
            && let Some(old) = self.history.pop_front()
        {
            self.compacted = old.rev;
        }
    }

    fn index(&mut self, key: &Key, value: &Value) {
        if let Some(uid) = text(value, "/metadata/uid") {
            self.uids.insert(uid.to_owned(), key.clone());
        }
        for owner in owners(value) {
            self.dependents.entry(owner).or_default().insert(key.clone());
        }
    }

    fn unindex(&mut self, key: &Key, value: &Value) {
        if let Some(uid) = text(value, "/metadata/uid") {
            self.uids.remove(uid);
        }
        for owner in owners(value) {
            if let Some(set) = self.dependents.get_mut(&owner) {
                set.remove(key);
                if set.is_empty() {
                    self.dependents.remove(&owner);
                }
            }
        }
    }
}

pub(crate) fn text<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer).and_then(Value::as_str)
}

pub(crate) fn owners(value: &Value) -> Vec<String> {
    value
        .pointer("/metadata/ownerReferences")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|o| o.get("uid").and_then(Value::as_str).map(String::from))
        .collect()
}

pub(crate) fn finalizers(value: &Value) -> Vec<String> {
    value
        .pointer("/metadata/finalizers")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|f| f.as_str().map(String::from))
        .collect()
}

pub(crate) fn deleting(value: &Value) -> bool {
    text(value, "/metadata/deletionTimestamp").is_some()
}
