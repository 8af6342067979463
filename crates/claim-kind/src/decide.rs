//! Thinks: is the kind served, and when could that change without anybody telling us?

use jiff::Timestamp;

use crate::observe::Snapshot;
use crate::{SKEW, STALE};

/// What to do about one kind. Its condition is written by the driver; the only thing left to do is to wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Look again when the heartbeat would be stale.
    Wait {
        /// The moment after which it is.
        until: Timestamp,
    },
}

/// How things stand with the heartbeat of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pulse {
    /// No controller has ever reported.
    Never,
    /// The controller is alive until that moment, unless it reports again.
    Alive(Timestamp),
    /// The last report is too old.
    Stale,
    /// The last report lies too far ahead of our clock to be believed.
    Ahead,
}

/// Judges the heartbeat at the snapshot's time.
#[must_use]
pub fn pulse(snapshot: &Snapshot) -> Pulse {
    pulse_at(snapshot.kind.heartbeat, snapshot.now)
}

/// Judges a heartbeat at a given time.
#[must_use]
pub fn pulse_at(heartbeat: Option<Timestamp>, now: Timestamp) -> Pulse {
    let Some(heartbeat) = heartbeat else { return Pulse::Never };
    let (Ok(stale), Ok(horizon)) = (heartbeat.checked_add(STALE), now.checked_add(SKEW)) else {
        return Pulse::Ahead;
    };
    if heartbeat > horizon {
        Pulse::Ahead
    } else if stale <= now {
        Pulse::Stale
    } else {
        Pulse::Alive(stale)
    }
}

/// The plan for one kind: a living one is looked at again when its heartbeat would be stale; the others are when the object
/// changes, which wakes us by itself.
#[must_use]
pub fn decide(snapshot: &Snapshot) -> Vec<Step> {
    match pulse(snapshot) {
        Pulse::Alive(until) => vec![Step::Wait { until }],
        Pulse::Never | Pulse::Stale | Pulse::Ahead => Vec::new(),
    }
}
