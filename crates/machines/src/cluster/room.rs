//! The room: keeps Metal3Clusters.

use std::sync::Arc;

use api::key::ObjectKey;
use api::own::metal3::Metal3ClusterStatus;
use api::reasons::machines::Reason;
use jiff::Timestamp;
use kit::class::{Class, Classify};
use kit::conditions::Transition;
use kit::feed::Version;
use kit::room::{Flow, Notice, Report, Room, Trouble, Violation};
use kit::write::{self, Writer};

use super::decide::{self, Step};
use super::observe::Snapshot;
use super::{guard, status};
use crate::config::Config;
use crate::facts::World;

/// Why a pass could not be finished.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The index does not show what the server has.
    #[error("the index is behind the server")]
    Behind,
    /// Something could not be read.
    #[error("read {what}")]
    Read {
        /// What.
        what: String,
        /// Why.
        #[source]
        source: Box<kube::Error>,
    },
    /// The Metal3Cluster could not be written.
    #[error(transparent)]
    Write(#[from] write::Error),
}

impl Classify for Error {
    fn class(&self) -> Class {
        match self {
            Self::Behind => Class::Stale,
            Self::Read { source, .. } => source.class(),
            Self::Write(error) => error.class(),
        }
    }
}

/// The room.
pub struct Warden {
    pub(super) world: World,
    pub(super) config: Arc<Config>,
    pub(super) writer: Writer,
}

impl Warden {
    /// A room over these indexes.
    #[must_use]
    pub fn new(world: World, config: Arc<Config>, writer: Writer) -> Self {
        Self { world, config, writer }
    }
}

impl Room for Warden {
    const NAME: &'static str = "machines-clusters";
    type Key = ObjectKey;
    type Snapshot = Snapshot;
    type Step = Step;
    type Status = Metal3ClusterStatus;
    type Error = Error;

    async fn observe(&self, key: &ObjectKey, now: Timestamp) -> Result<Option<Snapshot>, Error> {
        self.gather(key, now)
    }

    fn decide(&self, snapshot: &Snapshot) -> Vec<Step> {
        decide::think(snapshot).0
    }

    fn guard(&self, snapshot: &Snapshot, plan: &[Step]) -> Result<(), Violation> {
        guard::guard(snapshot, plan)
    }

    async fn apply(&self, snapshot: &Snapshot, step: Step) -> Result<Flow, Error> {
        self.carry_out(snapshot, step).await
    }

    fn report<'s>(&self, s: &'s Snapshot, _: Option<&Trouble<Error>>) -> Option<Report<'s, Metal3ClusterStatus>> {
        let (steps, standing) = decide::think(s);
        if steps.iter().any(|step| *step != Step::Wait) {
            return None;
        }
        let (next, verdicts) = status::status(s, &standing)?;
        Some(Report {
            target: s.target.clone(),
            generation: s.place.generation,
            stored: &s.place.status,
            next,
            // Whoever else begins to look after it is seen before it is written.
            based_on: Some(s.version.clone()),
            verdicts,
        })
    }

    fn event(&self, transition: &Transition) -> Option<Notice> {
        let worth = [Reason::ControlPlaneEndpointInvalid, Reason::InvalidSpec];
        let told = worth.iter().find(|reason| reason.as_str() == transition.reason);
        told.map(|reason| Notice { reason: reason.as_str(), warning: true })
    }

    fn wrote(&self, key: &ObjectKey, version: &Version) {
        self.world.places.wrote(key, version);
    }
}
