//! What the room asks of the API server.

use kit::rights::{Reach, Right};

const READ: &[&str] = &["get", "list", "watch"];
const KEEP: &[&str] = &["get", "list", "watch", "create", "patch", "delete"];

/// The rights of this room. Generated objects, secrets and manifests are read and written in one namespace, whose name is
/// an operator's to choose.
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
        group: "cluster.x-k8s.io",
        resources: &["clusters", "machinedeployments", "machinehealthchecks"],
        verbs: KEEP,
        names: &[],
        reach: Reach::Cluster,
        why: "apply: generated objects",
    },
    Right {
        group: "cluster.x-k8s.io",
        resources: &["machines", "machinesets"],
        verbs: READ,
        names: &[],
        reach: Reach::Cluster,
        why: "observe: machines that are left, and templates in use",
    },
    Right {
        group: "controlplane.cluster.x-k8s.io",
        resources: &["kubeadmcontrolplanes"],
        verbs: KEEP,
        names: &[],
        reach: Reach::Cluster,
        why: "apply: generated objects",
    },
    Right {
        group: "bootstrap.cluster.x-k8s.io",
        resources: &["kubeadmconfigtemplates"],
        verbs: KEEP,
        names: &[],
        reach: Reach::Cluster,
        why: "apply: generated objects",
    },
    Right {
        group: "infrastructure.cluster.x-k8s.io",
        resources: &["cloudstackclusters", "cloudstackmachinetemplates"],
        verbs: KEEP,
        names: &[],
        reach: Reach::Cluster,
        why: "apply: generated objects",
    },
    Right {
        group: "infrastructure.cluster.x-k8s.io",
        resources: &["cloudstackmachines"],
        verbs: READ,
        names: &[],
        reach: Reach::Cluster,
        why: "observe: templates in use",
    },
    Right {
        group: "",
        resources: &["secrets"],
        verbs: READ,
        names: &[],
        reach: Reach::Cluster,
        why: "observe: credentials of CloudStack and kubeconfigs of clusters, and when they change",
    },
    Right {
        group: "",
        resources: &["configmaps"],
        verbs: &["get", "watch"],
        names: &[],
        reach: Reach::Cluster,
        why: "observe: manifests of network plugins, by name, and when they change",
    },
];
