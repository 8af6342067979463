//! The rendered roles are enough to run: the real binary, with the rendered arguments, as the rendered service account,
//! on a real API server, is refused nothing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]
#![allow(clippy::disallowed_methods, reason = "real processes run by the real clock")]

#[path = "shared/call.rs"]
mod call;
#[path = "shared/pod.rs"]
mod pod;

use std::path::Path;

use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use pod::{Pod, Ports};
use serde_json::{Value, json};
use sim::plane::{self, Plane};

const NAMESPACE: &str = "berth-system";

fn rendered() -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/berth.yaml");
    let objects: Vec<Value> = serde_saphyr::from_multiple(&std::fs::read_to_string(path).unwrap()).unwrap();
    objects.into_iter().filter(|o| !o.is_null()).collect()
}

/// The requests of the service account that the server refused for want of rights.
fn refusals(audit: &Path) -> (usize, Vec<String>) {
    let (mut seen, mut refused) = (0, Vec::new());
    for line in std::fs::read_to_string(audit).unwrap().lines() {
        let Ok(entry) = serde_json::from_str::<Value>(line) else { continue };
        if entry["user"]["username"] == format!("system:serviceaccount:{NAMESPACE}:berth") {
            seen += 1;
            if entry["responseStatus"]["code"] == 403 {
                refused.push(format!("{} {}", entry["verb"], entry["requestURI"]));
            }
        }
    }
    (seen, refused)
}

#[tokio::test]
async fn the_rendered_manifest_runs_with_the_rendered_rights() {
    if plane::for_test("the_rendered_manifest_runs_with_the_rendered_rights").is_none() {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let audit = scratch.path().join("audit.log");
    let plane = Plane::start_with(plane::Options { audit_log: Some(audit.clone()), ..plane::Options::default() });
    let plane = plane.unwrap();
    let client = plane.client().await.unwrap();

    let ports = Ports::free();
    let mut objects = rendered();
    objects.iter_mut().for_each(|object| pod::ask_at(object, ports.webhooks));
    let (definitions, rest): (Vec<Value>, Vec<Value>) =
        objects.into_iter().partition(|o| o["kind"] == "CustomResourceDefinition");
    plane::install_crds(&client, definitions).await.unwrap();
    for object in rest.iter().filter(|o| o["kind"] != "Deployment") {
        plane::apply(&client, object).await.unwrap();
    }
    pod::lead_here(&client, NAMESPACE).await;
    let deployment = rest.iter().find(|o| o["kind"] == "Deployment").unwrap();
    let mut berth = Pod::start(&plane, deployment, ports).await;
    berth.ready().await;
    let (status, text) = plane::http_get(ports.metrics, "/metrics").await.unwrap();
    assert!(status == 200 && text.contains("berth_build_info"), "{status} {text}");

    let leases: Api<Lease> = Api::namespaced(client.clone(), NAMESPACE);
    berth
        .sees("the lease is held", async || {
            leases.get_opt("berth").await.unwrap()?.spec?.holder_identity.filter(|holder| !holder.is_empty())
        })
        .await;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    berth
        .sees("the certificate is stored", async || {
            secrets.get_opt("berth-webhook-certs").await.unwrap()?.data.filter(|data| !data.is_empty())
        })
        .await;
    let hooks: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    berth
        .sees("the authority is injected", async || {
            let config = hooks.get("berth").await.unwrap();
            config.webhooks?.iter().all(|hook| hook.client_config.ca_bundle.is_some()).then_some(())
        })
        .await;
    let hooks: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    berth
        .sees("the authority is injected into those that fill in defaults", async || {
            let config = hooks.get("berth").await.unwrap();
            config.webhooks?.iter().all(|hook| hook.client_config.ca_bundle.is_some()).then_some(())
        })
        .await;
    let kinds: Api<api::own::HostClaimKind> = Api::all(client.clone());
    let kind = json!({"apiVersion": "berth.dev/v1alpha1", "kind": "HostClaimKind",
        "metadata": {"name": "fake"}, "spec": {"controllerName": "fake.example"}});
    plane::apply(&client, &kind).await.unwrap();
    let reason = berth
        .sees("the kind is judged", async || {
            let status = kinds.get("fake").await.unwrap().status?;
            status.conditions.into_iter().find(|c| c.type_ == "Available").map(|c| c.reason)
        })
        .await;
    assert_eq!(reason, "HeartbeatMissing");

    berth.is_asked(&client).await;
    let authority = secrets.get("berth-webhook-certs").await.unwrap().data.unwrap()["ca.crt"].0.clone();
    let authority = String::from_utf8(authority).unwrap();
    let host = format!("berth-runtime-extension.{NAMESPACE}.svc");
    let told = call::call(&host, ports.hooks, &authority, "discovery", &json!({})).await.expect("hooks are answered");
    assert_eq!(told["handlers"].as_array().unwrap().len(), 5, "{told}");

    berth.stop();
    let released = leases.get("berth").await.unwrap().spec.and_then(|spec| spec.holder_identity).unwrap_or_default();
    assert_eq!(released, "", "a clean stop gives the lease back");

    let (seen, refused) = refusals(&audit);
    assert!(seen > 10, "only {seen} requests of the service account in the audit log");
    assert!(refused.is_empty(), "the role lacks: {refused:#?}");
}
