//! Names about Metal3 machines and clusters: finalizers and annotations, ours and those of the Cluster API provider for Metal3.

/// Finalizer of a Metal3Machine; the provider's own, so that machines can change hands.
pub const MACHINE_FINALIZER: &str = "metal3machine.infrastructure.cluster.x-k8s.io";
/// Finalizer of a Metal3Cluster; the provider's own, so that clusters can change hands.
pub const CLUSTER_FINALIZER: &str = "metal3cluster.infrastructure.cluster.x-k8s.io";
/// Annotation on a Metal3Machine: namespace and name of its claim.
pub const HOST_CLAIM_ANNOTATION: &str = "metal3.io/HostClaim";
/// The provider's annotation on a Metal3Machine: namespace and name of the host it took directly.
pub const BARE_METAL_HOST_ANNOTATION: &str = "metal3.io/BareMetalHost";
/// Annotation on a Cluster: domains of host labels that are kept equal on nodes, separated by commas.
pub const LABEL_SYNC_ANNOTATION: &str = "metal3.io/metal3-label-sync-prefixes";
/// Annotation on a machine: the template it was made from.
pub const CLONED_FROM_ANNOTATION: &str = "cluster.x-k8s.io/cloned-from-name";
/// Annotation on a Metal3Cluster: with the value `true` Berth looks after it, with `false` it never does.
pub const MANAGED_ANNOTATION: &str = "machines.berth.dev/managed";
/// Label on a node: its name in the network.
pub const HOSTNAME_LABEL: &str = "kubernetes.io/hostname";
