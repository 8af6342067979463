//! Groups on CloudStack, with the real client on the real wire protocol to the strict simulator.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use capacity::cloud::Both;
use capacity::config::Config;
use cloudstack::limits::Limits;
use cloudstack::net::{Meter, Options, Reach};
use futures::FutureExt;
use futures::future::BoxFuture;
use kit::clock::Clock;
use kit::http::Carry;
use serde_json::{Value, json};
use sim::cloudstack as acs;
use sim::cloudstack::world::faults::Fault;
use sim::server::{self, Server};
use tokio::task::JoinSet;

use crate::cloud::Model;
use crate::life::{asked, idle};
use crate::objects::*;

pub const ACS_TEMPLATES: &str = "cloudstackmachinetemplates.infrastructure.cluster.x-k8s.io";
pub const ACS_CLUSTERS: &str = "cloudstackclusters.infrastructure.cluster.x-k8s.io";
const OFFERINGS: &str = "listServiceOfferings";
const IMAGES: &str = "listTemplates";

/// Carries requests to the simulator.
struct Wire(acs::Handle);

impl Carry for Wire {
    fn carry(&self, request: http::Request<Bytes>) -> BoxFuture<'static, Option<http::Response<Bytes>>> {
        let acs = self.0.clone();
        async move { acs.carry(request).await }.boxed()
    }
}

/// A simulator whose time is that of the API server.
pub fn simulator(clock: &server::Clock) -> acs::Handle {
    acs::without_socket(acs::Options { time: Some(clock()), ..acs::Options::default() })
}

/// The way to it.
pub fn way(acs: &acs::Handle, clock: &Clock) -> Reach {
    let mut options = Options::new("berth/test");
    options.carrier = Some(Arc::new(Wire(acs.clone())));
    options.limits = Limits::UNLIMITED;
    let origin = acs.endpoint.trim_end_matches("/client/api");
    Reach::new(options, &[origin.parse().unwrap()], clock.clone(), Meter::default())
}

pub fn keys(namespace: &str, name: &str, url: &str, key: &str, secret: &str) -> Value {
    let data = json!({
        "api-url": STANDARD.encode(url), "api-key": STANDARD.encode(key), "secret-key": STANDARD.encode(secret),
        "verify-ssl": STANDARD.encode("false"),
    });
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": namespace}, "data": data})
}

pub fn domain(name: &str, zone: &str, secret: (&str, &str)) -> Value {
    json!({"name": name, "zone": {"name": zone, "network": {"name": "shared"}},
           "acsEndpoint": {"namespace": secret.0, "name": secret.1}})
}

pub fn acs_cluster(domains: &[Value]) -> Value {
    json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta3", "kind": "CloudStackCluster",
        "metadata": {"name": "c", "namespace": NS}, "spec": {"failureDomains": domains},
    })
}

pub fn acs_template(name: &str, offering: &str, image: &str, details: Value) -> Value {
    json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta3", "kind": "CloudStackMachineTemplate",
        "metadata": {"name": name, "namespace": NS},
        "spec": {"template": {"spec": {
            "offering": {"name": offering}, "template": {"name": image}, "sshKey": "k", "details": details}}},
    })
}

pub fn acs_group(name: &str, template: &str) -> Value {
    let mut group = group("MachineDeployment", name, template);
    group["spec"]["template"]["spec"]["infrastructureRef"]["kind"] = json!("CloudStackMachineTemplate");
    group
}

struct Site {
    server: Server,
    acs: acs::Handle,
}

impl Site {
    /// A cluster in one zone, with keys that work.
    fn new() -> Self {
        let server = Server::new(1);
        install(&server);
        let acs = simulator(&server.clock());
        server.put(cluster(("CloudStackCluster", "c"), None)).unwrap();
        server.put(keys(NS, "keys", &acs.endpoint, &acs.api_key, &acs.secret_key)).unwrap();
        server.put(acs_cluster(&[domain("a", "zone-1", (NS, "keys"))])).unwrap();
        Self { server, acs }
    }

