//! What must hold of any plan for a treatment.

use kit::room::Violation;

use super::decide::{Phase, Step, is_held_off, phase};
use super::observe::Snapshot;

/// A Node is touched only while its host is surely off; it is deleted only after it was stored; a host is blamed only after the
/// last try; our finalizer goes last.
///
/// # Errors
/// The rule that is broken.
pub fn guard(s: &Snapshot, plan: &[Step]) -> Result<(), Violation> {
    let off = s.claim.as_ref().is_some_and(|(claim, _)| claim.on == Some(false)) && is_held_off(s);
    for step in plan {
        match step {
            Step::Wait { until } if *until <= s.now => return Err(Violation::new("a wait must end after now")),
            Step::Wait { .. } => {}
            _ if s.paused => return Err(Violation::new("nothing is done while paused")),
            Step::DeleteNode | Step::Taint if !off => {
                return Err(Violation::new("a Node is taken out of service only while its host is kept off"));
            }
            Step::DeleteNode if !s.remediation.has_backup() => {
                return Err(Violation::new("a Node is stored before it is deleted"));
            }
            Step::PowerOff if phase(s) != Some(Phase::Running) || !s.remediation.is_kept() => {
                return Err(Violation::new("a host is switched off only by a treatment that runs and is kept"));
            }
            Step::HandOver | Step::Blame if phase(s) != Some(Phase::Waiting) => {
                return Err(Violation::new("a machine is given up only after its last try"));
            }
            Step::Forget if is_held_off(s) => {
                return Err(Violation::new("the finalizer stays while the host is kept off"));
            }
            _ => {}
        }
    }
    Ok(())
}
