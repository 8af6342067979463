//! What the server itself refuses, what the webhook refuses, and what it fills in.

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::world::{SYSTEM, World, run};

const TEAM: &str = "team-r";

async fn refusal(world: &World, object: &Value) -> String {
    let api = world.own(object["kind"].as_str().unwrap(), TEAM);
    let dry = PatchParams { dry_run: true, ..PatchParams::apply("rules").force() };
    let name = object["metadata"]["name"].as_str().unwrap();
    match api.patch(name, &dry, &Patch::Apply(object)).await {
        Ok(stored) => panic!("it is accepted: {}", stored.data),
        Err(error) => error.to_string(),
    }
}

#[test]
fn mistakes_are_refused_with_their_fields() {
    run("mistakes_are_refused_with_their_fields", async |world| {
        world.namespace(TEAM).await;
        let part = |file: &str| world.example_for(file, TEAM, "rules", "192.0.2.50").remove(0);
        let (cluster, datacenter, machine) = (part("cluster.yaml"), part("datacenter.yaml"), part("machines.yaml"));
        let with = |object: &Value, pointer: &str, value: Value| {
            let mut changed = object.clone();
            *changed.pointer_mut(pointer).unwrap_or_else(|| panic!("no {pointer}")) = value;
            changed
        };
        // By rules of the definitions, which hold without any webhook.
        for (object, words) in [
            (with(&cluster, "/spec/kubernetesVersion", json!("1.3")), "quote it"),
            (with(&cluster, "/spec/workerNodeGroupConfigurations", json!([])), "at least one worker group"),
            (with(&datacenter, "/spec/availabilityZones/0/zone/network", json!({})), "set id or name"),
            (with(&machine, "/spec/users", json!([])), "at least one user"),
        ] {
            let said = refusal(world, &object).await;
            assert!(said.contains(words), "no {words} in {said}");
        }
        // By the webhook: what rules cannot say, all at once.
        let mut wrong = with(&cluster, "/spec/controlPlaneConfiguration/count", json!(2));
        wrong["spec"]["clusterNetwork"]["pods"]["cidrBlocks"] = json!(["10.96.0.0/16"]);
        let said = refusal(world, &wrong).await;
        for words in ["must be odd with stacked etcd", "overlaps"] {
            assert!(said.contains(words), "no {words} in {said}");
        }
        let mut own = cluster.clone();
        own["spec"]["managementCluster"]["name"] = json!("rules");
        let said = refusal(world, &own).await;
        assert!(said.contains("self-managed clusters cannot be created through this API"), "{said}");
        // What old files say is filled in as it is meant.
        let mut old = cluster.clone();
        old["spec"]["clusterNetwork"].as_object_mut().unwrap().remove("cniConfig");
        old["spec"]["clusterNetwork"]["cni"] = json!("cilium");
        old["spec"]["workerNodeGroupConfigurations"][0].as_object_mut().unwrap().remove("count");
        let dry = PatchParams { dry_run: true, ..PatchParams::apply("rules").force() };
        let stored = world.own("Cluster", TEAM).patch("rules", &dry, &Patch::Apply(&old)).await.expect("accepted");
        assert_eq!(stored.data["spec"]["clusterNetwork"]["cniConfig"], json!({"cilium": {}}));
        assert_eq!(stored.data["spec"]["workerNodeGroupConfigurations"][0]["count"], 1);
        // The management cluster was made by somebody else and is left alone.
        let own = world.own("Cluster", SYSTEM).get("mgmt").await.unwrap();
        assert!(own.metadata.finalizers.unwrap_or_default().is_empty());
        assert!(world.of_cluster("Cluster", "mgmt").await.is_empty());
    });
}
