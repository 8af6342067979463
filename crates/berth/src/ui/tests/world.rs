//! A small fleet with one of everything that can be wrong, as it would be read.

use std::collections::BTreeSet;

use api::key::ObjectKey;
use kit::explain::{Level, Node, Object};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use sim::dock::objects::{self, merged};

use crate::groups;
use crate::look::{Anywhere, Metal};
use crate::ui::fleet::{Dedicated, Said, Seen};

pub const NOW: &str = "2026-01-02T03:04:05Z";
const PREFIX: &str = "vip.capi.gorizond.io";
const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io";
pub const WAITS: &str = "0/3 hosts fit: 2 in use, 1 labels do not match";

pub fn read<T: DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).unwrap()
}

fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": type_, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": "2026-01-02T03:01:00Z", "observedGeneration": 1})
}

fn meta(namespace: &str, name: &str, cluster: &str) -> Value {
    json!({"namespace": namespace, "name": name, "uid": format!("uid-{namespace}-{name}"), "resourceVersion": "5", "generation": 1,
        "creationTimestamp": "2026-01-02T03:00:00Z", "labels": {"cluster.x-k8s.io/cluster-name": cluster}})
}

/// A cluster with an address, and one that gets no address for its ingress.
fn cluster(namespace: &str, name: &str, address: &str, ingress: bool) -> Value {
    let mut annotations = json!({
        format!("{PREFIX}/control-plane-vip"): address, format!("{PREFIX}/control-plane-source"): "allocated",
        format!("{PREFIX}/control-plane-pool"): "GlobalInClusterIPPool/cp-vips"});
    let mut conditions = vec![
        condition("TopologyReconciled", "True", "Done", ""),
        condition("ControlPlaneVIPReady", "True", "Allocated", ""),
    ];
    if ingress {
        annotations[format!("{PREFIX}/ingress-enabled")] = json!("true");
        conditions.push(condition("IngressVIPReady", "False", "PoolExhausted", "no free address in 1 matching pool"));
    }
    let more = json!({"metadata": {"uid": format!("uid-{namespace}-{name}"), "resourceVersion": "7", "annotations": annotations},
        "spec": {"controlPlaneEndpoint": {"host": address, "port": 6443}, "infrastructureRef": {"kind": "DockCluster", "name": name}},
        "status": {"conditions": conditions}});
    merged(objects::cluster(namespace, name, "quick"), &more)
}

