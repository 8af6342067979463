//! What must hold of any plan for a data claim.

use kit::room::Violation;

use super::decide::Step;
use super::observe::Snapshot;

/// Nothing is made without our finalizer and a stored number; nothing but data of this claim is deleted; the finalizer stays
/// while data is there.
///
/// # Errors
/// The rule that is broken.
pub fn guard(s: &Snapshot, plan: &[Step]) -> Result<(), Violation> {
    for step in plan {
        match step {
            Step::Make { index } if !s.claim.is_kept() || s.intent() != Some(*index) => {
                return Err(Violation::new("data is made only with the number that the claim's status names"));
            }
            Step::Make { .. } if s.claim.head.deleting || !s.datas.is_empty() => {
                return Err(Violation::new("a claim has one data at most"));
            }
            Step::Drop { data, uid } => {
                let ours = s.datas.iter().any(|(key, found)| key == data && found.head.uid == *uid);
                if !ours {
                    return Err(Violation::new("only data of the claim is deleted"));
                }
            }
            Step::Unfinalize if !s.claim.head.deleting || !s.datas.is_empty() => {
                return Err(Violation::new("the finalizer stays while the claim is needed or has data"));
            }
            Step::Finalize | Step::Make { .. } | Step::Unfinalize => {}
        }
        if s.paused {
            return Err(Violation::new("nothing is done while paused"));
        }
    }
    Ok(())
}
