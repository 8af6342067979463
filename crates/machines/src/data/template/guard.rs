//! What must hold of any plan for a template.

use kit::room::Violation;

use super::decide::Step;
use super::observe::Snapshot;

/// A template that somebody has a number of stays.
///
/// # Errors
/// The rule that is broken.
pub fn guard(s: &Snapshot, plan: &[Step]) -> Result<(), Violation> {
    if s.paused && !plan.is_empty() {
        return Err(Violation::new("nothing is done while paused"));
    }
    if plan.contains(&Step::Unfinalize) && (s.needed || !s.template.head.deleting) {
        return Err(Violation::new("the finalizer stays while the template is needed"));
    }
    Ok(())
}
