//! What users may write into the annotations that cluster-autoscaler reads.
//!
//! Only keys that a request changes are looked at, so that old bad data never blocks scaling. The bounds of a group
//! matter most: one that cannot be read makes cluster-autoscaler's list of all groups fail.

use std::collections::BTreeMap;

use api::meta::{ObjectMeta, lean_meta};
use kit::admission::{Admission, Duty, FieldError, FieldPath, Review, Verdict, Webhook};
use serde::Deserialize;

use crate::labels::LabelList;
use crate::names::{self, SIZES};
use crate::offer::Arch;
use crate::quantity::{Quantity, count};

const OPENSHIFT_SETS: Webhook = Webhook {
    duty: Duty::Notes,
    group: "machine.openshift.io",
    version: "v1beta1",
    plural: "machinesets",
    path: "/validate/capacity/openshift-machinesets",
};
// Annotations look the same in every version, and older servers know only the older one.
const SETS: Webhook = Webhook {
    duty: Duty::Notes,
    group: "cluster.x-k8s.io",
    version: "*",
    plural: "machinesets",
    path: "/validate/capacity/machinesets",
};
const DEPLOYMENTS: Webhook = Webhook {
    duty: Duty::Notes,
    group: "cluster.x-k8s.io",
    version: "*",
    plural: "machinedeployments",
    path: "/validate/capacity/machinedeployments",
};
const POOLS: Webhook = Webhook {
    duty: Duty::Notes,
    group: "cluster.x-k8s.io",
    version: "*",
    plural: "machinepools",
    path: "/validate/capacity/machinepools",
};

/// What this room checks at admission.
pub const WEBHOOKS: &[Webhook] = &[OPENSHIFT_SETS, SETS, DEPLOYMENTS, POOLS];

/// An object of any kind, reduced to its metadata.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Annotated {
    #[serde(default, deserialize_with = "lean_meta")]
    metadata: ObjectMeta,
}

/// Adds this room's checks to the process's admission.
#[must_use]
pub fn register(admission: Admission) -> Admission {
    WEBHOOKS.iter().fold(admission, |admission, webhook| admission.validate(webhook.path, review))
}

fn review(review: &Review<Annotated>) -> Verdict {
    let Some(new) = &review.object else { return Verdict::default() };
    if new.metadata.deletion_timestamp.is_some() {
        return Verdict::default();
    }
    let none = BTreeMap::new();
    let old = review.old.as_ref().map(|old| old.metadata.annotations.as_ref().unwrap_or(&none));
    // Our own writes need not be warned of.
    let ours = review.user.username.as_deref().is_some_and(|name| name.ends_with(":berth"));
    check(new.metadata.annotations.as_ref().unwrap_or(&none), old, ours)
}

/// Judges annotations, new against old; `old` is absent for a new object.
#[must_use]
pub fn check(new: &BTreeMap<String, String>, old: Option<&BTreeMap<String, String>>, ours: bool) -> Verdict {
    let seen = Annotations { new, old, root: FieldPath::new("metadata").field("annotations") };
    let mut verdict = Verdict::default();
    for key in [names::CPU, names::MEMORY, names::EPHEMERAL_DISK, names::LEGACY_CPU] {
        let form = "must be a quantity that is not negative, such as 16 or 65536Mi";
        let good = |text: &str| Quantity::parse(text).is_some_and(|amount| !amount.is_negative());
        verdict
            .errors
            .extend(seen.changed(key).filter(|text| !text.is_empty() && !good(text)).map(|t| seen.bad(key, t, form)));
    }
    for key in [names::GPU_COUNT, names::MAX_PODS, names::LEGACY_MEMORY, names::LEGACY_GPU, names::LEGACY_MAX_PODS] {
        let form = match key {
            names::LEGACY_MEMORY => "must be a whole number of MiB without a unit, such as 8192",
            _ => "must be a whole number without a unit",
        };
        // An empty one is as good as none, but OpenShift's operator panics over this key.
        let good = |text: &str| count(text).is_some() || (text.is_empty() && key != names::LEGACY_GPU);
        verdict.errors.extend(seen.changed(key).filter(|text| !good(text)).map(|text| seen.bad(key, text, form)));
    }
    let resource = "must be the name of an extended resource, such as nvidia.com/gpu";
    let bad_name = |text: &&str| !text.is_empty() && !is_qualified(text);
    verdict
        .errors
        .extend(seen.changed(names::GPU_TYPE).filter(bad_name).map(|t| seen.bad(names::GPU_TYPE, t, resource)));
    lists(&seen, &mut verdict);
    sizes(&seen, &mut verdict);
    warnings(&seen, ours, &mut verdict);
    verdict
}

