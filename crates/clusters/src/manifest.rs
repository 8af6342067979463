//! Manifests of the network plugin: read, with what a cluster asks for laid over them.

use std::collections::BTreeSet;

use api::names::clusters::{MANAGED_LABEL, ON, SETTINGS_ANNOTATION};
use api::own::anywhere::{Cilium, ClusterSpec, RegistryMirror};
use serde_json::{Map, Value, json};

use crate::render::canonical::hash;

/// Where the plugin runs.
pub const NAMESPACE: &str = "kube-system";
/// The DaemonSet of the plugin.
pub const AGENT: &str = "cilium";
/// The Deployment of its operator.
pub const OPERATOR: &str = "cilium-operator";
/// The ConfigMap of its settings.
pub const SETTINGS: &str = "cilium-config";

/// The settings that clusters choose.
pub const KEYS: [&str; 8] = [
    "auto-direct-node-routes",
    "cni-exclusive",
    "egress-masquerade-interfaces",
    "enable-policy",
    "ipv4-native-routing-cidr",
    "ipv6-native-routing-cidr",
    "routing-mode",
    "tunnel",
];

/// Kinds that live in no namespace.
const CLUSTER_WIDE: [&str; 12] = [
    "APIService",
    "ClusterRole",
    "ClusterRoleBinding",
    "CustomResourceDefinition",
    "GatewayClass",
    "IngressClass",
    "MutatingWebhookConfiguration",
    "Namespace",
    "PriorityClass",
    "RuntimeClass",
    "StorageClass",
    "ValidatingWebhookConfiguration",
];

/// Why a manifest cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// It is not YAML.
    #[error("{key} is not YAML: {problem}")]
    Yaml {
        /// Its key in the ConfigMap.
        key: String,
        /// What is wrong.
        problem: String,
    },
    /// A document is no object.
    #[error("{key}: document {number} has no apiVersion, kind or name")]
    NotAnObject {
        /// Its key in the ConfigMap.
        key: String,
        /// Which document, from 1.
        number: usize,
    },
    /// It would run another image than the bundle says, and would be applied for ever.
    #[error("{key}: {kind} {name} runs {found}, and the bundle says {wanted}")]
    OtherImage {
        /// Its key in the ConfigMap.
        key: String,
        /// The kind of the object.
        kind: &'static str,
        /// The name of the object.
        name: &'static str,
        /// What it runs.
        found: String,
        /// What it should run.
        wanted: String,
    },
}

/// What a cluster asks for.
#[derive(Clone, Copy, Debug)]
pub struct Overlay<'o> {
    /// The settings of the plugin.
    pub cilium: &'o Cilium,
    /// The registry that stands in for others.
    pub mirror: Option<&'o RegistryMirror>,
    /// The registry that a mirror without namespaces stands in for.
    pub core_registry: &'o str,
    /// Whether the cluster has one node only.
    pub single: bool,
}

static NO_CILIUM: Cilium = Cilium {
    policy_enforcement_mode: String::new(),
    skip_upgrade: None,
    egress_masquerade_interfaces: String::new(),
    routing_mode: String::new(),
    ipv4_native_routing_cidr: String::new(),
    ipv6_native_routing_cidr: String::new(),
    cni_exclusive: None,
    helm_values: None,
};

impl<'o> Overlay<'o> {
    /// What a cluster asks for.
    #[must_use]
    pub fn of(spec: &'o ClusterSpec, core_registry: &'o str) -> Self {
        let network = spec.cluster_network.as_ref();
        let cilium = network.and_then(|network| network.cni_config.as_ref()).and_then(|cni| cni.cilium.as_ref());
        let plane = spec.control_plane_configuration.as_ref().map_or(1, |plane| i64::from(plane.count.unwrap_or(1)));
        let workers: i64 =
            spec.worker_node_group_configurations.iter().map(|group| i64::from(group.count.unwrap_or(1))).sum();
        Self {
            cilium: cilium.unwrap_or(&NO_CILIUM),
            mirror: spec.registry_mirror_configuration.as_ref(),
            core_registry,
            single: plane + workers <= 1,
        }
    }

