//! How many groups are annotated, what the others wait for, and how long it took.

use std::time::Duration;

use capacity::config::Config;
use kit::feed::Scope;
use kit::telemetry::Metrics;
use sim::server::{Action, Rule};

use crate::life::{idle, world};
use crate::objects::*;

const SET: &str = "room=\"capacity\",kind=\"MachineSet\"";

/// The groups by how they stand.
fn stands(metrics: &Metrics) -> Vec<String> {
    let (text, start) = (metrics.encode(), format!("berth_room_objects{{{SET},"));
    text.lines().filter_map(|line| line.strip_prefix(&start)).map(str::to_owned).collect()
}

fn value(metrics: &Metrics, name: &str, labels: &str) -> Option<f64> {
    let (text, start) = (metrics.encode(), format!("{name}{{{SET}{labels}}} "));
    text.lines().find_map(|line| line.strip_prefix(&start)).map(|value| value.parse().unwrap())
}

#[tokio::test(start_paused = true)]
async fn groups_are_counted_by_what_keeps_them_from_being_annotated_and_a_wait_once() {
    let (server, cloud) = world();
    let (process, metrics) = observed(&server, config(), cloud.clone(), Scope::All);
    idle().await;
    assert_eq!(stands(&metrics), ["state=\"ready\",reason=\"\"} 0"]);
    server.put(openshift_set("typo", "m5.xlrage")).unwrap();
    server.put(openshift_set("a", "m5.xlarge")).unwrap();
    assert!(server.wait_until(LIMIT, has(OPENSHIFT_SETS, OPENSHIFT, "a", "vCPU", "4")).await);
    tokio::time::sleep(Duration::from_secs(1_000)).await;
    let waits = "state=\"waiting\",reason=\"FailedUpdate\"}";
    assert_eq!(stands(&metrics), ["state=\"ready\",reason=\"\"} 1".to_owned(), format!("{waits} 1")]);
    let oldest = value(&metrics, "berth_room_oldest_wait_seconds", ",state=\"waiting\",reason=\"FailedUpdate\"");
    assert!(oldest.is_some_and(|seconds| (1_000.0..1_200.0).contains(&seconds)), "{oldest:?}");
    assert_eq!(value(&metrics, "berth_room_ready_seconds_count", ""), Some(1.0));
    let took = value(&metrics, "berth_room_ready_seconds_sum", "");
    assert!(took.is_some_and(|seconds| seconds < 60.0), "{took:?}");

    // Another process finds them as they are; what is annotated was annotated before.
    drop(process);
    let (_process, metrics) = observed(&server, config(), cloud, Scope::All);
    idle().await;
    assert_eq!(stands(&metrics), ["state=\"ready\",reason=\"\"} 1".to_owned(), format!("{waits} 1")]);
    assert_eq!(value(&metrics, "berth_room_ready_seconds_count", ""), None);
    let object = |name: &str| server.delete(OPENSHIFT_SETS, OPENSHIFT, name);
    assert!(object("typo") && object("a"));
    idle().await;
    assert_eq!(stands(&metrics), ["state=\"ready\",reason=\"\"} 0"]);
}

#[tokio::test(start_paused = true)]
async fn where_nothing_is_written_no_group_is_said_to_wait() {
    let (server, cloud) = world();
    server.put(openshift_set("a", "m5.xlarge")).unwrap();
    let (_process, metrics) = observed(&server, Config { dry_run: true, ..config() }, cloud, Scope::All);
    idle().await;
    assert_eq!(stands(&metrics), ["state=\"ready\",reason=\"\"} 0"]);
}

#[tokio::test(start_paused = true)]
async fn a_group_that_a_policy_of_the_migration_guards_is_left_alone_and_one_that_lacks_a_right_is_not() {
    let unjudged = "state=\"waiting\",reason=\"NotJudged\"} 1";
    for (code, migration, waits) in [(422, true, false), (422, false, true), (403, true, true)] {
        let (server, cloud) = world();
        server.inject(Rule::any().method("PATCH").path_contains("machinesets").always(), Action::Status(code));
        let mut set = openshift_set("a", "m5.xlarge");
        set["status"] = serde_json::json!({"authoritativeAPI": "MachineAPI"});
        server.put(set).unwrap();
        let config = Config { machine_api_migration: migration, ..config() };
        let (_process, metrics) = observed(&server, config, cloud, Scope::All);
        idle().await;
        let told = stands(&metrics);
        assert_eq!(told.iter().any(|line| line == unjudged), waits, "{code} {migration}: {told:?}");
    }
}
