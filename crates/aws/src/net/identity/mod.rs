//! Credentials from their sources, kept until shortly before they end.

mod container;
mod machine;
mod provider;
mod served;

pub(crate) use container::Container;
pub(crate) use machine::Machine;
pub(crate) use provider::How;
pub use provider::{Provider, shared_files};
