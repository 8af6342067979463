//! One cluster of machines that run on claims, with everything that Cluster API and kubelets would have made for them.

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt};
use http::Method;
use serde_json::{Value, json};
use sim::metal::{Settings, Simulator};
use tokio::task::JoinSet;

use crate::claims::world::{self as claims, HOSTS, tenant};
use crate::http::{Body, Pool, served};
use crate::oracle::each;
use crate::scenario::{Kind, Seeded, Shape};
use crate::seed;
use crate::server::Server;
use crate::stage::Stage;

/// Machines of all namespaces.
pub const MACHINES: Kind = Kind {
    group: "infrastructure.cluster.x-k8s.io",
    version: "v1beta2",
    plural: "metal3machines",
    kind: "Metal3Machine",
};
/// Wishes for data of all namespaces.
pub const DATA_CLAIMS: Kind = Kind { plural: "metal3dataclaims", kind: "Metal3DataClaim", ..MACHINES };
/// How the host simulator calls itself.
pub const SIMULATOR: &str = "berth-bench-hosts";
/// Nodes of the cluster, which is managed by itself.
pub const NODES: &str = "/api/v1/nodes";
/// Secrets of all namespaces.
pub const SECRETS: &str = "/api/v1/secrets";

/// Who is played by the bench, and how.
pub const PLAYED: [(&str, &str); 4] = [
    ("Cluster API", "stand-in: Cluster, Machines, owner references and bootstrap Secrets are made beforehand"),
    ("the operator of hosts", "the host simulator of the tests without delays, in the process of the bench"),
    ("kubelets", "stand-in: the Node of every host is there before it is looked for, with the label of its host"),
    ("the workload cluster", "the same API server, so that requests about Nodes are counted with the others"),
];

/// The cluster of all machines.
pub const CLUSTER: &str = "bench";
const LABEL: &str = "cluster.x-k8s.io/cluster-name";
const SIZES: u64 = 10;
const IN_FLIGHT: usize = 64;
/// Images on a Node, as its kubelet would name them.
const IMAGES: usize = 10;

fn core(plural: &'static str, kind: &'static str) -> Kind {
    Kind { group: "cluster.x-k8s.io", version: "v1beta2", plural, kind }
}

/// The namespace of the cluster.
pub fn namespace() -> String {
    tenant(0)
}

fn name(number: u64) -> String {
    format!("machine-{number:05}")
}

/// The provider id that the machine with this key must have in the end.
pub fn provider_id(key: &str) -> String {
    format!("metal3://{key}/{}", key.rsplit('/').next().unwrap_or_default())
}

/// The path of a machine.
pub fn path(number: u64) -> String {
    format!("{}/{}", MACHINES.within(&namespace()), name(number))
}

/// A machine that one host in ten fits.
fn machine(namespace: &str, name: &str, number: u64, owner: Option<&Value>) -> Value {
    json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "Metal3Machine",
        "metadata": {"name": name, "namespace": namespace, "labels": {LABEL: CLUSTER}, "ownerReferences": owner},
        "spec": {
            "kind": "baremetal",
            "image": {"url": "https://images.example/node-1.34.qcow2",
                "checksum": "https://images.example/node-1.34.qcow2.sha256", "diskFormat": "qcow2"},
            "hostSelector": {"matchLabels": {"size": format!("s{}", number % SIZES)}},
        },
    })
}

/// Machines as W is measured with them.
pub struct Shapes;

impl Shape for Shapes {
    fn kind(&self) -> Kind {
        MACHINES
    }

    fn object(&self, _seed: u64, index: u64) -> Seeded {
        let name = format!("machine-{index:08}");
        let object = machine("default", &name, index, None);
        Seeded { collection: MACHINES.within("default"), name, object, managed_fields: Value::Null }
    }

    fn status_patch(&self, round: u64) -> Value {
        json!({"status": {"conditions": [{
            "type": "Ready", "status": "True", "reason": "Ready", "message": format!("round {round}"),
            "lastTransitionTime": "2026-01-02T03:04:05Z",
        }]}})
    }
}

