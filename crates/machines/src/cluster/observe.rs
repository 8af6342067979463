//! Gathers one snapshot of a Metal3Cluster.

use std::sync::Arc;

use api::key::ObjectKey;
use api::names::PAUSED_ANNOTATION;
use api::names::claims::DELETE_FOR_MOVE_ANNOTATION;
use api::names::machines::CLUSTER_FINALIZER;
use jiff::Timestamp;
use kit::feed::{Seen, Version};
use kit::write::Target;

use super::room::{Error, Warden};
use crate::config::Config;
use crate::facts::{ClusterFacts, PlaceFacts};

/// What a pass knows.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Which Metal3Cluster.
    pub key: ObjectKey,
    /// Where its status is written.
    pub target: Target,
    /// When.
    pub now: Timestamp,
    /// The settings.
    pub config: Arc<Config>,
    /// The Metal3Cluster.
    pub place: Arc<PlaceFacts>,
    /// Its version.
    pub version: Version,
    /// Its Cluster.
    pub cluster: Option<Arc<ClusterFacts>>,
    /// Machines of the cluster, of either kind.
    pub machines: usize,
}

impl Snapshot {
    /// Whether our finalizer is on it.
    #[must_use]
    pub fn has_finalizer(&self) -> bool {
        self.place.finalizers.iter().any(|finalizer| finalizer == CLUSTER_FINALIZER)
    }

    /// Whether somebody wants everything to stay as it is.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        let annotated = self.place.annotations.contains_key(PAUSED_ANNOTATION);
        annotated || self.cluster.as_ref().is_some_and(|cluster| cluster.paused)
    }

    /// Whether it was moved to another cluster.
    #[must_use]
    pub fn is_moved(&self) -> bool {
        self.place.annotations.contains_key(DELETE_FOR_MOVE_ANNOTATION)
    }
}

impl Warden {
    /// Gathers the snapshot of a Metal3Cluster; none when it is gone.
    pub(super) fn gather(&self, key: &ObjectKey, now: Timestamp) -> Result<Option<Snapshot>, Error> {
        let place = match self.world.places.get(key) {
            Seen::At(place) => place,
            Seen::Absent => return Ok(None),
            Seen::Behind => return Err(Error::Behind),
        };
        let version = self.world.places.version(key, &place).ok_or(Error::Behind)?;
        let cluster =
            place.owner.as_deref().map(|name| ObjectKey::namespaced(key.namespace().unwrap_or_default(), name));
        let machines = cluster.as_ref().map_or(0, |cluster| {
            let name = cluster.to_string();
            self.world.machines.by("cluster", &name).len().max(self.world.owners.by("cluster", &name).len())
        });
        let cluster = match cluster.as_ref().map(|cluster| self.world.clusters.get(cluster)) {
            Some(Seen::At(cluster)) => Some(cluster),
            Some(Seen::Behind) => return Err(Error::Behind),
            Some(Seen::Absent) | None => None,
        };
        Ok(Some(Snapshot {
            key: key.clone(),
            target: Target { kind: self.world.places.kind(), key: key.clone(), uid: place.uid.clone() },
            now,
            config: Arc::clone(&self.config),
            place,
            version,
            cluster,
            machines,
        }))
    }
}
