use std::collections::BTreeSet;

use clusters::admit::Terms;
use clusters::change::{Action, Effect, ObjectChange, Role, RoleChange, objects, roles};
use clusters::plan::{Documents, Plan, Server, live, plan_running};
use clusters::render::{Live, Rendered, Settings};
use serde_json::{Value, json};

use crate::support::{documents, rendered};

const PLANE: &str = "control plane";

fn role_name(role: &Role) -> String {
    match role {
        Role::ControlPlane => PLANE.to_owned(),
        Role::Group(name) => name.clone(),
    }
}

fn change(edit: impl FnOnce(&mut Documents)) -> (Rendered, Rendered) {
    let mut after = documents("groups");
    edit(&mut after);
    changed(&after)
}

fn changed(after: &Documents) -> (Rendered, Rendered) {
    let old = rendered(&documents("groups"), &Live::default());
    let new = rendered(after, &live(&old));
    (old, new)
}

/// What is planned for files beside a server that holds what was written and rendered before, with what it fills in.
fn beside(old: &Rendered, files: &Documents) -> Plan {
    let mut server = Server::default();
    server.documents = documents("groups");
    let manager = json!({"apiVersion": "anywhere.eks.amazonaws.com/v1alpha1", "kind": "Cluster",
        "metadata": {"name": "mgmt", "namespace": "team-a"}, "spec": {"kubernetesVersion": "1.31"}});
    server.documents.take(manager).unwrap();
    for object in old.objects() {
        let mut object = object.clone();
        if !object["kind"].as_str().unwrap().ends_with("Template") {
            object["spec"]["filledIn"] = json!("by the server");
            object["status"] = json!({"observedGeneration": 1});
        }
        server.add(object);
    }
    let terms = Terms { extra_args: true, ..Terms::default() };
    let [plan] = plan_running(files, &server, &terms, &Settings::default()).try_into().unwrap();
    plan
}

fn rolled(changes: &[RoleChange]) -> Vec<String> {
    let rolled = changes.iter().filter(|change| change.effect == Effect::Roll);
    rolled.map(|change| role_name(&change.role)).collect()
}

/// Sets fields of a Cluster, as a merge.
fn cluster(patch: Value) -> Box<dyn FnOnce(&mut Documents)> {
    Box::new(move |documents| {
        let spec = &mut documents.clusters[0].spec;
        *spec = serde_json::from_value(merged(serde_json::to_value(&*spec).unwrap(), &patch)).unwrap();
    })
}

/// Sets fields of a group.
fn group(number: usize, patch: Value) -> Box<dyn FnOnce(&mut Documents)> {
    Box::new(move |documents| {
        let group = &mut documents.clusters[0].spec.worker_node_group_configurations[number];
        *group = serde_json::from_value(merged(serde_json::to_value(&*group).unwrap(), &patch)).unwrap();
    })
}

/// Sets fields of a machine configuration.
fn machine(name: &'static str, patch: Value) -> Box<dyn FnOnce(&mut Documents)> {
    Box::new(move |documents| {
        let found = documents.machines.iter_mut().find(|m| m.metadata.name.as_deref() == Some(name)).unwrap();
        found.spec = serde_json::from_value(merged(serde_json::to_value(&found.spec).unwrap(), &patch)).unwrap();
    })
}

fn merged(mut base: Value, patch: &Value) -> Value {
    if let (Value::Object(fields), Value::Object(patch)) = (&mut base, patch) {
        for (name, value) in patch {
            let old = fields.remove(name).unwrap_or_default();
            if !value.is_null() {
                fields.insert(name.clone(), merged(old, value));
            }
        }
        return base;
    }
    patch.clone()
}

/// Has a group refer to a copy of a machine configuration.
fn copied(number: usize, name: &'static str) -> Box<dyn FnOnce(&mut Documents)> {
    Box::new(move |documents| {
        let found = documents.machines.iter().find(|m| m.metadata.name.as_deref() == Some(name)).unwrap();
        let mut copy = found.clone();
        copy.metadata.name = Some("copy".to_owned());
        documents.machines.push(copy);
        group(number, json!({"machineGroupRef": {"name": "copy"}}))(documents);
    })
}

fn plane(patch: Value) -> Box<dyn FnOnce(&mut Documents)> {
    cluster(json!({"controlPlaneConfiguration": patch}))
}

