//! The same claims, hosts, states and events once more by a plain client, on a server with as many hosts: what a run takes beyond
//! this is not the server's.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt};
use http::Method;
use serde_json::{Map, Value, json};

use super::stamps;
use super::world::{self, CLAIMS, HOSTS, tenant, tenants};
use crate::again::as_written;
use crate::ceiling::{CONNECTIONS, IN_FLIGHT};
use crate::http::{Body, Pool};
use crate::oracle::{each, version};
use crate::server::Server;
use crate::stage::{self, Stage};
use crate::watch::Watcher;

const EVENTS: &str = "/apis/events.k8s.io/v1/events";
/// Who owns the state that is applied.
const MANAGER: &str = "fieldManager=berth-bench&force=true";

/// What was written in a run, in the form in which it was written.
pub struct Written {
    /// What each claim took, one request after the other.
    binds: Vec<Vec<(Method, String, Body)>>,
    /// Where each event was created, and the event.
    events: Vec<(String, String)>,
}

/// Seconds that a plain client needs for what was written.
pub struct Seconds {
    /// Every claim with its host and its state.
    pub binds: f64,
    /// All their events.
    pub events: f64,
}

impl Written {
    /// Reads what a controller has left on a server.
    pub async fn read(pool: &Pool) -> Result<Self> {
        let (mut claims, mut hosts, mut events) = (Vec::new(), BTreeMap::new(), Vec::new());
        each(pool, &CLAIMS.path(), |claim| claims.push(claim.clone())).await?;
        each(pool, &HOSTS.path(), |host| {
            hosts.insert((text(host, "/metadata/namespace"), text(host, "/metadata/name")), host.clone());
        })
        .await?;
        each(pool, EVENTS, |event| {
            let namespace = text(event, "/metadata/namespace");
            if text(event, "/reportingController").contains("berth") {
                let path = format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events");
                events.push((path, as_written(event, &namespace).to_string()));
            }
        })
        .await?;
        claims.sort_by_key(|claim| text(claim, "/metadata/name"));
        let bind = |claim: &Value| {
            let at = (text(claim, "/status/bareMetalHost/namespace"), text(claim, "/status/bareMetalHost/name"));
            let host = hosts.get(&at).with_context(|| format!("the host {at:?} of a claim is not there"))?;
            Ok(requests(claim, host))
        };
        Ok(Self { binds: claims.iter().map(bind).collect::<Result<_>>()?, events })
    }

    /// Writes all of it to a server of its own, watched by two clocks as in the run.
    pub async fn again(&self, stage: &Stage<'_>, definitions: &[Value], dir: &Path) -> Result<Seconds> {
        let count = self.binds.len() as u64;
        stage.say(&format!("the same {count} claims and {} events by a plain client", self.events.len()));
        let server = Server::start(dir).await?;
        let pool = Pool::connect(&server.kubeconfig(), CONNECTIONS, "berth-bench-driver").await?;
        world::prepare(&pool, definitions, (0..tenants(count)).map(tenant).collect()).await?;
        world::hosts(&server, count).await?;
        let (kubeconfig, log) = (server.kubeconfig(), dir.join("watcher.log"));
        let mut clocks = Vec::new();
        for (kind, shown) in [(CLAIMS, stamps::OF_CLAIMS.as_slice()), (HOSTS, stamps::OF_HOSTS.as_slice())] {
            let from = version(&pool, &kind.path()).await?;
            clocks.push(Watcher::start(&kubeconfig, &kind.path(), &from, shown, &log).await?);
        }
        let began = Instant::now();
        futures::stream::iter(self.binds.iter().enumerate())
            .map(|(n, requests)| {
                let pool = &pool;
                async move {
                    for (method, path, body) in requests {
                        pool.ok(n, method.clone(), path, body.clone()).await?;
                    }
                    anyhow::Ok(())
                }
            })
            .buffer_unordered(IN_FLIGHT)
            .try_collect::<()>()
            .await
            .context("binding everything once more")?;
        let binds = began.elapsed().as_secs_f64();
        let make = |n: usize| {
            let (path, event) = self.events.get(n).context("no such event")?;
            Ok((Method::POST, path.clone(), Body::Json(event.clone().into())))
        };
        let (_, events) =
            pool.many(self.events.len(), IN_FLIGHT, make).await.context("creating all events once more")?;
        for mut clock in clocks {
            clock.drain(Duration::from_millis(500)).await?;
            clock.stop().await?;
        }
        drop(pool);
        server.stop().await?;
        stage::clear(dir)?;
        Ok(Seconds { binds, events })
    }
}

