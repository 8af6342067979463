//! What changes do: which machines are replaced, in which order, and that nothing else happens.

use std::time::Duration;

use clusters::change::{Action, Role};
use serde_json::{Value, json};
use sim::server::{Kind, Server};

use crate::site::*;

const CHECK: &str = "cilium-pre-flight-check";
const WORKLOADS: [&str; 2] = ["daemonsets.apps", "deployments.apps"];

/// The check before an upgrade to a version, passed, as an upgrade leaves it that is broken off.
fn leave_check(inside: &Server, cilium: &str) {
    for kind in ["DaemonSet", "Deployment"] {
        let image = format!("images.example/cilium:{cilium}");
        inside
            .put(json!({"apiVersion": "apps/v1", "kind": kind,
                "metadata": {"name": CHECK, "namespace": "kube-system"},
                "spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}},
                "status": {"observedGeneration": 1, "numberReady": 2, "readyReplicas": 2}}))
            .unwrap();
    }
}

fn has_check(inside: &Server) -> bool {
    WORKLOADS.iter().any(|kind| inside.get(kind, "kube-system", CHECK).is_some())
}

fn use_bundle(server: &Server, number: i64) {
    change(server, CLUSTERS, "prod", |object| object["spec"]["bundlesRef"] = reference(number));
}

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

/// Whether the bundle has a check to begin with or not.
#[tokio::test(start_paused = true)]
async fn a_network_plugin_that_does_not_run_everywhere_is_not_upgraded() {
    let (_server, site) = world();
    let workload = |kind: &str, name: &str| {
        json!({"apiVersion": "apps/v1", "kind": kind,
            "metadata": {"name": name, "namespace": "kube-system", "labels": {"clusters.berth.dev/managed": "true"}},
            "spec": {"template": {"spec": {"containers": [{"name": "c", "image": "images.example/old:v1"}]}}}})
    };
    for (kind, name) in [("DaemonSet", "cilium"), ("Deployment", "cilium-operator")] {
        site.inside.put(workload(kind, name)).unwrap();
    }
    let client = site.inside.client("test").kube();
    let none: &[Value] = &[];
    let check = [workload("DaemonSet", "cilium-pre-flight-check")];
    for (ready, checks, wanted) in [
        (1, none, None),
        (1, check.as_slice(), None),
        (2, check.as_slice(), None),
        // With nothing to wait for it goes on at once.
        (2, none, Some(true)),
    ] {
        let status = json!({"observedGeneration": 99, "desiredNumberScheduled": 2, "numberReady": ready,
            "updatedNumberScheduled": 2});
        site.inside.edit("daemonsets.apps", "kube-system", "cilium", |object| object["status"] = status).unwrap();
        let seen = clusters::inside::look(&client, Some(checks), &[]).await.unwrap().seen.unwrap();
        assert_eq!((seen.ready, seen.preflight), (ready == 2, wanted), "{ready} ready, {} checks", checks.len());
    }
}

