//! Objects as their writer wrote them, for a client that writes the same once more.

use serde_json::{Map, Value};

/// An object in a namespace, without what the server added to it and without its state.
pub fn as_written(object: &Value, namespace: &str) -> Value {
    let mut metadata = Map::from_iter([("namespace".to_owned(), namespace.into())]);
    for kept in ["name", "labels", "annotations"] {
        if let Some(value) = object.pointer("/metadata").and_then(|metadata| metadata.get(kept)) {
            metadata.insert(kept.to_owned(), value.clone());
        }
    }
    let mut written = Map::from_iter([("metadata".to_owned(), Value::Object(metadata))]);
    for (part, value) in object.as_object().into_iter().flatten() {
        if part != "metadata" && part != "status" {
            written.insert(part.clone(), value.clone());
        }
    }
    Value::Object(written)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_is_written_again_as_it_was() {
        let stored = json!({"apiVersion": "g/v1", "kind": "K", "spec": {"a": 1}, "status": {"b": 2}, "metadata": {
            "name": "n", "namespace": "here", "labels": {"l": "1"}, "uid": "u", "resourceVersion": "7", "generation": 2,
            "creationTimestamp": "2026-01-02T03:04:05Z", "ownerReferences": [{"uid": "u"}], "finalizers": ["f"],
        }});
        let expected = json!({"apiVersion": "g/v1", "kind": "K", "spec": {"a": 1},
            "metadata": {"name": "n", "namespace": "there", "labels": {"l": "1"}}});
        assert_eq!(as_written(&stored, "there"), expected);
    }
}
