//! `metadata.managedFields`: who owns which fields.

use serde_json::{Value, json};

use super::{
    apply::SYSTEM_FIELDS,
    fields::{FieldSet, Shape, compare},
    kinds::Kind,
};

/// One manager as the server tells managers apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) manager: String,
    pub(crate) operation: String,
    pub(crate) api_version: String,
    pub(crate) subresource: String,
}

impl Entry {
    pub(crate) fn identity(manager: &str, operation: &str, api_version: &str, subresource: Option<&str>) -> Self {
        Self {
            manager: manager.into(),
            operation: operation.into(),
            api_version: api_version.into(),
            subresource: subresource.unwrap_or_default().into(),
        }
    }

    pub(crate) fn described(&self) -> String {
        let mut out = format!("{:?}", self.manager);
        if !self.subresource.is_empty() {
            out = format!("{out} with subresource {:?}", self.subresource);
        }
        if self.operation == "Update" {
            out = format!("{out} using {}", self.api_version);
        }
        out
    }
}

/// All managers of one object.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Managed {
    entries: Vec<(Entry, FieldSet, String)>,
}

impl Managed {
    pub(crate) fn read(object: &Value) -> Self {
        let text = |v: &Value, key: &str| v.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let entries = object
            .pointer("/metadata/managedFields")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .map(|v| {
                (
                    Entry {
                        manager: text(v, "manager"),
                        operation: text(v, "operation"),
                        api_version: text(v, "apiVersion"),
                        subresource: text(v, "subresource"),
                    },
                    v.get("fieldsV1").map(FieldSet::decode).unwrap_or_default(),
                    text(v, "time"),
                )
            })
            .collect();
        Self { entries }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn set(&self, who: &Entry) -> Option<FieldSet> {
        self.entries.iter().find(|(e, ..)| e == who).map(|(_, s, _)| s.clone())
    }

    pub(crate) fn put(&mut self, who: Entry, set: FieldSet) {
        match self.entries.iter_mut().find(|(e, ..)| *e == who) {
            Some((_, held, _)) => *held = set,
            None => self.entries.push((who, set, String::new())),
        }
    }

    pub(crate) fn touch(&mut self, who: &Entry, now: &str) {
        if let Some((.., time)) = self.entries.iter_mut().find(|(e, ..)| e == who) {
            now.clone_into(time);
        }
    }

    pub(crate) fn union(&self) -> FieldSet {
        self.entries.iter().fold(FieldSet::default(), |all, (_, set, _)| all.union(set))
    }

    pub(crate) fn others(&self, me: &Entry) -> Vec<(Entry, FieldSet)> {
        self.entries.iter().filter(|(e, ..)| e != me).map(|(e, s, _)| (e.clone(), s.clone())).collect()
    }

    pub(crate) fn subtract(&mut self, who: &Entry, set: &FieldSet) {
        if let Some((_, held, _)) = self.entries.iter_mut().find(|(e, ..)| e == who) {
            *held = held.difference(set);
        }
    }

    pub(crate) fn subtract_all(&mut self, set: &FieldSet) {
        for (_, held, _) in &mut self.entries {
            *held = held.difference(set);
        }
    }

    /// Stores the owners in the object; managers without fields disappear.
    pub(crate) fn write(mut self, object: &mut Value) {
        self.entries.retain(|(_, set, _)| !set.is_empty());
        self.entries
            .sort_by(|(a, _, at), (b, _, bt)| (&a.operation, at, &a.manager).cmp(&(&b.operation, bt, &b.manager)));
        let list: Vec<Value> = self
            .entries
            .iter()
            .map(|(e, set, time)| {
                let mut it = json!({
                    "manager": e.manager, "operation": e.operation, "apiVersion": e.api_version,
                    "time": time, "fieldsType": "FieldsV1", "fieldsV1": set.encode(),
                });
                if !e.subresource.is_empty() {
                    it["subresource"] = json!(e.subresource);
                }
                it
            })
            .collect();
        if let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            if list.is_empty() {
                meta.remove("managedFields");
            } else {
                meta.insert("managedFields".into(), Value::Array(list));
            }
        }
    }
}

/// Takes away what nobody can own through this endpoint.
pub(crate) fn owned_part(set: FieldSet, kind: &Kind, subresource: Option<&str>) -> FieldSet {
    part_of(set, kind.status, subresource)
}

/// The same for objects whose status is written on its own, or is not.
pub(crate) fn part_of(set: FieldSet, status: bool, subresource: Option<&str>) -> FieldSet {
    if subresource == Some("status") {
        return set.only("f:status");
    }
    let mut out = set.without(&["f:apiVersion"]).without(&["f:kind"]);
    for field in SYSTEM_FIELDS {
        out = out.without(&["f:metadata", &format!("f:{field}")]);
    }
    if let Some(meta) = out.children.get_mut("f:metadata") {
        meta.member = false;
    }
    if out.children.get("f:metadata").is_some_and(FieldSet::is_empty) {
        out = out.without(&["f:metadata"]);
    }
    if status {
        out = out.without(&["f:status"]);
    }
    out
}

/// Books a create, replace or patch for its manager; every other owner loses what was changed.
pub(crate) fn record_update(
    old: Option<&Value>,
    new: &mut Value,
    kind: &Kind,
    manager: &str,
    api_version: &str,
    subresource: Option<&str>,
    now: &str,
) {
    let mut managed = old.map(Managed::read).unwrap_or_default();
    let bare = |v: &Value| {
        let mut v = v.clone();
        if let Some(meta) = v.get_mut("metadata").and_then(Value::as_object_mut) {
            for field in SYSTEM_FIELDS {
                meta.remove(*field);
            }
        }
        v
    };
    let before = old.map_or_else(|| json!({ "metadata": {} }), bare);
    let after = bare(new);
    let diff = compare(Some(&before), Some(&after), Shape(Some(&kind.schema)));
    let changed = owned_part(diff.changed, kind, subresource);
    let me = Entry::identity(manager, "Update", api_version, subresource);
    for (entry, set) in managed.others(&me) {
        let lost = set.intersection(&changed);
        if !lost.is_empty() {
            managed.subtract(&entry, &lost);
        }
    }
    if !changed.is_empty() || !diff.removed.is_empty() {
        let held = managed.set(&me).unwrap_or_default().union(&changed);
        managed.put(me.clone(), held);
        managed.subtract_all(&diff.removed);
        managed.touch(&me, now);
    }
    managed.write(new);
}
