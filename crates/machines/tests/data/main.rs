//! Data templates and remediation in a closed loop on the in-memory API server, with address management, hosts and Nodes
//! played around them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]
#![allow(clippy::disallowed_methods, reason = "the actors around the room own their tasks and their time")]

mod actors;
mod numbers;
mod objects;
mod site;
mod sweeps;
mod treatment;
