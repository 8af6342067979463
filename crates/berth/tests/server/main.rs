//! The operator's real binary against a real API server: what its users rely on, from outside.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]
#![allow(clippy::disallowed_methods, reason = "real processes run by the real clock")]

mod admission;
#[path = "../shared/call.rs"]
mod call;
mod capacity;
mod claims;
mod commands;
mod explaining;
mod hooks;
mod leading;
mod people;
mod rights;
mod running;
mod slow;
mod storm;
mod support;
