//! The client against a server on the loopback interface that looks closely at every byte.
#![cfg(feature = "net")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod calls;
mod identities;
mod lists;
mod noise;
mod places;
mod support;
