//! Giving hosts back, one judged apart from the other.

use std::time::Duration;

use api::names::HostId;
use api::names::hosts::{ALLOCATION_ID_TAG, RETAINED_TAG};
use api::reasons::hosts::Reason;
use aws::port::Host;
use jiff::Timestamp;

use super::{CONSISTENT, Says, Step, Thought};
use crate::classes::Class;
use crate::journal::{Allocation, Phase};
use crate::snapshot::Snapshot;
use crate::tags;

const POLL: Duration = Duration::from_secs(15);
/// A host that is occupied is looked at this often; EC2 counts instances for a while past their end.
const OCCUPIED: Duration = Duration::from_secs(30);

/// How one host stands on its way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It is given back.
    Released,
    /// It was left to its owner.
    Retained,
    /// It can be asked for now.
    Ready,
    /// It cannot be given back before its reservation ends, so it is left to its owner.
    Reserved,
    /// Something else must happen first.
    Held {
        /// Why.
        reason: Reason,
        /// In a sentence.
        message: String,
        /// When to look again.
        until: Timestamp,
    },
}

fn held(reason: Reason, message: impl Into<String>, until: Timestamp) -> Standing {
    Standing::Held { reason, message: message.into(), until }
}

/// How a host of the journal stands.
pub(crate) fn standing(s: &Snapshot, allocation: &Allocation, id: &HostId) -> Standing {
    let Some(host) = s.sight().and_then(|sight| sight.hosts.get(id)) else {
        let unknown = s.sight().is_some_and(|sight| sight.unknown_hosts.contains(id));
        if unknown && s.is_older(allocation.at, CONSISTENT) {
            return Standing::Released;
        }
        let message = format!("EC2 does not show host {id}");
        return held(Reason::DedicatedHostReleaseFailed, message, s.after(POLL));
    };
    if host.state.is_released() {
        return Standing::Released;
    }
    if !s.owns(host) {
        if host.tags.get(RETAINED_TAG).is_some_and(|value| value == "true") {
            return Standing::Retained;
        }
        let message = format!(
            "host {id} does not carry the tag {ALLOCATION_ID_TAG} of this machine, so it is not ours to release"
        );
        return held(Reason::DedicatedHostReleaseFailed, message, s.after(Class::Permission.wait(1)));
    }
    if s.machine.spec.host_id.as_deref() == Some(id.as_str()) {
        let message = format!("host {id} is the one spec.hostID names, and its owner's");
        return held(Reason::DedicatedHostReleaseFailed, message, s.after(Class::Terminal.wait(1)));
    }
    if host.reservation.is_some() {
        return Standing::Reserved;
    }
    if let Some(refusal) = s.refusals.get(id).filter(|refusal| s.now < refusal.until) {
        let reason = refusal.class.map_or(Reason::WaitingForInstanceTermination, Class::of_release);
        return held(reason, refusal.message.clone(), refusal.until);
    }
    let others = occupants(s, host);
    if !others.is_empty() {
        let message = format!("host {id} holds {}", others.join(", "));
        return held(Reason::HostOccupied, message, s.after(OCCUPIED));
    }
    Standing::Ready
}

/// What is on a host, except for instances of the machine that have ended.
fn occupants(s: &Snapshot, host: &Host) -> Vec<String> {
    let ended = |id: &api::names::InstanceId| {
        s.sight().is_some_and(|sight| {
            sight.instances.iter().any(|i| i.id == *id && i.state == aws::port::InstanceState::Terminated)
        })
    };
    host.instances.iter().filter(|i| !ended(&i.id)).map(|i| i.id.to_string()).collect()
}

/// A host that stays occupied is worth a word every hour, once two have passed.
fn overdue(s: &Snapshot, host: &HostId) -> Option<Step> {
    let refusal = s.refusals.get(host).filter(|refusal| refusal.class == Some(Class::Occupied))?;
    let hours = s.now.duration_since(refusal.since).as_hours();
    let message = format!("host {host} is still occupied after {hours} hours, and still paid for");
    (hours >= 2).then_some(Step::Tell { warning: true, reason: Reason::FailedReleaseHost, message })
}

fn retain(s: &Snapshot, host: &HostId) -> Step {
    let (cluster, namespace) = (s.cluster_name().unwrap_or_default(), s.key.namespace().unwrap_or_default());
    Step::Retain { host: host.clone(), change: tags::retained(cluster, namespace, s.key.name()) }
}

/// Gives back the hosts of a journal that is releasing, or that is to leave them.
pub(super) fn release(s: &Snapshot, allocation: &Allocation) -> Thought {
    let retaining = s.machine.deleting && !s.machine.releases();
    let standings: Vec<(HostId, Standing)> =
        allocation.hosts.iter().map(|id| (id.clone(), standing(s, allocation, id))).collect();
    let all_over = standings.iter().all(|(_, s)| matches!(s, Standing::Released | Standing::Retained));
    if all_over {
        let kept = standings.iter().any(|(_, s)| *s == Standing::Retained);
        let phase = match (kept, allocation.phase) {
            (true, _) => Phase::Retained,
            // Given back behind our back while we meant to keep them: one step after the other.
            (false, Phase::Allocated) => Phase::Releasing,
            (false, _) => Phase::Released,
        };
        let over = allocation.in_phase(phase, s.now);
        let says = if kept {
            Says::yes(Reason::Retained, "the hosts were left to their owner")
        } else {
            Says::yes(Reason::Released, "all hosts are released")
        };
        return Thought::default().release(says).then(Step::Record { allocation: Box::new(over) });
    }
    let mut thought = Thought::default();
    let keep = |standing: &Standing| match standing {
        Standing::Reserved => true,
        Standing::Released | Standing::Retained => false,
        Standing::Ready | Standing::Held { .. } => retaining,
    };
    // What a host is left with is decided by its tag: one that is not ours cannot be left either.
    let owned = |id: &HostId| s.sight().and_then(|sight| sight.hosts.get(id)).is_some_and(|host| s.owns(host));
    let kept: Vec<&HostId> = standings.iter().filter(|(id, s)| keep(s) && owned(id)).map(|(id, _)| id).collect();
    if !kept.is_empty() {
        let reserved = standings.iter().any(|(_, s)| *s == Standing::Reserved);
        thought = thought.release(if reserved {
            Says::no(Reason::HostReserved, "a host is covered by a reservation and is left to its owner")
        } else {
            Says::no(Reason::WaitingForInstanceTermination, "the hosts are left to their owner")
        });
        for id in kept {
            thought = thought.then(retain(s, id));
        }
        return thought;
    }
    let ready: Vec<HostId> =
        standings.iter().filter(|(_, s)| *s == Standing::Ready).map(|(id, _)| id.clone()).collect();
    let mut next = s.after(Duration::from_secs(3_600));
    for (id, standing) in &standings {
        if let Standing::Held { reason, message, until } = standing {
            next = next.min(*until);
            thought.steps.extend(overdue(s, id));
            let worse =
                thought.release.as_ref().is_none_or(|says| says.reason == Reason::WaitingForInstanceTermination);
            if worse {
                thought = thought.release(Says::no(*reason, message.clone()));
            }
        }
    }
    if ready.is_empty() {
        return thought.wait(next);
    }
    if thought.release.is_none() {
        let names: Vec<String> = ready.iter().map(ToString::to_string).collect();
        let message = format!("releasing {}", names.join(", "));
        thought = thought.release(Says::no(Reason::WaitingForInstanceTermination, message));
    }
    thought.then(Step::Release { hosts: ready })
}
