//! The room: keeps machines and their claims.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use api::key::ObjectKey;
use api::own::metal3::Metal3MachineStatus;
use api::reasons::machines::Reason;
use jiff::Timestamp;
use kit::class::{Class, Classify};
use kit::clock::Clock;
use kit::conditions::Transition;
use kit::doors::Clients;
use kit::feed::Version;
use kit::room::{Flow, Notice, Report, Room, Trouble, Violation};
use kit::teller::Teller;
use kit::write::{self, Writer};
use tokio::time::Instant;

use super::decide::{self, Says, Step, Thought};
use super::snapshot::{Refused, Snapshot};
use super::{guard, status};
use crate::config::Config;
use crate::facts::World;
use crate::node::{Sights, Ways};

/// Why a pass could not be finished.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The index does not show our own last write yet.
    #[error("the index is behind our own write")]
    Behind,
    /// The machine is not what was decided on any more.
    #[error("the machine has changed meanwhile")]
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
    /// The workload cluster was closed between looking and acting.
    #[error("the workload cluster cannot be entered")]
    Closed,
    /// An object could not be written.
    #[error(transparent)]
    Write(#[from] write::Error),
    /// The claim does not take what the machine asks for.
    #[error("give the claim what the machine asks for")]
    Fill(#[source] write::Error),
    /// A Node could not be written.
    #[error("inside of the workload cluster")]
    Node(#[source] write::Error),
}

impl Classify for Error {
    fn class(&self) -> Class {
        match self {
            Self::Behind | Self::Moved => Class::Stale,
            Self::Closed => Class::Transient { at_least: None },
            // What is asked for by name may be there later; that it is not is no race.
            Self::Read { source, .. } => match source.class() {
                Class::Terminal => Class::Transient { at_least: None },
                class => class,
            },
            Self::Write(error) | Self::Fill(error) => error.class(),
            // Nothing tells us when the workload cluster changes its mind.
            Self::Node(error) => match error.class() {
                Class::Terminal => Class::Transient { at_least: None },
                class => class,
            },
        }
    }
}

pub(super) fn read(what: impl FnOnce() -> String) -> impl FnOnce(kube::Error) -> Error {
    move |source| Error::Read { what: what(), source: Box::new(source) }
}

/// Puts what the server said no to where people look for it.
fn tell(thought: &mut Thought, error: &Error) {
    let words = |error: &write::Error| match error {
        write::Error::Refused { source, .. } => match source.as_ref() {
            kube::Error::Api(status) => status.message.clone(),
            _ => "The API server does not answer; it is asked again.".to_owned(),
        },
        _ => error.to_string(),
    };
    match error {
        Error::Fill(error) => thought.synchronized = Says::no(Reason::HostClaimRefused, words(error)),
        Error::Write(error @ write::Error::Refused { verb: "create", .. }) => {
            let said = Says::no(Reason::HostClaimRefused, words(error));
            if thought.steps.iter().any(|step| matches!(step, Step::AskData { .. })) {
                thought.data = said;
            } else {
                thought.associated = said;
            }
        }
        Error::Node(error) => thought.node = Says::no(Reason::ClusterUnreachable, words(error)),
        _ => {}
    }
}

/// What is remembered of a machine between passes; without it the next pass only asks more.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory {
    /// What the claim could not be given.
    pub(super) refused: Option<Refused>,
    /// The Node that was found last.
    pub(super) node: Option<String>,
    /// Since when its Node is looked for.
    pub(super) looked: Option<Instant>,
    /// When something was last asked for that the machine waits for.
    pub(super) asked: Option<Timestamp>,
}

/// The room.
pub struct Keeper {
    pub(super) world: World,
    pub(super) config: Arc<Config>,
    pub(super) ways: Ways,
    pub(super) sights: Sights,
    pub(super) writer: Writer,
    pub(super) events: Teller,
    memories: Mutex<BTreeMap<ObjectKey, Memory>>,
}

impl Keeper {
    /// A room over these indexes, with ways into workload clusters and a clock for what is seen there.
    #[must_use]
    pub fn new(world: World, config: Arc<Config>, clients: Arc<Clients>, by: (Writer, Teller), clock: Clock) -> Self {
        let (writer, events) = by;
        let ways = Ways::new(world.secrets.clone(), writer.client().clone(), clients);
        Self { world, config, ways, sights: Sights::new(clock), writer, events, memories: Mutex::default() }
    }

    pub(super) fn memory(&self, key: &ObjectKey) -> Memory {
        let memories = self.memories.lock().unwrap_or_else(PoisonError::into_inner);
        memories.get(key).cloned().unwrap_or_default()
    }

    pub(super) fn remember(&self, key: &ObjectKey, change: impl FnOnce(&mut Memory)) {
        let mut memories = self.memories.lock().unwrap_or_else(PoisonError::into_inner);
        change(memories.entry(key.clone()).or_default());
    }

    pub(super) fn forget(&self, key: &ObjectKey) {
        self.memories.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

impl Room for Keeper {
    const NAME: &'static str = "machines";
    type Key = ObjectKey;
    type Snapshot = Snapshot;
    type Step = Step;
    type Status = Metal3MachineStatus;
    type Error = Error;

    async fn observe(&self, key: &ObjectKey, now: Timestamp) -> Result<Option<Snapshot>, Error> {
        self.gather(key, now).await
    }

    fn decide(&self, snapshot: &Snapshot) -> Vec<Step> {
        decide::think(snapshot).steps
    }

    fn guard(&self, snapshot: &Snapshot, plan: &[Step]) -> Result<(), Violation> {
        guard::guard(snapshot, plan)
    }

    async fn apply(&self, snapshot: &Snapshot, step: Step) -> Result<Flow, Error> {
        self.carry_out(snapshot, step).await
    }

    fn report<'s>(&self, s: &'s Snapshot, trouble: Option<&Trouble<Error>>) -> Option<Report<'s, Metal3MachineStatus>> {
        // What stood in the way in this very pass is told with it.
        let now = Snapshot { refused: self.memory(&s.key).refused, ..s.clone() };
        let mut thought = decide::think(&now);
        // What is about to change is told once it has changed.
        let gone = thought.steps.contains(&Step::Conclude) || (s.machine.deleting && !s.machine.has_finalizer());
        let untold = thought.is_busy() || thought.untold.is_some();
        if thought.silent || gone || (trouble.is_none() && untold) {
            return None;
        }
        if let Some(Trouble::Failed(error)) = trouble {
            tell(&mut thought, error);
        }
        let (next, verdicts) = status::status(&now, &thought);
        Some(Report {
            target: s.target.clone(),
            generation: s.machine.generation,
            stored: &s.machine.status,
            next,
            based_on: None,
            verdicts,
        })
    }

    fn event(&self, transition: &Transition) -> Option<Notice> {
        let worth = [
            Reason::ClaimNameConflict,
            Reason::HostClaimMissing,
            Reason::HostClaimDeleted,
            Reason::HostClaimChanged,
            Reason::HostClaimRefused,
            Reason::AssociateM3MetaDataFailed,
            Reason::ProviderIDMismatch,
            Reason::NodeAmbiguous,
            Reason::NodeTaken,
            Reason::InvalidSpec,
        ];
        let told = worth.iter().find(|reason| reason.as_str() == transition.reason);
        let summed = transition.type_ == api::reasons::READY && transition.reason != Reason::InvalidSpec.as_str();
        told.filter(|_| !summed).map(|reason| Notice { reason: reason.as_str(), warning: true })
    }

    fn wrote(&self, key: &ObjectKey, version: &Version) {
        self.world.machines.wrote(key, version);
    }
}
