//! The feeds of the room.

use kit::feed::{Feed, Phase};
use kit::manager::{self, Manager};

use super::{Claims, Clusters, Hardware, Hosts, Policies, Quotas, Secrets, Spaces};

/// Everything the room follows.
#[derive(Clone)]
pub struct World {
    /// Claims.
    pub claims: Feed<Claims>,
    /// Hosts.
    pub hosts: Feed<Hosts>,
    /// What inspection found in hosts.
    pub hardware: Feed<Hardware>,
    /// Who may use which hosts.
    pub policies: Feed<Policies>,
    /// Namespaces, for their labels.
    pub spaces: Feed<Spaces>,
    /// How many hosts tenants may hold.
    pub quotas: Feed<Quotas>,
    /// Secrets, without what they hold.
    pub secrets: Feed<Secrets>,
    /// Clusters, for their pauses.
    pub clusters: Feed<Clusters>,
}

impl World {
    /// Starts, or joins, the feeds.
    ///
    /// # Errors
    /// When another room follows one of the kinds in a way that cannot be shared.
    pub fn follow(manager: &Manager) -> Result<Self, manager::Error> {
        Ok(Self {
            claims: manager.feed()?,
            hosts: manager.feed()?,
            hardware: manager.feed()?,
            policies: manager.feed()?,
            spaces: manager.feed()?,
            quotas: manager.feed()?,
            secrets: manager.feed()?,
            clusters: manager.feed()?,
        })
    }

    /// Waits until every index is complete, or known to have nothing to hold.
    pub async fn settled(&self) {
        self.claims.settled().await;
        self.hosts.settled().await;
        self.hardware.settled().await;
        self.policies.settled().await;
        self.spaces.settled().await;
        self.quotas.settled().await;
        self.secrets.settled().await;
        self.clusters.settled().await;
    }

    /// The kinds whose index is not complete yet.
    #[must_use]
    pub fn unsettled(&self) -> Vec<&'static str> {
        let phases = [
            ("hostclaims", self.claims.phase()),
            ("baremetalhosts", self.hosts.phase()),
            ("hardwaredata", self.hardware.phase()),
            ("hostdeploypolicies", self.policies.phase()),
            ("namespaces", self.spaces.phase()),
            ("hostclaimquotas", self.quotas.phase()),
            ("secrets", self.secrets.phase()),
            ("clusters", self.clusters.phase()),
        ];
        phases.into_iter().filter(|(_, phase)| *phase == Phase::Listing).map(|(kind, _)| kind).collect()
    }
}
