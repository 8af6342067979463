//! Whether a cluster on claims could be moved to another management cluster with everything it stands on.
//!
//! `clusterctl move` takes along what a Cluster owns, and of the rest what a label says. Nobody owns a host, so without a
//! label the claim arrives and its host does not.

use std::collections::{BTreeMap, BTreeSet};

use api::key::ObjectKey;
use api::meta::{ObjectMeta, lean_meta};
use api::names::CLUSTER_NAME_LABEL;
use api::raw::HostClaim;
use api::views::HardwareData;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kit::class::chain;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};
use serde::Deserialize;

use crate::doctor::{Check, count, list, some};

/// Label on a definition: clusterctl looks at objects of the kind.
const SEEN: &str = "clusterctl.cluster.x-k8s.io";
/// Label on a definition or an object: it is moved.
const MOVED: &str = "clusterctl.cluster.x-k8s.io/move";
/// Label on a definition or an object: it is moved with everything that it owns.
const MOVED_WITH_ALL: &str = "clusterctl.cluster.x-k8s.io/move-hierarchy";
const HOSTS: &str = "baremetalhosts.metal3.io";
const DATA: &str = "hardwaredata.metal3.io";

/// A host: who uses it and where its credentials are.
#[derive(Clone, Debug, Default, Deserialize)]
struct BareMetalHost {
    #[serde(default, deserialize_with = "lean_meta")]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: HostSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct HostSpec {
    consumer_ref: Option<Consumer>,
    bmc: Option<Bmc>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Consumer {
    kind: String,
    name: String,
    namespace: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Bmc {
    credentials_name: String,
}

api::view! { BareMetalHost, group: "metal3.io", versions: ["v1alpha1"], plural: "baremetalhosts", scope: Namespaced }

/// What a move is judged by.
#[derive(Debug, Default)]
struct World {
    /// The labels of the definitions, by name.
    kinds: BTreeMap<&'static str, BTreeMap<String, String>>,
    hosts: Vec<BareMetalHost>,
    data: BTreeMap<ObjectKey, ObjectMeta>,
    secrets: BTreeMap<ObjectKey, ObjectMeta>,
    /// The claims that belong to a cluster.
    claims: BTreeSet<ObjectKey>,
}

/// The check; none where no cluster has its claims and their hosts in one namespace, for only such a cluster can be moved.
pub async fn all(client: &Client) -> Vec<Check> {
    match see(client).await {
        Ok(world) => judge(&world).into_iter().collect(),
        Err(check) => vec![check],
    }
}

async fn see(client: &Client) -> Result<World, Check> {
    let claims = list::<HostClaim>(client, "moves").await?.unwrap_or_default();
    let of_cluster = |claim: &&HostClaim| claim.labels().contains_key(CLUSTER_NAME_LABEL);
    let claims: BTreeSet<ObjectKey> = claims.iter().filter(of_cluster).map(ObjectKey::of).collect();
    let mut world = World { claims, ..World::default() };
    if world.claims.is_empty() {
        return Ok(world);
    }
    world.hosts = list::<BareMetalHost>(client, "moves").await?.unwrap_or_default();
    world.hosts.retain(|host| is_beside(host, &world.claims));
    if world.hosts.is_empty() {
        return Ok(world);
    }
    let unread = |error: &kube::Error| {
        Check::warn("moves", format!("cannot be read: {}", chain(error)), "run the doctor with more rights")
    };
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for name in [HOSTS, DATA] {
        let found = definitions.get_metadata_opt(name).await.map_err(|error| unread(&error))?;
        world.kinds.extend(found.map(|found| (name, found.labels().clone())));
    }
    let data = list::<HardwareData>(client, "moves").await?.unwrap_or_default();
    world.data = data.into_iter().map(|data| (ObjectKey::of(&data), data.metadata)).collect();
    let spaces: BTreeSet<String> = world.hosts.iter().filter_map(BareMetalHost::namespace).collect();
    for space in spaces {
        let secrets: Api<Secret> = Api::namespaced(client.clone(), &space);
        let found = secrets.list_metadata(&ListParams::default()).await.map_err(|error| unread(&error))?;
        world.secrets.extend(found.items.into_iter().map(|secret| (ObjectKey::of(&secret), secret.metadata)));
    }
    Ok(world)
}

/// Whether a claim of a cluster, in the host's own namespace, uses the host.
fn is_beside(host: &BareMetalHost, claims: &BTreeSet<ObjectKey>) -> bool {
    host.spec.consumer_ref.as_ref().is_some_and(|by| {
        let here = host.metadata.namespace.as_deref() == Some(by.namespace.as_str());
        here && by.kind == "HostClaim" && claims.contains(&ObjectKey::namespaced(&*by.namespace, &*by.name))
    })
}

fn has(labels: Option<&BTreeMap<String, String>>, key: &str) -> bool {
    labels.is_some_and(|labels| labels.contains_key(key))
}

/// Whether a label takes an object of a kind along; kinds of Kubernetes itself have no definition, and are looked at.
fn is_taken(kind: Option<&BTreeMap<String, String>>, meta: &ObjectMeta) -> bool {
    [MOVED, MOVED_WITH_ALL].iter().any(|key| has(kind, key) || has(meta.labels.as_ref(), key))
}

fn judge(world: &World) -> Option<Check> {
    if world.hosts.is_empty() {
        return None;
    }
    let kind = |name: &str| world.kinds.get(name);
    let unseen: Vec<&str> = [HOSTS, DATA].into_iter().filter(|name| !has(kind(name), SEEN)).collect();
    let mut left = Vec::new();
    for host in &world.hosts {
        let key = ObjectKey::of(host);
        let labels = host.metadata.labels.as_ref();
        let with_all = has(kind(HOSTS), SEEN) && (has(kind(HOSTS), MOVED_WITH_ALL) || has(labels, MOVED_WITH_ALL));
        if !(has(kind(HOSTS), SEEN) && is_taken(kind(HOSTS), &host.metadata)) {
            left.push(format!("BareMetalHost {key}"));
        }
        let owned = |meta: &ObjectMeta| {
            meta.owner_references.iter().flatten().any(|owner| Some(&owner.uid) == host.metadata.uid.as_ref())
        };
        let follows = |meta: &ObjectMeta| with_all && owned(meta);
        if let Some(meta) = world.data.get(&key)
            && !(has(kind(DATA), SEEN) && (is_taken(kind(DATA), meta) || follows(meta)))
        {
            left.push(format!("HardwareData {key}"));
        }
        let secret = host.spec.bmc.as_ref().map(|bmc| bmc.credentials_name.as_str()).filter(|name| !name.is_empty());
        let secret = secret.map(|name| ObjectKey::namespaced(key.namespace().unwrap_or_default(), name));
        if let Some((secret, meta)) = secret.and_then(|key| world.secrets.get(&key).map(|meta| (key, meta)))
            && !(is_taken(None, meta) || follows(meta))
        {
            left.push(format!("Secret {secret}"));
        }
    }
    if left.is_empty() {
        let found =
            format!("{} in the namespaces of their clusters, all labelled to travel", count(world.hosts.len(), "host"));
        return Some(Check::ok("moves", found));
    }
    let fix = if unseen.is_empty() {
        format!(
            "kubectl label baremetalhosts --namespace NAMESPACE --all {MOVED_WITH_ALL}=   takes what hosts own along; label the rest {MOVED}="
        )
    } else {
        format!("kubectl label crds {} {SEEN}=   lets clusterctl see them; then label the objects", unseen.join(" "))
    };
    Some(Check::warn("moves", format!("clusterctl move would leave behind: {}", some(&left)), fix))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Level;
    use serde_json::{Value, json};

    fn host(namespace: &str, labels: &Value) -> BareMetalHost {
        serde_json::from_value(json!({
            "metadata": {"namespace": namespace, "name": "h1", "uid": "h1-uid", "labels": labels},
            "spec": {"bmc": {"address": "redfish://x", "credentialsName": "h1-bmc"},
                "consumerRef": {"kind": "HostClaim", "namespace": "fleet", "name": "m1"}},
        }))
        .unwrap()
    }

    fn meta(owned: bool, labels: &Value) -> ObjectMeta {
        let owners =
            json!([{"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "name": "h1", "uid": "h1-uid"}]);
        let owners = if owned { owners } else { json!([]) };
        serde_json::from_value(json!({"name": "x", "labels": labels, "ownerReferences": owners})).unwrap()
    }

    fn world(kinds: &Value, host_labels: &Value, data: ObjectMeta, secret: ObjectMeta) -> World {
        let labels: BTreeMap<String, String> = serde_json::from_value(kinds.clone()).unwrap();
        World {
            kinds: [HOSTS, DATA].into_iter().map(|name| (name, labels.clone())).collect(),
            hosts: vec![host("fleet", host_labels)],
            data: [(ObjectKey::namespaced("fleet", "h1"), data)].into(),
            secrets: [(ObjectKey::namespaced("fleet", "h1-bmc"), secret)].into(),
            claims: [ObjectKey::namespaced("fleet", "m1")].into(),
        }
    }

    fn told(world: &World) -> String {
        let check = judge(world).unwrap();
        assert_eq!(check.level == Level::Ok, check.fix.is_none());
        check.found.trim_start_matches("clusterctl move would leave behind: ").to_owned()
    }

    #[test]
    fn what_no_label_and_no_owner_takes_along_is_named() {
        let (seen, none) = (json!({SEEN: ""}), json!({}));
        let bare = world(&seen, &none, meta(true, &none), meta(true, &none));
        assert_eq!(told(&bare), "BareMetalHost fleet/h1; HardwareData fleet/h1; Secret fleet/h1-bmc");
        let alone = world(&seen, &json!({MOVED: ""}), meta(true, &none), meta(true, &none));
        assert_eq!(told(&alone), "HardwareData fleet/h1; Secret fleet/h1-bmc", "a host alone takes nothing along");
        let loose = world(&seen, &json!({MOVED_WITH_ALL: ""}), meta(true, &none), meta(false, &none));
        assert_eq!(told(&loose), "Secret fleet/h1-bmc", "what a host does not own does not follow it");
        let all = "1 host in the namespaces of their clusters, all labelled to travel";
        let whole = world(&seen, &json!({MOVED_WITH_ALL: ""}), meta(true, &none), meta(true, &none));
        assert_eq!(told(&whole), all);
        let by_kind = json!({SEEN: "", MOVED_WITH_ALL: ""});
        assert_eq!(told(&world(&by_kind, &none, meta(true, &none), meta(true, &none))), all);
        let each =
            world(&seen, &json!({MOVED: ""}), meta(false, &json!({MOVED: ""})), meta(false, &json!({MOVED: ""})));
        assert_eq!(told(&each), all);
    }

    #[test]
    fn a_kind_that_clusterctl_does_not_see_stays_whatever_its_objects_say() {
        let labels = json!({MOVED_WITH_ALL: "", MOVED: ""});
        let unseen = world(&json!({}), &labels, meta(true, &labels), meta(true, &json!({})));
        let check = judge(&unseen).unwrap();
        assert!(
            check.found.ends_with("BareMetalHost fleet/h1; HardwareData fleet/h1; Secret fleet/h1-bmc"),
            "{check:?}"
        );
        assert!(check.fix.unwrap().starts_with("kubectl label crds baremetalhosts.metal3.io hardwaredata.metal3.io"));
    }

    #[test]
    fn hosts_that_cannot_move_anyway_are_nobodys_business() {
        let claims = BTreeSet::from([ObjectKey::namespaced("fleet", "m1")]);
        assert!(is_beside(&host("fleet", &json!({})), &claims));
        assert!(!is_beside(&host("infra", &json!({})), &claims), "its claim is elsewhere");
        assert!(!is_beside(&host("fleet", &json!({})), &BTreeSet::new()), "its claim is no cluster's");
        assert!(judge(&World::default()).is_none());
    }
}
