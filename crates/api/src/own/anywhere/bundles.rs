//! Bundles and EKSARelease: which images belong to a version.
#![allow(clippy::duplicated_attributes, reason = "printer columns repeat their types and priorities")]

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::shared::BundlesRef;

/// What belongs together, for several versions of Kubernetes.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "anywhere.eks.amazonaws.com",
    version = "v1alpha1",
    kind = "Bundles",
    plural = "bundles",
    singular = "bundles",
    category = "berth",
    namespaced,
    derive = "PartialEq",
    derive = "Default",
    doc = "Images that belong together, for several versions of Kubernetes.",
    printcolumn(name = "Number", type_ = "integer", json_path = ".spec.number"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct BundlesSpec {
    /// The newest command line of others it is for; kept only.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 128))]
    pub cli_max_version: String,

    /// The oldest command line of others it is for; kept only.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 128))]
    pub cli_min_version: String,

    /// Its number; a newer one is higher.
    #[schemars(range(min = 0))]
    pub number: i64,

    /// One entry for each minor version of Kubernetes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "atomic"))]
    pub versions_bundles: Vec<VersionsBundle>,
}

impl BundlesSpec {
    /// The entry of a minor version.
    #[must_use]
    pub fn entry(&self, kube_version: &str) -> Option<&VersionsBundle> {
        self.versions_bundles.iter().find(|entry| entry.kube_version == kube_version)
    }
}

/// What belongs to one minor version of Kubernetes; what is not named here is kept as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct VersionsBundle {
    /// The version of Kubernetes, such as "1.31".
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 32))]
    pub kube_version: String,

    /// Images of Kubernetes itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "KubeDistro::json_schema")]
    pub kube_distro: Option<KubeDistro>,

    /// What is particular to CloudStack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "CloudStackBundle::json_schema")]
    pub cloud_stack: Option<CloudStackBundle>,

    /// Images and manifests of Cilium.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "CiliumBundle::json_schema")]
    pub cilium: Option<CiliumBundle>,
}

/// Images of Kubernetes itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KubeDistro {
    /// The repository of kubeadm's images, and the version of Kubernetes as its tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "ImageSource::json_schema")]
    pub kubernetes: Option<ImageSource>,

    /// The image of etcd.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "ImageSource::json_schema")]
    pub etcd: Option<ImageSource>,

    /// The image of the cluster's name server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "ImageSource::json_schema")]
    pub coredns: Option<ImageSource>,

    /// Version of etcd, for machines that run it alone.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 128))]
    pub etcd_version: String,

    /// Where etcd is downloaded from, for machines that run it alone.
    #[serde(default, rename = "etcdURL", skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 2048))]
    pub etcd_url: String,
}

/// A repository and a tag in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageSource {
    /// The repository.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 2048))]
    pub repository: String,

    /// The tag in it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 128))]
    pub tag: String,
}

/// What is particular to CloudStack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct CloudStackBundle {
    /// The image that holds the address of the control plane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "Image::json_schema")]
    pub kube_vip: Option<Image>,
}

/// An image.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct Image {
    /// Its full name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 2048))]
    pub uri: String,
}

/// Images and manifests of Cilium.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct CiliumBundle {
    /// Version of Cilium.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 128))]
    pub version: String,

    /// The image that runs on each node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "Image::json_schema")]
    pub image: Option<Image>,

    /// The image of the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "Image::json_schema")]
    pub operator_image: Option<Image>,

    /// The ConfigMap with the rendered manifests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "ManifestRef::json_schema")]
    pub manifest_config_map_ref: Option<ManifestRef>,
}

/// A ConfigMap in eksa-system.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManifestRef {
    /// Its name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub name: String,

    /// Its namespace, eksa-system when it is left out. One elsewhere is not read.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 63))]
    pub namespace: String,
}

/// A release and its bundle.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "anywhere.eks.amazonaws.com",
    version = "v1alpha1",
    kind = "EKSARelease",
    plural = "eksareleases",
    category = "berth",
    namespaced,
    derive = "PartialEq",
    derive = "Default",
    doc = "A release of EKS Anywhere and the bundle that belongs to it.",
    printcolumn(name = "Version", type_ = "string", json_path = ".spec.version"),
    printcolumn(name = "Bundle", type_ = "string", json_path = ".spec.bundlesRef.name"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct EKSAReleaseSpec {
    /// Version of the release.
    #[schemars(length(max = 128))]
    pub version: String,

    /// The bundle of the release.
    #[schemars(schema_with = "BundlesRef::json_schema")]
    pub bundles_ref: BundlesRef,

    /// Where the bundle was published; kept only.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 2048))]
    pub bundle_manifest_url: String,

    /// What it was built from; kept only.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 128))]
    pub git_commit: String,

    /// When it was released; kept only.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 128))]
    pub release_date: String,
}
