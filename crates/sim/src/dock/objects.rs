//! Classes, clusters and pools, in the shapes users write them.

use serde_json::{Value, json};

use super::{BOOTSTRAP, CONTROL_PLANE, CORE, INFRASTRUCTURE, IPAM, VERSION};

/// The Kubernetes version of every cluster.
pub const KUBERNETES: &str = "v1.34.1";
const PREFIX: &str = "vip.capi.gorizond.io";

/// `base` with the fields of `more` laid over it, as a JSON merge patch would.
#[must_use]
pub fn merged(mut base: Value, more: &Value) -> Value {
    json_patch::merge(&mut base, more);
    base
}

/// A namespace with labels.
#[must_use]
pub fn namespace(name: &str, labels: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
}

/// A cluster of a class, in the present form of the API.
#[must_use]
pub fn cluster(namespace: &str, name: &str, class: &str) -> Value {
    json!({
        "apiVersion": format!("{CORE}/v1beta2"), "kind": "Cluster",
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"topology": {"classRef": {"name": class}, "version": KUBERNETES, "controlPlane": {"replicas": 1}}},
    })
}

/// A cluster of a class, in the form of the API before.
#[must_use]
pub fn older_cluster(namespace: &str, name: &str, class: &str) -> Value {
    json!({
        "apiVersion": format!("{CORE}/v1beta1"), "kind": "Cluster",
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"topology": {"class": class, "version": KUBERNETES, "controlPlane": {"replicas": 1}}},
    })
}

/// A cluster without a class, on a DockCluster of its own.
#[must_use]
pub fn plain_cluster(namespace: &str, name: &str, pools_of: &str) -> Vec<Value> {
    let dock = json!({
        "apiVersion": format!("{INFRASTRUCTURE}/{VERSION}"), "kind": "DockCluster",
        "metadata": {"namespace": namespace, "name": name}, "spec": {"region": "north"},
    });
    let cluster = json!({
        "apiVersion": format!("{CORE}/v1beta2"), "kind": "Cluster",
        "metadata": {"namespace": namespace, "name": name, "annotations": {format!("{PREFIX}/cluster-class"): pools_of}},
        "spec": {"infrastructureRef": {"apiGroup": INFRASTRUCTURE, "kind": "DockCluster", "name": name}},
    });
    vec![dock, cluster]
}

/// A pool that every namespace can take control-plane addresses for a class from.
#[must_use]
pub fn pool(name: &str, class: &str, addresses: &str) -> Value {
    json!({
        "apiVersion": format!("{IPAM}/v1alpha2"), "kind": "GlobalInClusterIPPool",
        "metadata": {"name": name, "labels": {format!("{PREFIX}/cluster-class"): class, format!("{PREFIX}/role"): "control-plane"}},
        "spec": {"addresses": [addresses], "prefix": if addresses.contains(':') { 64 } else { 16 }},
    })
}

/// The same for the clusters of one namespace.
#[must_use]
pub fn local_pool(namespace: &str, name: &str, class: &str, addresses: &str) -> Value {
    let place = json!({"kind": "InClusterIPPool", "metadata": {"namespace": namespace}});
    merged(pool(name, class, addresses), &place)
}

/// A pool for the other role.
#[must_use]
pub fn ingress_pool(name: &str, class: &str, addresses: &str) -> Value {
    merged(pool(name, class, addresses), &json!({"metadata": {"labels": {format!("{PREFIX}/role"): "ingress"}}}))
}

/// A ClusterClass and the templates it is made of.
#[derive(Clone, Debug)]
pub struct Class {
    namespace: String,
    name: String,
    annotations: Value,
    patches: Vec<Value>,
    variables: Vec<Value>,
    dock: Value,
    quay: Value,
    machine: Value,
    rope: Value,
}

