//! The rendered roles are enough to run: the real binary, with the rendered arguments, as the rendered service account,
//! on a real API server, is refused nothing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]
#![allow(clippy::disallowed_methods, reason = "real processes run by the real clock")]

use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};
use sim::plane::{self, Plane, Process};
use sim::wait::seek;

const NAMESPACE: &str = "berth-system";
const BOUND: Duration = Duration::from_secs(120);

fn rendered() -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/berth.yaml");
    let objects: Vec<Value> = serde_saphyr::from_multiple(&std::fs::read_to_string(path).unwrap()).unwrap();
    objects.into_iter().filter(|o| !o.is_null()).collect()
}

async fn eventually<T>(what: &str, process: &mut Process, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let found = seek(BOUND, async || {
        let found = look().await;
        if let (None, Some(failure)) = (&found, process.failure()) {
            panic!("{what}: {failure}");
        }
        found
    });
    let found = found.await;
    found.unwrap_or_else(|| panic!("not seen within {BOUND:?}: {what}\n{}", process.log_tail()))
}

/// A kubeconfig that holds nothing but the service account's token.
async fn kubeconfig(plane: &Plane, client: &kube::Client) -> Value {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), NAMESPACE);
    let request = TokenRequest {
        spec: TokenRequestSpec { expiration_seconds: Some(3600), ..TokenRequestSpec::default() },
        ..TokenRequest::default()
    };
    let answer = accounts.create_token_request("berth", &PostParams::default(), &request).await.unwrap();
    let server = plane.config().await.unwrap().cluster_url.to_string();
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "account",
        "clusters": [{"name": "plane", "cluster": {
            "server": server, "certificate-authority": plane.dir().join("ca.crt")}}],
        "users": [{"name": "account", "user": {"token": answer.status.unwrap().token}}],
        "contexts": [{"name": "account", "context": {"cluster": "plane", "user": "account", "namespace": NAMESPACE}}],
    })
}

/// The arguments of the manifest, with loopback addresses in place of the pod's.
fn arguments(deployment: &Value, [health, metrics, webhooks, hooks]: [u16; 4]) -> Vec<String> {
    let mut args: Vec<String> = Vec::new();
    for arg in deployment["spec"]["template"]["spec"]["containers"][0]["args"].as_array().unwrap() {
        let arg = arg.as_str().unwrap();
        args.push(match arg.split_once('=').map_or(arg, |(flag, _)| flag) {
            "--health-addr" => format!("--health-addr=127.0.0.1:{health}"),
            "--metrics-bind-address" => format!("--metrics-bind-address=127.0.0.1:{metrics}"),
            "--webhook-port" => format!("--webhook-port={webhooks}"),
            "--runtime-extension-port" => format!("--runtime-extension-port={hooks}"),
            "--shutdown-delay" => "--shutdown-delay=0s".to_owned(),
            _ => arg.to_owned(),
        });
    }
    args.extend(["--webhook-bind-host=127.0.0.1", "--runtime-extension-bind-host=127.0.0.1"].map(str::to_owned));
    args
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

    let objects = rendered();
    let (definitions, rest): (Vec<Value>, Vec<Value>) =
        objects.into_iter().partition(|o| o["kind"] == "CustomResourceDefinition");
    plane::install_crds(&client, definitions).await.unwrap();
    for object in rest.iter().filter(|o| o["kind"] != "Deployment") {
        plane::apply(&client, object).await.unwrap();
    }
    let config = scratch.path().join("kubeconfig");
    std::fs::write(&config, kubeconfig(&plane, &client).await.to_string()).unwrap();

    let port = || plane::free_port().unwrap();
    let (health, metrics, webhooks, hooks) = (port(), port(), port(), port());
    let deployment = rest.iter().find(|o| o["kind"] == "Deployment").unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_berth"));
    command.args(arguments(deployment, [health, metrics, webhooks, hooks])).arg("--kubeconfig").arg(&config);
    let log = scratch.path().join("berth.log");
    let mut berth = Process::start("berth", command, &log, None).unwrap();
    plane::wait_http(&mut berth, health, "/healthz", BOUND).await.unwrap();
    plane::wait_http(&mut berth, health, "/readyz", BOUND).await.unwrap();
    let (status, text) = plane::http_get(metrics, "/metrics").await.unwrap();
    assert!(status == 200 && text.contains("berth_build_info"), "{status} {text}");

    let leases: Api<Lease> = Api::namespaced(client.clone(), NAMESPACE);
    eventually("the lease is held", &mut berth, async || {
        leases.get_opt("berth").await.unwrap()?.spec?.holder_identity.filter(|holder| !holder.is_empty())
    })
    .await;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    eventually("the certificate is stored", &mut berth, async || {
        secrets.get_opt("berth-webhook-certs").await.unwrap()?.data.filter(|data| !data.is_empty())
    })
    .await;
    let hooks: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    eventually("the authority is injected", &mut berth, async || {
        let config = hooks.get("berth").await.unwrap();
        config.webhooks?.iter().all(|hook| hook.client_config.ca_bundle.is_some()).then_some(())
    })
    .await;
    let hooks: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    eventually("the authority is injected into those that fill in defaults", &mut berth, async || {
        let config = hooks.get("berth").await.unwrap();
        config.webhooks?.iter().all(|hook| hook.client_config.ca_bundle.is_some()).then_some(())
    })
    .await;
    let kinds: Api<api::own::HostClaimKind> = Api::all(client.clone());
    let kind = json!({"apiVersion": "berth.dev/v1alpha1", "kind": "HostClaimKind",
        "metadata": {"name": "fake"}, "spec": {"controllerName": "fake.example"}});
    plane::apply(&client, &kind).await.unwrap();
    let reason = eventually("the kind is judged", &mut berth, async || {
        let status = kinds.get("fake").await.unwrap().status?;
        status.conditions.into_iter().find(|c| c.type_ == "Available").map(|c| c.reason)
    })
    .await;
    assert_eq!(reason, "HeartbeatMissing");

    berth.stop();
    let ended = berth.ended().expect("it ends when asked to");
    assert!(ended.success(), "{ended}: {}", berth.log_tail());
    let released = leases.get("berth").await.unwrap().spec.and_then(|spec| spec.holder_identity).unwrap_or_default();
    assert_eq!(released, "", "a clean stop gives the lease back");

    let (seen, refused) = refusals(&audit);
    assert!(seen > 10, "only {seen} requests of the service account in the audit log");
    assert!(refused.is_empty(), "the role lacks: {refused:#?}");
}
