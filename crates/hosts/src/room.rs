//! The room: keeps machines and their hosts.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};

use api::key::ObjectKey;
use aws::cloud::Cloud;
use aws::credentials::Source;
use jiff::Timestamp;
use kit::class::{Class, Classify};
use kit::clock::Clock;
use kit::conditions::Transition;
use kit::events::Events;
use kit::feed::{Feed, Version};
use kit::queue::Priority;
use kit::room::{Flow, Notice, Report, Room, Trouble, Violation};
use kit::teller::Teller;
use kit::write::{self, Target, Writer};
use tokio::time::Instant;

use crate::asker::{Asker, ByMachine};
use crate::claim::Claims;
use crate::config::Config;
use crate::decide::{self, Step};
use crate::facts::World;
use crate::first;
use crate::guard;
use crate::memory::{Hurry, Ledger, Memories, Places};
use crate::metrics::HostsMetrics;
use crate::shelf::Shelves;
use crate::snapshot::{Sky, Snapshot};

/// Why a pass could not be finished.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The index does not show our own last write yet.
    #[error("the index is behind our own write")]
    Behind,
    /// The machine is not what was decided on any more.
    #[error("the machine has changed meanwhile")]
    Moved,
    /// The journal was to take a step that it may not take.
    #[error("{0}")]
    Illegal(String),
    /// Something could not be read.
    #[error("read {what}")]
    Read {
        /// What.
        what: String,
        /// Why.
        #[source]
        source: Box<kube::Error>,
    },
    /// The machine could not be written.
    #[error(transparent)]
    Write(#[from] write::Error),
}

impl Classify for Error {
    fn class(&self) -> Class {
        match self {
            Self::Behind | Self::Moved => Class::Stale,
            Self::Illegal(_) => Class::Transient { at_least: None },
            Self::Read { source, .. } => match source.class() {
                // What is asked for by name may be there later; that it is not is no race.
                Class::Terminal => Class::Transient { at_least: None },
                class => class,
            },
            Self::Write(error) => error.class(),
        }
    }
}

pub(crate) fn read(what: impl FnOnce() -> String) -> impl FnOnce(kube::Error) -> Error {
    move |source| Error::Read { what: what(), source: Box::new(source) }
}

/// The room, for those who ask.
pub struct Keeper<C: Cloud, A: Asker = ByMachine> {
    pub(crate) asker: A,
    /// The claims on hosts, once they are served here: their hosts belong to somebody too.
    pub(crate) claims: OnceLock<Feed<Claims>>,
    pub(crate) world: World,
    pub(crate) config: Arc<Config>,
    pub(crate) shelves: Arc<Shelves<C>>,
    pub(crate) writer: Writer,
    voice: Voice,
    pub(crate) clock: Clock,
    pub(crate) metrics: HostsMetrics,
    pub(crate) memories: Memories,
    pub(crate) hurry: Arc<Hurry>,
    pub(crate) ledger: Ledger,
    pub(crate) places: Places,
    pub(crate) keys: Mutex<BTreeMap<String, (Instant, Source)>>,
}

/// How people are told what happens.
enum Voice {
    /// At once, while whoever has something to say waits.
    Now(Events),
    /// Behind what they wait for.
    Behind(Teller),
}

/// What the room is made of.
pub struct Parts<C: Cloud> {
    /// The indexes.
    pub world: World,
    /// What the flags say.
    pub config: Arc<Config>,
    /// What EC2 says.
    pub shelves: Arc<Shelves<C>>,
    /// Writes machines.
    pub writer: Writer,
    /// Says what happens.
    pub events: Events,
    /// Tells the time.
    pub clock: Clock,
    /// Counts.
    pub metrics: HostsMetrics,
}

impl<C: Cloud> Keeper<C> {
    /// A room of these parts, for machines.
    #[must_use]
    pub fn new(parts: Parts<C>) -> Self {
        Self::asked_by(ByMachine::new(parts.world.clone()), parts)
    }
}

impl<C: Cloud, A: Asker> Keeper<C, A> {
    /// A room of these parts.
    #[must_use]
    pub fn asked_by(asker: A, parts: Parts<C>) -> Self {
        let Parts { world, config, shelves, writer, events, clock, metrics } = parts;
        let (memories, ledger, places) = (Memories::default(), Ledger::default(), Places::default());
        let (claims, keys, hurry) = (OnceLock::new(), Mutex::default(), Arc::default());
        let voice = Voice::Now(events);
        Self {
            asker,
            claims,
            world,
            config,
            shelves,
            writer,
            voice,
            clock,
            metrics,
            memories,
            hurry,
            ledger,
            places,
            keys,
        }
    }

    /// The same room, which does not wait until what it says is sent.
    #[must_use]
    pub fn telling(self, teller: Teller) -> Self {
        Self { voice: Voice::Behind(teller), ..self }
    }

    /// Says something about `target`.
    pub(crate) async fn tell(&self, target: &Target, warning: bool, reason: &str, text: &str) {
        match &self.voice {
            Voice::Now(events) => events.say(target, warning, reason, text).await,
            Voice::Behind(teller) => teller.say(target, warning, reason, text).await,
        }
    }

    /// Counts how often in a row something outside was missing, and forgets what went wrong long ago.
    fn count(&self, s: &Snapshot) {
        let old = s.mishap.as_ref().is_some_and(|mishap| s.is_older(mishap.until, decide::PAUSE));
        if old {
            self.memories.change(&s.key, |memory| memory.mishap = None);
        }
        let stuck = matches!(&s.sky, Sky::Clouded(_)) || matches!(&s.preflight, Some(Err(_)));
        let known = self.memories.of(&s.key).tries;
        if stuck || known > 0 {
            let tries = if stuck { known.saturating_add(1) } else { 0 };
            self.memories.change(&s.key, |memory| memory.tries = tries);
        }
    }
}

impl<C: Cloud, A: Asker> Room for Keeper<C, A> {
    const NAME: &'static str = A::NAME;
    type Key = ObjectKey;
    type Snapshot = Snapshot;
    type Step = Step;
    type Status = A::Status;
    type Error = Error;

    async fn observe(&self, key: &ObjectKey, now: Timestamp) -> Result<Option<Snapshot>, Error> {
        self.metrics.lacks.begin(A::NAME, key);
        let seen = self.gather(key, now).await?;
        self.metrics.lacks.end(A::NAME, key);
        match &seen {
            Some(snapshot) => {
                self.count(snapshot);
                self.hurry.note(key, first::known(snapshot));
            }
            None => self.hurry.forget(key),
        }
        Ok(seen)
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

    fn report<'s>(&self, s: &'s Snapshot, trouble: Option<&Trouble<Error>>) -> Option<Report<'s, A::Status>> {
        // What went wrong in this very pass is told with it.
        let memory = self.memories.of(&s.key);
        let now = Snapshot { mishap: memory.mishap, refusals: memory.refusals, ..s.clone() };
        let thought = decide::think(&now);
        if thought.silent || thought.steps.contains(&Step::Conclude) {
            return None;
        }
        // A write each for what the next pass says otherwise would hold up hosts that are paid for.
        if trouble.is_none() && thought.goes_on() && thought.is_passing() {
            return None;
        }
        self.asker.report(s, &now, &thought)
    }

    fn event(&self, transition: &Transition) -> Option<Notice> {
        A::event(transition)
    }

    fn priority(&self, key: &ObjectKey, _: Priority) -> Priority {
        self.hurry.of(key)
    }

    fn wrote(&self, key: &ObjectKey, version: &Version) {
        self.asker.wrote(key, version);
    }
}
