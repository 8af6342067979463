//! Which tags a machine may ask for.

use std::collections::{BTreeMap, BTreeSet};

use api::names::hosts::{MOST_TAGS, RESERVED_TAG_PREFIXES};
use api::own::AWSMachineSpec;
use kit::field::{FaultKind, FieldError, FieldPath};

/// Start of the keys by which hosts are known and their end is decided.
const OWN_PREFIX: &str = "hosts.berth.dev/";
const LONGEST_KEY: usize = 128;
const LONGEST_VALUE: usize = 256;

/// Every fault of the tags of a machine and of its hosts.
pub(super) fn faults(spec: &AWSMachineSpec, root: &FieldPath) -> Vec<FieldError> {
    let machine = root.field("additionalTags");
    let mut errors = map_faults(&spec.additional_tags, &machine);
    // Other reserved keys are in use by people and left out of what is applied; these would order what we do.
    for key in spec.additional_tags.keys().filter(|key| key.starts_with(OWN_PREFIX)) {
        errors.push(FieldError::forbidden(machine.key(key), format!("starts with {OWN_PREFIX:?}, which is reserved")));
    }
    let Some(hosts) = &spec.dynamic_host_allocation else { return errors };
    let path = root.field("dynamicHostAllocation").field("tags");
    errors.extend(map_faults(&hosts.tags, &path));
    for key in hosts.tags.keys() {
        if let Some(prefix) = RESERVED_TAG_PREFIXES.iter().find(|prefix| key.starts_with(**prefix)) {
            errors.push(FieldError::forbidden(path.key(key), format!("starts with {prefix:?}, which is reserved")));
        }
    }
    let merged: BTreeSet<&String> = spec.additional_tags.keys().chain(hosts.tags.keys()).collect();
    let each_fits = spec.additional_tags.len() <= MOST_TAGS && hosts.tags.len() <= MOST_TAGS;
    if each_fits && merged.len() > MOST_TAGS {
        let why = format!("are {} together with additionalTags; EC2 takes {MOST_TAGS}", merged.len());
        errors.push(FieldError::with(path, FaultKind::TooMany, why));
    }
    errors
}

/// Whether EC2 takes this for a tag of a host, and it is nobody's business but a user's.
pub(crate) fn is_free(key: &str, value: &str) -> bool {
    let reserved = RESERVED_TAG_PREFIXES.iter().any(|prefix| key.starts_with(prefix)) || crate::tags::is_ours(key);
    !reserved && key_fault(key).is_none() && value_fault(value).is_none()
}

fn map_faults(tags: &BTreeMap<String, String>, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if tags.len() > MOST_TAGS {
        let why = format!("are {}; EC2 takes {MOST_TAGS}", tags.len());
        errors.push(FieldError::with(path.clone(), FaultKind::TooMany, why));
    }
    for (key, value) in tags {
        errors.extend(key_fault(key).map(|why| FieldError::invalid(path.clone(), key, why)));
        errors.extend(value_fault(value).map(|why| FieldError::invalid(path.key(key), value, why)));
    }
    errors
}

fn key_fault(key: &str) -> Option<String> {
    if key.is_empty() {
        return Some("is no key: it must not be empty".to_owned());
    }
    if key.chars().count() > LONGEST_KEY {
        return Some(format!("has more than {LONGEST_KEY} characters"));
    }
    // EC2 compares this prefix without regard to case.
    if key.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("aws:")) {
        return Some("starts with \"aws:\", which is reserved for AWS".to_owned());
    }
    charset_fault(key)
}

fn value_fault(value: &str) -> Option<String> {
    if value.chars().count() > LONGEST_VALUE {
        return Some(format!("has more than {LONGEST_VALUE} characters"));
    }
    charset_fault(value)
}

fn charset_fault(text: &str) -> Option<String> {
    let odd = text.chars().find(|c| !(c.is_alphanumeric() || " _.:/=+-@".contains(*c)))?;
    Some(format!("holds {odd:?}; tags are made of letters, digits, blanks and _ . : / = + - @"))
}
