//! sim

pub mod plane;
pub mod proxy;
