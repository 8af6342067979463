//! What changes do: which machines are replaced, in which order, and that nothing else happens.

use clusters::change::{Action, Role};
use serde_json::{Value, json};
use sim::server::Server;

use crate::site::*;

fn template_of(server: &Server, group: &str) -> String {
    let group = server.get(GROUPS, SYSTEM, group).unwrap();
    group["spec"]["template"]["spec"]["infrastructureRef"]["name"].as_str().unwrap().to_owned()
}

fn group(name: &str, count: i64, machine: &str) -> Value {
    json!({"name": name, "count": count, "machineGroupRef": {"kind": "CloudStackMachineConfig", "name": machine}})
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_goes_through_the_control_plane_the_network_and_then_the_workers() {
    let (server, site) = world();
    apply(&server, &site);
    let _process = site.start(&server, site.config());
    ready(&server, "prod").await;
    let settings = |site: &Site| site.inside.get("configmaps", "kube-system", "cilium-config").unwrap()["data"].clone();
    assert!(settings(&site)["upgraded-from"].is_null(), "nothing was upgraded");
    let before = server.revision();
    let inner = site.inside.revision();
    change(&server, MACHINES, "m", |object| object["spec"]["template"] = json!({"name": "kube-1.32"}));
    change(&server, CLUSTERS, "prod", |object| {
        object["spec"]["kubernetesVersion"] = json!("1.32");
        object["spec"]["bundlesRef"] = reference(8);
    });
    ready(&server, "prod").await;
    let wanted = "v1.32.4-eks-1-32-8";
    let first = |resource: &str, at: &str| {
        let changes = server.changes(before);
        let found = changes.iter().find(|(key, _, _, object)| {
            key.resource == resource && object.pointer(at).and_then(Value::as_str) == Some(wanted)
        });
        found.map(|(_, revision, ..)| *revision).unwrap_or_else(|| panic!("{resource} never had {wanted}"))
    };
    let asked = first(PLANES, "/spec/version");
    let there = first(PLANES, "/status/version");
    let workers = first(GROUPS, "/spec/template/spec/version");
    assert!(asked < there && there < workers, "{asked} {there} {workers}");
    let inside: Vec<String> = site
        .inside
        .changes(inner)
        .iter()
        .filter(|(key, _, gone, _)| !gone && key.resource == "daemonsets.apps")
        .map(|(key, ..)| key.name.clone())
        .collect();
    let check = inside.iter().position(|name| name == "cilium-pre-flight-check").unwrap();
    assert!(inside[check..].iter().any(|name| name == "cilium"), "the check comes before the upgrade: {inside:?}");
    assert!(site.inside.get("daemonsets.apps", "kube-system", "cilium-pre-flight-check").is_none());
    let agent = site.inside.get("daemonsets.apps", "kube-system", "cilium").unwrap();
    assert_eq!(agent["spec"]["template"]["spec"]["containers"][0]["image"], "images.example/cilium:v1.17.1");
    assert_eq!(settings(&site)["upgraded-from"], "1.16", "the manifest for an upgrade from that minor was applied");
    let told = told_of(&server, "prod").await;
    assert!(told.contains(&"CNIUpgraded".to_owned()) && told.contains(&"TemplateReplaced".to_owned()), "{told:?}");
    assert_eq!(server.get(CLUSTERS, NS, "prod").unwrap()["status"]["cni"]["version"], "v1.17.1");
}

/// A group that names its version stays behind until that is raised, which is then nobody else's matter.
#[tokio::test(start_paused = true)]
async fn a_group_with_a_version_of_its_own_stays_behind_and_follows_alone() {
    let (server, site) = world();
    apply(&server, &site);
    server.put(machine("old", "kube-1.31", "Medium Instance")).unwrap();
    let groups = |held: Value| {
        let mut last = group("held", 1, held["machine"].as_str().unwrap());
        last["kubernetesVersion"] = held["version"].clone();
        move |object: &mut Value| {
            object["spec"]["workerNodeGroupConfigurations"] = json!([group("md-0", 2, "m"), last]);
        }
    };
    change(&server, CLUSTERS, "prod", groups(json!({"machine": "old", "version": "1.31"})));
    let _process = site.start(&server, site.config());
    ready(&server, "prod").await;
    let spec = |kind: &str, name: &str| server.get(kind, SYSTEM, name).unwrap()["spec"].clone();
    let version = |name: &str| spec(GROUPS, name)["template"]["spec"]["version"].clone();
    let held = spec(GROUPS, "prod-held");
    assert_eq!(version("prod-held"), "v1.31.4-eks-1-31-7");
    change(&server, MACHINES, "m", |object| object["spec"]["template"] = json!({"name": "kube-1.32"}));
    change(&server, CLUSTERS, "prod", |object| object["spec"]["kubernetesVersion"] = json!("1.32"));
    ready(&server, "prod").await;
    let new = "v1.32.4-eks-1-32-7";
    assert_eq!((spec(PLANES, "prod")["version"].clone(), version("prod-md-0")), (json!(new), json!(new)));
    assert_eq!(spec(GROUPS, "prod-held"), held);

    let raised = groups(json!({"machine": "m", "version": "1.32"}));
    let mut file = server.get(CLUSTERS, NS, "prod").unwrap();
    raised(&mut file);
    let [plan] = planned(&server, &[file.clone()]).try_into().unwrap();
    assert_eq!(rolled(&plan), [Role::Group("held".into())]);
    let others = [spec(PLANES, "prod"), spec(GROUPS, "prod-md-0")];
    change(&server, CLUSTERS, "prod", |object| object["spec"] = file["spec"].clone());
    ready(&server, "prod").await;
    assert_eq!(version("prod-held"), new);
    assert_eq!([spec(PLANES, "prod"), spec(GROUPS, "prod-md-0")], others);
}

/// Without a list of taints kubeadm gives the control plane its own, with an empty one none.
#[tokio::test(start_paused = true)]
async fn a_control_plane_without_any_taint_is_another_one_than_with_the_usual() {
    let (server, site) = world();
    apply(&server, &site);
    let _process = site.start(&server, site.config());
    ready(&server, "prod").await;
    let taints = |server: &Server| {
        let plane = server.get(PLANES, SYSTEM, "prod").unwrap();
        ["initConfiguration", "joinConfiguration"]
            .map(|part| plane["spec"]["kubeadmConfigSpec"][part]["nodeRegistration"].get("taints").cloned())
    };
    assert_eq!(taints(&server), [None, None]);
    for wanted in [Some(json!([])), None] {
        let choose = |object: &mut Value| {
            let plane = object["spec"]["controlPlaneConfiguration"].as_object_mut().unwrap();
            match &wanted {
                Some(taints) => drop(plane.insert("taints".to_owned(), taints.clone())),
                None => drop(plane.remove("taints")),
            }
        };
        let mut file = server.get(CLUSTERS, NS, "prod").unwrap();
        choose(&mut file);
        let [plan] = planned(&server, &[file]).try_into().unwrap();
        assert_eq!(rolled(&plan), [Role::ControlPlane], "{wanted:?}");
        change(&server, CLUSTERS, "prod", choose);
        let both = [wanted.clone(), wanted.clone()];
        assert!(server.wait_until(LIMIT, |server| taints(server) == both).await, "{:?}", taints(&server));
        ready(&server, "prod").await;
    }
    pass(60).await;
    let effects = server.effects();
    pass(3_600).await;
    assert_eq!(server.effects(), effects, "nobody runs in circles");
}

#[tokio::test(start_paused = true)]
async fn counts_scale_and_replace_nothing() {
    let (server, site) = world();
    apply(&server, &site);
    let _process = site.start(&server, site.config());
    ready(&server, "prod").await;
    let templates = server.list(TEMPLATES, SYSTEM).len() + server.list(CONFIGS, SYSTEM).len();
    change(&server, CLUSTERS, "prod", |object| {
        object["spec"]["controlPlaneConfiguration"]["count"] = json!(5);
        object["spec"]["workerNodeGroupConfigurations"][0]["count"] = json!(4);
    });
    ready(&server, "prod").await;
    assert_eq!(server.get(PLANES, SYSTEM, "prod").unwrap()["spec"]["replicas"], 5);
    assert_eq!(server.get(GROUPS, SYSTEM, "prod-md-0").unwrap()["spec"]["replicas"], 4);
    assert_eq!(server.list(TEMPLATES, SYSTEM).len() + server.list(CONFIGS, SYSTEM).len(), templates);
}

#[tokio::test(start_paused = true)]
async fn groups_come_and_go_with_all_that_is_theirs() {
    let (server, site) = world();
    apply(&server, &site);
    server.put(machine("large", "kube-1.31", "Large Instance")).unwrap();
    let _process = site.start(&server, site.config());
    ready(&server, "prod").await;
    let old = template_of(&server, "prod-md-0");
    change(&server, CLUSTERS, "prod", |object| {
        let groups = &mut object["spec"]["workerNodeGroupConfigurations"];
        *groups = json!([group("md-0", 2, "m"), group("more", 1, "large")]);
    });
    ready(&server, "prod").await;
    assert!(server.get(CHECKS, SYSTEM, "prod-more-worker-unhealthy").is_some());
    assert_eq!(template_of(&server, "prod-md-0"), old, "another group replaces nothing here");
    let foreign = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment",
        "metadata": {"name": "theirs", "namespace": SYSTEM, "labels": {"cluster.x-k8s.io/cluster-name": "prod"}},
        "spec": {"clusterName": "prod", "template": {"spec": {"infrastructureRef": {"name": old},
            "bootstrap": {"configRef": {"name": server.list(CONFIGS, SYSTEM)[0]["metadata"]["name"]}}}}}});
    server.put(foreign).unwrap();
    let mut templates = generated(&server);
    templates.retain(|name| name.contains("Template prod-more"));
    assert_eq!(templates.len(), 2);
    change(&server, CLUSTERS, "prod", |object| {
        object["spec"]["workerNodeGroupConfigurations"] = json!([group("md-0", 2, "m")]);
    });
    ready(&server, "prod").await;
    assert!(server.get(GROUPS, SYSTEM, "prod-more").is_none());
    assert!(server.get(CHECKS, SYSTEM, "prod-more-worker-unhealthy").is_none());
    assert!(server.get(GROUPS, SYSTEM, "theirs").is_some(), "what others made is left alone");
    let told = told_of(&server, "prod").await;
    assert!(
        told.contains(&"WorkerGroupDeleted".to_owned()) && told.contains(&"ForeignMachineDeployment".to_owned()),
        "{told:?}"
    );
    pass(3_600).await;
    assert!(!generated(&server).iter().any(|name| name.contains("Template prod-more")), "{:?}", generated(&server));
}

