//! What the code asks of the API server, listed beside the code that asks: roles are generated from these lists.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::rbac::v1::PolicyRule;

/// One group of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Right {
    /// API group, empty for the core group.
    pub group: &'static str,
    /// Plural resource names, with `/status` and the like where only that part is written.
    pub resources: &'static [&'static str],
    /// Verbs, never `*`.
    pub verbs: &'static [&'static str],
    /// The only objects it is needed for; empty for any. Lists, watches and creates cannot be narrowed by name.
    pub names: &'static [&'static str],
    /// Where it is needed.
    pub reach: Reach,
    /// Which code needs it, for the reader of the role.
    pub why: &'static str,
}

/// How far a right reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// Every namespace and cluster-scoped objects.
    Cluster,
    /// The namespace of a system that Berth takes part in, whose name the operator chooses: `--system-namespace`.
    System,
    /// The namespace Berth runs in.
    OwnNamespace,
}

/// What the kit itself needs, whichever rooms run.
pub const KIT: &[Right] = &[
    Right {
        group: "apiextensions.k8s.io",
        resources: &["customresourcedefinitions"],
        verbs: &["list", "watch"],
        names: &[],
        reach: Reach::Cluster,
        why: "kinds: wait for a kind that is not installed yet",
    },
    Right {
        group: "events.k8s.io",
        resources: &["events"],
        verbs: &["create", "patch"],
        names: &[],
        reach: Reach::Cluster,
        why: "events: say what changed, on the object people look at",
    },
    Right {
        group: "coordination.k8s.io",
        resources: &["leases"],
        verbs: &["create"],
        names: &[],
        reach: Reach::OwnNamespace,
        why: "lease: one replica decides",
    },
    Right {
        group: "coordination.k8s.io",
        resources: &["leases"],
        verbs: &["get", "update"],
        names: &["berth"],
        reach: Reach::OwnNamespace,
        why: "lease: renew it, take it over, give it back",
    },
];

/// What self-managed webhook certificates need on top (`--webhook-self-signed`).
pub const SELF_SIGNED: &[Right] = &[
    Right {
        group: "",
        resources: &["secrets"],
        verbs: &["create"],
        names: &[],
        reach: Reach::OwnNamespace,
        why: "certs: keep the serving key pair and its authority",
    },
    Right {
        group: "",
        resources: &["secrets"],
        verbs: &["get", "patch"],
        names: &["berth-webhook-certs"],
        reach: Reach::OwnNamespace,
        why: "certs: read and renew them",
    },
    Right {
        group: "admissionregistration.k8s.io",
        resources: &["mutatingwebhookconfigurations", "validatingwebhookconfigurations"],
        verbs: &["list", "watch"],
        names: &[],
        reach: Reach::Cluster,
        why: "certs: find who must trust our authority",
    },
    Right {
        group: "admissionregistration.k8s.io",
        resources: &["mutatingwebhookconfigurations", "validatingwebhookconfigurations"],
        verbs: &["patch"],
        names: &["berth"],
        reach: Reach::Cluster,
        why: "certs: tell the API server which authority to trust",
    },
    Right {
        group: "apiextensions.k8s.io",
        resources: &["customresourcedefinitions"],
        verbs: &["patch"],
        names: &[
            "hostclaimkinds.berth.dev",
            "hostclaimquotas.berth.dev",
            "hostclaims.metal3.io",
            "hostdeploypolicies.metal3.io",
            "metal3clusters.infrastructure.cluster.x-k8s.io",
            "metal3clustertemplates.infrastructure.cluster.x-k8s.io",
            "metal3dataclaims.infrastructure.cluster.x-k8s.io",
            "metal3datas.infrastructure.cluster.x-k8s.io",
            "metal3datatemplates.infrastructure.cluster.x-k8s.io",
            "metal3machines.infrastructure.cluster.x-k8s.io",
            "metal3machinetemplates.infrastructure.cluster.x-k8s.io",
            "metal3remediations.infrastructure.cluster.x-k8s.io",
            "metal3remediationtemplates.infrastructure.cluster.x-k8s.io",
        ],
        reach: Reach::Cluster,
        why: "certs: the same for conversion webhooks of our own kinds",
    },
];

/// The rules for one reach, merged and in a stable order: equal lists give equal bytes.
#[must_use]
pub fn rules<'r>(rights: impl IntoIterator<Item = &'r Right>, reach: Reach) -> Vec<PolicyRule> {
    let mut verbs: BTreeMap<(&str, &str, &[&str]), BTreeSet<&str>> = BTreeMap::new();
    for right in rights.into_iter().filter(|right| right.reach == reach) {
        for resource in right.resources {
            verbs.entry((right.group, resource, right.names)).or_default().extend(right.verbs);
        }
    }
    let mut grouped: BTreeMap<_, Vec<String>> = BTreeMap::new();
    for ((group, resource, names), verbs) in verbs {
        grouped.entry((group, names, verbs)).or_default().push(resource.to_owned());
    }
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let rules = grouped.into_iter().map(|((group, names, verbs), resources)| PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(resources),
        resource_names: (!names.is_empty()).then(|| owned(names)),
        verbs: verbs.into_iter().map(str::to_owned).collect(),
        ..PolicyRule::default()
    });
    rules.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_right_is_a_wildcard_and_secrets_are_never_listed() {
        for right in KIT.iter().chain(SELF_SIGNED) {
            assert!(!right.verbs.contains(&"*") && !right.resources.contains(&"*"), "{right:?}");
            if right.resources.contains(&"secrets") {
                assert!(!right.verbs.iter().any(|v| ["list", "watch"].contains(v)), "{right:?}");
                assert_eq!(right.reach, Reach::OwnNamespace, "{right:?}");
            }
        }
    }

    /// A right to change an existing object of a shared kind names the object, or it could change anybody's.
    #[test]
    fn writes_to_shared_kinds_are_narrowed_by_name() {
        for right in KIT.iter().chain(SELF_SIGNED).filter(|right| right.group != "events.k8s.io") {
            let writes = right.verbs.iter().any(|verb| ["update", "patch", "delete"].contains(verb));
            assert_eq!(writes, !right.names.is_empty(), "{right:?}");
        }
    }

    #[test]
    fn rules_are_merged_by_resource_and_split_by_reach() {
        let all = rules(KIT.iter().chain(SELF_SIGNED), Reach::Cluster);
        let definitions: Vec<_> =
            all.iter().filter(|r| r.resources.iter().flatten().any(|r| r == "customresourcedefinitions")).collect();
        assert_eq!(definitions.len(), 2);
        assert_eq!((&definitions[0].resource_names, definitions[0].verbs.join(" ")), (&None, "list watch".to_owned()));
        assert!(definitions[1].resource_names.is_some() && definitions[1].verbs == ["patch"]);
        assert!(all.iter().all(|r| !r.resources.iter().flatten().any(|r| r == "secrets")));
        assert_eq!(rules(KIT, Reach::OwnNamespace).len(), 2);
        assert_eq!(rules(KIT.iter().chain(SELF_SIGNED), Reach::System), []);
        let there = Right { reach: Reach::System, ..KIT[2] };
        assert_eq!(rules([&there], Reach::System).len(), 1);
        assert_eq!((rules([&there], Reach::Cluster), rules([&there], Reach::OwnNamespace)), (vec![], vec![]));
    }
}