const ALL: [&str; 5] = [PLANE, "general", "old", "elastic", "pinned"];
const WORKER: [&str; 3] = ["general", "elastic", "pinned"];

/// For each field, exactly the roles whose machines a change of it replaces.
#[test]
fn a_change_replaces_the_machines_it_must_and_no_others() {
    let disk = json!({"diskOffering": {"name": "d", "mountPath": "/data", "device": "/dev/vdb", "filesystem": "ext4", "label": "d"}});
    let empty_disk =
        json!({"diskOffering": {"mountPath": "", "device": "", "filesystem": "", "label": "", "customSizeInGB": 0}});
    let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGE7LJhzVsoIcAcSZjhoSDDTH12Jl0t6eJLWlrHjBPGi";
    type Row = (&'static str, Box<dyn FnOnce(&mut Documents)>, Vec<&'static str>);
    let rows: Vec<Row> = vec![
        ("nothing", cluster(json!({})), vec![]),
        // versions: the old group has its own
        (
            "kubernetesVersion",
            cluster(json!({"kubernetesVersion": "1.32"})),
            vec![PLANE, "general", "elastic", "pinned"],
        ),
        ("group version", group(1, json!({"kubernetesVersion": "1.31"})), vec!["old"]),
        // machine configurations: every role that uses them
        ("template", machine("worker", json!({"template": {"name": "ubuntu-1.31.5"}})), WORKER.to_vec()),
        ("offering", machine("cp", json!({"computeOffering": {"name": "huge"}})), vec![PLANE]),
        ("offering by id", machine("cp", json!({"computeOffering": {"id": "x"}})), vec![PLANE]),
        ("disk", machine("worker", disk.clone()), WORKER.to_vec()),
        ("disk of the control plane", machine("cp", disk), vec![PLANE]),
        ("disk that is none", machine("worker", empty_disk), vec![]),
        ("details", machine("worker-30", json!({"userCustomDetails": {"a": "b"}})), vec!["old"]),
        ("empty detail", machine("worker-30", json!({"userCustomDetails": {"a": ""}})), vec![]),
        (
            "users",
            machine("worker", json!({"users": [{"name": "other", "sshAuthorizedKeys": [key]}]})),
            WORKER.to_vec(),
        ),
        (
            "comment of a key",
            machine("worker", json!({"users": [{"name": "capc", "sshAuthorizedKeys": [format!("{key} else")]}]})),
            vec![],
        ),
        ("symlinks", machine("cp", json!({"symlinks": {"/a": "/b"}})), vec![PLANE]),
        ("affinity that is none", machine("cp", json!({"affinity": "no"})), vec![]),
        // references
        ("another configuration", group(0, json!({"machineGroupRef": {"name": "cp"}})), vec!["general"]),
        ("an equal configuration", copied(1, "worker-30"), vec![]),
        // roles
        ("labels of a group", group(0, json!({"labels": {"x": "y"}})), vec!["general"]),
        ("labels of the control plane", plane(json!({"labels": {"x": "y"}})), vec![PLANE]),
        ("taints of a group", group(1, json!({"taints": []})), vec!["old"]),
        ("taints of the control plane", plane(json!({"taints": []})), vec![PLANE]),
        (
            "order of taints",
            plane(json!({"taints": [{"key": "dedicated", "value": "control", "effect": "NoExecute"},
            {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}]})),
            vec![],
        ),
        ("kubelet of a group", group(0, json!({"kubeletConfiguration": {"maxPods": 9}})), vec!["general"]),
        ("kubelet of the control plane", plane(json!({"kubeletConfiguration": {"maxPods": 9}})), vec![PLANE]),
        ("zone of a group", group(0, json!({"failureDomains": ["az-1"]})), vec!["general"]),
        // numbers and ways
        ("count", group(0, json!({"count": 7})), vec![]),
        ("count of the control plane", plane(json!({"count": 5})), vec![]),
        ("autoscaling on", group(0, json!({"autoscalingConfiguration": {"minCount": 1, "maxCount": 9}})), vec![]),
        ("autoscaling off", group(2, json!({"autoscalingConfiguration": null})), vec![]),
        ("autoscaling limits", group(2, json!({"autoscalingConfiguration": {"maxCount": 20}})), vec![]),
        ("strategy", group(1, json!({"upgradeRolloutStrategy": {"rollingUpdate": {"maxSurge": 3}}})), vec![]),
        (
            "strategy of the control plane",
            plane(json!({"upgradeRolloutStrategy": {"rollingUpdate": {"maxSurge": 1}}})),
            vec![],
        ),
        // the control plane alone
        ("certSans", plane(json!({"certSans": ["c.example"]})), vec![PLANE]),
        ("order of certSans", plane(json!({"certSans": ["a.example", "b.example", "10.1.1.1"]})), vec![]),
        ("audit policy", plane(json!({"auditPolicyContent": "kind: Policy"})), vec![PLANE]),
        ("extra args", plane(json!({"apiServerExtraArgs": {"v": "2"}})), vec![PLANE]),
        ("kube-vip", plane(json!({"skipLoadBalancerDeployment": true})), vec![PLANE]),
        ("podIam", cluster(json!({"podIamConfig": {"serviceAccountIssuer": "https://i"}})), vec![PLANE]),
        ("AWSIam", cluster(json!({"identityProviderRefs": [{"kind": "AWSIamConfig", "name": "i"}]})), vec![]),
        // everybody
        ("mirror", cluster(json!({"registryMirrorConfiguration": {"endpoint": "m"}})), ALL.to_vec()),
        // nobody
        ("health checks", cluster(json!({"machineHealthCheck": {"nodeStartupTimeout": "1h"}})), vec![]),
        ("health checks of a group", group(0, json!({"machineHealthCheck": {"maxUnhealthy": 1}})), vec![]),
        (
            "network plugin",
            cluster(json!({"clusterNetwork": {"cniConfig": {"cilium": {"policyEnforcementMode": "always"}}}})),
            vec![],
        ),
        ("licence", cluster(json!({"licenseToken": "t", "packages": {"disable": true}})), vec![]),
        ("endpoint with its usual port", plane(json!({"endpoint": {"host": "api.prod.example"}})), vec![]),
    ];
    for (name, edit, wanted) in rows {
        let mut after = documents("groups");
        edit(&mut after);
        let (old, new) = changed(&after);
        let found = roles(Some(&old), &new);
        assert_eq!(rolled(&found), wanted, "{name}");
        for change in found.iter().filter(|change| change.effect == Effect::Roll) {
            assert!(!change.because.is_empty(), "{name} does not say why");
        }
        no_template_is_updated(name, &old, &new);
        // What runs is judged by itself and comes to the same.
        let plan = beside(&old, &after);
        assert_eq!(plan.faults, [], "{name}");
        assert_eq!(rolled(&plan.machines), wanted, "{name}, as it runs");
        let told: BTreeSet<String> = plan.objects.iter().filter_map(line).collect();
        assert_eq!(told, actions(&old, &new), "{name}, as it runs");
    }
}

