//! Server-side apply: merge by schema, ownership, conflicts, removal of what is no longer applied.

use serde_json::{Map, Value, json};

use super::{
    fields::{FieldSet, Shape, compare, set_of},
    kinds::Kind,
    managed::{Entry, Managed, owned_part},
    status::Failure,
};

/// What an apply asks for.
pub(crate) struct Apply<'a> {
    pub(crate) kind: &'a Kind,
    pub(crate) name: &'a str,
    pub(crate) manager: &'a str,
    pub(crate) api_version: &'a str,
    pub(crate) subresource: Option<&'a str>,
    pub(crate) force: bool,
    pub(crate) now: &'a str,
}

impl Apply<'_> {
    /// Merges `config` into `live`, and gives the object with its new owners.
    pub(crate) fn run(&self, live: &Value, config: &Value) -> Result<Value, Failure> {
        let shape = Shape(Some(&self.kind.schema));
        let mut managed = Managed::read(live);
        let me = Entry::identity(self.manager, "Apply", self.api_version, self.subresource);
        let last = managed.set(&me);
        let wanted = owned_part(set_of(config, shape), self.kind, self.subresource);

        let mut merged = live.clone();
        merge(&mut merged, &visible(config, self.kind, self.subresource), shape);
        managed.put(me.clone(), wanted.clone());
        if let Some(last) = &last {
            prune(&mut merged, last, &managed.union(), shape);
        }

        let diff = compare(Some(live), Some(&merged), shape);
        let mut conflicts: Vec<(Entry, FieldSet)> = Vec::new();
        for (entry, set) in managed.others(&me) {
            let clash = set.intersection(&diff.changed);
            if !clash.is_empty() {
                conflicts.push((entry, clash));
            }
        }
        if !self.force && !conflicts.is_empty() {
            return Err(self.refuse(&conflicts));
        }
        for (entry, clash) in conflicts {
            managed.subtract(&entry, &clash);
        }
        managed.subtract_all(&diff.removed);

        let touched = last.as_ref() != Some(&wanted) || merged != *live;
        if touched {
            managed.touch(&me, self.now);
        }
        managed.write(&mut merged);
        Ok(merged)
    }

    fn refuse(&self, conflicts: &[(Entry, FieldSet)]) -> Failure {
        let mut causes = Vec::new();
        let mut lines = Vec::new();
        for (entry, set) in conflicts {
            let who = entry.described();
            let paths = set.paths();
            for path in &paths {
                causes.push(json!({ "reason": "FieldManagerConflict", "message": format!("conflict with {who}"), "field": path }));
            }
            match paths.as_slice() {
                [one] => lines.push(format!("conflict with {who}: {one}")),
                many => lines.push(format!("conflicts with {who}:\n- {}", many.join("\n- "))),
            }
        }
        let plural = if causes.len() == 1 { "" } else { "s" };
        let mut failure = Failure::new(
            409,
            "Conflict",
            format!("Apply failed with {} conflict{plural}: {}", causes.len(), lines.join("\n")),
        )
        .about(self.kind, self.name);
        failure.details["causes"] = json!(causes);
        failure
    }
}

/// The part of a configuration this endpoint may write.
fn visible(config: &Value, kind: &Kind, subresource: Option<&str>) -> Value {
    let mut out = Map::new();
    for (key, value) in config.as_object().into_iter().flatten() {
        let keep = match (key.as_str(), subresource) {
            ("apiVersion" | "kind", _) => false,
            ("status", Some("status")) => true,
            (_, Some("status")) => false,
            ("status", None) => !kind.status,
            _ => true,
        };
        if keep {
            out.insert(key.clone(), value.clone());
        }
    }
    if let Some(meta) = out.get_mut("metadata").and_then(Value::as_object_mut) {
        for system in SYSTEM_FIELDS {
            meta.remove(*system);
        }
    }
    Value::Object(out)
}

/// Metadata no writer owns.
pub(crate) const SYSTEM_FIELDS: &[&str] = &[
    "name",
    "namespace",
    "generateName",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "selfLink",
];

fn merge(live: &mut Value, config: &Value, shape: Shape<'_>) {
    match (&mut *live, config) {
        (Value::Object(into), Value::Object(from)) if !shape.atomic_map() => {
            for (key, value) in from {
                if value.is_null() {
                    into.remove(key);
                    continue;
                }
                match into.get_mut(key) {
                    Some(there) => merge(there, value, shape.field(key)),
                    None => {
                        into.insert(key.clone(), value.clone());
                    }
                }
            }
        }
        (Value::Array(into), Value::Array(from)) => {
            let Some(wanted) = shape.elements(from) else {
                *live = config.clone();
                return;
            };
            for (element, item) in wanted {
                let at = shape.elements(into).and_then(|all| all.iter().position(|(e, _)| *e == element));
                match at.and_then(|i| into.get_mut(i)) {
                    Some(there) => merge(there, item, shape.items()),
                    None => into.push(item.clone()),
                }
            }
        }
        _ => *live = config.clone(),
    }
}

