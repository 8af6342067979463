//! What others do to machines and their claims: tenants, administrators, control planes and moves.

use std::time::Duration;

use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use machines::config::Config;
use serde_json::{Value, json};
use sim::server::{Action, Rule, Server};

use crate::site::*;

fn template(server: &Server, reuse: bool) {
    server
        .put(json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "Metal3MachineTemplate",
            "metadata": {"name": "t", "namespace": NS},
            "spec": {"nodeReuse": reuse, "template": {"spec": {"kind": "baremetal"}}}}))
        .unwrap();
}

fn of_deployment() -> Value {
    json!({"labels": {"cluster.x-k8s.io/deployment-name": "workers"},
        "ownerReferences": [{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineSet", "name": "workers-1",
            "uid": "set-uid", "controller": true}]})
}

/// The MachineSet that owns Machines must be there, or they are collected.
fn unowned(server: &Server) {
    server.set_collector(false);
}

#[tokio::test(start_paused = true)]
async fn a_claim_of_somebody_else_stands_in_the_way_and_is_not_touched() {
    let (server, site) = world();
    let theirs = server
        .put(
            json!({"apiVersion": "metal3.io/v1alpha1", "kind": "HostClaim", "metadata": {"name": "m1", "namespace": NS},
            "spec": {"poweredOn": true, "kind": "other"}}),
        )
        .unwrap();
    machine(&server, "m1", &json!({}));
    let _room = site.start(&server, Config::default());
    until_condition(&server, "m1", "AssociateBareMetalHost", "False/ClaimNameConflict").await;
    let claim = server.get(CLAIMS, NS, "m1").unwrap();
    assert_eq!((&claim["spec"], &claim["metadata"]["ownerReferences"]), (&theirs["spec"], &Value::Null));
    server.delete(MACHINES, NS, "m1");
    until(&server, "the machine is gone", |server| server.get(MACHINES, NS, "m1").is_none()).await;
    assert!(server.get(CLAIMS, NS, "m1").is_some(), "what was not ours is not given back");
}

#[tokio::test(start_paused = true)]
async fn what_a_tenant_changes_on_the_claim_is_told_and_not_overwritten() {
    let (server, site) = world();
    machine(&server, "m1", &json!({}));
    let _room = site.start(&server, Config::default());
    ready(&server, "m1").await;
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("metal3.io", "v1alpha1", "HostClaim"));
    let claims: Api<DynamicObject> = Api::namespaced_with(server.client("tenant").kube(), NS, &kind);
    let by = PatchParams { field_manager: Some("kubectl-edit".to_owned()), ..PatchParams::default() };
    claims.patch("m1", &by, &Patch::Merge(&json!({"spec": {"poweredOn": false}}))).await.unwrap();
    until_condition(&server, "m1", "Synchronized", "False/HostClaimChanged").await;
    let told = shown(&server, "m1").to_string();
    assert!(told.contains("spec.poweredOn") && told.contains("kubectl-edit"), "{told}");
    assert_eq!(server.get(CLAIMS, NS, "m1").unwrap()["spec"]["poweredOn"], false);
    assert_eq!(shown(&server, "m1")["status"]["initialization"]["provisioned"], true, "what was reached stays reached");
    rest(&server, &site).await;
    claims.patch("m1", &by, &Patch::Merge(&json!({"spec": {"poweredOn": true}}))).await.unwrap();
    ready(&server, "m1").await;
}

#[tokio::test(start_paused = true)]
async fn what_a_tenant_says_on_the_claim_before_the_machine_does_stays() {
    let (server, site) = world();
    machine(&server, "m1", &json!({}));
    change(&server, OWNERS, "m1", &json!({"spec": {"bootstrap": {"dataSecretName": null}}}));
    let _room = site.start(&server, Config { reserve_early: true, ..Config::default() });
    until_condition(&server, "m1", "Synchronized", "False/WaitingForBootstrapReady").await;
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("metal3.io", "v1alpha1", "HostClaim"));
    let claims: Api<DynamicObject> = Api::namespaced_with(server.client("tenant").kube(), NS, &kind);
    let by = PatchParams { field_manager: Some("kubectl-edit".to_owned()), ..PatchParams::default() };
    claims.patch("m1", &by, &Patch::Merge(&json!({"spec": {"userData": {"name": "theirs"}}}))).await.unwrap();
    change(&server, OWNERS, "m1", &json!({"spec": {"bootstrap": {"dataSecretName": "boot"}}}));
    until_condition(&server, "m1", "Synchronized", "False/HostClaimChanged").await;
    let spec = server.get(CLAIMS, NS, "m1").unwrap()["spec"].clone();
    assert_eq!((&spec["userData"]["name"], &spec["poweredOn"]), (&json!("theirs"), &json!(false)));
}

