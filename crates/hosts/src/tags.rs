//! Tags of hosts, instances and what hangs on them: who wins, and what to change.

use std::collections::{BTreeMap, BTreeSet};

use api::names::hosts::{
    ALLOCATION_ID_TAG, AUTO_RELEASE_TAG, MACHINE_NAME_TAG, MANAGEMENT_CLUSTER_TAG, NAME_TAG, OWN_TAG_PREFIXES,
    RETAINED_FROM_TAG, RETAINED_TAG, ROLE_TAG,
};
use aws::port::Tags;

use crate::journal::AllocationId;
use crate::names::{cluster_tag, kubernetes_tag};

/// Who a resource belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Belonging {
    /// The Cluster; none for a claim of no cluster.
    pub cluster: Option<String>,
    /// The namespace of the machine.
    pub namespace: String,
    /// The Machine.
    pub machine: String,
    /// The AWSMachine, which names the resource unless a user does.
    pub name: String,
    /// Whether the machine is of the control plane.
    pub control_plane: bool,
    /// The allocation.
    pub id: AllocationId,
    /// The management cluster.
    pub management: String,
    /// Whether the hosts are given back with the machine; none for machines without hosts of their own.
    pub auto_release: Option<bool>,
}

/// Whether a tag says whose a resource is or what becomes of it, so that it counts only as we write it.
#[must_use]
pub fn is_ours(key: &str) -> bool {
    key == MACHINE_NAME_TAG || OWN_TAG_PREFIXES.iter().any(|prefix| key.starts_with(prefix))
}

/// The tags of a resource: those of users, later ones winning, and above them those that say whose it is.
#[must_use]
pub fn merged<'a>(users: impl IntoIterator<Item = &'a BTreeMap<String, String>>, belonging: &Belonging) -> Tags {
    let mut all = Tags::new();
    for tags in users {
        let theirs = tags.iter().filter(|(key, _)| !is_ours(key));
        all.extend(theirs.map(|(key, value)| (key.clone(), value.clone())));
    }
    all.entry(NAME_TAG.to_owned()).or_insert_with(|| belonging.name.clone());
    let owned = || "owned".to_owned();
    let role = if belonging.control_plane { "control-plane" } else { "node" };
    if let Some(cluster) = &belonging.cluster {
        all.extend([(cluster_tag(cluster), owned()), (kubernetes_tag(cluster), owned())]);
    }
    all.extend([
        (ROLE_TAG.to_owned(), role.to_owned()),
        (MACHINE_NAME_TAG.to_owned(), format!("{}/{}", belonging.namespace, belonging.machine)),
        (ALLOCATION_ID_TAG.to_owned(), belonging.id.to_string()),
        (MANAGEMENT_CLUSTER_TAG.to_owned(), belonging.management.clone()),
    ]);
    if let Some(release) = belonging.auto_release {
        all.insert(AUTO_RELEASE_TAG.to_owned(), release.to_string());
    }
    all
}

/// What to change about the tags of a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Set these.
    pub set: Tags,
    /// Take these off.
    pub unset: Vec<String>,
}

impl Change {
    /// Whether everything is as it should be.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.set.is_empty() && self.unset.is_empty()
    }
}

/// The way from the tags a resource has to those it should have. Only keys that we applied are taken off: all others are
/// somebody else's.
#[must_use]
pub fn change(has: &Tags, wanted: &Tags, applied: &BTreeSet<String>) -> Change {
    let differs = |(key, value): &(&String, &String)| has.get(*key) != Some(*value);
    let set = wanted.iter().filter(differs).map(|(key, value)| (key.clone(), value.clone())).collect();
    let gone = |key: &&String| !wanted.contains_key(*key) && has.contains_key(*key) && !key.starts_with("aws:");
    let unset = applied.iter().filter(gone).cloned().collect();
    Change { set, unset }
}

/// The keys of a record of applied tags; a record that cannot be read records nothing.
#[must_use]
pub fn recorded(text: Option<&str>) -> BTreeSet<String> {
    let read = |text: &str| serde_json::from_str::<BTreeMap<String, serde_json::Value>>(text).ok();
    text.and_then(read).map(|map| map.into_keys().collect()).unwrap_or_default()
}

