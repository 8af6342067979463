//! The room `vip` with the real Cluster API core manager, the real in-cluster IPAM provider and the real binary.
//!
//! All tests share one API server, one manager of each kind and two replicas of Berth. A watch records every version of
//! every object from the start, and each test has the record judged: what happened is compared with what is promised at
//! every single revision, not only at the end.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]
#![allow(clippy::disallowed_methods, reason = "real processes run by the real clock")]

mod allocation;
mod cluster_api;
mod fleet;
mod front;
mod harness;
mod lifecycle;
mod pools;
#[path = "../shared/mod.rs"]
mod shared;
mod variants;
mod world;
