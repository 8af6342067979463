//! Thinks: the next step of one claim.

use api::names::claims::REBOOT_ANNOTATION;
use jiff::Timestamp;

use super::cloud::{Machine, Order, Phase};
use super::room::Snapshot;
use super::{Fake, Flaw};

/// One effect, or a wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Stores the finalizer.
    Finalize,
    /// Makes the machine.
    Create(Order),
    /// Switches it.
    Power { id: String, on: bool },
    /// Writes down that a reboot was asked for.
    Pend { request: String },
    /// Reboots it.
    Reboot { id: String, request: String },
    /// Takes the request off the claim.
    Withdraw,
    /// Tells that it cannot be rebooted.
    Decline,
    /// Destroys it.
    Destroy { id: String },
    /// Lets the claim go.
    Unfinalize,
    /// Looks again later.
    Wait { until: Timestamp },
}

/// What keeps a claim from getting a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Block {
    /// The Secret with the credentials is not in the claim's namespace.
    Credentials,
    /// The image cannot be deployed.
    Image,
    /// The data cannot be carried.
    Data,
    /// A Secret is not there yet.
    Secret(&'static str),
    /// There is no such failure domain.
    Zone,
    /// A quota leaves no room.
    Quota,
}

/// The plan.
pub fn decide(s: &Snapshot) -> Vec<Step> {
    let flawed = |flaw: Flaw| s.fake.flaw == Some(flaw);
    let wait = Step::Wait { until: s.retry };
    if s.paused && !flawed(Flaw::IgnoresPause) {
        return vec![wait];
    }
    let Ok(machine) = &s.machine else {
        return if s.has_finalizer() || s.claim.deleting { vec![wait] } else { vec![Step::Finalize, wait] };
    };
    if s.claim.deleting {
        return leave(s, machine.as_ref());
    }
    if !s.has_finalizer() && !flawed(Flaw::ActsBeforeFinalizer) {
        return vec![Step::Finalize];
    }
    let Some(machine) = machine else {
        return match &s.order {
            Ok(order) => vec![Step::Create(order.clone())],
            Err(_) => vec![wait],
        };
    };
    if !s.has_finalizer() {
        return vec![Step::Finalize];
    }
    if machine.phase != Phase::Running {
        return vec![wait];
    }
    let mut plan = Vec::new();
    let on = s.claim.spec.wants_power();
    if machine.powered != on && !s.fake.modest && !flawed(Flaw::IgnoresPower) {
        plan.push(Step::Power { id: machine.id.clone(), on });
    }
    plan.extend(reboot(s, machine));
    if flawed(Flaw::Polls) || s.order.is_err() {
        plan.push(wait);
    }
    plan
}

fn reboot(s: &Snapshot, machine: &Machine) -> Vec<Step> {
    if !s.claim.annotations.contains_key(REBOOT_ANNOTATION) {
        return Vec::new();
    }
    if s.fake.modest {
        return vec![Step::Decline, Step::Withdraw];
    }
    let id = machine.id.clone();
    if s.fake.flaw == Some(Flaw::RebootsAgain) {
        return vec![Step::Reboot { id, request: String::new() }, Step::Withdraw];
    }
    match &s.claim.status.pending_reboot {
        None => vec![Step::Pend { request: s.version.resource_version.to_string() }],
        Some(pending) if machine.last_reboot.as_ref() == Some(&pending.id) => vec![Step::Withdraw],
        Some(pending) => vec![Step::Reboot { id, request: pending.id.clone() }, Step::Withdraw],
    }
}

fn leave(s: &Snapshot, machine: Option<&Machine>) -> Vec<Step> {
    if !s.has_finalizer() {
        return Vec::new();
    }
    match (machine, s.fake) {
        (_, Fake { flaw: Some(Flaw::LeaksOnDelete), .. }) | (None, _) => vec![Step::Unfinalize],
        (Some(machine), Fake { flaw: Some(Flaw::LetsGoEarly), .. }) => {
            vec![Step::Destroy { id: machine.id.clone() }, Step::Unfinalize]
        }
        (Some(machine), _) if machine.phase == Phase::Destroying => vec![Step::Wait { until: s.retry }],
        (Some(machine), _) => vec![Step::Destroy { id: machine.id.clone() }, Step::Wait { until: s.soon }],
    }
}
