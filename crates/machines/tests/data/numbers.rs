//! Stories of templates, data claims and data.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine;
use machines::remediation::Treat;
use serde_json::{Value, json};
use sim::server::Server;

use crate::objects::{
    ADDRESSES, CLAIMS, DATAS, HOSTS, LEASES, METAL_ADDRESSES, METAL_LEASES, NS, SECRETS, TEMPLATES, at, bound_status,
    cluster, condition, machine, member, name, pool, pools, template, wish,
};
use crate::site::Site;

fn ready(server: &Server, claim: &str) -> bool {
    server.get(CLAIMS, NS, claim).is_some_and(|claim| condition(&claim) == "True/DataRendered")
}

/// The numbers that claims have.
fn numbers(server: &Server) -> BTreeMap<String, i64> {
    let datas = server.list(DATAS, NS);
    datas
        .iter()
        .map(|data| (at(data, "/spec/claim/name").to_owned(), data["spec"]["index"].as_i64().unwrap()))
        .collect()
}

fn document(server: &Server, secret: &str, key: &str) -> Value {
    let secret = server.get(SECRETS, NS, secret).unwrap();
    let text = base64::engine::general_purpose::STANDARD.decode(at(&secret, &format!("/data/{key}"))).unwrap();
    serde_json::from_slice(&text).unwrap()
}

#[tokio::test(start_paused = true)]
async fn many_claims_at_once_get_distinct_numbers_and_what_is_freed_is_given_again() {
    let all: Vec<String> = (0..12).map(|i| format!("m{i}")).collect();
    let site = Site::new(Treat::Auto, |server, _| {
        server.put(template("t")).unwrap();
        pools(server, 20);
        all.iter().for_each(|name| member(server, name));
    });
    site.until("all are ready", |server| all.iter().all(|name| ready(server, name))).await;
    let given = numbers(&site.server);
    assert_eq!(given.values().copied().collect::<BTreeSet<_>>(), (0..12).collect());
    for (claim, index) in &given {
        let data = site.get(DATAS, &format!("t-{index}"));
        let owners: Vec<&str> =
            data["metadata"]["ownerReferences"].as_array().unwrap().iter().map(|owner| at(owner, "/kind")).collect();
        assert_eq!(owners, ["Metal3DataTemplate", "Metal3DataClaim", "Metal3Machine"]);
        assert_eq!(at(&site.get(CLAIMS, claim), "/status/renderedData/name"), name(&data));
        assert_eq!(data["status"]["ready"], true);
        let meta = document(&site.server, at(&data, "/spec/metaData/name"), "metaData");
        assert_eq!(meta["index"], format!("node-{index}"));
        assert_eq!(meta["rack"], "r7", "only what the claim's status shows of the host");
        assert_eq!(meta["providerid"], format!("team/{claim}/{claim}"));
        assert_eq!(
            (at(&meta, "/host"), at(&meta, "/machine")),
            (&*format!("host-of-{claim}"), &*format!("{claim}-machine"))
        );
        let network = document(&site.server, at(&data, "/spec/networkData/name"), "networkData");
        assert_eq!(at(&network, "/networks/0/netmask"), "255.255.255.0");
    }
    let addresses: BTreeSet<String> =
        site.server.list(METAL_ADDRESSES, NS).iter().map(|a| at(a, "/spec/address").to_owned()).collect();
    assert_eq!(addresses.len(), 12);
    site.rest().await;
    let template = site.get(TEMPLATES, "t");
    let taken: Vec<i64> =
        template["status"]["indexes"].as_array().unwrap().iter().map(|t| t["index"].as_i64().unwrap()).collect();
    assert_eq!(taken, (0..12).collect::<Vec<_>>());
    assert_eq!(at(&template, "/metadata/ownerReferences/0/kind"), "Cluster");
    let log = site.server.log();
    let told =
        log.iter().filter(|entry| entry.method == "PATCH" && entry.path.ends_with("/metal3datatemplates/t/status"));
    assert!((1..=4).contains(&told.count()), "which numbers are taken is told of all together, not of each");

    let holder = |index: i64| given.iter().find(|(_, held)| **held == index).unwrap().0.clone();
    let freed = [holder(3), holder(7)];
    for claim in &freed {
        assert!(site.server.delete(CLAIMS, NS, claim));
    }
    site.until("the claims are gone", |server| freed.iter().all(|claim| server.get(CLAIMS, NS, claim).is_none())).await;
    assert_eq!(site.server.list(DATAS, NS).len(), 10);
    assert_eq!((site.server.list(LEASES, NS).len(), site.server.list(METAL_LEASES, NS).len()), (10, 10));
    assert_eq!((site.server.list(ADDRESSES, NS).len(), site.server.list(METAL_ADDRESSES, NS).len()), (10, 10));
    member(&site.server, "late");
    site.until("the late one is ready", |server| ready(server, "late")).await;
    assert_eq!(numbers(&site.server)["late"], 3);
    site.rest().await;
}

