//! Create, replace, patch, apply and delete on the store.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{
    apply::Apply,
    builtin,
    check::check_name,
    kinds::{CRDS, Kind, NAMESPACES, Registry, from_crd},
    managed::record_update,
    patch::{PatchKind, patched},
    rng::Rng,
    schema,
    status::Failure,
    store::{Key, Store, deleting, finalizers, text},
};

/// All state behind the server's one lock.
pub(crate) struct Core {
    pub(crate) store: Store,
    pub(crate) registry: Registry,
    pub(crate) rng: Rng,
    pub(crate) inspect: Vec<Key>,
    pub(crate) collector: bool,
}

/// The addressed object and the circumstances of a write.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) kind: Arc<Kind>,
    pub(crate) version: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) subresource: Option<String>,
    pub(crate) manager: String,
    pub(crate) explicit_manager: bool,
    pub(crate) force: Option<bool>,
    pub(crate) now: Timestamp,
    pub(crate) dry_run: bool,
}

impl Call {
    pub(crate) fn key(&self) -> Key {
        Key::new(&self.kind.resource(), &self.namespace, &self.name)
    }

    fn time(&self) -> String {
        stamp(self.now)
    }
}

/// A time as objects carry it: whole seconds, UTC.
pub(crate) fn stamp(at: Timestamp) -> String {
    Timestamp::from_second(at.as_second()).unwrap_or(at).to_string()
}

/// What a write gave.
pub(crate) type Written = Result<(u16, Arc<Value>), Failure>;

impl Core {
    pub(crate) fn create(&mut self, call: &Call, mut object: Value) -> Written {
        self.check_type(call, &mut object)?;
        self.check_namespace(call)?;
        let mut call = call.clone();
        call.name = self.name_of(&call, &object)?;
        let meta = meta_mut(&mut object)?;
        if meta.get("resourceVersion").and_then(Value::as_str).is_some_and(|v| !v.is_empty()) {
            return Err(Failure::bad_request("resourceVersion should not be set on objects to be created"));
        }
        if call.kind.status
            && let Some(map) = object.as_object_mut()
        {
            map.remove("status");
        }
        self.settle_new(&call, &mut object)?;
        record_update(
            None,
            &mut object,
            &call.kind,
            &call.manager,
            &call.kind.api_version(&call.version),
            None,
            &call.time(),
        );
        self.insert(&call, object)
    }

    fn insert(&mut self, call: &Call, object: Value) -> Written {
        let key = call.key();
        if self.store.get(&key).is_some() {
            return Err(Failure::exists(&call.kind, &call.name));
        }
        if call.dry_run {
            return Ok((201, Arc::new(object)));
        }
        Ok((201, self.commit(key, object)))
    }

    /// What the server itself puts into a new object.
    fn settle_new(&mut self, call: &Call, object: &mut Value) -> Result<(), Failure> {
        let uid = self.rng.uid();
        let kind = &call.kind;
        let meta = meta_mut(object)?;
        for gone in ["deletionTimestamp", "deletionGracePeriodSeconds", "managedFields", "generation", "selfLink"] {
            meta.remove(gone);
        }
        meta.insert("name".into(), json!(call.name));
        if kind.namespaced {
            meta.insert("namespace".into(), json!(call.namespace));
        } else {
            meta.remove("namespace");
        }
        meta.insert("uid".into(), json!(uid));
        meta.insert("creationTimestamp".into(), json!(call.time()));
        if kind.generation {
            meta.insert("generation".into(), json!(1));
        }
        builtin::on_create(kind, &call.name, object, &call.time());
        self.shape(call, object)
    }

