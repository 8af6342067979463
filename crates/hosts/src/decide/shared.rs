//! A claim that has a place on a host of another claim.

use std::ops::ControlFlow::{self, Break, Continue};

use api::names::{HostId, InstanceType};
use api::reasons::hosts::Reason;
use aws::port::{Host, HostState};

use super::host::{POLL, launch_is_settled, started};
use super::launch::{ENDED, MISMATCHED};
use super::recover::surfaced;
use super::{Says, Step, Thought};
use crate::classes::Class;
use crate::journal::{Allocation, Cause, Phase};
use crate::snapshot::{Snapshot, is_alive};

/// What a place is worth: the host can be used, or there is something else to do.
pub(super) fn claimed(s: &Snapshot, allocation: &Allocation) -> ControlFlow<Thought, HostId> {
    if let Some(record) = inherited(s, allocation) {
        return Break(started("the dedicated host is this claim's by now").then(record));
    }
    let Some(id) = allocation.hosts.first() else {
        return Break(unusable(s, allocation, "the journal names no host"));
    };
    if let Some((code, cause)) = refused(s, id) {
        let message = format!("host {id} does not take the instance ({code}), so another one is looked for");
        return Break(leave(s, allocation, cause, &message));
    }
    let sight = s.sight();
    let Some(host) = sight.and_then(|sight| sight.hosts.get(id)) else {
        let unknown = sight.is_some_and(|sight| sight.unknown_hosts.contains(id));
        return Break(match unknown {
            true => unusable(s, allocation, &format!("EC2 does not know host {id} any more")),
            false => waiting(s, &format!("EC2 has to show host {id}")),
        });
    };
    if !s.may_share(host) {
        return Break(unusable(s, allocation, &format!("by its tags host {id} is not open to this claim")));
    }
    if host.state != HostState::Available {
        return Break(unusable(s, allocation, &format!("host {id} is {}", host.state)));
    }
    // What takes the last room may be the very instance that was launched a moment ago: it is asked for under its token.
    if is_full(s, host) && launch_is_settled(s) {
        return Break(unusable(s, allocation, &format!("host {id} is full by now")));
    }
    Continue(id.clone())
}

fn is_full(s: &Snapshot, host: &Host) -> bool {
    let type_: Option<InstanceType> = s.machine.spec.instance_type.parse().ok();
    type_.and_then(|type_| host.room_for(&type_)) == Some(0)
}

/// How EC2 refused the launch on a host for good, and what that means for the next try. What has nothing to do with the host
/// is tried again on it, as long as it can work at all.
fn refused(s: &Snapshot, host: &HostId) -> Option<(String, Cause)> {
    let launch = s.journal().launch.filter(|launch| launch.host.as_ref() == Some(host))?;
    let code = launch.refused.filter(|code| code != MISMATCHED && code != ENDED)?;
    let doomed = Class::of(aws::errors::kind_of(&code)).dooms_launch();
    match code.contains("Host") {
        true => Some((code, Cause::Failed)),
        false => doomed.then_some((code, Cause::Refused)),
    }
}

/// The host itself turned out to be the claim's own, or others are.
pub(super) fn inherited(s: &Snapshot, allocation: &Allocation) -> Option<Step> {
    let more = surfaced(s, allocation);
    let own = s.paid().any(|host| allocation.hosts.contains(&host.id));
    let owned = (own || !more.is_empty()).then(|| allocation.in_phase(Phase::Allocated, s.now).with_more(more))?;
    Some(Step::Record { allocation: Box::new(owned) })
}

fn waiting(s: &Snapshot, message: &str) -> Thought {
    started(message).host(Says::no(Reason::HostPending, message)).wait(s.after(POLL))
}

/// The place is given up, unless an instance may still surface on it.
fn unusable(s: &Snapshot, allocation: &Allocation, message: &str) -> Thought {
    match launch_is_settled(s) {
        true => leave(s, allocation, Cause::Failed, message),
        false => waiting(s, message),
    }
}

/// Gives the place up: the host is another claim's and stays where it is.
pub(super) fn leave(s: &Snapshot, allocation: &Allocation, cause: Cause, message: &str) -> Thought {
    let left = allocation.in_phase(Phase::Released, s.now).because(cause);
    Thought::default()
        .instance(Says::no(Reason::InstanceProvisionStarted, message))
        .host(Says::no(Reason::HostAllocationStarted, message))
        .then(Step::Record { allocation: Box::new(left) })
}

/// Whether an instance of the claim is on its place, or may still surface there.
pub(crate) fn is_in_use(s: &Snapshot) -> bool {
    let all = s.sight().map(|sight| sight.instances.as_slice()).unwrap_or_default();
    all.iter().any(|instance| is_alive(&instance.state)) || (all.is_empty() && !launch_is_settled(s))
}
