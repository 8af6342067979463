//! The thinking half of the room `clusters`: the life of workload clusters on CloudStack.
//!
//! **Promise.** What a user writes as Cluster, CloudStackDatacenterConfig and CloudStackMachineConfig is judged and turned
//! into objects of Cluster API and its CloudStack provider, the same bytes for the same input, so that nodes are replaced
//! when the user's wish asks for it and never otherwise.
//!
//! **Parts.** [`admit`] says what is filled in and what is refused when the three kinds are written. [`render`] makes the
//! generated objects and names their immutable templates by content. [`change`](mod@change) tells which machines a change replaces.
//! [`bundle`] finds the images. [`conditions`] says how a cluster stands, [`cni`] what is next for its network plugin,
//! [`phase`] in which order things are done.
//! [`plan`] puts it together for files, without a server. [`version`], [`endpoint`], [`image`] and [`keys`] read what users
//! write.
//!
//! **Invariants.** Nothing here reads a clock, a server or a random number. Equal input gives equal output whatever the order
//! of maps. A template is never changed, only replaced by one of another name.
//!
//! **Failure modes.** Input that breaks a rule is refused with every fault at once, each with the path of its field. The
//! reconcilers that would act on clusters are not built: `berth run --controllers=clusters` is refused by name.

pub mod admit;
pub mod bundle;
pub mod change;
pub mod cni;
pub mod conditions;
pub mod endpoint;
pub mod image;
pub mod keys;
pub mod phase;
pub mod plan;
pub mod render;
pub mod version;
