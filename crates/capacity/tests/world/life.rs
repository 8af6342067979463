//! Whole stories: what a user does, and what the group says afterwards.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use capacity::config::Config;
use serde_json::{Value, json};
use sim::server::{Action, RequestInfo, Rule, Server};

use crate::cloud::{Model, facts};
use crate::objects::*;

const CAPACITY: &str = "capacity.cluster-autoscaler.kubernetes.io";

pub fn world() -> (Server, Model) {
    let server = Server::new(1);
    install(&server);
    (server, Model::default())
}

fn annotate(server: &Server, resource: &str, namespace: &str, name: &str, key: &str, value: Value) {
    let edited = server.edit(resource, namespace, name, |object| {
        let all = object["metadata"]["annotations"].as_object_mut().unwrap();
        if value.is_null() {
            all.remove(key)
        } else {
            all.insert(key.to_owned(), value.clone())
        };
    });
    edited.unwrap();
}

/// Requests since a number that are no watches: those end and are opened again all the time.
pub fn asked(server: &Server, since: u64) -> usize {
    server.log().iter().filter(|entry| entry.number > since && !entry.query.contains("watch")).count()
}

pub async fn idle() {
    tokio::time::sleep(Duration::from_secs(5)).await;
}

#[tokio::test(start_paused = true)]
async fn a_set_is_annotated_once_restored_and_then_left_in_peace() {
    let (server, cloud) = world();
    server.put(openshift_set("a", "m5.xlarge")).unwrap();
    let _process = running(&server, config(), cloud.clone());
    assert!(server.wait_until(LIMIT, has(OPENSHIFT_SETS, OPENSHIFT, "a", "vCPU", "4")).await);
    let all = notes(&server, OPENSHIFT_SETS, OPENSHIFT, "a");
    assert_eq!(all.len(), 4, "{all:?}");
    assert_eq!(
        (all["memoryMb"].as_str(), all["GPU"].as_str(), all["labels"].as_str()),
        ("16384", "0", "kubernetes.io/arch=amd64")
    );
    assert_eq!(cloud.lists("us-east-1"), 1);
    annotate(&server, OPENSHIFT_SETS, OPENSHIFT, "a", "machine.openshift.io/vCPU", Value::Null);
    assert!(server.wait_until(LIMIT, has(OPENSHIFT_SETS, OPENSHIFT, "a", "vCPU", "4")).await);
    idle().await;
    // Looked at again every ten minutes, more than a hundred times; the catalogue is refreshed once on the way.
    let before = server.requests();
    tokio::time::sleep(Duration::from_secs(21 * 3600)).await;
    assert_eq!((asked(&server, before), cloud.lists("us-east-1")), (0, 1), "idle for 126 looks");
    tokio::time::sleep(Duration::from_secs(3 * 3600)).await;
    assert_eq!(cloud.lists("us-east-1"), 2);
    assert_eq!(events(&server, "a"), []);
}

#[tokio::test(start_paused = true)]
async fn a_change_of_type_takes_the_operators_copies_along() {
    let (server, cloud) = world();
    server.put(openshift_set("a", "m5.xlarge")).unwrap();
    let _process = running(&server, config(), cloud);
    assert!(server.wait_until(LIMIT, has(OPENSHIFT_SETS, OPENSHIFT, "a", "vCPU", "4")).await);
    // As cluster-autoscaler-operator does: copies what it finds, once.
    for (key, value) in [("cpu", "4"), ("memory", "17179869184"), ("gpu-count", "0"), ("gpu-type", "")] {
        annotate(&server, OPENSHIFT_SETS, OPENSHIFT, "a", &format!("{CAPACITY}/{key}"), json!(value));
    }
    idle().await;
    let effects = server.effects();
    idle().await;
    assert_eq!(server.effects(), effects, "right copies are left as they are");
    server
        .edit(OPENSHIFT_SETS, OPENSHIFT, "a", |object| {
            object["spec"]["template"]["spec"]["providerSpec"]["value"]["instanceType"] = json!("m6g.4xlarge");
        })
        .unwrap();
    assert!(server.wait_until(LIMIT, has(OPENSHIFT_SETS, OPENSHIFT, "a", "vCPU", "16")).await);
    let all = notes(&server, OPENSHIFT_SETS, OPENSHIFT, "a");
    for (key, value) in [
        ("memoryMb", "65536"),
        ("labels", "kubernetes.io/arch=arm64"),
        ("cpu", "16"),
        ("memory", "65536Mi"),
        ("gpu-count", "0"),
        ("gpu-type", ""),
    ] {
        assert_eq!(all.get(key).map(String::as_str), Some(value), "{key}");
    }
    idle().await;
    assert_eq!(server.effects(), effects + 1, "one write for all of it");
}