/// What cannot be deleted keeps nothing else, and is tried until it can.
#[tokio::test(start_paused = true)]
async fn a_group_that_cannot_be_deleted_keeps_no_other() {
    let (server, site) = world();
    apply(&server, &site);
    let groups = |all: Value| {
        change(&server, CLUSTERS, "prod", |object| object["spec"]["workerNodeGroupConfigurations"] = all);
    };
    groups(json!([group("md-0", 2, "m"), group("first", 1, "m"), group("second", 1, "m")]));
    let _process = site.start(&server, site.config());
    ready(&server, "prod").await;
    let refused = server.inject(
        sim::server::Rule::any().method("DELETE").path_contains("machinedeployments/prod-first").always(),
        sim::server::Action::Status(500),
    );
    groups(json!([group("md-0", 2, "m")]));
    let others = ["prod-first-worker-unhealthy", "prod-second-worker-unhealthy"];
    let gone = server.wait_until(LIMIT, |server| {
        server.get(GROUPS, SYSTEM, "prod-second").is_none()
            && others.iter().all(|name| server.get(CHECKS, SYSTEM, name).is_none())
    });
    assert!(gone.await, "{:?}", generated(&server));
    assert!(server.get(GROUPS, SYSTEM, "prod-first").is_some());
    server.stop_fault(refused);
    assert!(server.wait_until(LIMIT, |server| server.get(GROUPS, SYSTEM, "prod-first").is_none()).await);
    ready(&server, "prod").await;
}

