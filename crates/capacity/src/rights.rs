//! What the room asks of the API server.

use kit::rights::{Reach, Right};

const READ: &[&str] = &["get", "list", "watch"];

/// The rights of this room. Secrets are granted by namespace, by whoever names them: see the chart's
/// `capacity.secretNamespaces`.
pub const RIGHTS: &[Right] = &[
    Right {
        group: "machine.openshift.io",
        resources: &["machinesets"],
        verbs: &["get", "list", "watch", "patch"],
        names: &[],
        reach: Reach::Cluster,
        why: "observe and apply: read MachineSets and write their annotations",
    },
    Right {
        group: "cluster.x-k8s.io",
        resources: &["machinedeployments", "machinesets", "machinepools"],
        verbs: &["get", "list", "watch", "patch"],
        names: &[],
        reach: Reach::Cluster,
        why: "observe and apply: read groups of machines and write their annotations",
    },
    Right {
        group: "cluster.x-k8s.io",
        resources: &["clusters"],
        verbs: READ,
        names: &[],
        reach: Reach::Cluster,
        why: "observe: whether a Cluster is paused, and where it is",
    },
    Right {
        group: "infrastructure.cluster.x-k8s.io",
        resources: &[
            "awsmachinetemplates",
            "awsclusters",
            "awsmachinepools",
            "awsmanagedmachinepools",
            "metal3machinetemplates",
            "cloudstackmachinetemplates",
            "cloudstackclusters",
        ],
        verbs: READ,
        names: &[],
        reach: Reach::Cluster,
        why: "observe: what machines are made of, and the region or zone",
    },
    Right {
        group: "infrastructure.cluster.x-k8s.io",
        resources: &["awsmachinetemplates/status"],
        verbs: &["patch"],
        names: &[],
        reach: Reach::Cluster,
        why: "apply: what machines of a template offer, with --write-template-status",
    },
    Right {
        group: "infrastructure.cluster.x-k8s.io",
        resources: &["awsclustercontrolleridentities", "awsclusterstaticidentities", "awsclusterroleidentities"],
        verbs: READ,
        names: &[],
        reach: Reach::Cluster,
        why: "observe: as whom a cluster is served, with --use-cluster-identity",
    },
    Right {
        group: "metal3.io",
        resources: &["baremetalhosts", "hardwaredata", "hostdeploypolicies"],
        verbs: READ,
        names: &[],
        reach: Reach::Cluster,
        why: "observe: what hosts offer and who may claim them, with --capacity-metal3",
    },
    Right {
        group: "",
        resources: &["namespaces"],
        verbs: READ,
        names: &[],
        reach: Reach::Cluster,
        why: "observe: the labels by which policies and identities allow namespaces, with --capacity-metal3 and --use-cluster-identity",
    },
    Right {
        group: "controlplane.cluster.x-k8s.io",
        resources: &["awsmanagedcontrolplanes", "rosacontrolplanes"],
        verbs: READ,
        names: &[],
        reach: Reach::Cluster,
        why: "observe: the region",
    },
    Right {
        group: "config.openshift.io",
        resources: &["infrastructures"],
        verbs: READ,
        names: &[],
        reach: Reach::Cluster,
        why: "observe: the region and the endpoints of an OpenShift cluster",
    },
    Right {
        group: "",
        resources: &["configmaps"],
        verbs: &["get", "watch"],
        names: &["kube-cloud-config"],
        reach: Reach::Cluster,
        why: "observe: the certificate authorities of an OpenShift cluster",
    },
    Right {
        group: "",
        resources: &["configmaps"],
        verbs: &["get", "patch"],
        names: &[crate::names::CATALOGUE],
        reach: Reach::OwnNamespace,
        why: "catalogue: what the last process was told of instance types, in a ConfigMap that the chart makes",
    },
];