#[tokio::test(start_paused = true)]
async fn a_pool_that_is_exhausted_is_waited_for_and_one_that_grows_is_enough() {
    let site = Site::new(Treat::Auto, |server, _| {
        server.put(template("t")).unwrap();
        pools(server, 1);
        member(server, "m1");
        member(server, "m2");
    });
    let one = |server: &Server| ["m1", "m2"].iter().filter(|name| ready(server, name)).count() == 1;
    let waits = |server: &Server| {
        let datas = server.list(DATAS, NS);
        datas.iter().any(|data| condition(data) == "False/WaitingForAddresses")
    };
    site.until("one is ready and the other waits", |server| one(server) && waits(server)).await;
    site.rest().await;
    pool(&site.server, "metal", 2);
    pool(&site.server, "capi", 2);
    site.until("both are ready", |server| ready(server, "m1") && ready(server, "m2")).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_of_a_machine_that_takes_its_host_directly_is_touched() {
    let site = Site::new(Treat::Auto, |server, _| {
        server.put(template("t")).unwrap();
        pools(server, 5);
        machine(server, "classic", None, false);
        wish(server, "classic", "t");
        crate::objects::remediation(server, "classic", 1);
    });
    site.rest().await;
    let wrote = site.server.log().iter().filter(|entry| entry.client == "room" && entry.effect.is_some()).count();
    assert_eq!(wrote, 0);
    // Its number counts all the same.
    let metal = site.get(crate::objects::METAL, "classic");
    site.server
        .put(json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "Metal3Data",
            "metadata": {"name": "t-0", "namespace": NS, "ownerReferences": [{"apiVersion": metal["apiVersion"],
                "kind": "Metal3Machine", "name": "classic", "uid": metal["metadata"]["uid"]}]},
            "spec": {"index": 0, "template": {"name": "t"}, "claim": {"name": "classic"}},
        }))
        .unwrap();
    member(&site.server, "m1");
    site.until("ours is ready", |server| ready(server, "m1")).await;
    assert_eq!(numbers(&site.server)["m1"], 1);
    assert!(site.get(DATAS, "t-0").pointer("/metadata/finalizers").is_none());
}

#[tokio::test(start_paused = true)]
async fn rendering_waits_for_the_host_and_tells_what_the_host_lacks() {
    let site = Site::new(Treat::Auto, |server, _| {
        server.put(template("t")).unwrap();
        pools(server, 5);
        machine(server, "m1", Some("baremetal"), false);
        wish(server, "m1", "t");
    });
    let told = |server: &Server| server.get(DATAS, NS, "t-0").map(|data| condition(&data)).unwrap_or_default();
    site.until("it waits for the host", |server| told(server) == "False/WaitingForHost").await;
    site.rest().await;
    assert!(site.server.list(LEASES, NS).is_empty() && site.server.list(METAL_LEASES, NS).is_empty());
    let mut status = bound_status("m1");
    status["nics"] = json!([{"name": "eth7", "MAC": "52:54:00:00:00:07"}]);
    site.server.edit(HOSTS, NS, "m1", |claim| claim["status"] = status.clone()).unwrap();
    site.until("it tells what is missing", |server| told(server) == "False/RenderingFailed").await;
    assert_eq!(at(&site.get(DATAS, "t-0"), "/status/errorMessage"), "NIC name not found eth0");
    site.rest().await;
    site.server.edit(HOSTS, NS, "m1", |claim| claim["status"] = bound_status("m1")).unwrap();
    site.until("it is ready", |server| ready(server, "m1")).await;
    let data = site.get(DATAS, "t-0");
    assert!(data.pointer("/status/errorMessage").is_none());
    // A Secret is made once: what changes later does not change it, and a lost one comes back as it was.
    let before = document(&site.server, "m1-metadata", "metaData");
    site.server.delete(SECRETS, NS, "m1-metadata");
    site.until("the Secret is back", |server| server.get(SECRETS, NS, "m1-metadata").is_some()).await;
    assert_eq!(document(&site.server, "m1-metadata", "metaData"), before);
    site.server.edit(SECRETS, NS, "m1-metadata", |secret| secret["data"] = json!({})).unwrap();
    site.rest().await;
    assert_eq!(site.get(SECRETS, "m1-metadata")["data"], json!({}));
}

#[tokio::test(start_paused = true)]
async fn a_paused_cluster_is_left_alone_and_a_template_goes_after_its_data() {
    let site = Site::new(Treat::Auto, |server, _| {
        server.put(template("t")).unwrap();
        pools(server, 5);
        cluster(server, true);
        member(server, "m1");
    });
    site.rest().await;
    assert!(site.server.list(DATAS, NS).is_empty());
    cluster(&site.server, false);
    site.until("it is ready", |server| ready(server, "m1")).await;
    site.server.delete(TEMPLATES, NS, "t");
    site.rest().await;
    assert!(site.server.get(TEMPLATES, NS, "t").is_some());
    // Data that somebody deletes stays while its machine needs it.
    site.server.delete(DATAS, NS, "t-0");
    site.rest().await;
    assert!(site.server.get(DATAS, NS, "t-0").is_some());
    site.server.delete(CLAIMS, NS, "m1");
    site.until("everything is gone", |server| {
        server.get(TEMPLATES, NS, "t").is_none()
            && server.list(DATAS, NS).is_empty()
            && server.list(LEASES, NS).is_empty()
    })
    .await;
    site.rest().await;
    assert!(site.server.get(SECRETS, NS, "m1-metadata").is_none());
}
