//! The docs tell the truth: their commands parse, their links resolve, their manifests are accepted, and their reasons
//! and flags are the code's.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]
#![allow(clippy::disallowed_methods, reason = "real processes run by the real clock")]

mod book;
mod commands;
mod kinds;
mod pages;
mod served;
#[path = "../shared/mod.rs"]
mod shared;