    /// Unknown fields go, defaults come, wrong values are refused.
    fn shape(&self, call: &Call, object: &mut Value) -> Result<(), Failure> {
        let kind = &call.kind;
        builtin::on_write(kind, object);
        tidy_metadata(object);
        if kind.prune {
            schema::prune(object, &kind.schema);
            schema::default(object, &kind.schema);
        }
        let mut wrong = Vec::new();
        schema::validate(object, &kind.schema, "", &mut wrong);
        if let Some(first) = wrong.first() {
            let mut failure = Failure::invalid(kind, &call.name, first.reason, &first.field, &first.why);
            failure.details["causes"] =
                wrong.iter().map(|w| json!({ "reason": w.reason, "message": w.why, "field": w.field })).collect();
            return Err(failure);
        }
        if kind.resource() == CRDS && from_crd(object, 0).is_none() {
            return Err(Failure::invalid(
                kind,
                &call.name,
                "FieldValueInvalid",
                "spec",
                "Invalid value: names and at least one served version are needed",
            ));
        }
        Ok(())
    }

    pub(crate) fn replace(&mut self, call: &Call, mut object: Value) -> Written {
        let key = call.key();
        let old = self.store.get(&key).cloned().ok_or_else(|| Failure::not_found(&call.kind, &call.name))?;
        self.check_type(call, &mut object)?;
        let given = text(&object, "/metadata/resourceVersion").unwrap_or_default();
        if given.is_empty() && !call.kind.unconditional {
            return Err(Failure::invalid(
                &call.kind,
                &call.name,
                "FieldValueInvalid",
                "metadata.resourceVersion",
                "Invalid value: 0: must be specified for an update",
            ));
        }
        self.update(call, &old, object, false)
    }

    pub(crate) fn patch(&mut self, call: &Call, patch: PatchKind, body: &Value) -> Written {
        if patch == PatchKind::Apply {
            return self.apply(call, body);
        }
        if call.force.is_some() {
            return Err(options_error(
                "force",
                "FieldValueForbidden",
                "Forbidden: may not be specified for non-apply patch",
            ));
        }
        let old = self.store.get(&call.key()).cloned().ok_or_else(|| Failure::not_found(&call.kind, &call.name))?;
        let served = self.served(call, &old);
        let mut object = patched(&served, patch, body)?;
        self.check_type(call, &mut object)?;
        self.update(call, &old, object, false)
    }

    /// A replace without a resource version, for the test's own hand.
    pub(crate) fn overwrite(&mut self, call: &Call, old: &Arc<Value>, mut object: Value) -> Written {
        self.check_type(call, &mut object)?;
        self.update(call, old, object, false)
    }

    fn apply(&mut self, call: &Call, body: &Value) -> Written {
        if !call.explicit_manager {
            return Err(options_error(
                "fieldManager",
                "FieldValueRequired",
                "Required value: is required for apply patch",
            ));
        }
        let mut config = body.clone();
        if !config.is_object() {
            return Err(Failure::bad_request("error decoding apply configuration: an object is needed"));
        }
        for field in ["apiVersion", "kind"] {
            if config.get(field).and_then(Value::as_str).is_none_or(str::is_empty) {
                return Err(Failure::bad_request(format!("error decoding apply configuration: {field} must be set")));
            }
        }
        self.check_type(call, &mut config)?;
        if config.pointer("/metadata/managedFields").and_then(Value::as_array).is_some_and(|list| !list.is_empty()) {
            return Err(Failure::bad_request("metadata.managedFields must be nil"));
        }
        if let Some(name) = text(&config, "/metadata/name").filter(|n| *n != call.name) {
            return Err(Failure::bad_request(format!(
                "the name of the object ({name}) does not match the name on the URL ({})",
                call.name
            )));
        }
        let key = call.key();
        let time = call.time();
        let api_version = call.kind.api_version(&call.version);
        let run = Apply {
            kind: &call.kind,
            name: &call.name,
            manager: &call.manager,
            api_version: &api_version,
            subresource: call.subresource.as_deref(),
            force: call.force == Some(true),
            now: &time,
        };
        let Some(old) = self.store.get(&key).cloned() else {
            if call.subresource.is_some() {
                return Err(Failure::not_found(&call.kind, &call.name));
            }
            if let Some(uid) = text(&config, "/metadata/uid") {
                let why =
                    format!("uid mismatch: the provided object specified uid {uid}, and no existing object was found");
                return Err(Failure::conflict(&call.kind, &call.name, &why));
            }
            self.check_namespace(call)?;
            check_name(&call.kind, &call.name)?;
            let empty = json!({ "apiVersion": api_version, "kind": call.kind.kind, "metadata": {} });
            let mut object = run.run(&empty, &config)?;
            let managed = object.pointer("/metadata/managedFields").cloned();
            self.settle_new(call, &mut object)?;
            if let (Some(managed), Ok(meta)) = (managed, meta_mut(&mut object)) {
                meta.insert("managedFields".into(), managed);
            }
            return self.insert(call, object);
        };
        for (pointer, word) in [("/metadata/resourceVersion", ""), ("/metadata/uid", "uid")] {
            if let Some(given) = text(&config, pointer).filter(|g| !g.is_empty())
                && Some(given) != text(&old, pointer)
            {
                return Err(match word {
                    "" => Failure::stale(&call.kind, &call.name),
                    _ => Failure::conflict(&call.kind, &call.name, &uid_words(given, &old)),
                });
            }
        }
        let mut object = run.run(&old, &config)?;
        // What the schema drops or adds afterwards is not owned by the applier, so shaping may not book anything.
        self.shape(call, &mut object)?;
        self.update(call, &old, object, true)
    }

