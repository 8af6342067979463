#![allow(missing_docs)]

use super::*;
use crate::meta::View;
use kube::Resource;
use proptest::prelude::*;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Decodes the way the client does, from bytes, and from a value; both must agree.
fn read<T: DeserializeOwned + PartialEq + std::fmt::Debug>(wire: &Value) -> T {
    let text = serde_json::to_string(wire).unwrap();
    let object: T = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
    assert_eq!(serde_json::from_value::<T>(wire.clone()).unwrap(), object);
    object
}

fn meta() -> Value {
    json!({"name": "a", "namespace": "ns", "uid": "u-1", "resourceVersion": "9", "generation": 2,
        "managedFields": [{"manager": "m", "fieldsV1": {"f:spec": {}}}]})
}

fn legacy_conditions() -> Value {
    json!([{"type": "Ready", "status": "False", "severity": "Warning", "reason": "Waiting",
        "lastTransitionTime": "2026-01-02T03:04:05Z"}])
}

fn new_conditions() -> Value {
    json!([{"type": "Available", "status": "True", "reason": "Available", "message": "", "observedGeneration": 2,
        "lastTransitionTime": "2026-01-02T03:04:05Z"}])
}

fn old_ref(kind: &str, name: &str) -> Value {
    json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": kind, "name": name, "namespace": "ns", "uid": "x"})
}

fn new_ref(kind: &str, name: &str) -> Value {
    json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": kind, "name": name})
}

fn template_ref(kind: &str, name: &str) -> Value {
    json!({"templateRef": {"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": kind, "name": name}})
}

fn object_ref(kind: &str, name: &str) -> ObjectRef {
    ObjectRef { group: "infrastructure.cluster.x-k8s.io".into(), kind: kind.into(), name: name.into() }
}

/// A status of the older API, with the newer conditions in their block.
fn old_status(extra: Value) -> Value {
    let mut status = json!({"observedGeneration": 2, "conditions": legacy_conditions(),
        "v1beta2": {"conditions": new_conditions()}});
    merge(&mut status, extra);
    status
}

/// A status of the newer API, with the older conditions in theirs.
fn new_status(extra: Value) -> Value {
    let mut status = json!({"observedGeneration": 2, "conditions": new_conditions(),
        "deprecated": {"v1beta1": {"conditions": legacy_conditions()}}});
    merge(&mut status, extra);
    status
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

fn cluster_v1beta1() -> Value {
    json!({"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Cluster", "metadata": meta(),
        "spec": {
            "paused": true, "controlPlaneEndpoint": {"host": "10.0.0.1", "port": 6443},
            "controlPlaneRef": old_ref("KubeadmControlPlane", "cp"), "infrastructureRef": old_ref("AWSCluster", "i"),
            "clusterNetwork": {"pods": {"cidrBlocks": ["10.1.0.0/16"]}},
            "topology": {"class": "c", "classNamespace": "classes", "version": "v1.33.0", "controlPlane": {"replicas": 3},
                "variables": [{"name": "clusterVip", "value": "10.0.0.1"}, {"name": "n", "value": {"deep": [1]}}]},
        },
        "status": old_status(json!({"phase": "Provisioned", "infrastructureReady": true, "controlPlaneReady": true,
            "failureReason": "R", "failureMessage": "M"})),
    })
}

fn cluster_v1beta2() -> Value {
    json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": meta(),
        "spec": {
            "paused": true, "controlPlaneEndpoint": {"host": "10.0.0.1", "port": 6443},
            "controlPlaneRef": new_ref("KubeadmControlPlane", "cp"), "infrastructureRef": new_ref("AWSCluster", "i"),
            "topology": {"classRef": {"name": "c", "namespace": "classes"}, "version": "v1.33.0",
                "controlPlane": {"replicas": 3},
                "variables": [{"name": "clusterVip", "value": "10.0.0.1"}, {"name": "n", "value": {"deep": [1]}}]},
        },
        "status": new_status(json!({"phase": "Provisioned",
            "initialization": {"infrastructureProvisioned": true, "controlPlaneInitialized": true},
            "deprecated": {"v1beta1": {"failureReason": "R", "failureMessage": "M"}}})),
    })
}