/// Removes what `last` held and nobody owns any more.
fn prune(value: &mut Value, last: &FieldSet, owned: &FieldSet, shape: Shape<'_>) {
    let nothing = FieldSet::default();
    for (element, held) in &last.children {
        let keep = owned.children.get(element);
        let whole = keep.is_none() && (held.member || held.children.is_empty());
        if let Some(key) = element.strip_prefix("f:") {
            let Some(map) = value.as_object_mut() else { continue };
            if whole {
                map.remove(key);
                continue;
            }
            if let Some(child) = map.get_mut(key) {
                let was_empty = hollow(child);
                prune(child, held, keep.unwrap_or(&nothing), shape.field(key));
                if hollow(child) && !was_empty && !keep.is_some_and(|k| k.member) {
                    map.remove(key);
                }
            }
        } else {
            let Some(list) = value.as_array_mut() else { continue };
            let at = shape.elements(list).and_then(|all| all.iter().position(|(e, _)| e == element));
            let Some(at) = at else { continue };
            if whole {
                list.remove(at);
            } else if let Some(child) = list.get_mut(at) {
                prune(child, held, keep.unwrap_or(&nothing), shape.items());
            }
        }
    }
}

fn hollow(value: &Value) -> bool {
    value.as_object().is_some_and(Map::is_empty) || value.as_array().is_some_and(Vec::is_empty)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn config() -> impl Strategy<Value = Value> {
        let conditions = prop::collection::btree_map("[A-D]", "True|False", 0..4)
            .prop_map(|m| Value::Array(m.into_iter().map(|(t, s)| json!({ "type": t, "status": s })).collect()));
        let spec = prop::collection::btree_map("[a-d]", 0..3i64, 0..4);
        let tags = prop::collection::btree_set("[x-z]", 0..3);
        (conditions, spec, tags).prop_map(|(conditions, spec, tags)| {
            json!({ "spec": { "map": spec, "tags": tags }, "status": { "conditions": conditions } })
        })
    }

    fn kind() -> Kind {
        Kind::namespaced("berth.test", "v1", "Widget", "widgets").without_status().list_set("spec.tags")
    }

    fn apply(live: &Value, config: &Value, manager: &str) -> Value {
        let kind = kind();
        let run = Apply {
            kind: &kind,
            name: "w",
            manager,
            api_version: "berth.test/v1",
            subresource: None,
            force: true,
            now: "t",
        };
        run.run(live, config).unwrap()
    }

    fn empty() -> Value {
        json!({ "metadata": {} })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn an_apply_is_its_own_repetition(one in config(), two in config()) {
            let live = apply(&apply(&empty(), &one, "one"), &two, "two");
            prop_assert_eq!(apply(&live, &two, "two"), live);
        }

        #[test]
        fn who_applies_nothing_leaves_nothing(one in config(), two in config()) {
            let alone = apply(&empty(), &one, "one");
            let both = apply(&alone, &two, "two");
            let left = apply(&both, &json!({}), "two");
            let owners = Managed::read(&left);
            prop_assert!(owners.set(&Entry::identity("two", "Apply", "berth.test/v1", None)).is_none());
            let gone = apply(&left, &json!({}), "one");
            let tags = gone.pointer("/spec/tags").and_then(Value::as_array).map_or(0, Vec::len);
            let fields = gone.pointer("/spec/map").and_then(Value::as_object).map_or(0, Map::len);
            let conditions = gone.pointer("/status/conditions").and_then(Value::as_array).map_or(0, Vec::len);
            prop_assert_eq!((tags, fields, conditions), (0, 0, 0));
        }

        #[test]
        fn what_was_applied_last_is_there(one in config(), two in config()) {
            let live = apply(&apply(&empty(), &one, "one"), &two, "two");
            for (key, value) in two["spec"]["map"].as_object().unwrap() {
                prop_assert_eq!(&live["spec"]["map"][key], value);
            }
            for condition in two["status"]["conditions"].as_array().unwrap() {
                prop_assert!(live["status"]["conditions"].as_array().unwrap().contains(condition));
            }
        }
    }
}
