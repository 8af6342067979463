//! What may change after creation.

use api::own::AWSMachineSpec;
use kit::field::{FieldError, FieldPath};
use serde_json::Value;

use super::{Of, fill};

/// Changes of a machine that are not allowed.
pub(super) fn of_machine(old: &AWSMachineSpec, new: &AWSMachineSpec) -> Vec<FieldError> {
    let changeable = "additionalTags, additionalSecurityGroups, dynamicHostAllocation.autoRelease and .tags";
    let why =
        |fields: &str| format!("{fields} cannot be changed; of a machine only {changeable} can; create another one");
    fault(&Of::Machine.root(), frozen(old), frozen(new), why)
}

/// Changes of a template that are not allowed.
pub(super) fn of_template(old: &AWSMachineSpec, new: &AWSMachineSpec) -> Vec<FieldError> {
    let (mut old, mut new) = (old.clone(), new.clone());
    if old.instance_metadata_options.is_none() {
        old.instance_metadata_options.clone_from(&new.instance_metadata_options);
    }
    fill(&mut old);
    fill(&mut new);
    let why = |fields: &str| {
        format!(
            "{fields} cannot be changed: machines of this template are not changed with it; create another template"
        )
    };
    fault(&Of::Template.root(), old, new, why)
}

fn fault(path: &FieldPath, old: AWSMachineSpec, new: AWSMachineSpec, why: impl Fn(&str) -> String) -> Vec<FieldError> {
    if old == new {
        return Vec::new();
    }
    vec![FieldError::forbidden(path.clone(), why(&changed(&old, &new).join(", ")))]
}

/// The names of the fields that differ.
fn changed(old: &AWSMachineSpec, new: &AWSMachineSpec) -> Vec<String> {
    let fields = |spec: &AWSMachineSpec| match serde_json::to_value(spec) {
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

/// The spec without what may change. What admission fills in and what is left out are the same.
fn frozen(spec: &AWSMachineSpec) -> AWSMachineSpec {
    let mut spec = AWSMachineSpec {
        provider_id: None,
        instance_id: None,
        additional_tags: Default::default(),
        additional_security_groups: Vec::new(),
        ..spec.clone()
    };
    fill(&mut spec);
    if let Some(init) = &mut spec.cloud_init {
        init.secret_prefix = None;
        init.secret_count = None;
        init.secure_secrets_backend = None;
    }
    if let Some(name) = &mut spec.private_dns_name {
        name.enable_resource_name_dns_a_record = None;
        name.enable_resource_name_dns_aaaa_record = None;
    }
    if let Some(hosts) = &mut spec.dynamic_host_allocation {
        hosts.auto_release = None;
        hosts.tags.clear();
    }
    spec.cloud_init = spec.cloud_init.filter(|init| *init != Default::default());
    spec.private_dns_name = spec.private_dns_name.filter(|name| *name != Default::default());
    spec
}
