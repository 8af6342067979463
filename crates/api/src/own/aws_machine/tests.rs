#![allow(missing_docs)]

use super::super::{AWSMachineTemplate, aws_crds};
use super::*;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Every leaf of the spec of the Cluster API provider for AWS, with its type: none may be dropped by ours.
const SPEC: &[(&str, &str)] = &[
    ("additionalSecurityGroups[].filters[].name", "string"),
    ("additionalSecurityGroups[].filters[].values[]", "string"),
    ("additionalSecurityGroups[].id", "string"),
    ("additionalTags{}", "string"),
    ("ami.eksLookupType", "string"),
    ("ami.id", "string"),
    ("assignPrimaryIPv6", "string"),
    ("capacityReservationId", "string"),
    ("capacityReservationPreference", "string"),
    ("cloudInit.insecureSkipSecretsManager", "boolean"),
    ("cloudInit.secretCount", "integer"),
    ("cloudInit.secretPrefix", "string"),
    ("cloudInit.secureSecretsBackend", "string"),
    ("cpuOptions.confidentialCompute", "string"),
    ("cpuOptions.nestedVirtualization", "string"),
    ("dynamicHostAllocation.tags{}", "string"),
    ("elasticIpPool.publicIpv4Pool", "string"),
    ("elasticIpPool.publicIpv4PoolFallbackOrder", "string"),
    ("hostAffinity", "string"),
    ("hostID", "string"),
    ("iamInstanceProfile", "string"),
    ("ignition.proxy.httpProxy", "string"),
    ("ignition.proxy.httpsProxy", "string"),
    ("ignition.proxy.noProxy[]", "string"),
    ("ignition.storageType", "string"),
    ("ignition.tls.certificateAuthorities[]", "string"),
    ("ignition.version", "string"),
    ("imageLookupBaseOS", "string"),
    ("imageLookupFormat", "string"),
    ("imageLookupOrg", "string"),
    ("instanceID", "string"),
    ("instanceMetadataOptions.httpEndpoint", "string"),
    ("instanceMetadataOptions.httpProtocolIpv6", "string"),
    ("instanceMetadataOptions.httpPutResponseHopLimit", "integer"),
    ("instanceMetadataOptions.httpTokens", "string"),
    ("instanceMetadataOptions.instanceMetadataTags", "string"),
    ("instanceType", "string"),
    ("marketType", "string"),
    ("networkInterfaceType", "string"),
    ("networkInterfaces[]", "string"),
    ("nonRootVolumes[].deviceName", "string"),
    ("nonRootVolumes[].encrypted", "boolean"),
    ("nonRootVolumes[].encryptionKey", "string"),
    ("nonRootVolumes[].iops", "integer"),
    ("nonRootVolumes[].size", "integer"),
    ("nonRootVolumes[].throughput", "integer"),
    ("nonRootVolumes[].type", "string"),
    ("placementGroupName", "string"),
    ("placementGroupPartition", "integer"),
    ("privateDnsName.enableResourceNameDnsAAAARecord", "boolean"),
    ("privateDnsName.enableResourceNameDnsARecord", "boolean"),
    ("privateDnsName.hostnameType", "string"),
    ("providerID", "string"),
    ("publicIP", "boolean"),
    ("rootVolume.deviceName", "string"),
    ("rootVolume.encrypted", "boolean"),
    ("rootVolume.encryptionKey", "string"),
    ("rootVolume.iops", "integer"),
    ("rootVolume.size", "integer"),
    ("rootVolume.throughput", "integer"),
    ("rootVolume.type", "string"),
    ("securityGroupOverrides{}", "string"),
    ("spotMarketOptions.maxPrice", "string"),
    ("sshKeyName", "string"),
    ("subnet.filters[].name", "string"),
    ("subnet.filters[].values[]", "string"),
    ("subnet.id", "string"),
    ("tenancy", "string"),
    ("uncompressedUserData", "boolean"),
];

const STATUS: &[(&str, &str)] = &[
    ("addresses[].address", "string"),
    ("addresses[].type", "string"),
    ("conditions[].lastTransitionTime", "string"),
    ("conditions[].message", "string"),
    ("conditions[].reason", "string"),
    ("conditions[].severity", "string"),
    ("conditions[].status", "string"),
    ("conditions[].type", "string"),
    ("dedicatedHost.id", "string"),
    ("failureMessage", "string"),
    ("failureReason", "string"),
    ("instanceState", "string"),
    ("interruptible", "boolean"),
    ("ready", "boolean"),
];