struct Annotations<'a> {
    new: &'a BTreeMap<String, String>,
    old: Option<&'a BTreeMap<String, String>>,
    root: FieldPath,
}

impl<'a> Annotations<'a> {
    fn get(&self, key: &str) -> Option<&'a str> {
        self.new.get(key).map(String::as_str)
    }

    /// The value of a key that this request sets or changes.
    fn changed(&self, key: &str) -> Option<&'a str> {
        let before = self.old.and_then(|old| old.get(key)).map(String::as_str);
        self.get(key).filter(|now| before != Some(now))
    }

    fn bad(&self, key: &str, value: &str, form: &str) -> FieldError {
        FieldError::invalid(self.root.key(key), value, form)
    }
}

fn lists(seen: &Annotations<'_>, verdict: &mut Verdict) {
    if let Some(text) = seen.changed(names::LABELS) {
        let bad = items(text).find(|item| {
            let (key, value) = item.split_once('=').unwrap_or((item, "?"));
            !is_qualified(key.trim()) || !is_label_value(value.trim())
        });
        if bad.is_some() {
            let form = "must be key=value, separated by commas, with the names and values of Kubernetes labels";
            verdict.errors.push(seen.bad(names::LABELS, text, form));
        }
    }
    if let Some(text) = seen.changed(names::TAINTS) {
        let good = |item: &str| {
            let Some((taint, effect)) = item.rsplit_once(':') else { return false };
            let (key, value) = taint.split_once('=').unwrap_or((taint, ""));
            is_qualified(key)
                && is_label_value(value)
                && ["NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&effect)
        };
        if !items(text).all(good) {
            let form = "must be key=value:Effect or key:Effect, separated by commas, with an effect of NoSchedule, \
                        PreferNoSchedule or NoExecute";
            verdict.errors.push(seen.bad(names::TAINTS, text, form));
        }
    }
    if let Some(text) = seen.changed(names::CSI_DRIVER) {
        let good = |item: &str| {
            item.split_once('=')
                .is_some_and(|(driver, limit)| !driver.trim().is_empty() && count(limit.trim()).is_some())
        };
        if !items(text).all(good) {
            let form = "must be driver=limit, separated by commas, with a whole number as the limit (0 = no limit)";
            verdict.errors.push(seen.bad(names::CSI_DRIVER, text, form));
        }
    }
}

fn items(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty())
}

fn sizes(seen: &Annotations<'_>, verdict: &mut Verdict) {
    for (low, high) in SIZES {
        for key in [low, high] {
            let form = "must be a whole number that is not negative; one that cannot be read stops cluster-autoscaler for all groups";
            let bad = seen.changed(key).filter(|text| count(text).is_none());
            verdict.errors.extend(bad.map(|text| seen.bad(key, text, form)));
        }
        let bounds = seen.get(low).and_then(count).zip(seen.get(high).and_then(count));
        if let Some((min, max)) = bounds.filter(|(min, max)| max < min)
            && (seen.changed(low).is_some() || seen.changed(high).is_some())
        {
            let form = format!("must not be below the lower bound {min}");
            verdict.errors.push(seen.bad(high, &max.to_string(), &form));
        }
    }
}

