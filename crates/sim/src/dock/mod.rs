//! A stand-in for the providers that Cluster API needs beside itself, for tests and the demo: a dock where clusters lie
//! (infrastructure), a quay that runs them (control plane), and ropes that tie machines up (bootstrap).
//!
//! It fulfils the contracts of Cluster API as far as clusters are concerned: its kinds carry the contract labels, and the
//! [`Provider`] reports what is provisioned and holds objects until it let them go. No machine is ever started.
//! [`Record`] keeps every version of every object that a cluster consists of, and [`oracle`] judges such a history.

pub mod extension;
pub mod kinds;
pub mod objects;
pub mod oracle;
mod provider;
mod record;

use kube::core::GroupVersionKind;
use kube::discovery::ApiResource;

pub use crate::record::{Record, Version};
pub use provider::Provider;

/// Group of Cluster API's own kinds.
pub const CORE: &str = "cluster.x-k8s.io";
/// Group of pools, claims and addresses.
pub const IPAM: &str = "ipam.cluster.x-k8s.io";
/// Group of the dock's kinds.
pub const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io";
/// Group of the quay's kinds.
pub const CONTROL_PLANE: &str = "controlplane.cluster.x-k8s.io";
/// Group of the ropes' kinds.
pub const BOOTSTRAP: &str = "bootstrap.cluster.x-k8s.io";
/// The version of all kinds of the stand-in.
pub const VERSION: &str = "v1alpha1";

/// A kind, found by its name alone; `None` for one that clusters do not consist of.
#[must_use]
pub fn resource(kind: &str) -> Option<ApiResource> {
    let (group, version, plural) = match kind {
        "Cluster" => (CORE, "v1beta2", "clusters"),
        "ClusterClass" => (CORE, "v1beta2", "clusterclasses"),
        "MachineDeployment" => (CORE, "v1beta2", "machinedeployments"),
        "IPAddressClaim" => (IPAM, "v1beta2", "ipaddressclaims"),
        "IPAddress" => (IPAM, "v1beta2", "ipaddresses"),
        "InClusterIPPool" => (IPAM, "v1alpha2", "inclusterippools"),
        "GlobalInClusterIPPool" => (IPAM, "v1alpha2", "globalinclusterippools"),
        "ExtensionConfig" => ("runtime.cluster.x-k8s.io", "v1beta2", "extensionconfigs"),
        _ => {
            let (group, plural) = kinds::KINDS.iter().find(|k| k.kind == kind).map(|k| (k.group, k.plural))?;
            (group, VERSION, plural)
        }
    };
    Some(ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural))
}