/// What we add to the spec, at the first level that the provider does not have.
const ADDED: &[&str] = &[
    "dynamicHostAllocation.assetIDs[]",
    "dynamicHostAllocation.autoRelease",
    "dynamicHostAllocation.availabilityZone",
    "dynamicHostAllocation.capacityFallback.zones[]",
    "dynamicHostAllocation.hostMaintenance",
    "dynamicHostAllocation.hostRecovery",
    "dynamicHostAllocation.instanceFamily",
    "dynamicHostAllocation.instanceType",
    "dynamicHostAllocation.outpostArn",
    "dynamicHostAllocation.quantity",
    "dynamicHostAllocation.releasePolicy",
    "dynamicHostAllocation.reuse",
    "dynamicHostAllocation.sharing.group",
    "dynamicHostAllocation.sharing.maxInstancesPerHost",
    "dynamicHostAllocation.sharing.policy",
    "hostResourceGroupArn",
    "licenseConfigurationArns[]",
];

fn schema_of(plural: &str, path: &[&str]) -> Value {
    let crd = aws_crds().into_iter().find(|crd| crd.spec.names.plural == plural).unwrap();
    let crd = serde_json::to_value(crd).unwrap();
    assert_eq!(crd["spec"]["versions"].as_array().unwrap().len(), 1);
    let mut node = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone();
    for field in path {
        node = node["properties"][field].clone();
    }
    node
}

fn leaves(path: &str, schema: &Value, out: &mut Vec<(String, String)>) {
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let below = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        leaves(&below, property, out);
    }
    for (key, mark) in [("items", "[]"), ("additionalProperties", "{}")] {
        if schema[key].is_object() {
            leaves(&format!("{path}{mark}"), &schema[key], out);
        }
    }
    let type_ = schema["type"].as_str().unwrap_or_default();
    if !["object", "array"].contains(&type_) {
        out.push((path.to_owned(), type_.to_owned()));
    }
}

fn all_leaves(plural: &str, path: &[&str]) -> Vec<(String, String)> {
    let mut out = Vec::new();
    leaves("", &schema_of(plural, path), &mut out);
    out.sort();
    out
}

#[test]
fn the_spec_has_every_field_of_the_provider_and_what_we_add() {
    let mut wanted: Vec<(String, String)> = SPEC.iter().map(|(p, t)| ((*p).to_owned(), (*t).to_owned())).collect();
    let ours = all_leaves("awsmachines", &["spec"]);
    assert_eq!(ours, all_leaves("awsmachinetemplates", &["spec", "template", "spec"]));
    for added in ADDED {
        let type_ = &ours.iter().find(|(path, _)| path == added).unwrap_or_else(|| panic!("{added}")).1;
        wanted.push(((*added).to_owned(), type_.clone()));
    }
    wanted.sort();
    assert_eq!(ours, wanted);
}

#[test]
fn the_status_has_every_field_of_the_provider() {
    let ours: BTreeSet<_> = all_leaves("awsmachines", &["status"]).into_iter().collect();
    for (path, type_) in STATUS {
        assert!(ours.contains(&((*path).to_owned(), (*type_).to_owned())), "{path}");
    }
    let template = all_leaves("awsmachinetemplates", &["status"]);
    let paths: Vec<&str> = template.iter().map(|(path, _)| path.as_str()).collect();
    assert!(paths.contains(&"capacity{}") && paths.contains(&"nodeInfo.architecture"), "{paths:?}");
    assert!(paths.contains(&"nodeInfo.operatingSystem") && paths.contains(&"conditions[].severity"), "{paths:?}");
}

/// A static default would be applied before the webhook could tell what the user meant.
#[test]
fn only_what_the_provider_defaults_is_defaulted_and_the_affinity_is_not() {
    fn defaults(path: &str, schema: &Value, out: &mut BTreeSet<String>) {
        if !schema["default"].is_null() {
            out.insert(format!("{path}={}", schema["default"]));
        }
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            defaults(&format!("{path}.{name}"), property, out);
        }
    }
    let mut found = BTreeSet::new();
    defaults("", &schema_of("awsmachines", &["spec"]), &mut found);
    let wanted = [
        r#".ignition.storageType="ClusterObjectStore""#,
        r#".instanceMetadataOptions.httpEndpoint="enabled""#,
        r#".instanceMetadataOptions.httpProtocolIpv6="disabled""#,
        ".instanceMetadataOptions.httpPutResponseHopLimit=1",
        r#".instanceMetadataOptions.httpTokens="optional""#,
        r#".instanceMetadataOptions.instanceMetadataTags="disabled""#,
    ];
    assert_eq!(found, wanted.into_iter().map(str::to_owned).collect());
}

