//! What the status of a machine says: a view of its claim and of its Node, from which nothing is ever decided.

use api::own::metal3::{HostClaimReference, Initialization, Metal3MachineStatus, NamedRef};
use api::reasons::machines::{ASSOCIATE_BARE_METAL_HOST, KUBERNETES_NODE_READY, METAL3_DATA_READY, Reason};
use api::reasons::{PAUSED, PROVISIONED, READY, SYNCHRONIZED};
use api::status::{find, sort};
use jiff::{Timestamp, TimestampRound, Unit};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kit::conditions::{State, Verdict, fold, summary};

use super::decide::{Says, Thought};
use super::snapshot::Snapshot;

/// So many addresses are shown.
const ADDRESSES: usize = 256;

/// The status as it should be, and what each condition says.
#[must_use]
pub fn status(s: &Snapshot, thought: &Thought) -> (Metal3MachineStatus, Vec<Verdict>) {
    let stored = &s.machine.status;
    let mut next = stored.clone();
    if thought.paused.is_none() {
        shown(s, thought, &mut next);
    }
    let verdicts = verdicts(s, thought);
    next.last_updated = last_updated(stored, &next, &verdicts, s.machine.generation, s.now);
    (next, verdicts)
}

fn shown(s: &Snapshot, thought: &Thought, next: &mut Metal3MachineStatus) {
    let Some(claim) = s.own_claim() else { return };
    next.host_claim = Some(HostClaimReference { name: s.key.name().to_owned() });
    if thought.provisioned.is_some() {
        next.user_data = claim.spec.user_data.clone();
        next.meta_data = claim.spec.meta_data.clone();
        next.network_data = claim.spec.network_data.clone();
        next.addresses = claim.status.addresses.iter().take(ADDRESSES).cloned().collect();
    }
    if claim.status.failure_domain.is_some() {
        next.failure_domain = claim.status.failure_domain.clone();
    }
    if let Some(data) = s.own_data_claim().and_then(|wish| wish.rendered.clone()) {
        next.rendered_data = Some(NamedRef { namespace: Some(s.namespace().to_owned()), ..data });
    }
    if thought.done {
        next.initialization = Some(Initialization { provisioned: Some(true) });
    }
}

/// A stored condition, said again as it was.
fn again(stored: &[Condition], type_: &'static str) -> Option<Verdict> {
    let stored = find(stored, type_)?;
    let known = api::reasons::all().into_iter().find(|entry| entry.reason == stored.reason)?;
    let state = [State::True, State::False, State::Unknown].into_iter().find(|s| s.as_str() == stored.status)?;
    Some(Verdict::new(type_, state, known.reason, stored.message.clone()))
}

fn verdicts(s: &Snapshot, thought: &Thought) -> Vec<Verdict> {
    let stored = &s.machine.status.conditions;
    let mut all = Vec::new();
    let mut order = Vec::new();
    // While it rests or goes, what is not judged stays as it was.
    let rests = thought.paused.is_some() || s.machine.deleting;
    // What does not hold is what everything after it waits for.
    let mut waits: Option<(&'static str, &'static str)> = None;
    let mut judge = |type_: &'static str, says: Option<&Says>, counts: bool| {
        let before = waits;
        let said = says.map(|says| Verdict::new(type_, says.state, says.reason, says.message.clone()));
        let kept = || again(stored, type_).filter(|_| rests);
        // What was said once and cannot be judged now is not known, and does not stay as it was.
        let unknown = || {
            find(stored, type_)?;
            Some(match before {
                Some((first, reason)) => {
                    Verdict::unknown(type_, reason, format!("It is looked at again when {first} holds."))
                }
                None => {
                    let reason = Reason::WaitingForHostClaim.as_str();
                    Verdict::unknown(type_, reason, "It is looked at again with the next try.")
                }
            })
        };
        if let Some(says) = says.filter(|says| says.state != State::True) {
            waits = Some((type_, says.reason));
        }
        all.extend(said.or_else(kept).or_else(unknown));
        if counts {
            order.push(type_);
        }
    };
    judge(ASSOCIATE_BARE_METAL_HOST, thought.associated.as_ref(), true);
    // What was said of data that is not asked for any more would be looked at again for ever.
    let over = !rests
        && find(stored, METAL3_DATA_READY).is_some()
        && s.own_claim().is_some_and(|claim| s.template(claim).is_none());
    let none = Says::yes(Reason::SecretsSet, "The machine asks for no data.").filter(|_| over);
    judge(METAL3_DATA_READY, thought.data.as_ref().or(none.as_ref()), thought.data.is_some());
    judge(SYNCHRONIZED, thought.synchronized.as_ref(), true);
    judge(PROVISIONED, thought.provisioned.as_ref(), true);
    judge(KUBERNETES_NODE_READY, thought.node.as_ref(), true);
    let ready = if s.machine.deleting {
        let text = thought.leaving.clone().unwrap_or_else(|| "The machine is being deleted.".to_owned());
        Verdict::no(READY, Reason::Deleting.as_str(), text)
    } else if let Some(invalid) = &thought.invalid {
        Verdict::no(READY, Reason::InvalidSpec.as_str(), invalid.clone())
    } else if thought.paused.is_some() {
        let paused =
            || Verdict::new(READY, State::Unknown, Reason::Paused.as_str(), "Nobody looks while it is paused.");
        again(stored, READY).unwrap_or_else(paused)
    } else {
        summary(&all, &order)
    };
    all.push(match &thought.paused {
        Some(why) => Verdict::yes(PAUSED, Reason::Paused.as_str(), why.clone()),
        None => Verdict::no(PAUSED, Reason::NotPaused.as_str(), String::new()),
    });
    all.push(ready);
    all
}

/// The time of the last real change: now, unless everything is as stored.
fn last_updated(
    stored: &Metal3MachineStatus,
    next: &Metal3MachineStatus,
    verdicts: &[Verdict],
    generation: i64,
    now: Timestamp,
) -> Option<Time> {
    let plain = |status: &Metal3MachineStatus| Metal3MachineStatus {
        last_updated: None,
        observed_generation: None,
        conditions: Vec::new(),
        ..status.clone()
    };
    let folded = fold(&stored.conditions, verdicts, generation, now);
    let mut before = stored.conditions.clone();
    sort(&mut before);
    let same = plain(next) == plain(stored) && folded.conditions == before;
    let whole = now.round(TimestampRound::new().smallest(Unit::Second).mode(jiff::RoundMode::Floor)).unwrap_or(now);
    if same { stored.last_updated.clone() } else { Some(Time(whole)) }
}
