//! What must be true with all machines up, and once all of them are gone.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use serde_json::Value;

use super::world::{DATA_CLAIMS, MACHINES, NODES, SECRETS, provider_id};
use crate::claims;
use crate::claims::world::{CLAIMS, HOSTS};
use crate::http::Pool;
use crate::oracle::{each, snapshot};

fn text<'v>(object: &'v Value, pointer: &str) -> &'v str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn key(object: &Value) -> String {
    format!("{}/{}", text(object, "/metadata/namespace"), text(object, "/metadata/name"))
}

/// Names of all Secrets.
pub async fn secrets(pool: &Pool) -> Result<BTreeSet<String>> {
    Ok(snapshot(pool, SECRETS).await?.objects.into_keys().collect())
}

/// Everything that is wrong with `count` machines up: each must be provisioned, have its own provider id, a host of its
/// own, and one Node.
pub async fn up(pool: &Pool, count: usize) -> Result<Vec<String>> {
    let mut wrong = claims::oracle::judge(pool, count, Some(count)).await?;
    let mut nodes: BTreeMap<String, usize> = BTreeMap::new();
    each(pool, NODES, |node| *nodes.entry(text(node, "/spec/providerID").to_owned()).or_default() += 1).await?;
    let mut machines = 0;
    each(pool, &MACHINES.path(), |machine| {
        machines += 1;
        let (key, id) = (key(machine), text(machine, "/spec/providerID"));
        if machine.pointer("/status/initialization/provisioned") != Some(&Value::Bool(true)) {
            wrong.push(format!("machine {key} is not provisioned"));
        }
        if id != provider_id(&key) {
            wrong.push(format!("machine {key} has the provider id {id:?}"));
        }
        let found = nodes.get(id).copied().unwrap_or_default();
        if found != 1 {
            wrong.push(format!("machine {key} has {found} Nodes"));
        }
    })
    .await?;
    if machines != count {
        wrong.push(format!("{machines} machines instead of {count}"));
    }
    Ok(wrong)
}

/// Everything that is left of machines: objects, hosts that are not as they were, and Secrets that were not there before.
pub async fn down(pool: &Pool, hosts: usize, before: &BTreeSet<String>) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    for kind in [MACHINES, CLAIMS, DATA_CLAIMS] {
        let left = snapshot(pool, &kind.path()).await?.objects;
        if let Some(first) = left.keys().next() {
            wrong.push(format!("{} of kind {} are left, for example {first}", left.len(), kind.kind));
        }
    }
    let mut there = 0;
    each(pool, &HOSTS.path(), |host| {
        there += 1;
        if let Some(what) = held(host) {
            wrong.push(format!("host {} is not free: it has {what}", key(host)));
        }
    })
    .await?;
    if there != hosts {
        wrong.push(format!("{there} hosts instead of {hosts}"));
    }
    let after = secrets(pool).await?;
    for (what, mut keys) in [("left", after.difference(before)), ("lost", before.difference(&after))] {
        if let Some(first) = keys.next() {
            wrong.push(format!("{} Secrets are {what}, for example {first}", keys.count() + 1));
        }
    }
    Ok(wrong)
}

/// What keeps a host from being free.
fn held(host: &Value) -> Option<String> {
    for field in ["consumerRef", "image", "customDeploy", "userData", "metaData", "networkData"] {
        if host.pointer(&format!("/spec/{field}")).is_some_and(|value| !value.is_null()) {
            return Some(field.to_owned());
        }
    }
    let state = text(host, "/status/provisioning/state");
    (state != "available").then(|| format!("the state {state:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_host_is_free_when_nothing_of_a_tenant_is_left_on_it() {
        let host = |spec: Value, state: &str| json!({"spec": spec, "status": {"provisioning": {"state": state}}});
        assert_eq!(held(&host(json!({"online": false, "image": null}), "available")), None);
        for (spec, state, what) in [
            (json!({"consumerRef": {"name": "a"}}), "available", "consumerRef"),
            (json!({"image": {"url": "x"}}), "available", "image"),
            (json!({"userData": {"name": "x"}}), "available", "userData"),
            (json!({}), "deprovisioning", "the state \"deprovisioning\""),
        ] {
            assert_eq!(held(&host(spec, state)).as_deref(), Some(what));
        }
    }
}
