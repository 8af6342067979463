//! What a call of the gate costs the API server.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;
use vip::config::Config;
use vip::hooks::Answer;

use crate::actors::{ask, provide};
use crate::objects::{CLAIMS, CLASS, NS, class, cluster, key, pool};
use crate::told::Quiet;

#[tokio::test(start_paused = true)]
async fn a_waiting_cluster_costs_no_request_per_call() {
    let objects = [class(CLASS, &[]), pool("one", "control-plane", 0, 10, 2), cluster("a", &json!({}))];
    let world = Quiet::start(Config::default(), objects).await;
    let copy = world.cluster("a");
    ask(&world.extension, &copy).await;
    // What the housekeeper says about a new cluster that waits is said by now.
    tokio::time::sleep(Duration::from_secs(90)).await;
    let before = world.server.requests();
    for _ in 0..50 {
        assert!(matches!(ask(&world.extension, &copy).await, Answer::Retry { .. }));
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    assert_eq!(world.asked_since(before), [""; 0]);
    // The address comes: one read, one write, and the copy that carries it passes without either.
    while provide(&world.server) {}
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = world.server.requests();
    ask(&world.extension, &copy).await;
    let path = "/apis/cluster.x-k8s.io/v1beta2/namespaces/team/clusters/a?";
    let asked = world.asked_since(before);
    let of_cluster: Vec<&str> = asked.iter().filter(|a| a.contains(path)).filter_map(|a| a.split(' ').next()).collect();
    assert_eq!(of_cluster, ["GET", "PATCH"], "{asked:?}");
    tokio::time::sleep(Duration::from_secs(30)).await;
    let before = world.server.requests();
    assert!(matches!(ask(&world.extension, &world.cluster("a")).await, Answer::Open { .. }));
    assert_eq!(world.asked_since(before), [""; 0]);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_nobody_gave_to_us_is_looked_up_once_and_by_label() {
    let mut other = pool("one", "control-plane", 0, 10, 2);
    other["metadata"]["labels"][key("cluster-class")] = json!("other");
    let world = Quiet::start(Config::default(), [class(CLASS, &[]), other, cluster("a", &json!({}))]).await;
    let copy = world.cluster("a");
    let before = world.server.requests();
    assert!(matches!(ask(&world.extension, &copy).await, Answer::Open { .. }));
    let asked = world.asked_since(before);
    assert_eq!(asked.len(), 3, "{asked:?}");
    let lists: Vec<&String> = asked.iter().filter(|a| a.contains("inclusterippools")).collect();
    assert!(
        lists.len() == 2 && lists.iter().all(|l| l.contains("limit=100") && l.contains("labelSelector=")),
        "{lists:?}"
    );
    let before = world.server.requests();
    for _ in 0..20 {
        assert!(matches!(ask(&world.extension, &copy).await, Answer::Open { .. }));
    }
    assert_eq!(world.asked_since(before), [""; 0]);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pool_that_the_index_does_not_show_yet_is_found_by_its_label_or_its_list() {
    for listed in [false, true] {
        let world = Quiet::start(Config::default(), [class(CLASS, &[]), cluster("a", &json!({}))]).await;
        let mut late = pool("late", "control-plane", 0, 10, 2);
        if listed {
            late["metadata"]["labels"][key("cluster-class")] = json!("true");
            late["metadata"]["annotations"] = json!({key("cluster-class"): "team/metal"});
        }
        let lag = sim::server::EventAction { delay: Duration::from_secs(30), ..sim::server::EventAction::default() };
        world.berth.script_events(move |_, _, _| lag.clone());
        world.server.put(late).unwrap();
        assert!(matches!(ask(&world.extension, &world.cluster("a")).await, Answer::Retry { .. }));
        assert_eq!(world.told("VIPClaimCreated").len(), 1);
        world.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_comes_before_everything_is_known_waits_for_that_and_does_its_work() {
    let objects = [class(CLASS, &[]), pool("one", "control-plane", 0, 10, 2), cluster("a", &json!({}))];
    let world = Quiet::begin(Config::default(), objects);
    let begun = Instant::now();
    assert!(matches!(ask(&world.extension, &world.cluster("a")).await, Answer::Retry { .. }));
    assert_eq!(world.server.list(CLAIMS, NS).len(), 1);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_slow_provider_holds_few_workers_and_every_cluster_has_asked_it() {
    let names: Vec<String> = (0..10).map(|n| format!("c{n}")).collect();
    let mut objects = vec![class(CLASS, &[]), pool("one", "control-plane", 0, 50, 2)];
    objects.extend(names.iter().map(|name| cluster(name, &json!({}))));
    let world = Quiet::start(Config::default(), objects).await;
    let call = async |name: &String| {
        let begun = Instant::now();
        (ask(&world.extension, &world.cluster(name)).await, begun.elapsed())
    };
    let calls = futures::future::join_all(names.iter().map(call)).await;
    assert!(calls.iter().all(|(answer, _)| matches!(answer, Answer::Retry { .. })), "{calls:?}");
    assert_eq!(world.server.list(CLAIMS, NS).len(), names.len(), "each has asked for its address");
    let held = calls.iter().filter(|(_, took)| *took >= Duration::from_secs(1)).count();
    assert_eq!(held, 4, "{calls:?}");
    world.stop().await;
}
