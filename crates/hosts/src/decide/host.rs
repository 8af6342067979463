//! Getting a machine its hosts.

use std::ops::ControlFlow::{self, Break, Continue};

use api::names::HostId;
use api::reasons::hosts::Reason;
use aws::port::{Host, HostShape, HostState};

use super::choose::{self, Chosen};
use super::recover::{doubted, is_unsigned, recovered, surfaced};
use super::{ATTEMPT, CONSISTENT, MAC_MINIMUM, PAUSE, Says, Step, Thought, caps, release, shared};
use crate::admit::is_free;
use crate::journal::{Allocation, Cause, Phase, Terms};
use crate::obstacle::{About, Obstacle};
use crate::request::shape;
use crate::snapshot::{Preflight, Snapshot};
use crate::tags::{self, Belonging};

/// How long a host may be unknown or broken before the machine gives it up and asks for another.
const GONE: std::time::Duration = std::time::Duration::from_secs(300);
pub(super) const POLL: std::time::Duration = std::time::Duration::from_secs(15);
/// A host that was just allocated is looked at this soon: most are there within seconds, and paid for meanwhile.
const SOON: std::time::Duration = std::time::Duration::from_millis(400);
const MAC_POLL: std::time::Duration = std::time::Duration::from_secs(60);

pub(super) fn started(message: impl Into<String>) -> Thought {
    Thought::default().instance(Says::no(Reason::InstanceProvisionStarted, message))
}

/// Whether a type runs on hosts that are kept for a day.
#[must_use]
pub(super) fn is_mac(shape: &HostShape) -> bool {
    let family = match shape {
        HostShape::Type(type_) => type_.family(),
        HostShape::Family(family) => family,
    };
    family.as_str().starts_with("mac")
}

/// Who the resources of a machine belong to.
pub(crate) fn belonging(s: &Snapshot, id: &crate::journal::AllocationId) -> Option<Belonging> {
    let cluster = s.cluster_name().map(str::to_owned);
    if cluster.is_none() && s.claim.is_none() {
        return None;
    }
    Some(Belonging {
        cluster,
        namespace: s.key.namespace()?.to_owned(),
        machine: s.machine.owner.as_deref()?.to_owned(),
        name: s.key.name().to_owned(),
        control_plane: s.is_control_plane(),
        id: id.clone(),
        management: s.management.as_deref()?.to_owned(),
        auto_release: s.is_dynamic().then(|| s.machine.releases()),
    })
}

/// The tags a host of the machine should have.
pub(super) fn host_tags(s: &Snapshot, id: &crate::journal::AllocationId) -> Option<aws::port::Tags> {
    let cloud = s.cloud.as_ref()?;
    let own = s.machine.spec.dynamic_host_allocation.as_ref()?;
    let journal = s.journal();
    // What a claim selects does not matter any more once it has a host, so the tags that follow from it stay.
    let pinned = journal.allocation.filter(|allocation| s.claim.is_some() && !allocation.phase.is_over());
    let pinned = pinned.map(|allocation| {
        let theirs = |(key, value): &(String, String)| is_free(key, value);
        allocation.terms.tags.into_iter().filter(theirs).collect()
    });
    let own = pinned.as_ref().unwrap_or(&own.tags);
    Some(tags::merged([&cloud.tags, &s.machine.spec.additional_tags, own], &belonging(s, id)?))
}

