//! A small upstream that remembers what reached it, and clients of every kind.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as Legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use sim::proxy::{Inbound, Options, Pem, Protocol, Proxy, Upstream};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// No step of a test takes longer than this.
pub const BOUND: Duration = Duration::from_secs(20);

/// Ends a test that waits for something that does not come.
pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(BOUND, future).await {
        Ok(value) => value,
        Err(_) => panic!("waited too long: {what}"),
    }
}

/// How one side of the proxy is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    Http1,
    Http2,
    TlsHttp1,
    TlsHttp2,
}

impl Wire {
    pub const ALL: [Self; 4] = [Self::Http1, Self::Http2, Self::TlsHttp1, Self::TlsHttp2];

    pub fn tls(self) -> bool {
        matches!(self, Self::TlsHttp1 | Self::TlsHttp2)
    }

    pub fn http2(self) -> bool {
        matches!(self, Self::Http2 | Self::TlsHttp2)
    }
}

/// What reached the upstream.
#[derive(Debug, Clone)]
pub struct Seen {
    pub method: Method,
    pub target: String,
    pub authority: String,
    pub headers: HeaderMap,
    pub version: http::Version,
    pub body: Bytes,
}

#[derive(Default)]
struct State {
    seen: Vec<Seen>,
    feeds: VecDeque<mpsc::UnboundedReceiver<Bytes>>,
}

/// The upstream.
pub struct Server {
    pub url: String,
    state: Arc<Mutex<State>>,
    _tasks: JoinSet<()>,
}

impl Server {
    pub fn seen(&self) -> Vec<Seen> {
        self.state.lock().unwrap().seen.clone()
    }

    /// The next watch gets what is sent here, and ends when this is dropped.
    pub fn feed(&self) -> mpsc::UnboundedSender<Bytes> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.state.lock().unwrap().feeds.push_back(receiver);
        sender
    }

    /// A feed that holds these lines and ends.
    pub fn feed_lines(&self, lines: &[&str]) {
        let feed = self.feed();
        for line in lines {
            feed.send(Bytes::from(format!("{line}\n"))).unwrap();
        }
    }
}

type Answer = Response<UnsyncBoxBody<Bytes, BoxError>>;

fn full(text: impl Into<Bytes>) -> UnsyncBoxBody<Bytes, BoxError> {
    Full::new(text.into()).map_err(|never| match never {}).boxed_unsync()
}

async fn answer(state: Arc<Mutex<State>>, request: Request<Incoming>) -> Result<Answer, Infallible> {
    let (parts, body) = request.into_parts();
    let Ok(body) = body.collect().await else {
        return Ok(Response::builder().status(400).body(full("half a request")).unwrap());
    };
    let host = parts.headers.get("host").map(|host| host.to_str().unwrap().to_owned());
    let authority = parts.uri.authority().map(ToString::to_string).or(host).unwrap_or_default();
    let path = parts.uri.path().to_owned();
    let (number, feed) = {
        let mut state = state.lock().unwrap();
        state.seen.push(Seen {
            method: parts.method,
            target: parts.uri.path_and_query().unwrap().to_string(),
            authority,
            headers: parts.headers,
            version: parts.version,
            body: body.to_bytes(),
        });
        let feed = if path == "/watch" { state.feeds.pop_front() } else { None };
        (state.seen.len(), feed)
    };
    Ok(match (path.as_str(), feed) {
        ("/watch", Some(feed)) => {
            let stream = futures::stream::unfold(feed, |mut feed| async move {
                feed.recv().await.map(|data| (Ok::<_, BoxError>(Frame::data(data)), feed))
            });
            Response::new(StreamBody::new(stream).boxed_unsync())
        }
        ("/watch", None) => Response::builder().status(404).body(full("no feed")).unwrap(),
        ("/missing", _) => Response::builder().status(404).body(full("missing")).unwrap(),
        _ => Response::builder()
            .header("content-type", "application/json")
            .body(full(format!("{{\"answer\":{number}}}")))
            .unwrap(),
    })
}

/// One certificate authority with a serving and a client certificate.
pub struct Pki {
    pub dir: tempfile::TempDir,
}

impl Pki {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let ca_key = rcgen::KeyPair::generate().unwrap();
        let mut ca = rcgen::CertificateParams::new(Vec::new()).unwrap();
        ca.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let ca_cert = ca.self_signed(&ca_key).unwrap();
        let issuer = rcgen::Issuer::new(ca, ca_key);
        std::fs::write(dir.path().join("ca.crt"), ca_cert.pem()).unwrap();
        for name in ["server", "client"] {
            let key = rcgen::KeyPair::generate().unwrap();
            let params = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
            let cert = params.signed_by(&key, &issuer).unwrap();
            std::fs::write(dir.path().join(format!("{name}.crt")), cert.pem()).unwrap();
            std::fs::write(dir.path().join(format!("{name}.key")), key.serialize_pem()).unwrap();
        }
        Self { dir }
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Serving settings that ask every client for a certificate of this authority.
    fn server_config(&self, http2: bool) -> rustls::ServerConfig {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(self.file("ca.crt")).unwrap()).unwrap();
        let verifier =
            rustls::server::WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build();
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(verifier.unwrap())
            .with_single_cert(
                vec![CertificateDer::from_pem_file(self.file("server.crt")).unwrap()],
                PrivateKeyDer::from_pem_file(self.file("server.key")).unwrap(),
            )
            .unwrap();
        config.alpn_protocols = vec![if http2 { b"h2".to_vec() } else { b"http/1.1".to_vec() }];
        config
    }
}