#[tokio::test(start_paused = true)]
async fn another_offering_replaces_the_machines_of_its_roles_and_going_back_finds_the_first_template() {
    let (server, site) = world();
    apply(&server, &site);
    server.put(machine("w", "kube-1.31", "Medium Instance")).unwrap();
    change(&server, CLUSTERS, "prod", |object| {
        object["spec"]["workerNodeGroupConfigurations"] = json!([group("md-0", 2, "w"), group("md-1", 1, "m")]);
    });
    let _process = site.start(&server, site.config());
    ready(&server, "prod").await;
    let (first, other) = (template_of(&server, "prod-md-0"), template_of(&server, "prod-md-1"));
    let plane = server.get(PLANES, SYSTEM, "prod").unwrap();
    let offer = |name: &'static str| {
        change(&server, MACHINES, "w", |object| object["spec"]["computeOffering"] = json!({"name": name}));
    };
    // What is told before is what happens then.
    let [same] = planned(&server, &[machine("w", "kube-1.31", "Medium Instance")]).try_into().unwrap();
    assert!(same.objects.iter().all(|one| one.action == Action::Keep), "{:?}", same.objects);
    let [plan] = planned(&server, &[machine("w", "kube-1.31", "Large Instance")]).try_into().unwrap();
    assert_eq!(rolled(&plan), [Role::Group("md-0".into())]);
    let made = plan.objects.iter().find(|one| one.action == Action::Create).unwrap().name.clone();
    offer("Large Instance");
    assert!(server.wait_until(LIMIT, |server| template_of(server, "prod-md-0") != first).await);
    assert_eq!(template_of(&server, "prod-md-0"), made);
    ready(&server, "prod").await;
    assert_eq!(template_of(&server, "prod-md-1"), other);
    let same = server.get(PLANES, SYSTEM, "prod").unwrap();
    assert_eq!(same["metadata"]["generation"], plane["metadata"]["generation"], "the control plane is not touched");
    let replaced = || site.counted("berth_clusters_template_replacements_total", "");
    assert_eq!(replaced(), 1.0, "what is made for the first time replaces nothing");
    for (name, template, times) in [("Medium Instance", &first, 2.0), ("Large Instance", &made, 3.0)] {
        offer(name);
        assert!(server.wait_until(LIMIT, |server| template_of(server, "prod-md-0") == *template).await);
        assert_eq!(replaced(), times, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn zones_come_and_go_without_replacing_a_machine_and_a_role_of_one_is_told() {
    let (server, site) = world();
    apply(&server, &site);
    change(&server, CLUSTERS, "prod", |object| object["spec"]["workerNodeGroupConfigurations"][0]["count"] = json!(1));
    let _process = site.start(&server, site.config());
    ready(&server, "prod").await;
    let specs = |server: &Server| {
        let kept = [(PLANES, "prod"), (GROUPS, "prod-md-0"), (CAPI, "prod")];
        kept.map(|(kind, name)| server.get(kind, SYSTEM, name).unwrap()["spec"].clone())
    };
    let zones = |server: &Server| {
        let zones = server.get(PROVIDER, SYSTEM, "prod").unwrap()["spec"]["failureDomains"].clone();
        zones.as_array().unwrap().iter().map(|zone| zone["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let before = specs(&server);
    change(&server, DATACENTERS, "dc", |object| {
        let all = object["spec"]["availabilityZones"].as_array_mut().unwrap();
        let mut second = all[0].clone();
        second["name"] = json!("az-2");
        second["zone"] = json!({"name": "zone-2", "network": {"name": "shared"}});
        all.push(second);
    });
    assert!(server.wait_until(LIMIT, |server| zones(server) == ["az-1", "az-2"]).await, "{:?}", zones(&server));
    assert!(!events(&server, "prod").contains(&"ZoneRemovalBlocked".to_owned()));
    change(&server, DATACENTERS, "dc", |object| {
        object["spec"]["availabilityZones"].as_array_mut().unwrap().truncate(1);
    });
    assert!(server.wait_until(LIMIT, |server| zones(server) == ["az-1"]).await, "{:?}", zones(&server));
    ready(&server, "prod").await;
    assert_eq!(specs(&server), before);
    assert!(told_of(&server, "prod").await.contains(&"ZoneRemovalBlocked".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn autoscaling_takes_the_number_out_of_our_hands() {
    let (server, site) = world();
    apply(&server, &site);
    let _process = site.start(&server, site.config());
    ready(&server, "prod").await;
    change(&server, CLUSTERS, "prod", |object| {
        object["spec"]["workerNodeGroupConfigurations"][0]["autoscalingConfiguration"] =
            json!({"minCount": 1, "maxCount": 5});
    });
    ready(&server, "prod").await;
    let group = server.get(GROUPS, SYSTEM, "prod-md-0").unwrap();
    assert!(group["spec"]["replicas"].is_null());
    assert_eq!(group["metadata"]["annotations"]["cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"], "5");
    server.edit(GROUPS, SYSTEM, "prod-md-0", |group| group["spec"]["replicas"] = json!(4)).unwrap();
    pass(1_300).await;
    assert_eq!(server.get(GROUPS, SYSTEM, "prod-md-0").unwrap()["spec"]["replicas"], 4, "it is the autoscaler's");
    assert!(is_ready(&server, "prod"));
}

#[tokio::test(start_paused = true)]
async fn what_somebody_changes_of_generated_objects_is_set_back() {
    let (server, site) = world();
    apply(&server, &site);
    let _process = site.start(&server, site.config());
    ready(&server, "prod").await;
    server.edit(GROUPS, SYSTEM, "prod-md-0", |group| group["spec"]["replicas"] = json!(9)).unwrap();
    let back =
        server.wait_until(LIMIT, |server| server.get(GROUPS, SYSTEM, "prod-md-0").unwrap()["spec"]["replicas"] == 2);
    assert!(back.await);
    server.delete(CHECKS, SYSTEM, "prod-kcp-unhealthy");
    assert!(server.wait_until(LIMIT, |server| server.get(CHECKS, SYSTEM, "prod-kcp-unhealthy").is_some()).await);
    site.inside.delete("daemonsets.apps", "kube-system", "cilium");
    let installed =
        site.inside.wait_until(LIMIT, |inside| inside.get("daemonsets.apps", "kube-system", "cilium").is_some());
    assert!(installed.await, "at the next look");
    assert!(told_of(&server, "prod").await.contains(&"DriftRepaired".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_of_the_management_cluster_replaces_no_machine() {
    let (server, site) = world();
    apply(&server, &site);
    let process = site.start(&server, site.config());
    ready(&server, "prod").await;
    let version = |server: &Server| server.get(PLANES, SYSTEM, "prod").unwrap()["spec"]["version"].clone();
    let before = version(&server);
    change(&server, CLUSTERS, "mgmt", |object| object["spec"]["bundlesRef"] = reference(8));
    pass(1_300).await;
    assert_eq!(version(&server), before);
    drop(process);
    let _process = site.start(&server, site.config());
    pass(1_300).await;
    change(&server, CLUSTERS, "prod", |object| {
        object["spec"]["workerNodeGroupConfigurations"][0]["count"] = json!(3);
    });
    ready(&server, "prod").await;
    assert_eq!(version(&server), before, "another number is no other version");
    assert_eq!(server.get(CLUSTERS, NS, "prod").unwrap()["status"]["resolvedBundles"]["number"], 7);
}

#[tokio::test(start_paused = true)]
async fn a_control_plane_that_is_gone_comes_back_as_it_was() {
    let (server, site) = world();
    apply(&server, &site);
    let _process = site.start(&server, site.config());
    ready(&server, "prod").await;
    let before = server.get(PLANES, SYSTEM, "prod").unwrap()["spec"]["version"].clone();
    change(&server, CLUSTERS, "mgmt", |object| object["spec"]["bundlesRef"] = reference(8));
    server.delete(PLANES, SYSTEM, "prod");
    assert!(server.wait_until(LIMIT, |server| server.get(PLANES, SYSTEM, "prod").is_some()).await);
    assert_eq!(server.get(PLANES, SYSTEM, "prod").unwrap()["spec"]["version"], before);
}
