//! The shape of every room, and the driver that runs them all the same way.
//!
//! A room reads the world once, thinks without touching it, then acts in small steps. The driver does the rest: takes a
//! key, observes under a deadline, lets the room decide and its guard object, applies the steps in order until one
//! fails or waits, folds the status, writes it only if it differs, and says when to look again.

mod driver;
mod meter;
mod roll;
mod stand;

use std::fmt::{Debug, Display};
use std::future::Future;
use std::hash::Hash;
use std::time::Duration;

use api::status::Conditioned;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::Serialize;

pub use crate::backoff::Pace;
pub use driver::{Driver, Outcome};
pub use meter::Meter;
pub use roll::Roll;
pub use stand::Stand;

use crate::class::{Class, Classify, chain};
use crate::conditions::{State, Transition, Verdict};
use crate::feed::Version;
use crate::queue::Priority;
use crate::write::{self, Target};

/// One capability. Two halves touch the world, two only think.
pub trait Room: Send + Sync + 'static {
    /// The room's name in flags, metrics, logs and field managers.
    const NAME: &'static str;
    /// How soon it tries again what failed.
    const PACE: Pace = Pace::USUAL;
    /// What one pass is about.
    type Key: Clone + Ord + Hash + Display + Send + Sync + 'static;
    /// Everything a decision needs, read once.
    type Snapshot: Send + Sync;
    /// One effect, or a wait.
    type Step: Debug + Send;
    /// What the object's status holds.
    type Status: Conditioned + Clone + PartialEq + Serialize + Send + Sync;
    /// What can go wrong while observing or applying.
    type Error: Classify + std::error::Error + Send + Sync + 'static;

    /// Gathers one snapshot; `None` means the object is gone and there is nothing to do.
    fn observe(
        &self,
        key: &Self::Key,
        now: Timestamp,
    ) -> impl Future<Output = Result<Option<Self::Snapshot>, Self::Error>> + Send;

    /// Thinks: what to do next, in order. Total, synchronous, deterministic.
    fn decide(&self, snapshot: &Self::Snapshot) -> Vec<Self::Step>;

    /// Thinks again: what must hold of any plan. A plan that breaks it is not carried out.
    ///
    /// # Errors
    /// The rule that the plan breaks.
    fn guard(&self, snapshot: &Self::Snapshot, plan: &[Self::Step]) -> Result<(), Violation>;

    /// Carries out one step. Must be safe to repeat and to be dropped at any await.
    fn apply(
        &self,
        snapshot: &Self::Snapshot,
        step: Self::Step,
    ) -> impl Future<Output = Result<Flow, Self::Error>> + Send;

    /// Says how things stand; `None` when this object's status is not ours to write.
    fn report<'s>(
        &self,
        snapshot: &'s Self::Snapshot,
        trouble: Option<&Trouble<Self::Error>>,
    ) -> Option<Report<'s, Self::Status>>;

    /// The event that tells of a transition; `None` when nobody needs to be told.
    fn event(&self, transition: &Transition) -> Option<Notice> {
        Some(Notice { reason: transition.reason, warning: transition.to != State::True })
    }

    /// Whether a status that cannot be written is not worth another attempt: on a foreign object we may lack the right
    /// or the schema the field, and the room's work goes on without it.
    fn tolerates(&self, _error: &write::Error) -> bool {
        false
    }

    /// How urgent it is to look at a key again, where the driver asks for that by itself; `usual` says how urgent it takes
    /// it to be. For a room that knows what waiting costs.
    fn priority(&self, _key: &Self::Key, usual: Priority) -> Priority {
        usual
    }

    /// How many of its workers may be with the background at a time. A room in which that can be very much leaves some free
    /// for what is urgent, and the server as well: whoever comes first there still waits for all that is under way.
    #[must_use]
    fn background_workers(workers: usize) -> usize {
        workers
    }

    /// Told about each status write, so that a feed can tell its index is behind.
    fn wrote(&self, _key: &Self::Key, _version: &Version) {}

    /// Told about the end of each pass, for a room that counts passes by something of its own.
    fn passed(&self, _key: &Self::Key, _outcome: Outcome, _took: Duration) {}
}

/// How an event tells of a transition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notice {
    /// One CamelCase word for programs.
    pub reason: &'static str,
    /// Whether somebody should look.
    pub warning: bool,
}

/// How a pass goes on after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// On to the next step; the world has been changed.
    Next,
    /// Stop here and look again at that time, or with `None` only when something changes.
    Wait(Option<Timestamp>),
    /// Stop here and look again at once.
    Again,
}

/// A plan broke a rule that must hold of any plan: a bug, contained before it had an effect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the plan breaks a rule: {rule}")]
pub struct Violation {
    /// The rule, in a sentence.
    pub rule: String,
}

impl Violation {
    /// Names the broken rule.
    #[must_use]
    pub fn new(rule: impl Into<String>) -> Self {
        Self { rule: rule.into() }
    }
}

/// Why a pass did not come to its end.
#[derive(Debug)]
pub enum Trouble<E> {
    /// Observing or applying failed.
    Failed(E),
    /// The plan was refused by the guard.
    Refused(Violation),
    /// The code panicked; the object is backed off and nothing else suffers.
    Panicked,
    /// A step took longer than its deadline.
    TimedOut,
    /// Leadership ended between two steps; whoever leads now goes on.
    NotLeading,
}

impl<E: Classify + std::error::Error> Trouble<E> {
    /// What to do about it.
    pub fn class(&self) -> Class {
        match self {
            Self::Failed(error) => error.class(),
            Self::Refused(_) | Self::Panicked | Self::TimedOut => Class::Transient { at_least: None },
            Self::NotLeading => Class::Stale,
        }
    }

    /// What became of the pass, in a word or two.
    fn sort(&self) -> &'static str {
        match self {
            Self::Failed(_) => "failed",
            Self::Refused(_) => "refused",
            Self::Panicked => "panicked",
            Self::TimedOut => "timed out",
            Self::NotLeading => "no longer leading",
        }
    }

    /// One line for the log.
    fn line(&self) -> String {
        match self {
            Self::Failed(error) => chain(error),
            Self::Refused(violation) => violation.to_string(),
            Self::Panicked => "panicked".to_owned(),
            Self::TimedOut => "timed out".to_owned(),
            Self::NotLeading => "no longer leading".to_owned(),
        }
    }
}

/// The status of a room that has none to write: whatever it has to say stands elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct NoStatus {
    #[serde(skip)]
    none: Vec<Condition>,
}

impl Conditioned for NoStatus {
    fn conditions(&self) -> &[Condition] {
        &self.none
    }
    fn conditions_mut(&mut self) -> &mut Vec<Condition> {
        &mut self.none
    }
    fn set_observed_generation(&mut self, _: i64) {}
}

/// How things stand with one object.
pub struct Report<'s, S> {
    /// Whose status it is.
    pub target: Target,
    /// The generation the snapshot was read at.
    pub generation: i64,
    /// The status as stored.
    pub stored: &'s S,
    /// The status as it should be, without conditions: these come from the verdicts.
    pub next: S,
    /// The version the status was computed from, when a status computed from another one must not be stored.
    pub based_on: Option<Version>,
    /// What the room thinks of each aspect: always the same types, or the condition of a missing one is taken away.
    pub verdicts: Vec<Verdict>,
}
