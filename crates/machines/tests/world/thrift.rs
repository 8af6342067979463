//! What a machine costs the servers on its way from nothing to provisioned: each request that its steps need, and no other.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use sim::metal::seed;
use sim::server::{Outcome, Server};

use crate::real::{HOSTS, INFRA, rooms, site_of};
use crate::site::*;

const POLICIES: &str = "hostdeploypolicies.metal3.io";

/// Requests by method and resource.
type Requests = BTreeMap<String, usize>;

/// So many hosts that take so long to deploy, and the Node that each becomes.
fn world_of(hosts: usize, deploying: Duration) -> (Server, Site) {
    let script = json!({"delayMs": {"provisioning": u64::try_from(deploying.as_millis()).unwrap()}}).to_string();
    let host = |number: usize| {
        let mut host = seed::host(INFRA, &format!("h{number:02}"), &json!({"size": "large"}));
        host["metadata"]["annotations"] = json!({"berth.dev/sim": script});
        host
    };
    let (server, site) = site_of((0..hosts).map(host).collect());
    for host in server.list(HOSTS, INFRA) {
        let labels = json!({"metal3.io/uuid": host["metadata"]["uid"]});
        let meta = json!({"name": host["metadata"]["name"], "labels": labels});
        site.inside.put(json!({"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": {}})).unwrap();
    }
    (server, site)
}

/// What both rooms asked of a server, watches, events and discovery apart.
fn asked(server: &Server, client: &str, from: usize) -> Requests {
    let mut all = Requests::new();
    for entry in server.log().iter().skip(from).filter(|entry| entry.client == client) {
        let apart = entry.resource.is_empty() || entry.resource.starts_with("events");
        if apart || entry.query.contains("watch=true") {
            continue;
        }
        assert!(matches!(entry.outcome, Outcome::Answered(200 | 201)), "nothing is refused: {entry:?}");
        let part = if entry.path.ends_with("/status") { "/status" } else { "" };
        *all.entry(format!("{} {}{part}", entry.method, entry.resource)).or_default() += 1;
    }
    all
}

/// So many machines come up together; what that costs, on the management server and inside of the cluster.
async fn cost(machines: usize, deploying: Duration) -> (Requests, Requests) {
    let (server, site) = world_of(machines, deploying);
    rooms(&server, &site, INFRA);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let (from, inside) = (server.log().len(), site.inside.log().len());
    for number in 0..machines {
        machine(&server, &format!("m{number:02}"), &json!({}));
    }
    until(&server, "all machines are ready", |server| {
        let up = |machine: &Value| condition(machine, "Ready") == "True/Ready";
        server.list(MACHINES, NS).iter().filter(|machine| up(machine)).count() == machines
    })
    .await;
    rest(&server, &site).await;
    (asked(&server, "berth", from), asked(&site.inside, "inside", inside))
}

/// What so many machines need. Admission, which nobody plays here, would spare each the finalizer of its claim, and that a
/// move must wait for it.
fn needed(machines: usize) -> Requests {
    let each = [
        // Finalizer and intent; provider id; what became of it.
        ("PATCH metal3machines.infrastructure.cluster.x-k8s.io", 2),
        ("PATCH metal3machines.infrastructure.cluster.x-k8s.io/status", 1),
        // The claim, its finalizer, that a move must wait, what is to run; the intent, the host, that it runs.
        ("POST hostclaims.metal3.io", 1),
        ("PATCH hostclaims.metal3.io", 3),
        ("PATCH hostclaims.metal3.io/status", 3),
        // A claim that was not just written is looked at before a Secret is copied for it, and before its host is told.
        ("GET hostclaims.metal3.io", 2),
        ("GET baremetalhosts.metal3.io", 1),
        ("GET secrets", 1),
        // The room of claims has no lease here, so it makes a copy empty and fills it then.
        ("POST secrets", 1),
        ("PATCH secrets", 1),
        // Whose it is, and what is to run.
        ("PATCH baremetalhosts.metal3.io", 2),
    ];
    each.into_iter().map(|(what, count)| (what.to_owned(), count * machines)).collect()
}

/// Takes out what all machines share, and makes sure that it is little.
fn apart(requests: &mut Requests) {
    let told = requests.remove(&format!("PATCH {POLICIES}/status")).unwrap_or_default();
    assert!((1..=2).contains(&told), "{told} writes of the policy");
    // The kubeconfig of the cluster is a Secret too.
    *requests.get_mut("GET secrets").unwrap() -= 1;
}

#[tokio::test(start_paused = true)]
async fn a_machine_costs_just_the_requests_that_its_steps_need() {
    for machines in [1, 10, 40] {
        let (mut outside, inside) = cost(machines, Duration::from_secs(3)).await;
        apart(&mut outside);
        assert_eq!(outside, needed(machines), "{machines} machines");
        assert_eq!(inside.get("PATCH nodes"), Some(&machines));
        let looks: usize = inside.iter().filter(|(what, _)| what.starts_with("GET")).map(|(_, count)| count).sum();
        assert!(looks <= 3, "{machines} machines: {inside:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_host_that_takes_its_time_is_told_of_once_on_the_way() {
    let (mut outside, _) = cost(1, Duration::from_secs(120)).await;
    apart(&mut outside);
    let mut wanted = needed(1);
    for kind in [CLAIMS, MACHINES] {
        *wanted.get_mut(&format!("PATCH {kind}/status")).unwrap() += 1;
    }
    assert_eq!(outside, wanted);
}
