//! Serving HTTP and HTTPS: one stack for hooks, webhooks, health and metrics.
//!
//! A [`Server`] is bound first, so that its port is known, and then runs a router until its token is cancelled. It
//! guards every request the same way: the body is read as bytes up to a limit, the whole request has a deadline, the
//! number of requests, connections and buffered bytes is bounded, and a panic in a handler becomes an answer. What the
//! answer to a failure looks like is the caller's business ([`Failure`]): a hook and a webhook have their own shapes.
//! A handler finds the address of the connection's other end as `ConnectInfo<SocketAddr>`.

mod accept;
mod clients;
mod guard;
mod tls;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::response::Response;
use axum_server::Handle;
use axum_server::accept::NoDelayAcceptor;
use axum_server::tls_rustls::RustlsAcceptor;
use hyper_util::rt::TokioTimer;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::telemetry::Metrics;

pub use clients::Clients;
pub use guard::{Deadline, Failure, FailureKind, parse_timeout, plain_failure};
pub use tls::{Tls, TlsError};

/// How a server behaves; the defaults suit webhooks.
#[derive(Clone, Debug)]
pub struct Options {
    /// The server's name in logs and metrics.
    pub name: String,
    /// Where to listen; port 0 asks for a free one.
    pub address: SocketAddr,
    /// The largest body that is read.
    pub body_limit: usize,
    /// All bodies held at one time.
    pub buffer_limit: usize,
    /// The longest a request may take; a shorter `?timeout=` of the client wins.
    pub deadline: Duration,
    /// Requests handled at one time; more wait for their turn within their deadline.
    pub concurrency: usize,
    /// Connections held at one time; more are closed at once.
    pub connections: usize,
    /// Time for the TLS handshake, and again for the first bytes of the first request.
    pub header_timeout: Duration,
    /// Time for a whole request head, which for HTTP/1 includes the wait of an idle connection.
    pub idle_timeout: Duration,
    /// Time for a whole body.
    pub body_timeout: Duration,
    /// Time for requests in flight after the server was told to stop.
    pub drain: Duration,
}

impl Options {
    /// The defaults on this address.
    #[must_use]
    pub fn new(name: &str, address: SocketAddr) -> Self {
        Self {
            name: name.to_owned(),
            address,
            body_limit: 20 << 20,
            buffer_limit: 64 << 20,
            deadline: Duration::from_secs(30),
            concurrency: 64,
            connections: 1024,
            header_timeout: Duration::from_secs(10),
            // Clients written in Go drop idle connections after 90 s. We wait longer, so that it is never us who close
            // a connection on which the client is just about to send.
            idle_timeout: Duration::from_secs(100),
            body_timeout: Duration::from_secs(10),
            // Below the ten seconds that the manager gives to listeners, so that the end is ours and orderly.
            drain: Duration::from_secs(8),
        }
    }
}

/// Why a server cannot run.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address} for {name}")]
    Bind {
        /// The server's name.
        name: String,
        /// The address asked for.
        address: SocketAddr,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// The accept loop ended.
    #[error("cannot go on serving {name}")]
    Serve {
        /// The server's name.
        name: String,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// The TLS settings are not usable.
    #[error("cannot serve {name} with TLS")]
    Tls {
        /// The server's name.
        name: String,
        /// What is wrong.
        #[source]
        source: TlsError,
    },
}

/// Listens on the address; `[::]` falls back to `0.0.0.0` where the system has no IPv6.
///
/// # Errors
/// Names the address that cannot be listened on.
pub async fn bind(name: &str, address: SocketAddr) -> Result<TcpListener, ServeError> {
    let bound = match TcpListener::bind(address).await {
        Err(_) if address.is_ipv6() && address.ip().is_unspecified() => {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())).await
        }
        bound => bound,
    };
    bound.map_err(|source| ServeError::Bind { name: name.to_owned(), address, source })
}