fn terms(s: &Snapshot, preflight: &Preflight) -> Result<Terms, Obstacle> {
    let dynamic = s.machine.spec.dynamic_host_allocation.clone().unwrap_or_default();
    let journal = s.journal();
    let id = journal.allocation.as_ref().map_or(&s.fresh, |allocation| &allocation.id);
    let unknown = || {
        Obstacle::dependency(
            About::Host,
            "the namespace kube-system, which names this management cluster, is not known yet",
        )
    };
    let tags = host_tags(s, id).ok_or_else(unknown)?;
    if tags.len() > api::names::hosts::MOST_TAGS {
        let message =
            format!("the host would have {} tags, and EC2 takes {}", tags.len(), api::names::hosts::MOST_TAGS);
        return Err(Obstacle::terminal(About::Host, message));
    }
    let quantity = u32::try_from(dynamic.hosts()).ok().filter(|n| (1..=crate::journal::MOST_HOSTS).contains(n));
    let bad = || Obstacle::terminal(About::Host, "spec.dynamicHostAllocation.quantity: must be 1 to 10");
    let switch = |switch: api::own::Switch| match switch {
        api::own::Switch::On => aws::port::Switch::On,
        api::own::Switch::Off => aws::port::Switch::Off,
    };
    Ok(Terms {
        zone: preflight.place.zone.clone(),
        subnet: preflight.place.subnet.clone(),
        shape: shape(&s.machine.spec)?,
        quantity: quantity.ok_or_else(bad)?,
        recovery: dynamic.host_recovery.map(switch),
        maintenance: dynamic.host_maintenance.map(switch),
        tags,
    })
}

/// Asks for hosts for the first time, or again after the last ones were given back.
fn intend(s: &Snapshot, before: Option<&Allocation>) -> Thought {
    let preflight = match &s.preflight {
        Some(Ok(preflight)) => preflight,
        Some(Err(obstacle)) => return Thought::default().stopped_by(s, obstacle),
        None => return started("looking at what the machine needs").wait(s.after(ATTEMPT)),
    };
    let terms = match terms(s, preflight) {
        Ok(terms) => terms,
        Err(obstacle) => return Thought::default().stopped_by(s, &obstacle),
    };
    let chosen = choose::choose(s, before);
    // What is there already is not asked for.
    if let Some(obstacle) = caps(s, terms.quantity).filter(|_| chosen.is_none()) {
        return Thought::default().stopped_by(s, &obstacle);
    }
    if let Some(full) = &s.full {
        return Thought::default().stopped_by(s, &Obstacle::dependency(About::Host, full.to_string()));
    }
    if let Some(turn) = s.turn_to_come() {
        let message = "other machines are launched first, at the pace that EC2 allows";
        return started(message).host(Says::no(Reason::HostAllocationStarted, message)).wait(turn);
    }
    let id = before.map_or(&s.fresh, |before| &before.id);
    // A rehearsal needs a token of its own: that of the launch must stand for the launch alone.
    let rehearsal = format!("dr-{id}").parse().map(|token| {
        let request = preflight.recipe.run(token, preflight.place.subnet.clone(), None, true);
        Step::Rehearse { request: Box::new(request) }
    });
    let message = match &chosen {
        Some(chosen) => format!("dedicated host {} is there and fits, so none is allocated", chosen.host),
        None => "a dedicated host is being allocated".to_owned(),
    };
    let next = match chosen {
        Some(Chosen { host, place, phase, .. }) => {
            let terms = Terms { zone: place.zone, subnet: place.subnet, quantity: 1, ..terms };
            Allocation::join(s.fresh.clone(), before, terms, (phase, host), s.now)
        }
        None => Allocation::intend(s.fresh.clone(), before, terms, s.now),
    };
    match (next, rehearsal) {
        (Ok(allocation), Ok(rehearsal)) => started(message)
            .host(Says::no(Reason::HostAllocationStarted, "the intent is being stored"))
            .then(rehearsal)
            .then(Step::Record { allocation: Box::new(allocation) }),
        (Err(illegal), _) => Thought::default().stopped_by(s, &Obstacle::terminal(About::Host, illegal.to_string())),
        (_, Err(error)) => Thought::default().stopped_by(s, &Obstacle::terminal(About::Host, error.to_string())),
    }
}

