//! The topology mutation hooks as pure functions: patches, validation, variables.
//!
//! Cluster API asks these hooks whenever it computes the objects of a cluster that has a topology. They see templates and
//! variables, never the Cluster; what is known of the Cluster comes in as a [`Standing`]. Nothing here waits, writes, reads
//! a clock or depends on pools: the same request and the same Cluster give the same bytes.
//!
//! Whoever holds the body of a request does this:
//! 1. [`parse_generate`] or [`parse_validate`], then [`Settings::read`] on its settings;
//! 2. [`Subject::of`] says which Cluster to look up; the answer is a [`Standing`], read live where a cached copy has
//!    no endpoint or is another cluster's;
//! 3. [`generate`] or [`validate`];
//! 4. [`answer_generate`] or [`answer_validate`] give the bytes of the answer, failures included.
//!
//! [`parse_discover`], [`variables`] and [`answer_discover`] do the same for the variables, without a Cluster.
//!
//! Rules of Cluster API that shape the code:
//! - Patches of one template are applied in the order of the answer. Of the result only `spec` and the labels and
//!   annotations are taken over.
//! - A JSON patch whose parents are missing fails the whole reconcile; a merge patch creates them.
//! - A message becomes a condition of the Cluster, and each new text is a write. So messages hold no name that Cluster API
//!   rolls anew in every pass, such as those of machine deployments before their creation.

mod findings;
mod generate;
mod pointer;
#[cfg(test)]
#[path = "../../tests/topology/sample.rs"]
mod sample;
mod settings;
mod standing;
mod target;
mod text;
mod validate;
mod variables;
mod walk;
mod wire;

pub use generate::generate;
pub use settings::{Settings, Target, What, unknown_keys};
pub use standing::{Means, Standing, Subject};
pub use validate::validate;
pub use variables::{Definition, inline_yaml, variables};
pub use wire::{
    DiscoverRequest, GenerateRequest, Holder, Item, Patch, PatchType, Template, TopologyRequest, ValidateRequest,
    Variable, answer_discover, answer_generate, answer_validate, parse_discover, parse_generate, parse_validate,
};
