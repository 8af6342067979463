//! Whether applying an object would change anything, and what: nothing is written to find out.
//!
//! A server fills in defaults, so what is stored holds more than what was applied. What counts is whether everything that
//! is wanted is there, and whether something that we applied once is wanted no longer; the latter the server notes in the
//! managed fields of the object.

use std::collections::BTreeMap;

use api::names::clusters::FIELD_MANAGER;
use serde_json::{Map, Value};

use crate::change::Difference;

/// What was found to differ, by path.
type Found = BTreeMap<String, Difference>;

/// The paths in which applying `wanted` would change `stored`; none when it is as wanted.
#[must_use]
pub fn changes(wanted: &Value, stored: &Value) -> Vec<String> {
    differences(wanted, stored).into_iter().map(|difference| difference.path).collect()
}

/// The same with what is stored and what is wanted there.
#[must_use]
pub fn differences(wanted: &Value, stored: &Value) -> Vec<Difference> {
    let mut found = Found::new();
    for part in ["labels", "annotations"] {
        let at = format!("/metadata/{part}");
        if let Some(wanted) = wanted.pointer(&at) {
            missing(&format!("metadata.{part}"), wanted, stored.pointer(&at), &mut found);
        }
    }
    if let Some(wanted) = wanted.get("spec") {
        missing("spec", wanted, stored.get("spec"), &mut found);
    }
    for owned in owned_fields(stored) {
        for part in ["f:metadata", "f:spec"] {
            let name = part.trim_start_matches("f:");
            if let Some(fields) = owned.get(part) {
                unwanted(name, fields, wanted.get(name), stored.get(name), &mut found);
            }
        }
    }
    found.into_values().collect()
}

fn note(path: String, stored: Option<&Value>, wanted: Option<&Value>, found: &mut Found) {
    let held = |value: Option<&Value>| value.filter(|value| !value.is_null()).cloned();
    let difference = Difference { path: path.clone(), old: held(stored), new: held(wanted) };
    found.entry(path).or_insert(difference);
}

/// Whether we ever applied the object.
#[must_use]
pub fn is_ours(stored: &Value) -> bool {
    !owned_fields(stored).is_empty()
}

/// Whether an entry of managed fields tells what we applied.
#[must_use]
pub fn is_own(entry: &Value) -> bool {
    let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default();
    text("manager") == FIELD_MANAGER && text("operation") == "Apply" && text("subresource").is_empty()
}

fn owned_fields(stored: &Value) -> Vec<&Value> {
    let entries = stored.pointer("/metadata/managedFields").and_then(Value::as_array);
    entries.into_iter().flatten().filter(|entry| is_own(entry)).filter_map(|entry| entry.get("fieldsV1")).collect()
}

/// What is empty equals what is absent.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_empty),
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::Bool(_) => false,
    }
}

/// Items by the name that tells them apart, when each has one of its own.
fn by_name(items: &[Value]) -> Option<BTreeMap<&str, &Value>> {
    let named: Option<BTreeMap<&str, &Value>> =
        items.iter().map(|item| Some((item.get("name")?.as_str()?, item))).collect();
    named.filter(|named| named.len() == items.len())
}

/// Whether an empty list says something that is not said by leaving it out: without a list of taints kubeadm gives nodes of a
/// control plane its own.
fn is_said(path: &str, wanted: &Value) -> bool {
    path.ends_with(".nodeRegistration.taints") && wanted.is_array()
}

/// What is wanted and is not there, or is otherwise.
fn missing(path: &str, wanted: &Value, stored: Option<&Value>, found: &mut Found) {
    let Some(stored) = stored else {
        if !is_empty(wanted) || is_said(path, wanted) {
            note(path.to_owned(), None, Some(wanted), found);
        }
        return;
    };
    match (wanted, stored) {
        (Value::Object(wanted), Value::Object(stored)) => {
            for (name, value) in wanted {
                missing(&format!("{path}.{name}"), value, stored.get(name), found);
            }
        }
        (Value::Array(items), Value::Array(held)) if items.len() == held.len() => {
            if let (Some(items), Some(held)) = (by_name(items), by_name(held)) {
                for (name, value) in items {
                    missing(&format!("{path}[{name}]"), value, held.get(name).copied(), found);
                }
                return;
            }
            for (number, (item, held)) in items.iter().zip(held).enumerate() {
                missing(&format!("{path}[{number}]"), item, Some(held), found);
            }
        }
        (wanted, stored) if wanted == stored || (is_empty(wanted) && is_empty(stored)) => {}
        _ => note(path.to_owned(), Some(stored), Some(wanted), found),
    }
}

/// The item of a list that has these values.
fn item<'v>(list: Option<&'v Value>, keys: &Map<String, Value>) -> Option<&'v Value> {
    let fits = |item: &&Value| keys.iter().all(|(key, value)| item.get(key) == Some(value));
    list?.as_array()?.iter().find(fits)
}

