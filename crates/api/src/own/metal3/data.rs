//! Metal3DataClaim and Metal3Data: a machine's wish for rendered data, and the data.
#![allow(clippy::duplicated_attributes, reason = "names and printer columns repeat their words")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::aws_machine::lenient;
use super::super::{SecretReference, schema};
use super::shared::{self, NamedRef, is_default};

/// What a machine wants to have rendered.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta2",
    kind = "Metal3DataClaim",
    plural = "metal3dataclaims",
    shortname = "m3dc",
    shortname = "m3dataclaim",
    shortname = "m3dataclaims",
    shortname = "metal3dc",
    shortname = "metal3dataclaim",
    category = "cluster-api",
    category = "berth",
    namespaced,
    status = "Metal3DataClaimStatus",
    derive = "PartialEq",
    doc = "The wish of a machine for data rendered from a Metal3DataTemplate.",
    printcolumn(name = "Data", type_ = "string", json_path = ".status.renderedData.name"),
    printcolumn(name = "Ready", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].status"#),
    printcolumn(name = "Reason", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].reason"#),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Template", type_ = "string", json_path = ".spec.template.name", priority = "1"),
    printcolumn(name = "Error", type_ = "string", json_path = ".status.errorMessage", priority = "1"),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].message"#,
        priority = "1"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct Metal3DataClaimSpec {
    /// The Metal3DataTemplate to render.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(schema_with = "NamedRef::json_schema")]
    pub template: NamedRef,
}

/// What became of the wish.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Metal3DataClaimStatus {
    /// The generation of the spec this status was computed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,

    /// The Metal3Data that was made for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "NamedRef::json_schema")]
    pub rendered_data: Option<NamedRef>,

    /// Why no data could be made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub error_message: Option<String>,

    /// The aspects of the state of the wish, by type.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "lenient")]
    #[schemars(schema_with = "schema::machine_conditions")]
    pub conditions: Vec<Condition>,
}

crate::conditioned!(Metal3DataClaimStatus);

/// What was rendered for whom.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta2",
    kind = "Metal3Data",
    plural = "metal3datas",
    shortname = "m3d",
    shortname = "m3data",
    shortname = "m3datas",
    shortname = "metal3d",
    shortname = "metal3data",
    category = "cluster-api",
    category = "berth",
    namespaced,
    status = "Metal3DataStatus",
    derive = "PartialEq",
    doc = "Data of one machine, rendered from a Metal3DataTemplate into Secrets.",
    printcolumn(name = "Claim", type_ = "string", json_path = ".spec.claim.name"),
    printcolumn(name = "Ready", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].status"#),
    printcolumn(name = "Reason", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].reason"#),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Template", type_ = "string", json_path = ".spec.template.name", priority = "1"),
    printcolumn(name = "Index", type_ = "integer", json_path = ".spec.index", priority = "1"),
    printcolumn(name = "Error", type_ = "string", json_path = ".status.errorMessage", priority = "1"),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].message"#,
        priority = "1"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct Metal3DataSpec {
    /// Number of the machine among those of the template.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub index: i32,

    /// The Secret with the rendered metadata.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "shared::secret")]
    pub meta_data: Option<SecretReference>,

    /// The Secret with the rendered network data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "shared::secret")]
    pub network_data: Option<SecretReference>,

    /// The Metal3DataClaim it was made for.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(schema_with = "NamedRef::json_schema")]
    pub claim: NamedRef,

    /// The Metal3DataTemplate it was made from.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(schema_with = "NamedRef::json_schema")]
    pub template: NamedRef,
}

/// How the rendering is doing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Metal3DataStatus {
    /// The generation of the spec this status was computed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,

    /// Whether the Secrets are complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,

    /// Why the data could not be rendered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub error_message: Option<String>,

    /// The aspects of the state of the data, by type.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "lenient")]
    #[schemars(schema_with = "schema::machine_conditions")]
    pub conditions: Vec<Condition>,
}

crate::conditioned!(Metal3DataStatus);
