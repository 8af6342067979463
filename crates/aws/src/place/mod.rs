//! Where a service answers: rules of the partition, or an address somebody configured.

mod endpoint;
mod partition;

pub use endpoint::{Endpoint, EndpointError, Endpoints, Origin, Override};
pub use partition::{Partition, Variant};
