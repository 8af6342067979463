//! Taking down a machine: first its instance, then its hosts, then our finalizer.

use std::time::Duration;

use api::reasons::INSTANCE_READY;
use api::reasons::hosts::Reason;
use api::status::find;
use aws::port::InstanceState;

use super::host::surfaced;
use super::{CONSISTENT, Says, Step, Thought, launch, release};
use crate::classes::Class;
use crate::journal::{Allocation, Cause, Phase};
use crate::obstacle::Obstacle;
use crate::snapshot::{Sky, Snapshot};

const SURFACING: Duration = Duration::from_secs(30);

fn deleting(message: impl Into<String>) -> Thought {
    Thought::default().instance(Says::no(Reason::Deleting, message))
}

/// How long to wait for an instance to end: longer the longer it takes.
fn ending(s: &Snapshot) -> Duration {
    let old = s.machine.deleted_at.is_some_and(|at| s.is_older(at, Duration::from_secs(120)));
    Duration::from_secs(if old { 60 } else { 15 })
}

/// A machine that is being deleted.
pub(super) fn delete(s: &Snapshot) -> Thought {
    if !s.machine.has_finalizer() {
        return Thought { silent: true, ..Thought::default() };
    }
    if let Err(error) = &s.machine.journal {
        let message = format!("{error}; nothing is released until it is corrected");
        let waiting = Thought::default().wait(s.after(Class::Terminal.wait(1)));
        return waiting
            .instance(Says::no(Reason::DeletingFailed, message.clone()))
            .release(Says::no(Reason::DedicatedHostReleaseFailed, message));
    }
    let journal = s.journal();
    let nothing = journal == crate::journal::Journal::default() && s.machine.instance().is_none();
    if nothing {
        // Nothing was ever asked for: the scope comes before the first request.
        return deleting("nothing was made for this machine").then(Step::Conclude);
    }
    match &s.sky {
        Sky::Clear(_) => {}
        Sky::Clouded(obstacle) => return blind(s, obstacle),
        Sky::NotAsked => {
            let obstacle = Obstacle {
                about: crate::obstacle::About::Host,
                class: Class::Permission,
                message: "neither the AWSCluster nor the annotation of the machine tells the region and the identity"
                    .to_owned(),
                fatal: false,
            };
            return blind(s, &obstacle);
        }
    }
    if let Some(thought) = instances(s) {
        return thought;
    }
    let gone = Says::no(Reason::Deleted, "the instance is gone");
    let Some(allocation) = &journal.allocation else {
        let mut thought = Thought::default().instance(gone);
        if let Some(host) = foreign_host(s) {
            let message =
                format!("host {host} of the status was never adopted and carries no tag of ours; it is not released");
            thought = thought.then(Step::Tell { warning: true, reason: Reason::DedicatedHostAbandoned, message });
        }
        return thought.then(Step::Conclude);
    };
    hosts(s, allocation).instance(gone)
}

/// A host in the status of a machine that has no journal: another controller's doing.
fn foreign_host(s: &Snapshot) -> Option<&str> {
    s.machine
        .status
        .dedicated_host
        .as_ref()
        .and_then(|host| host.id.as_deref())
        .filter(|_| s.machine.spec.host_id.is_none())
}

/// EC2 cannot be asked. What may be paid for keeps the machine, unless an operator lets it go.
fn blind(s: &Snapshot, obstacle: &Obstacle) -> Thought {
    let journal = s.journal();
    let hopeless = !matches!(obstacle.class, Class::Transient | Class::Consistency);
    if s.machine.is_abandoned() && hopeless {
        let instance = s.machine.instance().map(|id| format!("instance {id}, ")).unwrap_or_default();
        let Some(allocation) = journal.allocation.filter(|allocation| !allocation.phase.is_over()) else {
            let message = format!("{instance}launched for this machine, is given up by order of an operator");
            let tell = Step::Tell { warning: true, reason: Reason::DedicatedHostAbandoned, message };
            return deleting("given up by order of an operator").then(tell).then(Step::Conclude);
        };
        return abandon(s, &allocation, &instance);
    }
    let pause = obstacle.class.wait(s.tries.saturating_add(1));
    let waiting = Thought::default().wait(s.after(pause));
    if obstacle.class == Class::Transient && s.tries < 3 {
        return waiting;
    }
    let message = obstacle.message.clone();
    waiting
        .instance(Says::no(Reason::DeletingFailed, message.clone()))
        .release(Says::no(Reason::DedicatedHostReleaseFailed, message))
}

