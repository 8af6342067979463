//! What holds of the topology hooks: patches, validation, and the two together.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod generate;
mod golden;
mod noise;
mod properties;
mod sample;
mod support;
mod validate;
