//! The room `clusters` with the real binary, the real Cluster API managers and the strict CloudStack simulator.
//!
//! All tests share one management cluster and one Berth, which has exactly the rights that `berth rbac` prints. Cluster API's
//! core and kubeadm bootstrap managers are real and work; the kubeadm control-plane manager is real, judges everything by its
//! webhooks, and works only where a test asks for it. The CloudStack provider and the control planes are played
//! ([`sim::provider`]), on virtual machines of the simulator, which says in the end what is left. The manifests are those of
//! the book.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]
#![allow(clippy::disallowed_methods, reason = "real processes run by the real clock")]

mod arrival;
mod changes;
#[path = "../shared/ground.rs"]
mod ground;
mod kubeadm;
mod kubectl;
mod life;
mod rules;
#[allow(dead_code, reason = "helm is not needed here, nor programs that are played")]
#[path = "../shared/shell.rs"]
mod shell;
mod world;
