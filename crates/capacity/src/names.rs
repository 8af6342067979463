//! Annotations, labels and words that cluster-autoscaler, OpenShift and Cluster API spell for us.

use api::names::CAPACITY_PREFIX;

/// What the keys that every current cluster-autoscaler reads start with.
pub const DOMAIN: &str = "capacity.cluster-autoscaler.kubernetes.io";
/// Processors, as a quantity.
pub const CPU: &str = "capacity.cluster-autoscaler.kubernetes.io/cpu";
/// Memory, as a quantity.
pub const MEMORY: &str = "capacity.cluster-autoscaler.kubernetes.io/memory";
/// Accelerators, as an integer.
pub const GPU_COUNT: &str = "capacity.cluster-autoscaler.kubernetes.io/gpu-count";
/// The extended resource of the accelerators.
pub const GPU_TYPE: &str = "capacity.cluster-autoscaler.kubernetes.io/gpu-type";
/// The disk that pods share, as a quantity.
pub const EPHEMERAL_DISK: &str = "capacity.cluster-autoscaler.kubernetes.io/ephemeral-disk";
/// Pods a node takes, as an integer.
pub const MAX_PODS: &str = "capacity.cluster-autoscaler.kubernetes.io/maxPods";
/// Labels of the node, as a comma list.
pub const LABELS: &str = "capacity.cluster-autoscaler.kubernetes.io/labels";
/// Taints of the node, as a comma list.
pub const TAINTS: &str = "capacity.cluster-autoscaler.kubernetes.io/taints";
/// Storage drivers and how many volumes each attaches, as a comma list.
pub const CSI_DRIVER: &str = "capacity.cluster-autoscaler.kubernetes.io/csi-driver";
/// The driver that gives the accelerators away, instead of an extended resource.
pub const DRA_DRIVER: &str = "capacity.cluster-autoscaler.kubernetes.io/dra-driver";

/// Keys that are a user's, unless a flag asks for them.
pub const BY_FLAG: [&str; 2] = [TAINTS, CSI_DRIVER];

/// Processors, as OpenShift's autoscaler up to 4.18 reads them.
pub const LEGACY_CPU: &str = "machine.openshift.io/vCPU";
/// Memory in MiB, whatever the name says.
pub const LEGACY_MEMORY: &str = "machine.openshift.io/memoryMb";
/// Accelerators, all taken for NVIDIA's.
pub const LEGACY_GPU: &str = "machine.openshift.io/GPU";
/// Pods a node takes.
pub const LEGACY_MAX_PODS: &str = "machine.openshift.io/maxPods";

/// What we wrote, so that we know it from what a user wrote.
pub const APPLIED: &str = "capacity.berth.dev/applied";
/// With the value `true`: leave this object alone.
pub const SKIP: &str = "capacity.berth.dev/skip";
/// The ConfigMap, in the namespace we run in, that keeps the catalogue for the next process.
pub const CATALOGUE: &str = "berth-capacity-catalogue";

/// Where the standalone annotator looks for a region.
pub const REGION: &str = "capa.infrastructure.cluster.x-k8s.io/region";

/// Bounds of a node group, lower and upper, as each of the two APIs spells them.
pub const SIZES: [(&str, &str); 2] = [
    (
        "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size",
        "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size",
    ),
    (
        "machine.openshift.io/cluster-api-autoscaler-node-group-min-size",
        "machine.openshift.io/cluster-api-autoscaler-node-group-max-size",
    ),
];

/// Label: architecture of a node.
pub const ARCH: &str = "kubernetes.io/arch";
/// Label: operating system of a node.
pub const OS: &str = "kubernetes.io/os";
/// Label: instance type of a node.
pub const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
/// Label: region of a node.
pub const TOPOLOGY_REGION: &str = "topology.kubernetes.io/region";
/// Label: zone of a node.
pub const TOPOLOGY_ZONE: &str = "topology.kubernetes.io/zone";
/// Label: by it cluster-autoscaler knows nodes whose accelerator driver is still loading.
pub const ACCELERATOR: &str = "cluster-api/accelerator";
/// Label of OpenShift machines: their operating system.
pub const OS_ID: &str = "machine.openshift.io/os-id";

/// Namespace of OpenShift's Machine API objects.
pub const MACHINE_API_NAMESPACE: &str = "openshift-machine-api";
/// Namespace of OpenShift's Cluster API objects.
pub const CLUSTER_API_NAMESPACE: &str = "openshift-cluster-api";

/// NVIDIA's extended resource, which OpenShift's autoscaler takes every GPU for.
pub const NVIDIA_RESOURCE: &str = "nvidia.com/gpu";

/// Whether decisions of this room look at an annotation.
#[must_use]
pub fn matters(key: &str) -> bool {
    key.strip_prefix(DOMAIN).is_some_and(|rest| rest.starts_with('/'))
        || key.strip_prefix(CAPACITY_PREFIX).is_some_and(|rest| rest.starts_with('/'))
        || [LEGACY_CPU, LEGACY_MEMORY, LEGACY_GPU, LEGACY_MAX_PODS, REGION].contains(&key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_decisions_use_is_kept() {
        for key in [CPU, LABELS, LEGACY_GPU, APPLIED, SKIP, REGION] {
            assert!(matters(key), "{key}");
        }
        for key in ["kubectl.kubernetes.io/last-applied-configuration", "capacity.berth.development/x", "a"] {
            assert!(!matters(key), "{key}");
        }
        assert!(APPLIED.starts_with(CAPACITY_PREFIX) && SKIP.starts_with(CAPACITY_PREFIX));
    }
}
