//! What the chart renders is accepted by a real API server, keeps its rules, and carries the generated files unchanged.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod columns;
mod helm;
mod kinds;
#[path = "../shared/pod.rs"]
mod pod;
#[path = "../shared/shell.rs"]
#[allow(dead_code, reason = "only the way to helm is needed here")]
mod shell;
mod tables;
mod upgrade;
mod values;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("reading {path}: {e}"))
}

/// The documents of a YAML file; comments alone make none.
fn documents(path: &str) -> Vec<Value> {
    parsed(&read(path), path)
}

/// The documents of a text that comes from some place.
fn parsed(text: &str, place: &str) -> Vec<Value> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).unwrap_or_else(|e| panic!("parsing {place}: {e}"));
    documents.into_iter().filter(|d| !d.is_null()).collect()
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn of_kind<'a>(objects: &'a [Value], kind: &str) -> Vec<&'a Value> {
    objects.iter().filter(|o| o["kind"] == kind).collect()
}

fn only<'a>(objects: &'a [Value], kind: &str) -> &'a Value {
    let found = of_kind(objects, kind);
    assert_eq!(found.len(), 1, "deploy/berth.yaml holds one {kind}");
    found[0]
}

/// The object of a kind and name.
fn named<'a>(objects: &'a [Value], kind: &str, name: &str) -> &'a Value {
    let found = of_kind(objects, kind).into_iter().find(|object| object["metadata"]["name"] == name);
    found.unwrap_or_else(|| panic!("deploy/berth.yaml holds no {kind} {name}"))
}

/// Applies an object without storing it and returns what would have been stored.
async fn dry_run(client: &kube::Client, object: &Value) -> kube::Result<DynamicObject> {
    let api = kinds::like(client, object).await?;
    let params = PatchParams::apply("manifests-test").dry_run().validation_strict().force();
    api.patch(text(object, "/metadata/name"), &params, &Patch::Apply(object)).await
}

#[tokio::test]
async fn every_rendered_manifest_is_accepted_by_the_server() {
    let Some(plane) = sim::plane::for_test("every_rendered_manifest_is_accepted_by_the_server") else { return };
    let client = plane.client().await.unwrap();
    let objects = documents("deploy/berth.yaml");
    // A dry run stores nothing, so what the rest stands in must really be there.
    sim::plane::apply(&client, only(&objects, "Namespace")).await.unwrap();
    assert!(objects.len() >= 12, "only {} documents in deploy/berth.yaml", objects.len());
    for object in &objects {
        let name = format!("{} {}", text(object, "/kind"), text(object, "/metadata/name"));
        dry_run(&client, object).await.unwrap_or_else(|e| panic!("{name} is refused: {e}"));
    }
    // The dry run judges: a field that does not exist is refused.
    let mut wrong = only(&objects, "Deployment").clone();
    wrong["spec"]["replica"] = json!(2);
    let error = dry_run(&client, &wrong).await.unwrap_err().to_string();
    assert!(error.contains("replica"), "{error}");
}

#[tokio::test]
async fn the_pod_is_admitted_where_the_restricted_profile_is_enforced() {
    let Some(plane) = sim::plane::for_test("the_pod_is_admitted_where_the_restricted_profile_is_enforced") else {
        return;
    };
    let client = plane.client().await.unwrap();
    let objects = documents("deploy/berth.yaml");
    let mut namespace = only(&objects, "Namespace").clone();
    namespace["metadata"]["name"] = json!("restricted");
    sim::plane::apply(&client, &namespace).await.unwrap();
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": "berth", "namespace": "restricted"}});
    sim::plane::apply(&client, &account).await.unwrap();
    let template = &only(&objects, "Deployment")["spec"]["template"];
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "berth", "namespace": "restricted"}, "spec": template["spec"]});
    dry_run(&client, &pod).await.expect("the pod fits the restricted profile");
    pod["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = json!(true);
    let error = dry_run(&client, &pod).await.unwrap_err().to_string();
    assert!(error.contains("restricted"), "{error}");
}

/// Equality in which 1 equals 1.0: the template engine knows one kind of number only.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        (a, b) => a == b,
    }
}