#[tokio::test(start_paused = true)]
async fn a_typo_is_told_once_and_the_next_edit_is_handled_at_once() {
    let (server, cloud) = world();
    server.put(openshift_set("a", "m5.xlrage")).unwrap();
    let _process = running(&server, config(), cloud.clone());
    assert!(server.wait_until(LIMIT, |s| !events(s, "a").is_empty()).await);
    let told = events(&server, "a");
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].0, "FailedUpdate");
    for part in ["instance type", "\"m5.xlrage\"", "unknown", "us-east-1", "m5.xlarge"] {
        assert!(told[0].1.contains(part), "{told:?}");
    }
    assert!(notes(&server, OPENSHIFT_SETS, OPENSHIFT, "a").is_empty());
    let before = server.requests();
    tokio::time::sleep(Duration::from_secs(500)).await;
    assert_eq!((asked(&server, before), cloud.looks("us-east-1")), (0, 1));
    server
        .edit(OPENSHIFT_SETS, OPENSHIFT, "a", |object| {
            object["spec"]["template"]["spec"]["providerSpec"]["value"]["instanceType"] = json!("m5.xlarge");
        })
        .unwrap();
    assert!(server.wait_until(Duration::from_secs(2), has(OPENSHIFT_SETS, OPENSHIFT, "a", "vCPU", "4")).await);
}

