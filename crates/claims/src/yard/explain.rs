//! Why a claim has no host, in numbers and words.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::key::ObjectKey;
use jiff::Timestamp;

use super::fit::Unfit;
use super::hosts::Host;
use super::queue::Signature;
use super::quotas::Full;
use super::{State, Timer, Yard};

/// A text stands at least this long, whatever changes.
const SHORTEST: Duration = Duration::from_secs(15);
/// Each claim that waits makes texts stand longer by this: a text that changes is a write for every claim that shows it.
const PER_CLAIM: Duration = Duration::from_millis(50);

/// The reason a claim without a host shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// No host fits.
    NoHost,
    /// No policy lets the tenant in anywhere.
    NotAdmitted,
    /// Hosts would fit, free or not, but the tenant holds as many as it may.
    QuotaExceeded,
    /// A host is kept for its reuse group and not free yet.
    WaitingForReuseHost,
    /// A host would fit, but in another failure domain than the claim insists on.
    FailureDomainExhausted,
    /// Its selector cannot be used.
    InvalidSelector,
}

/// Why a claim has no host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unbound {
    /// The reason.
    pub why: Why,
    /// The reason in words, without anything that changes by itself.
    pub text: String,
    /// The hosts of the namespaces that the tenant may look into.
    pub total: u32,
    /// How many of them failed which filter first, in the order of the filters.
    pub reasons: Vec<(Unfit, u32)>,
    /// When this was found.
    pub observed_at: Timestamp,
}

/// A text that all claims of one line show.
#[derive(Debug)]
pub(super) struct Text {
    unbound: Unbound,
    changes: u64,
    until: Timestamp,
}

/// The texts of all lines that were asked for one.
#[derive(Debug, Default)]
pub(super) struct Texts {
    by_line: BTreeMap<Arc<Signature>, BTreeMap<Box<str>, Text>>,
}

impl Texts {
    fn get(&self, wish: &Signature, tenant: &str) -> Option<&Text> {
        self.by_line.get(wish)?.get(tenant)
    }

    fn set(&mut self, wish: &Arc<Signature>, tenant: &str, text: Text) {
        self.by_line.entry(Arc::clone(wish)).or_default().insert(tenant.into(), text);
    }

    pub(super) fn forget(&mut self, wish: &Signature, tenant: &str) {
        if let Some(texts) = self.by_line.get_mut(wish) {
            texts.remove(tenant);
            if texts.is_empty() {
                self.by_line.remove(wish);
            }
        }
    }
}

impl Yard {
    /// Why a claim has no host. Claims that want the same show the same, which stands for a while whatever changes.
    pub fn unbound(&mut self, claim: &ObjectKey, now: Timestamp) -> Unbound {
        let entry = self.claims.get(claim);
        if let Some(fault) = entry.and_then(|entry| entry.facts.wish.as_ref().err()) {
            let text = fault.to_string();
            return Unbound { why: Why::InvalidSelector, text, total: 0, reasons: Vec::new(), observed_at: now };
        }
        let waiting = entry.and_then(|entry| match &entry.state {
            State::Waiting(wish) => Some(Arc::clone(wish)),
            _ => None,
        });
        let tenant = claim.namespace().unwrap_or_default();
        match (waiting, self.wish(claim)) {
            (Some(wish), _) => {
                if let Some(text) = self.texts.get(&wish, tenant)
                    && (text.changes == self.changes || now < text.until)
                {
                    return text.unbound.clone();
                }
                self.explain(&wish, tenant, now)
            }
            (None, Some(wish)) => self.account(&wish, tenant, now),
            (None, None) => self.nobody(tenant, now),
        }
    }

    /// Judges every host of the namespaces that a claim's tenant may look into, for those who run the yard.
    #[must_use]
    pub fn verdicts(&self, claim: &ObjectKey, now: Timestamp) -> Vec<(ObjectKey, Option<Unfit>)> {
        let Some(wish) = self.wish(claim) else { return Vec::new() };
        let hosts = wish.admitted.ways.keys().flat_map(|namespace| self.hosts.of_namespace(namespace));
        let verdict = |host: &Host| {
            let seen = host.seen();
            let misfit = self.misfit(&wish, &seen, Some(claim));
            misfit.or_else(|| self.barred(&wish, claim.namespace().unwrap_or_default(), Some(claim), &seen, now))
        };
        hosts.map(|host| ((*host.place.key).clone(), verdict(host))).collect()
    }

    /// The claim that a host is set aside for.
    #[must_use]
    pub fn promised(&self, host: &ObjectKey) -> Option<&ObjectKey> {
        self.hosts.get(host)?.assumed.as_deref()
    }