    /// An image as it is pulled: through the mirror where one stands in for its registry.
    #[must_use]
    pub fn image(&self, image: &str) -> String {
        let Some(mirror) = self.mirror else { return image.to_owned() };
        let port = if mirror.port.is_empty() { "443" } else { &mirror.port };
        let base = crate::endpoint::join(mirror.endpoint.trim_matches(['[', ']']), port);
        let below =
            |registry: &str| image.strip_prefix(registry).and_then(|rest| rest.strip_prefix('/')).map(str::to_owned);
        if mirror.oci_namespaces.is_empty() {
            return below(self.core_registry).map_or_else(|| image.to_owned(), |rest| format!("{base}/{rest}"));
        }
        let found = mirror.oci_namespaces.iter().find_map(|mapped| Some((mapped, below(&mapped.registry)?)));
        match found {
            Some((mapped, rest)) => match mapped.namespace.trim_matches('/') {
                "" => format!("{base}/{rest}"),
                namespace => format!("{base}/{namespace}/{rest}"),
            },
            None => image.to_owned(),
        }
    }

    fn settings(&self) -> Vec<(&'static str, String)> {
        let cilium = self.cilium;
        let mode = if cilium.policy_enforcement_mode.is_empty() { "default" } else { &cilium.policy_enforcement_mode };
        let mut all = vec![("enable-policy", mode.to_owned())];
        if !cilium.egress_masquerade_interfaces.is_empty() {
            all.push(("egress-masquerade-interfaces", cilium.egress_masquerade_interfaces.clone()));
        }
        if let Some(exclusive) = cilium.cni_exclusive {
            all.push(("cni-exclusive", exclusive.to_string()));
        }
        if cilium.routing_mode == "direct" {
            all.extend([("routing-mode", "native".to_owned()), ("auto-direct-node-routes", ON.to_owned())]);
            let ranges = [
                ("ipv4-native-routing-cidr", &cilium.ipv4_native_routing_cidr),
                ("ipv6-native-routing-cidr", &cilium.ipv6_native_routing_cidr),
            ];
            all.extend(
                ranges.into_iter().filter(|(_, range)| !range.is_empty()).map(|(key, range)| (key, range.clone())),
            );
        }
        all
    }
}

/// The objects of a manifest.
///
/// # Errors
/// When it is not YAML, or a document of it is no object.
pub fn read(key: &str, text: &str) -> Result<Vec<Value>, ManifestError> {
    let bad = |problem: String| ManifestError::Yaml { key: key.to_owned(), problem };
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).map_err(|error| bad(error.to_string()))?;
    let mut all = Vec::new();
    for (number, document) in documents.into_iter().enumerate() {
        if document.is_null() {
            continue;
        }
        let whole = ["/apiVersion", "/kind", "/metadata/name"].iter().all(|at| !word(&document, at).is_empty());
        if !whole {
            return Err(ManifestError::NotAnObject { key: key.to_owned(), number: number + 1 });
        }
        all.push(document);
    }
    Ok(all)
}

/// A text in an object.
#[must_use]
pub fn word<'v>(object: &'v Value, at: &str) -> &'v str {
    object.pointer(at).and_then(Value::as_str).unwrap_or_default()
}

/// The namespace an object of a manifest is in; none when its kind lives in no namespace.
#[must_use]
pub fn namespace(object: &Value) -> Option<&str> {
    let kind = word(object, "/kind");
    if CLUSTER_WIDE.contains(&kind) || kind.starts_with("CiliumClusterwide") {
        return None;
    }
    let named = word(object, "/metadata/namespace");
    Some(if named.is_empty() { NAMESPACE } else { named })
}

/// Finds an object by kind and name.
#[must_use]
pub fn find<'v>(objects: &'v [Value], kind: &str, name: &str) -> Option<&'v Value> {
    objects.iter().find(|object| word(object, "/kind") == kind && word(object, "/metadata/name") == name)
}

