//! Power of the instance of a claim, and its reboots.
//!
//! A reboot is a stop and a start. EC2 knows a shorter way, whose only trace is its answer: after a lost one nobody could
//! tell whether the machine was rebooted. A stop and a start show how far they are, so that each happens once.

use std::time::Duration;

use aws::port::{Instance, InstanceState};

use super::{Step, Thought};
use crate::claim::Progress;
use crate::snapshot::Snapshot;

/// How soon an instance on its way is looked at.
const SOON: Duration = Duration::from_secs(5);

/// Adds what brings the power of a claim's instance to where the claim wants it.
pub(super) fn follow(s: &Snapshot, instance: &Instance, thought: &mut Thought) {
    let Some(claim) = &s.claim else { return };
    let wait = thought.steps.pop();
    let (on, state) = (claim.wants_power(), &instance.state);
    let (running, stopped) = (*state == InstanceState::Running, *state == InstanceState::Stopped);
    let reboot = |progress| Step::Reboot { progress };
    let next = match &claim.progress {
        // A machine that is to be off is not rebooted: it starts anew whenever it is wanted again.
        Some(_) if !on => Some(reboot(None)),
        Some(Progress::Stopping) if stopped => Some(reboot(Some(Progress::Starting))),
        Some(Progress::Stopping) if running => Some(power(instance, false)),
        Some(Progress::Starting) if stopped => Some(power(instance, true)),
        Some(Progress::Starting) if running => Some(reboot(None)),
        Some(_) => None,
        None if claim.asks_for_reboot && !on => Some(reboot(None)),
        None if claim.asks_for_reboot && running => Some(reboot(Some(Progress::Stopping))),
        None if on && stopped => Some(power(instance, true)),
        None if !on && running => Some(power(instance, false)),
        None => None,
    };
    let moving = !running && !stopped;
    match next {
        // What is stored about a reboot is stored alone.
        Some(step @ Step::Reboot { .. }) if thought.steps.iter().all(|step| step.doing().is_none()) => {
            thought.steps.retain(|step| !matches!(step, Step::Note { .. }));
            thought.steps.push(step);
        }
        // After what is under way.
        Some(Step::Reboot { .. }) => thought.steps.push(Step::Wait { until: Some(s.after(SOON)) }),
        Some(step) => {
            thought.steps.push(step);
            thought.steps.push(Step::Wait { until: Some(s.after(SOON)) });
        }
        None if moving => thought.steps.push(Step::Wait { until: Some(s.after(SOON)) }),
        None => thought.steps.extend(wait),
    }
}

fn power(instance: &Instance, on: bool) -> Step {
    Step::Power { instance: instance.id.clone(), on }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::tests::{claimed, names};

    #[test]
    fn power_follows_the_claim() {
        use InstanceState::{Pending, Running, Stopped, Stopping};
        let plan = |state, on: bool| names(&claimed(state, |claim| claim.spec.powered_on = Some(on)));
        assert_eq!(plan(Running, true), ["Wait"]);
        assert_eq!(plan(Running, false), ["Power", "Wait"]);
        assert_eq!(plan(Stopped, true), ["Power", "Wait"]);
        assert_eq!(plan(Stopped, false), ["Wait"]);
        for state in [Pending, Stopping] {
            assert_eq!(plan(state.clone(), true), ["Wait"]);
            assert_eq!(plan(state, false), ["Wait"]);
        }
        let held = claimed(Running, |claim| {
            claim.annotations.insert("reboot.metal3.io/key".to_owned(), String::new());
        });
        assert_eq!(names(&held), ["Power", "Wait"], "held off");
    }

    #[test]
    fn a_reboot_is_stored_before_the_stop_and_over_after_the_start() {
        use InstanceState::{Pending, Running, Stopped, Stopping};
        let plan = |state, progress| {
            let s = claimed(state, |claim| (claim.asks_for_reboot, claim.progress) = (true, progress));
            let next = crate::decide::think(&s).steps.into_iter().next().unwrap();
            names(&s);
            match next {
                Step::Reboot { progress } => progress.map_or("over", Progress::as_str),
                Step::Power { on: true, .. } => "start",
                Step::Power { on: false, .. } => "stop",
                _ => "wait",
            }
        };
        assert_eq!(plan(Running, None), "Stopping");
        assert_eq!(plan(Running, Some(Progress::Stopping)), "stop");
        assert_eq!(plan(Stopping, Some(Progress::Stopping)), "wait");
        assert_eq!(plan(Stopped, Some(Progress::Stopping)), "Starting");
        assert_eq!(plan(Stopped, Some(Progress::Starting)), "start");
        assert_eq!(plan(Pending, Some(Progress::Starting)), "wait");
        assert_eq!(plan(Running, Some(Progress::Starting)), "over");
        let off = claimed(Stopped, |claim| {
            (claim.asks_for_reboot, claim.spec.powered_on) = (true, Some(false));
        });
        assert_eq!(names(&off), ["Reboot"], "what is off starts anew anyway");
    }
}
