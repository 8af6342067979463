//! A plain HTTP/2 client for the API server: a fixed number of connections, no cache, no retries, no rate limit.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use kube::client::ConfigExt;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

/// No single request may take longer.
const DEADLINE: Duration = Duration::from_secs(120);
const WINDOW: u32 = 8 << 20;
/// How long a server may take to read what is in its store.
const CATCH_UP: Duration = Duration::from_secs(180);

/// A body and its content type.
#[derive(Clone, Debug)]
pub enum Body {
    /// No body.
    None,
    /// A whole object.
    Json(Bytes),
    /// A JSON merge patch.
    Merge(Bytes),
    /// What one manager of fields wants, as a server-side apply.
    Apply(Bytes),
    /// JSON without saying so, as Cluster API sends it to hooks.
    Bare(Bytes),
}

/// A fixed number of HTTP/2 connections to one server. One that the server closed because it was silent for long is opened
/// again by the next request.
pub struct Pool {
    connections: Vec<Mutex<Connection>>,
    door: Door,
    base: String,
    agent: String,
}

struct Connection {
    sender: SendRequest<Full<Bytes>>,
    // Dropping it ends the connection.
    _driver: JoinSet<()>,
}

/// How connections are opened.
struct Door {
    tls: TlsConnector,
    host: String,
    port: u16,
}

impl Door {
    async fn open(&self) -> Result<Connection> {
        let (host, port) = (self.host.as_str(), self.port);
        let tcp = tokio::net::TcpStream::connect((host, port))
            .await
            .with_context(|| format!("connecting to {host}:{port}"))?;
        tcp.set_nodelay(true).context("setting TCP_NODELAY")?;
        let name = rustls::pki_types::ServerName::try_from(self.host.clone()).context("reading the server's name")?;
        let stream = self.tls.connect(name, tcp).await.with_context(|| format!("TLS with {host}:{port}"))?;
        let (sender, driver) = Builder::new(TokioExecutor::new())
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW)
            .handshake(TokioIo::new(stream))
            .await
            .context("HTTP/2 handshake")?;
        let mut drivers = JoinSet::new();
        drivers.spawn(async move {
            // A broken connection shows up at the next request on it.
            let _ = driver.await;
        });
        Ok(Connection { sender, _driver: drivers })
    }
}

impl Pool {
    /// Opens `connections` connections with the client certificate of a kubeconfig.
    pub async fn connect(kubeconfig: &Path, connections: usize, agent: &str) -> Result<Self> {
        let shown = kubeconfig.display();
        let file = Kubeconfig::read_from(kubeconfig).with_context(|| format!("reading kubeconfig {shown}"))?;
        let config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
            .await
            .with_context(|| format!("using kubeconfig {shown}"))?;
        let tls = config.rustls_client_config().with_context(|| format!("certificates of kubeconfig {shown}"))?;
        let host = config.cluster_url.host().context("the kubeconfig's server has no host")?.to_owned();
        let port = config.cluster_url.port_u16().unwrap_or(443);
        Self::dial(tls, (&host, port), connections, agent).await
    }

    /// Opens `connections` connections to a server on loopback that has a certificate of this authority.
    pub async fn trusting(ca: &Path, port: u16, connections: usize, agent: &str) -> Result<Self> {
        use rustls::pki_types::pem::PemObject;
        let mut roots = rustls::RootCertStore::empty();
        let shown = ca.display();
        for certificate in
            rustls::pki_types::CertificateDer::pem_file_iter(ca).with_context(|| format!("reading {shown}"))?
        {
            roots
                .add(certificate.with_context(|| format!("reading {shown}"))?)
                .with_context(|| format!("using {shown}"))?;
        }
        let tls = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        Self::dial(tls, ("127.0.0.1", port), connections, agent).await
    }

    async fn dial(
        mut tls: rustls::ClientConfig,
        (host, port): (&str, u16),
        connections: usize,
        agent: &str,
    ) -> Result<Self> {
        tls.alpn_protocols = vec![b"h2".to_vec()];
        let door = Door { tls: TlsConnector::from(Arc::new(tls)), host: host.to_owned(), port };
        let mut open = Vec::with_capacity(connections);
        for _ in 0..connections.max(1) {
            open.push(Mutex::new(door.open().await?));
        }
        Ok(Self { connections: open, door, base: format!("https://{host}:{port}"), agent: agent.to_owned() })
    }

