//! One short run of the whole runner on a real API server, with a stand-in on both sides.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]
#![allow(clippy::disallowed_methods, reason = "a test of a measuring tool reads its environment")]

use std::process::{Command, Output};

use serde_json::Value;

const BENCH: &str = env!("CARGO_BIN_EXE_berth-bench");

fn bench(args: &[&str]) -> Output {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    Command::new(BENCH).args(args).current_dir(root).output().expect("the bench starts")
}

#[test]
fn a_flag_that_cannot_work_is_refused_by_name_before_anything_starts() {
    let own = |extra: &[&'static str]| [&["run", "--subject", BENCH], extra].concat();
    for (args, flag) in [
        (vec!["run", "--subject", "no/such/program"], "--subject"),
        (own(&["--peer", "no/such/peer {kubeconfig}"]), "--peer"),
        (own(&["--peer", "'"]), "--peer"),
        (own(&["--subject-args", "run {kubeconfg}"]), "--subject-args"),
        (own(&["--crds", ""]), "--crds"),
        (own(&["--out", "no/such/dir/file.json"]), "--out"),
        (own(&["--pairs", "0"]), "--pairs"),
    ] {
        let out = bench(&args);
        let text = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{args:?}: {text}");
        assert!(text.contains(flag), "{args:?}: {text}");
    }
}

#[test]
fn a_quick_run_measures_both_sides_and_fails_the_one_that_writes() {
    if let Err(error) = sim::plane::Server::find() {
        assert!(!sim::plane::required(), "a server is required: {error}");
        eprintln!("SKIPPED a_quick_run_measures_both_sides_and_fails_the_one_that_writes: {error}");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (work, out) = (dir.path().join("work"), dir.path().join("out.json"));
    let peer = format!("{BENCH} stand-in --touch --kubeconfig {{kubeconfig}} --health {{health}}");
    let run = bench(&[
        "run",
        "--quick",
        "--objects=50",
        "--subject",
        BENCH,
        "--subject-args=stand-in --kubeconfig {kubeconfig} --health {health}",
        "--crds={subject} stand-in-crds",
        "--peer",
        &peer,
        "--idle-seconds=1",
        "--settle-seconds=1",
        "--settle-timeout-seconds=60",
        "--ceiling-requests=20",
        "--no-empty-leg",
        "--work-dir",
        work.to_str().unwrap(),
        "--out",
        out.to_str().unwrap(),
    ]);
    let told = String::from_utf8_lossy(&run.stderr);
    assert_eq!(run.status.code(), Some(1), "{told}");
    let doc: Value =
        serde_json::from_slice(&std::fs::read(&out).unwrap_or_else(|error| panic!("no document: {error}: {told}")))
            .unwrap();
    assert_eq!((doc["schema"].as_str(), doc["result"].as_str()), (Some("berth-bench/2"), Some("failed")), "{told}");

    let legs = doc["legs"].as_array().unwrap();
    assert_eq!(legs.iter().map(|l| l["side"].as_str().unwrap()).collect::<Vec<_>>(), ["subject", "peer"]);
    let (subject, peer) = (&legs[0], &legs[1]);
    assert_eq!(subject["oracle"], serde_json::json!([]), "{told}");
    assert_eq!(subject["objects"], 50);
    // 50 objects in pages of 20.
    assert_eq!(subject["requests_start"]["lists"], 3);
    assert_eq!(subject["requests_start"]["writes"], 0);
    assert_eq!(subject["requests_start"]["by_agent"]["stand-in/1"], subject["requests_start"]["total"]);
    // When a watch ends is the server's affair.
    assert_eq!(subject["requests_idle"]["total"], subject["requests_idle"]["watches"], "{}", subject["requests_idle"]);
    assert_eq!(subject["cross_check"]["agrees"], true);
    assert_eq!(subject["exit_code"], 0);
    let figure = |name: &str| subject[name].as_f64().unwrap_or_else(|| panic!("{name} is missing: {told}"));
    assert!(figure("exec_to_ready_ms") > 0.0 && figure("exec_to_settled_ms") >= figure("exec_to_ready_ms"));
    assert!(figure("peak_kib") >= figure("rss_idle_kib") && figure("stop_ms") > 0.0);

    assert_eq!(peer["requests_start"]["writes"], 1);
    assert_eq!(peer["watcher_events"], 1);
    let wrong = doc["oracle"].to_string();
    assert!(wrong.contains("peer pair 1: 1 objects written to") && !wrong.contains("subject"), "{wrong}");

    assert_eq!(doc["ceilings"].as_array().unwrap().len(), 1);
    assert!(doc["ceilings"][0]["create"]["per_second"].as_f64().unwrap() > 0.0);
    assert_eq!(doc["ratios"]["lists to settled"]["median"], 1.0);
    assert!(!doc["budgets"].as_array().unwrap().is_empty());
    assert_eq!(std::fs::read_dir(&work).unwrap().count(), 0, "the work directory is left clean");
}
