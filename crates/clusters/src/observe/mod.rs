//! Gathers one snapshot of a cluster: from the indexes, and from outside as far as the next decision depends on it.

mod around;
mod ends;
mod generated;
mod inner;
mod outside;

use std::sync::Arc;
use std::time::Duration;

use api::key::ObjectKey;
use api::meta::Versioned;
use api::raw;
use jiff::Timestamp;
use kit::feed::{Seen, Version};
use kube::Api;

pub(crate) use generated::{kind_of, runs_kube_vip};

use crate::acs::Clouds;
use crate::decide::{Gate, Need, Step, gate, think};
use crate::facts::ClusterFacts;
use crate::room::{Error, Keeper, read};
use crate::snapshot::{Checks, Inside, Snapshot};

/// CloudStack is waited for this long in one pass: less than a pass may take, so that what it says is told.
pub(crate) const CLOUD: Duration = Duration::from_secs(20);
/// A cluster is waited for this long in one pass.
const CLUSTER: Duration = Duration::from_secs(8);

/// More questions than there are kinds of them are a circle.
const MOST: usize = 8;

/// Whether a step changes what is generated, by what users wrote.
fn changes(step: &Step) -> bool {
    match step {
        Step::Apply { .. } | Step::Create { .. } => true,
        // What is left of a cluster that goes is looked for where it is.
        Step::Delete { reason, .. } => reason.is_some(),
        _ => false,
    }
}

impl<C: Clouds> Keeper<C> {
    /// The cluster as the server has it.
    async fn live(&self, key: &ObjectKey) -> Result<Option<(Arc<ClusterFacts>, Version)>, Error> {
        let (resource, namespace) = (self.world.clusters.kind().resource(), key.namespace().unwrap_or_default());
        let api: Api<Versioned<raw::Cluster>> =
            Api::namespaced_with(self.writer.client().clone(), namespace, &resource);
        let found = api.get_opt(key.name()).await.map_err(read(|| format!("Cluster {key}")))?;
        Ok(found.map(|Versioned(cluster)| {
            let version = Version::of(&cluster);
            (Arc::new(ClusterFacts::of(cluster)), version)
        }))
    }

    /// Gathers the snapshot of a cluster; none when it is gone.
    pub(crate) async fn gather(&self, key: &ObjectKey, now: Timestamp) -> Result<Option<Snapshot>, Error> {
        let (cluster, version) = match self.world.clusters.get(key) {
            Seen::At(cluster) => {
                let version = self.world.clusters.version(key, &cluster).ok_or(Error::Behind)?;
                // An index that missed our own write would be believed for as long as its watch lasts.
                if self.memories.is_newer(key, &version) {
                    let Some(live) = self.live(key).await? else { return Ok(None) };
                    live
                } else {
                    (cluster, version)
                }
            }
            Seen::Absent => {
                self.memories.forget(key);
                self.bodies.forget(key);
                self.clients.forget(key);
                return Ok(None);
            }
            Seen::Behind => return Err(Error::Behind),
        };
        let mut s = self.around(key, cluster, version, now)?;
        if gate(&s) == Gate::Secure {
            self.try_early(&s);
        }
        for _ in 0..MOST {
            match think(&s) {
                Ok(thought) => {
                    if thought.steps.iter().any(changes) {
                        self.confirm(&s).await?;
                    }
                    if thought.verified {
                        // What changed while we looked is looked at again.
                        self.memories.verified(key, &s.signature, self.clock.instant());
                    }
                    // An index that does not show all of our writes yet will have it looked at once more.
                    if thought.verified && !self.is_lagging(&s) || s.cluster.is_deleting() {
                        self.bodies.forget(key);
                    }
                    break;
                }
                Err(Need::Endpoint) => s.endpoint = self.look_at_endpoint(&s).await?,
                Err(Need::Machines) => {
                    let late = || Checks::Passing { message: "it takes too long to answer".to_owned(), at_least: None };
                    let checked = tokio::time::timeout(CLOUD, self.check_machines(&s)).await;
                    s.checked = Some(checked.unwrap_or_else(|_| Ok(late()))?);
                }
                Err(Need::Generated) => self.look_at_generated(&mut s).await?,
                Err(Need::Inside) => {
                    let seen = tokio::time::timeout(CLUSTER, self.look_inside(&s)).await;
                    s.inside = Some(match seen {
                        Ok(seen) => seen?,
                        Err(_) => {
                            // As after a look that failed: its kubeconfig may be another one by now.
                            self.clients.forget(key);
                            Inside::Unreachable("it takes too long to answer".to_owned())
                        }
                    });
                }
                Err(Need::Leftovers) => s.leftovers = Some(self.look_for_leftovers(&s).await?),
            }
        }
        Ok(Some(s))
    }
}