fn abandon(s: &Snapshot, allocation: &Allocation, instance: &str) -> Thought {
    let hosts: Vec<String> = allocation.hosts.iter().map(ToString::to_string).collect();
    let hosts = if hosts.is_empty() { format!("whatever token {} made", allocation.token) } else { hosts.join(", ") };
    let message =
        format!("{instance}{hosts}: given up by order of an operator, and still paid for until somebody releases it");
    let mut over = allocation.in_phase(Phase::Abandoned, s.now);
    over.cause = Some(Cause::Deleted);
    Thought::default()
        .release(Says::yes(Reason::Abandoned, message.clone()))
        .then(Step::Tell { warning: true, reason: Reason::DedicatedHostAbandoned, message })
        .then(Step::Record { allocation: Box::new(over) })
}

/// What is to be done about instances; none when they are gone for good.
fn instances(s: &Snapshot) -> Option<Thought> {
    let alive = s.alive();
    if !alive.is_empty() {
        let names: Vec<String> = alive.iter().map(ToString::to_string).collect();
        let waiting = Says::no(Reason::WaitingForInstanceTermination, format!("{} still runs", names.join(", ")));
        let mut thought = deleting(format!("terminating {}", names.join(", ")));
        if s.journal().allocation.is_some() {
            thought = thought.release(waiting);
        }
        let told = find(&s.machine.status.conditions, INSTANCE_READY);
        if told.is_none_or(|c| c.reason != Reason::Deleting.as_str() && c.reason != Reason::DeletingFailed.as_str()) {
            // Whoever watches the node hears of the end before it comes.
            return Some(thought.then(Step::Announce));
        }
        let thought = thought.then(Step::Terminate { instances: alive });
        return Some(thought.wait(s.after(ending(s))));
    }
    let all = s.sight().map(|sight| sight.instances.as_slice()).unwrap_or_default();
    if let Some(instance) = all.iter().find(|instance| instance.state == InstanceState::ShuttingDown) {
        let message = format!("instance {} is shutting down", instance.id);
        let mut thought = deleting(&message);
        if s.journal().allocation.is_some() {
            thought = thought.release(Says::no(Reason::WaitingForInstanceTermination, message));
        }
        return Some(thought.wait(s.after(ending(s))));
    }
    let journal = s.journal();
    if all.is_empty()
        && let Some(known) = journal.launch.as_ref().filter(|known| !launch::is_settled(s, known))
    {
        let message = format!("an instance launched with token {} may still surface", known.token);
        return Some(deleting(message).wait(s.after(SURFACING)));
    }
    None
}

/// What is to be done about hosts, now that no instance is left.
fn hosts(s: &Snapshot, allocation: &Allocation) -> Thought {
    let record = |allocation: Allocation| Step::Record { allocation: Box::new(allocation) };
    if allocation.phase.is_over() {
        let says = match allocation.phase {
            Phase::Retained => Says::yes(Reason::Retained, "the hosts were left to their owner"),
            Phase::Abandoned => Says::yes(Reason::Abandoned, "the hosts were given up by order of an operator"),
            _ => Says::yes(Reason::Released, "all hosts are released"),
        };
        return Thought::default().release(says).then(Step::Conclude);
    }
    if s.machine.is_abandoned() {
        return abandon(s, allocation, "");
    }
    let more = surfaced(s, allocation);
    match allocation.phase {
        Phase::Intended if more.is_empty() => {
            if s.is_older(allocation.at, CONSISTENT) {
                let over = allocation.in_phase(Phase::Released, s.now).because(Cause::Deleted);
                return Thought::default()
                    .release(Says::yes(Reason::Released, "no host was ever allocated"))
                    .then(record(over));
            }
            let message = format!("a host asked for with token {} may still surface", allocation.token);
            let says = Says::no(Reason::WaitingForInstanceTermination, message);
            Thought::default().release(says).wait(s.after(SURFACING))
        }
        Phase::Intended => {
            let allocated = allocation.in_phase(Phase::Allocated, s.now).with_hosts(more);
            Thought::default().then(record(allocated))
        }
        _ if !more.is_empty() => {
            let hosts = allocation.hosts.iter().cloned().chain(more).collect();
            Thought::default().then(record(allocation.clone().with_hosts(hosts)))
        }
        Phase::Allocated if !s.machine.releases() => release::release(s, allocation),
        Phase::Allocated => {
            let releasing = allocation.in_phase(Phase::Releasing, s.now).because(Cause::Deleted);
            let says = Says::no(Reason::WaitingForInstanceTermination, "the hosts are about to be released");
            Thought::default().release(says).then(record(releasing))
        }
        _ => release::release(s, allocation),
    }
}
