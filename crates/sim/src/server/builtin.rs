//! What the server does to the kinds it knows by name.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::kinds::{CRDS, Kind, NAMESPACES};

const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Fields the server itself puts into a new object.
pub(crate) fn on_create(kind: &Kind, name: &str, object: &mut Value, now: &str) {
    match kind.resource().as_str() {
        NAMESPACES => {
            put(object, &["metadata", "labels", "kubernetes.io/metadata.name"], json!(name));
            put(object, &["spec", "finalizers"], json!(["kubernetes"]));
            put(object, &["status"], json!({ "phase": "Active" }));
        }
        CRDS => {
            put(object, &["metadata", "finalizers"], json!([CLEANUP]));
            let stored: Vec<Value> = object
                .pointer("/spec/versions")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter(|v| v.get("storage").and_then(Value::as_bool) == Some(true))
                .filter_map(|v| v.get("name").cloned())
                .collect();
            let condition = |kind: &str, reason: &str, message: &str| json!({ "type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": now });
            let mut names = object.pointer("/spec/names").cloned().unwrap_or_else(|| json!({}));
            if let Some(map) = names.as_object_mut() {
                let spelled = map.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
                map.entry("listKind").or_insert_with(|| json!(format!("{spelled}List")));
                map.entry("singular").or_insert_with(|| json!(spelled.to_lowercase()));
            }
            put(object, &["spec", "names"], names.clone());
            let status = json!({
                "acceptedNames": names,
                "storedVersions": stored,
                "conditions": [
                    condition("NamesAccepted", "NoConflicts", "no conflicts found"),
                    condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
                ],
            });
            put(object, &["status"], status);
        }
        "secrets" if object.get("type").is_none() => put(object, &["type"], json!("Opaque")),
        _ => {}
    }
}

/// Fields the server rewrites at every write.
pub(crate) fn on_write(kind: &Kind, object: &mut Value) {
    if kind.resource() != "secrets" {
        return;
    }
    let Some(map) = object.as_object_mut() else { return };
    let Some(plain) = map.remove("stringData") else { return };
    for (key, value) in plain.as_object().into_iter().flatten() {
        if let Some(text) = value.as_str()
            && let Some(data) = map.entry("data").or_insert_with(|| json!({})).as_object_mut()
        {
            data.insert(key.clone(), json!(STANDARD.encode(text)));
        }
    }
}

/// Fields of these kinds that ordinary writes leave alone.
pub(crate) fn keep(kind: &Kind, old: &Value, object: &mut Value) {
    if kind.resource() == NAMESPACES {
        if let Some(held) = old.pointer("/spec/finalizers") {
            put(object, &["spec", "finalizers"], held.clone());
        }
        let label = old.pointer("/metadata/labels/kubernetes.io~1metadata.name");
        if let Some(label) = label {
            put(object, &["metadata", "labels", "kubernetes.io/metadata.name"], label.clone());
        }
    }
    if kind.resource() == CRDS
        && let Some(names) = object.pointer_mut("/spec/names").and_then(Value::as_object_mut)
    {
        let spelled = names.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
        names.entry("listKind").or_insert_with(|| json!(format!("{spelled}List")));
        names.entry("singular").or_insert_with(|| json!(spelled.to_lowercase()));
    }
}

/// Sets a field; where something else than an object is in the way, the schema refuses it later.
pub(crate) fn put(object: &mut Value, path: &[&str], value: Value) {
    let Some(map) = object.as_object_mut() else { return };
    match path {
        [] => {}
        [last] => {
            map.insert((*last).to_owned(), value);
        }
        [first, rest @ ..] => put(map.entry(*first).or_insert_with(|| json!({})), rest, value),
    }
}