fn class_v1beta1() -> Value {
    let template = |kind: &str, name: &str| json!({"ref": old_ref(kind, name)});
    let mut control_plane = template("KCPTemplate", "cp");
    merge(&mut control_plane, json!({"machineInfrastructure": template("AWSMachineTemplate", "cpm")}));
    let worker = json!({"class": "w", "template": {"metadata": {},
        "bootstrap": template("KubeadmConfigTemplate", "b"), "infrastructure": template("AWSMachineTemplate", "m")}});
    json!({"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "ClusterClass", "metadata": meta(),
        "spec": {
            "infrastructure": template("AWSClusterTemplate", "i"), "controlPlane": control_plane,
            "workers": {"machineDeployments": [worker], "machinePools": [worker]},
            "variables": [{"name": "clusterVip", "required": false, "schema": {"openAPIV3Schema": {"type": "string"}}}],
            "patches": [{"name": "inline", "enabledIf": "{{ .x }}", "definitions": []},
                {"name": "ours", "external": {"generateExtension": "gp.vip", "validateExtension": "vt.vip",
                    "discoverVariablesExtension": "dv.vip", "settings": {"empty": ""}}}],
        },
        "status": old_status(json!({"variables": [{"name": "clusterVip", "definitionsConflict": false,
            "definitions": [{"from": "inline", "required": true, "schema": {}}]}]})),
    })
}

fn class_v1beta2() -> Value {
    let mut control_plane = template_ref("KCPTemplate", "cp");
    merge(&mut control_plane, json!({"machineInfrastructure": template_ref("AWSMachineTemplate", "cpm")}));
    let worker = json!({"class": "w", "bootstrap": template_ref("KubeadmConfigTemplate", "b"),
        "infrastructure": template_ref("AWSMachineTemplate", "m")});
    json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "ClusterClass", "metadata": meta(),
        "spec": {
            "infrastructure": template_ref("AWSClusterTemplate", "i"), "controlPlane": control_plane,
            "workers": {"machineDeployments": [worker], "machinePools": [worker]},
            "variables": [{"name": "clusterVip", "schema": {"openAPIV3Schema": {"type": "string"}}}],
            "patches": [{"name": "inline", "enabledIf": "{{ .x }}", "definitions": []},
                {"name": "ours", "external": {"generatePatchesExtension": "gp.vip",
                    "validateTopologyExtension": "vt.vip", "discoverVariablesExtension": "dv.vip",
                    "settings": {"empty": ""}}}],
        },
        "status": new_status(json!({"variables": [{"name": "clusterVip",
            "definitions": [{"from": "inline", "required": true, "schema": {}}]}]})),
    })
}

fn machine_spec(reference: fn(&str, &str) -> Value) -> Value {
    json!({"clusterName": "c", "bootstrap": {"configRef": reference("KubeadmConfig", "b"), "dataSecretName": "s"},
        "infrastructureRef": reference("AWSMachine", "m"), "version": "v1.33.0",
        "providerID": "aws:///us-east-1a/i-0123456789abcdef0", "failureDomain": "us-east-1a"})
}

fn machine_v1beta1() -> Value {
    json!({"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine", "metadata": meta(), "spec": machine_spec(old_ref),
        "status": old_status(json!({"phase": "Running", "infrastructureReady": true, "bootstrapReady": true,
            "nodeRef": {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "x"}, "failureMessage": "M",
            "addresses": [{"type": "InternalIP", "address": "10.0.0.9"}]})),
    })
}

fn machine_v1beta2() -> Value {
    json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "metadata": meta(), "spec": machine_spec(new_ref),
        "status": new_status(json!({"phase": "Running", "nodeRef": {"name": "n"},
            "initialization": {"infrastructureProvisioned": true, "bootstrapDataSecretCreated": true},
            "addresses": [{"type": "InternalIP", "address": "10.0.0.9"}],
            "deprecated": {"v1beta1": {"failureMessage": "M"}}})),
    })
}

