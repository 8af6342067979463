//! The room in a closed loop: the in-memory API server, a second one for the inside of the cluster, and whoever plays the
//! controllers of claims and data and the machines that boot.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]
#![allow(clippy::disallowed_methods, reason = "whoever plays others owns their tasks")]

mod clusters;
mod life;
mod looks;
mod others;
mod pivot;
mod play;
mod real;
mod site;
mod sweeps;
mod thrift;
