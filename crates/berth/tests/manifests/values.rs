//! Whatever values a chart is given, a real API server accepts what comes of them, and the binary understands it.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::sync::OnceLock;

use k8s_openapi::ByteString;
use serde_json::{Value, json};
use sim::plane;

use crate::kinds::called;
use crate::{dry_run, parsed, root, shell, text};

/// What `hack/chart` renders, each with the name of its case. Every value of the chart is changed by one of them at least.
fn cases() -> &'static [(String, String)] {
    static CASES: OnceLock<Vec<(String, String)>> = OnceLock::new();
    CASES.get_or_init(rendered)
}

fn rendered() -> Vec<(String, String)> {
    let output = Command::new(root().join("hack/chart")).arg("cases").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let folder = root().join(String::from_utf8(output.stdout).unwrap().trim());
    let mut cases = Vec::new();
    for entry in std::fs::read_dir(&folder).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        if let Some((name, text)) = text.strip_prefix("# ").and_then(|text| text.split_once('\n')) {
            cases.push((name.to_owned(), text.to_owned()));
        }
    }
    cases.sort();
    assert!(cases.len() > 100, "only {} cases in {}", cases.len(), folder.display());
    cases
}

/// The definition of a foreign kind with these fields of its spec, and no others.
fn definition(group: &str, version: &str, kind: &str, spec: &Value) -> Value {
    let mut definition = plane::open_definition(group, version, kind);
    let schema = "/spec/versions/0/schema/openAPIV3Schema";
    *definition.pointer_mut(schema).unwrap() =
        json!({"type": "object", "required": ["spec"], "properties": {"spec": spec}});
    definition
}

/// The kinds of cert-manager and of the Prometheus operator, as far as the chart writes them.
fn foreign() -> Vec<Value> {
    let string = json!({"type": "string"});
    let strings = json!({"type": "array", "items": string});
    let map = json!({"type": "object", "additionalProperties": string});
    let duration = json!({"type": "string",
        "pattern": "^(0|(([0-9]+)y)?(([0-9]+)w)?(([0-9]+)d)?(([0-9]+)h)?(([0-9]+)m)?(([0-9]+)s)?(([0-9]+)ms)?)$"});
    let issuer = json!({"type": "object", "properties": {
        "selfSigned": {"type": "object"},
        "ca": {"type": "object", "required": ["secretName"], "properties": {"secretName": string}}}});
    let certificate = json!({"type": "object", "required": ["issuerRef", "secretName"], "properties": {
        "isCA": {"type": "boolean"}, "commonName": string, "dnsNames": strings, "secretName": string,
        "duration": string, "renewBefore": string,
        "issuerRef": {"type": "object", "required": ["name"],
            "properties": {"name": string, "kind": string, "group": string}},
        "privateKey": {"type": "object", "properties": {
            "algorithm": {"type": "string", "enum": ["RSA", "ECDSA", "Ed25519"]}, "size": {"type": "integer"},
            "rotationPolicy": {"type": "string", "enum": ["Never", "Always"]}}}}});
    let key = json!({"type": "object", "required": ["key"], "properties": {
        "key": string, "name": string, "optional": {"type": "boolean"}}});
    let monitor = json!({"type": "object", "required": ["endpoints", "selector"], "properties": {
        "selector": {"type": "object", "properties": {"matchLabels": map}},
        "endpoints": {"type": "array", "items": {"type": "object", "properties": {
            "port": string, "path": string, "honorLabels": {"type": "boolean"}, "interval": duration,
            "scheme": {"type": "string", "enum": ["http", "https"]},
            "tlsConfig": {"type": "object", "properties": {
                "serverName": string, "ca": {"type": "object", "properties": {"secret": key, "configMap": key}},
                "cert": {"type": "object", "properties": {"secret": key, "configMap": key}}, "keySecret": key}}}}}}});
    let rule = json!({"type": "object", "required": ["expr"], "properties": {
        "alert": string, "record": string, "expr": {"x-kubernetes-int-or-string": true}, "for": duration,
        "labels": map, "annotations": map}});
    let rules = json!({"type": "object", "properties": {"groups": {"type": "array", "items": {
        "type": "object", "required": ["name"], "properties": {
            "name": {"type": "string", "minLength": 1}, "interval": duration,
            "rules": {"type": "array", "items": rule}}}}}});
    vec![
        definition("cert-manager.io", "v1", "Issuer", &issuer),
        definition("cert-manager.io", "v1", "Certificate", &certificate),
        definition("monitoring.coreos.com", "v1", "ServiceMonitor", &monitor),
        definition("monitoring.coreos.com", "v1", "PrometheusRule", &rules),
    ]
}

