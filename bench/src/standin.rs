//! The smallest controller there is: lists and watches one kind. It lets the runner be tested without any product.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use http::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::http::{Body, Pool};
use crate::scenario::Shape;

/// A definition that accepts the objects of a scenario as they are.
pub fn definition(scenario: &dyn Shape) -> Value {
    let k = scenario.kind();
    let free = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": k.crd()},
        "spec": {
            "group": k.group, "scope": "Cluster",
            "names": {"plural": k.plural, "singular": k.kind.to_lowercase(), "kind": k.kind, "listKind": format!("{}List", k.kind)},
            "versions": [{"name": k.version, "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": free, "status": free}}}}],
        },
    })
}

/// Runs until SIGTERM. With `touch` it also writes to the first object at every start, which no oracle may accept.
pub async fn main(kubeconfig: &Path, health: &str, path: &str, touch: bool) -> Result<()> {
    let mut term = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).context("signals")?;
    let (ready, is_ready) = watch::channel(false);
    let listener = TcpListener::bind(health).await.with_context(|| format!("listening on {health}"))?;
    tokio::select! {
        _ = term.recv() => Ok(()),
        end = serve(listener, is_ready) => end,
        end = feed(kubeconfig, path, touch, ready) => end,
    }
}

async fn serve(listener: TcpListener, ready: watch::Receiver<bool>) -> Result<()> {
    loop {
        let (mut stream, _) = listener.accept().await.context("accepting a probe")?;
        let line = if *ready.borrow() { "200 OK" } else { "503 Service Unavailable" };
        let answer = format!("HTTP/1.1 {line}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        let talk = async {
            let mut head = [0u8; 1024];
            // Whatever was asked, the answer is the same.
            let _asked = stream.read(&mut head).await?;
            stream.write_all(answer.as_bytes()).await?;
            stream.shutdown().await
        };
        // A prober that went away is its own affair.
        let _ = tokio::time::timeout(Duration::from_secs(1), talk).await;
    }
}

async fn feed(kubeconfig: &Path, path: &str, touch: bool, ready: watch::Sender<bool>) -> Result<()> {
    let pool = Pool::connect(kubeconfig, 1, "stand-in/1").await?;
    let (mut next, mut first) = (String::new(), None);
    let version = loop {
        let page: Value = pool.get(&format!("{path}?limit=20{next}")).await?;
        let text = |pointer: &str| page.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        first = first.or_else(|| page.pointer("/items/0/metadata/name").and_then(Value::as_str).map(str::to_owned));
        match text("/metadata/continue") {
            end if end.is_empty() => break text("/metadata/resourceVersion"),
            token => next = format!("&continue={token}"),
        }
    };
    if let (true, Some(name)) = (touch, first) {
        let stamp = crate::child::now_us().to_string();
        let patch = json!({"metadata": {"annotations": {"example.test/touched": stamp}}}).to_string();
        pool.ok(0, Method::PATCH, &format!("{path}/{name}"), Body::Merge(patch.into())).await?;
    }
    ready.send_replace(true);
    crate::watch::follow(&pool, path, &version, &[], |_| Ok(())).await
}
