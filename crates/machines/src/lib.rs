//! The room `machines`: Metal3 machines that run on claims.
//!
//! **Promise.** A Metal3Machine that names a kind of compute gets a HostClaim of that kind, what is to run on it, and the Node
//! that comes of it; it gives all of it back when it goes. A machine that names none takes a host directly, as it always
//! did, and is not touched: not a field, not a finalizer.
//!
//! **Inputs.** Metal3Machines, their Machines, Clusters and Metal3Clusters, their claims and data, and that a bootstrap
//! Secret is there, all from indexes; Nodes of the workload cluster once the claim is provisioned; a template, when a claim
//! is made or goes.
//!
//! **Effects.** One claim and one wish for data of the machine's name, owned by it so that a move follows them; finalizer,
//! annotation, provider id and status of the machine; provider id and some labels of its Node; finalizer and status of a
//! Metal3Cluster that nobody else looks after.
//!
//! **Parts.** [`mode`] says which machines are ours. [`facts`] is what is kept of each object. [`machine`] and [`cluster`]
//! observe, decide, guard, apply and tell. [`node`] knows a Node among others. [`data`] renders what machines are told,
//! [`remediation`] reboots them, [`admit`] fills in and checks what users write.
//!
//! **Invariants.** A claim of somebody else is never adopted. A machine that ran gets no second host. A provider id, once
//! set, is never changed, on a machine or on a Node. What a tenant changed on the claim is told, not overwritten. The data
//! of a machine is kept until its host is given back.
//!
//! **Failure modes.** A workload cluster that does not answer delays its machines and nobody else's. A template that cannot
//! be read is asked for again before a host is given back. What admission would have refused is told on the machine.

pub mod admit;
pub mod cluster;
pub mod config;
pub mod data;
pub mod facts;
pub mod machine;
pub mod mode;
pub mod node;
pub mod remediation;
pub mod rights;
pub mod room;

pub use room::{Drivers, mount};
