//! Thinks again: what must hold of any step of the gate.

use kit::room::Violation;
use serde_json::Value;

use crate::decide::{Snapshot, Step};
use crate::names::Role;
use crate::scene::Live;
use crate::survey::{Stance, survey};

/// Refuses steps that break a rule.
///
/// # Errors
/// The rule that is broken.
pub fn guard(snapshot: &Snapshot, steps: &[Step]) -> Result<(), Violation> {
    steps.iter().try_for_each(|step| rule(snapshot, step).map_or(Ok(()), |rule| Err(Violation::new(rule))))
}

fn rule(snapshot: &Snapshot, step: &Step) -> Option<&'static str> {
    let live = match (&snapshot.live, step) {
        (Live::At(live), _) => live,
        (Live::Absent, Step::Claim { slot, .. }) if snapshot.scene.config.preallocate => {
            let known = !snapshot.asked.uid.is_empty() || snapshot.scene.holdings.contains_key(slot);
            return known.then_some("only a Cluster that nobody has seen yet is claimed for in advance");
        }
        _ => return Some("nothing is done without a live read of the Cluster"),
    };
    if live.facts.deleting || live.facts.paused {
        return Some("a Cluster that goes away or is paused gets nothing");
    }
    if live.facts.uid.is_empty() || (!snapshot.asked.uid.is_empty() && snapshot.asked.uid != live.facts.uid) {
        return Some("only the Cluster that was asked about is served");
    }
    let claim = |slot| snapshot.scene.claim(slot);
    match step {
        Step::Claim { slot, .. } if snapshot.scene.holdings.contains_key(slot) => Some("a slot has one claim"),
        Step::Adopt { slot } if claim(*slot).is_none_or(|c| !c.owners.is_empty() || c.deleting) => {
            Some("only a claim without an owner is taken over")
        }
        Step::Claim { slot, .. } | Step::Adopt { slot } if slot.role == Role::ControlPlane => {
            let manual = survey(&live.facts, &snapshot.scene).stance == Stance::Manual;
            manual.then_some("an endpoint that was chosen by hand takes no address")
        }
        Step::Abandon { slot, .. } if claim(*slot).is_none_or(|c| c.address.is_some()) => {
            Some("a claim with an address is never given up")
        }
        Step::Write { patch, .. } => {
            let host = patch.pointer("/spec/controlPlaneEndpoint/host").and_then(Value::as_str);
            let set = &live.facts.endpoint.host;
            let moved = host.is_some_and(|host| !set.is_empty() && host != set);
            moved.then_some("an endpoint that is set is never changed")
        }
        _ => None,
    }
}
