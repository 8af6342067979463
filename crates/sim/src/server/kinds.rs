//! The resource types the server knows.

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

use serde_json::{Map, Value, json};

/// One resource type: how it is addressed and how its writes behave.
#[derive(Clone, Debug)]
pub struct Kind {
    /// API group; empty for the core group.
    pub group: String,
    /// Served versions, the storage version first.
    pub versions: Vec<String>,
    /// The kind's name, e.g. `ConfigMap`.
    pub kind: String,
    /// The resource's name in paths, e.g. `configmaps`.
    pub plural: String,
    /// Whether objects live in a namespace.
    pub namespaced: bool,
    /// Whether `/status` is written on its own.
    pub status: bool,
    /// Whether the server counts `metadata.generation`.
    pub generation: bool,
    /// Whether a replace without a resource version is accepted.
    pub unconditional: bool,
    /// Field paths a field selector may name, besides name and namespace.
    pub selectable: Vec<String>,
    /// Structural schema: list types, map types, declared fields.
    pub schema: Value,
    /// Whether fields the schema does not name are dropped.
    pub prune: bool,
    /// Whether the type comes from a CustomResourceDefinition.
    pub custom: bool,
    /// Revision at which the type appeared; older watches are expired.
    pub since: u64,
}

impl Kind {
    /// A namespaced custom kind with a status subresource, counted generation and `status.conditions` merged by `type`.
    #[must_use]
    pub fn namespaced(group: &str, version: &str, kind: &str, plural: &str) -> Self {
        let mut it = Self {
            group: group.into(),
            versions: vec![version.into()],
            kind: kind.into(),
            plural: plural.into(),
            namespaced: true,
            status: true,
            generation: true,
            unconditional: false,
            selectable: Vec::new(),
            schema: json!({ "type": "object" }),
            prune: false,
            custom: true,
            since: 0,
        };
        it.complete();
        it.list_map("status.conditions", &["type"])
    }

    /// The same, cluster-scoped.
    #[must_use]
    pub fn cluster(group: &str, version: &str, kind: &str, plural: &str) -> Self {
        let mut it = Self::namespaced(group, version, kind, plural);
        it.namespaced = false;
        it
    }

    /// Serves a further version of the same objects (only `apiVersion` differs).
    #[must_use]
    pub fn version(mut self, version: &str) -> Self {
        self.versions.push(version.into());
        self
    }

    /// Has no status subresource: `status` is an ordinary field.
    #[must_use]
    pub fn without_status(mut self) -> Self {
        self.status = false;
        self
    }

    /// Lets a field selector name `path`, e.g. `spec.hostRef`.
    #[must_use]
    pub fn selectable(mut self, path: &str) -> Self {
        self.selectable.push(path.into());
        self
    }

    /// The list at the dotted `path` is merged by `keys` in server-side apply.
    #[must_use]
    pub fn list_map(mut self, path: &str, keys: &[&str]) -> Self {
        let node = schema_node(&mut self.schema, path);
        node.insert("type".into(), json!("array"));
        node.insert("x-kubernetes-list-type".into(), json!("map"));
        node.insert("x-kubernetes-list-map-keys".into(), json!(keys));
        self
    }

    /// The list of scalars at the dotted `path` is a set in server-side apply.
    #[must_use]
    pub fn list_set(mut self, path: &str) -> Self {
        let node = schema_node(&mut self.schema, path);
        node.insert("type".into(), json!("array"));
        node.insert("x-kubernetes-list-type".into(), json!("set"));
        self
    }

    /// The map at the dotted `path` has one owner as a whole in server-side apply.
    #[must_use]
    pub fn atomic_map(mut self, path: &str) -> Self {
        let node = schema_node(&mut self.schema, path);
        node.insert("type".into(), json!("object"));
        node.insert("x-kubernetes-map-type".into(), json!("atomic"));
        self
    }

    /// `plural.group`, or just `plural` in the core group: the name used everywhere to address the type.
    #[must_use]
    pub fn resource(&self) -> String {
        resource_name(&self.plural, &self.group)
    }

