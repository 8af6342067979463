//! The room `hosts` with the real Cluster API core manager, the real binary and the strict EC2 simulator.
//!
//! All tests share one API server and one core manager. Each has a namespace, an account on a simulated EC2 and a Berth
//! of its own, told apart by their watch filters, so that a test can kill its Berth or have EC2 refuse without the others
//! noticing. At the end of each the simulator says what is still paid for.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]
#![allow(clippy::disallowed_methods, reason = "real processes run by the real clock")]

mod lifecycle;
mod people;
#[path = "../shared/mod.rs"]
mod shared;
mod world;
