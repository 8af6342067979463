//! What may change after creation.

use api::own::metal3::Metal3MachineSpec;
use kit::field::{FieldError, FieldPath};
use serde_json::Value;

use super::machine::{Of, fill};

/// Changes of a machine that are not allowed.
pub(super) fn of_machine(old: &Metal3MachineSpec, new: &Metal3MachineSpec) -> Vec<FieldError> {
    if old.kind == new.kind {
        return Vec::new();
    }
    vec![kind_fault(&Of::Machine.root(), old)]
}

fn kind_fault(root: &FieldPath, old: &Metal3MachineSpec) -> FieldError {
    let was = old.kind.as_deref().map_or_else(|| "absent".to_owned(), |kind| format!("{kind:?}"));
    let detail =
        format!("cannot be changed, it was {was}: migration between kinds is a new machine from a new template");
    FieldError::forbidden(root.field("kind"), detail)
}

/// Changes of a template that are not allowed, where it names a kind or did so before.
pub(super) fn of_template(old: &Metal3MachineSpec, new: &Metal3MachineSpec) -> Vec<FieldError> {
    let root = Of::Template.root();
    let mut errors = Vec::new();
    if old.kind != new.kind {
        errors.push(kind_fault(&root, old));
    }
    let (mut before, mut after) = (old.clone(), new.clone());
    after.kind.clone_from(&before.kind);
    fill(&mut before);
    fill(&mut after);
    if before != after {
        let fields = changed(&before, &after).join(", ");
        let detail = format!(
            "{fields} cannot be changed: machines of this template are not changed with it; create another template"
        );
        errors.push(FieldError::forbidden(root, detail));
    }
    errors
}

/// The names of the fields that differ.
fn changed(old: &Metal3MachineSpec, new: &Metal3MachineSpec) -> Vec<String> {
    let fields = |spec: &Metal3MachineSpec| match serde_json::to_value(spec) {
        Ok(Value::Object(fields)) => fields,
        _ => serde_json::Map::new(),
    };
    let (old, new) = (fields(old), fields(new));
    let mut names: Vec<String> =
        old.keys().chain(new.keys()).filter(|name| old.get(*name) != new.get(*name)).cloned().collect();
    names.sort();
    names.dedup();
    names
}

/// Changes of a machine that its claim takes only while it can.
pub(super) fn warnings(old: &Metal3MachineSpec, new: &Metal3MachineSpec) -> Vec<String> {
    if new.kind.is_none() {
        return Vec::new();
    }
    let changed = [
        ("spec.args", old.args != new.args),
        ("spec.hostSelector", old.host_selector != new.host_selector),
        ("spec.failureDomain", old.failure_domain != new.failure_domain),
    ];
    let changed = changed.into_iter().filter(|(_, changed)| *changed);
    changed.map(|(field, _)| format!("{field}: the change counts only while the claim has no machine yet")).collect()
}
