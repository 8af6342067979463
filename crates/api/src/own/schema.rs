//! Schemas of shared Kubernetes types, with the bounds their generated ones lack.
//!
//! The API server estimates the cost of a CEL rule from these bounds and refuses the definition when one is missing;
//! they also keep a single object small.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

/// A point in time.
pub fn time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "format": "date-time"})
}

/// A map of at most `ENTRIES` texts of at most `CHARS` characters.
pub fn texts<const ENTRIES: u32, const CHARS: u32>(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object", "maxProperties": ENTRIES,
        "additionalProperties": {"type": "string", "maxLength": CHARS}
    })
}

/// How the checksum of an image was made.
pub fn checksum_type(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": ["md5", "sha256", "sha512", "auto"]})
}

/// The format of an image.
pub fn image_format(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": ["raw", "qcow2", "vdi", "vmdk", "live-iso"]})
}

/// Names of namespaces, in any order and number of times.
pub fn namespace_names(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array", "maxItems": 256, "x-kubernetes-list-type": "atomic",
        "items": {"type": "string", "maxLength": 63}
    })
}

/// Conditions as a map list by type, so that several writers can share it.
pub fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 32,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "description": "One aspect of the state of the object.",
            "required": ["lastTransitionTime", "message", "reason", "status", "type"],
            "properties": {
                "type": {
                    "type": "string", "minLength": 1, "maxLength": 316,
                    "description": "What the condition speaks of, in CamelCase."
                },
                "status": {
                    "type": "string", "enum": ["True", "False", "Unknown"],
                    "description": "Whether the condition holds."
                },
                "reason": {
                    "type": "string", "minLength": 1, "maxLength": 1024,
                    "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                    "description": "Why the condition is as it is, in one fixed CamelCase word."
                },
                "message": {
                    "type": "string", "maxLength": 32768,
                    "description": "What happened, on what, and what happens next or what to do."
                },
                "lastTransitionTime": {
                    "type": "string", "format": "date-time",
                    "description": "When the status of the condition last changed."
                },
                "observedGeneration": {
                    "type": "integer", "format": "int64", "minimum": 0,
                    "description": "The generation of the object the condition was computed from."
                }
            }
        }
    })
}

/// Conditions that both contracts of Cluster API can read: the older one has a severity, and demands neither a reason nor a
/// message.
pub fn machine_conditions(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = conditions(generator);
    let reason = json!({
        "type": "string", "maxLength": 1024,
        "description": "Why the condition is as it is, in one fixed CamelCase word."
    });
    let severity = json!({
        "type": "string", "maxLength": 32,
        "description": "How bad it is that the condition does not hold: Error, Warning or Info."
    });
    if let Some(items) = schema.get_mut("items").and_then(Value::as_object_mut) {
        items.insert("required".to_owned(), json!(["lastTransitionTime", "status", "type"]));
        if let Some(properties) = items.get_mut("properties").and_then(Value::as_object_mut) {
            properties.extend([("reason".to_owned(), reason), ("severity".to_owned(), severity)]);
        }
    }
    schema
}

/// Quantities by resource, each a number or a text.
pub fn quantities(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object", "maxProperties": 256,
        "additionalProperties": {
            "x-kubernetes-int-or-string": true,
            "maxLength": 64,
            "pattern": r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
        }
    })
}

/// A label selector of at most 64 terms.
pub fn label_selector(_: &mut SchemaGenerator) -> Schema {
    let key = "^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$";
    json_schema!({
        "type": "object",
        "properties": {
            "matchLabels": {
                "type": "object",
                "maxProperties": 32,
                "description": "Labels and the value each must have.",
                "additionalProperties": {"type": "string", "maxLength": 63}
            },
            "matchExpressions": {
                "type": "array",
                "maxItems": 32,
                "x-kubernetes-list-type": "atomic",
                "description": "Further terms, all of which must hold.",
                "items": {
                    "type": "object",
                    "description": "One term on one label.",
                    "required": ["key", "operator"],
                    "properties": {
                        "key": {
                            "type": "string", "minLength": 1, "maxLength": 317, "pattern": key,
                            "description": "The label the term is about."
                        },
                        "operator": {
                            "type": "string", "enum": ["In", "NotIn", "Exists", "DoesNotExist"],
                            "description": "How the label is compared with the values."
                        },
                        "values": {
                            "type": "array", "maxItems": 64, "x-kubernetes-list-type": "atomic",
                            "description": "The values for In and NotIn; empty for Exists and DoesNotExist.",
                            "items": {"type": "string", "maxLength": 63}
                        }
                    },
                    "x-kubernetes-validations": [{
                        "rule": "self.operator in ['In', 'NotIn'] == (has(self.values) && self.values.size() > 0)",
                        "message": "In and NotIn need at least one value, Exists and DoesNotExist take none"
                    }]
                }
            }
        }
    })
}
