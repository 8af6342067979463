//! One object of every kind that Berth installs, and what a server makes of them.

use std::collections::BTreeMap;

use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::discovery::{Scope, pinned_kind};
use serde_json::{Value, json};
use sim::plane;

use crate::{columns, text};

/// The namespaces of the objects.
const NAMESPACES: [&str; 3] = ["eksa-system", "metal", "team-a"];

/// The objects, with conditions as they are while something is wrong: each with the longest reason that its kind knows.
pub fn objects() -> Vec<Value> {
    let mut objects = super::documents("crates/berth/tests/manifests/objects.yaml");
    for object in &mut objects {
        let kind = text(object, "/kind").to_owned();
        for condition in object.pointer_mut("/status/conditions").and_then(Value::as_array_mut).into_iter().flatten() {
            condition["reason"] = json!(columns::longest_reason(&kind));
            condition["message"] = json!("What happened, on what, and what to do.");
            condition["lastTransitionTime"] = json!("2026-01-02T03:04:05Z");
        }
    }
    objects
}

/// Kind and name.
pub fn called(object: &Value) -> String {
    format!("{} {}", text(object, "/kind"), text(object, "/metadata/name"))
}

/// The objects of the kind and namespace of an object.
pub async fn like(client: &Client, object: &Value) -> kube::Result<Api<DynamicObject>> {
    let (version, kind) = (text(object, "/apiVersion"), text(object, "/kind"));
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let (resource, capabilities) = pinned_kind(client, &GroupVersionKind::gvk(group, version, kind)).await?;
    Ok(match capabilities.scope {
        Scope::Cluster => Api::all_with(client.clone(), &resource),
        Scope::Namespaced => Api::namespaced_with(client.clone(), text(object, "/metadata/namespace"), &resource),
    })
}

/// Stores the specs.
pub async fn create(client: &Client) {
    for namespace in NAMESPACES {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        plane::apply(client, &namespace).await.unwrap();
    }
    for mut object in objects() {
        object.as_object_mut().unwrap().remove("status");
        plane::apply(client, &object).await.unwrap_or_else(|e| panic!("{}: {e}", called(&object)));
    }
}

/// Stores the statuses, as whoever looks after the objects does; a field that nobody knows is refused.
pub async fn fill(client: &Client) {
    for object in objects().into_iter().filter(|object| object["status"].is_object()) {
        let patch = Patch::Merge(json!({"status": object["status"]}));
        let mut params = PatchParams { field_manager: Some("keeper".to_owned()), ..PatchParams::default() };
        params = params.validation_strict();
        let api = like(client, &object).await.unwrap();
        let name = text(&object, "/metadata/name");
        // Templates have no status of their own to write.
        let stored = match api.patch_status(name, &params, &patch).await {
            Err(kube::Error::Api(status)) if status.code == 404 => api.patch(name, &params, &patch).await,
            other => other,
        };
        let stored = stored.unwrap_or_else(|e| panic!("{}: {e}", called(&object)));
        for (field, value) in object["status"].as_object().unwrap() {
            assert_eq!(stored.data["status"][field], *value, "{}: {field}", called(&object));
        }
    }
}

/// All that is stored of the objects, but for who wrote which field.
pub async fn stored(client: &Client) -> BTreeMap<String, Value> {
    let mut all = BTreeMap::new();
    for object in objects() {
        let api = like(client, &object).await.unwrap();
        let found =
            api.get(text(&object, "/metadata/name")).await.unwrap_or_else(|e| panic!("{}: {e}", called(&object)));
        let mut found = serde_json::to_value(found).unwrap();
        found["metadata"].as_object_mut().unwrap().remove("managedFields");
        all.insert(called(&object), found);
    }
    all
}

/// Whether every field of `less` is in `more` as it is there.
pub fn holds(more: &Value, less: &Value) -> bool {
    match (more, less) {
        (Value::Object(more), Value::Object(less)) => {
            less.iter().all(|(key, less)| more.get(key).is_some_and(|more| holds(more, less)))
        }
        (Value::Array(more), Value::Array(less)) => {
            more.len() == less.len() && more.iter().zip(less).all(|(more, less)| holds(more, less))
        }
        (more, less) => more == less,
    }
}
