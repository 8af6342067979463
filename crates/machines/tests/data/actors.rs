//! Who else is in the world: address management of both kinds, the controller of claims as far as power goes, and the Nodes of
//! a workload cluster. Each does one write at a time; between two anything may happen.

use std::time::Duration;

use serde_json::{Value, json};
use sim::server::Server;

use crate::objects::{ADDRESSES, HOSTS, LEASES, METAL_ADDRESSES, METAL_LEASES, METAL_POOLS, NS, POOLS, at, name, uid};

/// Lets the others work, once a second.
pub async fn play(server: Server, inside: Option<Server>) {
    loop {
        while provide(&server) {}
        if let Some(inside) = &inside {
            power(&server, inside);
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// Gives an address to the first wish that has none; says whether there was one.
pub fn provide(server: &Server) -> bool {
    give(server, METAL_LEASES, METAL_ADDRESSES, METAL_POOLS, "/spec/pool/name")
        || give(server, LEASES, ADDRESSES, POOLS, "/spec/poolRef/name")
}

fn give(server: &Server, leases: &str, addresses: &str, pools: &str, pool: &str) -> bool {
    for lease in server.list(leases, NS) {
        let given = lease.pointer("/status/address/name").or(lease.pointer("/status/addressRef/name"));
        if given.is_some() || lease.pointer("/metadata/deletionTimestamp").is_some() {
            continue;
        }
        let Some(pool) = server.get(pools, NS, at(&lease, pool)) else { continue };
        let taken: Vec<Value> = server
            .list(addresses, NS)
            .into_iter()
            .filter(|address| at(address, "/spec/pool/name") == name(&pool))
            .map(|address| address["spec"]["address"].clone())
            .collect();
        let all = pool["spec"]["addresses"].as_array().cloned().unwrap_or_default();
        let Some(free) = all.into_iter().find(|address| !taken.contains(address)) else { continue };
        let address = json!({
            "apiVersion": lease["apiVersion"], "kind": "IPAddress",
            "metadata": {"name": format!("{}-address", name(&lease)), "namespace": NS, "ownerReferences": [
                {"apiVersion": lease["apiVersion"], "kind": lease["kind"], "name": name(&lease), "uid": uid(&lease)}]},
            "spec": {"address": free, "prefix": 24, "gateway": "10.0.0.1", "pool": {"name": name(&pool)}},
        });
        server.put(address).unwrap();
        let reference = json!({"name": format!("{}-address", name(&lease))});
        let status = json!({"address": reference, "addressRef": reference});
        server.edit(leases, NS, name(&lease), |lease| lease["status"] = status.clone()).unwrap();
        return true;
    }
    false
}

/// Hosts follow their claims: off while an annotation keeps them off. A host that is on has a Node, unless it is dead.
pub fn power(server: &Server, inside: &Server) {
    for claim in server.list(HOSTS, NS) {
        let notes = claim.pointer("/metadata/annotations").and_then(Value::as_object).cloned().unwrap_or_default();
        let held = notes.keys().any(|key| key.starts_with("reboot.metal3.io/"));
        let on = claim["spec"]["poweredOn"] == true && !held;
        if claim["status"]["poweredOn"] != on {
            server.edit(HOSTS, NS, name(&claim), |claim| claim["status"]["poweredOn"] = json!(on)).unwrap();
            continue;
        }
        let dead = notes.contains_key("test/dead");
        if on && !dead && inside.get("nodes", "", name(&claim)).is_none() {
            inside.put(node(name(&claim), &json!({}))).unwrap();
        }
    }
    // Whoever detaches volumes and ends pods does so once the Node is out of service.
    for node in inside.list("nodes", "") {
        let taints = node.pointer("/spec/taints").and_then(Value::as_array).cloned().unwrap_or_default();
        if taints.iter().any(|taint| taint["key"] == "node.kubernetes.io/out-of-service") {
            for pod in inside.list("pods", "default") {
                inside.delete("pods", "default", name(&pod));
            }
            for volume in inside.list("volumeattachments.storage.k8s.io", "") {
                inside.delete("volumeattachments.storage.k8s.io", "", name(&volume));
            }
        }
    }
}

pub fn node(name: &str, labels: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels,
        "annotations": {"who": if labels.as_object().is_some_and(serde_json::Map::is_empty) { "kubelet" } else { "admin" }}},
        "spec": {}})
}