/// Without a list of taints kubeadm gives the control plane its own, with an empty one none.
#[test]
fn the_usual_taint_of_a_control_plane_comes_and_goes_with_its_machines() {
    let usual = documents("minimal");
    let mut none = usual.clone();
    plane(json!({"taints": []}))(&mut none);
    for (before, after) in [(&usual, &none), (&none, &usual)] {
        let old = rendered(before, &Live::default());
        let new = rendered(after, &live(&old));
        let found = roles(Some(&old), &new);
        assert_eq!(rolled(&found), [PLANE]);
        let because: Vec<&str> = found[0].because.iter().map(|cause| cause.difference.path.as_str()).collect();
        assert_eq!(because, ["spec.kubeadmConfigSpec.initConfiguration.nodeRegistration.taints"]);
        assert_eq!(actions(&old, &new), BTreeSet::from(["Update KubeadmControlPlane prod".to_owned()]));
        assert_eq!(rolled(&roles(Some(&new), &new)), Vec::<String>::new());
    }
}

/// An issuer of tokens is an object of its own.
#[test]
fn a_change_of_the_issuer_replaces_the_control_plane() {
    let before = documents("identity");
    let mut after = before.clone();
    after.oidcs[0].spec.groups_prefix = "g:".into();
    let old = rendered(&before, &Live::default());
    let new = rendered(&after, &live(&old));
    let found: Vec<(String, Effect)> = roles(Some(&old), &new).iter().map(|c| (role_name(&c.role), c.effect)).collect();
    assert_eq!(found, [(PLANE.to_owned(), Effect::Roll), ("md-0".to_owned(), Effect::Keep)]);
}

