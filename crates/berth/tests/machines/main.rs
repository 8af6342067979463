//! The room `machines` with the real binary, the real Cluster API core manager, and three places to run machines: played
//! hosts, the strict EC2 simulator and the strict CloudStack simulator.
//!
//! All tests share one management cluster and one Berth, which has exactly the rights that `berth rbac` prints. The
//! workload clusters are a real API server whose kubelets are played ([`sim::nodes`]). The manifests are those of the book.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]
#![allow(clippy::disallowed_methods, reason = "real processes run by the real clock")]

#[path = "../shared/ground.rs"]
#[allow(dead_code, reason = "of what clusters on CloudStack stand on, machines need the simulator alone")]
mod ground;
mod life;
#[path = "../shared/places.rs"]
mod places;
mod renewal;
#[path = "../shared/mod.rs"]
mod shared;
mod tenants;
mod world;
