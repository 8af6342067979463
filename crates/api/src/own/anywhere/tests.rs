#![allow(missing_docs)]

use super::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Every field that EKS Anywhere's own definitions of these kinds have, with its type: none may be dropped by ours.
const FIELDS: &str = include_str!("fields.txt");

/// The type at the end of every path of every definition.
fn leaves() -> BTreeMap<String, String> {
    fn node(path: &str, schema: &Value, found: &mut BTreeMap<String, String>) {
        let kind =
            if schema["x-kubernetes-int-or-string"] == true { json!("int-or-string") } else { schema["type"].clone() };
        found.insert(path.to_owned(), kind.as_str().unwrap_or_default().to_owned());
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            node(&format!("{path}.{name}"), property, found);
        }
        for (key, mark) in [("items", "[]"), ("additionalProperties", "{}")] {
            if schema[key].is_object() {
                node(&format!("{path}{mark}"), &schema[key], found);
            }
        }
    }
    let mut found = BTreeMap::new();
    for crd in crds() {
        let kind = crd.spec.names.kind.clone();
        let crd = serde_json::to_value(crd).unwrap();
        let root = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
        node(&format!("{kind}.spec"), &root["spec"], &mut found);
        node(&format!("{kind}.status"), &root["status"], &mut found);
    }
    found
}

#[test]
fn nothing_that_eks_anywhere_stores_is_dropped() {
    let ours = leaves();
    let mut seen = 0;
    for line in FIELDS.lines() {
        let (path, kind) = line.split_once(' ').unwrap();
        assert_eq!(ours.get(path).map(String::as_str), Some(kind), "{path}");
        seen += 1;
    }
    assert!(seen > 150, "{seen}");
}

/// A bundle holds images of many providers; only what is used has a name here, the rest must survive.
#[test]
fn what_a_bundle_holds_besides_is_kept() {
    let crd = serde_json::to_value(Bundles::crd()).unwrap();
    let spec = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
    let entry = &spec["versionsBundles"]["items"];
    for open in [entry, &entry["properties"]["cilium"], &entry["properties"]["cloudStack"]] {
        assert_eq!(open["x-kubernetes-preserve-unknown-fields"], true, "{open}");
    }
}

/// What EKS Anywhere lets users leave out, ours must let them leave out too.
#[test]
fn only_what_eks_anywhere_requires_is_required_of_users() {
    fn node(path: &str, schema: &Value, found: &mut Vec<String>) {
        for name in schema["required"].as_array().into_iter().flatten() {
            found.push(format!("{path}.{}", name.as_str().unwrap()));
        }
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            node(&format!("{path}.{name}"), property, found);
        }
        if schema["items"].is_object() {
            node(&format!("{path}[]"), &schema["items"], found);
        }
    }
    let mut found = Vec::new();
    for crd in [Cluster::crd(), CloudStackDatacenterConfig::crd(), CloudStackMachineConfig::crd(), OIDCConfig::crd()] {
        let kind = crd.spec.names.kind.clone();
        let crd = serde_json::to_value(crd).unwrap();
        node(&kind, &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"], &mut found);
    }
    let mut wanted = [
        "Cluster.bundlesRef.apiVersion",
        "Cluster.bundlesRef.name",
        "Cluster.bundlesRef.namespace",
        "Cluster.controlPlaneConfiguration.endpoint.host",
        "Cluster.controlPlaneConfiguration.taints[].effect",
        "Cluster.controlPlaneConfiguration.taints[].key",
        "Cluster.controlPlaneConfiguration.upgradeRolloutStrategy.rollingUpdate.maxSurge",
        "Cluster.etcdEncryption[].providers",
        "Cluster.etcdEncryption[].providers[].kms",
        "Cluster.etcdEncryption[].providers[].kms.name",
        "Cluster.etcdEncryption[].providers[].kms.socketListenAddress",
        "Cluster.etcdEncryption[].resources",
        "Cluster.podIamConfig.serviceAccountIssuer",
        "Cluster.registryMirrorConfiguration.ociNamespaces[].namespace",
        "Cluster.registryMirrorConfiguration.ociNamespaces[].registry",
        "Cluster.workerNodeGroupConfigurations[].taints[].effect",
        "Cluster.workerNodeGroupConfigurations[].taints[].key",
        "Cluster.workerNodeGroupConfigurations[].upgradeRolloutStrategy.rollingUpdate.maxSurge",
        "Cluster.workerNodeGroupConfigurations[].upgradeRolloutStrategy.rollingUpdate.maxUnavailable",
        "CloudStackDatacenterConfig.availabilityZones[].credentialsRef",
        "CloudStackDatacenterConfig.availabilityZones[].managementApiEndpoint",
        "CloudStackDatacenterConfig.availabilityZones[].name",
        "CloudStackDatacenterConfig.availabilityZones[].zone",
        "CloudStackDatacenterConfig.availabilityZones[].zone.network",
        "CloudStackDatacenterConfig.zones[].network",
        "CloudStackMachineConfig.computeOffering",
        "CloudStackMachineConfig.diskOffering.device",
        "CloudStackMachineConfig.diskOffering.filesystem",
        "CloudStackMachineConfig.diskOffering.label",
        "CloudStackMachineConfig.diskOffering.mountPath",
        "CloudStackMachineConfig.template",
        "CloudStackMachineConfig.users[].name",
        "CloudStackMachineConfig.users[].sshAuthorizedKeys",
    ];
    found.sort();
    wanted.sort_unstable();
    assert_eq!(found, wanted);
}

