//! Who else is in the world: an IPAM provider that works as the in-cluster one does, and Cluster API as far as it
//! calls hooks and renders.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::key::ObjectKey;
use api::views::Cluster;
use serde_json::{Value, json};
use sim::server::Server;
use tokio::time::Instant;
use vip::extension::Extension;
use vip::hooks::{Answer, Handlers, LifecycleRequest};

use crate::objects::{
    ADDRESSES, CLAIMS, CLUSTERS, DOCKS, NS, POOLS, at, deleting, host, name, note, owners, paused, uid, variable,
};

const RELEASE: &str = "ipam.cluster.x-k8s.io/ReleaseAddress";
const PROTECT: &str = "ipam.cluster.x-k8s.io/ProtectAddress";

/// Does one write of the IPAM provider for the first claim or pool that needs one; says whether there was any. Between
/// two calls anything may happen, as between two writes of the real one.
pub fn provide(server: &Server) -> bool {
    server.list(CLAIMS, NS).iter().any(|claim| tend(server, claim))
        || server.list(POOLS, "").iter().any(|p| count(server, p))
}

fn tend(server: &Server, claim: &Value) -> bool {
    let cluster = server.get(CLUSTERS, NS, at(claim, "/spec/clusterName"));
    let linked = !at(claim, "/spec/clusterName").is_empty();
    // A claim whose cluster is not there, or is paused, is not looked at.
    if linked && cluster.as_ref().is_none_or(paused) && !(deleting(claim) && cluster.is_none()) {
        return false;
    }
    let held = claim.pointer("/metadata/finalizers").is_some_and(|f| f.as_array().unwrap().contains(&json!(RELEASE)));
    let address = server.get(ADDRESSES, NS, name(claim));
    if deleting(claim) {
        if address.is_some() {
            let unprotected = |object: &mut Value| object["metadata"]["finalizers"] = json!([]);
            server.edit(ADDRESSES, NS, name(claim), unprotected).unwrap();
            server.delete(ADDRESSES, NS, name(claim));
            return true;
        }
        if held {
            server.edit(CLAIMS, NS, name(claim), |object| object["metadata"]["finalizers"] = json!([])).unwrap();
        }
        return held;
    }
    if !held {
        server.edit(CLAIMS, NS, name(claim), |object| object["metadata"]["finalizers"] = json!([RELEASE])).unwrap();
        return true;
    }
    let pool = server.get(POOLS, "", at(claim, "/spec/poolRef/name"));
    let Some(pool) = pool.filter(|pool| !paused(pool)) else { return false };
    if address.is_none() {
        let Some(free) = free(server, &pool).into_iter().next() else { return false };
        server.put(address_of(claim, &pool, &free)).unwrap();
        return true;
    }
    if at(claim, "/status/addressRef/name").is_empty() {
        let bound = json!({"addressRef": {"name": name(claim)}});
        server.edit(CLAIMS, NS, name(claim), |object| object["status"] = bound.clone()).unwrap();
        return true;
    }
    false
}

fn address_of(claim: &Value, pool: &Value, address: &str) -> Value {
    json!({
        "apiVersion": "ipam.cluster.x-k8s.io/v1beta2", "kind": "IPAddress",
        "metadata": {"name": name(claim), "namespace": NS, "finalizers": [PROTECT], "ownerReferences": [
            {"apiVersion": "ipam.cluster.x-k8s.io/v1beta2", "kind": "IPAddressClaim", "name": name(claim),
             "uid": uid(claim), "controller": true, "blockOwnerDeletion": true},
        ]},
        "spec": {"address": address, "prefix": 24, "claimRef": {"name": name(claim)}, "poolRef": {
            "apiGroup": "ipam.cluster.x-k8s.io", "kind": "GlobalInClusterIPPool", "name": name(pool)}},
    })
}

fn taken(server: &Server, pool: &Value) -> BTreeSet<String> {
    let all = server.list(ADDRESSES, NS);
    let of_pool = all.iter().filter(|address| at(address, "/spec/poolRef/name") == name(pool));
    of_pool.map(|address| at(address, "/spec/address").to_owned()).collect()
}

fn free(server: &Server, pool: &Value) -> Vec<String> {
    let taken = taken(server, pool);
    let all: Vec<String> = serde_json::from_value(pool["spec"]["addresses"].clone()).unwrap();
    all.into_iter().filter(|address| !taken.contains(address)).collect()
}

fn count(server: &Server, pool: &Value) -> bool {
    let (free, used) = (free(server, pool).len(), taken(server, pool).len());
    let total = pool["spec"]["addresses"].as_array().unwrap().len();
    let counts = json!({"ipAddresses": {"total": total, "free": free, "used": used, "outOfRange": 0}});
    if pool["status"] == counts {
        return false;
    }
    server.edit(POOLS, "", name(pool), |object| object["status"] = counts.clone()).is_ok()
}

/// What Cluster API made of a cluster, from the very copy it sent.
#[derive(Clone, Debug)]
pub struct Rendered {
    pub uid: String,
    pub host: String,
}

/// What happened, for those who judge.
#[derive(Default)]
pub struct Ledger {
    pub rendered: Vec<Rendered>,
    /// The last answer about each cluster, by uid.
    pub answers: BTreeMap<String, Answer>,
    pub wrongs: Vec<String>,
}

/// A shared ledger.
#[derive(Default)]
pub struct Book(Mutex<Ledger>);

impl Book {
    pub fn open(&self) -> MutexGuard<'_, Ledger> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn wrong(&self, what: String) {
        self.open().wrongs.push(what);
    }
}

