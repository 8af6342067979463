//! Plays the address provider: gives every claim the next address of its pool, several claims at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use http::Method;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;

use super::world::Name;
use crate::http::{Body, Pool};

const GROUP: &str = "/apis/ipam.cluster.x-k8s.io/v1beta2";

/// Seconds from the moment a claim was seen until its address stood on it, by the claim.
type Times = Arc<Mutex<BTreeMap<Name, f64>>>;

/// A running provider; it ends when this is dropped.
pub struct Provider {
    times: Times,
    _work: JoinSet<()>,
}

impl Provider {
    /// Starts with this many claims at a time.
    pub async fn start(kubeconfig: &Path, workers: usize) -> Result<Self> {
        let watch = Pool::connect(kubeconfig, 1, "berth-bench-watch").await?;
        let writes = Arc::new(Pool::connect(kubeconfig, 4, "berth-bench-provider").await?);
        let times = Times::default();
        let (next, limit, told) = (Arc::new(AtomicU32::new(1)), Arc::new(Semaphore::new(workers)), Arc::clone(&times));
        let mut work = JoinSet::new();
        work.spawn(async move {
            let (mut claims, mut known): (JoinSet<()>, BTreeSet<String>) = (JoinSet::new(), BTreeSet::new());
            let never = Notify::new();
            let path = format!("{GROUP}/ipaddressclaims");
            let ended = follow(&watch, &path, &never, |event| {
                let (Some("ADDED"), Some(claim)) = (event.get("type").and_then(Value::as_str), event.get("object"))
                else {
                    return;
                };
                // A watch that begins anew shows again what it has shown.
                let uid = claim.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default();
                if !known.insert(uid.to_owned()) {
                    return;
                }
                let (claim, writes, limit, next) =
                    (claim.clone(), Arc::clone(&writes), Arc::clone(&limit), Arc::clone(&next));
                let (times, seen) = (Arc::clone(&told), Instant::now());
                claims.spawn(async move {
                    let Ok(_turn) = limit.acquire().await else { return };
                    match fill(&writes, &claim, next.fetch_add(1, Ordering::Relaxed)).await {
                        Ok(name) => {
                            let mut times = times.lock().unwrap_or_else(PoisonError::into_inner);
                            times.insert(name, seen.elapsed().as_secs_f64());
                        }
                        Err(error) => eprintln!("berth-bench: the provider failed: {error:#}"),
                    }
                });
            });
            if let Err(error) = ended.await {
                eprintln!("berth-bench: the provider's watch failed: {error:#}");
            }
        });
        Ok(Self { times, _work: work })
    }

    /// How long the claims of these clusters took.
    pub fn times(&self, clusters: &[Name]) -> Vec<f64> {
        let times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        let claim = |(namespace, name): &Name| (namespace.clone(), format!("vip-cp-{name}"));
        clusters.iter().filter_map(|cluster| times.get(&claim(cluster)).copied()).collect()
    }
}

async fn fill(pool: &Pool, claim: &Value, number: u32) -> Result<Name> {
    let (namespace, name) = name(claim).context("a claim without a name")?;
    let reference = claim.pointer("/spec/poolRef").cloned().unwrap_or_default();
    let base: u8 = match reference.get("name").and_then(Value::as_str) {
        Some("pool-a") => 64,
        Some("pool-b") => 65,
        Some("pool-c") => 66,
        other => bail!("claim {name} asks the pool {other:?}"),
    };
    let [_, _, third, fourth] = number.to_be_bytes();
    let address = format!("10.{base}.{third}.{fourth}");
    let uid = claim.pointer("/metadata/uid").cloned().unwrap_or_default();
    let object = json!({
        "apiVersion": "ipam.cluster.x-k8s.io/v1beta2", "kind": "IPAddress",
        "metadata": {"namespace": namespace, "name": name, "ownerReferences": [{"apiVersion": "ipam.cluster.x-k8s.io/v1beta2",
            "kind": "IPAddressClaim", "name": name, "uid": uid, "controller": true, "blockOwnerDeletion": true}]},
        "spec": {"claimRef": {"name": name}, "poolRef": reference, "address": address, "prefix": 16},
    });
    let path = format!("{GROUP}/namespaces/{namespace}/ipaddresses");
    pool.ok(number as usize, Method::POST, &path, Body::Json(object.to_string().into())).await?;
    let status = json!({"status": {"addressRef": {"name": name}}}).to_string();
    let path = format!("{GROUP}/namespaces/{namespace}/ipaddressclaims/{name}/status");
    pool.ok(number as usize, Method::PATCH, &path, Body::Merge(status.into())).await?;
    Ok((namespace, name))
}

/// Namespace and name of an object.
pub fn name(object: &Value) -> Option<Name> {
    let text = |key: &str| object.pointer(&format!("/metadata/{key}")).and_then(Value::as_str).map(str::to_owned);
    Some((text("namespace")?, text("name")?))
}

/// Hands every event of a collection to `hear`, beginning with what is there. A watch that the server ends, as it does with
/// one that lags, is opened again and begins anew; so is one that somebody rings for because he waits in vain.
pub async fn follow(pool: &Pool, path: &str, again: &Notify, mut hear: impl FnMut(Value)) -> Result<()> {
    loop {
        let answer = pool.open(0, Method::GET, &format!("{path}?watch=1&timeoutSeconds=7200"), Body::None).await?;
        if !answer.status().is_success() {
            bail!("watching {path}: {}", answer.status());
        }
        let (mut body, mut rest) = (answer.into_body(), Vec::new());
        loop {
            let frame = tokio::select! {
                frame = body.frame() => frame,
                () = again.notified() => None,
            };
            let Some(Ok(frame)) = frame else { break };
            rest.extend_from_slice(frame.data_ref().map(AsRef::as_ref).unwrap_or_default());
            while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = rest.drain(..=end).collect();
                hear(serde_json::from_slice(&line).with_context(|| format!("reading an event of {path}"))?);
            }
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
