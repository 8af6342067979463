//! Giving hosts back, one judged apart from the other.

use std::collections::BTreeSet;
use std::time::Duration;

use api::names::HostId;
use api::names::hosts::{ALLOCATION_ID_TAG, MACHINE_NAME_TAG};
use api::reasons::hosts::Reason;
use aws::port::{Host, HostState};
use jiff::Timestamp;

use super::{CONSISTENT, Says, Step, Thought};
use crate::claim::owner_name;
use crate::classes::Class;
use crate::journal::{Allocation, Phase};
use crate::own::is_retained;
use crate::snapshot::Snapshot;
use crate::tags::{self, Belonging};

const POLL: Duration = Duration::from_secs(15);
/// A host that is occupied is looked at this often; EC2 counts instances for a while past their end.
const OCCUPIED: Duration = Duration::from_secs(30);
/// How long an instance that has ended is given to leave its host, as far as the room that EC2 shows tells, before the host
/// is asked for all the same.
const VACATED: Duration = Duration::from_secs(120);
/// How soon a host that is about to be free, or just given back, is looked at.
const SOON: Duration = Duration::from_secs(1);

/// How one host stands on its way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It is given back.
    Released,
    /// It was left to its owner.
    Retained,
    /// It is another claim's by now.
    PassedOn,
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
        let over = unknown && s.is_older(allocation.at, CONSISTENT);
        if over && s.is_at_home() {
            return Standing::Released;
        }
        let message = if over {
            format!("EC2 does not know host {id}, but nothing proves that it was asked in the account of the host")
        } else {
            format!("EC2 does not show host {id}")
        };
        return held(Reason::DedicatedHostReleaseFailed, message, s.after(POLL));
    };
    if host.state.is_released() {
        return Standing::Released;
    }
    if !s.owns(host) {
        if is_retained(&host.tags) {
            return Standing::Retained;
        }
        if s.is_passed_on(allocation, host) {
            return Standing::PassedOn;
        }
        if s.inherits(allocation, host) {
            let message = format!("host {id} was handed over, and its tags have to say so");
            return held(Reason::WaitingForInstanceTermination, message, s.after(POLL));
        }
        let message = format!(
            "host {id} does not carry the tags {ALLOCATION_ID_TAG} and {MACHINE_NAME_TAG} of this machine, so it is not ours to release"
        );
        return held(Reason::DedicatedHostReleaseFailed, message, s.after(Class::Permission.wait(1)));
    }
    if s.machine.spec.host_id.as_deref() == Some(id.as_str()) {
        let message = format!("host {id} is the one spec.hostID names, and its owner's");
        return held(Reason::DedicatedHostReleaseFailed, message, s.after(Class::Terminal.wait(1)));
    }
    if host.reservation.is_some() {
        if s.machine.deleting {
            return Standing::Reserved;
        }
        let message = format!("host {id} is covered by a reservation and cannot be given back");
        return held(Reason::HostReserved, message, s.after(Class::TooYoung.wait(1)));
    }
    if let Some(refusal) = s.refusals.get(id).filter(|refusal| s.now < refusal.until) {
        return match refusal.class {
            Some(class) => held(class.of_release(), refusal.message.clone(), refusal.until),
            None => {
                let look = s.after(s.pause_since(refusal.since, SOON, POLL)).min(refusal.until);
                held(Reason::WaitingForInstanceTermination, refusal.message.clone(), look)
            }
        };
    }
    if let Some(other) = s.pool.as_ref().and_then(|pool| pool.others(id, &s.key).next()) {
        let message = format!("{} counts on host {id}, and cannot take it over now", other.key);
        return held(Reason::HostOccupied, message, s.after(OCCUPIED));
    }
    let others = occupants(s, host);
    if !others.is_empty() {
        let message = format!("host {id} holds {}", others.join(", "));
        return held(Reason::HostOccupied, message, s.after(OCCUPIED));
    }
    if counts(host) && !s.refusals.contains_key(id) && !s.is_older(allocation.at, VACATED) {
        let message = format!("EC2 still counts an instance on host {id} that has ended");
        return held(Reason::HostOccupied, message, s.after(SOON));
    }
    Standing::Ready
}

