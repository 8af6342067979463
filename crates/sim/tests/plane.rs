//! The real server and the real managers do what tests will trust them to do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]
#![allow(clippy::disallowed_methods, reason = "real processes run by the real clock")]

use kube::api::{Api, DeleteParams, DynamicObject};
use kube::core::GroupVersionKind;
use kube::discovery::ApiResource;
use serde_json::{Value, json};
use sim::plane::{self, Plane};
use std::path::Path;
use std::time::{Duration, Instant};

fn crd(group: &str, kind: &str) -> Value {
    let (singular, plural) = (kind.to_lowercase(), format!("{}s", kind.to_lowercase()));
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": singular},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
        },
    })
}

fn resource(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
}

async fn eventually<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "not seen within 60 s: {what}");
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
}

fn alive(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

#[tokio::test]
async fn a_child_goes_with_its_owner() {
    let Some(plane) = plane::for_test("a_child_goes_with_its_owner") else { return };
    if !plane.has_controllers() {
        eprintln!("SKIPPED a_child_goes_with_its_owner: this server runs without a garbage collector");
        return;
    }
    let client = plane.client().await.unwrap();
    plane::install_crds(&client, vec![crd("collect.test", "Owner"), crd("collect.test", "Child")]).await.unwrap();
    let object =
        |kind: &str, name: &str| json!({"apiVersion": "collect.test/v1", "kind": kind, "metadata": {"name": name}});
    let owner = plane::apply(&client, &object("Owner", "o")).await.unwrap();
    let mut child = object("Child", "c");
    child["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "collect.test/v1", "kind": "Owner", "name": "o", "uid": owner.metadata.uid}]);
    plane::apply(&client, &child).await.unwrap();

    let owners: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), "default", &resource("collect.test", "v1", "Owner", "owners"));
    let children: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), "default", &resource("collect.test", "v1", "Child", "childs"));
    assert!(children.get_opt("c").await.unwrap().is_some());
    owners.delete("o", &DeleteParams::default()).await.unwrap();
    eventually("the child is collected", async || children.get_opt("c").await.unwrap().is_none().then_some(())).await;
}

#[tokio::test]
async fn a_restart_keeps_data_and_address_and_a_drop_leaves_nothing() {
    if plane::for_test("a_restart_keeps_data_and_address_and_a_drop_leaves_nothing").is_none() {
        return;
    }
    let plane = Plane::start().unwrap();
    let (dir, first) = (plane.dir().to_path_buf(), plane.pid().unwrap());
    let client = plane.client().await.unwrap();
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept"}, "data": {"a": "b"}});
    plane::apply(&client, &map).await.unwrap();

    plane.restart().unwrap();
    let second = plane.pid().unwrap();
    assert_ne!(first, second);
    assert!(!alive(first));
    let maps: Api<DynamicObject> =
        Api::namespaced_with(client, "default", &resource("", "v1", "ConfigMap", "configmaps"));
    // The old client's connections are gone with the old process: one failure each is all it may show.
    let kept = eventually("the old client finds the object", async || maps.get_opt("kept").await.ok().flatten()).await;
    assert_eq!(kept.data["data"]["a"], "b");

    drop(plane);
    assert!(!alive(second));
    assert!(!dir.exists());
}

#[tokio::test]
async fn requests_are_counted_by_the_audit_log() {
    if plane::for_test("requests_are_counted_by_the_audit_log").is_none() {
        return;
    }
    let logs = tempfile::tempdir().unwrap();
    let audit = logs.path().join("audit.log");
    let options = plane::Options { audit_log: Some(audit.clone()), ..plane::Options::default() };
    let plane = Plane::start_with(options).unwrap();
    let mut config = plane.config().await.unwrap();
    config.headers.push((http::header::USER_AGENT, http::HeaderValue::from_static("counted/1")));
    let client = kube::Client::try_from(config).unwrap();
    for _ in 0..3 {
        client.apiserver_version().await.unwrap();
    }
    let count = || {
        let text = std::fs::read_to_string(&audit).unwrap_or_default();
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.filter(|line| line["userAgent"].as_str().is_some_and(|agent| agent.contains("counted/1"))).count()
    };
    eventually("three requests are logged", async || (count() >= 3).then_some(())).await;
    assert_eq!(count(), 3);
}

#[tokio::test]
async fn a_wrong_server_flag_is_told_with_the_servers_own_words() {
    if plane::for_test("a_wrong_server_flag_is_told_with_the_servers_own_words").is_none() {
        return;
    }
    let options = plane::Options { apiserver_args: vec!["--no-such-flag=1".into()], ..plane::Options::default() };
    let error = Plane::start_with(options).unwrap_err().to_string();
    assert!(error.contains("no-such-flag"), "{error}");
}

