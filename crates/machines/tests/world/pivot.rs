//! A cluster goes to another management cluster with its machines, claims and hosts, as `clusterctl move` takes it there.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};
use sim::metal::seed;
use sim::server::{Key, Server};

use crate::real::{HOSTS, start};
use crate::site::*;

const BLOCK: &str = "/metadata/annotations/clusterctl.cluster.x-k8s.io~1block-move";
const MARK: &str = "clusterctl.cluster.x-k8s.io/delete-for-move";
const SEEN: &str = "clusterctl.cluster.x-k8s.io";
const MOVED: &str = "clusterctl.cluster.x-k8s.io/move";
const MOVED_WITH_ALL: &str = "clusterctl.cluster.x-k8s.io/move-hierarchy";

fn text<'v>(object: &'v Value, path: &str) -> &'v str {
    object.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

fn uid(object: &Value) -> String {
    text(object, "/metadata/uid").to_owned()
}

fn owners(object: &Value) -> Vec<Value> {
    object.pointer("/metadata/ownerReferences").and_then(Value::as_array).cloned().unwrap_or_default()
}

/// What `clusterctl move` takes along, owners first: what a Cluster or something labelled so owns, by reference or by the
/// naming of its Secrets, and what is labelled itself; of kinds it is told to look at.
fn travellers(server: &Server) -> Vec<(Key, Value)> {
    let definitions = server.list("customresourcedefinitions.apiextensions.k8s.io", "");
    let labels = |object: &Value| object.pointer("/metadata/labels").and_then(Value::as_object).cloned();
    let kinds: BTreeMap<String, _> = definitions
        .iter()
        .map(|definition| (text(definition, "/metadata/name").to_owned(), labels(definition).unwrap_or_default()))
        .collect();
    // Kinds of Cluster API itself have no definition here.
    let seen = |key: &Key| {
        let known = key.resource.ends_with(".cluster.x-k8s.io") || key.resource == "secrets";
        kinds.get(&key.resource).map_or(known, |labels| labels.contains_key(SEEN))
    };
    let says = |key: &Key, object: &Value, label: &str| {
        let of_kind = kinds.get(&key.resource).is_some_and(|labels| labels.contains_key(label));
        of_kind || labels(object).is_some_and(|labels| labels.contains_key(label))
    };
    let all: Vec<(Key, Value)> =
        server.objects().into_iter().filter(|(key, _)| key.namespace == NS && seen(key)).collect();
    let is_root = |key: &Key, object: &Value| key.resource == CLUSTERS || says(key, object, MOVED_WITH_ALL);
    let is_named = |key: &Key| key.resource == "secrets" && key.name == "c-kubeconfig";
    let mut taken: Vec<(Key, Value)> = all.iter().filter(|(key, object)| is_root(key, object)).cloned().collect();
    loop {
        let uids: BTreeSet<String> = taken.iter().map(|(_, object)| uid(object)).collect();
        let next = all.iter().find(|(_, object)| {
            let follows = owners(object).iter().any(|owner| uids.contains(text(owner, "/uid")));
            follows && !uids.contains(&uid(object))
        });
        match next {
            Some(next) => taken.push(next.clone()),
            None => break,
        }
    }
    let uids: BTreeSet<String> = taken.iter().map(|(_, object)| uid(object)).collect();
    let loose = all
        .into_iter()
        .filter(|(key, object)| (says(key, object, MOVED) || is_named(key)) && !uids.contains(&uid(object)));
    taken.extend(loose.collect::<Vec<_>>());
    taken
}

/// The same objects elsewhere: without status, with new uids, and with owners by their new uids.
fn carry(all: &[(Key, Value)], to: &Server) {
    let mut renamed: BTreeMap<String, String> = BTreeMap::new();
    for (_, object) in all {
        let mut copy = object.clone();
        copy.as_object_mut().unwrap().remove("status");
        let owners: Vec<Value> = owners(object)
            .into_iter()
            .filter_map(|mut owner| {
                owner["uid"] = json!(renamed.get(text(&owner, "/uid"))?);
                Some(owner)
            })
            .collect();
        let meta = copy["metadata"].as_object_mut().unwrap();
        for gone in ["uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "ownerReferences"] {
            meta.remove(gone);
        }
        copy["metadata"]["ownerReferences"] = json!(owners);
        let made = to.put(copy).unwrap();
        renamed.insert(uid(object), uid(&made));
    }
}

