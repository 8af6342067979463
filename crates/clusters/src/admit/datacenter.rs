//! What is wrong with a CloudStackDatacenterConfig, and what may not change in one.

use std::collections::BTreeMap;

use api::names::DnsSubdomain;
use api::own::anywhere::{AvailabilityZone, CloudStackDatacenterConfigSpec};
use kit::field::{FaultKind, FieldError, FieldPath};

use super::defaults::LEGACY_ZONE;

/// Every fault of a datacenter that can be seen from itself.
pub(super) fn faults(spec: &CloudStackDatacenterConfigSpec) -> Vec<FieldError> {
    let root = FieldPath::new("spec");
    let legacy = [
        ("zones", !spec.zones.is_empty()),
        ("domain", !spec.domain.is_empty()),
        ("account", !spec.account.is_empty()),
        ("managementApiEndpoint", !spec.management_api_endpoint.is_empty()),
    ];
    let legacy = legacy.into_iter().filter(|(_, given)| *given);
    let mut errors: Vec<FieldError> =
        legacy.map(|(field, _)| FieldError::forbidden(root.field(field), "use availabilityZones")).collect();
    let path = root.field("availabilityZones");
    if spec.availability_zones.is_empty() {
        errors.push(FieldError::required(path.clone(), "at least one"));
    }
    for (number, zone) in spec.availability_zones.iter().enumerate() {
        errors.extend(zone_faults(&path.index(number), zone));
        if spec.availability_zones.iter().take(number).any(|other| other.name == zone.name) {
            errors.push(FieldError::with(path.index(number).field("name"), FaultKind::Duplicate, "duplicate name"));
        }
    }
    errors
}

fn zone_faults(path: &FieldPath, zone: &AvailabilityZone) -> Vec<FieldError> {
    let mut errors = Vec::new();
    // It becomes the name of an object and the value of a label.
    if zone.name.len() > 63 || zone.name.parse::<DnsSubdomain>().is_err() {
        let detail = "must be a lower-case DNS name of at most 63 characters";
        errors.push(FieldError::with(path.field("name"), FaultKind::Invalid, detail));
    }
    if !is_http_url(&zone.management_api_endpoint) {
        let detail = "not an http(s) URL";
        errors.push(FieldError::with(path.field("managementApiEndpoint"), FaultKind::Invalid, detail));
    }
    let at = path.field("zone");
    if zone.zone.id.is_empty() && zone.zone.name.is_empty() {
        errors.push(FieldError::required(at.clone(), "set id or name"));
    }
    if zone.zone.network.is_empty() {
        errors.push(FieldError::required(at.field("network"), "set id or name"));
    }
    if zone.credentials_ref.is_empty() {
        errors.push(FieldError::required(path.field("credentialsRef"), "required"));
    } else if zone.credentials_ref.parse::<DnsSubdomain>().is_err() {
        let detail = "not the name of a Secret";
        errors.push(FieldError::with(path.field("credentialsRef"), FaultKind::Invalid, detail));
    }
    if zone.domain.is_empty() {
        if !zone.account.is_empty() {
            errors.push(FieldError::required(path.field("domain"), "domain required with account"));
        }
    } else if !is_domain_path(&zone.domain) {
        errors.push(FieldError::with(path.field("domain"), FaultKind::Invalid, "not a domain path"));
    }
    errors
}

/// The host of an absolute url of http or https.
#[must_use]
pub(crate) fn url_host(text: &str) -> Option<&str> {
    let (scheme, rest) = text.split_once("://")?;
    if !matches!(scheme.to_ascii_lowercase().as_str(), "http" | "https") {
        return None;
    }
    let authority = rest.split(['/', '?', '#']).next()?;
    let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    let port = match port.strip_prefix(':') {
        Some("") => true,
        Some(digits) => digits.bytes().all(|b| b.is_ascii_digit()) && digits.parse::<u16>().is_ok_and(|port| port != 0),
        None => port.is_empty(),
    };
    let odd = |c: char| c.is_whitespace() || c.is_control();
    (port && !host.is_empty() && !text.contains(odd)).then_some(host)
}

fn is_http_url(text: &str) -> bool {
    url_host(text).is_some()
}

/// A path below the root domain, which may itself be named once, in front.
fn is_domain_path(text: &str) -> bool {
    let below = text.strip_prefix("ROOT/").unwrap_or(text);
    let twice = below != text && below.split('/').next() == Some("ROOT");
    !twice && below.split('/').all(|part| !part.is_empty())
}

/// The changes that are not allowed.
pub(super) fn change_faults(
    old: &CloudStackDatacenterConfigSpec,
    new: &CloudStackDatacenterConfigSpec,
) -> Vec<FieldError> {
    let (before, after) = (&old.availability_zones, &new.availability_zones);
    if before.is_empty() || gets_ids(before, after) {
        return Vec::new();
    }
    let path = FieldPath::new("spec").field("availabilityZones");
    let known: BTreeMap<&str, &AvailabilityZone> = before.iter().map(|zone| (zone.name.as_str(), zone)).collect();
    let mut errors = Vec::new();
    let mut kept = 0;
    for (number, zone) in after.iter().enumerate() {
        let Some(old) = known.get(zone.name.as_str()) else { continue };
        kept += 1;
        if *old != zone {
            let detail = format!("availability zone {} is immutable", zone.name);
            errors.push(FieldError::forbidden(path.index(number), detail));
        }
    }
    if kept == 0 && !after.is_empty() {
        errors.push(FieldError::forbidden(path, "keep at least one existing availability zone"));
    }
    errors
}

/// Whether zones that were written in the older way get the names they have in generated objects.
fn gets_ids(before: &[AvailabilityZone], after: &[AvailabilityZone]) -> bool {
    before.len() == after.len()
        && before.iter().all(|zone| zone.name.starts_with(LEGACY_ZONE))
        && after.iter().all(|zone| is_uuid_v4(&zone.name))
}

fn is_uuid_v4(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let hex = |part: &&str| part.bytes().all(|b| b.is_ascii_hexdigit() && !b.is_ascii_uppercase());
    let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
    lengths == [8, 4, 4, 4, 12]
        && parts.iter().all(hex)
        && parts.get(2).is_some_and(|part| part.starts_with('4'))
        && parts.get(3).is_some_and(|part| part.starts_with(['8', '9', 'a', 'b']))
}
