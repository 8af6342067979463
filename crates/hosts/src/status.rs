//! What the status of a machine says: a view of the journal and of EC2, from which nothing is ever decided.

use api::own::{AWSMachineStatus, DedicatedHost, MachineInitialization, OwnedHost};
use api::reasons::hosts::Reason;
use api::reasons::{
    DEDICATED_HOST_READY, DEDICATED_HOST_RELEASE, INSTANCE_READY, PAUSED, READY, SECURITY_GROUPS_READY,
};
use api::status::find;
use aws::port::{HostShape, InstanceState};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kit::conditions::{State, Transition, Verdict, summary};
use kit::room::Notice;

use crate::addresses::addresses;
use crate::decide::{MAC_MINIMUM, Says, Thought};
use crate::journal::Phase;
use crate::snapshot::{Sky, Snapshot};

/// The status as it should be, and what each condition says.
#[must_use]
pub fn status(s: &Snapshot, thought: &Thought) -> (AWSMachineStatus, Vec<Verdict>) {
    let mut next = s.machine.status.clone();
    next.ready.get_or_insert(false);
    if thought.paused.is_none() {
        instance(s, &mut next);
        host(s, &mut next);
        if let Some(fatal) = &thought.fatal {
            next.failure_reason = Some(fatal.reason.to_owned());
            next.failure_message = Some(fatal.message.clone());
        }
    }
    (next, verdicts(s, thought))
}

fn instance(s: &Snapshot, next: &mut AWSMachineStatus) {
    let Sky::Clear(sight) = &s.sky else { return };
    let Some(instance) = s.instance() else {
        next.ready = Some(false);
        return;
    };
    let running = instance.state == InstanceState::Running;
    next.ready = Some(running && !s.machine.deleting);
    next.instance_state = Some(instance.state.as_str().to_owned());
    next.interruptible = (instance.lifecycle.as_deref() == Some("spot")).then_some(true);
    if running {
        next.initialization = Some(MachineInitialization { provisioned: Some(true) });
        next.failure_domain = instance.zone.as_ref().map(ToString::to_string);
    }
    let found = addresses(instance, &sight.domains);
    // An instance on its way out loses its addresses; people still want to know what they were.
    if !found.is_empty() {
        next.addresses = found;
    }
}

fn whole(at: Timestamp) -> Time {
    Time(crate::journal::whole(at))
}

fn host(s: &Snapshot, next: &mut AWSMachineStatus) {
    let journal = s.journal();
    let Some(allocation) = &journal.allocation else { return };
    if allocation.phase == Phase::Intended || (allocation.phase.is_over() && !s.machine.deleting) {
        next.dedicated_host = None;
        next.allocated_host_id = None;
        return;
    }
    let sight = s.sight();
    let on = s.instance().and_then(|instance| instance.host.clone());
    let planned = journal.launch.as_ref().and_then(|launch| launch.host.clone());
    let own = |id: &api::names::HostId| allocation.hosts.contains(id);
    let current = on.or(planned).filter(own).or_else(|| allocation.hosts.first().cloned());
    let shown = current.as_ref().and_then(|id| sight?.hosts.get(id));
    let stored = s.machine.status.dedicated_host.clone().unwrap_or_default();
    let state_of = |id: &api::names::HostId| match sight {
        Some(sight) => sight.hosts.get(id).map(|host| host.state.as_str().to_owned()),
        None => stored.hosts.iter().find(|known| known.id == id.as_str()).and_then(|known| known.state.clone()),
    };
    let mac = match &allocation.terms.shape {
        HostShape::Type(type_) => type_.family().as_str().starts_with("mac"),
        HostShape::Family(family) => family.as_str().starts_with("mac"),
    };
    let told = current.as_ref().and_then(|id| s.refusals.get(id)?.releasable_after);
    let minimum = shown.and_then(|host| host.allocated?.saturating_add(MAC_MINIMUM).ok()).filter(|_| mac);
    next.allocated_host_id = current.as_ref().map(ToString::to_string);
    next.dedicated_host = Some(DedicatedHost {
        id: current.as_ref().map(ToString::to_string),
        availability_zone: Some(allocation.terms.zone.to_string()),
        instance_family: match &allocation.terms.shape {
            HostShape::Type(type_) => Some(type_.family().to_string()),
            HostShape::Family(family) => Some(family.to_string()),
        },
        instance_type: match &allocation.terms.shape {
            HostShape::Type(type_) => Some(type_.to_string()),
            HostShape::Family(_) => None,
        },
        state: current.as_ref().and_then(state_of).or(stored.state.filter(|_| sight.is_none())),
        allocation_time: shown.and_then(|host| host.allocated).map(whole).or(stored.allocation_time),
        releasable_after: told.or(minimum).map(whole).or(stored.releasable_after.filter(|_| mac)),
        shared: None,
        hosts: allocation.hosts.iter().map(|id| OwnedHost { id: id.to_string(), state: state_of(id) }).collect(),
    });
}

/// A stored condition, said again as it was.
fn again(stored: &[Condition], type_: &'static str) -> Option<Verdict> {
    let stored = find(stored, type_)?;
    let reason = Reason::ALL.iter().find(|reason| reason.as_str() == stored.reason)?;
    let state = [State::True, State::False, State::Unknown].into_iter().find(|s| s.as_str() == stored.status)?;
    Some(Verdict::new(type_, state, reason.as_str(), stored.message.clone()))
}

