//! What must hold of any plan for data.

use kit::room::Violation;

use super::decide::Step;
use super::observe::Snapshot;

/// Nothing is made without our finalizer; a document is stored only where there is none; addresses go back only with the
/// data, and the finalizer only after them.
///
/// # Errors
/// The rule that is broken.
pub fn guard(s: &Snapshot, plan: &[Step]) -> Result<(), Violation> {
    let parting = s.data.head.deleting;
    for step in plan {
        if s.paused {
            return Err(Violation::new("nothing is done while paused"));
        }
        match step {
            Step::Wish { .. } | Step::Write { .. } | Step::Refer { .. } if parting || !s.data.is_kept() => {
                return Err(Violation::new("nothing is made for data that is going or not ours"));
            }
            Step::Write { .. } if s.bound().is_none() => {
                return Err(Violation::new("nothing is rendered before the machine has its host"));
            }
            Step::Release { .. } | Step::Unfinalize if !parting => {
                return Err(Violation::new("addresses stay while the data stays"));
            }
            Step::Unfinalize if !s.leases.is_empty() => {
                return Err(Violation::new("the finalizer stays until every address is back"));
            }
            Step::Finalize
            | Step::Refer { .. }
            | Step::Wish { .. }
            | Step::Write { .. }
            | Step::Release { .. }
            | Step::Unfinalize => {}
        }
    }
    Ok(())
}
