//! The CloudStack provider of Cluster API and the control planes it carries, played on a real API server.
//!
//! Cluster API's own managers are real: they make the MachineSets and Machines of workers and delete what is to go. Here is
//! what they cannot do without machines: [`Provider`] reports CloudStackClusters as ready, deploys and destroys the virtual
//! machines of CloudStackMachines in a CloudStack through its API, and plays the control plane. Each cluster gets an API
//! server of its own, a real one; it counts as initialized once its first machine runs. Nodes appear there with their
//! machines, and DaemonSets and Deployments there are reported as running, because no kubelet is.
//!
//! It keeps the order of a real rollout: one machine at a time, the new one first, and the old one goes only when the new
//! one is ready. A Node is ready only when a network plugin is there. Names are deterministic, and everything is looked for
//! before it is made. A control plane that is spared is left to somebody else, such as the real control-plane manager.

mod acs;
mod cluster;
mod control_plane;
mod machine;
mod objects;
mod workload;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use kube::Client;
use kube::api::{Api, DynamicObject, ListParams, WatchParams};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::plane::PlaneError;
use objects::{Kind, resource};
use workload::Workload;

pub use workload::kubeconfig;

/// Between two looks at everything, when nothing happens.
const REST: Duration = Duration::from_millis(500);
/// Between two looks at everything, whatever happens.
const BREATH: Duration = Duration::from_millis(50);
/// How many complaints are kept.
const KEPT: usize = 100;

/// Plays the provider; it ends when this is dropped.
#[derive(Debug)]
pub struct Provider {
    shared: Arc<Shared>,
    tasks: JoinSet<()>,
}

/// What the tasks and their owner both see.
#[derive(Debug, Default)]
struct Shared {
    complaints: Mutex<VecDeque<String>>,
    workloads: Mutex<BTreeMap<String, Workload>>,
    /// The clusters whose API server was told of in secrets.
    told: Mutex<BTreeSet<String>>,
    /// The clusters whose control plane is somebody else's.
    spared: Mutex<BTreeSet<String>>,
}

impl Shared {
    fn workloads(&self) -> MutexGuard<'_, BTreeMap<String, Workload>> {
        self.workloads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn told(&self, cluster: &str) -> bool {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).contains(cluster)
    }

    fn spares(&self, cluster: &str) -> bool {
        self.spared.lock().unwrap_or_else(PoisonError::into_inner).contains(cluster)
    }

    fn tell(&self, cluster: &str) {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).insert(cluster.to_owned());
    }

    fn forget(&self, cluster: &str) -> Option<Workload> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).remove(cluster);
        self.workloads().remove(cluster)
    }

    /// Keeps what did not work, once in a row.
    fn complain(&self, what: String) {
        let mut kept = self.complaints.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.back() != Some(&what) {
            tracing::debug!("{what}");
            kept.push_back(what);
        }
        while kept.len() > KEPT {
            kept.pop_front();
        }
    }
}

impl Provider {
    /// Starts working for all namespaces of the management cluster.
    #[must_use]
    pub fn start(client: &Client) -> Self {
        let shared: Arc<Shared> = Arc::default();
        let wake = Arc::new(Notify::new());
        let mut tasks = JoinSet::new();
        for kind in Kind::FOLLOWED {
            tasks.spawn(follow(client.clone(), kind, wake.clone()));
        }
        tasks.spawn(run(Hand { client: client.clone(), shared: shared.clone() }, wake));
        Self { shared, tasks }
    }

    /// A client of the API server that this cluster was given, once it runs.
    #[must_use]
    pub fn workload(&self, cluster: &str) -> Option<Client> {
        self.shared.workloads().get(cluster).and_then(Workload::client)
    }

    /// The audit log of that API server: one JSON line per request.
    #[must_use]
    pub fn audit_log(&self, cluster: &str) -> Option<PathBuf> {
        self.shared.workloads().get(cluster).and_then(Workload::audit_log)
    }

    /// From now on the control plane of this cluster is somebody else's; its machines are still made.
    pub fn spare(&self, cluster: &str) {
        self.shared.spared.lock().unwrap_or_else(PoisonError::into_inner).insert(cluster.to_owned());
    }

    /// What did not work, the latest last; most of it is tried again and passes.
    #[must_use]
    pub fn complaints(&self) -> Vec<String> {
        self.shared.complaints.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// Stops working, and ends the API servers of all clusters.
    pub async fn stop(&mut self) {
        self.tasks.shutdown().await;
        let running = std::mem::take(&mut *self.shared.workloads());
        let _ = tokio::task::spawn_blocking(move || drop(running)).await;
    }
}

/// Everything that is looked at in one pass.
struct Scene {
    clusters: Vec<DynamicObject>,
    infrastructures: Vec<DynamicObject>,
    planes: Vec<DynamicObject>,
    machines: Vec<DynamicObject>,
    instances: Vec<DynamicObject>,
}

/// What does the work.
struct Hand {
    client: Client,
    shared: Arc<Shared>,
}

impl Hand {
    async fn pass(&self) -> Result<(), PlaneError> {
        let scene = Scene {
            clusters: self.list(Kind::Cluster).await?,
            infrastructures: self.list(Kind::CloudStackCluster).await?,
            planes: self.list(Kind::ControlPlane).await?,
            machines: self.list(Kind::Machine).await?,
            instances: self.list(Kind::CloudStackMachine).await?,
        };
        for one in &scene.infrastructures {
            self.note("CloudStackCluster", one, self.infrastructure(one, &scene).await);
        }
        for one in &scene.planes {
            self.note("KubeadmControlPlane", one, self.control_plane(one, &scene).await);
        }
        for one in &scene.instances {
            self.note("CloudStackMachine", one, self.instance(one, &scene).await);
        }
        self.workloads(&scene).await;
        Ok(())
    }

    fn note(&self, kind: &str, object: &DynamicObject, outcome: Result<(), PlaneError>) {
        if let Err(error) = outcome {
            let name = object.metadata.name.as_deref().unwrap_or_default();
            self.shared.complain(format!("{kind} {name}: {error}"));
        }
    }

    async fn list(&self, kind: Kind) -> Result<Vec<DynamicObject>, PlaneError> {
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource(kind));
        // From the server's own memory: a stale view only costs another pass, because every write names its version.
        let params = ListParams::default().match_any();
        let list = api.list(&params).await.map_err(PlaneError::kube(format!("listing {kind:?}")))?;
        Ok(list.items)
    }

    fn api(&self, kind: Kind, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), namespace, &resource(kind))
    }
}

async fn run(hand: Hand, wake: Arc<Notify>) {
    loop {
        if let Err(error) = hand.pass().await {
            hand.shared.complain(error.to_string());
        }
        tokio::time::sleep(BREATH).await;
        let _ = tokio::time::timeout(REST, wake.notified()).await;
    }
}

/// Wakes the hand whenever something of a kind changes.
async fn follow(client: Client, kind: Kind, wake: Arc<Notify>) {
    let all: Api<DynamicObject> = Api::all_with(client, &resource(kind));
    loop {
        if let Ok(events) = all.watch_metadata(&WatchParams::default(), "0").await {
            let mut events = std::pin::pin!(events);
            while let Some(Ok(_)) = events.next().await {
                wake.notify_one();
            }
        }
        tokio::time::sleep(REST).await;
    }
}
