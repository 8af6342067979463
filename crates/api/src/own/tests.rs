#![allow(missing_docs)]

use super::*;
use crate::status::{Conditioned, find};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Calls `check` with the path and schema of every node below `spec` and `status` of every definition.
fn walk(check: &mut impl FnMut(&str, &Value)) {
    fn node(path: &str, schema: &Value, check: &mut impl FnMut(&str, &Value)) {
        check(path, schema);
        if let Some(properties) = schema["properties"].as_object() {
            for (name, property) in properties {
                node(&format!("{path}.{name}"), property, check);
            }
        }
        for (key, mark) in [("items", "[]"), ("additionalProperties", "{}")] {
            if schema[key].is_object() {
                node(&format!("{path}{mark}"), &schema[key], check);
            }
        }
    }
    let mut seen = 0;
    for crd in crds() {
        let crd = serde_json::to_value(crd).unwrap();
        let kind = crd["spec"]["names"]["kind"].as_str().unwrap();
        for version in crd["spec"]["versions"].as_array().unwrap() {
            let root = &version["schema"]["openAPIV3Schema"];
            assert!(!root["description"].as_str().unwrap().starts_with("Auto-generated"), "{kind}");
            for part in ["spec", "status"] {
                node(&format!("{kind}.{part}"), &root["properties"][part], &mut |path, schema| {
                    seen += 1;
                    check(path, schema);
                });
            }
        }
    }
    assert!(seen > 50, "the walk must reach the fields, not only the roots: {seen}");
}

#[test]
fn every_integer_has_a_format_the_server_knows() {
    let mut integers = 0;
    walk(&mut |path, schema| {
        if schema["type"] == "integer" {
            integers += 1;
            let format = schema["format"].as_str().unwrap_or("none");
            assert!(["int32", "int64"].contains(&format), "{path}: {format}");
            assert!(schema["minimum"].is_number(), "{path} has no lower bound");
        }
        assert_ne!(schema["type"], "number", "{path}");
    });
    assert!(integers >= 7);
}

#[test]
fn every_list_map_and_string_is_bounded() {
    walk(&mut |path, schema| match schema["type"].as_str().unwrap_or_else(|| panic!("{path} has no type")) {
        "array" => {
            assert!(schema["maxItems"].is_number(), "{path} has no maxItems");
            assert!(schema["x-kubernetes-list-type"].is_string(), "{path} does not say how it merges");
            assert!(schema["items"].is_object(), "{path} has no items");
        }
        "string" => assert!(
            schema["maxLength"].is_number() || schema["enum"].is_array() || schema["format"] == "date-time",
            "{path} has no bound"
        ),
        "object" if schema["additionalProperties"].is_object() => {
            assert!(schema["maxProperties"].is_number(), "{path} has no maxProperties");
        }
        "object" => assert!(schema["properties"].is_object(), "{path} would drop everything in it"),
        "integer" | "boolean" => {}
        other => panic!("{path}: unexpected type {other}"),
    });
}

#[test]
fn every_field_says_what_it_is() {
    walk(&mut |path, schema| {
        if path.ends_with("[]") || path.ends_with("{}") {
            return;
        }
        let text = schema["description"].as_str().unwrap_or_default();
        assert!(text.len() > 8 && text.ends_with('.'), "{path}: {text:?}");
    });
}

#[test]
fn nothing_the_server_refuses_in_a_structural_schema_is_used() {
    walk(&mut |path, schema| {
        for word in ["anyOf", "oneOf", "allOf", "not", "$ref", "uniqueItems", "nullable", "definitions"] {
            assert!(schema[word].is_null(), "{path} uses {word}");
        }
    });
}

#[test]
fn conditions_are_map_lists_by_type_and_status_is_a_subresource() {
    for crd in crds() {
        let crd = serde_json::to_value(crd).unwrap();
        let version = &crd["spec"]["versions"][0];
        let conditions = &version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]["conditions"];
        assert_eq!(conditions["x-kubernetes-list-type"], "map");
        assert_eq!(conditions["x-kubernetes-list-map-keys"], json!(["type"]));
        assert!(version["subresources"]["status"].is_object());
    }
}

#[test]
fn every_rule_tells_the_user_what_to_do() {
    let mut rules = 0;
    walk(&mut |path, schema| {
        for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
            rules += 1;
            assert!(rule["message"].as_str().is_some_and(|m| m.len() > 10), "{path}: {rule}");
        }
    });
    assert!(rules >= 7, "{rules}");
}

#[test]
fn the_definitions_carry_our_group_names_and_labels_in_a_stable_order() {
    let all = crds();
    let names: Vec<_> = all.iter().map(|c| c.metadata.name.clone().unwrap()).collect();
    assert_eq!(names, ["hostclaimkinds.berth.dev", "hostclaimquotas.berth.dev"]);
    assert_eq!(all, crds());
    for (crd, short) in all.iter().zip(["hck", "hcq"]) {
        assert_eq!(crd.spec.group, crate::names::GROUP);
        assert_eq!(crd.spec.scope, "Cluster");
        assert_eq!(crd.spec.names.short_names.as_deref(), Some([short.to_owned()].as_slice()));
        assert_eq!(crd.spec.names.categories.as_deref(), Some(["berth".to_owned()].as_slice()));
        assert_eq!(crd.metadata.labels.as_ref().unwrap()["app.kubernetes.io/part-of"], "berth");
        assert_eq!(crd.spec.versions.len(), 1);
    }
}

