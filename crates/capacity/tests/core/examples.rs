//! The worked examples, with the exact patches.

use capacity::config::{Config, DiskFrom, LegacyGpus, MaxPods, NeuronResource, NodeLabel};
use capacity::decide::{Snapshot, Step, decide};
use capacity::facts::GroupFacts;
use capacity::guard::guard;
use capacity::names::{self, APPLIED, CPU, EPHEMERAL_DISK, GPU_COUNT, GPU_TYPE, LABELS, MAX_PODS, MEMORY};
use capacity::names::{LEGACY_CPU, LEGACY_GPU, LEGACY_MAX_PODS, LEGACY_MEMORY};
use capacity::offer::Disk;
use capacity::plan::{Annotations, Plan};
use serde_json::json;

use crate::build::{annotations, around, aws, catalogue, deployment, known, map, openshift, plain_deployment};

fn plan_of(snapshot: &Snapshot) -> Option<Plan> {
    let steps = decide(snapshot);
    guard(snapshot, &steps).unwrap();
    steps.into_iter().find_map(|step| match step {
        Step::Annotate(plan) => Some(plan),
        _ => None,
    })
}

fn after(before: &Annotations, plan: &Plan) -> Annotations {
    let mut after = before.clone();
    for (key, value) in &plan.changes {
        match value {
            Some(value) => drop(after.insert(key.as_str().into(), value.as_str().into())),
            None => drop(after.remove(key.as_str())),
        }
    }
    after
}

/// Annotates and checks that a second look has nothing to do.
fn settled(mut snapshot: Snapshot) -> Annotations {
    let mut group = GroupFacts::clone(&snapshot.group);
    if let Some(plan) = plan_of(&snapshot) {
        group.annotations = after(&group.annotations, &plan);
    }
    snapshot.group = std::sync::Arc::new(group.clone());
    assert_eq!(plan_of(&snapshot), None, "a second look writes again");
    group.annotations
}

fn get<'a>(annotations: &'a Annotations, key: &str) -> Option<&'a str> {
    annotations.get(key).map(AsRef::as_ref)
}

#[test]
fn first_sight_of_an_openshift_set_gives_exactly_this_patch() {
    let snapshot = known(
        true,
        openshift(&[], aws("m5.xlarge")),
        catalogue("m5.xlarge"),
        around("m5.xlarge", None),
        Config::default(),
    );
    let patch = plan_of(&snapshot).unwrap().patch("7");
    assert_eq!(
        patch.to_string(),
        r#"{"metadata":{"annotations":{"capacity.cluster-autoscaler.kubernetes.io/labels":"kubernetes.io/arch=amd64","machine.openshift.io/GPU":"0","machine.openshift.io/memoryMb":"16384","machine.openshift.io/vCPU":"4"},"resourceVersion":"7"}}"#
    );
    let all = settled(snapshot);
    assert_eq!(all.len(), 4);
}

#[test]
fn copies_of_an_operator_follow_a_change_of_type() {
    let before = [
        (LEGACY_CPU, "4"),
        (LEGACY_MEMORY, "16384"),
        (LEGACY_GPU, "0"),
        (LABELS, "kubernetes.io/arch=amd64,team=a"),
        (CPU, "4"),
        (MEMORY, "17179869184"),
        (GPU_COUNT, "0"),
        (GPU_TYPE, ""),
    ];
    let snapshot = known(
        true,
        openshift(&before, aws("m6g.4xlarge")),
        catalogue("m6g.4xlarge"),
        around("m6g.4xlarge", None),
        Config::default(),
    );
    let patch = plan_of(&snapshot).unwrap().patch("7");
    let changed = json!({
        LEGACY_CPU: "16", LEGACY_MEMORY: "65536", LABELS: "kubernetes.io/arch=arm64,team=a", CPU: "16", MEMORY: "65536Mi",
    });
    assert_eq!(patch, json!({"metadata": {"resourceVersion": "7", "annotations": changed}}));
    settled(snapshot);
}