    /// What leaves a claim's tenant no room for a host that fits it otherwise.
    #[must_use]
    pub fn bound(&self, claim: &ObjectKey, host: &ObjectKey) -> Option<Full> {
        let seen = self.hosts.get(host)?.seen();
        self.full(&self.wish(claim)?, claim.namespace().unwrap_or_default(), &seen)
    }

    /// Finds the text of a line anew and keeps it for a while.
    fn explain(&mut self, wish: &Arc<Signature>, tenant: &str, now: Timestamp) -> Unbound {
        let unbound = self.account(wish, tenant, now);
        let waiting = u32::try_from(self.lines.len()).unwrap_or(u32::MAX);
        let stands = SHORTEST.max(PER_CLAIM.saturating_mul(waiting));
        let until = now.saturating_add(stands).unwrap_or(Timestamp::MAX);
        self.texts.set(wish, tenant, Text { unbound: unbound.clone(), changes: self.changes, until });
        self.timers.insert((until, Timer::Text(Arc::clone(wish), tenant.into())));
        unbound
    }

    /// Finds a text anew that may be out of date, and wakes those who show it if it says something else now.
    /// Says whether it had to be found anew.
    pub(super) fn refresh(&mut self, wish: &Arc<Signature>, tenant: &str, now: Timestamp) -> bool {
        let Some(text) = self.texts.get(wish, tenant) else { return false };
        // Asked for again in the meantime: there is a later timer.
        if text.until > now {
            return false;
        }
        let (old, changes) = (text.unbound.text.clone(), text.changes);
        if changes == self.changes {
            let until = now.saturating_add(SHORTEST).unwrap_or(Timestamp::MAX);
            self.timers.insert((until, Timer::Text(Arc::clone(wish), tenant.into())));
            return false;
        }
        if self.explain(wish, tenant, now).text != old {
            self.wake.extend(self.lines.members(wish, tenant).map(|key| (**key).clone()));
        }
        true
    }

    fn nobody(&self, tenant: &str, now: Timestamp) -> Unbound {
        let text = format!("no infrastructure namespace admits namespace {tenant}");
        Unbound { why: Why::NotAdmitted, text, total: 0, reasons: Vec::new(), observed_at: now }
    }

    /// Counts each host once, at the first filter it fails.
    fn account(&self, wish: &Signature, tenant: &str, now: Timestamp) -> Unbound {
        let ways = || wish.admitted.ways.keys();
        if !ways().any(|namespace| wish.in_namespace.as_ref().is_none_or(|only| only == namespace)) {
            return self.nobody(tenant, now);
        }
        let mut counts: BTreeMap<Unfit, u32> = BTreeMap::new();
        // A limit that keeps the tenant from a free host, one that would keep it from another once that is free, and whether
        // there is any that it could have then.
        let (mut full, mut later, mut room) = (None, None, false);
        let mut total = 0;
        for host in ways().flat_map(|namespace| self.hosts.of_namespace(namespace)) {
            let seen = host.seen();
            total += 1;
            let misfit = self.misfit(wish, &seen, None);
            let unfit = misfit.unwrap_or_else(|| match self.full(wish, tenant, &seen) {
                Some(found) => {
                    full.get_or_insert(found);
                    Unfit::QuotaExceeded
                }
                // What keeps the claims of the line from a host that fits them all is a cool-down.
                None => Unfit::CoolDown,
            });
            if !room && unfit.may_pass() && unfit != Unfit::QuotaExceeded && !wish.is_elsewhere(&seen) {
                let found = self.full_for_another(wish, tenant, &seen);
                room = found.is_none();
                later = later.or(found);
            }
            *counts.entry(unfit).or_default() += 1;
        }
        // Whoever could have none of them even if all were free is told so, and told nothing else each time one comes or goes.
        let full = full.or(later.filter(|_| !room));
        let mut order: Vec<(Unfit, u32)> = counts.iter().map(|(unfit, count)| (*unfit, *count)).collect();
        order.sort_by_key(|(unfit, count)| (Reverse(*count), *unfit));
        let parts: Vec<String> = order.iter().map(|(unfit, count)| format!("{count} {}", unfit.words())).collect();
        let mut text = format!("0/{total} hosts fit");
        if !parts.is_empty() {
            text = format!("{text}: {}", parts.join(", "));
        }
        let why = if self.waits_for_reuse(wish, now) {
            text = "a host is kept for the reuse group and is not available yet".to_owned();
            Why::WaitingForReuseHost
        } else if let Some(full) = full {
            text = full.to_string();
            Why::QuotaExceeded
        } else if counts.contains_key(&Unfit::OtherFailureDomain) && !counts.contains_key(&Unfit::CoolDown) {
            Why::FailureDomainExhausted
        } else {
            Why::NoHost
        };
        Unbound { why, text, total, reasons: counts.into_iter().collect(), observed_at: now }
    }
}
