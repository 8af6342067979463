//! A claim and its host go to another management cluster, as `clusterctl move` takes them there.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use claims::config::Config;
use serde_json::{Value, json};
use sim::server::{Action, EventAction, Server};

use crate::objects::{
    CLAIMS, HOSTS, INFRA, at, claim, condition, copies, deployment, edit, held, hosts, policy, secrets,
};
use crate::site::Site;

const CLUSTERS: &str = "clusters.cluster.x-k8s.io";
const BLOCK: &str = "/metadata/annotations/clusterctl.cluster.x-k8s.io~1block-move";
const PAUSED: &str = "/metadata/annotations/baremetalhost.metal3.io~1paused";
const STATUS: &str = "/metadata/annotations/baremetalhost.metal3.io~1status";

fn cluster(namespace: &str, paused: bool) -> Value {
    json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "metadata": {"namespace": namespace, "name": "village"}, "spec": {"paused": paused}})
}

fn pause(server: &Server, namespace: &str, paused: bool) {
    edit(server, CLUSTERS, namespace, "village", &json!({"spec": {"paused": paused}}));
}

/// A claim of a cluster, beside its host.
fn member(namespace: &str) -> Value {
    let mut claim = claim(namespace, "c");
    claim["metadata"]["labels"] = json!({"cluster.x-k8s.io/cluster-name": "village"});
    claim["spec"]["image"] = json!({"url": "https://images/village", "checksum": "https://images/sums"});
    claim
}

fn home(server: &Server) {
    hosts(server, &["h1"]);
    server.put(cluster(INFRA, false)).unwrap();
    server.put(member(INFRA)).unwrap();
}

/// What a move makes of an object: a new one without uid, version and status.
fn carried(mut object: Value) -> Value {
    for field in ["uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "ownerReferences"] {
        object["metadata"].as_object_mut().unwrap().remove(field);
    }
    object.as_object_mut().unwrap().remove("status");
    object
}

