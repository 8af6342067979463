//! The webhooks, as the real server calls them.

use std::net::Ipv4Addr;
use std::time::Duration;

use hosts::admit::{Ours, WEBHOOKS, register};
use kit::admission::{Admission, Service, mutating, validating};
use kit::certs::{Pair, Slot};
use kit::serve::{Options, Server, Tls};
use serde_json::{Value, json};
use sim::plane;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::manifests::founding;
use crate::world::{World, machine, plain, template};

/// Serves the webhooks and makes them known; they end with the guard.
async fn serve(world: &World) -> DropGuard {
    let server = Server::bind(Options::new("admission", (Ipv4Addr::LOCALHOST, 0).into())).await.unwrap();
    let (port, slot, stop) = (server.address().port(), Slot::new(), CancellationToken::new());
    let (certificate, key) = (world.plane.webhook_cert().unwrap(), world.plane.webhook_key().unwrap());
    slot.store(Pair::from_pem(certificate.as_bytes(), key.as_bytes()).unwrap());
    let router = register(Admission::new(), &Ours { runs: true, watch_filter: None }).router().unwrap();
    tokio::spawn(server.run(router, Some(Tls::new(slot)), stop.clone()));
    let service = Service { name: "berth", namespace: "berth-system" };
    let known = [
        serde_json::to_value(mutating(WEBHOOKS, service)).unwrap(),
        serde_json::to_value(validating(WEBHOOKS, service)).unwrap(),
    ];
    for mut configuration in known {
        plane::webhooks_by_url(&mut configuration, port, &world.plane.ca().unwrap());
        plane::apply(&world.client, &configuration).await.unwrap();
    }
    sim::wait::within(Duration::from_secs(30), "the server calls both webhooks", async || {
        let odd = plain(&json!({"sshKeyName": " odd", "dynamicHostAllocation": {}}));
        world.create(&machine("probe", &odd), true).await.err().filter(|why| why.contains("spec.sshKeyName"))?;
        let stored = world.create(&machine("probe", &plain(&json!({}))), true).await.ok()?;
        stored["spec"]["instanceMetadataOptions"].is_object().then_some(())
    })
    .await;
    stop.drop_guard()
}

#[tokio::test]
async fn defaults_are_filled_in_and_every_fault_is_told_with_its_path() {
    let Some(world) = World::enter("defaults_are_filled_in_and_every_fault_is_told_with_its_path").await else {
        return;
    };
    let _webhooks = serve(&world).await;
    let mut wanted = founding();
    wanted["tenancy"] = json!("host");
    wanted["hostAffinity"] = json!("host");
    wanted["instanceMetadataOptions"] = json!({"httpEndpoint": "enabled", "httpProtocolIpv6": "disabled",
        "httpPutResponseHopLimit": 1, "httpTokens": "optional", "instanceMetadataTags": "disabled"});
    let stored = world.create(&template("founding", &founding()), true).await.unwrap();
    assert_eq!(stored["spec"]["template"]["spec"], wanted);
    let stored = world.create(&machine("founding", &founding()), true).await.unwrap();
    assert_eq!(stored["spec"], wanted);
    let bare = world.create(&machine("bare", &plain(&json!({"dynamicHostAllocation": {}}))), true).await.unwrap();
    assert_eq!(bare["spec"]["dynamicHostAllocation"], json!({"quantity": 1, "autoRelease": true}));

    // Only faults that the definition cannot see: it is asked before those who check.
    let wrong = plain(&json!({
        "dynamicHostAllocation": {"tags": {"hosts.berth.dev/x": "y"}}, "sshKeyName": " odd", "networkInterfaces": ["eni-1"],
    }));
    let told = world.create(&machine("wrong", &wrong), true).await.unwrap_err();
    for path in ["spec.sshKeyName", "spec.networkInterfaces", "spec.dynamicHostAllocation.tags[hosts.berth.dev/x]"] {
        assert!(told.contains(path), "{path}: {told}");
    }
    let told = world.create(&template("wrong", &wrong), true).await.unwrap_err();
    assert!(told.contains("spec.template.spec.sshKeyName"), "{told}");
}

