//! Thinks: what has to be done about one claim, from its first wish to its last trace.

use std::time::Duration;

use api::names::claims::{BLOCK_MOVE_ANNOTATION, DELETE_FOR_MOVE_ANNOTATION, REBOOT_ANNOTATION};
use cloudstack::errors::Kind;
use cloudstack::port::{Deploy, MachineState, VirtualMachine};
use jiff::Timestamp;

use super::TAG;
use super::observe::{Act, MachineId, Sight, Snapshot};
use super::words::Tell;

/// A request that was sent before the claim was deleted has arrived after this long, or never will.
pub const FENCE: Duration = Duration::from_secs(60);

/// One effect, or a wait.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Stores our finalizer.
    Finalize,
    /// Keeps the claim from being moved: another cluster would not find its machine.
    Anchor,
    /// Stores that a machine is about to be made, on the claim as it was read.
    Intend,
    /// Makes the machine.
    Create(Box<Deploy>),
    /// Says on the machine whose it is.
    Tag {
        /// The machine.
        id: MachineId,
    },
    /// Switches it.
    Power {
        /// The machine.
        id: MachineId,
        /// On or off.
        on: bool,
    },
    /// Stores that a reboot was asked for, on the claim as it was read.
    Pend {
        /// What tells this request from the next.
        id: Box<str>,
        /// Whether the guest is not waited for.
        hard: bool,
    },
    /// Stops the machine for a reboot; it is started again because it is to be on.
    Restart {
        /// The machine.
        id: MachineId,
        /// Whether the guest is not waited for.
        hard: bool,
    },
    /// Takes the request for a reboot off the claim.
    Withdraw,
    /// Destroys a machine.
    Destroy {
        /// The machine.
        id: MachineId,
        /// For good, disks included.
        expunge: bool,
        /// Whether it goes because it could not be made.
        failed: bool,
    },
    /// Lets the claim go.
    Unfinalize,
    /// Tells people about something that no condition tells.
    Tell(Tell),
    /// Looks again at that time.
    Wait {
        /// When.
        until: Timestamp,
    },
}

impl Step {
    /// Whether it is done only for the claim as it is now: on old news a machine would be made for nobody, switched wrongly
    /// or stopped a second time. A claim that goes, goes.
    #[must_use]
    pub fn needs_news(&self) -> bool {
        match self {
            Self::Finalize | Self::Anchor | Self::Intend | Self::Create(_) => true,
            Self::Power { .. } | Self::Pend { .. } | Self::Restart { .. } | Self::Withdraw => true,
            Self::Tag { .. } | Self::Destroy { .. } | Self::Unfinalize | Self::Tell(_) | Self::Wait { .. } => false,
        }
    }

    /// Whether the claim's status may be told in the same pass: what was seen before the step is still true.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        match self {
            Self::Anchor | Self::Tag { .. } | Self::Power { .. } | Self::Destroy { .. } => true,
            Self::Restart { .. } | Self::Tell(_) | Self::Wait { .. } => true,
            Self::Finalize | Self::Intend | Self::Create(_) | Self::Pend { .. } => false,
            Self::Withdraw | Self::Unfinalize => false,
        }
    }
}

/// The plan for one claim.
#[must_use]
pub fn decide(s: &Snapshot) -> Vec<Step> {
    if s.paused || s.sight == Sight::Unasked {
        return Vec::new();
    }
    if s.claim.is_deleting() {
        return leave(s);
    }
    let mut plan: Vec<Step> =
        tell(s, Tell::SelectorIgnored).filter(|_| !s.claim.spec.host_selector.is_empty()).into_iter().collect();
    plan.extend(match (&s.sight, s.machine()) {
        (Sight::Seen(_), Some(machine)) => stay(s, machine),
        (Sight::Seen(_), None) => seek(s),
        (Sight::Blind(_) | Sight::Unasked, _) => vec![Step::Wait { until: s.retry }],
    });
    plan
}

/// Each thing is told once.
fn tell(s: &Snapshot, what: Tell) -> Option<Step> {
    (!s.told.contains(&what)).then_some(Step::Tell(what))
}

/// What has to be on the claim before anything outside is changed for it.
fn prepare(s: &Snapshot) -> Option<Step> {
    if !s.claim.has_finalizer() {
        return Some(Step::Finalize);
    }
    s.claim.annotation(BLOCK_MOVE_ANNOTATION).is_none().then_some(Step::Anchor)
}

/// A claim without a machine.
fn seek(s: &Snapshot) -> Vec<Step> {
    let wait = vec![Step::Wait { until: s.retry }];
    // Another machine would be a second one of the same identity: only a person, or the claim's end, helps.
    if s.is_lost() {
        return vec![Step::Wait { until: s.recheck }];
    }
    // What is on its way out has the name still.
    if !s.machines().is_empty() {
        if let Some(step) = prepare(s) {
            return vec![step];
        }
        let mut plan = destroy(s, false);
        plan.extend(wait);
        return plan;
    }
    let Some(Ok(order)) = &s.order else { return wait };
    if let Some(hold) = s.hold {
        return vec![Step::Wait { until: hold }];
    }
    if let Some(step) = prepare(s) {
        return vec![step];
    }
    let create = Step::Create(order.clone());
    if s.claim.has_trace() { vec![create] } else { vec![Step::Intend, create] }
}

