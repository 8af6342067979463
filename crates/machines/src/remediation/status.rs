//! Says how far the treatment of a machine is.

use api::own::metal3::Metal3RemediationStatus;
use api::reasons::machines::Reason;
use api::reasons::{READY, common};
use kit::conditions::Verdict;
use kit::room::{Report, Trouble};

use super::apply::Error;
use super::decide::{Step, decide};
use super::observe::Snapshot;

/// How far one treatment is. The next phase is part of that, and is stored before anything of it is done.
#[must_use]
pub fn report<'s>(s: &'s Snapshot, trouble: Option<&Trouble<Error>>) -> Option<Report<'s, Metal3RemediationStatus>> {
    let thought = decide(s);
    // What is about to change is told once it has changed, and a treatment that goes has nothing left to tell.
    let busy = thought.steps.iter().any(|step| !matches!(step, Step::Wait { .. }));
    let going = s.remediation.head.deleting && !s.remediation.is_kept();
    if s.paused || going || (trouble.is_none() && busy) {
        return None;
    }
    let stored = &s.remediation.status;
    let verdict = match trouble {
        None if thought.done => Verdict::yes(READY, thought.reason.as_str(), thought.message),
        None => Verdict::no(READY, thought.reason.as_str(), thought.message),
        Some(Trouble::Failed(Error::Node(_) | Error::Closed(_))) => {
            let message = "The Node cannot be changed; it is tried again.";
            Verdict::unknown(READY, Reason::ClusterUnreachable.as_str(), message)
        }
        Some(_) => {
            let message = "Treating the machine failed and is tried again.";
            Verdict::unknown(READY, common::Reason::InternalError.as_str(), message)
        }
    };
    let next = match trouble {
        None => Metal3RemediationStatus {
            phase: thought.phase.map(|phase| phase.as_str().to_owned()).or_else(|| stored.phase.clone()),
            retry_count: thought.retries,
            last_remediated: thought.last,
            ..Metal3RemediationStatus::default()
        },
        Some(_) => Metal3RemediationStatus { conditions: Vec::new(), ..stored.clone() },
    };
    Some(Report {
        target: s.target(),
        generation: s.remediation.head.generation,
        stored,
        next,
        based_on: Some(s.version.clone()),
        verdicts: vec![verdict],
    })
}
