//! Changes of a cluster that runs, one at a time, and exactly whose machines they replace.

use std::collections::BTreeSet;

use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, DynamicObject, ListParams};
use serde_json::{Value, json};
use sim::cloudstack::world::oracle::MachineFacts;

use crate::life::{CLUSTER, TEAM, rolled, set};
use crate::world::{ANYWHERE, LATER, SOON, World};

const GROUPS: &str = "workerNodeGroupConfigurations";
/// The machines of the control plane and of both groups.
const MACHINES: usize = 5;
/// Where the first group is, which has three machines.
const FIRST: &str = "/spec/workerNodeGroupConfigurations/0";
/// Where the second group is.
const BATCH: &str = "/spec/workerNodeGroupConfigurations/1";

/// The role of a machine, by its name.
fn role(machine: &MachineFacts) -> &'static str {
    let groups = ["batch", "md-0"].into_iter();
    let mut of = groups.filter(|group| machine.name.starts_with(&format!("{CLUSTER}-{group}-")));
    of.next().unwrap_or("control plane")
}

/// The machine configuration of the upgrade under another name.
fn config(world: &World, name: &str) -> Value {
    let mut own = world.example("upgrade.yaml").remove(0);
    own["metadata"]["name"] = json!(name);
    own
}

/// A cluster with fields of a part of it set, as a merge.
fn with(cluster: &Value, part: &str, patch: &Value) -> Value {
    let mut cluster = cluster.clone();
    set(cluster.pointer_mut(part).unwrap(), patch);
    cluster
}

/// What changes two roles replaces the machines of both and none of the third; gives the Cluster as it is then.
pub async fn of_two_roles(world: &World) -> Value {
    let mut cluster = world.example("groups.yaml").remove(0);
    cluster["spec"][GROUPS][1]["labels"] = json!({"tier": "batch"});
    cluster["spec"]["controlPlaneConfiguration"]["certSans"] = json!(["prod.example"]);
    replaces(world, std::slice::from_ref(&cluster), &["control plane", "batch"]).await;
    cluster
}

/// Arguments of its API server are for the control plane alone, and so is everything else that says how it runs; gives the
/// Cluster as it is then.
pub async fn of_the_control_plane(world: &World, cluster: &Value) -> Value {
    let mut cluster = cluster.clone();
    let plane = &mut cluster["spec"]["controlPlaneConfiguration"];
    plane["apiServerExtraArgs"] = json!({"v": "2"});
    plane["taints"] = json!([]);
    replaces(world, std::slice::from_ref(&cluster), &["control plane"]).await;
    let plane = world.generated("KubeadmControlPlane").get(CLUSTER).await.unwrap();
    for part in ["initConfiguration", "joinConfiguration"] {
        // Without the list kubeadm would give it the usual one.
        let node = &plane.data["spec"]["kubeadmConfigSpec"][part]["nodeRegistration"];
        assert_eq!(node["taints"], json!([]), "{part}: {node}");
    }

    let policy = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: Metadata\n  users: [somebody]\n";
    let plane = json!({"labels": {"tier": "front"}, "auditPolicyContent": policy,
        "taints": [{"key": "dedicated", "value": "front", "effect": "NoSchedule"}]});
    let patch = json!({"controlPlaneConfiguration": plane,
        "podIamConfig": {"serviceAccountIssuer": "https://issuer.example"},
        "identityProviderRefs": [{"kind": "OIDCConfig", "name": "login"}]});
    let login = json!({"apiVersion": format!("{ANYWHERE}/v1alpha1"), "kind": "OIDCConfig",
        "metadata": {"name": "login", "namespace": TEAM},
        "spec": {"clientId": "kubernetes", "issuerUrl": "https://login.example"}});
    let cluster = with(&cluster, "/spec", &patch);
    replaces(world, &[login, cluster.clone()], &["control plane"]).await;

    let plane = world.generated("KubeadmControlPlane").get(CLUSTER).await.unwrap();
    let config = &plane.data["spec"]["kubeadmConfigSpec"];
    let args = config["clusterConfiguration"]["apiServer"]["extraArgs"].as_array().unwrap();
    for (name, value) in [
        ("v", "2"),
        ("service-account-issuer", "https://issuer.example"),
        ("oidc-issuer-url", "https://login.example"),
        ("oidc-client-id", "kubernetes"),
    ] {
        assert!(args.contains(&json!({"name": name, "value": value})), "no {name} in {args:?}");
    }
    let files = config["files"].as_array().unwrap();
    assert!(files.iter().any(|file| file["content"] == policy), "{files:?}");
    for part in ["initConfiguration", "joinConfiguration"] {
        let node = &config[part]["nodeRegistration"];
        assert_eq!(node["taints"][0]["key"], "dedicated", "{part}: {node}");
        let labels = json!({"name": "node-labels", "value": "tier=front"});
        assert!(node["kubeletExtraArgs"].as_array().unwrap().contains(&labels), "{part}: {node}");
    }
    cluster
}

