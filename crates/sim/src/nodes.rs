//! Nodes of machines that run on claims, played: what a kubelet does once its machine has booted.
//!
//! A claim that is provisioned has booted what it was given, so its Node appears in the workload cluster: on a host with the
//! label that says which host it is, elsewhere with the provider id that a kubelet knows there. A Node says once that it is
//! ready; what is made of that later is whoever changes it. A Node goes with its claim.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::discovery::ApiResource;
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

/// Between two looks at everything.
const REST: Duration = Duration::from_millis(250);
/// Label of a Node that is played.
const PLAYED: &str = "berth.dev/played-for";

/// Plays the kubelets of one cluster; it ends when this is dropped.
#[derive(Debug)]
pub struct Nodes(JoinHandle<()>);

impl Nodes {
    /// Plays the kubelets of the machines of a cluster: claims are looked for in `namespace`, Nodes are made in `workload`.
    #[must_use]
    pub fn start(management: Client, workload: Client, namespace: &str, cluster: &str) -> Self {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("metal3.io", "v1alpha1", "HostClaim"));
        let claims: Api<DynamicObject> = Api::namespaced_with(management, namespace, &resource);
        let nodes: Api<Node> = Api::all(workload);
        let (place, cluster) = (format!("{namespace}.{cluster}"), cluster.to_owned());
        Self(tokio::spawn(async move {
            loop {
                // Whatever does not work now is tried again with the next look.
                let _ = pass(&claims, &nodes, &place, &cluster).await;
                tokio::time::sleep(REST).await;
            }
        }))
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Says on a Cluster without an object for its control plane that the control plane has been there, as Cluster API says once
/// the first machine of one is a node: before that it looks for no node. Once said it stays, so this ends when it is seen.
pub async fn play_control_plane(management: Client, namespace: &str, cluster: &str) -> Result<(), kube::Error> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("cluster.x-k8s.io", "v1beta2", "Cluster"));
    let clusters: Api<DynamicObject> = Api::namespaced_with(management, namespace, &resource);
    loop {
        let found = clusters.get(cluster).await?;
        let said = found.data.pointer("/status/conditions").and_then(Value::as_array);
        let (ours, mut conditions): (Vec<Value>, Vec<Value>) =
            said.into_iter().flatten().cloned().partition(|condition| condition["type"] == "ControlPlaneInitialized");
        let noted = found.data.pointer("/status/initialization/controlPlaneInitialized") == Some(&Value::Bool(true));
        if noted && ours.iter().any(|condition| condition["status"] == "True") {
            return Ok(());
        }
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        conditions.push(json!({"type": "ControlPlaneInitialized", "status": "True", "reason": "Initialized",
            "message": "", "lastTransitionTime": now}));
        let there = json!({"metadata": {"resourceVersion": found.resource_version()},
            "status": {"conditions": conditions, "initialization": {"controlPlaneInitialized": true}}});
        match clusters.patch_status(cluster, &PatchParams::default(), &Patch::Merge(&there)).await {
            Err(kube::Error::Api(refused)) if refused.code == 409 => {}
            Err(error) => return Err(error),
            Ok(_) => {}
        }
        tokio::time::sleep(REST).await;
    }
}

async fn pass(claims: &Api<DynamicObject>, nodes: &Api<Node>, place: &str, cluster: &str) -> Result<(), kube::Error> {
    let ours = ListParams::default().labels(&format!("cluster.x-k8s.io/cluster-name={cluster}"));
    let claims = claims.list(&ours).await?.items;
    let played = nodes.list(&ListParams::default().labels(&format!("{PLAYED}={place}"))).await?.items;
    let there: BTreeSet<String> = played.iter().map(Node::name_any).collect();
    let gone = |name: &String| !claims.iter().any(|claim| claim.name_any() == *name);
    for name in there.iter().filter(|name| gone(name)) {
        let _ = nodes.delete(name, &DeleteParams::default()).await?;
    }
    for claim in claims.iter().filter(|claim| has_booted(claim) && !there.contains(&claim.name_any())) {
        boot(nodes, claim, place).await?;
    }
    Ok(())
}

fn has_booted(claim: &DynamicObject) -> bool {
    let conditions = claim.data.pointer("/status/conditions").and_then(Value::as_array);
    let provisioned = conditions.into_iter().flatten().any(|c| c["type"] == "Provisioned" && c["status"] == "True");
    provisioned && claim.metadata.deletion_timestamp.is_none() && claim.data.pointer("/spec/userData").is_some()
}

async fn boot(nodes: &Api<Node>, claim: &DynamicObject, place: &str) -> Result<(), kube::Error> {
    let name = claim.name_any();
    let said = |pointer: &str| claim.data.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let id = said("/status/providerID");
    let (label, spec) = if id.is_empty() {
        (json!({"metal3.io/uuid": said("/status/hostUID")}), json!({}))
    } else {
        (json!({}), json!({"providerID": id}))
    };
    let mut labels = json!({"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", PLAYED: place});
    if let (Value::Object(labels), Value::Object(label)) = (&mut labels, label) {
        labels.extend(label);
    }
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": spec});
    let _ = nodes.patch(&name, &PatchParams::apply("kubelet").force(), &Patch::Apply(&node)).await?;
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let condition = |kind: &str, status: &str, reason: &str| json!({"type": kind, "status": status, "reason": reason, "lastHeartbeatTime": now, "lastTransitionTime": now});
    let status = json!({"status": {
        "conditions": [
            condition("Ready", "True", "KubeletReady"),
            condition("MemoryPressure", "False", "KubeletHasSufficientMemory"),
            condition("DiskPressure", "False", "KubeletHasNoDiskPressure"),
            condition("PIDPressure", "False", "KubeletHasSufficientPID"),
        ],
        "nodeInfo": {"kubeletVersion": "v1.34.1", "operatingSystem": "linux", "architecture": "amd64", "machineID": "",
            "systemUUID": "", "bootID": "", "kernelVersion": "", "osImage": "", "containerRuntimeVersion": "",
            "kubeProxyVersion": ""},
    }});
    nodes.patch_status(&name, &PatchParams::default(), &Patch::Merge(&status)).await.map(drop)
}
