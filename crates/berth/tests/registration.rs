//! How Cluster API learns of the hooks and forgets them: the rendered ExtensionConfig on a real API server with the real core
//! manager, what the doctor says of it, and who may take it back.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]
#![allow(clippy::disallowed_methods, reason = "real processes run by the real clock")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::discovery::pinned_kind;
use serde_json::{Value, json};
use sim::dock::objects::Class;
use sim::plane::{self, Plane};
use sim::wait::seek;

const NAME: &str = "vip-allocator";
const BOUND: Duration = Duration::from_secs(120);

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn rendered() -> Value {
    let path = root().join("deploy/vip/extension-config.yaml");
    let objects: Vec<Value> = serde_saphyr::from_multiple(&std::fs::read_to_string(path).unwrap()).unwrap();
    objects.into_iter().find(|o| o["kind"] == "ExtensionConfig").expect("an ExtensionConfig")
}

async fn configs(client: &kube::Client, version: &str) -> Api<DynamicObject> {
    let gvk = GroupVersionKind::gvk("runtime.cluster.x-k8s.io", version, "ExtensionConfig");
    let (resource, _) = pinned_kind(client, &gvk).await.unwrap();
    Api::all_with(client.clone(), &resource)
}

/// The rules that the chart gives the Job which takes the registration back.
fn rules_of_the_job() -> Value {
    let template = std::fs::read_to_string(root().join("chart/templates/unregister.yaml")).unwrap();
    let rules = template.split("\nrules:\n").nth(1).expect("rules").split("\n---").next().unwrap();
    let rules = rules.replace("{{ .Values.vip.extensionConfig.name }}", NAME);
    serde_saphyr::from_str(&rules).unwrap_or_else(|e| panic!("{e}: {rules}"))
}

/// A kubeconfig of an account that may do what the Job may, and nothing else.
async fn as_the_job(plane: &Plane, client: &kube::Client) -> PathBuf {
    let name = "berth-unregister";
    let account = json!({"kind": "ServiceAccount", "name": name, "namespace": "default"});
    for object in [
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": "default"}}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name},
            "rules": rules_of_the_job()}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [account]}),
    ] {
        plane::apply(client, &object).await.unwrap();
    }
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "default");
    let token = accounts.create_token_request(name, &PostParams::default(), &TokenRequest::default()).await.unwrap();
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "job",
        "clusters": [{"name": "plane", "cluster": {"server": plane.config().await.unwrap().cluster_url.to_string(),
            "certificate-authority": plane.dir().join("ca.crt")}}],
        "users": [{"name": "job", "user": {"token": token.status.unwrap().token}}],
        "contexts": [{"name": "job", "context": {"cluster": "plane", "user": "job"}}],
    });
    let path = plane.dir().join("job.kubeconfig");
    std::fs::write(&path, config.to_string()).unwrap();
    path
}

/// Exit code, standard output and standard error of a command.
fn berth(plane: &Plane, args: &[&str]) -> (Option<i32>, String, String) {
    berth_as(&plane.kubeconfig_path(), args)
}

