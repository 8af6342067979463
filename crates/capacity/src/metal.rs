//! What a machine on bare metal offers: the least that any host behind a template's selector has.

use api::own::HostSelector;
use api::selector::Selector;
use serde_json::Value;

use crate::facts::{HostFacts, HostUse};
use crate::offer::{Arch, Disk, Offer};

/// Why hosts do not tell what a machine offers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MetalFault {
    /// The selector cannot be read.
    #[error("spec.template.spec.hostSelector{path}: {rule}")]
    Selector {
        /// Where.
        path: String,
        /// What it should be.
        rule: String,
    },
    /// No host behind the selector was inspected.
    #[error("no inspected host fits the selector")]
    NoHost,
}

/// Reads a selector, and the only namespace that it takes hosts of, if it names one; null takes any host.
///
/// # Errors
/// When the selector cannot be read.
pub fn read(selector: &Value) -> Result<(Selector, Option<String>), MetalFault> {
    let fault = |path: String, rule: String| MetalFault::Selector { path, rule };
    if selector.is_null() {
        return Ok((Selector::default(), None));
    }
    let selector: HostSelector =
        serde_json::from_value(selector.clone()).map_err(|error| fault(String::new(), error.to_string()))?;
    let terms = Selector::read(&selector).map_err(|faults| {
        let first = faults.into_iter().next();
        first.map_or_else(
            || fault(String::new(), "cannot be read".to_owned()),
            |f| fault(format!(".{}", f.path), f.problem),
        )
    })?;
    Ok((terms, selector.in_namespace.filter(|name| !name.is_empty())))
}

/// What any machine behind a selector offers at least: of hosts that can be had, or else of those in use.
///
/// # Errors
/// When the selector cannot be read or no inspected host fits.
pub fn offer<'a>(selector: &Value, hosts: impl Iterator<Item = &'a HostFacts> + Clone) -> Result<Offer, MetalFault> {
    let (terms, _) = read(selector)?;
    let of = |wanted: HostUse| {
        let terms = &terms;
        let fits = move |host: &&HostFacts| host.used == wanted && terms.fits(&host.labels());
        hosts.clone().filter(fits).filter_map(|host| host.hardware.as_ref())
    };
    let used = if of(HostUse::Free).next().is_some() { HostUse::Free } else { HostUse::Taken };
    let (vcpus, memory) = (of(used).map(|h| h.cpus).min(), of(used).map(|h| h.memory_mib).min());
    let (Some(vcpus), Some(memory_mib)) = (vcpus, memory) else { return Err(MetalFault::NoHost) };
    let mut architectures: Vec<Option<Arch>> = of(used).map(|h| h.arch).collect();
    architectures.sort_unstable();
    architectures.dedup();
    let arch = match architectures.as_slice() {
        [only] => *only,
        _ => None,
    };
    // A disk that one host has not told about is not the least one.
    let disks: Option<Vec<u64>> = of(used).map(|h| h.root_gib).collect();
    Ok(Offer {
        vcpus,
        memory_mib,
        accelerators: None,
        gpus: 0,
        nvidia: 0,
        arch,
        assumed: false,
        disk: disks.and_then(|disks| disks.into_iter().min()).filter(|size| *size > 0).map(Disk::Gib),
        ..Offer::default()
    })
}

#[cfg(test)]
mod tests {
    use api::names::claims::{CPU_COUNT_LABEL, HOST_NAME_LABEL};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::facts::Hardware;

    fn host(label: &str, used: HostUse, cpus: u64, arch: Option<Arch>) -> HostFacts {
        HostFacts {
            name: label.into(),
            labels: [("size".into(), label.into())].into(),
            used,
            hardware: Some(Hardware {
                cpus,
                memory_mib: cpus * 1024,
                root_gib: Some(cpus * 10),
                arch,
                machine: None,
                nics: 1,
            }),
        }
    }

    #[test]
    fn the_least_of_the_hosts_that_fit_counts() {
        let amd = Some(Arch::Amd64);
        let hosts = [
            host("big", HostUse::Free, 64, amd),
            host("big", HostUse::Free, 48, amd),
            host("big", HostUse::Taken, 2, amd),
            host("small", HostUse::Taken, 8, amd),
            host("small", HostUse::Other, 1, amd),
            host("mixed", HostUse::Free, 8, amd),
            host("mixed", HostUse::Free, 8, Some(Arch::Arm64)),
            HostFacts { hardware: None, ..host("blank", HostUse::Free, 1, None) },
        ];
        let of = |size: &str| offer(&json!({"matchLabels": {"size": size}}), hosts.iter());
        let big = of("big").unwrap();
        assert_eq!((big.vcpus, big.memory_mib, big.disk, big.arch), (48, 48 * 1024, Some(Disk::Gib(480)), amd));
        assert_eq!(of("small").unwrap().vcpus, 8, "in use, because none is free");
        assert_eq!(of("mixed").unwrap().arch, None);
        assert_eq!(of("blank"), Err(MetalFault::NoHost));
        assert_eq!(of("none"), Err(MetalFault::NoHost));
        assert_eq!(offer(&Value::Null, hosts.iter()).unwrap().vcpus, 8, "no selector takes any");
    }

    #[test]
    fn every_operator_is_understood_and_others_are_named() {
        let hosts = [host("a", HostUse::Free, 4, None)];
        let fits = |expression: Value| offer(&json!({"matchExpressions": [expression]}), hosts.iter());
        for (expression, taken) in [
            (json!({"key": "size", "operator": "In", "values": ["a", "b"]}), true),
            (json!({"key": "size", "operator": "in", "values": ["b"]}), false),
            (json!({"key": "size", "operator": "notin", "values": ["b"]}), true),
            (json!({"key": "rack", "operator": "NotIn", "values": ["b"]}), true),
            (json!({"key": "size", "operator": "exists"}), true),
            (json!({"key": "rack", "operator": "Exists"}), false),
            (json!({"key": "rack", "operator": "DoesNotExist"}), true),
            (json!({"key": "size", "operator": "!"}), false),
            (json!({"key": CPU_COUNT_LABEL, "operator": "gt", "values": ["3"]}), true),
            (json!({"key": HOST_NAME_LABEL, "operator": "=", "values": ["b"]}), false),
        ] {
            assert_eq!(fits(expression.clone()).is_ok(), taken, "{expression}");
        }
        for (expression, path) in [
            (json!({"key": "size", "operator": "near", "values": ["1"]}), "[0].operator"),
            (json!({"key": "size", "operator": "gt", "values": ["a"]}), "[0].values"),
            (json!({"key": "size", "operator": "In"}), "[0].values"),
            (json!({"operator": "In", "values": ["a"]}), "`key`"),
        ] {
            let refusal = fits(expression).unwrap_err().to_string();
            assert!(refusal.contains(path), "{path}: {refusal}");
        }
    }

    proptest! {
        #[test]
        fn any_selector_is_read_or_refused(text in r#"\{"(matchLabels|matchExpressions)":(\{"a":("b"|3)\}|\[\{"key":"a","operator":"(In|x)","values":\[("a")?\]\}\]|7)\}"#) {
            let hosts = [host("a", HostUse::Free, 4, None)];
            if let Ok(selector) = serde_json::from_str::<Value>(&text) {
                let _ = offer(&selector, hosts.iter());
            }
        }
    }
}
