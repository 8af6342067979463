//! What a quota has come to: whether it is in force and kept, and who uses how much of it.

use std::cmp::Reverse;
use std::convert::Infallible;
use std::sync::Arc;

use api::key::ObjectKey;
use api::own::{HostClaimQuotaStatus, NamespaceUse, QuotaUse};
use api::reasons::READY;
use api::reasons::claims::Reason;
use jiff::Timestamp;
use kit::class::{Class, Classify};
use kit::conditions::Verdict;
use kit::feed::{Feed, Seen, Version};
use kit::room::{Flow, Report, Room, Trouble, Violation};
use kit::write::Target;

use crate::facts::{self, QuotaFacts, World};
use crate::room::{SharedYard, lock};
use crate::yard::Use;

/// So many namespaces are listed, those that hold most first.
const LISTED: usize = 256;

/// The index, or the yard, does not show the newest yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the index is behind")]
pub struct Lag;

impl Classify for Lag {
    fn class(&self) -> Class {
        Class::Stale
    }
}

/// Tells on each quota what it has come to.
pub struct Quotas {
    feed: Feed<facts::Quotas>,
    yard: SharedYard,
}

impl Quotas {
    pub(super) fn new(world: &World, yard: &SharedYard) -> Self {
        Self { feed: world.quotas.clone(), yard: Arc::clone(yard) }
    }
}

/// A quota at one moment.
pub struct Snapshot {
    target: Target,
    facts: Arc<QuotaFacts>,
    used: Use,
}

impl Room for Quotas {
    const NAME: &'static str = "claims-quotas";
    type Key = ObjectKey;
    type Snapshot = Snapshot;
    type Step = Infallible;
    type Status = HostClaimQuotaStatus;
    type Error = Lag;

    async fn observe(&self, key: &ObjectKey, _: Timestamp) -> Result<Option<Snapshot>, Lag> {
        let facts = match self.feed.get(key) {
            Seen::At(facts) => facts,
            Seen::Absent => return Ok(None),
            Seen::Behind => return Err(Lag),
        };
        let Some(used) = lock(&self.yard).quota_use(key.name()) else { return Err(Lag) };
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

    fn report<'s>(&self, s: &'s Snapshot, _: Option<&Trouble<Lag>>) -> Option<Report<'s, HostClaimQuotaStatus>> {
        Some(report(s))
    }

    fn wrote(&self, key: &ObjectKey, version: &Version) {
        self.feed.wrote(key, version);
    }
}

fn report(s: &Snapshot) -> Report<'_, HostClaimQuotaStatus> {
    Report {
        target: s.target.clone(),
        generation: s.facts.generation,
        stored: &s.facts.status,
        next: HostClaimQuotaStatus { used: Some(used(&s.used)), ..HostClaimQuotaStatus::default() },
        based_on: None,
        verdicts: vec![verdict(s)],
    }
}

fn verdict(s: &Snapshot) -> Verdict {
    if let Some(fault) = &s.used.fault {
        return Verdict::no(
            READY,
            Reason::InvalidSelector.as_str(),
            format!("The quota binds nobody until it is corrected: {fault}."),
        );
    }
    let hard = u32::try_from(s.facts.spec.hard.hosts).unwrap_or(0);
    let over: Vec<&str> = if s.facts.spec.shared {
        if s.used.hosts > hard { vec!["all tenants together"] } else { Vec::new() }
    } else {
        s.used.tenants.iter().filter(|(_, held)| **held > hard).map(|(tenant, _)| &**tenant).collect()
    };
    match over.first() {
        None => Verdict::yes(READY, Reason::WithinQuota.as_str(), "The quota is in force and kept."),
        Some(first) => {
            let more = if over.len() > 1 { " and others" } else { "" };
            let text = format!(
                "{first}{more} held more before the limit was lowered; nothing is taken away, and no more is given."
            );
            Verdict::no(READY, Reason::OverQuota.as_str(), text)
        }
    }
}

fn used(used: &Use) -> QuotaUse {
    let count = |count: u32| i32::try_from(count).unwrap_or(i32::MAX);
    let mut holders: Vec<(&str, u32)> =
        used.tenants.iter().map(|(tenant, held)| (&**tenant, *held)).filter(|(_, held)| *held > 0).collect();
    holders.sort_by_key(|(tenant, held)| (Reverse(*held), (*tenant).to_owned()));
    QuotaUse {
        hosts: count(used.hosts),
        tenants: i32::try_from(holders.len()).unwrap_or(i32::MAX),
        namespaces: holders
            .into_iter()
            .take(LISTED)
            .map(|(tenant, held)| NamespaceUse { namespace: tenant.to_owned(), hosts: count(held) })
            .collect(),
    }
}
