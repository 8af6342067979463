//! What flags add: the status of templates, trials, and machines on bare metal.

use std::time::Duration;

use capacity::config::{ClaimRules, Config};
use serde_json::{Value, json};
use sim::server::{Kind, Server};

use crate::cloud::{Model, WINDOWS};
use crate::objects::*;

const METAL: &str = "metal3.io";
const OWNER: &str = "racks";

fn world() -> (Server, Model) {
    let server = Server::new(1);
    install(&server);
    server.put(cluster(("AWSCluster", "c"), None)).unwrap();
    server.put(aws_cluster("us-east-1")).unwrap();
    (server, Model::default())
}

fn said(server: &Server, name: &str) -> Value {
    server.get(TEMPLATES, NS, name).unwrap()["status"].clone()
}

async fn idle() {
    tokio::time::sleep(Duration::from_secs(5)).await;
}

#[tokio::test(start_paused = true)]
async fn a_template_says_what_its_machines_offer_and_nobody_is_fought_for_it() {
    let (server, cloud) = world();
    server.put(template("silent", "m5.xlarge")).unwrap();
    let mut other = template("told", "m5.xlarge");
    other["status"] = json!({"capacity": {"cpu": "2"}});
    server.put(other).unwrap();
    let mut windows = template("windows", "m5.xlarge");
    windows["spec"]["template"]["spec"]["ami"] = json!({"id": WINDOWS});
    server.put(windows).unwrap();
    for name in ["silent", "told", "windows"] {
        server.put(group("MachineDeployment", name, name)).unwrap();
    }
    server.put(group("MachineDeployment", "twin", "silent")).unwrap();
    let _process = running(&server, Config { template_status: true, ..config() }, cloud.clone());
    let described =
        |name: &'static str| move |s: &Server| s.get(TEMPLATES, NS, name).unwrap()["status"]["nodeInfo"].is_object();
    assert!(server.wait_until(LIMIT, described("silent")).await);
    let capacity = json!({"cpu": "4", "memory": "16384Mi", "ephemeral-storage": "100Gi"});
    let node = |system: &str| json!({"architecture": "amd64", "operatingSystem": system});
    assert_eq!(said(&server, "silent"), json!({"capacity": capacity, "nodeInfo": node("linux")}));
    assert!(server.wait_until(LIMIT, described("windows")).await);
    assert_eq!(said(&server, "windows"), json!({"capacity": capacity, "nodeInfo": node("windows")}));
    idle().await;
    assert_eq!(said(&server, "told"), json!({"capacity": {"cpu": "2"}}), "whoever said otherwise keeps the word");

    let effects = server.effects();
    tokio::time::sleep(Duration::from_secs(1800)).await;
    assert_eq!(server.effects(), effects, "said once, by whichever group came first");

    server
        .edit(TEMPLATES, NS, "silent", |object| {
            object["spec"]["template"]["spec"]["instanceType"] = json!("m6g.4xlarge")
        })
        .unwrap();
    let follows = |s: &Server| said(s, "silent")["capacity"]["cpu"] == "16";
    assert!(server.wait_until(LIMIT, follows).await, "{}", said(&server, "silent"));
    assert_eq!(said(&server, "silent")["nodeInfo"]["architecture"], "arm64");
}

#[tokio::test(start_paused = true)]
async fn a_trial_writes_nothing_at_all() {
    let (server, cloud) = world();
    server.put(template("t", "m5.xlarge")).unwrap();
    server.put(group("MachineDeployment", "a", "t")).unwrap();
    server.put(openshift_set("typo", "m5.xlrage")).unwrap();
    let config = Config { dry_run: true, template_status: true, ..config() };
    let _process = running(&server, config, cloud.clone());
    assert!(server.wait_until(LIMIT, |_| cloud.lists("us-east-1") == 1 && cloud.looks("us-east-1") == 1).await);
    tokio::time::sleep(Duration::from_secs(1200)).await;
    assert_eq!(server.effects(), 0);
    assert_eq!((events(&server, "typo"), said(&server, "t")), (vec![], Value::Null));
}

fn metal_world() -> Server {
    let server = Server::new(1);
    install(&server);
    for kind in [
        Kind::namespaced(METAL, "v1alpha1", "BareMetalHost", "baremetalhosts"),
        Kind::namespaced(METAL, "v1alpha1", "HardwareData", "hardwaredata"),
        Kind::namespaced(METAL, "v1alpha1", "HostDeployPolicy", "hostdeploypolicies"),
        Kind::namespaced(
            "infrastructure.cluster.x-k8s.io",
            "v1beta1",
            "Metal3MachineTemplate",
            "metal3machinetemplates",
        ),
    ] {
        server.register(kind);
    }
    server.namespace(OWNER);
    server
}

