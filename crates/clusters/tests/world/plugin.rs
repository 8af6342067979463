//! What changes do to the network plugin, and what its upgrades leave.

use std::time::Duration;

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
