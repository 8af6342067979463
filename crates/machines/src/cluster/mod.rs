//! Metal3Clusters: what Cluster API needs of the infrastructure of a cluster, which is little.
//!
//! Another provider may look after the same objects. Whose a Metal3Cluster is, is decided by [`decide::is_ours`]: by its
//! annotation, else by the flag, and as shipped by whether anybody else writes its status.

mod apply;
pub mod decide;
pub mod guard;
mod observe;
pub mod room;
pub mod status;
pub mod wake;

pub use observe::Snapshot;