/// A claim with a machine.
fn stay(s: &Snapshot, machine: &VirtualMachine) -> Vec<Step> {
    if let Some(step) = prepare(s) {
        return vec![step];
    }
    let extras: Vec<Step> = s.extras().map(|extra| gone(s, extra, false)).collect();
    if !extras.is_empty() {
        let mut plan: Vec<Step> = tell(s, Tell::DuplicateHealed).into_iter().collect();
        plan.extend(extras);
        return plan;
    }
    let wait = Step::Wait { until: s.retry };
    if s.is_failed(machine) {
        let going = s.under_way == Some(Act::Destroy);
        return if going { vec![wait] } else { vec![gone(s, machine, true), wait] };
    }
    if s.under_way.is_some() {
        return vec![wait];
    }
    if !machine.tags.contains_key(TAG) {
        return vec![Step::Tag { id: machine.id.clone() }, wait];
    }
    let (on, id) = (s.wants_power(), machine.id.clone());
    let asked = s.claim.annotation(REBOOT_ANNOTATION);
    let pending = s.claim.status.pending_reboot.as_ref().filter(|_| asked.is_some());
    match (&machine.state, pending) {
        // It was stopped for the reboot; being on again is what the claim says anyway.
        (MachineState::Stopped, Some(_)) => vec![Step::Withdraw],
        (MachineState::Running, Some(pending)) => {
            vec![Step::Restart { id, hard: pending.mode.as_deref() == Some("hard") }, wait]
        }
        (MachineState::Running, None) if !on => vec![Step::Power { id, on: false }, wait],
        (MachineState::Stopped, None) if on => vec![Step::Power { id, on: true }, wait],
        (MachineState::Running, None) => match asked {
            // The version of the claim that carries the request: no other request has it.
            Some(asked) => vec![Step::Pend { id: s.version.resource_version.clone(), hard: is_hard(asked) }],
            None => vec![Step::Wait { until: s.recheck }],
        },
        (MachineState::Stopped, None) => {
            let mut plan: Vec<Step> = asked.and_then(|_| tell(s, Tell::RebootDeferred)).into_iter().collect();
            plan.push(Step::Wait { until: s.recheck });
            plan
        }
        _ => vec![wait],
    }
}

/// Whether a tenant's words ask for a reboot that does not wait for the guest; words that make no sense do not.
fn is_hard(asked: &str) -> bool {
    let wish: serde_json::Value = serde_json::from_str(asked).unwrap_or_default();
    wish.get("mode").and_then(serde_json::Value::as_str) == Some("hard")
        || wish.get("force").and_then(serde_json::Value::as_bool) == Some(true)
}

/// Destroys a machine, for good unless the account may not do that.
fn gone(s: &Snapshot, machine: &VirtualMachine, failed: bool) -> Step {
    Step::Destroy { id: machine.id.clone(), expunge: may_expunge(s), failed }
}

fn may_expunge(s: &Snapshot) -> bool {
    !s.setback.is_some_and(|setback| setback.act == Act::Destroy && setback.kind == Some(Kind::NotPermitted))
}

/// Destroys whatever is not on its way out yet.
fn destroy(s: &Snapshot, failed: bool) -> Vec<Step> {
    if s.under_way == Some(Act::Destroy) {
        return Vec::new();
    }
    let due = |machine: &&VirtualMachine| match machine.state {
        MachineState::Expunging => false,
        // It is thrown away; what the account may not remove for good the server does in its own time.
        MachineState::Destroyed => may_expunge(s),
        _ => true,
    };
    s.machines().iter().filter(due).map(|machine| gone(s, machine, failed)).collect()
}

/// A claim that is being deleted: its machine goes, provably, and then the claim.
fn leave(s: &Snapshot) -> Vec<Step> {
    if is_moved(s) {
        return tell(s, Tell::LeftForMove).into_iter().chain([Step::Unfinalize]).collect();
    }
    let wait = Step::Wait { until: s.retry };
    match &s.sight {
        // What is about to be made is stored before: who has stored nothing has made nothing.
        Sight::Blind(obstacle) if obstacle.is_lasting() && !s.claim.has_trace() => vec![Step::Unfinalize],
        Sight::Blind(_) | Sight::Unasked => vec![wait],
        Sight::Seen(all) if all.is_empty() => match fence(s) {
            Some(until) => vec![Step::Wait { until }],
            None => vec![Step::Unfinalize],
        },
        Sight::Seen(_) => {
            let mut plan = destroy(s, false);
            plan.push(wait);
            plan
        }
    }
}

/// Whether the claim lives on in another cluster.
#[must_use]
pub fn is_moved(s: &Snapshot) -> bool {
    s.claim.annotation(DELETE_FOR_MOVE_ANNOTATION).is_some()
}

/// Until when a request to make the machine may still be on its way, although none is there.
#[must_use]
pub fn fence(s: &Snapshot) -> Option<Timestamp> {
    let intended = s.claim.has_trace() && s.claim.status.resource_id.is_none();
    let end = s.claim.deleted_at.filter(|_| intended)?.checked_add(FENCE).ok()?;
    (end > s.now).then_some(end)
}
