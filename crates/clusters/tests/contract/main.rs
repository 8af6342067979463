//! The kind `cloudstack-vm` keeps every promise that is asked of a kind: the real client over the wire protocol, the
//! strict simulator behind it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]
#![allow(clippy::disallowed_methods, reason = "stories wait in their own time, which is simulated")]

mod promises;
mod site;
mod stories;
mod sweeps;