/// An apply leaves containers and ports that others own beside the new ones; with an image of the version before, the plugin
/// would be upgraded for ever.
#[tokio::test(start_paused = true)]
async fn an_upgrade_leaves_nothing_of_the_version_before_whoever_put_it_there() {
    let (server, site) = world();
    // Lists as a real server merges them.
    let pods = Kind::namespaced("apps", "v1", "DaemonSet", "daemonsets");
    let pods = pods.list_map("spec.template.spec.containers", &["name"]);
    site.inside.register(pods.list_map("spec.template.spec.initContainers", &["name"]));
    let services = Kind::namespaced("", "v1", "Service", "services");
    site.inside.register(services.list_map("spec.ports", &["port", "protocol"]));
    let service = "apiVersion: v1\nkind: Service\nmetadata: {name: peer, namespace: kube-system, labels: {part: peer}}\n\
        spec: {selector: {app: cilium}, ports: [{name: peer, port: 443, protocol: TCP}]}\n";
    server
        .edit("configmaps", SYSTEM, "cilium-v1.17.1", |map| {
            for key in ["manifest.yaml", "manifest-from-1.16.yaml"] {
                map["data"][key] = json!(format!("{}{service}", map["data"][key].as_str().unwrap()));
            }
        })
        .unwrap();
    apply(&server, &site);
    let _process = site.start(&server, site.config());
    ready(&server, "prod").await;
    let get = |kind: &str, name: &str| site.inside.get(kind, "kube-system", name).unwrap();
    site.inside
        .edit("daemonsets.apps", "kube-system", "cilium", |agent| {
            agent["metadata"]["labels"]["team"] = json!("net");
            let clean = json!([{"name": "clean", "image": "images.example/cilium:v1.16.5"}]);
            agent["spec"]["template"]["spec"]["initContainers"] = clean;
        })
        .unwrap();
    let peer = json!({"name": "peer", "port": 443, "protocol": "TCP"});
    site.inside
        .put(json!({"apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "peer", "namespace": "kube-system", "labels": {"team": "net"}},
            "spec": {"selector": {"app": "cilium"}, "clusterIP": "10.96.0.77", "clusterIPs": ["10.96.0.77"],
                "ports": [peer, {"name": "old", "port": 9999, "protocol": "TCP"}]}}))
        .unwrap();
    let uids = || [get("daemonsets.apps", "cilium"), get("services", "peer")].map(|one| one["metadata"]["uid"].clone());
    let before = uids();
    use_bundle(&server, 8);
    ready(&server, "prod").await;
    assert_eq!(uids(), before);
    let agent = get("daemonsets.apps", "cilium");
    let pods = &agent["spec"]["template"]["spec"];
    assert_eq!(pods["containers"][0]["image"], "images.example/cilium:v1.17.1");
    assert!(pods["initContainers"].is_null(), "{pods}");
    assert_eq!(agent["metadata"]["labels"], json!({"team": "net", "clusters.berth.dev/managed": "true"}));
    let service = get("services", "peer");
    assert_eq!(service["metadata"]["labels"], json!({"team": "net", "part": "peer"}));
    let wanted = json!({"selector": {"app": "cilium"}, "clusterIP": "10.96.0.77", "clusterIPs": ["10.96.0.77"],
        "ports": [peer]});
    assert_eq!(service["spec"], wanted);
    pass(60).await;
    let effects = site.inside.effects();
    pass(3_600).await;
    assert_eq!(site.inside.effects(), effects, "nobody runs in circles");
}

