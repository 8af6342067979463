//! What one process was told serves the next: no call and no write after a restart.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use capacity::config::Config;
use serde_json::{Value, json};
use sim::server::{Action, Rule, Server};

use crate::cloud::{Model, facts};
use crate::life::{asked, idle, world};
use crate::objects::*;

const HOME: &str = "berth-system";
const STORE: &str = "berth-capacity-catalogue";
const MAPS: &str = "configmaps";

fn keeping() -> Config {
    Config { store: true, ..config() }
}

fn home() -> (Server, Model) {
    let (server, cloud) = world();
    server.namespace(HOME);
    (server, cloud)
}

fn pages(server: &Server) -> Vec<String> {
    let map = server.get(MAPS, HOME, STORE).unwrap_or_default();
    map["binaryData"].as_object().map(|pages| pages.keys().cloned().collect()).unwrap_or_default()
}

fn writes(server: &Server) -> usize {
    server.log().iter().filter(|entry| entry.method == "PATCH" && entry.resource == MAPS).count()
}

/// Groups of two regions, annotated by a process that is gone; and a cloud that nobody asked yet.
async fn annotated() -> (Server, Model) {
    let (server, cloud) = home();
    server.put(openshift_set("a", "m5.xlarge")).unwrap();
    server.put(in_region("b", "m5.4xlarge", "eu-west-1")).unwrap();
    let process = running(&server, keeping(), cloud.clone());
    assert!(server.wait_until(LIMIT, has(OPENSHIFT_SETS, OPENSHIFT, "a", "vCPU", "4")).await);
    assert!(server.wait_until(LIMIT, has(OPENSHIFT_SETS, OPENSHIFT, "b", "vCPU", "16")).await);
    assert!(server.wait_until(LIMIT, |s| pages(s) == ["eu-west-1", "us-east-1"]).await, "{:?}", pages(&server));
    drop(process);
    idle().await;
    (server, Model::default())
}

#[tokio::test(start_paused = true)]
async fn a_restart_with_everything_annotated_costs_no_call_and_no_write() {
    let (server, cloud) = annotated().await;
    assert_eq!(writes(&server), 1, "regions that are listed together are written together");
    let effects = server.effects();
    let _process = running(&server, keeping(), cloud.clone());
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!((server.effects() - effects, cloud.calls()), (0, 0));
    // What was not needed before is served from it as well, even without credentials.
    assert!(server.delete("secrets", OPENSHIFT, "aws"));
    server.put(openshift_set("new", "m6g.4xlarge")).unwrap();
    assert!(
        server.wait_until(LIMIT, has(OPENSHIFT_SETS, OPENSHIFT, "new", "labels", "kubernetes.io/arch=arm64")).await
    );
    assert_eq!((cloud.calls(), events(&server, "new")), (0, vec![]));
    let before = server.requests();
    idle().await;
    assert_eq!(asked(&server, before), 0);
}

