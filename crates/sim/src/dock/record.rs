//! What is recorded of clusters.

use kube::Client;

use super::resource;
use crate::plane::PlaneError;
use crate::record::Record;

/// The kinds that clusters consist of.
const KINDS: [&str; 8] = [
    "Cluster",
    "IPAddressClaim",
    "IPAddress",
    "DockCluster",
    "QuayControlPlane",
    "DockMachineTemplate",
    "RopeConfigTemplate",
    "DockMachine",
];

impl Record {
    /// Begins with the kinds that clusters consist of; nothing is missed from then on.
    pub async fn start(client: &Client) -> Result<Self, PlaneError> {
        Self::of(client, KINDS.iter().filter_map(|kind| Some((*kind, resource(kind)?))).collect()).await
    }
}