    /// The common end of every write on an object that exists.
    fn update(&mut self, call: &Call, old: &Arc<Value>, mut object: Value, booked: bool) -> Written {
        let (kind, name) = (&call.kind, &call.name);
        for (pointer, given) in [("/metadata/name", name.as_str()), ("/metadata/namespace", call.namespace.as_str())] {
            if let Some(there) = text(&object, pointer).filter(|t| *t != given) {
                let what = pointer.rsplit('/').next().unwrap_or_default();
                return Err(Failure::bad_request(format!(
                    "the {what} of the object ({there}) does not match the {what} on the URL ({given})"
                )));
            }
        }
        if let Some(uid) = text(&object, "/metadata/uid")
            && Some(uid) != text(old, "/metadata/uid")
        {
            return Err(Failure::conflict(kind, name, &uid_words(uid, old)));
        }
        if let Some(rv) = text(&object, "/metadata/resourceVersion").filter(|v| !v.is_empty())
            && Some(rv) != text(old, "/metadata/resourceVersion")
        {
            return Err(Failure::stale(kind, name));
        }
        if let Some(time) = text(&object, "/metadata/deletionTimestamp")
            && Some(time) != text(old, "/metadata/deletionTimestamp")
        {
            let why = format!("Invalid value: {time:?}: field is immutable");
            return Err(Failure::invalid(kind, name, "FieldValueInvalid", "metadata.deletionTimestamp", &why));
        }
        let reset = object.pointer("/metadata/managedFields").and_then(Value::as_array).is_some_and(Vec::is_empty);
        let managed = object.pointer("/metadata/managedFields").cloned();
        self.keep_system_fields(call, old, &mut object)?;
        if !booked {
            self.shape(call, &mut object)?;
        }
        if kind.resource() == NAMESPACES || kind.resource() == CRDS {
            builtin::keep(kind, old, &mut object);
        }
        self.check_finalizers(call, old, &object)?;
        let grown = bumps_generation(kind, old, &object);
        if kind.generation && grown {
            let next = old.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or(0) + 1;
            meta_mut(&mut object)?.insert("generation".into(), json!(next));
        }
        if booked {
            match managed {
                Some(managed) => meta_mut(&mut object)?.insert("managedFields".into(), managed),
                None => meta_mut(&mut object)?.remove("managedFields"),
            };
        } else {
            record_update(
                Some(old),
                &mut object,
                kind,
                &call.manager,
                &kind.api_version(&call.version),
                call.subresource.as_deref(),
                &call.time(),
            );
            if reset {
                meta_mut(&mut object)?.remove("managedFields");
            }
        }
        if object == **old {
            return Ok((200, old.clone()));
        }
        if call.dry_run {
            return Ok((200, Arc::new(object)));
        }
        let key = call.key();
        let last_finalizer_gone = deleting(&object)
            && finalizers(&object).is_empty()
            && !(kind.resource() == NAMESPACES && object.pointer("/spec/finalizers/0").is_some());
        let stored = self.commit(key.clone(), object);
        if last_finalizer_gone {
            self.erase(&key);
        }
        Ok((200, stored))
    }

