//! Cluster: a Kubernetes cluster on CloudStack as its owner wants it.
#![allow(clippy::duplicated_attributes, reason = "printer columns repeat their types and priorities")]

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cluster_status::ClusterStatus;
use super::control_plane::{ControlPlane, ExternalEtcd};
use super::network::{ClusterNetwork, Proxy, RegistryMirror};
use super::shared::{BundlesRef, HealthCheck, ManagementCluster, Ref};
use super::workers::WorkerGroup;

/// What a cluster is to be.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "anywhere.eks.amazonaws.com",
    version = "v1alpha1",
    kind = "Cluster",
    plural = "clusters",
    shortname = "eksac",
    category = "berth",
    namespaced,
    status = "ClusterStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "A Kubernetes cluster on CloudStack: its control plane, its groups of workers, and where they run.",
    printcolumn(name = "Kubernetes", type_ = "string", json_path = ".spec.kubernetesVersion"),
    printcolumn(name = "Ready", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].status"#),
    printcolumn(name = "Reason", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].reason"#),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Failure", type_ = "string", json_path = ".status.failureReason", priority = "1"),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].message"#,
        priority = "1"
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "has(self.kubernetesVersion) && self.kubernetesVersion.matches('^1\\\\.[0-9]{2}$')",
        "message": "kubernetesVersion: quote it, e.g. \"1.30\""
    },
    {
        "rule": "has(self.datacenterRef) && has(self.datacenterRef.kind) && self.datacenterRef.kind == 'CloudStackDatacenterConfig' && has(self.datacenterRef.name) && self.datacenterRef.name != ''",
        "message": "datacenterRef: must reference a CloudStackDatacenterConfig by name"
    },
    {
        "rule": "has(self.controlPlaneConfiguration) && has(self.controlPlaneConfiguration.endpoint) && self.controlPlaneConfiguration.endpoint.host != ''",
        "message": "controlPlaneConfiguration.endpoint.host: required"
    },
    {
        "rule": "has(self.workerNodeGroupConfigurations) && self.workerNodeGroupConfigurations.size() > 0",
        "message": "workerNodeGroupConfigurations: at least one worker group"
    },
    {
        "rule": "!(has(self.eksaVersion) && self.eksaVersion != '' && has(self.bundlesRef))",
        "message": "eksaVersion and bundlesRef are mutually exclusive"
    }
]))]
pub struct ClusterSpec {
    /// Kubernetes version as major and minor, quoted, such as "1.31"; it selects the entry of the bundle.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 32))]
    pub kubernetes_version: String,

    /// The cluster that manages this one; empty or its own name for a self-managed cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "ManagementCluster::json_schema")]
    pub management_cluster: Option<ManagementCluster>,

    /// The CloudStackDatacenterConfig that says where machines may run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "Ref::json_schema")]
    pub datacenter_ref: Option<Ref>,

    /// Addresses of pods and services, and the network plugin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "ClusterNetwork::json_schema")]
    pub cluster_network: Option<ClusterNetwork>,

    /// The machines of the control plane and how they are reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "ControlPlane::json_schema")]
    pub control_plane_configuration: Option<ControlPlane>,

    /// Groups of worker machines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "atomic"))]
    pub worker_node_group_configurations: Vec<WorkerGroup>,

    /// Machines that run etcd apart from the control plane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "ExternalEtcd::json_schema")]
    pub external_etcd_configuration: Option<ExternalEtcd>,

    /// Proxies that machines use to reach the outside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "Proxy::json_schema")]
    pub proxy_configuration: Option<Proxy>,

    /// A registry that stands in for those images come from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "RegistryMirror::json_schema")]
    pub registry_mirror_configuration: Option<RegistryMirror>,

    /// Who tells the API server who users are: an OIDCConfig, an AWSIamConfig, or one of each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "atomic"))]
    pub identity_provider_refs: Vec<Ref>,

    /// Identity of service accounts towards others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "PodIam::json_schema")]
    pub pod_iam_config: Option<PodIam>,

    /// The release of EKS Anywhere whose bundle is used.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 128))]
    pub eksa_version: String,

    /// The bundle that is used, instead of the one of a release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "BundlesRef::json_schema")]
    pub bundles_ref: Option<BundlesRef>,

    /// When a machine counts as unhealthy, for all roles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "HealthCheck::json_schema")]
    pub machine_health_check: Option<HealthCheck>,

    /// How etcd encrypts what it stores.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub etcd_encryption: Vec<EtcdEncryption>,

    /// The GitOps configuration this cluster is kept by; kept and shown only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "Ref::json_schema")]
    pub git_ops_ref: Option<Ref>,

    /// Curated packages; kept and shown only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "Packages::json_schema")]
    pub packages: Option<Packages>,

    /// A licence; kept only.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 16384))]
    pub license_token: String,
}

/// Identity of service accounts towards others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodIam {
    /// The issuer that the tokens of service accounts name.
    #[schemars(length(max = 2048))]
    pub service_account_issuer: String,
}

/// How some resources are encrypted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EtcdEncryption {
    /// The providers, the first of which encrypts.
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "atomic"))]
    pub providers: Vec<EncryptionProvider>,

    /// The resources.
    #[schemars(length(max = 64), inner(length(max = 317)), extend("x-kubernetes-list-type" = "atomic"))]
    pub resources: Vec<String>,
}

/// One provider of encryption.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EncryptionProvider {
    /// A key management service.
    #[schemars(schema_with = "Kms::json_schema")]
    pub kms: Kms,
}

/// A key management service that is reached by a socket.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Kms {
    /// How many keys are kept in memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = -1_000_000_000, max = 1_000_000_000))]
    pub cachesize: Option<i32>,

    /// The name of the service.
    #[schemars(length(max = 253))]
    pub name: String,

    /// The address of its socket.
    #[schemars(length(max = 1024))]
    pub socket_listen_address: String,

    /// How long it is waited for, as a duration such as 3s.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 64))]
    pub timeout: String,
}

/// Curated packages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Packages {
    /// Whether packages are not wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disable: Option<bool>,

    /// The controller of packages; refused on workload clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "PackageController::json_schema")]
    pub controller: Option<PackageController>,

    /// The job that renews credentials of packages; refused on workload clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "PackageCronjob::json_schema")]
    pub cronjob: Option<PackageCronjob>,
}

/// The controller of packages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PackageController {
    /// Digest of the image.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 512))]
    pub digest: String,

    /// Whether its webhooks are switched off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disable_webhooks: Option<bool>,

    /// Environment of the controller, as name=value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(max = 4096)), extend("x-kubernetes-list-type" = "atomic"))]
    pub env: Vec<String>,

    /// Repository of the image.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 2048))]
    pub repository: String,

    /// Tag of the image.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 512))]
    pub tag: String,

    /// Processors and memory it asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "PackageResources::json_schema")]
    pub resources: Option<PackageResources>,
}

/// Processors and memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PackageResources {
    /// What it may use at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "PackageQuantities::json_schema")]
    pub limits: Option<PackageQuantities>,

    /// What it is promised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "PackageQuantities::json_schema")]
    pub requests: Option<PackageQuantities>,
}

/// Amounts of processors and memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PackageQuantities {
    /// Processors.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 64))]
    pub cpu: String,

    /// Memory in bytes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 64))]
    pub memory: String,
}

/// The job that renews credentials of packages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PackageCronjob {
    /// Digest of the image.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 512))]
    pub digest: String,

    /// Whether the job is not wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disable: Option<bool>,

    /// Repository of the image.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 2048))]
    pub repository: String,

    /// Tag of the image.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 512))]
    pub tag: String,
}
