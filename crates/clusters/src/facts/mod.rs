//! What decisions use of the objects of users and of Cluster API.

mod generated;
mod own;
mod world;

pub use generated::{
    Belonging, CapiFacts, GroupFacts, GroupStanding, Mark, PlaneFacts, capi_of, plane_of, standing_of, standings,
};
pub use own::{Bundle, ClusterFacts, DatacenterFacts, IdentityFacts, MachineFacts, Release};
pub(crate) use own::{moved, read_status};
pub(crate) use world::{Behind, shown};
pub use world::{SecretFacts, World};
