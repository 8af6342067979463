//! What is filled into and what is wrong with the spec of a machine, alone or in a template.

use std::collections::BTreeSet;

use api::names::DnsLabel;
use api::own::BAREMETAL;
use api::own::metal3::{MachineImage, Metal3MachineSpec, NamedRef};
use api::selector::Operator;
use kit::admission::claimed::{image_faults, secret_faults, selector_faults};
use kit::field::{FaultKind, FieldError, FieldPath};

/// The most arguments that a claim takes.
const ARGUMENTS: usize = 64;
/// The longest name of an argument.
const ARGUMENT_NAME: usize = 63;
/// The longest argument.
const ARGUMENT: usize = 4096;

/// Whether a spec stands alone or in a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    Machine,
    Template,
}

impl Of {
    /// Where the spec is.
    pub(super) fn root(self) -> FieldPath {
        match self {
            Self::Machine => FieldPath::new("spec"),
            Self::Template => FieldPath::new("spec").field("template").field("spec"),
        }
    }
}

/// Brings the operators of a machine that runs on a claim into the spelling that claims store.
pub(super) fn fill(spec: &mut Metal3MachineSpec) {
    if spec.kind.is_none() {
        return;
    }
    for requirement in &mut spec.host_selector.match_expressions {
        if let Some(operator) = Operator::read(&requirement.operator) {
            requirement.operator = operator.as_str().to_owned();
        }
    }
}

/// Every fault of a spec: by the rules of claims if it runs on one of this kind, else by those of the provider for Metal3.
pub(super) fn faults(spec: &Metal3MachineSpec, kind: Option<&str>, namespace: &str, of: Of) -> Vec<FieldError> {
    let root = of.root();
    match kind {
        Some(kind) => faults_on_claim(spec, kind, namespace, &root),
        None => faults_on_host(spec, &root),
    }
}

fn faults_on_host(spec: &Metal3MachineSpec, root: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if !spec.args.is_empty() {
        errors.push(FieldError::forbidden(root.field("args"), "needs a kind, which says what the arguments mean"));
    }
    if spec.custom_deploy.as_ref().is_none_or(|deploy| deploy.method.is_empty()) {
        match &spec.image {
            Some(image) => errors.extend(plain_image_faults(&root.field("image"), image)),
            None => errors.push(FieldError::required(root.field("image"), "either image or customDeploy is required")),
        }
    }
    errors
}

/// What the provider for Metal3 finds wrong with an image.
fn plain_image_faults(path: &FieldPath, image: &MachineImage) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if image.url.is_empty() {
        errors.push(FieldError::required(path.field("url"), "cannot be empty"));
    } else if !is_url(&image.url) {
        errors.push(FieldError::invalid(path.field("url"), &image.url, "is not a valid url"));
    }
    let checksum = image.checksum.as_deref().unwrap_or_default();
    let fetched = checksum.starts_with("http://") || checksum.starts_with("https://");
    let oci = image.url.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case("oci://"));
    if image.disk_format.as_deref() == Some("live-iso") {
        return errors;
    }
    if checksum.is_empty() && !oci {
        errors.push(FieldError::required(path.field("checksum"), "cannot be empty"));
    } else if fetched && !is_url(checksum) {
        errors.push(FieldError::invalid(path.field("checksum"), checksum, "is not a valid url"));
    }
    errors
}

/// Whether a text is a url or an absolute path, by its form alone.
fn is_url(text: &str) -> bool {
    let scheme = text.split_once(':').map_or("", |(scheme, _)| scheme);
    let lettered = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    (lettered || text.starts_with('/')) && !text.chars().any(|c| c.is_ascii_control())
}