pub async fn server(wire: Wire, pki: &Pki) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let state: Arc<Mutex<State>> = Arc::default();
    let acceptor = wire.tls().then(|| tokio_rustls::TlsAcceptor::from(Arc::new(pki.server_config(wire.http2()))));
    let mut tasks = JoinSet::new();
    let shared = state.clone();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        loop {
            let Ok((stream, _)) = listener.accept().await else { continue };
            let (shared, acceptor) = (shared.clone(), acceptor.clone());
            connections.spawn(async move {
                let service = service_fn(move |request| answer(shared.clone(), request));
                let builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
                // Connections end when their client goes, which is no concern of this server.
                let _ = match acceptor {
                    None => builder.serve_connection(TokioIo::new(stream), service).await,
                    Some(acceptor) => match acceptor.accept(stream).await {
                        Ok(stream) => builder.serve_connection(TokioIo::new(stream), service).await,
                        Err(error) => Err(error.into()),
                    },
                };
            });
        }
    });
    let scheme = if wire.tls() { "https" } else { "http" };
    Server { url: format!("{scheme}://{address}"), state, _tasks: tasks }
}

/// What came back.
#[derive(Debug, Clone)]
pub struct Got {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Got {
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

pub struct Client {
    inner: Legacy<HttpsConnector<HttpConnector>, Full<Bytes>>,
    url: String,
}

impl Client {
    pub fn new(url: String, ca: Option<&str>, http2: bool) -> Self {
        let mut roots = rustls::RootCertStore::empty();
        if let Some(ca) = ca {
            roots.add(CertificateDer::from_pem_slice(ca.as_bytes()).unwrap()).unwrap();
        }
        let config =
            rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_root_certificates(roots)
                .with_no_client_auth();
        let builder = HttpsConnectorBuilder::new().with_tls_config(config).https_or_http();
        let connector = if http2 { builder.enable_http2().build() } else { builder.enable_http1().build() };
        let inner =
            Legacy::builder(TokioExecutor::new()).http2_only(http2).retry_canceled_requests(false).build(connector);
        Self { inner, url }
    }

    pub async fn open(&self, request: http::request::Builder, body: &str) -> Result<Response<Incoming>, BoxError> {
        let request = request.body(Full::new(Bytes::from(body.to_owned())))?;
        Ok(soon("an answer", self.inner.request(request)).await?)
    }

    pub async fn send(&self, request: http::request::Builder, body: &str) -> Result<Got, BoxError> {
        let response = self.open(request, body).await?;
        let (parts, body) = response.into_parts();
        let body = soon("the body of an answer", body.collect()).await?.to_bytes();
        Ok(Got { status: parts.status, headers: parts.headers, body })
    }

    pub fn request(&self, method: &str, target: &str) -> http::request::Builder {
        Request::builder().method(method).uri(format!("{}{target}", self.url))
    }

    pub async fn get(&self, target: &str) -> Result<Got, BoxError> {
        self.send(self.request("GET", target), "").await
    }

    pub async fn post(&self, target: &str, body: &str) -> Result<Got, BoxError> {
        self.send(self.request("POST", target), body).await
    }

    /// Opens a watch and gives its body, unread.
    pub async fn watch(&self) -> Incoming {
        let response = self.open(self.request("GET", "/watch?watch=true"), "").await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        response.into_body()
    }
}

/// Reads a body to its end: all that came, and whether it ended properly.
pub async fn drain(mut body: Incoming) -> (String, bool) {
    let mut text = Vec::new();
    loop {
        match soon("the next frame", body.frame()).await {
            Some(Ok(frame)) => text.extend_from_slice(frame.data_ref().unwrap_or(&Bytes::new())),
            Some(Err(_)) => return (String::from_utf8(text).unwrap(), false),
            None => return (String::from_utf8(text).unwrap(), true),
        }
    }
}

/// A proxy between a client and an upstream.
pub struct World {
    /// Holds the directory with the certificates.
    _pki: Pki,
    pub server: Server,
    pub proxy: Proxy,
    pub client: Client,
}

pub fn upstream(server: &Server, wire: Wire, pki: &Pki) -> Upstream {
    let mut upstream = Upstream::plain(server.url.clone());
    if wire.tls() {
        upstream.ca = Some(Pem::File(pki.file("ca.crt")));
        upstream.identity = Some((Pem::File(pki.file("client.crt")), Pem::File(pki.file("client.key"))));
    } else if wire.http2() {
        upstream.protocol = Protocol::Http2;
    }
    upstream
}

pub async fn world_with(inside: Wire, outside: Wire, rules: &str, seed: u64) -> World {
    let pki = Pki::new();
    let server = server(outside, &pki).await;
    let mut options = Options::new(upstream(&server, outside, &pki));
    options.seed = seed;
    options.rules = sim::proxy::rules::parse(rules).unwrap();
    if inside.tls() {
        options.inbound = Inbound::Generated { dir: pki.dir.path().join("proxy") };
    }
    let proxy = Proxy::start(options).await.unwrap();
    let client = Client::new(proxy.url(), proxy.ca_pem(), inside.http2());
    World { _pki: pki, server, proxy, client }
}

pub async fn world(inside: Wire, rules: &str) -> World {
    world_with(inside, Wire::Http1, rules, 1).await
}

/// Waits until a file holds something.
pub async fn file_appears(path: &Path) -> String {
    soon("a file", async {
        loop {
            match std::fs::read_to_string(path) {
                Ok(text) if !text.is_empty() => return text,
                _ => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    })
    .await
}
