//! The room's thinking, without a server and without a cloud: tables, worked examples, properties.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod build;
mod cloudstack;
mod decisions;
mod eligibility;
mod examples;
mod explaining;
mod noise;
mod ownership;
mod resolution;
