#![allow(missing_docs)]

use std::collections::BTreeMap;

use super::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Every field that Metal3's own definitions have, with its type, and what they require of users.
const FIELDS: &str = include_str!("fields.txt");

/// Every place in the schemas, by kind, version and path.
fn places() -> BTreeMap<String, Value> {
    fn node(path: String, schema: &Value, places: &mut BTreeMap<String, Value>) {
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            node(format!("{path}.{name}"), property, places);
        }
        for (key, mark) in [("items", "[]"), ("additionalProperties", "{}")] {
            if schema[key].is_object() {
                node(format!("{path}{mark}"), &schema[key], places);
            }
        }
        places.insert(path, schema.clone());
    }
    let mut places = BTreeMap::new();
    for crd in crds() {
        let crd = serde_json::to_value(crd).unwrap();
        let kind = crd["spec"]["names"]["kind"].as_str().unwrap();
        for version in crd["spec"]["versions"].as_array().unwrap() {
            let path = format!("{kind}/{}", version["name"].as_str().unwrap());
            node(path, &version["schema"]["openAPIV3Schema"], &mut places);
        }
    }
    places
}

#[test]
fn nothing_that_metal3_stores_is_dropped_in_either_version() {
    let ours = places();
    let mut seen = 0;
    for line in FIELDS.lines().filter(|line| !line.contains(" requires ")) {
        let (path, type_) = line.split_once(' ').unwrap();
        let place = ours.get(path).unwrap_or_else(|| panic!("{path} is missing"));
        if type_ == "any" {
            assert_eq!(place["x-kubernetes-preserve-unknown-fields"], json!(true), "{path}");
        } else {
            assert_eq!(place["type"], json!(type_), "{path}");
        }
        seen += 1;
    }
    assert!(seen > 500, "{seen}");
}

/// What Metal3 lets users leave out, ours must let them leave out too; admission adds an absent spec.
#[test]
fn only_what_metal3_requires_is_required_of_users() {
    let required = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
    let theirs: BTreeMap<&str, Vec<String>> =
        FIELDS.lines().filter_map(|l| l.split_once(" requires ")).map(|(p, r)| (p, required(r))).collect();
    let ours_alone = ["failureDomainDataTemplates", "hostClaim", ".conditions[]"];
    for (path, schema) in places() {
        if ours_alone.iter().any(|name| path.contains(name)) || path.starts_with("Metal3ClusterTemplate") {
            continue;
        }
        for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            let known = theirs.get(path.as_str()).is_some_and(|fields| fields.iter().any(|field| field == name));
            assert!(known || (name == "spec" && !path.contains('.')), "{path} requires {name}");
        }
    }
}

/// A name in a list by which its entries are told apart must be required, or the server refuses the definition.
#[test]
fn what_tells_entries_apart_is_required() {
    for (path, schema) in places() {
        for key in schema["x-kubernetes-list-map-keys"].as_array().into_iter().flatten() {
            let required = schema["items"]["required"].as_array().cloned().unwrap_or_default();
            assert!(required.contains(key), "{path}: {key}");
        }
    }
}

#[test]
fn both_versions_are_served_the_newer_one_is_stored_and_somebody_converts() {
    for crd in crds() {
        let name = crd.metadata.name.clone().unwrap();
        let versions: Vec<_> =
            crd.spec.versions.iter().map(|v| (v.name.as_str(), v.served, v.storage, v.deprecated)).collect();
        assert_eq!(versions, [("v1beta2", true, true, None), ("v1beta1", true, false, Some(true))], "{name}");
        let webhook = crd.spec.conversion.unwrap().webhook.unwrap();
        assert_eq!(webhook.client_config.unwrap().service.unwrap().path.as_deref(), Some(CONVERT_PATH));
        let labels = crd.metadata.labels.unwrap();
        assert_eq!(labels["cluster.x-k8s.io/v1beta1"], "v1beta1");
        assert_eq!(labels["cluster.x-k8s.io/v1beta2"], "v1beta2");
        assert_eq!(labels["cluster.x-k8s.io/provider"], "infrastructure-metal3");
        assert!(labels.contains_key("clusterctl.cluster.x-k8s.io"));
        assert_eq!(labels.contains_key("clusterctl.cluster.x-k8s.io/move"), name.starts_with("metal3datatemplates"));
        assert_eq!(crd.spec.names.categories.unwrap(), ["cluster-api", "berth"]);
    }
    let names: Vec<String> = crds().into_iter().filter_map(|crd| crd.metadata.name).collect();
    let mut sorted = names.clone();
    sorted.sort();
    assert_eq!(names, sorted);
}

