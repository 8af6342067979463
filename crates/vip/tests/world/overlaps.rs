//! Pools that overlap: two claims can hold one address, and then one cluster goes on and the other waits for a person.

use std::time::Duration;

use serde_json::{Value, json};
use vip::config::Config;
use vip::hooks::Answer;

use crate::actors::{ask, provide};
use crate::objects::{CLAIMS, CLASS, NS, POOLS, class, cluster, host, key, pool, range};
use crate::told::Quiet;

/// Two clusters, each of which takes its address from a pool of its own; the pools hold the same addresses.
async fn overlapping() -> Quiet {
    let pinned = |name: &str, pool: &str| cluster(name, &json!({key("pool"): pool}));
    let objects = [
        class(CLASS, &[]),
        pool("one", "control-plane", 0, 10, 2),
        pool("two", "control-plane", 0, 10, 2),
        pinned("a", "one"),
        pinned("b", "two"),
    ];
    Quiet::start(Config::default(), objects).await
}

/// Asks about a cluster as Cluster API does, for so long; the copy that was let through, or why it was not.
async fn asked(world: &Quiet, name: &str, seconds: u64) -> Result<Value, String> {
    let mut why = String::new();
    for _ in 0..seconds {
        let copy = world.cluster(name);
        match ask(&world.extension, &copy).await {
            Answer::Open { .. } => return Ok(copy),
            other => why = other.message().to_owned(),
        }
        while provide(&world.server) {}
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    Err(why)
}

#[tokio::test(start_paused = true)]
async fn of_two_fresh_claims_that_hold_one_address_one_goes_on_and_the_other_waits_for_a_person() {
    let world = overlapping().await;
    for name in ["a", "b"] {
        assert!(!matches!(ask(&world.extension, &world.cluster(name)).await, Answer::Open { .. }));
    }
    // Both get it at the same moment.
    while provide(&world.server) {}
    tokio::time::sleep(Duration::from_secs(1)).await;
    let why = asked(&world, "a", 3).await.unwrap_err();
    assert!(why.contains("held by IPAddressClaim team/vip-cp-b"), "{why}");
    let why = asked(&world, "b", 3).await.unwrap_err();
    assert!(why.contains("held by IPAddressClaim team/vip-cp-a"), "{why}");

    tokio::time::sleep(Duration::from_secs(40)).await;
    let why = asked(&world, "b", 30).await.unwrap_err();
    assert!(why.contains("vip-cp-a"), "{why}");
    assert_eq!(host(&asked(&world, "a", 10).await.unwrap()), "10.0.0.10");
    let why = asked(&world, "b", 60).await.unwrap_err();
    assert!(why.contains("the endpoint of Cluster team/a") && why.contains("exclude it from the pool"), "{why}");

    // What the message says helps.
    world.server.edit(POOLS, "", "two", |pool| pool["spec"]["addresses"] = json!(range(0, 11, 1))).unwrap();
    world.server.delete(CLAIMS, NS, "vip-cp-b");
    assert_eq!(host(&asked(&world, "b", 60).await.unwrap()), "10.0.0.11");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_address_that_a_claim_of_somebody_else_holds_is_not_taken_however_long_that_lasts() {
    let world = overlapping().await;
    let machine = json!({
        "apiVersion": "ipam.cluster.x-k8s.io/v1beta2", "kind": "IPAddress",
        "metadata": {"name": "node-1", "namespace": NS},
        "spec": {"address": "10.0.0.10", "prefix": 24, "claimRef": {"name": "node-1"}, "poolRef": {
            "apiGroup": "ipam.cluster.x-k8s.io", "kind": "GlobalInClusterIPPool", "name": "nodes"}},
    });
    world.server.put(machine).unwrap();
    let why = asked(&world, "a", 300).await.unwrap_err();
    assert!(why.contains("held by IPAddressClaim team/node-1"), "{why}");
    world.stop().await;
}
