//! How often a server is asked for a screen, and how often one after the other. Time is counted, not measured: every answer
//! takes [`ROUND`] on a clock that stands still otherwise, so a screen takes as many of them as it makes rounds.

use std::time::Duration;

use api::meta::View;
use api::{raw, views};
use clap::Parser as _;
use kube::Client;
use serde_json::{Value, json};
use sim::dock::objects::merged;
use sim::server::{Action, Rule, Server};

use super::super::{claims, clusters};
use crate::cli::{Cli, Command};

const ROUND: Duration = Duration::from_millis(100);
pub const TEAM: &str = "team-a";
const METAL3: &str = "metal3.io/v1alpha1";
pub const CORE: &str = "cluster.x-k8s.io/v1beta2";
pub const PLANES: &str = "controlplane.cluster.x-k8s.io/v1beta2";
const PROVIDER: &str = "infrastructure.cluster.x-k8s.io/v1beta2";

pub fn serve<K: View>(server: &Server) {
    let kind = kit::kinds::Kind::of::<K>();
    let version = K::VERSIONS.first().map_or(kind.version.as_str(), |version| version);
    let scope = if K::NAMESPACED { sim::server::Kind::namespaced } else { sim::server::Kind::cluster };
    server.register(scope(&kind.group, version, &kind.kind, &kind.plural));
}

fn conditions(types: &[&str]) -> Vec<Value> {
    let one = |type_: &&str| {
        json!({"type": type_, "status": "True", "reason": "Provisioned", "message": "",
            "lastTransitionTime": "2026-01-02T03:01:00Z", "observedGeneration": 1})
    };
    types.iter().map(one).collect()
}

/// A server with one cluster of so many machines on claims, each with its host, and with all kinds that a tree shows.
pub fn world(machines: usize) -> Server {
    let server = Server::new(7);
    macro_rules! serve {
        ($($kind:ty),+ $(,)?) => { $(serve::<$kind>(&server);)+ };
    }
    serve!(
        views::Cluster,
        views::ClusterClass,
        views::Machine,
        views::MachineDeployment,
        views::ExtensionConfig,
        views::IPAddressClaim,
        views::IPAddress,
        views::InClusterIPPool,
        views::GlobalInClusterIPPool,
        views::BareMetalHost,
        views::HardwareData,
        views::AWSCluster,
        raw::HostClaim,
        raw::HostDeployPolicy,
        raw::HostClaimQuota,
        raw::AWSMachine,
        raw::Metal3Machine,
    );
    server.namespace(TEAM);
    server.namespace("yard");
    let cluster = json!({"apiVersion": CORE, "kind": "Cluster", "metadata": {"namespace": TEAM, "name": "prod"},
        "spec": {"controlPlaneEndpoint": {"host": "192.0.2.1", "port": 6443}}});
    server.put(cluster).unwrap();
    for number in 0..machines {
        machine(&server, &format!("m-{number:04}"));
    }
    server
}

