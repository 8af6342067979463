//! Says how things stand with a data claim. The number it is to have is part of that: it is stored here, before anything is
//! made of it.

use api::own::metal3::{Metal3DataClaimStatus, NamedRef};
use api::reasons::machines::Reason;
use api::reasons::{READY, common};
use kit::conditions::{State, Verdict};
use kit::room::{Report, Trouble};

use super::super::error::Error;
use super::super::names::data;
use super::observe::Snapshot;

/// The name of the data that the status is to name.
#[must_use]
pub fn named(s: &Snapshot) -> Option<String> {
    if let Some((key, _)) = s.data() {
        return Some(key.name().to_owned());
    }
    let chosen = s.claim.chosen().map(str::to_owned);
    match (s.offer, s.claim.template.as_deref()) {
        (Some(index), Some(template)) if s.machine.is_some() => Some(data(template, index)),
        _ => chosen,
    }
}

fn verdict(s: &Snapshot) -> Verdict {
    let no = |reason: Reason, message: String| Verdict::no(READY, reason.as_str(), message);
    if s.claim.head.deleting {
        return no(
            Reason::Deleting,
            "The data of the machine is being deleted; its number and addresses go back.".into(),
        );
    }
    let Some(template) = s.claim.template.as_deref() else {
        return no(Reason::TemplateMissing, "Name a Metal3DataTemplate of this namespace in spec.template.".into());
    };
    if let Some((key, data)) = s.data() {
        return match data.status.ready {
            Some(true) => Verdict::yes(READY, Reason::DataRendered.as_str(), "The data of the machine is rendered."),
            _ => no(Reason::DataPending, format!("{} was made and is being rendered.", key.name())),
        };
    }
    if !s.datas.is_empty() {
        let message = "The data of the machine was deleted by somebody else; delete the machine to get other data.";
        return no(Reason::DataInUse, message.into());
    }
    match &s.template {
        None => no(
            Reason::TemplateMissing,
            format!("There is no Metal3DataTemplate {template} in this namespace; create it."),
        ),
        Some(found) if found.head.deleting => no(
            Reason::TemplateMissing,
            format!("The Metal3DataTemplate {template} is being deleted; wait until it is gone, and create it anew."),
        ),
        Some(_) if s.machine.is_none() => no(
            Reason::WaitingForMetal3Machine,
            "The Metal3Machine that owns the claim is not there; delete the claim if it does not come.".into(),
        ),
        Some(_) => no(Reason::DataPending, "A number of the template was chosen and the data is being made.".into()),
    }
}

/// How things stand with one data claim; nothing is said before it is ours.
#[must_use]
pub fn report<'s>(s: &'s Snapshot, trouble: Option<&Trouble<Error>>) -> Option<Report<'s, Metal3DataClaimStatus>> {
    if s.paused || !s.claim.is_kept() {
        return None;
    }
    let stored = &s.claim.status;
    let verdict = match trouble {
        None => verdict(s),
        Some(Trouble::Failed(error)) if error.is_forbidden() => Verdict::unknown(
            READY,
            Reason::Forbidden.as_str(),
            "Berth may not make or delete the data; grant it the right.",
        ),
        Some(_) => Verdict::unknown(
            READY,
            common::Reason::InternalError.as_str(),
            "Making the data failed and is tried again.",
        ),
    };
    let rendered = match trouble {
        None => named(s),
        Some(_) => s.claim.chosen().map(str::to_owned),
    };
    let faulty = verdict.state == State::False && verdict.reason == Reason::TemplateMissing.as_str();
    let next = Metal3DataClaimStatus {
        rendered_data: rendered.map(|name| NamedRef { name, namespace: s.key.namespace().map(str::to_owned) }),
        error_message: faulty.then(|| verdict.message.clone()),
        ..Metal3DataClaimStatus::default()
    };
    Some(Report {
        target: s.target(),
        generation: s.claim.head.generation,
        stored,
        next,
        based_on: Some(s.version.clone()),
        verdicts: vec![verdict],
    })
}
