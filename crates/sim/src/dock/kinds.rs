//! The definitions of the stand-in's kinds.

use serde_json::{Value, json};

use super::{BOOTSTRAP, CONTROL_PLANE, INFRASTRUCTURE, VERSION};

/// A kind of the stand-in.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Its name.
    pub kind: &'static str,
    /// Its name in addresses.
    pub plural: &'static str,
    /// Its group.
    pub group: &'static str,
    spec: fn() -> Value,
}

/// All of them.
pub const KINDS: [Kind; 8] = [
    Kind { kind: "DockCluster", plural: "dockclusters", group: INFRASTRUCTURE, spec: dock },
    Kind {
        kind: "DockClusterTemplate",
        plural: "dockclustertemplates",
        group: INFRASTRUCTURE,
        spec: || template(dock()),
    },
    Kind { kind: "DockMachine", plural: "dockmachines", group: INFRASTRUCTURE, spec: machine },
    Kind {
        kind: "DockMachineTemplate",
        plural: "dockmachinetemplates",
        group: INFRASTRUCTURE,
        spec: || template(machine()),
    },
    Kind { kind: "QuayControlPlane", plural: "quaycontrolplanes", group: CONTROL_PLANE, spec: quay },
    Kind {
        kind: "QuayControlPlaneTemplate",
        plural: "quaycontrolplanetemplates",
        group: CONTROL_PLANE,
        spec: || template(quay()),
    },
    Kind { kind: "RopeConfig", plural: "ropeconfigs", group: BOOTSTRAP, spec: rope },
    Kind { kind: "RopeConfigTemplate", plural: "ropeconfigtemplates", group: BOOTSTRAP, spec: || template(rope()) },
];

/// The definitions, to be installed before a ClusterClass names one of the kinds.
#[must_use]
pub fn definitions() -> Vec<Value> {
    KINDS.iter().map(Kind::definition).collect()
}

impl Kind {
    fn definition(&self) -> Value {
        let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let schema = json!({"type": "object", "properties": {"spec": (self.spec)(), "status": open}});
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            // The contract label tells Cluster API which version of the kind to use; without it a kind is not usable.
            "metadata": {"name": format!("{}.{}", self.plural, self.group), "labels": {"cluster.x-k8s.io/v1beta2": VERSION}},
            "spec": {
                "group": self.group,
                "scope": "Namespaced",
                "names": {
                    "kind": self.kind,
                    "listKind": format!("{}List", self.kind),
                    "plural": self.plural,
                    "singular": self.kind.to_lowercase(),
                    "categories": ["cluster-api"],
                },
                "versions": [{
                    "name": VERSION, "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {"status": {}},
                }],
            },
        })
    }
}

fn text() -> Value {
    json!({"type": "string"})
}

fn object(properties: Value) -> Value {
    json!({"type": "object", "properties": properties})
}

fn list(items: Value) -> Value {
    json!({"type": "array", "items": items})
}

fn template(spec: Value) -> Value {
    let strings = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let metadata = object(json!({"labels": strings, "annotations": strings}));
    object(json!({"template": object(json!({"metadata": metadata, "spec": spec}))}))
}

/// An empty host is accepted on purpose: whether one ever appears is for the oracle to see, not for the schema to hide.
fn dock() -> Value {
    let endpoint = object(json!({"host": text(), "port": {"type": "integer"}}));
    object(json!({"controlPlaneEndpoint": endpoint, "region": text(),
        "ipv4Config": object(json!({"addresses": list(text())}))}))
}

fn machine() -> Value {
    object(json!({"size": text(), "userData": text(), "providerID": text()}))
}

fn files() -> Value {
    list(object(json!({"path": text(), "content": text()})))
}

fn quay() -> Value {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    object(json!({"replicas": {"type": "integer"}, "version": text(), "machineTemplate": open,
        "registrationAddress": text(), "tlsSAN": list(text()), "files": files()}))
}

fn rope() -> Value {
    object(json!({"joinAddress": text(), "files": files()}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_can_be_found_by_name_and_is_defined_under_it() {
        for (kind, definition) in KINDS.iter().zip(definitions()) {
            let found = crate::dock::resource(kind.kind).unwrap();
            assert_eq!((found.group.as_str(), found.plural.as_str()), (kind.group, kind.plural));
            assert_eq!(definition["spec"]["names"]["kind"], kind.kind);
            assert_eq!(definition["metadata"]["labels"]["cluster.x-k8s.io/v1beta2"], VERSION);
        }
        assert!(crate::dock::resource("Castle").is_none());
    }
}
