//! What the room of treatments asks of the API server.

use kit::rights::{Reach, Right};

/// The rights of this room.
pub const RIGHTS: &[Right] = &[
    Right {
        group: "infrastructure.cluster.x-k8s.io",
        resources: &["metal3remediations"],
        verbs: &["list", "watch", "patch"],
        names: &[],
        reach: Reach::Cluster,
        why: "observe: follow treatments; apply: the finalizer, and labels and annotations of a Node before it is deleted",
    },
    Right {
        group: "infrastructure.cluster.x-k8s.io",
        resources: &["metal3remediations/status"],
        verbs: &["patch"],
        names: &[],
        reach: Reach::Cluster,
        why: "status: how far a treatment is",
    },
    Right {
        group: "infrastructure.cluster.x-k8s.io",
        resources: &["metal3machines"],
        verbs: &["list", "watch"],
        names: &[],
        reach: Reach::Cluster,
        why: "observe: which machines run on claims",
    },
    Right {
        group: "cluster.x-k8s.io",
        resources: &["machines"],
        verbs: &["get", "list", "watch"],
        names: &[],
        reach: Reach::Cluster,
        why: "observe: the machines that are ill",
    },
    Right {
        group: "cluster.x-k8s.io",
        resources: &["machines/status"],
        verbs: &["patch"],
        names: &[],
        reach: Reach::Cluster,
        why: "apply: ask the owner of a machine to replace it",
    },
    Right {
        group: "cluster.x-k8s.io",
        resources: &["clusters"],
        verbs: &["list", "watch"],
        names: &[],
        reach: Reach::Cluster,
        why: "observe: which clusters are paused",
    },
    Right {
        group: "metal3.io",
        resources: &["hostclaims"],
        verbs: &["list", "watch", "patch"],
        names: &[],
        reach: Reach::Cluster,
        why: "observe: whether hosts are on; apply: have them kept off, and say that one should not be used again",
    },
    Right {
        group: "",
        resources: &["secrets"],
        verbs: &["get", "list", "watch"],
        names: &[],
        reach: Reach::Cluster,
        why: "observe: versions of kubeconfigs (metadata alone), and each version once by name",
    },
];
