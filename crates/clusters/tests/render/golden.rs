use clusters::admit::{Terms, cluster_problem, datacenter_problem, machine_problem};
use clusters::plan::live;
use clusters::render::{Error, Inputs, Live, REVISION, Settings, render};
use proptest::prelude::*;
use serde_json::Value;

use crate::support::{documents, folder, inputs, read, rendered, yaml};

fn golden(name: &str) -> std::path::PathBuf {
    folder("golden").join(format!("revision-{REVISION}")).join(format!("{name}.yaml"))
}

/// The objects of a revision are never edited: another rendering is another revision.
#[test]
fn every_input_gives_its_golden_objects_byte_for_byte() {
    for name in inputs() {
        let found = yaml(&rendered(&documents(&name), &Live::default()).objects());
        assert!(found == read(&golden(&name)), "{name} differs from {}:\n{found}", golden(&name).display());
    }
    let files = std::fs::read_dir(golden("x").parent().unwrap()).unwrap().count();
    assert_eq!(files, inputs().len(), "a golden file without its input");
}

/// Writes the golden objects of inputs that have none yet: `cargo test -p clusters -- --ignored new_inputs`.
#[test]
#[ignore = "writes files"]
fn new_inputs_get_their_golden_objects() {
    for name in inputs().into_iter().filter(|name| !golden(name).exists()) {
        let found = yaml(&rendered(&documents(&name), &Live::default()).objects());
        std::fs::write(golden(&name), found).unwrap();
    }
}

#[test]
fn the_inputs_break_no_rule() {
    let terms = Terms { extra_args: true, ..Terms::default() };
    for name in inputs() {
        let documents = documents(&name);
        assert_eq!(cluster_problem(&documents.clusters[0], &terms), None, "{name}");
        assert_eq!(documents.datacenters.iter().find_map(datacenter_problem), None, "{name}");
        assert_eq!(documents.machines.iter().find_map(machine_problem), None, "{name}");
    }
}

/// Once its objects are there, rendering again refers to the same templates and writes none of them.
#[test]
fn rendering_what_is_there_changes_nothing() {
    for name in inputs() {
        let documents = documents(&name);
        let first = rendered(&documents, &Live::default());
        let again = rendered(&documents, &live(&first));
        assert_eq!(yaml(&first.objects()), yaml(&again.objects()), "{name}");
        let templates = again.groups.iter().flat_map(|group| [&group.machine_template, &group.config_template]);
        assert!(templates.chain([&again.control_plane_template]).all(|template| template.exists), "{name}");
    }
}

/// Whoever named the templates before: as long as they mean the same, nobody's machines are replaced.
#[test]
fn templates_of_another_controller_are_adopted_by_their_meaning() {
    let documents = documents("groups");
    let mut there = live(&rendered(&documents, &Live::default()));
    there.templates = there.templates.into_iter().map(|((kind, name), spec)| ((kind, rename(&name)), spec)).collect();
    there.control_plane = there.control_plane.as_deref().map(rename);
    for references in there.groups.values_mut() {
        references.machine = references.machine.as_deref().map(rename);
        references.config = references.config.as_deref().map(rename);
    }
    for spec in there.templates.values_mut() {
        let inner = spec.pointer_mut("/template/spec").unwrap().as_object_mut().unwrap();
        inner.insert("sshKey".to_owned(), Value::from(""));
    }
    let again = rendered(&documents, &there);
    assert_eq!(again.control_plane_template.name, "prod-control-plane-1");
    assert!(again.groups.iter().all(|group| group.machine_template.name.ends_with("-1")));
    assert!(
        again.groups.iter().all(|group| group.config_template.name.ends_with("-1") && group.config_template.exists)
    );
}

fn rename(name: &str) -> String {
    format!("{}-1", name.rsplit_once('-').unwrap().0)
}

#[test]
fn a_revision_of_another_build_and_missing_parts_are_told() {
    let documents = documents("minimal");
    let (settings, machines) = (Settings::default(), Default::default());
    let (cluster, datacenter) = (&documents.clusters[0], &documents.datacenters[0]);
    let bundles = &documents.bundles[0];
    let inputs = Inputs { cluster, datacenter, machines: &machines, oidc: None, bundles, settings: &settings };
    let error = |revision, inputs: &Inputs<'_>| render(revision, inputs, &Live::default()).unwrap_err();
    assert_eq!(error(7, &inputs), Error::Revision { revision: 7, known: REVISION });
    assert_eq!(error(REVISION, &inputs).to_string(), "CloudStackMachineConfig m not found");
    let mut newer = cluster.clone();
    newer.spec.kubernetes_version = "1.34".into();
    let text = "Bundles bundles-7 has no entry for Kubernetes 1.34 (has 1.28, 1.29, 1.30, 1.31, 1.32, 1.33)";
    assert_eq!(error(REVISION, &Inputs { cluster: &newer, ..inputs }).to_string(), text);
    let mut bare = bundles.clone();
    bare.spec.versions_bundles[3].cloud_stack = None;
    let text = "Bundles bundles-7, entry for Kubernetes 1.31: cloudStack.kubeVip.uri is missing";
    assert_eq!(error(REVISION, &Inputs { bundles: &bare, ..inputs }).to_string(), text);
}

/// Lists whose order means nothing, in any order.
fn shuffled(seed: usize, name: &str) -> clusters::plan::Documents {
    let mut documents = documents(name);
    let turn = |length: usize| if length == 0 { 0 } else { seed % length };
    let cluster = &mut documents.clusters[0].spec;
    if let Some(plane) = &mut cluster.control_plane_configuration {
        let by = turn(plane.cert_sans.len());
        plane.cert_sans.rotate_left(by);
        if let Some(taints) = &mut plane.taints {
            let by = turn(taints.len());
            taints.rotate_left(by);
        }
    }
    for group in &mut cluster.worker_node_group_configurations {
        let by = turn(group.taints.len());
        group.taints.rotate_left(by);
    }
    if let Some(proxy) = &mut cluster.proxy_configuration {
        let by = turn(proxy.no_proxy.len());
        proxy.no_proxy.rotate_left(by);
    }
    let by = turn(cluster.identity_provider_refs.len());
    cluster.identity_provider_refs.rotate_left(by);
    for machine in &mut documents.machines {
        let by = turn(machine.spec.affinity_group_ids.len());
        machine.spec.affinity_group_ids.rotate_left(by);
    }
    let by = turn(documents.machines.len());
    documents.machines.rotate_left(by);
    documents
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn equal_input_gives_equal_bytes_in_any_order(seed in 0_usize..1000) {
        let names = inputs();
        let name = &names[seed % names.len()];
        let found = yaml(&rendered(&shuffled(seed, name), &Live::default()).objects());
        prop_assert_eq!(found, yaml(&rendered(&documents(name), &Live::default()).objects()));
    }
}
