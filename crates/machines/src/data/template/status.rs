//! Says how things stand with a template: whether it can be used, and which numbers are taken.

use std::time::Duration;

use api::own::metal3::{Metal3DataTemplateStatus, TakenIndex};
use api::reasons::machines::Reason;
use api::reasons::{READY, common};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kit::conditions::Verdict;
use kit::room::{Report, Trouble};

use super::super::error::Error;
use super::super::pools::pools;
use super::observe::Snapshot;

fn verdict(s: &Snapshot) -> Verdict {
    if let Some(problem) = &s.template.problem {
        return Verdict::no(READY, Reason::InvalidSpec.as_str(), format!("Correct the template: {problem}."));
    }
    match pools(&s.template.spec, None) {
        Err(fault) => {
            Verdict::no(READY, Reason::RenderingFailed.as_str(), format!("Nothing can be rendered: {fault}."))
        }
        Ok(_) if s.template.head.deleting => {
            let message = "Machines still have data of the template; it goes when they are gone.";
            Verdict::no(READY, Reason::Deleting.as_str(), message)
        }
        Ok(_) => Verdict::yes(READY, Reason::TemplateUsable.as_str(), "Machines get their data from the template."),
    }
}

/// Which numbers are taken is told again after this long at the earliest. All of them are told each time, so that whoever takes
/// very many at once would have each of them told as often.
pub const PAUSE: Duration = Duration::from_secs(5);

/// Whether the template says which numbers are taken, in whatever order: the server puts what is new where it likes.
fn is_told(s: &Snapshot) -> bool {
    let mut stored: Vec<&TakenIndex> = s.template.status.indexes.iter().collect();
    stored.sort_by(|a, b| (a.index, &a.name).cmp(&(b.index, &b.name)));
    stored.into_iter().eq(&s.taken)
}

/// Until when it is not told again which numbers are taken; `None` when it is told, or nothing has changed.
#[must_use]
pub fn untold(s: &Snapshot) -> Option<Timestamp> {
    let stored = &s.template.status;
    if s.paused || !s.template.is_kept() || is_told(s) {
        return None;
    }
    let until = stored.last_updated.as_ref()?.0.saturating_add(PAUSE).ok()?;
    // Whoever told it last may have had another clock.
    let longest = s.now.saturating_add(PAUSE).ok()?;
    (until > s.now && until <= longest).then_some(until)
}

/// How things stand with one template; nothing is said before it is ours.
#[must_use]
pub fn report<'s>(s: &'s Snapshot, trouble: Option<&Trouble<Error>>) -> Option<Report<'s, Metal3DataTemplateStatus>> {
    if s.paused || !s.template.is_kept() {
        return None;
    }
    let stored = &s.template.status;
    let verdict = match trouble {
        None => verdict(s),
        Some(Trouble::Failed(error)) if error.is_forbidden() => {
            Verdict::unknown(READY, Reason::Forbidden.as_str(), "Berth may not keep the template; grant it the right.")
        }
        Some(_) => Verdict::unknown(
            READY,
            common::Reason::InternalError.as_str(),
            "Keeping the template failed and is tried again.",
        ),
    };
    let indexes = if is_told(s) || untold(s).is_some() { &stored.indexes } else { &s.taken };
    let last_updated = if stored.indexes == *indexes { stored.last_updated.clone() } else { Some(Time(s.now)) };
    let next =
        Metal3DataTemplateStatus { last_updated, indexes: indexes.clone(), ..Metal3DataTemplateStatus::default() };
    Some(Report {
        target: s.target(),
        generation: s.template.head.generation,
        stored,
        next,
        based_on: None,
        verdicts: vec![verdict],
    })
}
