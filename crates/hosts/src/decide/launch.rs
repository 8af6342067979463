//! Launching the instance of a machine that has none.

use std::ops::ControlFlow::{Break, Continue};

use api::names::hosts::{ALLOCATION_ID_TAG, CLUSTER_TAG_PREFIX, MACHINE_NAME_TAG};
use api::names::{HostId, SubnetId};
use api::reasons::hosts::Reason;
use aws::port::Instance;

use super::recover::signatures;
use super::{ATTEMPT, CONSISTENT, Fatal, MISMATCH, Says, Step, Thought, host};
use crate::journal::Launch;
use crate::obstacle::{About, Obstacle};
use crate::snapshot::{Doing, Snapshot};

/// EC2 knows the token with other parameters: an instance exists, or did.
pub(crate) const MISMATCHED: &str = "IdempotentParameterMismatch";
/// The instance of the token has ended.
pub(crate) const ENDED: &str = "IdempotentInstanceTerminated";

/// The host is not in a state in which it takes instances, so this launch will never be.
pub(crate) const UNFIT: &str = "InvalidHostState";

/// What is said of an instance that the machine names and that is not provably its own.
pub(super) fn not_own(stranger: &Instance) -> String {
    format!(
        "the tags of instance {} do not say that it is this machine's ({MACHINE_NAME_TAG}, {ALLOCATION_ID_TAG}, {CLUSTER_TAG_PREFIX}<cluster>)",
        stranger.id
    )
}

/// Whether nothing can come of a launch any more that is not visible yet.
pub(crate) fn is_settled(s: &Snapshot, launch: &Launch) -> bool {
    let refused = launch.refused.as_deref().is_some_and(|code| code != MISMATCHED);
    refused || s.is_older(launch.at, CONSISTENT)
}

/// A machine that should have an instance and shows none.
pub(super) fn without_instance(s: &Snapshot) -> Thought {
    if let Some(id) = s.machine.instance() {
        // It is known to have been there: a second one in its place would be one too many.
        let message = match s.sight().and_then(|sight| sight.strangers.first()) {
            Some(stranger) => format!("{}; it is left alone, and none is launched in its place", not_own(stranger)),
            None => format!("EC2 does not know instance {id}; no second one is launched in its place"),
        };
        let waiting = Thought::default().wait(s.after(ATTEMPT));
        return waiting.instance(Says::unknown(Reason::InstanceNotFound, message));
    }
    let journal = s.journal();
    if let Some(launch) = journal.launch.as_ref().filter(|launch| launch.refused.as_deref() == Some(ENDED)) {
        let message = format!("the instance that was launched with token {} has ended", launch.token);
        let mut ended = Thought::default().instance(Says::no(Reason::InstanceTerminated, message.clone()));
        ended.fatal = Some(Fatal { reason: "UpdateError", message });
        return ended;
    }
    if !s.machine.has_finalizer() || journal.scope.is_none() || s.can_sign() {
        let Some(scope) = s.signed_scope() else {
            let obstacle = Obstacle::dependency(About::Instance, "the AWSCluster names no region");
            return Thought::default().stopped_by(s, &obstacle);
        };
        let says = Says::no(Reason::InstanceProvisionStarted, "the machine is being prepared");
        return Thought::default().instance(says).then(Step::Secure { scope });
    }
    if s.is_dynamic() {
        let mut thought = match host::ensure(s) {
            Continue(host) => {
                let pinned = journal.allocation.as_ref().map(|allocation| allocation.terms.subnet.clone());
                let message = format!("host {host} is available");
                launch(s, pinned, Some(host)).host(Says::yes(Reason::HostAvailable, message))
            }
            Break(thought) => thought,
        };
        thought.steps.splice(0..0, signatures(s));
        return thought;
    }
    let fixed = match s.machine.spec.host_id.as_deref().map(str::parse) {
        None => None,
        Some(Ok(host)) => Some(host),
        Some(Err(error)) => {
            let obstacle = Obstacle::terminal(About::Instance, format!("spec.hostID: {error}"));
            return Thought::default().stopped_by(s, &obstacle);
        }
    };
    // Without hosts of its own the launch itself pins the subnet, and thereby the zone of its token.
    let pinned = journal.launch.as_ref().map(|launch| launch.subnet.clone());
    launch(s, pinned, fixed)
}

fn launch(s: &Snapshot, pinned: Option<SubnetId>, host: Option<HostId>) -> Thought {
    let preflight = match &s.preflight {
        Some(Ok(preflight)) => preflight,
        Some(Err(obstacle)) => return Thought::default().stopped_by(s, obstacle),
        None => return Thought::default().wait(s.after(ATTEMPT)),
    };
    let subnet = pinned.unwrap_or_else(|| preflight.place.subnet.clone());
    let started =
        Thought::default().instance(Says::no(Reason::InstanceProvisionStarted, "the instance is being launched"));
    let failed = |error: api::names::NameError| {
        Thought::default().stopped_by(s, &Obstacle::terminal(About::Instance, error.to_string()))
    };
    let record = |launch: Launch| Step::RecordLaunch { launch: Box::new(launch) };
    let journal = s.journal();
    let Some(known) = &journal.launch else {
        // With a host of its own the machine had its turn before it asked for the host.
        if let Some(turn) = s.turn_to_come().filter(|_| !s.is_dynamic()) {
            let message = "other machines are launched first, at the pace that EC2 allows";
            let says = Says::no(Reason::InstanceProvisionStarted, message);
            return Thought::default().instance(says).wait(turn);
        }
        let id = journal.allocation.as_ref().map_or(&s.fresh, |allocation| &allocation.id);
        return match Launch::first(id.clone(), subnet, host, s.now) {
            Ok(first) => started.then(record(first)),
            Err(error) => failed(error),
        };
    };
    if known.host != host || known.subnet != subnet {
        if !is_settled(s, known) {
            let until = known.at.saturating_add(CONSISTENT).unwrap_or(s.now).min(s.after(ATTEMPT));
            return started.wait(until);
        }
        return match known.next(subnet, host, s.now) {
            Ok(next) => started.then(record(next)),
            Err(error) => failed(error),
        };
    }
    if known.refused.as_deref() == Some(MISMATCHED) {
        // The instance must surface; only when it does not for an hour is the token given up.
        let empty = host.as_ref().and_then(|id| s.sight()?.hosts.get(id)).is_none_or(|host| host.instances.is_empty());
        if !s.is_older(known.at, MISMATCH) || !empty {
            let message = "EC2 knows the launch under its token with other parameters; its instance is looked for";
            let says = Says::no(Reason::InstanceProvisionStarted, message);
            return Thought::default().instance(says).wait(s.after(std::time::Duration::from_secs(15)));
        }
        let message = format!("no instance surfaced for token {} within an hour; a new one is used", known.token);
        return match known.next(subnet, host, s.now) {
            Ok(next) => {
                let tell = Step::Tell { warning: true, reason: Reason::FailedCreate, message };
                started.then(tell).then(record(next))
            }
            Err(error) => failed(error),
        };
    }
    let retry = known.refused.is_some() || s.is_older(known.at, ATTEMPT);
    if retry {
        if let Some(mishap) = s.mishap.as_ref().filter(|m| m.doing == Doing::Launch && s.now < m.until) {
            let mut waiting = started.wait(mishap.until);
            super::say_mishap(s, &mut waiting);
            return waiting;
        }
        return started.then(record(known.again(s.now)));
    }
    let request = preflight.recipe.run(known.token.clone(), known.subnet.clone(), known.host.clone(), false);
    started.then(Step::Launch { launch: Box::new(known.clone()), request: Box::new(request) })
}
