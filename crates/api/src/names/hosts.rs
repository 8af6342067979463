//! Names about machines on EC2 and their dedicated hosts: finalizers, annotations and tags, ours and those of the Cluster
//! API provider for AWS.

/// The kind of claims on dedicated hosts.
pub const CLAIM_KIND: &str = "aws-dedicated-host";

/// Finalizer of an AWSMachine; the provider's own, so that its machines can be taken over.
pub const MACHINE_FINALIZER: &str = "awsmachine.infrastructure.cluster.x-k8s.io";

/// Annotation on an AWSMachine: the journal of its hosts, as JSON.
pub const ALLOCATION_ANNOTATION: &str = "hosts.berth.dev/allocation";
/// Annotation on an AWSMachine: the journal of its launch, as JSON.
pub const LAUNCH_ANNOTATION: &str = "hosts.berth.dev/launch";
/// Annotation on an AWSMachine: region and identity, as JSON, for a deletion that finds no AWSCluster.
pub const SCOPE_ANNOTATION: &str = "hosts.berth.dev/scope";
/// Annotation on a claim: which instance it has, as Cluster API knows instances.
pub const INSTANCE_ANNOTATION: &str = "hosts.berth.dev/instance";
/// Annotation on a claim: how far its reboot is.
pub const REBOOT_PROGRESS_ANNOTATION: &str = "hosts.berth.dev/reboot";
/// Annotation on an AWSMachine: with the value `true`, an operator's order to let its hosts go without releasing them.
pub const ABANDON_HOST_ANNOTATION: &str = "hosts.berth.dev/abandon-host";
/// Annotation on an AWSMachine: the tags that were last applied to its hosts, as JSON.
pub const LAST_HOST_TAGS_ANNOTATION: &str = "hosts.berth.dev/last-applied-host-tags";
/// The provider's annotation on an AWSMachine: the tags that were last applied to its instance.
pub const LAST_TAGS_ANNOTATION: &str = "sigs.k8s.io/cluster-api-provider-aws-last-applied-tags";
/// The provider's annotation on an AWSMachine: the tags that were last applied to its disks.
pub const LAST_VOLUME_TAGS_ANNOTATION: &str = "sigs.k8s.io/cluster-api-provider-last-applied-tags-on-volumes";
/// The provider's annotation on an AWSMachine: the security groups that were last applied to its instance.
pub const LAST_SECURITY_GROUPS_ANNOTATION: &str = "sigs.k8s.io/cluster-api-provider-aws-last-applied-security-groups";
/// Annotation on an infrastructure cluster: somebody else keeps it.
pub const EXTERNALLY_MANAGED_ANNOTATION: &str = "cluster.x-k8s.io/managed-by";
/// Annotation on an object: the request is a dry run of the topology controller.
pub const TOPOLOGY_DRY_RUN_ANNOTATION: &str = "topology.cluster.x-k8s.io/dry-run";
/// Annotation on a Machine: its owner is to replace it.
pub const REMEDIATE_ANNOTATION: &str = "cluster.x-k8s.io/remediate-machine";
/// Label on a Machine: it belongs to a control plane.
pub const CONTROL_PLANE_LABEL: &str = "cluster.x-k8s.io/control-plane";

/// Tag on a host: the id of the allocation it belongs to; a host without it is never released.
pub const ALLOCATION_ID_TAG: &str = "hosts.berth.dev/allocation-id";
/// Tag on a host: the uid of the namespace kube-system of the cluster that manages it.
pub const MANAGEMENT_CLUSTER_TAG: &str = "hosts.berth.dev/management-cluster";
/// Tag on a host: whether it is released with its machine.
pub const AUTO_RELEASE_TAG: &str = "hosts.berth.dev/auto-release";
/// Tag on a host: it was left behind on purpose.
pub const RETAINED_TAG: &str = "hosts.berth.dev/retained";
/// Tag on a host that was left behind: the machine it was allocated for.
pub const RETAINED_FROM_TAG: &str = "hosts.berth.dev/retained-from";
/// Tag on a host: its machine is gone and it is to be released.
pub const RELEASE_PENDING_TAG: &str = "hosts.berth.dev/release-pending";
/// Tag on a host that is to be released: not before this time.
pub const RELEASABLE_AFTER_TAG: &str = "hosts.berth.dev/releasable-after";
/// Tag on a host: the group of machines that share it.
pub const GROUP_TAG: &str = "hosts.berth.dev/group";
/// Tag on a resource: the namespace and name of the Machine it was made for.
pub const MACHINE_NAME_TAG: &str = "MachineName";
/// Tag on a resource: its name in the console.
pub const NAME_TAG: &str = "Name";
/// Tag on a resource: whether it is for the control plane or for nodes.
pub const ROLE_TAG: &str = "sigs.k8s.io/cluster-api-provider-aws/role";
/// Tag on a subnet: with the value `secondary`, it is not for nodes.
pub const ASSOCIATION_TAG: &str = "sigs.k8s.io/cluster-api-provider-aws/association";
/// Start of the tag on a resource by which the provider knows its cluster; the name of the cluster follows.
pub const CLUSTER_TAG_PREFIX: &str = "sigs.k8s.io/cluster-api-provider-aws/cluster/";
/// Start of the tag on a resource by which Kubernetes knows its cluster; the name of the cluster follows.
pub const KUBERNETES_CLUSTER_TAG_PREFIX: &str = "kubernetes.io/cluster/";

/// What keys of tags start with that say whose a resource is or what becomes of it; only what we write counts.
pub const OWN_TAG_PREFIXES: [&str; 2] = ["hosts.berth.dev/", "sigs.k8s.io/cluster-api-provider-aws/"];

/// What keys of tags on hosts must not start with, because they are ours to set.
pub const RESERVED_TAG_PREFIXES: [&str; 3] =
    ["hosts.berth.dev/", "sigs.k8s.io/cluster-api-provider-aws/", KUBERNETES_CLUSTER_TAG_PREFIX];

/// The most tags that EC2 lets a user put on a resource.
pub const MOST_TAGS: usize = 50;
