//! Metal3Machines and their claims: a machine makes a claim, gives it what is to run, and finds the Node that comes of it.

mod apply;
pub mod decide;
pub mod guard;
pub mod metrics;
mod observe;
pub mod room;
pub mod snapshot;
pub mod status;
pub mod thought;
pub mod wake;
