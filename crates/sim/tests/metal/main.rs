//! The host simulator in a closed loop, on the in-memory server and on a real one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]
#![allow(clippy::disallowed_methods, reason = "tests own their tasks, and real processes run by the real clock")]

mod loops;
mod program;
mod real;
