//! The pages of the book about clusters, carried out: from the first apply to the last machine.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use sim::cloudstack::world::machine::State;
use sim::wait::seek;

use crate::changes;
use crate::kubectl::{Kubectl, WAYS};
use crate::world::{Asked, LATER, SOON, SYSTEM, World, requests, run};

pub const TEAM: &str = "team-a";
pub const CLUSTER: &str = "prod";
const GROUP: &str = "prod-md-0";
const OLD: &str = "v1.31.4-eks-1-31-12";
const NEW: &str = "v1.32.4-eks-1-32-12";
const MANIFESTS: [&str; 3] = ["datacenter.yaml", "machines.yaml", "cluster.yaml"];

#[test]
fn a_cluster_lives_from_the_first_apply_to_the_last_machine() {
    run("a_cluster_lives_from_the_first_apply_to_the_last_machine", async |world| {
        for file in MANIFESTS {
            world.apply_all(&world.example(file)).await;
        }
        let cluster = world.settled(TEAM, CLUSTER).await;
        as_written(world, &cluster).await;
        unchanged(world).await;
        told(world).await;
        foretold(world);
        upgraded(world).await;
        grouped(world).await;
        world.delete(TEAM, CLUSTER).await;
        for (kind, name) in [
            ("CloudStackDatacenterConfig", "prod"),
            ("CloudStackMachineConfig", "prod-1-31"),
            ("CloudStackMachineConfig", "prod-1-32"),
        ] {
            let api = world.own(kind, TEAM);
            world
                .within(SOON, &format!("{kind} {name} goes with its cluster"), async || {
                    api.get_opt(name).await.ok()?.is_none().then_some(())
                })
                .await;
        }
        assert!(world.generated("Secret").get_opt("global").await.unwrap().is_some(), "credentials are never deleted");
        world.judge().await;
    });
}

fn text<'v>(object: &'v DynamicObject, pointer: &str) -> &'v str {
    object.data.pointer(pointer).and_then(Value::as_str).unwrap_or_else(|| panic!("no {pointer} in {}", object.data))
}

fn names(objects: &[DynamicObject]) -> BTreeSet<String> {
    objects.iter().filter_map(|object| object.metadata.name.clone()).collect()
}

/// The images of the network plugin, and whether a check of it is there.
async fn plugin(client: &kube::Client) -> (String, String, bool) {
    let sets: Api<DaemonSet> = Api::namespaced(client.clone(), "kube-system");
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), "kube-system");
    let set = serde_json::to_value(sets.get("cilium").await.unwrap()).unwrap();
    let operator = serde_json::to_value(deployments.get("cilium-operator").await.unwrap()).unwrap();
    let image =
        |object: &Value| object["spec"]["template"]["spec"]["containers"][0]["image"].as_str().unwrap().to_owned();
    let checks = sets.list(&ListParams::default()).await.unwrap().items.len() > 1;
    (image(&set), image(&operator), checks)
}

async fn nodes(client: &kube::Client) -> Vec<(String, bool)> {
    let list = Api::<Node>::all(client.clone()).list(&ListParams::default()).await.unwrap();
    let all = list.items.into_iter().map(|node| {
        let status = node.status.unwrap_or_default();
        let ready = status.conditions.unwrap_or_default().iter().any(|c| c.type_ == "Ready" && c.status == "True");
        (status.node_info.map(|info| info.kubelet_version).unwrap_or_default(), ready)
    });
    all.collect()
}

