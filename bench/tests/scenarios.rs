//! One tiny run of each scenario with the real binary: everything is done, nothing is measured that is worth quoting.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]
#![allow(clippy::disallowed_methods, reason = "a test of a measuring tool reads its environment")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;

const BENCH: &str = env!("CARGO_BIN_EXE_berth-bench");

/// One API server at a time is enough for a small machine.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The product beside the bench, or a visible notice that something is not built.
fn subject(test: &str, needs: Result<(), String>) -> Option<PathBuf> {
    let berth = Path::new(BENCH).with_file_name("berth");
    let there = if berth.is_file() { Ok(()) } else { Err(format!("{} is not built", berth.display())) };
    let server = sim::plane::Server::find().map(drop).map_err(|error| error.to_string());
    match there.and(server).and(needs) {
        Ok(()) => Some(berth),
        Err(missing) => {
            assert!(!sim::plane::required(), "{test}: {missing}");
            eprintln!("SKIPPED {test}: {missing}");
            None
        }
    }
}

fn cluster_api() -> Result<(), String> {
    sim::plane::cluster_api_definitions().map(drop).map_err(|error| error.to_string())
}

fn providers() -> Result<(), String> {
    cluster_api().and(sim::plane::provider_definitions().map(drop).map_err(|error| error.to_string()))
}

/// Runs a scenario that waits for no silence to its document.
fn run(berth: &Path, scenario: &str, more: &[&str]) -> Value {
    let flags = [&["--silence-seconds=0", "--wait-seconds=180"][..], more].concat();
    let document = passed(berth, scenario, &flags);
    assert_eq!(document["ceilings"].as_array().unwrap().len(), 2);
    document
}

/// Runs a scenario to its document, which must have passed its oracle.
fn passed(berth: &Path, scenario: &str, more: &[&str]) -> Value {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (work, out, markdown) = (at("work"), at("out.json"), at("out.md"));
    let ran = Command::new(BENCH)
        .args([scenario, "--subject", berth.to_str().unwrap(), "--work-dir", &work, "--out", &out])
        .args(["--markdown", &markdown, "--ceiling-requests=20", "--load-wait-seconds=0"])
        .args(["--time-limit-seconds=500", "--allow-disturbed"])
        .args(more)
        .output()
        .expect("the bench starts");
    let told = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(0), "{told}");
    let document: Value = serde_json::from_slice(&std::fs::read(&out).unwrap()).unwrap();
    assert_eq!(document["oracle"], serde_json::json!([]), "{told}");
    assert!(!document["budgets"].as_array().unwrap().is_empty());
    let page = std::fs::read_to_string(&markdown).unwrap();
    assert!(page.contains(&format!("{BENCH} {scenario}")) && page.contains("|---|"), "{page}");
    assert_eq!(std::fs::read_dir(&work).unwrap().count(), 0, "the work directory is left clean");
    document
}

#[test]
fn claims_get_hosts_hosts_change_hands_and_a_flood_passes() {
    let Some(berth) = subject("claims_get_hosts_hosts_change_hands_and_a_flood_passes", Ok(())) else { return };
    let _turn = turn();
    let flags = [
        "--sizes=3,10",
        "--waiting=20",
        "--churn=10",
        "--churn-rate=50",
        "--flood=20",
        "--others=5",
        "--others-rate=50",
    ];
    let document = run(&berth, "claims", &flags);
    assert_eq!(document["schema"], "berth-bench/claims/1");
    for (size, samples) in [("3", 3), ("10", 10)] {
        let bind = &document["bind"][size];
        assert_eq!(bind["ms"]["samples"], samples, "{bind}");
        assert_eq!(bind["conflicts"], 0, "{bind}");
        assert!(bind["hosts_examined_per_bind"].as_f64().unwrap() >= 1.0, "{bind}");
        assert!(bind["writes_per_bind"].as_f64().unwrap() >= 3.0, "{bind}");
        assert_eq!(bind["requests"]["patch baremetalhosts.metal3.io"], samples, "{bind}");
    }
    let churn = &document["churn"];
    assert_eq!(churn["delete_to_free_ms"]["samples"], 10, "{churn}");
    assert_eq!(churn["free_to_bound_ms"]["samples"], 10, "{churn}");
    let flood = &document["flood"];
    for (who, samples) in [("alone_ms", 5), ("beside_ms", 5), ("flood_ms", 20)] {
        assert_eq!(flood[who]["samples"], samples, "{flood}");
    }
    assert!(flood["ratio"].as_f64().unwrap() > 0.0, "{flood}");
    let slowest = flood["slowest"].as_array().unwrap();
    assert_eq!(slowest.len(), 5, "{flood}");
    let mut bound = false;
    for slow in slowest {
        let (all, server, asked) = (&slow["ms"], &slow["server_ms"], slow["requests"].as_array().unwrap());
        assert!(all.as_f64() >= server.as_f64() && server.is_f64() && slow["host_ms"].is_f64(), "{slow}");
        // A watcher that got no processor for a while shows a claim after all that was asked about it.
        assert!(asked.iter().all(|request| request["what"].is_string() && request["code"].is_u64()), "{slow}");
        let binds = |request: &Value| request["what"] == "patch baremetalhosts" && request["code"] == 200;
        bound |= server.as_f64() > Some(0.0) && asked.iter().any(binds);
    }
    assert!(bound, "{flood}");
}