fn said(type_: &'static str, says: &Says) -> Verdict {
    Verdict::new(type_, says.state, says.reason.as_str(), says.message.clone())
}

fn verdicts(s: &Snapshot, thought: &Thought) -> Vec<Verdict> {
    let stored = &s.machine.status.conditions;
    let mut all = Vec::new();
    let mut order = vec![INSTANCE_READY];
    let judge = |type_: &'static str, says: Option<&Says>| {
        let before = again(stored, type_);
        match says {
            Some(says) => Some(steadily(before, said(type_, says))),
            None => before,
        }
    };
    all.extend(judge(INSTANCE_READY, thought.instance.as_ref()));
    let allocation = s.journal().allocation;
    if s.is_dynamic() || allocation.is_some() {
        all.extend(judge(DEDICATED_HOST_READY, thought.host.as_ref()));
        order.push(DEDICATED_HOST_READY);
    }
    if s.machine.deleting || thought.release.is_some() {
        all.extend(judge(DEDICATED_HOST_RELEASE, thought.release.as_ref()));
    }
    if let Some(groups) = judge(SECURITY_GROUPS_READY, thought.groups.as_ref()) {
        all.push(groups);
        order.push(SECURITY_GROUPS_READY);
    }
    all.push(match &thought.paused {
        Some(why) => Verdict::yes(PAUSED, Reason::Paused.as_str(), why.clone()),
        None => Verdict::no(PAUSED, Reason::NotPaused.as_str(), String::new()),
    });
    all.push(ready(s, thought, &all, &order));
    all
}

/// What failed is not said to have started again before it has gone well.
fn steadily(before: Option<Verdict>, now: Verdict) -> Verdict {
    let Some(before) = before else { return now };
    let failed = [
        Reason::InstanceProvisionFailed,
        Reason::HostQuotaExceeded,
        Reason::HostCapacityUnavailable,
        Reason::HostAllocationDenied,
        Reason::HostAllocationFailed,
    ];
    let started = [Reason::InstanceProvisionStarted, Reason::HostAllocationStarted];
    let is = |verdict: &Verdict, reasons: &[Reason]| reasons.iter().any(|reason| reason.as_str() == verdict.reason);
    if is(&before, &failed) && is(&now, &started) { before } else { now }
}

fn ready(s: &Snapshot, thought: &Thought, all: &[Verdict], order: &[&'static str]) -> Verdict {
    let find = |type_: &str| all.iter().find(|verdict| verdict.type_ == type_ && verdict.state != State::True);
    let instance = find(INSTANCE_READY);
    let says = |verdict: Option<&Verdict>, reason: Reason| verdict.is_some_and(|v| v.reason == reason.as_str());
    if s.machine.deleting {
        let release = find(DEDICATED_HOST_RELEASE);
        // A host waits for its instance: while that cannot be ended, this is what stands in the way, and not the wait.
        let waits = thought.release.is_none() || says(release, Reason::WaitingForInstanceTermination);
        let blocking = if waits && says(instance, Reason::DeletingFailed) { instance } else { release.or(instance) };
        let message = blocking.map(|verdict| format!("{}: {}", verdict.reason, verdict.message)).unwrap_or_default();
        return Verdict::no(READY, Reason::Deleting.as_str(), message);
    }
    if let Some(invalid) = &thought.invalid {
        return Verdict::no(READY, Reason::InvalidSpec.as_str(), invalid.clone());
    }
    // An instance that is only on its way waits for its host: what keeps the host back is what people must know.
    let mut order = order.to_vec();
    if says(instance, Reason::InstanceProvisionStarted) && find(DEDICATED_HOST_READY).is_some() {
        order.retain(|type_| *type_ != INSTANCE_READY);
        order.push(INSTANCE_READY);
    }
    summary(all, &order)
}

/// The event that tells of a transition; most are told by who carried out a step.
#[must_use]
pub fn event(transition: &Transition) -> Option<Notice> {
    let reason = Reason::ALL.iter().find(|reason| reason.as_str() == transition.reason)?;
    let told = match (transition.type_, reason) {
        (INSTANCE_READY, Reason::InstanceProvisionFailed) => Reason::FailedCreate,
        (INSTANCE_READY, Reason::InstanceTerminated) => Reason::InstanceUnexpectedTermination,
        (INSTANCE_READY, Reason::InstanceNotFound) => Reason::NoInstanceFound,
        (INSTANCE_READY, Reason::DeletingFailed) => Reason::FailedTerminate,
        (
            DEDICATED_HOST_READY,
            Reason::HostQuotaExceeded
            | Reason::HostCapacityUnavailable
            | Reason::HostAllocationDenied
            | Reason::HostAllocationFailed,
        ) => Reason::FailedAllocateDedicatedHost,
        (DEDICATED_HOST_READY, Reason::HostPermanentFailure | Reason::HostLost | Reason::HostMismatch) => {
            Reason::DedicatedHostFailed
        }
        (DEDICATED_HOST_RELEASE, Reason::DedicatedHostReleaseFailed | Reason::HostReserved) => {
            Reason::FailedReleaseHost
        }
        _ => return None,
    };
    Some(Notice { reason: told.as_str(), warning: true })
}
