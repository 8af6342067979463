//! What should stand on a Cluster, and the smallest patch that puts it there.

use std::collections::BTreeMap;

use api::views::Endpoint;
use serde_json::{Map, Value, json};

use crate::facts::{ClusterFacts, PoolName, address};
use crate::names::{ALLOCATED, CONTROL_PLANE_POOL, CONTROL_PLANE_SOURCE, Family, INGRESS_VIP, MANUAL, Slot};

/// What should stand on a Cluster. What is not named here is not looked at.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Goal {
    /// Host and port; a host that is already there is never replaced.
    pub endpoint: Option<Endpoint>,
    /// Annotations; `None` means that there must be none.
    pub annotations: BTreeMap<&'static str, Option<String>>,
    /// The label with the ingress address; `Some(None)` means that there must be none.
    pub ingress_label: Option<Option<String>>,
    /// Topology variables; `None` means that there must be none.
    pub variables: BTreeMap<Slot, Option<String>>,
}

impl Goal {
    /// An address is shown in its slot's annotation and, where the class defines it, variable.
    pub fn show(&mut self, slot: Slot, text: &str, variable: bool) {
        self.annotations.insert(slot.annotation(), Some(text.to_owned()));
        if variable {
            self.variables.insert(slot, Some(text.to_owned()));
        }
        // Label values cannot hold colons.
        if slot == Slot::INGRESS && address(text).is_some_and(|a| Family::of(a) == Family::V4) {
            self.ingress_label = Some(Some(text.to_owned()));
        }
    }

    /// The control plane's address comes from a pool.
    pub fn allocated(&mut self, pool: Option<&PoolName>) {
        self.annotations.insert(CONTROL_PLANE_SOURCE, Some(ALLOCATED.to_owned()));
        if let Some(pool) = pool {
            self.annotations.insert(CONTROL_PLANE_POOL, Some(pool.to_string()));
        }
    }

    /// The control plane's address was chosen by the user.
    pub fn manual(&mut self, host: &str, variable: bool) {
        self.show(Slot::CONTROL_PLANE, host, variable);
        self.annotations.insert(CONTROL_PLANE_SOURCE, Some(MANUAL.to_owned()));
    }

    /// An address is no longer shown.
    pub fn hide(&mut self, slot: Slot) {
        self.annotations.insert(slot.annotation(), None);
        self.variables.insert(slot, None);
        if slot == Slot::INGRESS {
            self.ingress_label = Some(None);
        }
    }

    /// The same without the endpoint: what the housekeeper may write.
    #[must_use]
    pub fn without_endpoint(&self) -> Self {
        Self { endpoint: None, ..self.clone() }
    }

    /// Whether everything stands on this Cluster already.
    #[must_use]
    pub fn reached(&self, cluster: &ClusterFacts) -> bool {
        let endpoint = self.endpoint.is_none() || cluster.endpoint.is_valid();
        let annotations = self.annotations.iter().all(|(key, value)| cluster.annotation(key) == value.as_deref());
        let label = self.ingress_label.as_ref().is_none_or(|label| cluster.ingress_label == *label);
        let variables = self.variables.iter().all(|(slot, value)| cluster.variables.get(slot) == value.as_ref());
        endpoint && annotations && label && variables
    }

    /// The merge patch that is still needed; none when nothing is. `variables` is the whole list as it stands on the
    /// server, because a merge patch replaces lists.
    #[must_use]
    pub fn patch(&self, cluster: &ClusterFacts, variables: &[Value]) -> Option<Value> {
        if self.reached(cluster) {
            return None;
        }
        let mut spec = Map::new();
        if let Some(goal) = &self.endpoint
            && !cluster.endpoint.is_valid()
        {
            let host = if cluster.endpoint.host.is_empty() { &goal.host } else { &cluster.endpoint.host };
            let port = if cluster.endpoint.port == 0 { goal.port } else { cluster.endpoint.port };
            spec.insert("controlPlaneEndpoint".to_owned(), json!({"host": host, "port": port}));
        }
        let stale = |(slot, value): (&Slot, &Option<String>)| cluster.variables.get(slot) != value.as_ref();
        if self.variables.iter().any(stale) {
            spec.insert("topology".to_owned(), json!({"variables": self.variables_on(variables)}));
        }
        let mut annotations = Map::new();
        for (key, value) in &self.annotations {
            if cluster.annotation(key) != value.as_deref() {
                annotations.insert((*key).to_owned(), json!(value));
            }
        }
        let mut metadata = Map::new();
        if !annotations.is_empty() {
            metadata.insert("annotations".to_owned(), Value::Object(annotations));
        }
        if let Some(label) = &self.ingress_label
            && cluster.ingress_label != *label
        {
            metadata.insert("labels".to_owned(), json!({INGRESS_VIP: label}));
        }
        let mut patch = Map::new();
        for (name, part) in [("metadata", metadata), ("spec", spec)] {
            if !part.is_empty() {
                patch.insert(name.to_owned(), Value::Object(part));
            }
        }
        Some(Value::Object(patch))
    }

    /// The list with our entries set or taken out, every other entry as it came.
    fn variables_on(&self, variables: &[Value]) -> Vec<Value> {
        let mut next = variables.to_vec();
        for (slot, value) in &self.variables {
            let ours = |entry: &Value| entry.get("name").and_then(Value::as_str) == Some(slot.variable());
            match value {
                None => next.retain(|entry| !ours(entry)),
                Some(text) => match next.iter_mut().find(|entry| ours(entry)).and_then(Value::as_object_mut) {
                    Some(entry) => {
                        entry.insert("value".to_owned(), json!(text));
                    }
                    None => next.push(json!({"name": slot.variable(), "value": text})),
                },
            }
        }
        next
    }
}
