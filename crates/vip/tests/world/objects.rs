//! Kinds and objects of the small world.

use serde_json::{Value, json};
use sim::server::{Kind, Server};

pub const NS: &str = "team";
pub const CLASS: &str = "metal";
pub const PREFIX: &str = "vip.capi.gorizond.io";
pub const CLUSTERS: &str = "clusters.cluster.x-k8s.io";
pub const CLASSES: &str = "clusterclasses.cluster.x-k8s.io";
pub const CLAIMS: &str = "ipaddressclaims.ipam.cluster.x-k8s.io";
pub const ADDRESSES: &str = "ipaddresses.ipam.cluster.x-k8s.io";
pub const POOLS: &str = "globalinclusterippools.ipam.cluster.x-k8s.io";
pub const DOCKS: &str = "dockclusters.infrastructure.cluster.x-k8s.io";
pub const PAUSED: &str = "cluster.x-k8s.io/paused";

const CORE: &str = "cluster.x-k8s.io";
const IPAM: &str = "ipam.cluster.x-k8s.io";

/// A key of this capability.
pub fn key(suffix: &str) -> String {
    format!("{PREFIX}/{suffix}")
}

/// Registers every kind and makes the namespace.
pub fn install(server: &Server) {
    for kind in [
        Kind::namespaced(CORE, "v1beta2", "Cluster", "clusters"),
        Kind::namespaced(CORE, "v1beta2", "ClusterClass", "clusterclasses"),
        Kind::namespaced(IPAM, "v1beta2", "IPAddressClaim", "ipaddressclaims"),
        Kind::namespaced(IPAM, "v1beta2", "IPAddress", "ipaddresses"),
        Kind::namespaced(IPAM, "v1alpha2", "InClusterIPPool", "inclusterippools"),
        Kind::cluster(IPAM, "v1alpha2", "GlobalInClusterIPPool", "globalinclusterippools"),
        Kind::namespaced("infrastructure.cluster.x-k8s.io", "v1alpha1", "DockCluster", "dockclusters"),
    ] {
        server.register(kind);
    }
    server.namespace(NS);
}

/// A class that defines these variables.
pub fn class(name: &str, variables: &[&str]) -> Value {
    let variables: Vec<Value> = variables.iter().map(|name| json!({"name": name, "definitions": []})).collect();
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "ClusterClass",
        "metadata": {"name": name, "namespace": NS}, "spec": {}, "status": {"variables": variables},
    })
}

/// A pool of `count` addresses from `first` on, of `10.0.<network>.0`.
pub fn pool(name: &str, role: &str, network: u8, first: u8, count: u8) -> Value {
    json!({
        "apiVersion": "ipam.cluster.x-k8s.io/v1alpha2", "kind": "GlobalInClusterIPPool",
        "metadata": {"name": name, "labels": {key("cluster-class"): CLASS, key("role"): role}},
        "spec": {"addresses": range(network, first, count), "prefix": 24},
    })
}

/// The addresses of a pool, one by one.
pub fn range(network: u8, first: u8, count: u8) -> Vec<String> {
    (first..first.saturating_add(count)).map(|last| format!("10.0.{network}.{last}")).collect()
}

/// A cluster of the class.
pub fn cluster(name: &str, annotations: &Value) -> Value {
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "metadata": {"name": name, "namespace": NS, "annotations": annotations, "finalizers": ["cluster.cluster.x-k8s.io"]},
        "spec": {"topology": {"classRef": {"name": CLASS}, "version": "v1.34.1",
            "variables": [{"name": "region", "value": {"zone": "a"}}]}},
    })
}

/// A text somewhere in an object; empty when it is not there.
pub fn at<'v>(object: &'v Value, pointer: &str) -> &'v str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// One of this capability's annotations; empty when it is not there.
pub fn note<'v>(object: &'v Value, suffix: &str) -> &'v str {
    object["metadata"]["annotations"].get(key(suffix)).and_then(Value::as_str).unwrap_or_default()
}

/// The text of a topology variable.
pub fn variable<'v>(object: &'v Value, name: &str) -> Option<&'v str> {
    let all = object.pointer("/spec/topology/variables")?.as_array()?;
    all.iter().find(|v| v["name"] == name)?.get("value")?.as_str()
}

pub fn uid(object: &Value) -> &str {
    at(object, "/metadata/uid")
}

pub fn name(object: &Value) -> &str {
    at(object, "/metadata/name")
}

pub fn host(object: &Value) -> &str {
    at(object, "/spec/controlPlaneEndpoint/host")
}

pub fn deleting(object: &Value) -> bool {
    !at(object, "/metadata/deletionTimestamp").is_empty()
}

pub fn paused(object: &Value) -> bool {
    object["metadata"]["annotations"].get(PAUSED).is_some() || object["spec"]["paused"] == true
}

/// The uids of an object's owners.
pub fn owners(object: &Value) -> Vec<&str> {
    let list = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    list.into_iter().flatten().filter_map(|owner| owner["uid"].as_str()).collect()
}
