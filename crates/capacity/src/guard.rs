//! What must hold of any plan.

use api::names::CAPACITY_PREFIX;
use kit::room::Violation;

use crate::decide::{Snapshot, Standing, Step};
use crate::names::{self, DOMAIN};
use crate::record::Record;

/// Refuses a plan that writes anything but our keys, touches a key that is not ours at present, or acts on a group that
/// is to be left alone.
///
/// # Errors
/// The rule that the plan breaks.
pub fn guard(s: &Snapshot, plan: &[Step]) -> Result<(), Violation> {
    let mut writes = 0;
    for (number, step) in plan.iter().enumerate() {
        match step {
            Step::Annotate(plan) => {
                writes += 1;
                if !matches!(s.standing, Standing::Known { .. }) {
                    return Err(Violation::new("a group whose capacity is not known is not written"));
                }
                if plan.is_empty() {
                    return Err(Violation::new("nothing changed, so nothing is written"));
                }
                for (key, value) in &plan.changes {
                    check(s, key, value.as_deref())?;
                }
            }
            Step::Wait { .. } if number + 1 < plan.len() => {
                return Err(Violation::new("a wait ends a plan"));
            }
            Step::Describe(status) => {
                if !s.config.template_status || !matches!(s.standing, Standing::Known { .. }) {
                    return Err(Violation::new("templates are described where that is asked for, by what is known"));
                }
                if status.architecture.is_some() != status.operating_system.is_some() {
                    return Err(Violation::new("half of what is said of a node is worse than nothing"));
                }
            }
            Step::Tell { .. } | Step::Yield { .. } | Step::Wait { .. } => {}
        }
    }
    if writes > 1 {
        return Err(Violation::new("all keys change in one request"));
    }
    if matches!(s.standing, Standing::Skipped(_)) && !plan.is_empty() {
        return Err(Violation::new("a group that is left alone is left alone"));
    }
    Ok(())
}

fn check(s: &Snapshot, key: &str, value: Option<&str>) -> Result<(), Violation> {
    const FIXED: [&str; 3] = [names::LEGACY_CPU, names::LEGACY_MEMORY, names::LEGACY_GPU];
    let ours = FIXED.contains(&key)
        || key == names::LEGACY_MAX_PODS
        || key.starts_with(DOMAIN)
        || key.starts_with(CAPACITY_PREFIX);
    // Taints and limits of volumes are a user's, unless a flag asks for them; what was written for it goes with the flag.
    let users = || {
        let asked = match key {
            names::TAINTS => s.config.propagate_taints,
            _ => !s.config.csi_limits.is_empty(),
        };
        let recorded = || Record::parse(s.group.annotation(names::APPLIED)).values.contains_key(key);
        names::BY_FLAG.contains(&key) && !asked && !(value.is_none() && recorded())
    };
    if !ours || key == names::SKIP || users() {
        return Err(Violation::new(format!("the annotation {key} is not ours")));
    }
    if s.group.declared.contains(key) || s.memory.holds(key, s.now) {
        return Err(Violation::new(format!("the annotation {key} is somebody else's at present")));
    }
    if FIXED.contains(&key) && value.and_then(crate::quantity::count).is_none() {
        return Err(Violation::new(format!("the annotation {key} must be a whole number")));
    }
    if key == names::LABELS && value.is_none() {
        return Err(Violation::new("labels are merged, never taken off"));
    }
    Ok(())
}
