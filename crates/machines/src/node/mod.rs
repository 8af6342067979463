//! The Node of a machine: how it is told from others, and what is put on it.

mod find;
mod look;

pub use find::{Found, NodeFacts, Wanted, find, prefixes, relabel};
pub use look::{Sight, look, one};
