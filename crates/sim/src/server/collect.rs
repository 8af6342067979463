//! Owner garbage collection, and the end of namespaces and custom types.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    kinds::{CRDS, NAMESPACES},
    store::{Key, deleting, finalizers, text},
    write::Core,
};

impl Core {
    /// Works off everything recent writes may have made collectable.
    pub(crate) fn collect(&mut self, now: Timestamp) {
        if !self.collector {
            return;
        }
        while let Some(key) = self.inspect.pop() {
            self.inspect_one(&key, now);
        }
    }

    fn inspect_one(&mut self, key: &Key, now: Timestamp) {
        let Some(object) = self.store.get(key).cloned() else { return };
        if deleting(&object) {
            match key.resource.as_str() {
                NAMESPACES => return self.end_namespace(key, now),
                CRDS => return self.end_type(key, now),
                _ => {}
            }
            let held = finalizers(&object);
            let uid = text(&object, "/metadata/uid").unwrap_or_default().to_owned();
            if held.iter().any(|f| f == "orphan") {
                for dependent in self.store.dependents(&uid) {
                    self.drop_owners(&dependent, std::slice::from_ref(&uid));
                }
                return self.drop_finalizer(key, "orphan");
            }
            if held.iter().any(|f| f == "foregroundDeletion") && !self.blocked(&uid, now) {
                return self.drop_finalizer(key, "foregroundDeletion");
            }
        }
        self.judge_owners(key, &object, now);
    }

    /// Deletes the dependents of an owner in foreground deletion; true while one of them blocks it.
    fn blocked(&mut self, uid: &str, now: Timestamp) -> bool {
        let mut blocking = false;
        for dependent in self.store.dependents(uid) {
            let Some(object) = self.store.get(&dependent).cloned() else { continue };
            if !deleting(&object) {
                self.begin_delete(&dependent, "", now);
            }
            let blocks =
                object.pointer("/metadata/ownerReferences").and_then(Value::as_array).into_iter().flatten().any(|o| {
                    o.get("uid").and_then(Value::as_str) == Some(uid)
                        && o.get("blockOwnerDeletion").and_then(Value::as_bool) == Some(true)
                });
            blocking |= blocks && self.store.get(&dependent).is_some();
        }
        blocking
    }

    fn judge_owners(&mut self, key: &Key, object: &Value, now: Timestamp) {
        let listed = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
        let Some(listed) = listed.filter(|l| !l.is_empty()) else { return };
        let (mut solid, mut dangling) = (false, Vec::new());
        for owner in listed {
            let part = |field: &str| owner.get(field).and_then(Value::as_str).unwrap_or_default();
            if self.registry.by_kind(part("apiVersion"), part("kind")).is_none() {
                // A type that cannot be looked up is no proof of absence.
                solid = true;
                continue;
            }
            let found = self
                .store
                .by_uid(part("uid"))
                .filter(|k| k.namespace.is_empty() || k.namespace == key.namespace)
                .and_then(|k| self.store.get(k));
            match found {
                None => dangling.push(part("uid").to_owned()),
                Some(there) => {
                    let waits = deleting(there) && finalizers(there).iter().any(|f| f == "foregroundDeletion");
                    solid |= !waits;
                }
            }
        }
        if !solid {
            self.begin_delete(key, "", now);
        } else if !dangling.is_empty() {
            self.drop_owners(key, &dangling);
        }
    }

    fn drop_owners(&mut self, key: &Key, uids: &[String]) {
        let Some(object) = self.store.get(key).cloned() else { return };
        let mut object = Value::clone(&object);
        if let Some(list) = object.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut) {
            list.retain(|o| !o.get("uid").and_then(Value::as_str).is_some_and(|u| uids.iter().any(|x| x == u)));
            if list.is_empty()
                && let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut)
            {
                meta.remove("ownerReferences");
            }
        }
        self.commit(key.clone(), object);
    }

    fn drop_finalizer(&mut self, key: &Key, finalizer: &str) {
        let Some(object) = self.store.get(key).cloned() else { return };
        let left: Vec<String> = finalizers(&object).into_iter().filter(|f| f != finalizer).collect();
        if left.is_empty() {
            return self.erase(key);
        }
        let mut object = Value::clone(&object);
        object["metadata"]["finalizers"] = json!(left);
        self.commit(key.clone(), object);
    }

    fn end_namespace(&mut self, key: &Key, now: Timestamp) {
        let inside: Vec<Key> =
            self.store.all().filter(|(k, _)| k.namespace == key.name).map(|(k, _)| k.clone()).collect();
        let mut left = false;
        for item in inside {
            left |= self.begin_delete(&item, "", now).is_some();
        }
        if !left {
            self.erase(key);
        }
    }

    fn end_type(&mut self, key: &Key, now: Timestamp) {
        let instances: Vec<Key> = self.store.range(&key.name, "").map(|(k, _)| k.clone()).collect();
        let mut left = false;
        for item in instances {
            left |= self.begin_delete(&item, "", now).is_some();
        }
        if !left {
            self.erase(key);
        }
    }
}
