//! What must hold of any plan about a Metal3Cluster.

use kit::room::Violation;

use super::decide::{Step, is_ours};
use super::observe::Snapshot;

/// Refuses a plan that breaks a rule.
///
/// # Errors
/// The rule.
pub fn guard(s: &Snapshot, plan: &[Step]) -> Result<(), Violation> {
    for step in plan.iter().filter(|step| **step != Step::Wait) {
        if !is_ours(s) {
            return Err(Violation::new("what somebody else looks after is not touched"));
        }
        let going = *step == Step::Conclude && s.is_moved();
        if s.is_paused() && !going {
            return Err(Violation::new("nothing is done while the cluster is paused"));
        }
        if *step == Step::Conclude && !(s.place.deleting && (s.machines == 0 || going)) {
            return Err(Violation::new("a Metal3Cluster goes after its machines"));
        }
    }
    Ok(())
}