/// Definitions of everything that machines, claims and hosts consist of.
pub async fn definitions(stage: &Stage<'_>) -> Result<Vec<Value>> {
    let mut all = claims::definitions(stage).await?;
    all.extend(seed::cluster_api(&["clusters", "machines"])?);
    Ok(all)
}

/// Installs everything but hosts and machines; the webhooks are asked at `port`.
pub async fn prepare(server: &Server, pool: &Pool, definitions: &[Value], port: u16) -> Result<()> {
    let ca = std::fs::read_to_string(server.cert_dir()?.join("ca.crt")).context("reading the authority")?;
    let mut definitions = definitions.to_vec();
    definitions.iter_mut().for_each(|definition| sim::plane::webhooks_by_url(definition, port, &ca));
    claims::prepare(pool, &definitions, vec![namespace()]).await?;
    let (clusters, machines) = (core("clusters", "Cluster"), core("machines", "Machine"));
    served(pool, &[MACHINES.path(), DATA_CLAIMS.path(), places().path(), clusters.path(), machines.path()]).await
}

fn places() -> Kind {
    Kind { plural: "metal3clusters", kind: "Metal3Cluster", ..MACHINES }
}

/// Creates an object and gives what the server stored.
async fn made(pool: &Pool, n: usize, collection: &str, object: &Value) -> Result<Value> {
    let answer = pool.ok(n, Method::POST, collection, Body::Json(object.to_string().into())).await?;
    serde_json::from_slice(&answer).with_context(|| format!("reading what was made in {collection}"))
}

fn owner(kind: &str, made: &Value) -> Value {
    json!([{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": kind, "name": made.pointer("/metadata/name"),
        "uid": made.pointer("/metadata/uid"), "controller": true, "blockOwnerDeletion": true}])
}

/// Makes the cluster: its infrastructure is ready, and it manages itself.
pub async fn cluster(server: &Server, pool: &Pool) -> Result<()> {
    let (space, endpoint) = (namespace(), json!({"host": "192.0.2.1", "port": 6443}));
    let clusters = core("clusters", "Cluster");
    let cluster = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "metadata": {"name": CLUSTER, "namespace": space}, "spec": {"controlPlaneEndpoint": endpoint,
            "infrastructureRef": {"apiGroup": MACHINES.group, "kind": "Metal3Cluster", "name": CLUSTER}}});
    let cluster = made(pool, 0, &clusters.within(&space), &cluster).await.context("creating the Cluster")?;
    let place = json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "Metal3Cluster",
        "metadata": {"name": CLUSTER, "namespace": space, "labels": {LABEL: CLUSTER},
            "ownerReferences": owner("Cluster", &cluster)},
        "spec": {"controlPlaneEndpoint": endpoint, "cloudProviderEnabled": false}});
    made(pool, 0, &places().within(&space), &place).await.context("creating the Metal3Cluster")?;
    let status = json!({"status": {"initialization":
        {"infrastructureProvisioned": true, "controlPlaneInitialized": true}}});
    let at = format!("{}/{CLUSTER}/status", clusters.within(&space));
    pool.ok(0, Method::PATCH, &at, Body::Merge(status.to_string().into()))
        .await
        .context("the status of the Cluster")?;
    let secret = json!({"metadata": {"name": format!("{CLUSTER}-kubeconfig"), "labels": {LABEL: CLUSTER}},
        "type": "cluster.x-k8s.io/secret", "stringData": {"value": server.stored_kubeconfig()?}});
    made(pool, 0, &format!("/api/v1/namespaces/{space}/secrets"), &secret).await.context("storing a kubeconfig")?;
    Ok(())
}

/// Makes hosts that are available, and the Node that each of them becomes once it is deployed.
pub async fn hosts(server: &Server, pool: &Pool, count: u64) -> Result<()> {
    claims::hosts(server, count).await?;
    let mut nodes = Vec::new();
    each(pool, &HOSTS.path(), |host| {
        let part = |pointer: &str| host.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        nodes.push(node(&part("/metadata/name"), &part("/metadata/uid")));
    })
    .await?;
    pool.create_all(NODES, &nodes).await.context("creating Nodes")
}

