//! The HTTP edge: bytes in, [`Request`] to the world, bytes out.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST, HeaderValue};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::clock::Clock;
use super::world::World;
use super::world::engine::{Reply, Request};
use super::{Error, KeyPair};

/// Requests are small: the largest carries 16 KiB of user data.
const MOST_BODY: usize = 1 << 20;

/// Longest wait for a TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// What connections and the handle share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) world: Mutex<World>,
    pub(super) clock: Clock,
}

impl Shared {
    pub(super) fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The connection ends without an answer.
#[derive(Debug, thiserror::Error)]
#[error("the answer is withheld")]
struct Withheld;

pub(super) fn acceptor(pair: &KeyPair) -> Result<TlsAcceptor, Error> {
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
pub(super) async fn run(listener: TcpListener, tls: Option<TlsAcceptor>, shared: Arc<Shared>, stop: CancellationToken) {
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

async fn connection(stream: TcpStream, tls: Option<TlsAcceptor>, shared: Arc<Shared>) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "could not set no-delay");
    }
    match tls {
        None => serve(stream, shared).await,
        Some(acceptor) => match timeout(HANDSHAKE, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => serve(stream, shared).await,
            Ok(Err(error)) => tracing::debug!(%error, "no handshake"),
            Err(_) => tracing::debug!("no handshake in time"),
        },
    }
}

async fn serve<S>(stream: S, shared: Arc<Shared>)
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

async fn answer(
    shared: Arc<Shared>,
    request: http::Request<Incoming>,
) -> Result<http::Response<Full<Bytes>>, Withheld> {
    let (parts, body) = request.into_parts();
    let body = Limited::new(body, MOST_BODY).collect().await.map_err(|_| Withheld)?.to_bytes();
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
            Err(Withheld)
        }
        Reply::Answer { status, content_type, request_id, body, delay } => {
            sleep(delay).await;
            let mut response = http::Response::new(Full::new(Bytes::from(body)));
            *response.status_mut() = http::StatusCode::from_u16(status).map_err(|_| Withheld)?;
            let text = |value: &str| HeaderValue::from_str(value).map_err(|_| Withheld);
            response.headers_mut().insert(CONTENT_TYPE, text(&content_type)?);
            response.headers_mut().insert("x-amzn-requestid", text(&request_id)?);
            Ok(response)
        }
    }
}