#[test]
fn a_users_memory_stays_while_everything_else_follows() {
    let before = [
        (LEGACY_CPU, "4"),
        (LEGACY_MEMORY, "16384"),
        (LEGACY_GPU, "0"),
        (LABELS, "kubernetes.io/arch=amd64,team=a"),
        (CPU, "4"),
        (MEMORY, "60Gi"),
    ];
    let snapshot = known(
        true,
        openshift(&before, aws("m6g.4xlarge")),
        catalogue("m6g.4xlarge"),
        around("m6g.4xlarge", None),
        Config::default(),
    );
    let plan = plan_of(&snapshot).unwrap();
    assert!(!plan.changes.contains_key(MEMORY) && plan.changes.contains_key(CPU));
    assert_eq!(plan.overrides.iter().copied().collect::<Vec<_>>(), [MEMORY]);
    assert_eq!(get(&settled(snapshot), MEMORY), Some("60Gi"));
}

fn cluster_api(name: &str, root: Option<u64>, config: Config) -> Annotations {
    settled(known(false, deployment(plain_deployment(&[])), catalogue(name), around(name, root), config))
}

#[test]
fn a_deployment_with_an_amd_gpu_gets_both_sets_of_keys() {
    let applied = r#"{"instanceType":"g4ad.xlarge","labels":{},"region":"us-east-1","values":{"capacity.cluster-autoscaler.kubernetes.io/cpu":"4","capacity.cluster-autoscaler.kubernetes.io/ephemeral-disk":"100Gi","capacity.cluster-autoscaler.kubernetes.io/gpu-count":"1","capacity.cluster-autoscaler.kubernetes.io/gpu-type":"amd.com/gpu","capacity.cluster-autoscaler.kubernetes.io/memory":"16384Mi"}}"#;
    let wanted = annotations(&[
        (LEGACY_CPU, "4"),
        (LEGACY_MEMORY, "16384"),
        (LEGACY_GPU, "1"),
        (CPU, "4"),
        (MEMORY, "16384Mi"),
        (GPU_COUNT, "1"),
        (GPU_TYPE, "amd.com/gpu"),
        (EPHEMERAL_DISK, "100Gi"),
        (LABELS, "kubernetes.io/arch=amd64"),
        (APPLIED, applied),
    ]);
    assert_eq!(cluster_api("g4ad.xlarge", Some(100), Config::default()), wanted);
}

#[test]
fn neuron_devices_are_devices_or_cores() {
    let devices = cluster_api("inf2.24xlarge", None, Config::default());
    assert_eq!(get(&devices, LEGACY_GPU), Some("0"));
    assert_eq!((get(&devices, GPU_COUNT), get(&devices, GPU_TYPE)), (Some("6"), Some("aws.amazon.com/neuron")));
    let cores = cluster_api("inf2.24xlarge", None, Config { neuron: NeuronResource::Cores, ..Config::default() });
    assert_eq!((get(&cores, GPU_COUNT), get(&cores, GPU_TYPE)), (Some("12"), Some("aws.amazon.com/neuroncore")));
}

#[test]
fn parts_of_gpus_count_and_old_types_have_an_architecture() {
    let sets = |name: &str| {
        settled(known(true, openshift(&[], aws(name)), catalogue(name), around(name, None), Config::default()))
    };
    assert_eq!(get(&sets("g6f.large"), LEGACY_GPU), Some("1"));
    assert_eq!(get(&sets("t2.micro"), LABELS), Some("kubernetes.io/arch=amd64"));
    assert!(!catalogue("t2.micro").assumed);
    let gpus = sets("p3.8xlarge");
    assert_eq!(
        (get(&gpus, LEGACY_CPU), get(&gpus, LEGACY_MEMORY), get(&gpus, LEGACY_GPU)),
        (Some("32"), Some("249856"), Some("4"))
    );
}

