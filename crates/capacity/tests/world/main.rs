//! The room in a closed loop on the in-memory API server, with a model of EC2 and, where time may pass, the simulator; and
//! with the simulator of CloudStack.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod around;
mod cloud;
mod cloudstack;
mod counted;
mod extras;
mod identities;
mod life;
mod objects;
mod restart;
mod sweeps;
mod wire;