/// Cluster API's own definition of a registration. Nobody converts here: each version is looked at as it is.
fn registrations() -> Option<Value> {
    let mut all = plane::cluster_api_definitions().ok()?;
    let found = all.iter().position(|object| text(object, "/spec/names/kind") == "ExtensionConfig")?;
    let mut definition = all.swap_remove(found);
    definition["spec"]["conversion"] = json!({"strategy": "None"});
    Some(definition)
}

/// The pod of a Deployment or Job, in a namespace where the restricted profile is enforced.
async fn admitted(client: &kube::Client, object: &Value) -> kube::Result<()> {
    let spec = &object["spec"]["template"]["spec"];
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": spec["serviceAccountName"], "namespace": "confined"}});
    plane::apply(client, &account).await.unwrap();
    let pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": object["metadata"]["name"], "namespace": "confined"}, "spec": spec});
    dry_run(client, &pod).await.map(drop)
}

#[tokio::test]
async fn whatever_the_values_the_server_accepts_what_is_rendered_and_the_binary_its_arguments() {
    let test = "whatever_the_values_the_server_accepts_what_is_rendered_and_the_binary_its_arguments";
    let Some(plane) = plane::for_test(test) else { return };
    if shell::helm(test).is_none() {
        return;
    }
    let client = plane.client().await.unwrap();
    let Some(registrations) = registrations() else {
        assert!(!plane::required(), "{test}: run make capi first");
        eprintln!("SKIPPED {test}: make capi was not run");
        return;
    };
    plane::install_crds(&client, foreign().into_iter().chain([registrations]).collect()).await.unwrap();

    // Most of what a case renders is what others render too.
    let cases = cases();
    let mut documents: BTreeMap<&str, &str> = BTreeMap::new();
    for (name, text) in cases {
        documents.extend(text.split("\n---\n").map(|document| (document, name.as_str())));
    }
    let mut objects: Vec<(&str, Value)> = Vec::new();
    for (document, case) in documents {
        objects.extend(parsed(document, case).into_iter().map(|object| (case, object)));
    }
    let kinds: BTreeSet<&str> = objects.iter().map(|(_, object)| text(object, "/kind")).collect();
    assert!(kinds.len() >= 20, "{kinds:?}");
    let spaces: BTreeSet<&str> = objects.iter().map(|(_, object)| text(object, "/metadata/namespace")).collect();
    for namespace in spaces.into_iter().filter(|name| !name.is_empty()) {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        plane::apply(&client, &namespace).await.unwrap();
    }
    let confined = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "confined",
        "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}});
    let first = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"},
        "value": 1000});
    for object in [confined, first] {
        plane::apply(&client, &object).await.unwrap();
    }

    // What stands for an authority in a case is none, and the server looks into that of a definition.
    let authority = json!(ByteString(std::fs::read(plane.dir().join("ca.crt")).unwrap()));
    for (_, object) in &mut objects {
        if let Some(bundle) = object.pointer_mut("/spec/conversion/webhook/clientConfig/caBundle") {
            *bundle = authority.clone();
        }
    }
    let mut wrong = Vec::new();
    for (case, object) in &objects {
        if let Err(error) = dry_run(&client, object).await {
            wrong.push(format!("{case}: {} is refused: {error}", called(object)));
        }
        let spec = &object["spec"]["template"]["spec"];
        if spec.is_null() {
            continue;
        }
        if let Err(error) = admitted(&client, object).await {
            wrong.push(format!("{case}: a pod of {} is refused: {error}", called(object)));
        }
        let args = spec["containers"][0]["args"].as_array().unwrap();
        let args = args.iter().map(|arg| arg.as_str().unwrap()).chain(["--help"]);
        // With --help at the end everything before it is parsed and nothing is started.
        let output = Command::new(env!("CARGO_BIN_EXE_berth")).args(args).output().unwrap();
        if !output.status.success() {
            wrong.push(format!("{case}: {}: {}", called(object), String::from_utf8_lossy(&output.stderr)));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Where there is no internet one image is carried there, and a digest holds wherever it is used.
#[test]
fn whatever_the_values_one_image_is_all_that_runs() {
    let test = "whatever_the_values_one_image_is_all_that_runs";
    if shell::helm(test).is_none() {
        return;
    }
    let mut pinned = 0;
    for (case, text) in cases() {
        let images: Vec<&str> = text.lines().filter_map(|line| line.trim().strip_prefix("image: ")).collect();
        let different: BTreeSet<&str> = images.iter().copied().collect();
        assert_eq!(different.len(), 1, "{case}: {different:?}");
        if images[0].contains('@') {
            pinned += images.len();
        }
    }
    assert!(pinned >= 2, "the Deployment and the Job by digest");
}
