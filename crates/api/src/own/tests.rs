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
            for part in ["spec", "status"].into_iter().filter(|part| root["properties"][*part].is_object()) {
                node(&format!("{kind}.{part}"), &root["properties"][part], &mut |path, schema| {
                    seen += 1;
                    check(path, schema);
                });
            }
        }
    }
    assert!(seen > 50, "the walk must reach the fields, not only the roots: {seen}");
}

/// The kinds whose conditions are for us to choose; users know those of EKS Anywhere as they are.
fn house() -> Vec<CustomResourceDefinition> {
    berth_crds().into_iter().chain(aws_crds()).collect()
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
    let open = |schema: &Value| schema["x-kubernetes-preserve-unknown-fields"] == true;
    // A quantity is a number or a text, for which a structural schema has a word of its own.
    let type_of = |path: &str, schema: &Value| match &schema["x-kubernetes-int-or-string"] {
        Value::Bool(true) => "string".to_owned(),
        _ if open(schema) => "object".to_owned(),
        _ => schema["type"].as_str().unwrap_or_else(|| panic!("{path} has no type")).to_owned(),
    };
    walk(&mut |path, schema| match type_of(path, schema).as_str() {
        "object" if open(schema) => {}
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
    for crd in house() {
        let crd = serde_json::to_value(crd).unwrap();
        let version = &crd["spec"]["versions"][0];
        let conditions = &version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]["conditions"];
        assert_eq!(conditions["x-kubernetes-list-type"], "map");
        assert_eq!(conditions["x-kubernetes-list-map-keys"], json!(["type"]), "{}", crd["metadata"]["name"]);
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
fn the_definitions_carry_their_group_names_and_labels_in_a_stable_order() {
    assert_eq!(crds(), crds());
    let all = berth_crds();
    let wanted = [
        ("hostclaimkinds", crate::names::GROUP, "Cluster", "hck", vec![]),
        ("hostclaimquotas", crate::names::GROUP, "Cluster", "hcq", vec![]),
        ("hostclaims", "metal3.io", "Namespaced", "hc", vec!["clusterctl.cluster.x-k8s.io"]),
        (
            "hostdeploypolicies",
            "metal3.io",
            "Namespaced",
            "hdp",
            vec!["clusterctl.cluster.x-k8s.io", "clusterctl.cluster.x-k8s.io/move"],
        ),
    ];
    assert_eq!(all.len(), wanted.len());
    for (crd, (plural, group, scope, short, labels)) in all.iter().zip(wanted) {
        assert_eq!(crd.metadata.name, Some(format!("{plural}.{group}")));
        assert_eq!((crd.spec.group.as_str(), crd.spec.scope.as_str()), (group, scope));
        assert_eq!(crd.spec.names.short_names.as_deref(), Some([short.to_owned()].as_slice()));
        assert_eq!(crd.spec.names.categories.as_deref(), Some(["berth".to_owned()].as_slice()));
        let mut found = crd.metadata.labels.clone().unwrap();
        assert_eq!(found.remove("app.kubernetes.io/part-of").as_deref(), Some("berth"));
        assert_eq!(found, labels.into_iter().map(|label| (label.to_owned(), String::new())).collect());
        assert_eq!(crd.spec.versions.len(), 1);
    }
}

#[test]
fn a_claim_shows_what_its_owner_asks_first() {
    let crd = HostClaim::crd();
    let columns = crd.spec.versions[0].additional_printer_columns.clone().unwrap();
    let names = |priority: i32| {
        let of = columns.iter().filter(|c| c.priority.unwrap_or(0) == priority);
        of.map(|c| c.name.as_str()).collect::<Vec<_>>()
    };
    assert_eq!(names(0), ["Host", "Ready", "Reason", "Age"]);
    let wide = ["Kind", "Associated", "Power", "State", "Host Namespace", "Resource", "Failure Domain", "Priority"];
    assert_eq!(names(1), wide.into_iter().chain(["Message"]).collect::<Vec<_>>());
}

/// Every field that Metal3's own definitions of these kinds have, with its type: none may be dropped by ours.
const METAL3_FIELDS: &[(&str, &str)] = &[
    ("HostClaim.spec.consumerRef.apiVersion", "string"),
    ("HostClaim.spec.consumerRef.fieldPath", "string"),
    ("HostClaim.spec.consumerRef.kind", "string"),
    ("HostClaim.spec.consumerRef.name", "string"),
    ("HostClaim.spec.consumerRef.namespace", "string"),
    ("HostClaim.spec.consumerRef.resourceVersion", "string"),
    ("HostClaim.spec.consumerRef.uid", "string"),
    ("HostClaim.spec.customDeploy.method", "string"),
    ("HostClaim.spec.failureDomain", "string"),
    ("HostClaim.spec.hostSelector.inNamespace", "string"),
    ("HostClaim.spec.hostSelector.matchExpressions[].key", "string"),
    ("HostClaim.spec.hostSelector.matchExpressions[].operator", "string"),
    ("HostClaim.spec.hostSelector.matchExpressions[].values[]", "string"),
    ("HostClaim.spec.hostSelector.matchLabels{}", "string"),
    ("HostClaim.spec.image.checksum", "string"),
    ("HostClaim.spec.image.checksumType", "string"),
    ("HostClaim.spec.image.format", "string"),
    ("HostClaim.spec.image.ociAuthSecretName", "string"),
    ("HostClaim.spec.image.url", "string"),
    ("HostClaim.spec.metaData.name", "string"),
    ("HostClaim.spec.metaData.namespace", "string"),
    ("HostClaim.spec.networkData.name", "string"),
    ("HostClaim.spec.networkData.namespace", "string"),
    ("HostClaim.spec.poweredOn", "boolean"),
    ("HostClaim.spec.userData.name", "string"),
    ("HostClaim.spec.userData.namespace", "string"),
    ("HostClaim.status.bareMetalHost.name", "string"),
    ("HostClaim.status.bareMetalHost.namespace", "string"),
    ("HostClaim.status.conditions[].lastTransitionTime", "string"),
    ("HostClaim.status.conditions[].message", "string"),
    ("HostClaim.status.conditions[].observedGeneration", "integer"),
    ("HostClaim.status.conditions[].reason", "string"),
    ("HostClaim.status.conditions[].status", "string"),
    ("HostClaim.status.conditions[].type", "string"),
    ("HostClaim.status.hardwareData.name", "string"),
    ("HostClaim.status.hardwareData.namespace", "string"),
    ("HostClaim.status.lastUpdated", "string"),
    ("HostClaim.status.poweredOn", "boolean"),
    ("HostDeployPolicy.spec.hostClaimNamespaces.hasLabels[].name", "string"),
    ("HostDeployPolicy.spec.hostClaimNamespaces.hasLabels[].value", "string"),
    ("HostDeployPolicy.spec.hostClaimNamespaces.nameMatches", "string"),
    ("HostDeployPolicy.spec.hostClaimNamespaces.names[]", "string"),
];

#[test]
fn nothing_that_metal3_stores_is_dropped() {
    let mut ours = std::collections::BTreeMap::new();
    walk(&mut |path, schema| {
        ours.insert(path.to_owned(), schema["type"].as_str().unwrap_or_default().to_owned());
    });
    for (path, type_) in METAL3_FIELDS {
        assert_eq!(ours.get(*path).map(String::as_str), Some(*type_), "{path}");
    }
}

/// What Metal3 lets users leave out, ours must let them leave out too.
#[test]
fn only_what_metal3_requires_is_required_of_users() {
    walk(&mut |path, schema| {
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        let allowed = match path {
            "HostClaim.spec.image" => json!(["url"]),
            "HostClaim.spec.customDeploy" => json!(["method"]),
            "HostClaim.spec.hostSelector.matchExpressions[]" => json!(["key", "operator"]),
            "HostDeployPolicy.spec.hostClaimNamespaces.hasLabels[]" => json!(["name"]),
            path if path.starts_with("HostClaim.spec") || path.starts_with("HostDeployPolicy.spec.hostClaim") => {
                json!([])
            }
            _ => return,
        };
        assert_eq!(Value::from(required), allowed, "{path}");
    });
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
fn a_host_claim_survives_decoding_and_encoding() {
    let claim: HostClaim = same(json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "HostClaim", "metadata": {"name": "web-0", "namespace": "team-a"},
        "spec": {
            "poweredOn": true, "kind": "baremetal", "args": {"zone": "a"},
            "hostSelector": {"matchLabels": {"size": "large"}, "inNamespace": "metal", "matchExpressions": [
                {"key": "gpu", "operator": "exists"}, {"key": "disks", "operator": "gt", "values": ["2"]}]},
            "image": {"url": "https://images.example/a.qcow2", "checksum": "abc", "checksumType": "sha256",
                "format": "qcow2", "ociAuthSecretName": "pull"},
            "userData": {"name": "u", "namespace": "team-a"}, "networkData": {"name": "n"}, "metaData": {"name": "m"},
            "consumerRef": {"apiVersion": "v1", "kind": "K", "namespace": "team-a", "name": "x", "uid": "1",
                "resourceVersion": "2", "fieldPath": "spec"},
            "failureDomain": "rack-1", "failureDomainMode": "Required", "nodeReuse": "group",
            "automatedCleaningMode": "disabled", "priority": -3, "onHostFailure": "Replace",
        },
        "status": {
            "observedGeneration": 2, "ready": true, "lastUpdated": "2026-01-02T03:04:05Z",
            "selectedHost": {"namespace": "metal", "name": "h", "uid": "u-h"},
            "bareMetalHost": {"namespace": "metal", "name": "h"}, "hardwareData": {"namespace": "metal", "name": "h"},
            "hostUID": "u-h", "poweredOn": true, "provisioningState": "Provisioned",
            "image": {"url": "https://images.example/a.qcow2", "checksum": "abc"},
            "addresses": [{"type": "InternalIP", "address": "10.0.0.4"}], "bootMACAddress": "00:11:22:33:44:55",
            "nics": [{"MAC": "00:11:22:33:44:55", "ip": "10.0.0.4", "name": "eth0"}],
            "hostMetadata": {"labels": {"rack": "1"}, "annotations": {"a": "b"}},
            "failureDomain": "rack-1", "providerID": "x://y", "resourceID": "r",
            "unbound": {"total": 3, "reasons": [{"reason": "InUse", "count": 3}], "observedAt": "2026-01-02T03:04:05Z"},
            "pendingReboot": {"id": "r-1", "mode": "hard"},
            "conditions": [{"type": "Ready", "status": "True", "reason": "Ready", "message": "",
                "lastTransitionTime": "2026-01-02T03:04:05Z", "observedGeneration": 2}],
        },
    }));
    assert!(claim.spec.wants_power());
    let status = claim.status.unwrap();
    assert!(status.is_bound() && status.is_deployed());
}

#[test]
fn a_policy_survives_decoding_and_encoding_and_absent_is_not_empty() {
    let policy: HostDeployPolicy = same(json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "HostDeployPolicy", "metadata": {"name": "p", "namespace": "metal"},
        "spec": {
            "hostClaimNamespaces": {"names": [], "nameMatches": "^team-", "hasLabels": [{"name": "tier"},
                {"name": "env", "value": "prod"}]},
            "hostSelector": {"matchLabels": {"pool": "a"}}, "maxHosts": 4, "imageURLPrefixes": ["https://images.example/"],
            "metadataCopy": {"labelsMatch": "rack", "annotationsMatch": "site/.*"}, "selectableLabels": "size|rack",
            "allowsDetaching": true, "allowsCustomDeploy": true, "allowsCleaningOverride": true, "allowsPause": true,
            "trustsTenantHealth": true,
        },
        "status": {"observedGeneration": 1, "boundHosts": 2, "conditions": [{"type": "Accepted", "status": "True",
            "reason": "Accepted", "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z"}]},
    }));
    assert_eq!(policy.spec.host_claim_namespaces.unwrap().names, Some(Vec::new()));
    let closed: HostDeployPolicySpec = same(json!({}));
    let open: HostDeployPolicySpec = same(json!({"hostClaimNamespaces": {}}));
    assert!(closed.host_claim_namespaces.is_none() && open.host_claim_namespaces.is_some());
}