/// Hosts are asked for, or may have been: first look whether there are any.
fn intended(s: &Snapshot, allocation: &Allocation) -> Thought {
    let found = surfaced(s, allocation);
    let says = Says::no(Reason::HostAllocationStarted, "the host is being asked for");
    if !found.is_empty() {
        let allocated = allocation.in_phase(Phase::Allocated, s.now).with_more(found);
        return started("a dedicated host was found").host(says).then(Step::Record { allocation: Box::new(allocated) });
    }
    // A host that is paid for before everything else is known to be there may be paid for in vain.
    if let Some(Err(obstacle)) = &s.preflight {
        return Thought::default().stopped_by(s, obstacle);
    }
    let thought = started("a dedicated host is being allocated").host(says);
    if s.is_older(allocation.at, ATTEMPT) {
        let again = allocation.in_phase(Phase::Intended, s.now);
        // While it is not yet time to try again, nothing needs to be stored either.
        if let Some(mishap) =
            s.mishap.as_ref().filter(|m| m.doing == crate::snapshot::Doing::Allocate && s.now < m.until)
        {
            let mut waiting = thought.wait(mishap.until);
            super::say_mishap(s, &mut waiting);
            return waiting;
        }
        return thought.then(Step::Record { allocation: Box::new(again) });
    }
    thought.then(Step::Allocate { allocation: Box::new(allocation.clone()) })
}

/// Whether nothing can come of the recorded launch any more.
pub(super) fn launch_is_settled(s: &Snapshot) -> bool {
    let journal = s.journal();
    journal.launch.as_ref().is_none_or(|launch| super::launch::is_settled(s, launch))
}

/// Gives the hosts back although the machine lives, unless they would be paid for anyway.
fn give_back(s: &Snapshot, allocation: &Allocation, cause: Cause, message: &str) -> Thought {
    let releasing = allocation.in_phase(Phase::Releasing, s.now).because(cause);
    Thought::default()
        .instance(Says::no(Reason::InstanceProvisionFailed, message))
        .host(Says::no(Reason::HostAllocationStarted, message))
        .then(Step::Record { allocation: Box::new(releasing) })
}

/// Whether a host must be paid for a while longer whatever we do.
fn is_young_mac(s: &Snapshot, allocation: &Allocation, host: &Host) -> bool {
    let since = host.allocated.unwrap_or(allocation.at);
    is_mac(&allocation.terms.shape) && !s.is_older(since, MAC_MINIMUM)
}

/// What became of the hosts: one can be used, or there is something else to do.
pub(super) fn ensure(s: &Snapshot) -> ControlFlow<Thought, HostId> {
    let journal = s.journal();
    let Some(allocation) = &journal.allocation else {
        // Before a host is asked for, those that are paid for already are looked for.
        if let Some(recovered) = recovered(s) {
            let says = Says::no(Reason::HostAllocationStarted, "the journal of the hosts was lost and is made anew");
            let record = Step::Record { allocation: Box::new(recovered) };
            return Break(started("the dedicated host was found again").host(says).then(record));
        }
        if let Some(says) = doubted(s) {
            let waiting = started(says.message.clone()).wait(s.after(MAC_POLL));
            return Break(waiting.host(says));
        }
        return Break(intend(s, None));
    };
    match allocation.phase {
        Phase::Intended => Break(intended(s, allocation)),
        Phase::Allocated => allocated(s, allocation),
        Phase::Claimed => shared::claimed(s, allocation),
        Phase::Releasing => Break(release::release(s, allocation)),
        Phase::Released if s.paid().next().is_some() => {
            let back = surfaced(s, allocation);
            let message = "a host that was taken for given back is still paid for";
            let says = Says::no(Reason::HostAllocationStarted, message);
            if back.is_empty() {
                return Break(started(message).host(says).wait(s.after(POLL)));
            }
            let releasing = allocation.in_phase(Phase::Releasing, s.now).with_more(back);
            Break(started(message).host(says).then(Step::Record { allocation: Box::new(releasing) }))
        }
        Phase::Released => {
            let pause = match allocation.cause {
                Some(Cause::Idle | Cause::Refused) => PAUSE,
                Some(Cause::Failed | Cause::Deleted) | None => POLL,
            };
            if s.is_older(allocation.at, pause) {
                return Break(intend(s, Some(allocation)));
            }
            let until = allocation.at.saturating_add(pause).unwrap_or(s.now);
            let message = "the last dedicated host was given back; another one is asked for later";
            let says = Says::no(Reason::HostAllocationStarted, message);
            Break(started(message).host(says).wait(until))
        }
        Phase::Retained | Phase::Abandoned => {
            let word = allocation.phase.as_str();
            let message = format!("the hosts of this machine are {word}, and it gets no others");
            Break(Thought::default().stopped_by(s, &Obstacle::terminal(About::Host, message)))
        }
    }
}

