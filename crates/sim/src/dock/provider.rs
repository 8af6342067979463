//! What real providers would do to the objects of a cluster, and no more.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use kube::api::{Api, DynamicObject, Patch, PatchParams, WatchEvent, WatchParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::resource;
use crate::plane::PlaneError;

/// Holds an object until its provider let it go, as every real provider does.
const FINALIZER: &str = "dock.example.test/provider";
/// Between two attempts of a write that lost a race.
const AGAIN: Duration = Duration::from_millis(50);

/// Reports infrastructure as provisioned and control planes as initialized, and lets go what is deleted.
///
/// It copies no address anywhere: an address that Cluster API and Berth did not put somewhere is not there.
#[derive(Debug)]
pub struct Provider {
    held: Arc<Held>,
    _tasks: JoinSet<()>,
}

impl Provider {
    /// Starts working for all namespaces; it ends when this is dropped.
    #[must_use]
    pub fn start(client: &Client) -> Self {
        let held: Arc<Held> = Arc::default();
        let mut tasks = JoinSet::new();
        for kind in ["DockCluster", "QuayControlPlane"] {
            tasks.spawn(follow(client.clone(), kind, held.clone()));
        }
        Self { held, _tasks: tasks }
    }

    /// From now on the infrastructure of this cluster is not let go: its machines still run.
    pub fn hold(&self, namespace: &str, cluster: &str) {
        self.lock().insert((namespace.to_owned(), cluster.to_owned()));
    }

    /// The machines of the cluster are gone.
    pub async fn release(&self, client: &Client, namespace: &str, cluster: &str) -> Result<(), PlaneError> {
        self.lock().remove(&(namespace.to_owned(), cluster.to_owned()));
        let doing = format!("letting the infrastructure of {namespace}/{cluster} go");
        let Some(resource) = resource("DockCluster") else { return Ok(()) };
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
        let list = api.list(&kube::api::ListParams::default()).await.map_err(PlaneError::kube(doing))?;
        for object in list.items.iter().filter(|object| cluster_of(object).as_deref() == Some(cluster)) {
            tend(&api, "DockCluster", object.name_any(), &self.held).await;
        }
        Ok(())
    }

    /// From now on the clusters of this namespace have no provider: nothing is reported, and nothing is held.
    pub fn ignore(&self, namespace: &str) {
        self.lock().insert((namespace.to_owned(), EVERY.to_owned()));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeSet<(String, String)>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Namespace and name of the clusters that are not let go.
type Held = Mutex<BTreeSet<(String, String)>>;
/// Stands for every cluster of a namespace.
const EVERY: &str = "*";

fn ignored(object: &DynamicObject, held: &Held) -> bool {
    let key = (object.namespace().unwrap_or_default(), EVERY.to_owned());
    held.lock().unwrap_or_else(PoisonError::into_inner).contains(&key)
}

async fn follow(client: Client, kind: &'static str, held: Arc<Held>) {
    let Some(resource) = resource(kind) else { return };
    let all: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let mut work = JoinSet::new();
    loop {
        // Without a version the server begins with everything it has.
        let Ok(events) = all.watch(&WatchParams::default(), "0").await else {
            tokio::time::sleep(AGAIN).await;
            continue;
        };
        let mut events = std::pin::pin!(events);
        while let Some(Ok(event)) = events.next().await {
            let (WatchEvent::Added(object) | WatchEvent::Modified(object)) = event else { continue };
            if settled(kind, &object) || ignored(&object, &held) {
                continue;
            }
            let api = Api::namespaced_with(client.clone(), &object.namespace().unwrap_or_default(), &resource);
            let (held, name) = (held.clone(), object.name_any());
            work.spawn(async move { tend(&api, kind, name, &held).await });
            while work.try_join_next().is_some() {}
        }
    }
}

/// Does what the object needs, and tries again when somebody else was faster.
async fn tend(api: &Api<DynamicObject>, kind: &str, name: String, held: &Held) {
    for _ in 0..100 {
        let Ok(found) = api.get_opt(&name).await else {
            tokio::time::sleep(AGAIN).await;
            continue;
        };
        let Some(object) = found.filter(|object| !settled(kind, object)) else { return };
        if kind == "DockCluster" && is_held(&object, held) {
            return;
        }
        if step(api, kind, &object).await.is_err() {
            tokio::time::sleep(AGAIN).await;
        }
    }
}

fn is_held(object: &DynamicObject, held: &Held) -> bool {
    let key = (object.namespace().unwrap_or_default(), cluster_of(object).unwrap_or_default());
    object.metadata.deletion_timestamp.is_some() && held.lock().unwrap_or_else(PoisonError::into_inner).contains(&key)
}

fn cluster_of(object: &DynamicObject) -> Option<String> {
    object.labels().get("cluster.x-k8s.io/cluster-name").cloned()
}

fn has_finalizer(object: &DynamicObject) -> bool {
    object.finalizers().iter().any(|finalizer| finalizer == FINALIZER)
}

/// Whether there is nothing to do.
fn settled(kind: &str, object: &DynamicObject) -> bool {
    if object.metadata.deletion_timestamp.is_some() {
        return !has_finalizer(object);
    }
    has_finalizer(object) && object.data.get("status").is_some_and(|now| *now == status(kind, object))
}

fn status(kind: &str, object: &DynamicObject) -> Value {
    let spec = |key: &str| object.data.pointer(&format!("/spec/{key}")).cloned().unwrap_or_default();
    if kind == "DockCluster" {
        return json!({"initialization": {"provisioned": true}});
    }
    let (replicas, version) = (spec("replicas"), spec("version"));
    json!({"initialization": {"controlPlaneInitialized": true}, "version": version, "replicas": replicas,
        "readyReplicas": replicas, "availableReplicas": replicas, "upToDateReplicas": replicas})
}

async fn step(api: &Api<DynamicObject>, kind: &str, object: &DynamicObject) -> kube::Result<()> {
    let name = object.name_any();
    let params = PatchParams::default();
    let version = object.resource_version();
    let mut finalizers = object.finalizers().to_vec();
    if object.metadata.deletion_timestamp.is_some() {
        finalizers.retain(|finalizer| finalizer != FINALIZER);
    } else if !has_finalizer(object) {
        finalizers.push(FINALIZER.to_owned());
    } else {
        let body = json!({"metadata": {"resourceVersion": version}, "status": status(kind, object)});
        return api.patch_status(&name, &params, &Patch::Merge(body)).await.map(drop);
    }
    let body = json!({"metadata": {"resourceVersion": version, "finalizers": finalizers}});
    api.patch(&name, &params, &Patch::Merge(body)).await.map(drop)
}
