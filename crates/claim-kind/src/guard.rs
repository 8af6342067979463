//! What must hold of any plan, whatever `decide` thinks.

use kit::room::Violation;

use crate::decide::Step;
use crate::observe::Snapshot;
use crate::{SKEW, STALE};

/// A wait lies ahead of us, and never so far that a dead controller goes unnoticed.
///
/// # Errors
/// The rule that is broken.
pub fn guard(snapshot: &Snapshot, plan: &[Step]) -> Result<(), Violation> {
    for Step::Wait { until } in plan {
        if *until <= snapshot.now {
            return Err(Violation::new("a wait must end after now"));
        }
        if snapshot.now.checked_add(STALE + SKEW).is_ok_and(|limit| *until > limit) {
            return Err(Violation::new("a wait must end before a dead controller could go unnoticed"));
        }
    }
    Ok(())
}