/// What the machines of one group are made of is changed: its own machines are replaced; gives the Cluster as it is then.
pub async fn of_one_group(world: &World, cluster: &Value) -> Value {
    let mut own = config(world, "prod-batch");
    let mut another = own["spec"]["users"][0].clone();
    another["name"] = json!("operator");
    own["spec"]["users"].as_array_mut().unwrap().push(another);
    let cluster = with(cluster, BATCH, &json!({"machineGroupRef": {"name": "prod-batch"}}));
    replaces(world, &[own.clone(), cluster.clone()], &["batch"]).await;
    // The same template, but by its id.
    let id = world.acs.with(|world, _| world.templates.iter().find(|one| one.name == "kube-1.32").unwrap().id.clone());
    own["spec"]["template"] = json!({"id": id});
    replaces(world, &[own.clone(), cluster.clone()], &["batch"]).await;

    let disk =
        json!({"name": "Small", "mountPath": "/data", "device": "/dev/vdb", "filesystem": "ext4", "label": "data"});
    let patch = json!({"computeOffering": {"name": "Large Instance"}, "diskOffering": disk,
        "userCustomDetails": {"sounds": "off"}, "symlinks": {"/var/log": "/data/log"}});
    set(&mut own["spec"], &patch);
    let taint = json!([{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}]);
    let cluster = with(&cluster, BATCH, &json!({"taints": taint}));
    replaces(world, &[own, cluster.clone()], &["batch"]).await;
    let machines = world.virtual_machines(CLUSTER);
    let [machine] = machines.iter().filter(|machine| role(machine) == "batch").collect::<Vec<_>>()[..] else {
        panic!("{machines:?}")
    };
    let (offering, disk) = world.acs.with(|world, _| {
        let made = &world.machines[&machine.id];
        let offering = world.offerings.iter().find(|one| one.id == made.offering).unwrap().name.clone();
        (offering, made.disk.as_ref().map(|(_, size)| *size))
    });
    assert_eq!((offering.as_str(), disk), ("Large Instance", Some(5)));
    let data = String::from_utf8_lossy(&machine.user_data);
    for part in ["LABEL=data", "ln -s /data/log /var/log", "key: dedicated"] {
        assert!(data.contains(part), "no {part} in:\n{data}");
    }
    let made = world.generated("CloudStackMachine").get(&machine.name).await.unwrap();
    assert_eq!(made.data["spec"]["details"]["sounds"], "off", "{}", made.data);
    cluster
}