fn get(site: &Site, resource: &str, name: &str) -> Value {
    site.server.get(resource, INFRA, name).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_claim_and_its_host_travel_and_nothing_is_deployed_again() {
    let from = Site::new(home);
    from.until_ready(INFRA, "c").await;
    for (resource, name) in [(CLAIMS, "c"), (HOSTS, "h1")] {
        assert!(get(&from, resource, name).pointer(BLOCK).is_some(), "a move waits for {name}");
    }
    assert_eq!(condition(&from.claim(INFRA, "c"), "Movable"), "False/NotPausedYet");
    pause(&from.server, INFRA, true);
    from.until_condition(INFRA, "c", "Movable", "True/SameNamespace").await;
    from.until("the move may begin", |server| {
        let open = |resource, name| server.get(resource, INFRA, name).unwrap().pointer(BLOCK).is_none();
        open(CLAIMS, "c") && open(HOSTS, "h1")
    })
    .await;
    let host = get(&from, HOSTS, "h1");
    assert_eq!(at(&host, PAUSED), "metal3.io/hostclaim");
    assert!(host["spec"]["consumerRef"].get("uid").is_none(), "the uid will not be true there");
    let status: Value = serde_json::from_str(at(&host, STATUS)).unwrap();
    assert_eq!(status["provisioning"]["state"], "provisioned");
    assert!(status.get("hardware").is_none());

    // There it is found again, with an empty status, and goes on as it was.
    let (claim, machine) = (get(&from, CLAIMS, "c"), from.yonder.machines.get(INFRA, "h1").unwrap());
    let to = Site::new(|server| {
        policy(server, &json!({"hostClaimNamespaces": {"names": []}}));
        server.put(cluster(INFRA, true)).unwrap();
        server.put(carried(host.clone())).unwrap();
        server.put(carried(claim.clone())).unwrap();
    });
    to.until_condition(INFRA, "c", "Paused", "True/Paused").await;
    pause(&to.server, INFRA, false);
    to.until_ready(INFRA, "c").await;
    let (moved, there) = (get(&to, CLAIMS, "c"), get(&to, HOSTS, "h1"));
    assert_ne!(moved["metadata"]["uid"], claim["metadata"]["uid"]);
    assert_eq!(there["spec"]["consumerRef"]["uid"], moved["metadata"]["uid"]);
    assert_eq!(there["status"]["provisioning"]["state"], "provisioned");
    assert!(there.pointer(PAUSED).is_none() && there.pointer(BLOCK).is_some() && moved.pointer(BLOCK).is_some());
    let after = to.yonder.machines.get(INFRA, "h1").unwrap();
    assert_eq!((after.power_ons, after.power_offs, machine.power), (0, 0, true), "nobody touched the machine");
    assert_eq!(there["spec"]["image"], host["spec"]["image"]);

    // Here what was moved goes, and nothing is released.
    let mark = json!({"metadata": {"annotations": {"clusterctl.cluster.x-k8s.io/delete-for-move": ""}}});
    for (resource, name) in [(CLAIMS, "c"), (HOSTS, "h1")] {
        edit(&from.server, resource, INFRA, name, &mark);
    }
    assert!(from.server.delete(CLAIMS, INFRA, "c"));
    from.until_gone(INFRA, "c").await;
    tokio::time::sleep(Duration::from_secs(1200)).await;
    let left = get(&from, HOSTS, "h1");
    assert_eq!(left["spec"], host["spec"]);
    assert_eq!(from.yonder.machines.get(INFRA, "h1").unwrap(), machine);
    // And there it can be given back as any other.
    assert!(to.server.delete(CLAIMS, INFRA, "c"));
    to.until_gone(INFRA, "c").await;
    to.rest().await;
}

#[tokio::test(start_paused = true)]
async fn a_move_that_does_not_take_place_leaves_everything_as_it_was() {
    let site = Site::new(home);
    site.until_ready(INFRA, "c").await;
    let before = get(&site, HOSTS, "h1");
    pause(&site.server, INFRA, true);
    site.until_condition(INFRA, "c", "Movable", "True/SameNamespace").await;
    pause(&site.server, INFRA, false);
    site.until("the host is as it was", |server| {
        let host = server.get(HOSTS, INFRA, "h1").unwrap();
        host["spec"] == before["spec"] && host.pointer(PAUSED).is_none() && host.pointer(BLOCK).is_some()
    })
    .await;
    site.until_ready(INFRA, "c").await;
    site.until("the claim holds a move up again", |server| {
        server.get(CLAIMS, INFRA, "c").unwrap().pointer(BLOCK).is_some()
    })
    .await;
    site.rest().await;
    assert_eq!(site.power_offs(&get(&site, HOSTS, "h1")), 0);
}

/// The process ends after its first or second write to the host since the pause: the uid is off and the way is shut, or the
/// host's way is open and the claim's is not.
#[tokio::test(start_paused = true)]
async fn stopped_between_taking_the_uid_off_and_opening_the_way_the_next_one_goes_on_or_takes_it_back() {
    for (writes, called_off) in [(1, false), (1, true), (2, false), (2, true)] {
        let mut site = Site::new(home);
        site.until_ready(INFRA, "c").await;
        let before = get(&site, HOSTS, "h1");
        let seen = Arc::new(AtomicUsize::new(0));
        site.line().script(move |request| {
            let ours = request.method == "PATCH" && request.path.ends_with("/baremetalhosts/h1");
            let last = ours && seen.fetch_add(1, Ordering::SeqCst) + 1 == writes;
            last.then_some(Action::HangAfter).into_iter().collect()
        });
        pause(&site.server, INFRA, true);
        site.until("the last write of the process is there", |server| {
            let host = server.get(HOSTS, INFRA, "h1").unwrap();
            host["spec"]["consumerRef"].get("uid").is_none() && host.pointer(BLOCK).is_some() == (writes == 1)
        })
        .await;
        site.kill_room();
        assert!(get(&site, CLAIMS, "c").pointer(BLOCK).is_some(), "the move still waits for the claim");
        if called_off {
            pause(&site.server, INFRA, false);
        }
        site.add_room(Config::default());
        if called_off {
            site.until("everything is as it was", |server| {
                let (host, claim) = (server.get(HOSTS, INFRA, "h1").unwrap(), server.get(CLAIMS, INFRA, "c").unwrap());
                let held = host.pointer(BLOCK).is_some() && claim.pointer(BLOCK).is_some();
                held && host["spec"] == before["spec"] && host.pointer(PAUSED).is_none()
            })
            .await;
            site.until_ready(INFRA, "c").await;
            site.rest().await;
        } else {
            site.until_condition(INFRA, "c", "Movable", "True/SameNamespace").await;
            site.until("the move may begin", |server| {
                let open = |resource, name| server.get(resource, INFRA, name).unwrap().pointer(BLOCK).is_none();
                open(CLAIMS, "c") && open(HOSTS, "h1")
            })
            .await;
            let host = get(&site, HOSTS, "h1");
            assert!(host["spec"]["consumerRef"].get("uid").is_none() && host.pointer(STATUS).is_some());
            assert_eq!(host["spec"]["image"], before["spec"]["image"]);
        }
        assert_eq!(site.power_offs(&get(&site, HOSTS, "h1")), 0, "nobody touched the machine");
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_whose_host_is_elsewhere_is_never_moved() {
    let site = Site::new(|server| {
        hosts(server, &["h1"]);
        policy(server, &json!({}));
        secrets(server, "red");
        server.put(cluster("red", false)).unwrap();
        let mut claim = deployment("red", "c");
        claim["metadata"]["labels"] = json!({"cluster.x-k8s.io/cluster-name": "village"});
        server.put(claim).unwrap();
    });
    site.until_ready("red", "c").await;
    assert_eq!(condition(&site.claim("red", "c"), "Movable"), "False/HostInOtherNamespace");
    pause(&site.server, "red", true);
    site.until_condition("red", "c", "Paused", "True/Paused").await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(site.claim("red", "c").pointer(BLOCK).is_some());
    let host = held(&site.server, "red", "c").remove(0);
    assert!(host.pointer(BLOCK).is_some() && host.pointer(PAUSED).is_none() && host.pointer(STATUS).is_none());
    assert_eq!(copies(&site.server).len(), 3);
    // The mark of a move alone, which a tenant can write, lets nothing go.
    let mark = json!({"metadata": {"annotations": {"clusterctl.cluster.x-k8s.io/delete-for-move": ""}}});
    edit(&site.server, CLAIMS, "red", "c", &mark);
    pause(&site.server, "red", false);
    assert!(site.server.delete(CLAIMS, "red", "c"));
    site.until_gone("red", "c").await;
    assert_eq!(site.yonder.machines.disk(INFRA, "h1"), None, "it was released as any other");
    site.rest().await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_seen_before_its_paused_cluster_is_left_alone() {
    let site = Site::new(|server| hosts(server, &["h1"]));
    site.until("the room watches", |server| server.open_watches() > 7).await;
    // The room hears of the claim, and not yet of its cluster.
    site.line().script_events(|_, resource, _| EventAction { drop: resource == CLUSTERS, ..EventAction::default() });
    site.server.put(cluster(INFRA, true)).unwrap();
    site.server.put(member(INFRA)).unwrap();
    site.until_condition(INFRA, "c", "Paused", "True/Paused").await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(get(&site, HOSTS, "h1")["spec"]["consumerRef"], Value::Null);
}
