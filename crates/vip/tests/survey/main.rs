//! How a cluster is judged: every row of the rules, and what holds of any judgement.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod build;
mod goal;
mod guards;
mod properties;
mod stance;
mod states;