/// Templates cannot be changed on a server, so none is ever to be.
fn no_template_is_updated(name: &str, old: &Rendered, new: &Rendered) {
    let updated = objects(Some(old), new).into_iter().filter(|change| change.action == Action::Update);
    for change in updated {
        assert!(!change.kind.ends_with("Template"), "{name} updates {} {}", change.kind, change.name);
    }
}

fn actions(old: &Rendered, new: &Rendered) -> BTreeSet<String> {
    objects(Some(old), new).iter().filter_map(line).collect()
}

/// What happens to an object, if something does.
fn line(change: &ObjectChange) -> Option<String> {
    let told = || format!("{:?} {} {}", change.action, change.kind, hashless(&change.name));
    (change.action != Action::Keep).then(told)
}

/// A name without the digits of its content.
fn hashless(name: &str) -> String {
    match name.rsplit_once('-') {
        Some((front, hash)) if hash.len() == 8 && hash.bytes().all(|b| b.is_ascii_hexdigit()) => format!("{front}-*"),
        _ => name.to_owned(),
    }
}

#[test]
fn a_change_writes_the_objects_it_must_and_no_others() {
    let set = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<BTreeSet<String>>();
    let (old, new) = change(group(0, json!({"count": 7})));
    assert_eq!(actions(&old, &new), set(&["Update MachineDeployment prod-general"]));
    let scaled = roles(Some(&old), &new);
    let general = scaled.iter().find(|change| role_name(&change.role) == "general").unwrap();
    assert_eq!((general.effect, general.replicas_before, general.replicas), (Effect::Scale, Some(3), Some(7)));

    let (old, new) = change(cluster(json!({"machineHealthCheck": {"nodeStartupTimeout": "1h"}})));
    let checks = [
        "kcp-unhealthy",
        "general-worker-unhealthy",
        "old-worker-unhealthy",
        "elastic-worker-unhealthy",
        "pinned-worker-unhealthy",
    ];
    let checks: Vec<String> = checks.iter().map(|name| format!("Update MachineHealthCheck prod-{name}")).collect();
    assert_eq!(actions(&old, &new), checks.into_iter().collect());

    let (old, new) = change(machine("cp", json!({"computeOffering": {"name": "huge"}})));
    let wanted = [
        "Create CloudStackMachineTemplate prod-control-plane-*",
        "Delete CloudStackMachineTemplate prod-control-plane-*",
        "Update KubeadmControlPlane prod",
    ];
    assert_eq!(actions(&old, &new), set(&wanted));

    let (old, new) = change(group(0, json!({"labels": {"x": "y"}})));
    let wanted = [
        "Create KubeadmConfigTemplate prod-general-*",
        "Delete KubeadmConfigTemplate prod-general-*",
        "Update MachineDeployment prod-general",
    ];
    assert_eq!(actions(&old, &new), set(&wanted));

    let (old, new) = change(|documents| {
        let mut zone = documents.datacenters[0].spec.availability_zones[0].clone();
        zone.name = "az-2".into();
        documents.datacenters[0].spec.availability_zones.push(zone);
    });
    assert_eq!(actions(&old, &new), set(&["Update CloudStackCluster prod"]));
    assert!(roles(Some(&old), &new).iter().all(|change| change.effect == Effect::Keep));
}