/// Widths: the longest value expected in the column, or its header, and three blanks between columns.
#[test]
fn the_default_columns_answer_is_it_fine_and_fit_one_hundred_characters() {
    for crd in crds() {
        let columns = crd.spec.versions[0].additional_printer_columns.clone().unwrap();
        let shown: Vec<_> = columns.iter().filter(|c| c.priority.unwrap_or(0) == 0).collect();
        let width = |name: &str| match name {
            "Controller" => 30,
            "Reason" => crate::reasons::all().iter().map(|e| e.reason.len()).max().unwrap(),
            "Available" | "Ready" => "Available".len(),
            other => other.len().max(6),
        };
        let total: usize = 20 + shown.iter().map(|c| 3 + width(&c.name)).sum::<usize>();
        assert!(total <= 100, "{:?}: {total}", crd.metadata.name);
        let names: Vec<&str> = shown.iter().map(|c| c.name.as_str()).collect();
        assert!(names.contains(&"Reason") && names.contains(&"Age"), "{names:?}");
        assert!(names.contains(&"Ready") || names.contains(&"Available"), "{names:?}");
        assert!(columns.iter().any(|c| c.priority == Some(1)), "nothing is left for -o wide");
    }
}

/// The wire form must come back byte for byte, so that an unchanged object is never written.
fn same<T: Serialize + DeserializeOwned>(wire: Value) -> T {
    let object: T = serde_json::from_value(wire.clone()).unwrap();
    assert_eq!(serde_json::to_value(&object).unwrap(), wire);
    object
}

#[test]
fn a_host_claim_kind_survives_decoding_and_encoding() {
    let kind: HostClaimKind = same(json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "HostClaimKind", "metadata": {"name": "aws-dedicated-host"},
        "spec": {
            "controllerName": "aws-dedicated-host.hosts.berth.dev",
            "argsSchema": {
                "region": {"required": true, "maxLength": 64, "pattern": "[a-z]+(-[a-z]+)+-[0-9]+"},
                "autoRelease": {"required": false, "maxLength": 5, "enum": ["true", "false"], "default": "true",
                    "description": "Whether an empty host is released."},
            },
            "capabilities": ["power", "reboot", "networkData", "failureDomain"],
            "recyclable": false,
        },
        "status": {
            "observedGeneration": 2, "lastHeartbeat": "2026-01-02T03:04:05Z",
            "conditions": [{"type": "Available", "status": "True", "reason": "ControllerAlive", "message": "",
                "lastTransitionTime": "2026-01-02T03:04:05Z", "observedGeneration": 2}],
        },
    }));
    assert!(kind.spec.args_schema["region"].required);
    assert!(kind.spec.capabilities.contains(&Capability::NetworkData));
    assert_eq!(find(kind.status.unwrap().conditions(), "Available").unwrap().status, "True");
}

#[test]
fn a_host_claim_quota_survives_decoding_and_encoding() {
    let quota: HostClaimQuota = same(json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "HostClaimQuota", "metadata": {"name": "gold"},
        "spec": {
            "tenants": {"names": ["team-a"], "namespaceSelector": {"matchLabels": {"tier": "gold"}}},
            "hostSelector": {"matchExpressions": [{"key": "gpu", "operator": "Exists"}]},
            "infraNamespaces": ["metal"], "hard": {"hosts": 8}, "maxPriority": 100, "shared": true,
        },
        "status": {"observedGeneration": 1,
            "used": {"hosts": 8, "tenants": 1, "namespaces": [{"namespace": "team-a", "hosts": 8}]}},
    }));
    assert_eq!(quota.spec.hard.hosts, 8);
}

#[test]
fn what_is_left_out_gets_the_documented_default() {
    let spec: HostClaimKindSpec =
        serde_json::from_value(json!({"controllerName": "c", "argsSchema": {"a": {}}})).unwrap();
    assert!(!spec.recyclable && spec.capabilities.is_empty());
    assert_eq!((spec.args_schema["a"].required, spec.args_schema["a"].max_length), (false, 4096));
    let crd = serde_json::to_value(HostClaimKind::crd()).unwrap();
    let spec = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    assert_eq!(spec["properties"]["recyclable"]["default"], json!(false));
    let arg = &spec["properties"]["argsSchema"]["additionalProperties"]["properties"];
    assert_eq!((&arg["required"]["default"], &arg["maxLength"]["default"]), (&json!(false), &json!(4096)));
}

#[test]
fn the_schema_lists_exactly_the_capabilities_the_code_knows() {
    let known: Vec<Value> = Capability::ALL.iter().map(|c| serde_json::to_value(c).unwrap()).collect();
    let mut seen = false;
    walk(&mut |path, schema| {
        if path.ends_with(".capabilities[]") {
            assert_eq!(schema["enum"], json!(known));
            seen = true;
        }
        if path.ends_with(".capabilities") {
            assert_eq!(schema["maxItems"], json!(known.len()));
        }
    });
    assert!(seen);
}

#[test]
fn statuses_can_be_folded_into_by_the_kit() {
    fn fold(status: &mut impl Conditioned) {
        status.conditions_mut().push(Condition {
            type_: "Ready".into(),
            status: "True".into(),
            reason: "X".into(),
            message: String::new(),
            last_transition_time: Time(k8s_openapi::jiff::Timestamp::UNIX_EPOCH),
            observed_generation: Some(4),
        });
        status.set_observed_generation(4);
        assert_eq!(status.conditions().len(), 1);
    }
    let (mut kind, mut quota) = (HostClaimKindStatus::default(), HostClaimQuotaStatus::default());
    fold(&mut kind);
    fold(&mut quota);
    assert_eq!((kind.observed_generation, quota.observed_generation), (Some(4), Some(4)));
}
