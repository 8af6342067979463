//! The API servers of the clusters: Nodes appear there, and what should run on them is reported as running.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::objects::{CONTROL_PLANE, cluster_of, holds, text};
use super::{Hand, Scene, machine};
use crate::plane::{Options, Plane, PlaneError};

/// Where the network plugin is, and its name.
const SYSTEM: &str = "kube-system";
const PLUGIN: &str = "cilium";
/// The name of the audit log in the directory of an API server.
const AUDIT: &str = "audit.log";

/// The API server of a cluster.
pub(super) enum Workload {
    /// It is being started.
    Starting(JoinHandle<Result<Plane, PlaneError>>),
    /// It runs.
    Running { plane: Arc<Plane>, client: Client },
}

impl std::fmt::Debug for Workload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Starting(_) => f.write_str("Starting"),
            Self::Running { plane, .. } => f.debug_tuple("Running").field(plane).finish(),
        }
    }
}

impl Workload {
    pub(super) fn client(&self) -> Option<Client> {
        match self {
            Self::Starting(_) => None,
            Self::Running { client, .. } => Some(client.clone()),
        }
    }

    pub(super) fn audit_log(&self) -> Option<PathBuf> {
        match self {
            Self::Starting(_) => None,
            Self::Running { plane, .. } => Some(plane.dir().join(AUDIT)),
        }
    }
}

/// Secrets that follow from an API server: the end of the name, and the data.
pub(super) type Files = Vec<(&'static str, Value)>;

impl Hand {
    /// Starts the API server of a cluster unless that was done; once it runs, what others need to use it.
    pub(super) async fn start_workload(&self, cluster: &str) -> Result<Option<Files>, PlaneError> {
        let started = {
            let mut all = self.shared.workloads();
            match all.remove(cluster) {
                Some(Workload::Running { plane, client }) => {
                    let files = files(&plane);
                    all.insert(cluster.to_owned(), Workload::Running { plane, client });
                    return files.map(Some);
                }
                Some(Workload::Starting(task)) if task.is_finished() => task,
                Some(other) => {
                    all.insert(cluster.to_owned(), other);
                    return Ok(None);
                }
                None => {
                    let options = Options { audit_log: Some(AUDIT.into()), ..Options::default() };
                    let task = tokio::task::spawn_blocking(move || Plane::start_with(options));
                    all.insert(cluster.to_owned(), Workload::Starting(task));
                    return Ok(None);
                }
            }
        };
        let plane = started.await.map_err(PlaneError::bad("starting an API server"))??;
        let client = plane.client().await?;
        let files = files(&plane)?;
        self.shared.workloads().insert(cluster.to_owned(), Workload::Running { plane: Arc::new(plane), client });
        Ok(Some(files))
    }

    /// Ends the API server of a cluster; its data goes with it.
    pub(super) async fn end_workload(&self, cluster: &str) {
        let ended = self.shared.forget(cluster);
        let _ = tokio::task::spawn_blocking(move || drop(ended)).await;
    }

    /// Lets Nodes and what runs on them follow their machines.
    pub(super) async fn workloads(&self, scene: &Scene) {
        let running: Vec<(String, Client)> = {
            let all = self.shared.workloads();
            all.iter().filter_map(|(name, one)| Some((name.clone(), one.client()?))).collect()
        };
        for (cluster, client) in running {
            if let Err(error) = nodes(&cluster, &client, scene).await {
                self.shared.complain(format!("nodes of {cluster}: {error}"));
            }
        }
    }

    /// Removes the Node of a machine that is gone, unless Cluster API did.
    pub(super) async fn forget_node(&self, instance: &DynamicObject) {
        let cluster = cluster_of(instance).unwrap_or_default();
        let client = self.shared.workloads().get(cluster).and_then(Workload::client);
        if let Some(client) = client {
            let _ = Api::<Node>::all(client).delete(&instance.name_any(), &DeleteParams::default()).await;
        }
    }
}

async fn nodes(cluster: &str, client: &Client, scene: &Scene) -> Result<(), PlaneError> {
    let api: Api<Node> = Api::all(client.clone());
    let sets: Api<DaemonSet> = Api::namespaced(client.clone(), SYSTEM);
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), SYSTEM);
    let all = ListParams::default();
    let there = api.list(&all).await.map_err(PlaneError::kube("listing nodes"))?;
    let sets_there = sets.list(&all).await.map_err(PlaneError::kube("listing DaemonSets"))?;
    let plugged = sets_there.items.iter().any(|set| set.name_any() == PLUGIN);
    let mut wanted = BTreeSet::new();
    for instance in scene.instances.iter().filter(|one| cluster_of(one) == Some(cluster)) {
        let Some(machine) = machine::machine_of(instance, scene) else { continue };
        if !holds(instance, "/status/ready") || instance.metadata.deletion_timestamp.is_some() {
            continue;
        }
        let name = machine.name_any();
        wanted.insert(name.clone());
        match there.items.iter().find(|node| node.name_any() == name) {
            None => make(&api, machine, instance).await?,
            Some(node) if is_ready(node) != Some(plugged) => stand(&api, machine, instance, plugged).await?,
            Some(_) => {}
        }
    }
    for set in &sets_there.items {
        let count = json!(wanted.len());
        let status = json!({"observedGeneration": set.metadata.generation, "desiredNumberScheduled": count,
            "currentNumberScheduled": count, "numberReady": count, "numberAvailable": count,
            "updatedNumberScheduled": count, "numberMisscheduled": 0});
        said(&sets, &set.name_any(), serde_json::to_value(&set.status).unwrap_or_default(), status).await?;
    }
    let list = deployments.list(&all).await.map_err(PlaneError::kube("listing Deployments"))?;
    for one in &list.items {
        let count = one.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
        let status = json!({"observedGeneration": one.metadata.generation, "replicas": count, "readyReplicas": count,
            "availableReplicas": count, "updatedReplicas": count});
        said(&deployments, &one.name_any(), serde_json::to_value(&one.status).unwrap_or_default(), status).await?;
    }
    Ok(())
}

