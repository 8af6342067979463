//! What admins and tenants write.

use std::sync::LazyLock;

use serde_json::{Value, json};
use sim::metal::seed;
use sim::server::{Kind, Server};

pub const HOSTS: &str = "baremetalhosts.metal3.io";
pub const CLAIMS: &str = "hostclaims.metal3.io";
pub const POLICIES: &str = "hostdeploypolicies.metal3.io";
pub const SECRETS: &str = "secrets";
/// Where the hosts are.
pub const INFRA: &str = "infra";

pub fn install(server: &Server) {
    for definition in sim::metal::kinds::definitions() {
        server.put(definition).unwrap();
    }
    // Made once: a sweep begins anew at every point.
    static DEFINITIONS: LazyLock<Vec<Value>> =
        LazyLock::new(|| api::own::crds().iter().map(|definition| json!(definition)).collect());
    for definition in DEFINITIONS.iter() {
        server.put(definition.clone()).unwrap();
    }
    server.register(Kind::namespaced("cluster.x-k8s.io", "v1beta2", "Cluster", "clusters"));
    for namespace in [INFRA, "red", "blue"] {
        server.namespace(namespace);
    }
}

/// Hosts that are inspected and free.
pub fn hosts(server: &Server, names: &[&str]) {
    for name in names {
        let host = seed::host(INFRA, name, &json!({"size": "large"}));
        server.put(seed::settled(&host, (server.clock())())).unwrap();
    }
}

pub fn policy(server: &Server, more: &Value) {
    let mut policy = json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "HostDeployPolicy",
        "metadata": {"name": "open", "namespace": INFRA},
        "spec": {"hostClaimNamespaces": {"names": ["red", "blue"]}},
    });
    json_patch::merge(&mut policy, &json!({ "spec": more }));
    server.put(policy).unwrap();
}

/// A claim that only reserves a host.
pub fn claim(tenant: &str, name: &str) -> Value {
    json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "HostClaim",
        "metadata": {"name": name, "namespace": tenant},
        "spec": {"poweredOn": true, "kind": "baremetal", "hostSelector": {"matchLabels": {"size": "large"}}},
    })
}

/// A claim with an image and all three secrets.
pub fn deployment(tenant: &str, name: &str) -> Value {
    let mut claim = claim(tenant, name);
    json_patch::merge(
        &mut claim,
        &json!({"spec": {
            "image": {"url": format!("https://images/{tenant}"), "checksum": "https://images/sums"},
            "userData": {"name": "user"}, "networkData": {"name": "network"}, "metaData": {"name": "meta"},
        }}),
    );
    claim
}

pub fn secrets(server: &Server, tenant: &str) {
    for (name, key) in [("user", "userData"), ("network", "networkData"), ("meta", "value")] {
        server
            .put(json!({
                "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": tenant},
                "stringData": {key: format!("{name} of {tenant}"), "unrelated": format!("not for hosts of {tenant}")},
            }))
            .unwrap();
    }
}

/// Changes an object as a user with a merge patch would; nothing happens to one that is not there.
pub fn edit(server: &Server, resource: &str, namespace: &str, name: &str, change: &Value) {
    let _ = server.edit(resource, namespace, name, |object| json_patch::merge(object, change));
}

pub fn annotate(server: &Server, tenant: &str, name: &str, key: &str, value: Option<&str>) {
    edit(server, CLAIMS, tenant, name, &json!({"metadata": {"annotations": {key: value}}}));
}

/// Status and reason of a condition of a claim, as `True/Ready`.
pub fn condition(claim: &Value, kind: &str) -> String {
    let all = claim.pointer("/status/conditions").and_then(Value::as_array).cloned().unwrap_or_default();
    let found = all.iter().find(|condition| condition["type"] == kind);
    found.map_or_else(String::new, |c| format!("{}/{}", at(c, "/status"), at(c, "/reason")))
}

pub fn at<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The hosts that name a claim.
pub fn held(server: &Server, tenant: &str, name: &str) -> Vec<Value> {
    let names = |host: &Value| {
        let consumer = &host["spec"]["consumerRef"];
        (at(consumer, "/namespace"), at(consumer, "/name")) == (tenant, name)
    };
    server.list(HOSTS, INFRA).into_iter().filter(names).collect()
}

/// The copies of tenants' secrets.
pub fn copies(server: &Server) -> Vec<Value> {
    let copy = |secret: &Value| secret["metadata"]["labels"].get("berth.dev/claim-uid").is_some();
    server.list(SECRETS, INFRA).into_iter().filter(copy).collect()
}

/// What people were told under a reason.
pub fn events(server: &Server, namespace: &str, reason: &str) -> Vec<Value> {
    let all = server.list("events.events.k8s.io", namespace);
    all.into_iter().filter(|event| event["reason"] == reason).collect()
}

/// A host misbehaves from now on; `null` ends that.
pub fn script(server: &Server, host: &str, script: &Value) {
    let script = if script.is_null() { Value::Null } else { json!(script.to_string()) };
    edit(server, HOSTS, INFRA, host, &json!({"metadata": {"annotations": {"berth.dev/sim": script}}}));
}

/// The value of an annotation of a host.
pub fn noted(server: &Server, host: &str, key: &str) -> Option<String> {
    let host = server.get(HOSTS, INFRA, host)?;
    Some(host["metadata"]["annotations"].get(key)?.as_str()?.to_owned())
}
