//! What is wrong with policies and quotas.

use api::names::DnsLabel;
use api::own::{HostClaimNamespaces, HostClaimQuotaSpec, HostDeployPolicySpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kit::field::{FaultKind, FieldError, FieldPath};
use kit::pattern::pattern;
use kit::urls::Place;

use crate::labels::{Selector, key_problem, value_problem};

/// Every fault of a policy's spec.
pub(super) fn faults(spec: &HostDeployPolicySpec) -> Vec<FieldError> {
    let root = FieldPath::new("spec");
    let mut errors = Vec::new();
    if let Some(namespaces) = &spec.host_claim_namespaces {
        errors.extend(namespace_faults(&root.field("hostClaimNamespaces"), namespaces));
    }
    if let Some(selector) = &spec.host_selector {
        errors.extend(selector_faults(&root.field("hostSelector"), selector));
    }
    let copy = root.field("metadataCopy");
    let patterns = [
        (root.field("selectableLabels"), &spec.selectable_labels),
        (copy.field("labelsMatch"), &spec.metadata_copy.as_ref().and_then(|copy| copy.labels_match.clone())),
        (copy.field("annotationsMatch"), &spec.metadata_copy.as_ref().and_then(|copy| copy.annotations_match.clone())),
    ];
    for (path, text) in patterns {
        errors.extend(text.as_deref().and_then(|text| pattern_fault(path, text)));
    }
    if let Some(most) = spec.max_hosts.filter(|most| *most < 0) {
        errors.push(FieldError::invalid(root.field("maxHosts"), &most.to_string(), "must not be negative"));
    }
    for (number, prefix) in spec.image_url_prefixes.iter().enumerate().filter(|(_, prefix)| prefix.is_empty()) {
        let path = root.field("imageURLPrefixes").index(number);
        errors.push(FieldError::invalid(path, prefix, "must not be empty: every url starts with it"));
    }
    errors
}

fn namespace_faults(path: &FieldPath, namespaces: &HostClaimNamespaces) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let Some(text) = namespaces.name_matches.as_deref() {
        errors.extend(pattern_fault(path.field("nameMatches"), text));
    }
    for (number, label) in namespaces.has_labels.iter().enumerate() {
        let path = path.field("hasLabels").index(number);
        if let Some(problem) = key_problem(&label.name) {
            errors.push(FieldError::invalid(path.field("name"), &label.name, problem));
        }
        if let Some((value, problem)) = label.value.as_deref().and_then(|value| Some((value, value_problem(value)?))) {
            errors.push(FieldError::invalid(path.field("value"), value, problem));
        }
    }
    errors
}

fn pattern_fault(path: FieldPath, text: &str) -> Option<FieldError> {
    pattern(text).err().map(|problem| FieldError::invalid(path, text, problem))
}

fn selector_faults(path: &FieldPath, selector: &LabelSelector) -> Vec<FieldError> {
    let faults = Selector::of_labels(selector).err().into_iter().flatten();
    faults.map(|fault| FieldError::with(path.field(&fault.path), FaultKind::Invalid, fault.problem)).collect()
}

/// What a policy opens that its writer may not have meant to open, and what it can never open.
pub(super) fn warnings(spec: &HostDeployPolicySpec) -> Vec<String> {
    let mut warnings = Vec::new();
    let namespaces = spec.host_claim_namespaces.as_ref();
    if let Some(text) = namespaces.and_then(|namespaces| namespaces.name_matches.as_deref())
        && !is_anchored(text)
    {
        warnings.push(format!(
            "spec.hostClaimNamespaces.nameMatches: the pattern also matches in the middle of a name, as in \
             \"not-prod-2\" for \"prod\"; write ^(?:{text})$ to match whole names"
        ));
    }
    let names = namespaces.and_then(|namespaces| namespaces.names.as_ref()).into_iter().flatten().enumerate();
    for (number, name) in names.filter(|(_, name)| name.parse::<DnsLabel>().is_err()) {
        warnings.push(format!("spec.hostClaimNamespaces.names[{number}]: no namespace can be called {name:?}"));
    }
    for (number, prefix) in spec.image_url_prefixes.iter().enumerate() {
        let path = format!("spec.imageURLPrefixes[{number}]");
        match Place::image(prefix) {
            Err(_) if prefix.ends_with("://") => {}
            Err(fault) => warnings.push(format!("{path}: no image begins with it: {fault}")),
            Ok(place) if place.has_path() && !prefix.ends_with('/') => warnings.push(format!(
                "{path}: {prefix:?} also allows what lies beside it under names that begin like this; end it with /"
            )),
            Ok(_) => {}
        }
    }
    warnings
}

/// Whether a pattern is bound to both ends of the text, in every alternative.
fn is_anchored(text: &str) -> bool {
    let (mut depth, mut class, mut escaped) = (0_i32, false, false);
    let mut alternatives = vec![String::new()];
    for c in text.chars() {
        let plain = !escaped && !class;
        escaped = c == '\\' && !escaped;
        match c {
            '(' if plain => depth += 1,
            ')' if plain => depth -= 1,
            '[' if plain => class = true,
            ']' if class && !escaped => class = false,
            '|' if plain && depth == 0 => {
                alternatives.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(last) = alternatives.last_mut() {
            last.push(c);
        }
    }
    let bound = |part: &String| {
        let end = part.strip_suffix('$').or_else(|| part.strip_suffix("\\z"));
        let escapes = end.map_or(0, |end| end.chars().rev().take_while(|c| *c == '\\').count());
        (part.starts_with('^') || part.starts_with("\\A")) && end.is_some() && escapes.is_multiple_of(2)
    };
    alternatives.iter().all(bound)
}

/// Every fault of a quota's spec.
pub(super) fn quota_faults(spec: &HostClaimQuotaSpec) -> Vec<FieldError> {
    let root = FieldPath::new("spec");
    let tenants = root.field("tenants");
    let mut errors = Vec::new();
    if spec.tenants.names.is_empty() && spec.tenants.namespace_selector.is_none() {
        errors.push(FieldError::required(tenants.clone(), "must have names or a namespaceSelector"));
    }
    let selectors = [
        (tenants.field("namespaceSelector"), &spec.tenants.namespace_selector),
        (root.field("hostSelector"), &spec.host_selector),
    ];
    for (path, selector) in selectors {
        errors.extend(selector.iter().flat_map(|selector| selector_faults(&path, selector)));
    }
    let names =
        [(tenants.field("names"), &spec.tenants.names), (root.field("infraNamespaces"), &spec.infra_namespaces)];
    for (path, names) in names {
        let odd = names.iter().enumerate().filter(|(_, name)| name.parse::<DnsLabel>().is_err());
        errors.extend(odd.map(|(n, name)| FieldError::invalid(path.index(n), name, "is not the name of a namespace")));
    }
    if spec.hard.hosts < 0 {
        let path = root.field("hard").field("hosts");
        errors.push(FieldError::invalid(path, &spec.hard.hosts.to_string(), "must not be negative"));
    }
    errors
}
