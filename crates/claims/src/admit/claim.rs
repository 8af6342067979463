//! What is wrong with a claim, whatever it was before.

use api::names::claims::{DETACHED_ANNOTATION, HELD_REBOOTS, REBOOT_ANNOTATION, REBOOT_PREFIX};
use api::own::{BAREMETAL, Capability, HostClaim, HostClaimSpec};
use claim_kind::terms::{Listing, Terms};
use kit::admission::claimed::{image_faults, secret_faults, selector_faults};
use kit::field::{FaultKind, FieldError, FieldPath};
use serde_json::Value;

/// Every fault of a claim's spec that can be seen from itself and its namespace.
pub(super) fn faults(spec: &HostClaimSpec, namespace: &str) -> Vec<FieldError> {
    let root = FieldPath::new("spec");
    let mut errors = Vec::new();
    match (spec.powered_on, spec.online) {
        (None, None) => {
            errors.push(FieldError::required(root.field("poweredOn"), "must be true or false"));
        }
        (Some(powered_on), Some(online)) if powered_on != online => {
            let detail = format!("is an older name of poweredOn and must not differ from it, which is {powered_on}");
            errors.push(FieldError::invalid(root.field("online"), &online.to_string(), detail));
        }
        _ => {}
    }
    errors.extend(selector_faults(&root.field("hostSelector"), &spec.host_selector));
    if let Some(image) = &spec.image {
        errors.extend(image_faults(&root.field("image"), image));
    }
    if let Some(deploy) = &spec.custom_deploy {
        let path = root.field("customDeploy");
        if spec.image.is_some() {
            errors.push(FieldError::forbidden(path.clone(), "must not be given together with image"));
        }
        if deploy.method.is_empty() {
            errors.push(FieldError::required(path.field("method"), "must name a deploy method"));
        }
    }
    let secrets = [("userData", &spec.user_data), ("networkData", &spec.network_data), ("metaData", &spec.meta_data)];
    for (field, secret) in secrets {
        errors.extend(secret.iter().flat_map(|secret| secret_faults(&root.field(field), secret, namespace, "claim")));
    }
    for (field, text) in [("failureDomain", &spec.failure_domain), ("nodeReuse", &spec.node_reuse)] {
        if text.as_deref() == Some("") {
            errors.push(FieldError::required(root.field(field), "must not be empty; leave it out instead"));
        }
    }
    errors
}

/// What is wrong with the annotations that ask for something, as far as they are new.
pub(super) fn annotation_faults(new: &HostClaim, old: Option<&HostClaim>) -> Vec<FieldError> {
    let before = |key: &str| old.and_then(|old| old.metadata.annotations.as_ref()?.get(key));
    let path = FieldPath::new("metadata").field("annotations");
    let mut errors = Vec::new();
    for (key, value) in new.metadata.annotations.iter().flatten() {
        if value.is_empty() || before(key) == Some(value) {
            continue;
        }
        let problem = if key == REBOOT_ANNOTATION || key.starts_with(REBOOT_PREFIX) {
            reboot_problem(value)
        } else if key == DETACHED_ANNOTATION {
            let object = serde_json::from_str::<Value>(value).is_ok_and(|value| value.is_object());
            (!object).then_some("must be empty or a JSON object")
        } else {
            None
        };
        errors.extend(problem.map(|problem| FieldError::invalid(path.key(key), value, problem)));
    }
    let held = |claim: &HostClaim| {
        let keys = claim.metadata.annotations.iter().flatten();
        keys.filter(|(key, _)| key.starts_with(REBOOT_PREFIX)).count()
    };
    if held(new) > HELD_REBOOTS && held(new) > old.map_or(0, held) {
        let detail = format!("must not have more than {HELD_REBOOTS} keys that begin with {REBOOT_PREFIX}");
        errors.push(FieldError::with(path, FaultKind::TooMany, detail));
    }
    errors
}

fn reboot_problem(value: &str) -> Option<&'static str> {
    let Ok(Value::Object(fields)) = serde_json::from_str(value) else {
        return Some("must be empty or a JSON object like {\"mode\":\"hard\"}");
    };
    match fields.get("mode") {
        None => {}
        Some(Value::String(mode)) if mode.is_empty() || mode == "hard" || mode == "soft" => {}
        Some(_) => return Some("has a mode that is neither \"hard\" nor \"soft\""),
    }
    match fields.get("force") {
        None | Some(Value::Bool(_)) => None,
        Some(_) => Some("has a force that is neither true nor false"),
    }
}

/// What is wrong with the kind and its arguments, as far as the registry knows.
pub(super) fn kind_faults(spec: &HostClaimSpec, listing: &Listing) -> Vec<FieldError> {
    let root = FieldPath::new("spec");
    let args = root.field("args");
    match listing {
        Listing::Listed(terms) => terms.faults(&args, &spec.args),
        // Berth itself serves baremetal, listed or not, and its claims have no arguments.
        Listing::Silent | Listing::Missing if spec.kind == BAREMETAL => Terms::default().faults(&args, &spec.args),
        Listing::Missing => {
            let detail = "is not one of the cluster's HostClaimKinds";
            vec![FieldError::with(root.field("kind"), FaultKind::NotSupported, detail).showing(&spec.kind)]
        }
        Listing::Silent => Vec::new(),
    }
}

/// What the claim asks for although its kind cannot do it.
pub(super) fn unused(spec: &HostClaimSpec, listing: &Listing) -> Vec<String> {
    let Listing::Listed(terms) = listing else { return Vec::new() };
    let asked = [
        ("spec.hostSelector", Capability::Selector, !spec.host_selector.is_empty()),
        ("spec.failureDomain", Capability::FailureDomain, spec.failure_domain.is_some()),
        ("spec.nodeReuse", Capability::NodeReuse, spec.node_reuse.is_some()),
        ("spec.image", Capability::Image, spec.image.is_some()),
        ("spec.customDeploy", Capability::CustomDeploy, spec.custom_deploy.is_some()),
        ("spec.userData", Capability::UserData, spec.user_data.is_some()),
        ("spec.networkData", Capability::NetworkData, spec.network_data.is_some()),
        ("spec.metaData", Capability::MetaData, spec.meta_data.is_some()),
    ];
    let unused = asked.into_iter().filter(|(_, capability, given)| *given && !terms.can(*capability));
    unused.map(|(field, ..)| format!("{field}: claims of the kind {} do not use it", spec.kind)).collect()
}