/// Defaults in a schema would appear in objects that their users never wrote, and in every diff of theirs.
#[test]
fn the_schema_defaults_nothing_but_what_eks_anywhere_defaults() {
    fn node(path: &str, schema: &Value, found: &mut Vec<(String, Value)>) {
        if !schema["default"].is_null() {
            found.push((path.to_owned(), schema["default"].clone()));
        }
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            node(&format!("{path}.{name}"), property, found);
        }
        for key in ["items", "additionalProperties"] {
            if schema[key].is_object() {
                node(path, &schema[key], found);
            }
        }
    }
    let mut found = Vec::new();
    for crd in crds() {
        let kind = crd.spec.names.kind.clone();
        let crd = serde_json::to_value(crd).unwrap();
        node(&kind, &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"], &mut found);
    }
    assert_eq!(found, [("AWSIamConfig.spec.partition".to_owned(), json!("aws"))]);
}

/// The columns that users of other kinds of Cluster would not expect are left to -o wide.
#[test]
fn a_cluster_shows_its_version_and_whether_it_is_ready() {
    let columns = Cluster::crd().spec.versions[0].additional_printer_columns.clone().unwrap();
    let names = |priority: i32| {
        let of = columns.iter().filter(|c| c.priority.unwrap_or(0) == priority);
        of.map(|c| c.name.as_str()).collect::<Vec<_>>()
    };
    assert_eq!(names(0), ["Kubernetes", "Ready", "Reason", "Age"]);
    assert_eq!(names(1), ["Failure", "Message"]);
}

/// Cluster API has a kind of the same name; a short name of our own tells them apart without the group.
#[test]
fn the_short_names_clash_with_nobody_we_know() {
    let foreign = ["cl", "cc", "ma", "md", "ms", "mhc", "mp", "kcp", "mhcs", "mds"];
    let mut short: Vec<String> = crds().into_iter().filter_map(|crd| crd.spec.names.short_names).flatten().collect();
    assert!(short.iter().all(|name| !foreign.contains(&name.as_str())), "{short:?}");
    short.sort();
    assert_eq!(short, ["csdc", "csmc", "eksac"]);
}

/// The wire form must come back byte for byte, so that an unchanged object is never written.
fn same<T: Serialize + DeserializeOwned>(wire: Value) -> T {
    let object: T = serde_json::from_value(wire.clone()).unwrap();
    assert_eq!(serde_json::to_value(&object).unwrap(), wire);
    object
}

