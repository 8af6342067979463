//! The room in a closed loop on the in-memory API server, with the host simulator, tenants and admins around it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]
#![allow(clippy::disallowed_methods, reason = "the actors around the room own their tasks and their time")]

mod counted;
mod crowd;
mod edges;
mod histories;
mod kinds;
mod mirror;
mod objects;
mod reasons;
mod release;
mod restart;
mod site;
mod stories;
mod sweeps;
mod thrift;
mod travel;