#[test]
fn generated_files_reach_the_manifests_unchanged() {
    let objects = documents("deploy/berth.yaml");
    let mut rendered: BTreeMap<&str, &Value> = BTreeMap::new();
    for crd in of_kind(&objects, "CustomResourceDefinition") {
        assert_eq!(text(crd, "/metadata/annotations/helm.sh~1resource-policy"), "keep");
        rendered.insert(text(crd, "/metadata/name"), &crd["spec"]);
    }
    let mut count = 0;
    for entry in std::fs::read_dir(root().join("chart/files/crds")).unwrap() {
        let path = entry.unwrap().path();
        let crd: Value = serde_saphyr::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let name = text(&crd, "/metadata/name");
        let found = rendered.get(name).unwrap_or_else(|| panic!("{name} is not in deploy/berth.yaml"));
        assert!(same(&crd["spec"], found), "{} differs from deploy/berth.yaml: make chart", path.display());
        count += 1;
    }
    assert!(count > 0 && count == rendered.len(), "{count} files, {} definitions rendered", rendered.len());

    for (file, kind, name) in [
        ("cluster-rules.yaml", "ClusterRole", "berth"),
        ("namespace-rules.yaml", "Role", "berth"),
        ("system-rules.yaml", "ClusterRole", "berth-clusters"),
    ] {
        let rules: Value = serde_saphyr::from_str(&read(&format!("chart/files/rbac/{file}"))).unwrap();
        assert_eq!(named(&objects, kind, name)["rules"], rules, "{file}");
        assert!(!rules.as_array().unwrap().is_empty(), "{file} grants nothing");
    }

    for config in documents("chart/files/webhooks.yaml") {
        let found = only(&objects, text(&config, "/kind"));
        let hooks = |c: &Value| c["webhooks"].as_array().cloned().unwrap_or_default();
        // Checks of foreign kinds are off unless capacity.webhook is set.
        let foreign = |hook: &Value| text(hook, "/clientConfig/service/path").starts_with("/validate/capacity/");
        let (from, to) = (hooks(&config).into_iter().filter(|hook| !foreign(hook)).collect::<Vec<_>>(), hooks(found));
        assert_eq!(from.len(), to.len());
        for (from, to) in from.into_iter().zip(to) {
            assert_eq!(from["name"], to["name"]);
            assert_eq!(from["rules"], to["rules"]);
            assert_eq!(from["failurePolicy"], to["failurePolicy"]);
            let path = "/clientConfig/service/path";
            assert_eq!(from.pointer(path), to.pointer(path));
            assert_eq!(to["clientConfig"]["service"]["name"], "berth-webhook");
        }
    }
}

#[test]
fn no_role_grants_everything_or_lists_secrets_everywhere() {
    let objects = documents("deploy/berth.yaml");
    for role in of_kind(&objects, "ClusterRole").into_iter().chain(of_kind(&objects, "Role")) {
        for rule in role["rules"].as_array().unwrap() {
            let has = |field: &str, value: &str| rule[field].as_array().is_some_and(|a| a.iter().any(|v| v == value));
            for field in ["apiGroups", "resources", "verbs", "nonResourceURLs"] {
                assert!(!has(field, "*"), "a wildcard in {rule}");
            }
            // The site binds the first, in the namespaces of the hosts, whose Secrets are theirs; the chart binds the second in
            // one namespace, unless it is told otherwise.
            let bound_by_the_site =
                ["berth-host-admin", "berth-clusters"].iter().any(|name| role["metadata"]["name"] == *name);
            // The room claims copies Secrets of tenants, whose namespaces nobody can name beforehand, to their hosts.
            let copies = json!({"apiGroups": [""], "resources": ["secrets"],
                "verbs": ["create", "delete", "get", "list", "patch", "watch"]});
            let ours = role["metadata"]["name"] == "berth" && *rule == copies;
            let wide = role["kind"] == "ClusterRole" && has("resources", "secrets") && !bound_by_the_site && !ours;
            assert!(!(wide && (has("verbs", "list") || has("verbs", "watch"))), "all Secrets can be read: {rule}");
        }
    }
}

#[test]
fn the_arguments_in_the_manifest_are_understood_by_the_binary() {
    let objects = documents("deploy/berth.yaml");
    let container = &only(&objects, "Deployment")["spec"]["template"]["spec"]["containers"][0];
    let args: Vec<&str> = container["args"].as_array().unwrap().iter().map(|a| a.as_str().unwrap()).collect();
    let berth = |args: &[&str]| {
        // With --help at the end everything before it is parsed and nothing is started.
        std::process::Command::new(env!("CARGO_BIN_EXE_berth")).args(args).arg("--help").output().unwrap()
    };
    let output = berth(&args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    let mut wrong = args.clone();
    wrong.push("--no-such-flag");
    assert_eq!(berth(&wrong).status.code(), Some(2), "a wrong flag before --help must be noticed");
}

/// The value of a label of an object.
fn label<'a>(object: &'a Value, key: &str) -> &'a str {
    object["metadata"]["labels"][key].as_str().unwrap_or_default()
}

