//! Registering a runtime extension by address.

use std::time::{Duration, Instant};

use base64::Engine as _;
use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject};
use serde_json::{Value, json};

use super::resource;
use crate::plane::{PlaneError, apply};

/// How long Cluster API may take to ask a new extension what it does.
const DISCOVERED: Duration = Duration::from_secs(30);

/// The registration of an extension that is served at `https://127.0.0.1:<port>` with a certificate of this authority.
#[must_use]
pub fn config(name: &str, port: u16, ca: &str, selector: &Value) -> Value {
    let bundle = base64::engine::general_purpose::STANDARD.encode(ca);
    json!({
        "apiVersion": "runtime.cluster.x-k8s.io/v1beta2", "kind": "ExtensionConfig", "metadata": {"name": name},
        "spec": {
            "clientConfig": {"url": format!("https://127.0.0.1:{port}"), "caBundle": bundle},
            "namespaceSelector": selector,
        },
    })
}

/// Removes a registration, if there is one and Cluster API was ever installed.
pub async fn forget(client: &Client, name: &str) -> Result<(), PlaneError> {
    let Some(resource) = resource("ExtensionConfig") else { return Ok(()) };
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    match api.delete(name, &DeleteParams::default()).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        other => other.map(drop).map_err(PlaneError::kube(format!("removing the registration {name}"))),
    }
}

/// Registers an extension, waits until Cluster API has discovered it, and returns the names of its handlers.
pub async fn register(client: &Client, config: &Value) -> Result<Vec<String>, PlaneError> {
    let applied = apply(client, config).await?;
    let name = applied.metadata.name.unwrap_or_default();
    let doing = format!("waiting {} s until the extension {name} is discovered", DISCOVERED.as_secs());
    let Some(resource) = resource("ExtensionConfig") else {
        return Err(PlaneError::Bad { doing, why: "there is no such kind".to_owned() });
    };
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let begun = Instant::now();
    loop {
        let found = api.get(&name).await.map_err(PlaneError::kube(doing.clone()))?;
        let status = found.data.get("status").cloned().unwrap_or_default();
        let conditions = status.get("conditions").and_then(Value::as_array).cloned().unwrap_or_default();
        let discovered = conditions.iter().find(|c| c.get("type") == Some(&json!("Discovered"))).cloned();
        let is = |key: &str, value: Value| discovered.as_ref().and_then(|c| c.get(key)) == Some(&value);
        let handlers = status.get("handlers").and_then(Value::as_array).cloned().unwrap_or_default();
        // The condition is written before the handlers are.
        let known = is("status", json!("True")) && is("observedGeneration", json!(found.metadata.generation));
        if known && !handlers.is_empty() {
            return Ok(handlers.iter().filter_map(|h| h.get("name")?.as_str()).map(str::to_owned).collect());
        }
        if begun.elapsed() > DISCOVERED {
            return Err(PlaneError::Bad { doing, why: Value::from(discovered).to_string() });
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
