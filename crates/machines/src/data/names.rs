//! Names about rendered data: finalizers and labels.

use api::key::ObjectKey;

/// Finalizer of a Metal3DataTemplate that gave a number to a machine on a claim. It is not the one of the Metal3 provider:
/// each side knows its own objects by it, and takes off no other.
pub const TEMPLATE_FINALIZER: &str = "berth.dev/metal3datatemplate";
/// Finalizer of a Metal3DataClaim of a machine on a claim.
pub const CLAIM_FINALIZER: &str = "berth.dev/metal3dataclaim";
/// Finalizer of a Metal3Data of a machine on a claim, and of the wishes for addresses made for it.
pub const DATA_FINALIZER: &str = "berth.dev/metal3data";
/// Label on a wish for an address: the uid of the Metal3Data it was made for, to find it again whatever its pool is called.
pub const DATA_UID_LABEL: &str = "berth.dev/data-uid";

/// The kind of templates, as owner references spell it.
pub const TEMPLATE_KIND: &str = "Metal3DataTemplate";
/// The kind of data claims, as owner references spell it.
pub const CLAIM_KIND: &str = "Metal3DataClaim";
/// The kind of data, as owner references spell it.
pub const DATA_KIND: &str = "Metal3Data";
/// The kind of machines, as owner references spell it.
pub const MACHINE_KIND: &str = "Metal3Machine";

/// The name of the data with this number of a template.
#[must_use]
pub fn data(template: &str, index: i32) -> String {
    format!("{template}-{index}")
}

/// The number in the name of data of a template; the other way of [`data`].
#[must_use]
pub fn index(template: &str, data: &str) -> Option<i32> {
    let number = data.strip_prefix(template)?.strip_prefix('-')?;
    let index: i32 = number.parse().ok().filter(|index| *index >= 0)?;
    // `+1` and `01` are numbers too, but no names that anything was given.
    (index.to_string() == number).then_some(index)
}

/// The name of the wish for an address of a pool.
#[must_use]
pub fn lease(data: &str, pool: &str) -> String {
    format!("{data}-{pool}")
}

/// An object in the same namespace.
#[must_use]
pub fn beside(key: &ObjectKey, name: &str) -> ObjectKey {
    match key.namespace() {
        Some(namespace) => ObjectKey::namespaced(namespace, name),
        None => ObjectKey::cluster_scoped(name),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_number_is_found_again_in_the_name(template in "[a-z]([a-z0-9-]{0,20}[a-z0-9])?", number in 0i32..1_000_000) {
            prop_assert_eq!(index(&template, &data(&template, number)), Some(number));
        }
    }

    #[test]
    fn other_names_hold_no_number() {
        for odd in ["t", "t-", "t--1", "t-+1", "t-01", "t-x", "u-1", "t1", "t-99999999999"] {
            assert_eq!(index("t", odd), None, "{odd}");
        }
        assert_eq!(index("t-1", "t-1-2"), Some(2));
        assert_eq!(index("t", "t-1-2"), None);
    }
}
