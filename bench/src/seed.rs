//! Filling a server: definitions, then N objects from a seed.

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use http::Method;
use serde_json::Value;

use crate::http::{Body, Pool};
use crate::oracle;
use crate::scenario::{Seeded, Shape};

/// Requests in flight while seeding; the ceiling W uses its own, fixed number.
const IN_FLIGHT: usize = 64;

/// The field owner of everything a new object has.
const CREATOR: &str = "kind-installer";

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

/// The definitions of these kinds of Cluster API, by their plural names.
pub fn cluster_api(plurals: &[&str]) -> Result<Vec<Value>> {
    let mut all = sim::plane::cluster_api_definitions().context("reading the definitions of Cluster API")?;
    let wanted: Vec<String> = plurals.iter().map(|plural| format!("{plural}.cluster.x-k8s.io")).collect();
    all.retain(|definition| {
        let name = definition.pointer("/metadata/name").and_then(Value::as_str);
        name.is_some_and(|name| wanted.iter().any(|wanted| wanted == name))
    });
    Ok(all)
}

/// Creates the definitions and waits until the kind is served.
pub async fn install(server: &Pool, definitions: &[Value], scenario: &dyn Shape) -> Result<()> {
    let wanted = scenario.kind().crd();
    let name = |d: &Value| d.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned();
    if !definitions.iter().any(|d| name(d) == wanted) {
        let given: Vec<String> = definitions.iter().map(name).collect();
        bail!("the definition {wanted} is needed, but there are only [{}]", given.join(", "));
    }
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    for d in definitions {
        server
            .ok(0, Method::POST, path, Body::Json(Bytes::from(d.to_string())))
            .await
            .with_context(|| format!("installing the definition {}", name(d)))?;
    }
    crate::http::served(server, &[scenario.kind().path()]).await
}

/// A request that creates object `index` with the field owners of an object in use, so that no second request is needed.
///
/// The server honours the owners that a create names, except that whoever creates an object owns every field it has: to
/// the others it leaves what the new object does not have, such as status and finalizers.
pub fn create(scenario: &dyn Shape, seed: u64, index: u64) -> (Method, String, Body) {
    let Seeded { collection, mut object, managed_fields, .. } = scenario.object(seed, index);
    if !managed_fields.is_null()
        && let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut)
    {
        metadata.insert("managedFields".to_owned(), managed_fields);
    }
    (Method::POST, format!("{collection}?fieldManager={CREATOR}"), Body::Json(object.to_string().into()))
}

/// Creates objects 0 to `count`, then counts them and looks at the field owners of the first and the last.
pub async fn fill(server: &Pool, scenario: &dyn Shape, seed: u64, count: u64) -> Result<()> {
    let n = usize::try_from(count).context("too many objects")?;
    server.many(n, IN_FLIGHT, |i| Ok(create(scenario, seed, i as u64))).await.context("creating the objects")?;
    let there = oracle::snapshot(server, &scenario.kind().path()).await?.objects.len();
    if there != n {
        bail!("{there} objects after creating {n}");
    }
    for index in [0, count.saturating_sub(1)].into_iter().filter(|_| n > 0) {
        let s = scenario.object(seed, index);
        let one: Value = server.get(&format!("{}/{}", s.collection, s.name)).await?;
        let managers = |owners: Option<&Value>| -> Vec<String> {
            let owners = owners.and_then(Value::as_array).into_iter().flatten();
            owners.filter_map(|owner| owner.get("manager")?.as_str().map(str::to_owned)).collect()
        };
        let (mut wanted, stored) =
            (managers(Some(&s.managed_fields)), managers(one.pointer("/metadata/managedFields")));
        wanted.push(CREATOR.to_owned());
        if let Some(missing) = wanted.iter().find(|manager| !stored.contains(manager)) {
            bail!("object {} has the field owners {stored:?}, but not {missing}", s.name);
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