fn berth_as(kubeconfig: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
    command.args(args).arg("--kubeconfig").arg(kubeconfig).env_remove("KUBECONFIG");
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// One check of the doctor.
fn check(plane: &Plane, name: &str) -> Value {
    let (_, out, err) = berth(plane, &["doctor", "-o", "json"]);
    let report: Value = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {err}"));
    let check = report["checks"].as_array().unwrap().iter().find(|check| check["name"] == name).cloned();
    check.unwrap_or_else(|| panic!("no check {name}: {report}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cluster_api_learns_of_the_hooks_and_forgets_them_in_order() {
    if plane::for_test("cluster_api_learns_of_the_hooks_and_forgets_them_in_order").is_none() {
        return;
    }
    let plane = Plane::start().unwrap();
    let client = plane.client().await.unwrap();

    // Without Cluster API there is nothing to check beyond that, and nothing to take back.
    let found = check(&plane, "cluster api");
    assert!(found["level"] == "ok" && found["found"].as_str().unwrap().contains("not installed"), "{found}");
    let (code, out, _) = berth(&plane, &["unregister"]);
    assert!(code == Some(0) && out.contains("nothing to take back"), "{out}");

    plane::install_crds(&client, sim::dock::kinds::definitions()).await.unwrap();
    let mut capi = plane::capi(&plane).await.unwrap();
    assert!(check(&plane, "cluster api")["found"].as_str().unwrap().contains("cluster.x-k8s.io/v1beta2"));
    let found = check(&plane, "ipam");
    assert!(
        found["level"] == "warning" && found["found"].as_str().unwrap().contains("GlobalInClusterIPPool"),
        "{found}"
    );
    let found = check(&plane, "hooks");
    assert!(found["level"] == "warning" && found["fix"].as_str().unwrap().contains("RuntimeSDK"), "{found}");
    let (code, out, _) = berth(&plane, &["unregister"]);
    assert!(code == Some(0) && out.contains("there is no ExtensionConfig"), "{out}");

    // The rendered object passes schema and webhook in both of its versions, and a wrong one does not.
    let dry = PatchParams::apply("registration-test").dry_run().validation_strict();
    for version in ["v1beta2", "v1alpha1"] {
        let mut config = rendered();
        config["apiVersion"] = json!(format!("runtime.cluster.x-k8s.io/{version}"));
        config["spec"]["namespaceSelector"] = json!({"matchLabels": {"pool": "vip"}});
        config["spec"]["settings"] = json!({"defaultPort": "8443"});
        let api = configs(&client, version).await;
        api.patch(NAME, &dry, &Patch::Apply(&config)).await.unwrap_or_else(|e| panic!("{version}: {e}"));
        config["spec"]["setting"] = json!({});
        assert!(api.patch(NAME, &dry, &Patch::Apply(&config)).await.is_err(), "{version}: an unknown field");
    }

    // A registration that is there while the manager starts, and that nobody answers, ends the manager after a minute: this is
    // why it must go before Berth does. So it has to have started.
    let log = capi.process().log().to_owned();
    let started = |line: &str| line.contains("Starting workers") && line.contains("controller=\"extensionconfig\"");
    let up = async || std::fs::read_to_string(&log).unwrap().lines().any(started).then_some(());
    assert!(seek(BOUND, up).await.is_some(), "{}", capi.process().log_tail());

    // Registered before its Secret is there: Cluster API says so, and the doctor repeats it.
    plane::apply(&client, &rendered()).await.unwrap();
    let mut found = Value::Null;
    let said = async || {
        found = check(&plane, "hooks");
        found["found"].as_str().unwrap().contains("no certificate authority").then_some(())
    };
    let said = seek(BOUND, said).await;
    assert!(said.is_some(), "{found}\n{}", capi.process().log_tail());
    assert_eq!(found["level"], "failure");
    assert!(found["fix"].as_str().unwrap().contains("`berth-system/berth-webhook-certs`"), "{found}");

    // A class that names a handler keeps the registration, until somebody insists.
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}});
    plane::apply(&client, &namespace).await.unwrap();
    for object in Class::managed("team-a", "dock", NAME).objects() {
        plane::apply(&client, &object).await.unwrap();
    }
    let job = as_the_job(&plane, &client).await;
    let (code, out, err) = berth_as(&job, &["unregister"]);
    assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
    assert!(err.contains("team-a/dock") && err.contains("--force"), "{err}");
    let v1beta2 = configs(&client, "v1beta2").await;
    assert!(v1beta2.get_opt(NAME).await.unwrap().is_some(), "a refusal changes nothing");
    let (code, out, err) = berth_as(&job, &["unregister", "--force"]);
    assert!(code == Some(0) && out.contains("is gone"), "{out} {err}");
    assert!(v1beta2.get_opt(NAME).await.unwrap().is_none());
}
