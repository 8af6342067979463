//! The server half: connections, and the way of one request through the rules.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderName, HeaderValue, USER_AGENT};
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri, Version};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::body::{Body, BoxError, Breaker, Broken, LineBody, Peeked, Recorder, Repeat, SlowBody, full};
use super::engine::{End, Engine, Facts, HitLog, Plan, lock};
use super::lines::Lines;
use super::rules::{Answer, body_bytes};
use super::tls::Outbound;

/// How much of a request body a rule may look at.
const PEEK: usize = 64 * 1024;

/// Longest wait for a TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Headers that belong to one connection and not to the message.
const HOP_BY_HOP: [&str; 8] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
];

/// What all connections share.
pub(super) struct Shared {
    pub(super) engine: Mutex<Engine>,
    pub(super) log: Arc<Mutex<HitLog>>,
    pub(super) client: Outbound,
    pub(super) target: Uri,
    pub(super) stop: CancellationToken,
}

/// Accepts connections until the proxy stops.
pub(super) async fn run(listener: TcpListener, tls: Option<TlsAcceptor>, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = shared.stop.cancelled() => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    connections.spawn(connection(stream, peer, tls.clone(), shared.clone()));
                }
                Err(error) => {
                    tracing::warn!(%error, "could not accept a connection");
                    // Out of file descriptors is the usual cause, and it passes.
                    sleep(Duration::from_millis(50)).await;
                }
            },
        }
    }
    connections.shutdown().await;
}

async fn connection(stream: TcpStream, peer: SocketAddr, tls: Option<TlsAcceptor>, shared: Arc<Shared>) {
    // A watch line is small and must leave at once.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, %peer, "could not set no-delay");
    }
    let broken = Arc::new(AtomicBool::new(false));
    let stream = Breakable { stream, broken: broken.clone() };
    let ended = match tls {
        None => serve(stream, broken, shared).await,
        Some(acceptor) => match timeout(HANDSHAKE, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => serve(stream, broken, shared).await,
            Ok(Err(error)) => Err(error.into()),
            Err(elapsed) => Err(elapsed.into()),
        },
    };
    if let Err(error) = ended {
        tracing::debug!(error = %error, %peer, "connection ended");
    }
}

async fn serve<S>(stream: S, broken: Arc<AtomicBool>, shared: Arc<Shared>) -> Result<(), BoxError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request: Request<Incoming>| {
        let shared = shared.clone();
        let breaker = Breaker { broken: broken.clone(), http1: request.version() < Version::HTTP_2 };
        async move {
            tokio::select! {
                // Streams of HTTP/2 are tasks of their own, which end with the proxy like everything else.
                () = shared.stop.cancelled() => Err(Broken),
                answer = handle(&shared, &breaker, request) => answer,
            }
        }
    });
    let mut builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new());
    builder.http2().timer(TokioTimer::new());
    builder.serve_connection(TokioIo::new(stream), service).await
}

async fn handle(shared: &Shared, breaker: &Breaker, request: Request<Incoming>) -> Result<Response<Body>, Broken> {
    if request.method() == Method::CONNECT || request.headers().contains_key("upgrade") {
        let text = "the fault proxy carries no tunnels and no protocol upgrades (exec, attach, port-forward)";
        return Ok(plain(StatusCode::NOT_IMPLEMENTED, text));
    }
    let (parts, body) = request.into_parts();
    let body = body.map_err(Into::into).boxed_unsync();
    let peeked = if lock(&shared.engine).looks_at_bodies() && !body.is_end_stream() {
        Peeked::read(body, PEEK).await.map(|(start, body)| (start, body.boxed_unsync()))
    } else {
        Ok((Bytes::new(), body))
    };
    // A client that goes away while it sends its body never made a whole request.
    let (start, body) = peeked.map_err(|_| breaker.stream())?;
    let plan = {
        let text = |name: HeaderName| parts.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let form = format!("{} {}", text(ACCEPT), text(ACCEPT_ENCODING));
        let facts = Facts {
            method: parts.method.as_str(),
            path: parts.uri.path(),
            query: parts.uri.query().unwrap_or_default(),
            user_agent: text(USER_AGENT),
            form: &form,
            body: &start,
        };
        lock(&shared.engine).plan(&facts, Instant::now())
    };
    if !plan.delay.is_zero() {
        sleep(plan.delay).await;
    }
    let response = match &plan.end {
        End::ResetBefore(reset) => {
            sleep(Duration::from_millis(reset.hold_ms)).await;
            return Err(if reset.connection { breaker.connection() } else { breaker.stream() });
        }
        End::ResetAfter(reset, ticket) => {
            let answer = forward(shared, parts, body, &plan).await;
            if let Err(error) = answer {
                // Nothing was committed upstream, so this must not look like a lost answer.
                return Ok(unreachable(&error));
            }
            ticket.landed();
            sleep(Duration::from_millis(reset.hold_ms)).await;
            return Err(if reset.connection { breaker.connection() } else { breaker.stream() });
        }
        End::Answer(answer) => made(answer),
        End::Replay(recording) => {
            let mut response = Response::new(full(recording.body.clone()));
            *response.headers_mut() = recording.headers.clone();
            response
        }
        End::Forward => match forward(shared, parts, body, &plan).await {
            Ok(response) => response,
            Err(error) => return Ok(unreachable(&error)),
        },
    };
    Ok(disturb(response, plan, breaker))
}