    fn run(&self) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        let clock = Clock::simulated((self.server.clock())(), 1);
        let ways = Both { aws: Model::default(), acs: way(&self.acs, &clock) };
        let config = Config { cloudstack: true, ..config() };
        tasks.spawn(serve(self.server.client("capacity").kube(), clock, config, ways, None));
        tasks
    }

    fn add(&self, name: &str, offering: &str, image: &str, details: Value) {
        self.server.put(acs_template(name, offering, image, details)).unwrap();
        self.server.put(acs_group(name, name)).unwrap();
    }

    async fn says(&self, name: &str, key: &str, value: &str) -> bool {
        let says = |server: &Server| notes(server, DEPLOYMENTS, NS, name).get(key).is_some_and(|found| found == value);
        self.server.wait_until(LIMIT, says).await
    }

    async fn told(&self, name: &str) -> (String, String) {
        assert!(self.server.wait_until(LIMIT, |s| !events(s, name).is_empty()).await, "{name} is told nothing");
        events(&self.server, name).pop().unwrap()
    }

    fn note(&self, name: &str, key: &str) -> Option<String> {
        notes(&self.server, DEPLOYMENTS, NS, name).remove(key)
    }
}

#[tokio::test(start_paused = true)]
async fn a_group_is_annotated_from_its_offering_and_then_left_in_peace() {
    let site = Site::new();
    site.add("d", "Large Instance", "kube-1.31", json!({}));
    let _process = site.run();
    assert!(site.says("d", "cpu", "4").await);
    let all = notes(&site.server, DEPLOYMENTS, NS, "d");
    for (key, value) in [
        ("memory", "16384Mi"),
        ("ephemeral-disk", "20Gi"),
        ("labels", "kubernetes.io/arch=amd64"),
        ("vCPU", "4"),
        ("memoryMb", "16384"),
        ("GPU", "0"),
    ] {
        assert_eq!(all.get(key).map(String::as_str), Some(value), "{key} of {all:?}");
    }
    assert!(!all.contains_key("gpu-count") && all["applied"].contains("Large Instance"), "{all:?}");
    idle().await;
    // Looked at again every ten minutes, more than a hundred times.
    let (before, calls) = (site.server.requests(), site.acs.log().len());
    tokio::time::sleep(Duration::from_secs(20 * 3600)).await;
    assert_eq!((asked(&site.server, before), site.acs.log().len()), (0, calls));
    // Once a day offerings and images are asked for again, and nobody is bothered.
    let (offerings, images) = (site.acs.calls(OFFERINGS), site.acs.calls(IMAGES));
    assert_eq!((offerings, images), (1, 1));
    tokio::time::sleep(Duration::from_secs(6 * 3600)).await;
    assert_eq!((site.acs.calls(OFFERINGS), site.acs.calls(IMAGES)), (2, 2));
    assert!(events(&site.server, "d").is_empty());
    let others = site.acs.log().into_iter().filter(|e| ![OFFERINGS, IMAGES, "listZones"].contains(&e.command.as_str()));
    assert_eq!(others.count(), 0, "no other right is needed");
}

#[tokio::test(start_paused = true)]
async fn many_groups_cause_one_list_and_follow_their_templates() {
    let site = Site::new();
    let more = json!({"gpucount": 2, "gpucardname": "NVIDIA Corporation TU104GL [Tesla T4]", "rootdisksize": 80});
    let id = site.acs.with(|world, _| world.add_offering("Gpu", Some((8, 2000, 32_768)), more));
    site.acs.with(|world, _| {
        world.add_template("kube-1.31-arm", true, true);
        world.templates.last_mut().unwrap().more.insert("arch".to_owned(), json!("aarch64"));
    });
    for number in 0..20 {
        site.add(&format!("d{number}"), "Medium Instance", "kube-1.31", json!({}));
    }
    site.add("custom", "Custom Instance", "kube-1.31", json!({"cpuNumber": "3", "memory": "6144"}));
    site.add("arm", "Small Instance", "kube-1.31-arm", json!({}));
    site.add("gpu", "", "kube-1.31", json!({}));
    let by_id = |template: &mut Value| template["spec"]["template"]["spec"]["offering"] = json!({"id": id});
    site.server.edit(ACS_TEMPLATES, NS, "gpu", by_id).unwrap();
    let _process = site.run();
    for number in 0..20 {
        assert!(site.says(&format!("d{number}"), "memory", "4096Mi").await);
    }
    assert!(site.says("custom", "memory", "6144Mi").await && site.note("custom", "cpu").as_deref() == Some("3"));
    assert!(site.says("arm", "labels", "kubernetes.io/arch=arm64").await);
    assert!(site.says("gpu", "gpu-type", "nvidia.com/gpu").await);
    assert_eq!(site.note("gpu", "gpu-count").as_deref(), Some("2"));
    assert_eq!(site.note("gpu", "ephemeral-disk").as_deref(), Some("80Gi"), "of the offering, not of the image");
    assert_eq!((site.acs.calls(OFFERINGS), site.acs.calls(IMAGES)), (1, 2));
    // The pair of keys goes with the accelerators.
    let plain =
        |template: &mut Value| template["spec"]["template"]["spec"]["offering"] = json!({"name": "Small Instance"});
    site.server.edit(ACS_TEMPLATES, NS, "gpu", plain).unwrap();
    assert!(site.says("gpu", "memory", "512Mi").await);
    assert_eq!((site.note("gpu", "gpu-count"), site.note("gpu", "gpu-type")), (None, None));
    assert_eq!(site.acs.calls(OFFERINGS), 1, "it was in the list");
}