impl Class {
    /// A class that fills in no address at all.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            annotations: json!({}),
            patches: Vec::new(),
            variables: Vec::new(),
            dock: json!({"region": "north"}),
            quay: json!({"tlsSAN": ["localhost"]}),
            machine: json!({"size": "small"}),
            rope: json!({}),
        }
    }

    /// Its annotations.
    #[must_use]
    pub fn annotations(mut self, annotations: Value) -> Self {
        self.annotations = annotations;
        self
    }

    /// One more patch, after those it has.
    #[must_use]
    pub fn patch(mut self, patch: Value) -> Self {
        self.patches.push(patch);
        self
    }

    /// One more variable.
    #[must_use]
    pub fn variable(mut self, variable: Value) -> Self {
        self.variables.push(variable);
        self
    }

    /// Lays fields over the spec of the infrastructure cluster's template.
    #[must_use]
    pub fn dock(mut self, spec: &Value) -> Self {
        json_patch::merge(&mut self.dock, spec);
        self
    }

    /// Lays fields over the spec of the control plane's template.
    #[must_use]
    pub fn quay(mut self, spec: &Value) -> Self {
        json_patch::merge(&mut self.quay, spec);
        self
    }

    /// Lays fields over the spec of the machines' template.
    #[must_use]
    pub fn machine(mut self, spec: &Value) -> Self {
        json_patch::merge(&mut self.machine, spec);
        self
    }

    /// Lays fields over the spec of the bootstrap template.
    #[must_use]
    pub fn rope(mut self, spec: &Value) -> Self {
        json_patch::merge(&mut self.rope, spec);
        self
    }

    /// The class as Berth's documentation recommends it: its external patch comes last.
    #[must_use]
    pub fn managed(namespace: &str, name: &str, extension: &str) -> Self {
        Self::new(namespace, name).patch(external(extension, &json!({})))
    }

    /// Templates and class, in the present form of the API.
    #[must_use]
    pub fn objects(&self) -> Vec<Value> {
        let mut objects = self.templates();
        let reference = |part: &Part| {
            let (api, kind) = (format!("{}/{VERSION}", part.group), part.kind);
            json!({"templateRef": {"apiVersion": api, "kind": kind, "name": self.name}})
        };
        let quay = merged(reference(&QUAY), &json!({"machineInfrastructure": reference(&MACHINE)}));
        let workers =
            json!([{"class": "worker", "bootstrap": reference(&ROPE), "infrastructure": reference(&MACHINE)}]);
        objects.push(self.class(
            "v1beta2",
            &json!({"infrastructure": reference(&DOCK), "controlPlane": quay,
            "workers": {"machineDeployments": workers}, "patches": self.patches, "variables": self.variables}),
        ));
        objects
    }

    /// Templates and class, in the form of the API before; patches must be in that form too.
    #[must_use]
    pub fn older_objects(&self) -> Vec<Value> {
        let mut objects = self.templates();
        let reference = |part: &Part| {
            let (api, kind) = (format!("{}/{VERSION}", part.group), part.kind);
            json!({"ref": {"apiVersion": api, "kind": kind, "name": self.name}})
        };
        let quay = merged(reference(&QUAY), &json!({"machineInfrastructure": reference(&MACHINE)}));
        let worker = json!({"bootstrap": reference(&ROPE), "infrastructure": reference(&MACHINE)});
        let workers = json!([{"class": "worker", "template": worker}]);
        objects.push(self.class(
            "v1beta1",
            &json!({"infrastructure": reference(&DOCK), "controlPlane": quay,
            "workers": {"machineDeployments": workers}, "patches": self.patches, "variables": self.variables}),
        ));
        objects
    }

    fn templates(&self) -> Vec<Value> {
        let parts = [(&DOCK, &self.dock), (&QUAY, &self.quay), (&MACHINE, &self.machine), (&ROPE, &self.rope)];
        let template = |(part, spec): (&Part, &Value)| {
            json!({
                "apiVersion": format!("{}/{VERSION}", part.group), "kind": part.kind,
                "metadata": {"namespace": self.namespace, "name": self.name},
                "spec": {"template": {"spec": spec}},
            })
        };
        parts.into_iter().map(template).collect()
    }

    fn class(&self, version: &str, spec: &Value) -> Value {
        let mut spec = spec.clone();
        // The present form of the API refuses empty lists.
        if let Some(fields) = spec.as_object_mut() {
            fields.retain(|_, value| value.as_array().is_none_or(|list| !list.is_empty()));
        }
        json!({
            "apiVersion": format!("{CORE}/{version}"), "kind": "ClusterClass",
            "metadata": {"namespace": self.namespace, "name": self.name, "annotations": self.annotations},
            "spec": spec,
        })
    }
}

struct Part {
    group: &'static str,
    kind: &'static str,
}

const DOCK: Part = Part { group: INFRASTRUCTURE, kind: "DockClusterTemplate" };
const QUAY: Part = Part { group: CONTROL_PLANE, kind: "QuayControlPlaneTemplate" };
const MACHINE: Part = Part { group: INFRASTRUCTURE, kind: "DockMachineTemplate" };
const ROPE: Part = Part { group: BOOTSTRAP, kind: "RopeConfigTemplate" };

/// The external patch of the extension registered as `extension`.
#[must_use]
pub fn external(extension: &str, settings: &Value) -> Value {
    json!({"name": "vip-allocator", "external": {
        "generatePatchesExtension": format!("vip-allocator-generate-patches.{extension}"),
        "validateTopologyExtension": format!("vip-allocator-validate-topology.{extension}"),
        "settings": settings,
    }})
}

/// The same, spelled as before.
#[must_use]
pub fn older_external(extension: &str) -> Value {
    json!({"name": "vip-allocator", "external": {
        "generateExtension": format!("vip-allocator-generate-patches.{extension}"),
        "validateExtension": format!("vip-allocator-validate-topology.{extension}"),
    }})
}

/// A patch written in the class: puts the result of a template at a place of the infrastructure cluster or control plane.
#[must_use]
pub fn inline(name: &str, op: &str, path: &str, template: &str) -> Value {
    let quay = path.ends_with("registrationAddress") || path.contains("/tlsSAN");
    let part = if quay { &QUAY } else { &DOCK };
    let place = if quay { "controlPlane" } else { "infrastructureCluster" };
    json!({"name": name, "definitions": [{
        "selector": {"apiVersion": format!("{}/{VERSION}", part.group), "kind": part.kind, "matchResources": {place: true}},
        "jsonPatches": [{"op": op, "path": path, "valueFrom": {"template": template}}],
    }]})
}

/// The patches that the first allocator's README tells users to write. The value they name has never existed.
#[must_use]
pub fn readme_patches() -> [Value; 2] {
    let template = "{{ .builtin.controlPlane.endpoint.host }}";
    [
        inline("set-control-plane-registration", "replace", "/spec/template/spec/registrationAddress", template),
        inline("set-control-plane-tls-san", "add", "/spec/template/spec/tlsSAN/-", template),
    ]
}
