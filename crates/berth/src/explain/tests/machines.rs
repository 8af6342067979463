//! Machines on EC2.

use ::hosts::config::Config;
use ::hosts::facts::World;
use ::hosts::snapshot::{Sight, Sky};
use api::key::ObjectKey;
use api::meta::View;
use api::{raw, views};
use aws::identity::{IdentityFeeds, IdentityLists};
use kit::clock::Clock;
use kit::feed::{Feed, Project};
use kit::kinds::Kind;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use sim::dock::objects::merged;
use sim::server::Server;

use crate::explain::machines::{Told, closed, explanation, of_cluster, tree};
use crate::look::Surroundings;
use crate::screen::tests::at_widths;
use crate::screen::{self, Screen};

const NOW: &str = "2026-01-02T12:00:00Z";
const HOST: &str = "h-0123456789abcdef0";

fn read<T: DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).unwrap()
}

fn feed<P: Project>(objects: Vec<Value>) -> Feed<P>
where
    P::Source: DeserializeOwned,
{
    Feed::of(Clock::system(), Kind::of::<P::Source>(), objects.into_iter().map(read))
}

fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": "2026-01-02T11:00:00Z"})
}

fn journal(phase: &str, hosts: &[&str]) -> String {
    json!({"v": 1, "id": "6f0c1111", "epoch": 1, "token": "dh-6f0c1111-1", "az": "us-west-2a", "subnet": "subnet-0a0a0a0a",
        "type": "m5.metal", "qty": 1, "phase": phase, "hosts": hosts, "at": "2026-01-02T10:00:00Z"})
    .to_string()
}

fn machine(more: &Value) -> Value {
    let plain = json!({
        "metadata": {"namespace": "team-a", "name": "prod-1", "uid": "u", "resourceVersion": "7", "generation": 1,
            "finalizers": ["awsmachine.infrastructure.cluster.x-k8s.io"],
            "labels": {"cluster.x-k8s.io/cluster-name": "prod"},
            "ownerReferences": [{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "name": "prod-1", "uid": "m"}]},
        "spec": {"instanceType": "m5.metal", "ami": {"id": "ami-0123456789abcdef0"}, "dynamicHostAllocation": {}},
    });
    merged(plain, more)
}

