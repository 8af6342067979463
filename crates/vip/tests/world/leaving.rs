//! Clusters that go in other ways than by themselves: with everything below them first, or with their whole namespace.

use std::time::Duration;

use kube::api::{Api, DeleteParams, DynamicObject};
use kube::core::GroupVersionKind;
use kube::discovery::ApiResource;
use serde_json::{Value, json};
use vip::config::Config;
use vip::hooks::Answer;

use crate::actors::{ask, dismantle, part, provide};
use crate::objects::{ADDRESSES, CLAIMS, CLASS, CLUSTERS, NS, POOLS, class, cluster, deleting, host, name, pool};
use crate::told::Quiet;

/// Lets everybody else work for some seconds.
pub async fn pass(world: &Quiet, seconds: u64) {
    for _ in 0..seconds {
        while provide(&world.server) {}
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// A world with clusters that have their addresses.
async fn settled(names: &[&str]) -> Quiet {
    let mut objects = vec![class(CLASS, &[]), pool("one", "control-plane", 0, 10, 5)];
    objects.extend(names.iter().map(|name| cluster(name, &json!({}))));
    let world = Quiet::start(Config::default(), objects).await;
    for name in names {
        let mut rounds = 0;
        while !matches!(ask(&world.extension, &world.cluster(name)).await, Answer::Open { .. }) {
            rounds += 1;
            assert!(rounds < 20, "{name} is never let through");
            pass(&world, 2).await;
        }
        assert!(!host(&world.cluster(name)).is_empty());
    }
    world
}

fn free(world: &Quiet) -> Option<i64> {
    world.server.get(POOLS, "", "one")?.pointer("/status/ipAddresses/free")?.as_i64()
}

pub fn there(world: &Quiet, resource: &str) -> Vec<String> {
    world.server.list(resource, NS).iter().map(|object| name(object).to_owned()).collect()
}

/// What the room has written since a request, claims and Clusters only.
pub fn written(world: &Quiet, since: u64) -> Vec<String> {
    let asked = world.asked_since(since).into_iter();
    asked.filter(|line| !line.starts_with("GET ") && !line.contains("/events") && !line.contains("/status")).collect()
}

#[tokio::test(start_paused = true)]
async fn a_cluster_deleted_in_the_foreground_loses_its_claim_first_and_gets_no_other_address() {
    let world = settled(&["a", "b"]).await;
    let (kept, other) = (host(&world.cluster("a")).to_owned(), host(&world.cluster("b")).to_owned());
    assert_ne!(kept, other);
    let since = world.server.requests();
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("cluster.x-k8s.io", "v1beta2", "Cluster"));
    let clusters: Api<DynamicObject> = Api::namespaced_with(world.server.client("user").kube(), NS, &kind);
    clusters.delete("a", &DeleteParams::foreground()).await.unwrap();
    pass(&world, 30).await;
    assert!(deleting(&world.cluster("a")), "its machines still run");
    assert_eq!(there(&world, CLAIMS), ["vip-cp-b"], "the collector took the claim, whoever might still need it");

    // Cluster API goes on asking and taking down; nothing of that gives the cluster another address or holds it back.
    for _ in 0..5 {
        assert!(matches!(ask(&world.extension, &world.cluster("a")).await, Answer::Open { .. }));
        assert!(matches!(part(&world.extension, &world.cluster("a")).await, Answer::Open { .. }));
        pass(&world, 10).await;
    }
    assert_eq!(host(&world.cluster("a")), kept, "the endpoint stays as it was");
    assert_eq!(written(&world, since), [""; 0]);
    dismantle(&world.server, &world.cluster("a"));
    pass(&world, 30).await;
    assert_eq!(there(&world, CLUSTERS), ["b"]);
    assert_eq!(
        (there(&world, CLAIMS), there(&world, ADDRESSES)),
        (vec!["vip-cp-b".to_owned()], vec!["vip-cp-b".to_owned()])
    );
    assert_eq!((free(&world), host(&world.cluster("b"))), (Some(4), other.as_str()));
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_namespace_goes_with_all_its_clusters_and_leaves_no_address_behind() {
    let world = settled(&["a", "b", "c"]).await;
    world.server.put(cluster("late", &json!({}))).unwrap();
    let late = world.cluster("late");
    let since = world.server.requests();
    assert!(world.server.delete("namespaces", "", NS));
    pass(&world, 5).await;
    // A call that was on its way: nothing can be made in a namespace that goes, and that is no reason to hurry.
    assert!(!matches!(ask(&world.extension, &unborn(&late)).await, Answer::Refuse { .. }));
    for _ in 0..5 {
        for cluster in world.server.list(CLUSTERS, NS) {
            assert!(deleting(&cluster), "{cluster}");
            assert!(matches!(part(&world.extension, &cluster).await, Answer::Open { .. }), "nothing holds it back");
        }
        pass(&world, 10).await;
    }
    let tries = written(&world, since).len();
    assert!(tries <= 8, "{tries} writes into a namespace that goes: {:?}", written(&world, since));
    for cluster in world.server.list(CLUSTERS, NS) {
        dismantle(&world.server, &cluster);
    }
    pass(&world, 60).await;
    for resource in [CLUSTERS, CLAIMS, ADDRESSES] {
        assert_eq!(there(&world, resource), [""; 0], "{resource}");
    }
    assert_eq!(free(&world), Some(5), "every address is free again");
    assert_eq!(world.server.get("namespaces", "", NS), None);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn claims_of_a_cluster_that_is_gone_are_counted_until_they_are_collected() {
    let world = settled(&["a", "b"]).await;
    assert!(world.measured("berth_vip_claims_left_behind 0"));
    world.server.delete(CLUSTERS, NS, "a");
    dismantle(&world.server, &world.cluster("a"));
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(there(&world, CLUSTERS), ["b"]);
    assert!(world.measured("berth_vip_claims_left_behind 1"), "its claim waits for the provider");
    pass(&world, 10).await;
    assert_eq!(there(&world, CLAIMS), ["vip-cp-b"]);
    assert!(world.measured("berth_vip_claims_left_behind 0"));
    world.stop().await;
}

/// A copy as Cluster API had it before the deletion began.
fn unborn(cluster: &Value) -> Value {
    let mut copy = cluster.clone();
    copy["metadata"].as_object_mut().unwrap().remove("deletionTimestamp");
    copy
}
