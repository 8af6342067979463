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

#[tokio::test]
async fn every_case_passes_on_the_real_server() {
    let Some(plane) = sim::plane::for_test("every_case_passes_on_the_real_server") else {
        return;
    };
    let client = plane.client().await.expect("a client of the real server");
    let report = sim::conformance::run(client, "default").await;
    println!("{report}");
    assert!(report.failed().is_empty(), "{report}");
}
