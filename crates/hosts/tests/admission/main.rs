//! What a real API server stores, fills in and refuses of machines on EC2, with the webhooks off and on.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]
#![allow(clippy::disallowed_methods, reason = "a real process runs by the real clock")]

mod manifests;
mod off;
mod on;
mod world;
