//! The room in a closed loop: the in-memory API server, the real client of CloudStack, its strict simulator, a played
//! Cluster API with its provider, and a second in-memory server for the inside of the cluster.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod changes;
mod checks;
mod cost;
mod invariants;
mod life;
mod others;
mod play;
mod plugin;
mod references;
mod site;
mod sweeps;
mod wakes;
mod words;
