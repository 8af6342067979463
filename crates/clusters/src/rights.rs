//! What the room asks of the API server.

use kit::rights::{Reach, Right};

const CAPI: &str = "cluster.x-k8s.io";
const READ: &[&str] = &["get", "list", "watch"];
const KEEP: &[&str] = &["get", "list", "watch", "create", "patch", "delete"];

/// The rights of this room for clusters. Generated objects, secrets and manifests are read and written in one namespace, whose
/// name is an operator's to choose: [`Reach::System`]. The room's kind of claims has rights of its own,
/// [`crate::vm::rights::RIGHTS`]: claims of every namespace name Secrets, and these it reads.
pub const RIGHTS: &[Right] = &[
    Right {
        group: "anywhere.eks.amazonaws.com",
        resources: &[
            "clusters",
            "cloudstackdatacenterconfigs",
            "cloudstackmachineconfigs",
            "oidcconfigs",
            "awsiamconfigs",
        ],
        verbs: &["get", "list", "watch", "patch"],
        names: &[],
        reach: Reach::Cluster,
        why: "observe and apply: read what users write, put on the finalizer and owners",
    },
    Right {
        group: "anywhere.eks.amazonaws.com",
        resources: &["clusters/status", "cloudstackdatacenterconfigs/status", "cloudstackmachineconfigs/status"],
        verbs: &["patch"],
        names: &[],
        reach: Reach::Cluster,
        why: "report: how they stand",
    },
    Right {
        group: "anywhere.eks.amazonaws.com",
        resources: &["clusters/finalizers"],
        verbs: &["update"],
        names: &[],
        reach: Reach::Cluster,
        why: "apply: name clusters as owners where the server asks who may",
    },
    Right {
        group: "anywhere.eks.amazonaws.com",
        resources: &["bundles", "eksareleases"],
        verbs: READ,
        names: &[],
        reach: Reach::Cluster,
        why: "observe: images of versions",
    },
    Right {
        group: CAPI,
        resources: &["clusters"],
        verbs: &["list", "watch"],
        names: &[],
        reach: Reach::Cluster,
        why: "observe: who else has an endpoint",
    },
    Right {
        group: CAPI,
        resources: &["clusters", "machinedeployments", "machinehealthchecks"],
        verbs: KEEP,
        names: &[],
        reach: Reach::System,
        why: "apply: generated objects",
    },
    Right {
        group: CAPI,
        resources: &["machines"],
        verbs: &["list", "watch"],
        names: &[],
        reach: Reach::System,
        why: "observe: machines that are left",
    },
    Right {
        group: CAPI,
        resources: &["machinesets"],
        verbs: &["list"],
        names: &[],
        reach: Reach::System,
        why: "observe: templates in use",
    },
    Right {
        group: "controlplane.cluster.x-k8s.io",
        resources: &["kubeadmcontrolplanes"],
        verbs: KEEP,
        names: &[],
        reach: Reach::System,
        why: "apply: generated objects",
    },
    Right {
        group: "bootstrap.cluster.x-k8s.io",
        resources: &["kubeadmconfigtemplates"],
        verbs: KEEP,
        names: &[],
        reach: Reach::System,
        why: "apply: generated objects",
    },
    Right {
        group: "infrastructure.cluster.x-k8s.io",
        resources: &["cloudstackclusters", "cloudstackmachinetemplates"],
        verbs: KEEP,
        names: &[],
        reach: Reach::System,
        why: "apply: generated objects",
    },
    Right {
        group: "infrastructure.cluster.x-k8s.io",
        resources: &["cloudstackmachines"],
        verbs: &["list"],
        names: &[],
        reach: Reach::System,
        why: "observe: templates in use",
    },
    Right {
        group: "",
        resources: &["secrets"],
        verbs: READ,
        names: &[],
        reach: Reach::System,
        why: "observe: credentials of CloudStack and kubeconfigs of clusters, and when they change",
    },
    Right {
        group: "",
        resources: &["configmaps"],
        verbs: &["get", "watch"],
        names: &[],
        reach: Reach::System,
        why: "observe: manifests of network plugins, by name, and when they change",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    /// What is generated, and what must not be known, is in one namespace.
    #[test]
    fn nothing_is_written_outside_of_the_system_namespace_but_what_users_wrote() {
        for right in RIGHTS.iter().filter(|right| right.reach != Reach::System) {
            assert_eq!(right.reach, Reach::Cluster, "{right:?}");
            let reads = right.verbs.iter().all(|verb| READ.contains(verb));
            assert!(right.group == "anywhere.eks.amazonaws.com" || reads, "{right:?}");
            assert!(!right.resources.iter().any(|one| ["secrets", "configmaps"].contains(one)), "{right:?}");
        }
        let all = RIGHTS.iter().flat_map(|right| right.verbs.iter().chain(right.resources));
        assert!(all.into_iter().all(|word| *word != "*"));
        let secrets = RIGHTS.iter().filter(|right| right.resources.contains(&"secrets"));
        assert!(secrets.into_iter().all(|right| right.verbs.iter().all(|verb| READ.contains(verb))));
    }

    /// Claims of every namespace name Secrets, so that not all of the room ends at its namespace.
    #[test]
    fn the_kind_of_claims_reads_secrets_everywhere_and_writes_none() {
        let secrets = crate::vm::rights::RIGHTS.iter().filter(|right| right.resources.contains(&"secrets"));
        let wide: Vec<(Reach, &[&str])> = secrets.map(|right| (right.reach, right.verbs)).collect();
        assert_eq!(wide, [(Reach::Cluster, READ)]);
    }
}
