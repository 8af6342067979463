//! The order in which objects arrive is free, what is wrong is said where its author looks, and credentials may change.

use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::world::{LATER, SOON, SYSTEM, World, run};

/// Waits until a datacenter says whether it can be used; returns its status.
async fn judged(world: &World, namespace: &str, name: &str, valid: bool) -> Value {
    let datacenters = world.own("CloudStackDatacenterConfig", namespace);
    world
        .within(SOON, &format!("{namespace}/{name} is valid: {valid}"), async || {
            let datacenter = datacenters.get_opt(name).await.ok()??;
            let status = datacenter.data.get("status")?.clone();
            let current = status["observedGeneration"].as_i64() == datacenter.metadata.generation;
            (current && status["specValid"] == valid).then_some(status)
        })
        .await
}

fn condition<'s>(status: &'s Value, kind: &str) -> &'s Value {
    status["conditions"].as_array().and_then(|all| all.iter().find(|one| one["type"] == kind)).unwrap_or(&Value::Null)
}

#[test]
fn the_order_of_arrival_is_free_and_credentials_may_change() {
    run("the_order_of_arrival_is_free_and_credentials_may_change", async |world| {
        let (team, name) = ("team-b", "early");
        world.namespace(team).await;
        let mut parts = ["cluster.yaml", "machines.yaml", "datacenter.yaml"]
            .map(|file| world.example_for(file, team, name, "192.0.2.20").remove(0));
        let [cluster, machines, datacenter] = &mut parts;
        let zone = &mut datacenter["spec"]["availabilityZones"][0];
        zone["credentialsRef"] = json!("early-keys");
        zone["domain"] = json!("tenant/team");
        zone["account"] = json!("user");
        machines["spec"]["template"]["name"] = json!("kube-1.31-of-nobody");

        // How far it gets is not the matter here.
        world.provider.spare(name);
        world.apply(cluster).await;
        let message = world.failure(team, name, "MissingDependentObjects").await;
        assert!(message.contains("not found"), "{message}");
        world.apply(machines).await;
        world.apply(datacenter).await;
        let status = judged(world, team, name, false).await;
        let said = status["failureMessage"].as_str().unwrap();
        assert!(said.contains("secret eksa-system/early-keys not found") && said.contains("az-1"), "{status}");
        assert_eq!(condition(&status, "CredentialsValid")["status"], "False", "{status}");
        let message = world.failure(team, name, "DatacenterConfigInvalid").await;
        assert!(message.contains("early-keys"), "{message}");

        // Keys that CloudStack does not know; what they are is nobody's business.
        let keys = |key: &str, secret: &str| {
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "early-keys", "namespace": SYSTEM},
                "stringData": {"api-url": world.acs.endpoint, "api-key": key, "secret-key": secret}})
        };
        world.apply(&keys("a-canary-key", "a-canary-secret")).await;
        let status = world
            .within(SOON, "CloudStack refuses the keys", async || {
                let status = judged(world, team, name, false).await;
                let refused = !status["failureMessage"].as_str()?.contains("not found");
                refused.then_some(status)
            })
            .await;
        assert_eq!(condition(&status, "CredentialsValid")["status"], "False", "{status}");
        assert!(!status.to_string().contains("canary"), "{status}");

        let (key, secret) = world.acs.key_of("user").expect("a user");
        world.apply(&keys(&key, &secret)).await;
        let status = judged(world, team, name, true).await;
        assert!(status.get("failureMessage").is_none(), "{status}");
        for kind in ["Valid", "CredentialsValid", "EndpointReachable"] {
            assert_eq!(condition(&status, kind)["status"], "True", "{kind}: {status}");
        }
        let message = world.failure(team, name, "MachineConfigInvalid").await;
        assert!(message.contains("kube-1.31-of-nobody") && message.contains("az-1"), "{message}");
        for kind in ["Cluster", "KubeadmControlPlane", "CloudStackCluster", "CloudStackMachineTemplate"] {
            assert!(world.of_cluster(kind, name).await.is_empty(), "{kind} is made only when everything fits");
        }

        machines["spec"]["template"]["name"] = json!("kube-1.31");
        world.apply(machines).await;
        let clusters = world.generated("Cluster");
        world.within(SOON, "the cluster is made", async || clusters.get_opt(name).await.ok()?).await;

        // Another key, on the server and in the secret: the next check uses it.
        world.acs.rotate("user", "the-next-key-of-the-user", "the-next-secret-of-the-user");
        let before = world.acs.log().last().map(|entry| entry.number).unwrap_or_default();
        world.apply(&keys("the-next-key-of-the-user", "the-next-secret-of-the-user")).await;
        world
            .within(SOON, "CloudStack is called with the new key", async || {
                let log = world.acs.log();
                log.iter().any(|entry| entry.number > before && is_ours(entry)).then_some(())
            })
            .await;
        judged(world, team, name, true).await;

        // Deleted half-way.
        world.delete(team, name).await;
        world.judge().await;
    });
}

