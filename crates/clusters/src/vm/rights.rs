//! What the kind asks of the API server.

use kit::rights::{Reach, Right};

/// The rights of this kind's controller, besides those of a heartbeat.
pub const RIGHTS: &[Right] = &[
    Right {
        group: "metal3.io",
        resources: &["hostclaims"],
        verbs: &["get", "list", "watch", "patch"],
        names: &[],
        reach: Reach::Cluster,
        why: "cloudstack-vm: follow claims, their finalizer and fulfilled requests, and read one before its machine is made",
    },
    Right {
        group: "metal3.io",
        resources: &["hostclaims/status"],
        verbs: &["patch"],
        names: &[],
        reach: Reach::Cluster,
        why: "cloudstack-vm: what is about to be made and how it is doing",
    },
    Right {
        group: "",
        resources: &["secrets"],
        verbs: &["get", "list", "watch"],
        names: &[],
        reach: Reach::Cluster,
        why: "cloudstack-vm: credentials and user data that claims name, and when they change",
    },
    Right {
        group: "",
        resources: &["namespaces"],
        verbs: &["list", "watch"],
        names: &[],
        reach: Reach::Cluster,
        why: "cloudstack-vm: the labels that quotas select by",
    },
    Right {
        group: "berth.dev",
        resources: &["hostclaimquotas"],
        verbs: &["list", "watch"],
        names: &[],
        reach: Reach::Cluster,
        why: "cloudstack-vm: how many machines tenants may hold",
    },
    Right {
        group: "cluster.x-k8s.io",
        resources: &["clusters"],
        verbs: &["list", "watch"],
        names: &[],
        reach: Reach::Cluster,
        why: "cloudstack-vm: whether a claim's cluster is paused",
    },
];
