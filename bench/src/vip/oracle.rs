//! What must be true at the end: every cluster has an address of its own, and nothing is held for nobody.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use serde_json::Value;

use super::provider::name;
use super::world::Name;
use crate::http::Pool;

/// Everything that is wrong. Clusters of the first calls were never let through, so they may have no endpoint yet; whatever
/// has one must have it alone, and every cluster has just its one claim.
pub async fn judge(pool: &Pool, clusters: usize) -> Result<Vec<String>> {
    let list = async |path: &str| -> Result<Vec<Value>> {
        let answer: Value = pool.get(path).await?;
        Ok(answer.get("items").and_then(Value::as_array).cloned().unwrap_or_default())
    };
    let found = list("/apis/cluster.x-k8s.io/v1beta2/clusters").await?;
    let claims = list("/apis/ipam.cluster.x-k8s.io/v1beta2/ipaddressclaims").await?;
    let addresses = list("/apis/ipam.cluster.x-k8s.io/v1beta2/ipaddresses").await?;
    Ok(wrong(clusters, &found, &claims, &addresses))
}

fn wrong(expected: usize, clusters: &[Value], claims: &[Value], addresses: &[Value]) -> Vec<String> {
    let text =
        |object: &Value, pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut wrong = Vec::new();
    if clusters.len() != expected {
        wrong.push(format!("{} clusters instead of {expected}", clusters.len()));
    }
    if claims.len() != clusters.len() {
        wrong.push(format!("{} claims for {} clusters", claims.len(), clusters.len()));
    }
    let given: BTreeMap<Name, String> = addresses
        .iter()
        .filter_map(|a| Some(((name(a)?.0, text(a, "/spec/claimRef/name")), text(a, "/spec/address"))))
        .collect();
    let uids: BTreeSet<String> = clusters.iter().map(|cluster| text(cluster, "/metadata/uid")).collect();
    for claim in claims {
        if !uids.contains(&text(claim, "/metadata/ownerReferences/0/uid")) {
            wrong.push(format!("claim {} belongs to no cluster", text(claim, "/metadata/name")));
        }
    }
    let mut holders: BTreeMap<String, String> = BTreeMap::new();
    for cluster in clusters {
        let (host, cluster_name) = (text(cluster, "/spec/controlPlaneEndpoint/host"), text(cluster, "/metadata/name"));
        let claim = name(cluster).map(|(namespace, name)| (namespace, format!("vip-cp-{name}")));
        if host.is_empty() {
            if !cluster_name.starts_with("first-") {
                wrong.push(format!("cluster {cluster_name} has no endpoint"));
            }
            continue;
        }
        if claim.and_then(|claim| given.get(&claim)) != Some(&host) {
            wrong.push(format!("cluster {cluster_name} has the endpoint {host}, which its claim does not hold"));
        }
        if let Some(other) = holders.insert(host.clone(), cluster_name.clone()) {
            wrong.push(format!("{cluster_name} and {other} both have {host}"));
        }
    }
    wrong.truncate(20);
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn cluster(name: &str, host: &str) -> Value {
        json!({"metadata": {"namespace": "n", "name": name, "uid": name}, "spec": {"controlPlaneEndpoint": {"host": host}}})
    }

    fn claim(cluster: &str) -> Value {
        json!({"metadata": {"namespace": "n", "name": format!("vip-cp-{cluster}"), "ownerReferences": [{"uid": cluster}]}})
    }

    fn address(cluster: &str, address: &str) -> Value {
        json!({"metadata": {"namespace": "n", "name": cluster}, "spec": {"claimRef": {"name": format!("vip-cp-{cluster}")}, "address": address}})
    }

    #[test]
    fn a_right_world_passes_and_each_harm_is_named() {
        let clusters = [cluster("a", "1"), cluster("b", "2"), cluster("first-1", "")];
        let claims = [claim("a"), claim("b"), claim("first-1")];
        let addresses = [address("a", "1"), address("b", "2")];
        assert!(wrong(3, &clusters, &claims, &addresses).is_empty());
        let says = |found: Vec<String>, part: &str| assert!(found.join("; ").contains(part), "{found:?}");
        says(wrong(4, &clusters, &claims, &addresses), "3 clusters instead of 4");
        says(wrong(3, &clusters, claims.get(..2).unwrap(), &addresses), "2 claims for 3");
        says(wrong(3, &clusters, &[claim("a"), claim("b"), claim("gone")], &addresses), "belongs to no cluster");
        says(wrong(2, &[cluster("a", "1"), cluster("b", "1")], &claims, &addresses), "both have 1");
        says(wrong(2, &[cluster("a", "1"), cluster("b", "")], &claims, &addresses), "b has no endpoint");
        says(wrong(2, &[cluster("a", "9"), cluster("b", "2")], &claims, &addresses), "its claim does not hold");
    }
}
