//! What must hold of any plan about a machine.

use api::own::BAREMETAL;
use kit::room::Violation;

use super::decide::Step;
use super::snapshot::{Snapshot, Whose};

fn must(holds: bool, rule: &'static str) -> Result<(), Violation> {
    if holds { Ok(()) } else { Err(Violation::new(rule)) }
}

/// Refuses a plan that breaks a rule.
///
/// # Errors
/// The rule.
pub fn guard(s: &Snapshot, plan: &[Step]) -> Result<(), Violation> {
    let acts = plan.iter().any(|step| !matches!(step, Step::Wait { .. }));
    if !acts {
        return Ok(());
    }
    let (machine, claimed) = (&s.machine, s.claimed());
    must(s.kind.is_some(), "a machine that takes its host directly is not touched")?;
    let going = machine.deleting && s.is_moved();
    must(s.paused().is_none() || going, "nothing is done while the machine is paused")?;
    // What an earlier step of the same plan stores is there: a plan ends where one of its steps fails.
    let mut stored = false;
    for step in plan {
        let gives_back = matches!(
            step,
            Step::Regroup { .. } | Step::Release | Step::ReleaseData | Step::Conclude | Step::Wait { .. }
        );
        must(machine.deleting == gives_back || matches!(step, Step::Wait { .. }), "only what goes gives back")?;
        let secured = stored || matches!(step, Step::Secure | Step::Wait { .. }) || machine.has_finalizer();
        must(secured, "the finalizer is stored before anything else is done")?;
        match step {
            Step::Claim { spec } => {
                let noted = stored || s.is_noted();
                must(claimed.is_none() && noted, "a claim is made once, and the machine says so before")?;
                must(!machine.was_provisioned(), "a machine that ran gets no second host")?;
                let reserves = spec.image.is_none() && !spec.wants_power();
                must(reserves || spec.kind != BAREMETAL, "a new claim on a host only reserves it")?;
                let told = spec.user_data.is_some() || reserves;
                must(told, "what is made for a machine is told from the start what it is")?;
            }
            Step::Adopt => must(matches!(claimed, Some((_, Whose::Lost))), "a claim of somebody else is not adopted")?,
            Step::AskData { .. } => must(s.data_claim.is_none(), "data is asked for once")?,
            Step::Fill { .. } | Step::Publish { .. } | Step::NameNode { .. } | Step::Label { .. } => {
                must(matches!(claimed, Some((_, Whose::Ours))), "only the machine's own claim is gone by")?;
            }
            Step::Regroup { .. } | Step::Release => {
                must(s.own_claim().is_some(), "only the machine's own claim is given back")?;
            }
            Step::ReleaseData => {
                must(s.own_claim().is_none(), "data is kept until the host is given back")?;
                must(s.own_data_claim().is_some(), "only the machine's own data is given back")?;
            }
            Step::Conclude => {
                let empty = s.own_claim().is_none() && s.own_data_claim().is_none();
                must(empty || going, "a machine goes when nothing of it is left")?;
            }
            Step::Secure => stored = true,
            Step::Wait { .. } => {}
        }
        match step {
            Step::Publish { .. } => {
                let free = machine.spec.provider_id.as_deref().unwrap_or_default().is_empty();
                must(free, "a provider id is never changed")?;
            }
            Step::NameNode { node, .. } => {
                must(node.provider_id.is_none(), "the provider id of a Node is never changed")?;
            }
            _ => {}
        }
    }
    Ok(())
}
