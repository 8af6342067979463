//! Filling a server: definitions, then N objects from a seed.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::http::{Body, Pool};
use crate::oracle;
use crate::scenario::Scenario;

/// Requests in flight while seeding; the ceiling W uses its own, fixed number.
const IN_FLIGHT: usize = 64;

/// Reads definitions from the output of a command: YAML documents or JSON, a `List` is opened.
pub fn definitions(text: &str) -> Result<Vec<Value>> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).context("reading the definitions as YAML")?;
    let mut all = Vec::new();
    for d in documents {
        match d.get("items").and_then(Value::as_array) {
            Some(items) => all.extend(items.iter().cloned()),
            None => all.push(d),
        }
    }
    all.retain(|d| d.get("kind").and_then(Value::as_str) == Some("CustomResourceDefinition"));
    Ok(all)
}

/// Creates the definitions and waits until the scenario's kind is served.
pub async fn install(server: &Pool, definitions: &[Value], scenario: &dyn Scenario) -> Result<()> {
    let wanted = scenario.kind().crd();
    let name = |d: &Value| d.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned();
    if !definitions.iter().any(|d| name(d) == wanted) {
        let given: Vec<String> = definitions.iter().map(name).collect();
        bail!(
            "scenario {} needs the definition {wanted}, but --crds gave only [{}]",
            scenario.name(),
            given.join(", ")
        );
    }
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    for d in definitions {
        server
            .ok(0, Method::POST, path, Body::Json(Bytes::from(d.to_string())))
            .await
            .with_context(|| format!("installing the definition {}", name(d)))?;
    }
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let (status, _) =
            server.send(0, Method::GET, &format!("{}?limit=1", scenario.kind().path()), Body::None).await?;
        if status == StatusCode::OK {
            // The server holds back every create of a kind for the first two seconds after it was established, for the sake of
            // its peers. That is no part of any figure.
            tokio::time::sleep(Duration::from_millis(2100)).await;
            return Ok(());
        }
        if Instant::now() > until {
            bail!("the kind {wanted} is not served 60 s after its definition was installed ({status})");
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// A request that creates object `index`.
pub fn create(scenario: &dyn Scenario, seed: u64, index: u64) -> (Method, String, Body) {
    let s = scenario.object(seed, index);
    (Method::POST, format!("{}?fieldManager=kind-installer", s.collection), Body::Json(s.object.to_string().into()))
}

/// Creates objects 0 to `count` and gives each its field owners, then counts them.
pub async fn fill(server: &Pool, scenario: &dyn Scenario, seed: u64, count: u64) -> Result<()> {
    let n = usize::try_from(count).context("too many objects")?;
    server.many(n, IN_FLIGHT, |i| Ok(create(scenario, seed, i as u64))).await.context("creating the objects")?;
    let owners = |i: usize| {
        let s = scenario.object(seed, i as u64);
        let patch = json!({"metadata": {"managedFields": s.managed_fields}});
        Ok((Method::PATCH, format!("{}/{}", s.collection, s.name), Body::Merge(patch.to_string().into())))
    };
    server.many(n, IN_FLIGHT, owners).await.context("setting the field owners of the objects")?;
    let there = oracle::snapshot(server, &scenario.kind().path()).await?.objects.len();
    if there != n {
        bail!("{there} objects after creating {n}");
    }
    if n > 0 {
        let s = scenario.object(seed, 0);
        let one: Value = server.get(&format!("{}/{}", s.collection, s.name)).await?;
        let owners = one.pointer("/metadata/managedFields").and_then(Value::as_array).map_or(0, Vec::len);
        if owners < 3 {
            bail!("object {} has {owners} field owners instead of three", s.name);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_found_in_documents_and_in_lists() {
        let text = "kind: CustomResourceDefinition\nmetadata: {name: a}\n---\nkind: Role\n---\nkind: List\nitems:\n- kind: CustomResourceDefinition\n  metadata: {name: b}\n";
        let names: Vec<String> =
            definitions(text).unwrap().iter().map(|d| d["metadata"]["name"].as_str().unwrap().to_owned()).collect();
        assert_eq!(names, ["a", "b"]);
        assert!(definitions("a: [").is_err());
    }
}
