//! Names about clusters on CloudStack: annotations, labels, finalizers and fixed objects, ours and those of EKS Anywhere.

/// The API group of the kinds that users write.
pub const GROUP: &str = "anywhere.eks.amazonaws.com";
/// The version those kinds are served at.
pub const VERSION: &str = "v1alpha1";
/// The namespace of credentials, bundles and every generated object.
pub const SYSTEM_NAMESPACE: &str = "eksa-system";
/// The field manager of generated objects, the same as that of the controller whose clusters are taken over.
pub const FIELD_MANAGER: &str = "eks-a-controller";
/// Finalizer of Clusters.
pub const FINALIZER: &str = "clusters.anywhere.eks.amazonaws.com/finalizer";

/// Label on a generated object: the name of the Cluster it was made for.
pub const OWNER_NAME_LABEL: &str = "cluster.anywhere.eks.amazonaws.com/cluster-name";
/// Label on a generated object: the namespace of the Cluster it was made for.
pub const OWNER_NAMESPACE_LABEL: &str = "cluster.anywhere.eks.amazonaws.com/cluster-namespace";

/// Annotation on the three kinds: with the value `true`, nothing is done and anything may be changed.
pub const PAUSED_ANNOTATION: &str = "anywhere.eks.amazonaws.com/paused";
/// Annotation on a Cluster: it may be deleted although it is paused.
pub const ALLOW_DELETE_WHEN_PAUSED_ANNOTATION: &str = "anywhere.eks.amazonaws.com/allow-delete-when-paused";
/// Annotation on a Cluster: a command line looks after it.
pub const MANAGED_BY_CLI_ANNOTATION: &str = "anywhere.eks.amazonaws.com/managed-by-cli";
/// Annotation on a Cluster: nobody asks whether its endpoint is in use already.
pub const SKIP_IP_CHECK_ANNOTATION: &str = "anywhere.eks.amazonaws.com/skip-ip-check";
/// Annotation on a Cluster: its release may move further than one minor at a time.
pub const SKIP_VERSION_SKEW_ANNOTATION: &str = "anywhere.eks.amazonaws.com/skip-eksa-version-skew-check";
/// Annotation on a Cluster: its network plugin was installed once.
pub const CILIUM_INSTALLED_ANNOTATION: &str = "anywhere.eks.amazonaws.com/eksa-cilium";
/// Annotation on a Cluster: it is to be rendered as this build renders, whatever it was rendered with before.
pub const ADOPT_REVISION_ANNOTATION: &str = "clusters.berth.dev/adopt-render-revision";
/// Label on the DaemonSet of a network plugin: we installed it.
pub const MANAGED_LABEL: &str = "clusters.berth.dev/managed";
/// Annotation on the pods of a network plugin: what its settings were when they were started.
pub const SETTINGS_ANNOTATION: &str = "clusters.berth.dev/settings-hash";
/// Annotation on a machine of a provider: the template it was made from.
pub const CLONED_FROM_ANNOTATION: &str = "cluster.x-k8s.io/cloned-from-name";

/// The value of an annotation that switches something on.
pub const ON: &str = "true";