    /// Takes over what the writer may not set, and on a subresource everything but that part.
    fn keep_system_fields(&self, call: &Call, old: &Value, object: &mut Value) -> Result<(), Failure> {
        match call.subresource.as_deref() {
            Some("status") => {
                let status = object.get("status").cloned();
                *object = old.clone();
                set_or_remove(object, "status", status);
            }
            _ if call.kind.status => set_or_remove(object, "status", old.get("status").cloned()),
            _ => {}
        }
        if let Some(map) = object.as_object_mut() {
            for field in ["apiVersion", "kind"] {
                if let Some(value) = old.get(field) {
                    map.insert(field.into(), value.clone());
                }
            }
        }
        let meta = meta_mut(object)?;
        for field in [
            "name",
            "namespace",
            "uid",
            "resourceVersion",
            "generation",
            "creationTimestamp",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "managedFields",
            "generateName",
        ] {
            match old.pointer(&format!("/metadata/{field}")) {
                Some(value) => meta.insert(field.into(), value.clone()),
                None => meta.remove(field),
            };
        }
        Ok(())
    }

    pub(crate) fn delete(&mut self, call: &Call, options: &Value) -> Written {
        let key = call.key();
        let old = self.store.get(&key).cloned().ok_or_else(|| Failure::not_found(&call.kind, &call.name))?;
        for (field, word) in [("uid", "UID"), ("resourceVersion", "ResourceVersion")] {
            let have = text(&old, &format!("/metadata/{field}")).unwrap_or_default();
            if let Some(wanted) = text(options, &format!("/preconditions/{field}"))
                && wanted != have
            {
                let why =
                    format!("Precondition failed: {word} in precondition: {wanted}, {word} in object meta: {have}");
                return Err(Failure::conflict(&call.kind, &call.name, &why));
            }
        }
        let policy = match text(options, "/propagationPolicy") {
            None | Some("Background") => "",
            Some("Foreground") => "foregroundDeletion",
            Some("Orphan") => "orphan",
            Some(other) => {
                return Err(Failure::bad_request(format!("propagationPolicy {other:?} is not known")));
            }
        };
        if call.dry_run {
            return Ok((200, old));
        }
        match self.begin_delete(&key, policy, call.now) {
            Some(left) => Ok((200, left)),
            None => {
                let uid = text(&old, "/metadata/uid").unwrap_or_default();
                let mut details = json!({ "name": call.name, "kind": call.kind.plural, "uid": uid });
                if !call.kind.group.is_empty() {
                    details["group"] = json!(call.kind.group);
                }
                Ok((
                    200,
                    Arc::new(json!({
                        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details,
                    })),
                ))
            }
        }
    }

    /// Marks an object for deletion or removes it; gives the object while it is still there.
    pub(crate) fn begin_delete(&mut self, key: &Key, extra_finalizer: &str, now: Timestamp) -> Option<Arc<Value>> {
        let old = self.store.get(key)?.clone();
        let mut held = finalizers(&old);
        if !extra_finalizer.is_empty() && !held.iter().any(|f| f == extra_finalizer) && !deleting(&old) {
            held.push(extra_finalizer.into());
        }
        if held.is_empty() && key.resource != NAMESPACES {
            self.erase(key);
            return None;
        }
        if deleting(&old) {
            return Some(old);
        }
        let mut object = Value::clone(&old);
        let meta = object.get_mut("metadata").and_then(Value::as_object_mut)?;
        meta.insert("deletionTimestamp".into(), json!(stamp(now)));
        meta.insert("deletionGracePeriodSeconds".into(), json!(0));
        if !held.is_empty() {
            meta.insert("finalizers".into(), json!(held));
        }
        if let Some(generation) = meta.get("generation").and_then(Value::as_i64) {
            meta.insert("generation".into(), json!(generation + 1));
        }
        if key.resource == NAMESPACES {
            builtin::put(&mut object, &["status", "phase"], json!("Terminating"));
        }
        Some(self.commit(key.clone(), object))
    }

