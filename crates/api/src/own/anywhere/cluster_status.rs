//! How a cluster stands.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// How a cluster stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterStatus {
    /// Why nothing more can be done; set and cleared together with failureMessage.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 256))]
    pub failure_reason: String,

    /// What has to be put right.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 32768))]
    pub failure_message: String,

    /// State of the cluster: Ready sums up the others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions")]
    pub conditions: Vec<GradedCondition>,

    /// The generation that was looked at last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,

    /// The generation that was carried out last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub reconciled_generation: Option<i64>,

    /// The sum of the generations of the objects it refers to, when it was carried out last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub children_reconciled_generation: Option<i64>,

    /// The bundle that is used until the user chooses another version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "ResolvedBundles::json_schema")]
    pub resolved_bundles: Option<ResolvedBundles>,

    /// The revision of the rendering that the generated objects were made with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1000000))]
    pub render_revision: Option<i64>,

    /// A digest of everything the generated objects were made from.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 128))]
    pub inputs_hash: String,

    /// The network plugin that was installed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "InstalledCni::json_schema")]
    pub cni: Option<InstalledCni>,

    /// When certificates of machines expire; kept as others wrote it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 512), extend("x-kubernetes-list-type" = "atomic"))]
    pub cluster_certificate_info: Vec<CertificateInfo>,

    /// The release of the distribution; kept as others wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "ObjectRef::json_schema")]
    pub eksd_release_ref: Option<ObjectRef>,
}

/// One aspect of the state of a cluster, with how grave it is when it does not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GradedCondition {
    /// What the condition speaks of.
    #[serde(rename = "type")]
    pub type_: String,
    /// Whether it holds: True, False or Unknown.
    pub status: String,
    /// How grave it is that it does not hold: Error, Warning or Info; empty while it holds.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub severity: String,
    /// Why, in one word; empty while it holds.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Why, in a sentence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// When its status changed last.
    pub last_transition_time: Time,
}

/// The bundle that a cluster uses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResolvedBundles {
    /// Name of the Bundles object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub name: String,

    /// Namespace of the Bundles object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 63))]
    pub namespace: String,

    /// Number of the bundle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub number: Option<i64>,

    /// The eksaVersion by which it was found; empty where something else named it, or nobody noted it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 128))]
    pub eksa_version: String,
}

/// The network plugin that was installed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstalledCni {
    /// Name of the plugin.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 63))]
    pub name: String,

    /// Version of the plugin.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 128))]
    pub version: String,
}

/// When the certificates of a machine expire.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CertificateInfo {
    /// In how many days.
    #[schemars(range(min = -1_000_000_000, max = 1_000_000_000))]
    pub expires_in_days: i32,

    /// The machine.
    #[schemars(length(max = 253))]
    pub machine: String,
}

/// An object by kind, namespace and name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct ObjectRef {
    /// Group and version of the object.
    #[schemars(length(max = 317))]
    pub api_version: String,

    /// Kind of the object.
    #[schemars(length(max = 63))]
    pub kind: String,

    /// Name of the object.
    #[schemars(length(max = 253))]
    pub name: String,

    /// Namespace of the object.
    #[schemars(length(max = 63))]
    pub namespace: String,
}

fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 32,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "description": "One aspect of the state of the cluster.",
            "required": ["lastTransitionTime", "status", "type"],
            "properties": {
                "type": {
                    "type": "string", "minLength": 1, "maxLength": 256,
                    "description": "What the condition speaks of, in CamelCase."
                },
                "status": {
                    "type": "string", "maxLength": 16,
                    "description": "Whether the condition holds: True, False or Unknown."
                },
                "severity": {
                    "type": "string", "maxLength": 32,
                    "description": "How grave it is that it does not hold: Error, Warning or Info."
                },
                "reason": {
                    "type": "string", "minLength": 1, "maxLength": 256,
                    "description": "Why the condition is as it is, in one fixed CamelCase word."
                },
                "message": {
                    "type": "string", "minLength": 1, "maxLength": 10240,
                    "description": "What happened, on what, and what happens next or what to do."
                },
                "lastTransitionTime": {
                    "type": "string", "format": "date-time",
                    "description": "When the status of the condition last changed."
                }
            }
        }
    })
}
