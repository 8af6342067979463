//! What decisions use of each kind, and the feeds that keep it.

mod around;
mod cloud;
mod machine;

use aws::identity::IdentityFeeds;
use kit::feed::{Feed, Phase};
use kit::manager::{self, Manager};

pub use around::{ClusterFacts, Clusters, OwnerFacts, Owners, SpaceFacts, Spaces, place_value};
pub use cloud::{CloudFacts, Clouds, SubnetFacts};
pub(crate) use machine::matters;
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
    /// As whom EC2 may be called.
    pub identities: IdentityFeeds,
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
            identities: IdentityFeeds::follow(manager)?,
            spaces: manager.feed()?,
        })
    }

    /// Waits until every index is complete, or known to have nothing to hold.
    pub async fn settled(&self) {
        self.machines.settled().await;
        self.owners.settled().await;
        self.clusters.settled().await;
        self.clouds.settled().await;
        self.identities.settled().await;
        self.spaces.settled().await;
    }

    /// Whether the index of machines is complete: only then may it be asked whom a host belongs to.
    #[must_use]
    pub fn knows_machines(&self) -> bool {
        self.machines.phase() == Phase::Synced
    }
}
