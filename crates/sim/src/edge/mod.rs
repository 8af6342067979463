//! The HTTP edge of the simulated services: bytes in, [`Request`] to a world, bytes out, on the loopback address.

mod clock;
mod held;
pub mod log;
pub mod program;
pub mod script;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{HOST, HeaderValue};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use jiff::Timestamp;
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use clock::Clock;
pub use held::{Held, Stage};

/// A certificate chain and its key, in PEM form.
#[derive(Clone, Debug)]
pub struct KeyPair {
    /// Certificates, the server's own first.
    pub chain: Vec<u8>,
    /// Private key.
    pub key: Vec<u8>,
}

/// Why a simulator did not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address could not be listened on.
    #[error("listen on {address}")]
    Listen {
        /// The address asked for.
        address: SocketAddr,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The key pair cannot be used.
    #[error("tls: {problem}")]
    Tls {
        /// What is wrong with it.
        problem: String,
    },
}

/// A request as it came in.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// HTTP method.
    pub method: String,
    /// Path.
    pub path: String,
    /// Query, without its question mark.
    pub query: String,
    /// Header names in lower case, with their values.
    pub headers: Vec<(String, String)>,
    /// The whole body.
    pub body: Vec<u8>,
}

impl Request {
    /// The first header of a name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// What goes back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// An answer, after a while.
    Answer {
        /// HTTP status.
        status: u16,
        /// Header names in lower case, with their values.
        headers: Vec<(&'static str, String)>,
        /// Body.
        body: Vec<u8>,
        /// How long to wait.
        delay: Duration,
    },
    /// Nothing: the connection ends, after a while.
    Cut {
        /// How long to wait.
        delay: Duration,
    },
}

/// A world that answers requests; it has no clock of its own.
pub trait Answers: Send + 'static {
    /// Handles one request. `now` is the world's time, `signing` the time clients sign with.
    fn handle(&mut self, now: Timestamp, signing: Timestamp, request: &Request) -> Reply;
}

/// Requests are small; CloudStack takes a megabyte of user data, encoded once more by the form.
const MOST_BODY: usize = 4 << 20;

/// Longest wait for a TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// What connections and the handle share.
#[derive(Debug)]
pub(crate) struct Shared<W> {
    world: Mutex<W>,
    pub(crate) clock: Clock,
}

impl<W> Shared<W> {
    pub(crate) fn world(&self) -> MutexGuard<'_, W> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where and how a world is served.
pub(crate) struct Place<'a> {
    /// Port on the loopback address; 0 = a free one.
    pub(crate) port: u16,
    /// Serve TLS with this key pair.
    pub(crate) tls: Option<&'a KeyPair>,
    /// The world's first moment; the machine's time when not given.
    pub(crate) time: Option<Timestamp>,
    /// The world's time moves only by hand.
    pub(crate) frozen: bool,
}

/// Starts to serve a world; gives its address, `http://127.0.0.1:1234`, and what a test holds of it.
pub(crate) async fn serve<W: Answers>(world: W, place: Place<'_>) -> Result<(String, Held<W>), Error> {
    let tls = place.tls.map(acceptor).transpose()?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, place.port));
    let listen = |source| Error::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(listen)?;
    let bound = listener.local_addr().map_err(listen)?;
    let (shared, stop) = hold(world, &place);
    let scheme = if tls.is_some() { "https" } else { "http" };
    tokio::spawn(run(listener, tls, shared.clone(), stop.clone()));
    Ok((format!("{scheme}://{bound}"), Held::new(shared, stop)))
}

/// A world without a socket, which is called through [`Held::carry`]: real connections and a paused clock do not go
/// together.
pub(crate) fn keep<W: Answers>(world: W, place: &Place<'_>) -> Held<W> {
    let (shared, stop) = hold(world, place);
    Held::new(shared, stop)
}

fn hold<W>(world: W, place: &Place<'_>) -> (Arc<Shared<W>>, CancellationToken) {
    let shared = Arc::new(Shared { world: Mutex::new(world), clock: Clock::new(place.time, place.frozen) });
    (shared, CancellationToken::new())
}

