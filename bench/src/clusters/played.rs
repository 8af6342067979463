//! Plays the control-plane manager and the provider: what is asked for is reported as there at once.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use http::Method;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::world::{GROUPS, OWNER, PLANES, SYSTEM};
use crate::http::{Body, Pool};
use crate::scenario::Kind;
use crate::vip::provider::{follow, name};

/// How it calls itself.
pub const AGENT: &str = "berth-bench-played";

/// A running stand-in; it ends when this is dropped.
pub struct Played {
    _work: JoinSet<()>,
}

impl Played {
    /// Starts; clusters are entered with `kubeconfig`, as secrets hold it.
    pub async fn start(admin: &Path, kubeconfig: String) -> Result<Self> {
        let writes = Arc::new(Pool::connect(admin, 4, AGENT).await?);
        let kubeconfig: Arc<str> = kubeconfig.into();
        let mut work = JoinSet::new();
        for kind in [PLANES, GROUPS] {
            let watch = Pool::connect(admin, 1, "berth-bench-watch").await?;
            let (writes, kubeconfig) = (Arc::clone(&writes), Arc::clone(&kubeconfig));
            work.spawn(async move {
                let (mut reports, never): (JoinSet<()>, Notify) = (JoinSet::new(), Notify::new());
                let path = kind.path();
                let ended = follow(&watch, &path, &never, |event| {
                    let Some(object) = event.get("object").filter(|object| is_due(&event, object)) else { return };
                    let (object, writes, kubeconfig) = (object.clone(), Arc::clone(&writes), Arc::clone(&kubeconfig));
                    reports.spawn(async move {
                        if let Err(error) = report(&writes, kind, &object, &kubeconfig).await {
                            eprintln!("berth-bench: the played {} failed: {error:#}", kind.kind);
                        }
                    });
                });
                if let Err(error) = ended.await {
                    eprintln!("berth-bench: the watch of the played {} failed: {error:#}", kind.kind);
                }
            });
        }
        Ok(Self { _work: work })
    }
}

/// Whether an event shows an object on whose latest change nobody has reported.
fn is_due(event: &Value, object: &Value) -> bool {
    let there = event.get("type").and_then(Value::as_str).is_some_and(|kind| kind != "DELETED");
    there && object.pointer("/status/observedGeneration") != object.pointer("/metadata/generation")
}

/// Reports that all machines are there; a control plane has its kubeconfig before.
async fn report(pool: &Pool, kind: Kind, object: &Value, kubeconfig: &str) -> Result<()> {
    let (namespace, name) = name(object).context("an object without a name")?;
    if kind.kind == PLANES.kind {
        let secret = json!({"metadata": {"name": format!("{name}-kubeconfig"), "labels": {OWNER: name}},
            "type": "cluster.x-k8s.io/secret", "stringData": {"value": kubeconfig}});
        let path = format!("/api/v1/namespaces/{SYSTEM}/secrets");
        let (status, _) = pool.send(0, Method::POST, &path, Body::Json(secret.to_string().into())).await?;
        // One that is there is the same.
        if !status.is_success() && status != http::StatusCode::CONFLICT {
            anyhow::bail!("storing the kubeconfig of {name}: {status}");
        }
    }
    let path = format!("{}/{name}/status", kind.within(&namespace));
    let body = json!({"status": status(kind, object)}).to_string();
    pool.ok(0, Method::PATCH, &path, Body::Merge(body.into())).await.map(drop)
}

fn status(kind: Kind, object: &Value) -> Value {
    let (generation, wanted) = (object.pointer("/metadata/generation"), object.pointer("/spec/replicas"));
    let mut status = json!({"observedGeneration": generation, "replicas": wanted, "readyReplicas": wanted,
        "upToDateReplicas": wanted, "availableReplicas": wanted, "conditions": [{"type": "Available", "status": "True",
            "reason": "Available", "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z"}]});
    if let (true, Some(status)) = (kind.kind == PLANES.kind, status.as_object_mut()) {
        status.insert("version".to_owned(), object.pointer("/spec/version").cloned().unwrap_or_default());
        status.insert("initialization".to_owned(), json!({"controlPlaneInitialized": true}));
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_due_once_for_each_change() {
        let object = |generation: i64, seen: Value| json!({"metadata": {"generation": generation}, "status": seen});
        for (kind, object, due) in [
            ("ADDED", object(1, json!(null)), true),
            ("MODIFIED", object(1, json!({"observedGeneration": 1})), false),
            ("MODIFIED", object(2, json!({"observedGeneration": 1})), true),
            ("DELETED", object(2, json!({"observedGeneration": 1})), false),
        ] {
            let event = json!({"type": kind, "object": object});
            assert_eq!(is_due(&event, &object), due, "{event}");
        }
    }

    #[test]
    fn a_control_plane_is_reported_with_the_version_it_is_to_have() {
        let object = json!({"metadata": {"generation": 3}, "spec": {"replicas": 1, "version": "v1.31.4"}});
        let plane = status(PLANES, &object);
        assert_eq!((&plane["version"], &plane["observedGeneration"]), (&json!("v1.31.4"), &json!(3)));
        assert!(status(GROUPS, &object).get("version").is_none());
    }
}
