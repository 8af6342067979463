//! The world is real and the judge is awake: both are shown without Berth.

use serde_json::json;
use sim::dock::objects::{self, Class, inline, readme_patches};
use sim::dock::oracle::Promise;

use crate::world::{Corner, SOON, endpoint, run, within};

#[test]
fn the_world_makes_clusters_and_addresses_by_itself() {
    run("the_world_makes_clusters_and_addresses_by_itself", async |world| {
        let mut corner = Corner::new(world, "harness-real", "none").await;
        corner.class(&Class::new("harness-real", "harness-real")).await;
        corner.pool(&objects::pool("harness-real", "harness-real", &corner.range("10-11"))).await;
        corner.create(&objects::cluster("harness-real", "c", "harness-real"), Promise::Untouched).await;
        assert_eq!(endpoint(&corner.dock("c").await), None);
        let quay = corner.quay("c").await;
        assert_eq!(quay["spec"]["replicas"], 1);
        corner.condition("c", "TopologyReconciled", |c| c["status"] == "True").await;
        corner.condition("c", "InfrastructureReady", |c| c["status"] == "True").await;

        let claim = json!({
            "apiVersion": "ipam.cluster.x-k8s.io/v1beta2", "kind": "IPAddressClaim",
            "metadata": {"namespace": "harness-real", "name": "by-hand"},
            "spec": {"poolRef": {"apiGroup": "ipam.cluster.x-k8s.io", "kind": "GlobalInClusterIPPool", "name": "harness-real"}},
        });
        world.apply(&claim).await;
        let address = within(SOON, "the claim is filled", async || {
            let claim = corner.claim("by-hand").await?;
            claim.data.pointer("/status/addressRef/name")?;
            let address = world.api("IPAddress", "harness-real").get("by-hand").await.ok()?;
            Some(address.data["spec"]["address"].as_str()?.to_owned())
        })
        .await;
        assert_eq!(address, corner.address(10));
        within(SOON, "the pool has one less", async || {
            (corner.free("GlobalInClusterIPPool", "harness-real").await? == 1).then_some(())
        })
        .await;

        // Infrastructure that is not let go keeps its Cluster.
        world.provider.hold("harness-real", "c");
        corner.clusters().delete("c", &kube::api::DeleteParams::default()).await.unwrap();
        corner.condition("c", "Deleting", |c| c["reason"] == "WaitingForInfrastructureDeletion").await;
        world.provider.release(&world.client, "harness-real", "c").await.unwrap();
        corner.gone("c").await;
        corner.judge().await;
    });
}

#[test]
fn without_berth_the_judge_sees_clusters_without_an_address() {
    run("without_berth_the_judge_sees_clusters_without_an_address", async |world| {
        let mut corner = Corner::new(world, "harness-blind", "none").await;
        corner.class(&Class::new("harness-blind", "harness-blind")).await;
        corner.create(&objects::cluster("harness-blind", "c", "harness-blind"), Promise::Managed).await;
        corner.dock("c").await;
        let breaches = corner.breaches().await;
        let empty = |text: &str| text.contains("DockCluster") && text.contains("`:0`");
        assert!(breaches.iter().any(|breach| breach.rule == "O1" && empty(&breach.text)), "{breaches:?}");
    });
}

#[test]
fn the_value_that_the_first_readme_names_does_not_exist() {
    run("the_value_that_the_first_readme_names_does_not_exist", async |world| {
        let name = "harness-readme";
        let mut corner = Corner::new(world, name, "none").await;
        let [registration, san] = readme_patches();
        let template = "{{ .builtin.cluster.spec.controlPlaneEndpoint.host }}";
        let class = Class::new(name, name)
            .quay(&json!({"registrationAddress": ""}))
            .dock(&json!({"controlPlaneEndpoint": {"host": "", "port": 6443}}))
            .patch(registration)
            .patch(san)
            .patch(inline("wrong", "replace", "/spec/template/spec/controlPlaneEndpoint/host", template));
        corner.class(&class).await;
        let cluster = objects::merged(
            objects::cluster(name, "c", name),
            &json!({"spec": {"controlPlaneEndpoint": {"host": corner.address(1), "port": 6443}}}),
        );
        corner.create(&cluster, Promise::Managed).await;
        let (dock, quay) = (corner.dock("c").await, corner.quay("c").await);
        assert_eq!(dock["spec"]["controlPlaneEndpoint"]["host"], "<no value>");
        assert_eq!(quay["spec"]["registrationAddress"], "<no value>");
        assert_eq!(quay["spec"]["tlsSAN"], json!(["localhost", "<no value>"]));
        assert!(corner.breaches().await.iter().filter(|breach| breach.rule == "O1").count() >= 3);
    });
}
