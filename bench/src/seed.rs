//! Filling a server: definitions, then N objects from a seed.

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use http::Method;
use serde_json::Value;

use crate::http::{Body, Pool};
use crate::oracle;
use crate::scenario::{Seeded, Shape};
use crate::server::Server;
use crate::store::{CREATOR, stored};

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

/// Creates the objects `from` to `to` through the server, then looks at what it has.
pub async fn fill(server: &Pool, scenario: &dyn Shape, seed: u64, (from, to): (u64, u64)) -> Result<()> {
    let n = usize::try_from(to.saturating_sub(from)).context("too many objects")?;
    server.many(n, IN_FLIGHT, |i| Ok(create(scenario, seed, from + i as u64))).await.context("creating the objects")?;
    verify(server, scenario, seed, to).await
}

/// Counts the objects and looks at the field owners of the first and the last.
async fn verify(server: &Pool, scenario: &dyn Shape, seed: u64, count: u64) -> Result<()> {
    let there = oracle::snapshot(server, &scenario.kind().path()).await?.objects.len() as u64;
    if there != count {
        bail!("{there} objects after creating {count}");
    }
    for index in [0, count.saturating_sub(1)].into_iter().filter(|_| count > 0) {
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

/// What a controller has made of an object that it has nothing more to do for.
#[derive(Debug)]
struct Settled {
    status: Option<Value>,
    finalizers: Option<Value>,
    /// Everybody but the creator.
    managers: Vec<Value>,
}

impl Settled {
    /// What became of an object, unless something was done to it that is not state or finalizers.
    fn of(created: &Value, found: &Value) -> Option<Self> {
        let same = |pointer: &str| created.pointer(pointer) == found.pointer(pointer);
        if !["/metadata/labels", "/metadata/annotations"].into_iter().all(same) {
            return None;
        }
        let part = |pointer: &str| found.pointer(pointer).cloned();
        let managers = part("/metadata/managedFields").and_then(|all| all.as_array().cloned()).unwrap_or_default();
        let others = managers.into_iter().filter(|m| m.get("manager").and_then(Value::as_str) != Some(CREATOR));
        let (status, finalizers) = (part("/status"), part("/metadata/finalizers"));
        Some(Self { status, finalizers, managers: others.collect() })
    }

    /// Whether the same was made of another object, moments apart.
    fn like(&self, other: &Self) -> bool {
        self.status.as_ref().map(timeless) == other.status.as_ref().map(timeless) && self.finalizers == other.finalizers
    }

    /// Another object, of which the same was made.
    fn put_on(&self, mut object: Value) -> Value {
        if let (Some(status), Some(of)) = (&self.status, object.as_object_mut()) {
            of.insert("status".to_owned(), status.clone());
        }
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            if let Some(finalizers) = &self.finalizers {
                metadata.insert("finalizers".to_owned(), finalizers.clone());
            }
            metadata.insert("managedFields".to_owned(), Value::Array(self.managers.clone()));
        }
        object
    }
}

/// A value without its moments.
fn timeless(value: &Value) -> Value {
    match value {
        Value::String(text) if text.parse::<jiff::Timestamp>().is_ok() => Value::Null,
        Value::Array(all) => all.iter().map(timeless).collect(),
        Value::Object(all) => all.iter().map(|(name, value)| (name.clone(), timeless(value))).collect(),
        other => other.clone(),
    }
}

/// Stores the objects `sample` to `count` with the state that a controller gave to those before, and whether that is
/// possible: it is not when the controller made different things of them.
pub async fn multiply(server: &Server, scenario: &dyn Shape, seed: u64, (sample, count): (u64, u64)) -> Result<bool> {
    let pool = Pool::connect(&server.kubeconfig(), 1, "berth-bench-seed").await?;
    let mut first: Option<Settled> = None;
    for index in 0..sample {
        let Seeded { collection, name, object, .. } = scenario.object(seed, index);
        let found: Value = pool.get(&format!("{collection}/{name}")).await?;
        match (Settled::of(&object, &found), &first) {
            (None, _) => return Ok(false),
            (Some(one), Some(first)) if !first.like(&one) => return Ok(false),
            (Some(_), Some(_)) => {}
            (Some(one), None) => first = Some(one),
        }
    }
    let Some(settled) = first else { return Ok(false) };
    let rest = usize::try_from(count.saturating_sub(sample)).context("too many objects")?;
    let make = |n: usize| {
        let index = sample + n as u64;
        Ok(stored(settled.put_on(scenario.object(seed, index).object), index))
    };
    server.store().put(scenario.kind(), rest, make).await?;
    verify(&pool, scenario, seed, count).await?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn definitions_are_found_in_documents_and_in_lists() {
        let text = "kind: CustomResourceDefinition\nmetadata: {name: a}\n---\nkind: Role\n---\nkind: List\nitems:\n- kind: CustomResourceDefinition\n  metadata: {name: b}\n";
        let names: Vec<String> =
            definitions(text).unwrap().iter().map(|d| d["metadata"]["name"].as_str().unwrap().to_owned()).collect();
        assert_eq!(names, ["a", "b"]);
        assert!(definitions("a: [").is_err());
    }

    #[test]
    fn what_a_controller_made_of_one_object_is_put_on_another_unless_it_differs() {
        let created = |name: &str| json!({"metadata": {"name": name, "labels": {"a": "b"}}, "spec": {}});
        let found = |name: &str, at: &str, reason: &str| {
            let mut object = created(name);
            object["status"] = json!({"conditions": [{"lastTransitionTime": at, "reason": reason}]});
            object["metadata"]["managedFields"] = json!([{"manager": CREATOR}, {"manager": "other"}]);
            object
        };
        let one = Settled::of(&created("a"), &found("a", "2026-01-02T03:04:05Z", "Fine")).unwrap();
        let later = Settled::of(&created("b"), &found("b", "2026-01-02T03:04:06Z", "Fine")).unwrap();
        let other = Settled::of(&created("c"), &found("c", "2026-01-02T03:04:05Z", "Lost")).unwrap();
        assert!(one.like(&later) && !one.like(&other));
        let put = one.put_on(created("d"));
        assert_eq!(put["status"]["conditions"][0]["reason"], "Fine");
        assert_eq!(put["metadata"]["managedFields"], json!([{"manager": "other"}]));
        let mut labelled = found("a", "2026-01-02T03:04:05Z", "Fine");
        labelled["metadata"]["labels"]["more"] = json!("x");
        assert!(Settled::of(&created("a"), &labelled).is_none());
    }
}
