//! What one process remembers of claims between two passes. Losing it costs a repeated look, never a machine.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cloudstack::errors::Kind;
use cloudstack::jobs::Patience;
use cloudstack::port::JobId;
use jiff::Timestamp;
use kit::clock::Clock;

use super::words::Tell;

/// The shortest pause between two looks at one claim.
pub const SHORTEST: Duration = Duration::from_secs(5);
/// The longest one.
pub const LONGEST: Duration = Duration::from_secs(300);

/// What was asked of CloudStack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// To make a machine.
    Deploy,
    /// To start it.
    Start,
    /// To stop it.
    Stop,
    /// To destroy it.
    Destroy,
    /// To tag it.
    Tag,
}

impl Act {
    /// How long that may take.
    #[must_use]
    pub fn patience(self) -> Duration {
        match self {
            Self::Deploy => Patience::DEPLOY.deadline,
            Self::Start | Self::Stop => Patience::POWER.deadline,
            Self::Destroy => Patience::DESTROY.deadline,
            Self::Tag => Patience::TAG.deadline,
        }
    }
}

/// What did not come to a good end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setback {
    /// What was asked for.
    pub act: Act,
    /// Why it failed; `None` when it was not done in time.
    pub kind: Option<Kind>,
}

/// A job that is under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Job {
    pub(super) id: JobId,
    pub(super) act: Act,
    /// When it is late.
    pub(super) late: Timestamp,
}

#[derive(Clone, Debug, Default)]
struct Memory {
    job: Option<Job>,
    setback: Option<Setback>,
    /// Machines in a row that could not be made, and until when no other one is.
    failed: u32,
    hold: Option<Timestamp>,
    /// How the claim looked, and how often in a row.
    looked: String,
    vain: u32,
    told: BTreeSet<Tell>,
}

/// What is remembered of all claims, by their uids.
#[derive(Debug, Default)]
pub(super) struct Memories {
    all: Mutex<BTreeMap<Box<str>, Memory>>,
}

fn grown(times: u32) -> Duration {
    SHORTEST.saturating_mul(1 << times.min(10)).min(LONGEST)
}

impl Memories {
    fn all(&self) -> MutexGuard<'_, BTreeMap<Box<str>, Memory>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(&self, uid: &str, change: impl FnOnce(&mut Memory) -> T) -> T {
        change(self.all().entry(uid.into()).or_default())
    }

    /// A job began.
    pub(super) fn begin(&self, uid: &str, id: JobId, act: Act, now: Timestamp) {
        let late = now.saturating_add(act.patience()).unwrap_or(now);
        self.with(uid, |memory| memory.job = Some(Job { id, act, late }));
    }

    /// The job that is under way.
    pub(super) fn job(&self, uid: &str) -> Option<Job> {
        self.all().get(uid)?.job.clone()
    }

    /// The job came to a good end.
    pub(super) fn done(&self, uid: &str, act: Act) {
        self.with(uid, |memory| {
            memory.job = None;
            memory.setback = memory.setback.filter(|setback| setback.act != act);
        });
    }

    /// It did not.
    pub(super) fn suffered(&self, uid: &str, setback: Setback) {
        self.with(uid, |memory| {
            memory.job = None;
            memory.setback = Some(setback);
        });
    }

    /// What did not come to a good end lately.
    pub(super) fn setback(&self, uid: &str) -> Option<Setback> {
        self.all().get(uid)?.setback
    }

    /// A machine that could not be made goes; the next one is made after a pause.
    pub(super) fn failed(&self, uid: &str, now: Timestamp) {
        self.with(uid, |memory| {
            memory.hold = now.saturating_add(grown(memory.failed)).ok();
            memory.failed = memory.failed.saturating_add(1);
        });
    }

    /// Until when no other machine is made.
    pub(super) fn hold(&self, uid: &str) -> Option<Timestamp> {
        self.all().get(uid)?.hold
    }

    /// The machine runs: nothing failed.
    pub(super) fn runs(&self, uid: &str) {
        if let Some(memory) = self.all().get_mut(uid) {
            (memory.failed, memory.hold) = (0, None);
            memory.setback = memory.setback.filter(|setback| setback.act != Act::Deploy);
        }
    }

    /// The pause until the next look at a claim that looks like this: the longer, the longer it does.
    pub(super) fn pause(&self, uid: &str, looks: String, clock: &Clock) -> Duration {
        let vain = self.with(uid, |memory| {
            memory.vain = if memory.looked == looks { memory.vain.saturating_add(1) } else { 0 };
            memory.looked = looks;
            memory.vain
        });
        let whole = grown(vain);
        whole + clock.jitter(whole / 10)
    }

    /// What people were told about a claim.
    pub(super) fn told(&self, uid: &str) -> BTreeSet<Tell> {
        self.all().get(uid).map(|memory| memory.told.clone()).unwrap_or_default()
    }

    /// It was told.
    pub(super) fn tell(&self, uid: &str, tell: Tell) {
        self.with(uid, |memory| memory.told.insert(tell));
    }

    /// The claim is gone.
    pub(super) fn forget(&self, uid: &str) {
        self.all().remove(uid);
    }
}
