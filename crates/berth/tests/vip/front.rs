//! What Cluster API calls: an HTTPS server that remembers every call and has somebody else answer it.

use std::future::Future;
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode, Version};
use http_body_util::BodyExt as _;
use kit::certs::{Pair, Slot};
use kit::serve::{Options, Server, Tls};
use serde_json::Value;
use sim::plane::Plane;
use tokio_util::sync::CancellationToken;

/// One call, and what was answered.
#[derive(Clone, Debug)]
pub struct Call {
    pub begun: Instant,
    pub took: Duration,
    /// The last two parts of the path: hook and handler.
    pub hook: String,
    pub target: String,
    pub version: Version,
    pub headers: HeaderMap,
    pub body: Value,
    pub status: u16,
    pub answer: Value,
}

impl Call {
    pub fn is(&self, hook: &str) -> bool {
        self.hook.split('/').next() == Some(hook)
    }

    /// Whether it is about a cluster.
    pub fn about(&self, namespace: &str, name: &str) -> bool {
        let text = |pointer: &str| self.body.pointer(pointer).and_then(Value::as_str);
        if text("/cluster/metadata/name").is_some() {
            return text("/cluster/metadata/namespace") == Some(namespace)
                && text("/cluster/metadata/name") == Some(name);
        }
        let variables = self.body["variables"].as_array().into_iter().flatten();
        variables
            .filter(|v| v["name"] == "builtin")
            .any(|v| v["value"]["cluster"]["namespace"] == namespace && v["value"]["cluster"]["name"] == name)
    }

    pub fn retry(&self) -> i64 {
        self.answer["retryAfterSeconds"].as_i64().unwrap_or_default()
    }
}

/// A call on its way to whoever answers.
#[derive(Clone, Debug)]
pub struct Asked {
    pub path: String,
    pub query: String,
    pub body: Bytes,
}

pub type Answer = Pin<Box<dyn Future<Output = (u16, Bytes)> + Send>>;

/// A running server; it ends with the process.
pub struct Front {
    pub port: u16,
    calls: Arc<Mutex<Vec<Call>>>,
}

impl Front {
    pub async fn start(plane: &Plane, name: &str, answer: impl Fn(Asked) -> Answer + Send + Sync + 'static) -> Self {
        let server = Server::bind(Options::new(name, (Ipv4Addr::LOCALHOST, 0).into())).await.expect("it listens");
        let port = server.address().port();
        let slot = Slot::new();
        let (certificate, key) = (plane.webhook_cert().expect("a certificate"), plane.webhook_key().expect("a key"));
        slot.store(Pair::from_pem(certificate.as_bytes(), key.as_bytes()).expect("a pair"));
        let calls: Arc<Mutex<Vec<Call>>> = Arc::default();
        let (answer, remembered) = (Arc::new(answer), calls.clone());
        let router = Router::new().fallback(move |request: Request<Body>| {
            let (answer, calls) = (answer.clone(), remembered.clone());
            async move { handle(request, &*answer, &calls).await }
        });
        tokio::spawn(server.run(router, Some(Tls::new(slot)), CancellationToken::new()));
        Self { port, calls }
    }

    pub fn calls(&self) -> Vec<Call> {
        self.calls.lock().expect("no panic").clone()
    }

    /// The calls of a hook about one cluster.
    pub fn about(&self, hook: &str, namespace: &str, name: &str) -> Vec<Call> {
        self.calls().into_iter().filter(|call| call.is(hook) && call.about(namespace, name)).collect()
    }
}

async fn handle(
    request: Request<Body>,
    answer: &(impl Fn(Asked) -> Answer + Send + Sync),
    calls: &Mutex<Vec<Call>>,
) -> Response {
    let begun = Instant::now();
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let (path, query) = (head.uri.path().to_owned(), head.uri.query().unwrap_or_default().to_owned());
    let (status, said) = answer(Asked { path: path.clone(), query, body: body.clone() }).await;
    let prefix = "/hooks.runtime.cluster.x-k8s.io/v1alpha1/";
    calls.lock().expect("no panic").push(Call {
        begun,
        took: begun.elapsed(),
        hook: path.strip_prefix(prefix).unwrap_or(&path).to_owned(),
        target: head.uri.to_string(),
        version: head.version,
        headers: head.headers,
        body: serde_json::from_slice(&body).unwrap_or_default(),
        status,
        answer: serde_json::from_slice(&said).unwrap_or_default(),
    });
    let mut response = Response::new(Body::from(said));
    *response.status_mut() = StatusCode::from_u16(status).expect("a status");
    response
}