#[test]
fn from_a_gpu_type_to_one_without_the_pair_goes_and_the_older_key_is_zero() {
    let mut group = deployment(plain_deployment(&[]));
    group.annotations = cluster_api("p3.8xlarge", None, Config::default());
    assert_eq!(get(&group.annotations, GPU_COUNT), Some("4"));
    let all = settled(known(false, group, catalogue("m5.xlarge"), around("m5.xlarge", None), Config::default()));
    assert_eq!((get(&all, GPU_COUNT), get(&all, GPU_TYPE), get(&all, LEGACY_GPU)), (None, None, Some("0")));
}

#[test]
fn what_flags_ask_for_is_written_recorded_and_withdrawn() {
    let labels = Config {
        node_labels: NodeLabel::ALL.into_iter().map(|(_, label)| label).collect(),
        max_pods: MaxPods::Eni,
        ..Config::default()
    };
    let with = cluster_api("m5.xlarge", None, labels);
    assert_eq!(
        get(&with, LABELS),
        Some(
            "kubernetes.io/arch=amd64,kubernetes.io/os=linux,node.kubernetes.io/instance-type=m5.xlarge,\
             topology.kubernetes.io/region=us-east-1,topology.kubernetes.io/zone=us-east-1a"
        )
    );
    assert_eq!((get(&with, MAX_PODS), get(&with, LEGACY_MAX_PODS)), (Some("234"), Some("234")));
    let mut group = deployment(plain_deployment(&[]));
    group.annotations = with;
    let without = settled(known(false, group, catalogue("m5.xlarge"), around("m5.xlarge", None), Config::default()));
    assert_eq!(get(&without, LABELS), Some("kubernetes.io/arch=amd64"));
    assert_eq!((get(&without, MAX_PODS), get(&without, LEGACY_MAX_PODS)), (None, None));
}

#[test]
fn the_disk_for_pods_is_the_one_that_a_flag_chooses() {
    for (from, root, own, wanted) in [
        (DiskFrom::Off, Some(100), Some(Disk::Gb(150)), None),
        (DiskFrom::RootVolume, Some(100), Some(Disk::Gb(150)), Some("100Gi")),
        (DiskFrom::RootVolume, None, Some(Disk::Gb(150)), None),
        (DiskFrom::InstanceStore, Some(100), Some(Disk::Gb(150)), Some("150G")),
        (DiskFrom::InstanceStore, Some(100), None, Some("100Gi")),
    ] {
        let mut offer = catalogue("m5.xlarge");
        offer.disk = own;
        let (group, config) = (deployment(plain_deployment(&[])), Config { disk: from, ..Config::default() });
        let all = settled(known(false, group, offer, around("m5.xlarge", root), config));
        assert_eq!(get(&all, EPHEMERAL_DISK), wanted, "{from:?} {root:?} {own:?}");
    }
}

#[test]
fn the_older_key_counts_the_accelerators_that_a_flag_chooses() {
    for (name, all, nvidia) in [("g4ad.xlarge", "1", "0"), ("p3.8xlarge", "4", "4"), ("m5.xlarge", "0", "0")] {
        for (legacy_gpus, wanted) in [(LegacyGpus::All, all), (LegacyGpus::Nvidia, nvidia)] {
            let config = Config { legacy_gpus, ..Config::default() };
            let told = cluster_api(name, None, config.clone());
            assert_eq!(get(&told, LEGACY_GPU), Some(wanted), "{name} {legacy_gpus:?}");
            let set = openshift(&[], aws(name));
            let told = settled(known(true, set, catalogue(name), around(name, None), config));
            assert_eq!(get(&told, LEGACY_GPU), Some(wanted), "{name} {legacy_gpus:?}");
        }
    }
}

#[test]
fn a_users_label_wins_over_what_a_flag_asks_for() {
    let config = Config { node_labels: [NodeLabel::Os].into(), ..Config::default() };
    let group = deployment(plain_deployment(&[(LABELS, "kubernetes.io/os=windows")]));
    let all = settled(known(false, group, catalogue("m5.xlarge"), around("m5.xlarge", None), config));
    assert_eq!(get(&all, LABELS), Some("kubernetes.io/arch=amd64,kubernetes.io/os=windows"));
}