/// Whether EC2 takes something for being on a host: it shows less room than the empty host has. While it does, it refuses
/// to take the host back.
fn counts(host: &Host) -> bool {
    host.room.iter().any(|room| room.available < room.total)
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

/// A host that stays occupied, by the machine's own instance or by somebody else's, is worth a word every hour, once two
/// have passed since it was to be given back.
fn overdue(s: &Snapshot, allocation: &Allocation, host: &HostId, reason: Reason) -> Option<Step> {
    if reason != Reason::HostOccupied || allocation.phase != Phase::Releasing {
        return None;
    }
    let hours = s.now.duration_since(allocation.at).as_hours();
    let message = format!("host {host} is still occupied after {hours} hours, and still paid for");
    (hours >= 2).then_some(Step::Tell { warning: true, reason: Reason::FailedReleaseHost, message })
}

fn retain(s: &Snapshot, host: &HostId) -> Step {
    let (cluster, namespace) = (s.cluster_name(), s.key.namespace().unwrap_or_default());
    Step::Retain { host: host.clone(), change: tags::retained(cluster, namespace, s.key.name()), heir: None }
}

/// Hands a host over to another claim that has a place on it: the one that it was handed over to already, while the host
/// does not say so yet, else one that stays, else any.
fn hand_over(s: &Snapshot, allocation: &Allocation, id: &HostId) -> Option<Step> {
    let host = s.sight()?.hosts.get(id).filter(|host| !host.state.is_released() && s.owns(host))?;
    let heirs = s.pool.as_ref()?.others(id, &s.key).filter(|other| other.may_inherit(&allocation.id));
    let heir = heirs.min_by_key(|other| (other.phase == Phase::Claimed, other.deleting, &other.key))?;
    let belonging = Belonging {
        cluster: s.cluster_name().map(str::to_owned),
        namespace: s.key.namespace()?.to_owned(),
        machine: owner_name(heir.key.name()),
        name: heir.key.name().to_owned(),
        control_plane: false,
        id: heir.id.clone(),
        management: s.management.as_deref()?.to_owned(),
        auto_release: Some(heir.releases),
    };
    let change = tags::change(&host.tags, &tags::merged([], &belonging), &BTreeSet::new());
    Some(Step::Retain { host: id.clone(), change, heir: Some(heir.key.clone()) })
}

/// Gives back the hosts of a journal that is releasing, or that is to leave them.
pub(super) fn release(s: &Snapshot, allocation: &Allocation) -> Thought {
    // What is paid for anyway is of more use to a living machine than to nobody.
    let reserved = s.paid().any(|host| host.reservation.is_some() && host.state == HostState::Available);
    if reserved && !s.machine.deleting && allocation.phase == Phase::Releasing {
        let message = "a reservation covers the host, so it is kept and used";
        let kept = Step::Record { allocation: Box::new(allocation.in_phase(Phase::Allocated, s.now)) };
        return Thought::default().host(Says::no(Reason::HostPending, message)).then(kept);
    }
    let retaining = s.machine.deleting && !s.machine.releases();
    let handed: Vec<Step> = match allocation.phase {
        Phase::Releasing if !retaining => {
            allocation.hosts.iter().filter_map(|id| hand_over(s, allocation, id)).collect()
        }
        _ => Vec::new(),
    };
    if !handed.is_empty() {
        let message = "another claim has a place on the host, so it is handed over";
        let thought = Thought::default().release(Says::no(Reason::WaitingForInstanceTermination, message));
        return Thought { steps: handed, ..thought };
    }
    let standings: Vec<(HostId, Standing)> =
        allocation.hosts.iter().map(|id| (id.clone(), standing(s, allocation, id))).collect();
    let over = |standing: &Standing| matches!(standing, Standing::Released | Standing::Retained | Standing::PassedOn);
    if standings.iter().all(|(_, standing)| over(standing)) {
        // A claim that lives on without the host that it could not have gets another one.
        let stays = s.claim.is_some() && !s.machine.deleting;
        let kept = !stays && standings.iter().any(|(_, s)| *s == Standing::Retained);
        let phase = match (kept, allocation.phase) {
            (true, _) => Phase::Retained,
            // Given back behind our back while we meant to keep them: one step after the other.
            (false, Phase::Allocated) => Phase::Releasing,
            (false, _) => Phase::Released,
        };
        let over = allocation.in_phase(phase, s.now);
        let says = if kept {
            Says::yes(Reason::Retained, "the hosts were left to their owner")
        } else if standings.iter().any(|(_, s)| *s == Standing::PassedOn) {
            Says::yes(Reason::Released, "the host is another claim's by now")
        } else {
            Says::yes(Reason::Released, "all hosts are released")
        };
        return Thought::default().release(says).then(Step::Record { allocation: Box::new(over) });
    }
    let mut thought = Thought::default();
    let keep = |standing: &Standing| match standing {
        Standing::Reserved => true,
        Standing::Released | Standing::Retained | Standing::PassedOn => false,
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
            thought.steps.extend(overdue(s, allocation, id, *reason));
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