/// The connection ends without an answer.
#[derive(Debug, thiserror::Error)]
#[error("the answer is withheld")]
struct Withheld;

fn acceptor(pair: &KeyPair) -> Result<TlsAcceptor, Error> {
    let bad = |problem: &dyn std::fmt::Display| Error::Tls { problem: problem.to_string() };
    let chain: Vec<CertificateDer<'static>> =
        CertificateDer::pem_slice_iter(&pair.chain).collect::<Result<_, _>>().map_err(|e| bad(&e))?;
    let key = PrivateKeyDer::from_pem_slice(&pair.key).map_err(|e| bad(&e))?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| bad(&e))?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|e| bad(&e))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Accepts connections until told to stop.
async fn run<W: Answers>(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    shared: Arc<Shared<W>>,
    stop: CancellationToken,
) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(connection(stream, tls.clone(), shared.clone()));
                }
                Err(error) => {
                    tracing::warn!(%error, "could not accept a connection");
                    sleep(Duration::from_millis(50)).await;
                }
            },
        }
    }
    connections.shutdown().await;
}

async fn connection<W: Answers>(stream: TcpStream, tls: Option<TlsAcceptor>, shared: Arc<Shared<W>>) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "could not set no-delay");
    }
    match tls {
        None => converse(stream, shared).await,
        Some(acceptor) => match timeout(HANDSHAKE, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => converse(stream, shared).await,
            Ok(Err(error)) => tracing::debug!(%error, "no handshake"),
            Err(_) => tracing::debug!("no handshake in time"),
        },
    }
}

async fn converse<S, W: Answers>(stream: S, shared: Arc<Shared<W>>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request| answer(shared.clone(), request));
    let mut builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new());
    builder.http2().timer(TokioTimer::new());
    if let Err(error) = builder.serve_connection(TokioIo::new(stream), service).await {
        tracing::debug!(error = %error, "connection ended");
    }
}

async fn answer<W: Answers>(
    shared: Arc<Shared<W>>,
    request: http::Request<Incoming>,
) -> Result<http::Response<Full<Bytes>>, Withheld> {
    let (parts, body) = request.into_parts();
    let body = Limited::new(body, MOST_BODY).collect().await.map_err(|_| Withheld)?.to_bytes();
    let answer = carry(&shared, http::Request::from_parts(parts, body)).await.ok_or(Withheld)?;
    Ok(answer.map(Full::new))
}

/// A whole request to its whole answer; none when the connection is to end without one.
pub(crate) async fn carry<W: Answers>(
    shared: &Shared<W>,
    request: http::Request<Bytes>,
) -> Option<http::Response<Bytes>> {
    let (parts, body) = request.into_parts();
    let mut headers: Vec<(String, String)> = parts
        .headers
        .iter()
        .map(|(name, value)| (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
        .collect();
    // HTTP/2 has the host in the target, and clients sign it as a header all the same.
    if !parts.headers.contains_key(HOST)
        && let Some(authority) = parts.uri.authority()
    {
        headers.push(("host".to_owned(), authority.as_str().to_owned()));
    }
    let request = Request {
        method: parts.method.as_str().to_owned(),
        path: parts.uri.path().to_owned(),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        headers,
        body: body.to_vec(),
    };
    let (now, signing) = (shared.clock.now(), shared.clock.signing());
    let reply = shared.world().handle(now, signing, &request);
    match reply {
        Reply::Cut { delay } => {
            sleep(delay).await;
            None
        }
        Reply::Answer { status, headers, body, delay } => {
            sleep(delay).await;
            let mut response = http::Response::new(Bytes::from(body));
            *response.status_mut() = http::StatusCode::from_u16(status).ok()?;
            for (name, value) in headers {
                response.headers_mut().insert(name, HeaderValue::from_str(&value).ok()?);
            }
            Some(response)
        }
    }
}