/// The metrics that all servers of a process share.
#[derive(Clone, Debug)]
pub struct ServeMetrics {
    requests: Family<RequestLabels, Counter>,
    failures: Family<FailureLabels, Counter>,
    duration: Family<ServerLabels, Histogram>,
    in_flight: Family<ServerLabels, Gauge>,
    refused: Family<ServerLabels, Counter>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RequestLabels {
    server: String,
    code: u16,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct FailureLabels {
    server: String,
    kind: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ServerLabels {
    server: String,
}

impl Default for ServeMetrics {
    fn default() -> Self {
        let buckets = || Histogram::new([0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0]);
        Self {
            requests: Family::default(),
            failures: Family::default(),
            duration: Family::new_with_constructor(buckets),
            in_flight: Family::default(),
            refused: Family::default(),
        }
    }
}

impl ServeMetrics {
    /// Adds them to the registry as `berth_serve_…`.
    #[must_use]
    pub fn register(metrics: &Metrics) -> Self {
        let new = Self::default();
        metrics.register("serve_requests", "Requests answered", new.requests.clone());
        metrics.register("serve_failures", "Requests that the server answered itself", new.failures.clone());
        metrics.register("serve_request_duration_seconds", "From request head to answer", new.duration.clone());
        metrics.register("serve_in_flight", "Requests being read or handled", new.in_flight.clone());
        metrics.register("serve_connections_refused", "Connections closed for being too many", new.refused.clone());
        new
    }

    /// How many requests a server answered with a failure of this kind.
    #[must_use]
    pub fn failures(&self, server: &str, kind: FailureKind) -> u64 {
        let labels = FailureLabels { server: server.to_owned(), kind: kind.as_str().to_owned() };
        self.failures.get(&labels).map_or(0, |counter| counter.get())
    }
}

/// A bound server that does not run yet.
pub struct Server {
    options: Options,
    listener: TcpListener,
    address: SocketAddr,
    answer: FailureAnswer,
    metrics: ServeMetrics,
}

type FailureAnswer = Arc<dyn Fn(&Failure) -> Response + Send + Sync>;

impl Server {
    /// Listens on the address of the options.
    ///
    /// # Errors
    /// Names the address that cannot be listened on.
    pub async fn bind(options: Options) -> Result<Self, ServeError> {
        let listener = bind(&options.name, options.address).await?;
        let address = listener.local_addr().map_err(|source| ServeError::Bind {
            name: options.name.clone(),
            address: options.address,
            source,
        })?;
        let answer: FailureAnswer = Arc::new(plain_failure);
        Ok(Self { options, listener, address, answer, metrics: ServeMetrics::default() })
    }

    /// The address that is really listened on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers failures in the caller's own shape instead of plain text.
    #[must_use]
    pub fn on_failure(mut self, answer: impl Fn(&Failure) -> Response + Send + Sync + 'static) -> Self {
        self.answer = Arc::new(answer);
        self
    }

    /// Counts in these metrics.
    #[must_use]
    pub fn metrics(mut self, metrics: ServeMetrics) -> Self {
        self.metrics = metrics;
        self
    }

    /// Serves the router, with TLS if given, until `stop`; then accepts no more and finishes what is in flight.
    ///
    /// # Errors
    /// When the accept loop cannot go on.
    pub async fn run(self, router: Router, tls: Option<Tls>, stop: CancellationToken) -> Result<(), ServeError> {
        let Self { options, listener, address, answer, metrics } = self;
        let name = options.name.clone();
        let config = match tls {
            None => None,
            Some(tls) => Some(tls.config().map_err(|source| ServeError::Tls { name: name.clone(), source })?),
        };
        let label = ServerLabels { server: name.clone() };
        let slots = Arc::new(Semaphore::new(options.connections));
        let refused = metrics.refused.get_or_create(&label).clone();
        let handle: Handle<SocketAddr> = Handle::new();
        let guard = Arc::new(guard::Guard::new(options.clone(), answer, metrics));
        let app = Router::new().fallback(move |request| guard.clone().handle(router.clone(), request));
        let app = app.into_make_service_with_connect_info::<SocketAddr>();

        let mut server = axum_server::Server::from_listener(listener).handle(handle.clone());
        let builder = server.http_builder();
        builder.http1().timer(TokioTimer::new()).header_read_timeout(options.idle_timeout);
        builder
            .http2()
            .timer(TokioTimer::new())
            .keep_alive_interval(Duration::from_secs(30))
            .keep_alive_timeout(Duration::from_secs(10))
            .max_concurrent_streams(256)
            .max_header_list_size(64 << 10);

        tracing::info!(server = name, %address, tls = config.is_some(), "serving");
        let limit = options.header_timeout;
        let serving = async {
            match config {
                None => {
                    let acceptor = accept::Bounded::new(NoDelayAcceptor::new(), slots, limit, refused, stop.clone());
                    server.acceptor(acceptor).serve(app).await
                }
                Some(config) => {
                    let tls = RustlsAcceptor::new(config).handshake_timeout(limit).acceptor(NoDelayAcceptor::new());
                    server.acceptor(accept::Bounded::new(tls, slots, limit, refused, stop.clone())).serve(app).await
                }
            }
        };
        let stopping = async {
            stop.cancelled().await;
            tracing::info!(server = name, connections = handle.connection_count(), "draining");
            handle.graceful_shutdown(Some(options.drain));
            std::future::pending::<()>().await
        };
        let ended = tokio::select! {
            ended = serving => ended,
            () = stopping => Ok(()),
        };
        tracing::info!(server = name, "stopped serving");
        ended.map_err(|source| ServeError::Serve { name: options.name, source })
    }
}