fn host(namespace: &str, name: &str, cpus: u32) -> Value {
    json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
        "metadata": {"name": name, "namespace": namespace, "labels": {"size": "big"}},
        "status": {"provisioning": {"state": "available"}, "hardware": {
            "cpu": {"count": cpus, "arch": "x86_64"}, "ramMebibytes": cpus * 1024,
            "storage": [{"name": "/dev/sda", "sizeBytes": 107_374_182_400_i64}]}},
    })
}

fn metal_template(name: &str, kind: Option<&str>) -> Value {
    let selector = json!({"matchLabels": {"size": "big"}});
    json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "Metal3MachineTemplate",
        "metadata": {"name": name, "namespace": NS},
        "spec": {"template": {"spec": {"hostSelector": selector, "kind": kind}}},
    })
}

fn metal_group(name: &str) -> Value {
    let mut group = group("MachineDeployment", name, name);
    group["spec"]["template"]["spec"]["infrastructureRef"]["kind"] = json!("Metal3MachineTemplate");
    group
}

#[tokio::test(start_paused = true)]
async fn machines_on_metal_offer_what_the_least_host_behind_their_selector_has() {
    let server = metal_world();
    server.put(host(NS, "h1", 16)).unwrap();
    server.put(host(OWNER, "h2", 2)).unwrap();
    server.put(metal_template("direct", None)).unwrap();
    server.put(metal_group("direct")).unwrap();
    let cloud = Model::default();
    let _process = running(&server, Config { metal: true, ..config() }, cloud.clone());
    assert!(server.wait_until(LIMIT, has(DEPLOYMENTS, NS, "direct", "cpu", "16")).await);
    let all = notes(&server, DEPLOYMENTS, NS, "direct");
    assert_eq!((all["memory"].as_str(), all["ephemeral-disk"].as_str()), ("16384Mi", "100Gi"));
    assert_eq!(all["labels"], "kubernetes.io/arch=amd64");
    server.put(host(NS, "h3", 8)).unwrap();
    assert!(server.wait_until(LIMIT, has(DEPLOYMENTS, NS, "direct", "cpu", "8")).await, "a smaller host came");
    assert!(server.delete("baremetalhosts.metal3.io", NS, "h3"));
    assert!(server.wait_until(LIMIT, has(DEPLOYMENTS, NS, "direct", "cpu", "16")).await);
    assert_eq!(cloud.calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn machines_made_of_claims_offer_what_hosts_have_that_policies_open_to_them() {
    let server = metal_world();
    server.put(host(OWNER, "h1", 32)).unwrap();
    server.put(metal_template("claimed", Some("baremetal"))).unwrap();
    server.put(metal_group("claimed")).unwrap();
    server.put(metal_template("other", Some("cloudstack-vm"))).unwrap();
    server.put(metal_group("other")).unwrap();
    let _process = running(&server, Config { metal: true, ..config() }, Model::default());
    assert!(server.wait_until(LIMIT, |s| !events(s, "claimed").is_empty()).await);
    assert!(events(&server, "claimed")[0].1.contains("no inspected host"), "{:?}", events(&server, "claimed"));
    let policy = |namespaces: Value, selector: Value| {
        json!({
            "apiVersion": "metal3.io/v1alpha1", "kind": "HostDeployPolicy",
            "metadata": {"name": "p", "namespace": OWNER},
            "spec": {"hostClaimNamespaces": namespaces, "hostSelector": selector},
        })
    };
    server.put(policy(json!({"nameMatches": "^te.m$"}), json!({"matchLabels": {"size": "big"}}))).unwrap();
    assert!(server.wait_until(LIMIT, has(DEPLOYMENTS, NS, "claimed", "cpu", "32")).await, "a policy opens the host");
    server.put(host(NS, "own", 8)).unwrap();
    assert!(server.wait_until(LIMIT, has(DEPLOYMENTS, NS, "claimed", "cpu", "8")).await, "own hosts need no policy");
    assert!(server.delete("baremetalhosts.metal3.io", NS, "own"));
    assert!(server.wait_until(LIMIT, has(DEPLOYMENTS, NS, "claimed", "cpu", "32")).await);
    server.put(host(OWNER, "h2", 4)).unwrap();
    assert!(server.wait_until(LIMIT, has(DEPLOYMENTS, NS, "claimed", "cpu", "4")).await, "a host elsewhere wakes it");
    assert_eq!((notes(&server, DEPLOYMENTS, NS, "other").len(), events(&server, "other")), (0, vec![]));
}

#[tokio::test(start_paused = true)]
async fn labels_that_a_policy_hides_from_claims_are_not_told_by_annotations_either() {
    let server = metal_world();
    server.put(host(OWNER, "h1", 32)).unwrap();
    server.put(metal_template("claimed", Some("baremetal"))).unwrap();
    server.put(metal_group("claimed")).unwrap();
    let policy = |selectable: &str| {
        json!({
            "apiVersion": "metal3.io/v1alpha1", "kind": "HostDeployPolicy",
            "metadata": {"name": "p", "namespace": OWNER},
            "spec": {"hostClaimNamespaces": {}, "selectableLabels": selectable},
        })
    };
    server.put(policy("rack|pool")).unwrap();
    let _process = running(&server, Config { metal: true, ..config() }, Model::default());
    assert!(server.wait_until(LIMIT, |s| !events(s, "claimed").is_empty()).await);
    assert!(events(&server, "claimed")[0].1.contains("no inspected host"), "{:?}", events(&server, "claimed"));
    server
        .edit("hostdeploypolicies.metal3.io", OWNER, "p", |object| object["spec"]["selectableLabels"] = json!("si.e"))
        .unwrap();
    assert!(server.wait_until(LIMIT, has(DEPLOYMENTS, NS, "claimed", "cpu", "32")).await, "the label may be asked for");
}

#[tokio::test(start_paused = true)]
async fn hosts_that_no_policy_closes_wake_those_who_may_have_them() {
    let server = metal_world();
    server.put(metal_template("claimed", Some("baremetal"))).unwrap();
    server.put(metal_group("claimed")).unwrap();
    let claims = ClaimRules { without_policy: true, ..ClaimRules::default() };
    let _process = running(&server, Config { metal: true, claims, ..config() }, Model::default());
    assert!(server.wait_until(LIMIT, |s| !events(s, "claimed").is_empty()).await);
    server.put(host(OWNER, "h1", 32)).unwrap();
    let woken = server.wait_until(Duration::from_secs(5), has(DEPLOYMENTS, NS, "claimed", "cpu", "32")).await;
    assert!(woken, "by the host, and not by the look at all groups");
}

fn pool(name: &str, kind: &str) -> Value {
    let mut pool = group("MachinePool", name, name);
    pool["spec"]["template"]["spec"]["infrastructureRef"]["kind"] = json!(kind);
    pool
}

fn aws_pool(kind: &str, name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": kind,
        "metadata": {"name": name, "namespace": NS}, "spec": spec,
    })
}

