//! What is wrong with a claim, whatever it was before.

use api::names::DnsLabel;
use api::names::claims::{DETACHED_ANNOTATION, REBOOT_ANNOTATION, REBOOT_PREFIX};
use api::own::{BAREMETAL, Capability, HostClaim, HostClaimSpec, HostImage, SecretReference};
use claim_kind::terms::{Listing, Terms};
use kit::field::{FaultKind, FieldError, FieldPath};
use serde_json::Value;

use crate::labels::Selector;

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
    if let Err(found) = Selector::read(&spec.host_selector) {
        let selector = root.field("hostSelector");
        errors.extend(
            found
                .into_iter()
                .map(|fault| FieldError::with(selector.field(&fault.path), FaultKind::Invalid, fault.problem)),
        );
    }
    if let Some(wanted) = spec.host_selector.in_namespace.as_deref().filter(|name| !name.is_empty())
        && wanted.parse::<DnsLabel>().is_err()
    {
        let path = root.field("hostSelector").field("inNamespace");
        errors.push(FieldError::invalid(path, wanted, "is not the name of a namespace"));
    }
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
        errors.extend(secret.iter().flat_map(|secret| secret_faults(&root.field(field), secret, namespace)));
    }
    for (field, text) in [("failureDomain", &spec.failure_domain), ("nodeReuse", &spec.node_reuse)] {
        if text.as_deref() == Some("") {
            errors.push(FieldError::required(root.field(field), "must not be empty; leave it out instead"));
        }
    }
    errors
}

fn secret_faults(path: &FieldPath, secret: &SecretReference, namespace: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if secret.name.as_deref().is_none_or(str::is_empty) {
        errors.push(FieldError::required(path.field("name"), "must name a Secret"));
    }
    let other = |given: &&str| !given.is_empty() && *given != namespace;
    if let Some(other) = secret.namespace.as_deref().filter(other) {
        let detail = "is not the namespace of the claim; Secrets of other namespaces are never read";
        errors.push(FieldError::invalid(path.field("namespace"), other, detail));
    }
    errors
}

const CHECKSUM_TYPES: [&str; 4] = ["md5", "sha256", "sha512", "auto"];

fn image_faults(path: &FieldPath, image: &HostImage) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let scheme = image_scheme(&image.url);
    if scheme.is_none() {
        let detail = "must be an absolute url with the scheme http, https or oci";
        errors.push(FieldError::invalid(path.field("url"), &image.url, detail));
    }
    let checksum = image.checksum.as_deref().unwrap_or_default();
    match scheme {
        Some(Scheme::Oci) if !checksum.is_empty() => {
            let detail = "must not be given for oci, whose names carry their own";
            errors.push(FieldError::forbidden(path.field("checksum"), detail));
        }
        Some(Scheme::Http) if checksum.is_empty() && image.format.as_deref() != Some("live-iso") => {
            let detail = "must be given, unless the format is live-iso or the scheme of the url is oci";
            errors.push(FieldError::required(path.field("checksum"), detail));
        }
        _ => {}
    }
    if let Some(type_) = image.checksum_type.as_deref().filter(|type_| !CHECKSUM_TYPES.contains(type_)) {
        let detail = "must be md5, sha256, sha512 or auto";
        let error = FieldError::with(path.field("checksumType"), FaultKind::NotSupported, detail);
        errors.push(error.showing(type_));
    }
    errors
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheme {
    Http,
    Oci,
}

/// How an image is fetched; `None` for what is no absolute url of a scheme that claims may use.
fn image_scheme(url: &str) -> Option<Scheme> {
    let (scheme, rest) = url.split_once("://")?;
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let odd = |c: char| c.is_whitespace() || c.is_control();
    if host.is_empty() || url.contains(odd) {
        return None;
    }
    match scheme.to_ascii_lowercase().as_str() {
        "http" | "https" => Some(Scheme::Http),
        "oci" => Some(Scheme::Oci),
        _ => None,
    }
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
