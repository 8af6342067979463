//! What a policy has come to: whether it can be used, and how many hosts are held through it.

use std::convert::Infallible;
use std::sync::Arc;

use api::key::ObjectKey;
use api::own::HostDeployPolicyStatus;
use api::reasons::ACCEPTED;
use api::reasons::claims::Reason;
use jiff::Timestamp;
use kit::conditions::Verdict;
use kit::feed::{Feed, Seen, Version};
use kit::room::{Flow, Report, Room, Trouble, Violation};
use kit::write::Target;

use super::quota::Lag;
use crate::facts::{self, PolicyFacts, World};
use crate::room::{SharedYard, lock};
use crate::yard::Use;

/// Tells on each policy what it has come to.
pub struct Policies {
    feed: Feed<facts::Policies>,
    yard: SharedYard,
}

impl Policies {
    pub(super) fn new(world: &World, yard: &SharedYard) -> Self {
        Self { feed: world.policies.clone(), yard: Arc::clone(yard) }
    }
}

/// A policy at one moment.
pub struct Snapshot {
    target: Target,
    facts: Arc<PolicyFacts>,
    used: Use,
}

impl Room for Policies {
    const NAME: &'static str = "claims-policies";
    type Key = ObjectKey;
    type Snapshot = Snapshot;
    type Step = Infallible;
    type Status = HostDeployPolicyStatus;
    type Error = Lag;

    async fn observe(&self, key: &ObjectKey, _: Timestamp) -> Result<Option<Snapshot>, Lag> {
        let facts = match self.feed.get(key) {
            Seen::At(facts) => facts,
            Seen::Absent => return Ok(None),
            Seen::Behind => return Err(Lag),
        };
        let Some(used) = lock(&self.yard).policy_use(key) else { return Err(Lag) };
        let target = Target { kind: self.feed.kind(), key: key.clone(), uid: facts.uid.clone() };
        Ok(Some(Snapshot { target, facts, used }))
    }

    fn decide(&self, _: &Snapshot) -> Vec<Infallible> {
        Vec::new()
    }

    fn guard(&self, _: &Snapshot, _: &[Infallible]) -> Result<(), Violation> {
        Ok(())
    }

    async fn apply(&self, _: &Snapshot, step: Infallible) -> Result<Flow, Lag> {
        match step {}
    }

    fn report<'s>(&self, s: &'s Snapshot, _: Option<&Trouble<Lag>>) -> Option<Report<'s, HostDeployPolicyStatus>> {
        Some(report(s))
    }

    fn wrote(&self, key: &ObjectKey, version: &Version) {
        self.feed.wrote(key, version);
    }
}

fn report(s: &Snapshot) -> Report<'_, HostDeployPolicyStatus> {
    let verdict = match &s.used.fault {
        None => Verdict::yes(ACCEPTED, Reason::Accepted.as_str(), "The policy is in force."),
        Some(fault) => Verdict::no(
            ACCEPTED,
            Reason::InvalidRegexp.as_str(),
            format!("The policy admits nobody until it is corrected: {fault}."),
        ),
    };
    Report {
        target: s.target.clone(),
        generation: s.facts.generation,
        stored: &s.facts.status,
        next: HostDeployPolicyStatus {
            bound_hosts: Some(i32::try_from(s.used.hosts).unwrap_or(i32::MAX)),
            ..HostDeployPolicyStatus::default()
        },
        based_on: None,
        verdicts: vec![verdict],
    }
}
