#![allow(missing_docs)]

use super::*;
use proptest::prelude::*;
use serde_json::json;

fn object(kind: &str, version: &str, spec: Value, status: Value) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/{version}"), "kind": kind,
        "metadata": {"name": "a", "namespace": "b", "uid": "u", "annotations": {"mine": "kept"}},
        "spec": spec, "status": status,
    })
}

fn to(version: &str, object: &Value) -> Value {
    convert(object, &format!("{GROUP}/{version}")).unwrap()
}

fn note(object: &Value) -> Option<&str> {
    object["metadata"]["annotations"][CONVERSION_ANNOTATION].as_str()
}

/// Each row: a kind, and the same spec and status in the older and in the newer version; neither says more than the other.
#[test]
fn what_both_versions_can_say_needs_no_note() {
    let old_condition = json!([{"type": "Ready", "status": "False", "severity": "Info", "lastTransitionTime": "x"}]);
    let condition = json!([{"type": "Ready", "status": "True", "reason": "Ready", "message": ""}]);
    let rows = [
        (
            "Metal3Cluster",
            json!({"cloudProviderEnabled": true, "controlPlaneEndpoint": {"host": "h", "port": 1},
                "failureDomains": {"a": {"controlPlane": true, "attributes": {"x": "y"}}, "b": {}}}),
            json!({"cloudProviderEnabled": true, "controlPlaneEndpoint": {"host": "h", "port": 1},
                "failureDomains": [{"name": "a", "controlPlane": true, "attributes": {"x": "y"}}, {"name": "b"}]}),
            json!({"ready": true, "failureReason": "r", "failureMessage": "m", "conditions": old_condition,
                "v1beta2": {"conditions": condition}, "failureDomains": {"a": {"controlPlane": false}}}),
            json!({"initialization": {"provisioned": true}, "conditions": condition,
                "deprecated": {"v1beta1": {"failureReason": "r", "failureMessage": "m", "conditions": old_condition}},
                "failureDomains": [{"name": "a", "controlPlane": false}]}),
        ),
        (
            "Metal3ClusterTemplate",
            json!({"template": {"spec": {"failureDomains": {"a": {}}}}}),
            json!({"template": {"spec": {"failureDomains": [{"name": "a"}]}}}),
            json!({}),
            json!({}),
        ),
        (
            "Metal3Machine",
            json!({"image": {"url": "u", "checksum": "c", "format": "raw"}, "dataTemplate": {"name": "t"}}),
            json!({"image": {"url": "u", "checksum": "c", "diskFormat": "raw"}, "dataTemplate": {"name": "t"}}),
            json!({"ready": false, "v1beta2": {"conditions": condition}, "renderedData": {"name": "d"}}),
            json!({"initialization": {"provisioned": false}, "conditions": condition, "renderedData": {"name": "d"}}),
        ),
        (
            "Metal3MachineTemplate",
            json!({"nodeReuse": true, "template": {"spec": {"image": {"url": "u", "format": "qcow2"}}}}),
            json!({"nodeReuse": true, "template": {"spec": {"image": {"url": "u", "diskFormat": "qcow2"}}}}),
            json!({}),
            json!({}),
        ),
        (
            "Metal3DataTemplate",
            json!({"clusterName": "c",
                "metaData": {"ipAddressesFromIPPool": [{"key": "k", "name": "p", "apiGroup": "g", "kind": "K"}],
                    "prefixesFromIPPool": [], "gatewaysFromIPPool": [], "dnsServersFromIPPool": [], "strings": []},
                "networkData": {"links": {"bonds": [{"id": "b", "parameters": {"a": 1, "b": "x"}}]}}}),
            json!({"clusterName": "c",
                "metaData": {"ipAddressesFromPool": [{"key": "k", "name": "p", "apiGroup": "g", "kind": "K"}],
                    "prefixesFromPool": [], "gatewaysFromPool": [], "dnsServersFromPool": [], "strings": []},
                "networkData": {"links": {"bonds": [{"id": "b",
                    "parameters": [{"name": "a", "value": 1}, {"name": "b", "value": "x"}]}]}}}),
            json!({"indexes": {"m-9": 0, "m-1": 1}, "lastUpdated": "t"}),
            json!({"indexes": [{"index": 0, "name": "m-9"}, {"index": 1, "name": "m-1"}], "lastUpdated": "t"}),
        ),
        (
            "Metal3Remediation",
            json!({"strategy": {"type": "Reboot", "retryLimit": 2, "timeout": "5m0s"}}),
            json!({"strategy": {"type": "Reboot", "retryLimit": 2, "timeoutSeconds": 300}}),
            json!({"phase": "Running", "retryCount": 1}),
            json!({"phase": "Running", "retryCount": 1}),
        ),
        (
            "Metal3RemediationTemplate",
            json!({"template": {"spec": {"strategy": {"timeout": "1h0m0s"}}}}),
            json!({"template": {"spec": {"strategy": {"timeoutSeconds": 3600}}}}),
            json!({"status": {"phase": "Running"}}),
            json!({"status": {"phase": "Running"}}),
        ),
    ];
    for (kind, old_spec, spec, old_status, status) in rows {
        let (old, hub) = (object(kind, OLD, old_spec, old_status), object(kind, HUB, spec, status));
        assert_eq!(to(HUB, &old), hub, "{kind}");
        assert_eq!(to(OLD, &hub), old, "{kind}");
        assert_eq!((to(HUB, &hub), to(OLD, &old)), (hub, old));
    }
}