#[test]
fn the_plane_refuses_wrong_flags_by_name_and_writes_nothing() {
    let name = "the_plane_refuses_wrong_flags_by_name_and_writes_nothing";
    let bin = match plane::Server::find() {
        Ok(plane::Server::Plane(bin)) => bin,
        other => {
            assert!(!plane::required() || matches!(other, Ok(plane::Server::Assets(_))), "{other:?}");
            eprintln!("SKIPPED {name}: the plane is not used here");
            return;
        }
    };
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let data = data.to_str().unwrap();
    for (args, named) in [
        (vec![], "-dir"),
        (vec!["-dir", data, "-port", "70000"], "-port 70000"),
        (vec!["-dir", data, "-port", "many"], "many"),
        (vec!["-dir", data, "-gc-sync-period", "0s"], "-gc-sync-period"),
        (vec!["-dir", data, "-apiserver-arg", "feature-gates"], "feature-gates"),
        (vec!["-dir", data, "-no-such-flag"], "no-such-flag"),
        (vec!["-dir", data, "more"], "more"),
    ] {
        let output = std::process::Command::new(&bin).args(&args).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
        assert!(error.contains(named), "{args:?}: {error}");
    }
    assert!(!Path::new(data).exists());
}

#[tokio::test]
async fn real_cluster_api_managers_hand_out_an_address() {
    let name = "real_cluster_api_managers_hand_out_an_address";
    if plane::for_test(name).is_none() {
        return;
    }
    let plane = Plane::start().unwrap();
    let capi = match plane::capi(&plane).await {
        Err(error @ plane::PlaneError::NotBuilt { .. }) if !plane::required() => {
            eprintln!("SKIPPED {name}: {error}");
            return;
        }
        other => other.unwrap(),
    };
    let mut ipam = plane::ipam(&plane).await.unwrap();
    let client = plane.client().await.unwrap();
    let pool = json!({
        "apiVersion": "ipam.cluster.x-k8s.io/v1alpha2", "kind": "GlobalInClusterIPPool", "metadata": {"name": "pool"},
        "spec": {"addresses": ["10.9.9.10-10.9.9.12"], "prefix": 24, "gateway": "10.9.9.1"},
    });
    plane::apply(&client, &pool).await.unwrap();
    let claim = json!({
        "apiVersion": "ipam.cluster.x-k8s.io/v1beta2", "kind": "IPAddressClaim", "metadata": {"name": "claim"},
        "spec": {"poolRef": {"apiGroup": "ipam.cluster.x-k8s.io", "kind": "GlobalInClusterIPPool", "name": "pool"}},
    });
    plane::apply(&client, &claim).await.unwrap();
    let addresses: Api<DynamicObject> = Api::namespaced_with(
        client.clone(),
        "default",
        &resource("ipam.cluster.x-k8s.io", "v1beta2", "IPAddress", "ipaddresses"),
    );
    let address = eventually("the claim has an address", async || addresses.get_opt("claim").await.unwrap()).await;
    assert_eq!(address.data["spec"]["address"], "10.9.9.10");

    let mut bad = pool.clone();
    bad["metadata"]["name"] = json!("bad");
    bad["spec"]["addresses"] = json!(["not-an-address"]);
    let refusal = plane::apply(&client, &bad).await.unwrap_err().to_string();
    assert!(refusal.contains("not-an-address"), "the provider's webhook refuses: {refusal}");

    let pid = ipam.process().pid();
    drop(ipam);
    assert!(!alive(pid));
    drop(capi);
}

#[tokio::test]
async fn real_kubeadm_managers_judge_what_is_rendered_for_them() {
    let name = "real_kubeadm_managers_judge_what_is_rendered_for_them";
    if plane::for_test(name).is_none() {
        return;
    }
    let plane = Plane::start().unwrap();
    let core = match plane::capi(&plane).await {
        Err(error @ plane::PlaneError::NotBuilt { .. }) if !plane::required() => {
            eprintln!("SKIPPED {name}: {error}");
            return;
        }
        other => other.unwrap(),
    };
    let managers =
        [core, plane::kubeadm_bootstrap(&plane).await.unwrap(), plane::kubeadm_control_plane(&plane).await.unwrap()];
    let client = plane.client().await.unwrap();
    plane::install_crds(&client, plane::provider_definitions().unwrap()).await.unwrap();

    let template = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta3", "kind": "CloudStackMachineTemplate", "metadata": {"name": "small"},
        "spec": {"template": {"spec": {"offering": {"name": "Small"}, "template": {"name": "ubuntu"}}}},
    });
    plane::apply(&client, &template).await.unwrap();
    let mut control_plane = json!({
        "apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlane", "metadata": {"name": "one"},
        "spec": {
            "replicas": 1, "version": "v1.33.1",
            "machineTemplate": {"spec": {"infrastructureRef": {
                "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "CloudStackMachineTemplate", "name": "small",
            }}},
        },
    });
    plane::apply(&client, &control_plane).await.unwrap();
    control_plane["metadata"]["name"] = json!("two");
    control_plane["spec"]["replicas"] = json!(2);
    let refusal = plane::apply(&client, &control_plane).await.unwrap_err().to_string();
    assert!(refusal.contains("spec.replicas"), "an even number of stacked members is refused: {refusal}");
    drop(managers);
}