#[tokio::test(start_paused = true)]
async fn machine_pools_say_the_least_that_any_of_their_types_offers() {
    const POOLS: &str = "machinepools.cluster.x-k8s.io";
    let (server, cloud) = world();
    let mixed = json!({"awsLaunchTemplate": {"instanceType": "m5.4xlarge", "rootVolume": {"size": 80}},
        "mixedInstancesPolicy": {"overrides": [{"instanceType": "m5.4xlarge"}, {"instanceType": "m5.xlarge"}]}});
    let both = json!({"awsLaunchTemplate": {"instanceType": "m5.4xlarge"},
        "mixedInstancesPolicy": {"overrides": [{"instanceType": "m6g.4xlarge"}, {"instanceType": "m5.xlarge"}]}});
    for (kind, name, spec) in [
        ("AWSMachinePool", "mixed", mixed),
        ("AWSMachinePool", "both", both),
        ("AWSManagedMachinePool", "eks", json!({"instanceType": "m5.xlarge", "amiType": "AL2023_x86_64_STANDARD"})),
    ] {
        server.put(aws_pool(kind, name, spec)).unwrap();
        server.put(pool(name, kind)).unwrap();
    }
    let process = running(&server, config(), cloud.clone());
    idle().await;
    assert!(notes(&server, POOLS, NS, "mixed").is_empty(), "not unless it is asked for");
    drop(process);
    let _process = running(&server, Config { machine_pools: true, ..config() }, cloud.clone());
    assert!(server.wait_until(LIMIT, has(POOLS, NS, "mixed", "cpu", "4")).await);
    let all = notes(&server, POOLS, NS, "mixed");
    assert_eq!((all["memory"].as_str(), all["ephemeral-disk"].as_str()), ("16384Mi", "80Gi"));
    assert_eq!(all["labels"], "kubernetes.io/arch=amd64");
    assert!(server.wait_until(LIMIT, has(POOLS, NS, "eks", "ephemeral-disk", "20Gi")).await);
    assert!(server.wait_until(LIMIT, |s| !events(s, "both").is_empty()).await);
    assert_eq!(events(&server, "both")[0].0, "ArchitectureMixed");
    assert!(!notes(&server, POOLS, NS, "both").contains_key("labels"));
    assert_eq!(cloud.lists("us-east-1"), 1);
    server
        .edit("awsmanagedmachinepools.infrastructure.cluster.x-k8s.io", NS, "eks", |object| {
            object["spec"]["instanceType"] = json!("m5.4xlarge");
        })
        .unwrap();
    assert!(server.wait_until(LIMIT, has(POOLS, NS, "eks", "cpu", "16")).await, "it follows its node group");
}
