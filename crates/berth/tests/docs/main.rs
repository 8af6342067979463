//! The docs tell the truth: their commands are carried out, their links resolve, their manifests are accepted, and their
//! reasons and flags are the code's.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]
#![allow(clippy::disallowed_methods, reason = "real processes run by the real clock")]

mod book;
mod carried;
mod commands;
mod kinds;
#[path = "../server/capacity/openshift.rs"]
mod openshift;
mod pages;
mod reasons;
mod served;
#[path = "../shared/mod.rs"]
mod shared;
#[path = "../shared/shell.rs"]
mod shell;