/// One machine with everything below it.
fn machine(server: &Server, name: &str) {
    let meta = json!({"namespace": TEAM, "name": name, "labels": {"cluster.x-k8s.io/cluster-name": "prod"}});
    let all = conditions(&["AssociateBareMetalHost", "Synchronized", "Provisioned", "KubernetesNodeReady", "Ready"]);
    let put = |object: Value| server.put(object).unwrap();
    put(json!({"apiVersion": CORE, "kind": "Machine", "metadata": meta, "status": {"phase": "Running"},
        "spec": {"clusterName": "prod", "version": "v1.34.1", "infrastructureRef": {
            "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "Metal3Machine", "name": name}}}));
    put(json!({"apiVersion": PROVIDER, "kind": "Metal3Machine", "metadata": meta, "spec": {"kind": "baremetal"},
        "status": {"hostClaim": {"name": name}, "conditions": all}}));
    let held = conditions(&["Associated", "Synchronized", "Provisioned", "Ready"]);
    let claim = put(json!({"apiVersion": METAL3, "kind": "HostClaim", "metadata": meta,
        "spec": {"kind": "baremetal", "poweredOn": true},
        "status": {"bareMetalHost": {"namespace": "yard", "name": name}, "poweredOn": true, "conditions": held}}));
    put(json!({"apiVersion": METAL3, "kind": "BareMetalHost", "metadata": {"namespace": "yard", "name": name},
        "spec": {"online": true, "consumerRef": {"apiVersion": METAL3, "kind": "HostClaim", "namespace": TEAM,
            "name": name, "uid": claim["metadata"]["uid"]}},
        "status": {"provisioning": {"state": "provisioned"}, "operationalStatus": "OK", "poweredOn": true}}));
    put(json!({"apiVersion": METAL3, "kind": "HardwareData", "metadata": {"namespace": "yard", "name": name},
        "spec": {"hardware": {"hostname": name}}}));
}

/// What a screen asks for, in how many rounds, and what it shows.
struct Asked {
    requests: Vec<String>,
    rounds: u32,
    screen: String,
}

impl Asked {
    fn of(&self, plural: &str) -> usize {
        self.requests.iter().filter(|path| path.ends_with(plural)).count()
    }
}

async fn ask(server: &Server, words: &[&str]) -> Asked {
    let before = server.log().len();
    let slow = server.inject(Rule::any().always(), Action::Delay(ROUND));
    let client = server.kube();
    let cli = Cli::parse_from(std::iter::once("berth").chain(words.iter().copied()));
    let start = kit::clock::Clock::system().instant();
    let screen = Box::pin(shown(&client, cli.command)).await.unwrap();
    let took = start.elapsed();
    server.stop_fault(slow);
    let mut requests: Vec<String> = server.log().iter().skip(before).map(|entry| entry.path.clone()).collect();
    requests.sort();
    Asked { requests, rounds: u32::try_from(took.as_millis() / ROUND.as_millis()).unwrap(), screen }
}

async fn shown(client: &Client, command: Command) -> anyhow::Result<String> {
    match command {
        Command::Tree(options) => super::super::drawn(client, &options).await,
        Command::Explain(options) => super::super::explained(client, &options).await,
        Command::Vips(options) => super::super::listed(client, &options).await,
        Command::Hosts(options) => claims::hosts_listed(client, &options.list).await,
        Command::Claims(options) => claims::claims_listed(client, &options).await,
        Command::Clusters(options) => clusters::listed(client, &options).await,
        Command::Capacity(options) => crate::groups::listed(client, &options).await,
        other => panic!("no screen: {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn the_tree_of_many_machines_asks_no_more_than_that_of_few_and_each_kind_once() {
    let tree = ["tree", "cluster/prod", "-n", TEAM, "-o", "json"];
    let (few, many) = (ask(&world(2), &tree).await, ask(&world(120), &tree).await);
    assert_eq!(few.requests, many.requests);
    let mut once = many.requests.clone();
    once.dedup();
    assert_eq!(once, many.requests, "no kind is read twice");
    assert!(many.requests.len() <= 18, "{:#?}", many.requests);
    // What there is, and all of it.
    assert_eq!((few.rounds, many.rounds), (2, 2));
    assert_eq!(many.screen.matches("\"BareMetalHost\"").count(), 120);
    assert_eq!(many.of("hardwaredata"), 0, "what inspection found decides about no host that is taken");
}

#[tokio::test(start_paused = true)]
async fn hardware_is_read_after_the_rest_where_a_claim_waits_for_a_host() {
    let server = world(3);
    let claim = json!({"apiVersion": METAL3, "kind": "HostClaim", "metadata": {"namespace": TEAM, "name": "waits"},
        "spec": {"kind": "baremetal", "poweredOn": true}});
    server.put(claim).unwrap();
    let tree = ask(&server, &["tree", "cluster/prod", "-n", TEAM]).await;
    assert_eq!((tree.of("hardwaredata"), tree.rounds), (1, 3));
    let tree = ask(&server, &["tree", "hostclaim/waits", "-n", TEAM]).await;
    assert_eq!((tree.of("hardwaredata"), tree.rounds), (1, 3));
    let bound = ask(&server, &["tree", "hostclaim/m-0001", "-n", TEAM]).await;
    assert_eq!((bound.of("hardwaredata"), bound.rounds), (0, 2));
    // Who asks why is asked to wait once.
    let why = ask(&server, &["explain", "hostclaim/waits", "-n", TEAM]).await;
    assert_eq!((why.of("hardwaredata"), why.rounds), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn every_screen_asks_what_there_is_and_then_for_all_of_it_at_once() {
    let server = world(5);
    serve::<raw::Cluster>(&server);
    let cluster = json!({"apiVersion": "anywhere.eks.amazonaws.com/v1alpha1", "kind": "Cluster",
        "metadata": {"namespace": TEAM, "name": "prod"}, "spec": {}});
    server.put(cluster).unwrap();
    for (words, most) in [
        ("explain cluster/prod", 9),
        ("explain hostclaim/m-0001", 8),
        ("explain metal3machine/m-0001", 11),
        ("tree metal3machine/m-0001", 10),
        ("tree hostclaim/m-0001", 7),
        ("explain cluster.anywhere/prod", 4),
        ("tree cluster.anywhere/prod", 4),
        ("vips", 9),
        ("hosts", 2),
        ("claims", 2),
        ("clusters", 2),
        ("capacity", 4),
        ("capacity --capacity-metal3", 8),
    ] {
        let words: Vec<&str> = words.split(' ').chain(["-n", TEAM]).collect();
        let asked = ask(&server, &words).await;
        assert_eq!(asked.rounds, 2, "{words:?}: {:#?}", asked.requests);
        assert!(asked.requests.len() <= most, "{words:?}: {:#?}", asked.requests);
    }
}

/// A group or control plane that wants so many machines and has as many that are ready.
pub fn group(server: &Server, api: &str, kind: &str, name: &str, [wanted, ready]: [u32; 2]) -> Value {
    let object = json!({"apiVersion": api, "kind": kind, "metadata": {"namespace": TEAM, "name": name},
        "spec": {"clusterName": "prod", "replicas": wanted, "version": "v1.34.1"}, "status": {"readyReplicas": ready}});
    server.put(object).unwrap()
}

/// A Machine that belongs to a group, with everything below it.
pub fn member(server: &Server, name: &str, group: &Value, label: &Value) {
    machine(server, name);
    let owner = json!({"apiVersion": group["apiVersion"], "kind": group["kind"], "name": group["metadata"]["name"],
        "uid": group["metadata"]["uid"], "controller": true});
    let labels = merged(json!({"cluster.x-k8s.io/cluster-name": "prod"}), label);
    let meta = json!({"namespace": TEAM, "name": name, "labels": labels, "ownerReferences": [owner]});
    let to = json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "Metal3Machine", "name": name});
    let object = json!({"apiVersion": CORE, "kind": "Machine", "metadata": meta, "status": {"phase": "Running"},
        "spec": {"clusterName": "prod", "version": "v1.34.1", "infrastructureRef": to}});
    server.put(object).unwrap();
}

#[tokio::test(start_paused = true)]
async fn groups_and_control_planes_are_drawn_with_their_own_machines_in_as_many_rounds() {
    let server = world(2);
    serve::<views::MachineSet>(&server);
    serve::<views::KubeadmControlPlane>(&server);
    group(&server, CORE, "MachineDeployment", "workers", [1, 1]);
    let set = group(&server, CORE, "MachineSet", "workers-x", [1, 1]);
    let plane = group(&server, PLANES, "KubeadmControlPlane", "prod", [1, 1]);
    member(&server, "worker-1", &set, &json!({"cluster.x-k8s.io/deployment-name": "workers"}));
    member(&server, "plane-1", &plane, &json!({"cluster.x-k8s.io/control-plane": ""}));
    let whole = ask(&server, &["tree", "cluster/prod", "-n", TEAM]).await;
    for (subject, own, other) in [
        ("machinedeployment/workers", "worker-1", "plane-1"),
        ("machineset/workers-x", "worker-1", "plane-1"),
        ("kubeadmcontrolplane/prod", "plane-1", "worker-1"),
        ("kcp/prod", "plane-1", "worker-1"),
    ] {
        let tree = ask(&server, &["tree", subject, "-n", TEAM]).await;
        assert!(tree.screen.contains("1 of 1 ready"), "{subject}: {}", tree.screen);
        assert!(tree.screen.contains(", of the Cluster prod"), "{subject}: {}", tree.screen);
        for kind in ["Machine", "Metal3Machine", "HostClaim"] {
            assert!(tree.screen.contains(&format!("✓ {kind} {own}")), "{subject}: {}", tree.screen);
        }
        assert!(!tree.screen.contains(other) && !tree.screen.contains("m-0000"), "{subject}: {}", tree.screen);
        assert_eq!(tree.rounds, 2, "{subject}: {:#?}", tree.requests);
        assert!(tree.requests.len() <= whole.requests.len(), "{subject}: {:#?}", tree.requests);
    }
    let Command::Tree(options) = Cli::parse_from(["berth", "tree", "machineset/worker-x", "-n", TEAM]).command else {
        panic!("no tree")
    };
    let error = Box::pin(super::super::drawn(&server.kube(), &options)).await.unwrap_err().to_string();
    assert!(error.contains("perhaps you mean `berth tree machineset/workers-x -n team-a`"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_table_of_one_namespace_reads_no_other() {
    let server = world(2);
    for (screen, kind) in [("hosts", "baremetalhosts"), ("claims", "hostclaims")] {
        let here = ask(&server, &[screen, "-n", TEAM]).await;
        assert!(here.requests.iter().any(|path| path.ends_with(&format!("/namespaces/{TEAM}/{kind}"))), "{screen}");
        let all = ask(&server, &[screen, "-A"]).await;
        assert!(all.requests.iter().any(|path| path.ends_with(&format!("v1alpha1/{kind}"))), "{screen}");
        assert_eq!((here.requests.len(), all.requests.len()), (2, 2));
    }
}

#[tokio::test(start_paused = true)]
async fn what_stands_on_no_claim_is_not_kept_waiting_by_hosts() {
    let server = world(0);
    // Hosts take for ever, and nothing here needs them.
    server.inject(Rule::any().path_contains("/baremetalhosts").always(), Action::Hang);
    let tree = ask(&server, &["tree", "cluster/prod", "-n", TEAM]).await;
    assert_eq!(tree.rounds, 2, "{:#?}", tree.requests);
    assert!(tree.screen.contains("Cluster team-a/prod"), "{}", tree.screen);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_refused_or_breaks_says_so() {
    let server = world(1);
    let fault = server.inject(Rule::any().path_contains("/hostclaims").always(), Action::Status(500));
    let client = server.kube();
    let Command::Claims(options) = Cli::parse_from(["berth", "claims", "-A"]).command else { panic!("no table") };
    let error = Box::pin(claims::claims_listed(&client, &options)).await.unwrap_err();
    assert!(format!("{error:#}").contains("listing hostclaims.metal3.io"), "{error:#}");
    server.stop_fault(fault);
    server.inject(Rule::any().path_contains("/hostclaims").always(), Action::Status(403));
    let error = Box::pin(claims::claims_listed(&client, &options)).await.unwrap_err();
    assert!(format!("{error:#}").contains("you may not list hostclaims.metal3.io"), "{error:#}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_asks_to_be_asked_again_is_and_not_for_ever() {
    let server = world(1);
    server.inject(Rule::any().path_contains("/hostclaims").times(3), Action::TooMany(1));
    let table = ask(&server, &["claims", "-A"]).await;
    assert_eq!((table.of("hostclaims"), table.screen.contains("m-0000")), (4, true), "{}", table.screen);
    server.inject(Rule::any().path_contains("/hostclaims").always(), Action::TooMany(1));
    let client = server.kube();
    let Command::Claims(options) = Cli::parse_from(["berth", "claims", "-A"]).command else { panic!("no table") };
    let error = Box::pin(claims::claims_listed(&client, &options)).await.unwrap_err();
    assert!(format!("{error:#}").contains("listing hostclaims.metal3.io"), "{error:#}");
}
