//! What must hold of any plan, whatever `decide` thinks.

use kit::room::Violation;

use super::decide::{Step, fence, is_moved};
use super::observe::{MachineId, Sight, Snapshot, is_ours};

/// Nothing outside changes before our finalizer is stored, or while the claim is paused; a machine is made once, under the
/// claim's own name, after that was stored; only a machine of the claim is changed; one that runs for the claim is not
/// destroyed; a finalizer goes last, when nothing is left.
///
/// # Errors
/// The rule that is broken.
pub fn guard(s: &Snapshot, plan: &[Step]) -> Result<(), Violation> {
    let rule = |holds: bool, words: &str| if holds { Ok(()) } else { Err(Violation::new(words)) };
    rule(!s.paused || plan.is_empty(), "a paused claim is left alone")?;
    let ours = |id: &MachineId| {
        s.machines().iter().find(|machine| machine.id == *id && is_ours(machine, &s.name, &s.claim.uid))
    };
    let deleting = s.claim.is_deleting();
    let mut intended = s.claim.has_trace();
    for (number, step) in plan.iter().enumerate() {
        if !matches!(step, Step::Finalize | Step::Tell(_) | Step::Wait { .. }) {
            rule(s.claim.has_finalizer(), "an effect needs a stored finalizer")?;
        }
        match step {
            Step::Intend => intended = true,
            Step::Create(order) => {
                rule(!deleting, "no machine is made for a claim that is being deleted")?;
                rule(intended, "a machine is intended before it is made")?;
                let none = matches!(&s.sight, Sight::Seen(all) if all.is_empty());
                rule(none && !s.is_lost(), "a claim with a machine gets no other")?;
                rule(order.name == s.name, "a machine has the name that its claim gives it")?;
            }
            Step::Tag { id } | Step::Power { id, .. } | Step::Restart { id, .. } => {
                rule(ours(id).is_some(), "only a machine of the claim is changed")?;
                rule(!deleting, "a machine is not driven for a claim that is being deleted")?;
            }
            Step::Destroy { id, .. } => {
                let Some(machine) = ours(id) else {
                    return Err(Violation::new("only a machine of the claim is destroyed"));
                };
                let extra = s.machine().is_some_and(|kept| kept.id != machine.id);
                let spent = machine.state.is_going() || s.is_failed(machine);
                rule(deleting || extra || spent, "a machine that serves its claim is not destroyed")?;
            }
            Step::Unfinalize => {
                rule(number + 1 == plan.len(), "the finalizer goes last")?;
                let nothing = match &s.sight {
                    Sight::Seen(all) => all.is_empty() && fence(s).is_none(),
                    Sight::Blind(obstacle) => obstacle.is_lasting() && !s.claim.has_trace(),
                    Sight::Unasked => false,
                };
                rule(deleting && (nothing || is_moved(s)), "the finalizer goes when no machine is left")?;
            }
            Step::Finalize | Step::Anchor => rule(!deleting, "a claim that is being deleted is not prepared")?,
            Step::Pend { .. } | Step::Withdraw | Step::Tell(_) | Step::Wait { .. } => {}
        }
    }
    Ok(())
}
