//! What must hold of any plan.

use kit::room::Violation;

use crate::decide::{Gate, Step, gate};
use crate::manifest::word;
use crate::snapshot::{Belongs, Snapshot};

/// Kinds of which nobody may change an object once it is there.
const TEMPLATES: [&str; 2] = ["CloudStackMachineTemplate", "KubeadmConfigTemplate"];

/// Refuses a plan that changes a template, makes something of a cluster that is to be left alone or says that it cannot be
/// made, or lets a cluster go of which something is left.
///
/// # Errors
/// The rule that the plan breaks.
pub fn guard(s: &Snapshot, plan: &[Step]) -> Result<(), Violation> {
    let gate = gate(s);
    // The status of one that is carried out already may be cleared beside what is set back.
    let told = gate == Gate::Work && s.tells_failure();
    for (number, step) in plan.iter().enumerate() {
        if told && matches!(step, Step::Apply { .. } | Step::Create { .. } | Step::Enter { .. }) {
            return Err(Violation::new("nothing is made for a cluster that says it cannot be"));
        }
        match step {
            Step::Apply { object, .. } => {
                if !matches!(gate, Gate::Work | Gate::Converged) {
                    return Err(Violation::new("objects are written for clusters that are carried out, and no others"));
                }
                if TEMPLATES.contains(&word(object, "/kind")) {
                    return Err(Violation::new("a template is made or left, never changed"));
                }
                is_inside(s, word(object, "/metadata/namespace"))?;
            }
            Step::Create { object } => {
                if !matches!(gate, Gate::Work | Gate::Converged) || !TEMPLATES.contains(&word(object, "/kind")) {
                    return Err(Violation::new("only templates of clusters that are carried out are made"));
                }
                is_inside(s, word(object, "/metadata/namespace"))?;
            }
            Step::Delete { targets, .. } => {
                for target in targets {
                    is_inside(s, target.key.namespace().unwrap_or_default())?;
                    if target.uid.is_empty() {
                        return Err(Violation::new("only what was seen is deleted"));
                    }
                    if target.kind.kind == "Cluster" {
                        return Err(Violation::new("a cluster is deleted by the end of its Cluster alone"));
                    }
                }
            }
            Step::Dissolve { target } => {
                let left = s.leftovers.as_ref();
                let proven = left.and_then(|left| left.proof);
                let ours = matches!(proven, Some(Belongs::Labelled | Belongs::Proven));
                let seen = left.and_then(|left| left.capi.as_ref()).is_some_and(|(seen, _)| seen == target);
                if gate != Gate::Delete || target.uid.is_empty() || !ours || !seen {
                    return Err(Violation::new("a cluster is deleted by the end of its own Cluster alone"));
                }
            }
            Step::Release => {
                let gone = s.leftovers.as_ref().is_some_and(|left| left.capi.is_none());
                if gate != Gate::Delete || !(gone || s.cluster.is_self_managed()) {
                    return Err(Violation::new("the finalizer stays while there is a cluster"));
                }
            }
            Step::Enter { .. } | Step::Leave { .. } if !matches!(gate, Gate::Work | Gate::Converged) => {
                return Err(Violation::new("nobody enters a cluster that is not carried out"));
            }
            Step::Look | Step::Wait { .. } | Step::Fail { .. } if number + 1 < plan.len() => {
                return Err(Violation::new("nothing follows the end of a plan"));
            }
            _ => {}
        }
    }
    Ok(())
}

fn is_inside(s: &Snapshot, namespace: &str) -> Result<(), Violation> {
    if namespace == s.config.system_namespace() {
        return Ok(());
    }
    Err(Violation::new("generated objects are in the system's namespace"))
}
