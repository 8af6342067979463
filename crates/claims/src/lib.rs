//! The room `claims`: tenants' claims on bare-metal hosts that live where the tenants cannot see them.
//!
//! **Promise.** A claim gets one host that fits it, if a policy opens one, and no host ever has two claims. What the claim
//! asks for reaches the host, what the host reports reaches the claim, and a host that is given back is clean.
//!
//! **Inputs.** HostClaims, BareMetalHosts and their HardwareData, HostDeployPolicies, Namespaces, HostClaimQuotas, and the
//! Secrets that claims name; all from indexes, hosts also from live reads before they are written.
//!
//! **Parts.** [`facts`] is what is kept of each object. [`labels`] reads selectors. The [`yard`] knows which hosts are free and
//! who waits for one, and decides who gets which; it neither reads nor writes, so every order of events can be tested.
//!
//! **Invariants.** No claim waits while a free host fits it. A host is promised to one claim at a time, and quotas count
//! promised hosts, so that two claims never pass a last unit together. Equal events give equal choices.
//!
//! **Failure modes.** A policy, quota or claim that cannot be read is a fault of that object alone: such a policy admits
//! nobody, such a quota binds those it names, such a claim waits with a reason.

pub mod admit;
pub mod apply;
pub mod config;
pub mod copies;
pub mod decide;
pub mod explain;
pub mod facts;
pub mod guard;
pub mod hand;
pub mod keeper;
pub mod kind;
pub mod labels;
pub mod memory;
pub mod metrics;
pub mod mirror;
pub mod moving;
pub mod names;
pub mod observe;
pub mod parts;
pub mod release;
pub mod rights;
pub mod room;
pub mod shared;
pub mod standing;
pub mod status;
pub mod wish;
pub mod words;
pub mod yard;

pub use room::mount;