/// Asks about a copy of a Cluster before its creation, as Cluster API does.
pub async fn ask(extension: &Extension, copy: &Value) -> Answer {
    extension.before_create(request(copy), Instant::now() + Duration::from_secs(10)).await
}

/// Tells that a Cluster is about to go, as Cluster API does.
pub async fn part(extension: &Extension, copy: &Value) -> Answer {
    extension.before_delete(request(copy), Instant::now() + Duration::from_secs(5)).await
}

fn request(copy: &Value) -> LifecycleRequest {
    let cluster: Cluster = serde_json::from_value(copy.clone()).unwrap();
    LifecycleRequest { settings: BTreeMap::new(), key: ObjectKey::of(&cluster), cluster }
}

/// Whether Cluster API would call the gate for this Cluster.
pub fn gated(cluster: &Value) -> bool {
    let rendered = cluster.pointer("/spec/infrastructureRef").is_some();
    !rendered && !deleting(cluster) && !paused(cluster) && cluster.pointer("/spec/topology").is_some()
}

/// Renders a cluster from a copy: its infrastructure appears, and the Cluster refers to it, if it is still there.
pub fn render(server: &Server, book: &Book, copy: &Value) {
    let dock = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "DockCluster",
        "metadata": {"name": name(copy), "namespace": NS, "ownerReferences": [
            {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": name(copy), "uid": uid(copy)}]},
        "spec": {"controlPlaneEndpoint": copy["spec"]["controlPlaneEndpoint"].clone()},
    });
    let rendered = Rendered { uid: uid(copy).to_owned(), host: host(copy).to_owned() };
    book.open().rendered.push(rendered);
    let live = server.get(CLUSTERS, NS, name(copy)).filter(|live| uid(live) == uid(copy) && !deleting(live));
    if live.is_some() {
        server.put(dock).unwrap();
        let reference =
            json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DockCluster", "name": name(copy)});
        let refer = |object: &mut Value| object["spec"]["infrastructureRef"] = reference.clone();
        server.edit(CLUSTERS, NS, name(copy), refer).unwrap();
    }
}

/// The machines of a cluster that is being deleted are gone: its infrastructure goes, then the Cluster itself.
pub fn dismantle(server: &Server, cluster: &Value) {
    server.delete(DOCKS, NS, name(cluster));
    let same = server.get(CLUSTERS, NS, name(cluster)).is_some_and(|live| uid(&live) == uid(cluster));
    if same {
        server.edit(CLUSTERS, NS, name(cluster), |object| object["metadata"]["finalizers"] = json!([])).unwrap();
    }
}

/// Invariant G: what a copy of a Cluster lacks although the gate let it through. Written from the promise, not from the
/// code: the copy carries host, port, annotations and the variables its class defines, and, unless the user chose the
/// address, a claim of this very Cluster holds it on the server.
pub fn lacks(server: &Server, class: &Value, copy: &Value, claim_matters: bool) -> Option<String> {
    if deleting(copy) || paused(copy) || note(copy, "control-plane-enabled") == "false" {
        return None;
    }
    let port = copy.pointer("/spec/controlPlaneEndpoint/port").and_then(Value::as_i64).unwrap_or_default();
    let vip_only = note(copy, "vip-only") == "true";
    if !vip_only && (host(copy).is_empty() || port == 0) {
        return Some(format!("no endpoint: {}:{port}", host(copy)));
    }
    let vip = note(copy, "control-plane-vip");
    if vip.is_empty() || (!vip_only && vip != host(copy)) {
        return Some(format!("the annotation says {vip:?}, the endpoint {:?}", host(copy)));
    }
    let source = note(copy, "control-plane-source");
    if !["allocated", "manual"].contains(&source) {
        return Some(format!("the source is {source:?}"));
    }
    let defined = class.pointer("/status/variables").and_then(Value::as_array).unwrap();
    let is_address = vip.parse::<std::net::IpAddr>().is_ok();
    if is_address && defined.iter().any(|v| v["name"] == "clusterVip") && variable(copy, "clusterVip") != Some(vip) {
        return Some(format!("the variable says {:?}, the annotation {vip:?}", variable(copy, "clusterVip")));
    }
    if copy.pointer("/spec/topology/variables/0/value/zone") != Some(&json!("a")) {
        return Some("a variable of the user's is not as it was".to_owned());
    }
    let required = note(copy, "ingress-enabled") == "true";
    if required && note(copy, "ingress-vip").is_empty() {
        return Some("no ingress address although it is required".to_owned());
    }
    let slots = [("control-plane-vip", "vip-cp-", source == "allocated"), ("ingress-vip", "vip-ingress-", required)];
    for (annotation, prefix, pooled) in slots {
        let shown = note(copy, annotation);
        if claim_matters && pooled && held(server, copy, prefix).as_deref() != Some(shown) {
            return Some(format!("{shown} is shown as {annotation}, and its claim does not hold it"));
        }
    }
    None
}

/// The address that the claim of this very Cluster holds.
pub fn held(server: &Server, cluster: &Value, prefix: &str) -> Option<String> {
    let claim = server.get(CLAIMS, NS, &format!("{prefix}{}", name(cluster)))?;
    let address = server.get(ADDRESSES, NS, at(&claim, "/status/addressRef/name"))?;
    let ours = owners(&claim).contains(&uid(cluster)) && owners(&address).contains(&uid(&claim));
    (ours && !deleting(&claim)).then(|| at(&address, "/spec/address").to_owned())
}