/// With nobody to ask, no new spec is stored, and everything else goes on: deletion does not depend on us.
async fn unseen(world: &World, name: &str) {
    let new = machine("unseen", &plain(&json!({})));
    let refused = sim::wait::within(Duration::from_secs(30), "nobody serves the webhooks", async || {
        world.create(&new, true).await.err()
    })
    .await;
    assert!(refused.contains("failed calling webhook") && refused.contains("awsmachines."), "{refused}");
    assert!(world.create(&template("unseen", &plain(&json!({}))), true).await.is_err());
    for (kind, spec) in [
        ("AWSMachine", json!({"additionalTags": {"a": "c"}})),
        ("AWSMachineTemplate", json!({"template": {"spec": {"publicIP": true}}})),
    ] {
        let refused = world.patch(kind, name, &json!({"spec": spec})).await.unwrap_err();
        assert!(refused.contains("failed calling webhook"), "{kind}: {refused}");
        for metadata in [
            json!({"annotations": {"cluster.x-k8s.io/paused": ""}, "labels": {"a": "b"}}),
            json!({"finalizers": ["example.test/held"]}),
        ] {
            world.patch(kind, name, &json!({"metadata": metadata})).await.unwrap();
        }
        world.delete(kind, name).await;
        world.patch(kind, name, &json!({"metadata": {"finalizers": null}})).await.unwrap();
        let gone = world.all(kind).get_opt(name).await.unwrap().is_none();
        assert!(gone, "{kind} is still there");
    }
}

#[tokio::test]
async fn changes_are_judged_and_a_topology_dry_run_may_ask_for_any() {
    let Some(world) = World::enter("changes_are_judged_and_a_topology_dry_run_may_ask_for_any").await else { return };
    let name = "changed";
    for kind in ["AWSMachine", "AWSMachineTemplate"] {
        world.delete(kind, name).await;
    }
    // Stored before the webhooks are there, as with the provider's own objects.
    world.create(&machine(name, &plain(&json!({"dynamicHostAllocation": {}}))), false).await.unwrap();
    world.create(&template(name, &plain(&json!({}))), false).await.unwrap();
    let webhooks = serve(&world).await;
    let change = async |spec: Value| world.patch("AWSMachine", name, &json!({"spec": spec})).await;
    change(json!({"additionalTags": {"a": "b"}})).await.unwrap();
    change(json!({"dynamicHostAllocation": {"autoRelease": false}})).await.unwrap();
    let refused = change(json!({"publicIP": true})).await.unwrap_err();
    assert!(refused.contains("publicIP cannot be changed"), "{refused}");
    let reserved = change(json!({"dynamicHostAllocation": {"tags": {"hosts.berth.dev/x": "y"}}})).await.unwrap_err();
    assert!(reserved.contains("reserved"), "{reserved}");

    let other = json!({"spec": {"template": {"spec": {"instanceType": "m5.large"}}}});
    let refused = world.patch("AWSMachineTemplate", name, &other).await.unwrap_err();
    assert!(refused.contains("spec.template.spec"), "{refused}");
    let mut asked = template(name, &plain(&json!({"instanceType": "m5.large"})));
    asked["metadata"]["annotations"] = json!({"topology.cluster.x-k8s.io/dry-run": ""});
    let dry = |dry_run: bool| kube::api::PatchParams {
        dry_run,
        force: true,
        ..kube::api::PatchParams::apply("capi-topology")
    };
    let all = world.all("AWSMachineTemplate");
    let answer = all.patch(name, &dry(true), &kube::api::Patch::Apply(&asked)).await.unwrap();
    assert_eq!(answer.data["spec"]["template"]["spec"]["instanceType"], "m5.large");
    assert!(all.patch(name, &dry(false), &kube::api::Patch::Apply(&asked)).await.is_err());
    drop(webhooks);
    unseen(&world, name).await;
    for kind in ["AWSMachine", "AWSMachineTemplate"] {
        world.delete(kind, name).await;
    }
}
