//! The housekeeper: what has to happen to a cluster's addresses apart from a call of the gate.
//!
//! It takes over claims without an owner, removes claims whose Cluster never came, restores what somebody took off a
//! Cluster, hands on an ingress address that came late, and says on the Cluster how things stand. It never gives a
//! cluster with a topology its control-plane address: that is the gate's alone. Where the compatibility mode is on, it
//! allocates for clusters that no gate is called for.

pub mod decide;
pub mod guard;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use api::key::ObjectKey;
use jiff::Timestamp;
use kit::class::{Class, Classify, chain};
use kit::conditions::Transition;
use kit::feed::{Seen, Version};
use kit::room::{Flow, Notice, Outcome, Report, Room, Trouble, Violation};
use kit::write;

use crate::apply::{Hand, PointError, ROOM};
use crate::config::Config;
use crate::facts::{ClusterFacts, VipStatus, World};
use crate::keeper::decide::{Mandate, Step};
use crate::names::{Role, Slot};
use crate::observe;
use crate::proof::Proof;
use crate::scene::{Live, Scene};
use crate::status;
use crate::teller::Teller;

/// One cluster at one moment, or what is left of one.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The Cluster, unless there is none.
    pub cluster: Option<Arc<ClusterFacts>>,
    /// What the indexes show around it.
    pub scene: Scene,
    /// The version of Clusters that is served, which references should have.
    pub api_version: Box<str>,
    /// The part of the status that is ours, as stored.
    pub stored: VipStatus,
}

