//! Metal3Remediation and Metal3RemediationTemplate: how a machine that is ill is helped.
#![allow(clippy::duplicated_attributes, reason = "names and printer columns repeat their words")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::aws_machine::lenient;
use super::super::schema;
use super::shared::is_default;

/// The only strategy there is.
pub const REBOOT: &str = "Reboot";

/// How a machine that is ill is helped.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta2",
    kind = "Metal3Remediation",
    plural = "metal3remediations",
    shortname = "m3r",
    shortname = "m3remediation",
    category = "cluster-api",
    category = "berth",
    namespaced,
    status = "Metal3RemediationStatus",
    derive = "PartialEq",
    doc = "The treatment of one machine that is ill.",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Retries", type_ = "integer", json_path = ".status.retryCount"),
    printcolumn(name = "Limit", type_ = "integer", json_path = ".spec.strategy.retryLimit"),
    printcolumn(name = "Reason", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].reason"#),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Strategy", type_ = "string", json_path = ".spec.strategy.type", priority = "1"),
    printcolumn(name = "Last Remediated", type_ = "date", json_path = ".status.lastRemediated", priority = "1"),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].message"#,
        priority = "1"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct Metal3RemediationSpec {
    /// What is done, how often and how patiently.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "RemediationStrategy::json_schema")]
    pub strategy: Option<RemediationStrategy>,
}

/// What is done, how often and how patiently.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RemediationStrategy {
    /// What is done: Reboot.
    #[serde(default, rename = "type", skip_serializing_if = "String::is_empty")]
    #[schemars(extend("enum" = [REBOOT]))]
    pub type_: String,

    /// How often it is tried.
    #[serde(default = "one")]
    #[schemars(range(min = 1))]
    pub retry_limit: i32,

    /// How long one try may take, in seconds.
    #[serde(default = "ten_minutes")]
    #[schemars(range(min = 100))]
    pub timeout_seconds: i32,
}

const fn one() -> i32 {
    1
}

const fn ten_minutes() -> i32 {
    600
}

impl Default for RemediationStrategy {
    fn default() -> Self {
        Self { type_: String::new(), retry_limit: one(), timeout_seconds: ten_minutes() }
    }
}

/// How far the treatment is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Metal3RemediationStatus {
    /// The generation of the spec this status was computed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,

    /// How far it is: Running, Waiting, Deleting machine or Failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["Running", "Waiting", "Deleting machine", "Failed"]))]
    pub phase: Option<String>,

    /// How often it was tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub retry_count: Option<i32>,

    /// When it was last tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub last_remediated: Option<Time>,

    /// The aspects of the state of the treatment, by type.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "lenient")]
    #[schemars(schema_with = "schema::machine_conditions")]
    pub conditions: Vec<Condition>,
}

crate::conditioned!(Metal3RemediationStatus);

/// How machines of a group are helped when they are ill.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta2",
    kind = "Metal3RemediationTemplate",
    plural = "metal3remediationtemplates",
    shortname = "m3rt",
    shortname = "m3remediationtemplate",
    shortname = "m3remediationtemplates",
    shortname = "metal3rt",
    shortname = "metal3remediationtemplate",
    category = "cluster-api",
    category = "berth",
    namespaced,
    status = "Metal3RemediationTemplateStatus",
    derive = "PartialEq",
    doc = "How machines of a group are helped when they are ill.",
    printcolumn(name = "Strategy", type_ = "string", json_path = ".spec.template.spec.strategy.type"),
    printcolumn(name = "Limit", type_ = "integer", json_path = ".spec.template.spec.strategy.retryLimit"),
    printcolumn(name = "Timeout", type_ = "integer", json_path = ".spec.template.spec.strategy.timeoutSeconds"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct Metal3RemediationTemplateSpec {
    /// The treatments.
    pub template: Metal3RemediationTemplateResource,
}

/// A treatment that is to be made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Metal3RemediationTemplateResource {
    /// The spec of the treatments.
    pub spec: Metal3RemediationSpec,
}

/// What others wrote about the template.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Metal3RemediationTemplateStatus {
    /// How far a treatment is; kept as others wrote it.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(schema_with = "Metal3RemediationStatus::json_schema")]
    pub status: Metal3RemediationStatus,
}
