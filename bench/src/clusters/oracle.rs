//! What must be true once clusters are judged, and once they are ready.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use serde_json::Value;

use super::world::{CLUSTERS, GENERATED, GROUPS, MACHINES, OWNER, PLANES, SYSTEM, TEAM, WRITTEN, is_wrong, name};
use crate::http::Pool;
use crate::oracle::{Snapshot, each, snapshot, unchanged};

fn text<'v>(object: &'v Value, pointer: &str) -> &'v str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Clusters of users, by name; the one that manages the others is left out.
async fn clusters(pool: &Pool) -> Result<BTreeMap<String, Value>> {
    let mut all = BTreeMap::new();
    each(pool, &CLUSTERS.path(), |cluster| {
        if text(cluster, "/metadata/namespace") == TEAM {
            all.insert(text(cluster, "/metadata/name").to_owned(), cluster.clone());
        }
    })
    .await?;
    Ok(all)
}

/// What is wrong with a cluster that is to be ready.
fn ready(cluster: &Value) -> Option<String> {
    let conditions = cluster.pointer("/status/conditions").and_then(Value::as_array);
    let is_ready = |one: &Value| text(one, "/type") == "Ready" && text(one, "/status") == "True";
    if !conditions.into_iter().flatten().any(is_ready) {
        return Some("is not ready".to_owned());
    }
    let failure = text(cluster, "/status/failureReason");
    if !failure.is_empty() {
        return Some(format!("is ready and fails for {failure}"));
    }
    let current = cluster.pointer("/metadata/generation") == cluster.pointer("/status/reconciledGeneration");
    (!current).then(|| "is not carried out as it is written".to_owned())
}

/// Everything that is wrong with generated objects of these clusters: each must have its own, and all that they refer to.
async fn generated(pool: &Pool, clusters: &BTreeSet<String>) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    let (mut there, mut wanted) = (BTreeSet::new(), Vec::new());
    for (kind, count) in GENERATED {
        let mut found: BTreeMap<String, usize> = BTreeMap::new();
        each(pool, &kind.path(), |object| {
            let labels = object.pointer("/metadata/labels").and_then(|labels| labels.get(OWNER));
            *found.entry(labels.and_then(Value::as_str).unwrap_or_default().to_owned()).or_default() += 1;
            there.insert(text(object, "/metadata/name").to_owned());
            let referred: &[&str] = match kind.plural {
                plural if plural == PLANES.plural => &["/spec/machineTemplate/spec/infrastructureRef/name"],
                plural if plural == GROUPS.plural => {
                    &["/spec/template/spec/infrastructureRef/name", "/spec/template/spec/bootstrap/configRef/name"]
                }
                _ => &[],
            };
            wanted.extend(referred.iter().map(|at| text(object, at).to_owned()));
            if text(object, "/metadata/namespace") != SYSTEM {
                wrong.push(format!("a {} is in another namespace than {SYSTEM}", kind.kind));
            }
        })
        .await?;
        for name in clusters.iter().filter(|name| found.get(*name) != Some(&count)) {
            let found = found.get(name).copied().unwrap_or_default();
            wrong.push(format!("{name} has {found} of kind {} instead of {count}", kind.kind));
        }
        for name in found.keys().filter(|name| !clusters.contains(*name)) {
            wrong.push(format!("there is a {} of {name:?}, which was to have none", kind.kind));
        }
    }
    wrong.extend(
        wanted.iter().filter(|name| !there.contains(*name)).map(|name| format!("{name:?} is referred to in vain")),
    );
    Ok(wrong)
}

/// Everything that is wrong with clusters that were judged one after the other.
pub async fn judged(pool: &Pool, count: u64) -> Result<Vec<String>> {
    let (mut wrong, mut verdicts) = (Vec::new(), BTreeMap::new());
    each(pool, &MACHINES.path(), |machine| {
        let valid = machine.pointer("/status/specValid").and_then(Value::as_bool);
        verdicts.insert(text(machine, "/metadata/name").to_owned(), valid);
    })
    .await?;
    let clusters = clusters(pool).await?;
    let mut good = BTreeSet::new();
    for number in 0..count {
        let (name, is_wrong) = (name(number), is_wrong(number));
        if verdicts.get(&name) != Some(&Some(!is_wrong)) {
            wrong.push(format!("machine configuration {name} says {:?}", verdicts.get(&name)));
        }
        match clusters.get(&name) {
            None => wrong.push(format!("cluster {name} is not there")),
            Some(cluster) if is_wrong => {
                let reason = text(cluster, "/status/failureReason");
                if reason != "MachineConfigInvalid" {
                    wrong.push(format!("cluster {name} fails for {reason:?}"));
                }
            }
            Some(cluster) => {
                wrong.extend(ready(cluster).map(|what| format!("cluster {name} {what}")));
                good.insert(name);
            }
        }
    }
    wrong.extend(generated(pool, &good).await?);
    Ok(wrong)
}

/// Everything that is wrong with `count` equal clusters that are ready.
pub async fn written(pool: &Pool, count: u64) -> Result<Vec<String>> {
    let clusters = clusters(pool).await?;
    let names: BTreeSet<String> = (0..count).map(name).collect();
    let mut wrong = generated(pool, &names).await?;
    for name in &names {
        match clusters.get(name) {
            None => wrong.push(format!("cluster {name} is not there")),
            Some(cluster) => wrong.extend(ready(cluster).map(|what| format!("cluster {name} {what}"))),
        }
    }
    Ok(wrong)
}

/// Every object of users and every generated one.
pub async fn picture(pool: &Pool) -> Result<Vec<(&'static str, Snapshot)>> {
    let mut all = Vec::new();
    for kind in WRITTEN.into_iter().chain(GENERATED.map(|(kind, _)| kind)) {
        all.push((kind.kind, snapshot(pool, &kind.path()).await?));
    }
    Ok(all)
}

/// What differs between two pictures.
pub fn moved(before: &[(&'static str, Snapshot)], after: &[(&'static str, Snapshot)]) -> Vec<String> {
    let pairs = before.iter().zip(after);
    pairs
        .flat_map(|((kind, a), (_, b))| unchanged(a, b).into_iter().map(move |what| format!("{kind}: {what}")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_cluster_is_ready_when_it_is_carried_out_as_it_is_written() {
        let cluster = |status: Value| json!({"metadata": {"generation": 2}, "status": status});
        let conditions = json!([{"type": "Ready", "status": "True"}]);
        assert_eq!(ready(&cluster(json!({"conditions": conditions, "reconciledGeneration": 2}))), None);
        for (status, what) in [
            (json!({}), "is not ready"),
            (json!({"conditions": [{"type": "Ready", "status": "False"}]}), "is not ready"),
            (json!({"conditions": conditions, "reconciledGeneration": 1}), "is not carried out as it is written"),
            (json!({"conditions": conditions, "failureReason": "X"}), "is ready and fails for X"),
        ] {
            assert_eq!(ready(&cluster(status)).as_deref(), Some(what));
        }
    }
}