async fn as_written(world: &World, cluster: &DynamicObject) {
    let status = &cluster.data["status"];
    assert_eq!(status["resolvedBundles"]["name"], "bundles-1", "{status}");
    assert_eq!(status["observedGeneration"].as_i64(), cluster.metadata.generation);
    assert_eq!(status["renderRevision"], 1);
    assert!(status.get("failureReason").is_none() && status.get("failureMessage").is_none(), "{status}");
    for kind in ["ControlPlaneInitialized", "ControlPlaneReady", "DefaultCNIConfigured", "WorkersReady"] {
        let found = status["conditions"].as_array().unwrap().iter().find(|condition| condition["type"] == kind);
        assert_eq!(found.expect(kind)["status"], "True", "{status}");
    }
    let machines = world.virtual_machines(CLUSTER);
    assert_eq!(machines.len(), 3, "{machines:?}");
    assert!(machines.iter().all(|machine| machine.state == State::Running && machine.zone == "zone-1"), "{machines:?}");
    // The real bootstrap provider wrote what workers read at their first start, from what Berth rendered.
    let workers: Vec<_> = machines.iter().filter(|machine| machine.name.starts_with("prod-md-0-")).collect();
    assert_eq!(workers.len(), 2);
    for worker in workers {
        let data = String::from_utf8_lossy(&worker.user_data);
        assert!(data.contains("kubeadm join") && data.contains("name: capc"), "{data}");
    }
    let inside = world.provider.workload(CLUSTER).expect("an API server");
    let expected =
        ("images.example/cilium:v1.15.9".to_owned(), "images.example/operator-generic:v1.15.9".to_owned(), false);
    assert_eq!(plugin(&inside).await, expected);
    assert_eq!(nodes(&inside).await, vec![(OLD.to_owned(), true); 3]);
    assert_eq!(
        text(&world.generated("MachineDeployment").get(GROUP).await.unwrap(), "/spec/template/spec/version"),
        OLD
    );
    for (kind, count) in [("MachineHealthCheck", 2), ("CloudStackMachineTemplate", 2), ("KubeadmConfigTemplate", 1)] {
        let found = world.of_cluster(kind, CLUSTER).await;
        assert_eq!(found.len(), count, "{kind}: {:?}", names(&found));
    }
    // The webhooks that judged all this are really there.
    let planes = world.generated("KubeadmControlPlane");
    let params = PatchParams { dry_run: true, ..PatchParams::default() };
    let wrong = json!({"spec": {"version": "new"}});
    let refusal = planes.patch(CLUSTER, &params, &Patch::Merge(&wrong)).await.unwrap_err().to_string();
    assert!(refusal.contains("kubeadm") && refusal.contains("version"), "{refusal}");
}

/// The same files again change nothing, whichever way they are compared and applied, and set nobody to work.
async fn unchanged(world: &World) {
    let files: Vec<Value> = MANIFESTS.iter().flat_map(|file| world.example(file)).collect();
    let before = world.requests().len();
    world.apply_all(&files).await;
    if let Some(kubectl) = Kubectl::of("the_same_files_again_change_nothing", world) {
        for way in WAYS {
            kubectl.apply(way, &files);
            assert_eq!(kubectl.diff(way, &files), "", "{way}");
        }
    }
    let ours = |asked: &Asked| {
        asked.agent.starts_with("berth/")
            && asked.writes()
            && [TEAM, SYSTEM].contains(&asked.namespace.as_str())
            && (asked.name.starts_with(CLUSTER) || asked.resource == "events")
    };
    let written =
        seek(Duration::from_secs(2), async || world.requests().into_iter().skip(before).find(|one| ours(one)));
    let written = written.await;
    assert!(written.is_none(), "nothing changed, and Berth wrote {written:?}");
}

/// What people are told of it.
async fn told(world: &World) {
    let explained = world.told(&["explain", "cluster.anywhere/prod", "-n", TEAM]);
    for part in ["team-a/prod", "1.31", "192.0.2.10", "control plane", "workers"] {
        assert!(explained.contains(part), "no {part} in:\n{explained}");
    }
    let drawn = world.told(&["tree", "eksac/prod", "-n", TEAM, "--expand"]);
    for part in ["KubeadmControlPlane", "MachineDeployment", GROUP, "CloudStackDatacenterConfig", "prod-1-31"] {
        assert!(drawn.contains(part), "no {part} in:\n{drawn}");
    }
    let listed = world.told(&["clusters", "-n", TEAM]);
    let row = listed.lines().find(|line| line.contains(CLUSTER)).unwrap_or_else(|| panic!("{listed}"));
    assert!(row.contains("1.31") && row.contains("True"), "{row}");
    let document: Value = serde_json::from_str(&world.told(&["clusters", "-n", TEAM, "-o", "json"])).unwrap();
    assert_eq!(document["kind"], "ClusterList");
    assert_eq!(document["items"][0]["name"], CLUSTER, "{document}");
}

/// The roles whose machines a plan says would be replaced.
pub fn rolled(plan: &Value) -> Vec<String> {
    assert_eq!(plan["faults"], json!([]), "{plan}");
    let roles = plan["machines"].as_array().unwrap().iter().filter(|change| change["effect"] == "roll");
    roles.map(|change| change["role"]["group"].as_str().unwrap_or("control plane").to_owned()).collect()
}

/// Sets fields of an object, as a merge.
pub fn set(base: &mut Value, patch: &Value) {
    match (base, patch) {
        (Value::Object(fields), Value::Object(patch)) => {
            for (name, value) in patch {
                set(fields.entry(name.clone()).or_insert(Value::Null), value);
            }
        }
        (base, patch) => *base = patch.clone(),
    }
}