/// Why a pass could not be finished.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The index does not show our own last write yet.
    #[error("the index is behind our own write")]
    Behind,
    /// The Cluster could not be read.
    #[error("read the Cluster")]
    Read(#[source] Box<kube::Error>),
    /// Something could not be written.
    #[error(transparent)]
    Write(#[from] write::Error),
    /// The infrastructure cluster was not given its endpoint.
    #[error(transparent)]
    Point(#[from] PointError),
}

impl Classify for Error {
    fn class(&self) -> Class {
        match self {
            Self::Behind => Class::Stale,
            Self::Read(error) => error.class(),
            Self::Write(error) => error.class(),
            Self::Point(error) => error.class(),
        }
    }
}

/// The room behind the housekeeper.
pub struct Keeper {
    world: World,
    hand: Arc<Hand>,
    config: Arc<Config>,
    teller: Teller,
    /// Set once the server refused our conditions: the work goes on without them.
    mute: AtomicBool,
}

impl Keeper {
    /// A housekeeper over these indexes.
    #[must_use]
    pub fn new(world: World, hand: Arc<Hand>, config: Arc<Config>, teller: Teller) -> Self {
        Self { world, hand, config, teller, mute: AtomicBool::new(false) }
    }

    /// Carries out a step on a cluster that is there.
    async fn tend(&self, snapshot: &Snapshot, cluster: &ClusterFacts, step: Step) -> Result<Flow, Error> {
        let (key, scene) = (&snapshot.scene.key, &snapshot.scene);
        // Decided from the index, done to what is there: a Cluster that looks otherwise by now is judged again.
        let live = match step {
            Step::Wait { .. } | Step::Sweep { .. } | Step::Refer { .. } | Step::Point { .. } | Step::Warn { .. } => {
                None
            }
            _ => match self.read(key).await? {
                Live::At(live) if live.facts == *cluster => Some(live),
                _ => return Err(Error::Behind),
            },
        };
        match step {
            Step::Claim { slot, pool, tried } => {
                if self.hand.claim(key, cluster, slot, &pool, &tried).await? {
                    self.teller.claimed(key, cluster, slot, &pool).await;
                }
            }
            Step::Adopt { slot } => {
                if let Some(claim) = scene.claim(slot) {
                    self.hand.adopt(key, cluster, slot, claim).await?;
                    self.teller.adopted(key, cluster, slot).await;
                }
            }
            Step::Refer { slot } => {
                if let Some(claim) = scene.claim(slot) {
                    self.hand.refer(key, cluster, slot, claim).await?;
                }
            }
            Step::Abandon { slot, better } => {
                if let Some(claim) = scene.claim(slot) {
                    self.hand.abandon(key, slot, claim).await?;
                    self.teller.fell_back(scene, cluster, slot, &better).await;
                }
            }
            Step::Release { slot, why } => {
                if let Some(claim) = scene.claim(slot) {
                    self.hand.release(key, slot, claim).await?;
                    self.teller.released(key, cluster, slot, why).await;
                }
            }
            Step::Write { goal } => {
                if let Some(live) = live
                    && let Some(patch) = goal.patch(&live.facts, &live.variables)
                {
                    if self.hand.prove(scene, cluster).await.map_err(Error::Read)? != Proof::Held {
                        return Err(Error::Behind);
                    }
                    self.hand.write(key, &live.version, patch).await?;
                    let endpoint = !cluster.endpoint.is_valid() && goal.endpoint.is_some();
                    // What the gate gave and somebody took off is put back, which is no news.
                    let all = decide::mandate(cluster, scene) == Mandate::All;
                    self.teller.written(scene, cluster, endpoint, |slot| all || slot.role == Role::Ingress).await;
                }
            }
            Step::Point { infrastructure, endpoint } => {
                self.hand.point(key, cluster, &infrastructure, &endpoint).await?;
            }
            Step::Warn { slot } => self.teller.waits(scene, cluster, slot).await,
            Step::Wait { until } => return Ok(Flow::Wait(Some(until))),
            Step::Sweep { .. } => {}
        }
        Ok(Flow::Next)
    }

    /// Deletes a claim whose Cluster is not there, after asking the server itself.
    async fn sweep(&self, snapshot: &Snapshot, slot: Slot) -> Result<Flow, Error> {
        let key = &snapshot.scene.key;
        let Some(claim) = snapshot.scene.claim(slot) else { return Ok(Flow::Next) };
        if let Live::At(_) = self.read(key).await? {
            return Err(Error::Behind);
        }
        self.hand.release(key, slot, claim).await?;
        self.teller.swept(key, slot).await;
        Ok(Flow::Next)
    }

    async fn read(&self, key: &ObjectKey) -> Result<Live, Error> {
        observe::live(self.hand.client(), &self.world, key).await.map_err(Error::Read)
    }
}

impl Room for Keeper {
    const NAME: &'static str = ROOM;
    type Key = ObjectKey;
    type Snapshot = Snapshot;
    type Step = Step;
    type Status = VipStatus;
    type Error = Error;

    async fn observe(&self, key: &ObjectKey, now: Timestamp) -> Result<Option<Snapshot>, Error> {
        let cluster = match self.world.clusters.get(key) {
            Seen::At(cluster) => Some(cluster),
            Seen::Absent => None,
            Seen::Behind => return Err(Error::Behind),
        };
        let unknown = ClusterFacts::default();
        let facts = cluster.as_deref().unwrap_or(&unknown);
        let mut scene = observe::scene(&self.world, key, facts, Arc::clone(&self.config), now);
        if cluster.is_none() && scene.holdings.is_empty() {
            self.hand.forget(key);
            return Ok(None);
        }
        scene.tried = self.hand.tried(key);
        scene.pointed = self.hand.has_pointed(key, &facts.uid);
        scene.warned = self.teller.warned(&scene);
        let kind = self.world.clusters.kind();
        let stored = VipStatus { older: kind.version == "v1beta1", ..facts.stored.clone() };
        Ok(Some(Snapshot { cluster, scene, api_version: kind.api_version().into(), stored }))
    }

    fn decide(&self, snapshot: &Snapshot) -> Vec<Step> {
        decide::decide(snapshot)
    }

    fn guard(&self, snapshot: &Snapshot, plan: &[Step]) -> Result<(), Violation> {
        guard::guard(snapshot, plan)
    }

    async fn apply(&self, snapshot: &Snapshot, step: Step) -> Result<Flow, Error> {
        match (&snapshot.cluster, step) {
            (_, Step::Sweep { slot }) => self.sweep(snapshot, slot).await,
            (_, Step::Wait { until }) => Ok(Flow::Wait(Some(until))),
            (Some(cluster), step) => self.tend(snapshot, cluster, step).await,
            (None, _) => Ok(Flow::Next),
        }
    }

    fn report<'s>(&self, snapshot: &'s Snapshot, trouble: Option<&Trouble<Error>>) -> Option<Report<'s, VipStatus>> {
        if !self.config.conditions || self.mute.load(Ordering::Relaxed) {
            return None;
        }
        let cluster = snapshot.cluster.as_deref()?;
        let fault = trouble.is_some_and(|trouble| matches!(trouble, Trouble::Refused(_) | Trouble::Panicked));
        let verdicts = status::verdicts(snapshot, cluster, fault)?;
        Some(Report {
            target: self.teller.target(&snapshot.scene.key, cluster),
            generation: cluster.generation,
            stored: &snapshot.stored,
            next: VipStatus { conditions: Vec::new(), older: snapshot.stored.older },
            based_on: None,
            verdicts,
        })
    }

    fn event(&self, transition: &Transition) -> Option<Notice> {
        status::event(transition)
    }

    fn tolerates(&self, error: &write::Error) -> bool {
        let forbidden = matches!(error, write::Error::Refused { source, .. }
            if matches!(source.as_ref(), kube::Error::Api(status) if [401, 403].contains(&status.code)));
        if forbidden && !self.mute.swap(true, Ordering::Relaxed) {
            tracing::warn!(error = %chain(error), "we may not write conditions to Clusters; going on without them");
        }
        let invalid = error.class() == Class::Terminal;
        if invalid && !forbidden {
            tracing::warn!(error = %chain(error), "the conditions of this Cluster were refused");
        }
        forbidden || invalid
    }

    fn wrote(&self, key: &ObjectKey, version: &Version) {
        self.world.clusters.wrote(key, version);
    }

    fn passed(&self, key: &ObjectKey, outcome: Outcome, took: Duration) {
        let class = match self.world.clusters.get(key) {
            Seen::At(cluster) => cluster.class.clone(),
            Seen::Absent | Seen::Behind => None,
        };
        let class = class.as_ref().map_or("", ObjectKey::name);
        self.teller.metrics().passed(class, outcome.as_str(), took);
    }
}
