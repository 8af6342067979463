//! The room: reads the world around one group, and carries out what was decided.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use jiff::Timestamp;
use kit::class::{Class, Classify};
use kit::clock::Clock;
use kit::feed::Version;
use kit::kinds::Kind;
use kit::room::{Flow, NoStatus, Report, Room, Stand, Trouble as Failure, Violation};
use kit::teller::Teller;
use kit::write::{self, Target, Writer};

use crate::acs::cards::Cards;
use crate::catalogue::Catalogue;
use crate::cloud::Ways;
use crate::config::Config;
use crate::decide::{self, Snapshot, Standing, Step};
use crate::facts::{GroupKey, GroupKind, ROOM, World};
use crate::guard;
use crate::memory::Memories;
use crate::metrics::{CapacityMetrics, Result as Outcome};
use crate::status::Outlook;
use crate::table::Table;

/// Where an OpenShift cluster keeps the certificate authorities of its cloud.
pub const BUNDLE: (&str, &str, &str) = ("openshift-config-managed", "kube-cloud-config", "ca-bundle.pem");
/// A write that meets another one is tried this often at once.
pub(crate) const TRIES: usize = 3;

/// Why a pass could not be finished.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The index does not show our own last write yet.
    #[error("the index is behind our own write")]
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
    /// The annotations could not be written.
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

/// What a pass learns, and which version of the group it is about.
#[derive(Clone, Debug)]
pub struct Seeing {
    /// The group.
    pub key: GroupKey,
    /// What is decided on.
    pub snapshot: Snapshot,
    /// The version of the group.
    pub version: Option<Version>,
}

/// The room.
pub struct Annotator<C> {
    pub(crate) world: World,
    pub(crate) config: Arc<Config>,
    pub(crate) catalogue: Arc<Catalogue<C>>,
    pub(crate) writer: Writer,
    pub(crate) events: Teller,
    pub(crate) clock: Clock,
    pub(crate) metrics: CapacityMetrics,
    pub(crate) memories: Mutex<Memories>,
    pub(crate) table: Arc<RwLock<Table>>,
    pub(crate) cards: Arc<Cards>,
}

/// What the room is made of.
pub struct Parts<C> {
    /// The indexes.
    pub world: World,
    /// What the flags say.
    pub config: Arc<Config>,
    /// The catalogue.
    pub catalogue: Arc<Catalogue<C>>,
    /// The table of types.
    pub table: Arc<RwLock<Table>>,
    /// What is remembered of Secrets with keys of CloudStack.
    pub cards: Arc<Cards>,
    /// Writes annotations.
    pub writer: Writer,
    /// Says what is wrong, behind the annotations that groups wait for.
    pub events: Teller,
    /// Tells the time.
    pub clock: Clock,
    /// Counts.
    pub metrics: CapacityMetrics,
}

impl<C: Ways> Annotator<C> {
    /// A room of these parts.
    #[must_use]
    pub fn new(parts: Parts<C>) -> Self {
        let Parts { world, config, catalogue, table, cards, writer, events, clock, metrics } = parts;
        Self { world, config, catalogue, writer, events, clock, metrics, memories: Mutex::default(), table, cards }
    }

    pub(crate) fn memories(&self) -> MutexGuard<'_, Memories> {
        self.memories.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn kind(&self, kind: GroupKind) -> Kind {
        match kind {
            GroupKind::OpenShiftSet => self.world.openshift_sets.kind(),
            GroupKind::Deployment => self.world.deployments.kind(),
            GroupKind::Set => self.world.sets.kind(),
            GroupKind::Pool => {
                self.world.pools.as_ref().map_or_else(Kind::of::<api::views::MachinePool>, |pools| pools.groups.kind())
            }
        }
    }

    pub(crate) fn target(&self, key: &GroupKey, uid: &str) -> Target {
        Target { kind: self.kind(key.kind), key: key.key.clone(), uid: uid.into() }
    }

