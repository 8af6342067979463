//! sim

pub mod plane;