fn allocated(s: &Snapshot, allocation: &Allocation) -> ControlFlow<Thought, HostId> {
    let more = surfaced(s, allocation);
    if !more.is_empty() {
        let record = allocation.clone().with_more(more);
        return Break(started("another dedicated host was found").then(Step::Record { allocation: Box::new(record) }));
    }
    let sight = s.sight().cloned().unwrap_or_default();
    let own: Vec<&Host> = allocation.hosts.iter().filter_map(|id| sight.hosts.get(id)).collect();
    let type_ = s.machine.spec.instance_type.parse();
    // Whoever selects hosts shares the one it has: others may be on it before its own instance is.
    let shares = s.claim.as_ref().is_some_and(|claim| claim.selector.is_some());
    let fits = |host: &&&Host| {
        let room = type_.as_ref().ok().and_then(|type_| host.room_for(type_));
        // The journal is a tenant's to write: whose a host is, its tags say.
        let mine = s.owns(host) || s.may_take(host, &allocation.id);
        mine && host.state == HostState::Available && (host.instances.is_empty() || shares) && room != Some(0)
    };
    if let Some(host) = own.iter().find(|host| s.is_passed_on(allocation, host)).filter(|_| launch_is_settled(s)) {
        let message = format!("host {} is another claim's by now, so another one is looked for", host.id);
        return Break(give_back(s, allocation, Cause::Failed, &message));
    }
    let journal = s.journal();
    let refused = journal.launch.as_ref().filter(|launch| {
        launch.host.as_ref().is_some_and(|host| allocation.hosts.contains(host))
            && launch
                .refused
                .as_deref()
                .is_some_and(|code| crate::classes::Class::of(aws::errors::kind_of(code)).dooms_launch())
    });
    // What must be paid for anyway is kept, and used as soon as it can be.
    let wanted = s.claim.is_some() && allocation.adopted && !s.machine.releases();
    let young = wanted || own.iter().any(|host| is_young_mac(s, allocation, host) || host.reservation.is_some());
    if let Some(launch) = refused
        && !young
    {
        let code = launch.refused.as_deref().unwrap_or_default();
        let message = format!("the launch was refused for good ({code}), so the empty host is given back");
        return Break(give_back(s, allocation, Cause::Refused, &message));
    }
    let since = own.iter().filter_map(|host| host.allocated).max().unwrap_or(allocation.at).max(allocation.at);
    // One that holds somebody else's instance is not empty, and cannot be given back either.
    let idle = own.iter().any(|host| host.state != HostState::Pending && host.instances.is_empty());
    if let Some(limit) = s.config.idle_host_timeout
        && idle
        && !young
        && s.is_older(since, limit)
        && launch_is_settled(s)
    {
        let message =
            format!("no instance was launched for {} min, so the empty host is given back", limit.as_secs() / 60);
        return Break(give_back(s, allocation, Cause::Idle, &message));
    }
    if let Some(host) = own.iter().find(fits) {
        return Continue(host.id.clone());
    }
    Break(not_usable(s, allocation, &own))
}

