//! A cluster goes to another management cluster with its claims and addresses, as `clusterctl move` takes it there.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use sim::server::Server;
use vip::config::Config;
use vip::hooks::Answer;

use crate::actors::{Book, ask, dismantle, render};
use crate::leaving::{pass, there, written};
use crate::objects::{
    ADDRESSES, CLAIMS, CLASS, CLASSES, CLUSTERS, DOCKS, NS, POOLS, class, cluster, host, key, name, note, owners, pool,
    uid,
};
use crate::told::Quiet;

/// What travels, owners first: a Cluster with all that it owns, its class, and pools with their addresses, because the
/// definition of pools carries the label for it.
const TRAVELLERS: [(&str, &str); 6] =
    [(CLASSES, NS), (POOLS, ""), (CLUSTERS, NS), (DOCKS, NS), (CLAIMS, NS), (ADDRESSES, NS)];

/// The same objects elsewhere: without status, with new uids, and with owners by their new uids.
fn carry(from: &Server, to: &Server) {
    let mut renamed: BTreeMap<String, String> = BTreeMap::new();
    for (resource, namespace) in TRAVELLERS {
        for object in from.list(resource, namespace) {
            let mut copy = object.clone();
            copy.as_object_mut().unwrap().remove("status");
            let meta = copy["metadata"].as_object_mut().unwrap();
            for gone in ["uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"] {
                meta.remove(gone);
            }
            for owner in copy["metadata"]["ownerReferences"].as_array_mut().into_iter().flatten() {
                owner["uid"] = json!(renamed[owner["uid"].as_str().unwrap()]);
            }
            let made = to.put(copy).unwrap();
            renamed.insert(uid(&object).to_owned(), uid(&made).to_owned());
        }
    }
}

/// Takes away what was moved. Global pools, and the addresses that they own, stay.
fn clear(from: &Server) {
    for (resource, namespace) in [(CLAIMS, NS), (DOCKS, NS), (CLUSTERS, NS), (CLASSES, NS)] {
        for object in from.list(resource, namespace) {
            from.edit(resource, namespace, name(&object), |o| o["metadata"]["finalizers"] = json!([])).unwrap();
            from.delete(resource, namespace, name(&object));
        }
    }
}

/// The provider makes the pool an owner of each of its addresses too.
fn own_by_pools(server: &Server) {
    for address in server.list(ADDRESSES, NS) {
        let pool = server.get(POOLS, "", address["spec"]["poolRef"]["name"].as_str().unwrap()).unwrap();
        let owner =
            json!({"apiVersion": pool["apiVersion"], "kind": pool["kind"], "name": name(&pool), "uid": uid(&pool)});
        let add = |object: &mut Value| object["metadata"]["ownerReferences"].as_array_mut().unwrap().push(owner);
        server.edit(ADDRESSES, NS, name(&address), add).unwrap();
    }
}

fn pause(world: &Quiet, paused: bool) {
    world.server.edit(CLUSTERS, NS, "a", |object| object["spec"]["paused"] = json!(paused)).unwrap();
}

fn addresses(world: &Quiet) -> BTreeMap<String, String> {
    let all = world.server.list(ADDRESSES, NS);
    all.iter().map(|a| (name(a).to_owned(), a["spec"]["address"].as_str().unwrap().to_owned())).collect()
}

/// A cluster with both its addresses, of which everything is made.
async fn settled() -> Quiet {
    let objects = [
        class(CLASS, &["clusterVip"]),
        pool("one", "control-plane", 0, 10, 1),
        pool("in", "ingress", 1, 10, 1),
        cluster("a", &json!({key("ingress-enabled"): "true"})),
    ];
    let world = Quiet::start(Config::default(), objects).await;
    let mut copy = world.cluster("a");
    for _ in 0..20 {
        if let Answer::Open { .. } = ask(&world.extension, &copy).await {
            break;
        }
        pass(&world, 2).await;
        copy = world.cluster("a");
    }
    render(&world.server, &Book::default(), &copy);
    pass(&world, 5).await;
    own_by_pools(&world.server);
    world
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_is_moved_keeps_its_claims_and_addresses() {
    let source = settled().await;
    let (before, held) = (source.cluster("a"), addresses(&source));
    assert_eq!((host(&before), note(&before, "ingress-vip")), ("10.0.0.10", "10.0.1.10"));
    assert_eq!(held.len(), 2);

    // Berth is in the target first, beside pools that have room, which those of the cluster have not.
    let spare = [pool("spare", "control-plane", 2, 10, 5), pool("spare-in", "ingress", 3, 10, 5)];
    let target = Quiet::start(Config::default(), spare).await;
    pause(&source, true);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let since = (source.server.requests(), target.server.requests());
    carry(&source.server, &target.server);
    clear(&source.server);
    pass(&target, 60).await;
    pass(&source, 60).await;
    assert_eq!(written(&target, since.1), [""; 0], "nothing is touched while the Cluster is paused");
    assert_eq!(written(&source, since.0), [""; 0], "nothing is done about what went away");
    assert_eq!(
        (there(&source, CLAIMS), there(&source, ADDRESSES).len()),
        (vec![], 2),
        "the source gives none away again"
    );

    // A claim has no status yet, its pool is full and another has room: that is no reason to give it up.
    pause(&target, false);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(written(&target, since.1), [""; 0]);
    pass(&target, 10).await;
    let after = target.cluster("a");
    assert_eq!(addresses(&target), held, "the same addresses of the same claims");
    assert_eq!((host(&after), note(&after, "ingress-vip")), ("10.0.0.10", "10.0.1.10"));
    for claim in target.server.list(CLAIMS, NS) {
        assert_eq!(owners(&claim), [uid(&after)], "{claim}");
    }
    for condition in ["ControlPlaneVIPReady", "IngressVIPReady"] {
        let all = after["status"]["conditions"].as_array().unwrap();
        assert!(all.iter().any(|c| c["type"] == condition && c["status"] == "True"), "{condition}: {all:?}");
    }
    assert_eq!(written(&target, since.1), [""; 0], "there was nothing to do");

    // Whoever comes later gets another address, and the addresses return when the cluster goes.
    target.server.put(cluster("b", &json!({key("ingress-enabled"): "false"}))).unwrap();
    for _ in 0..5 {
        ask(&target.extension, &target.cluster("b")).await;
        pass(&target, 2).await;
    }
    assert_eq!(host(&target.cluster("b")), "10.0.2.10");
    target.server.delete(CLUSTERS, NS, "a");
    dismantle(&target.server, &target.cluster("a"));
    pass(&target, 30).await;
    assert_eq!(
        (there(&target, CLAIMS), there(&target, ADDRESSES)),
        (vec!["vip-cp-b".to_owned()], vec!["vip-cp-b".to_owned()])
    );
    source.stop().await;
    target.stop().await;
}