#[test]
fn a_claim_that_says_nothing_gets_the_documented_defaults() {
    let spec: HostClaimSpec = serde_json::from_value(json!({})).unwrap();
    assert_eq!(spec, HostClaimSpec::default());
    assert_eq!((spec.kind.as_str(), spec.priority, spec.wants_power()), ("baremetal", 0, false));
    assert!(HostClaimSpec { online: Some(true), ..spec.clone() }.wants_power());
    let crd = serde_json::to_value(HostClaim::crd()).unwrap();
    let fields = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
    let defaults = ["kind", "failureDomainMode", "priority", "onHostFailure"].map(|f| fields[f]["default"].clone());
    assert_eq!(defaults, [json!("baremetal"), json!("Preferred"), json!(0), json!("Wait")]);
    for (name, field) in fields.as_object().unwrap() {
        let wanted = ["kind", "failureDomainMode", "priority", "onHostFailure"].contains(&name.as_str());
        assert_eq!(field["default"].is_null(), !wanted, "{name}");
    }
}

#[test]
fn another_credential_does_not_make_another_image() {
    let image = HostImage { url: "oci://a/b".into(), ..HostImage::default() };
    assert!(image.deploys_same(&HostImage { oci_auth_secret_name: Some("s".into()), ..image.clone() }));
    assert!(!image.deploys_same(&HostImage { format: Some("raw".into()), ..image.clone() }));
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
    let (mut claim, mut policy) = (HostClaimStatus::default(), HostDeployPolicyStatus::default());
    fold(&mut kind);
    fold(&mut quota);
    fold(&mut claim);
    fold(&mut policy);
    assert_eq!((kind.observed_generation, quota.observed_generation), (Some(4), Some(4)));
    assert_eq!((claim.observed_generation, policy.observed_generation), (Some(4), Some(4)));
}