/// The images of the pods of an object, those that initialise them among them.
#[must_use]
pub fn images(object: &Value) -> BTreeSet<String> {
    let lists = ["containers", "initContainers"].map(|list| format!("/spec/template/spec/{list}"));
    let containers = lists.iter().filter_map(|at| object.pointer(at).and_then(Value::as_array)).flatten();
    containers.map(|container| word(container, "/image").to_owned()).filter(|image| !image.is_empty()).collect()
}

/// The settings in a ConfigMap that clusters choose.
#[must_use]
pub fn settings(map: &Value) -> Vec<(String, String)> {
    let value = |key: &&str| Some(((*key).to_owned(), map.get("data")?.get(*key)?.as_str()?.to_owned()));
    KEYS.iter().filter_map(value).collect()
}

/// The keys of a ConfigMap that were applied under a name and not taken back since.
#[must_use]
pub fn applied(map: &Value, manager: &str) -> BTreeSet<String> {
    let entries = map.pointer("/metadata/managedFields").and_then(Value::as_array).into_iter().flatten();
    // What was updated under the same name is not taken back by leaving it out.
    let ours = entries.filter(|entry| word(entry, "/manager") == manager && word(entry, "/operation") == "Apply");
    let fields = ours.filter_map(|entry| entry.pointer("/fieldsV1/f:data").and_then(Value::as_object));
    fields.flat_map(Map::keys).filter_map(|field| field.strip_prefix("f:")).map(str::to_owned).collect()
}

/// What is put in the place of an object that is there: all of what is wanted and nothing else, but for what the server gave it
/// and what others hang on it. Labels and annotations that a manager wrote alone go with its manifest.
#[must_use]
pub fn replacement(wanted: &Value, there: &Value, manager: &str) -> Value {
    let mut next = wanted.clone();
    let mut meta = there.get("metadata").cloned().unwrap_or_default();
    if let Some(meta) = meta.as_object_mut() {
        // Left out they are kept, and what others own no longer is taken out of them.
        meta.remove("managedFields");
    }
    for part in ["labels", "annotations"] {
        let ours = written_alone(there, part, manager);
        if let Some(all) = meta.get_mut(part).and_then(Value::as_object_mut) {
            all.retain(|key, _| !ours.contains(key));
        }
        let asked = wanted.pointer(&format!("/metadata/{part}")).and_then(Value::as_object);
        for (key, value) in asked.into_iter().flatten() {
            set(&mut meta, &[part, key.as_str()], value.clone());
        }
    }
    set(&mut next, &["metadata"], meta);
    let held: &[&str] = match word(wanted, "/kind") {
        // Addresses never change; a Service that loses its families would be asked to give up one of them.
        "Service" if word(wanted, "/spec/type") != "ExternalName" => {
            &["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"]
        }
        // A number that the manifest does not say is somebody else's.
        "Deployment" => &["replicas"],
        _ => &[],
    };
    for field in held.iter().copied() {
        let at = format!("/spec/{field}");
        if let (None, Some(value)) = (wanted.pointer(&at), there.pointer(&at)) {
            set(&mut next, &["spec", field], value.clone());
        }
    }
    next
}

/// The keys of labels or annotations that a manager wrote and nobody else.
fn written_alone(object: &Value, part: &str, manager: &str) -> BTreeSet<String> {
    let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array).into_iter().flatten();
    let (ours, others): (Vec<&Value>, Vec<&Value>) = entries.partition(|entry| word(entry, "/manager") == manager);
    let keys = |entries: Vec<&Value>| -> BTreeSet<String> {
        let at = format!("/fieldsV1/f:metadata/f:{part}");
        let fields = entries.into_iter().filter_map(|entry| entry.pointer(&at).and_then(Value::as_object));
        fields.flat_map(Map::keys).filter_map(|field| field.strip_prefix("f:")).map(str::to_owned).collect()
    };
    keys(ours).difference(&keys(others)).cloned().collect()
}