/// A Node as its kubelet registers it, on the host with this uid.
fn node(name: &str, host: &str) -> Value {
    let condition = |kind: &str, status: &str, reason: &str| {
        json!({"type": kind, "status": status, "reason": reason, "message": "kubelet has said so",
            "lastHeartbeatTime": "2026-01-02T03:04:05Z", "lastTransitionTime": "2026-01-02T03:04:05Z"})
    };
    let image = |n: usize| json!({"names": [format!("registry.example/part-{n}:v1.34.1")], "sizeBytes": 50_000_000});
    let capacity = json!({"cpu": "64", "memory": "263856448Ki", "pods": "110", "ephemeral-storage": "459850824Ki"});
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"metal3.io/uuid": host, "kubernetes.io/hostname": name,
            "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}},
        "status": {
            "addresses": [{"type": "Hostname", "address": name}], "capacity": capacity, "allocatable": capacity,
            "conditions": [
                condition("Ready", "True", "KubeletReady"),
                condition("MemoryPressure", "False", "KubeletHasSufficientMemory"),
                condition("DiskPressure", "False", "KubeletHasNoDiskPressure"),
                condition("PIDPressure", "False", "KubeletHasSufficientPID"),
            ],
            "nodeInfo": {"kubeletVersion": "v1.34.1", "operatingSystem": "linux", "architecture": "amd64",
                "machineID": host, "systemUUID": host, "bootID": host, "kernelVersion": "6.12.0",
                "osImage": "Linux", "containerRuntimeVersion": "containerd://2.1.0", "kubeProxyVersion": ""},
            "images": (0..IMAGES).map(image).collect::<Vec<_>>(),
        },
    })
}

/// Drives the hosts until it is dropped.
pub async fn simulator(server: &Server) -> Result<JoinSet<()>> {
    let simulator = Simulator::new(server.client(SIMULATOR).await?, Settings::default());
    let mut work = JoinSet::new();
    work.spawn(simulator.run());
    Ok(work)
}

/// Makes a Machine and its bootstrap Secret for each machine, and gives the machines themselves.
pub async fn machines(pool: &Pool, count: u64) -> Result<Vec<Value>> {
    let (space, owners) = (namespace(), core("machines", "Machine"));
    let (secrets, collection) = (format!("/api/v1/namespaces/{space}/secrets"), owners.within(&space));
    let (space, secrets, collection) = (&space, &secrets, &collection);
    let one = |n: u64| async move {
        let (name, turn) = (name(n), usize::try_from(n).context("too many machines")?);
        let secret = json!({"metadata": {"name": name, "labels": {LABEL: CLUSTER}}, "type": "cluster.x-k8s.io/secret",
            "stringData": {"format": "cloud-config",
                "value": format!("#cloud-config\nruncmd:\n- kubeadm join 192.0.2.1:6443 --node-name {name}\n")}});
        made(pool, turn, secrets, &secret).await?;
        let object = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
            "metadata": {"name": name, "namespace": space, "labels": {LABEL: CLUSTER}},
            "spec": {"clusterName": CLUSTER, "version": "v1.34.1", "bootstrap": {"dataSecretName": name},
                "infrastructureRef": {"apiGroup": MACHINES.group, "kind": MACHINES.kind, "name": name}}});
        let object = made(pool, turn, collection, &object).await?;
        anyhow::Ok(machine(space, &name, n, Some(&owner("Machine", &object))))
    };
    futures::stream::iter((0..count).map(one)).buffered(IN_FLIGHT).try_collect().await.context("creating Machines")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_known_by_one_id_everywhere() {
        assert_eq!(provider_id("tenant-0000/machine-00007"), "metal3://tenant-0000/machine-00007/machine-00007");
        assert!(path(7).ends_with("/namespaces/tenant-0000/metal3machines/machine-00007"));
    }

    #[test]
    fn a_node_is_about_as_large_as_a_real_one_and_says_whose_it_is() {
        let node = node("host-00001", "8d8ac610-566d-4ef0-9c22-186b2a5ed793");
        assert_eq!(node["metadata"]["labels"]["metal3.io/uuid"], "8d8ac610-566d-4ef0-9c22-186b2a5ed793");
        assert!((2000..6000).contains(&node.to_string().len()), "{}", node.to_string().len());
    }
}
