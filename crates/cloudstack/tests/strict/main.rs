//! The client against the strict simulator: the same bytes as in production.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod jobs;
mod lists;
mod proxy;
mod support;
mod wire;
