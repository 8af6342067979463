//! A merge patch in the making: only what differs from the host as it is.

use api::names::claims as names;
use serde_json::{Map, Value, json};

use super::{Defaults, is_going};
use crate::facts::{HostFacts, SecretRef};
use crate::parts::Part;

/// A merge patch in the making.
#[derive(Default)]
pub(super) struct Change {
    spec: Map<String, Value>,
    labels: Map<String, Value>,
    annotations: Map<String, Value>,
}

impl Change {
    pub(super) fn spec(&mut self, field: &str, value: Value) {
        self.spec.insert(field.to_owned(), value);
    }

    pub(super) fn label(&mut self, key: &str, value: Option<String>) {
        self.labels.insert(key.to_owned(), json!(value));
    }

    pub(super) fn annotate(&mut self, key: &str, value: Option<String>) {
        self.annotations.insert(key.to_owned(), json!(value));
    }

    /// Keeps the owner's choices on record, unless they are.
    pub(super) fn record(&mut self, host: &HostFacts, defaults: &Defaults, new: bool) {
        let text = defaults.text();
        let there = host.annotation(names::INFRA_DEFAULTS_ANNOTATION);
        let differs = || there.and_then(|there| serde_json::from_str(there).ok()).as_ref() != Some(defaults);
        if new || there.is_none() || differs() {
            self.annotate(names::INFRA_DEFAULTS_ANNOTATION, text);
        }
    }

    /// Sets how disks are cleaned; but not that they are not while something is being taken off on the record that they are.
    pub(super) fn cleaning(&mut self, host: &HostFacts, cleaning: Option<&str>) {
        let spoils = cleaning == Some("disabled") && is_going(host);
        if !cleans_alike(host.cleaning.as_deref(), cleaning) && !spoils {
            self.spec("automatedCleaningMode", json!(cleaning));
        }
    }

    pub(super) fn drop_annotations<const N: usize>(&mut self, host: &HostFacts, keys: [&str; N]) {
        for key in keys {
            if host.annotation(key).is_some() {
                self.annotate(key, None);
            }
        }
    }

    pub(super) fn drop_mark(&mut self, host: &HostFacts, key: &str, ours: &str) {
        if host.annotation(key) == Some(ours) {
            self.annotate(key, None);
        }
    }

    pub(super) fn clear_payload(&mut self, host: &HostFacts) {
        if host.image.is_some() {
            self.spec("image", Value::Null);
        }
        if host.custom_deploy.is_some() {
            self.spec("customDeploy", Value::Null);
        }
    }

    pub(super) fn refer(&mut self, host: &HostFacts, part: Part, at: Option<&SecretRef>) {
        if host.data(part) != at {
            let whole = at.map(|at| json!({"name": at.name, "namespace": at.namespace}));
            self.spec(part.field(), json!(whole));
        }
    }

    pub(super) fn body(self) -> Option<Value> {
        let mut body = Map::new();
        let mut metadata = Map::new();
        for (field, keys) in [("labels", self.labels), ("annotations", self.annotations)] {
            if !keys.is_empty() {
                metadata.insert(field.to_owned(), Value::Object(keys));
            }
        }
        if !metadata.is_empty() {
            body.insert("metadata".to_owned(), Value::Object(metadata));
        }
        if !self.spec.is_empty() {
            body.insert("spec".to_owned(), Value::Object(self.spec));
        }
        (!body.is_empty()).then_some(Value::Object(body))
    }
}

/// Whether two ways of cleaning are the same: where nothing is said, the server says `metadata`.
fn cleans_alike(one: Option<&str>, other: Option<&str>) -> bool {
    one.unwrap_or("metadata") == other.unwrap_or("metadata")
}
