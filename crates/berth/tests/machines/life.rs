//! One cluster on three kinds of machines, by the manifests of the book.

use kube::ResourceExt as _;
use kube::api::{Api, DynamicObject};
use kube::core::GroupVersionKind;
use kube::discovery::ApiResource;
use serde_json::Value;

use crate::places::{node, say};
use crate::world::{CORE, INFRASTRUCTURE, World, run};

const TEAM: &str = "team-a";
const GROUPS: [&str; 3] = ["metal", "dedicated", "virtual"];

#[test]
fn one_cluster_runs_on_three_kinds_of_machines_and_leaves_nothing_behind() {
    run("one_cluster_runs_on_three_kinds_of_machines_and_leaves_nothing_behind", async |world| {
        world.hosts(&["rack1-node1", "rack1-node2", "rack1-node3"], "large").await;
        world.apply_all(&["namespace.yaml", "policy.yaml", "identity.yaml", "credentials.yaml", "cluster.yaml"]).await;
        let nodes = world.enter(TEAM, "prod").await;
        world.controlled(TEAM, "prod").await;
        world.apply_all(&["templates.yaml", "groups.yaml"]).await;
        for group in GROUPS {
            let machines = world.settled(TEAM, group, 1).await;
            known(world, group, &machines[0]).await;
        }
        let drawn = world.told(&["tree", "cluster/prod", "-n", TEAM, "--expand"], None);
        for part in [
            "MachineDeployment metal",
            "BareMetalHost metal/rack1-",
            "DedicatedHost h-",
            "Instance i-",
            "VirtualMachine ",
        ] {
            assert!(drawn.contains(part), "{part} is missing in\n{drawn}");
        }
        let leaks = world.leaks();
        assert!(leaks.starts_with("no leaks"), "the dedicated host is its claim's:\n{leaks}");
        older(world).await;
        scaled(world).await;
        replaced(world).await;
        world.delete(TEAM, "prod").await;
        drop(nodes);
        world.within("nothing is left where machines run", async || world.left().await.is_empty().then_some(())).await;
        world.judge();
    });
}

/// The machine is known by one id everywhere: on the Machine, on its infrastructure, and on its Node.
async fn known(world: &World, group: &str, machine: &DynamicObject) {
    let said = |pointer: &str| machine.data.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (id, metal) = (said("/spec/providerID"), said("/spec/infrastructureRef/name"));
    let infrastructure = world.api(INFRASTRUCTURE, "Metal3Machine", TEAM).get(&metal).await.unwrap();
    assert_eq!(infrastructure.data["spec"]["providerID"], id);
    assert_eq!(infrastructure.data["status"]["hostClaim"]["name"], metal);
    let claim = world.api("metal3.io", "HostClaim", TEAM).get(&metal).await.unwrap();
    let wanted = match group {
        "metal" => format!("metal3://{TEAM}/{metal}/{metal}"),
        _ => claim.data["status"]["providerID"].as_str().unwrap_or_default().to_owned(),
    };
    assert_eq!(id, wanted);
    let prefix = match group {
        "metal" => "metal3://",
        "dedicated" => "aws:///us-west-2",
        _ => "cloudstack:///",
    };
    assert!(id.starts_with(prefix), "{group}: {id}");
    let addresses = machine.data.pointer("/status/addresses").and_then(Value::as_array);
    assert!(addresses.is_some_and(|addresses| !addresses.is_empty()), "{group}: no addresses");
    let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(world.workload.1.clone());
    let node = nodes.get(&said("/status/nodeRef/name")).await.unwrap();
    assert_eq!(node.spec.unwrap_or_default().provider_id, Some(id));
}

/// Who still speaks the older version reads the same machine.
async fn older(world: &World) {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(INFRASTRUCTURE, "v1beta1", "Metal3Machine"));
    let old: Api<DynamicObject> = Api::namespaced_with(world.client.clone(), TEAM, &resource);
    let list = old.list(&kube::api::ListParams::default()).await.expect("converted");
    assert_eq!(list.items.len(), 3);
    assert!(list.items.iter().all(|machine| machine.data["status"]["ready"] == true), "{:?}", list.items);
}

async fn scaled(world: &World) {
    world.scale(TEAM, "metal", 2).await;
    world.scale(TEAM, "virtual", 2).await;
    world.settled(TEAM, "metal", 2).await;
    world.settled(TEAM, "virtual", 2).await;
    // While a group is not counted as ready by Cluster API, others are drawn without their machines.
    let alike = "2 machines, all ready: Running, v1.34.1; each with Metal3Machine, HostClaim, BareMetalHost";
    let tree = ["tree", "cluster/prod", "-n", TEAM];
    world
        .within("machines that are alike are one line", async || world.told(&tree, None).contains(alike).then_some(()))
        .await;
    world.scale(TEAM, "virtual", 1).await;
    world.settled(TEAM, "virtual", 1).await;
}

/// A node that fails is replaced, on another host, by Cluster API's own health check.
async fn replaced(world: &World) {
    world.apply_all(&["health.yaml"]).await;
    let before = world.running(TEAM, "metal").await;
    let sick = before[0].name_any();
    let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(world.workload.1.clone());
    say(&nodes, &node(&before[0]), "False").await;
    world
        .within("the sick machine is replaced", async || {
            let machines = world.api(CORE, "Machine", TEAM);
            machines.get_opt(&sick).await.ok()?.is_none().then_some(())
        })
        .await;
    world.settled(TEAM, "metal", 2).await;
}