#[test]
fn clusterctl_gets_the_same_objects_with_its_label_and_the_registration() {
    let components = documents("deploy/clusterctl/runtime-extension-components.yaml");
    let plain = documents("deploy/berth.yaml");
    let registration = documents("deploy/vip/extension-config.yaml");
    assert_eq!(of_kind(&registration, "ExtensionConfig").len(), 1);
    assert_eq!(components.len(), plain.len() + registration.len());
    for object in &components {
        let name = format!("{} {}", text(object, "/kind"), text(object, "/metadata/name"));
        assert_eq!(label(object, "cluster.x-k8s.io/provider"), "runtime-extension-berth", "{name}");
        let twin = plain
            .iter()
            .chain(&registration)
            .find(|other| other["kind"] == object["kind"] && other["metadata"]["name"] == object["metadata"]["name"]);
        let mut twin = twin.unwrap_or_else(|| panic!("{name} is only in the components")).clone();
        twin["metadata"]["labels"]["cluster.x-k8s.io/provider"] = json!("runtime-extension-berth");
        if object["kind"] == "Deployment" {
            let image = "/spec/template/spec/containers/0/image";
            assert_eq!(text(object, image), format!("${{BERTH_IMAGE:={}}}", text(&twin, image)));
            *twin.pointer_mut(image).unwrap() = object.pointer(image).unwrap().clone();
        }
        assert_eq!(*object, twin, "{name}");
    }
    let metadata = &documents("deploy/clusterctl/metadata.yaml")[0];
    let series = &metadata["releaseSeries"][0];
    let version = format!("{}.{}.", series["major"], series["minor"]);
    assert!(env!("CARGO_PKG_VERSION").starts_with(&version), "metadata.yaml does not know this version");
}

#[test]
fn every_kustomization_lists_files_that_are_there() {
    for dir in ["deploy", "deploy/vip"] {
        let kustomization = &documents(&format!("{dir}/kustomization.yaml"))[0];
        let resources = kustomization["resources"].as_array().unwrap();
        assert!(!resources.is_empty(), "{dir}");
        for resource in resources {
            // A base above this one would be a cycle for kustomize.
            let file = root().join(dir).join(resource.as_str().unwrap());
            assert!(file.is_file(), "{} is no file", file.display());
        }
    }
}

#[test]
fn the_registration_leads_to_the_service_and_trusts_the_secret_of_the_manifests() {
    let objects = documents("deploy/berth.yaml");
    let config = &documents("deploy/vip/extension-config.yaml")[0];
    let service = &config["spec"]["clientConfig"]["service"];
    let found = of_kind(&objects, "Service").into_iter().find(|s| s["metadata"]["name"] == service["name"]);
    let found = found.unwrap_or_else(|| panic!("no Service {service}"));
    assert_eq!(found["metadata"]["namespace"], service["namespace"]);
    assert_eq!(found["spec"]["ports"][0]["port"], service["port"]);
    let container = &only(&objects, "Deployment")["spec"]["template"]["spec"]["containers"][0];
    let target = &found["spec"]["ports"][0]["targetPort"];
    let port = container["ports"].as_array().unwrap().iter().find(|p| p["name"] == *target).expect("the port");
    let args: Vec<&str> = container["args"].as_array().unwrap().iter().map(|a| a.as_str().unwrap()).collect();
    assert!(args.contains(&format!("--runtime-extension-port={}", port["containerPort"]).as_str()), "{args:?}");
    assert!(args.contains(&format!("--runtime-extension-service={}", text(service, "/name")).as_str()), "{args:?}");
    let secret = text(config, "/metadata/annotations/runtime.cluster.x-k8s.io~1inject-ca-from-secret");
    assert_eq!(secret, "berth-system/berth-webhook-certs");
    assert!(args.contains(&"--webhook-self-signed"), "only then that Secret is filled");
}

#[test]
fn every_flag_of_the_room_has_its_place_in_the_chart() {
    let (help, template) = (read("book/src/reference/run-help.txt"), read("chart/templates/deployment.yaml"));
    let section = help.split("\nVIP:\n").nth(1).expect("a section VIP");
    // It ends where the next heading stands at the beginning of a line.
    let section: Vec<&str> = section.lines().take_while(|line| line.is_empty() || line.starts_with(' ')).collect();
    // Where to listen is the pod's business; the rest of the line is the flag's value.
    let flags: Vec<&str> = section
        .into_iter()
        .filter_map(|line| line.trim().strip_prefix("--"))
        .map(|line| line.split([' ', '=', '[']).next().unwrap())
        .filter(|flag| *flag != "runtime-extension-bind-host")
        .collect();
    assert!(flags.len() >= 15, "{flags:?}");
    for flag in flags {
        assert!(template.contains(&format!("- --{flag}=")), "the chart has no value for --{flag}");
    }
}

#[test]
fn the_settings_in_the_schema_are_those_the_hooks_know() {
    let schema: Value = serde_json::from_str(&read("chart/values.schema.json")).unwrap();
    let settings = schema.pointer("/properties/vip/properties/extensionConfig/properties/settings/properties").unwrap();
    let keys: BTreeMap<String, String> =
        settings.as_object().unwrap().keys().map(|key| (key.clone(), String::new())).collect();
    assert_eq!(vip::topology::unknown_keys(&keys), Vec::<String>::new());
    assert_eq!(keys.len(), 8, "a key of the hooks is missing in the schema");
}