    /// Stores an object and notes what depends on it.
    pub(crate) fn commit(&mut self, key: Key, object: Value) -> Arc<Value> {
        let stored = self.store.put(key.clone(), object);
        if key.resource == CRDS {
            let since = self.store.rev;
            let known = text(&stored, "/metadata/name").and_then(|n| self.registry.get(n)).map(|k| k.since);
            if let Some(kind) = from_crd(&stored, known.unwrap_or(since)) {
                self.registry.add(kind);
            }
        }
        self.inspect.push(key);
        stored
    }

    /// Removes an object and notes who may be waiting for that.
    pub(crate) fn erase(&mut self, key: &Key) {
        let Some(last) = self.store.remove(key) else { return };
        if let Some(uid) = text(&last, "/metadata/uid") {
            self.inspect.extend(self.store.dependents(uid));
        }
        for owner in super::store::owners(&last) {
            self.inspect.extend(self.store.by_uid(&owner).cloned());
        }
        if !key.namespace.is_empty() {
            self.inspect.push(Key::new(NAMESPACES, "", &key.namespace));
        }
        self.inspect.push(Key::new(CRDS, "", &key.resource));
        if key.resource == CRDS {
            self.registry.remove(&key.name);
        }
    }

    /// An object as a version of its kind shows it.
    pub(crate) fn served(&self, call: &Call, object: &Arc<Value>) -> Value {
        in_version(&call.kind, &call.version, object)
    }
}

fn uid_words(given: &str, old: &Value) -> String {
    let have = text(old, "/metadata/uid").unwrap_or_default();
    format!("Precondition failed: UID in precondition: {given}, UID in object meta: {have}")
}

fn options_error(field: &str, reason: &str, why: &str) -> Failure {
    let mut failure = Failure::new(422, "Invalid", format!("PatchOptions.meta.k8s.io \"\" is invalid: {field}: {why}"));
    failure.details = json!({
        "group": "meta.k8s.io", "kind": "PatchOptions",
        "causes": [{ "reason": reason, "message": why, "field": field }],
    });
    failure
}

/// The object with the `apiVersion` of the asked version.
pub(crate) fn in_version(kind: &Kind, version: &str, object: &Arc<Value>) -> Value {
    let mut out = Value::clone(object);
    if version != kind.storage_version()
        && out.get("kind").and_then(Value::as_str) == Some(kind.kind.as_str())
        && let Some(map) = out.as_object_mut()
    {
        map.insert("apiVersion".into(), json!(kind.api_version(version)));
    }
    out
}

fn meta_mut(object: &mut Value) -> Result<&mut Map<String, Value>, Failure> {
    object
        .get_mut("metadata")
        .and_then(Value::as_object_mut)
        .ok_or_else(|| Failure::bad_request("metadata is not an object"))
}

fn set_or_remove(object: &mut Value, field: &str, value: Option<Value>) {
    if let Some(map) = object.as_object_mut() {
        match value {
            Some(value) => map.insert(field.into(), value),
            None => map.remove(field),
        };
    }
}

/// Empty maps and lists in metadata are not stored.
fn tidy_metadata(object: &mut Value) {
    if let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in ["labels", "annotations", "finalizers", "ownerReferences"] {
            let empty = match meta.get(field) {
                Some(Value::Object(m)) => m.is_empty(),
                Some(Value::Array(a)) => a.is_empty(),
                Some(Value::Null) => true,
                _ => false,
            };
            if empty {
                meta.remove(field);
            }
        }
    }
}

fn bumps_generation(kind: &Kind, old: &Value, new: &Value) -> bool {
    let part = |v: &Value| -> Map<String, Value> {
        v.as_object()
            .into_iter()
            .flatten()
            .filter(|(k, _)| *k != "metadata" && !(kind.status && *k == "status"))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect()
    };
    part(old) != part(new)
}
