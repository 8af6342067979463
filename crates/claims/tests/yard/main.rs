//! The yard, tried from outside: plain stories, and any order of events against a model that looks at everything.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod build;
mod model;
mod properties;
mod rules;
mod scale;
mod stories;
