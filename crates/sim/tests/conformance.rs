//! The conformance suite on the in-memory server.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    missing_docs
)]

#[tokio::test(start_paused = true)]
async fn every_case_passes_on_the_in_memory_server() {
    let server = sim::server::Server::new(1);
    server.namespace("suite");
    let report = sim::conformance::run(server.kube(), "suite").await;
    println!("{report}");
    assert!(report.total() >= 45);
    assert!(report.failed().is_empty(), "{report}");
    let again = sim::conformance::run(server.kube(), "suite").await;
    assert!(again.failed().is_empty(), "{again}");
}

/// What the garbage collector and the namespace controller do. The plane has both; a bare kube-apiserver has neither.
const OF_CONTROLLERS: [&str; 6] = [
    "a_dependent_of_a_former_object_of_that_name_is_collected",
    "a_dependent_with_another_living_owner_stays",
    "a_terminating_namespace_takes_no_new_objects",
    "dependents_follow_their_owner",
    "foreground_deletion_waits_for_blocking_dependents",
    "orphaned_dependents_stay_without_their_owner",
];

#[tokio::test]
async fn every_case_passes_on_the_real_server() {
    let Some(plane) = sim::plane::for_test("every_case_passes_on_the_real_server") else {
        return;
    };
    let client = plane.client().await.expect("a client of the real server");
    let report = sim::conformance::run(client, "default").await;
    println!("{report}");
    let mut failed = report.failed();
    if !plane.has_controllers() {
        eprintln!(
            "SKIPPED of every_case_passes_on_the_real_server, because nobody collects garbage there: {OF_CONTROLLERS:?}"
        );
        failed.retain(|(name, _)| !OF_CONTROLLERS.contains(name));
    }
    assert!(failed.is_empty(), "{report}");
}
