//! What users and other controllers write.

use std::sync::LazyLock;

use serde_json::{Value, json};
use sim::server::{Kind, Server};

pub const NS: &str = "team";
pub const TEMPLATES: &str = "metal3datatemplates.infrastructure.cluster.x-k8s.io";
pub const CLAIMS: &str = "metal3dataclaims.infrastructure.cluster.x-k8s.io";
pub const DATAS: &str = "metal3datas.infrastructure.cluster.x-k8s.io";
pub const METAL: &str = "metal3machines.infrastructure.cluster.x-k8s.io";
pub const REMEDIATIONS: &str = "metal3remediations.infrastructure.cluster.x-k8s.io";
pub const HOSTS: &str = "hostclaims.metal3.io";
pub const MACHINES: &str = "machines.cluster.x-k8s.io";
pub const LEASES: &str = "ipaddressclaims.ipam.cluster.x-k8s.io";
pub const ADDRESSES: &str = "ipaddresses.ipam.cluster.x-k8s.io";
pub const POOLS: &str = "inclusterippools.ipam.cluster.x-k8s.io";
pub const METAL_LEASES: &str = "ipclaims.ipam.metal3.io";
pub const METAL_ADDRESSES: &str = "ipaddresses.ipam.metal3.io";
pub const METAL_POOLS: &str = "ippools.ipam.metal3.io";
pub const SECRETS: &str = "secrets";

const INFRA: &str = "infrastructure.cluster.x-k8s.io/v1beta2";

/// Registers every kind and makes the namespace.
pub fn install(server: &Server) {
    // Made once: a sweep begins anew at every point.
    static DEFINITIONS: LazyLock<Vec<Value>> = LazyLock::new(|| {
        let all = api::own::crds().into_iter().chain(api::own::metal3::crds());
        let all = all.map(|definition| serde_json::to_value(definition).unwrap());
        let is_needed = |name: &str| name.starts_with("metal3") || name.starts_with("hostclaims.");
        all.filter(|definition| definition["metadata"]["name"].as_str().is_some_and(is_needed)).collect()
    });
    for definition in DEFINITIONS.iter() {
        server.put(definition.clone()).unwrap();
    }
    for kind in [
        Kind::namespaced("cluster.x-k8s.io", "v1beta2", "Cluster", "clusters"),
        Kind::namespaced("cluster.x-k8s.io", "v1beta2", "Machine", "machines"),
        Kind::namespaced("ipam.cluster.x-k8s.io", "v1beta2", "IPAddressClaim", "ipaddressclaims"),
        Kind::namespaced("ipam.cluster.x-k8s.io", "v1beta2", "IPAddress", "ipaddresses"),
        Kind::namespaced("ipam.cluster.x-k8s.io", "v1alpha2", "InClusterIPPool", "inclusterippools"),
        Kind::namespaced("ipam.metal3.io", "v1alpha1", "IPClaim", "ipclaims"),
        Kind::namespaced("ipam.metal3.io", "v1alpha1", "IPAddress", "ipaddresses"),
        Kind::namespaced("ipam.metal3.io", "v1alpha1", "IPPool", "ippools"),
    ] {
        server.register(kind);
    }
    server.namespace(NS);
    cluster(server, false);
    secret(server, "c-kubeconfig", "value", "kind: Config");
}

pub fn secret(server: &Server, name: &str, key: &str, text: &str) {
    let body = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": NS}, "stringData": {key: text}});
    server.put(body).unwrap();
}

pub fn cluster(server: &Server, paused: bool) {
    let body = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "metadata": {"name": "c", "namespace": NS}, "spec": {"paused": paused}});
    server.put(body).unwrap();
}

pub fn at<'v>(object: &'v Value, path: &str) -> &'v str {
    object.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

pub fn name(object: &Value) -> &str {
    at(object, "/metadata/name")
}

pub fn uid(object: &Value) -> String {
    at(object, "/metadata/uid").to_owned()
}

pub fn condition(object: &Value) -> String {
    let all = object.pointer("/status/conditions").and_then(Value::as_array).cloned().unwrap_or_default();
    let ready = all.iter().find(|c| c["type"] == "Ready");
    ready.map(|c| format!("{}/{}", at(c, "/status"), at(c, "/reason"))).unwrap_or_default()
}

