//! Scenes, offers and groups for tests.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::key::ObjectKey;
use api::views::{MachineDeployment, MachineSet, OpenShiftMachineSet};
use aws::port::{Architecture, Gpu, NeuronDevice, TypeFacts};
use capacity::config::Config;
use capacity::decide::{Snapshot, Standing};
use capacity::facts::{GroupFacts, GroupKey, GroupKind};
use capacity::goal::Around;
use capacity::judge::Scene;
use capacity::memory::Memory;
use capacity::offer::Offer;
use capacity::plan::Annotations;
use jiff::Timestamp;
use serde_json::{Value, json};

pub const NAMESPACE: &str = "openshift-machine-api";

/// The catalogue of the worked examples.
pub fn catalogue(name: &str) -> Offer {
    use Architecture::{Arm64, I386, X86_64};
    let gpu = |manufacturer: &str, count, logical| {
        vec![Gpu { manufacturer: manufacturer.to_owned(), name: "g".to_owned(), count, logical }]
    };
    let (vcpus, memory_mib, architectures, gpus, neuron) = match name {
        "m5.xlarge" => (4, 16384, vec![X86_64], vec![], vec![]),
        "m5.4xlarge" => (16, 65536, vec![X86_64], vec![], vec![]),
        "m6g.4xlarge" => (16, 65536, vec![Arm64], vec![], vec![]),
        "g4ad.xlarge" => (4, 16384, vec![X86_64], gpu("AMD", 1, 0), vec![]),
        "g6f.large" => (2, 8192, vec![X86_64], gpu("NVIDIA", 0, 1), vec![]),
        "p3.8xlarge" => (32, 249_856, vec![X86_64], gpu("NVIDIA", 4, 0), vec![]),
        "inf2.24xlarge" => {
            let neuron = vec![NeuronDevice { name: "Inferentia2".to_owned(), count: 6, cores: 2 }];
            (96, 393_216, vec![X86_64], vec![], neuron)
        }
        "t2.micro" => (1, 1024, vec![I386, X86_64], vec![], vec![]),
        other => panic!("{other} is in none of the examples"),
    };
    Offer::of_ec2(&TypeFacts {
        name: name.into(),
        vcpus,
        memory_mib,
        architectures,
        gpus,
        neuron,
        storage_gb: 0,
        interfaces: 8,
        ipv4_per_interface: 30,
        dedicated_hosts: false,
        bare_metal: false,
    })
}

pub fn openshift(annotations: &[(&str, &str)], provider: Value) -> GroupFacts {
    let set: OpenShiftMachineSet = serde_json::from_value(json!({
        "metadata": {"name": "a", "namespace": NAMESPACE, "uid": "u", "annotations": map(annotations)},
        "spec": {"template": {"spec": {"providerSpec": {"value": provider}}}},
    }))
    .unwrap();
    GroupFacts::of_openshift(set)
}

pub fn aws(instance_type: &str) -> Value {
    json!({
        "instanceType": instance_type,
        "placement": {"region": "us-east-1"},
        "credentialsSecret": {"name": "aws-cloud-credentials"},
    })
}

pub fn deployment(wire: Value) -> GroupFacts {
    let deployment: MachineDeployment = serde_json::from_value(wire).unwrap();
    GroupFacts::of_cluster_api(deployment.metadata, deployment.spec)
}

pub fn set(wire: Value) -> GroupFacts {
    let set: MachineSet = serde_json::from_value(wire).unwrap();
    GroupFacts::of_cluster_api(set.metadata, set.spec)
}

pub fn plain_deployment(annotations: &[(&str, &str)]) -> Value {
    json!({
        "metadata": {"name": "a", "namespace": "default", "uid": "u", "annotations": map(annotations)},
        "spec": {"clusterName": "c", "template": {"spec": {
            "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "AWSMachineTemplate", "name": "t"},
        }}},
    })
}

pub fn scene(kind: GroupKind, group: GroupFacts) -> Scene {
    let namespace = if kind.is_machine_api() { NAMESPACE } else { "default" };
    Scene {
        key: GroupKey { kind, key: ObjectKey::namespaced(namespace, "a") },
        group: Arc::new(group),
        cluster: None,
        cluster_region: None,
        identity: None,
        template: None,
        pool: None,
        acs: None,
        infrastructure: None,
        twin: None,
        config: Arc::new(Config::default()),
    }
}

pub fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

pub fn annotations(pairs: &[(&str, &str)]) -> Annotations {
    pairs.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect()
}

pub fn around(instance_type: &str, root_gib: Option<u64>) -> Around {
    Around {
        instance_type: instance_type.to_owned(),
        region: Some("us-east-1".to_owned()),
        zone: Some("us-east-1a".to_owned()),
        root_gib,
        windows: false,
    }
}

pub fn known(machine_api: bool, group: GroupFacts, offer: Offer, around: Around, config: Config) -> Snapshot {
    Snapshot {
        machine_api,
        group: Arc::new(group),
        standing: Standing::Known { offer: Arc::new(offer), around, again: None },
        template: None,
        memory: Memory::default(),
        config: Arc::new(config),
        now: Timestamp::UNIX_EPOCH,
    }
}