#[tokio::test(start_paused = true)]
async fn the_check_of_another_upgrade_lets_no_upgrade_begin() {
    let (server, site) = world();
    apply(&server, &site);
    let _process = site.start(&server, site.config());
    ready(&server, "prod").await;
    leave_check(&site.inside, "v1.16.9");
    let begun = site.inside.revision();
    use_bundle(&server, 8);
    ready(&server, "prod").await;
    let changes = site.inside.changes(begun);
    let first = |name: &str, ready: bool| {
        let found = changes.iter().find(|(key, _, gone, object)| {
            let image = &object["spec"]["template"]["spec"]["containers"][0]["image"];
            !gone
                && key.resource == "daemonsets.apps"
                && key.name == name
                && image == "images.example/cilium:v1.17.1"
                && (!ready || object["status"]["numberReady"] == 2)
        });
        found.map(|(_, revision, ..)| *revision)
    };
    let (checked, upgraded) = (first(CHECK, true), first("cilium", false));
    assert!(checked.is_some() && checked < upgraded, "checked at {checked:?}, upgraded at {upgraded:?}");
    assert!(!has_check(&site.inside));
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_is_lost_during_its_upgrade_comes_back_without_the_check() {
    let (server, site) = world();
    apply(&server, &site);
    let _process = site.start(&server, site.config());
    ready(&server, "prod").await;
    leave_check(&site.inside, "v1.17.1");
    assert!(site.inside.delete("daemonsets.apps", "kube-system", "cilium"));
    use_bundle(&server, 8);
    ready(&server, "prod").await;
    assert!(site.inside.get("daemonsets.apps", "kube-system", "cilium").is_some());
    assert!(!has_check(&site.inside), "it goes before anything else is done");
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
async fn settings_of_the_network_plugin_are_applied_and_skipped_when_asked() {
    let (server, site) = world();
    apply(&server, &site);
    let _process = site.start(&server, site.config());
    ready(&server, "prod").await;
    let policy = |site: &Site| {
        site.inside.get("configmaps", "kube-system", "cilium-config").unwrap()["data"]["enable-policy"].clone()
    };
    let started = |site: &Site| {
        let agent = site.inside.get("daemonsets.apps", "kube-system", "cilium").unwrap();
        agent["spec"]["template"]["metadata"]["annotations"]["clusters.berth.dev/settings-hash"].clone()
    };
    let before = started(&site);
    change(&server, CLUSTERS, "prod", |object| {
        object["spec"]["clusterNetwork"]["cniConfig"]["cilium"] = json!({"policyEnforcementMode": "always"});
    });
    ready(&server, "prod").await;
    assert_eq!(policy(&site), "always");
    assert_ne!(started(&site), before, "pods start anew with other settings");
    assert!(site.inside.get("networkpolicies.networking.k8s.io", "kube-system", "allow-all-ingress-egress").is_some());
    change(&server, CLUSTERS, "prod", |object| {
        object["spec"]["clusterNetwork"]["cniConfig"]["cilium"] = json!({"skipUpgrade": true});
        object["spec"]["bundlesRef"] = reference(8);
    });
    ready(&server, "prod").await;
    let (state, reason, _) = condition(&server, "prod", "DefaultCNIConfigured");
    assert_eq!((state.as_str(), reason.as_str()), ("False", "SkipUpgradesForDefaultCNIConfigured"));
    assert_eq!(policy(&site), "always", "nothing is touched");
}

#[tokio::test(start_paused = true)]
async fn a_bundle_without_a_network_plugin_is_told_until_it_has_one() {
    let (server, site) = world();
    let whole = bundles(7, "v1.16.5")["spec"].clone();
    let edit = |spec: Value| {
        server.edit("bundles.anywhere.eks.amazonaws.com", SYSTEM, "bundles-7", |object| object["spec"] = spec).unwrap();
    };
    let mut bare = whole.clone();
    for entry in bare["versionsBundles"].as_array_mut().unwrap() {
        entry.as_object_mut().unwrap().remove("cilium");
    }
    edit(bare);
    apply(&server, &site);
    let _process = site.start(&server, site.config());
    let said = "unsupported CNI: the bundle has no Cilium for Kubernetes 1.31";
    let told = server.wait_until(LIMIT, |server| condition(server, "prod", "DefaultCNIConfigured").2 == said).await;
    assert!(told, "{:?}", condition(&server, "prod", "DefaultCNIConfigured"));
    assert!(server.get(GROUPS, SYSTEM, "prod-md-0").is_none(), "workers wait for it");
    edit(whole);
    ready(&server, "prod").await;
}

#[tokio::test(start_paused = true)]
async fn a_setting_of_the_network_plugin_that_is_taken_back_goes_within_seconds() {
    let (server, site) = world();
    apply(&server, &site);
    let _process = site.start(&server, site.config());
    ready(&server, "prod").await;
    let choose = |cilium: Value| {
        change(&server, CLUSTERS, "prod", |object| object["spec"]["clusterNetwork"]["cniConfig"]["cilium"] = cilium);
    };
    let has = |inside: &Server| {
        inside.get("configmaps", "kube-system", "cilium-config").unwrap()["data"]["egress-masquerade-interfaces"]
            .clone()
    };
    let started = || {
        let agent = site.inside.get("daemonsets.apps", "kube-system", "cilium").unwrap();
        agent["spec"]["template"]["metadata"]["annotations"]["clusters.berth.dev/settings-hash"].clone()
    };
    let before = started();
    choose(json!({"egressMasqueradeInterfaces": "eth0"}));
    ready(&server, "prod").await;
    assert_eq!(has(&site.inside), "eth0");
    assert_ne!(started(), before);
    choose(json!({}));
    let gone = site.inside.wait_until(Duration::from_secs(5), |inside| has(inside).is_null()).await;
    assert!(gone, "{}", has(&site.inside));
    ready(&server, "prod").await;
    assert_eq!(started(), before, "pods start anew without it");
    // The same key from somebody else is theirs.
    let key = "egress-masquerade-interfaces";
    site.inside.edit("configmaps", "kube-system", "cilium-config", |map| map["data"][key] = json!("eth1")).unwrap();
    pass(30).await;
    let effects = site.inside.effects();
    pass(3_600).await;
    assert_eq!((site.inside.effects(), has(&site.inside)), (effects, json!("eth1")), "nobody runs in circles");
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
async fn settings_that_others_add_to_the_network_plugin_are_theirs() {
    let (server, site) = world();
    apply(&server, &site);
    let _process = site.start(&server, site.config());
    ready(&server, "prod").await;
    site.inside
        .edit("configmaps", "kube-system", "cilium-config", |map| map["data"]["tunnel"] = json!("geneve"))
        .unwrap();
    pass(30).await;
    let effects = site.inside.effects();
    pass(3_600).await;
    assert_eq!(site.inside.effects(), effects, "nobody runs in circles");
    assert!(is_ready(&server, "prod"));
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
