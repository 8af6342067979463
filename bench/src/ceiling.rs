//! W: what the API server itself can do on this machine in this minute, measured with nothing in between.

use std::time::Duration;

use anyhow::{Context, Result};
use http::Method;
use serde::Serialize;
use serde_json::json;

use crate::http::{Body, Pool};
use crate::leg::wait_for_quiet_machine;
use crate::scenario::Shape;
use crate::stats::{Percentiles, percentiles};
use crate::store::stored;
use crate::{seed, server::Server};

/// Connections of the plain client.
pub const CONNECTIONS: usize = 4;
/// Requests in flight over all connections.
pub const IN_FLIGHT: usize = 32;
/// Objects of the ceiling start here, so that they are the same in every run.
const FIRST: u64 = 50_000_000;

/// One kind of request.
#[derive(Clone, Debug, Serialize)]
pub struct Rate {
    /// Requests per second over the whole series.
    pub per_second: f64,
    /// Latency of single requests in milliseconds, from raw samples.
    pub latency_ms: Option<Percentiles>,
}

/// The ceiling at one moment.
#[derive(Clone, Debug, Serialize)]
pub struct Ceiling {
    /// The version of the API server.
    pub server: String,
    /// Load average when it began.
    pub load_average: f64,
    /// Whether the machine was busy with something else.
    pub disturbed: bool,
    /// Requests sent of each kind, lists apart.
    pub requests: usize,
    /// Creates.
    pub create: Rate,
    /// Merge patches of an annotation.
    pub patch_metadata: Rate,
    /// Merge patches of the status.
    pub patch_status: Rate,
    /// Merge patches that change nothing.
    pub patch_empty: Rate,
    /// Reads of one object.
    pub get: Rate,
    /// Seconds for one list from the server's cache.
    pub list_seconds: f64,
    /// Objects in that list.
    pub list_objects: usize,
    /// Lists read, one after the other.
    pub lists: usize,
}

impl Ceiling {
    /// Seconds that the server alone needs for these writes.
    pub fn seconds(&self, creates: u64, metadata_patches: u64, status_patches: u64) -> f64 {
        creates as f64 / self.create.per_second
            + metadata_patches as f64 / self.patch_metadata.per_second
            + status_patches as f64 / self.patch_status.per_second
    }
}

/// Measures W on a fresh server in `dir`, which is removed afterwards.
pub async fn measure(
    dir: &std::path::Path,
    definitions: &[serde_json::Value],
    scenario: &dyn Shape,
    seed_value: u64,
    requests: usize,
    load_wait: Duration,
) -> Result<Ceiling> {
    let server = Server::start(dir).await.context("starting a server for W")?;
    let pool = Pool::connect(&server.kubeconfig(), CONNECTIONS, "berth-bench-ceiling").await?;
    seed::install(&pool, definitions, scenario).await?;
    let version: serde_json::Value = pool.get("/version").await?;
    let (load_average, disturbed) = wait_for_quiet_machine(load_wait).await?;
    let paths = |shape: &dyn Shape| -> Vec<String> {
        let path = |n: usize| {
            let s = shape.object(seed_value, FIRST + n as u64);
            format!("{}/{}", s.collection, s.name)
        };
        (0..requests).map(path).collect()
    };
    let find = |paths: &[String], n: usize| paths.get(n).cloned().context("no such object");
    let own = paths(scenario);
    let at = |n: usize| find(&own, n);
    let patched = match scenario.patched() {
        Some(others) => {
            // With their status, which a server would not take with a new object.
            let make = |n: usize| Ok(stored(others.object(seed_value, FIRST + n as u64).object, n as u64));
            server.store().put(others.kind(), requests, make).await.context("storing what is patched")?;
            paths(others)
        }
        None => own.clone(),
    };
    let merge = |v: serde_json::Value| Body::Merge(v.to_string().into());

    let create = series(&pool, requests, |n| Ok(seed::create(scenario, seed_value, FIRST + n as u64))).await;
    let create = create.context("measuring creates")?;
    let patch_metadata = series(&pool, requests, |n| {
        let change = json!({"metadata": {"annotations": {"example.test/round": n.to_string()}}});
        Ok((Method::PATCH, find(&patched, n)?, merge(change)))
    });
    let patch_metadata = patch_metadata.await.context("measuring metadata patches")?;
    let patch_status = series(&pool, requests, |n| {
        Ok((Method::PATCH, format!("{}/status", at(n)?), merge(scenario.status_patch(n as u64))))
    });
    let patch_status = patch_status.await.context("measuring status patches")?;
    let patch_empty = series(&pool, requests, |n| Ok((Method::PATCH, at(n)?, merge(json!({})))));
    let patch_empty = patch_empty.await.context("measuring empty patches")?;
    let get = series(&pool, requests, |n| Ok((Method::GET, at(n)?, Body::None))).await.context("measuring gets")?;

    let lists = if requests >= 1000 { 20 } else { 5 };
    let path = format!("{}?resourceVersion=0", scenario.kind().path());
    let (_, seconds) =
        pool.many(lists, 1, |_| Ok((Method::GET, path.clone(), Body::None))).await.context("measuring lists")?;
    drop(pool);
    server.stop().await?;
    std::fs::remove_dir_all(dir).with_context(|| format!("removing {}", dir.display()))?;
    Ok(Ceiling {
        server: version.get("gitVersion").and_then(|v| v.as_str()).unwrap_or("unknown").to_owned(),
        load_average,
        disturbed,
        requests,
        create,
        patch_metadata,
        patch_status,
        patch_empty,
        get,
        list_seconds: seconds / lists as f64,
        list_objects: requests,
        lists,
    })
}

async fn series<F>(pool: &Pool, requests: usize, make: F) -> Result<Rate>
where
    F: Fn(usize) -> Result<(Method, String, Body)>,
{
    let (latencies, seconds) = pool.many(requests, IN_FLIGHT, make).await?;
    Ok(Rate { per_second: requests as f64 / seconds.max(f64::EPSILON), latency_ms: percentiles(&latencies) })
}