#[tokio::test(start_paused = true)]
async fn a_type_launched_since_the_list_is_found_by_name_and_a_half_known_one_is_told() {
    let (server, cloud) = world();
    cloud.launch(aws::port::TypeFacts { name: "m9.large".into(), ..facts("m5.xlarge").unwrap() });
    server.put(openshift_set("new", "m9.large")).unwrap();
    server.put(openshift_set("odd", "odd.large")).unwrap();
    let _process = running(&server, config(), cloud.clone());
    assert!(server.wait_until(LIMIT, has(OPENSHIFT_SETS, OPENSHIFT, "new", "vCPU", "4")).await);
    assert!(server.wait_until(LIMIT, |s| !events(s, "odd").is_empty()).await);
    assert!(notes(&server, OPENSHIFT_SETS, OPENSHIFT, "odd").is_empty(), "nothing is written for it");
    assert_eq!((cloud.lists("us-east-1"), cloud.looks("us-east-1")), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_throttled_region_holds_up_nobody_else_and_is_asked_once_a_step() {
    let (server, cloud) = world();
    cloud.down("eu-west-1", true);
    for number in 0..200 {
        server.put(in_region(&format!("eu-{number}"), "m5.xlarge", "eu-west-1")).unwrap();
    }
    server.put(openshift_set("us", "m5.xlarge")).unwrap();
    let _process = running(&server, config(), cloud.clone());
    assert!(server.wait_until(Duration::from_secs(5), has(OPENSHIFT_SETS, OPENSHIFT, "us", "vCPU", "4")).await);
    let told = |s: &Server| (0..200).all(|n| events(s, &format!("eu-{n}")).len() == 1);
    assert!(server.wait_until(Duration::from_secs(120), told).await);
    tokio::time::sleep(Duration::from_secs(600)).await;
    let lists = cloud.lists("eu-west-1");
    assert!((4..=12).contains(&lists), "{lists} lists in twelve minutes");
    for number in 0..200 {
        let all = events(&server, &format!("eu-{number}"));
        assert!(all.len() == 1 && all[0].0 == "ReconcileError" && !all[0].1.contains("unknown"), "{all:?}");
    }
    cloud.down("eu-west-1", false);
    let done =
        |s: &Server| (0..200).all(|n| notes(s, OPENSHIFT_SETS, OPENSHIFT, &format!("eu-{n}")).contains_key("vCPU"));
    assert!(server.wait_until(Duration::from_secs(900), done).await, "without anybody's help");
    assert_eq!(cloud.lists("eu-west-1"), lists + 1);
}

#[tokio::test(start_paused = true)]
async fn an_old_list_goes_on_while_the_cloud_is_away() {
    let (server, cloud) = world();
    server.put(openshift_set("a", "m5.xlarge")).unwrap();
    let _process = running(&server, config(), cloud.clone());
    assert!(server.wait_until(LIMIT, has(OPENSHIFT_SETS, OPENSHIFT, "a", "vCPU", "4")).await);
    cloud.down("us-east-1", true);
    tokio::time::sleep(Duration::from_secs(30 * 3600)).await;
    assert!(cloud.lists("us-east-1") > 2, "it is tried again and again");
    server.put(openshift_set("b", "m5.4xlarge")).unwrap();
    assert!(server.wait_until(Duration::from_secs(5), has(OPENSHIFT_SETS, OPENSHIFT, "b", "vCPU", "16")).await);
    assert_eq!((events(&server, "a"), events(&server, "b")), (vec![], vec![]));
}

#[tokio::test(start_paused = true)]
async fn a_missing_secret_is_told_and_its_arrival_heard_of() {
    let (server, cloud) = world();
    assert!(server.delete("secrets", OPENSHIFT, "aws"));
    server.put(openshift_set("a", "m5.xlarge")).unwrap();
    let _process = running(&server, config(), cloud.clone());
    assert!(server.wait_until(LIMIT, |s| !events(s, "a").is_empty()).await);
    let told = events(&server, "a");
    assert!(told[0].0 == "FailedUpdate" && told[0].1.contains("Secret openshift-machine-api/aws"), "{told:?}");
    assert_eq!(cloud.calls(), 0);
    server.put(secret("aws", "AKID", "two")).unwrap();
    assert!(server.wait_until(Duration::from_secs(60), has(OPENSHIFT_SETS, OPENSHIFT, "a", "vCPU", "4")).await);
    let doors = cloud.doors();
    assert!(doors.iter().all(|door| door.source.describe() == "keys AKID"), "{doors:?}");
}

#[tokio::test(start_paused = true)]
async fn a_deployment_waits_for_its_template_and_follows_it() {
    let (server, cloud) = world();
    server.put(group("MachineDeployment", "d", "t")).unwrap();
    server.put(cluster(("AWSCluster", "c"), None)).unwrap();
    server.put(aws_cluster("us-west-2")).unwrap();
    let _process = running(&server, config(), cloud.clone());
    assert!(server.wait_until(LIMIT, |s| !events(s, "d").is_empty()).await);
    assert_eq!(events(&server, "d")[0].0, "FailedUpdate");
    server.put(template("t", "m5.xlarge")).unwrap();
    assert!(server.wait_until(Duration::from_secs(3), has(DEPLOYMENTS, NS, "d", "cpu", "4")).await);
    let all = notes(&server, DEPLOYMENTS, NS, "d");
    assert_eq!(
        (all["vCPU"].as_str(), all["memory"].as_str(), all["ephemeral-disk"].as_str()),
        ("4", "16384Mi", "100Gi")
    );
    assert!(all["applied"].contains("\"region\":\"us-west-2\""), "{all:?}");
    server
        .edit(TEMPLATES, NS, "t", |object| object["spec"]["template"]["spec"]["instanceType"] = json!("m6g.4xlarge"))
        .unwrap();
    assert!(server.wait_until(Duration::from_secs(3), has(DEPLOYMENTS, NS, "d", "cpu", "16")).await);
    assert_eq!(notes(&server, DEPLOYMENTS, NS, "d")["labels"], "kubernetes.io/arch=arm64");
    assert_eq!(events(&server, "d").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_region_of_a_managed_cluster_is_its_control_planes() {
    for (infrastructure, kind) in [("AWSManagedCluster", "AWSManagedControlPlane"), ("ROSACluster", "ROSAControlPlane")]
    {
        let (server, cloud) = world();
        server.put(cluster((infrastructure, "c"), Some((kind, "p")))).unwrap();
        let plane = json!({
            "apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": kind,
            "metadata": {"name": "p", "namespace": NS}, "spec": {"region": "ap-south-1"},
        });
        server.put(template("t", "m5.xlarge")).unwrap();
        server.put(group("MachineDeployment", "d", "t")).unwrap();
        let _process = running(&server, config(), cloud.clone());
        assert!(server.wait_until(LIMIT, |s| !events(s, "d").is_empty()).await, "{kind}");
        assert!(events(&server, "d")[0].1.contains("region"));
        server.put(plane).unwrap();
        assert!(server.wait_until(Duration::from_secs(3), has(DEPLOYMENTS, NS, "d", "cpu", "4")).await, "{kind}");
        assert_eq!((cloud.lists("ap-south-1"), cloud.calls()), (1, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_paused_cluster_is_left_alone_until_it_goes_on() {
    let (server, cloud) = world();
    let mut paused = cluster(("AWSCluster", "c"), None);
    paused["spec"]["paused"] = json!(true);
    server.put(paused).unwrap();
    server.put(aws_cluster("us-west-2")).unwrap();
    server.put(template("t", "m5.xlarge")).unwrap();
    server.put(group("MachineDeployment", "d", "t")).unwrap();
    let _process = running(&server, config(), cloud.clone());
    idle().await;
    assert!(notes(&server, DEPLOYMENTS, NS, "d").is_empty());
    assert_eq!(cloud.calls(), 0);
    server.edit(CLUSTERS, NS, "c", |object| object["spec"]["paused"] = json!(false)).unwrap();
    assert!(server.wait_until(Duration::from_secs(3), has(DEPLOYMENTS, NS, "d", "cpu", "4")).await);
}

#[tokio::test(start_paused = true)]
async fn a_set_that_machine_api_takes_back_is_annotated_at_once() {
    let (server, cloud) = world();
    let mut set = openshift_set("a", "m5.xlarge");
    set["status"] = json!({"authoritativeAPI": "MachineAPI", "conditions": [{"type": "Paused", "status": "True"}]});
    server.put(set).unwrap();
    let _process = running(&server, Config { machine_api_migration: true, ..config() }, cloud);
    idle().await;
    assert!(notes(&server, OPENSHIFT_SETS, OPENSHIFT, "a").is_empty());
    server
        .edit(OPENSHIFT_SETS, OPENSHIFT, "a", |object| object["status"]["conditions"][0]["status"] = json!("False"))
        .unwrap();
    assert!(server.wait_until(Duration::from_secs(3), has(OPENSHIFT_SETS, OPENSHIFT, "a", "vCPU", "4")).await);
}

#[tokio::test(start_paused = true)]
async fn a_set_of_its_own_is_annotated_and_one_of_a_deployment_is_not() {
    let (server, cloud) = world();
    server.put(cluster(("AWSCluster", "c"), None)).unwrap();
    server.put(aws_cluster("us-west-2")).unwrap();
    server.put(template("t", "m5.xlarge")).unwrap();
    server.put(group("MachineSet", "alone", "t")).unwrap();
    let mut owned = group("MachineSet", "owned", "t");
    owned["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment", "name": "d", "uid": "u"}]);
    server.set_collector(false);
    server.put(owned).unwrap();
    let _process = running(&server, config(), cloud);
    assert!(server.wait_until(LIMIT, has(SETS, NS, "alone", "cpu", "4")).await);
    idle().await;
    assert!(notes(&server, SETS, NS, "owned").is_empty());
}

#[tokio::test(start_paused = true)]
async fn kinds_that_are_installed_later_are_found() {
    let server = Server::new(1);
    let cloud = Model::default();
    let _process = running(&server, config(), cloud);
    idle().await;
    install(&server);
    server.put(openshift_set("a", "m5.xlarge")).unwrap();
    assert!(server.wait_until(Duration::from_secs(300), has(OPENSHIFT_SETS, OPENSHIFT, "a", "vCPU", "4")).await);
}

#[tokio::test(start_paused = true)]
async fn a_write_that_meets_another_one_is_tried_again_and_loses_nothing() {
    let (server, cloud) = world();
    server.put(openshift_set("a", "m5.xlarge")).unwrap();
    let handle = server.client("capacity");
    let (other, count) = (server.clone(), Arc::new(AtomicU32::new(0)));
    let meetings = Arc::clone(&count);
    handle.script(move |info: &RequestInfo| {
        // Somebody adds a label just before each of our first two writes.
        if info.mutating && info.resource == OPENSHIFT_SETS && meetings.fetch_add(1, Ordering::SeqCst) < 2 {
            let label = format!("team-{}=x", meetings.load(Ordering::SeqCst));
            other
                .edit(OPENSHIFT_SETS, OPENSHIFT, "a", |object| {
                    let all = &mut object["metadata"]["annotations"];
                    let old = all[format!("{CAPACITY}/labels")].as_str().unwrap_or_default().to_owned();
                    all[format!("{CAPACITY}/labels")] =
                        json!(if old.is_empty() { label.clone() } else { format!("{old},{label}") });
                })
                .unwrap();
        }
        Vec::new()
    });
    let mut tasks = tokio::task::JoinSet::new();
    let clock = kit::clock::Clock::simulated((server.clock())(), 1);
    tasks.spawn(run(handle.kube(), clock, config(), cloud, None));
    assert!(server.wait_until(LIMIT, has(OPENSHIFT_SETS, OPENSHIFT, "a", "vCPU", "4")).await);
    assert_eq!(notes(&server, OPENSHIFT_SETS, OPENSHIFT, "a")["labels"], "kubernetes.io/arch=amd64,team-1=x,team-2=x");
    assert!(count.load(Ordering::SeqCst) >= 3);
}

#[tokio::test(start_paused = true)]
async fn a_write_that_meets_an_opt_out_is_not_tried_again() {
    let (server, cloud) = world();
    server.put(openshift_set("a", "m5.xlarge")).unwrap();
    let handle = server.client("capacity");
    let (other, count) = (server.clone(), Arc::new(AtomicU32::new(0)));
    let meetings = Arc::clone(&count);
    handle.script(move |info: &RequestInfo| {
        if info.mutating && info.resource == OPENSHIFT_SETS && meetings.fetch_add(1, Ordering::SeqCst) == 0 {
            other
                .edit(OPENSHIFT_SETS, OPENSHIFT, "a", |object| {
                    object["metadata"]["annotations"][capacity::names::SKIP] = json!("true");
                })
                .unwrap();
        }
        Vec::new()
    });
    let mut tasks = tokio::task::JoinSet::new();
    let clock = kit::clock::Clock::simulated((server.clock())(), 1);
    tasks.spawn(run(handle.kube(), clock, config(), cloud, None));
    idle().await;
    assert_eq!(count.load(Ordering::SeqCst), 1, "the write that met it, and none after it");
    assert!(!notes(&server, OPENSHIFT_SETS, OPENSHIFT, "a").contains_key("vCPU"));
}

#[tokio::test(start_paused = true)]
async fn what_a_policy_refuses_is_not_tried_in_a_loop() {
    for code in [403, 422] {
        let (server, cloud) = world();
        server.put(openshift_set("a", "m5.xlarge")).unwrap();
        let rule = Rule::any().method("PATCH").path_contains("machinesets").times(1_000_000);
        let fault = server.inject(rule, Action::Status(code));
        let _process = running(&server, config(), cloud);
        tokio::time::sleep(Duration::from_secs(500)).await;
        assert!(server.hits(fault) <= 2, "{} tries", server.hits(fault));
        server.stop_fault(fault);
        assert!(server.wait_until(LIMIT, has(OPENSHIFT_SETS, OPENSHIFT, "a", "vCPU", "4")).await);
        assert_eq!(events(&server, "a"), []);
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_keeps_changing_a_key_back_gets_it_for_an_hour() {
    let (server, cloud) = world();
    server.put(openshift_set("a", "m5.xlarge")).unwrap();
    let _process = running(&server, config(), cloud);
    let right = || has(OPENSHIFT_SETS, OPENSHIFT, "a", "vCPU", "4");
    assert!(server.wait_until(LIMIT, right()).await);
    for _ in 0..3 {
        assert!(server.wait_until(Duration::from_secs(5), right()).await);
        annotate(&server, OPENSHIFT_SETS, OPENSHIFT, "a", "machine.openshift.io/vCPU", json!("8"));
        tokio::time::sleep(Duration::from_secs(20)).await;
    }
    assert!(server.wait_until(LIMIT, |s| !events(s, "a").is_empty()).await);
    let told = events(&server, "a");
    assert!(told.len() == 1 && told[0].0 == "AnnotationConflict" && told[0].1.contains("vCPU"), "{told:?}");
    assert_eq!(notes(&server, OPENSHIFT_SETS, OPENSHIFT, "a")["vCPU"], "8");
    annotate(&server, OPENSHIFT_SETS, OPENSHIFT, "a", "machine.openshift.io/memoryMb", json!("1"));
    assert!(
        server.wait_until(LIMIT, has(OPENSHIFT_SETS, OPENSHIFT, "a", "memoryMb", "16384")).await,
        "other keys go on"
    );
    tokio::time::sleep(Duration::from_secs(2 * 3600)).await;
    assert_eq!(notes(&server, OPENSHIFT_SETS, OPENSHIFT, "a")["vCPU"], "4", "after an hour it is ours again");
}

#[tokio::test(start_paused = true)]
async fn a_restart_with_everything_annotated_writes_nothing() {
    let (server, cloud) = world();
    for number in 0..300 {
        server.put(openshift_set(&format!("s-{number}"), "m5.xlarge")).unwrap();
    }
    let process = running(&server, config(), cloud.clone());
    let done =
        |s: &Server| (0..300).all(|n| notes(s, OPENSHIFT_SETS, OPENSHIFT, &format!("s-{n}")).contains_key("vCPU"));
    assert!(server.wait_until(LIMIT, done).await);
    idle().await;
    assert_eq!(server.effects(), 300, "one write each");
    assert_eq!(cloud.calls(), 1);
    drop(process);
    let _process = running(&server, config(), cloud.clone());
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!((server.effects(), cloud.calls()), (300, 2));
}

#[tokio::test(start_paused = true)]
async fn a_region_of_no_known_form_is_asked_about_first() {
    let (server, cloud) = world();
    for region in ["xx-open-1", "xx-shut-1", "xx-moon-1"] {
        server.put(in_region(region, "m5.xlarge", region)).unwrap();
    }
    let _process = running(&server, config(), cloud.clone());
    assert!(server.wait_until(LIMIT, has(OPENSHIFT_SETS, OPENSHIFT, "xx-open-1", "vCPU", "4")).await);
    let told = |name: &str| events(&server, name).first().cloned().unwrap_or_default();
    assert!(
        server.wait_until(LIMIT, |s| !events(s, "xx-shut-1").is_empty() && !events(s, "xx-moon-1").is_empty()).await
    );
    assert!(told("xx-shut-1").1.contains("not enabled"), "{:?}", told("xx-shut-1"));
    assert!(told("xx-moon-1").1.contains("unknown"), "{:?}", told("xx-moon-1"));
    assert_eq!(cloud.lists("xx-moon-1"), 0);
    assert!(cloud.regions() >= 3, "each is asked about where the partition is at home");
}

#[tokio::test(start_paused = true)]
async fn a_strange_region_of_another_partition_is_asked_about_there() {
    let (server, cloud) = world();
    for region in ["us-gov-north-west-1", "cn-moon-base-1"] {
        server.put(in_region(region, "m5.xlarge", region)).unwrap();
    }
    let _process = running(&server, config(), cloud.clone());
    for (region, home) in [("us-gov-north-west-1", "us-gov-west-1"), ("cn-moon-base-1", "cn-northwest-1")] {
        assert!(server.wait_until(LIMIT, |s| !events(s, region).is_empty()).await, "{region}");
        let told = events(&server, region);
        assert!(told[0].1.contains("unknown"), "{told:?}");
        assert!(cloud.regions_told_by(home) > 0, "{region} is asked about in {home}");
        assert_eq!(cloud.lists(region), 0, "{region}");
    }
    assert_eq!(cloud.regions(), 0, "the commercial partition knows nothing of them");
}

#[tokio::test(start_paused = true)]
async fn a_region_that_is_there_is_not_asked_about_again_for_half_an_hour() {
    let (server, cloud) = world();
    cloud.down("xx-open-1", true);
    server.put(in_region("a", "m5.xlarge", "xx-open-1")).unwrap();
    let _process = running(&server, config(), cloud.clone());
    tokio::time::sleep(Duration::from_secs(25 * 60)).await;
    assert!(cloud.lists("xx-open-1") > 3, "{}", cloud.lists("xx-open-1"));
    assert_eq!(cloud.regions(), 1);
    tokio::time::sleep(Duration::from_secs(20 * 60)).await;
    assert_eq!(cloud.regions(), 2, "what was true then may have changed");
    cloud.down("xx-open-1", false);
    assert!(server.wait_until(Duration::from_secs(900), has(OPENSHIFT_SETS, OPENSHIFT, "a", "vCPU", "4")).await);
}

#[tokio::test(start_paused = true)]
async fn a_table_serves_what_no_catalogue_knows() {
    let (server, cloud) = world();
    server.namespace("berth-system");
    let table = |cpu: u32| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "types", "namespace": "berth-system"},
            "data": {"AzureMachineProviderSpec.Standard_D4s_v3": format!("cpu: {cpu}\nmemoryMib: 16384\narch: amd64\n"), "bad": "cpu: x"}})
    };
    let mut azure = openshift_set("a", "");
    azure["spec"]["template"]["spec"]["providerSpec"]["value"] =
        json!({"kind": "AzureMachineProviderSpec", "vmSize": "Standard_D4s_v3"});
    server.put(azure).unwrap();
    let config = Config { table: Some(api::key::ObjectKey::namespaced("berth-system", "types")), ..config() };
    let _process = running(&server, config, cloud.clone());
    assert!(server.wait_until(LIMIT, |s| !events(s, "a").is_empty()).await);
    server.put(table(4)).unwrap();
    assert!(server.wait_until(Duration::from_secs(120), has(OPENSHIFT_SETS, OPENSHIFT, "a", "vCPU", "4")).await);
    server
        .edit("configmaps", "berth-system", "types", |object| {
            *object = {
                let mut new = table(8);
                new["metadata"] = object["metadata"].clone();
                new
            }
        })
        .unwrap();
    assert!(server.wait_until(Duration::from_secs(120), has(OPENSHIFT_SETS, OPENSHIFT, "a", "vCPU", "8")).await);
    assert_eq!(cloud.calls(), 0);
}
