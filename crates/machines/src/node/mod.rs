//! The Node of a machine: how it is told from others, and what is put on it.

mod find;
mod index;
mod look;
mod sights;
mod ways;

pub use find::{Found, NodeFacts, Wanted, find, prefixes, relabel};
pub use look::{CLOSED, SILENT, Sight};
pub use sights::{Asks, POLL, Sights};
pub use ways::{Lost, Ways};