fn claim_of(namespace: &str, cluster: &str, role: &str, prefix: &str, pool: &str, bound: bool) -> Value {
    json!({
        "metadata": {
            "namespace": namespace, "name": format!("{prefix}-{cluster}"), "uid": format!("c-{namespace}-{prefix}-{cluster}"), "resourceVersion": "9",
            "creationTimestamp": "2026-01-02T03:00:00Z", "labels": {format!("{PREFIX}/role"): role},
            "ownerReferences": [{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": cluster, "uid": format!("uid-{namespace}-{cluster}")}],
        },
        "spec": {"poolRef": {"apiGroup": "ipam.cluster.x-k8s.io", "kind": "GlobalInClusterIPPool", "name": pool}},
        "status": if bound { json!({"addressRef": {"name": format!("{prefix}-{cluster}")}}) } else { json!({}) },
    })
}

fn pool(name: &str, free: i64, total: i64, role: &str) -> Value {
    let counts = json!({"metadata": {"labels": {format!("{PREFIX}/role"): role}},
        "status": {"ipAddresses": {"free": free, "total": total, "used": total - free}}});
    merged(objects::pool(name, "quick", "10.20.0.1-10.20.0.20"), &counts)
}

fn addresses() -> ::vip::explain::Lists {
    let registration = json!({"metadata": {"name": "vip-allocator"}, "status": {"handlers": [{
        "name": "vip-allocator-before-create.vip-allocator", "requestHook": {"hook": "BeforeClusterCreate"}}]}});
    let class = |namespace: &str| read(json!({"metadata": {"namespace": namespace, "name": "quick"}}));
    let address = |namespace: &str, cluster: &str, address: &str| {
        read(json!({"metadata": {"namespace": namespace, "name": format!("vip-cp-{cluster}")},
            "spec": {"claimRef": {"name": format!("vip-cp-{cluster}")}, "address": address}}))
    };
    let local = json!({"status": {"ipAddresses": {"free": 24, "total": 254, "used": 230}}});
    ::vip::explain::Lists {
        clusters: vec![
            read(cluster("team-a", "prod", "10.20.0.7", true)),
            read(cluster("team-b", "staging", "10.20.0.8", false)),
            read(json!({"metadata": {"namespace": "team-c", "name": "legacy", "uid": "uid-legacy"}})),
            read(json!({"metadata": {"namespace": "eksa-system", "name": "stack", "uid": "uid-stack"}})),
        ],
        classes: vec![class("team-a"), class("team-b")],
        claims: vec![
            read(claim_of("team-a", "prod", "control-plane", "vip-cp", "cp-vips", true)),
            read(claim_of("team-a", "prod", "ingress", "vip-ingress", "ingress", false)),
            read(claim_of("team-b", "staging", "control-plane", "vip-cp", "cp-vips", true)),
        ],
        addresses: vec![address("team-a", "prod", "10.20.0.7"), address("team-b", "staging", "10.20.0.8")],
        pools: vec![
            read(merged(objects::local_pool("team-b", "private", "slow", "10.30.0.1-10.30.0.254"), &local)),
            read(objects::local_pool("team-c", "new", "slow", "10.31.0.1-10.31.0.9")),
        ],
        global_pools: vec![read(pool("cp-vips", 12, 20, "control-plane")), read(pool("ingress", 0, 20, "ingress"))],
        namespaces: ["team-a", "team-b", "team-c"].map(|name| read(objects::namespace(name, &json!({})))).into(),
        extensions: vec![read(registration)],
        ..::vip::explain::Lists::default()
    }
}

fn owner(namespace: &str, name: &str, cluster: &str, group: &str, phase: &str) -> Value {
    let labels = json!({"metadata": {"labels": {"cluster.x-k8s.io/deployment-name": group}}});
    merged(
        json!({"metadata": meta(namespace, name, cluster), "spec": {"clusterName": cluster, "version": "v1.34.1",
            "bootstrap": {"configRef": {"apiGroup": "bootstrap.cluster.x-k8s.io", "kind": "KubeadmConfig", "name": name}},
            "infrastructureRef": {"apiGroup": INFRASTRUCTURE, "kind": "Metal3Machine", "name": name}},
            "status": {"phase": phase}}),
        &labels,
    )
}

/// A control plane's machine.
fn planed(mut owner: Value, plane: &str) -> Value {
    owner["metadata"]["labels"] = json!({"cluster.x-k8s.io/control-plane": ""});
    owner["metadata"]["ownerReferences"] = json!([{"apiVersion": "controlplane.cluster.x-k8s.io/v1beta2",
        "kind": "KubeadmControlPlane", "name": plane, "uid": "p", "controller": true}]);
    owner
}

fn group(namespace: &str, name: &str, cluster: &str, replicas: i64, ready: i64) -> Value {
    json!({"metadata": meta(namespace, name, cluster), "spec": {"clusterName": cluster, "replicas": replicas, "template": {"spec": {
        "infrastructureRef": {"apiGroup": INFRASTRUCTURE, "kind": "Metal3MachineTemplate", "name": name}}}},
        "status": {"readyReplicas": ready}})
}

fn machine(namespace: &str, name: &str, cluster: &str, kind: &str, waiting: bool) -> Value {
    let types = ["AssociateBareMetalHost", "Synchronized", "Provisioned", "KubernetesNodeReady", "Ready"];
    let fine = types.map(|type_| condition(type_, "True", "Provisioned", "")).to_vec();
    let waits =
        ["AssociateBareMetalHost", "Ready"].map(|type_| condition(type_, "False", "NoBareMetalHost", WAITS)).to_vec();
    let conditions = if waiting { waits } else { fine };
    json!({"metadata": meta(namespace, name, cluster), "spec": {"kind": kind},
        "status": {"hostClaim": {"name": name}, "conditions": conditions}})
}

fn claim(namespace: &str, name: &str, kind: &str, more: &Value) -> Value {
    let all =
        ["Associated", "Synchronized", "Provisioned", "Ready"].map(|type_| condition(type_, "True", "Provisioned", ""));
    let plain = json!({"metadata": meta(namespace, name, ""), "spec": {"kind": kind, "poweredOn": true},
        "status": {"conditions": all, "poweredOn": true}});
    merged(plain, more)
}

fn bound(host: &str) -> Value {
    json!({"spec": {"image": {"url": "https://images.example/os.qcow2"}},
        "status": {"bareMetalHost": {"namespace": "metal", "name": host}, "hostUID": format!("uid-{host}")}})
}

fn host(name: &str, zone: &str, claim: Option<(&str, &str)>, state: &str, error: Option<&str>) -> Value {
    let plain = sim::metal::seed::host("metal", name, &json!({"size": "large"}));
    let mut more = json!({"metadata": {"uid": format!("uid-{name}"), "resourceVersion": "3"},
        "status": {"provisioning": {"state": state}, "operationalStatus": if error.is_some() { "error" } else { "OK" },
            "poweredOn": claim.is_some()}});
    if !zone.is_empty() {
        more["metadata"]["labels"] = json!({"infrastructure.cluster.x-k8s.io/failure-domain": zone});
    }
    if let Some((namespace, name)) = claim {
        more["spec"] = json!({"consumerRef": {"apiVersion": "metal3.io/v1alpha1", "kind": "HostClaim", "namespace": namespace,
            "name": name, "uid": format!("uid-{namespace}-{name}")}});
    }
    if let Some(error) = error {
        more["status"]["errorType"] = json!(error);
        more["status"]["errorMessage"] = json!("what tenants must not see");
    }
    merged(plain, &more)
}

fn claims() -> ::claims::explain::Lists {
    let policy = json!({"metadata": {"namespace": "metal", "name": "teams", "uid": "uid-teams"},
        "spec": {"hostClaimNamespaces": {"names": ["team-a", "team-b", "team-f"]}}});
    let unbound = json!({"spec": {"hostSelector": {"matchLabels": {"size": "huge"}}}, "status": {"poweredOn": null,
        "conditions": [condition("Associated", "False", "NoBareMetalHost", WAITS), condition("Ready", "False", "NoBareMetalHost", WAITS)]}});
    let made = |id: &str| json!({"status": {"resourceID": id}});
    let mut claims = vec![
        claim("team-a", "virtual-1", "cloudstack-vm", &made("6f0c1111-0000-4000-8000-000000000001")),
        claim("team-a", "metal-4", "baremetal", &unbound),
        claim("team-f", "build-1", "baremetal", &bound("rack2-node1")),
    ];
    let mut hosts = vec![
        host("rack2-node1", "rack-2", Some(("team-f", "build-1")), "provisioned", None),
        host("rack2-node2", "rack-2", None, "available", Some("registration error")),
        host("spare-1", "", None, "inspecting", None),
    ];
    for number in 1..=3 {
        for (namespace, name, host_name) in [
            ("team-a", format!("cp-{number}"), format!("rack1-node{number}")),
            ("team-a", format!("metal-{number}"), format!("rack1-node{}", number + 3)),
        ] {
            claims.push(claim(namespace, &name, "baremetal", &bound(&host_name)));
            hosts.push(host(&host_name, "rack-1", Some((namespace, &name)), "provisioned", None));
        }
    }
    hosts.extend((1..=12).map(|number| host(&format!("rack3-node{number}"), "rack-3", None, "available", None)));
    ::claims::explain::Lists {
        claims: claims.into_iter().map(read).collect(),
        hosts: hosts.into_iter().map(read).collect(),
        policies: vec![read(policy)],
        namespaces: ["team-a", "team-b", "team-f", "metal"]
            .map(|name| read(objects::namespace(name, &json!({}))))
            .into(),
        ..::claims::explain::Lists::default()
    }
}

fn metal() -> Metal {
    let mut owners: Vec<Value> =
        (1..=3).map(|n| planed(owner("team-a", &format!("cp-{n}"), "prod", "", "Running"), "prod-cp")).collect();
    let mut machines: Vec<Value> =
        (1..=3).map(|n| machine("team-a", &format!("cp-{n}"), "prod", "baremetal", false)).collect();
    for number in 1..=4 {
        let (name, waits) = (format!("metal-{number}"), number == 4);
        owners.push(owner("team-a", &name, "prod", "metal", if waits { "Provisioning" } else { "Running" }));
        machines.push(machine("team-a", &name, "prod", "baremetal", waits));
    }
    owners.push(owner("team-a", "virtual-1", "prod", "virtual", "Running"));
    machines.push(machine("team-a", "virtual-1", "prod", "cloudstack-vm", false));
    Metal {
        machines: machines.into_iter().map(read).collect(),
        owners: owners.into_iter().map(read).collect(),
        groups: vec![read(group("team-a", "metal", "prod", 4, 3)), read(group("team-a", "virtual", "prod", 1, 1))],
        ..Metal::default()
    }
}

fn anywhere() -> Anywhere {
    let said = |kind: &str, status: &str, severity: &str, reason: &str, message: &str| {
        json!({"type": kind, "status": status, "severity": severity, "reason": reason, "message": message,
            "lastTransitionTime": "2026-01-02T02:04:05Z"})
    };
    let cluster = json!({
        "apiVersion": "anywhere.eks.amazonaws.com/v1alpha1", "kind": "Cluster",
        "metadata": {"name": "stack", "namespace": "team-d", "generation": 2},
        "spec": {"kubernetesVersion": "1.31", "managementCluster": {"name": "mgmt"},
            "datacenterRef": {"kind": "CloudStackDatacenterConfig", "name": "dc"},
            "controlPlaneConfiguration": {"count": 3, "endpoint": {"host": "192.0.2.10"},
                "machineGroupRef": {"kind": "CloudStackMachineConfig", "name": "m"}},
            "workerNodeGroupConfigurations": []},
        "status": {"reconciledGeneration": 1, "conditions": [
            said("Ready", "False", "Info", "RollingUpgradeInProgress", "1 of 3 control plane machines up to date"),
            said("ControlPlaneInitialized", "True", "", "", ""),
        ]},
    });
    let datacenter = json!({"metadata": {"namespace": "team-d", "name": "dc", "generation": 1}, "spec": {},
        "status": {"specValid": true, "observedGeneration": 1}});
    let plane = json!({"apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlane",
        "metadata": {"name": "stack", "namespace": "eksa-system"},
        "spec": {"replicas": 3, "version": "v1.31.4"}, "status": {"readyReplicas": 1}});
    Anywhere {
        cluster: read(cluster),
        datacenter: serde_json::from_value(datacenter).ok(),
        generated: vec![read(plane)],
        ..Anywhere::default()
    }
}

fn dedicated(number: u32, failed: bool) -> Dedicated {
    let key = ObjectKey::namespaced("team-g", format!("aws-{number}"));
    let id = format!("h-0123456789abcdef{number}");
    let (level, note, said) = match failed {
        true => {
            let message = "the quota of dedicated hosts of m5.metal in us-west-2 is used up";
            let status =
                json!({"conditions": [condition("DedicatedHostReady", "False", "HostQuotaExceeded", message)]});
            (Level::Problem, message.to_owned(), Said::of(&status))
        }
        false => (Level::Ok, format!("i-0fedcba987654321{number} runs on the dedicated host {id}"), Vec::new()),
    };
    let part =
        |kind: &str, name: &str| Node::new(Object::new(kind, &ObjectKey::cluster_scoped(name)), level, "available");
    let node = Node::new(Object::new("AWSMachine", &key), level, note).with(vec![part("DedicatedHost", &id)]);
    Dedicated {
        key,
        cluster: Some("cloud".to_owned()),
        group: Some("workers".to_owned()),
        node,
        hosts: if failed { Vec::new() } else { vec![(id, "available".to_owned(), Some("us-west-2a".to_owned()))] },
        said,
    }
}

fn groups() -> Vec<groups::Row> {
    let row = |name: &str, level, instance_type: &str, state: &str| groups::Row {
        kind: "MachineDeployment.cluster.x-k8s.io",
        namespace: "team-g".to_owned(),
        name: name.to_owned(),
        level,
        instance_type: Some(instance_type.to_owned()),
        region: Some("us-west-2".to_owned()),
        cpu: (level == Level::Ok).then(|| "96".to_owned()),
        memory: (level == Level::Ok).then(|| "1152Gi".to_owned()),
        gpus: (level == Level::Ok).then(|| "8 nvidia.com/gpu".to_owned()),
        state: state.to_owned(),
    };
    vec![
        row("workers", Level::Ok, "p4d.24xlarge", "up to date"),
        row("typo", Level::Problem, "m5.huge", "unknown type"),
    ]
}

/// All of it.
pub fn seen() -> Seen {
    Seen {
        addresses: addresses(),
        claims: Some(claims()),
        metal: metal(),
        dedicated: vec![dedicated(1, false), dedicated(2, false), dedicated(3, true)],
        anywhere: vec![anywhere()],
        groups: groups(),
        unseen: BTreeSet::from([
            "you may not list awsclusterstaticidentities.infrastructure.cluster.x-k8s.io: ask for that right, or look with another --context".to_owned(),
        ]),
        absent: BTreeSet::from(["the server does not know MachineSet (machine.openshift.io), so there is none".to_owned()]),
    }
}