/// What a change would do is told by what runs, with everything that real webhooks filled in, and nothing is done.
fn foretold(world: &World) {
    let files: Vec<Value> = MANIFESTS.iter().flat_map(|file| world.example(file)).collect();
    let changed = |kind: &str, patch: &Value| {
        let mut files = files.clone();
        files.iter_mut().filter(|file| file["kind"] == kind).for_each(|file| set(&mut file["spec"], patch));
        files
    };
    let same = world.plan(&files);
    assert_eq!(rolled(&same), Vec::<String>::new());
    let moved = same["objects"].as_array().unwrap().iter().find(|object| object["action"] != "keep");
    assert!(moved.is_none(), "nothing is changed, and {moved:?} would be");
    let cluster = |patch: Value| ("Cluster", patch);
    let plane = |patch: Value| cluster(json!({"controlPlaneConfiguration": patch}));
    let group = |patch: Value| {
        let mut group =
            files.iter().find(|file| file["kind"] == "Cluster").unwrap()["spec"]["workerNodeGroupConfigurations"][0]
                .clone();
        set(&mut group, &patch);
        cluster(json!({"workerNodeGroupConfigurations": [group]}))
    };
    let machine = |patch: Value| ("CloudStackMachineConfig", patch);
    let (nobody, both) = (Vec::<&str>::new(), vec!["control plane", "md-0"]);
    let (one, other) = (vec!["control plane"], vec!["md-0"]);
    let taint = json!([{"key": "dedicated", "value": "front", "effect": "NoSchedule"}]);
    let disk =
        json!({"name": "Small", "mountPath": "/data", "device": "/dev/vdb", "filesystem": "ext4", "label": "data"});
    let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGE7LJhzVsoIcAcSZjhoSDDTH12Jl0t6eJLWlrHjBPGi";
    let users = json!([{"name": "other", "sshAuthorizedKeys": [key]}]);
    let mut second =
        files.iter().find(|file| file["kind"] == "CloudStackDatacenterConfig").unwrap()["spec"]["availabilityZones"]
            .clone();
    let mut added = second[0].clone();
    set(&mut added, &json!({"name": "az-2", "zone": {"name": "zone-2"}}));
    second.as_array_mut().unwrap().push(added);
    for ((kind, patch), wanted) in [
        (machine(json!({"template": {"name": "kube-1.31-next"}})), both.clone()),
        (machine(json!({"computeOffering": {"name": "Large Instance"}})), both.clone()),
        (machine(json!({"diskOffering": disk})), both.clone()),
        (machine(json!({"userCustomDetails": {"sounds": "off"}})), both.clone()),
        (machine(json!({"users": users})), both.clone()),
        (machine(json!({"symlinks": {"/var/log": "/data/log"}})), both.clone()),
        (group(json!({"labels": {"tier": "front"}})), other.clone()),
        (group(json!({"taints": taint})), other.clone()),
        (plane(json!({"labels": {"tier": "front"}})), one.clone()),
        (plane(json!({"taints": taint})), one.clone()),
        (group(json!({"count": 5})), nobody.clone()),
        (plane(json!({"count": 3})), nobody.clone()),
        (group(json!({"autoscalingConfiguration": {"minCount": 1, "maxCount": 5}})), nobody.clone()),
        (group(json!({"kubernetesVersion": "1.31"})), nobody.clone()),
        (plane(json!({"certSans": ["prod.example"]})), one.clone()),
        (plane(json!({"apiServerExtraArgs": {"v": "2"}})), one.clone()),
        (plane(json!({"auditPolicyContent": "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: []\n"})), one.clone()),
        (cluster(json!({"podIamConfig": {"serviceAccountIssuer": "https://issuer.example"}})), one.clone()),
        (cluster(json!({"registryMirrorConfiguration": {"endpoint": "192.0.2.20"}})), both.clone()),
        (cluster(json!({"machineHealthCheck": {"nodeStartupTimeout": "30m"}})), nobody.clone()),
        (("CloudStackDatacenterConfig", json!({"availabilityZones": second})), nobody.clone()),
    ] {
        assert_eq!(rolled(&world.plan(&changed(kind, &patch))), wanted, "{kind} {patch}");
    }
    // Another configuration counts by what it says.
    let referred = |patch: Value| {
        let mut files = changed("Cluster", &group(json!({"machineGroupRef": {"name": "copy"}})).1);
        let mut copy = files.iter().find(|file| file["kind"] == "CloudStackMachineConfig").unwrap().clone();
        copy["metadata"]["name"] = json!("copy");
        set(&mut copy["spec"], &patch);
        files.push(copy);
        files
    };
    assert_eq!(rolled(&world.plan(&referred(json!({})))), nobody);
    assert_eq!(rolled(&world.plan(&referred(json!({"computeOffering": {"name": "Large Instance"}})))), other);
    // So does an issuer of tokens.
    let mut identity = changed("Cluster", &json!({"identityProviderRefs": [{"kind": "OIDCConfig", "name": "login"}]}));
    identity.push(json!({"apiVersion": "anywhere.eks.amazonaws.com/v1alpha1", "kind": "OIDCConfig",
        "metadata": {"name": "login", "namespace": TEAM},
        "spec": {"clientId": "kubernetes", "issuerUrl": "https://login.example"}}));
    assert_eq!(rolled(&world.plan(&identity)), one);
    let mut more = files.clone();
    more.iter_mut().filter(|file| file["kind"] == "Cluster").for_each(|file| {
        let groups = file["spec"]["workerNodeGroupConfigurations"].as_array_mut().unwrap();
        let mut added = groups[0].clone();
        set(&mut added, &json!({"name": "more", "count": 1}));
        groups.push(added);
    });
    assert_eq!(rolled(&world.plan(&more)), nobody);
    let upgrade = world.example("upgrade.yaml");
    assert_eq!(rolled(&world.plan(&upgrade)), both);
    // A group with a version of its own stays behind.
    let mut behind = upgrade;
    let held = json!({"kubernetesVersion": "1.31", "machineGroupRef": {"name": "prod-1-31"}});
    behind.iter_mut().filter(|file| file["kind"] == "Cluster").for_each(|file| {
        set(&mut file["spec"]["workerNodeGroupConfigurations"][0], &held);
    });
    assert_eq!(rolled(&world.plan(&behind)), one);
}

