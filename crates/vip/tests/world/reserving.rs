//! Claims for Clusters that are still to come, as callers other than Cluster API may ask for them; and what is counted.

use std::time::Duration;

use serde_json::{Value, json};
use vip::config::Config;
use vip::hooks::Answer;

use crate::actors::{ask, held, provide};
use crate::objects::{CLAIMS, CLASS, NS, at, class, cluster, host, note, owners, pool, uid};
use crate::told::Quiet;

async fn start(preallocate: bool) -> Quiet {
    let objects = [class(CLASS, &[]), pool("one", "control-plane", 0, 10, 2)];
    Quiet::start(Config { preallocate, ..Config::default() }, objects).await
}

async fn pass(world: &Quiet) {
    for _ in 0..3 {
        while provide(&world.server) {}
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

fn claim(world: &Quiet) -> Option<Value> {
    world.server.get(CLAIMS, NS, "vip-cp-a")
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_comes_later_takes_over_what_was_claimed_for_it() {
    let world = start(true).await;
    let plan = cluster("a", &json!({}));
    for _ in 0..3 {
        assert!(matches!(ask(&world.extension, &plan).await, Answer::Retry { .. }), "it waits for the Cluster");
        pass(&world).await;
    }
    let reserved = claim(&world).expect("claimed in advance");
    assert!(owners(&reserved).is_empty());
    assert_eq!(
        at(&reserved, "/spec/clusterName"),
        "",
        "a provider would never fill a claim of a Cluster that is not there"
    );
    assert!(reserved["metadata"]["labels"].get("cluster.x-k8s.io/cluster-name").is_none());
    assert_eq!(note(&reserved, "for-cluster"), "a");
    assert!(note(&reserved, "unowned-since").parse::<jiff::Timestamp>().is_ok(), "{reserved}");
    assert!(!at(&reserved, "/status/addressRef/name").is_empty(), "it holds an address already");

    world.server.put(plan).unwrap();
    let mut rounds = 0;
    while !matches!(ask(&world.extension, &world.cluster("a")).await, Answer::Open { .. }) {
        rounds += 1;
        assert!(rounds < 20, "never let through");
        pass(&world).await;
    }
    let (cluster, taken) = (world.cluster("a"), claim(&world).expect("still there"));
    assert_eq!((uid(&taken), owners(&taken)), (uid(&reserved), vec![uid(&cluster)]), "the same claim, owned now");
    assert_eq!((host(&cluster), held(&world.server, &cluster, "vip-cp-").as_deref()), ("10.0.0.10", Some("10.0.0.10")));
    assert_eq!((note(&taken, "for-cluster"), note(&taken, "unowned-since")), ("", ""));
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_never_comes_gives_its_address_back_and_one_that_is_gone_gets_none() {
    let world = start(true).await;
    assert!(matches!(ask(&world.extension, &cluster("a", &json!({}))).await, Answer::Retry { .. }));
    pass(&world).await;
    assert!(claim(&world).is_some());
    tokio::time::sleep(Duration::from_secs(1200)).await;
    pass(&world).await;
    assert_eq!(claim(&world), None, "nobody came for it");
    let mut seen = cluster("a", &json!({}));
    seen["metadata"]["uid"] = json!("somebody-has-seen-it");
    assert!(matches!(ask(&world.extension, &seen).await, Answer::Retry { .. }));
    assert_eq!(claim(&world), None, "a Cluster with a uid is gone, not to come");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn without_the_flag_nothing_is_claimed_in_advance() {
    let world = start(false).await;
    assert!(matches!(ask(&world.extension, &cluster("a", &json!({}))).await, Answer::Retry { .. }));
    pass(&world).await;
    assert_eq!(claim(&world), None);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn claims_and_pools_are_counted() {
    let world = start(true).await;
    pass(&world).await;
    assert!(world.measured(r#"berth_vip_pools_available{role="control-plane",cluster_class="metal"} 1"#));
    assert!(world.measured(r#"berth_vip_pools_available{role="ingress",cluster_class="metal"} 0"#));
    for name in ["a", "b"] {
        ask(&world.extension, &cluster(name, &json!({}))).await;
    }
    pass(&world).await;
    assert!(world.measured(r#"berth_vip_claims_total{role="control-plane",namespace="team"} 2"#));
    assert!(world.measured(r#"berth_vip_pools_available{role="control-plane",cluster_class="metal"} 0"#), "exhausted");
    world.stop().await;
}
