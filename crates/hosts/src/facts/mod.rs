//! What decisions use of each kind, and the feeds that keep it.

mod around;
mod cloud;
mod machine;

use kit::feed::{Feed, Phase};
use kit::manager::{self, Manager};

pub use around::{
    ClusterFacts, Clusters, ControllerIdentities, OwnerFacts, Owners, RoleIdentities, SpaceFacts, Spaces,
    StaticIdentities, place_value,
};
pub use cloud::{CloudFacts, Clouds, SubnetFacts};
pub use machine::{MachineFacts, Machines};

/// The namespace whose uid names a management cluster.
pub const SYSTEM: &str = "kube-system";

/// Everything the room follows.
#[derive(Clone)]
pub struct World {
    /// Machines on EC2.
    pub machines: Feed<Machines>,
    /// Machines of Cluster API.
    pub owners: Feed<Owners>,
    /// Clusters of Cluster API.
    pub clusters: Feed<Clusters>,
    /// Clusters on EC2.
    pub clouds: Feed<Clouds>,
    /// Identities: the controller's own.
    pub controllers: Feed<ControllerIdentities>,
    /// Identities: keys.
    pub statics: Feed<StaticIdentities>,
    /// Identities: roles.
    pub roles: Feed<RoleIdentities>,
    /// Namespaces.
    pub spaces: Feed<Spaces>,
}

impl World {
    /// Starts, or joins, the feeds.
    ///
    /// # Errors
    /// When a kind cannot be followed.
    pub fn follow(manager: &Manager) -> Result<Self, manager::Error> {
        Ok(Self {
            machines: manager.feed()?,
            owners: manager.feed()?,
            clusters: manager.feed()?,
            clouds: manager.feed()?,
            controllers: manager.feed()?,
            statics: manager.feed()?,
            roles: manager.feed()?,
            spaces: manager.feed()?,
        })
    }

    /// Waits until every index is complete, or known to have nothing to hold.
    pub async fn settled(&self) {
        self.machines.settled().await;
        self.owners.settled().await;
        self.clusters.settled().await;
        self.clouds.settled().await;
        self.controllers.settled().await;
        self.statics.settled().await;
        self.roles.settled().await;
        self.spaces.settled().await;
    }

    /// Whether the index of machines is complete: only then may it be asked whom a host belongs to.
    #[must_use]
    pub fn knows_machines(&self) -> bool {
        self.machines.phase() == Phase::Synced
    }
}