/// What would be told of a machine in a cluster that is in order, without asking EC2.
async fn told(machine: Value) -> Told {
    let owner = json!({"metadata": {"namespace": "team-a", "name": "prod-1", "labels": {"cluster.x-k8s.io/cluster-name": "prod"}},
        "spec": {"clusterName": "prod", "bootstrap": {"dataSecretName": "prod-1"}}});
    let cluster = json!({"metadata": {"namespace": "team-a", "name": "prod"},
        "spec": {"infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "AWSCluster", "name": "prod"}},
        "status": {"initialization": {"infrastructureProvisioned": true}}});
    let network = json!({"metadata": {"namespace": "team-a", "name": "prod"}, "spec": {"region": "us-west-2",
        "identityRef": {"kind": "AWSClusterRoleIdentity", "name": "prod"}}});
    let world = World {
        machines: feed(vec![machine]),
        owners: feed(vec![owner]),
        clusters: feed(vec![cluster]),
        clouds: feed(vec![network]),
        identities: IdentityFeeds::of(IdentityLists::default(), &Clock::system()),
        spaces: feed(vec![]),
    };
    let client = kube::Client::try_from(kube::Config::new("http://127.0.0.1:1".parse().unwrap())).unwrap();
    let around = Surroundings { world, identities: Vec::new(), unseen: Vec::new() };
    let key = ObjectKey::namespaced("team-a", "prod-1");
    let snapshot = closed(&client, &around, &Config::default(), &key).await.unwrap();
    Told { snapshot, looked: false, identity: Some("AWSClusterRoleIdentity prod".to_owned()), unseen: Vec::new() }
}

fn screens(told: &Told) -> String {
    let (told, root) = (explanation(told, NOW.parse().unwrap()), tree(told));
    at_widths(|screen: Screen| format!("{}\n{}", screen::explanation(screen, &told), screen::tree(screen, &root)))
}

fn runs() -> Value {
    machine(&json!({
        "metadata": {"annotations": {"hosts.berth.dev/allocation": journal("Allocated", &[HOST]), "hosts.berth.dev/scope": "{\"region\":\"us-west-2\"}"}},
        "spec": {"instanceID": "i-0123456789abcdef0", "providerID": "aws:///us-west-2a/i-0123456789abcdef0"},
        "status": {"ready": true, "instanceState": "running", "initialization": {"provisioned": true},
            "dedicatedHost": {"id": HOST, "state": "available", "hosts": [{"id": HOST, "state": "available"}]},
            "conditions": [condition("InstanceReady", "True", "InstanceRunning", "the instance runs"),
                condition("DedicatedHostReady", "True", "HostAvailable", "the host can be used")]},
    }))
}

#[tokio::test]
async fn a_machine_that_runs() {
    let told = told(runs()).await;
    assert_eq!(explanation(&told, NOW.parse().unwrap()).level, kit::explain::Level::Ok);
    insta::assert_snapshot!(screens(&told));
}

#[tokio::test]
async fn a_machine_that_gets_no_host() {
    let quota = "ec2:AllocateHosts failed: HostLimitExceeded: You have reached your limit (quota: Running Dedicated Hosts of the family, in Service Quotas)";
    let told = told(machine(&json!({
        "metadata": {"annotations": {"hosts.berth.dev/allocation": journal("Intended", &[]), "hosts.berth.dev/scope": "{\"region\":\"us-west-2\"}"}},
        "status": {"conditions": [condition("InstanceReady", "False", "InstanceProvisionStarted", "the host is asked for"),
            condition("DedicatedHostReady", "False", "HostQuotaExceeded", quota)]},
    })))
    .await;
    insta::assert_snapshot!(screens(&told));
}

#[tokio::test]
async fn a_machine_that_waits_for_its_host_to_be_released() {
    let told = told(merged(runs(), &json!({
        "metadata": {"deletionTimestamp": "2026-01-02T11:00:00Z", "annotations": {"hosts.berth.dev/allocation": journal("Releasing", &[HOST])}},
        "status": {"ready": false, "instanceState": "terminated",
            "dedicatedHost": {"releasableAfter": "2026-01-03T10:00:00Z"},
            "conditions": [condition("InstanceReady", "False", "Deleted", "the instance is gone"),
                condition("DedicatedHostReady", "True", "HostAvailable", "the host can be used"),
                condition("DedicatedHostRelease", "False", "MinimumAllocationPeriod", "host h-0123456789abcdef0 can be released after 2026-01-03T10:00:00Z")]},
    })))
    .await;
    insta::assert_snapshot!(screens(&told));
}

#[tokio::test]
async fn with_the_sight_of_ec2_the_next_steps_are_told() {
    let mut told = told(merged(
        runs(),
        &json!({
            "metadata": {"deletionTimestamp": "2026-01-02T11:00:00Z"},
        }),
    ))
    .await;
    told.looked = true;
    // EC2 shows neither the instance nor the host any more.
    let unknown = [HOST.parse().unwrap()].into();
    told.snapshot.sky = Sky::Clear(Box::new(Sight { unknown_hosts: unknown, ..Sight::default() }));
    let next = explanation(&told, NOW.parse().unwrap()).next;
    assert!(next.iter().all(|next| next.by == "hosts") && !next.is_empty(), "{next:?}");
    assert!(!next.iter().any(|next| next.what.contains("--lookup")), "{next:?}");
}

#[tokio::test]
async fn a_machine_that_is_paused_says_how_to_go_on() {
    let told = told(machine(&json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": ""}}}))).await;
    let told = explanation(&told, NOW.parse().unwrap());
    assert_eq!(told.level, kit::explain::Level::Aside);
    assert!(told.fixes[0].command.as_deref().unwrap().contains("cluster.x-k8s.io/paused-"), "{:?}", told.fixes);
    assert!(told.next.is_empty(), "{:?}", told.next);
}

fn serve<K: View>(server: &Server) {
    let kind = Kind::of::<K>();
    let version = K::VERSIONS.first().map_or(kind.version.as_str(), |version| version);
    let scope = if K::NAMESPACED { sim::server::Kind::namespaced } else { sim::server::Kind::cluster };
    server.register(scope(&kind.group, version, &kind.kind, &kind.plural));
}

/// What is asked of the server to draw a cluster of so many machines, whose credentials are in a Secret.
async fn asked(machines: usize) -> Vec<String> {
    let server = Server::new(7);
    serve::<raw::AWSMachine>(&server);
    serve::<views::Machine>(&server);
    serve::<views::Cluster>(&server);
    serve::<views::AWSCluster>(&server);
    serve::<views::AWSClusterStaticIdentity>(&server);
    server.namespace("team-a");
    let put = |api_version: &str, kind: &str, object: Value| {
        server.put(merged(object, &json!({"apiVersion": api_version, "kind": kind}))).unwrap();
    };
    let (core, provider) = ("cluster.x-k8s.io/v1beta2", "infrastructure.cluster.x-k8s.io/v1beta2");
    put(
        core,
        "Cluster",
        json!({"metadata": {"namespace": "team-a", "name": "prod"},
        "spec": {"infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "AWSCluster", "name": "prod"}},
        "status": {"initialization": {"infrastructureProvisioned": true}}}),
    );
    put(
        provider,
        "AWSCluster",
        json!({"metadata": {"namespace": "team-a", "name": "prod"}, "spec": {"region": "us-west-2",
        "identityRef": {"kind": "AWSClusterStaticIdentity", "name": "prod"}}}),
    );
    put(
        provider,
        "AWSClusterStaticIdentity",
        json!({"metadata": {"name": "prod"},
        "spec": {"secretRef": "keys", "allowedNamespaces": {}}}),
    );
    for number in 0..machines {
        let name = format!("prod-{number}");
        put(
            core,
            "Machine",
            json!({"metadata": {"namespace": "team-a", "name": name, "labels": {"cluster.x-k8s.io/cluster-name": "prod"}},
            "spec": {"clusterName": "prod", "bootstrap": {"dataSecretName": name}}}),
        );
        put(
            provider,
            "AWSMachine",
            machine(&json!({"metadata": {"name": name, "ownerReferences": [
            {"apiVersion": core, "kind": "Machine", "name": name, "uid": "m"}]}})),
        );
    }
    let cli = <crate::cli::Cli as clap::Parser>::parse_from(["berth", "tree", "cluster/prod", "-n", "team-a"]);
    let crate::cli::Command::Tree(options) = cli.command else { panic!("no tree") };
    let before = server.log().len();
    let client = server.kube();
    let reader = crate::look::Reader::new(&client, Some("team-a"));
    let drawn = Box::pin(of_cluster(&reader, &options.about, "team-a", "prod")).await.unwrap();
    assert_eq!(drawn.len(), machines);
    // They are asked at the same time, so their order says nothing.
    let mut asked: Vec<String> =
        server.log().iter().skip(before).map(|entry| format!("{} {}", entry.method, entry.path)).collect();
    asked.sort();
    asked
}

#[tokio::test]
async fn drawing_many_machines_asks_no_more_than_drawing_few_and_for_no_secret() {
    let (few, many) = (asked(2).await, asked(60).await);
    assert_eq!(few, many);
    assert!(many.iter().all(|request| !request.contains("secrets")), "{many:#?}");
}
