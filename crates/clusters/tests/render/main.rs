//! Rendering as a whole: golden objects, and which machines each change replaces.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod changes;
mod golden;
mod planning;
mod support;
