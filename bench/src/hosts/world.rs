//! Machines that want a dedicated host of their own, and a cloud with the published request limits.

use anyhow::{Context, Result};
use http::Method;
use serde_json::{Value, json};
use sim::ec2::{Handle, catalogue};

use crate::cloud::provider;
use crate::http::{Body, Pool, served};
use crate::scenario::Kind;
use crate::stage::Stage;

/// Machines as AWS has them, of all namespaces.
pub const MACHINES: Kind =
    Kind { group: "infrastructure.cluster.x-k8s.io", version: "v1beta2", plural: "awsmachines", kind: "AWSMachine" };
const CORE: &str = "cluster.x-k8s.io";
const REGION: &str = "us-east-1";
/// A subnet of the simulator has 251 addresses, so 1,000 machines need four of them.
const ZONES: [&str; 5] = ["us-east-1a", "us-east-1b", "us-east-1c", "us-east-1d", "us-east-1f"];
const TYPE: &str = "m5.large";
const NAMESPACES: u64 = 10;
const IN_FLIGHT: usize = 32;

fn namespace(number: u64) -> String {
    format!("fleet-{:02}", number % NAMESPACES)
}

/// Machines in one zone before the next one is used.
const EACH_ZONE: u64 = 200;

/// Zones that offer the type.
fn zones() -> Vec<&'static str> {
    ZONES.into_iter().filter(|zone| catalogue::offered(TYPE, zone)).collect()
}

/// The zone of the n-th machine.
fn zone(number: u64) -> Result<&'static str> {
    let zones = zones();
    let at = usize::try_from(number / EACH_ZONE).unwrap_or(usize::MAX) % zones.len().max(1);
    zones.get(at).copied().context("no zone offers the type")
}

fn core(plural: &'static str, kind: &'static str) -> Kind {
    Kind { group: CORE, version: "v1beta2", plural, kind }
}

/// A machine on a host of its own.
fn machine(namespace: &str, name: &str, image: &str, owner: &Value) -> Value {
    json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "AWSMachine",
        "metadata": {"name": name, "namespace": namespace, "labels": {"cluster.x-k8s.io/cluster-name": "c"},
            "ownerReferences": owner},
        "spec": {
            "instanceType": TYPE, "ami": {"id": image}, "sshKeyName": "", "tenancy": "host", "hostAffinity": "host",
            "cloudInit": {"insecureSkipSecretsManager": true}, "dynamicHostAllocation": {},
        },
    })
}

/// Definitions of everything that is looked at: ours, Cluster API's, and the rest with an open schema.
pub async fn definitions(stage: &Stage<'_>) -> Result<Vec<Value>> {
    let name = |definition: &Value| {
        definition.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let mut all = stage.documents("crds").await?;
    all.extend(crate::seed::cluster_api(&["clusters", "machines"])?);
    for definition in ["AWSMachine", "AWSCluster"].map(provider) {
        if !all.iter().any(|there| name(there) == name(&definition)) {
            all.push(definition);
        }
    }
    Ok(all)
}

/// Installs everything but machines: definitions, namespaces, credentials, clusters, bootstrap data.
pub async fn prepare(pool: &Pool, definitions: &[Value], ec2: &Handle) -> Result<()> {
    pool.create_all("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definitions).await?;
    let provided = Kind { plural: "awsclusters", kind: "AWSCluster", ..MACHINES };
    let (clusters, machines) = (core("clusters", "Cluster"), core("machines", "Machine"));
    served(pool, &[MACHINES.path(), provided.path(), clusters.path(), machines.path()]).await?;
    let names: Vec<Value> = (0..NAMESPACES).map(|n| json!({"metadata": {"name": namespace(n)}})).collect();
    pool.create_all("/api/v1/namespaces", &names).await.context("creating namespaces")?;
    let subnet = |zone: &str| {
        let id = ec2.subnet(REGION, zone, false).context("the simulator has no subnet")?;
        anyhow::Ok(json!({"id": id, "availabilityZone": zone, "isPublic": false}))
    };
    let subnets = zones().into_iter().map(subnet).collect::<Result<Vec<Value>>>()?;
    for n in 0..NAMESPACES {
        let space = namespace(n);
        let data =
            json!({"metadata": {"name": "boot"}, "stringData": {"value": "#cloud-config\n", "format": "cloud-config"}});
        pool.create_all(&format!("/api/v1/namespaces/{space}/secrets"), &[data]).await.context("creating data")?;
        let infrastructure = json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "AWSCluster",
            "metadata": {"name": "c", "namespace": space, "annotations": {"cluster.x-k8s.io/managed-by": "bench"}},
            "spec": {"region": REGION, "network": {"subnets": subnets}}});
        pool.create_all(&provided.within(&space), &[infrastructure]).await.context("creating clusters")?;
        status(pool, provided, &space, "c", json!({"ready": true})).await?;
        let cluster = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": {"name": "c", "namespace": space}, "spec": {
                "controlPlaneEndpoint": {"host": "192.0.2.1", "port": 6443},
                "infrastructureRef": {"apiGroup": MACHINES.group, "kind": "AWSCluster", "name": "c"}}});
        pool.create_all(&clusters.within(&space), &[cluster]).await.context("creating clusters")?;
        status(pool, clusters, &space, "c", json!({"initialization": {"infrastructureProvisioned": true}})).await?;
    }
    Ok(())
}

async fn status(pool: &Pool, kind: Kind, namespace: &str, name: &str, status: Value) -> Result<()> {
    let path = format!("{}/{name}/status", kind.within(namespace));
    let body = json!({ "status": status }).to_string();
    pool.ok(0, Method::PATCH, &path, Body::Merge(body.into())).await.map(drop)
}

/// Creates the owners of machines, and gives what creates the machines themselves.
pub async fn machines(pool: &Pool, ec2: &Handle, count: u64) -> Result<Vec<(String, Value)>> {
    use futures::{StreamExt, TryStreamExt};
    let image = &ec2.image(REGION, "x86_64").context("the simulator has no image")?;
    let owners = core("machines", "Machine");
    let one = |n: u64| async move {
        let (space, name) = (namespace(n), format!("machine-{n:05}"));
        let owner = json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
            "metadata": {"name": name, "namespace": space, "labels": {"cluster.x-k8s.io/cluster-name": "c"}},
            "spec": {"clusterName": "c", "version": "v1.34.1", "failureDomain": zone(n)?, "bootstrap": {"dataSecretName": "boot"},
                "infrastructureRef": {"apiGroup": MACHINES.group, "kind": MACHINES.kind, "name": name}},
        });
        let made =
            pool.ok(n as usize, Method::POST, &owners.within(&space), Body::Json(owner.to_string().into())).await?;
        let made: Value = serde_json::from_slice(&made).context("reading a Machine")?;
        let uid = made.pointer("/metadata/uid").cloned().unwrap_or_default();
        let reference = json!([{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "name": name, "uid": uid,
            "controller": true, "blockOwnerDeletion": true}]);
        anyhow::Ok((MACHINES.within(&space), machine(&space, &name, image, &reference)))
    };
    futures::stream::iter((0..count).map(one)).buffered(IN_FLIGHT).try_collect().await.context("creating Machines")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thousand_machines_find_an_address_each() {
        let mut taken = std::collections::BTreeMap::<&str, u32>::new();
        for number in 0..1000 {
            *taken.entry(zone(number).unwrap()).or_default() += 1;
        }
        assert!(taken.values().all(|machines| *machines <= 251), "{taken:?}");
    }
}
