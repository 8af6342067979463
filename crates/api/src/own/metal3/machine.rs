//! Metal3Machine: one Cluster API machine on a claimed host.
//!
//! The field set is that of the Cluster API provider for Metal3, so that objects written for it are stored as they are. Berth
//! adds `kind`, `args`, `hostSelector.inNamespace`, `failureDomainDataTemplates` and a little status.
#![allow(clippy::duplicated_attributes, reason = "printer columns repeat their types and priorities")]

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::aws_machine::lenient;
use super::super::{CleaningMode, CustomDeploy, HostAddress, HostImage, HostSelector, SecretReference, schema};
use super::shared::{self, Deprecated, Initialization, NamedRef};

/// What host is wanted and what is to run on it.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta2",
    kind = "Metal3Machine",
    plural = "metal3machines",
    shortname = "m3m",
    shortname = "m3machine",
    shortname = "m3machines",
    shortname = "metal3m",
    shortname = "metal3machine",
    category = "cluster-api",
    category = "berth",
    namespaced,
    status = "Metal3MachineStatus",
    derive = "PartialEq",
    doc = "One Cluster API machine, the claim it is made of and what is to run on it.",
    printcolumn(
        name = "Address",
        type_ = "string",
        json_path = r#".status.addresses[?(@.type=="InternalIP")].address"#
    ),
    printcolumn(name = "Ready", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].status"#),
    printcolumn(name = "Reason", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].reason"#),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Cluster",
        type_ = "string",
        json_path = r".metadata.labels.cluster\.x-k8s\.io/cluster-name",
        priority = "1"
    ),
    printcolumn(name = "Kind", type_ = "string", json_path = ".spec.kind", priority = "1"),
    printcolumn(name = "Claim", type_ = "string", json_path = ".status.hostClaim.name", priority = "1"),
    printcolumn(name = "Failure Domain", type_ = "string", json_path = ".status.failureDomain", priority = "1"),
    printcolumn(name = "ProviderID", type_ = "string", json_path = ".spec.providerID", priority = "1"),
    printcolumn(
        name = "Provisioned",
        type_ = "string",
        json_path = ".status.initialization.provisioned",
        priority = "1"
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].message"#,
        priority = "1"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct Metal3MachineSpec {
    /// The kind of compute the machine is made of, one of the cluster's HostClaimKinds; it cannot be changed. Absent takes a
    /// host directly, or what the operator was told to take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub kind: Option<String>,

    /// Arguments for the controller of the kind.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "shared::args")]
    pub args: BTreeMap<String, String>,

    /// The id of the machine as its node carries it; the controller sets it.
    #[serde(default, rename = "providerID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub provider_id: Option<String>,

    /// The image to deploy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "MachineImage::json_schema")]
    pub image: Option<MachineImage>,

    /// A deploy method of the site instead of an image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "shared::custom_deploy")]
    pub custom_deploy: Option<CustomDeploy>,

    /// The Secret with the user data; absent takes that of the Machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "shared::secret")]
    pub user_data: Option<SecretReference>,

    /// The Secret with the metadata, instead of rendered ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "shared::secret")]
    pub meta_data: Option<SecretReference>,

    /// The Secret with the network data, instead of rendered ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "shared::secret")]
    pub network_data: Option<SecretReference>,

    /// Which hosts fit; empty fits every host.
    #[serde(default, skip_serializing_if = "HostSelector::is_empty")]
    #[schemars(schema_with = "shared::host_selector")]
    pub host_selector: HostSelector,

    /// The Metal3DataTemplate that metadata and network data are rendered from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "NamedRef::json_schema")]
    pub data_template: Option<NamedRef>,

    /// Metal3DataTemplates to use instead, by the failure domain the machine really is in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 100),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["failureDomain"])
    )]
    pub failure_domain_data_templates: Vec<FailureDomainDataTemplate>,

    /// How disks are cleaned when the machine is removed; absent leaves it to the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "CleaningMode::json_schema")]
    pub automated_cleaning_mode: Option<CleaningMode>,

    /// The failure domain the machine should be in; that of the Machine counts more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub failure_domain: Option<String>,
}

impl Metal3MachineSpec {
    /// The data template for a machine that is in the given failure domain.
    #[must_use]
    pub fn data_template_in(&self, failure_domain: Option<&str>) -> Option<&NamedRef> {
        let own = self.failure_domain_data_templates.iter().find(|t| Some(t.failure_domain.as_str()) == failure_domain);
        own.map(|t| &t.data_template).or(self.data_template.as_ref())
    }
}

/// A data template for one failure domain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailureDomainDataTemplate {
    /// The failure domain.
    #[schemars(length(min = 1, max = 256))]
    pub failure_domain: String,

    /// The Metal3DataTemplate for machines in it.
    #[schemars(schema_with = "NamedRef::json_schema")]
    pub data_template: NamedRef,
}

/// An image to deploy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineImage {
    /// Where the image is.
    #[schemars(length(min = 1, max = 4096))]
    pub url: String,

    /// The checksum of the image, or the url of a file that holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub checksum: Option<String>,

    /// How the checksum was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::checksum_type")]
    pub checksum_type: Option<String>,

    /// The format of the image; absent lets the deploying side find out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::image_format")]
    pub disk_format: Option<String>,
}

impl MachineImage {
    /// The image as a claim names it.
    #[must_use]
    pub fn for_claim(&self) -> HostImage {
        HostImage {
            url: self.url.clone(),
            checksum: self.checksum.clone(),
            checksum_type: self.checksum_type.clone(),
            format: self.disk_format.clone(),
            oci_auth_secret_name: None,
        }
    }
}

/// Which claim the machine has and how it is doing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Metal3MachineStatus {
    /// The generation of the spec this status was computed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,

    /// What was reached once and is never taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "Initialization::json_schema")]
    pub initialization: Option<Initialization>,

    /// When anything in this status last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub last_updated: Option<Time>,

    /// The claim the machine is made of, in its own namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "HostClaimReference::json_schema")]
    pub host_claim: Option<HostClaimReference>,

    /// The failure domain the machine is in, even when another one was wished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub failure_domain: Option<String>,

    /// The addresses of the machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), extend("x-kubernetes-list-type" = "atomic"))]
    pub addresses: Vec<HostAddress>,

    /// The Secret with the user data that was used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "shared::secret")]
    pub user_data: Option<SecretReference>,

    /// The Secret with the metadata that was used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "shared::secret")]
    pub meta_data: Option<SecretReference>,

    /// The Secret with the network data that was used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "shared::secret")]
    pub network_data: Option<SecretReference>,

    /// The Metal3Data that metadata and network data came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "NamedRef::json_schema")]
    pub rendered_data: Option<NamedRef>,

    /// The aspects of the state of the machine, by type.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "lenient")]
    #[schemars(schema_with = "schema::machine_conditions")]
    pub conditions: Vec<Condition>,

    /// What only the older version shows; kept as others wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "Deprecated::json_schema")]
    pub deprecated: Option<Deprecated>,
}

/// A HostClaim of the machine's own namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostClaimReference {
    /// Name of the claim.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

crate::conditioned!(Metal3MachineStatus);
