//! Metrics, their page, alerts and dashboards tell the same: what is asked for is exported, and what is exported is
//! told and shown.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod alerts;
mod closed;
mod dashboards;
mod expressions;
mod page;
mod source;
