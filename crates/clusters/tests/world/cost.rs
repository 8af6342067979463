//! What clusters cost the API server, request by request: the figures are exact, so that one request more shows.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::json;
use sim::server::{Action, Entry, Outcome, Rule, Server};

use crate::site::*;

/// What a request of the process is; nothing for those of watches and for lists, with which it begins.
fn verb(entry: &Entry) -> Option<&'static str> {
    let plural = entry.resource.split('.').next().unwrap_or_default();
    let whole = entry.path.ends_with(&format!("/{plural}"));
    Some(match entry.method.as_str() {
        "GET" if whole => return None,
        "GET" => "read",
        "POST" => "create",
        "PATCH" if entry.path.ends_with("/status") => "status",
        "PATCH" => "patch",
        "DELETE" => "delete",
        other => panic!("{other} {}", entry.path),
    })
}

/// Requests of the process by verb and resource, events apart.
fn asked(server: &Server, client: &str) -> BTreeMap<String, usize> {
    let mut all = BTreeMap::new();
    for entry in server.log().iter().filter(|entry| entry.client == client && entry.resource != EVENTS) {
        assert!(!matches!(entry.outcome, Outcome::Answered(409 | 422)), "{} {}", entry.method, entry.path);
        if let Some(verb) = verb(entry).filter(|_| !entry.resource.is_empty()) {
            *all.entry(format!("{verb} {}", entry.resource)).or_default() += 1;
        }
    }
    all
}

fn table(rows: &[(&str, &str, usize)]) -> BTreeMap<String, usize> {
    rows.iter().map(|(verb, resource, count)| (format!("{verb} {resource}"), *count)).collect()
}

#[tokio::test(start_paused = true)]
async fn a_cluster_costs_each_write_once_and_each_read_when_something_has_changed() {
    let (server, site) = world();
    apply(&server, &site);
    let _process = site.start(&server, site.config());
    ready(&server, "prod").await;
    pass(60).await;
    let wanted = table(&[
        // Everything that is generated, once.
        ("patch", PROVIDER, 1),
        ("create", TEMPLATES, 2),
        ("patch", PLANES, 1),
        ("patch", CAPI, 1),
        ("create", CONFIGS, 1),
        ("patch", GROUPS, 1),
        ("patch", CHECKS, 2),
        // Its finalizer and its mark, and what of it is told: five times, because Cluster API takes its time here.
        ("patch", CLUSTERS, 2),
        ("status", CLUSTERS, 5),
        // That it is an owner, and what is said of both.
        ("patch", DATACENTERS, 1),
        ("status", DATACENTERS, 1),
        ("patch", MACHINES, 1),
        ("status", MACHINES, 1),
        // That it is not there yet; what others have changed since it was written.
        ("read", CAPI, 2),
        ("read", PLANES, 1),
        // Before something is said of it, and before something follows from both.
        ("read", MACHINES, 2),
        ("read", DATACENTERS, 1),
        // Keys of CloudStack for the datacenter and for the cluster; the way in, and the manifest, for two looks.
        ("read", "secrets", 3),
        ("read", "configmaps", 1),
    ]);
    let within = table(&[
        // That the plugin is not there; then that all of it is, without its check, which comes with an upgrade.
        ("read", "daemonsets.apps", 2),
        ("read", "deployments.apps", 1),
        ("read", "configmaps", 1),
        ("patch", "daemonsets.apps", 1),
        ("patch", "deployments.apps", 1),
        ("patch", "configmaps", 1),
    ]);
    assert_eq!((asked(&server, "clusters"), asked(&site.inside, "inside")), (wanted, within));
}

#[tokio::test(start_paused = true)]
async fn clusters_that_come_together_hold_up_nobody_and_wait_for_their_endpoints_together() {
    const MANY: usize = 40;
    let (server, site) = world();
    server.put(datacenter(&site, "dc")).unwrap();
    server.put(machine("m", "kube-1.31", "Medium Instance")).unwrap();
    site.ground.takes.store(500, Ordering::SeqCst);
    let _process = site.start(&server, site.config());
    pass(5).await;
    // A server takes its time, or nobody would ever meet.
    server.inject(Rule::any().method("PATCH").client("clusters").always(), Action::Delay(Duration::from_millis(10)));
    let begun = (server.clock())();
    for number in 0..MANY {
        let mut one = cluster(&format!("c{number}"));
        one["spec"]["controlPlaneConfiguration"]["endpoint"]["host"] = json!(format!("172.16.1.{number}"));
        server.put(one).unwrap();
    }
    let made = |server: &Server| (0..MANY).all(|number| server.get(CAPI, SYSTEM, &format!("c{number}")).is_some());
    assert!(server.wait_until(LIMIT, made).await);
    let took = Duration::try_from((server.clock())().duration_since(begun)).unwrap();
    // There are four workers: if each waited for an endpoint, that alone would take five seconds.
    assert!(took < Duration::from_secs(3), "{took:?}");
    for (kind, name) in [(DATACENTERS, "dc"), (MACHINES, "m")] {
        let owners = server.get(kind, NS, name).unwrap()["metadata"]["ownerReferences"].as_array().unwrap().len();
        assert_eq!(owners, MANY, "{kind}");
        // Nobody's write is refused for that of another, so that nobody writes twice.
        let patches = asked(&server, "clusters")[&format!("patch {kind}")];
        assert!(patches <= MANY, "{patches} patches of {kind}");
    }
}