    /// The `apiVersion` of `version`.
    #[must_use]
    pub fn api_version(&self, version: &str) -> String {
        if self.group.is_empty() { version.to_owned() } else { format!("{}/{version}", self.group) }
    }

    /// The version objects are stored in.
    #[must_use]
    pub fn storage_version(&self) -> &str {
        self.versions.first().map_or("v1", String::as_str)
    }

    /// Puts what every object has into the schema.
    pub(crate) fn complete(&mut self) {
        if !self.schema.is_object() {
            self.schema = json!({});
        }
        for (key, shape) in [
            ("apiVersion", json!({ "type": "string" })),
            ("kind", json!({ "type": "string" })),
            ("metadata", metadata_schema()),
        ] {
            if let Some(properties) = properties_of(&mut self.schema) {
                properties.insert(key.into(), shape);
            }
        }
    }
}

pub(crate) fn resource_name(plural: &str, group: &str) -> String {
    if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") }
}

fn properties_of(schema: &mut Value) -> Option<&mut Map<String, Value>> {
    schema.as_object_mut()?.entry("properties").or_insert_with(|| json!({})).as_object_mut()
}

fn schema_node<'a>(root: &'a mut Value, path: &str) -> &'a mut Map<String, Value> {
    let mut node = root;
    for part in path.split('.') {
        node = &mut node["properties"][part];
    }
    if !node.is_object() {
        *node = json!({});
    }
    match node {
        Value::Object(map) => map,
        _ => unreachable!("made an object above"),
    }
}

pub(crate) fn metadata_schema() -> Value {
    let text = json!({ "type": "string" });
    let map = json!({ "type": "object", "additionalProperties": text });
    json!({
        "type": "object",
        "properties": {
            "name": text, "generateName": text, "namespace": text, "uid": text,
            "resourceVersion": text, "generation": { "type": "integer" },
            "creationTimestamp": text, "deletionTimestamp": text,
            "deletionGracePeriodSeconds": { "type": "integer" },
            "labels": map, "annotations": map,
            "finalizers": { "type": "array", "items": text, "x-kubernetes-list-type": "set" },
            "ownerReferences": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["uid"],
                "items": {
                    "type": "object",
                    "x-kubernetes-map-type": "atomic",
                    "properties": {
                        "apiVersion": text, "kind": text, "name": text, "uid": text,
                        "controller": { "type": "boolean" }, "blockOwnerDeletion": { "type": "boolean" },
                    },
                },
            },
            "managedFields": { "type": "array", "items": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
        },
    })
}

/// All types, by resource name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Registry {
    kinds: BTreeMap<String, Arc<Kind>>,
}

pub(crate) const CRDS: &str = "customresourcedefinitions.apiextensions.k8s.io";
pub(crate) const NAMESPACES: &str = "namespaces";

impl Registry {
    /// Built once: a sweep makes thousands of servers.
    pub(crate) fn with_builtins() -> Self {
        static BUILTINS: LazyLock<Registry> = LazyLock::new(Registry::builtins);
        BUILTINS.clone()
    }

