//! Objects as a server would have stored them, for those who fill the store of a real one past it.

use std::sync::LazyLock;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    Rng,
    fields::{Shape, compare},
    kinds::metadata_schema,
    managed::{Entry, Managed, part_of},
    store::text,
    write::stamp,
};

/// A custom object as a server has it once `creator` has created it and `reporter` has written its state: with an identity, a
/// time, a generation, and with the owners of its fields. Owners that it names itself stay, and then the state is theirs.
///
/// Of its schema nothing is known but the metadata, so lists are owned whole.
#[must_use]
pub fn stored(mut object: Value, creator: &str, reporter: &str, now: Timestamp, rng: &mut Rng) -> Value {
    static SCHEMA: LazyLock<Value> = LazyLock::new(|| json!({ "properties": { "metadata": metadata_schema() } }));
    let time = stamp(now);
    let version = text(&object, "/apiVersion").unwrap_or_default().to_owned();
    let mut managed = Managed::read(&object);
    let mut owners = vec![Entry::identity(creator, "Update", &version, None)];
    if managed.is_empty() {
        owners.push(Entry::identity(reporter, "Update", &version, Some("status")));
    }
    let fields = compare(Some(&json!({ "metadata": {} })), Some(&object), Shape(Some(&SCHEMA))).changed;
    for owner in owners {
        let state = (!owner.subresource.is_empty()).then_some("status");
        managed.put(owner.clone(), part_of(fields.clone(), true, state));
        managed.touch(&owner, &time);
    }
    managed.write(&mut object);
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("uid".into(), json!(rng.uid()));
        metadata.insert("generation".into(), json!(1));
        metadata.insert("creationTimestamp".into(), json!(time));
    }
    object
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::{Kind, Server};
    use super::*;

    const NOW: Timestamp = Timestamp::constant(1_767_225_600, 0);

    fn thing() -> Value {
        json!({"apiVersion": "example.test/v1", "kind": "Thing",
            "metadata": {"name": "a", "namespace": "default", "labels": {"x": "y"}, "finalizers": ["example.test/f"]},
            "spec": {"list": [1, 2], "deep": {"er": 1, "empty": {}}}, "status": {"known": true}})
    }

    fn managers(object: &Value) -> Vec<&str> {
        let all = object["metadata"]["managedFields"].as_array().unwrap();
        all.iter().map(|manager| manager["manager"].as_str().unwrap()).collect()
    }

    #[test]
    fn it_is_what_the_server_has_that_stored_it_itself() {
        let server = Server::with_clock(1, Arc::new(|| NOW));
        let mut kind = Kind::namespaced("example.test", "v1", "Thing", "things");
        // Nothing is known of its schema either.
        kind.schema = json!({});
        server.register(kind);
        let mut there = server.put(thing()).unwrap();
        let mut made = stored(thing(), "test", "test", NOW, &mut Rng::new(2));
        for object in [&mut there, &mut made] {
            let metadata = object["metadata"].as_object_mut().unwrap();
            assert_eq!(metadata.remove("uid").unwrap().as_str().unwrap().len(), 36);
            metadata.remove("resourceVersion");
        }
        assert_eq!(made, there);
    }

    #[test]
    fn an_object_has_an_identity_of_its_own_and_an_owner_for_each_field() {
        let [one, two] = [1, 2].map(|seed| stored(thing(), "creator", "reporter", NOW, &mut Rng::new(seed)));
        assert_ne!(one["metadata"]["uid"], two["metadata"]["uid"]);
        assert_eq!(managers(&one), ["creator", "reporter"]);
        let fields = |at: usize| &one["metadata"]["managedFields"][at]["fieldsV1"];
        let spec = json!({".": {}, "f:list": {}, "f:deep": {".": {}, "f:er": {}, "f:empty": {}}});
        let metadata = json!({"f:labels": {".": {}, "f:x": {}}, "f:finalizers": {".": {}, "v:\"example.test/f\"": {}}});
        assert_eq!(*fields(0), json!({"f:metadata": metadata, "f:spec": spec}));
        assert_eq!(*fields(1), json!({"f:status": {".": {}, "f:known": {}}}));
    }

    #[test]
    fn owners_that_it_names_stay_and_the_state_is_theirs() {
        let mut named = thing();
        named["metadata"]["managedFields"] = json!([{"manager": "other", "operation": "Apply",
            "apiVersion": "example.test/v1", "time": "2025-01-01T00:00:00Z", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:status": {"f:known": {}}}, "subresource": "status"}]);
        let other = named["metadata"]["managedFields"][0].clone();
        let made = stored(named, "creator", "reporter", NOW, &mut Rng::new(1));
        assert_eq!(managers(&made), ["other", "creator"]);
        assert_eq!(made["metadata"]["managedFields"][0], other);
    }
}