/// The record of applied tags.
#[must_use]
pub fn record(tags: &Tags) -> String {
    serde_json::to_string(tags).unwrap_or_default()
}

/// What makes a host one that was left to its owner: no longer of the cluster's own, and no longer ours to give back.
#[must_use]
pub fn retained(cluster: Option<&str>, namespace: &str, name: &str) -> Change {
    let shared = || "shared".to_owned();
    let clusters = cluster.map(|cluster| [(cluster_tag(cluster), shared()), (kubernetes_tag(cluster), shared())]);
    let mut set: Tags = clusters.into_iter().flatten().collect();
    set.extend([
        (RETAINED_TAG.to_owned(), "true".to_owned()),
        (RETAINED_FROM_TAG.to_owned(), format!("{namespace}/{name}")),
    ]);
    Change { set, unset: vec![ALLOCATION_ID_TAG.to_owned()] }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(pairs: &[(&str, &str)]) -> Tags {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn belonging() -> Belonging {
        Belonging {
            cluster: Some("c".to_owned()),
            namespace: "n".to_owned(),
            machine: "m".to_owned(),
            name: "awsm".to_owned(),
            control_plane: false,
            id: AllocationId::of(1, 2),
            management: "uid".to_owned(),
            auto_release: Some(true),
        }
    }

    #[test]
    fn later_tags_win_and_reserved_ones_win_over_all() {
        let cluster = tags(&[("a", "cluster"), ("b", "cluster"), ("c", "cluster")]);
        let machine = tags(&[("b", "machine"), ("c", "machine"), (ALLOCATION_ID_TAG, "forged")]);
        let forged = [
            ("c", "host"),
            ("MachineName", "forged"),
            (RETAINED_TAG, "true"),
            ("hosts.berth.dev/release-pending", "true"),
            ("sigs.k8s.io/cluster-api-provider-aws/cluster/other", "owned"),
        ];
        let host = tags(&forged);
        let all = merged([&cluster, &machine, &host], &belonging());
        let wanted = tags(&[
            ("a", "cluster"),
            ("b", "machine"),
            ("c", "host"),
            ("Name", "awsm"),
            ("sigs.k8s.io/cluster-api-provider-aws/cluster/c", "owned"),
            ("kubernetes.io/cluster/c", "owned"),
            ("sigs.k8s.io/cluster-api-provider-aws/role", "node"),
            ("MachineName", "n/m"),
            ("hosts.berth.dev/allocation-id", "00000000-0000-0001-0000-000000000002"),
            ("hosts.berth.dev/management-cluster", "uid"),
            ("hosts.berth.dev/auto-release", "true"),
        ]);
        assert_eq!(all, wanted);
        let named =
            merged([&tags(&[("Name", "mine")])], &Belonging { control_plane: true, auto_release: None, ..belonging() });
        assert_eq!((named["Name"].as_str(), named[ROLE_TAG].as_str()), ("mine", "control-plane"));
        assert!(!named.contains_key(AUTO_RELEASE_TAG));
    }

    #[test]
    fn only_applied_keys_are_taken_off() {
        let has = tags(&[("a", "1"), ("old", "x"), ("foreign", "x"), ("aws:cloud", "x")]);
        let applied = recorded(Some(r#"{"a":"1","old":"x","never":"x","aws:cloud":"x"}"#));
        let found = change(&has, &tags(&[("a", "2"), ("b", "3")]), &applied);
        assert_eq!(found, Change { set: tags(&[("a", "2"), ("b", "3")]), unset: vec!["old".to_owned()] });
        assert!(change(&has, &tags(&[("a", "1")]), &BTreeSet::new()).is_empty());
        assert!(recorded(Some("nonsense")).is_empty() && recorded(None).is_empty());
        assert_eq!(recorded(Some(&record(&has))).len(), 4);
    }

    #[test]
    fn a_retained_host_is_nobodys_to_give_back() {
        let change = retained(Some("c"), "n", "m");
        assert_eq!(change.unset, [ALLOCATION_ID_TAG]);
        assert_eq!(change.set[RETAINED_FROM_TAG], "n/m");
        assert_eq!(change.set["sigs.k8s.io/cluster-api-provider-aws/cluster/c"], "shared");
    }
}
