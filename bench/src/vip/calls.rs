//! Series of hook calls.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::topology::{BEFORE_CREATE, Topology, ask, request};
use super::world::{World, cluster, clusters};
use crate::http::{Body, Pool};

const GENERATE_PATCHES: &str =
    "/hooks.runtime.cluster.x-k8s.io/v1alpha1/generatepatches/vip-allocator-generate-patches?timeout=10s";
/// Templates in one call of GeneratePatches.
const TEMPLATES: usize = 200;

/// The first call about each of `count` new clusters, one after the other, in milliseconds. Calls about one more cluster
/// come before and are not counted: a process that has just started says so until it has read everything.
pub async fn first(pool: &Pool, hooks: &Pool, world: &World, topology: &Topology, count: u64) -> Result<Vec<f64>> {
    warm_up(pool, hooks, world, topology).await?;
    let mut times = Vec::new();
    for name in world.names("first", count) {
        let body = Body::Json(cluster(&name).to_string().into());
        pool.ok(0, Method::POST, &clusters(&name.0), body).await?;
        let copy = topology.see(&name).await?;
        let begun = Instant::now();
        let answer = ask(hooks, 0, &copy).await?;
        times.push(begun.elapsed().as_secs_f64() * 1e3);
        if answer.get("retryAfterSeconds").and_then(Value::as_u64).unwrap_or_default() == 0 {
            bail!("the first call about {name:?} was answered with {answer}");
        }
    }
    Ok(times)
}