    async fn connection(&self, n: usize) -> Result<SendRequest<Full<Bytes>>> {
        let connection =
            self.connections.get(n % self.connections.len().max(1)).context("the pool has no connection")?;
        let mut connection = connection.lock().await;
        if connection.sender.is_closed() {
            *connection = self.door.open().await?;
        }
        Ok(connection.sender.clone())
    }

    /// Sends one request on connection `n` (modulo their number) and returns the answer with its body unread.
    pub async fn open(&self, n: usize, method: Method, path: &str, body: Body) -> Result<Response<Incoming>> {
        let mut request = Request::builder()
            .method(method.clone())
            .uri(format!("{}{path}", self.base))
            .header(http::header::USER_AGENT, &self.agent)
            .header(http::header::ACCEPT, "application/json");
        let bytes = match body {
            Body::None => Bytes::new(),
            Body::Bare(b) => b,
            Body::Json(b) => {
                request = request.header(http::header::CONTENT_TYPE, "application/json");
                b
            }
            Body::Merge(b) => {
                request = request.header(http::header::CONTENT_TYPE, "application/merge-patch+json");
                b
            }
            // JSON is YAML.
            Body::Apply(b) => {
                request = request.header(http::header::CONTENT_TYPE, "application/apply-patch+yaml");
                b
            }
        };
        let request = request.body(Full::new(bytes)).with_context(|| format!("building {method} {path}"))?;
        let mut sender = self.connection(n).await?;
        sender.ready().await.with_context(|| format!("{method} {path}: the connection is gone"))?;
        sender.send_request(request).await.with_context(|| format!("{method} {path}"))
    }

    /// Sends one request and reads the whole answer.
    pub async fn send(&self, n: usize, method: Method, path: &str, body: Body) -> Result<(StatusCode, Bytes)> {
        let work = async {
            let answer = self.open(n, method.clone(), path, body).await?;
            let status = answer.status();
            let bytes = answer.into_body().collect().await.with_context(|| format!("reading {method} {path}"))?;
            Ok((status, bytes.to_bytes()))
        };
        tokio::time::timeout(DEADLINE, work)
            .await
            .unwrap_or_else(|_| bail!("{method} {path}: no answer within {DEADLINE:?}"))
    }

    /// As [`Pool::send`], but an answer that is not a success is an error with the server's message.
    pub async fn ok(&self, n: usize, method: Method, path: &str, body: Body) -> Result<Bytes> {
        let (status, bytes) = self.send(n, method.clone(), path, body).await?;
        if status.is_success() {
            return Ok(bytes);
        }
        bail!("{method} {path}: {status}: {}", said(&bytes))
    }

