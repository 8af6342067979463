//! What is wrong with templates of data, with wishes for data, and with data.

use api::own::metal3::{Metal3DataClaimSpec, Metal3DataSpec, Metal3DataTemplateSpec, NamedRef};
use kit::field::{FieldError, FieldPath};

use super::machine::{foreign, template_faults};
use super::network;

fn root() -> FieldPath {
    FieldPath::new("spec")
}

/// Every fault of a template of data.
pub(super) fn faults_of_template(spec: &Metal3DataTemplateSpec) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let interfaces = spec.meta_data.iter().flat_map(|meta| &meta.from_host_interfaces).enumerate();
    let path = root().field("metaData").field("fromHostInterfaces");
    for (number, entry) in interfaces {
        let path = path.index(number).field("interface");
        let interface = entry.interface.as_deref().unwrap_or_default();
        match (entry.from_boot_mac.unwrap_or_default(), interface.is_empty()) {
            (false, true) => errors.push(FieldError::required(path, "must be given, unless fromBootMAC is true")),
            (true, false) => {
                errors.push(FieldError::invalid(path, interface, "must not be given when fromBootMAC is true"));
            }
            _ => {}
        }
    }
    if let Some(data) = &spec.network_data {
        errors.extend(network::faults(&root().field("networkData"), data));
    }
    errors
}

/// Changes of a template of data that are not allowed: machines that have their data would not get the new one.
pub(super) fn template_changes(old: &Metal3DataTemplateSpec, new: &Metal3DataTemplateSpec) -> Vec<FieldError> {
    let changed = [("metaData", old.meta_data != new.meta_data), ("networkData", old.network_data != new.network_data)];
    let changed = changed.into_iter().filter(|(_, changed)| *changed);
    changed.map(|(field, _)| fixed(field, "create another Metal3DataTemplate")).collect()
}

fn fixed(field: &str, instead: &str) -> FieldError {
    FieldError::forbidden(root().field(field), format!("cannot be changed; {instead}"))
}

/// Every fault of a wish for data, and of its change.
pub(super) fn claim_faults(
    new: &Metal3DataClaimSpec,
    old: Option<&Metal3DataClaimSpec>,
    namespace: &str,
) -> Vec<FieldError> {
    let path = root().field("template");
    let changed = old.filter(|old| !same(&old.template, &new.template));
    let change = changed.map(|_| fixed("template", "create another Metal3DataClaim"));
    change.into_iter().chain(template_faults(&path, &new.template, namespace)).collect()
}

/// Every fault of data.
pub(super) fn faults(name: &str, spec: &Metal3DataSpec, namespace: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let template = &spec.template;
    let wanted = crate::data::names::data(&template.name, spec.index);
    if !template.name.is_empty() && !name.is_empty() && name != wanted {
        let path = FieldPath::new("metadata").field("name");
        errors.push(FieldError::invalid(path, name, format!("must be template and index, {wanted:?}")));
    }
    if spec.index < 0 {
        errors.push(FieldError::invalid(root().field("index"), &spec.index.to_string(), "must not be negative"));
    }
    errors.extend(foreign(&root().field("template"), template, namespace));
    errors
}

/// Changes of data that are not allowed.
pub(super) fn changes(old: &Metal3DataSpec, new: &Metal3DataSpec) -> Vec<FieldError> {
    let changed = [
        ("index", old.index != new.index),
        ("template", !same(&old.template, &new.template)),
        ("claim", !same(&old.claim, &new.claim)),
    ];
    let changed = changed.into_iter().filter(|(_, changed)| *changed);
    changed.map(|(field, _)| fixed(field, "data belongs to one machine")).collect()
}

/// Whether two references name the same; an empty namespace and none are the same.
fn same(one: &NamedRef, other: &NamedRef) -> bool {
    let namespace = |reference: &NamedRef| reference.namespace.clone().filter(|name| !name.is_empty());
    one.name == other.name && namespace(one) == namespace(other)
}