/// The objects of a manifest with what a cluster asks for, in the order in which they are applied.
#[must_use]
pub fn overlay(mut objects: Vec<Value>, overlay: &Overlay<'_>) -> Vec<Value> {
    for object in &mut objects {
        replace_images(object, overlay);
        let (kind, name) = (word(object, "/kind").to_owned(), word(object, "/metadata/name").to_owned());
        match (kind.as_str(), name.as_str()) {
            ("ConfigMap", SETTINGS) => set_settings(object, overlay),
            ("Deployment", OPERATOR) if overlay.single => set(object, &["spec", "replicas"], json!(1)),
            _ => {}
        }
    }
    let chosen = find(&objects, "ConfigMap", SETTINGS).map(settings).unwrap_or_default();
    let digest = hash(&json!(chosen), 16);
    for object in &mut objects {
        if word(object, "/kind") == "DaemonSet" && word(object, "/metadata/name") == AGENT {
            set(object, &["metadata", "labels", MANAGED_LABEL], json!(ON));
            // Pods read their settings when they start; another hash starts them anew.
            let at = ["spec", "template", "metadata", "annotations", SETTINGS_ANNOTATION];
            set(object, &at, json!(digest));
        }
    }
    if overlay.cilium.policy_enforcement_mode == "always" {
        objects.push(allow_all());
    }
    let rank = |object: &Value| match word(object, "/kind") {
        "Namespace" => 0,
        "CustomResourceDefinition" => 1,
        _ => 2,
    };
    objects.sort_by_key(rank);
    objects
}

/// Without it nothing of the system's own would be reachable once every pod obeys policies.
fn allow_all() -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "allow-all-ingress-egress", "namespace": NAMESPACE},
        "spec": {"podSelector": {}, "ingress": [{}], "egress": [{}], "policyTypes": ["Ingress", "Egress"]},
    })
}

fn set_settings(map: &mut Value, overlay: &Overlay<'_>) {
    for (key, value) in overlay.settings() {
        set(map, &["data", key], json!(value));
    }
    if overlay.cilium.routing_mode == "direct"
        && let Some(data) = map.get_mut("data").and_then(Value::as_object_mut)
    {
        // The older name of the same choice; with both, the plugin does not start.
        data.remove("tunnel");
        data.remove("tunnel-protocol");
    }
}

fn set(object: &mut Value, path: &[&str], value: Value) {
    let Some((last, parents)) = path.split_last() else { return };
    let mut at = object;
    for name in parents {
        let Some(fields) = at.as_object_mut() else { return };
        let next = fields.entry((*name).to_owned()).or_insert(Value::Null);
        if !next.is_object() {
            *next = Value::Object(Map::new());
        }
        at = next;
    }
    if let Some(fields) = at.as_object_mut() {
        fields.insert((*last).to_owned(), value);
    }
}

fn replace_images(value: &mut Value, overlay: &Overlay<'_>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(image) if name == "image" => *image = overlay.image(image),
                    value => replace_images(value, overlay),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| replace_images(item, overlay)),
        _ => {}
    }
}