#[test]
fn what_berth_adds_is_in_the_newer_version_alone() {
    let ours = places();
    for field in ["spec.kind", "spec.args{}", "spec.hostSelector.inNamespace", "status.hostClaim.name"] {
        assert!(ours.contains_key(&format!("Metal3Machine/v1beta2.{field}")), "{field}");
        assert!(!ours.contains_key(&format!("Metal3Machine/v1beta1.{field}")), "{field}");
    }
    let in_template = "Metal3MachineTemplate/v1beta2.spec.template.spec.failureDomainDataTemplates[].failureDomain";
    assert!(ours.contains_key(in_template));
    let rules = |path: &str| ours[path]["x-kubernetes-validations"].as_array().map_or(0, Vec::len);
    assert_eq!(rules("Metal3Machine/v1beta2.spec"), 2);
    assert_eq!(rules("Metal3MachineTemplate/v1beta2.spec.template.spec"), 1);
    assert_eq!((rules("Metal3DataClaim/v1beta2.spec"), rules("Metal3Data/v1beta2.spec")), (1, 2));
    assert_eq!(rules("Metal3Machine/v1beta1.spec"), 0);
}

/// How wide they are is looked at where all definitions are, in the tests of the manifests.
#[test]
fn machines_and_clusters_say_in_both_versions_whether_they_are_fine_and_data_at_least_that() {
    let shown = |kind: &str| {
        let crd = crds().into_iter().find(|crd| crd.spec.names.kind == kind).unwrap();
        let columns = crd.spec.versions.into_iter().map(|version| version.additional_printer_columns.unwrap());
        let always = columns.map(|all| all.into_iter().filter(|c| c.priority.unwrap_or(0) == 0).collect::<Vec<_>>());
        always.map(|all| all.into_iter().map(|c| (c.name, c.json_path)).collect::<Vec<_>>()).collect::<Vec<_>>()
    };
    let names = |columns: &[(String, String)]| columns.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    for (kind, first) in [("Metal3Machine", "Address"), ("Metal3Cluster", "Endpoint")] {
        for version in shown(kind) {
            assert_eq!(names(&version), [first, "Ready", "Reason", "Age"], "{kind}");
        }
    }
    let data = shown("Metal3Data");
    assert_eq!(names(&data[0]), ["Claim", "Ready", "Reason", "Age"]);
    assert_eq!(names(&data[1]), ["Claim", "Ready", "Age"], "the older version has no conditions");
    assert_eq!(data[1][1].1, ".status.ready");
}

/// The wire form must come back byte for byte, so that an unchanged object is never written.
fn same<T: Serialize + DeserializeOwned>(wire: Value) -> T {
    let object: T = serde_json::from_value(wire.clone()).unwrap();
    assert_eq!(serde_json::to_value(&object).unwrap(), wire);
    object
}

#[test]
fn machines_survive_decoding_and_encoding() {
    let spec: Metal3MachineSpec = same(json!({
        "kind": "baremetal", "args": {"a": "b"}, "providerID": "metal3://a/b/c",
        "image": {"url": "https://i.example/a", "checksum": "c", "checksumType": "sha256", "diskFormat": "raw"},
        "customDeploy": {"method": "m"}, "userData": {"name": "u"}, "metaData": {"name": "m", "namespace": "n"},
        "networkData": {"name": "n"}, "automatedCleaningMode": "disabled", "failureDomain": "r1",
        "hostSelector": {"inNamespace": "metal", "matchLabels": {"a": "b"},
            "matchExpressions": [{"key": "k", "operator": "in", "values": ["v"]}]},
        "dataTemplate": {"name": "t", "namespace": "n"},
        "failureDomainDataTemplates": [{"failureDomain": "r2", "dataTemplate": {"name": "t2"}}],
    }));
    let template = |domain| spec.data_template_in(domain).map(|t| t.name.as_str());
    assert_eq!((template(Some("r2")), template(Some("r1")), template(None)), (Some("t2"), Some("t"), Some("t")));
    assert_eq!(spec.image.as_ref().unwrap().for_claim().format.as_deref(), Some("raw"));
    let _: Metal3MachineStatus = same(json!({
        "observedGeneration": 1, "initialization": {"provisioned": true}, "lastUpdated": "2026-01-02T03:04:05Z",
        "hostClaim": {"name": "c"}, "failureDomain": "r", "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
        "userData": {"name": "u"}, "metaData": {"name": "m"}, "networkData": {"name": "n"}, "renderedData": {"name": "d"},
        "conditions": [{"type": "Ready", "status": "True", "reason": "Ready", "message": "",
            "lastTransitionTime": "2026-01-02T03:04:05Z"}],
        "deprecated": {"v1beta1": {"failureReason": "r", "failureMessage": "m", "conditions": [{"type": "Ready",
            "status": "False", "severity": "Info", "lastTransitionTime": "2026-01-02T03:04:05Z"}]}},
    }));
    let _: Metal3ClusterSpec = same(json!({
        "controlPlaneEndpoint": {"host": "h", "port": 6443}, "cloudProviderEnabled": false,
        "failureDomains": [{"name": "a", "controlPlane": true, "attributes": {"x": "y"}}],
    }));
    let nothing: Metal3ClusterSpec = same(json!({}));
    assert!(nothing.control_plane_endpoint.is_unset() && !nothing.control_plane_endpoint.is_complete());
}