/// What we applied once and want no longer.
fn unwanted(path: &str, owned: &Value, wanted: Option<&Value>, stored: Option<&Value>, found: &mut Found) {
    let Some(fields) = owned.as_object() else { return };
    for (key, below) in fields {
        if let Some(name) = key.strip_prefix("f:") {
            let (inner, held) = (wanted.and_then(|one| one.get(name)), stored.and_then(|one| one.get(name)));
            match inner {
                None => note(format!("{path}.{name}"), held, None, found),
                Some(inner) => unwanted(&format!("{path}.{name}"), below, Some(inner), held, found),
            }
        } else if let Some(keys) = key.strip_prefix("k:") {
            let Ok(Value::Object(keys)) = serde_json::from_str::<Value>(keys) else { continue };
            let (inner, held) = (item(wanted, &keys), item(stored, &keys));
            match inner {
                None => {
                    let told: Vec<String> = keys.values().map(Value::to_string).collect();
                    note(format!("{path}[{}]", told.join(",")), held, None, found);
                }
                Some(inner) => unwanted(path, below, Some(inner), held, found),
            }
        } else if let Some(value) = key.strip_prefix("v:") {
            let Ok(value) = serde_json::from_str::<Value>(value) else { continue };
            let held = wanted.and_then(Value::as_array).is_some_and(|items| items.contains(&value));
            if !held {
                note(format!("{path}[{value}]"), Some(&value), None, found);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn stored(fields: Value) -> Value {
        json!({
            "metadata": {
                "labels": {"a": "1", "theirs": "x"},
                "managedFields": [
                    {"manager": FIELD_MANAGER, "operation": "Apply", "fieldsV1": fields},
                    {"manager": "manager", "operation": "Update", "fieldsV1": {"f:spec": {"f:defaulted": {}}}},
                ],
            },
            "spec": {"replicas": 3, "defaulted": true, "args": [{"name": "x", "value": "1"}, {"name": "y", "value": "2"}],
                "list": [{"path": "/a", "owner": "root", "mode": "0644"}]},
        })
    }

    #[test]
    fn what_a_server_fills_in_is_no_change_and_what_differs_is_named() {
        let wanted = json!({"metadata": {"labels": {"a": "1"}}, "spec": {"replicas": 3, "empty": {}, "none": [],
            "args": [{"name": "y", "value": "2"}, {"name": "x", "value": "1"}], "list": [{"path": "/a", "owner": "root"}]}});
        assert_eq!(changes(&wanted, &stored(json!({}))), Vec::<String>::new());
        let wanted = json!({"metadata": {"labels": {"a": "2", "b": "1"}}, "spec": {"replicas": 5,
            "args": [{"name": "y", "value": "3"}, {"name": "x", "value": "1"}], "list": [], "more": {"deep": 1}}});
        assert_eq!(
            changes(&wanted, &stored(json!({}))),
            ["metadata.labels.a", "metadata.labels.b", "spec.args[y].value", "spec.list", "spec.more", "spec.replicas"]
        );
    }

    #[test]
    fn no_taint_at_all_is_not_the_usual_one() {
        let registered = |taints: Option<Value>| {
            let node = taints.map_or(json!({"name": "n"}), |taints| json!({"name": "n", "taints": taints}));
            json!({"spec": {"kubeadmConfigSpec": {"initConfiguration": {"nodeRegistration": node}}}})
        };
        let (usual, none) = (registered(None), registered(Some(json!([]))));
        let path = "spec.kubeadmConfigSpec.initConfiguration.nodeRegistration.taints";
        assert_eq!(changes(&none, &usual), [path]);
        assert_eq!(changes(&none, &none), Vec::<String>::new());
        // What is taken back is told by who applied it.
        let mut ours = none.clone();
        let at = json!({"f:kubeadmConfigSpec": {"f:initConfiguration": {"f:nodeRegistration": {"f:taints": {}}}}});
        ours["metadata"]["managedFields"] =
            json!([{"manager": FIELD_MANAGER, "operation": "Apply", "fieldsV1": {"f:spec": at}}]);
        assert_eq!(changes(&usual, &ours), [path]);
    }

    #[test]
    fn what_we_applied_once_and_want_no_longer_is_a_change() {
        let owned = json!({
            "f:metadata": {"f:labels": {"f:a": {}}},
            "f:spec": {"f:replicas": {}, "f:args": {"k:{\"name\":\"x\"}": {".": {}, "f:name": {}, "f:value": {}}}},
        });
        let same = json!({"metadata": {"labels": {"a": "1"}},
            "spec": {"replicas": 3, "args": [{"name": "x", "value": "1"}, {"name": "y", "value": "2"}]}});
        assert_eq!(changes(&same, &stored(owned.clone())), Vec::<String>::new());
        let fewer = json!({"metadata": {"labels": {}}, "spec": {"args": [{"name": "y", "value": "2"}, {"name": "z", "value": "1"}]}});
        let found = changes(&fewer, &stored(owned));
        assert!(
            found.contains(&"spec.replicas".to_owned()) && found.contains(&"metadata.labels.a".to_owned()),
            "{found:?}"
        );
        assert!(found.contains(&"spec.args[\"x\"]".to_owned()), "{found:?}");
        let values = differences(&fewer, &stored(json!({"f:spec": {"f:replicas": {}}})));
        let replicas = values.iter().find(|difference| difference.path == "spec.replicas").unwrap();
        assert_eq!((&replicas.old, &replicas.new), (&Some(json!(3)), &None));
        assert!(is_ours(&stored(json!({}))) && !is_ours(&json!({"metadata": {}})));
    }
}
