//! The kinds of EKS Anywhere that describe clusters on CloudStack, field for field as their users know them.

mod bundles;
mod cluster;
mod cluster_status;
mod control_plane;
mod datacenter;
mod identity;
mod machine;
mod network;
mod shared;
mod workers;

pub use bundles::{
    Bundles, BundlesSpec, CiliumBundle, CloudStackBundle, EKSARelease, EKSAReleaseSpec, Image, ImageSource, KubeDistro,
    ManifestRef, VersionsBundle,
};
pub use cluster::{
    Cluster, ClusterSpec, EncryptionProvider, EtcdEncryption, Kms, PackageController, PackageCronjob,
    PackageQuantities, PackageResources, Packages, PodIam,
};
pub use cluster_status::{CertificateInfo, ClusterStatus, GradedCondition, InstalledCni, ObjectRef, ResolvedBundles};
pub use control_plane::{ControlPlane, ControlPlaneRollingUpdate, ControlPlaneRollout, Endpoint, ExternalEtcd};
pub use datacenter::{
    AvailabilityZone, CloudStackDatacenterConfig, CloudStackDatacenterConfigSpec, CloudStackDatacenterConfigStatus,
    ResolvedZone, Zone,
};
pub use identity::{
    AWSIamConfig, AWSIamConfigSpec, IdentityStatus, MappedRole, MappedUser, OIDCConfig, OIDCConfigSpec, RequiredClaim,
};
pub use machine::{
    CloudStackMachineConfig, CloudStackMachineConfigSpec, CloudStackMachineConfigStatus, DiskOffering, User,
};
pub use network::{
    CidrBlocks, Cilium, ClusterNetwork, CniConfig, Dns, Kindnetd, NodeNetwork, OciNamespace, Proxy, RegistryMirror,
    ResolvConf,
};
pub use shared::{BundlesRef, HealthCheck, ManagementCluster, Named, Ref, Taint};
pub use workers::{Autoscaling, WorkerGroup, WorkerRollingUpdate, WorkerRollout};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

use super::finish;

/// The definitions of these kinds, in alphabetical order of their names; those of EKS Anywhere itself may be installed instead.
pub fn crds() -> Vec<CustomResourceDefinition> {
    [
        AWSIamConfig::crd(),
        Bundles::crd(),
        CloudStackDatacenterConfig::crd(),
        CloudStackMachineConfig::crd(),
        Cluster::crd(),
        EKSARelease::crd(),
        OIDCConfig::crd(),
    ]
    .into_iter()
    .map(|crd| finish(crd, &[], Vec::new()))
    .collect()
}

#[cfg(test)]
mod tests;
