//! What one process remembers of claims between two passes. Losing it costs a repeated look, never a host.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::key::ObjectKey;
use jiff::Timestamp;
use kit::feed::Version;

use crate::parts::{Fault, Part};
use crate::words::Tell;

/// So many claims without their cluster are remembered.
const ALONE: usize = 20_000;

/// The faults of each claim, by its uid.
type ByClaim = BTreeMap<Box<str>, BTreeMap<Part, (Version, Fault)>>;

/// Secrets that could not be used, by claim and part, with the version that was tried.
#[derive(Debug, Default)]
pub struct Faults {
    known: Mutex<ByClaim>,
}

impl Faults {
    fn known(&self) -> MutexGuard<'_, ByClaim> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is wrong with this version of a part's secret.
    #[must_use]
    pub fn of(&self, claim: &str, part: Part, version: &Version) -> Option<Fault> {
        self.known().get(claim)?.get(&part).filter(|(tried, _)| tried == version).map(|(_, fault)| *fault)
    }

    /// Remembers that this version of a part's secret cannot be used.
    pub fn note(&self, claim: &str, part: Part, version: Version, fault: Fault) {
        self.known().entry(claim.into()).or_default().insert(part, (version, fault));
    }

    /// Forgets a part.
    pub fn forget(&self, claim: &str, part: Part) {
        let mut known = self.known();
        if let Some(parts) = known.get_mut(claim) {
            parts.remove(&part);
            if parts.is_empty() {
                known.remove(claim);
            }
        }
    }

    /// Forgets a claim.
    pub fn forget_claim(&self, claim: &str) {
        self.known().remove(claim);
    }
}

/// Since when the hosts of claims fail, as this process saw it.
#[derive(Debug, Default)]
pub struct Failing {
    since: Mutex<BTreeMap<Box<str>, Timestamp>>,
}

impl Failing {
    /// Since when the host of a claim fails; `None` when it does not.
    pub fn since(&self, claim: &str, fails: bool, now: Timestamp) -> Option<Timestamp> {
        let mut since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        if fails {
            return Some(*since.entry(claim.into()).or_insert(now));
        }
        since.remove(claim);
        None
    }

    /// Forgets a claim.
    pub fn forget(&self, claim: &str) {
        self.since.lock().unwrap_or_else(PoisonError::into_inner).remove(claim);
    }
}

/// When the hosts of claims were last told something new.
#[derive(Debug, Default)]
pub struct Driven {
    at: Mutex<BTreeMap<Box<str>, Timestamp>>,
}

impl Driven {
    fn at(&self) -> MutexGuard<'_, BTreeMap<Box<str>, Timestamp>> {
        self.at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When the host of a claim was told something new; `None` when that is longer ago than `after`, and then forgotten.
    #[must_use]
    pub fn since(&self, claim: &str, now: Timestamp, after: Duration) -> Option<Timestamp> {
        let mut all = self.at();
        let told = *all.get(claim)?;
        if told.saturating_add(after).is_ok_and(|end| end > now) {
            return Some(told);
        }
        all.remove(claim);
        None
    }

    /// Remembers that the host of a claim was told something new.
    pub fn note(&self, claim: &str, now: Timestamp) {
        self.at().insert(claim.into(), now);
    }

    /// Forgets a claim.
    pub fn forget(&self, claim: &str) {
        self.at().remove(claim);
    }
}

/// Claims whose cluster does not exist, as the server said: it is not asked again.
#[derive(Debug, Default)]
pub struct Alone {
    known: Mutex<BTreeSet<Box<str>>>,
}

impl Alone {
    fn known(&self) -> MutexGuard<'_, BTreeSet<Box<str>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the claim is one of them.
    #[must_use]
    pub fn is(&self, claim: &str) -> bool {
        self.known().contains(claim)
    }

    /// Remembers that the cluster of a claim does not exist.
    pub fn note(&self, claim: &str) {
        let mut known = self.known();
        // Claims that went without a word are not worth more than this; asking again costs one read each.
        if known.len() >= ALONE {
            known.clear();
        }
        known.insert(claim.into());
    }

    /// Forgets a claim.
    pub fn forget(&self, claim: &str) {
        self.known().remove(claim);
    }
}

/// So many hosts are remembered that were given back by claims which are still there.
const GIVEN: usize = 20_000;

/// The hosts that this process itself gave back for claims that are being deleted, with all that was made for the claim. Such
/// a host has a newer version than any bind that was sent before, so none can be taken any more, and nobody has to look.
#[derive(Debug, Default)]
pub struct Given {
    back: Mutex<BTreeMap<Box<str>, ObjectKey>>,
}

impl Given {
    fn back(&self) -> MutexGuard<'_, BTreeMap<Box<str>, ObjectKey>> {
        self.back.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The host that was given back for a claim.
    #[must_use]
    pub fn of(&self, claim: &str) -> Option<ObjectKey> {
        self.back().get(claim).cloned()
    }

    /// Remembers that a host was given back.
    pub fn note(&self, claim: &str, host: &ObjectKey) {
        let mut back = self.back();
        // Claims that went without a word are not worth more than this; looking costs three reads each.
        if back.len() >= GIVEN {
            back.clear();
        }
        back.insert(claim.into(), host.clone());
    }

    /// Forgets a claim.
    pub fn forget(&self, claim: &str) {
        self.back().remove(claim);
    }
}

/// What was already told about each claim, so that it is told once.
#[derive(Debug, Default)]
pub struct Told {
    said: Mutex<BTreeMap<Box<str>, BTreeSet<Tell>>>,
}

impl Told {
    fn said(&self) -> MutexGuard<'_, BTreeMap<Box<str>, BTreeSet<Tell>>> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was told about a claim.
    #[must_use]
    pub fn about(&self, claim: &str) -> BTreeSet<Tell> {
        self.said().get(claim).cloned().unwrap_or_default()
    }

    /// Remembers that it was told.
    pub fn note(&self, claim: &str, tell: Tell) {
        self.said().entry(claim.into()).or_default().insert(tell);
    }

    /// Forgets a claim.
    pub fn forget(&self, claim: &str) {
        self.said().remove(claim);
    }
}