/// The group that names its version, and how names of its machines begin.
const HELD: (&str, &str) = ("held", "prod-held-");

/// A file of the book with one group more, which names its version.
fn with_held(world: &World, file: &str, version: &str, machines: &str) -> Vec<Value> {
    let mut all = world.example(file);
    let cluster = all.iter_mut().find(|object| object["kind"] == "Cluster").unwrap();
    let groups = cluster["spec"]["workerNodeGroupConfigurations"].as_array_mut().unwrap();
    let mut held = groups[0].clone();
    let own = json!({"name": HELD.0, "count": 1, "kubernetesVersion": version, "machineGroupRef": {"name": machines}});
    set(&mut held, &own);
    groups.push(held);
    all
}

/// Waits until there are so many machines, so many of them of the new version, and all is as it was written.
async fn of_new_version(world: &World, (all, wanted): (usize, usize)) -> DynamicObject {
    world
        .within(LATER, &format!("{wanted} of {all} machines are of the new version"), async || {
            let machines = world.of_cluster("Machine", CLUSTER).await;
            let new = machines.iter().filter(|machine| machine.data["spec"]["version"] == NEW).count();
            (machines.len() == all && new == wanted).then_some(())
        })
        .await;
    world.settled(TEAM, CLUSTER).await
}

/// One minor further: control plane, network plugin, workers, in this order. A group that names its version stays behind, and
/// follows alone when that is raised.
async fn upgraded(world: &World) {
    world.apply_all(&with_held(world, "cluster.yaml", "1.31", "prod-1-31")).await;
    of_new_version(world, (4, 0)).await;
    let before = world.virtual_machines(CLUSTER);
    let planes = || async {
        let all = world.of_cluster("Machine", CLUSTER).await;
        let plane = |machine: &&DynamicObject| {
            machine.metadata.labels.as_ref().unwrap().contains_key("cluster.x-k8s.io/control-plane")
        };
        names(&all.iter().filter(plane).cloned().collect::<Vec<_>>())
    };
    let [old] = planes().await.into_iter().collect::<Vec<_>>().try_into().expect("one machine");
    let since = world.requests().last().expect("requests").at.clone();

    let files = with_held(world, "upgrade.yaml", "1.31", "prod-1-31");
    assert_eq!(rolled(&world.plan(&files)), ["control plane", "md-0"]);
    world.apply_all(&files).await;
    let cluster = of_new_version(world, (4, 3)).await;
    assert_eq!(cluster.data["status"]["cni"]["version"], "v1.16.5", "{}", cluster.data["status"]);

    let inside = world.provider.workload(CLUSTER).expect("an API server");
    let expected =
        ("images.example/cilium:v1.16.5".to_owned(), "images.example/operator-generic:v1.16.5".to_owned(), false);
    assert_eq!(plugin(&inside).await, expected);
    let mut there = nodes(&inside).await;
    there.sort();
    assert_eq!(there, [OLD, NEW, NEW, NEW].map(|version| (version.to_owned(), true)));
    let after = world.virtual_machines(CLUSTER);
    for machine in &after {
        let same = before.iter().any(|other| other.id == machine.id);
        assert_eq!(same, machine.name.starts_with(HELD.1), "{after:?}");
    }
    for machine in world.of_cluster("CloudStackMachine", CLUSTER).await {
        let held = machine.metadata.name.as_ref().is_some_and(|name| name.starts_with(HELD.1));
        assert_eq!(text(&machine, "/spec/template/name"), if held { "kube-1.31" } else { "kube-1.32" });
    }

    let log = world.provider.audit_log(CLUSTER).expect("an audit log");
    let (managing, inside) = (world.requests(), requests(&log));
    let first = |all: &[Asked], what: &str, fits: &dyn Fn(&Asked) -> bool| -> String {
        let found = all.iter().find(|one| one.at > since && one.writes() && fits(one));
        found.unwrap_or_else(|| panic!("nobody {what}")).at.clone()
    };
    let ours = |one: &Asked| one.agent.starts_with("berth");
    let set = |one: &Asked, name: &str| ours(one) && one.resource == "daemonsets" && one.name == name;
    let order = [
        (
            "the last machine of the old control plane was told to go",
            first(&managing, "deleted the old machine", &|one| {
                one.resource == "machines" && one.verb == "delete" && one.name == old
            }),
        ),
        (
            "the new network plugin was checked",
            first(&inside, "checked the plugin", &|one| set(one, "cilium-pre-flight-check")),
        ),
        ("the network plugin was changed", first(&inside, "changed the plugin", &|one| set(one, "cilium"))),
        (
            "the workers were changed",
            first(&managing, "changed the workers", &|one| {
                ours(one) && one.resource == "machinedeployments" && one.name == GROUP
            }),
        ),
    ];
    assert!(order.is_sorted_by(|a, b| a.1 < b.1), "{order:#?}");

    let files = with_held(world, "upgrade.yaml", "1.32", "prod-1-32");
    assert_eq!(rolled(&world.plan(&files)), [HELD.0]);
    world.apply_all(&files).await;
    of_new_version(world, (4, 4)).await;
    let raised = world.virtual_machines(CLUSTER);
    for machine in &raised {
        let same = after.iter().any(|other| other.id == machine.id);
        assert_eq!(same, !machine.name.starts_with(HELD.1), "{raised:?}");
    }
    world.apply_all(&world.example("upgrade.yaml")).await;
    of_new_version(world, (3, 3)).await;
}