#[test]
fn what_only_one_version_can_say_is_noted_and_put_back() {
    let hub = object(
        "Metal3Machine",
        HUB,
        json!({"kind": "baremetal", "args": {"a": "b"}, "hostSelector": {"inNamespace": "metal"},
            "failureDomainDataTemplates": [{"failureDomain": "r", "dataTemplate": {"name": "t"}}]}),
        json!({"hostClaim": {"name": "a"}, "failureDomain": "r", "observedGeneration": 3}),
    );
    let old = to(OLD, &hub);
    assert_eq!((&old["spec"], &old["status"]), (&json!({"hostSelector": {}}), &json!({})));
    assert_eq!(to(HUB, &old), hub);
    let old = object(
        "Metal3Machine",
        OLD,
        json!({"dataTemplate": {"name": "t", "kind": "Metal3DataTemplate", "uid": "1"}}),
        json!({"phase": "Running"}),
    );
    let hub = to(HUB, &old);
    assert_eq!((&hub["spec"], &hub["status"]), (&json!({"dataTemplate": {"name": "t"}}), &json!({})));
    assert!(note(&hub).is_some());
    assert_eq!(to(OLD, &hub), old);
    let alone = object("Metal3Cluster", OLD, json!({"noCloudProvider": true}), json!({}));
    assert_eq!(to(HUB, &alone)["spec"], json!({"cloudProviderEnabled": false}));
    assert_eq!(to(OLD, &to(HUB, &alone)), alone);
    let odd = object("Metal3Remediation", OLD, json!({"strategy": {"timeout": "600s"}}), json!({}));
    assert_eq!(to(HUB, &odd)["spec"]["strategy"], json!({"timeoutSeconds": 600}));
    assert_eq!(to(OLD, &to(HUB, &odd)), odd);
}

