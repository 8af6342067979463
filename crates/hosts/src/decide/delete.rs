//! Taking down a machine: first its instance, then its hosts, then our finalizer.

use std::time::Duration;

use api::names::hosts::ABANDON_HOST_ANNOTATION;
use api::reasons::INSTANCE_READY;
use api::reasons::hosts::Reason;
use api::status::find;
use aws::port::InstanceState;

use super::recover::{doubt, recovered, signatures, surfaced};
use super::shared::inherited;
use super::{CONSISTENT, Says, Step, Thought, launch, release};
use crate::classes::Class;
use crate::journal::{Allocation, Cause, Phase};
use crate::obstacle::Obstacle;
use crate::snapshot::{Sky, Snapshot};

const SURFACING: Duration = Duration::from_secs(30);

fn deleting(message: impl Into<String>) -> Thought {
    Thought::default().instance(Says::no(Reason::Deleting, message))
}

/// How long to wait for an instance to end: longer the longer it takes. How long the machine had to wait before is no part
/// of that: its hosts are paid for.
fn ending(s: &Snapshot) -> Duration {
    let began = s.ended_at.or(s.machine.deleted_at).unwrap_or(s.now);
    s.pause_since(began, Duration::from_secs(1), Duration::from_secs(60))
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
    let nothing =
        journal == crate::journal::Journal::default() && s.machine.instance().is_none() && s.shown_host().is_none();
    if nothing {
        // Nothing was ever asked for: the scope comes before the first request.
        return deleting("nothing was made for this machine").then(Step::Conclude);
    }
    match &s.sky {
        Sky::Clear(_) => {}
        Sky::Clouded(obstacle) => return blind(s, obstacle),
        Sky::NotAsked => {
            let message = "neither the AWSCluster nor the annotation of the machine tells the region and the identity";
            let obstacle = Obstacle::private(crate::obstacle::About::Host, Class::Permission, message);
            return blind(s, &obstacle);
        }
    }
    if s.can_sign()
        && let Some(scope) = s.signed_scope()
    {
        return deleting("the machine is being taken down").then(Step::Secure { scope });
    }
    let signing = signatures(s);
    let mut thought = match instances(s) {
        Some(thought) => thought,
        None => {
            let gone = Says::no(Reason::Deleted, "the instance is gone");
            let hosts = match &journal.allocation {
                Some(allocation) => hosts(s, allocation),
                None => without_journal(s),
            };
            hosts.instance(gone)
        }
    };
    thought.steps.splice(0..0, signing);
    thought
}

/// An instance that is left as it is, because nothing proves whose it is or that it is gone; and why.
fn left(s: &Snapshot) -> Option<String> {
    let sight = s.sight()?;
    let alive = sight.strangers.iter().find(|instance| instance.state != InstanceState::Terminated);
    if let Some(stranger) = alive {
        return Some(format!("{}, so it is not ended", launch::not_own(stranger)));
    }
    let journal = s.journal();
    let refused = |known: &&crate::journal::Launch| known.refused.as_deref().is_none_or(|c| c == launch::MISMATCHED);
    let launched =
        journal.launch.as_ref().filter(refused).map(|known| format!("the launch with token {}", known.token));
    let made = s.machine.instance().map(|id| format!("instance {id}")).or(launched)?;
    let unseen = sight.instances.is_empty() && sight.strangers.is_empty() && !s.is_at_home();
    unseen.then(|| format!("EC2 does not show {made}, but nothing proves that it was asked in the right account"))
}

/// A machine without a journal of hosts: those it had may have lost their journal.
fn without_journal(s: &Snapshot) -> Thought {
    if let Some(found) = recovered(s) {
        return Thought::default().then(Step::Record { allocation: Box::new(found) });
    }
    last(s, Thought::default())
}