#[tokio::test(start_paused = true)]
async fn a_refused_claim_says_why_and_is_tried_again() {
    let (server, site) = world();
    machine(&server, "m1", &json!({}));
    let rule = Rule::any().method("POST").path_contains("hostclaims").times(2);
    server.inject(rule, Action::Status(403));
    let _room = site.start(&server, Config::default());
    until_condition(&server, "m1", "AssociateBareMetalHost", "False/HostClaimRefused").await;
    ready(&server, "m1").await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_claim_of_a_machine_that_ran_is_not_replaced() {
    let (server, site) = world();
    machine(&server, "m1", &json!({}));
    let _room = site.start(&server, Config::default());
    ready(&server, "m1").await;
    server.delete(CLAIMS, NS, "m1");
    until_condition(&server, "m1", "AssociateBareMetalHost", "False/HostClaimMissing").await;
    assert!(server.get(CLAIMS, NS, "m1").is_none());
    rest(&server, &site).await;
    server.delete(MACHINES, NS, "m1");
    until(&server, "the machine is gone", |server| server.get(MACHINES, NS, "m1").is_none()).await;
}

#[tokio::test(start_paused = true)]
async fn machines_that_replace_one_another_share_a_reuse_group_even_one_that_was_switched_on_later() {
    let (server, site) = world();
    unowned(&server);
    template(&server, false);
    machine_of(&server, "m1", &json!({}), &of_deployment());
    let _room = site.start(&server, Config::default());
    ready(&server, "m1").await;
    assert!(server.get(CLAIMS, NS, "m1").unwrap()["spec"]["nodeReuse"].is_null());
    change(&server, TEMPLATES, "t", &json!({"spec": {"nodeReuse": true}}));
    // A template that cannot be read is asked for again; until then the host is not given back.
    let fault = server
        .inject(Rule::any().method("GET").path_contains("metal3machinetemplates/t").times(3), Action::Status(500));
    server.delete(MACHINES, NS, "m1");
    let mut groups = Vec::new();
    until(&server, "the machine is gone", |server| {
        if let Some(claim) = server.get(CLAIMS, NS, "m1") {
            let going = claim["metadata"]["deletionTimestamp"].is_string();
            assert!(!going || claim["spec"]["nodeReuse"] == "md-workers", "released without its group");
            groups.push(claim["spec"]["nodeReuse"].clone());
        }
        server.get(MACHINES, NS, "m1").is_none()
    })
    .await;
    assert_eq!(server.hits(fault), 3);
    assert_eq!(groups.last(), Some(&json!("md-workers")));
    machine_of(&server, "m2", &json!({}), &of_deployment());
    ready(&server, "m2").await;
    assert_eq!(server.get(CLAIMS, NS, "m2").unwrap()["spec"]["nodeReuse"], "md-workers");
    // With the whole cluster nobody comes after.
    server
        .edit(CLUSTERS, NS, "c", |cluster| cluster["metadata"]["finalizers"] = json!(["cluster.cluster.x-k8s.io"]))
        .unwrap();
    server.delete(CLUSTERS, NS, "c");
    server.delete(MACHINES, NS, "m2");
    until(&server, "the second machine is gone", |server| {
        let claim = server.get(CLAIMS, NS, "m2").unwrap_or_default();
        let going = claim["metadata"]["deletionTimestamp"].is_string();
        assert!(!going || claim["spec"]["nodeReuse"].is_null(), "released with a group that nobody needs");
        server.get(MACHINES, NS, "m2").is_none()
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_done_while_paused_and_everything_after() {
    let (server, site) = world();
    machine(&server, "m1", &json!({}));
    change(&server, CLUSTERS, "c", &json!({"spec": {"paused": true}}));
    let _room = site.start(&server, Config::default());
    until_condition(&server, "m1", "Paused", "True/Paused").await;
    rest(&server, &site).await;
    assert!(server.list(CLAIMS, NS).is_empty() && shown(&server, "m1")["metadata"]["finalizers"].is_null());
    change(&server, CLUSTERS, "c", &json!({"spec": {"paused": false}}));
    ready(&server, "m1").await;
    change(&server, MACHINES, "m1", &json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": ""}}}));
    until_condition(&server, "m1", "Paused", "True/Paused").await;
    assert_eq!(condition(&shown(&server, "m1"), "Ready"), "True/Ready");
    server.delete(MACHINES, NS, "m1");
    rest(&server, &site).await;
    assert!(server.get(CLAIMS, NS, "m1").unwrap()["metadata"]["deletionTimestamp"].is_null());
    change(&server, MACHINES, "m1", &json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": null}}}));
    until(&server, "the machine is gone", |server| server.get(MACHINES, NS, "m1").is_none()).await;
}

/// What a move brings to the other side: no status, another uid, owners by their new uids.
fn moved(from: &Value, owner_uid: Option<&Value>) -> Value {
    let mut object = from.clone();
    object.as_object_mut().unwrap().remove("status");
    let meta = object["metadata"].as_object_mut().unwrap();
    for gone in ["uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "deletionTimestamp"] {
        meta.remove(gone);
    }
    if let Some(uid) = owner_uid {
        object["metadata"]["ownerReferences"][0]["uid"] = uid.clone();
    }
    object
}

#[tokio::test(start_paused = true)]
async fn a_moved_machine_keeps_its_claim_and_its_node() {
    let (source, site) = world();
    machine(&source, "m1", &json!({}));
    let room = site.start(&source, Config::default());
    ready(&source, "m1").await;
    change(&source, CLUSTERS, "c", &json!({"spec": {"paused": true}}));
    until_condition(&source, "m1", "Paused", "True/Paused").await;

    let (target, other) = world();
    let owning = source.get(OWNERS, NS, "m1").unwrap();
    let owning = target.put(moved(&owning, None)).unwrap();
    let machine = target.put(moved(&shown(&source, "m1"), Some(&owning["metadata"]["uid"]))).unwrap();
    // One owner reference was lost on the way.
    let mut claim = moved(&source.get(CLAIMS, NS, "m1").unwrap(), None);
    claim["metadata"].as_object_mut().unwrap().remove("ownerReferences");
    let claim = target.put(claim).unwrap();
    other.inside.put(moved(&site.inside.get(NODES, "", "m1-host").unwrap(), None)).unwrap();

    for (kind, name) in [(MACHINES, "m1"), (CLAIMS, "m1")] {
        change(
            &source,
            kind,
            name,
            &json!({"metadata": {"annotations": {"clusterctl.cluster.x-k8s.io/delete-for-move": ""}}}),
        );
    }
    source.set_collector(false);
    source.delete(MACHINES, NS, "m1");
    until(&source, "the machine has left", |source| source.get(MACHINES, NS, "m1").is_none()).await;
    let left = source.get(CLAIMS, NS, "m1").unwrap();
    assert!(left["metadata"]["deletionTimestamp"].is_null(), "nothing is given back on the way");
    drop(room);

    let _room = other.start(&target, Config::default());
    ready(&target, "m1").await;
    let kept = target.get(CLAIMS, NS, "m1").unwrap();
    assert_eq!(kept["metadata"]["uid"], claim["metadata"]["uid"]);
    assert_eq!(kept["metadata"]["ownerReferences"][0]["uid"], machine["metadata"]["uid"]);
    assert_eq!(kept["spec"], claim["spec"], "nothing is deployed again");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(shown(&target, "m1")["spec"]["providerID"], "metal3://team/m1/m1");
}