#[tokio::test(start_paused = true)]
async fn what_is_wrong_with_an_offering_is_told_apart() {
    let site = Site::new();
    site.acs.with(|world, _| {
        world.add_offering("Silent", Some((0, 0, 0)), json!({"cpunumber": null}));
        world.add_offering("Twice", Some((2, 1000, 2048)), json!({}));
        world.add_offering("Twice", Some((4, 1000, 2048)), json!({}));
    });
    site.add("typo", "Lagre Instance", "kube-1.31", json!({}));
    site.add("silent", "Silent", "kube-1.31", json!({}));
    site.add("unchosen", "Custom Instance", "kube-1.31", json!({"cpuNumber": "3"}));
    site.add("twice", "Twice", "kube-1.31", json!({}));
    let _process = site.run();
    for (name, parts) in [
        ("typo", &["compute offering", "\"Lagre Instance\"", "unknown", "zone-1", "Large Instance"][..]),
        ("silent", &["\"Silent\"", "no number of processors or no memory"]),
        ("unchosen", &["\"Custom Instance\"", "memory", "details"]),
        ("twice", &["\"Twice\"", "several"]),
    ] {
        let (reason, message) = site.told(name).await;
        assert!(reason == "FailedUpdate" && parts.iter().all(|part| message.contains(part)), "{name}: {message}");
        assert_eq!(site.note(name, "cpu"), None);
    }
    // One list, and one question for the name that is not in it; not again within a quarter of an hour.
    assert_eq!(site.acs.calls(OFFERINGS), 2);
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(site.acs.calls(OFFERINGS), 2);
    let right =
        |template: &mut Value| template["spec"]["template"]["spec"]["offering"] = json!({"name": "Large Instance"});
    site.server.edit(ACS_TEMPLATES, NS, "typo", right).unwrap();
    assert!(site.says("typo", "cpu", "4").await, "a right name is handled at once");
}

#[tokio::test(start_paused = true)]
async fn wrong_keys_are_told_without_showing_anything_and_new_ones_taken() {
    let site = Site::new();
    assert!(site.server.delete("secrets", NS, "keys"));
    site.add("d", "Large Instance", "kube-1.31", json!({}));
    let _process = site.run();
    assert_eq!(site.told("d").await.1, format!("Secret {NS}/keys is not there"));
    site.server.put(keys(NS, "keys", &site.acs.endpoint, &site.acs.api_key, "canary")).unwrap();
    assert!(site.server.wait_until(LIMIT, |s| events(s, "d").len() == 2).await);
    let (reason, message) = events(&site.server, "d").into_iter().find(|(_, m)| m.contains("CloudStack")).unwrap();
    assert_eq!(reason, "ReconcileError");
    for hidden in ["canary", &site.acs.api_key, "127.0.0.1"] {
        assert!(!message.contains(hidden), "{message}");
    }
    assert_eq!(site.note("d", "cpu"), None, "a list that failed is no offering that does not exist");
    let good = keys(NS, "keys", &site.acs.endpoint, &site.acs.api_key, &site.acs.secret_key);
    site.server.edit("secrets", NS, "keys", |secret| secret["data"] = good["data"].clone()).unwrap();
    assert!(site.says("d", "cpu", "4").await);
}

