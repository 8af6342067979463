//! What a rule of an administrator has come to: nothing is done about it, it is told in the rule's own status.

use std::convert::Infallible;
use std::sync::Arc;

use api::key::ObjectKey;
use api::status::Conditioned;
use jiff::Timestamp;
use kit::class::{Class, Classify};
use kit::conditions::Verdict;
use kit::feed::{Feed, Project, Seen, Version};
use kit::room::{Flow, Report, Room, Trouble, Violation};
use kit::write::Target;
use serde::Serialize;

use crate::facts::Ruled;
use crate::shared::SharedYard;
use crate::yard::{Use, Yard};

/// One kind of rule.
pub trait Account: Send + Sync + 'static {
    /// The duty's name in metrics, logs and field managers.
    const NAME: &'static str;
    /// The feed of the kind.
    type Feed: Project<Slim = Ruled<Self::Spec, Self::Status>>;
    /// What the administrator says.
    type Spec: Send + Sync + 'static;
    /// What it has come to.
    type Status: Conditioned + Clone + PartialEq + Serialize + Send + Sync + 'static;

    /// How much is held under a rule; `None` when the yard does not know it yet.
    fn used(yard: &Yard, key: &ObjectKey) -> Option<Use>;
    /// The status without conditions.
    fn status(used: &Use) -> Self::Status;
    /// The one condition.
    fn verdict(spec: &Self::Spec, used: &Use) -> Verdict;
}

/// The index, or the yard, does not show the newest yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the index is behind")]
pub struct Lag;

impl Classify for Lag {
    fn class(&self) -> Class {
        Class::Stale
    }
}

/// Tells on each rule of one kind what it has come to.
pub struct Ledger<A: Account> {
    feed: Feed<A::Feed>,
    yard: SharedYard,
}

impl<A: Account> Ledger<A> {
    pub(super) fn new(feed: &Feed<A::Feed>, yard: &SharedYard) -> Self {
        Self { feed: feed.clone(), yard: Arc::clone(yard) }
    }
}

/// A rule at one moment.
pub struct Snapshot<A: Account> {
    target: Target,
    facts: Arc<Ruled<A::Spec, A::Status>>,
    used: Use,
}

impl<A: Account> Room for Ledger<A> {
    const NAME: &'static str = A::NAME;
    type Key = ObjectKey;
    type Snapshot = Snapshot<A>;
    type Step = Infallible;
    type Status = A::Status;
    type Error = Lag;

    async fn observe(&self, key: &ObjectKey, _: Timestamp) -> Result<Option<Snapshot<A>>, Lag> {
        let facts = match self.feed.get(key) {
            Seen::At(facts) => facts,
            Seen::Absent => return Ok(None),
            Seen::Behind => return Err(Lag),
        };
        let Some(used) = A::used(&self.yard.lock(), key) else { return Err(Lag) };
        let target = Target { kind: self.feed.kind(), key: key.clone(), uid: facts.uid.clone() };
        Ok(Some(Snapshot { target, facts, used }))
    }

    fn decide(&self, _: &Snapshot<A>) -> Vec<Infallible> {
        Vec::new()
    }

    fn guard(&self, _: &Snapshot<A>, _: &[Infallible]) -> Result<(), Violation> {
        Ok(())
    }

    async fn apply(&self, _: &Snapshot<A>, step: Infallible) -> Result<Flow, Lag> {
        match step {}
    }

    fn report<'s>(&self, s: &'s Snapshot<A>, _: Option<&Trouble<Lag>>) -> Option<Report<'s, A::Status>> {
        Some(Report {
            target: s.target.clone(),
            generation: s.facts.generation,
            stored: &s.facts.status,
            next: A::status(&s.used),
            based_on: None,
            verdicts: vec![A::verdict(&s.facts.spec, &s.used)],
        })
    }

    fn wrote(&self, key: &ObjectKey, version: &Version) {
        self.feed.wrote(key, version);
    }
}