fn faults_on_claim(spec: &Metal3MachineSpec, kind: &str, namespace: &str, root: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if kind.parse::<DnsLabel>().is_err() {
        let detail = "is not the name of a HostClaimKind: small letters, digits and dashes, at most 63";
        errors.push(FieldError::invalid(root.field("kind"), kind, detail));
    }
    errors.extend(argument_faults(spec, &root.field("args")));
    errors.extend(selector_faults(&root.field("hostSelector"), &spec.host_selector));
    // The older version cannot leave the image out, and stores an empty one where none is meant.
    let image = spec.image.as_ref().filter(|image| spec.custom_deploy.is_none() || !image.url.is_empty());
    if let Some(image) = image {
        errors.extend(image_faults(&root.field("image"), &image.for_claim()));
    }
    if let Some(deploy) = &spec.custom_deploy {
        let path = root.field("customDeploy");
        if image.is_some() {
            errors.push(FieldError::forbidden(path.clone(), "must not be given together with image"));
        }
        if deploy.method.is_empty() {
            errors.push(FieldError::required(path.field("method"), "must name a deploy method"));
        }
    }
    if kind == BAREMETAL && spec.image.is_none() && spec.custom_deploy.is_none() {
        errors.push(FieldError::required(root.field("image"), "either image or customDeploy is required"));
    }
    let secrets = [("userData", &spec.user_data), ("networkData", &spec.network_data), ("metaData", &spec.meta_data)];
    for (field, secret) in secrets {
        let faults = secret.iter().flat_map(|secret| secret_faults(&root.field(field), secret, namespace, "machine"));
        errors.extend(faults);
    }
    if spec.failure_domain.as_deref() == Some("") {
        errors.push(FieldError::required(root.field("failureDomain"), "must not be empty; leave it out instead"));
    }
    let template = spec.data_template.iter();
    errors.extend(template.flat_map(|it| template_faults(&root.field("dataTemplate"), it, namespace)));
    errors.extend(domain_faults(spec, namespace, &root.field("failureDomainDataTemplates")));
    errors
}

fn argument_faults(spec: &Metal3MachineSpec, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if spec.args.len() > ARGUMENTS {
        let detail = format!("must not have more than {ARGUMENTS} entries");
        errors.push(FieldError::with(path.clone(), FaultKind::TooMany, detail));
    }
    for (name, value) in &spec.args {
        if name.is_empty() || name.chars().count() > ARGUMENT_NAME {
            let detail = format!("must have a name of 1 to {ARGUMENT_NAME} characters");
            errors.push(FieldError::with(path.key(name), FaultKind::Invalid, detail));
        }
        if value.chars().count() > ARGUMENT {
            let detail = format!("must not have more than {ARGUMENT} characters");
            errors.push(FieldError::with(path.key(name), FaultKind::TooLong, detail));
        }
    }
    errors
}

/// What is wrong with a reference to a data template.
pub(super) fn template_faults(path: &FieldPath, template: &NamedRef, namespace: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if template.name.is_empty() {
        errors.push(FieldError::required(path.field("name"), "must name a Metal3DataTemplate"));
    }
    errors.extend(foreign(path, template, namespace));
    errors
}

/// A reference into another namespace.
pub(super) fn foreign(path: &FieldPath, reference: &NamedRef, namespace: &str) -> Option<FieldError> {
    let other = reference.namespace.as_deref().filter(|given| !given.is_empty() && *given != namespace)?;
    let detail = "is another namespace; templates of other namespaces are never read";
    Some(FieldError::invalid(path.field("namespace"), other, detail))
}

fn domain_faults(spec: &Metal3MachineSpec, namespace: &str, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut seen = BTreeSet::new();
    for (number, entry) in spec.failure_domain_data_templates.iter().enumerate() {
        let path = path.index(number);
        let domain = entry.failure_domain.as_str();
        if domain.is_empty() {
            errors.push(FieldError::required(path.field("failureDomain"), "must name a failure domain"));
        } else if !seen.insert(domain) {
            let detail = "stands in the list already";
            errors.push(FieldError::with(path.field("failureDomain"), FaultKind::Duplicate, detail).showing(domain));
        }
        errors.extend(template_faults(&path.field("dataTemplate"), &entry.data_template, namespace));
    }
    errors
}

/// What is written although it has no effect on a host that is taken directly.
pub(super) fn warnings(spec: &Metal3MachineSpec, of: Of) -> Vec<String> {
    if spec.kind.is_some() {
        return Vec::new();
    }
    let root = of.root();
    let written = [
        ("hostSelector.inNamespace", spec.host_selector.in_namespace.is_some()),
        ("failureDomainDataTemplates", !spec.failure_domain_data_templates.is_empty()),
    ];
    let written = written.into_iter().filter(|(_, given)| *given);
    written.map(|(field, _)| format!("{root}.{field}: has an effect only on machines that run on a claim")).collect()
}
