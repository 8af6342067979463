//! Keys and values of labels and taints, judged in the words of Kubernetes.

use std::collections::BTreeMap;

use api::names::DnsSubdomain;
use api::own::anywhere::Taint;
use kit::field::{FaultKind, FieldError, FieldPath};

const NAME: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                    alphanumeric character";
const VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and \
                     must start and end with an alphanumeric character";
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// What is wrong with labels of nodes.
pub(super) fn label_faults(path: &FieldPath, labels: &BTreeMap<String, String>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (key, value) in labels {
        let problems = key_problem(key).into_iter().chain(value_problem(value));
        errors.extend(problems.map(|problem| FieldError::with(path.key(key), FaultKind::Invalid, problem)));
    }
    errors
}

/// What is wrong with taints of nodes.
pub(super) fn taint_faults(path: &FieldPath, taints: &[Taint]) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (number, taint) in taints.iter().enumerate() {
        let at = path.index(number);
        let wrong = |field: &str, problem| FieldError::with(at.field(field), FaultKind::Invalid, problem);
        errors.extend(key_problem(&taint.key).map(|problem| wrong("key", problem)));
        errors.extend(value_problem(&taint.value).map(|problem| wrong("value", problem)));
        if !EFFECTS.contains(&taint.effect.as_str()) {
            let detail = format!("supported values: {}", EFFECTS.map(|effect| format!("{effect:?}")).join(", "));
            errors.push(FieldError::with(at.field("effect"), FaultKind::NotSupported, detail));
        }
        let same = |other: &&Taint| (&other.key, &other.effect) == (&taint.key, &taint.effect);
        if taints.iter().take(number).any(|other| same(&other)) {
            errors.push(FieldError::with(at, FaultKind::Duplicate, "taints must be unique by key and effect pair"));
        }
    }
    errors
}

fn key_problem(key: &str) -> Option<&'static str> {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    match prefix {
        Some("") => return Some("prefix part must be non-empty"),
        Some(prefix) if prefix.parse::<DnsSubdomain>().is_err() => {
            return Some(
                "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.'",
            );
        }
        _ => {}
    }
    match name {
        "" => Some("name part must be non-empty"),
        name if name.len() > 63 => Some("name part must be no more than 63 bytes"),
        name => (!is_label_text(name)).then_some(NAME),
    }
}

fn value_problem(value: &str) -> Option<&'static str> {
    if value.len() > 63 {
        return Some("must be no more than 63 bytes");
    }
    // CloudStack's provider puts the zone in its place, so it is literal here.
    (!value.is_empty() && !is_label_text(value)).then_some(VALUE)
}

fn is_label_text(text: &str) -> bool {
    let ends = |c: char| c.is_ascii_alphanumeric();
    text.starts_with(ends)
        && text.ends_with(ends)
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
}
