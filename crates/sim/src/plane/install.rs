//! Putting definitions and objects into a real server without kubectl.

use super::PlaneError;
use base64::Engine as _;
use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::GroupVersionKind;
use kube::discovery::{Scope, pinned_kind};
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a definition may take until its kind is served.
const SERVED: Duration = Duration::from_secs(60);

/// The client configuration in a kubeconfig file.
pub(super) async fn config(path: &Path) -> Result<kube::Config, PlaneError> {
    let doing = format!("reading {}", path.display());
    let file = Kubeconfig::read_from(path).map_err(PlaneError::bad(doing.clone()))?;
    kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.map_err(PlaneError::bad(doing))
}

/// The objects of a `List` document, or the one object it is.
pub fn objects(document: Value) -> Vec<Value> {
    match document {
        Value::Array(items) => items,
        Value::Object(mut map) if map.get("kind").and_then(Value::as_str) == Some("List") => {
            map.remove("items").map(objects).unwrap_or_default()
        }
        Value::Null => Vec::new(),
        other => vec![other],
    }
}

/// Applies one object of any kind (server-side, field manager `sandbox`) and returns what the server stored.
pub async fn apply(client: &Client, object: &Value) -> Result<DynamicObject, PlaneError> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (version, kind, name) = (text("/apiVersion"), text("/kind"), text("/metadata/name"));
    let doing = format!("applying {kind} {name}");
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let (resource, capabilities) = pinned_kind(client, &GroupVersionKind::gvk(group, version, kind))
        .await
        .map_err(PlaneError::kube(doing.clone()))?;
    let api: Api<DynamicObject> = match capabilities.scope {
        Scope::Cluster => Api::all_with(client.clone(), &resource),
        Scope::Namespaced => {
            let namespace = object.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or("default");
            Api::namespaced_with(client.clone(), namespace, &resource)
        }
    };
    api.patch(name, &PatchParams::apply("sandbox").force(), &Patch::Apply(object))
        .await
        .map_err(PlaneError::kube(doing))
}

/// The definition of a foreign kind with an open schema: for what other people's schemas say is not the subject.
///
/// The contract label makes it a kind that Cluster API can use.
#[must_use]
pub fn open_definition(group: &str, version: &str, kind: &str) -> Value {
    let plural = format!("{}s", kind.to_lowercase());
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}"), "labels": {"cluster.x-k8s.io/v1beta2": version},
            "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/cluster-api"}},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
            "versions": [{"name": version, "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": open, "status": open}}}}],
        },
    })
}

/// The kinds of the Cluster API provider for AWS that Berth reads and does not define: networks and identities.
#[must_use]
pub fn aws_network_definitions() -> Vec<Value> {
    let (group, version) = ("infrastructure.cluster.x-k8s.io", "v1beta2");
    let identity = |sort: &str| {
        let mut definition = open_definition(group, version, &format!("AWSCluster{sort}Identity"));
        let plural = format!("awscluster{}identities", sort.to_lowercase());
        if let Some(name) = definition.pointer_mut("/metadata/name") {
            *name = json!(format!("{plural}.{group}"));
        }
        if let Some(spec) = definition.get_mut("spec").and_then(Value::as_object_mut) {
            spec.insert("scope".to_owned(), json!("Cluster"));
            if let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) {
                names.insert("plural".to_owned(), json!(plural));
            }
        }
        definition
    };
    let identities = ["Controller", "Static", "Role"].map(identity);
    [open_definition(group, version, "AWSCluster")].into_iter().chain(identities).collect()
}

/// Applies definitions and waits until each is established and every served version is discoverable.
pub async fn install_crds(client: &Client, crds: Vec<Value>) -> Result<(), PlaneError> {
    for crd in &crds {
        apply(client, crd).await?;
    }
    for crd in &crds {
        wait_served(client, crd).await?;
    }
    Ok(())
}

