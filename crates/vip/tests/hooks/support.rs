//! A room of our own behind real hooks, a server with a certificate, and a client that checks it.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode, Version};
use http_body_util::{BodyExt, Full};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kit::certs::{Pair, Slot};
use kit::clock::Clock;
use kit::serve::{Options, Server, Tls};
use kit::telemetry::Metrics;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use vip::hooks::{Answer, BODY_LIMIT, Handlers, Hook, Hooks, LifecycleRequest, Names, Reply, wire};

/// Long enough for a loaded machine, short enough to fail a hung test.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub fn names() -> Names {
    Names::new("vip-allocator", "").unwrap()
}

/// What the room does when it is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mood {
    #[default]
    Answer,
    Panic,
    Hang,
    Nonsense,
}

/// A room that remembers what it was asked.
#[derive(Default)]
pub struct Room {
    pub mood: Mutex<Mood>,
    pub lifecycle: Mutex<Vec<(Hook, LifecycleRequest)>>,
    pub bodies: Mutex<Vec<(Hook, Bytes)>>,
    pub entered: Notify,
    pub given_up: AtomicUsize,
}

/// Counts a handler that was dropped before its answer.
struct GivenUp<'r>(&'r Room);

impl Drop for GivenUp<'_> {
    fn drop(&mut self) {
        self.0.given_up.fetch_add(1, Ordering::SeqCst);
    }
}

impl Room {
    pub fn set(&self, mood: Mood) {
        *self.mood.lock().unwrap() = mood;
    }

    async fn behave(&self) -> Mood {
        let mood = *self.mood.lock().unwrap();
        self.entered.notify_one();
        match mood {
            Mood::Panic => panic!("on purpose"),
            Mood::Hang => {
                let _counted = GivenUp(self);
                std::future::pending().await
            }
            other => other,
        }
    }

    async fn asked(&self, hook: Hook, request: LifecycleRequest) -> Answer {
        self.behave().await;
        self.lifecycle.lock().unwrap().push((hook, request));
        if hook == Hook::BeforeClusterCreate { Answer::retry(2, "waiting for address") } else { Answer::open() }
    }

    async fn replies(&self, hook: Hook, body: Bytes) -> Reply {
        let mood = self.behave().await;
        self.bodies.lock().unwrap().push((hook, body));
        if mood == Mood::Nonsense {
            return Bytes::from_static(b"no answer").into();
        }
        Bytes::from(format!(r#"{{"kind":"{hook}Response","status":"Success","message":""}}"#)).into()
    }
}

impl Handlers for Room {
    async fn before_create(&self, request: LifecycleRequest, _: Instant) -> Answer {
        self.asked(Hook::BeforeClusterCreate, request).await
    }

    async fn before_delete(&self, request: LifecycleRequest, _: Instant) -> Answer {
        self.asked(Hook::BeforeClusterDelete, request).await
    }

    async fn generate_patches(&self, body: Bytes, _: Instant) -> Reply {
        self.replies(Hook::GeneratePatches, body).await
    }

    async fn validate_topology(&self, body: Bytes, _: Instant) -> Reply {
        self.replies(Hook::ValidateTopology, body).await
    }

    async fn discover_variables(&self, body: Bytes) -> Reply {
        self.replies(Hook::DiscoverVariables, body).await
    }
}

/// A certificate authority.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate and its key.
    pub fn issue(&self) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(["localhost".to_owned()]).unwrap().signed_by(&key, &self.0).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    pub fn slot(&self) -> Slot {
        let (certificate, key) = self.issue();
        let slot = Slot::new();
        slot.store(Pair::from_pem(certificate.as_bytes(), key.as_bytes()).unwrap());
        slot
    }

    /// What a client of ours, that trusts this authority, needs to know.
    pub fn trust(&self, identity: Option<(String, String)>) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider);
        let builder = builder.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots);
        match identity {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
                builder.with_client_auth_cert(vec![certificate], key).unwrap()
            }
        }
    }
}

