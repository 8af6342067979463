//! Every rule of a Cluster, one row or more for each.

use super::*;

/// Every rule of a Cluster that is created, by its number: what is changed in a good one, and what is told of it.
pub(super) fn cluster_rules() -> Vec<Row> {
    let at = |base: &str, rest: &str| format!("{base}.{rest}");
    let one = |path: String, message: &str| vec![(path, message.to_owned())];
    let none = Vec::new;
    let long = "a".repeat(64);
    let qualified = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
    let value = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
    let pods = "spec.clusterNetwork.pods.cidrBlocks";
    let services = "spec.clusterNetwork.services.cidrBlocks";
    let cil = "spec.clusterNetwork.cniConfig.cilium";
    let mirror = |patch: Value| json!({"registryMirrorConfiguration": merged(json!({"endpoint": "mirror.example", "port": "443"}), &patch)});
    let mir = "spec.registryMirrorConfiguration";
    let rolling = |surge: i32, unavailable: i32| {
        json!({"upgradeRolloutStrategy": {"type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}})
    };
    let surge = |surge: i32, count: i32| {
        plane(
            json!({"count": count, "upgradeRolloutStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge}}}),
        )
    };
    vec![
        ("good", json!({}), none()),
        (
            "CL3",
            json!({"datacenterRef": {"kind": "VSphereDatacenterConfig"}}),
            one("spec.datacenterRef".into(), "must reference a CloudStackDatacenterConfig by name"),
        ),
        (
            "CL3",
            json!({"datacenterRef": {"name": ""}}),
            one("spec.datacenterRef".into(), "must reference a CloudStackDatacenterConfig by name"),
        ),
        (
            "CL3",
            json!({"datacenterRef": null}),
            one("spec.datacenterRef".into(), "must reference a CloudStackDatacenterConfig by name"),
        ),
        ("CL4", plane(json!({"machineGroupRef": null})), one(at(CP, "machineGroupRef"), CONFIG)),
        (
            "CL4",
            plane(json!({"machineGroupRef": {"kind": "DockerMachineConfig"}})),
            one(at(CP, "machineGroupRef"), CONFIG),
        ),
        ("CL4", first(json!({"machineGroupRef": {"name": ""}})), one(at(MD, "machineGroupRef"), CONFIG)),
        ("CL5", plane(json!({"endpoint": null})), one(at(CP, "endpoint.host"), "required")),
        ("CL5", plane(json!({"endpoint": {"host": ""}})), one(at(CP, "endpoint.host"), "required")),
        (
            "CL5",
            plane(json!({"endpoint": {"host": "http://a"}})),
            one(at(CP, "endpoint.host"), "not a host or host:port"),
        ),
        (
            "CL5",
            plane(json!({"endpoint": {"host": "1.2.3.4:70000"}})),
            one(at(CP, "endpoint.host"), "port out of range"),
        ),
        (
            "CL5",
            plane(json!({"endpoint": {"host": "fd00::zz:6443"}})),
            one(at(CP, "endpoint.host"), "not a host or host:port"),
        ),
        ("CL5", plane(json!({"endpoint": {"host": "[fd00::1]:6443"}})), none()),
        ("CL6", plane(json!({"count": 0})), one(at(CP, "count"), "must be at least 1")),
        ("CL6", plane(json!({"count": null})), one(at(CP, "count"), "must be at least 1")),
        ("CL6", plane(json!({"count": 2})), one(at(CP, "count"), "must be odd with stacked etcd")),
        (
            "CL7",
            json!({"workerNodeGroupConfigurations": []}),
            one("spec.workerNodeGroupConfigurations".into(), "at least one worker group"),
        ),
        (
            "CL7",
            json!({"workerNodeGroupConfigurations": [group(), group()]}),
            one("spec.workerNodeGroupConfigurations[1].name".into(), "duplicate name"),
        ),
        ("CL7", first(json!({"name": "A_b"})), one(at(MD, "name"), "must be a DNS label")),
        ("CL7", first(json!({"name": ""})), one(at(MD, "name"), "must be a DNS label")),
        (
            "CL7",
            first(json!({"name": "g".repeat(46)})),
            one(at(MD, "name"), "cluster and group name together exceed 50"),
        ),
        ("CL7", first(json!({"name": "g".repeat(45)})), none()),
        ("CL8", first(json!({"count": -1})), one(at(MD, "count"), "must be >= 0")),
        ("CL8", first(json!({"count": 0})), none()),
        (
            "CL8",
            first(json!({"count": 0, "autoscalingConfiguration": {"minCount": -1, "maxCount": 3}})),
            one(at(MD, "autoscalingConfiguration.minCount"), "must be >= 0"),
        ),
        (
            "CL8",
            first(json!({"autoscalingConfiguration": {"minCount": 3, "maxCount": 2}})),
            one(at(MD, "autoscalingConfiguration"), "minCount <= count <= maxCount"),
        ),
        (
            "CL8",
            first(json!({"count": 4, "autoscalingConfiguration": {"minCount": 1, "maxCount": 3}})),
            one(at(MD, "autoscalingConfiguration"), "minCount <= count <= maxCount"),
        ),
        ("CL8", first(json!({"autoscalingConfiguration": {"minCount": 1, "maxCount": 3}})), none()),
        (
            "CL9",
            plane(json!({"upgradeRolloutStrategy": {"type": "InPlace"}})),
            one(at(CP, "upgradeRolloutStrategy.type"), "only RollingUpdate"),
        ),
        ("CL9", surge(2, 3), one(at(CP, "upgradeRolloutStrategy.rollingUpdate.maxSurge"), "must be 0 or 1")),
        (
            "CL9",
            surge(0, 1),
            one(at(CP, "upgradeRolloutStrategy.rollingUpdate.maxSurge"), "maxSurge 0 needs 3 replicas"),
        ),
        ("CL9", surge(0, 3), none()),
        ("CL9", plane(json!({"upgradeRolloutStrategy": {"type": "RollingUpdate"}})), none()),
        (
            "CL10",
            first(json!({"upgradeRolloutStrategy": {"type": "InPlace"}})),
            one(at(MD, "upgradeRolloutStrategy.type"), "only RollingUpdate"),
        ),
        (
            "CL10",
            first(json!({"upgradeRolloutStrategy": {"type": "RollingUpdate"}})),
            one(at(MD, "upgradeRolloutStrategy.rollingUpdate"), "rollingUpdate required"),
        ),
        (
            "CL10",
            first(rolling(-1, 1)),
            one(at(MD, "upgradeRolloutStrategy.rollingUpdate.maxSurge"), "cannot be negative"),
        ),
        (
            "CL10",
            first(rolling(1, -1)),
            one(at(MD, "upgradeRolloutStrategy.rollingUpdate.maxUnavailable"), "cannot be negative"),
        ),
        (
            "CL10",
            first(rolling(0, 0)),
            one(at(MD, "upgradeRolloutStrategy.rollingUpdate"), "maxSurge and maxUnavailable cannot both be 0"),
        ),
        ("CL11", plane(json!({"labels": {"a b": "c"}})), one(at(CP, "labels[a b]"), qualified)),
        ("CL11", plane(json!({"labels": {"/a": "c"}})), one(at(CP, "labels[/a]"), "prefix part must be non-empty")),
        ("CL11", first(json!({"labels": {"a": "-c"}})), one(at(MD, "labels[a]"), value)),
        ("CL11", first(json!({"labels": {"a": long}})), one(at(MD, "labels[a]"), "must be no more than 63 bytes")),
        ("CL11", first(json!({"labels": {"zone": "ds.meta_data.failuredomain"}})), none()),
        (
            "CL11",
            plane(json!({"taints": [{"key": "", "effect": "NoSchedule"}]})),
            one(at(CP, "taints[0].key"), "name part must be non-empty"),
        ),
        (
            "CL11",
            first(json!({"taints": [{"key": "a", "effect": "Never"}]})),
            one(at(MD, "taints[0].effect"), "supported values: \"NoSchedule\", \"PreferNoSchedule\", \"NoExecute\""),
        ),
        ("CL12", network(json!({"pods": null})), one(pods.into(), "exactly one")),
        (
            "CL12",
            network(json!({"services": {"cidrBlocks": ["10.1.0.0/16", "10.2.0.0/16"]}})),
            one(services.into(), "exactly one"),
        ),
        ("CL12", network(json!({"pods": {"cidrBlocks": ["192.168.0.0"]}})), one(format!("{pods}[0]"), "not a CIDR")),
        (
            "CL12",
            network(json!({"pods": {"cidrBlocks": ["192.168.0.0/24"]}})),
            one(format!("{pods}[0]"), "pod mask must be smaller than node mask"),
        ),
        (
            "CL12",
            network(json!({"nodes": {"cidrMaskSize": 16}})),
            one(format!("{pods}[0]"), "pod mask must be smaller than node mask"),
        ),
        (
            "CL12",
            network(json!({"pods": {"cidrBlocks": ["192.0.0.0/7"]}})),
            one(format!("{pods}[0]"), "difference above 16"),
        ),
        (
            "CL12",
            network(json!({"services": {"cidrBlocks": ["192.168.4.0/24"]}})),
            one(format!("{services}[0]"), "overlaps"),
        ),
        ("CL12", plane(json!({"endpoint": {"host": "192.168.3.4"}})), one(format!("{pods}[0]"), "endpoint inside")),
        (
            "CL12",
            plane(json!({"endpoint": {"host": "10.96.0.1:6443"}})),
            one(format!("{services}[0]"), "endpoint inside"),
        ),
        ("CL13", network(json!({"cni": "cilium"})), one("spec.clusterNetwork.cni".into(), "use cniConfig only")),
        ("CL13", network(json!({"cniConfig": null})), one("spec.clusterNetwork.cniConfig".into(), "cilium required")),
        (
            "CL13",
            network(json!({"cniConfig": {"kindnetd": {}}})),
            one("spec.clusterNetwork.cniConfig.kindnetd".into(), "kindnetd is not supported"),
        ),
        (
            "CL13",
            cilium(json!({"policyEnforcementMode": "sometimes"})),
            one(at(cil, "policyEnforcementMode"), "must be default, always or never"),
        ),
        (
            "CL13",
            cilium(json!({"policyEnforcementMode": "always", "skipUpgrade": true})),
            one(at(cil, "policyEnforcementMode"), "cannot be set together with skipUpgrade"),
        ),
        (
            "CL13",
            cilium(json!({"routingMode": "direct"})),
            one(at(cil, "ipv4NativeRoutingCIDR"), "required with routingMode direct"),
        ),
        ("CL13", cilium(json!({"routingMode": "magic"})), one(at(cil, "routingMode"), "must be overlay or direct")),
        ("CL13", cilium(json!({"routingMode": "direct", "ipv4NativeRoutingCIDR": "192.168.0.0/16"})), none()),
        ("CL13", cilium(json!({"ipv6NativeRoutingCIDR": "fd00"})), one(at(cil, "ipv6NativeRoutingCIDR"), "not a CIDR")),
        ("CL13", cilium(json!({"helmValues": {"a": 1}})), one(at(cil, "helmValues"), "charts are not rendered here")),
        (
            "CL14",
            json!({"externalEtcdConfiguration": {"count": 2, "machineGroupRef": {"kind": "CloudStackMachineConfig", "name": "e"}}}),
            wanted(&[
                ("spec.externalEtcdConfiguration", "external etcd is not available on this management cluster"),
                ("spec.externalEtcdConfiguration.count", "must be odd"),
            ]),
        ),
        (
            "CL14",
            json!({"externalEtcdConfiguration": {"count": 3}}),
            wanted(&[
                ("spec.externalEtcdConfiguration", "external etcd is not available on this management cluster"),
                ("spec.externalEtcdConfiguration.machineGroupRef", CONFIG),
            ]),
        ),
        (
            "CL15",
            json!({"identityProviderRefs": [{"kind": "LDAP", "name": "x"}]}),
            one("spec.identityProviderRefs[0].kind".into(), "OIDCConfig or AWSIamConfig"),
        ),
        (
            "CL15",
            json!({"identityProviderRefs": [{"kind": "OIDCConfig", "name": ""}]}),
            one("spec.identityProviderRefs[0].name".into(), "required"),
        ),
        (
            "CL15",
            json!({"identityProviderRefs": [{"kind": "OIDCConfig", "name": "a"}, {"kind": "OIDCConfig", "name": "b"}]}),
            one("spec.identityProviderRefs[1].kind".into(), "at most one"),
        ),
        (
            "CL15",
            json!({"identityProviderRefs": [{"kind": "OIDCConfig", "name": "a"}, {"kind": "AWSIamConfig", "name": "b"}]}),
            none(),
        ),
        (
            "CL16",
            json!({"proxyConfiguration": {"httpProxy": "p:3128"}}),
            one("spec.proxyConfiguration.httpsProxy".into(), "required"),
        ),
        (
            "CL16",
            json!({"proxyConfiguration": {"httpProxy": "p:3128", "httpsProxy": "p"}}),
            one("spec.proxyConfiguration.httpsProxy".into(), "not host:port"),
        ),
        (
            "CL16",
            json!({"proxyConfiguration": {"httpProxy": "http://p:3128", "httpsProxy": "https://p.example:1"}}),
            none(),
        ),
        ("CL17", mirror(json!({"endpoint": ""})), one(at(mir, "endpoint"), "required")),
        ("CL17", mirror(json!({"endpoint": "m:5000"})), one(at(mir, "endpoint"), "not a host")),
        ("CL17", mirror(json!({"port": "0"})), one(at(mir, "port"), "port out of range")),
        ("CL17", mirror(json!({"port": "many"})), one(at(mir, "port"), "port out of range")),
        (
            "CL17",
            mirror(json!({"ociNamespaces": [{"registry": "", "namespace": "n"}]})),
            one(at(mir, "ociNamespaces[0].registry"), "required"),
        ),
        (
            "CL17",
            mirror(json!({"ociNamespaces": [{"registry": "a b", "namespace": "n"}]})),
            one(at(mir, "ociNamespaces[0].registry"), "not a host or host:port"),
        ),
        (
            "CL17",
            mirror(json!({"ociNamespaces": [{"registry": "r", "namespace": "a\"b"}]})),
            one(at(mir, "ociNamespaces[0].namespace"), "not a path of a registry"),
        ),
        (
            "CL17",
            mirror(
                json!({"ociNamespaces": [{"registry": "r", "namespace": "a"}, {"registry": "r", "namespace": "b"}]}),
            ),
            one(at(mir, "ociNamespaces[1].registry"), "duplicate registry"),
        ),
        ("CL17", mirror(json!({"caCertContent": "trust me"})), one(at(mir, "caCertContent"), "not a PEM certificate")),
        ("CL17", mirror(json!({"authenticate": true})), one(at(mir, "authenticate"), "not supported")),
        (
            "CL17",
            mirror(
                json!({"caCertContent": CERTIFICATE, "ociNamespaces": [{"registry": "public.ecr.aws", "namespace": "eks/a"}]}),
            ),
            none(),
        ),
        (
            "CL18",
            json!({"podIamConfig": {"serviceAccountIssuer": ""}}),
            one("spec.podIamConfig.serviceAccountIssuer".into(), "required"),
        ),
        (
            "CL19",
            json!({"eksaVersion": "v0.22.0", "bundlesRef": {"apiVersion": "a", "name": "b", "namespace": "n"}}),
            one("spec.bundlesRef".into(), "mutually exclusive"),
        ),
        ("CL19", json!({"eksaVersion": "0.22"}), one("spec.eksaVersion".into(), "not a semantic version")),
        (
            "CL20",
            plane(json!({"certSans": ["a.example", "*.b.example", "10.0.0.1", "fd00::1", "no/name", "-"]})),
            one(at(CP, "certSans"), "neither an address nor a DNS name: no/name, -"),
        ),
        (
            "CL21",
            plane(json!({"apiServerExtraArgs": {"v": "2"}})),
            one(at(CP, "apiServerExtraArgs"), "not enabled on this management cluster"),
        ),
        ("CL22", plane(json!({"kubeletConfiguration": []})), one(at(CP, "kubeletConfiguration"), "must be an object")),
        (
            "CL22",
            first(json!({"kubeletConfiguration": {"providerID": "x"}})),
            one(at(MD, "kubeletConfiguration.providerID"), "set by the controller"),
        ),
        ("CL22", first(json!({"kubeletConfiguration": {"maxPods": 5}})), none()),
        (
            "CL23",
            plane(json!({"auditPolicyContent": "kind: Pod"})),
            one(at(CP, "auditPolicyContent"), "not an audit policy"),
        ),
        (
            "CL23",
            plane(json!({"auditPolicyContent": "a: ["})),
            one(at(CP, "auditPolicyContent"), "not an audit policy"),
        ),
        (
            "CL23",
            plane(json!({"auditPolicyContent": "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: []\n"})),
            none(),
        ),
        (
            "CL24",
            json!({"etcdEncryption": [{"providers": [], "resources": ["secrets"]}]}),
            one("spec.etcdEncryption".into(), "not on create"),
        ),
        (
            "CL25",
            json!({"packages": {"controller": {"tag": "x"}}}),
            one("spec.packages.controller".into(), "not supported"),
        ),
        ("CL25", json!({"packages": {"cronjob": {}}}), one("spec.packages.cronjob".into(), "not supported")),
        ("CL25", json!({"packages": {"disable": true}}), none()),
        (
            "CL25",
            plane(json!({"skipAdmissionForSystemResources": true})),
            one(at(CP, "skipAdmissionForSystemResources"), "not supported"),
        ),
        ("CL26", json!({"kubernetesVersion": "1.3"}), one("spec.kubernetesVersion".into(), "quote it, e.g. \"1.30\"")),
        ("CL26", json!({"kubernetesVersion": null}), one("spec.kubernetesVersion".into(), "quote it, e.g. \"1.30\"")),
        (
            "CL26",
            first(json!({"kubernetesVersion": "v1.30"})),
            one(at(MD, "kubernetesVersion"), "quote it, e.g. \"1.30\""),
        ),
        (
            "CL27",
            first(json!({"kubernetesVersion": "1.32"})),
            one(at(MD, "kubernetesVersion"), "must be within 2 minors behind the control plane"),
        ),
        (
            "CL27",
            first(json!({"kubernetesVersion": "1.28"})),
            one(at(MD, "kubernetesVersion"), "must be within 2 minors behind the control plane"),
        ),
        ("CL27", first(json!({"kubernetesVersion": "1.29"})), none()),
        ("CL28", first(json!({"failureDomains": ["a", "b"]})), one(at(MD, "failureDomains"), "at most one")),
        (
            "CL29",
            json!({"machineHealthCheck": {"nodeStartupTimeout": "-5m"}}),
            one("spec.machineHealthCheck.nodeStartupTimeout".into(), "must not be negative"),
        ),
        (
            "CL29",
            plane(json!({"machineHealthCheck": {"unhealthyMachineTimeout": "soon"}})),
            one(at(CP, "machineHealthCheck.unhealthyMachineTimeout"), "not a duration"),
        ),
        (
            "CL29",
            first(json!({"machineHealthCheck": {"maxUnhealthy": "half"}})),
            one(at(MD, "machineHealthCheck.maxUnhealthy"), "must be a whole number or a percentage"),
        ),
        (
            "CL29",
            first(json!({"machineHealthCheck": {"maxUnhealthy": -1}})),
            one(at(MD, "machineHealthCheck.maxUnhealthy"), "must be a whole number or a percentage"),
        ),
        ("CL29", first(json!({"machineHealthCheck": {"maxUnhealthy": "40%"}})), none()),
    ]
}