#[test]
fn a_client_of_the_older_version_changes_what_it_sees_and_keeps_what_it_does_not() {
    let hub = object(
        "Metal3Machine",
        HUB,
        json!({"kind": "baremetal", "hostSelector": {"inNamespace": "metal", "matchLabels": {"a": "b"}},
            "image": {"url": "u", "diskFormat": "raw"}}),
        json!({}),
    );
    let mut old = to(OLD, &hub);
    old["spec"]["image"]["format"] = json!("qcow2");
    old["spec"].as_object_mut().unwrap().remove("hostSelector");
    let changed = to(HUB, &old);
    assert_eq!(changed["spec"], json!({"kind": "baremetal", "image": {"url": "u", "diskFormat": "qcow2"}}));
    assert_eq!(note(&changed), None);

    let domains = json!({"failureDomains": [{"name": "b"}, {"name": "a"}]});
    let hub = object("Metal3Cluster", HUB, domains, json!({}));
    let mut old = to(OLD, &hub);
    assert_eq!(to(HUB, &old), hub, "the order is kept");
    old["spec"]["failureDomains"]["c"] = json!({});
    assert_eq!(to(HUB, &old)["spec"]["failureDomains"], json!([{"name": "b"}, {"name": "a"}, {"name": "c"}]));
    old["spec"]["failureDomains"] = json!({"d": {}, "b": {}});
    assert_eq!(to(HUB, &old)["spec"]["failureDomains"], json!([{"name": "b"}, {"name": "d"}]));

    let mut hub = to(HUB, &object("Metal3Remediation", OLD, json!({"strategy": {"timeout": "600s"}}), json!({})));
    hub["spec"]["strategy"]["timeoutSeconds"] = json!(900);
    assert_eq!(to(OLD, &hub)["spec"]["strategy"], json!({"timeout": "15m0s"}));
}

#[test]
fn a_forged_note_changes_nothing_that_is_seen() {
    let forged = |places: Value| {
        let mut hub = object("Metal3Machine", HUB, json!({"providerID": "x"}), json!({}));
        let text = json!({"version": OLD, "places": places}).to_string();
        hub["metadata"]["annotations"][CONVERSION_ANNOTATION] = Value::from(text);
        to(OLD, &hub)
    };
    let plain = to(OLD, &object("Metal3Machine", HUB, json!({"providerID": "x"}), json!({})));
    for places in [
        json!([{"path": ["status", "ready"], "is": true}]),
        json!([{"path": ["spec", "providerID"]}]),
        json!([{"path": ["spec", "providerID"], "is": "y"}]),
        json!([{"path": ["apiVersion"], "is": "v1"}]),
        json!([{"path": ["kind"], "is": "Pod"}]),
        json!([{"path": ["metadata", "uid"], "is": "other"}]),
        json!([{"path": ["spec"], "is": {}}]),
        json!([{"path": [], "is": {}}]),
        json!([{"path": ["spec", "deep", 3, "down"], "is": 1}]),
        json!("nonsense"),
    ] {
        assert_eq!(forged(places.clone()), plain, "{places}");
    }
    // One place of several is true: it alone is put back.
    let mixed = forged(json!([{"path": ["status", "ready"], "is": true}, {"path": ["status", "phase"], "is": "p"}]));
    assert_eq!(mixed["status"], json!({"phase": "p"}));
}

#[test]
fn what_nobody_knows_is_refused_by_name() {
    let pod = json!({"apiVersion": "v1", "kind": "Pod"});
    assert!(convert(&pod, "v1").unwrap_err().to_string().contains("v1 Pod cannot be converted to v1"));
    assert_eq!(convert(&json!({"kind": "Metal3Data"}), "v1"), Err(ConvertError::Nameless));
    assert_eq!(convert(&json!(3), "v1"), Err(ConvertError::Nameless));
    let data = json!({"apiVersion": format!("{GROUP}/{HUB}"), "kind": "Metal3Data"});
    assert!(convert(&data, &format!("{GROUP}/v1alpha5")).is_err());
    assert_eq!(to(HUB, &to(OLD, &data)), data, "an object with nothing in it");
}

const KINDS: [&str; 9] = [
    "Metal3Cluster",
    "Metal3ClusterTemplate",
    "Metal3Data",
    "Metal3DataClaim",
    "Metal3DataTemplate",
    "Metal3Machine",
    "Metal3MachineTemplate",
    "Metal3Remediation",
    "Metal3RemediationTemplate",
];

