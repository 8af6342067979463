//! What is kept of the objects that rendered data is made of and made for.

mod around;
mod leases;
mod own;

use std::collections::BTreeMap;
use std::sync::Arc;

use api::key::ObjectKey;
use api::meta::ObjectMeta;
use api::names::{CLUSTER_NAME_LABEL, PAUSED_ANNOTATION};
use kit::feed::{Feed, Seen};
use kit::manager;
use kit::manager::Manager;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::names::beside;
use super::render::Texts;
use crate::config::Config;
use crate::facts::Secrets;

pub use around::{
    ClusterFacts, Clusters, HostClaimFacts, HostClaims, MachineFacts, Machines, MetalMachineFacts, MetalMachines,
};
pub use leases::{Addresses, LeaseFacts, Leases, PoolAddresses, PoolLeases, lease_selector};
pub use own::{DataClaimFacts, DataClaims, DataFacts, Datas, TemplateFacts, Templates};

/// An object that owns another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Its name.
    pub name: Box<str>,
    /// Its uid.
    pub uid: Box<str>,
}

/// The owner of a kind, whatever the version it was written with.
pub(crate) fn owner(metadata: &ObjectMeta, group: &str, kind: &str) -> Option<Owner> {
    let found = metadata.owner_references.iter().flatten().find(|owner| {
        let of = owner.api_version.split_once('/').map_or("", |(group, _)| group);
        owner.kind == kind && of == group
    })?;
    Some(Owner { name: found.name.as_str().into(), uid: found.uid.as_str().into() })
}

/// What decisions use of the metadata of every object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The server's unique id of the object.
    pub uid: Box<str>,
    /// The generation of its spec.
    pub generation: i64,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Whether somebody paused this one object.
    pub paused: bool,
    /// Its finalizers.
    pub finalizers: Box<[Box<str>]>,
    /// The cluster it belongs to, by its label.
    pub cluster: Option<Box<str>>,
}

impl Head {
    pub(crate) fn of(metadata: &ObjectMeta) -> Self {
        let label = metadata.labels.as_ref().and_then(|labels| labels.get(CLUSTER_NAME_LABEL));
        Self {
            uid: metadata.uid.as_deref().unwrap_or_default().into(),
            generation: metadata.generation.unwrap_or_default(),
            deleting: metadata.deletion_timestamp.is_some(),
            paused: metadata.annotations.as_ref().is_some_and(|all| all.contains_key(PAUSED_ANNOTATION)),
            finalizers: metadata.finalizers.iter().flatten().map(|finalizer| finalizer.as_str().into()).collect(),
            cluster: label.map(|name| name.as_str().into()),
        }
    }

    /// Whether it has a finalizer.
    #[must_use]
    pub fn has(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|held| &**held == finalizer)
    }

    /// Its finalizers, as the writer takes them.
    #[must_use]
    pub fn finalizers(&self) -> Vec<String> {
        self.finalizers.iter().map(ToString::to_string).collect()
    }
}

/// Reads what can be read; the rest was stored past the schema and is as if it were not there.
pub(crate) fn read<T: DeserializeOwned + Default>(value: Value) -> T {
    serde_json::from_value(value).unwrap_or_default()
}

/// The reference to an object of the same namespace; `None` for none, and for one that leads elsewhere.
fn local(reference: &api::own::metal3::NamedRef, namespace: Option<&str>) -> Option<Box<str>> {
    let home = reference.namespace.as_deref().is_none_or(|there| there.is_empty() || Some(there) == namespace);
    (home && !reference.name.is_empty()).then(|| reference.name.as_str().into())
}

/// Everything that is followed.
#[derive(Clone)]
pub struct World {
    /// Metal3DataTemplates.
    pub templates: Feed<Templates>,
    /// Metal3DataClaims.
    pub claims: Feed<DataClaims>,
    /// Metal3Datas.
    pub datas: Feed<Datas>,
    /// Metal3Machines.
    pub metal: Feed<MetalMachines>,
    /// Machines.
    pub machines: Feed<Machines>,
    /// HostClaims.
    pub hosts: Feed<HostClaims>,
    /// Wishes for addresses by the contract of Cluster API.
    pub leases: Feed<Leases>,
    /// Addresses by the contract of Cluster API.
    pub addresses: Feed<Addresses>,
    /// Wishes for addresses of Metal3's own pools.
    pub pool_leases: Feed<PoolLeases>,
    /// Addresses of Metal3's own pools.
    pub pool_addresses: Feed<PoolAddresses>,
    /// Secrets.
    pub secrets: Feed<Secrets>,
    /// Clusters.
    pub clusters: Feed<Clusters>,
    /// The settings of the room.
    pub config: Arc<Config>,
}

impl World {
    /// Starts, or joins, the feeds.
    ///
    /// # Errors
    /// When another room follows one of the kinds in a way that cannot be shared.
    pub fn follow(manager: &Manager, config: Arc<Config>) -> Result<Self, manager::Error> {
        Ok(Self {
            templates: manager.feed()?,
            claims: manager.feed()?,
            datas: manager.feed()?,
            metal: manager.feed()?,
            machines: manager.feed()?,
            hosts: manager.feed()?,
            leases: manager.feed()?,
            addresses: manager.feed()?,
            pool_leases: manager.feed()?,
            pool_addresses: manager.feed()?,
            secrets: manager.feed()?,
            clusters: manager.feed()?,
            config,
        })
    }

    /// Waits until every index is complete, or known to have nothing to hold.
    pub async fn settled(&self) {
        self.templates.settled().await;
        self.claims.settled().await;
        self.datas.settled().await;
        self.metal.settled().await;
        self.machines.settled().await;
        self.hosts.settled().await;
        self.leases.settled().await;
        self.addresses.settled().await;
        self.pool_leases.settled().await;
        self.pool_addresses.settled().await;
        self.secrets.settled().await;
        self.clusters.settled().await;
    }

    /// Whether the cluster of that name is paused, and everything of it with it.
    #[must_use]
    pub fn is_paused(&self, beside_of: &ObjectKey, cluster: Option<&str>) -> bool {
        let Some(name) = cluster else { return false };
        matches!(self.clusters.get(&beside(beside_of, name)), Seen::At(cluster) if cluster.paused)
    }

    /// The keys of datas of a data claim.
    #[must_use]
    pub fn datas_of(&self, claim: &ObjectKey) -> Vec<ObjectKey> {
        self.datas.by("claim", &claim.to_string()).into_iter().map(|(key, _)| key).collect()
    }

    /// The data claims of a Metal3Machine.
    #[must_use]
    pub fn claims_of(&self, machine: &ObjectKey) -> Vec<ObjectKey> {
        self.claims.by("machine", &machine.to_string()).into_iter().map(|(key, _)| key).collect()
    }
}

/// Labels of an object and one more.
#[must_use]
pub fn labels_with(labels: &Texts, key: &str, value: &str) -> BTreeMap<String, String> {
    let mut all = labels.clone();
    all.insert(key.to_owned(), value.to_owned());
    all
}
