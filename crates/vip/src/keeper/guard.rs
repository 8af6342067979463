//! Thinks again: what must hold of any plan of the housekeeper.

use kit::room::Violation;

use super::Snapshot;
use super::decide::{Mandate, Step, mandate};
use crate::names::Role;

/// Refuses a plan that breaks a rule.
///
/// # Errors
/// The rule that is broken.
pub fn guard(snapshot: &Snapshot, plan: &[Step]) -> Result<(), Violation> {
    plan.iter().try_for_each(|step| rule(snapshot, step).map_or(Ok(()), |rule| Err(Violation::new(rule))))
}

fn rule(snapshot: &Snapshot, step: &Step) -> Option<&'static str> {
    let scene = &snapshot.scene;
    let claim = |slot| scene.claim(slot);
    let Some(cluster) = snapshot.cluster.as_deref() else {
        return match step {
            Step::Sweep { slot } if claim(*slot).is_some_and(|c| c.owners.is_empty() && c.managed) => None,
            Step::Sweep { .. } => Some("only a claim of ours without an owner is swept"),
            Step::Wait { .. } => None,
            _ => Some("without a Cluster nothing is done but sweeping"),
        };
    };
    let mandate = mandate(cluster, scene);
    if cluster.paused && !matches!(step, Step::Wait { .. }) {
        return Some("a paused cluster is left alone");
    }
    match step {
        Step::Sweep { .. } => Some("a claim whose Cluster is there is never swept"),
        Step::Claim { .. } | Step::Write { .. } | Step::Abandon { .. } if cluster.deleting => {
            Some("a cluster that is being deleted gets nothing")
        }
        Step::Claim { slot, .. } if slot.role == Role::ControlPlane && mandate != Mandate::All => {
            Some("the control-plane address of a cluster with a gate is the gate's")
        }
        Step::Claim { slot, .. } if claim(*slot).is_some() => Some("a slot has one claim"),
        Step::Abandon { slot, .. } if claim(*slot).is_none_or(|c| c.address.is_some()) => {
            Some("a claim with an address is never given up")
        }
        Step::Adopt { slot } if claim(*slot).is_none_or(|c| !c.owners.is_empty() || c.deleting) => {
            Some("only a claim without an owner is taken over")
        }
        Step::Release { slot, .. } if claim(*slot).is_none_or(|c| c.owners.iter().any(|o| o.uid != cluster.uid)) => {
            Some("a claim of somebody else is never deleted")
        }
        Step::Write { goal } if goal.endpoint.is_some() && mandate != Mandate::All => {
            Some("the endpoint of a cluster with a gate is the gate's")
        }
        Step::Write { goal } => {
            let host = &cluster.endpoint.host;
            let moved = goal.endpoint.as_ref().is_some_and(|endpoint| !host.is_empty() && endpoint.host != *host);
            moved.then_some("an endpoint that is set is never changed")
        }
        _ => None,
    }
}