    pub(crate) fn wrote(&self, key: &GroupKey, version: &Version) {
        match key.kind {
            GroupKind::OpenShiftSet => self.world.openshift_sets.wrote(&key.key, version),
            GroupKind::Deployment => self.world.deployments.wrote(&key.key, version),
            GroupKind::Set => self.world.sets.wrote(&key.key, version),
            GroupKind::Pool => {
                self.world.pools.iter().for_each(|pools| pools.groups.wrote(&key.key, version));
            }
        }
    }

    /// Counts how a pass ends that writes nothing, and how the group stands.
    pub(crate) fn count(&self, key: &GroupKey, snapshot: &Snapshot) {
        let outcome = match &snapshot.standing {
            Standing::Skipped(_) => Outcome::Skipped,
            Standing::Asking => Outcome::Asking,
            Standing::Stuck { trouble, .. } => match trouble.outlook {
                Outlook::UnknownType | Outlook::Incomplete => Outcome::UnknownType,
                Outlook::Terminal | Outlook::Missing => Outcome::Terminal,
                Outlook::Passing => Outcome::Error,
            },
            Standing::Known { offer, around, .. } => {
                let plan = snapshot.plan(&snapshot.goal(offer, around));
                self.metrics.overrides(key, plan.overrides.len());
                if !plan.is_empty() {
                    return self.stands(key, snapshot, false);
                }
                Outcome::Unchanged
            }
        };
        self.metrics.passed(key.kind, outcome);
        self.stands(key, snapshot, outcome == Outcome::Unchanged);
    }

    /// Says how a group stands. One that says what was known when it was annotated last goes on to stand as it did, while
    /// something newer is about to be written.
    fn stands(&self, key: &GroupKey, snapshot: &Snapshot, settled: bool) {
        let annotated = snapshot.group.is_annotated();
        let since = if annotated { snapshot.now } else { snapshot.group.created };
        let stand = match &snapshot.standing {
            Standing::Skipped(_) => None,
            // Nothing is written here, so nothing is ever as it should be.
            _ if self.config.dry_run => None,
            Standing::Stuck { trouble, .. } => Some(Stand::waiting(trouble.reason.as_str(), since)),
            _ if settled => Some(Stand::ready()),
            Standing::Asking | Standing::Known { .. } if annotated => return,
            Standing::Asking | Standing::Known { .. } => Some(Stand::unjudged(since)),
        };
        self.metrics.stands(key, stand);
    }
}

pub(crate) fn read(what: impl FnOnce() -> String) -> impl FnOnce(kube::Error) -> Error {
    move |source| Error::Read { what: what(), source: Box::new(source) }
}

pub(crate) fn is_code(error: &kube::Error, codes: &[u16]) -> bool {
    matches!(error, kube::Error::Api(status) if codes.contains(&status.code))
}

impl<C: Ways> Room for Annotator<C> {
    const NAME: &'static str = "capacity";
    type Key = GroupKey;
    type Snapshot = Seeing;
    type Step = Step;
    type Status = NoStatus;
    type Error = Error;

    async fn observe(&self, key: &GroupKey, now: Timestamp) -> Result<Option<Seeing>, Error> {
        self.metrics.lacks.begin(ROOM, key);
        let seeing = self.gather(key, now).await?;
        self.metrics.lacks.end(ROOM, key);
        Ok(seeing)
    }

    fn decide(&self, seeing: &Seeing) -> Vec<Step> {
        decide::decide(&seeing.snapshot)
    }

    fn guard(&self, seeing: &Seeing, plan: &[Step]) -> Result<(), Violation> {
        guard::guard(&seeing.snapshot, plan)
    }

    async fn apply(&self, seeing: &Seeing, step: Step) -> Result<Flow, Error> {
        self.carry_out(seeing, step).await
    }

    fn report<'s>(&self, seeing: &'s Seeing, _: Option<&Failure<Error>>) -> Option<Report<'s, NoStatus>> {
        if matches!(seeing.snapshot.standing, Standing::Known { .. }) && seeing.snapshot.memory.troubled {
            self.memories().recover(&seeing.key);
        }
        None
    }
}
