//! Faults of what claims, and those who make claims, have in common: which hosts fit, what is deployed, which Secrets.

use api::names::DnsLabel;
use api::own::{HostImage, HostSelector, SecretReference};
use api::selector::Selector;

use crate::field::{FaultKind, FieldError, FieldPath};
use crate::urls::{Place, is_fetched};

/// What is wrong with a selector of hosts.
#[must_use]
pub fn selector_faults(path: &FieldPath, selector: &HostSelector) -> Vec<FieldError> {
    let found = Selector::read(selector).err().unwrap_or_default().into_iter();
    let mut errors: Vec<FieldError> =
        found.map(|fault| FieldError::with(path.field(&fault.path), FaultKind::Invalid, fault.problem)).collect();
    if let Some(wanted) = selector.in_namespace.as_deref().filter(|name| !name.is_empty())
        && wanted.parse::<DnsLabel>().is_err()
    {
        errors.push(FieldError::invalid(path.field("inNamespace"), wanted, "is not the name of a namespace"));
    }
    errors
}

/// What is wrong with a reference to a Secret that only an object in this namespace may read.
#[must_use]
pub fn secret_faults(path: &FieldPath, secret: &SecretReference, namespace: &str, whose: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if secret.name.as_deref().is_none_or(str::is_empty) {
        errors.push(FieldError::required(path.field("name"), "must name a Secret"));
    }
    let other = |given: &&str| !given.is_empty() && *given != namespace;
    if let Some(other) = secret.namespace.as_deref().filter(other) {
        let detail = format!("is not the namespace of the {whose}; Secrets of other namespaces are never read");
        errors.push(FieldError::invalid(path.field("namespace"), other, detail));
    }
    errors
}

const CHECKSUM_TYPES: [&str; 4] = ["md5", "sha256", "sha512", "auto"];

/// What is wrong with an image that is to be deployed on somebody else's host.
#[must_use]
pub fn image_faults(path: &FieldPath, image: &HostImage) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let oci = match Place::image(&image.url) {
        Ok(place) => Some(place.is_oci()),
        Err(detail) => {
            errors.push(FieldError::invalid(path.field("url"), &image.url, detail));
            None
        }
    };
    let checksum = image.checksum.as_deref().unwrap_or_default();
    if let Some(detail) = Some(checksum).filter(|text| is_fetched(text)).and_then(|text| Place::checksum(text).err()) {
        errors.push(FieldError::invalid(path.field("checksum"), checksum, detail));
    }
    match oci {
        Some(true) if !checksum.is_empty() => {
            let detail = "must not be given for oci, whose names carry their own";
            errors.push(FieldError::forbidden(path.field("checksum"), detail));
        }
        Some(false) if checksum.is_empty() && image.format.as_deref() != Some("live-iso") => {
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
