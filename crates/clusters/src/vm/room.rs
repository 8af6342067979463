//! The room itself: what it holds and how it is driven.

use std::sync::Arc;
use std::time::Duration;

use api::key::ObjectKey;
use api::own::HostClaimStatus;
use claim_kind::around::{Around, Behind};
use jiff::Timestamp;
use kit::class::{Class, Classify};
use kit::clock::Clock;
use kit::conditions::Transition;
use kit::events::Events;
use kit::feed::Version;
use kit::manager::Manager;
use kit::room::{Flow, Notice, Pace, Report, Room, Trouble, Violation};
use kit::write::{self, Writer};

use super::decide::{self, Step};
use super::memory::{LONGEST, Memories, SHORTEST};
use super::observe::Snapshot;
use super::words::Obstacle;
use super::{CloudStackVm, guard, status};
use crate::acs::{Clouds, Shelf};

/// Half of a pause is fixed, so the first one is five seconds at least.
const PACE: Pace = Pace {
    first: SHORTEST.saturating_mul(2),
    longest: LONGEST,
    stale: Duration::from_millis(50),
    stale_jitter: Duration::from_millis(100),
};

/// Why a pass could not be finished.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The index does not show our own last write yet.
    #[error(transparent)]
    Behind(#[from] Behind),
    /// The claim is not what was decided on any more.
    #[error("the claim has changed meanwhile")]
    Moved,
    /// Something could not be read.
    #[error("read {what}")]
    Read {
        /// What.
        what: String,
        /// Why.
        #[source]
        source: Box<kube::Error>,
    },
    /// Something could not be written.
    #[error(transparent)]
    Write(#[from] write::Error),
    /// CloudStack refused or failed.
    #[error("CloudStack refused or failed")]
    Cloud(#[from] cloudstack::errors::Error),
    /// CloudStack cannot be called.
    #[error("CloudStack cannot be called: {}", .0.text())]
    Closed(Obstacle),
}

impl Classify for Error {
    fn class(&self) -> Class {
        let later = Class::Transient { at_least: Some(SHORTEST) };
        match self {
            Self::Behind(_) => Class::Stale,
            // News wakes the claim by itself; without any there is nothing to look at again at once.
            Self::Moved => later,
            Self::Read { source, .. } => match source.class() {
                // What is asked for by name may be there later; that it is not is no race.
                Class::Terminal | Class::Stale => later,
                class @ Class::Transient { .. } => class,
            },
            Self::Write(error) => error.class(),
            // Whatever it is, it may be put right where nobody tells us.
            Self::Cloud(error) => match error.class() {
                Class::Transient { at_least } => {
                    Class::Transient { at_least: Some(at_least.unwrap_or_default().clamp(SHORTEST, LONGEST)) }
                }
                Class::Stale | Class::Terminal => later,
            },
            Self::Closed(_) => later,
        }
    }
}

/// The controller of the kind.
pub struct Vms<C: Clouds> {
    pub(super) around: Around<CloudStackVm>,
    pub(super) shelf: Arc<Shelf<C>>,
    pub(super) writer: Writer,
    pub(super) events: Events,
    pub(super) clock: Clock,
    pub(super) memory: Arc<Memories>,
}

impl<C: Clouds> Vms<C> {
    pub(super) fn new(manager: &Manager, around: Around<CloudStackVm>, clouds: C) -> Self {
        let memory: Arc<Memories> = Arc::default();
        let forget = Arc::clone(&memory);
        around.claims().observe(move |delta| {
            let uid = |claim: &Option<Arc<Option<Arc<claim_kind::claim::ClaimFacts>>>>| {
                claim.as_deref().and_then(Option::as_ref).map(|claim| claim.uid.clone())
            };
            if let Some(gone) = uid(&delta.old).filter(|old| uid(&delta.new).as_ref() != Some(old)) {
                forget.forget(&gone);
            }
        });
        Self {
            around,
            shelf: Shelf::new(clouds, manager.clock().clone()),
            writer: Writer::new(manager.client().clone(), Self::NAME),
            events: Events::new(manager.client().clone(), Self::NAME, Some(manager.instance().to_owned())),
            clock: manager.clock().clone(),
            memory,
        }
    }
}

impl<C: Clouds> Room for Vms<C> {
    const NAME: &'static str = super::KIND;
    const PACE: Pace = PACE;
    type Key = ObjectKey;
    type Snapshot = Snapshot;
    type Step = Step;
    type Status = HostClaimStatus;
    type Error = Error;

    async fn observe(&self, key: &ObjectKey, now: Timestamp) -> Result<Option<Snapshot>, Error> {
        self.gather(key, now).await
    }

    fn decide(&self, snapshot: &Snapshot) -> Vec<Step> {
        decide::decide(snapshot)
    }

    fn guard(&self, snapshot: &Snapshot, plan: &[Step]) -> Result<(), Violation> {
        guard::guard(snapshot, plan)
    }

    async fn apply(&self, snapshot: &Snapshot, step: Step) -> Result<Flow, Error> {
        self.carry_out(snapshot, step).await
    }

    fn report<'s>(
        &self,
        snapshot: &'s Snapshot,
        trouble: Option<&Trouble<Error>>,
    ) -> Option<Report<'s, HostClaimStatus>> {
        status::report(snapshot, trouble)
    }

    fn event(&self, transition: &Transition) -> Option<Notice> {
        status::event(transition)
    }

    fn wrote(&self, key: &ObjectKey, version: &Version) {
        self.around.claims().wrote(key, version);
    }
}