/// Takes what was moved away, what is owned first: marked, deleted, and let go whatever holds it.
async fn clear(all: &[(Key, Value)], from: &Server) {
    for (key, _) in all.iter().rev() {
        let Key { resource, namespace, name } = key;
        if from.edit(resource, namespace, name, |object| object["metadata"]["annotations"][MARK] = json!("")).is_err() {
            continue;
        }
        from.delete(resource, namespace, name);
        // Whoever holds it has time to do what it must not do.
        tokio::time::sleep(Duration::from_secs(20)).await;
        let _ = from.edit(resource, namespace, name, |object| {
            drop(object["metadata"].as_object_mut().unwrap().remove("finalizers"));
        });
    }
}

fn base() -> Server {
    let server = Server::new(1);
    for definition in sim::metal::kinds::definitions() {
        server.put(definition).unwrap();
    }
    define(&server);
    kinds(&server);
    server.namespace(NS);
    server
}

/// A bootstrap cluster: claims and hosts in one namespace, hosts labelled to travel with what they own.
fn bootstrap() -> (Server, Site) {
    let server = base();
    let site = Site::new(&server.clock(), None);
    prepare(&server);
    for name in ["h1", "h2"] {
        let labels = json!({"size": "large", MOVED_WITH_ALL: ""});
        let host = server.put(seed::settled(&seed::host(NS, name, &labels), (server.clock())())).unwrap();
        let by = [json!({"apiVersion": host["apiVersion"], "kind": host["kind"], "name": name, "uid": uid(&host)})];
        server
            .put(json!({"apiVersion": "v1", "kind": "Secret", "stringData": {"username": "u", "password": "p"},
                "metadata": {"name": format!("{name}-bmc"), "namespace": NS, "ownerReferences": by}}))
            .unwrap();
        server
            .put(json!({"apiVersion": "metal3.io/v1alpha1", "kind": "HardwareData",
                "metadata": {"name": name, "namespace": NS, "ownerReferences": by}, "spec": {}}))
            .unwrap();
    }
    server
        .put(json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "Metal3DataTemplate",
            "metadata": {"name": "names", "namespace": NS},
            "spec": {"clusterName": "c", "metaData": {
                "indexes": [{"key": "index", "prefix": "node-"}],
                "objectNames": [{"key": "host", "object": "baremetalhost"}]}}}))
        .unwrap();
    machine(&server, "m1", &json!({"dataTemplate": {"name": "names"}}));
    let cluster = server.get(CLUSTERS, NS, "c").unwrap();
    let owning =
        server.edit(OWNERS, NS, "m1", |owning| owning["metadata"]["ownerReferences"] = json!([owner(&cluster)]));
    let by = owner(&owning.unwrap());
    server.edit("secrets", NS, "boot", |secret| secret["metadata"]["ownerReferences"] = json!([by])).unwrap();
    (server, site)
}

fn pause(server: &Server, paused: bool) {
    change(server, CLUSTERS, "c", &json!({"spec": {"paused": paused}}));
}

