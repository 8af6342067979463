//! What a template says about its nodes by itself.

use std::collections::BTreeMap;

use api::views::TemplateStatus;

use crate::config::Config;
use crate::goal::{Around, disk};
use crate::offer::{Offer, Vendor};
use crate::quantity::Quantity;

/// The disk that pods share, as nodes name it.
const STORAGE: &str = "ephemeral-storage";
/// The cores of Neuron devices.
const NEURON_CORES: &str = "aws.amazon.com/neuroncore";

/// What the status of a template should say of its machines: what they have, nothing taken off.
#[must_use]
pub fn status(offer: &Offer, around: &Around, windows: bool, config: &Config) -> TemplateStatus {
    let mut capacity = BTreeMap::from([
        ("cpu".to_owned(), offer.vcpus.to_string()),
        ("memory".to_owned(), format!("{}Mi", offer.memory_mib)),
    ]);
    capacity.extend(disk(offer, around, config).map(|disk| (STORAGE.to_owned(), disk.text())));
    if let Some(found) = &offer.accelerators {
        capacity.insert(found.resource.to_string(), found.count.to_string());
        if found.cores > 0 {
            capacity.insert(NEURON_CORES.to_owned(), found.cores.to_string());
        }
    }
    TemplateStatus {
        capacity,
        architecture: offer.arch.map(|arch| arch.as_str().to_owned()),
        // Either both or none: cluster-autoscaler takes an absent one for an empty text.
        operating_system: offer.arch.map(|_| if windows { "windows" } else { "linux" }.to_owned()),
    }
}

/// Whether a status says this already, and nothing of ours beside it.
#[must_use]
pub fn says(present: &TemplateStatus, wanted: &TemplateStatus) -> bool {
    let same = |key: &String, value: &String| {
        present.capacity.get(key).is_some_and(|found| match (Quantity::parse(found), Quantity::parse(value)) {
            (Some(found), Some(value)) => found == value,
            _ => found == value,
        })
    };
    let ours = |key: &str| {
        [STORAGE, NEURON_CORES].contains(&key) || Vendor::ALL.iter().any(|(_, vendor)| vendor.resource() == key)
    };
    wanted.capacity.iter().all(|(key, value)| same(key, value))
        && present.capacity.keys().all(|key| wanted.capacity.contains_key(key) || !ours(key))
        && present.architecture == wanted.architecture
        && present.operating_system == wanted.operating_system
}

/// Whether cluster-autoscaler can plan with what a template says, without any annotation.
#[must_use]
pub fn says_everything(status: &TemplateStatus) -> bool {
    let some = |key: &str| {
        let amount = status.capacity.get(key).and_then(|text| Quantity::parse(text));
        amount.is_some_and(|amount| !amount.is_zero() && !amount.is_negative())
    };
    some("cpu") && some("memory") && status.architecture.is_some() && status.operating_system.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offer::Arch;

    #[test]
    fn a_status_says_what_machines_have_and_is_compared_by_what_it_means() {
        let offer = Offer {
            vcpus: 96,
            memory_mib: 393_216,
            arch: Some(Arch::Amd64),
            accelerators: Some(crate::offer::Accelerators {
                vendor: Some(Vendor::Neuron),
                resource: "aws.amazon.com/neuron".into(),
                count: 6,
                cores: 12,
            }),
            ..Offer::default()
        };
        let around = Around { root_gib: Some(100), ..Around::default() };
        let wanted = status(&offer, &around, true, &Config::default());
        let text = |key: &str| wanted.capacity.get(key).map(String::as_str);
        assert_eq!((text("cpu"), text("memory")), (Some("96"), Some("393216Mi")));
        assert_eq!(
            (text(STORAGE), text("aws.amazon.com/neuron"), text(NEURON_CORES)),
            (Some("100Gi"), Some("6"), Some("12"))
        );
        assert_eq!(wanted.operating_system.as_deref(), Some("windows"));

        let mut present = wanted.clone();
        present.capacity.insert("memory".to_owned(), "384Gi".to_owned());
        present.capacity.insert("example.org/other".to_owned(), "1".to_owned());
        assert!(says(&present, &wanted), "the same amount in other words, and somebody else's resource");
        present.capacity.insert("nvidia.com/gpu".to_owned(), "1".to_owned());
        assert!(!says(&present, &wanted), "an accelerator that is not there any more");
        assert!(!says(&TemplateStatus::default(), &wanted));
        assert!(!says(&TemplateStatus { operating_system: None, ..wanted.clone() }, &wanted));

        let without = status(&Offer { arch: None, ..offer }, &around, false, &Config::default());
        assert_eq!((without.architecture, without.operating_system), (None, None));
    }

    #[test]
    fn a_status_without_a_part_is_not_enough() {
        let whole = TemplateStatus {
            capacity: [("cpu".to_owned(), "4".to_owned()), ("memory".to_owned(), "16Gi".to_owned())].into(),
            architecture: Some("amd64".to_owned()),
            operating_system: Some("linux".to_owned()),
        };
        assert!(says_everything(&whole));
        assert!(!says_everything(&TemplateStatus { operating_system: None, ..whole.clone() }));
        let zero = [("cpu".to_owned(), "0".to_owned()), ("memory".to_owned(), "16Gi".to_owned())].into();
        assert!(!says_everything(&TemplateStatus { capacity: zero, ..whole }));
    }
}