    /// Gets and decodes one JSON document. A server that still reads its store, because it has just started or because much
    /// was put there, is asked again for a while.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        let until = Instant::now() + CATCH_UP;
        loop {
            let (status, bytes) = self.send(0, Method::GET, path, Body::None).await?;
            if status.is_success() {
                return serde_json::from_slice(&bytes).with_context(|| format!("decoding GET {path}"));
            }
            if !is_behind(status) || Instant::now() > until {
                bail!("GET {path}: {status}: {}", said(&bytes));
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// Opens a watch, with the same patience.
    pub async fn watch(&self, query: &str) -> Result<Response<Incoming>> {
        let until = Instant::now() + CATCH_UP;
        loop {
            let answer = self.open(0, Method::GET, query, Body::None).await?;
            let status = answer.status();
            if status.is_success() {
                return Ok(answer);
            }
            if !is_behind(status) || Instant::now() > until {
                bail!("watching {query}: {status}");
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// Sends `count` requests, `in_flight` at a time over all connections; the latency of each in milliseconds and the
    /// seconds for all. The first failure ends it.
    pub async fn many<F>(&self, count: usize, in_flight: usize, make: F) -> Result<(Vec<f64>, f64)>
    where
        F: Fn(usize) -> Result<(Method, String, Body)>,
    {
        let start = Instant::now();
        let latencies = futures::stream::iter(0..count)
            .map(|n| {
                let made = make(n);
                async move {
                    let (method, path, body) = made?;
                    let began = Instant::now();
                    self.ok(n, method, &path, body).await?;
                    anyhow::Ok(began.elapsed().as_secs_f64() * 1e3)
                }
            })
            .buffer_unordered(in_flight.max(1))
            .try_collect()
            .await?;
        Ok((latencies, start.elapsed().as_secs_f64()))
    }

    /// As [`Pool::many`], but each request is sent when it is due at a steady rate, or as soon after as there is room.
    pub async fn paced<F>(&self, count: usize, per_second: u64, in_flight: usize, make: F) -> Result<f64>
    where
        F: Fn(usize) -> Result<(Method, String, Body)>,
    {
        let start = tokio::time::Instant::now();
        futures::stream::iter(0..count)
            .then(|n| async move {
                tokio::time::sleep_until(start + Duration::from_secs_f64(n as f64 / per_second.max(1) as f64)).await;
                n
            })
            .map(|n| {
                let made = make(n);
                async move {
                    let (method, path, body) = made?;
                    self.ok(n, method, &path, body).await.map(drop)
                }
            })
            .buffer_unordered(in_flight.max(1))
            .try_collect::<Vec<()>>()
            .await?;
        Ok(start.elapsed().as_secs_f64())
    }

    /// Creates objects in a collection, all in one go.
    pub async fn create_all(&self, collection: &str, objects: &[Value]) -> Result<()> {
        self.many(objects.len(), 64, |n| {
            let object = objects.get(n).context("no such object")?;
            Ok((Method::POST, collection.to_owned(), Body::Json(object.to_string().into())))
        })
        .await
        .map(drop)
    }
}

/// What a server says for a refusal.
fn said(answer: &[u8]) -> String {
    let status = serde_json::from_slice::<Value>(answer).ok();
    let message = status.and_then(|status| status.get("message").and_then(Value::as_str).map(str::to_owned));
    message.unwrap_or_else(|| String::from_utf8_lossy(answer).chars().take(300).collect())
}

/// Waits until a collection is served, at most a minute, and then as long as the server holds back creates of a new kind.
pub async fn served(server: &Pool, paths: &[String]) -> Result<()> {
    let until = Instant::now() + Duration::from_secs(60);
    for path in paths {
        loop {
            let (status, _) = server.send(0, Method::GET, &format!("{path}?limit=1"), Body::None).await?;
            if status.is_success() {
                break;
            }
            if Instant::now() > until {
                bail!("{path} is not served 60 s after its definition was installed ({status})");
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    // The server holds back every create of a kind for the first two seconds after it was established, for the sake of its
    // peers. That is no part of any figure.
    tokio::time::sleep(Duration::from_millis(2100)).await;
    Ok(())
}

/// Whether a server says that it still reads its store.
fn is_behind(status: StatusCode) -> bool {
    matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::GATEWAY_TIMEOUT)
}

/// One `GET` over plain HTTP/1.1 on loopback, for readiness probes: the status code.
pub async fn probe(address: &str, path: &str) -> Result<u16> {
    let answer = plain(address, path, 64 << 10, Duration::from_secs(2)).await?;
    answer.split_whitespace().nth(1).and_then(|c| c.parse().ok()).context("a probe's answer has no status")
}

/// The same for a page of text, such as metrics.
pub async fn text(address: &str, path: &str) -> Result<String> {
    plain(address, path, 16 << 20, Duration::from_secs(30)).await
}

async fn plain(address: &str, path: &str, most: u64, bound: Duration) -> Result<String> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let work = async {
        let mut stream =
            tokio::net::TcpStream::connect(address).await.with_context(|| format!("dialling {address}"))?;
        let head = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).await.with_context(|| format!("asking {address}"))?;
        let mut answer = Vec::new();
        stream.take(most).read_to_end(&mut answer).await.with_context(|| format!("reading {address}{path}"))?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    };
    tokio::time::timeout(bound, work).await.unwrap_or_else(|_| bail!("no answer of {address} in {bound:?}"))
}
