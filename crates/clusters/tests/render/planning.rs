use clusters::admit::Terms;
use clusters::change::{Action, Effect};
use clusters::plan::{Documents, Plan, ReadError, plan};
use clusters::render::Settings;

use crate::support::documents;

fn planned(new: &Documents, old: Option<&Documents>) -> Plan {
    let [plan] = plan(new, old, &Terms::default(), &Settings::default()).try_into().unwrap();
    plan
}

#[test]
fn a_new_cluster_is_all_made() {
    let plan = planned(&documents("minimal"), None);
    assert_eq!(
        (plan.namespace.as_str(), plan.name.as_str(), plan.bundles.as_deref()),
        ("team-a", "prod", Some("bundles-7"))
    );
    assert_eq!(plan.faults, []);
    assert!(plan.objects.iter().all(|change| change.action == Action::Create));
    let kinds: Vec<&str> = plan.objects.iter().map(|change| change.kind.as_str()).collect();
    let order = [
        "CloudStackCluster",
        "CloudStackMachineTemplate",
        "KubeadmControlPlane",
        "Cluster",
        "CloudStackMachineTemplate",
        "KubeadmConfigTemplate",
        "MachineDeployment",
        "MachineHealthCheck",
        "MachineHealthCheck",
    ];
    assert_eq!(kinds, order);
    assert!(plan.machines.iter().all(|change| change.effect == Effect::Create));
}

#[test]
fn the_same_files_again_do_nothing() {
    let same = documents("machines-and-zones");
    let plan = planned(&same, Some(&same));
    assert!(plan.objects.iter().all(|change| change.action == Action::Keep));
    assert!(plan.machines.iter().all(|change| change.effect == Effect::Keep));
}

/// Nothing is planned for what would be refused, and every fault of every object is told.
#[test]
fn faults_of_all_objects_are_told_and_nothing_is_planned() {
    let mut bad = documents("minimal");
    bad.clusters[0].spec.kubernetes_version = "1.3".into();
    bad.datacenters[0].spec.availability_zones[0].credentials_ref.clear();
    bad.machines[0].spec.users.clear();
    let plan = planned(&bad, None);
    let told: Vec<String> = plan.faults.iter().map(|f| format!("{} {}: {}", f.kind, f.name, f.message)).collect();
    assert_eq!(
        told,
        [
            "Cluster prod: spec.kubernetesVersion: quote it, e.g. \"1.30\"",
            "CloudStackDatacenterConfig dc: spec.availabilityZones[0].credentialsRef: required",
            "CloudStackMachineConfig m: spec.users: at least one user",
            "Cluster prod: Bundles bundles-7 has no entry for Kubernetes 1.3 (has 1.28, 1.29, 1.30, 1.31, 1.32, 1.33)",
        ]
    );
    assert!(plan.objects.is_empty() && plan.machines.is_empty());
}

#[test]
fn a_forbidden_change_is_a_fault() {
    let old = documents("minimal");
    let mut new = old.clone();
    new.clusters[0].spec.datacenter_ref.as_mut().unwrap().name = "other".into();
    let told: Vec<String> = planned(&new, Some(&old)).faults.into_iter().map(|fault| fault.message).collect();
    let missing = "CloudStackDatacenterConfig other is not in the files";
    assert_eq!(told, ["spec.datacenterRef: immutable", missing]);
}

#[test]
fn files_that_cannot_be_read_say_where() {
    let mut documents = Documents::default();
    assert!(matches!(documents.read("a: ["), Err(ReadError::Yaml(_))));
    let text = "apiVersion: v1\nkind: Secret\n---\napiVersion: anywhere.eks.amazonaws.com/v1alpha1\nkind: Cluster\nmetadata: {name: c}\nspec: {kubernetesVersion: 1.30}\n";
    let error = documents.read(text).unwrap_err().to_string();
    assert!(error.starts_with("document 2, Cluster c: "), "{error}");
    assert!(error.contains("expected a string"), "{error}");
    documents.read("apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n").unwrap();
    assert!(documents.clusters.is_empty());
}

/// As for the operator: a release of the same name that somebody has elsewhere is none.
#[test]
fn a_release_counts_in_the_namespace_of_the_system_alone() {
    let mut files = documents("groups");
    assert_eq!(planned(&files, None).bundles.as_deref(), Some("bundles-7"));
    files.releases[0].metadata.namespace = Some("team-a".into());
    let elsewhere = planned(&files, None);
    let told: Vec<&str> = elsewhere.faults.iter().map(|fault| fault.message.as_str()).collect();
    assert!(elsewhere.bundles.is_none() && told.contains(&"EKSARelease eksa-v0-22-1 not found"), "{told:?}");
    let settings = Settings { system_namespace: "team-a".into(), ..Settings::default() };
    let [plan] = plan(&files, None, &Terms::default(), &settings).try_into().unwrap();
    assert_eq!(plan.bundles.as_deref(), Some("bundles-7"));
}