/// For each field, exactly the objects that a change of it writes. Templates are made and left, and go once nobody refers to
/// them.
#[test]
fn each_field_is_written_to_its_objects_and_to_no_others() {
    let disk = json!({"diskOffering": {"name": "d", "mountPath": "/data", "device": "/dev/vdb", "filesystem": "ext4", "label": "d"}});
    let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGE7LJhzVsoIcAcSZjhoSDDTH12Jl0t6eJLWlrHjBPGi";
    let users = json!({"users": [{"name": "other", "sshAuthorizedKeys": [key]}]});
    let links = json!({"symlinks": {"/a": "/b"}});
    let large = json!({"computeOffering": {"name": "larger"}});
    let (machines, configs) = ("CloudStackMachineTemplate", "KubeadmConfigTemplate");
    let of_plane = || vec!["Update KubeadmControlPlane prod".to_owned()];
    let templates =
        |kind: &str, role: &str| ["Create", "Delete"].map(|action| format!("{action} {kind} prod-{role}-*"));
    let of_group = |role: &str, kinds: &[&str]| {
        let mut all: Vec<String> = kinds.iter().flat_map(|kind| templates(kind, role)).collect();
        all.push(format!("Update MachineDeployment prod-{role}"));
        all
    };
    let of_groups =
        |roles: &[&str], kinds: &[&str]| roles.iter().flat_map(|role| of_group(role, kinds)).collect::<Vec<_>>();
    let of_template = || [templates(machines, "control-plane").to_vec(), of_plane()].concat();
    let issuer = json!({"podIamConfig": {"serviceAccountIssuer": "https://i"}});
    let mirror = json!({"registryMirrorConfiguration": {"endpoint": "m"}});
    let scaled = json!({"autoscalingConfiguration": {"minCount": 1, "maxCount": 9}});
    type Row = (&'static str, Box<dyn FnOnce(&mut Documents)>, Vec<String>);
    let rows: Vec<Row> = vec![
        (
            "kubernetesVersion",
            cluster(json!({"kubernetesVersion": "1.32"})),
            [of_plane(), of_groups(&WORKER, &[])].concat(),
        ),
        ("group version", group(1, json!({"kubernetesVersion": "1.31"})), of_group("old", &[])),
        ("template", machine("worker", json!({"template": {"name": "next"}})), of_groups(&WORKER, &[machines])),
        ("offering", machine("worker-30", large.clone()), of_group("old", &[machines])),
        ("offering of the control plane", machine("cp", large), of_template()),
        ("details", machine("worker-30", json!({"userCustomDetails": {"a": "b"}})), of_group("old", &[machines])),
        ("disk", machine("worker-30", disk.clone()), of_group("old", &[machines, configs])),
        ("disk of the control plane", machine("cp", disk), of_template()),
        ("users", machine("worker", users.clone()), of_groups(&WORKER, &[configs])),
        ("users of the control plane", machine("cp", users), of_plane()),
        ("symlinks", machine("worker-30", links.clone()), of_group("old", &[configs])),
        ("symlinks of the control plane", machine("cp", links), of_plane()),
        ("an equal configuration", copied(1, "worker-30"), vec![]),
        ("labels of the control plane", plane(json!({"labels": {"x": "y"}})), of_plane()),
        ("taints of the control plane", plane(json!({"taints": []})), of_plane()),
        ("taints of a group", group(1, json!({"taints": []})), of_group("old", &[configs])),
        ("count of the control plane", plane(json!({"count": 5})), of_plane()),
        ("autoscaling on", group(0, scaled), of_group("general", &[])),
        (
            "autoscaling limits",
            group(2, json!({"autoscalingConfiguration": {"maxCount": 20}})),
            of_group("elastic", &[]),
        ),
        ("autoscaling off", group(2, json!({"autoscalingConfiguration": null})), of_group("elastic", &[])),
        ("certSans", plane(json!({"certSans": ["c.example"]})), of_plane()),
        ("audit policy", plane(json!({"auditPolicyContent": "kind: Policy"})), of_plane()),
        ("extra args", plane(json!({"apiServerExtraArgs": {"v": "2"}})), of_plane()),
        ("podIam", cluster(issuer), of_plane()),
        ("mirror", cluster(mirror), [of_plane(), of_groups(&ALL[1..], &[configs])].concat()),
        (
            "network plugin",
            cluster(json!({"clusterNetwork": {"cniConfig": {"cilium": {"policyEnforcementMode": "always"}}}})),
            vec![],
        ),
    ];
    for (name, edit, wanted) in rows {
        let (old, new) = change(edit);
        assert_eq!(actions(&old, &new), wanted.into_iter().collect(), "{name}");
    }
    let zone = |documents: &mut Documents| {
        let mut zone = documents.datacenters[0].spec.availability_zones[0].clone();
        zone.name = "az-2".into();
        documents.datacenters[0].spec.availability_zones.push(zone);
    };
    let (one, two) = change(zone);
    let wanted: BTreeSet<String> = ["Update CloudStackCluster prod".to_owned()].into();
    assert_eq!([actions(&one, &two), actions(&two, &one)], [wanted.clone(), wanted]);
}

#[test]
fn a_group_comes_with_its_objects_and_goes_with_all_of_them() {
    let add = |documents: &mut Documents| {
        let groups = &mut documents.clusters[0].spec.worker_node_group_configurations;
        let mut more = groups[0].clone();
        more.name = "more".into();
        groups.push(more);
    };
    let (without, with) = change(add);
    let wanted: BTreeSet<String> = [
        "CloudStackMachineTemplate prod-more-*",
        "KubeadmConfigTemplate prod-more-*",
        "MachineDeployment prod-more",
        "MachineHealthCheck prod-more-worker-unhealthy",
    ]
    .map(str::to_owned)
    .into();
    let only = |action: &str| wanted.iter().map(|line| format!("{action} {line}")).collect::<BTreeSet<String>>();
    assert_eq!(actions(&without, &with), only("Create"));
    assert_eq!(actions(&with, &without), only("Delete"));
    let effect = |old: &Rendered, new: &Rendered| {
        let found = roles(Some(old), new).into_iter().find(|change| role_name(&change.role) == "more");
        found.map(|change| change.effect)
    };
    assert_eq!(effect(&without, &with), Some(Effect::Create));
    assert_eq!(effect(&with, &without), Some(Effect::Remove));
}

/// Files may hold less than a cluster needs, and change clusters that are not in them.
#[test]
fn what_is_not_in_the_files_is_taken_from_the_server() {
    let before = documents("groups");
    let (old, _) = changed(&before);
    let mut files = Documents::default();
    files.machines = before.machines.iter().filter(|one| one.metadata.name.as_deref() == Some("cp")).cloned().collect();
    let plan = beside(&old, &files);
    assert_eq!((plan.name.as_str(), rolled(&plan.machines)), ("prod", Vec::new()));
    assert!(plan.objects.iter().all(|change| change.action == Action::Keep), "{:?}", plan.objects);
    files.machines[0].spec.compute_offering.name = "huge".into();
    let plan = beside(&old, &files);
    assert_eq!(rolled(&plan.machines), [PLANE]);
    let because: Vec<String> = plan.machines[0].because.iter().map(|cause| cause.difference.path.clone()).collect();
    assert_eq!(because, ["spec.template.spec.offering.name"]);
    // What admission would refuse is refused here, by what is stored.
    let mut files = Documents::default();
    files.clusters.push(before.clusters[0].clone());
    files.clusters[0].spec.datacenter_ref.as_mut().unwrap().name = "other".into();
    let told: Vec<String> = beside(&old, &files).faults.into_iter().map(|fault| fault.message).collect();
    let missing = "CloudStackDatacenterConfig other is neither in the files nor on the server";
    assert_eq!(told, ["spec.datacenterRef: immutable", missing]);
}

/// Going back finds the first template again, even while the second is still there.
#[test]
fn a_change_that_is_taken_back_returns_to_the_old_names() {
    let before = documents("groups");
    let mut after = before.clone();
    machine("cp", json!({"computeOffering": {"name": "huge"}}))(&mut after);
    let first = rendered(&before, &Live::default());
    let second = rendered(&after, &live(&first));
    let mut both = live(&second);
    both.templates.extend(live(&first).templates);
    let third = rendered(&before, &both);
    assert_eq!(third.control_plane_template.name, first.control_plane_template.name);
    assert_ne!(second.control_plane_template.name, first.control_plane_template.name);
    assert!(third.control_plane_template.exists);
}

/// cluster-autoscaler keeps the number while it is on; switched off, the number is the cluster's again.
#[test]
fn autoscaling_leaves_the_number_alone() {
    let (old, new) = change(group(0, json!({"autoscalingConfiguration": {"minCount": 1, "maxCount": 9}})));
    assert_eq!(old.groups[0].deployment.pointer("/spec/replicas"), Some(&json!(3)));
    assert_eq!(new.groups[0].deployment.pointer("/spec/replicas"), None);
    let sizes = &new.groups[0].deployment["metadata"]["annotations"];
    assert_eq!(sizes["cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size"], "1");
    assert_eq!(sizes["cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"], "9");
    let (_, off) = change(group(2, json!({"autoscalingConfiguration": null, "count": 4})));
    assert_eq!(off.groups[2].deployment.pointer("/spec/replicas"), Some(&json!(4)));
    assert!(off.groups[2].deployment["metadata"].get("annotations").is_none());
}