#[test]
fn a_cluster_survives_decoding_and_encoding() {
    let health = json!({"maxUnhealthy": "40%", "nodeStartupTimeout": "10m0s", "unhealthyMachineTimeout": "5m0s"});
    let cluster: Cluster = same(json!({
        "apiVersion": "anywhere.eks.amazonaws.com/v1alpha1", "kind": "Cluster",
        "metadata": {"name": "prod", "namespace": "team-a"},
        "spec": {
            "kubernetesVersion": "1.31", "managementCluster": {"name": "mgmt"},
            "datacenterRef": {"kind": "CloudStackDatacenterConfig", "name": "dc"},
            "clusterNetwork": {
                "pods": {"cidrBlocks": ["192.168.0.0/16"]}, "services": {"cidrBlocks": ["10.96.0.0/12"]},
                "cniConfig": {"cilium": {"policyEnforcementMode": "always", "skipUpgrade": false,
                    "ipv4NativeRoutingCIDR": "192.168.0.0/16", "routingMode": "direct", "cniExclusive": true,
                    "helmValues": {"a": {"b": 1}}}, "kindnetd": {}},
                "dns": {"resolvConf": {"path": "/etc/r"}}, "nodes": {"cidrMaskSize": 24},
            },
            "controlPlaneConfiguration": {
                "count": 3, "endpoint": {"host": "10.0.0.5:7443"},
                "machineGroupRef": {"kind": "CloudStackMachineConfig", "name": "cp"},
                "taints": [{"key": "k", "value": "v", "effect": "NoSchedule", "timeAdded": "2026-01-02T03:04:05Z"}],
                "labels": {"a": "b"}, "certSans": ["api.example"], "machineHealthCheck": health,
                "upgradeRolloutStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}},
                "skipLoadBalancerDeployment": true, "apiServerExtraArgs": {"x": "y"},
                "kubeletConfiguration": {"maxPods": 50}, "auditPolicyContent": "kind: Policy",
                "skipAdmissionForSystemResources": false,
            },
            "workerNodeGroupConfigurations": [{
                "name": "md-0", "count": 2, "autoscalingConfiguration": {"minCount": 1, "maxCount": 5},
                "machineGroupRef": {"kind": "CloudStackMachineConfig", "name": "w"}, "labels": {"a": "b"},
                "taints": [{"key": "k", "effect": "NoExecute"}], "kubernetesVersion": "1.30",
                "upgradeRolloutStrategy": {"type": "RollingUpdate",
                    "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
                "machineHealthCheck": {"maxUnhealthy": 3}, "kubeletConfiguration": {}, "failureDomains": ["az-1"],
            }],
            "externalEtcdConfiguration": {"count": 3,
                "machineGroupRef": {"kind": "CloudStackMachineConfig", "name": "etcd"}},
            "proxyConfiguration": {"httpProxy": "p:1", "httpsProxy": "p:2", "noProxy": ["a"]},
            "registryMirrorConfiguration": {"endpoint": "m", "port": "443", "authenticate": false,
                "ociNamespaces": [{"namespace": "n", "registry": "r"}], "caCertContent": "x", "insecureSkipVerify": true},
            "identityProviderRefs": [{"kind": "OIDCConfig", "name": "o"}],
            "podIamConfig": {"serviceAccountIssuer": "https://i"}, "eksaVersion": "v0.22.0",
            "bundlesRef": {"apiVersion": "anywhere.eks.amazonaws.com/v1alpha1", "name": "b", "namespace": "eksa-system"},
            "machineHealthCheck": health, "gitOpsRef": {"kind": "FluxConfig", "name": "f"}, "licenseToken": "t",
            "etcdEncryption": [{"providers": [{"kms": {"name": "k", "socketListenAddress": "unix:///s",
                "cachesize": 10, "timeout": "3s"}}], "resources": ["secrets"]}],
            "packages": {"disable": true, "controller": {"digest": "d", "env": ["A=B"], "disableWebhooks": true,
                "repository": "r", "tag": "t", "resources": {"limits": {"cpu": "1"}, "requests": {"memory": "1Gi"}}},
                "cronjob": {"digest": "d", "disable": true, "repository": "r", "tag": "t"}},
        },
        "status": {
            "failureReason": "ClusterInvalid", "failureMessage": "m", "observedGeneration": 2,
            "reconciledGeneration": 1, "childrenReconciledGeneration": 7, "renderRevision": 1, "inputsHash": "h",
            "resolvedBundles": {"name": "b", "namespace": "eksa-system", "number": 4, "eksaVersion": "v0.22.0"},
            "cni": {"name": "cilium", "version": "1.16"},
            "conditions": [{"type": "Ready", "status": "False", "severity": "Info", "reason": "ScalingUp",
                "message": "m", "lastTransitionTime": "2026-01-02T03:04:05Z"}],
            "clusterCertificateInfo": [{"machine": "m", "expiresInDays": -3}],
            "eksdReleaseRef": {"apiVersion": "a", "kind": "k", "name": "n", "namespace": "ns"},
        },
    }));
    assert_eq!(cluster.spec.control_plane_configuration.unwrap().replicas(), 3);
}

#[test]
fn the_other_kinds_survive_decoding_and_encoding() {
    let _: CloudStackDatacenterConfigSpec = same(json!({
        "availabilityZones": [{"name": "az-1", "credentialsRef": "global", "domain": "d", "account": "a",
            "zone": {"id": "z", "network": {"name": "n"}}, "managementApiEndpoint": "https://cs/client/api"}],
        "domain": "d", "account": "a", "managementApiEndpoint": "u", "zones": [{"name": "z", "network": {"id": "n"}}],
    }));
    let machine: CloudStackMachineConfigSpec = same(json!({
        "template": {"name": "t"}, "computeOffering": {"id": "o"},
        "diskOffering": {"name": "d", "customSizeInGB": 10, "mountPath": "/data", "device": "/dev/vdb",
            "filesystem": "ext4", "label": "data"},
        "users": [{"name": "capc", "sshAuthorizedKeys": ["ssh-rsa A"]}], "affinity": "anti", "affinityGroupIds": ["g"],
        "userCustomDetails": {"a": "b"}, "symlinks": {"/a": "/b"},
    }));
    assert_eq!(machine.disk().unwrap().size(), 10);
    let _: OIDCConfigSpec = same(json!({"clientId": "c", "issuerUrl": "i", "groupsClaim": "g", "groupsPrefix": "p",
        "usernameClaim": "u", "usernamePrefix": "p", "requiredClaims": [{"claim": "c", "value": "v"}]}));
    let _: AWSIamConfigSpec = same(json!({"awsRegion": "r", "backendMode": ["EKSConfigMap"], "partition": "aws",
        "mapRoles": [{"roleARN": "a", "username": "u", "groups": ["g"]}],
        "mapUsers": [{"userARN": "a", "username": "u"}]}));
    let _: EKSAReleaseSpec = same(json!({"version": "v0.22.0", "bundleManifestUrl": "u", "gitCommit": "c",
        "releaseDate": "d", "bundlesRef": {"apiVersion": "a", "name": "b", "namespace": "n"}}));
    let bundles: BundlesSpec = same(json!({"number": 7, "versionsBundles": [{"kubeVersion": "1.31",
        "kubeDistro": {"kubernetes": {"repository": "r", "tag": "v1.31.4"}, "etcd": {"tag": "e"}},
        "cloudStack": {"kubeVip": {"uri": "v"}}, "cilium": {"version": "1.16",
        "manifestConfigMapRef": {"name": "c"}}}]}));
    assert!(bundles.entry("1.31").is_some() && bundles.entry("1.30").is_none());
}

/// Old objects carry zero values for no disk; taking them for one would roll every node.
#[test]
fn an_empty_disk_offering_is_none() {
    let empty: CloudStackMachineConfigSpec = serde_json::from_value(json!({
        "template": {}, "computeOffering": {},
        "diskOffering": {"mountPath": "", "device": "", "filesystem": "", "label": "", "customSizeInGB": 0},
    }))
    .unwrap();
    assert!(empty.disk_offering.is_some() && empty.disk().is_none());
    let sized: DiskOffering = serde_json::from_value(
        json!({"mountPath": "", "device": "", "filesystem": "", "label": "", "customSizeInGB": 1}),
    )
    .unwrap();
    assert!(!sized.is_empty());
}