/// What machines are not made of, and what says the same in another way, replaces nobody's; gives the Cluster as it is then.
pub async fn of_nobody(world: &World, cluster: &Value) -> Value {
    let scaling = async || {
        let group = world.generated("MachineDeployment").get("prod-md-0").await.unwrap();
        let all = group.metadata.annotations.unwrap_or_default();
        let most = all.get("cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size").cloned();
        (most, group.data["spec"]["replicas"].as_i64())
    };
    let with_most = |most: &str| (Some(most.to_owned()), Some(3));
    // There are more machines than the fewest: they stay, though nobody asks for just so many any more.
    let scaled = json!({"autoscalingConfiguration": {"minCount": 1, "maxCount": 5}});
    let cluster = with(cluster, FIRST, &scaled);
    replaces(world, std::slice::from_ref(&cluster), &[]).await;
    assert_eq!(scaling().await, with_most("5"));

    // The first group names the version that it has anyway, and a configuration of the same content.
    let mut cluster = with(&cluster, FIRST, &json!({"autoscalingConfiguration": {"maxCount": 6}}));
    cluster["spec"]["machineHealthCheck"] = json!({"nodeStartupTimeout": "30m"});
    let same = json!({"kubernetesVersion": "1.32", "machineGroupRef": {"name": "prod-copy"},
        "machineHealthCheck": {"unhealthyMachineTimeout": "7m"}});
    set(&mut cluster["spec"][GROUPS][0], &same);
    let mut secret = world.example("credentials.yaml").remove(0);
    secret["stringData"]["verify-ssl"] = json!("true");
    world.apply(&secret).await;
    replaces(world, &[config(world, "prod-copy"), cluster.clone()], &[]).await;
    assert_eq!(scaling().await, with_most("6"));
    let checks = world.generated("MachineHealthCheck");
    for (name, unhealthy) in
        [("prod-kcp-unhealthy", 300), ("prod-md-0-worker-unhealthy", 420), ("prod-batch-worker-unhealthy", 300)]
    {
        let check = checks.get(name).await.unwrap();
        let values = &check.data["spec"]["checks"];
        assert_eq!(values["nodeStartupTimeoutSeconds"], 1800, "{name}: {values}");
        assert_eq!(values["unhealthyNodeConditions"][0]["timeoutSeconds"], unhealthy, "{name}: {values}");
    }

    cluster.pointer_mut(FIRST).unwrap().as_object_mut().unwrap().remove("autoscalingConfiguration");
    replaces(world, std::slice::from_ref(&cluster), &[]).await;
    assert_eq!(scaling().await, (None, Some(3)));
    cluster
}

/// Where images come from is for every machine; gives the Cluster as it is then.
pub async fn of_all(world: &World, cluster: &Value) -> Value {
    let mirror = json!({"registryMirrorConfiguration": {"endpoint": "192.0.2.20"}});
    let cluster = with(cluster, "/spec", &mirror);
    replaces(world, std::slice::from_ref(&cluster), &["control plane", "md-0", "batch"]).await;
    for machine in world.virtual_machines(CLUSTER).iter().filter(|machine| role(machine) != "control plane") {
        let data = String::from_utf8_lossy(&machine.user_data);
        assert!(data.contains("192.0.2.20"), "{}:\n{data}", machine.name);
    }
    cluster
}

/// A zone more and a zone less: machines may land there or not, and none is replaced. Where a role has one machine only,
/// its owner is told that a zone cannot be emptied.
pub async fn of_zones(world: &World) {
    let one = world.example("datacenter.yaml").remove(0);
    let mut two = one.clone();
    let zones = two["spec"]["availabilityZones"].as_array_mut().unwrap();
    let mut second = zones[0].clone();
    (second["name"], second["zone"]["name"]) = (json!("az-2"), json!("zone-2"));
    zones.push(second);
    let infrastructure = world.generated("CloudStackCluster");
    for (datacenter, wanted) in [(two, vec!["az-1", "az-2"]), (one, vec!["az-1"])] {
        replaces(world, &[datacenter], &[]).await;
        let stored = infrastructure.get(CLUSTER).await.unwrap();
        let zones = stored.data["spec"]["failureDomains"].as_array().unwrap().iter();
        assert_eq!(zones.map(|zone| zone["name"].as_str().unwrap()).collect::<Vec<_>>(), wanted);
    }
    let events = Api::<Event>::all(world.client.clone());
    let told = world.within(SOON, "that the zone keeps its machines is told", async || {
        let all = events.list(&ListParams::default()).await.ok()?.items.into_iter();
        let mut all = all.filter(|event| event.reason.as_deref() == Some("ZoneRemovalBlocked"));
        all.find(|event| event.regarding.as_ref().is_some_and(|one| one.name.as_deref() == Some(CLUSTER)))
    });
    let note = told.await.note.unwrap_or_default();
    assert_eq!(note, "availability zone az-2 keeps its machines: the control plane has only one");
}