#[test]
fn a_driver_stands_in_for_the_resource() {
    let drivers = [(capacity::offer::Vendor::Nvidia, "gpu.nvidia.com".to_owned())].into();
    let all = cluster_api("p3.8xlarge", None, Config { dra_drivers: drivers, ..Config::default() });
    assert_eq!((get(&all, GPU_COUNT), get(&all, GPU_TYPE)), (Some("4"), None));
    assert_eq!(get(&all, names::DRA_DRIVER), Some("gpu.nvidia.com"));
}

#[test]
fn limits_of_volumes_are_told_by_a_flag_go_with_it_and_a_users_stay() {
    let limits = || [("ebs.csi.aws.com".to_owned(), 25), ("efs.csi.aws.com".to_owned(), 0)].into();
    let with = || Config { csi_limits: limits(), ..Config::default() };
    assert_eq!(get(&cluster_api("m5.xlarge", None, Config::default()), names::CSI_DRIVER), None);
    let told = cluster_api("m5.xlarge", None, with());
    assert_eq!(get(&told, names::CSI_DRIVER), Some("ebs.csi.aws.com=25,efs.csi.aws.com=0"));
    let again = |annotations: &[(&str, &str)], config| {
        let group = deployment(plain_deployment(annotations));
        let all = settled(known(false, group, catalogue("m5.xlarge"), around("m5.xlarge", None), config));
        get(&all, names::CSI_DRIVER).map(str::to_owned)
    };
    let written: Vec<(&str, &str)> = told.iter().map(|(key, value)| (key.as_ref(), value.as_ref())).collect();
    assert_eq!(again(&written, Config::default()), None, "it goes with the flag");
    let users = [(names::CSI_DRIVER, "ebs.csi.aws.com=3")];
    assert_eq!(again(&users, with()).as_deref(), Some("ebs.csi.aws.com=3"));
    assert_eq!(again(&users, Config::default()).as_deref(), Some("ebs.csi.aws.com=3"));
}

#[test]
fn limits_of_pods_follow_the_network() {
    let pods = |name: &str, max_pods, reserved| {
        let config = Config { max_pods, reserved_interfaces: reserved, ..Config::default() };
        get(&cluster_api(name, None, config), MAX_PODS).map(str::to_owned)
    };
    assert_eq!(pods("m5.xlarge", MaxPods::Off, 0), None);
    assert_eq!(pods("m5.xlarge", MaxPods::Eni, 0).as_deref(), Some("234"), "8 * 29 + 2");
    assert_eq!(pods("m5.xlarge", MaxPods::Eni, 1).as_deref(), Some("205"), "7 * 29 + 2");
    assert_eq!(pods("m5.xlarge", MaxPods::Prefix, 0).as_deref(), Some("110"));
    assert_eq!(pods("p3.8xlarge", MaxPods::Prefix, 0).as_deref(), Some("250"));
    assert_eq!(pods("m5.xlarge", MaxPods::Fixed(250), 0).as_deref(), Some("250"));
}

#[test]
fn an_assumed_architecture_gives_way_to_a_known_one() {
    let mut offer = catalogue("m5.xlarge");
    offer.assumed = true;
    let labels = |text: &str| {
        let group = deployment(plain_deployment(&[(LABELS, text)]));
        let all = settled(known(false, group, offer.clone(), around("m5.xlarge", None), Config::default()));
        get(&all, LABELS).map(str::to_owned)
    };
    assert_eq!(labels("kubernetes.io/arch=arm64").as_deref(), Some("kubernetes.io/arch=arm64"));
    assert_eq!(labels("kubernetes.io/arch=vax").as_deref(), Some("kubernetes.io/arch=amd64"));
    let _ = map(&[]);
}