#[tokio::test(start_paused = true)]
async fn a_cluster_moves_with_its_machines_claims_and_hosts_and_nothing_is_deployed_or_released() {
    let (source, site) = bootstrap();
    let yonder = start(&source, &site, NS);
    ready(&source, "m1").await;
    let host = text(&source.get(CLAIMS, NS, "m1").unwrap(), "/status/bareMetalHost/name").to_owned();
    let node = site.inside.get(NODES, "", &host).unwrap();
    let (disks, running) = (yonder.changes().len(), yonder.get(NS, &host).unwrap());
    let told = source.get("secrets", NS, "m1-metadata").unwrap();

    // Nothing may go before everything that must survive is written down.
    let held =
        |server: &Server| travellers(server).iter().filter(|(_, object)| object.pointer(BLOCK).is_some()).count();
    assert_eq!(held(&source), 2, "a move waits for the claim and for its host");
    pause(&source, true);
    until(&source, "the move may begin", |server| held(server) == 0).await;
    let all = travellers(&source);
    let names: BTreeSet<String> = all.iter().map(|(key, _)| format!("{} {}", key.resource, key.name)).collect();
    for wanted in [
        "clusters.cluster.x-k8s.io c",
        "machines.cluster.x-k8s.io m1",
        "metal3machines.infrastructure.cluster.x-k8s.io m1",
        "metal3dataclaims.infrastructure.cluster.x-k8s.io m1",
        "metal3datatemplates.infrastructure.cluster.x-k8s.io names",
        "hostclaims.metal3.io m1",
        "baremetalhosts.metal3.io h1",
        "baremetalhosts.metal3.io h2",
        "hardwaredata.metal3.io h1",
        "secrets h1-bmc",
        "secrets boot",
        "secrets m1-metadata",
    ] {
        assert!(names.contains(wanted), "{wanted} is not among {names:#?}");
    }

    let target = base();
    let there = start(&target, &site, NS);
    carry(&all, &target);
    tokio::time::sleep(Duration::from_secs(60)).await;
    clear(&all, &source).await;
    tokio::time::sleep(Duration::from_secs(1200)).await;
    assert!(source.list(HOSTS, NS).is_empty() && source.list(CLAIMS, NS).is_empty());
    assert_eq!(yonder.changes().len(), disks, "no disk was written or wiped where it came from");

    pause(&target, false);
    // What Cluster API says of a Cluster once its infrastructure is there, which is status too and did not travel.
    until(&target, "the infrastructure is ready", |server| {
        let place = server.get(PLACES, NS, "c").unwrap();
        place["status"]["initialization"]["provisioned"] == true
    })
    .await;
    change(&target, CLUSTERS, "c", &json!({"status": {"initialization": {"infrastructureProvisioned": true}}}));
    ready(&target, "m1").await;
    until(&target, "a move is held up again", |server| held(server) == 2).await;
    rest(&target, &site).await;
    let (machine, claim) = (shown(&target, "m1"), target.get(CLAIMS, NS, "m1").unwrap());
    let bound = target.get(HOSTS, NS, &host).unwrap();
    assert_eq!(machine["spec"]["providerID"], "metal3://team/m1/m1");
    assert_eq!(claim["metadata"]["ownerReferences"][0]["uid"], machine["metadata"]["uid"]);
    assert_eq!(claim["status"]["bareMetalHost"]["name"], json!(host));
    assert_eq!(bound["spec"]["consumerRef"]["uid"], claim["metadata"]["uid"]);
    assert_eq!(text(&bound, "/status/provisioning/state"), "provisioned");
    assert_eq!(target.get("secrets", NS, "m1-metadata").unwrap()["data"], told["data"], "what it was told is the same");
    let after = there.get(NS, &host).unwrap();
    assert_eq!((after.power_ons, after.power_offs, after.power), (0, 0, running.power), "nobody touched the machine");
    assert_eq!(after.disk.and_then(|disk| disk.image), running.disk.and_then(|disk| disk.image));
    assert!(there.changes().is_empty(), "no disk was written or wiped where it went: {:?}", there.changes());
    let same = site.inside.get(NODES, "", &host).unwrap();
    assert_eq!((&same["metadata"]["uid"], &same["spec"]), (&node["metadata"]["uid"], &node["spec"]), "the same Node");

    // There it is a machine like any other.
    target.delete(MACHINES, NS, "m1");
    until(&target, "the machine is gone", |server| server.get(MACHINES, NS, "m1").is_none()).await;
    until(&target, "its host is free", |server| {
        let host = server.get(HOSTS, NS, &host).unwrap();
        host["spec"]["consumerRef"].is_null() && text(&host, "/status/provisioning/state") == "available"
    })
    .await;
    assert_eq!(there.disk(NS, &host), None);
}