async fn warm_up(pool: &Pool, hooks: &Pool, world: &World, topology: &Topology) -> Result<()> {
    let until = Instant::now() + super::BOUND;
    for name in world.names("first-warm", 1) {
        pool.ok(0, Method::POST, &clusters(&name.0), Body::Json(cluster(&name).to_string().into())).await?;
        let copy = topology.see(&name).await?;
        let claim =
            format!("/apis/ipam.cluster.x-k8s.io/v1beta2/namespaces/{}/ipaddressclaims/vip-cp-{}", name.0, name.1);
        while !pool.send(0, Method::GET, &claim, Body::None).await?.0.is_success() {
            let answer = ask(hooks, 0, &copy).await?;
            if Instant::now() > until {
                bail!("no claim after {:?}: {answer}", super::BOUND);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    Ok(())
}

/// Requests about clusters that have their address, after a look that they really are let through.
pub async fn about_finished(hooks: &Pool, topology: &Topology) -> Result<Vec<Bytes>> {
    let copies = topology.finished()?;
    let answer = ask(hooks, 0, copies.first().context("a cluster")?).await?;
    if answer.get("retryAfterSeconds").and_then(Value::as_u64) != Some(0) {
        bail!("a finished cluster is not let through: {answer}");
    }
    Ok(copies.iter().map(|copy| Bytes::from(request(copy))).collect())
}

/// `count` calls as fast as they are answered, one at a time on each connection; the seconds of all.
pub async fn flood(hooks: &Pool, bodies: &[Bytes], count: u64, connections: usize) -> Result<f64> {
    let make = |n: usize| Ok((Method::POST, BEFORE_CREATE.to_owned(), Body::Bare(turn(bodies, n)?)));
    let (_, seconds) = hooks.many(usize::try_from(count).context("too many calls")?, connections, make).await?;
    Ok(seconds)
}

/// `count` calls at a steady rate, one at a time on each connection: the milliseconds of each, counted from the moment at
/// which it was due.
pub async fn steady(hooks: &Pool, bodies: &[Bytes], count: u64, connections: usize, rate: u64) -> Result<Vec<f64>> {
    let count = u32::try_from(count).context("too many calls")?;
    let every = Duration::from_secs(1) / u32::try_from(rate.max(1)).context("too high a rate")?;
    let lane = async |mut due: mpsc::UnboundedReceiver<(u32, Instant)>| -> Result<Vec<f64>> {
        let mut times = Vec::new();
        while let Some((n, due)) = due.recv().await {
            let n = usize::try_from(n).context("too many calls")?;
            hooks.ok(n, Method::POST, BEFORE_CREATE, Body::Bare(turn(bodies, n)?)).await?;
            times.push(due.elapsed().as_secs_f64() * 1e3);
        }
        Ok(times)
    };
    Ok(futures::future::try_join_all(pace(count, every, connections).into_iter().map(lane)).await?.concat())
}

/// Says when each call is due, in turn on so many lanes. A thread of its own sleeps in between: timers of the runtime are
/// a millisecond or two late, and all calls that fall due meanwhile would be counted as held up by the server.
fn pace(count: u32, every: Duration, lanes: usize) -> Vec<mpsc::UnboundedReceiver<(u32, Instant)>> {
    let (tell, due): (Vec<_>, Vec<_>) = (0..lanes.max(1)).map(|_| mpsc::unbounded_channel()).unzip();
    std::thread::spawn(move || {
        let start = Instant::now();
        for (n, tell) in (0..count).zip(tell.iter().cycle()) {
            let due = start + every * n;
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            if tell.send((n, due)).is_err() {
                return;
            }
        }
    });
    due
}

fn turn(bodies: &[Bytes], n: usize) -> Result<Bytes> {
    bodies.get(n % bodies.len().max(1)).cloned().context("no body")
}

/// `count` calls with many templates about one cluster, one after the other: milliseconds of each, and whether all answers
/// were equal byte by byte.
pub async fn patches(hooks: &Pool, topology: &Topology, count: u64) -> Result<(Vec<f64>, bool)> {
    let copies = topology.finished()?;
    let body = Bytes::from(templates(copies.first().context("a cluster")?).to_string());
    let (mut times, mut answer, mut equal) = (Vec::new(), None, true);
    for _ in 0..count {
        let begun = Instant::now();
        let bytes = hooks.ok(0, Method::POST, GENERATE_PATCHES, Body::Bare(body.clone())).await?;
        times.push(begun.elapsed().as_secs_f64() * 1e3);
        let first = answer.get_or_insert_with(|| bytes.clone());
        equal &= *first == bytes;
    }
    let answer: Value = serde_json::from_slice(&answer.unwrap_or_default()).context("reading the patches")?;
    let patches = answer.get("items").and_then(Value::as_array).map_or(0, Vec::len);
    if answer.get("status").and_then(Value::as_str) != Some("Success") || patches < TEMPLATES {
        bail!("GeneratePatches gave {patches} patches: {}", answer.get("message").unwrap_or(&Value::Null));
    }
    Ok((times, equal))
}

/// A request with one infrastructure cluster and many machine templates that hold a placeholder each.
fn templates(cluster: &Value) -> Value {
    let text = |key: &str| cluster.pointer(&format!("/metadata/{key}")).cloned().unwrap_or_default();
    let (namespace, name) = (text("namespace"), text("name"));
    let item = |n: usize| {
        let infrastructure = n == 0;
        let (kind, path) = if infrastructure {
            ("Cluster", "spec.infrastructureRef")
        } else {
            ("MachineDeployment", "spec.template.spec.bootstrap.configRef")
        };
        let spec = if infrastructure {
            json!({"region": "north"})
        } else {
            let manifest = "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - env:\n    - name: address\n      value: \"@@VIP_CONTROL_PLANE@@\"\n";
            json!({"files": [{"path": "/etc/kubernetes/manifests/kube-vip.yaml", "content": manifest.repeat(4)}]})
        };
        json!({
            "uid": format!("item-{n}"),
            "holderReference": {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": kind, "namespace": namespace, "name": name, "fieldPath": path},
            "object": {"apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": if infrastructure { "DockClusterTemplate" } else { "RopeConfigTemplate" },
                "spec": {"template": {"spec": spec}}},
            "variables": [],
        })
    };
    let builtin = json!({"cluster": {"name": name, "namespace": namespace, "uid": text("uid"), "metadata": {"labels": {}, "annotations": text("annotations")},
        "topology": {"version": "v1.34.1", "class": super::world::CLASS}}});
    json!({
        "apiVersion": "hooks.runtime.cluster.x-k8s.io/v1alpha1", "kind": "GeneratePatchesRequest", "settings": {},
        "variables": [{"name": "builtin", "value": builtin}],
        "items": (0..TEMPLATES).map(item).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_call_falls_due_once_in_order_and_on_its_lane() {
        let (every, begun) = (Duration::from_micros(500), Instant::now());
        let (mut last, mut seen) = (None, Vec::new());
        for (lane, mut due) in pace(100, every, 4).into_iter().enumerate() {
            while let Some((n, at)) = due.recv().await {
                assert_eq!(n as usize % 4, lane);
                assert!(Instant::now() >= at, "nothing is asked for before it is due");
                last = last.max(Some(at));
                seen.push(n);
            }
        }
        seen.sort_unstable();
        assert_eq!(seen, (0..100).collect::<Vec<_>>());
        assert!(last.is_some_and(|last| last - begun >= every * 99));
    }
}
