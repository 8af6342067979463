//! Machines on CloudStack: what they are made of, and where.

use std::collections::{BTreeMap, BTreeSet};

use api::key::ObjectKey;
use api::own::anywhere::Named;
use api::views::cloudstack_specs::{AcsFailureDomain, CloudStackCluster, CloudStackMachineTemplate};
use kit::feed::{Feed, Project};
use kit::manager::{self, Manager};

/// The kind of templates of machines on CloudStack.
pub const ACS: &str = "CloudStackMachineTemplate";
/// The kind of clusters on CloudStack.
pub const ACS_CLUSTER: &str = "CloudStackCluster";

/// A template, as decisions use it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AcsTemplate {
    /// The compute offering.
    pub offering: Named,
    /// The image.
    pub image: Named,
    /// What is chosen where the offering leaves a choice, only what decides about capacity.
    pub details: BTreeMap<Box<str>, Box<str>>,
    /// The only failure domain of its machines.
    pub failure_domain: Option<Box<str>>,
}

/// The choices that decide about capacity, as CloudStack spells them.
pub const CPUS: &str = "cpuNumber";
/// Memory in MiB.
pub const MEMORY: &str = "memory";
/// The root disk in GiB.
pub const ROOT_DISK: &str = "rootdisksize";

/// Templates of machines on CloudStack.
pub struct AcsTemplates;

impl Project for AcsTemplates {
    type Source = CloudStackMachineTemplate;
    type Slim = AcsTemplate;

    fn slim(source: CloudStackMachineTemplate) -> AcsTemplate {
        let matters = |(key, _): &(String, String)| [CPUS, MEMORY, ROOT_DISK].contains(&key.as_str());
        let spec = source.spec;
        AcsTemplate {
            offering: spec.offering,
            image: spec.image,
            details: spec.details.into_iter().filter(matters).map(|(key, value)| (key.into(), value.into())).collect(),
            failure_domain: spec.failure_domain.map(Into::into),
        }
    }
}

/// A cluster, as decisions use it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AcsCluster {
    /// Where its machines may be made.
    pub domains: Vec<AcsFailureDomain>,
}

impl AcsCluster {
    /// The Secrets that the cluster of this name takes its keys from.
    #[must_use]
    pub fn secrets(&self, cluster: &ObjectKey) -> BTreeSet<ObjectKey> {
        self.domains.iter().filter_map(|domain| secret(domain, cluster.namespace().unwrap_or_default())).collect()
    }
}

/// The Secret of a failure domain; a reference without a namespace means that of the cluster.
#[must_use]
pub fn secret(domain: &AcsFailureDomain, namespace: &str) -> Option<ObjectKey> {
    let (elsewhere, name) = domain.secret.as_ref()?;
    Some(ObjectKey::namespaced(elsewhere.as_deref().unwrap_or(namespace), name.as_str()))
}

/// Clusters on CloudStack.
pub struct AcsClusters;

impl Project for AcsClusters {
    type Source = CloudStackCluster;
    type Slim = AcsCluster;
    const INDEXES: &'static [&'static str] = &["secret"];

    fn slim(source: CloudStackCluster) -> AcsCluster {
        AcsCluster { domains: source.spec.failure_domains }
    }

    fn keys(_: usize, key: &ObjectKey, slim: &AcsCluster) -> Vec<Box<str>> {
        slim.secrets(key).into_iter().map(|secret| secret.to_string().into()).collect()
    }
}

/// Everything about CloudStack that is followed.
#[derive(Clone)]
pub struct Acs {
    /// Templates.
    pub templates: Feed<AcsTemplates>,
    /// Clusters.
    pub clusters: Feed<AcsClusters>,
}

impl Acs {
    /// Starts, or joins, the feeds.
    ///
    /// # Errors
    /// When a kind cannot be followed.
    pub fn follow(manager: &Manager) -> Result<Self, manager::Error> {
        Ok(Self { templates: manager.feed()?, clusters: manager.feed()? })
    }

    /// Waits until every index is complete, or known to have nothing to hold.
    pub async fn settled(&self) {
        self.templates.settled().await;
        self.clusters.settled().await;
    }

    /// Every Secret that somebody names.
    #[must_use]
    pub fn secrets(&self) -> BTreeSet<ObjectKey> {
        self.clusters.all().iter().flat_map(|(key, cluster)| cluster.secrets(key)).collect()
    }
}