fn text(object: &Value, pointer: &str) -> String {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// What a bind consists of: the claim, what is intended for it, the host, and how the claim stands.
fn requests(claim: &Value, host: &Value) -> Vec<(Method, String, Body)> {
    let namespace = text(claim, "/metadata/namespace");
    let (collection, name) = (CLAIMS.within(&namespace), text(claim, "/metadata/name"));
    let state = format!("{collection}/{name}/status?{MANAGER}");
    let says = |status: Value| json!({"apiVersion": claim.get("apiVersion"), "kind": claim.get("kind"), "metadata": {"name": name}, "status": status});
    let intent = json!({"bareMetalHost": claim.pointer("/status/bareMetalHost")});
    let mut created = as_written(claim, &namespace);
    let metadata = |object: &Value| {
        let kept = ["labels", "annotations", "finalizers"];
        let kept =
            kept.iter().filter_map(|part| Some(((*part).to_owned(), object.get("metadata")?.get(part)?.clone())));
        Value::Object(kept.collect::<Map<_, _>>())
    };
    if let (Some(finalizers), Some(metadata)) = (claim.pointer("/metadata/finalizers"), created.get_mut("metadata")) {
        metadata["finalizers"] = finalizers.clone();
    }
    let at = format!("{}/{}", HOSTS.within(&text(host, "/metadata/namespace")), text(host, "/metadata/name"));
    let bound = json!({"metadata": metadata(host), "spec": host.get("spec")});
    let apply = |status: Value| Body::Apply(says(status).to_string().into());
    vec![
        (Method::POST, collection, Body::Json(created.to_string().into())),
        (Method::PATCH, state.clone(), apply(intent)),
        (Method::PATCH, at, Body::Merge(bound.to_string().into())),
        (Method::PATCH, state, apply(claim.get("status").cloned().unwrap_or_default())),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bind_is_written_again_in_the_order_and_form_of_the_first_time() {
        let claim = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "HostClaim", "spec": {"kind": "baremetal"},
            "metadata": {"namespace": "t", "name": "c", "uid": "u", "finalizers": ["f"]},
            "status": {"bareMetalHost": {"namespace": "i", "name": "h"}, "conditions": []}});
        let host = json!({"metadata": {"namespace": "i", "name": "h", "uid": "v", "annotations": {"a": "b"}},
            "spec": {"consumerRef": {"name": "c"}}, "status": {"errorCount": 0}});
        let requests = requests(&claim, &host);
        let [create, intent, bind, state] = requests.as_slice() else { panic!("{requests:?}") };
        let read = |body: &Body| {
            let (Body::Json(text) | Body::Merge(text) | Body::Apply(text)) = body else { panic!("{body:?}") };
            serde_json::from_slice::<Value>(text).unwrap()
        };
        assert_eq!(create.1, "/apis/metal3.io/v1alpha1/namespaces/t/hostclaims");
        assert_eq!(read(&create.2)["metadata"], json!({"namespace": "t", "name": "c", "finalizers": ["f"]}));
        assert_eq!(read(&intent.2)["status"], json!({"bareMetalHost": {"namespace": "i", "name": "h"}}));
        assert_eq!(bind.1, "/apis/metal3.io/v1alpha1/namespaces/i/baremetalhosts/h");
        assert_eq!(
            read(&bind.2),
            json!({"metadata": {"annotations": {"a": "b"}}, "spec": {"consumerRef": {"name": "c"}}})
        );
        assert_eq!(read(&state.2)["status"], claim["status"]);
        assert!(matches!(create.2, Body::Json(_)) && matches!(bind.2, Body::Merge(_)));
        assert!(matches!(intent.2, Body::Apply(_)) && matches!(state.2, Body::Apply(_)));
    }
}
