//! Metal3Clusters, and whose they are.

use std::time::Duration;

use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use machines::config::Config;
use serde_json::{Value, json};
use sim::server::Server;

use crate::site::*;

fn place(server: &Server) -> Value {
    server.get(PLACES, NS, "c").unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn a_cluster_is_provisioned_and_goes_after_its_machines() {
    let (server, site) = world();
    change(&server, PLACES, "c", &json!({"spec": {"controlPlaneEndpoint": null}}));
    let _room = site.start(&server, Config::default());
    let told = |server: &Server, wanted: &str| condition(&place(server), "Ready") == wanted;
    until(&server, "it waits", |server| told(server, "False/ControlPlaneEndpointMissing")).await;
    assert!(place(&server)["status"]["initialization"].is_null());
    change(&server, PLACES, "c", &json!({"spec": {"controlPlaneEndpoint": {"host": "10.0.0.5", "port": 6443}}}));
    until(&server, "it is ready", |server| told(server, "True/InfrastructureReady")).await;
    let status = place(&server)["status"].clone();
    assert_eq!(status["initialization"]["provisioned"], true);
    assert_eq!(status["failureDomains"], json!([{"name": "rack-1", "controlPlane": true}]));
    rest(&server, &site).await;
    machine(&server, "m1", &json!({}));
    ready(&server, "m1").await;
    server.delete(PLACES, NS, "c");
    until(&server, "it waits for machines", |server| told(server, "False/MachinesRemain")).await;
    server.delete(MACHINES, NS, "m1");
    server.delete(OWNERS, NS, "m1");
    until(&server, "it is gone", |server| server.get(PLACES, NS, "c").is_none()).await;
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_another_provider_reports_on_is_left_to_it() {
    let (server, site) = world();
    let kind =
        ApiResource::from_gvk(&GroupVersionKind::gvk("infrastructure.cluster.x-k8s.io", "v1beta2", "Metal3Cluster"));
    let places: Api<DynamicObject> = Api::namespaced_with(server.client("provider").kube(), NS, &kind);
    let by = PatchParams { field_manager: Some("manager".to_owned()), ..PatchParams::default() };
    let said = json!({"status": {"initialization": {"provisioned": false}}});
    places.patch_status("c", &by, &Patch::Merge(&said)).await.unwrap();
    let before = place(&server);
    let room = site.start(&server, Config::default());
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(place(&server), before);
    change(&server, PLACES, "c", &json!({"metadata": {"annotations": {"machines.berth.dev/managed": "true"}}}));
    until(&server, "it is ready", |server| condition(&place(server), "Ready") == "True/InfrastructureReady").await;
    drop(room);
}
