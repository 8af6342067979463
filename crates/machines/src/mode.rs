//! Which machines run on claims. One rule for everybody who looks at a Metal3Machine.

use std::collections::BTreeMap;

use api::names::machines::{BARE_METAL_HOST_ANNOTATION, HOST_CLAIM_ANNOTATION};
use api::own::BAREMETAL;

/// The kind of claim a machine runs on: its own, else the default. None when it takes a host directly; such a machine is
/// never touched.
///
/// A machine that already has a host of its own stays with it, and one that already has a claim stays with that, whatever
/// the default becomes later.
#[must_use]
pub fn claim_kind<'k>(
    kind: Option<&'k str>,
    annotations: &BTreeMap<String, String>,
    default: Option<&'k str>,
) -> Option<&'k str> {
    if let Some(kind) = kind.filter(|kind| !kind.is_empty()) {
        return Some(kind);
    }
    if annotations.contains_key(HOST_CLAIM_ANNOTATION) {
        return Some(default.unwrap_or(BAREMETAL));
    }
    default.filter(|_| !annotations.contains_key(BARE_METAL_HOST_ANNOTATION))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_counts_before_the_default_and_what_it_has_before_both() {
        let none = BTreeMap::new();
        let host = BTreeMap::from([(BARE_METAL_HOST_ANNOTATION.to_owned(), "metal/h1".to_owned())]);
        let claim = BTreeMap::from([(HOST_CLAIM_ANNOTATION.to_owned(), "team/m1".to_owned())]);
        let (vm, metal) = (Some("cloudstack-vm"), Some("baremetal"));
        assert_eq!(claim_kind(None, &none, None), None);
        assert_eq!(claim_kind(Some(""), &none, None), None);
        assert_eq!(claim_kind(vm, &none, metal), vm);
        assert_eq!(claim_kind(None, &none, vm), vm);
        assert_eq!(claim_kind(None, &host, vm), None);
        assert_eq!(claim_kind(metal, &host, None), metal);
        assert_eq!(claim_kind(None, &claim, None), metal);
        assert_eq!(claim_kind(None, &claim, vm), vm);
    }
}