/// None of the hosts can take the instance now: they are waited for, or given up.
fn not_usable(s: &Snapshot, allocation: &Allocation, own: &[&Host]) -> Thought {
    let in_state = |state: HostState| own.iter().find(|host| host.state == state).map(|host| host.id.clone());
    if let Some(host) = in_state(HostState::Pending) {
        let longest = if is_mac(&allocation.terms.shape) { MAC_POLL } else { POLL };
        let pause = s.pause_since(allocation.at, SOON, longest);
        let message = format!("host {host} is pending");
        return started(&message).host(Says::no(Reason::HostPending, message.clone())).wait(s.after(pause));
    }
    let unsigned = |host: &&&Host| !host.state.is_released() && is_unsigned(s, allocation, host);
    if let Some(host) = own.iter().find(unsigned).filter(|_| s.claim.is_some()) {
        let message = format!("host {} is there, and its tags have to say whose it is", host.id);
        if s.is_older(allocation.at, CONSISTENT) && launch_is_settled(s) {
            return give_back(s, allocation, Cause::Failed, &message);
        }
        let pause = s.pause_since(allocation.at, SOON, POLL);
        return started(&message).host(Says::no(Reason::HostPending, message.clone())).wait(s.after(pause));
    }
    let journal = s.journal();
    let awaited = journal.launch.as_ref().filter(|launch| !super::launch::is_settled(s, launch));
    if let Some(host) = own.iter().find(|host| {
        let launched = awaited.is_some_and(|launch| launch.host.as_ref() == Some(&host.id));
        host.state == HostState::Available && !host.instances.is_empty() && launched
    }) {
        let message = format!("an instance was launched on host {} and is not visible yet", host.id);
        return started(&message).wait(s.after(POLL));
    }
    if let Some(host) = own.iter().find(|host| host.state == HostState::Available) {
        let selects = s.claim.as_ref().is_some_and(|claim| claim.selector.is_some());
        if selects && s.owns(host) && !host.instances.is_empty() && launch_is_settled(s) {
            let message = format!("those who share host {} have left no room on it", host.id);
            return give_back(s, allocation, Cause::Failed, &message);
        }
        let on_it: Vec<String> = host.instances.iter().map(|instance| instance.id.to_string()).collect();
        let message = if on_it.is_empty() && !s.owns(host) {
            format!("the tags of host {} do not say that it is this machine's, so nothing is launched on it", host.id)
        } else if on_it.is_empty() {
            format!("host {} shows no room for {}", host.id, s.machine.spec.instance_type)
        } else {
            format!("host {} holds instances that are not this machine's: {}", host.id, on_it.join(", "))
        };
        return started(&message).host(Says::no(Reason::HostMismatch, message.clone())).wait(s.after(POLL));
    }
    if let Some(host) = in_state(HostState::UnderAssessment) {
        let message = format!("host {host} is under assessment, so nothing is launched on it");
        return started(&message).host(Says::no(Reason::HostUnderAssessment, message.clone())).wait(s.after(MAC_POLL));
    }
    if allocation.hosts.is_empty() {
        let message = "EC2 granted the request and gave no host";
        if s.is_older(allocation.at, CONSISTENT) {
            return give_back(s, allocation, Cause::Failed, message);
        }
        return started(message).host(Says::no(Reason::HostAllocationFailed, message)).wait(s.after(POLL));
    }
    let unseen = |id: &HostId| s.sight().is_some_and(|sight| !sight.unknown_hosts.contains(id));
    if own.is_empty()
        && let Some(host) = allocation.hosts.iter().find(|id| unseen(id))
    {
        let message = format!("host {host} is allocated, and EC2 has to show it");
        let pause = s.pause_since(allocation.at, SOON, POLL);
        return started(&message).host(Says::no(Reason::HostPending, message.clone())).wait(s.after(pause));
    }
    // Broken, given back behind our back, or unknown: reads lag, so a fresh host is given time to appear.
    let (reason, message) = match in_state(HostState::PermanentFailure) {
        Some(host) => (Reason::HostPermanentFailure, format!("host {host} failed before anything ran on it")),
        None => (Reason::HostLost, "the host is gone before anything ran on it".to_owned()),
    };
    let broken = own.iter().any(|host| host.state == HostState::PermanentFailure || host.state.is_released());
    let visible = own.len() == allocation.hosts.len();
    if (broken && visible || s.is_older(allocation.at, GONE)) && launch_is_settled(s) {
        return give_back(s, allocation, Cause::Failed, &message);
    }
    started(&message).host(Says::no(reason, message.clone())).wait(s.after(POLL))
}
