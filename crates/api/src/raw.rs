//! Our own kinds as they are received, before anything of them is believed.
//!
//! Spec and status stay as they came: what a projection cannot read is then a fault of that one object, never of the
//! list it came in. All projections of one kind read the same type, because they share its watch.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde_json::Value;

use crate::meta::{lean_meta, managed_meta};

macro_rules! raw {
    ($(#[$doc:meta])* $ty:ident, $meta:literal, group: $group:expr, version: $version:literal, plural: $plural:expr, scope: $scope:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Deserialize)]
        pub struct $ty {
            /// Metadata without the bulk of `managedFields`.
            #[serde(default, deserialize_with = $meta)]
            pub metadata: ObjectMeta,
            /// The spec, unread.
            #[serde(default)]
            pub spec: Value,
            /// The status, unread.
            #[serde(default)]
            pub status: Value,
        }

        crate::view! { $ty, group: $group, versions: [$version], plural: $plural, scope: $scope }
    };
}

raw! {
    /// A HostClaim; its metadata says who manages its status.
    HostClaim, "managed_meta", group: "metal3.io", version: "v1alpha1", plural: "hostclaims", scope: Namespaced
}
raw! {
    /// A HostDeployPolicy.
    HostDeployPolicy, "lean_meta", group: "metal3.io", version: "v1alpha1", plural: "hostdeploypolicies", scope: Namespaced
}
raw! {
    /// A HostClaimQuota.
    HostClaimQuota, "lean_meta", group: crate::names::GROUP, version: "v1alpha1", plural: "hostclaimquotas", scope: Cluster
}
raw! {
    /// An AWSMachine.
    AWSMachine, "lean_meta", group: crate::views::INFRASTRUCTURE_GROUP, version: "v1beta2", plural: "awsmachines", scope: Namespaced
}
raw! {
    /// A Cluster of EKS Anywhere.
    Cluster, "lean_meta", group: crate::names::clusters::GROUP, version: "v1alpha1", plural: "clusters", scope: Namespaced
}
raw! {
    /// A CloudStackDatacenterConfig.
    CloudStackDatacenterConfig, "lean_meta", group: crate::names::clusters::GROUP, version: "v1alpha1", plural: "cloudstackdatacenterconfigs", scope: Namespaced
}
raw! {
    /// A CloudStackMachineConfig.
    CloudStackMachineConfig, "lean_meta", group: crate::names::clusters::GROUP, version: "v1alpha1", plural: "cloudstackmachineconfigs", scope: Namespaced
}
raw! {
    /// An OIDCConfig.
    OIDCConfig, "lean_meta", group: crate::names::clusters::GROUP, version: "v1alpha1", plural: "oidcconfigs", scope: Namespaced
}
raw! {
    /// An AWSIamConfig.
    AWSIamConfig, "lean_meta", group: crate::names::clusters::GROUP, version: "v1alpha1", plural: "awsiamconfigs", scope: Namespaced
}
raw! {
    /// A Bundles object.
    Bundles, "lean_meta", group: crate::names::clusters::GROUP, version: "v1alpha1", plural: "bundles", scope: Namespaced
}
raw! {
    /// An EKSARelease.
    EKSARelease, "lean_meta", group: crate::names::clusters::GROUP, version: "v1alpha1", plural: "eksareleases", scope: Namespaced
}
raw! {
    /// A Metal3DataTemplate.
    Metal3DataTemplate, "lean_meta", group: crate::views::INFRASTRUCTURE_GROUP, version: "v1beta2", plural: "metal3datatemplates", scope: Namespaced
}
raw! {
    /// A Metal3DataClaim.
    Metal3DataClaim, "lean_meta", group: crate::views::INFRASTRUCTURE_GROUP, version: "v1beta2", plural: "metal3dataclaims", scope: Namespaced
}
raw! {
    /// A Metal3Data.
    Metal3Data, "lean_meta", group: crate::views::INFRASTRUCTURE_GROUP, version: "v1beta2", plural: "metal3datas", scope: Namespaced
}
raw! {
    /// A Metal3Remediation.
    Metal3Remediation, "lean_meta", group: crate::views::INFRASTRUCTURE_GROUP, version: "v1beta2", plural: "metal3remediations", scope: Namespaced
}
raw! {
    /// A Metal3Machine.
    Metal3Machine, "lean_meta", group: crate::views::INFRASTRUCTURE_GROUP, version: "v1beta2", plural: "metal3machines", scope: Namespaced
}
raw! {
    /// A Metal3Cluster; its metadata says who manages its status.
    Metal3Cluster, "managed_meta", group: crate::views::INFRASTRUCTURE_GROUP, version: "v1beta2", plural: "metal3clusters", scope: Namespaced
}