/// More machines, another group, and both taken back: nothing else is replaced.
async fn grouped(world: &World) {
    let ids = || world.virtual_machines(CLUSTER).into_iter().map(|one| one.id).collect::<BTreeSet<_>>();
    let before = ids();
    world.apply_all(&world.example("groups.yaml")).await;
    world.within(LATER, "two more machines", async || (ids().len() == 5).then_some(())).await;
    world.settled(TEAM, CLUSTER).await;
    assert!(before.is_subset(&ids()), "nothing is replaced to have more");
    let checks = world.generated("MachineHealthCheck");
    assert!(checks.get_opt("prod-batch-worker-unhealthy").await.unwrap().is_some());

    let cluster = changes::of_two_roles(world).await;
    let cluster = changes::of_the_control_plane(world, &cluster).await;
    let cluster = changes::of_one_group(world, &cluster).await;
    let cluster = changes::of_nobody(world, &cluster).await;
    let cluster = changes::of_all(world, &cluster).await;
    changes::of_zones(world).await;
    changes::of_counts(world, &cluster).await;
    assert!(world.generated("MachineDeployment").get_opt("prod-batch").await.unwrap().is_none());
    assert!(checks.get_opt("prod-batch-worker-unhealthy").await.unwrap().is_none(), "its health check goes with it");
    let templates = names(&world.of_cluster("KubeadmConfigTemplate", CLUSTER).await);
    assert!(templates.iter().any(|name| name.starts_with("prod-md-0-")), "{templates:?}");
}
