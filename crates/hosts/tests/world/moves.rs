//! Moving machines to another management cluster at any moment: annotations and specs travel, statuses and uids do not.

use std::time::Duration;

use serde_json::{Value, json};
use sim::ec2::world::faults::Fault;
use sim::server::Server;

use crate::site::*;

/// What a move takes along of an object.
fn packed(object: &Value) -> Value {
    let mut copy = object.clone();
    if object["kind"] == "Machine" || object["kind"] == "AWSMachine" {
        copy.as_object_mut().unwrap().remove("status");
    }
    let metadata = copy["metadata"].as_object_mut().unwrap();
    for field in ["uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "deletionTimestamp"] {
        metadata.remove(field);
    }
    copy
}

/// Moves everything to a fresh server, as clusterctl does: paused there and here, then gone here.
fn moved(from: &Server, site: &Site) -> Server {
    let to = Server::with_clock(7, from.clock());
    install(&to, site);
    for (resource, name) in [(CLUSTERS, "c"), (CLOUDS, "c")] {
        to.delete(resource, NS, name);
    }
    for resource in ["secrets", CLUSTERS, CLOUDS] {
        for object in from.list(resource, NS) {
            to.put(packed(&object)).unwrap();
        }
    }
    for machine in from.list(MACHINES, NS) {
        let owner = from.get(OWNERS, NS, machine["metadata"]["name"].as_str().unwrap()).unwrap();
        put_under(&to, packed(&owner), packed(&machine));
    }
    to
}

fn pause(server: &Server, paused: bool) {
    server.edit(CLUSTERS, NS, "c", |object| object["spec"]["paused"] = json!(paused)).unwrap();
}

/// Moves after `effects` effects on the first server; answers whether there were that many.
async fn story(effects: u64, deleting: bool) -> bool {
    let (server, site) = world();
    let begun = server.effects();
    add(&server, dynamic(&site, "m"));
    let process = site.start(&server, site.config());
    if deleting {
        assert!(server.wait_until(LIMIT, |s| is_ready(s, "m")).await);
        pass(60).await;
        server.delete(MACHINES, NS, "m");
    }
    let base = if deleting { server.effects() } else { begun };
    let mut waited = Duration::ZERO;
    let step = Duration::from_millis(10);
    while server.effects() < base + effects {
        if waited > Duration::from_secs(1_800) {
            return false;
        }
        tokio::time::sleep(step).await;
        waited += step;
    }
    if is_gone(&server, "m") {
        return false;
    }
    pause(&server, true);
    pass(120).await;
    drop(process);
    let other = moved(&server, &site);
    let was_deleting = deleting;
    // What the first management cluster had is gone, finalizers and all.
    site.check(&[&server, &other]).unwrap();
    let _process = site.start(&other, site.config());
    pass(60).await;
    pause(&other, false);
    if !was_deleting {
        assert!(
            other.wait_until(LIMIT, |s| is_ready(s, "m")).await,
            "after {effects}: {:?}",
            other.get(MACHINES, NS, "m")
        );
        site.check(&[&other]).unwrap();
        assert_eq!((site.ec2.hosts().len(), site.ec2.instances().len()), (1, 1), "after {effects}");
        let system = other.get("namespaces", "", "kube-system").unwrap()["metadata"]["uid"].clone();
        let told = |_: &Server| {
            let paid = site.paid();
            paid.first().and_then(|host| host.tags.get("hosts.berth.dev/management-cluster").cloned()).map(Value::from)
                == Some(system.clone())
        };
        assert!(other.wait_until(LIMIT, told).await, "after {effects}: the host names its new keeper");
    }
    other.delete(MACHINES, NS, "m");
    assert!(other.wait_until(LIMIT, |s| is_gone(s, "m")).await, "after {effects}: {:?}", other.get(MACHINES, NS, "m"));
    assert_eq!((site.paid().len(), site.alive().len()), (0, 0), "after {effects}");
    true
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_is_moved_after_any_step_of_its_making_is_not_made_twice() {
    let mut effects = 0;
    while effects < 40 && story(effects, false).await {
        effects += 1;
    }
    assert!(effects >= 6, "too few steps: {effects}");
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_is_moved_after_any_step_of_its_end_is_taken_down_there() {
    let mut effects = 0;
    while effects < 40 && story(effects, true).await {
        effects += 1;
    }
    assert!(effects >= 3, "too few steps: {effects}");
}

#[tokio::test(start_paused = true)]
async fn a_host_that_waits_for_its_instance_names_its_new_keeper_after_a_move() {
    let (server, site) = world();
    site.ec2.script(Fault::refuse("RunInstances", 400, "InsufficientCapacityOnHost").forever());
    add(&server, dynamic(&site, "m"));
    let process = site.start(&server, site.config());
    assert!(server.wait_until(LIMIT, |s| phase(s, "m") == "Allocated").await);
    pause(&server, true);
    pass(60).await;
    drop(process);
    let other = moved(&server, &site);
    let _process = site.start(&other, site.config());
    pause(&other, false);
    let system = other.get("namespaces", "", "kube-system").unwrap()["metadata"]["uid"].clone();
    let told = |_: &Server| {
        site.paid()[0].tags.get("hosts.berth.dev/management-cluster").map(String::as_str) == system.as_str()
    };
    assert!(other.wait_until(Duration::from_secs(1_200), told).await, "the old keeper would take it for an orphan");
    assert_eq!((site.alive().len(), site.ec2.hosts().len()), (0, 1));
}

/// The index does not hear of a pause, as when a watch hangs, and the machine is copied away meanwhile.
#[tokio::test(start_paused = true)]
async fn nothing_is_asked_for_once_the_server_says_that_the_cluster_is_paused() {
    let (server, site) = world();
    put_under(&server, owner("m"), dynamic(&site, "m"));
    let _process = site.start_deaf(&server, site.config(), CLUSTERS);
    assert!(server.wait_until(LIMIT, |s| reason(s, "m", "InstanceReady") == "InstanceProvisionFailed").await);
    pause(&server, true);
    server.put(secret("m")).unwrap();
    assert!(server.wait_until(LIMIT, |s| phase(s, "m") == "Intended").await, "it has not heard of the pause");
    pass(600).await;
    assert_eq!((site.ec2.calls("AllocateHosts"), site.ec2.hosts().len()), (0, 0));
    pause(&server, false);
    assert!(server.wait_until(LIMIT, |s| is_ready(s, "m")).await);
}
