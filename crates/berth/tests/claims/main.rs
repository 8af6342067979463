//! The room `claims` on a real API server: the real binary with no more rights than it says it needs, the host
//! simulator, and tenants with the rights of a namespace's administrator.
//!
//! All tests share one server, one simulator and one leader. A watch records every version of every host, claim and
//! secret from the start, and each test has its own part of the record judged: what happened is compared with what is
//! promised at every single revision, not only at the end.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]
#![allow(clippy::disallowed_methods, reason = "real processes run by the real clock")]

mod corner;
mod fleet;
mod races;
#[path = "../shared/mod.rs"]
mod shared;
mod story;
mod threats;
mod world;
