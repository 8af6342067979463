//! What a call of the gate costs the API server.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use kit::pace::Pace;
use kube::api::{Api, DynamicObject};
use serde_json::json;
use sim::server::{Action, Rule};
use tokio::task::JoinSet;
use tokio::time::Instant;
use vip::config::Config;
use vip::hooks::{Answer, Handlers};

use crate::actors::{ask, part, provide};
use crate::objects::{CLAIMS, CLASS, NS, class, cluster, host, key, pool, uid};
use crate::told::Quiet;

/// What was asked, by method and by the last part of the path that is no name.
fn tally(asked: &[String]) -> BTreeMap<(String, String), usize> {
    let kinds = ["/status", "/events", "/ipaddressclaims", "/ipaddresses", "/clusterclasses", "/clusters"];
    let mut all = BTreeMap::new();
    for line in asked {
        let (method, path) = line.split_once(' ').unwrap();
        let path = path.split('?').next().unwrap();
        let kind = kinds.into_iter().find(|kind| path.contains(kind)).unwrap_or(path);
        *all.entry((method.to_owned(), kind.to_owned())).or_default() += 1;
    }
    all
}

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

#[tokio::test(start_paused = true)]
async fn of_many_clusters_at_once_each_costs_one_claim_one_change_one_state_and_one_event() {
    let names: Vec<String> = (0..20).map(|n| format!("c{n}")).collect();
    let mut objects = vec![class(CLASS, &[]), pool("one", "control-plane", 0, 50, 20)];
    objects.extend(names.iter().map(|name| cluster(name, &json!({}))));
    let world = Quiet::start(Config::default(), objects).await;
    let before = world.server.requests();
    for _ in 0..3 {
        let calls = names.iter().map(async |name: &String| ask(&world.extension, &world.cluster(name)).await);
        futures::future::join_all(calls).await;
        while provide(&world.server) {}
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert!(names.iter().all(|name| !host(&world.cluster(name)).is_empty()));
    tokio::time::sleep(Duration::from_secs(60)).await;
    let asked = tally(&world.asked_since(before));
    let count =
        |method: &str, kind: &str| asked.get(&(method.to_owned(), kind.to_owned())).copied().unwrap_or_default();
    assert_eq!(count("POST", "/ipaddressclaims"), 20, "{asked:?}");
    assert_eq!(count("PATCH", "/clusters"), 20, "{asked:?}");
    assert_eq!(count("PATCH", "/status"), 20, "the wait of a new cluster is no news: {asked:?}");
    assert_eq!(world.told("VIPAllocated").len(), 20);
    assert_eq!(count("POST", "/events"), 24, "of their claims only the four tell who have a place to wait: {asked:?}");
    // Each is read before its claim is made and before it is written, and its claim before that; all are listed once.
    assert_eq!((count("GET", "/clusters"), count("GET", "/ipaddressclaims")), (41, 20), "{asked:?}");
    let classes = count("GET", "/clusterclasses");
    assert!(classes <= 10, "one read of the class serves many: {asked:?}");
    assert_eq!(asked.values().sum::<usize>(), 20 + 20 + 20 + 24 + 61 + classes, "and nothing else: {asked:?}");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn while_rooms_use_up_the_budget_of_requests_a_hook_is_answered_at_once() {
    let config = Config { allocation_wait: Duration::ZERO, ..Config::default() };
    let objects = [class(CLASS, &[]), pool("one", "control-plane", 0, 10, 2), cluster("a", &json!({}))];
    let world = Quiet::within(Some(Pace { per_second: 20, burst: 40 }), config, objects);
    tokio::time::sleep(Duration::from_secs(5)).await;
    let kind = sim::dock::resource("IPAddressClaim").unwrap();
    let claims: Api<DynamicObject> = Api::namespaced_with(world.rooms(), NS, &kind);
    let mut flood = JoinSet::new();
    for _ in 0..2_000 {
        let claims = claims.clone();
        flood.spawn(async move { claims.get_opt("none").await.unwrap() });
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let begun = Instant::now();
    assert!(matches!(ask(&world.extension, &world.cluster("a")).await, Answer::Retry { .. }));
    assert_eq!(world.server.list(CLAIMS, NS).len(), 1);
    // Cluster and class, the claim, the event: two tokens for each at most.
    assert!(begun.elapsed() <= Duration::from_millis(450), "{:?}", begun.elapsed());
    assert!(flood.len() > 1_500, "the rooms still have their requests to send");
    flood.shutdown().await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_hangs_holds_no_request_of_a_hook_longer_than_five_seconds() {
    let objects = [class(CLASS, &[]), pool("one", "control-plane", 0, 10, 2), cluster("a", &json!({}))];
    let world = Quiet::start(Config::default(), objects).await;
    let a = world.cluster("a");
    let five = |begun: Instant| begun.elapsed().as_secs_f64().round() == 5.0;
    world.server.inject(Rule::any().path_contains("/clusters/a").always(), Action::Hang);
    let begun = Instant::now();
    let answer = ask(&world.extension, &a).await;
    assert!(answer.message().contains("does not answer: reading the Cluster"), "{answer:?}");
    assert!(five(begun), "{:?}", begun.elapsed());

    let subject = json!({"namespace": NS, "name": "a", "uid": uid(&a)});
    let body = json!({"variables": [{"name": "builtin", "value": {"cluster": subject}}], "items": []});
    let (soon, body) = (|| Instant::now() + Duration::from_secs(10), Bytes::from(body.to_string()));
    let begun = Instant::now();
    let patches = world.extension.generate_patches(body.clone(), soon()).await;
    assert!(String::from_utf8_lossy(&patches.body).contains("does not answer: reading the Cluster"));
    assert!(five(begun), "{:?}", begun.elapsed());
    let begun = Instant::now();
    world.extension.validate_topology(body, soon()).await;
    assert!(five(begun), "{:?}", begun.elapsed());
    let begun = Instant::now();
    assert!(matches!(part(&world.extension, &a).await, Answer::Open { .. }));
    assert!(begun.elapsed() <= Duration::from_secs(3), "{:?}", begun.elapsed());
    world.stop().await;
}
