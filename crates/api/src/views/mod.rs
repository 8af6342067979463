//! Foreign kinds, reduced to the fields Berth reads.
//!
//! * A view is never written back. Berth changes foreign objects by patches of exactly its own keys, so what a view does
//!   not name survives on the server. Where a patch must carry a whole list, the view keeps its items as they came.
//! * Decoding is lenient: a field that is missing, null or of a type nobody expects reads as absent, an unknown value of
//!   an enumeration is kept as text. One strange object therefore cannot fail the list it came in.
//! * Both shapes of a Cluster API kind, `v1beta1` and `v1beta2`, read to the same value, so rooms need not know which
//!   one a server prefers. [`crate::meta::Versioned`] addresses the older version.

mod aws_cluster;
mod aws_identity;
mod aws_pool;
mod aws_provider;
mod bare_metal_host;
mod cloudstack_provider;
pub mod cloudstack_specs;
mod cluster;
mod cluster_class;
mod common;
mod control_plane;
mod extension_config;
mod hardware_data;
mod ipam;
mod kubernetes;
mod machine;
pub mod metal_ipam;
mod metal_template;
mod openshift;
pub mod soft;

pub use aws_cluster::{AWSCluster, AwsClusterSpec, AwsClusterStatus, AwsSubnet};
pub use aws_identity::{
    AWSClusterControllerIdentity, AWSClusterRoleIdentity, AWSClusterStaticIdentity, AllowedNamespaces,
    ControllerIdentitySpec, NamespaceTerm, RoleIdentitySpec, StaticIdentitySpec,
};
pub use aws_pool::{AWSMachinePool, AWSManagedMachinePool, AwsPoolSpec};
pub use aws_provider::{
    AWSMachineTemplate, AWSManagedControlPlane, AwsIdentityRef, AwsPlaceSpec, AwsTemplateSpec, CONTROL_PLANE_GROUP,
    INFRASTRUCTURE_GROUP, ROSAControlPlane, TemplateStatus,
};
pub use bare_metal_host::{
    BareMetalHost, BareMetalHostSpec, BareMetalHostStatus, CustomDeployView, HostConsumer, HostProvisioning, ImageView,
    SecretView,
};
pub use cloudstack_provider::{CloudStackCluster, CloudStackMachineTemplate};
pub use cluster::{Cluster, ClusterSpec, ClusterStatus, Endpoint, Topology};
pub use cluster_class::{
    ClassPatch, ClassVariable, ClusterClass, ClusterClassSpec, ClusterClassStatus, ExternalPatch, VariableDefinition,
    VariableStatus, WorkerClass,
};
pub use common::{ConditionView, Conditions, Failure, ObjectRef};
pub use control_plane::{
    BOOTSTRAP_GROUP, KubeadmConfigTemplate, KubeadmControlPlane, KubeadmControlPlaneSpec, KubeadmControlPlaneStatus,
    MachineHealthCheck,
};
pub use extension_config::{
    ExtensionConfig, ExtensionConfigSpec, ExtensionConfigStatus, ExtensionHandler, ExtensionService,
};
pub use hardware_data::{CpuView, HardwareData, HardwareDataSpec, HardwareDetails, NicView, StorageView};
pub use ipam::{
    AddressPoolSpec, AddressPoolStatus, GlobalInClusterIPPool, IPAddress, IPAddressClaim, IPAddressClaimSpec,
    IPAddressClaimStatus, IPAddressSpec, InClusterIPPool, PoolCounts,
};
pub use kubernetes::{Namespace, Secret};
pub use machine::{
    Machine, MachineAddress, MachineDeployment, MachineGroupSpec, MachineGroupStatus, MachinePool, MachineSet,
    MachineSpec, MachineStatus, MachineTemplate, Taint,
};
pub use metal_template::Metal3MachineTemplate;
pub use openshift::{
    CONFIG_GROUP, Infrastructure, InfrastructureStatus, MACHINE_API_GROUP, MachineSet as OpenShiftMachineSet,
    OpenShiftSetSpec, OpenShiftSetStatus, ServiceEndpoint,
};

/// Group of the core Cluster API kinds.
pub const CLUSTER_API_GROUP: &str = "cluster.x-k8s.io";
/// Group of the address management kinds.
pub const IPAM_GROUP: &str = "ipam.cluster.x-k8s.io";
/// Group of the hosts and of the claims on them.
pub const METAL3_GROUP: &str = "metal3.io";
/// Group of the runtime extension registration.
pub const RUNTIME_GROUP: &str = "runtime.cluster.x-k8s.io";

#[cfg(test)]
mod tests;
