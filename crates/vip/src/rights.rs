//! What the room asks of the API server.

use kit::rights::{Reach, Right};

const CAPI: &str = "cluster.x-k8s.io";
const IPAM: &str = "ipam.cluster.x-k8s.io";

/// The rights of this room.
pub const RIGHTS: &[Right] = &[
    Right {
        group: CAPI,
        resources: &["clusters"],
        verbs: &["get", "list", "watch", "patch"],
        names: &[],
        reach: Reach::Cluster,
        why: "observe and apply: read Clusters, write the endpoint, annotations and variables",
    },
    Right {
        group: CAPI,
        resources: &["clusters/status"],
        verbs: &["patch"],
        names: &[],
        reach: Reach::Cluster,
        why: "status: say how things stand with the addresses",
    },
    Right {
        group: CAPI,
        resources: &["clusters/finalizers"],
        verbs: &["update"],
        names: &[],
        reach: Reach::Cluster,
        why: "apply: own claims with blockOwnerDeletion where the server checks that right",
    },
    Right {
        group: CAPI,
        resources: &["clusterclasses"],
        verbs: &["get", "list", "watch"],
        names: &[],
        reach: Reach::Cluster,
        why: "observe: which variables a class defines, and whether it names our handlers",
    },
    Right {
        group: IPAM,
        resources: &["ipaddressclaims"],
        verbs: &["get", "list", "watch", "create", "patch", "delete"],
        names: &[],
        reach: Reach::Cluster,
        why: "observe and apply: claim addresses, take over and release claims",
    },
    Right {
        group: IPAM,
        resources: &["ipaddresses", "inclusterippools", "globalinclusterippools"],
        verbs: &["list", "watch"],
        names: &[],
        reach: Reach::Cluster,
        why: "observe: what claims were given, and what pools have left",
    },
    Right {
        group: "",
        resources: &["namespaces"],
        verbs: &["list", "watch"],
        names: &[],
        reach: Reach::Cluster,
        why: "observe: labels that pools select namespaces by",
    },
];