/// Hooks being served.
pub struct Served {
    pub address: SocketAddr,
    pub room: Arc<Room>,
    pub metrics: Metrics,
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

impl Served {
    pub async fn start(tls: Tls, change: impl FnOnce(&mut Options)) -> Self {
        let mut options = Options::new("hooks", "127.0.0.1:0".parse().unwrap());
        options.body_limit = BODY_LIMIT;
        change(&mut options);
        let (room, metrics) = (Arc::new(Room::default()), Metrics::new());
        let hooks = Hooks::new(Arc::clone(&room), names(), &metrics, Clock::system());
        let (router, failed) = (hooks.router(), hooks.clone());
        let server = Server::bind(options).await.unwrap().on_failure(move |failure| failed.failure(failure));
        let (address, stop, mut tasks) = (server.address(), CancellationToken::new(), JoinSet::new());
        let token = stop.clone();
        tasks.spawn(async move { server.run(router, Some(tls), token).await.unwrap() });
        Self { address, room, metrics, stop, tasks }
    }

    pub async fn ended(mut self) {
        self.stop.cancel();
        tokio::time::timeout(PATIENCE, self.tasks.join_next()).await.expect("the server ends").unwrap().unwrap();
    }
}

/// The answer as far as tests look at it.
#[derive(Clone, Debug)]
pub struct Got {
    pub status: StatusCode,
    pub version: Version,
    pub kind: Option<String>,
    pub body: Bytes,
}

impl Got {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {:?}", self.body))
    }

    /// A handled request: 200, JSON, the hook's own type, a known status.
    pub fn answers(&self, hook: Hook) -> Value {
        assert_eq!(self.status, StatusCode::OK, "{:?}", self.body);
        assert_eq!(self.kind.as_deref(), Some("application/json"));
        let value = self.json();
        assert_eq!(value["kind"], format!("{hook}Response"));
        assert!(wire::Head::read(&self.body).is_some(), "{value}");
        if hook.can_wait() {
            let seconds = value["retryAfterSeconds"].as_i64().expect("always present");
            assert!(i32::try_from(seconds).is_ok_and(|seconds| seconds >= 0), "{value}");
        }
        value
    }

    /// A handled request that failed.
    pub fn fails(&self, hook: Hook) -> String {
        let value = self.answers(hook);
        assert_eq!(value["status"], "Failure", "{value}");
        value["message"].as_str().expect("a failure says why").to_owned()
    }
}

pub type Failed = Box<dyn std::error::Error + Send + Sync>;

/// A client, over HTTP/1.1 or HTTP/2.
pub struct Caller {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    base: String,
}

impl Caller {
    pub fn new(address: SocketAddr, mut trust: ClientConfig, two: bool) -> Self {
        // Every handshake must look at the certificate of the day.
        trust.resumption = rustls::client::Resumption::disabled();
        let builder = HttpsConnectorBuilder::new().with_tls_config(trust).https_only();
        let connector = if two { builder.enable_http2().build() } else { builder.enable_http1().build() };
        let client = Client::builder(TokioExecutor::new()).http2_only(two).build(connector);
        Self { client, base: format!("https://localhost:{}", address.port()) }
    }

    /// Sends a request as Cluster API does: without a content type.
    pub async fn send(&self, method: Method, path: &str, body: impl Into<Bytes>) -> Result<Got, Failed> {
        let request = Request::builder().method(method).uri(format!("{}{path}", self.base));
        let request = request.body(Full::new(body.into()))?;
        assert!(request.headers().is_empty());
        let response = tokio::time::timeout(PATIENCE, self.client.request(request)).await??;
        let (status, version) = (response.status(), response.version());
        let kind = response.headers().get("content-type").map(|value| value.to_str().unwrap().to_owned());
        let body = response.into_body().collect().await?.to_bytes();
        Ok(Got { status, version, kind, body })
    }

    pub async fn call(&self, hook: Hook, body: impl Into<Bytes>) -> Got {
        self.send(Method::POST, &names().path(hook), body).await.expect("an answer")
    }
}

/// The request of a version of Cluster API.
pub fn golden(version: &str, hook: Hook) -> Bytes {
    let file = match hook {
        Hook::Discovery => "discovery",
        Hook::BeforeClusterCreate => "before-cluster-create",
        Hook::GeneratePatches => "generate-patches",
        Hook::ValidateTopology => "validate-topology",
        Hook::DiscoverVariables => "discover-variables",
        Hook::BeforeClusterDelete => "before-cluster-delete",
    };
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{version}/{file}.json"));
    std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display())).into()
}
