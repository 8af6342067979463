//! The kind `aws-dedicated-host` keeps every promise that is asked of a kind, with dedicated hosts of the strict simulator
//! and the instances on them as its machines.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod dedicated;
mod selecting;
mod sharing;
#[allow(dead_code, reason = "shared with the tests of machines")]
#[path = "../world/site.rs"]
mod site;
mod stories;
mod sweeps;

claim_kind::contract!(dedicated::Dedicated);
