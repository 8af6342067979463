//! The indexes of the room.

use api::key::ObjectKey;
use api::views::Secret;
use kit::feed::{Feed, Phase, Project, Seen};
use kit::kinds::Kind;
use kit::manager::{Error, Manager};
use std::sync::Arc;

use super::generated::{
    AllMachines, CapiClusters, ConfigTemplates, Groups, HealthChecks, Planes, ProviderClusters, ProviderTemplates,
};
use super::own::{AllBundles, Clusters, Datacenters, Iams, Machines, Oidcs, Releases};
use crate::bodies::Shown;

/// A Secret, of which only the version is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecretFacts {
    /// The version of the whole object.
    pub version: Box<str>,
}

/// Secrets.
pub struct Secrets;

impl Project for Secrets {
    type Source = Secret;
    type Slim = SecretFacts;

    fn slim(source: Secret) -> SecretFacts {
        SecretFacts { version: source.metadata.resource_version.unwrap_or_default().into() }
    }
}

/// The indexes of the room; clones share them.
#[derive(Clone)]
pub struct World {
    /// Clusters.
    pub clusters: Feed<Clusters>,
    /// Datacenters.
    pub datacenters: Feed<Datacenters>,
    /// Machine configurations.
    pub machines: Feed<Machines>,
    /// OIDCConfigs.
    pub oidcs: Feed<Oidcs>,
    /// AWSIamConfigs.
    pub iams: Feed<Iams>,
    /// Bundles.
    pub bundles: Feed<AllBundles>,
    /// Releases.
    pub releases: Feed<Releases>,
    /// Secrets.
    pub secrets: Feed<Secrets>,
    /// Clusters of Cluster API.
    pub capi: Feed<CapiClusters>,
    /// Control planes.
    pub planes: Feed<Planes>,
    /// MachineDeployments.
    pub groups: Feed<Groups>,
    /// Machines.
    pub nodes: Feed<AllMachines>,
    /// Health checks.
    pub checks: Feed<HealthChecks>,
    /// Clusters of the CloudStack provider.
    pub provider: Feed<ProviderClusters>,
    /// Templates of machines of the CloudStack provider.
    pub templates: Feed<ProviderTemplates>,
    /// Templates of bootstrap configurations.
    pub configs: Feed<ConfigTemplates>,
}

impl World {
    /// Follows everything: what is generated, and secrets, in the namespace of the system alone, unless others ask for a kind
    /// everywhere. The kind `cloudstack-vm` of the same room does for secrets, because claims of every namespace name them.
    ///
    /// # Errors
    /// When a kind is followed by another view.
    pub fn follow(manager: &Manager, system: &str) -> Result<Self, Error> {
        Ok(Self {
            clusters: manager.feed()?,
            datacenters: manager.feed()?,
            machines: manager.feed()?,
            oidcs: manager.feed()?,
            iams: manager.feed()?,
            bundles: manager.feed()?,
            releases: manager.feed()?,
            secrets: manager.feed_in(system)?,
            // Others may have an endpoint wherever they are.
            capi: manager.feed()?,
            planes: manager.feed_in(system)?,
            groups: manager.feed_in(system)?,
            nodes: manager.feed_in(system)?,
            checks: manager.feed_in(system)?,
            provider: manager.feed_in(system)?,
            templates: manager.feed_in(system)?,
            configs: manager.feed_in(system)?,
        })
    }

    /// Waits until every index is complete, or known to have nothing to hold.
    pub async fn settled(&self) {
        self.clusters.settled().await;
        self.datacenters.settled().await;
        self.machines.settled().await;
        self.oidcs.settled().await;
        self.iams.settled().await;
        self.bundles.settled().await;
        self.releases.settled().await;
        self.secrets.settled().await;
        self.capi.settled().await;
        self.planes.settled().await;
        self.groups.settled().await;
        self.nodes.settled().await;
        self.checks.settled().await;
        self.provider.settled().await;
        self.templates.settled().await;
        self.configs.settled().await;
    }

    /// The version of the CloudStack provider's API that is served, if any is.
    #[must_use]
    pub fn provider_version(&self) -> Option<String> {
        (self.provider.phase() == Phase::Synced).then(|| self.provider.kind().version)
    }

    /// What the index of its kind shows of a generated object; nothing when it is of another kind, or changes just now.
    pub(crate) fn shows(&self, kind: &Kind, key: &ObjectKey) -> Option<Shown> {
        match kind.kind.as_str() {
            "Cluster" if kind.group == Kind::of::<api::views::Cluster>().group => shows(&self.capi, key),
            "KubeadmControlPlane" => shows(&self.planes, key),
            "MachineDeployment" => shows(&self.groups, key),
            "MachineHealthCheck" => shows(&self.checks, key),
            "CloudStackCluster" => shows(&self.provider, key),
            "CloudStackMachineTemplate" => shows(&self.templates, key),
            "KubeadmConfigTemplate" => shows(&self.configs, key),
            _ => None,
        }
    }

    /// Which version of a secret the index shows.
    pub(crate) fn secret_version(&self, namespace: &str, name: &str) -> Option<Box<str>> {
        match self.secrets.get(&ObjectKey::namespaced(namespace, name)) {
            Seen::At(secret) => Some(secret.version.clone()),
            Seen::Absent | Seen::Behind => None,
        }
    }

    /// The kinds of Cluster API and of the provider that are needed and not served.
    #[must_use]
    pub fn missing(&self) -> Vec<String> {
        fn one<P: Project>(feed: &Feed<P>, all: &mut Vec<String>) {
            if feed.phase() == Phase::Missing {
                all.push(feed.kind().kind);
            }
        }
        let mut all = Vec::new();
        one(&self.capi, &mut all);
        one(&self.planes, &mut all);
        one(&self.groups, &mut all);
        one(&self.checks, &mut all);
        one(&self.provider, &mut all);
        one(&self.templates, &mut all);
        one(&self.configs, &mut all);
        all
    }
}

/// An index that does not show our own last write yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Behind;

fn shows<P: Project>(feed: &Feed<P>, key: &ObjectKey) -> Option<Shown> {
    match feed.get(key) {
        Seen::At(slim) => feed.version(key, &slim).map(Shown::At),
        Seen::Absent => Some(Shown::Absent),
        Seen::Behind => Some(Shown::Behind),
    }
}

/// What an index shows of an object.
pub(crate) fn shown<P: Project>(feed: &Feed<P>, key: &ObjectKey) -> Result<Option<Arc<P::Slim>>, Behind> {
    match feed.get(key) {
        Seen::At(slim) => Ok(Some(slim)),
        Seen::Absent => Ok(None),
        Seen::Behind => Err(Behind),
    }
}