#[tokio::test(start_paused = true)]
async fn a_kept_catalogue_ages_as_if_no_process_had_ended() {
    let (server, cloud) = annotated().await;
    tokio::time::sleep(Duration::from_secs(12 * 3600)).await;
    let process = running(&server, keeping(), cloud.clone());
    tokio::time::sleep(Duration::from_secs(9 * 3600)).await;
    assert_eq!((cloud.calls(), writes(&server)), (0, 1), "fresh for 21 hours");
    tokio::time::sleep(Duration::from_secs(4 * 3600)).await;
    assert_eq!((cloud.lists("us-east-1"), cloud.lists("eu-west-1")), (1, 1), "refreshed before the day was over");
    assert_eq!(events(&server, "a"), []);
    drop(process);
    // What was refreshed was kept as well.
    let fresh = Model::default();
    let _process = running(&server, keeping(), fresh.clone());
    tokio::time::sleep(Duration::from_secs(12 * 3600)).await;
    assert_eq!(fresh.calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_old_catalogue_goes_on_while_the_cloud_does_not_answer() {
    let (server, cloud) = annotated().await;
    tokio::time::sleep(Duration::from_secs(2 * 24 * 3600)).await;
    cloud.down("us-east-1", true);
    let _process = running(&server, keeping(), cloud.clone());
    server.put(openshift_set("new", "m5.4xlarge")).unwrap();
    assert!(server.wait_until(LIMIT, has(OPENSHIFT_SETS, OPENSHIFT, "new", "vCPU", "16")).await);
    assert!(cloud.lists("us-east-1") > 0, "it was asked for a new one");
    assert_eq!(events(&server, "new"), []);
}

#[tokio::test(start_paused = true)]
async fn a_type_that_was_asked_for_by_name_is_kept_too() {
    let (server, cloud) = home();
    let mut new = facts("m5.xlarge").unwrap();
    new.name = "m9.xlarge".into();
    cloud.launch(new);
    server.put(openshift_set("a", "m9.xlarge")).unwrap();
    let process = running(&server, keeping(), cloud.clone());
    assert!(server.wait_until(LIMIT, has(OPENSHIFT_SETS, OPENSHIFT, "a", "vCPU", "4")).await);
    assert_eq!((cloud.lists("us-east-1"), cloud.looks("us-east-1")), (1, 1));
    idle().await;
    drop(process);
    let effects = server.effects();
    let cloud = Model::default();
    let _process = running(&server, keeping(), cloud.clone());
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!((server.effects() - effects, cloud.calls()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn what_is_not_ours_is_listed_anew_and_replaced() {
    let damaged: fn(&mut Value) = |map| map["binaryData"]["us-east-1"] = json!(STANDARD.encode("nonsense"));
    let swapped: fn(&mut Value) = |map| map["binaryData"]["us-east-1"] = map["binaryData"]["eu-west-1"].clone();
    let emptied: fn(&mut Value) = |map| map["binaryData"] = json!({});
    for (what, change) in [("damaged", damaged), ("of another region", swapped), ("empty", emptied)] {
        let (server, cloud) = annotated().await;
        let before = server.get(MAPS, HOME, STORE).unwrap()["binaryData"]["us-east-1"].clone();
        server.edit(MAPS, HOME, STORE, change).unwrap();
        let _process = running(&server, keeping(), cloud.clone());
        idle().await;
        idle().await;
        assert_eq!(cloud.lists("us-east-1"), 1, "{what}");
        let after = server.get(MAPS, HOME, STORE).unwrap()["binaryData"]["us-east-1"].clone();
        assert!(after.is_string() && after != before, "{what}: as long as the old one, but of a later time");
        assert_eq!(events(&server, "a"), [], "{what}: nobody's trouble");
    }
}

#[tokio::test(start_paused = true)]
async fn without_the_right_to_keep_it_everything_else_goes_on() {
    let (server, cloud) = home();
    let rule = Rule::any().path_contains(STORE).times(1_000_000);
    server.inject(rule, Action::Status(403));
    server.put(openshift_set("a", "m5.xlarge")).unwrap();
    let _process = running(&server, keeping(), cloud.clone());
    assert!(server.wait_until(LIMIT, has(OPENSHIFT_SETS, OPENSHIFT, "a", "vCPU", "4")).await);
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let tries = server.log().iter().filter(|entry| entry.path.contains(STORE)).count();
    assert_eq!((tries, cloud.lists("us-east-1")), (2, 1), "read once, written once");
    assert_eq!(events(&server, "a"), []);
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_reads_it_and_does_not_write() {
    let (server, cloud) = home();
    server.put(openshift_set("a", "m5.xlarge")).unwrap();
    let _process = running(&server, Config { dry_run: true, ..keeping() }, cloud.clone());
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!((cloud.lists("us-east-1"), server.effects()), (1, 0));
}
