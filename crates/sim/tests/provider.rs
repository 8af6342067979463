//! The played CloudStack provider satisfies the real Cluster API managers: a cluster comes, is upgraded and goes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]
#![allow(clippy::disallowed_methods, reason = "real processes run by the real clock")]

use std::path::Path;
use std::time::Duration;

use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::discovery::ApiResource;
use serde_json::{Value, json};
use sim::cloudstack;
use sim::cloudstack::world::machine::State;
use sim::cloudstack::world::settings::Delays;
use sim::plane::{self, Plane};
use sim::provider::Provider;
use sim::wait::seek;

const SYSTEM: &str = "eksa-system";
const LATER: Duration = Duration::from_secs(120);

fn api(client: &Client, group: &str, kind: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1beta2", kind));
    Api::namespaced_with(client.clone(), SYSTEM, &resource)
}

/// What Berth renders for a small cluster, with the zone, the template and the offering of the simulator.
fn rendered() -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../clusters/tests/golden/revision-1/minimal.yaml");
    let text = std::fs::read_to_string(path).unwrap();
    let text = text.replace("ubuntu-1.31.4", "kube-1.31").replace("name: large", "name: Small Instance");
    let text = text.replace("name: net-1", "name: shared");
    let documents = text.split("---\n").filter(|part| !part.trim().is_empty());
    documents.map(|part| serde_saphyr::from_str(part).unwrap()).collect()
}

async fn until(provider: &Provider, what: &str, look: impl AsyncFnMut() -> Option<()>) {
    if seek(LATER, look).await.is_none() {
        panic!("not seen: {what}\n{}", provider.complaints().join("\n"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_comes_is_upgraded_and_goes() {
    let Some(_) = plane::for_test("a_cluster_comes_is_upgraded_and_goes") else { return };
    let server = Plane::start().unwrap();
    let client = server.client().await.unwrap();
    plane::install_crds(&client, plane::cloudstack_definitions().unwrap()).await.unwrap();
    let _managers = [
        plane::capi(&server).await.unwrap(),
        plane::kubeadm_bootstrap(&server).await.unwrap(),
        plane::kubeadm_control_plane_with(&server, &["--watch-filter=nobody"]).await.unwrap(),
    ];
    let now = Duration::ZERO;
    let mut options = cloudstack::Options::default();
    options.settings.delays = Delays { deploy: now, power: now, expunge: now, other: now };
    let acs = cloudstack::start(options).await.unwrap();
    let mut provider = Provider::start(&client);
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "global", "namespace": SYSTEM},
        "stringData": {"api-url": acs.endpoint, "api-key": acs.api_key, "secret-key": acs.secret_key}});
    let space = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM}});
    for object in [space, secret].iter().chain(&rendered()) {
        plane::apply(&client, object).await.unwrap();
    }
    let planes = api(&client, "controlplane.cluster.x-k8s.io", "KubeadmControlPlane");
    let groups = api(&client, "cluster.x-k8s.io", "MachineDeployment");
    until(&provider, "the control plane is available", async || {
        (planes.get("prod").await.ok()?.data.pointer("/status/version")? == "v1.31.4-eks-1-31-12").then_some(())
    })
    .await;
    let ready = planes.get("prod").await.unwrap().data["status"]["readyReplicas"].clone();
    assert_eq!(ready, 0, "no node is ready without a network plugin");
    let inside = provider.workload("prod").expect("an API server");
    let set = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "cilium", "namespace": "kube-system"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "c:1"}]}}}});
    plane::apply(&inside, &set).await.unwrap();
    until(&provider, "everything is ready", async || {
        let plane = planes.get("prod").await.ok()?.data;
        let group = groups.get("prod-md-0").await.ok()?.data;
        let ready = |object: &Value| object["status"]["readyReplicas"] == 1;
        (ready(&plane) && ready(&group)).then_some(())
    })
    .await;
    let before = acs.machines();
    assert_eq!(before.len(), 2, "{before:?}");

    let version = "v1.32.4-eks-1-32-12";
    let patch = json!({"spec": {"version": version}});
    planes.patch("prod", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    until(&provider, "the control plane is replaced", async || {
        let status = planes.get("prod").await.ok()?.data["status"].clone();
        (status["version"] == version && status["replicas"] == 1 && status["readyReplicas"] == 1).then_some(())
    })
    .await;
    let patch = json!({"spec": {"template": {"spec": {"version": version}}}});
    groups.patch("prod-md-0", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    until(&provider, "the workers are replaced", async || {
        let gone = acs.machines().iter().filter(|machine| machine.state == State::Gone).count();
        (gone == 2 && acs.machines().len() == 4).then_some(())
    })
    .await;

    let clusters = api(&client, "cluster.x-k8s.io", "Cluster");
    let _ = clusters.delete("prod", &DeleteParams::default()).await.unwrap();
    until(&provider, "nothing is left", async || {
        let left = acs.machines().into_iter().any(|machine| machine.state != State::Gone);
        (!left && clusters.get_opt("prod").await.ok()?.is_none()).then_some(())
    })
    .await;
    assert!(provider.workload("prod").is_none(), "its API server ended with it");
    provider.stop().await;
}