    fn builtins() -> Self {
        let mut registry = Self::default();
        let text = json!({ "type": "string" });
        let texts = json!({ "type": "object", "additionalProperties": text });
        let plain = |group: &str, kind: &str, plural: &str, schema: Value| {
            let mut kind = Kind {
                status: false,
                generation: false,
                unconditional: true,
                custom: false,
                schema,
                ..Kind::namespaced(group, "v1", kind, plural)
            };
            kind.complete();
            kind
        };
        registry.add(Kind {
            namespaced: false,
            status: true,
            selectable: vec!["status.phase".into()],
            ..plain(
                "",
                "Namespace",
                "namespaces",
                json!({ "type": "object", "properties": { "spec": { "type": "object", "properties": {
                    "finalizers": { "type": "array", "x-kubernetes-list-type": "atomic" } } },
                    "status": { "type": "object", "properties": { "phase": text } } } }),
            )
        });
        registry.add(plain(
            "",
            "ConfigMap",
            "configmaps",
            json!({ "type": "object", "properties": { "data": texts, "binaryData": texts, "immutable": { "type": "boolean" } } }),
        ));
        registry.add(Kind {
            selectable: vec!["type".into()],
            ..plain(
                "",
                "Secret",
                "secrets",
                json!({ "type": "object", "properties": { "data": texts, "stringData": texts, "type": text, "immutable": { "type": "boolean" } } }),
            )
        });
        registry.add(Kind {
            selectable: [
                "involvedObject.kind",
                "involvedObject.namespace",
                "involvedObject.name",
                "involvedObject.uid",
                "reason",
                "type",
            ]
            .map(String::from)
            .to_vec(),
            ..plain("", "Event", "events", json!({ "type": "object" }))
        });
        registry.add(plain("events.k8s.io", "Event", "events", json!({ "type": "object" })));
        registry.add(Kind {
            unconditional: false,
            ..plain(
                "coordination.k8s.io",
                "Lease",
                "leases",
                json!({ "type": "object", "properties": { "spec": { "type": "object", "properties": {
                    "holderIdentity": text, "leaseDurationSeconds": { "type": "integer" }, "acquireTime": text,
                    "renewTime": text, "leaseTransitions": { "type": "integer" }, "preferredHolder": text, "strategy": text } } } }),
            )
        });
        registry.add(Kind {
            namespaced: false,
            status: true,
            generation: true,
            unconditional: false,
            ..plain(
                "apiextensions.k8s.io",
                "CustomResourceDefinition",
                "customresourcedefinitions",
                json!({ "type": "object", "properties": {
                    "spec": { "type": "object", "properties": {
                        "names": { "type": "object", "properties": { "kind": text, "plural": text, "singular": text, "listKind": text } },
                        "versions": { "type": "array", "x-kubernetes-list-type": "atomic" } } },
                    "status": { "type": "object", "properties": { "conditions": {
                        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"] } } } } }),
            )
        });
        registry
    }

    pub(crate) fn add(&mut self, mut kind: Kind) {
        kind.complete();
        self.kinds.insert(kind.resource(), Arc::new(kind));
    }

    pub(crate) fn remove(&mut self, resource: &str) {
        self.kinds.remove(resource);
    }

    pub(crate) fn get(&self, resource: &str) -> Option<&Arc<Kind>> {
        self.kinds.get(resource)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Kind>> {
        self.kinds.values()
    }

    pub(crate) fn served(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Kind>> {
        self.kinds.get(&resource_name(plural, group)).filter(|k| k.versions.iter().any(|v| v == version))
    }

    /// The type of an object reference.
    pub(crate) fn by_kind(&self, api_version: &str, kind: &str) -> Option<&Arc<Kind>> {
        let group = api_version.rsplit_once('/').map_or("", |(g, _)| g);
        self.kinds.values().find(|k| k.group == group && k.kind == kind)
    }
}

/// Reads the type a CustomResourceDefinition describes; `None` when it lacks a needed part.
pub(crate) fn from_crd(crd: &Value, since: u64) -> Option<Kind> {
    let spec = crd.get("spec")?;
    let names = spec.get("names")?;
    let listed = spec.get("versions")?.as_array()?;
    let mut versions: Vec<&Value> =
        listed.iter().filter(|v| v.get("served").and_then(Value::as_bool) == Some(true)).collect();
    versions.sort_by_key(|v| v.get("storage").and_then(Value::as_bool) != Some(true));
    let first = versions.first()?;
    let schema = first.pointer("/schema/openAPIV3Schema").cloned().unwrap_or_else(|| json!({ "type": "object" }));
    let mut kind = Kind {
        versions: versions.iter().filter_map(|v| v.get("name").and_then(Value::as_str).map(String::from)).collect(),
        namespaced: spec.get("scope").and_then(Value::as_str) == Some("Namespaced"),
        status: first.pointer("/subresources/status").is_some(),
        selectable: first
            .get("selectableFields")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(|f| f.get("jsonPath").and_then(Value::as_str))
            .map(|p| p.trim_start_matches('.').to_owned())
            .collect(),
        prune: true,
        schema,
        since,
        ..Kind::namespaced(
            spec.get("group")?.as_str()?,
            "v1",
            names.get("kind")?.as_str()?,
            names.get("plural")?.as_str()?,
        )
    };
    kind.complete();
    Some(kind)
}
