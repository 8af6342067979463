//! The hooks of the real binary: served before anything else is there, with certificates of either make.

use std::path::Path;

use k8s_openapi::api::core::v1::Secret;
use kube::api::Api;
use serde_json::json;
use sim::plane;

use crate::admission::put;
use crate::call::call;
use crate::support::{Operator, SOON, World, within};

/// A kubeconfig of a server that is not there.
fn nowhere(dir: &Path) -> std::path::PathBuf {
    let server = format!("https://127.0.0.1:{}", plane::free_port().unwrap());
    let config = json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": server}}], "users": [{"name": "c", "user": {}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}]});
    let path = dir.join("kubeconfig");
    std::fs::write(&path, config.to_string()).unwrap();
    path
}

#[tokio::test]
async fn hooks_are_answered_and_the_pod_is_ready_before_any_api_server_answers() {
    let dir = tempfile::tempdir().unwrap();
    let port = plane::free_port().unwrap();
    let args = [
        "--controllers",
        "vip",
        "--runtime-extension-bind-host",
        "127.0.0.1",
        "--runtime-extension-port",
        &port.to_string(),
        "--runtime-extension-cert-dir",
        dir.path().to_str().unwrap(),
    ];
    let mut operator = Operator::start_as(&nowhere(dir.path()), &args);
    // In the end only the certificate is waited for.
    let (status, text) = within(SOON, "only the certificate is missing", async || {
        let said = operator.readyz().await;
        said.filter(|(_, text)| text.contains("[-]hook certificate") && text.matches("[-]").count() == 1)
    })
    .await;
    assert_eq!(status, 503, "{text}");
    let pair = rcgen::generate_simple_self_signed(["hooks.test".to_owned()]).unwrap();
    put(dir.path(), &pair.cert.pem(), &pair.signing_key.serialize_pem());
    operator.ready().await;
    let (status, text) = operator.says("[~]api server").await;
    assert_eq!(status, 200, "{text}");

    let authority = pair.cert.pem();
    let told = call("hooks.test", port, &authority, "discovery", &json!({})).await.expect("an answer");
    let names: Vec<&str> = told["handlers"].as_array().unwrap().iter().filter_map(|h| h["name"].as_str()).collect();
    assert_eq!(names.len(), 5, "{told}");
    // What cannot be known yet delays a cluster; it does not fail it.
    let cluster = json!({"metadata": {"name": "prod", "namespace": "team-a", "uid": "u"},
        "spec": {"topology": {"classRef": {"name": "c"}, "version": "v1.33.1"}}});
    let path = "beforeclustercreate/vip-allocator-before-create";
    let answer = call("hooks.test", port, &authority, path, &json!({ "cluster": cluster })).await.expect("an answer");
    assert_eq!(
        (&answer["status"], answer["retryAfterSeconds"].as_i64() > Some(0)),
        (&json!("Success"), true),
        "{answer}"
    );
    operator.stop().await;
}

#[tokio::test]
async fn a_self_made_certificate_is_for_the_hooks_too() {
    let Some(world) = World::enter("a_self_made_certificate_is_for_the_hooks_too").await else { return };
    world.namespace("berth-hooks").await;
    let port = plane::free_port().unwrap();
    let mut operator = Operator::start(
        &world,
        &[
            "--controllers",
            "vip",
            "--webhook-self-signed",
            "--leader-elect-resource-namespace",
            "berth-hooks",
            "--runtime-extension-bind-host",
            "127.0.0.1",
            "--runtime-extension-port",
            &port.to_string(),
        ],
    );
    operator.ready().await;
    // Cluster API takes the authority from this entry of this Secret.
    let secrets: Api<Secret> = Api::namespaced(world.client.clone(), "berth-hooks");
    let authority = within(SOON, "the authority is stored", async || {
        let data = secrets.get_opt("berth-webhook-certs").await.unwrap()?.data?;
        String::from_utf8(data.get("ca.crt")?.0.clone()).ok()
    })
    .await;
    let host = "berth-runtime-extension.berth-hooks.svc";
    let told = call(host, port, &authority, "discovery", &json!({})).await.expect("an answer");
    assert_eq!(told["status"], "Success");
    operator.stop().await;
}