/// Whether Berth asked as the user and was answered; the key before it is not taken any more.
fn is_ours(entry: &sim::cloudstack::world::log::Entry) -> bool {
    entry.status == 200 && entry.caller.starts_with("user@") && !entry.user_agent.contains("played")
}

#[test]
fn a_datacenter_that_cannot_be_used_says_why_zone_by_zone() {
    run("a_datacenter_that_cannot_be_used_says_why_zone_by_zone", async |world| {
        let (team, name) = ("team-c", "lost");
        world.namespace(team).await;
        let mut datacenter = world.example_for("datacenter.yaml", team, name, "").remove(0);
        let zones = datacenter["spec"]["availabilityZones"].as_array_mut().unwrap();
        let mut second = zones[0].clone();
        zones[0]["zone"]["name"] = json!("zone-9");
        second["name"] = json!("az-2");
        second["zone"]["name"] = json!("zone-off");
        zones.push(second);
        world.apply(&datacenter).await;
        world.apply_all(&world.example_for("machines.yaml", team, name, "")).await;
        world.apply_all(&world.example_for("cluster.yaml", team, name, "192.0.2.30")).await;
        let status = judged(world, team, name, false).await;
        let said = status["failureMessage"].as_str().unwrap();
        for part in [r#"availability zone "az-1": zone "zone-9" not found"#, r#"availability zone "az-2""#, "disabled"]
        {
            assert!(said.contains(part), "no {part} in {said}");
        }
        let message = world.failure(team, name, "DatacenterConfigInvalid").await;
        assert!(
            message.contains("CloudStackDatacenterConfig lost is invalid") && message.contains("zone-9"),
            "{message}"
        );
        let explained = world.told(&["explain", "cluster.anywhere/lost", "-n", team]);
        assert!(explained.contains("zone-9") && explained.contains("DatacenterConfigInvalid"), "{explained}");
        assert!(world.of_cluster("Cluster", name).await.is_empty());
        world.delete(team, name).await;
        world.judge().await;
    });
}

#[test]
fn an_endpoint_belongs_to_the_cluster_that_was_there_first() {
    run("an_endpoint_belongs_to_the_cluster_that_was_there_first", async |world| {
        let (team, first, second) = ("team-d", "first", "second");
        world.namespace(team).await;
        // It waits for its datacenter and has its endpoint all the same.
        world.apply_all(&world.example_for("cluster.yaml", team, first, "192.0.2.60")).await;
        world.failure(team, first, "MissingDependentObjects").await;
        // Creation is told in seconds, and within one of them the lower uid counts as the older.
        let made = world.own("Cluster", team).get(first).await.unwrap().creation_timestamp().unwrap().0;
        let passed = async || (kit::clock::Clock::system().now().as_second() > made.as_second()).then_some(());
        world.within(LATER, "the second has passed", passed).await;
        for file in ["datacenter.yaml", "machines.yaml", "cluster.yaml"] {
            world.apply_all(&world.example_for(file, team, second, "192.0.2.60")).await;
        }
        let message = world.failure(team, second, "UnavailableControlPlaneIP").await;
        assert!(message.contains("192.0.2.60") && message.contains("team-d/first"), "{message}");
        assert!(world.of_cluster("Cluster", second).await.is_empty());
        // Its owner knows better.
        let skip = json!({"metadata": {"annotations": {"anywhere.eks.amazonaws.com/skip-ip-check": "true"}}});
        world.provider.spare(second);
        world.own("Cluster", team).patch(second, &PatchParams::default(), &Patch::Merge(&skip)).await.unwrap();
        let clusters = world.generated("Cluster");
        world.within(LATER, "the cluster is made", async || clusters.get_opt(second).await.ok()?).await;
        for name in [first, second] {
            world.delete(team, name).await;
        }
        world.judge().await;
    });
}
