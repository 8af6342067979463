//! Thinks: does anybody look after a claim?

use jiff::Timestamp;

use super::observe::Snapshot;
use crate::decide::Pulse;
use crate::{SKEW, STALE};

/// What to do about one claim. That nobody serves it is written by the driver, as a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Takes our word back: the kind is served again, and its controller has not said anything of the claim yet.
    Withdraw,
    /// Look again when the last sign of the claim's controller will be too old.
    Wait {
        /// The moment after which it is.
        until: Timestamp,
    },
}

/// Who looks after a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// A room of this process.
    Here,
    /// A controller that reports.
    Elsewhere,
    /// A controller that does not report, but has judged the claim a moment ago; it is believed until that moment.
    /// Without that, a controller that cannot renew its heartbeat and we would write over each other for ever.
    Seemingly(Timestamp),
    /// Nobody: the kind is not registered, or no controller of it reports.
    Nobody,
}

/// Judges the claim at the snapshot's time.
#[must_use]
pub fn service(s: &Snapshot) -> Service {
    if s.here {
        return Service::Here;
    }
    if let Some(Pulse::Alive(_)) = s.pulse {
        return Service::Elsewhere;
    }
    match s.claim.judged.filter(|_| !s.claim.is_marked()).and_then(|judged| believed(judged, s.now)) {
        Some(until) => Service::Seemingly(until),
        None => Service::Nobody,
    }
}

/// Until when a judgement of that time counts as a sign of life.
fn believed(judged: Timestamp, now: Timestamp) -> Option<Timestamp> {
    let until = judged.checked_add(STALE).ok()?;
    let horizon = now.checked_add(SKEW).ok()?;
    (judged <= horizon && until > now).then_some(until)
}

/// The plan for one claim. Whoever serves it here speaks for itself at once, so nothing is withdrawn for it.
#[must_use]
pub fn decide(s: &Snapshot) -> Vec<Step> {
    match service(s) {
        Service::Elsewhere if s.claim.is_marked() => vec![Step::Withdraw],
        Service::Seemingly(until) => vec![Step::Wait { until }],
        Service::Here | Service::Elsewhere | Service::Nobody => Vec::new(),
    }
}
