//! The room in a closed loop on the in-memory API server, with an IPAM provider, Cluster API and users around it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]
#![allow(clippy::disallowed_methods, reason = "the actors around the room own their tasks and their time")]

mod actors;
mod classes;
mod costs;
mod leaving;
mod model;
mod moving;
mod objects;
mod overlaps;
mod reserving;
mod reuse;
mod sweeps;
mod told;
