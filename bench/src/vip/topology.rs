//! Plays the topology controller: watches Clusters, calls the hook with what it saw, waits as long as it is told to.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures::{StreamExt, TryStreamExt};
use http::Method;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::world::{Name, cluster, clusters};
use crate::http::{Body, Pool};

/// The path of the hook that is asked before a cluster is rendered.
pub const BEFORE_CREATE: &str =
    "/hooks.runtime.cluster.x-k8s.io/v1alpha1/beforeclustercreate/vip-allocator-before-create?timeout=10s";

/// A watch that shows nothing for this long, while somebody waits for it, is opened again.
const LAG: Duration = Duration::from_secs(2);

#[derive(Default)]
struct Seen {
    /// Every Cluster as the watch showed it last, without what Cluster API does not send.
    clusters: BTreeMap<Name, Value>,
    /// When the watch showed an endpoint on it first.
    endpoints: BTreeMap<Name, Instant>,
    /// Why the watch ended, if it did.
    ended: Option<String>,
}

/// The controller's cache and its workers.
pub struct Topology {
    seen: Arc<Mutex<Seen>>,
    news: Arc<Notify>,
    /// Rung by whoever waits too long for the watch.
    again: Arc<Notify>,
    workers: usize,
    _watch: JoinSet<()>,
}

impl Topology {
    /// Starts the watch, over a connection of its own.
    pub async fn start(kubeconfig: &Path, workers: usize) -> Result<Self> {
        let pool = Pool::connect(kubeconfig, 1, "berth-bench-watch").await?;
        let (seen, news) = (Arc::new(Mutex::new(Seen::default())), Arc::new(Notify::new()));
        let mut watch = JoinSet::new();
        let (store, bell, again) = (Arc::clone(&seen), Arc::clone(&news), Arc::new(Notify::new()));
        let ring = Arc::clone(&again);
        watch.spawn(async move {
            let path = "/apis/cluster.x-k8s.io/v1beta2/clusters";
            let end = super::provider::follow(&pool, path, &ring, |event| keep(&store, &bell, event)).await;
            lock(&store).ended = Some(end.map_or_else(|e| format!("{e:#}"), |()| "the watch ended".to_owned()));
            bell.notify_waiters();
        });
        Ok(Self { seen, news, again, workers, _watch: watch })
    }

    /// How many clusters there are.
    pub fn count(&self) -> usize {
        lock(&self.seen).clusters.len()
    }

    /// The hook's request about a cluster that has its endpoint, in turn.
    pub fn finished(&self) -> Result<Vec<Value>> {
        let seen = lock(&self.seen);
        let done: Vec<Value> = seen.endpoints.keys().filter_map(|name| seen.clusters.get(name).cloned()).collect();
        if done.is_empty() {
            bail!("no cluster has an endpoint");
        }
        Ok(done)
    }

    /// Waits until the watch has shown a cluster.
    pub async fn see(&self, name: &Name) -> Result<Value> {
        self.until(|seen| seen.clusters.get(name).cloned()).await.with_context(|| format!("waiting to see {name:?}"))
    }

    /// Creates clusters at once and calls the hook about each until it lets the cluster pass; the seconds from each create to
    /// the moment at which a watch showed the endpoint.
    pub async fn bring_up(&self, pool: &Pool, hooks: &Pool, names: &[Name]) -> Result<Vec<f64>> {
        let born: Mutex<BTreeMap<Name, Instant>> = Mutex::new(BTreeMap::new());
        let (born_ref, workers) = (&born, &tokio::sync::Semaphore::new(self.workers));
        let one = |(number, name): (usize, &Name)| {
            let name = name.clone();
            async move {
                let body = Body::Json(cluster(&name).to_string().into());
                born_ref.lock().unwrap_or_else(PoisonError::into_inner).insert(name.clone(), Instant::now());
                pool.ok(number, Method::POST, &clusters(&name.0), body).await?;
                self.reconcile(hooks, number, &name, workers).await
            }
        };
        let all = futures::stream::iter(names.iter().enumerate()).map(one).buffer_unordered(names.len().max(1));
        all.try_collect::<Vec<()>>().await?;
        let (seen, born) = (lock(&self.seen), born.into_inner().unwrap_or_else(PoisonError::into_inner));
        let time = |name: &Name| {
            let end =
                seen.endpoints.get(name).with_context(|| format!("{name:?} was let through without an endpoint"))?;
            let begin = born.get(name).context("a cluster without a birth")?;
            Ok(end.saturating_duration_since(*begin).as_secs_f64())
        };
        names.iter().map(time).collect()
    }

    /// What the controller does with one cluster: one call at a time, each with the copy of the cache.
    async fn reconcile(
        &self,
        hooks: &Pool,
        number: usize,
        name: &Name,
        workers: &tokio::sync::Semaphore,
    ) -> Result<()> {
        let until = Instant::now() + super::BOUND;
        loop {
            let copy = self.see(name).await?;
            let worker = workers.acquire().await.context("a worker")?;
            let answer = ask(hooks, number, &copy).await?;
            drop(worker);
            let wait = answer.get("retryAfterSeconds").and_then(Value::as_u64).unwrap_or_default();
            let passed = answer.get("status").and_then(Value::as_str) == Some("Success");
            if !passed {
                bail!("the hook refused {name:?}: {answer}");
            }
            if wait == 0 {
                return Ok(());
            }
            if Instant::now() > until {
                bail!("{name:?} still waits: {answer}");
            }
            tokio::time::sleep(Duration::from_secs(wait)).await;
        }
    }

    async fn until<T>(&self, look: impl Fn(&Seen) -> Option<T>) -> Result<T> {
        let until = tokio::time::Instant::now() + super::BOUND;
        loop {
            let mut news = std::pin::pin!(self.news.notified());
            news.as_mut().enable();
            {
                let seen = lock(&self.seen);
                if let Some(found) = look(&seen) {
                    return Ok(found);
                }
                if let Some(end) = &seen.ended {
                    bail!("{end}");
                }
            }
            if tokio::time::timeout(LAG, news).await.is_err() {
                self.again.notify_one();
            }
            if tokio::time::Instant::now() > until {
                bail!("nothing seen in time");
            }
        }
    }
}

/// Calls the hook once with a copy of a Cluster.
pub async fn ask(hooks: &Pool, number: usize, copy: &Value) -> Result<Value> {
    let bytes = hooks.ok(number, Method::POST, BEFORE_CREATE, Body::Bare(request(copy).into())).await?;
    serde_json::from_slice(&bytes).context("reading the hook's answer")
}

/// The body of the hook's request.
pub fn request(copy: &Value) -> String {
    json!({"apiVersion": "hooks.runtime.cluster.x-k8s.io/v1alpha1", "kind": "BeforeClusterCreateRequest", "settings": {}, "cluster": copy}).to_string()
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

fn keep(store: &Mutex<Seen>, bell: &Notify, event: Value) {
    let Some(name) = super::provider::name(event.get("object").unwrap_or(&Value::Null)) else { return };
    let Some(mut object) = event.get("object").cloned() else { return };
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
        if let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
    }
    let host = object.pointer("/spec/controlPlaneEndpoint/host").and_then(Value::as_str).unwrap_or_default();
    let mut seen = lock(store);
    if !host.is_empty() {
        seen.endpoints.entry(name.clone()).or_insert_with(Instant::now);
    }
    seen.clusters.insert(name, object);
    drop(seen);
    bell.notify_waiters();
}