/// Refuses a manifest that would never become what the bundle says.
///
/// # Errors
/// When it runs another image.
pub fn fits(key: &str, objects: &[Value], agent: &str, operator: &str) -> Result<(), ManifestError> {
    for (kind, name, wanted) in [("DaemonSet", AGENT, agent), ("Deployment", OPERATOR, operator)] {
        let found = find(objects, kind, name).map(images).unwrap_or_default();
        let others: Vec<String> = found.iter().filter(|image| *image != wanted).cloned().collect();
        if found.is_empty() || !others.is_empty() {
            let found = if found.is_empty() { "nothing".to_owned() } else { others.join(", ") };
            return Err(ManifestError::OtherImage {
                key: key.to_owned(),
                kind,
                name,
                found,
                wanted: wanted.to_owned(),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: cilium-config, namespace: kube-system}
data: {enable-policy: default, routing-mode: tunnel, tunnel: vxlan}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: cilium, namespace: kube-system}
spec: {template: {spec: {containers: [{name: a, image: "public.ecr.aws/isovalent/cilium:v1.16.5"}], initContainers: [{name: i, image: "public.ecr.aws/isovalent/cilium:v1.16.5"}]}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: cilium-operator, namespace: kube-system}
spec: {replicas: 2, template: {spec: {containers: [{name: o, image: "public.ecr.aws/isovalent/operator:v1.16.5"}]}}}
---
---
apiVersion: v1
kind: Namespace
metadata: {name: cilium-secrets}
"#;

    fn spec(value: Value) -> ClusterSpec {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn what_a_cluster_asks_for_is_laid_over_the_manifest() {
        let asked = spec(json!({
            "clusterNetwork": {"cniConfig": {"cilium": {"policyEnforcementMode": "always", "routingMode": "direct",
                "ipv4NativeRoutingCIDR": "10.0.0.0/8", "cniExclusive": false}}},
            "controlPlaneConfiguration": {"count": 1},
            "registryMirrorConfiguration": {"endpoint": "10.1.1.1", "port": "5000", "ociNamespaces": [
                {"registry": "public.ecr.aws", "namespace": "mirror"}]},
        }));
        let over = Overlay::of(&asked, "public.ecr.aws");
        let objects = overlay(read("manifest.yaml", MANIFEST).unwrap(), &over);
        let kinds: Vec<&str> = objects.iter().map(|object| word(object, "/kind")).collect();
        assert_eq!(kinds, ["Namespace", "ConfigMap", "DaemonSet", "Deployment", "NetworkPolicy"]);
        let agent = find(&objects, "DaemonSet", AGENT).unwrap();
        let image = "10.1.1.1:5000/mirror/isovalent/cilium:v1.16.5";
        assert_eq!(images(agent), [image.to_owned()].into());
        assert_eq!(agent["metadata"]["labels"][MANAGED_LABEL], "true");
        let first = agent["spec"]["template"]["metadata"]["annotations"][SETTINGS_ANNOTATION].clone();
        assert!(first.is_string());
        assert_eq!(find(&objects, "Deployment", OPERATOR).unwrap()["spec"]["replicas"], 1);
        let map = find(&objects, "ConfigMap", SETTINGS).unwrap();
        let chosen: std::collections::BTreeMap<String, String> = settings(map).into_iter().collect();
        assert_eq!((chosen["enable-policy"].as_str(), chosen["routing-mode"].as_str()), ("always", "native"));
        assert!(!chosen.contains_key("tunnel") && chosen["cni-exclusive"] == "false");
        assert_eq!(fits("m", &objects, image, "10.1.1.1:5000/mirror/isovalent/operator:v1.16.5"), Ok(()));
        let plain = spec(json!({}));
        let plain = overlay(read("manifest.yaml", MANIFEST).unwrap(), &Overlay::of(&plain, "public.ecr.aws"));
        let agent = find(&plain, "DaemonSet", AGENT).unwrap();
        assert_ne!(agent["spec"]["template"]["metadata"]["annotations"][SETTINGS_ANNOTATION], first);
        let other = fits("m", &plain, "x:1", "y:1").unwrap_err().to_string();
        assert!(other.contains("the bundle says x:1"), "{other}");
    }

    #[test]
    fn images_go_through_the_mirror_of_their_registry_and_no_other() {
        let of = |mirror: Value| spec(json!({"registryMirrorConfiguration": mirror}));
        let plain = of(json!({"endpoint": "m", "port": ""}));
        let over = Overlay::of(&plain, "public.ecr.aws");
        assert_eq!(over.image("public.ecr.aws/a/b:1"), "m:443/a/b:1");
        assert_eq!(over.image("quay.io/a/b:1"), "quay.io/a/b:1");
        assert_eq!(over.image("public.ecr.aws.evil/a:1"), "public.ecr.aws.evil/a:1");
        // Named as in the files on machines.
        let mapped = of(json!({"endpoint": "[fd00::5]", "port": "5000", "ociNamespaces": [
            {"registry": "quay.io", "namespace": "/team/"}, {"registry": "ghcr.io", "namespace": ""}]}));
        let over = Overlay::of(&mapped, "public.ecr.aws");
        assert_eq!(over.image("quay.io/a/b:1"), "[fd00::5]:5000/team/a/b:1");
        assert_eq!(over.image("ghcr.io/a/b:1"), "[fd00::5]:5000/a/b:1");
    }

    #[test]
    fn what_was_applied_under_a_name_is_told_from_what_others_wrote() {
        let entry = |manager: &str, operation: &str, key: &str| {
            let mut fields = Map::new();
            fields.insert(".".to_owned(), json!({}));
            fields.insert(format!("f:{key}"), json!({}));
            json!({"manager": manager, "operation": operation, "fieldsV1": {"f:data": fields}})
        };
        let entries = [
            entry("eks-a-controller", "Apply", "enable-policy"),
            entry("eks-a-controller", "Update", "tunnel"),
            entry("somebody", "Apply", "cni-exclusive"),
        ];
        let map = json!({"metadata": {"managedFields": entries}, "data": {"enable-policy": "default"}});
        assert_eq!(applied(&map, "eks-a-controller"), ["enable-policy".to_owned()].into());
        assert_eq!(applied(&json!({}), "eks-a-controller"), BTreeSet::new());
    }

    #[test]
    fn a_replacement_keeps_what_the_server_gave_and_others_hung_on_it() {
        let entry = |manager: &str, labels: Value, annotations: Value| {
            json!({"manager": manager, "operation": "Apply",
                "fieldsV1": {"f:metadata": {"f:labels": labels, "f:annotations": annotations}}})
        };
        let ours = json!({"f:old": {}, "f:both": {}, "f:part": {}});
        let meta = json!({
            "name": "n", "namespace": NAMESPACE, "uid": "u", "resourceVersion": "7",
            "ownerReferences": [{"uid": "o"}], "finalizers": ["x.io/hold"],
            "labels": {"old": "1", "both": "1", "part": "1", "team": "net"}, "annotations": {"gone": "1", "note": "1"},
            "managedFields": [
                entry("eks-a-controller", ours, json!({"f:gone": {}})),
                entry("kubectl", json!({"f:both": {}, "f:team": {}}), json!({"f:note": {}})),
            ],
        });
        let of = |kind: &str, there: Value, wanted: Value| {
            let there = json!({"kind": kind, "metadata": meta, "spec": there, "status": {"s": 1}});
            let wanted = json!({"kind": kind, "metadata": {"name": "n", "labels": {"part": "2"}}, "spec": wanted});
            replacement(&wanted, &there, "eks-a-controller")
        };
        let next = of("DaemonSet", json!({"a": 1}), json!({"b": 1}));
        let kept = json!({
            "name": "n", "namespace": NAMESPACE, "uid": "u", "resourceVersion": "7",
            "ownerReferences": [{"uid": "o"}], "finalizers": ["x.io/hold"],
            "labels": {"both": "1", "part": "2", "team": "net"}, "annotations": {"note": "1"},
        });
        assert_eq!(next, json!({"kind": "DaemonSet", "metadata": kept, "spec": {"b": 1}}));
        let address = || json!({"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "ipFamilies": ["IPv4"], "x": 1});
        for (kind, there, wanted, spec) in [
            (
                "Service",
                address(),
                json!({"ports": []}),
                json!({"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "ipFamilies": ["IPv4"], "ports": []}),
            ),
            ("Service", address(), json!({"type": "ExternalName"}), json!({"type": "ExternalName"})),
            ("Deployment", json!({"replicas": 3, "x": 1}), json!({}), json!({"replicas": 3})),
            ("Deployment", json!({"replicas": 3}), json!({"replicas": 1}), json!({"replicas": 1})),
        ] {
            assert_eq!(of(kind, there, wanted)["spec"], spec, "{kind}");
        }
    }

    #[test]
    fn what_is_no_manifest_is_named() {
        assert!(read("manifest.yaml", "a: [").unwrap_err().to_string().starts_with("manifest.yaml is not YAML"));
        let error = read("preflight.yaml", "kind: X").unwrap_err().to_string();
        assert_eq!(error, "preflight.yaml: document 1 has no apiVersion, kind or name");
        assert_eq!(namespace(&json!({"kind": "ClusterRole"})), None);
        assert_eq!(namespace(&json!({"kind": "Service"})), Some("kube-system"));
    }
}