#[test]
fn data_templates_survive_decoding_and_encoding() {
    let pool = json!([{"key": "k", "name": "p", "apiGroup": "ipam.metal3.io", "kind": "IPPool"}]);
    let mac = json!({"fromHostInterface": "eth0"});
    let route = json!({"network": "0.0.0.0", "prefix": 0, "gateway": {"fromIPPool": "p"},
        "services": {"dns": ["8.8.8.8"], "dnsFromIPPool": "p"}});
    let wire = json!({
        "clusterName": "c",
        "metaData": {
            "strings": [{"key": "a", "value": "b"}], "objectNames": [{"key": "a", "object": "machine"}],
            "indexes": [{"key": "a", "offset": 1, "step": 2, "prefix": "p", "suffix": "s"}],
            "ipAddressesFromPool": pool, "prefixesFromPool": pool, "gatewaysFromPool": pool, "dnsServersFromPool": pool,
            "fromHostInterfaces": [{"key": "a", "interface": "eth0"}, {"key": "b", "fromBootMAC": true}],
            "fromLabels": [{"key": "a", "object": "baremetalhost", "label": "l"}],
            "fromAnnotations": [{"key": "a", "object": "metal3machine", "annotation": "l"}],
            "namespaces": [{"key": "a"}],
        },
        "networkData": {
            "links": {
                "ethernets": [{"type": "phy", "id": "e", "name": "eth0", "mtu": 1500, "macAddress": mac}],
                "bonds": [{"bondMode": "802.3ad", "bondXmitHashPolicy": "layer2", "id": "b", "mtu": 1500,
                    "macAddress": {"string": "00:00:00:00:00:00"}, "bondLinks": ["e"],
                    "parameters": [{"name": "miimon", "value": 100}, {"name": "text", "value": "x"}]}],
                "vlans": [{"vlanID": 3, "vlanLink": "b", "id": "v", "mtu": 1500,
                    "macAddress": {"fromAnnotation": {"object": "machine", "annotation": "a"}}}],
            },
            "networks": {
                "ipv4": [{"id": "a", "link": "e", "ipAddressFromIPPool": "p", "routes": [route]}],
                "ipv4DHCP": [{"id": "a", "link": "e"}],
                "ipv6": [{"id": "a", "link": "e", "fromPoolRef": {"name": "p", "kind": "K", "apiGroup": "g"},
                    "fromPoolAnnotation": {"object": "machine", "annotation": "a"}}],
                "ipv6DHCP": [{"id": "a", "link": "e"}], "ipv6SLAAC": [{"id": "a", "link": "e"}],
            },
            "services": {"dns": ["::1"], "dnsFromIPPool": "p"},
        },
    });
    let _: Metal3DataTemplateSpec = same(wire);
    let short: Metal3DataTemplateSpec = serde_json::from_value(json!({
        "metaData": {"indexes": [{"key": "a"}], "gatewaysFromPool": [{"key": "k", "name": "p"}]},
        "networkData": {"links": {"ethernets": [{"type": "phy", "id": "e", "macAddress": {}}]}},
    }))
    .unwrap();
    let meta = short.meta_data.unwrap();
    assert_eq!((meta.indexes[0].step, meta.gateways_from_pool[0].kind.as_str()), (1, "IPPool"));
    assert_eq!(short.network_data.unwrap().links.ethernets[0].mtu, 1500);
    let _: Metal3DataTemplateStatus = same(json!({"indexes": [{"index": 0, "name": "m"}]}));
    let _: Metal3DataSpec =
        same(json!({"index": 3, "metaData": {"name": "m"}, "claim": {"name": "c"}, "template": {"name": "t"}}));
    let _: Metal3RemediationSpec =
        same(json!({"strategy": {"type": "Reboot", "retryLimit": 1, "timeoutSeconds": 600}}));
    let _: Metal3RemediationTemplateStatus = same(json!({"status": {"phase": "Running", "retryCount": 1}}));
}
