//! Addresses that a person gave free by deleting a claim: whoever gets one next must not share it with the cluster that had
//! it, however far an index is behind.

use std::time::Duration;

use serde_json::{Value, json};
use sim::server::{Action, EventAction, RequestInfo, Rule};
use vip::config::Config;
use vip::hooks::Answer;

use crate::actors::{ask, provide};
use crate::objects::{ADDRESSES, CLAIMS, CLASS, CLUSTERS, NS, class, cluster, host, key, pool, uid};
use crate::told::Quiet;

/// One address for two clusters.
fn objects() -> [Value; 4] {
    let one = pool("one", "control-plane", 0, 10, 1);
    [class(CLASS, &[]), one, cluster("a", &json!({})), cluster("b", &json!({}))]
}

/// From now on the room hears of nothing about these kinds for an hour.
fn deafen(world: &Quiet, kinds: &'static [&'static str]) {
    world.berth.script_events(move |_, resource, _| {
        let delay = if kinds.contains(&resource) { Duration::from_secs(3600) } else { Duration::ZERO };
        EventAction { delay, ..EventAction::default() }
    });
}

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

/// Lets a cluster claim its address, and the provider give it.
async fn claimed(world: &Quiet, name: &str) {
    assert!(!matches!(ask(&world.extension, &world.cluster(name)).await, Answer::Open { .. }));
    while provide(&world.server) {}
    pass(1).await;
}

/// Another replica gives a cluster its endpoint.
fn written_elsewhere(world: &Quiet, name: &str) {
    let write = |object: &mut Value| {
        object["spec"]["controlPlaneEndpoint"] = json!({"host": "10.0.0.10", "port": 6443});
        object["metadata"]["annotations"] =
            json!({key("control-plane-vip"): "10.0.0.10", key("control-plane-source"): "allocated"});
    };
    world.server.edit(CLUSTERS, NS, name, write).unwrap();
}

/// A person deletes the claim of a cluster, and its address is free.
fn freed(world: &Quiet, name: &str) {
    assert!(world.server.delete(CLAIMS, NS, &format!("vip-cp-{name}")));
    while provide(&world.server) {}
    assert!(world.server.get(ADDRESSES, NS, &format!("vip-cp-{name}")).is_none());
}

/// What a cluster is told when it is asked about for so many rounds.
async fn asked(world: &Quiet, name: &str, rounds: usize) -> String {
    let mut why = String::new();
    for _ in 0..rounds {
        why = ask(&world.extension, &world.cluster(name)).await.message().to_owned();
        while provide(&world.server) {}
        pass(2).await;
    }
    why
}