#[test]
fn other_controllers_get_the_same_claims_and_are_judged_by_what_they_leave() {
    let test = "other_controllers_get_the_same_claims_and_are_judged_by_what_they_leave";
    let Some(berth) = subject(test, Ok(())) else { return };
    let _turn = turn();
    // Berth itself, which without its webhooks adds the finalizers itself, and somebody who never binds anything.
    let able = format!(
        "{} run --kubeconfig {{kubeconfig}} --health-addr {{health}} --metrics-bind-address {{metrics}} --webhook-port 0 --controllers claims",
        berth.display()
    );
    let idle = "sh -c 'trap \"exit 0\" TERM; while :; do sleep 0.1; done'";
    let flags = ["--sizes=10", "--waiting=0", "--flood=0", "--peer-seconds=40"];
    let document = run(&berth, "claims", &[&flags[..], &["--peer", &able, "--peer", idle]].concat());
    let (able, idle) = (&document["peers"][0], &document["peers"][1]["bind"]["10"]);
    let bound = &able["bind"]["10"];
    assert_eq!((&bound["bound"], &bound["ms"]["samples"]), (&10.into(), &10.into()), "{able}");
    assert!(bound["ratio"].as_f64().unwrap() > 0.0, "{bound}");
    assert_eq!(bound["requests"]["patch baremetalhosts.metal3.io"], 10, "{bound}");
    assert!(bound["writes_per_bind"].as_f64().unwrap() >= 4.0, "{bound}");
    assert_eq!((&idle["bound"], &idle["seconds"], &idle["ratio"]), (&0.into(), &40.0.into(), &Value::Null), "{idle}");
}

#[test]
fn machines_on_claims_come_up_rest_and_leave_nothing() {
    let test = "machines_on_claims_come_up_rest_and_leave_nothing";
    let Some(berth) = subject(test, cluster_api()) else { return };
    let _turn = turn();
    let document = run(&berth, "machines", &["--count=5"]);
    assert_eq!((&document["schema"], &document["machines"]), (&"berth-bench/machines/1".into(), &5.into()));
    for (screen, least) in [("tree", 6), ("claims", 6), ("hosts", 6)] {
        let all = document["screens"].as_array().expect("what was shown");
        let shown = all.iter().find(|shown| shown["command"] == screen).unwrap_or_else(|| panic!("no {screen}"));
        assert!(shown["lines"].as_u64() >= Some(least) && shown["requests"].as_f64() >= Some(1.0), "{shown}");
    }
    assert!(document["played"]["Cluster API"].is_string(), "{document}");
    let (up, down) = (&document["up"], &document["down"]);
    for times in [&up["ms"], &up["bound_ms"], &up["told_ms"], &down["free_ms"], &down["gone_ms"]] {
        assert_eq!(times["samples"], 5, "{document}");
    }
    for what in ["create hostclaims.metal3.io", "patch nodes"] {
        assert_eq!(up["requests"][what], 5, "{up}");
    }
    assert_eq!(down["requests"]["delete hostclaims.metal3.io"], 5, "{down}");
    assert_eq!(document["idle"]["requests"], 0, "{document}");
    assert!(up["writes_over_needed"].as_f64().unwrap() >= 1.0, "{up}");
    assert!(document["memory"]["peak_kib"].as_u64() >= document["memory"]["rss_kib"].as_u64(), "{document}");
}

#[test]
fn clusters_are_judged_and_written_and_the_same_files_write_nothing() {
    let test = "clusters_are_judged_and_written_and_the_same_files_write_nothing";
    let Some(berth) = subject(test, providers()) else { return };
    let _turn = turn();
    let document = run(&berth, "clusters", &["--sizes=1,3", "--verdicts=10", "--rate=2"]);
    assert_eq!(document["schema"], "berth-bench/clusters/1");
    assert!(document["played"]["CloudStack"].is_string(), "{document}");
    let verdict = &document["verdict"];
    for times in [&verdict["ms"], &verdict["datacenter_ms"]] {
        assert_eq!(times["samples"], 10, "{verdict}");
    }
    assert_eq!(verdict["refused"], 1, "{verdict}");
    let commands =
        ["listDomains", "listAccounts", "listZones", "listNetworks", "listTemplates", "listServiceOfferings"];
    for command in commands {
        assert_eq!(verdict["calls"][command], 10, "{command}: {verdict}");
    }
    for (size, clusters) in [("1", 1), ("3", 3)] {
        let equal = &document["equal"][size];
        for command in commands {
            assert_eq!(equal["calls"][command], 1, "{command}: {equal}");
        }
        for times in [&equal["written_ms"], &equal["ready_ms"]] {
            assert_eq!(times["samples"], clusters, "{equal}");
        }
        assert_eq!(
            equal["requests"]["create cloudstackmachinetemplates.infrastructure.cluster.x-k8s.io"],
            2 * clusters
        );
        assert!(equal["writes_over_needed"].as_f64().unwrap() >= 1.0, "{equal}");
        assert_eq!((&equal["again"]["objects"], &equal["again"]["writes"]), (&(clusters + 2).into(), &0.into()));
        assert_eq!((&equal["idle"]["requests"], &equal["idle"]["calls"]), (&0.into(), &0.into()), "{equal}");
    }
    assert_eq!(document["calls_ratio"], 1.0, "{document}");
}

