//! What is in the cluster, and what must not have happened to it.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::http::Pool;

/// Identity and version of every object of a kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// `namespace/name` to uid and resource version.
    pub objects: BTreeMap<String, (String, String)>,
    /// The resource version of the list.
    pub version: String,
}

#[derive(Deserialize)]
struct Page {
    metadata: PageMeta,
    items: Vec<Item>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageMeta {
    resource_version: String,
    #[serde(default)]
    r#continue: String,
}

#[derive(Deserialize)]
struct Item {
    metadata: ItemMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ItemMeta {
    name: String,
    #[serde(default)]
    namespace: String,
    uid: String,
    resource_version: String,
}

/// Lists a kind, page by page, at one revision.
pub async fn snapshot(server: &Pool, path: &str) -> Result<Snapshot> {
    let mut all = Snapshot::default();
    let mut next = String::new();
    loop {
        let page: Page =
            server.get(&format!("{path}?limit=1000{next}")).await.context("taking the oracle's snapshot")?;
        for Item { metadata: m } in page.items {
            let key = if m.namespace.is_empty() { m.name } else { format!("{}/{}", m.namespace, m.name) };
            all.objects.insert(key, (m.uid, m.resource_version));
        }
        all.version = page.metadata.resource_version;
        if page.metadata.r#continue.is_empty() {
            return Ok(all);
        }
        next = format!("&continue={}", page.metadata.r#continue);
    }
}

/// The present resource version of a collection, where a watch may begin.
pub async fn version(server: &Pool, path: &str) -> Result<String> {
    let page: Page = server.get(&format!("{path}?limit=1")).await.with_context(|| format!("listing {path}"))?;
    Ok(page.metadata.resource_version)
}

/// Hands on every object of a kind, page by page.
pub async fn each(server: &Pool, path: &str, mut look: impl FnMut(&serde_json::Value)) -> Result<()> {
    let mut next = String::new();
    loop {
        let page: serde_json::Value =
            server.get(&format!("{path}?limit=1000{next}")).await.with_context(|| format!("listing {path}"))?;
        page.get("items").and_then(serde_json::Value::as_array).into_iter().flatten().for_each(&mut look);
        match page.pointer("/metadata/continue").and_then(serde_json::Value::as_str) {
            Some(token) if !token.is_empty() => next = format!("&continue={token}"),
            _ => return Ok(()),
        }
    }
}

/// Everything that differs between two snapshots: lost, added, replaced and written objects.
pub fn unchanged(before: &Snapshot, after: &Snapshot) -> Vec<String> {
    let (mut lost, mut new, mut replaced, mut written) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (key, (uid, version)) in &before.objects {
        match after.objects.get(key) {
            None => lost.push(key),
            Some((u, _)) if u != uid => replaced.push(key),
            Some((_, v)) if v != version => written.push(key),
            Some(_) => {}
        }
    }
    new.extend(after.objects.keys().filter(|k| !before.objects.contains_key(*k)));
    [("lost", lost), ("added", new), ("replaced by another of the same name", replaced), ("written to", written)]
        .into_iter()
        .filter_map(|(what, keys)| {
            keys.first().map(|first| format!("{} objects {what}, for example {first}", keys.len()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snap(entries: &[(&str, &str, &str)]) -> Snapshot {
        let objects = entries.iter().map(|(k, u, v)| ((*k).to_owned(), ((*u).to_owned(), (*v).to_owned()))).collect();
        Snapshot { objects, version: "9".into() }
    }

    #[test]
    fn an_untouched_set_passes() {
        let s = snap(&[("a", "u1", "1"), ("b", "u2", "2")]);
        assert!(unchanged(&s, &s.clone()).is_empty());
    }

    #[test]
    fn every_kind_of_damage_is_named() {
        let before = snap(&[("a", "u1", "1"), ("b", "u2", "2"), ("c", "u3", "3")]);
        let after = snap(&[("b", "other", "7"), ("c", "u3", "8"), ("d", "u4", "9")]);
        let wrong = unchanged(&before, &after).join("; ");
        for word in ["1 objects lost, for example a", "added, for example d", "replaced", "written to, for example c"] {
            assert!(wrong.contains(word), "{wrong}");
        }
    }
}
