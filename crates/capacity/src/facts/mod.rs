//! What decisions use of each kind, and the feeds that keep it.

mod acs;
mod group;
mod metal;
mod place;
mod pool;
mod provider;
mod template;

use api::key::ObjectKey;
use aws::identity::IdentityFeeds;
use kit::feed::Feed;
use kit::manager::{self, Manager};

use crate::config::Config;

pub use acs::{
    ACS, ACS_CLUSTER, Acs, AcsCluster, AcsClusters, AcsTemplate, AcsTemplates, CPUS, MEMORY, ROOT_DISK, secret,
};
pub use group::{
    Deployments, GroupFacts, GroupKey, GroupKind, METAL, MachineApi, MachinePools, MachineSets, OpenShiftSets, ROOM,
    Reference, Shape, template_value,
};
pub use metal::{
    Hardware, HardwareList, HostFacts, HostUse, Hosts, Metal, MetalTemplate, MetalTemplates, Policies, PolicyFacts,
    Spaces,
};
pub use place::{
    AwsClusters, ClusterFacts, Clusters, InfrastructureFacts, Infrastructures, ManagedPlanes, PlaceFacts, RosaPlanes,
    place_value,
};
pub use pool::{MANAGED_POOL, NodeGroups, POOL, PoolFacts, Pools, ScalingGroups};
pub use provider::{AwsMachine, Provider, SpecFault, provider};
pub use template::{TemplateFacts, Templates};

/// Everything the room follows.
#[derive(Clone)]
pub struct World {
    /// MachineSets of OpenShift's Machine API.
    pub openshift_sets: Feed<OpenShiftSets>,
    /// MachineDeployments of Cluster API.
    pub deployments: Feed<Deployments>,
    /// MachineSets of Cluster API.
    pub sets: Feed<MachineSets>,
    /// Templates of machines on EC2.
    pub templates: Feed<Templates>,
    /// Clusters of Cluster API.
    pub clusters: Feed<Clusters>,
    /// Networks of clusters on EC2.
    pub aws_clusters: Feed<AwsClusters>,
    /// Control planes of clusters on EKS.
    pub managed_planes: Feed<ManagedPlanes>,
    /// Control planes of clusters on OpenShift Service on AWS.
    pub rosa_planes: Feed<RosaPlanes>,
    /// The platform of an OpenShift cluster.
    pub infrastructures: Feed<Infrastructures>,
    /// Bare metal, where it is asked for.
    pub metal: Option<Metal>,
    /// CloudStack, where it is asked for.
    pub acs: Option<Acs>,
    /// Machine pools, where they are asked for.
    pub pools: Option<Pools>,
    /// Identities of clusters, where they are asked for.
    pub identities: Option<IdentityFeeds>,
}

impl World {
    /// Starts, or joins, the feeds.
    ///
    /// # Errors
    /// When a kind cannot be followed.
    pub fn follow(manager: &Manager, config: &Config) -> Result<Self, manager::Error> {
        Ok(Self {
            metal: if config.metal { Some(Metal::follow(manager)?) } else { None },
            acs: if config.cloudstack { Some(Acs::follow(manager)?) } else { None },
            pools: if config.machine_pools { Some(Pools::follow(manager)?) } else { None },
            identities: if config.cluster_identity { Some(IdentityFeeds::follow(manager)?) } else { None },
            openshift_sets: manager.feed()?,
            deployments: manager.feed()?,
            sets: manager.feed()?,
            templates: manager.feed()?,
            clusters: manager.feed()?,
            aws_clusters: manager.feed()?,
            managed_planes: manager.feed()?,
            rosa_planes: manager.feed()?,
            infrastructures: manager.feed()?,
        })
    }

    /// Waits until every index that a group is judged by is complete, or known to have nothing to hold. Groups of Cluster
    /// API are judged by none of each other: the catalogue is asked for, and the first are annotated, while the rest of a
    /// long list of them is still read.
    pub async fn settled(&self) {
        // Who owns a mirror is said by its original.
        self.openshift_sets.settled().await;
        self.templates.settled().await;
        self.clusters.settled().await;
        self.aws_clusters.settled().await;
        self.managed_planes.settled().await;
        self.rosa_planes.settled().await;
        self.infrastructures.settled().await;
        if let Some(metal) = &self.metal {
            metal.settled().await;
        }
        if let Some(acs) = &self.acs {
            acs.settled().await;
        }
        if let Some(pools) = &self.pools {
            pools.settled().await;
        }
        if let Some(identities) = &self.identities {
            identities.settled().await;
        }
    }

    /// The keys of all groups that `accepts`, in no order.
    #[must_use]
    pub fn keys(&self, accepts: &dyn Fn(&GroupKey) -> bool) -> Vec<GroupKey> {
        let of = |kind: GroupKind, keys: Vec<ObjectKey>| keys.into_iter().map(move |key| GroupKey { kind, key });
        of(GroupKind::OpenShiftSet, self.openshift_sets.keys(|_| true))
            .chain(of(GroupKind::Deployment, self.deployments.keys(|_| true)))
            .chain(of(GroupKind::Set, self.sets.keys(|_| true)))
            .chain(of(GroupKind::Pool, self.pools.iter().flat_map(|pools| pools.groups.keys(|_| true)).collect()))
            .filter(|key| accepts(key))
            .collect()
    }
}