/// Names that mean something in one version or the other, and some that mean nothing.
const NAMES: [&str; 36] = [
    "template",
    "spec",
    "metadata",
    "kind",
    "args",
    "hostSelector",
    "inNamespace",
    "image",
    "format",
    "diskFormat",
    "dataTemplate",
    "apiVersion",
    "uid",
    "name",
    "failureDomains",
    "noCloudProvider",
    "cloudProviderEnabled",
    "networkData",
    "links",
    "bonds",
    "parameters",
    "value",
    "metaData",
    "gatewaysFromPool",
    "gatewaysFromIPPool",
    "strategy",
    "timeout",
    "timeoutSeconds",
    "status",
    "indexes",
    "index",
    "conditions",
    "deprecated",
    "v1beta1",
    "v1beta2",
    "initialization",
];

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        (-2i64..1000).prop_map(Value::from),
        "[a-c]{0,2}|600s|10m0s|1.5s".prop_map(Value::from),
        Just(Value::Null),
    ];
    leaf.prop_recursive(5, 48, 5, |inner| {
        let name = proptest::sample::select(&NAMES[..]).prop_map(str::to_owned);
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            proptest::collection::btree_map(name, inner, 0..6).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Specs and statuses with the fields that differ where they really are, filled with anything.
fn shaped(kind: &'static str) -> impl Strategy<Value = (Value, Value)> {
    let domains = || {
        proptest::collection::vec(("[a-c]", any_value()), 0..4).prop_map(|all| {
            all.into_iter().map(|(name, value)| json!({"name": name, "attributes": value})).collect::<Value>()
        })
    };
    (any_value(), any_value(), domains(), "[a-c]|600s|90s|1m30s|x", any_value()).prop_map(
        move |(one, two, list, text, three)| {
            let machine = json!({"kind": one, "hostSelector": {"inNamespace": two}, "image": {"format": text, "diskFormat": three},
                "dataTemplate": {"name": text, "uid": text}});
            let cluster = json!({"failureDomains": list, "noCloudProvider": one, "cloudProviderEnabled": two});
            let status = json!({"conditions": one, "v1beta2": two, "deprecated": three, "ready": text, "initialization": one,
                "failureReason": two, "failureDomains": list, "indexes": list, "phase": text, "status": {"conditions": one}});
            let spec = match kind {
                "Metal3Cluster" => cluster,
                "Metal3ClusterTemplate" => json!({"template": {"spec": cluster, "metadata": three}}),
                "Metal3Machine" => machine,
                "Metal3MachineTemplate" => json!({"template": {"spec": machine, "metadata": three}}),
                "Metal3DataTemplate" => json!({"metaData": one, "templateReference": text,
                    "networkData": {"links": {"bonds": [{"parameters": list}, {"parameters": two}]}}}),
                "Metal3Remediation" => json!({"strategy": {"timeout": text, "timeoutSeconds": one}}),
                "Metal3RemediationTemplate" => json!({"template": {"spec": {"strategy": {"timeout": text}}}}),
                _ => json!({"template": {"name": text, "kind": two}, "claim": one, "templateReference": three}),
            };
            (spec, status)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn there_and_back_is_where_it_was(
        (kind, (spec, status)) in proptest::sample::select(&KINDS[..]).prop_flat_map(|kind| (Just(kind), shaped(kind))),
    ) {
        for (from, through) in [(HUB, OLD), (OLD, HUB)] {
            let object = object(kind, from, spec.clone(), status.clone());
            let there = to(through, &object);
            prop_assert_eq!(&to(from, &there), &object);
            // Whoever reads it twice sees the same bytes.
            prop_assert_eq!(to(through, &to(from, &there)), there);
        }
    }

    #[test]
    fn nothing_that_comes_in_makes_it_fail(
        kind in proptest::sample::select(&KINDS[..]), spec in any_value(), status in any_value(), note in any_value(),
        text in ".{0,16}",
    ) {
        for (from, through) in [(HUB, OLD), (OLD, HUB)] {
            let plain = object(kind, from, spec.clone(), status.clone());
            prop_assert_eq!(&to(from, &to(through, &plain)), &plain);
            let mut noted = plain;
            let note = json!({"version": through, "places": [{"path": ["spec", text.clone(), 0], "is": note.clone()}]});
            noted["metadata"]["annotations"][CONVERSION_ANNOTATION] = Value::from(note.to_string());
            let there = to(through, &noted);
            prop_assert_eq!(&there["metadata"]["uid"], &noted["metadata"]["uid"]);
        }
    }
}