async fn wait_served(client: &Client, crd: &Value) -> Result<(), PlaneError> {
    let text = |pointer: &str| crd.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (name, group, plural) = (text("/metadata/name"), text("/spec/group"), text("/spec/names/plural"));
    let versions: Vec<&str> = crd
        .pointer("/spec/versions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter(|version| version.get("served").and_then(Value::as_bool) == Some(true))
        .filter_map(|version| version.get("name").and_then(Value::as_str))
        .collect();
    let begun = Instant::now();
    loop {
        let mut waits_for = established(client, name).await?;
        for version in &versions {
            if waits_for.is_none() && !discoverable(client, group, version, plural).await {
                waits_for = Some(format!("{group}/{version} does not list {plural}"));
            }
        }
        let Some(last) = waits_for else { return Ok(()) };
        if begun.elapsed() > SERVED {
            let doing = format!("waiting {} s for the kind {name}", SERVED.as_secs());
            return Err(PlaneError::Bad { doing, why: last });
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// `None` once the definition is established, else what is missing.
async fn established(client: &Client, name: &str) -> Result<Option<String>, PlaneError> {
    let doing = format!("reading the definition {name}");
    let crd = get(client, &format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}"))
        .await
        .map_err(PlaneError::kube(doing))?;
    let conditions = crd.pointer("/status/conditions").and_then(Value::as_array).cloned().unwrap_or_default();
    let is = |kind: &str, status: &str| conditions.iter().any(|c| c["type"] == kind && c["status"] == status);
    if is("Established", "True") {
        return Ok(None);
    }
    let refused = conditions.iter().find(|c| c["type"] == "NamesAccepted" && c["status"] == "False");
    Ok(Some(refused.map_or_else(|| "not established".to_owned(), Value::to_string)))
}

async fn discoverable(client: &Client, group: &str, version: &str, plural: &str) -> bool {
    let list = get(client, &format!("/apis/{group}/{version}")).await.unwrap_or_default();
    list.get("resources").and_then(Value::as_array).is_some_and(|kinds| kinds.iter().any(|kind| kind["name"] == plural))
}

async fn get(client: &Client, path: &str) -> kube::Result<Value> {
    let request = http::Request::get(path).body(Vec::new()).map_err(kube::Error::HttpError)?;
    client.request(request).await
}

/// Points every webhook of a definition or webhook configuration at `https://127.0.0.1:<port>`, trusted through `ca`.
pub fn webhooks_by_url(object: &mut Value, port: u16, ca: &str) {
    let bundle = base64::engine::general_purpose::STANDARD.encode(ca);
    let rewrite = |config: &mut Value| {
        let path = config.pointer("/service/path").and_then(Value::as_str).unwrap_or("/convert").to_owned();
        *config = json!({"url": format!("https://127.0.0.1:{port}{path}"), "caBundle": bundle});
    };
    let by_webhook = object.pointer("/spec/conversion/strategy").and_then(Value::as_str) == Some("Webhook");
    if by_webhook && let Some(config) = object.pointer_mut("/spec/conversion/webhook/clientConfig") {
        rewrite(config);
    }
    for webhook in object.get_mut("webhooks").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(config) = webhook.get_mut("clientConfig") {
            rewrite(config);
        }
    }
    if let Some(annotations) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.remove("cert-manager.io/inject-ca-from");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_service_becomes_a_loopback_address_with_the_same_path() {
        let mut object = json!({
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"annotations": {"cert-manager.io/inject-ca-from": "a/b", "kept": "yes"}},
            "webhooks": [{"name": "a", "clientConfig": {"service": {"name": "s", "namespace": "n", "path": "/check"}}}],
        });
        webhooks_by_url(&mut object, 9443, "PEM");
        let expected = json!({"url": "https://127.0.0.1:9443/check", "caBundle": "UEVN"});
        assert_eq!(object["webhooks"][0]["clientConfig"], expected);
        assert_eq!(object["metadata"]["annotations"], json!({"kept": "yes"}));
    }

    #[test]
    fn only_conversion_by_webhook_is_rewritten() {
        let mut plain = json!({"kind": "CustomResourceDefinition", "spec": {"conversion": {"strategy": "None"}}});
        let before = plain.clone();
        webhooks_by_url(&mut plain, 1, "x");
        assert_eq!(plain, before);
        let mut hook = json!({"spec": {"conversion": {"strategy": "Webhook", "webhook": {
            "clientConfig": {"service": {"name": "s", "namespace": "n", "path": "/convert"}},
            "conversionReviewVersions": ["v1"]}}}});
        webhooks_by_url(&mut hook, 7, "x");
        assert_eq!(hook.pointer("/spec/conversion/webhook/clientConfig/url").unwrap(), "https://127.0.0.1:7/convert");
        assert_eq!(hook.pointer("/spec/conversion/webhook/conversionReviewVersions").unwrap(), &json!(["v1"]));
    }

    #[test]
    fn a_list_is_opened_and_a_single_object_stays_one() {
        assert_eq!(objects(json!({"kind": "List", "items": [{"a": 1}, {"b": 2}]})).len(), 2);
        assert_eq!(objects(json!({"kind": "Pod"})), vec![json!({"kind": "Pod"})]);
        assert!(objects(Value::Null).is_empty());
    }
}
