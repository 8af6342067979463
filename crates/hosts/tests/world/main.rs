//! The room in a closed loop: the in-memory API server, the real client of EC2, and the strict simulator in the same
//! process, over the same signed bytes as in production.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod account;
mod around;
mod asked;
mod crowd;
mod errors;
mod failures;
mod foreign;
mod launches;
mod life;
mod lost;
mod moves;
mod others;
mod ownership;
mod site;
mod sweeps;
