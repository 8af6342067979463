//! Says how things stand, without a clock: the driver folds verdicts into conditions.

use api::reasons::AVAILABLE;
use api::reasons::claim_kind::Reason;
use api::reasons::common;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kit::conditions::Verdict;
use kit::room::{Report, Trouble};
use serde::Serialize;

use crate::decide::{Pulse, pulse};
use crate::observe::{Error, Snapshot};

/// The part of a HostClaimKind's status that the registry owns. The heartbeat is the controller's.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Availability {
    /// The generation the conditions speak of.
    pub observed_generation: Option<i64>,
    /// `Available`.
    pub conditions: Vec<Condition>,
}

api::conditioned!(Availability);

/// The verdict on one kind.
#[must_use]
pub fn verdict(snapshot: &Snapshot, trouble: Option<&Trouble<Error>>) -> Verdict {
    if trouble.is_some() {
        return Verdict::unknown(
            AVAILABLE,
            common::Reason::InternalError.as_str(),
            "Berth failed while judging this kind; it is tried again, see the operator's log.",
        );
    }
    if let Some(problem) = &snapshot.kind.problem {
        return Verdict::no(AVAILABLE, Reason::InvalidSpec.as_str(), format!("Correct the spec: {problem}."));
    }
    match pulse(snapshot) {
        Pulse::Alive(_) => Verdict::yes(
            AVAILABLE,
            Reason::ControllerAlive.as_str(),
            "The controller renews its heartbeat; claims of this kind are served.",
        ),
        Pulse::Never => Verdict::no(
            AVAILABLE,
            Reason::HeartbeatMissing.as_str(),
            "No controller has reported for this kind; start the one named in spec.controllerName.",
        ),
        Pulse::Stale => Verdict::no(
            AVAILABLE,
            Reason::HeartbeatStale.as_str(),
            "The controller stopped renewing its heartbeat; check that it runs and may write this object's status.",
        ),
        Pulse::Ahead => Verdict::no(
            AVAILABLE,
            Reason::HeartbeatStale.as_str(),
            "The last heartbeat lies far in the future and is not believed; check the clock of the controller.",
        ),
    }
}

/// How things stand with one kind.
#[must_use]
pub fn report<'s>(snapshot: &'s Snapshot, trouble: Option<&Trouble<Error>>) -> Report<'s, Availability> {
    Report {
        target: snapshot.target(),
        generation: snapshot.kind.generation,
        stored: &snapshot.kind.stored,
        next: Availability::default(),
        based_on: None,
        verdicts: vec![verdict(snapshot, trouble)],
    }
}