/// Lays the plan's faults over an answer.
fn disturb(response: Response<Body>, plan: Plan, breaker: &Breaker) -> Response<Body> {
    let (mut parts, mut body) = response.into_parts();
    if !plan.record.is_empty() && parts.status == StatusCode::OK {
        body = Recorder::new(body, parts.headers.clone(), plan.record).boxed_unsync();
    }
    if parts.status == StatusCode::OK && !plan.lines.is_empty() {
        parts.headers.remove(CONTENT_LENGTH);
        for (fault, ticket) in plan.lines {
            body = LineBody::new(body, Lines::new(fault), ticket, breaker.clone()).boxed_unsync();
        }
    }
    if let Some(pace) = plan.bytes_per_second {
        body = SlowBody::new(body, pace).boxed_unsync();
    }
    Response::from_parts(parts, body)
}

async fn forward(
    shared: &Shared,
    parts: http::request::Parts,
    body: Body,
    plan: &Plan,
) -> Result<Response<Body>, hyper_util::client::legacy::Error> {
    let mut headers = parts.headers;
    strip(&mut headers);
    if !plan.lines.is_empty() {
        ask_for_lines(&mut headers);
    }
    // The authority the client used is kept: it may be part of a signature. The connector dials the upstream anyway.
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let authority = match (parts.uri.authority(), host) {
        (Some(authority), _) => Some(authority.clone()),
        (None, Some(host)) => host.parse().ok(),
        (None, None) => None,
    };
    let mut uri = shared.target.clone().into_parts();
    if authority.is_some() {
        uri.authority = authority;
    }
    uri.path_and_query = parts.uri.path_and_query().cloned();
    let mut request = Request::new(body);
    *request.method_mut() = parts.method;
    // A part of a URI that was parsed cannot fail to fit; the target alone would still be a sound request.
    *request.uri_mut() = Uri::from_parts(uri).unwrap_or_else(|_| shared.target.clone());
    *request.headers_mut() = headers;
    let response = shared.client.request(request).await?;
    let (mut parts, body) = response.into_parts();
    strip(&mut parts.headers);
    parts.version = Version::HTTP_11;
    Ok(Response::from_parts(parts, body.map_err(Into::into).boxed_unsync()))
}

/// Lines exist only in uncompressed JSON, so that is all a client may ask for where a line rule looks on.
fn ask_for_lines(headers: &mut HeaderMap) {
    headers.remove(ACCEPT_ENCODING);
    let kept: Option<String> = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()).map(|accept| {
        let forms =
            accept.split(',').map(str::trim).filter(|form| !form.contains("protobuf") && !form.contains("cbor"));
        forms.collect::<Vec<_>>().join(", ")
    });
    let accept = match kept {
        Some(text) if !text.is_empty() => HeaderValue::from_str(&text).ok(),
        _ => None,
    };
    headers.insert(ACCEPT, accept.unwrap_or(HeaderValue::from_static("application/json")));
}

fn strip(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all("connection")
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named {
        headers.remove(name);
    }
    for name in HOP_BY_HOP {
        headers.remove(name);
    }
}

/// The answer a rule asks for.
fn made(answer: &Answer) -> Response<Body> {
    let bytes = body_bytes(&answer.body);
    let body = match answer.size {
        Some(size) => Repeat::new(&bytes, size).boxed_unsync(),
        None => full(bytes),
    };
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if answer.body.is_object() || answer.body.is_array() {
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    for (name, value) in &answer.headers {
        if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), value.parse::<HeaderValue>()) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

fn plain(status: StatusCode, text: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(full(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

fn unreachable(error: &hyper_util::client::legacy::Error) -> Response<Body> {
    let mut text = format!("the fault proxy got no answer from the upstream: {error}");
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    tracing::warn!(error = text, "upstream failed");
    plain(StatusCode::BAD_GATEWAY, text)
}

/// A connection that can be told to end with a reset instead of a proper close.
struct Breakable {
    stream: TcpStream,
    broken: Arc<AtomicBool>,
}

impl Breakable {
    fn check(&self) -> io::Result<()> {
        if self.broken.load(Ordering::SeqCst) { Err(io::ErrorKind::ConnectionReset.into()) } else { Ok(()) }
    }
}

impl Drop for Breakable {
    fn drop(&mut self) {
        if self.broken.load(Ordering::SeqCst) {
            // Closing with a linger time of zero is how a reset is sent; a socket that is gone already needs none.
            let _: Result<(), Infallible> = self.stream.set_zero_linger().or(Ok(()));
        }
    }
}

impl AsyncRead for Breakable {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.check()?;
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Breakable {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.check()?;
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check()?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check()?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check()?;
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