fn group(kind: &str, newer: bool) -> Value {
    let reference = if newer { new_ref } else { old_ref };
    let status = if newer {
        new_status(json!({"phase": "Running", "replicas": 3, "readyReplicas": 2, "availableReplicas": 1,
            "upToDateReplicas": 3, "deprecated": {"v1beta1": {"readyReplicas": 9, "updatedReplicas": 9}}}))
    } else {
        old_status(json!({"phase": "Running", "replicas": 3, "readyReplicas": 9, "availableReplicas": 9,
            "updatedReplicas": 9, "v1beta2": {"readyReplicas": 2, "availableReplicas": 1, "upToDateReplicas": 3}}))
    };
    json!({"apiVersion": "x", "kind": kind, "metadata": meta(), "status": status,
        "spec": {"clusterName": "c", "replicas": 0, "paused": true, "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"l": ""}, "annotations": {"x": "y"}}, "spec": machine_spec(reference)}}})
}

fn claim(version: &str) -> Value {
    let status = match version {
        "v1beta2" => new_status(json!({"addressRef": {"name": "addr"}})),
        _ => old_status(json!({"addressRef": {"name": "addr"}})),
    };
    json!({"apiVersion": format!("ipam.cluster.x-k8s.io/{version}"), "kind": "IPAddressClaim", "metadata": meta(),
        "spec": {"clusterName": "c", "poolRef": {"apiGroup": "ipam.cluster.x-k8s.io", "kind": "InClusterIPPool", "name": "p"}},
        "status": status})
}

fn address() -> Value {
    json!({"metadata": meta(), "spec": {"claimRef": {"name": "claim"}, "address": "10.0.0.1", "prefix": 24,
        "gateway": "10.0.0.254", "poolRef": {"apiGroup": "ipam.cluster.x-k8s.io", "kind": "InClusterIPPool", "name": "p"}}})
}

fn pool() -> Value {
    json!({"metadata": meta(),
        "spec": {"addresses": ["10.0.0.1-10.0.0.9"], "prefix": 24, "gateway": "10.0.0.254",
            "excludedAddresses": ["10.0.0.5"], "allocateReservedIPAddresses": true, "addressReuseGracePeriodSeconds": 60},
        "status": {"ipAddresses": {"total": 9, "free": 7, "used": 2, "outOfRange": 1}}})
}

fn extension(newer: bool) -> Value {
    let handlers = json!({"handlers": [{"name": "gp.vip", "timeoutSeconds": 10, "failurePolicy": "Fail",
        "requestHook": {"apiVersion": "hooks.runtime.cluster.x-k8s.io/v1alpha1", "hook": "GeneratePatches"}}]});
    json!({"metadata": {"name": "vip"},
        "spec": {"clientConfig": {"service": {"namespace": "s", "name": "n", "path": "/p", "port": 443}, "caBundle": "Q0E="},
            "namespaceSelector": {"matchLabels": {"a": "b"}}, "settings": {"k": "v"}},
        "status": if newer { new_status(handlers) } else { old_status(handlers) }})
}

#[test]
fn both_shapes_of_every_cluster_api_kind_read_to_the_same_value() {
    assert_eq!(read::<Cluster>(&cluster_v1beta1()), read(&cluster_v1beta2()));
    assert_eq!(read::<ClusterClass>(&class_v1beta1()), read(&class_v1beta2()));
    // The namespace of a reference is the one thing that only the older shape has.
    let mut machine = read::<Machine>(&machine_v1beta1());
    assert_eq!(machine.spec.infrastructure_namespace.take().as_deref(), Some("ns"));
    assert_eq!(machine, read(&machine_v1beta2()));
    let mut set = read::<MachineSet>(&group("MachineSet", false));
    set.spec.template.spec.infrastructure_namespace = None;
    assert_eq!(set, read(&group("MachineSet", true)));
    let mut deployment = read::<MachineDeployment>(&group("MachineDeployment", false));
    deployment.spec.template.spec.infrastructure_namespace = None;
    assert_eq!(deployment, read(&group("MachineDeployment", true)));
    assert_eq!(read::<IPAddressClaim>(&claim("v1beta1")), read(&claim("v1beta2")));
    assert_eq!(read::<ExtensionConfig>(&extension(false)), read(&extension(true)));
}

#[test]
fn a_cluster_reads_to_the_values_written() {
    let cluster: Cluster = read(&cluster_v1beta2());
    assert!(cluster.metadata.managed_fields.is_none());
    assert!(cluster.is_paused() && cluster.spec.control_plane_endpoint.is_valid());
    assert_eq!(cluster.spec.infrastructure_ref, Some(object_ref("AWSCluster", "i")));
    assert_eq!(cluster.spec.control_plane_ref, Some(object_ref("KubeadmControlPlane", "cp")));
    assert_eq!(cluster.class().unwrap().to_string(), "classes/c");
    let topology = cluster.spec.topology.unwrap();
    assert_eq!((topology.version.as_deref(), topology.control_plane_replicas), (Some("v1.33.0"), Some(3)));
    assert_eq!(topology.variable("clusterVip"), Some(&json!("10.0.0.1")));
    assert_eq!(topology.variable("none"), None);
    assert_eq!(topology.variables[1], json!({"name": "n", "value": {"deep": [1]}}));
    let status = cluster.status;
    assert!(status.infrastructure_provisioned && status.control_plane_initialized);
    assert_eq!(status.phase.as_deref(), Some("Provisioned"));
    assert_eq!(status.failure.unwrap().reason.as_deref(), Some("R"));
    assert!(status.conditions.is_true("Available") && !status.conditions.is_true("Ready"));
    assert_eq!(status.conditions.legacy[0].severity.as_deref(), Some("Warning"));
    assert_eq!(status.conditions.get("Available").unwrap().observed_generation, Some(2));
}

#[test]
fn the_other_kinds_read_to_the_values_written() {
    let class: ClusterClass = read(&class_v1beta2());
    assert_eq!(class.spec.infrastructure, Some(object_ref("AWSClusterTemplate", "i")));
    assert_eq!(class.spec.control_plane, Some(object_ref("KCPTemplate", "cp")));
    assert_eq!(class.spec.control_plane_machines, Some(object_ref("AWSMachineTemplate", "cpm")));
    assert_eq!(class.spec.machine_deployments[0].infrastructure, Some(object_ref("AWSMachineTemplate", "m")));
    assert_eq!(class.spec.machine_pools[0].bootstrap, Some(object_ref("KubeadmConfigTemplate", "b")));
    let external = class.spec.patches[1].external.as_ref().unwrap();
    assert_eq!(external.generate_patches.as_deref(), Some("gp.vip"));
    assert_eq!(external.validate_topology.as_deref(), Some("vt.vip"));
    assert_eq!(external.settings["empty"], "");
    assert!(class.spec.patches[0].external.is_none() && !class.spec.variables[0].required);
    assert!(class.status.variables[0].definitions[0].required);

    let machine: Machine = read(&machine_v1beta2());
    assert_eq!(machine.spec.data_secret_name.as_deref(), Some("s"));
    assert_eq!(machine.spec.provider_id.as_deref(), Some("aws:///us-east-1a/i-0123456789abcdef0"));
    assert_eq!(machine.status.node_name.as_deref(), Some("n"));
    assert!(machine.status.infrastructure_provisioned && machine.status.bootstrap_data_secret_created);
    assert_eq!(machine.status.addresses[0].address, "10.0.0.9");

    let group: MachineDeployment = read(&group("MachineDeployment", false));
    assert_eq!(group.spec.replicas, Some(0));
    assert!(group.spec.paused);
    assert_eq!(group.spec.template.labels["l"], "");
    assert_eq!(group.spec.template.spec.infrastructure_ref, Some(object_ref("AWSMachine", "m")));
    let s = &group.status;
    assert_eq!(
        (s.replicas, s.ready_replicas, s.available_replicas, s.up_to_date_replicas),
        (Some(3), Some(2), Some(1), Some(3))
    );

    let claim: IPAddressClaim = read(&claim("v1beta1"));
    assert_eq!(claim.status.address_name.as_deref(), Some("addr"));
    assert_eq!(claim.spec.pool.unwrap().kind, "InClusterIPPool");
    let address: IPAddress = read(&address());
    assert_eq!((address.spec.address.as_deref(), address.spec.prefix), (Some("10.0.0.1"), Some(24)));
    assert_eq!(address.spec.claim_name.as_deref(), Some("claim"));
    let (here, everywhere): (InClusterIPPool, GlobalInClusterIPPool) = (read(&pool()), read(&pool()));
    assert_eq!((&here.spec, &here.status), (&everywhere.spec, &everywhere.status));
    assert_eq!(here.status.counts, Some(PoolCounts { total: 9, free: 7, used: 2, out_of_range: 1 }));
    assert!(here.spec.allocate_reserved && here.spec.reuse_grace_seconds == Some(60));

    let extension: ExtensionConfig = read(&extension(true));
    assert_eq!(extension.spec.service.unwrap().port, Some(443));
    assert_eq!(extension.spec.namespace_selector, Some(json!({"matchLabels": {"a": "b"}})));
    assert_eq!(extension.status.handlers[0].hook, "GeneratePatches");
}

#[test]
fn absent_empty_and_null_read_alike() {
    let bare: Cluster = read(&json!({"metadata": {"name": "a"}}));
    for spec in [
        json!({"controlPlaneEndpoint": {"host": "", "port": 0}, "topology": {}, "paused": null}),
        json!({"controlPlaneEndpoint": {}, "infrastructureRef": {}, "controlPlaneRef": null, "paused": false}),
        json!(null),
    ] {
        assert_eq!(read::<Cluster>(&json!({"metadata": {"name": "a"}, "spec": spec, "status": null})), bare);
    }
    assert!(!bare.is_paused() && !bare.spec.control_plane_endpoint.is_valid() && bare.class().is_none());
    let port_only: Cluster = read(&json!({"spec": {"controlPlaneEndpoint": {"port": 8443}}}));
    assert_eq!(port_only.spec.control_plane_endpoint, Endpoint { host: String::new(), port: 8443 });
    let new_pool: InClusterIPPool = read(&json!({"spec": {"addresses": []}}));
    assert_eq!(new_pool.status.counts, None);
}

#[test]
fn a_class_without_a_namespace_lies_beside_the_cluster() {
    let cluster: Cluster =
        read(&json!({"metadata": {"name": "a", "namespace": "ns"}, "spec": {"topology": {"class": "c"}}}));
    assert_eq!(cluster.class().unwrap().to_string(), "ns/c");
    let annotated: Cluster = read(&json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": ""}}}));
    assert!(annotated.is_paused());
}

#[test]
fn conditions_of_the_oldest_servers_are_not_lost() {
    let cluster: Cluster = read(&json!({"status": {"conditions": legacy_conditions()}}));
    assert_eq!(cluster.status.conditions.get("Ready").unwrap().reason, "Waiting");
    assert!(cluster.status.conditions.legacy.is_empty());
}

#[test]
fn one_bad_field_costs_that_field_only_and_unknown_values_are_kept() {
    let mut wire = machine_v1beta2();
    wire["spec"]["version"] = json!({"major": 1});
    wire["status"]["phase"] = json!("Levitating");
    wire["status"]["conditions"] =
        json!([7, {"type": "Ready", "status": "Perhaps", "lastTransitionTime": "yesterday"}]);
    let machine: Machine = read(&wire);
    assert_eq!(machine.spec.version, None);
    assert_eq!(machine.spec.cluster_name.as_deref(), Some("c"));
    assert_eq!(machine.status.phase.as_deref(), Some("Levitating"));
    let ready = machine.status.conditions.get("Ready").unwrap();
    assert_eq!((ready.status.as_str(), &ready.last_transition_time), ("Perhaps", &None));
}

fn hardware() -> Value {
    json!({"hostname": "node-1", "ramMebibytes": 65536, "cpu": {"arch": "x86_64", "count": 32, "clockMegahertz": 2100.5,
            "flags": ["aes"]}, "storage": [{"name": "/dev/sda"}], "systemVendor": {"serialNumber": "secret"},
        "nics": [{"name": "eth0", "mac": "00:11:22:33:44:55", "ip": "10.0.0.4", "speedGbps": 25, "pxe": true},
            {"name": "eth1", "mac": "00:11:22:33:44:56"}]})
}

fn hardware_data() -> Value {
    json!({"apiVersion": "metal3.io/v1alpha1", "kind": "HardwareData", "metadata": meta(), "spec": {"hardware": hardware()}})
}

fn host() -> Value {
    let image = json!({"url": "http://i/a.qcow2", "checksum": "abc", "checksumType": "auto", "format": "qcow2"});
    json!({"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "metadata": meta(),
        "spec": {
            "online": true, "externallyProvisioned": true, "disablePowerOff": true, "automatedCleaningMode": "thorough",
            "bootMACAddress": "00:11:22:33:44:55", "bmc": {"address": "redfish://10.9.9.9", "credentialsName": "bmc"},
            "consumerRef": {"apiVersion": "metal3.io/v1alpha1", "kind": "HostClaim", "namespace": "t", "name": "c",
                "uid": "u-c", "resourceVersion": "5"},
            "image": image, "customDeploy": {"method": "install"}, "userData": {"name": "u", "namespace": "ns"},
            "networkData": {"name": "n"}, "metaData": {"name": "m"},
        },
        "status": {
            "provisioning": {"state": "provisioned", "ID": "x", "image": image, "customDeploy": {"method": "install"}},
            "operationalStatus": "error", "errorType": "power management error", "errorMessage": "cannot reach 10.9.9.9",
            "errorCount": 3, "provisioningFailCount": 2, "poweredOn": true, "hardware": hardware(),
            "conditions": new_conditions(), "goodCredentials": {"credentials": {"name": "bmc"}},
        },
    })
}

#[test]
fn a_host_is_read_with_what_decisions_use() {
    let host: BareMetalHost = read(&host());
    let consumer = host.spec.consumer_ref.unwrap();
    assert_eq!(
        (consumer.group.as_str(), consumer.kind.as_str(), consumer.namespace.as_str(), consumer.name.as_str()),
        ("metal3.io", "HostClaim", "t", "c")
    );
    assert_eq!(consumer.uid, "u-c");
    assert!(host.spec.online && host.spec.externally_provisioned && host.spec.disable_power_off);
    assert_eq!(host.spec.automated_cleaning_mode.as_deref(), Some("thorough"));
    assert_eq!(host.spec.boot_mac_address.as_deref(), Some("00:11:22:33:44:55"));
    let image = host.spec.image.unwrap();
    assert_eq!((image.url.as_str(), image.checksum_type.as_deref()), ("http://i/a.qcow2", Some("auto")));
    assert_eq!(host.status.provisioning.image.as_ref(), Some(&image));
    assert_eq!(host.spec.custom_deploy.unwrap().method, "install");
    assert_eq!(host.spec.user_data.unwrap().namespace.as_deref(), Some("ns"));
    assert_eq!((host.spec.network_data.unwrap().name, host.spec.meta_data.unwrap().name), ("n".into(), "m".into()));
    let status = host.status;
    assert_eq!((status.provisioning.state.as_str(), status.operational_status.as_str()), ("provisioned", "error"));
    assert_eq!(status.error_type.as_deref(), Some("power management error"));
    assert!(status.error_message.is_some());
    assert_eq!((status.error_count, status.provisioning_fail_count, status.powered_on), (3, 2, Some(true)));
    assert_eq!(status.conditions[0].reason, "Available");
    let hardware = status.hardware.unwrap();
    assert_eq!(Some(&hardware), read::<HardwareData>(&hardware_data()).spec.hardware.as_ref());
    assert_eq!((hardware.hostname.as_deref(), hardware.ram_mebibytes), (Some("node-1"), 65536));
    assert_eq!((hardware.cpu.arch.as_deref(), hardware.cpu.count), (Some("x86_64"), 32));
    assert_eq!(hardware.nics[0].ip.as_deref(), Some("10.0.0.4"));
    assert_eq!((hardware.nics[1].name.as_deref(), &hardware.nics[1].ip), (Some("eth1"), &None));
}

#[test]
fn a_new_host_and_an_image_without_url_read_as_nothing() {
    let empty: BareMetalHost = read(&json!({"metadata": meta(), "spec": {"online": false},
        "status": {"provisioning": {"state": "", "image": {"url": ""}}, "operationalStatus": ""}}));
    assert_eq!(empty.spec, BareMetalHostSpec::default());
    assert_eq!(empty.status, BareMetalHostStatus::default());
}

#[test]
fn views_are_addressed_by_the_names_their_owners_gave() {
    fn address<T: View>() -> String {
        format!("{} {} {:?} {}", T::url_path(&(), None), T::kind(&()), T::VERSIONS, T::NAMESPACED)
    }
    let all = [
        address::<Cluster>(),
        address::<ClusterClass>(),
        address::<Machine>(),
        address::<MachineSet>(),
        address::<MachineDeployment>(),
        address::<IPAddressClaim>(),
        address::<IPAddress>(),
        address::<InClusterIPPool>(),
        address::<GlobalInClusterIPPool>(),
        address::<ExtensionConfig>(),
        address::<BareMetalHost>(),
        address::<HardwareData>(),
    ];
    assert_eq!(
        all,
        [
            r#"/apis/cluster.x-k8s.io/v1beta2/clusters Cluster ["v1beta2", "v1beta1"] true"#,
            r#"/apis/cluster.x-k8s.io/v1beta2/clusterclasses ClusterClass ["v1beta2", "v1beta1"] true"#,
            r#"/apis/cluster.x-k8s.io/v1beta2/machines Machine ["v1beta2", "v1beta1"] true"#,
            r#"/apis/cluster.x-k8s.io/v1beta2/machinesets MachineSet ["v1beta2", "v1beta1"] true"#,
            r#"/apis/cluster.x-k8s.io/v1beta2/machinedeployments MachineDeployment ["v1beta2", "v1beta1"] true"#,
            r#"/apis/ipam.cluster.x-k8s.io/v1beta2/ipaddressclaims IPAddressClaim ["v1beta2", "v1beta1", "v1alpha1"] true"#,
            r#"/apis/ipam.cluster.x-k8s.io/v1beta2/ipaddresses IPAddress ["v1beta2", "v1beta1", "v1alpha1"] true"#,
            r#"/apis/ipam.cluster.x-k8s.io/v1alpha2/inclusterippools InClusterIPPool ["v1alpha2"] true"#,
            r#"/apis/ipam.cluster.x-k8s.io/v1alpha2/globalinclusterippools GlobalInClusterIPPool ["v1alpha2"] false"#,
            r#"/apis/runtime.cluster.x-k8s.io/v1beta2/extensionconfigs ExtensionConfig ["v1beta2", "v1alpha1"] false"#,
            r#"/apis/metal3.io/v1alpha1/baremetalhosts BareMetalHost ["v1alpha1"] true"#,
            r#"/apis/metal3.io/v1alpha1/hardwaredata HardwareData ["v1alpha1"] true"#,
        ]
    );
}

fn junk() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        // Eighths are exact in text and in memory; the parser may miss the last bit of an arbitrary float.
        any::<i32>().prop_map(|n| Value::from(f64::from(n) / 8.0)),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(
                prop_oneof!["[a-zA-Z]{1,12}", Just("conditions".to_owned()), Just("name".to_owned())],
                inner,
                0..5
            )
            .prop_map(|m| Value::Object(m.into_iter().collect())),
        ]
    })
}