/// Nothing is left that is known of; what is in doubt keeps the machine, unless an operator lets it go.
fn last(s: &Snapshot, thought: Thought) -> Thought {
    match (doubt(s), s.machine.is_abandoned()) {
        (None, false) => thought.then(Step::Conclude),
        (Some(doubt), false) => {
            let message = format!("{doubt}; see {ABANDON_HOST_ANNOTATION}");
            let says = Says::no(Reason::DedicatedHostReleaseFailed, message);
            Thought::default().release(says).wait(s.after(Class::Permission.wait(1)))
        }
        (doubt, true) => match left(s).or(doubt) {
            Some(what) => {
                let message = format!("{what}: given up by order of an operator, and paid for until somebody ends it");
                let tell = Step::Tell { warning: true, reason: Reason::DedicatedHostAbandoned, message };
                thought.then(tell).then(Step::Conclude)
            }
            None => thought.then(Step::Conclude),
        },
    }
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
    let pause = s.pace(obstacle.class, s.tries.saturating_add(1));
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
        let told =
            told.is_some_and(|c| [Reason::Deleting, Reason::DeletingFailed].iter().any(|r| r.as_str() == c.reason));
        if !told && !s.announced {
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
    if let Some(why) = left(s).filter(|_| !s.machine.is_abandoned()) {
        let message = format!("{why}; see {ABANDON_HOST_ANNOTATION}");
        let waiting = Thought::default().wait(s.after(Class::Permission.wait(1)));
        return Some(waiting.instance(Says::no(Reason::DeletingFailed, message)));
    }
    None
}

/// What is to be done about hosts, now that no instance is left.
fn hosts(s: &Snapshot, allocation: &Allocation) -> Thought {
    let record = |allocation: Allocation| Step::Record { allocation: Box::new(allocation) };
    let mut back = surfaced(s, allocation);
    // Where the instance was is written down: EC2 forgets the instance within the hour, and the host is paid for on.
    back.extend(s.doubtful().filter(|host| s.is_on(host)).map(|host| host.id.clone()));
    let seen = s.paid().next().is_some() || !back.is_empty();
    if allocation.phase == Phase::Released && seen && !s.machine.is_abandoned() {
        // The journal says one thing and EC2 another: reads lag for a while, and then EC2 is right.
        let message = "a host that was taken for released is still paid for";
        let waiting = Thought::default().release(Says::no(Reason::WaitingForInstanceTermination, message));
        if back.is_empty() {
            return waiting.wait(s.after(SURFACING));
        }
        return waiting.then(record(allocation.in_phase(Phase::Releasing, s.now).with_more(back)));
    }
    if allocation.phase.is_over() {
        let says = match allocation.phase {
            Phase::Retained => Says::yes(Reason::Retained, "the hosts were left to their owner"),
            Phase::Abandoned => Says::yes(Reason::Abandoned, "the hosts were given up by order of an operator"),
            _ => Says::yes(Reason::Released, "all hosts are released"),
        };
        let over = Thought::default().release(says);
        let given_up = allocation.phase == Phase::Abandoned;
        return if given_up { over.then(Step::Conclude) } else { last(s, over) };
    }
    if s.machine.is_abandoned() {
        let instance = left(s).map(|why| format!("{why}; ")).unwrap_or_default();
        return abandon(s, allocation, &instance);
    }
    if allocation.phase == Phase::Claimed {
        let says = Says::no(Reason::WaitingForInstanceTermination, "the place on the host is left to others");
        let step = inherited(s, allocation)
            .unwrap_or_else(|| record(allocation.in_phase(Phase::Released, s.now).because(Cause::Deleted)));
        return Thought::default().release(says).then(step);
    }
    let more = back;
    match allocation.phase {
        Phase::Intended if more.is_empty() => {
            if s.is_older(allocation.at, CONSISTENT) && s.is_at_home() {
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
            let allocated = allocation.in_phase(Phase::Allocated, s.now).with_more(more);
            Thought::default().then(record(allocated))
        }
        _ if !more.is_empty() => Thought::default().then(record(allocation.clone().with_more(more))),
        Phase::Allocated if !s.machine.releases() => release::release(s, allocation),
        Phase::Allocated => {
            let releasing = allocation.in_phase(Phase::Releasing, s.now).because(Cause::Deleted);
            let says = Says::no(Reason::WaitingForInstanceTermination, "the hosts are about to be released");
            Thought::default().release(says).then(record(releasing))
        }
        _ => release::release(s, allocation),
    }
}
