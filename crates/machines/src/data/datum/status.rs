//! Says how things stand with data.

use api::own::metal3::Metal3DataStatus;
use api::reasons::machines::Reason;
use api::reasons::{READY, common};
use kit::conditions::Verdict;
use kit::room::{Report, Trouble};

use super::super::error::Error;
use super::decide::decide;
use super::observe::Snapshot;

/// How things stand with one data; nothing is said before it is ours.
#[must_use]
pub fn report<'s>(s: &'s Snapshot, trouble: Option<&Trouble<Error>>) -> Option<Report<'s, Metal3DataStatus>> {
    if s.paused || !s.data.is_kept() {
        return None;
    }
    let stored = &s.data.status;
    let outlook = decide(s);
    let (verdict, faulty) = match trouble {
        None if outlook.ready && outlook.reason == Reason::DataRendered => {
            (Verdict::yes(READY, outlook.reason.as_str(), outlook.message), false)
        }
        None => (Verdict::no(READY, outlook.reason.as_str(), outlook.message), outlook.faulty),
        Some(Trouble::Failed(error)) if error.is_forbidden() => {
            let message = "Berth may not make what the data needs; grant it the right.";
            (Verdict::unknown(READY, Reason::Forbidden.as_str(), message), true)
        }
        Some(_) => {
            let message = "Rendering the data failed and is tried again.";
            (Verdict::unknown(READY, common::Reason::InternalError.as_str(), message), false)
        }
    };
    // A machine that has its data keeps it: what happens to a Secret later is no reason to stop it.
    let ready = outlook.ready || stored.ready == Some(true);
    let next = Metal3DataStatus {
        ready: ready.then_some(true),
        error_message: faulty.then(|| verdict.message.clone()),
        ..Metal3DataStatus::default()
    };
    Some(Report {
        target: s.target(),
        generation: s.data.head.generation,
        stored,
        next,
        based_on: None,
        verdicts: vec![verdict],
    })
}
