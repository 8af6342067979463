//! Which groups are left alone, and in which order that is found out.

use std::sync::Arc;

use api::key::ObjectKey;
use capacity::config::Config;
use capacity::facts::{ClusterFacts, GroupFacts, GroupKind, MachineApi, Shape, TemplateFacts};
use capacity::judge::{Judgement, Scene, Skip, judge};
use capacity::names::SKIP;
use serde_json::json;

use crate::build::{aws, deployment, openshift, plain_deployment, scene, set};

fn skipped(scene: &Scene) -> Option<Skip> {
    match judge(scene) {
        Judgement::Skip(skip) => Some(skip),
        Judgement::Stuck(_) | Judgement::Wants(_) => None,
    }
}

fn with_api(authoritative: &str, paused: bool) -> GroupFacts {
    let mut group = openshift(&[], aws("m5.xlarge"));
    if let Shape::MachineApi { api, .. } = &mut group.shape {
        *api = MachineApi { authoritative: authoritative.into(), paused };
    }
    group
}

#[test]
fn every_pair_of_owner_and_pause_with_the_gate_on_and_off() {
    for gate in [false, true] {
        for authoritative in ["", "MachineAPI", "ClusterAPI", "Migrating", "machineapi"] {
            for paused in [false, true] {
                let mut scene = scene(GroupKind::OpenShiftSet, with_api(authoritative, paused));
                scene.config = Arc::new(Config { machine_api_migration: gate, ..Config::default() });
                let left = gate && (paused || authoritative != "MachineAPI");
                let wanted = left.then_some(Skip::NotAuthoritative);
                assert_eq!(skipped(&scene), wanted, "gate {gate}, {authoritative:?}, paused {paused}");
            }
        }
    }
}

#[test]
fn the_first_reason_that_fits_is_given() {
    let mut group = set(plain_deployment(&[(SKIP, "true"), ("cluster.x-k8s.io/paused", "")]));
    group.deployed = true;
    group.deleting = true;
    let mut scene = scene(GroupKind::Set, group);
    scene.config = Arc::new(Config { watch_filter: Some("mine".to_owned()), ..Config::default() });
    let mut next = |wanted: Skip, change: &dyn Fn(&mut GroupFacts)| {
        assert_eq!(skipped(&scene), Some(wanted));
        let mut group = GroupFacts::clone(&scene.group);
        change(&mut group);
        scene.group = Arc::new(group);
    };
    next(Skip::Deleting, &|group| group.deleting = false);
    next(Skip::Asked, &|group| drop(group.annotations.remove(SKIP)));
    next(Skip::Foreign, &|group| group.watch_filter = Some("mine".into()));
    next(Skip::Paused, &|group| group.paused = false);
    next(Skip::Deployed, &|group| group.deployed = false);
    assert_eq!(skipped(&scene), None);
}

#[test]
fn any_value_pauses_and_so_does_the_cluster_but_only_in_cluster_api() {
    for value in ["", "true", "false"] {
        let paused = scene(GroupKind::Deployment, deployment(plain_deployment(&[("cluster.x-k8s.io/paused", value)])));
        assert_eq!(skipped(&paused), Some(Skip::Paused), "{value:?}");
    }
    let mut through = scene(GroupKind::Deployment, deployment(plain_deployment(&[])));
    through.cluster = Some(Arc::new(ClusterFacts { paused: true, ..ClusterFacts::default() }));
    assert_eq!(skipped(&through), Some(Skip::Paused));
    let machine_api = scene(GroupKind::OpenShiftSet, openshift(&[("cluster.x-k8s.io/paused", "")], aws("m5.xlarge")));
    assert_eq!(skipped(&machine_api), None);
}

#[test]
fn only_the_word_true_opts_out() {
    for (value, out) in [("true", true), ("false", false), ("", false), ("True", false)] {
        let one = scene(GroupKind::OpenShiftSet, openshift(&[(SKIP, value)], aws("m5.xlarge")));
        assert_eq!(skipped(&one) == Some(Skip::Asked), out, "{value:?}");
    }
}

#[test]
fn a_set_of_a_deployment_is_never_a_group_of_its_own() {
    let owned = json!({"metadata": {"name": "a", "namespace": "default", "ownerReferences": [
        {"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "MachineDeployment", "name": "d", "uid": "x"}]},
        "spec": {"clusterName": "c"}});
    assert_eq!(skipped(&scene(GroupKind::Set, set(owned))), Some(Skip::Deployed));
    let other = json!({"metadata": {"name": "a", "namespace": "default", "ownerReferences": [
        {"apiVersion": "apps/v1", "kind": "MachineDeployment", "name": "d", "uid": "x"}]}});
    assert_eq!(skipped(&scene(GroupKind::Set, set(other))), None);
}

#[test]
fn a_mirror_is_left_alone_until_cluster_api_owns_the_pair() {
    for (namespace, twin, mirror) in [
        ("openshift-cluster-api", None, false),
        ("openshift-cluster-api", Some("MachineAPI"), true),
        ("openshift-cluster-api", Some(""), true),
        ("openshift-cluster-api", Some("Migrating"), true),
        ("openshift-cluster-api", Some("ClusterAPI"), false),
        ("elsewhere", Some("MachineAPI"), false),
    ] {
        let mut one = scene(GroupKind::Set, set(plain_deployment(&[])));
        one.key.key = ObjectKey::namespaced(namespace, "a");
        one.twin = twin.map(|owner| MachineApi { authoritative: owner.into(), paused: false });
        assert_eq!(skipped(&one) == Some(Skip::Mirror), mirror, "{namespace} {twin:?}");
    }
}

#[test]
fn other_providers_are_left_alone_unless_a_table_knows_them() {
    let azure = json!({"kind": "AzureMachineProviderSpec", "vmSize": "Standard_D4s_v3"});
    let mut one = scene(GroupKind::OpenShiftSet, openshift(&[], azure));
    assert_eq!(skipped(&one), Some(Skip::OtherProvider("AzureMachineProviderSpec".into())));
    one.config = Arc::new(Config { table: Some(ObjectKey::namespaced("a", "b")), ..Config::default() });
    let Judgement::Wants(wish) = judge(&one) else { panic!() };
    assert_eq!(wish.table_name.as_ref(), "AzureMachineProviderSpec.Standard_D4s_v3");

    let mut wire = plain_deployment(&[]);
    wire["spec"]["template"]["spec"]["infrastructureRef"]["kind"] = json!("Metal3MachineTemplate");
    let metal = scene(GroupKind::Deployment, deployment(wire));
    assert_eq!(skipped(&metal), Some(Skip::OtherProvider("Metal3MachineTemplate".into())), "off unless asked for");
}

#[test]
fn every_reason_reads_as_a_sentence() {
    let all = [
        Skip::Deleting,
        Skip::Asked,
        Skip::Foreign,
        Skip::Paused,
        Skip::Deployed,
        Skip::NotAuthoritative,
        Skip::Mirror,
        Skip::OtherProvider("X".into()),
    ];
    assert!(all.iter().all(|skip| skip.to_string().split(' ').count() > 3));
    let _ = TemplateFacts::default();
}
