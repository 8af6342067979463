//! What the room asks of the API server.

use kit::rights::{Reach, Right};

const READ: &[&str] = &["get", "list", "watch"];

/// The rights of this room. Secrets are read by name, in any namespace: bootstrap data lies beside its machine.
pub const RIGHTS: &[Right] = &[
    Right {
        group: "infrastructure.cluster.x-k8s.io",
        resources: &["awsmachines"],
        verbs: &["get", "list", "watch", "patch"],
        names: &[],
        reach: Reach::Cluster,
        why: "observe and apply: read machines, write their journal, finalizer and ids",
    },
    Right {
        group: "infrastructure.cluster.x-k8s.io",
        resources: &["awsmachines/status"],
        verbs: &["patch"],
        names: &[],
        reach: Reach::Cluster,
        why: "report: the status of machines",
    },
    Right {
        group: "infrastructure.cluster.x-k8s.io",
        resources: &[
            "awsclusters",
            "awsclustercontrolleridentities",
            "awsclusterroleidentities",
            "awsclusterstaticidentities",
        ],
        verbs: READ,
        names: &[],
        reach: Reach::Cluster,
        why: "observe: networks, regions, and as whom EC2 is called",
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
        resources: &["namespaces"],
        verbs: READ,
        names: &[],
        reach: Reach::Cluster,
        why: "observe: the management cluster's name, and which namespaces an identity allows",
    },
    Right {
        group: "",
        resources: &["secrets"],
        verbs: &["get"],
        names: &[],
        reach: Reach::Cluster,
        why: "observe: bootstrap data of machines, and keys of static identities, by name",
    },
];