/// A template that needs an address of either kind of pool.
pub fn template(name: &str) -> Value {
    json!({
        "apiVersion": INFRA, "kind": "Metal3DataTemplate", "metadata": {"name": name, "namespace": NS},
        "spec": {
            "clusterName": "c",
            "metaData": {
                "indexes": [{"key": "index", "prefix": "node-"}],
                "objectNames": [{"key": "host", "object": "baremetalhost"}, {"key": "machine", "object": "machine"}],
                "fromHostInterfaces": [{"key": "mac", "interface": "eth0"}],
                "fromLabels": [{"key": "rack", "object": "baremetalhost", "label": "rack"}],
                "ipAddressesFromPool": [{"key": "ip", "name": "metal"}],
            },
            "networkData": {
                "links": {"ethernets": [{"type": "phy", "id": "eth0", "macAddress": {"fromHostInterface": "eth0"}}]},
                "networks": {"ipv4": [{"id": "lan", "link": "eth0",
                    "fromPoolRef": {"apiGroup": "ipam.cluster.x-k8s.io", "kind": "InClusterIPPool", "name": "capi"}}]},
            },
        },
    })
}

/// A pool of either kind with so many addresses.
pub fn pool(server: &Server, name: &str, count: u8) {
    let (version, kind, net) = if name == "metal" {
        ("ipam.metal3.io/v1alpha1", "IPPool", 1)
    } else {
        ("ipam.cluster.x-k8s.io/v1alpha2", "InClusterIPPool", 2)
    };
    let addresses: Vec<String> = (10..10 + count).map(|last| format!("10.0.{net}.{last}")).collect();
    let body = json!({"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": NS}, "spec": {"addresses": addresses}});
    server.put(body).unwrap();
}

pub fn pools(server: &Server, count: u8) {
    pool(server, "metal", count);
    pool(server, "capi", count);
}

fn owner(object: &Value) -> Value {
    json!([{"apiVersion": object["apiVersion"], "kind": object["kind"], "name": name(object), "uid": uid(object), "controller": true}])
}

/// A machine of Cluster API with its Metal3Machine and the claim on its host.
pub fn machine(server: &Server, name: &str, kind: Option<&str>, bound: bool) {
    let labels = json!({"cluster.x-k8s.io/cluster-name": "c"});
    let machine = server
        .put(json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
            "metadata": {"name": format!("{name}-machine"), "namespace": NS, "labels": labels},
            "spec": {"clusterName": "c", "infrastructureRef":
                {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "Metal3Machine", "name": name}},
            "status": {"nodeRef": {"name": name}, "conditions": [], "deprecated": {"v1beta1": {"conditions": []}}},
        }))
        .unwrap();
    let metal = server
        .put(json!({
            "apiVersion": INFRA, "kind": "Metal3Machine",
            "metadata": {"name": name, "namespace": NS, "labels": labels, "ownerReferences": owner(&machine)},
            "spec": kind.map_or(json!({}), |kind| json!({"kind": kind})),
        }))
        .unwrap();
    if kind.is_some() {
        server
            .put(json!({
                "apiVersion": "metal3.io/v1alpha1", "kind": "HostClaim",
                // What a tenant writes on the claim never reaches a document.
                "metadata": {"name": name, "namespace": NS, "labels": {"rack": "forged"}, "ownerReferences": owner(&metal)},
                "spec": {"poweredOn": true, "kind": "baremetal"},
                "status": if bound { bound_status(name) } else { json!({}) },
            }))
            .unwrap();
    }
}

/// What the controller of a claim says once it has a host.
pub fn bound_status(name: &str) -> Value {
    json!({
        "bareMetalHost": {"namespace": "infra", "name": format!("host-of-{name}")}, "poweredOn": true,
        "nics": [{"name": "eth0", "MAC": "52:54:00:00:00:01"}],
        "hostMetadata": {"labels": {"rack": "r7"}},
        "conditions": [{"type": "Associated", "status": "True", "reason": "BareMetalHostAssociated", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}],
    })
}

/// The wish for data that the controller of the Metal3Machine makes.
pub fn wish(server: &Server, name: &str, template: &str) {
    let Some(metal) = server.get(METAL, NS, name) else { return };
    server
        .put(json!({
            "apiVersion": INFRA, "kind": "Metal3DataClaim",
            "metadata": {"name": name, "namespace": NS, "ownerReferences": owner(&metal),
                "labels": {"cluster.x-k8s.io/cluster-name": "c"}},
            "spec": {"template": {"name": template, "namespace": NS}},
        }))
        .unwrap();
}

/// A machine on a claim that wants data of the template `t`.
pub fn member(server: &Server, name: &str) {
    machine(server, name, Some("baremetal"), true);
    wish(server, name, "t");
}

/// The treatment that a health check makes.
pub fn remediation(server: &Server, name: &str, limit: i32) {
    let machine = server.get(MACHINES, NS, &format!("{name}-machine")).unwrap();
    server
        .put(json!({
            "apiVersion": INFRA, "kind": "Metal3Remediation",
            "metadata": {"name": name, "namespace": NS, "ownerReferences": owner(&machine)},
            "spec": {"strategy": {"type": "Reboot", "retryLimit": limit, "timeoutSeconds": 300}},
        }))
        .unwrap();
}
