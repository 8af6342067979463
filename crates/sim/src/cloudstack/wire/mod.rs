//! The wire protocol, without a word about what commands do.

pub mod commands;
pub mod params;
pub mod refusal;
pub mod sign;