/// Pointers to every node below `spec` and `status`, these two included.
fn pointers(wire: &Value) -> Vec<String> {
    fn below(path: String, value: &Value, all: &mut Vec<String>) {
        match value {
            Value::Object(map) => map.iter().for_each(|(k, v)| below(format!("{path}/{k}"), v, all)),
            Value::Array(list) => list.iter().enumerate().for_each(|(i, v)| below(format!("{path}/{i}"), v, all)),
            _ => {}
        }
        all.push(path);
    }
    let mut all = Vec::new();
    for part in ["spec", "status"] {
        if let Some(value) = wire.get(part) {
            below(format!("/{part}"), value, &mut all);
        }
    }
    all
}

/// Puts junk at one place and checks that the object is still read, metadata whole.
fn survives<T>(mut wire: Value, pick: usize, junk: &Value)
where
    T: DeserializeOwned + Resource + PartialEq + std::fmt::Debug,
{
    let places = pointers(&wire);
    let place = &places[pick % places.len()];
    *wire.pointer_mut(place).unwrap() = junk.clone();
    let object: T = read(&wire);
    assert_eq!(object.meta().name.as_deref(), wire["metadata"]["name"].as_str(), "{place}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn junk_in_any_one_place_never_fails_the_object(pick in any::<usize>(), junk in junk(), newer in any::<bool>()) {
        survives::<Cluster>(if newer { cluster_v1beta2() } else { cluster_v1beta1() }, pick, &junk);
        survives::<ClusterClass>(if newer { class_v1beta2() } else { class_v1beta1() }, pick, &junk);
        survives::<Machine>(if newer { machine_v1beta2() } else { machine_v1beta1() }, pick, &junk);
        survives::<MachineSet>(group("MachineSet", newer), pick, &junk);
        survives::<MachineDeployment>(group("MachineDeployment", newer), pick, &junk);
        survives::<IPAddressClaim>(claim(if newer { "v1beta2" } else { "v1alpha1" }), pick, &junk);
        survives::<IPAddress>(address(), pick, &junk);
        survives::<InClusterIPPool>(pool(), pick, &junk);
        survives::<GlobalInClusterIPPool>(pool(), pick, &junk);
        survives::<ExtensionConfig>(extension(newer), pick, &junk);
        survives::<BareMetalHost>(host(), pick, &junk);
        survives::<HardwareData>(hardware_data(), pick, &junk);
    }
}
