//! What wakes a cluster, and what does not.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::json;
use sim::server::{Action, Entry, Rule};

use crate::site::*;

/// A cluster that is ready and has come to rest.
async fn at_rest() -> (sim::server::Server, Site, tokio::task::JoinSet<()>) {
    let (server, site) = world();
    apply(&server, &site);
    let process = site.start(&server, site.config());
    ready(&server, "prod").await;
    pass(60).await;
    (server, site, process)
}

#[tokio::test(start_paused = true)]
async fn what_is_told_of_a_datacenter_wakes_a_cluster_only_if_it_decides_by_it() {
    let (server, site, _process) = at_rest().await;
    let before = site.passes();
    // When it was looked at last, what it is made of, how it is labelled and who else owns it: all for people.
    change(&server, DATACENTERS, "dc", |object| {
        object["status"]["lastValidated"] = json!("2031-01-01T00:00:00Z");
        object["status"]["conditions"][0]["message"] = json!("looked at");
        object["status"]["availabilityZones"][0]["networkType"] = json!("L2");
        object["metadata"]["labels"] = json!({"team": "a"});
        let owners = object["metadata"]["ownerReferences"].as_array_mut().unwrap();
        owners.push(json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "y"}));
    });
    pass(5).await;
    assert_eq!(site.passes(), before, "nobody is woken");
    // Whoever it does not name as an owner any more is.
    change(&server, DATACENTERS, "dc", |object| object["metadata"]["ownerReferences"] = json!([]));
    let named = server.wait_until(Duration::from_secs(5), |server| {
        server.get(DATACENTERS, NS, "dc").unwrap()["metadata"]["ownerReferences"][0]["name"] == "prod"
    });
    assert!(named.await, "it is an owner again");
    pass(30).await;
    let before = site.passes();
    change(&server, DATACENTERS, "dc", |object| object["status"]["specValid"] = json!(false));
    pass(1).await;
    assert!(site.passes() > before, "whether it can be used matters");
}

#[tokio::test(start_paused = true)]
async fn labels_and_owners_of_a_machine_configuration_wake_only_whom_they_do_not_name() {
    let (server, site, _process) = at_rest().await;
    let before = site.passes();
    change(&server, MACHINES, "m", |object| {
        object["metadata"]["labels"] = json!({"team": "a"});
        let owners = object["metadata"]["ownerReferences"].as_array_mut().unwrap();
        owners.push(json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "y"}));
    });
    pass(5).await;
    assert_eq!(site.passes(), before, "nobody is woken");
    change(&server, MACHINES, "m", |object| object["metadata"]["ownerReferences"] = json!([]));
    let named = server.wait_until(Duration::from_secs(5), |server| {
        server.get(MACHINES, NS, "m").unwrap()["metadata"]["ownerReferences"][0]["name"] == "prod"
    });
    assert!(named.await, "it is an owner again");
}