#[test]
fn groups_are_annotated_once_and_a_restart_writes_nothing() {
    let Some(berth) = subject("groups_are_annotated_once_and_a_restart_writes_nothing", cluster_api()) else { return };
    let _turn = turn();
    let flags = ["--sizes=1,12", "--types=5", "--paced=10", "--rate=50", "--late=5", "--late-rate=50"];
    let document = run(&berth, "capacity", &flags);
    assert_eq!(document["schema"], "berth-bench/capacity/1");
    let pages = document["pages"].as_u64().unwrap();
    for (size, groups) in [("1", 1), ("12", 12)] {
        let annotate = &document["annotate"][size];
        assert_eq!(annotate["writes"], groups, "{annotate}");
        assert_eq!(annotate["cloud_calls"]["DescribeInstanceTypes"], pages, "{annotate}");
        assert_eq!(annotate["restart"]["writes"], 0, "{annotate}");
        assert!(annotate["rss_kib"].as_u64().unwrap() > 0, "{annotate}");
    }
    assert_eq!(document["paced"]["ms"]["samples"], 10);
    assert_eq!(document["late"]["ms"]["samples"], 5);
}

#[test]
fn clusters_get_addresses_and_hooks_answer() {
    let Some(berth) = subject("clusters_get_addresses_and_hooks_answer", cluster_api()) else { return };
    let _turn = turn();
    let flags = ["--sizes=1,5", "--clusters=10", "--calls=64", "--first-calls=3", "--patch-calls=3"];
    let document = run(&berth, "vip", &flags);
    assert_eq!(document["schema"], "berth-bench/vip/3");
    let burst = &document["bring_up"]["5"];
    assert_eq!(burst["seconds"]["samples"], 5);
    // Each cluster has one claim, and is written to once.
    for write in ["create ipaddressclaims.ipam.cluster.x-k8s.io", "patch clusters.cluster.x-k8s.io"] {
        assert_eq!(burst["requests_each"][write], 1.0, "{burst}");
    }
    assert!(burst["efficiency"].as_f64().unwrap() > 0.0 && burst["server_alone_seconds"].as_f64().unwrap() > 0.0);
    for connections in ["1", "8", "64"] {
        let known = &document["known"][connections];
        assert_eq!((known["ms"]["samples"].as_u64(), known["api_requests"].as_u64()), (Some(64), Some(0)), "{known}");
    }
    assert_eq!(document["patches_equal"], true);
    assert!(document["clusters"].as_u64().unwrap() >= 10 && document["rss_kib"].as_u64().unwrap() > 0);
}

#[test]
fn machines_get_hosts_and_give_them_back_within_the_request_limits() {
    let test = "machines_get_hosts_and_give_them_back_within_the_request_limits";
    let Some(berth) = subject(test, cluster_api()) else { return };
    let _turn = turn();
    let document = run(&berth, "hosts", &["--sizes=3", "--shipped=2"]);
    assert_eq!(document["schema"], "berth-bench/hosts/1");
    for (leg, size, machines) in [("published", "3", 3), ("shipped", "2", 2)] {
        let life = &document[leg][size];
        let calls = &life["calls"];
        for operation in ["AllocateHosts", "RunInstances"] {
            assert_eq!(calls["mutating"][operation], machines, "{life}");
        }
        for operation in ["TerminateInstances", "ReleaseHosts"] {
            let made = calls["mutating"][operation].as_u64().unwrap();
            assert!((1..=machines).contains(&made), "{operation}: {life}");
        }
        assert_eq!((&calls["trials"]["RunInstances"], &calls["throttled"]), (&1.into(), &0.into()), "{life}");
        assert_eq!(life["empty_seconds"]["samples"], machines, "{life}");
        assert_eq!(life["release_seconds"]["samples"], machines, "{life}");
    }
}

#[test]
fn objects_at_rest_cost_no_write() {
    let Some(berth) = subject("objects_at_rest_cost_no_write", Ok(())) else { return };
    let _turn = turn();
    // More than the sample on which Berth settles by itself: the others are stored with the state that it gave to those.
    let flags = ["--quick", "--objects=40", "--no-empty-leg", "--idle-seconds=2"];
    let document = passed(&berth, "run", &flags);
    assert_eq!(document["schema"], "berth-bench/2");
    let leg = &document["legs"][0];
    assert_eq!((&leg["objects"], &leg["exit_code"]), (&40.into(), &0.into()), "{leg}");
    for window in ["requests_start", "requests_idle"] {
        assert_eq!(leg[window]["writes"], 0, "{window}: {leg}");
    }
}