fn warnings(seen: &Annotations<'_>, ours: bool, verdict: &mut Verdict) {
    let mut warn = |text: String| verdict.warnings.push(text);
    let filled = |key: &str| seen.get(key).is_some_and(|text| !text.is_empty());
    let touched = [names::GPU_COUNT, names::GPU_TYPE, names::DRA_DRIVER].iter().any(|key| seen.changed(key).is_some());
    let gpus = seen.get(names::GPU_COUNT).and_then(count).unwrap_or_default();
    if touched && gpus > 0 && !filled(names::GPU_TYPE) && !filled(names::DRA_DRIVER) {
        warn(format!("{}: {gpus} is ignored without {} or {}", names::GPU_COUNT, names::GPU_TYPE, names::DRA_DRIVER));
    }
    if touched && filled(names::GPU_TYPE) && filled(names::DRA_DRIVER) {
        warn(format!("{} and {}: only one of them is used", names::GPU_TYPE, names::DRA_DRIVER));
    }
    if seen.old.is_some() && !ours {
        for key in [names::LEGACY_CPU, names::LEGACY_MEMORY, names::LEGACY_GPU, names::APPLIED] {
            if let Some(value) = seen.changed(key) {
                let value: String = value.chars().take(40).collect();
                warn(format!(
                    "{key}: {value:?} will be reverted where Berth knows the instance type; {} stops that",
                    names::SKIP
                ));
            }
        }
    }
    if let Some(text) = seen.changed(names::LABELS) {
        let list = LabelList::parse(text);
        if text.chars().any(char::is_whitespace) {
            warn(format!("{}: cluster-autoscaler does not trim the blanks in it", names::LABELS));
        }
        let known = |arch: &&String| Arch::ALL.iter().any(|known| known.as_str() == *arch);
        if let Some(arch) = list.labels.get(names::ARCH).filter(|arch| !known(arch)) {
            warn(format!("{}: {}={arch} is none of amd64, arm64, ppc64le, s390x", names::LABELS, names::ARCH));
        }
    }
    let sized = filled(names::CPU) && filled(names::MEMORY);
    let legacy = filled(names::LEGACY_CPU) && filled(names::LEGACY_MEMORY);
    for (low, _) in SIZES {
        if seen.changed(low).and_then(count) == Some(0) && !sized && !legacy {
            warn(format!("{low}: 0 works only once {} and {} are known", names::CPU, names::MEMORY));
        }
    }
}

/// A name with an optional prefix, as labels, taints and extended resources have.
fn is_qualified(text: &str) -> bool {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    prefix.is_none_or(|prefix| prefix.parse::<api::names::DnsSubdomain>().is_ok())
        && !name.is_empty()
        && is_label_value(name)
}

