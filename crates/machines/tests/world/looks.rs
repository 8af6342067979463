//! What looking for Nodes costs: one look serves all machines of a cluster.

use std::time::Duration;

use machines::config::Config;
use serde_json::json;
use sim::server::{Action, Rule, Server};

use crate::play::Boot;
use crate::site::*;

/// How often Nodes were listed, asked for alone and written, and how often the kubeconfig was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cost {
    lists: usize,
    alone: usize,
    writes: usize,
    kubeconfigs: usize,
}

fn cost(server: &Server, site: &Site) -> Cost {
    let inside = site.inside.log();
    let asked = |method: &str, list: bool| {
        let is = |path: &str| if list { path == "/api/v1/nodes" } else { path.starts_with("/api/v1/nodes/") };
        inside.iter().filter(|entry| entry.method == method && is(&entry.path)).count()
    };
    let stored = format!("/api/v1/namespaces/{NS}/secrets/c-kubeconfig");
    Cost {
        lists: asked("GET", true),
        alone: asked("GET", false),
        writes: asked("PATCH", false),
        kubeconfigs: server.log().iter().filter(|entry| entry.path == stored).count(),
    }
}

async fn all_ready(server: &Server, count: usize) {
    until(server, "all machines are ready", |server| {
        let ready = |name: usize| condition(&shown(server, &format!("m{name}")), "Ready") == "True/Ready";
        (0..count).all(ready)
    })
    .await;
}

async fn settled(count: usize) -> Cost {
    let (server, site) = world();
    for name in 0..count {
        machine(&server, &format!("m{name}"), &json!({}));
    }
    let _room = site.start(&server, Config::default());
    all_ready(&server, count).await;
    rest(&server, &site).await;
    cost(&server, &site)
}

#[tokio::test(start_paused = true)]
async fn a_cluster_is_asked_for_its_nodes_as_often_for_many_machines_as_for_few() {
    let (few, many) = (settled(6).await, settled(48).await);
    assert_eq!((few.kubeconfigs, many.kubeconfigs), (1, 1), "a kubeconfig is read once");
    assert_eq!((few.writes, many.writes), (6, 48), "each Node gets its id with one write");
    assert!(many.lists <= few.lists + 2, "{few:?}, then {many:?}");
    assert!(many.alone <= few.alone + 8, "{few:?}, then {many:?}");
}

#[tokio::test(start_paused = true)]
async fn machines_that_wait_for_their_nodes_share_one_look() {
    let (server, site) = world();
    site.boots(Boot::Never);
    for name in 0..20 {
        machine(&server, &format!("m{name}"), &json!({}));
    }
    let _room = site.start(&server, Config::default());
    for name in 0..20 {
        until_condition(&server, &format!("m{name}"), "KubernetesNodeReady", "False/NodeNotFound").await;
    }
    let before = cost(&server, &site);
    tokio::time::sleep(Duration::from_secs(300)).await;
    let after = cost(&server, &site);
    assert!((9..=11).contains(&(after.lists - before.lists)), "one look in 30 s: {before:?}, then {after:?}");
    assert_eq!((after.alone, after.kubeconfigs), (0, 1));
    site.boots(Boot::Label);
    change(&server, CLAIMS, "m0", &json!({"metadata": {"labels": {"touched": "yes"}}}));
    all_ready(&server, 20).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_comes_a_moment_after_the_first_look_is_not_waited_for_long() {
    let (server, site) = world();
    site.boots(Boot::Never);
    machine(&server, "m1", &json!({}));
    let _room = site.start(&server, Config::default());
    until_condition(&server, "m1", "KubernetesNodeReady", "False/NodeNotFound").await;
    let began = tokio::time::Instant::now();
    site.boots(Boot::Label);
    server.namespace("elsewhere");
    ready(&server, "m1").await;
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_does_not_answer_is_asked_once_for_all_its_machines() {
    let (server, site) = world();
    let silent = site.inside.inject(Rule::any().path_prefix("/api/v1/nodes").always(), Action::Hang);
    for name in 0..20 {
        machine(&server, &format!("m{name}"), &json!({}));
    }
    let _room = site.start(&server, Config::default());
    for name in 0..20 {
        until_condition(&server, &format!("m{name}"), "KubernetesNodeReady", "False/ClusterUnreachable").await;
    }
    assert!(site.inside.hits(silent) <= 6, "{} questions to a cluster that is silent", site.inside.hits(silent));
    site.inside.stop_fault(silent);
    all_ready(&server, 20).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_changed_since_it_was_listed_is_asked_for_alone() {
    let (server, site) = world();
    let (first, second) = ("/api/v1/nodes/m0-host", "/api/v1/nodes/m1-host");
    for path in [first, second] {
        site.inside.inject(Rule::any().method("PATCH").path_prefix(path).times(1), Action::Conflict);
    }
    for name in 0..12 {
        machine(&server, &format!("m{name}"), &json!({}));
    }
    let _room = site.start(&server, Config::default());
    all_ready(&server, 12).await;
    let cost = cost(&server, &site);
    assert_eq!((cost.alone, cost.writes), (2, 14), "{cost:?}");
    assert!(cost.lists <= 3, "{cost:?}");
}

#[tokio::test(start_paused = true)]
async fn a_kubeconfig_that_changed_is_read_again_and_one_that_came_wakes_the_machines() {
    let (server, site) = world();
    let kubeconfig = server.get("secrets", NS, "c-kubeconfig").unwrap();
    server.delete("secrets", NS, "c-kubeconfig");
    machine(&server, "m1", &json!({}));
    let _room = site.start(&server, Config::default());
    until_condition(&server, "m1", "KubernetesNodeReady", "False/ClusterUnreachable").await;
    assert_eq!(cost(&server, &site).kubeconfigs, 0, "that there is none is known without asking");
    let began = tokio::time::Instant::now();
    server
        .put(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "c-kubeconfig", "namespace": NS},
            "data": kubeconfig["data"]}))
        .unwrap();
    ready(&server, "m1").await;
    assert!(began.elapsed() < Duration::from_secs(30), "nobody waited for the next look");
    assert_eq!(cost(&server, &site).kubeconfigs, 1);
    server
        .edit("secrets", NS, "c-kubeconfig", |secret| secret["metadata"]["labels"] = json!({"rotated": "yes"}))
        .unwrap();
    change(&server, CLAIMS, "m1", &json!({"status": {"failureDomain": "rack-2"}}));
    rest(&server, &site).await;
    assert_eq!(cost(&server, &site).kubeconfigs, 2);
    assert!(site.is_open());
    server.delete("secrets", NS, "c-kubeconfig");
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(!site.is_open(), "keys are not kept longer than their Secret");
}
