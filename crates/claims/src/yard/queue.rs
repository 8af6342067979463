//! The claims that wait: grouped by what they want, so that a host is tried once per wish and not once per claim.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::key::ObjectKey;
use jiff::Timestamp;

use super::Ageing;
use super::hosts::Seen;
use super::policies::Admitted;
use super::quotas::Share;
use crate::labels::Selector;

/// What a claim wants, equal for all claims that any host fits or does not fit alike.
#[derive(Clone, Debug)]
pub(super) struct Signature {
    pub(super) admitted: Arc<Admitted>,
    pub(super) selector: Selector,
    pub(super) in_namespace: Option<Box<str>>,
    pub(super) domain: Option<Box<str>>,
    pub(super) required: bool,
    /// The reuse group, as hosts carry it.
    pub(super) group: Option<Box<str>>,
}

impl Signature {
    /// Whether a host is in another failure domain than the one that is insisted on.
    pub(super) fn is_elsewhere(&self, host: &Seen<'_>) -> bool {
        self.required && self.domain.is_some() && self.domain.as_deref() != host.domain()
    }

    fn gist(&self) -> impl Ord + '_ {
        (self.admitted.id, &self.selector, &self.in_namespace, &self.domain, self.required, &self.group)
    }
}

impl Ord for Signature {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.gist().cmp(&other.gist())
    }
}

impl PartialOrd for Signature {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Signature {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Signature {}

/// A claim in a line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Waiter {
    pub(super) created: Timestamp,
    pub(super) uid: Box<str>,
    pub(super) key: Arc<ObjectKey>,
}

/// The order among claims of one tenant; the lesser goes first.
pub(super) type Turn = (Reverse<i64>, Waiter);

/// The order among all claims; the lesser goes first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    priority: Reverse<i64>,
    share: Share,
    waiter: Waiter,
}

impl Rank {
    pub(super) fn new(turn: &Turn, share: Share) -> Self {
        Self { priority: turn.0, share, waiter: turn.1.clone() }
    }

    pub(super) fn claim(&self) -> Arc<ObjectKey> {
        Arc::clone(&self.waiter.key)
    }
}

/// The claims of one tenant that want the same, by priority.
#[derive(Debug, Default)]
pub(super) struct Line {
    by_priority: BTreeMap<i32, BTreeSet<Waiter>>,
}

impl Line {
    /// The claims of each priority, the oldest first, each with its priority of now: all of one priority age alike, so
    /// the oldest is never behind a younger one.
    fn classes(&self, ageing: Ageing, now: Timestamp) -> impl Iterator<Item = impl Iterator<Item = Turn> + '_> + '_ {
        self.by_priority.iter().map(move |(priority, waiters)| {
            waiters.iter().map(move |waiter| {
                let aged = i64::from(*priority) + ageing.steps(waiter.created, now);
                (Reverse(aged), waiter.clone())
            })
        })
    }

    /// The first claim that `accepts`.
    pub(super) fn first(&self, ageing: Ageing, now: Timestamp, accepts: impl Fn(&ObjectKey) -> bool) -> Option<Turn> {
        self.classes(ageing, now).filter_map(|mut class| class.find(|(_, waiter)| accepts(&waiter.key))).min()
    }

    /// All claims in their order.
    pub(super) fn turns(&self, ageing: Ageing, now: Timestamp) -> Vec<Turn> {
        let mut turns: Vec<Turn> = self.classes(ageing, now).flatten().collect();
        turns.sort();
        turns
    }

    fn waiters(&self) -> impl Iterator<Item = &Waiter> {
        self.by_priority.values().flatten()
    }
}

/// All lines, by wish and tenant.
#[derive(Debug, Default)]
pub(super) struct Lines {
    by_wish: BTreeMap<Arc<Signature>, BTreeMap<Box<str>, Line>>,
    by_tenant: BTreeMap<Box<str>, BTreeSet<Arc<Signature>>>,
    waiting: usize,
}

impl Lines {
    pub(super) fn len(&self) -> usize {
        self.waiting
    }

    /// Every wish with its lines.
    pub(super) fn wishes(&self) -> impl Iterator<Item = (&Arc<Signature>, &BTreeMap<Box<str>, Line>)> {
        self.by_wish.iter()
    }

    pub(super) fn line(&self, wish: &Signature, tenant: &str) -> Option<&Line> {
        self.by_wish.get(wish)?.get(tenant)
    }

    /// The wishes of a tenant.
    pub(super) fn of_tenant(&self, tenant: &str) -> impl Iterator<Item = &Arc<Signature>> {
        self.by_tenant.get(tenant).into_iter().flatten()
    }

    pub(super) fn tenants(&self) -> impl Iterator<Item = &str> {
        self.by_tenant.keys().map(|name| &**name)
    }

    /// The claims in a line, in no particular order.
    pub(super) fn members(&self, wish: &Signature, tenant: &str) -> impl Iterator<Item = &Arc<ObjectKey>> {
        self.line(wish, tenant).into_iter().flat_map(Line::waiters).map(|waiter| &waiter.key)
    }

    /// Puts a claim in line and returns the wish as it is kept.
    pub(super) fn join(&mut self, wish: Signature, tenant: &str, priority: i32, waiter: Waiter) -> Arc<Signature> {
        let kept = self.by_wish.get_key_value(&wish).map(|(kept, _)| Arc::clone(kept));
        let wish = kept.unwrap_or_else(|| Arc::new(wish));
        let lines = self.by_wish.entry(Arc::clone(&wish)).or_default();
        let line = lines.entry(tenant.into()).or_default();
        if line.by_priority.entry(priority).or_default().insert(waiter) {
            self.waiting += 1;
        }
        self.by_tenant.entry(tenant.into()).or_default().insert(Arc::clone(&wish));
        wish
    }

    /// Takes a claim out of its line.
    pub(super) fn leave(&mut self, wish: &Arc<Signature>, tenant: &str, priority: i32, waiter: &Waiter) {
        let Some(lines) = self.by_wish.get_mut(wish) else { return };
        let Some(line) = lines.get_mut(tenant) else { return };
        let Some(class) = line.by_priority.get_mut(&priority) else { return };
        if class.remove(waiter) {
            self.waiting -= 1;
        }
        if class.is_empty() {
            line.by_priority.remove(&priority);
        }
        if line.by_priority.is_empty() {
            lines.remove(tenant);
            if lines.is_empty() {
                self.by_wish.remove(wish);
            }
            if let Some(wishes) = self.by_tenant.get_mut(tenant) {
                wishes.remove(wish);
                if wishes.is_empty() {
                    self.by_tenant.remove(tenant);
                }
            }
        }
    }
}