#[test]
fn only_what_the_provider_requires_is_required() {
    fn required(path: &str, schema: &Value, out: &mut BTreeSet<String>) {
        for name in schema["required"].as_array().into_iter().flatten() {
            out.insert(format!("{path}.{}", name.as_str().unwrap()));
        }
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            required(&format!("{path}.{name}"), property, out);
        }
        if schema["items"].is_object() {
            required(&format!("{path}[]"), &schema["items"], out);
        }
    }
    let mut found = BTreeSet::new();
    required("", &schema_of("awsmachines", &["spec"]), &mut found);
    let wanted = [
        ".additionalSecurityGroups[].filters[].name",
        ".additionalSecurityGroups[].filters[].values",
        ".instanceType",
        ".nonRootVolumes[].size",
        ".rootVolume.size",
        ".subnet.filters[].name",
        ".subnet.filters[].values",
    ];
    assert_eq!(found, wanted.into_iter().map(str::to_owned).collect());
}

#[test]
fn the_definitions_carry_the_labels_of_both_contracts_and_the_columns_of_the_provider() {
    let all = aws_crds();
    let names: Vec<_> = all.iter().filter_map(|crd| crd.metadata.name.as_deref()).collect();
    let group = "infrastructure.cluster.x-k8s.io";
    assert_eq!(names, [format!("awsmachines.{group}"), format!("awsmachinetemplates.{group}")]);
    for (crd, short) in all.iter().zip(["awsm", "awsmt"]) {
        assert_eq!(crd.spec.names.short_names.as_deref(), Some([short.to_owned()].as_slice()));
        assert_eq!(crd.spec.names.categories.clone().unwrap(), ["cluster-api", "berth"]);
        assert_eq!((crd.spec.scope.as_str(), crd.spec.versions[0].name.as_str()), ("Namespaced", "v1beta2"));
        let labels = crd.metadata.labels.clone().unwrap();
        for (label, value) in [
            ("cluster.x-k8s.io/v1beta1", "v1beta2"),
            ("cluster.x-k8s.io/v1beta2", "v1beta2"),
            ("cluster.x-k8s.io/provider", "infrastructure-aws"),
            ("clusterctl.cluster.x-k8s.io", ""),
        ] {
            assert_eq!(labels.get(label).map(String::as_str), Some(value), "{label}");
        }
    }
    let columns = all[0].spec.versions[0].additional_printer_columns.clone().unwrap();
    let shown: Vec<_> = columns.iter().map(|c| (c.name.as_str(), c.priority.unwrap_or_default())).collect();
    let always = ["Instance", "Ready", "Reason", "Age"].map(|name| (name, 0));
    let wide = ["Cluster", "State", "InstanceID", "Machine", "Host", "Message"].map(|name| (name, 1));
    assert_eq!(shown, always.into_iter().chain(wide).collect::<Vec<_>>());
}

#[test]
fn a_family_is_known_by_its_pattern() {
    let family = schema_of("awsmachines", &["spec", "dynamicHostAllocation", "instanceFamily"]);
    // The API server's engine has no look-ahead either, so the pattern alone must demand the digit.
    let pattern = family["pattern"].as_str().unwrap();
    assert_eq!(pattern, r"^[a-z]([a-z]|-[a-z])*-?[0-9][a-z0-9]*(-[a-z0-9]+)*$");
    assert_eq!((family["minLength"].as_i64(), family["maxLength"].as_i64()), (Some(2), Some(20)));
}

#[test]
fn a_machine_survives_decoding_and_encoding() {
    let wire = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "AWSMachine",
        "metadata": {"name": "m", "namespace": "ns"},
        "spec": {
            "instanceType": "m5.metal", "ami": {"id": "ami-1"}, "providerID": "aws:///us-west-2a/i-1", "instanceID": "i-1",
            "imageLookupBaseOS": "ubuntu", "publicIP": false, "assignPrimaryIPv6": "enabled",
            "subnet": {"filters": [{"name": "tag:Name", "values": ["a"]}]}, "tenancy": "host", "hostAffinity": "host",
            "rootVolume": {"size": 8, "type": "gp3"}, "cloudInit": {"insecureSkipSecretsManager": true},
            "ignition": {"version": "3.4", "storageType": "UnencryptedUserData"}, "marketType": "OnDemand",
            "privateDnsName": {"enableResourceNameDnsAAAARecord": true},
            "dynamicHostAllocation": {"instanceFamily": "m5", "quantity": 2, "autoRelease": false, "tags": {"a": "b"},
                "hostRecovery": "on", "hostMaintenance": "off", "assetIDs": ["a"], "releasePolicy": "Background",
                "sharing": {"policy": "Shared", "group": "g", "maxInstancesPerHost": 2}, "reuse": "PreferRetained",
                "capacityFallback": {"zones": ["us-west-2b"]}},
        },
        "status": {"ready": true, "initialization": {"provisioned": true}, "allocatedHostID": "h-1",
            "dedicatedHost": {"id": "h-1", "hosts": [{"id": "h-1", "state": "available"}]}},
    });
    let machine: AWSMachine = serde_json::from_value(wire.clone()).unwrap();
    assert_eq!(serde_json::to_value(&machine).unwrap(), wire);
    let hosts = machine.spec.dynamic_host_allocation.as_ref().unwrap();
    assert_eq!((hosts.hosts(), hosts.releases(), hosts.is_shared()), (2, false, true));
    assert_eq!(hosts.host_recovery.unwrap().as_str(), "on");
}

