//! What several of the kinds have in common.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::super::anywhere::GradedCondition;
use super::super::{CustomDeploy, HostSelector, SecretReference, schema};

/// Whether a field can be left out of what is written.
pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// An object by name, of a kind that the field says.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct NamedRef {
    /// Name of the object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub name: String,

    /// Namespace of the object; absent is the namespace of who refers to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub namespace: Option<String>,
}

/// What was reached once and is never taken back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Initialization {
    /// Whether it has been provisioned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provisioned: Option<bool>,
}

/// What only the older version of a kind shows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Deprecated {
    /// What the version v1beta1 shows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "DeprecatedV1Beta1::json_schema")]
    pub v1beta1: Option<DeprecatedV1Beta1>,
}

/// What the version v1beta1 shows; kept as others wrote it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeprecatedV1Beta1 {
    /// Conditions of the older form, with a severity.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "old_conditions")]
    pub conditions: Vec<GradedCondition>,

    /// Why the object can never become ready, in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub failure_reason: Option<String>,

    /// Why the object can never become ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 10240))]
    pub failure_message: Option<String>,
}

/// Sets words of a schema, or of one of its fields.
fn with(mut schema: Schema, field: Option<&str>, words: Value) -> Schema {
    let node = match field {
        None => schema.as_object_mut(),
        Some(field) => schema.get_mut("properties").and_then(|p| p.get_mut(field)).and_then(Value::as_object_mut),
    };
    if let (Some(node), Value::Object(words)) = (node, words) {
        node.extend(words);
    }
    schema
}

/// A Secret in the namespace of the machine.
pub(super) fn secret(generator: &mut SchemaGenerator) -> Schema {
    let text = "The namespace of the Secret; with kind it is the namespace of the machine, or nothing.";
    with(SecretReference::json_schema(generator), Some("namespace"), json!({"description": text, "maxLength": 253}))
}

/// A deploy method, as long as Metal3 takes it.
pub(super) fn custom_deploy(generator: &mut SchemaGenerator) -> Schema {
    with(CustomDeploy::json_schema(generator), Some("method"), json!({"maxLength": 512}))
}

/// Which hosts fit, as much of it as Metal3 takes: what is wrong with it is said by admission, or by the claim.
pub(super) fn host_selector(generator: &mut SchemaGenerator) -> Schema {
    let labels = json!({"maxProperties": 512, "additionalProperties": {"type": "string", "maxLength": 512}});
    let terms = json!({
        "type": "array", "maxItems": 512,
        "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["key"],
        "items": {
            "type": "object",
            "description": "One term on one label.",
            "required": ["key", "operator"],
            "properties": {
                "key": {
                    "type": "string", "minLength": 1, "maxLength": 512,
                    "description": "The label the term is about."
                },
                "operator": {
                    "type": "string", "maxLength": 64,
                    "description": "How the label is compared with the values: =, ==, !=, in, notin, exists, !, gt or lt."
                },
                "values": {
                    "type": "array", "maxItems": 512, "x-kubernetes-list-type": "set",
                    "description": "One value for =, ==, !=, gt and lt, some for in and notin, none for exists and !.",
                    "items": {"type": "string", "maxLength": 512}
                }
            }
        }
    });
    let text = "The only namespace whose hosts fit; absent allows every namespace that admits the claim. Needs kind.";
    let schema = with(HostSelector::json_schema(generator), Some("matchLabels"), labels);
    let schema = with(schema, Some("matchExpressions"), terms);
    with(schema, Some("inNamespace"), json!({"description": text}))
}

/// Conditions with a severity, as the older version of Cluster API's contract has them.
pub(super) fn old_conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array", "maxItems": 64, "x-kubernetes-list-type": "atomic",
        "items": {
            "type": "object",
            "description": "One aspect of the state of the object.",
            "required": ["lastTransitionTime", "status", "type"],
            "properties": {
                "type": {
                    "type": "string", "minLength": 1, "maxLength": 256,
                    "description": "What the condition speaks of, in CamelCase."
                },
                "status": {"type": "string", "maxLength": 32, "description": "Whether the condition holds."},
                "severity": {
                    "type": "string", "maxLength": 32,
                    "description": "How bad it is that the condition does not hold: Error, Warning or Info."
                },
                "reason": {
                    "type": "string", "maxLength": 256,
                    "description": "Why the condition is as it is, in one fixed CamelCase word."
                },
                "message": {
                    "type": "string", "maxLength": 10240,
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

/// A name of an entry in a list by which it is found.
pub(super) fn key(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "minLength": 1, "maxLength": 512})
}

/// Which object a value is taken from.
pub(super) fn source_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": ["machine", "metal3machine", "baremetalhost"]})
}

/// Any value, as somebody else defines it.
pub(super) fn anything(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"x-kubernetes-preserve-unknown-fields": true})
}

/// Arguments of a kind of claim: the bounds are those of the claim that gets them.
pub(super) fn args(generator: &mut SchemaGenerator) -> Schema {
    let rule = json!([{
        "rule": "self.all(name, name.size() >= 1 && name.size() <= 63)",
        "message": "argument names have 1 to 63 characters"
    }]);
    with(schema::texts::<64, 4096>(generator), None, json!({"x-kubernetes-validations": rule}))
}