/// The value of a label; empty is one.
pub(crate) fn is_label_value(text: &str) -> bool {
    let ends = |c: Option<char>| c.is_none_or(|c| c.is_ascii_alphanumeric());
    text.len() <= 63
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
        && ends(text.chars().next())
        && ends(text.chars().last())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MIN: &str = SIZES[0].0;
    const MAX: &str = SIZES[0].1;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn the_table_of_refusals() {
        for (key, value, refused) in [
            (names::CPU, "16", false),
            (names::CPU, "16000m", false),
            (names::CPU, "", false),
            (names::CPU, "-1", true),
            (names::CPU, "lots", true),
            (names::MEMORY, "64Gi", false),
            (names::MEMORY, "64GB", true),
            (names::EPHEMERAL_DISK, "100Gi", false),
            (names::EPHEMERAL_DISK, "100 Gi", true),
            (names::LEGACY_CPU, "4", false),
            (names::LEGACY_CPU, "four", true),
            (names::LEGACY_MEMORY, "8192", false),
            (names::LEGACY_MEMORY, "8G", true),
            (names::LEGACY_MEMORY, "13Mi", true),
            (names::LEGACY_GPU, "0", false),
            (names::LEGACY_GPU, "", true),
            (names::LEGACY_GPU, "one", true),
            (names::GPU_COUNT, "-1", true),
            (names::GPU_COUNT, "1.5", true),
            (names::MAX_PODS, "110", false),
            (names::MAX_PODS, "1k", true),
            (names::GPU_TYPE, "nvidia.com/gpu", false),
            (names::GPU_TYPE, "", false),
            (names::GPU_TYPE, "nvidia com", true),
            (names::LABELS, "a=b,node-role.kubernetes.io/worker=", false),
            (names::LABELS, "a=b=c", true),
            (names::LABELS, "bare", true),
            (names::LABELS, "a b=c", true),
            (names::TAINTS, "a=b:NoSchedule,c:NoExecute,d=:PreferNoSchedule", false),
            (names::TAINTS, "a=b", true),
            (names::TAINTS, "a=b:Never", true),
            (names::TAINTS, "=b:NoSchedule", true),
            (names::CSI_DRIVER, "ebs.csi.aws.com=25,x=0", false),
            (names::CSI_DRIVER, "ebs.csi.aws.com", true),
            (names::CSI_DRIVER, "ebs.csi.aws.com=many", true),
            (MIN, "0", false),
            (MIN, "-1", true),
            (MAX, "ten", true),
            (MAX, "", true),
            (SIZES[1].0, "x", true),
            ("other/key", "-1Gx", false),
        ] {
            let verdict = check(&map(&[(key, value)]), None, false);
            assert_eq!(!verdict.errors.is_empty(), refused, "{key}={value:?}: {verdict:?}");
            for error in &verdict.errors {
                let text = error.to_string();
                assert!(text.contains(key) && text.contains("must"), "{text}");
            }
        }
        let crossed = check(&map(&[(MIN, "5"), (MAX, "3")]), None, false);
        assert!(crossed.errors[0].to_string().contains(MAX), "{crossed:?}");
    }

    #[test]
    fn old_bad_data_never_blocks_and_a_new_fault_does() {
        let old = map(&[(MAX, "ten"), (names::LEGACY_MEMORY, "8G"), (MIN, "5")]);
        let mut new = old.clone();
        assert_eq!(check(&new, Some(&old), false), Verdict::default());
        new.insert("other".to_owned(), "x".to_owned());
        assert_eq!(check(&new, Some(&old), false), Verdict::default());
        new.insert(MAX.to_owned(), "4".to_owned());
        assert_eq!(check(&new, Some(&old), false).errors.len(), 1, "now below the lower bound");
        new.remove(MAX);
        assert_eq!(check(&new, Some(&old), false), Verdict::default(), "taking away is always right");
    }

    #[test]
    fn objects_that_are_going_always_pass() {
        let object = serde_json::from_value(serde_json::json!({"metadata": {
            "deletionTimestamp": "2030-01-01T00:00:00Z", "annotations": {MIN: "x"}}}));
        let review = Review::<Annotated> {
            operation: kit::admission::Operation::Update,
            kind: kube::core::gvk::GroupVersionKind::gvk("g", "v", "K"),
            resource: kube::core::gvk::GroupVersionResource::gvr("g", "v", "ks"),
            sub_resource: None,
            name: "a".to_owned(),
            namespace: None,
            user: Default::default(),
            dry_run: false,
            object: object.unwrap(),
            old: None,
        };
        assert_eq!(super::review(&review), Verdict::default());
    }

    #[test]
    fn the_table_of_warnings() {
        for (pairs, word) in [
            (&[(names::GPU_COUNT, "2")][..], Some("ignored")),
            (&[(names::GPU_COUNT, "2"), (names::GPU_TYPE, "a.b/c")], None),
            (&[(names::GPU_COUNT, "2"), (names::DRA_DRIVER, "gpu.x")], None),
            (&[(names::GPU_TYPE, "a.b/c"), (names::DRA_DRIVER, "gpu.x")], Some("only one")),
            (&[(names::LABELS, "kubernetes.io/arch=vax")], Some("none of")),
            (&[(names::LABELS, "a=b, c=d")], Some("trim")),
            (&[(MIN, "0")], Some("works only")),
            (&[(MIN, "0"), (names::CPU, "1"), (names::MEMORY, "1Gi")], None),
            (&[(MIN, "0"), (names::LEGACY_CPU, "1"), (names::LEGACY_MEMORY, "1")], None),
        ] {
            let verdict = check(&map(pairs), None, false);
            assert!(verdict.errors.is_empty(), "{verdict:?}");
            let found = verdict.warnings.iter().any(|warning| word.is_some_and(|word| warning.contains(word)));
            assert_eq!(
                (found, verdict.warnings.len()),
                (word.is_some(), usize::from(word.is_some())),
                "{pairs:?} {verdict:?}"
            );
        }
        let (old, new) = (map(&[(names::LEGACY_CPU, "1")]), map(&[(names::LEGACY_CPU, "2")]));
        assert!(check(&new, Some(&old), false).warnings[0].contains("reverted"));
        assert!(check(&new, Some(&old), true).warnings.is_empty());
    }

    proptest! {
        #[test]
        fn any_values_are_judged(key in 0usize..8, value in any::<String>()) {
            let key = [names::CPU, names::LABELS, names::TAINTS, names::CSI_DRIVER, names::GPU_TYPE, names::LEGACY_GPU, MIN, MAX][key];
            let _ = check(&map(&[(key, &value)]), None, false);
        }
    }
}
