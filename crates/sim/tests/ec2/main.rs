//! The strict EC2 simulator keeps its promises.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "tests stop at the first surprise, and sign with the machine's time"
)]

mod faults;
mod hosts;
mod instances;
mod limits;
mod properties;
mod reads;
mod server;
mod strict;
mod sts;
mod support;
mod tokens;
