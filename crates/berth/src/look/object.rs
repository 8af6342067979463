//! Reads one object of any kind, and nothing beside it.

use anyhow::{Context, anyhow};
use api::key::ObjectKey;
use api::meta::{ObjectMeta, lean_meta};
use kit::kinds::Kind;
use kube::api::{DynamicObject, GetParams, ListParams};
use kube::{Client, Resource as _};
use serde::Deserialize;
use serde_json::Value;

use super::{Reader, absent, is_forbidden, items, plural};

/// An object of any kind, unread.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Thing {
    /// Metadata without `managedFields`.
    #[serde(default, deserialize_with = "lean_meta")]
    pub metadata: ObjectMeta,
    /// The spec.
    #[serde(default)]
    pub spec: Value,
    /// The status.
    #[serde(default)]
    pub status: Value,
}

/// Only who an object is.
#[derive(Deserialize)]
struct Stub {
    #[serde(default, deserialize_with = "lean_meta")]
    metadata: ObjectMeta,
}

/// Reads one object at the first of these versions of its kind that is served.
///
/// Which one that is, is only asked when the object is not found at the first: a server says the same of an object that is not
/// there and of a version that it does not know, and nearly always one request is enough.
///
/// # Errors
/// When it is not there or may not be read, the kind is not served, or the server does not answer.
pub async fn object(
    reader: &Reader<'_>,
    versions: &[Kind],
    namespace: Option<&str>,
    name: &str,
    command: &str,
) -> anyhow::Result<Thing> {
    let first = versions.first().context("a kind without versions cannot be read")?;
    if let Some(found) = got(reader.client, first, namespace, name).await? {
        return Ok(found);
    }
    let served = reader.first(versions).await.with_context(|| format!("asking the server for {}", first.kind))?;
    let Some(kind) = served else {
        let (what, group) = (&first.kind, &first.group);
        return Err(anyhow!(
            "the server does not know {what} ({group}), so there is none; perhaps another --context is meant"
        ));
    };
    if kind != *first
        && let Some(found) = got(reader.client, &kind, namespace, name).await?
    {
        return Ok(found);
    }
    // It is only to find the name that was meant; who may not list is told without.
    let all: Vec<Stub> = items(reader.client, &kind, None, &ListParams::default()).await.unwrap_or_default();
    let keys: Vec<ObjectKey> = all.iter().map(|one| key(&one.metadata)).collect();
    Err(absent(&keys, &kind, &wanted(namespace, name), command))
}

fn wanted(namespace: Option<&str>, name: &str) -> ObjectKey {
    match namespace {
        Some(namespace) => ObjectKey::namespaced(namespace, name),
        None => ObjectKey::cluster_scoped(name),
    }
}

/// The key of the object that has this metadata.
pub fn key(meta: &ObjectMeta) -> ObjectKey {
    wanted(meta.namespace.as_deref(), meta.name.as_deref().unwrap_or_default())
}

async fn got(client: &Client, kind: &Kind, namespace: Option<&str>, name: &str) -> anyhow::Result<Option<Thing>> {
    let path = DynamicObject::url_path(&kind.resource(), namespace);
    let request = kube::core::Request::new(path).get(name, &GetParams::default()).map_err(kube::Error::BuildRequest)?;
    match client.request::<Thing>(request).await {
        Ok(found) => Ok(Some(found)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) if is_forbidden(&error) => {
            let what = plural(kind);
            let (place, flag) = match namespace {
                Some(namespace) => (format!(" in the namespace {namespace}"), format!(" -n {namespace}")),
                None => (String::new(), String::new()),
            };
            Err(anyhow!("you may not get {what}{place}; see `kubectl auth can-i get {what}{flag}`"))
        }
        Err(error) => Err(anyhow!(error).context(format!("reading the {} {}", kind.kind, wanted(namespace, name)))),
    }
}