#[tokio::test(start_paused = true)]
async fn an_edited_manifest_of_the_network_plugin_is_applied_at_once() {
    let (server, site, _process) = at_rest().await;
    let tunnel = |inside: &sim::server::Server| {
        inside.get("configmaps", "kube-system", "cilium-config").unwrap()["data"]["tunnel"].clone()
    };
    assert_eq!(tunnel(&site.inside), json!(null));
    let map = "cilium-v1.16.5";
    // Other maps are nobody's business, and so are those of bundles that no cluster uses.
    let before = site.passes();
    server
        .put(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other", "namespace": SYSTEM}}))
        .unwrap();
    server.edit("configmaps", SYSTEM, "cilium-v1.17.1", |map| map["metadata"]["labels"] = json!({"a": "b"})).unwrap();
    pass(5).await;
    assert_eq!(site.passes(), before, "nobody is woken");
    server
        .edit("configmaps", SYSTEM, map, |map| {
            let text = map["data"]["manifest.yaml"].as_str().unwrap();
            map["data"]["manifest.yaml"] =
                json!(text.replace("{enable-policy: default", "{enable-policy: default, tunnel: vxlan"));
        })
        .unwrap();
    let applied = site.inside.wait_until(Duration::from_secs(5), |inside| tunnel(inside) == "vxlan").await;
    assert!(applied, "not before the next look: {:?}", tunnel(&site.inside));
    pass(60).await;
    let effects = server.effects() + site.inside.effects();
    pass(3_600).await;
    assert_eq!(server.effects() + site.inside.effects(), effects);
    assert!(is_ready(&server, "prod"));
}

#[tokio::test(start_paused = true)]
async fn a_manifest_that_comes_late_is_used_at_once() {
    let (server, site) = world();
    server.delete("configmaps", SYSTEM, "cilium-v1.16.5");
    apply(&server, &site);
    let _process = site.start(&server, site.config());
    let told = server.wait_until(LIMIT, |server| {
        condition(server, "prod", "DefaultCNIConfigured").2 == "ConfigMap eksa-system/cilium-v1.16.5 not found"
    });
    assert!(told.await, "{:?}", condition(&server, "prod", "DefaultCNIConfigured"));
    // Without a word it looks every now and then; it has just done so.
    let looked = site.passes();
    while site.passes() == looked {
        pass(1).await;
    }
    server.put(manifests("v1.16.5")).unwrap();
    let installed = site
        .inside
        .wait_until(Duration::from_secs(3), |inside| inside.get("daemonsets.apps", "kube-system", "cilium").is_some());
    assert!(installed.await);
    ready(&server, "prod").await;
}

/// Nothing is read for whoever writes bundles but in the namespace of the system.
#[tokio::test(start_paused = true)]
async fn a_manifest_in_another_namespace_is_told_on_the_cluster_and_not_read() {
    let (server, site) = world();
    server.namespace("other");
    let mut elsewhere = manifests("v1.16.5");
    elsewhere["metadata"]["namespace"] = json!("other");
    server.put(elsewhere).unwrap();
    let mut named = bundles(7, "v1.16.5");
    for entry in named["spec"]["versionsBundles"].as_array_mut().unwrap() {
        entry["cilium"]["manifestConfigMapRef"]["namespace"] = json!("other");
    }
    server.put(named).unwrap();
    apply(&server, &site);
    let _process = site.start(&server, site.config());
    let said = ("False", "DefaultCNIUpgradeInProgress", "the bundle names no manifest of Cilium in eksa-system");
    let told = server.wait_until(LIMIT, |server| {
        let (state, reason, message) = condition(server, "prod", "DefaultCNIConfigured");
        (state.as_str(), reason.as_str(), message.as_str()) == said
    });
    assert!(told.await, "{:?}", condition(&server, "prod", "DefaultCNIConfigured"));
    let asked = |entry: &Entry| entry.client == "clusters" && entry.path.contains("/namespaces/other/configmaps");
    assert!(!server.log().iter().any(asked));
    server.put(bundles(7, "v1.16.5")).unwrap();
    ready(&server, "prod").await;
}

/// A client whose look failed, or never came back, may be made of a kubeconfig of yesterday.
#[tokio::test(start_paused = true)]
async fn after_a_look_inside_that_failed_the_cluster_is_entered_anew() {
    for action in [Action::Refuse, Action::Hang] {
        let (server, site, _process) = at_rest().await;
        let opened = || site.opened.load(Ordering::SeqCst);
        assert_eq!(opened(), 1, "one client for many looks");
        site.inside.inject(Rule::any().client("inside").method("GET").times(1), action.clone());
        change(&server, CLUSTERS, "prod", |object| {
            object["spec"]["workerNodeGroupConfigurations"][0]["count"] = json!(3);
        });
        let anew = server.wait_until(LIMIT, |_| opened() == 2).await;
        assert!(anew, "{action:?}");
        ready(&server, "prod").await;
        pass(600).await;
        assert_eq!(opened(), 2, "{action:?}: and kept again");
    }
}