#[tokio::test(start_paused = true)]
async fn a_freed_address_is_not_shown_twice_although_the_index_does_not_show_who_has_it() {
    let world = Quiet::start(Config::default(), objects()).await;
    claimed(&world, "a").await;
    deafen(&world, &[CLUSTERS]);
    written_elsewhere(&world, "a");
    freed(&world, "a");
    let why = asked(&world, "b", 30).await;
    assert_eq!(host(&world.cluster("b")), "", "both would have 10.0.0.10");
    assert!(why.contains("10.0.0.10 is already the endpoint of Cluster team/a; exclude it from the pool"), "{why}");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_gone_gives_nothing_although_the_index_still_shows_it() {
    let world = Quiet::start(Config::default(), objects()).await;
    claimed(&world, "a").await;
    deafen(&world, &[CLUSTERS, CLAIMS, ADDRESSES]);
    freed(&world, "a");
    // Another replica serves the other cluster meanwhile.
    let owner = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "b",
        "uid": uid(&world.cluster("b")), "controller": true, "blockOwnerDeletion": true});
    let claim = json!({
        "apiVersion": "ipam.cluster.x-k8s.io/v1beta2", "kind": "IPAddressClaim",
        "metadata": {"name": "vip-cp-b", "namespace": NS, "ownerReferences": [owner],
            "labels": {key("role"): "control-plane", key("managed-by"): "vip-allocator"}},
        "spec": {"clusterName": "b",
            "poolRef": {"apiGroup": "ipam.cluster.x-k8s.io", "kind": "GlobalInClusterIPPool", "name": "one"}},
    });
    world.server.put(claim).unwrap();
    while provide(&world.server) {}
    written_elsewhere(&world, "b");
    let why = asked(&world, "a", 5).await;
    assert_eq!(host(&world.cluster("a")), "", "both would have 10.0.0.10");
    assert!(why.contains("waiting to see what became of IPAddressClaim team/vip-cp-a"), "{why}");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn whoever_had_the_address_a_moment_ago_and_may_still_write_it_is_waited_for() {
    let world = Quiet::start(Config::default(), objects()).await;
    claimed(&world, "a").await;
    freed(&world, "a");
    let why = asked(&world, "b", 5).await;
    assert!(why.contains("10.0.0.10, which Cluster team/a had a moment ago and may still show"), "{why}");
    // Its write, which was on its way, arrives.
    written_elsewhere(&world, "a");
    let why = asked(&world, "b", 30).await;
    assert_eq!(host(&world.cluster("b")), "");
    assert!(why.contains("already the endpoint of Cluster team/a"), "{why}");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_freed_address_that_nobody_shows_is_used_again_after_a_while_and_at_once_when_its_cluster_is_gone() {
    let world = Quiet::start(Config::default(), objects()).await;
    claimed(&world, "a").await;
    freed(&world, "a");
    asked(&world, "b", 5).await;
    assert_eq!(host(&world.cluster("b")), "");
    asked(&world, "b", 15).await;
    assert_eq!(host(&world.cluster("b")), "10.0.0.10", "whatever the other had sent has arrived by now");
    world.stop().await;

    let world = Quiet::start(Config::default(), objects()).await;
    claimed(&world, "a").await;
    world.server.edit(CLUSTERS, NS, "a", |object| object["metadata"]["finalizers"] = json!([])).unwrap();
    world.server.delete(CLUSTERS, NS, "a");
    pass(1).await;
    while provide(&world.server) {}
    // One of the same name is another one.
    world.server.put(cluster("a", &json!({}))).unwrap();
    asked(&world, "b", 3).await;
    assert_eq!(host(&world.cluster("b")), "10.0.0.10");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_was_freed_while_a_process_started_is_found_in_a_list() {
    let world = Quiet::begin(Config::default(), objects());
    deafen(&world, &[CLUSTERS]);
    // Clusters are listed at once, addresses late, and everything happens in between.
    let slow = Rule::any().method("GET").path_contains("/ipaddresses").times(1);
    world.server.inject(slow, Action::Delay(Duration::from_secs(5)));
    pass(1).await;
    written_elsewhere(&world, "a");
    pass(10).await;
    let since = world.server.requests();
    let why = asked(&world, "b", 5).await;
    assert_eq!(host(&world.cluster("b")), "", "both would have 10.0.0.10");
    assert!(why.contains("already the endpoint of Cluster team/a"), "{why}");
    let lists = world.asked_since(since).into_iter().filter(|line| line.contains("/clusters?")).count();
    assert_eq!(lists, 1, "and that list is made once");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn clusters_that_cannot_be_listed_are_asked_for_ever_more_rarely_until_they_can() {
    let world = Quiet::start(Config::default(), objects()).await;
    claimed(&world, "a").await;
    let listing = |request: &RequestInfo| request.resource == CLUSTERS && request.name.is_empty() && !request.watch;
    world.server.inject(Rule::any().method("GET").matching(listing).times(8), Action::Status(503));
    let since = world.server.requests();
    let lists = || world.asked_since(since).into_iter().filter(|line| line.contains("/clusters?")).count();
    let begun = tokio::time::Instant::now();
    asked(&world, "a", 1).await;
    tokio::time::sleep_until(begun + Duration::from_secs(30)).await;
    // Half a second to one, one to two, two to four and so on.
    assert!((5..=6).contains(&lists()), "{} in half a minute", lists());
    assert_eq!(host(&world.cluster("a")), "", "nobody knows who shows the address");
    pass(120).await;
    assert_eq!(lists(), 9);
    asked(&world, "a", 2).await;
    assert_eq!(host(&world.cluster("a")), "10.0.0.10");
    world.stop().await;
}