/// A control plane of three; then one of everything, without the second group: who stays is who was there.
pub async fn of_counts(world: &World, cluster: &Value) {
    let ids = || world.virtual_machines(CLUSTER).into_iter().map(|one| one.id).collect::<BTreeSet<_>>();
    let before = ids();
    let mut cluster = with(cluster, "/spec/controlPlaneConfiguration", &json!({"count": 3}));
    carried_out(world, std::slice::from_ref(&cluster), &[], MACHINES + 2).await;
    let most = ids();
    assert!(before.is_subset(&most), "nothing is replaced to have more");

    cluster["spec"]["controlPlaneConfiguration"]["count"] = json!(1);
    let groups = cluster["spec"][GROUPS].as_array_mut().unwrap();
    groups.truncate(1);
    groups[0]["count"] = json!(2);
    assert_eq!(rolled(&world.plan(std::slice::from_ref(&cluster))), Vec::<String>::new());
    world.apply(&cluster).await;
    let groups = world.generated("MachineDeployment");
    world
        .within(LATER, "the group and all that is too much are gone", async || {
            let there = groups.get_opt("prod-batch").await.ok()?.is_some();
            (!there && ids().len() == 3).then_some(())
        })
        .await;
    world.settled(TEAM, CLUSTER).await;
    assert!(ids().is_subset(&most), "nothing is replaced to have less");
}

/// What the cluster was carried out from.
fn inputs(cluster: &DynamicObject) -> Value {
    cluster.data.pointer("/status/inputsHash").cloned().unwrap_or_default()
}

/// Applies files, and waits until everything is carried out: the machines of these roles are others, as was told before, and
/// all others are the same.
async fn replaces(world: &World, files: &[Value], wanted: &[&str]) {
    carried_out(world, files, wanted, MACHINES).await;
}

/// The same where there are as many machines afterwards.
async fn carried_out(world: &World, files: &[Value], wanted: &[&str], after: usize) {
    assert_eq!(rolled(&world.plan(files)), wanted);
    let all = || world.virtual_machines(CLUSTER).into_iter();
    let before = inputs(&world.settled(TEAM, CLUSTER).await);
    let (old, kept): (Vec<_>, Vec<_>) = all().partition(|machine| wanted.contains(&role(machine)));
    assert_eq!(old.len() + kept.len(), MACHINES);
    assert!(wanted.iter().all(|wanted| old.iter().any(|machine| role(machine) == *wanted)), "{old:?}");
    world.apply_all(files).await;
    world
        .within(LATER, &format!("the machines of {wanted:?} are replaced"), async || {
            let gone = old.iter().all(|old| all().all(|machine| machine.id != old.id));
            (gone && all().len() == after).then_some(())
        })
        .await;
    let clusters = world.own("Cluster", TEAM);
    world
        .within(LATER, "it is carried out", async || {
            let cluster = clusters.get_opt(CLUSTER).await.ok()??;
            (inputs(&cluster) != before).then_some(())
        })
        .await;
    world.settled(TEAM, CLUSTER).await;
    let now: BTreeSet<String> = all().map(|machine| machine.id).collect();
    assert!(now.len() == after && kept.iter().all(|machine| now.contains(&machine.id)), "no other is replaced");
}