#[tokio::test(start_paused = true)]
async fn addresses_that_must_not_be_called_are_not() {
    let site = Site::new();
    let url = "http://169.254.169.254/client/api";
    let bad = keys(NS, "keys", url, &site.acs.api_key, &site.acs.secret_key);
    site.server.edit("secrets", NS, "keys", |secret| secret["data"] = bad["data"].clone()).unwrap();
    site.add("d", "Large Instance", "kube-1.31", json!({}));
    let _process = site.run();
    let (_, message) = site.told("d").await;
    assert!(message.contains("api-url") && !message.contains(&site.acs.api_key), "{message}");
    assert_eq!(site.acs.log().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_fails_on_the_second_day_changes_nothing() {
    let site = Site::new();
    site.add("d", "Large Instance", "kube-1.31", json!({}));
    let _process = site.run();
    assert!(site.says("d", "cpu", "4").await);
    site.acs.script(Fault::refuse("*", 530, "internal error").forever());
    tokio::time::sleep(Duration::from_secs(30 * 3600)).await;
    site.add("new", "Medium Instance", "kube-1.31", json!({}));
    assert!(site.says("new", "cpu", "2").await, "known offerings are good enough");
    assert_eq!(site.note("d", "ephemeral-disk").as_deref(), Some("20Gi"));
    assert!(events(&site.server, "d").is_empty() && events(&site.server, "new").is_empty());
    let calls = site.acs.calls(OFFERINGS) + site.acs.calls("listZones");
    assert!(calls < 1000, "{calls} calls to a server that is down");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_fails_at_first_is_waited_for() {
    let site = Site::new();
    site.acs.script(Fault::refuse("*", 530, "internal error").forever());
    site.add("d", "Large Instance", "kube-1.31", json!({}));
    let _process = site.run();
    let (reason, message) = site.told("d").await;
    assert!(reason == "ReconcileError" && !message.contains("unknown"), "{message}");
    site.acs.clear_script();
    assert!(site.says("d", "cpu", "4").await);
}

#[tokio::test(start_paused = true)]
async fn the_least_of_all_zones_counts_and_copies_of_a_secret_share_a_list() {
    let site = Site::new();
    site.server.namespace("eksa-system");
    let copy = keys("eksa-system", "copy", &site.acs.endpoint, &site.acs.api_key, &site.acs.secret_key);
    site.server.put(copy).unwrap();
    let domains = [
        domain("a", "zone-1", (NS, "keys")),
        domain("b", "zone-2", (NS, "keys")),
        domain("copy", "zone-1", ("eksa-system", "copy")),
    ];
    site.server.edit(ACS_CLUSTERS, NS, "c", |object| object["spec"]["failureDomains"] = json!(domains)).unwrap();
    site.add("anywhere", "Large Instance", "kube-1.31", json!({}));
    site.server.put(acs_template("one", "Large Instance", "kube-1.31", json!({}))).unwrap();
    let mut one = acs_group("one", "one");
    one["spec"]["template"]["spec"]["failureDomain"] = json!("b");
    site.server.put(one).unwrap();
    let _process = site.run();
    assert!(site.says("anywhere", "cpu", "4").await && site.says("one", "cpu", "4").await);
    assert_eq!(site.acs.calls(OFFERINGS), 2, "one list for each zone");
    // A zone that is not there keeps nobody else waiting.
    let lost = domain("b", "zone-9", (NS, "keys"));
    site.server.edit(ACS_CLUSTERS, NS, "c", |object| object["spec"]["failureDomains"][1] = lost.clone()).unwrap();
    let (reason, message) = site.told("one").await;
    assert!(reason == "ReconcileError" && message.contains("\"zone-9\" is unknown"), "{message}");
    assert_eq!(site.note("one", "cpu").as_deref(), Some("4"), "what is written stays");
}

#[tokio::test(start_paused = true)]
async fn keys_of_another_user_are_asked_for_themselves() {
    let site = Site::new();
    site.add("d", "Large Instance", "kube-1.31", json!({}));
    let _process = site.run();
    assert!(site.says("d", "cpu", "4").await);
    idle().await;
    let (key, secret) = site.acs.key_of("tenant-admin").unwrap();
    let other = keys(NS, "keys", &site.acs.endpoint, &key, &secret);
    site.server.edit("secrets", NS, "keys", |object| object["data"] = other["data"].clone()).unwrap();
    idle().await;
    let callers: Vec<String> =
        site.acs.log().into_iter().filter(|entry| entry.command == OFFERINGS).map(|entry| entry.caller).collect();
    assert_eq!(callers.len(), 2, "{callers:?}");
    assert!(callers[0].starts_with("admin@") && callers[1].starts_with("tenant-admin@"), "{callers:?}");
}
