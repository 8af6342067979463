//! What the room asks of the API server for machines and clusters. Data and remediation have lists of their own.

use kit::rights::{Reach, Right};

const READ: &[&str] = &["get", "list", "watch"];

/// The rights for Metal3Machines and Metal3Clusters. Hosts are not among them: machines see claims only.
pub const RIGHTS: &[Right] = &[
    Right {
        group: "infrastructure.cluster.x-k8s.io",
        resources: &["metal3machines", "metal3clusters"],
        verbs: &["get", "list", "watch", "patch"],
        names: &[],
        reach: Reach::Cluster,
        why: "observe and apply: read machines and clusters, write finalizers, the claim's name and provider ids",
    },
    Right {
        group: "infrastructure.cluster.x-k8s.io",
        resources: &["metal3machines/status", "metal3clusters/status"],
        verbs: &["patch"],
        names: &[],
        reach: Reach::Cluster,
        why: "report: the status of machines and clusters",
    },
    Right {
        group: "infrastructure.cluster.x-k8s.io",
        resources: &["metal3dataclaims"],
        verbs: &["get", "list", "watch", "create", "delete"],
        names: &[],
        reach: Reach::Cluster,
        why: "apply: ask for data of a machine, and give it back",
    },
    Right {
        group: "infrastructure.cluster.x-k8s.io",
        resources: &["metal3datas"],
        verbs: READ,
        names: &[],
        reach: Reach::Cluster,
        why: "observe: the data of a machine",
    },
    Right {
        group: "infrastructure.cluster.x-k8s.io",
        resources: &["metal3machinetemplates"],
        verbs: &["get"],
        names: &[],
        reach: Reach::Cluster,
        why: "observe: whether a machine that is replaced leaves its host to its successor",
    },
    Right {
        group: "metal3.io",
        resources: &["hostclaims"],
        verbs: &["get", "list", "watch", "create", "patch", "delete"],
        names: &[],
        reach: Reach::Cluster,
        why: "apply: make the claim of a machine, give it what is to run, and give it back",
    },
    Right {
        group: "cluster.x-k8s.io",
        resources: &["clusters", "machines"],
        verbs: READ,
        names: &[],
        reach: Reach::Cluster,
        why: "observe: owners, pauses, bootstrap data and failure domains",
    },
    Right {
        group: "",
        resources: &["secrets"],
        verbs: READ,
        names: &[],
        reach: Reach::Cluster,
        why: "observe: that bootstrap data is there (metadata alone), and kubeconfigs of workload clusters by name",
    },
];
