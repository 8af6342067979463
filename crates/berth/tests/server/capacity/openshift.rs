//! The kind MachineSet of OpenShift's Machine API, field by field, so that the server stores what a real one would.

use serde_json::{Value, json};

/// The definition.
pub fn machine_sets() -> Value {
    let (text, number) = (json!({"type": "string"}), json!({"type": "integer", "format": "int32"}));
    let texts = json!({"type": "object", "additionalProperties": text});
    let owner = json!({"type": "object", "required": ["apiVersion", "kind", "name", "uid"], "properties": {
        "apiVersion": text, "kind": text, "name": text, "uid": text,
        "controller": {"type": "boolean"}, "blockOwnerDeletion": {"type": "boolean"},
    }});
    let meta = json!({"type": "object", "properties": {
        "name": text, "generateName": text, "namespace": text, "labels": texts, "annotations": texts,
        "ownerReferences": {"type": "array", "items": owner},
    }});
    let hook = json!({"type": "array", "items": {"type": "object", "required": ["name", "owner"],
        "properties": {"name": text, "owner": text}}});
    let taint = json!({"type": "object", "required": ["effect", "key"], "properties": {
        "effect": text, "key": text, "value": text, "timeAdded": {"type": "string", "format": "date-time"},
    }});
    let authority = json!({"type": "string", "enum": ["MachineAPI", "ClusterAPI"]});
    let provider = json!({"type": "object", "properties": {
        "value": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}});
    let machine = json!({"type": "object", "properties": {
        "metadata": meta, "authoritativeAPI": authority, "providerID": text, "providerSpec": provider,
        "lifecycleHooks": {"type": "object", "properties": {"preDrain": hook, "preTerminate": hook}},
        "taints": {"type": "array", "items": taint},
    }});
    let requirement = json!({"type": "object", "required": ["key", "operator"], "properties": {
        "key": text, "operator": text, "values": {"type": "array", "items": text},
    }});
    let spec = json!({"type": "object", "properties": {
        "replicas": {"type": "integer", "format": "int32", "default": 1}, "minReadySeconds": number,
        "authoritativeAPI": authority, "deletePolicy": {"type": "string", "enum": ["Random", "Newest", "Oldest"]},
        "selector": {"type": "object", "properties": {
            "matchLabels": texts, "matchExpressions": {"type": "array", "items": requirement}}},
        "template": {"type": "object", "properties": {"metadata": meta, "spec": machine}},
    }});
    let condition = json!({"type": "object", "required": ["lastTransitionTime", "status", "type"], "properties": {
        "type": text, "status": text, "severity": text, "reason": text, "message": text,
        "lastTransitionTime": {"type": "string", "format": "date-time"},
    }});
    let status = json!({"type": "object", "properties": {
        "replicas": number, "readyReplicas": number, "availableReplicas": number, "fullyLabeledReplicas": number,
        "observedGeneration": {"type": "integer", "format": "int64"},
        "synchronizedGeneration": {"type": "integer", "format": "int64"},
        "authoritativeAPI": {"type": "string", "enum": ["", "MachineAPI", "ClusterAPI", "Migrating"]},
        "errorMessage": text, "errorReason": text, "conditions": {"type": "array", "items": condition},
    }});
    let scale = json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "machinesets.machine.openshift.io"},
        "spec": {
            "group": "machine.openshift.io", "scope": "Namespaced",
            "names": {"kind": "MachineSet", "listKind": "MachineSetList", "plural": "machinesets", "singular": "machineset"},
            "versions": [{"name": "v1beta1", "served": true, "storage": true,
                "subresources": {"status": {}, "scale": scale},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}}}],
        },
    })
}