#[test]
fn what_is_left_out_means_what_admission_would_have_written() {
    let plain = AWSMachineSpec::default();
    assert_eq!((plain.effective_tenancy(), plain.effective_affinity()), (Tenancy::Default, HostAffinity::Default));
    let dynamic = AWSMachineSpec { dynamic_host_allocation: Some(DynamicHostAllocation::default()), ..plain };
    assert_eq!((dynamic.effective_tenancy(), dynamic.effective_affinity()), (Tenancy::Host, HostAffinity::Host));
    let hosts = dynamic.dynamic_host_allocation.unwrap();
    assert_eq!((hosts.hosts(), hosts.releases(), hosts.is_shared()), (1, true, false));
    for (given, compresses) in [(None, false), (Some(true), false), (Some(false), true)] {
        let spec = AWSMachineSpec { uncompressed_user_data: given, ..AWSMachineSpec::default() };
        assert_eq!(spec.compresses_user_data(), compresses);
    }
}

/// The provider stores conditions without reasons and messages.
#[test]
fn conditions_of_another_controller_are_read() {
    let wire = json!({"instanceType": "m5.large"});
    let at = "2026-01-02T03:04:05Z";
    let machine: AWSMachine = serde_json::from_value(json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "AWSMachine", "metadata": {}, "spec": wire,
        "status": {"conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": at},
            {"type": "InstanceReady", "status": "False", "severity": "Error", "reason": "InstanceStopped", "lastTransitionTime": at},
        ]},
    }))
    .unwrap();
    let conditions = machine.status.unwrap().conditions;
    assert_eq!((conditions[0].reason.as_str(), conditions[1].reason.as_str()), ("", "InstanceStopped"));
    assert_eq!(conditions[0].last_transition_time, Time(at.parse().unwrap()));
    let template: AWSMachineTemplate = serde_json::from_value(json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "AWSMachineTemplate", "metadata": {},
        "spec": {"template": {"spec": wire}},
        "status": {"capacity": {"cpu": 4, "memory": "16Gi"}, "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": at}]},
    }))
    .unwrap();
    assert_eq!(template.status.unwrap().capacity["cpu"], json!(4));
}

/// The older contract wants to know how bad it is; the newer one knows no such field, and what is read back is the same.
#[test]
fn a_condition_that_does_not_hold_is_stored_with_its_severity() {
    let stored = |status: &str, reason: &str| {
        let at = "2026-01-02T03:04:05Z";
        let condition =
            json!({"type": "Ready", "status": status, "reason": reason, "message": "", "lastTransitionTime": at});
        let read: AWSMachineStatus = serde_json::from_value(json!({"conditions": [condition]})).unwrap();
        let written = serde_json::to_value(&read).unwrap();
        assert_eq!(serde_json::from_value::<AWSMachineStatus>(written.clone()).unwrap(), read);
        let mut written = written["conditions"][0].clone();
        let severity = written.as_object_mut().unwrap().remove("severity");
        assert_eq!(written, condition, "nothing else changes");
        severity.map(|severity| severity.as_str().unwrap().to_owned()).unwrap_or_default()
    };
    for (status, reason, severity) in [
        ("True", "InstanceRunning", ""),
        ("Unknown", "InstanceNotFound", ""),
        ("False", "SomebodyElsesReason", ""),
        ("False", "InstanceProvisionStarted", "Info"),
        ("False", "WaitingForBootstrapData", "Info"),
        ("False", "Deleting", "Info"),
        ("False", "HostPending", "Info"),
        ("False", "InstanceNotReady", "Warning"),
        ("False", "HostUnderAssessment", "Warning"),
        ("False", "InstanceProvisionFailed", "Error"),
        ("False", "InstanceTerminated", "Error"),
        ("False", "HostPermanentFailure", "Error"),
    ] {
        assert_eq!(stored(status, reason), severity, "{status} {reason}");
    }
}