/// Reports a status unless it says so already; a count of zero is not told by the server.
async fn said<K>(api: &Api<K>, name: &str, now: Value, status: Value) -> Result<(), PlaneError>
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let number = |value: Option<&Value>| value.and_then(Value::as_i64).unwrap_or_default();
    let fields = status.as_object().cloned().unwrap_or_default();
    if fields.iter().all(|(key, value)| number(now.get(key)) == number(Some(value))) {
        return Ok(());
    }
    let body = json!({"status": status});
    let done = api.patch_status(name, &PatchParams::default(), &Patch::Merge(&body)).await;
    done.map(drop).map_err(PlaneError::kube(format!("reporting on {name}")))
}

fn is_ready(node: &Node) -> Option<bool> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|one| one.type_ == "Ready").map(|one| one.status == "True")
}

/// A machine joins its cluster.
async fn make(api: &Api<Node>, machine: &DynamicObject, instance: &DynamicObject) -> Result<(), PlaneError> {
    let name = machine.name_any();
    let mut labels = json!({"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"});
    if let (true, Some(labels)) = (machine.labels().contains_key(CONTROL_PLANE), labels.as_object_mut()) {
        labels.insert("node-role.kubernetes.io/control-plane".to_owned(), json!(""));
    }
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
        "spec": {"providerID": text(instance, "/spec/providerID")}});
    let done = api.patch(&name, &PatchParams::apply("kubelet").force(), &Patch::Apply(&node)).await;
    done.map_err(PlaneError::kube(format!("making the node {name}")))?;
    stand(api, machine, instance, false).await
}

/// What a kubelet says of its node: it is ready once a network plugin is there.
async fn stand(
    api: &Api<Node>,
    machine: &DynamicObject,
    instance: &DynamicObject,
    plugged: bool,
) -> Result<(), PlaneError> {
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let condition = |kind: &str, holds: bool, reason: &str| {
        json!({"type": kind, "status": if holds { "True" } else { "False" }, "reason": reason,
            "lastHeartbeatTime": now, "lastTransitionTime": now})
    };
    let ready = if plugged { "KubeletReady" } else { "NetworkPluginNotReady" };
    let status = json!({
        "conditions": [
            condition("Ready", plugged, ready), condition("MemoryPressure", false, "KubeletHasSufficientMemory"),
            condition("DiskPressure", false, "KubeletHasNoDiskPressure"),
            condition("PIDPressure", false, "KubeletHasSufficientPID"),
        ],
        "addresses": instance.data.pointer("/status/addresses"),
        "nodeInfo": {"kubeletVersion": text(machine, "/spec/version"), "operatingSystem": "linux",
            "architecture": "amd64", "machineID": "", "systemUUID": "", "bootID": "", "kernelVersion": "", "osImage": "",
            "containerRuntimeVersion": "", "kubeProxyVersion": ""},
    });
    let name = machine.name_any();
    let done = api.patch_status(&name, &PatchParams::default(), &Patch::Merge(&json!({"status": status}))).await;
    done.map(drop).map_err(PlaneError::kube(format!("reporting on the node {name}")))
}

/// A file in the directory of an API server, as secrets hold it.
fn encoded(plane: &Plane, name: &str) -> Result<String, PlaneError> {
    let path = plane.dir().join(name);
    std::fs::read(&path).map_err(PlaneError::io(format!("reading {}", path.display()))).map(|b| STANDARD.encode(b))
}

/// A kubeconfig of an API server that needs no file beside it.
pub fn kubeconfig(plane: &Plane) -> Result<Value, PlaneError> {
    let read = |name: &str| encoded(plane, name);
    let text = std::fs::read_to_string(plane.kubeconfig_path()).map_err(PlaneError::io("reading a kubeconfig"))?;
    let port: String =
        text.split("https://127.0.0.1:").nth(1).unwrap_or_default().chars().take_while(char::is_ascii_digit).collect();
    Ok(json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "admin",
        "clusters": [{"name": "workload", "cluster":
            {"server": format!("https://127.0.0.1:{port}"), "certificate-authority-data": read("ca.crt")?}}],
        "users": [{"name": "admin", "user":
            {"client-certificate-data": read("admin.crt")?, "client-key-data": read("admin.key")?}}],
        "contexts": [{"name": "admin", "context": {"cluster": "workload", "user": "admin"}}],
    }))
}

/// The secrets by which others find an API server and trust it.
fn files(plane: &Plane) -> Result<Files, PlaneError> {
    let (ca, ca_key) = (encoded(plane, "ca.crt")?, encoded(plane, "ca.key")?);
    Ok(vec![
        ("ca", json!({"tls.crt": ca, "tls.key": ca_key})),
        ("kubeconfig", json!({"value": STANDARD.encode(kubeconfig(plane)?.to_string())})),
    ])
}
