//! The screens of machines on claims.

use ::claims::explain::{Lists, Part, Sight, Unseen};
use ::claims::yard::Settings;
use api::key::ObjectKey;
use kit::explain::{Extent, Level, Node, Object};
use serde_json::{Value, json};
use sim::dock::objects::{self, merged};

use super::super::metal::{World, cluster, explanation, tree};
use super::{NOW, at_widths, read};
use crate::look::Metal;
use crate::screen;

const TEAM: &str = "team-a";

fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": type_, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": "2026-01-02T03:01:00Z", "observedGeneration": 1})
}

fn meta(name: &str) -> Value {
    json!({"namespace": TEAM, "name": name, "uid": format!("uid-{name}"), "resourceVersion": "5", "generation": 1,
        "creationTimestamp": "2026-01-02T03:00:00Z", "labels": {"cluster.x-k8s.io/cluster-name": "prod"}})
}

fn owner(name: &str, group: &str, phase: &str) -> Value {
    let labels = json!({"metadata": {"labels": {"cluster.x-k8s.io/deployment-name": group}}});
    merged(
        json!({"metadata": meta(name), "spec": {"clusterName": "prod", "version": "v1.34.1",
            "bootstrap": {"configRef": {"apiGroup": "bootstrap.cluster.x-k8s.io", "kind": "KubeadmConfig", "name": name}},
            "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "Metal3Machine", "name": name}},
            "status": {"phase": phase}}),
        &labels,
    )
}

fn group(name: &str, replicas: i64, ready: i64) -> Value {
    json!({"metadata": meta(name), "spec": {"clusterName": "prod", "replicas": replicas, "template": {"spec": {
        "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "Metal3MachineTemplate", "name": name}}}},
        "status": {"readyReplicas": ready}})
}

fn machine(name: &str, kind: &str, conditions: &[Value]) -> Value {
    json!({"metadata": meta(name), "spec": {"kind": kind}, "status": {"hostClaim": {"name": name}, "conditions": conditions}})
}

/// The conditions of a machine that has become a node.
fn fine() -> Vec<Value> {
    ["AssociateBareMetalHost", "Synchronized", "Provisioned", "KubernetesNodeReady", "Ready"]
        .map(|type_| condition(type_, "True", "Provisioned", ""))
        .to_vec()
}

fn claim(name: &str, kind: &str, more: &Value) -> Value {
    let all =
        ["Associated", "Synchronized", "Provisioned", "Ready"].map(|type_| condition(type_, "True", "Provisioned", ""));
    let plain = json!({"metadata": meta(name), "spec": {"kind": kind, "poweredOn": true},
        "status": {"conditions": all, "poweredOn": true}});
    merged(plain, more)
}

fn host(name: &str, claim: &str) -> Value {
    let plain = sim::metal::seed::host("metal", name, &json!({"size": "large"}));
    merged(
        plain,
        &json!({"metadata": {"uid": format!("uid-{name}"), "resourceVersion": "3"},
            "spec": {"consumerRef": {"apiVersion": "metal3.io/v1alpha1", "kind": "HostClaim", "namespace": TEAM,
                "name": claim, "uid": format!("uid-{claim}")}},
            "status": {"provisioning": {"state": "provisioned"}, "operationalStatus": "OK", "poweredOn": true}}),
    )
}

fn world(seen: Metal, lists: Lists) -> World {
    let now = NOW.parse().unwrap();
    World { seen, sight: Some(Sight::of(lists, Settings::default(), now)), default_kind: None, now }
}

/// A cluster on three kinds of machines; one of them waits for a host.
fn hybrid() -> World {
    let waits = "0/2 hosts fit: 2 in use";
    let waiting = [
        condition("AssociateBareMetalHost", "False", "NoBareMetalHost", waits),
        condition("Ready", "False", "NoBareMetalHost", waits),
    ];
    let machines = vec![
        machine("metal-1", "baremetal", &fine()),
        machine("metal-2", "baremetal", &fine()),
        machine("metal-3", "baremetal", &waiting),
        machine("dedicated-1", "aws-dedicated-host", &fine()),
        machine("virtual-1", "cloudstack-vm", &fine()),
        json!({"metadata": meta("classic-1"), "spec": {"image": {"url": "https://images.example/os.qcow2"}}}),
    ];
    let owners = vec![
        owner("metal-1", "metal", "Running"),
        owner("metal-2", "metal", "Running"),
        owner("metal-3", "metal", "Provisioning"),
        owner("dedicated-1", "dedicated", "Running"),
        owner("virtual-1", "virtual", "Running"),
        owner("classic-1", "classic", "Running"),
    ];
    let bound = |host: &str| {
        json!({"spec": {"image": {"url": "https://images.example/os.qcow2"}},
            "status": {"bareMetalHost": {"namespace": "metal", "name": host}, "hostUID": format!("uid-{host}")}})
    };
    let made = |id: &str| json!({"status": {"resourceID": id}});
    let unbound = json!({"spec": {"hostSelector": {"matchLabels": {"size": "large"}}}, "status": {"poweredOn": null,
        "conditions": [condition("Associated", "False", "NoBareMetalHost", waits), condition("Ready", "False", "NoBareMetalHost", waits)]}});
    let space = |name: &str| -> api::views::Namespace { read(objects::namespace(name, &json!({}))) };
    let policy = json!({"metadata": {"namespace": "metal", "name": "teams", "uid": "uid-teams"},
        "spec": {"hostClaimNamespaces": {"names": [TEAM]}}});
    let lists = Lists {
        claims: vec![
            read(claim("metal-1", "baremetal", &bound("rack1-node1"))),
            read(claim("metal-2", "baremetal", &bound("rack1-node2"))),
            read(claim("metal-3", "baremetal", &unbound)),
            read(claim("dedicated-1", "aws-dedicated-host", &made("h-0123456789abcdef0/i-0fedcba9876543210"))),
            read(claim("virtual-1", "cloudstack-vm", &made("6f0c1111-0000-4000-8000-000000000001"))),
        ],
        hosts: vec![read(host("rack1-node1", "metal-1")), read(host("rack1-node2", "metal-2"))],
        policies: vec![read(policy)],
        namespaces: [TEAM, "metal"].map(space).into(),
        ..Lists::default()
    };
    let groups = [("metal", 3, 2), ("dedicated", 1, 1), ("virtual", 1, 1), ("classic", 1, 1)];
    let seen = Metal {
        machines: machines.into_iter().map(read).collect(),
        owners: owners.into_iter().map(read).collect(),
        groups: groups.into_iter().map(|(name, wanted, ready)| read(group(name, wanted, ready))).collect(),
        claims: None,
        unseen: Vec::new(),
    };
    world(seen, lists)
}

fn root(mut world: World) -> Node {
    let object = Object::new("Cluster", &ObjectKey::namespaced(TEAM, "prod"));
    Node::new(object, Level::Ok, "").with(cluster(&mut world, TEAM, "prod"))
}

/// The same without the machine that waits.
fn fine_hybrid() -> World {
    let mut world = hybrid();
    world.seen.machines.retain(|machine| machine.metadata.name.as_deref() != Some("metal-3"));
    world.seen.owners.retain(|owner| owner.metadata.name.as_deref() != Some("metal-3"));
    for group in world.seen.groups.iter_mut().filter(|group| group.metadata.name.as_deref() == Some("metal")) {
        group.spec.replicas = Some(2);
    }
    world
}

#[test]
fn a_cluster_is_drawn_down_to_host_instance_and_virtual_machine() {
    let root = root(fine_hybrid());
    let drawn = at_widths(|screen| screen::tree(screen, &screen::folded(&root)));
    for part in ["rack1-node1", "h-0123456789abcdef0", "i-0fedcba9876543210", "6f0c1111-0000-4000-8000-000000000001"] {
        let alone = part != "rack1-node1";
        assert_eq!(
            drawn.contains(part),
            alone,
            "{part}: two machines on hosts are one line, the others are not\n{drawn}"
        );
    }
    insta::assert_snapshot!(drawn);
}

#[test]
fn while_a_machine_waits_only_what_it_waits_for_is_drawn() {
    let root = root(hybrid());
    let drawn = at_widths(|screen| screen::tree(screen, &screen::folded(&root)));
    assert!(drawn.contains("metal-3") && !drawn.contains("h-0123456789abcdef0"), "{drawn}");
    insta::assert_snapshot!(drawn);
}

#[test]
fn a_group_at_zero_is_drawn_with_what_the_autoscaler_reads_of_it() {
    let notes = json!({"metadata": {"annotations": {"capacity.cluster-autoscaler.kubernetes.io/cpu": "32",
        "capacity.cluster-autoscaler.kubernetes.io/memory": "131072Mi"}}});
    let groups = vec![read(merged(group("metal", 0, 0), &notes)), read(group("virtual", 0, 0))];
    let drawn = cluster(&mut world(Metal { groups, ..Metal::default() }, Lists::default()), TEAM, "prod");
    let lines: Vec<(Level, &str)> = drawn.iter().map(|node| (node.level, node.note.as_str())).collect();
    let told = "0 of 0 ready; the autoscaler reads cpu 32, memory 131072Mi";
    assert_eq!(lines, [(Level::Ok, told), (Level::Ok, "0 of 0 ready")]);
}

#[test]
fn a_machine_that_no_host_fits_says_so_down_to_the_hosts() {
    let mut world = hybrid();
    let key = ObjectKey::namespaced(TEAM, "metal-3");
    let (told, root) = (explanation(&mut world, &key).unwrap(), tree(&mut world, &key).unwrap());
    let because = told.facts.iter().find(|fact| fact.name == "because").map(|fact| fact.value.as_str());
    let because = because.unwrap_or_default();
    assert!(
        because.starts_with("Machine metal-3 is Provisioning ← AssociateBareMetalHost of Metal3Machine"),
        "{because}"
    );
    assert!(because.contains("HostClaim metal-3 is not ready ← Associated is not true ← NoBareMetalHost"), "{because}");
    assert_eq!(told.needs[0].name, "host of the claim");
    assert_eq!(told.needs[0].candidates.len(), 2, "a verdict on every host");
    let shown = at_widths(|screen| format!("{}\n{}", screen::explanation(screen, &told), screen::tree(screen, &root)));
    assert!(shown.contains("What Berth does next"), "{shown}");
    insta::assert_snapshot!(shown);
    let document = screen::tests::document("Explanation", &told);
    insta::assert_snapshot!("a_machine_that_no_host_fits_for_programs", document);
}

#[test]
fn programs_get_every_machine_and_people_get_those_that_are_alike_as_one() {
    let root = root(hybrid());
    let count = |node: &Node| node.children.iter().flat_map(|group| &group.children).count();
    assert_eq!((count(&root), count(&screen::folded(&root))), (6, 3));
    let document = serde_json::to_value(&root).unwrap();
    let chain = ["MachineDeployment", "Machine", "Metal3Machine", "HostClaim", "DedicatedHost"];
    let mut at = &document["children"][1];
    for (depth, kind) in chain.into_iter().enumerate() {
        assert_eq!(at["object"]["kind"], kind, "at depth {depth}");
        at = &at["children"][0];
    }
}

#[test]
fn a_tenant_is_told_of_its_machine_and_not_of_hosts() {
    let mut world = hybrid();
    let mut lists = Lists {
        claims: vec![read(claim(
            "metal-1",
            "baremetal",
            &json!({"status": {
        "bareMetalHost": {"namespace": "metal", "name": "rack1-node1"}}}),
        ))],
        ..Lists::default()
    };
    let blind = |part, what: &str| Unseen { part, extent: Extent::All, why: format!("you may not list {what}") };
    lists.unseen =
        vec![blind(Part::Hosts, "baremetalhosts.metal3.io"), blind(Part::Policies, "hostdeploypolicies.metal3.io")];
    world.sight = Some(Sight::of(lists, Settings::default(), NOW.parse().unwrap()));
    let key = ObjectKey::namespaced(TEAM, "metal-1");
    let (told, root) = (explanation(&mut world, &key).unwrap(), tree(&mut world, &key).unwrap());
    let shown = at_widths(|screen| format!("{}\n{}", screen::explanation(screen, &told), screen::tree(screen, &root)));
    assert!(shown.contains("cannot be read"), "{shown}");
    assert!(told.needs.iter().all(|need| need.candidates.is_empty()), "{:?}", told.needs);
}

#[test]
fn a_machine_that_names_no_kind_is_left_to_whoever_keeps_it() {
    let mut world = hybrid();
    let key = ObjectKey::namespaced(TEAM, "classic-1");
    let told = explanation(&mut world, &key).unwrap();
    assert_eq!(told.level, Level::Aside);
    assert!(told.summary.contains("left to the provider for Metal3"), "{}", told.summary);
    world.default_kind = Some("baremetal".to_owned());
    assert_eq!(explanation(&mut world, &key).unwrap().level, Level::Waiting);
}

#[test]
fn a_claim_of_somebody_else_is_not_shown_as_the_machines() {
    let mut world = hybrid();
    let message = "the HostClaim team-a/metal-1 belongs to somebody else";
    let conflict = [condition("AssociateBareMetalHost", "False", "ClaimNameConflict", message)];
    world.seen.machines = vec![read(machine("metal-1", "baremetal", &conflict))];
    let key = ObjectKey::namespaced(TEAM, "metal-1");
    let told = explanation(&mut world, &key).unwrap();
    assert_eq!((told.level, told.summary.as_str()), (Level::Problem, message));
    assert!(tree(&mut world, &key).unwrap().children.is_empty());
    assert!(
        told.fixes.iter().any(|fix| fix.command.as_deref().is_some_and(|c| c.starts_with("kubectl get hostclaim")))
    );
}

#[test]
fn of_a_claim_that_another_room_serves_it_is_told_when_that_room_looks_again() {
    let mut world = hybrid();
    let conditions = json!({"status": {"resourceID": null, "conditions": [
        condition("Associated", "False", "CapacityUnavailable", "none left"), condition("Ready", "False", "CapacityUnavailable", "none left")]}});
    let waits: api::raw::HostClaim = read(claim("virtual-1", "cloudstack-vm", &conditions));
    let lists = Lists { claims: vec![waits], ..Lists::default() };
    world.sight = Some(Sight::of(lists, Settings::default(), NOW.parse().unwrap()));
    let told = explanation(&mut world, &ObjectKey::namespaced(TEAM, "virtual-1")).unwrap();
    let next: Vec<(&str, &str)> = told.next.iter().map(|next| (next.by, next.what.as_str())).collect();
    let what = "look again at every change, and without one after a pause that doubles from 5 s to 300 s";
    assert_eq!(next, [("clusters", what)]);
}
