//! The hooks as Cluster API meets them: over TLS, with its requests of three versions, and with whatever else comes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod answers;
mod golden;
mod limits;
mod support;
mod transport;
