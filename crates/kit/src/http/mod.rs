//! Calling other people's HTTP APIs: deadlines, bounded bodies, checked addresses, and errors that say what happened.
//!
//! The client follows no redirects (they come back as they are), repeats nothing unless a [`Retry`] is given, checks
//! every server certificate unless told not to, and calls only what its [`Policy`] allows. Errors name the host, never the path, the
//! query or a header: these carry keys and signatures.

mod connect;
mod pools;
mod proxy;
mod target;
mod trust;

use std::error::Error as _;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::future::BoxFuture;
use http::header::{CONTENT_LENGTH, USER_AGENT};
use http::{HeaderValue, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client as Pool;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio::time::timeout_at;

use crate::class::{Class, Classify};
use crate::clock::Clock;

use connect::Checked;
pub use connect::{ConnectError, Resolve, SystemResolver};
pub use pools::Pools;
pub use proxy::{Proxies, ProxyError};
pub use target::{Listed, Policy, Target, TargetError, forbidden};

/// How a client behaves.
#[derive(Clone)]
pub struct HttpOptions {
    /// The user agent of every request.
    pub user_agent: String,
    /// The longest a call may take, all attempts and pauses included.
    pub call: Duration,
    /// The longest one attempt may take, body included.
    pub attempt: Duration,
    /// The longest a resolution or a connection may take.
    pub connect: Duration,
    /// The largest answer that is read.
    pub body_limit: usize,
    /// More trusted authorities, as PEM.
    pub extra_ca: Option<Vec<u8>>,
    /// Whether the machine's authorities are trusted.
    pub native_roots: bool,
    /// Whether a server must prove who it is; off, anybody on the way can read and change everything.
    pub verify: bool,
    /// What may be called.
    pub policy: Policy,
    /// How names are resolved.
    pub resolver: Arc<dyn Resolve>,
    /// What goes through a proxy; nothing unless somebody says so.
    pub proxies: Arc<Proxies>,
    /// Who carries requests in place of the network.
    pub carrier: Option<Arc<dyn Carry>>,
}

/// Carries requests to their answers without a network: how a test under a paused clock reaches a simulator in its own
/// process, over the same bytes.
pub trait Carry: Send + Sync {
    /// The answer; `None` when the connection ends without one.
    fn carry(&self, request: Request<Bytes>) -> BoxFuture<'static, Option<Response<Bytes>>>;
}

impl HttpOptions {
    /// The defaults: HTTPS with the machine's authorities, 8 MiB, 60 s per call, 20 s per attempt.
    #[must_use]
    pub fn new(user_agent: &str) -> Self {
        Self {
            user_agent: user_agent.to_owned(),
            call: Duration::from_secs(60),
            attempt: Duration::from_secs(20),
            connect: Duration::from_secs(5),
            body_limit: 8 << 20,
            extra_ca: None,
            native_roots: true,
            verify: true,
            policy: Policy::new(),
            resolver: Arc::new(SystemResolver),
            proxies: Arc::default(),
            carrier: None,
        }
    }
}

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The client cannot be set up.
    #[error("cannot set up the HTTP client: {detail}")]
    Setup {
        /// What is wrong.
        detail: String,
    },
    /// The address may not be called; nothing was sent.
    #[error("the address may not be called")]
    Refused(#[source] TargetError),
    /// No connection; nothing was sent.
    #[error("cannot reach {host}")]
    Connect {
        /// The host.
        host: String,
        /// What happened.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The time of an attempt or of the whole call is over; the request may have been carried out.
    #[error("no answer from {host} in {limit:?}")]
    Timeout {
        /// The host.
        host: String,
        /// The limit that was reached.
        limit: Duration,
    },
    /// The connection broke; the request may have been carried out.
    #[error("the connection to {host} broke")]
    Broken {
        /// The host.
        host: String,
        /// What happened.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The answer is larger than the limit; the request was carried out.
    #[error("the answer of {host} is larger than {limit} bytes")]
    TooLarge {
        /// The host.
        host: String,
        /// The limit.
        limit: usize,
    },
}

impl HttpError {
    /// Whether the server may have carried out the request: then only a call with a token may be repeated.
    #[must_use]
    pub fn maybe_sent(&self) -> bool {
        match self {
            Self::Setup { .. } | Self::Refused(_) | Self::Connect { .. } => false,
            Self::Timeout { .. } | Self::Broken { .. } | Self::TooLarge { .. } => true,
        }
    }
}

impl HttpError {
    /// Whether the server could not prove who it is: the wrong authority, the wrong name, or a certificate out of date.
    #[must_use]
    pub fn is_untrusted(&self) -> bool {
        let Self::Connect { source, .. } = self else { return false };
        let untrusted = |error: &rustls::Error| matches!(error, rustls::Error::InvalidCertificate(_));
        found(&**source, &untrusted)
    }
}

/// A failure of the transport, shared by all who waited for the same answer.
#[derive(Clone, Debug, thiserror::Error)]
#[error(transparent)]
pub struct Unanswered(Arc<HttpError>);

impl Unanswered {
    /// What happened.
    #[must_use]
    pub fn error(&self) -> &HttpError {
        &self.0
    }
}

impl PartialEq for Unanswered {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl From<HttpError> for Unanswered {
    fn from(error: HttpError) -> Self {
        Self(Arc::new(error))
    }
}

impl Classify for HttpError {
    fn class(&self) -> Class {
        match self {
            // A name may come to mean an allowed address, but nothing tells when: the spec or the policy must change.
            Self::Setup { .. } | Self::Refused(_) => Class::Terminal,
            _ => Class::Transient { at_least: None },
        }
    }
}

/// Decides whether a call is repeated.
pub trait Retry: Send {
    /// The pause before the next attempt, or `None` to let the outcome stand. `attempt` counts from 1.
    fn next(&mut self, attempt: u32, outcome: &Result<Response<Bytes>, HttpError>) -> Option<Duration>;
}

impl<F> Retry for F
where
    F: FnMut(u32, &Result<Response<Bytes>, HttpError>) -> Option<Duration> + Send,
{
    fn next(&mut self, attempt: u32, outcome: &Result<Response<Bytes>, HttpError>) -> Option<Duration> {
        self(attempt, outcome)
    }
}

/// Repeats nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Never;

impl Retry for Never {
    fn next(&mut self, _: u32, _: &Result<Response<Bytes>, HttpError>) -> Option<Duration> {
        None
    }
}

/// A client with one pool of connections; clones share it.
#[derive(Clone)]
pub struct HttpClient {
    pool: Pool<HttpsConnector<Checked>, Full<Bytes>>,
    options: Arc<HttpOptions>,
    agent: HeaderValue,
    clock: Clock,
}

impl HttpClient {
    /// Sets up a client.
    ///
    /// # Errors
    /// When the user agent or the extra authorities are not usable, or nothing is trusted.
    pub fn new(options: HttpOptions, clock: Clock) -> Result<Self, HttpError> {
        let setup = |detail: String| HttpError::Setup { detail };
        let agent = HeaderValue::from_str(&options.user_agent)
            .map_err(|_| setup(format!("{:?} is not a user agent", options.user_agent)))?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
            .map_err(|error| setup(error.to_string()))?;
        let tls = if options.verify {
            tls.with_root_certificates(roots(&options)?)
        } else {
            tls.dangerous().with_custom_certificate_verifier(trust::Anyone::new(&provider))
        };
        let tls = tls.with_no_client_auth();
        let connector = Checked {
            policy: Arc::new(options.policy.clone()),
            resolver: options.resolver.clone(),
            timeout: options.connect,
            proxies: options.proxies.clone(),
        };
        let connector = hyper_rustls::HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_all_versions()
            .wrap_connector(connector);
        // The pool may send a request again on a fresh connection, but only if the old one died before its first byte.
        let pool = Pool::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .timer(TokioTimer::new())
            .pool_idle_timeout(Duration::from_secs(60))
            .pool_max_idle_per_host(16)
            .build(connector);
        Ok(Self { pool, options: Arc::new(options), agent, clock })
    }

    /// What may be called.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.options.policy
    }

    /// Makes one call in one attempt.
    ///
    /// # Errors
    /// When the address is not allowed, or no whole answer came; an answer of any status is not an error.
    pub async fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        self.send_with(request, &mut Never).await
    }

    /// Makes one call, repeated as the caller's rule says, all within the deadline of a call.
    ///
    /// # Errors
    /// As of the last attempt.
    pub async fn send_with(
        &self,
        request: Request<Bytes>,
        retry: &mut impl Retry,
    ) -> Result<Response<Bytes>, HttpError> {
        let target = Target::parse(&request.uri().to_string(), &self.options.policy).map_err(HttpError::Refused)?;
        let host = target.host().to_string();
        let end = self.clock.instant() + self.options.call;
        let mut attempt = 1;
        loop {
            let until = end.min(self.clock.instant() + self.options.attempt);
            let outcome = match timeout_at(until, self.attempt(&host, request.clone())).await {
                Ok(outcome) => outcome,
                Err(_) => {
                    let limit = if until == end { self.options.call } else { self.options.attempt };
                    Err(HttpError::Timeout { host: host.clone(), limit })
                }
            };
            let Some(pause) = retry.next(attempt, &outcome) else { return outcome };
            // A pause that leaves no time for another attempt would only delay the answer.
            if self.clock.instant() + pause >= end {
                return outcome;
            }
            tracing::debug!(host, attempt, next_ms = pause.as_millis(), "repeating a call");
            tokio::time::sleep(pause).await;
            attempt += 1;
        }
    }

    async fn attempt(&self, host: &str, mut request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        request.headers_mut().entry(USER_AGENT).or_insert_with(|| self.agent.clone());
        if let Some(carrier) = &self.options.carrier {
            let cut = || HttpError::Broken { host: host.to_owned(), source: "the connection ended".into() };
            return carrier.carry(request).await.ok_or_else(cut);
        }
        let response = self.pool.request(request.map(Full::new)).await.map_err(|error| {
            let refused = refusal(&error);
            if let Some(refused) = refused {
                return HttpError::Refused(refused);
            }
            let (connect, source) = (error.is_connect(), Box::new(error));
            if connect {
                HttpError::Connect { host: host.to_owned(), source }
            } else {
                HttpError::Broken { host: host.to_owned(), source }
            }
        })?;
        let (parts, body) = response.into_parts();
        let announced = parts.headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
        // The length of an answer to HEAD is not that of a body; an early refusal only saves reading.
        if announced.is_some_and(|size| size > self.options.body_limit as u64)
            && !hyper::body::Body::is_end_stream(&body)
        {
            return Err(HttpError::TooLarge { host: host.to_owned(), limit: self.options.body_limit });
        }
        Ok(Response::from_parts(parts, self.read(host, body).await?))
    }

    async fn read(&self, host: &str, mut body: Incoming) -> Result<Bytes, HttpError> {
        let mut whole = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| HttpError::Broken { host: host.to_owned(), source: Box::new(error) })?;
            let Ok(data) = frame.into_data() else { continue };
            if whole.len() + data.len() > self.options.body_limit {
                return Err(HttpError::TooLarge { host: host.to_owned(), limit: self.options.body_limit });
            }
            whole.extend_from_slice(&data);
        }
        Ok(whole.freeze())
    }
}

/// The policy's own refusal, if it is somewhere among the causes.
fn refusal(error: &hyper_util::client::legacy::Error) -> Option<TargetError> {
    let refused = |error: &ConnectError| match error {
        ConnectError::Refused(refused) => Some(refused.clone()),
        _ => None,
    };
    cause(error.source()?, &refused)
}

fn found<E: std::error::Error + 'static>(error: &(dyn std::error::Error + 'static), test: &dyn Fn(&E) -> bool) -> bool {
    cause(error, &|error: &E| test(error).then_some(())).is_some()
}

/// The first cause of a type that `pick` takes something from.
fn cause<E: std::error::Error + 'static, T>(
    error: &(dyn std::error::Error + 'static),
    pick: &dyn Fn(&E) -> Option<T>,
) -> Option<T> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(taken) = error.downcast_ref::<E>().and_then(pick) {
            return Some(taken);
        }
        // `io::Error::source` skips the error that it wraps.
        next = match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(wrapped) => Some(wrapped as &(dyn std::error::Error + 'static)),
            None => error.source(),
        };
    }
    None
}

fn roots(options: &HttpOptions) -> Result<RootCertStore, HttpError> {
    let mut roots = RootCertStore::empty();
    if options.native_roots {
        let found = rustls_native_certs::load_native_certs();
        // Old machines carry certificates that nobody can parse any more; the others still count.
        roots.add_parsable_certificates(found.certs);
    }
    for certificate in options.extra_ca.iter().flat_map(|pem| CertificateDer::pem_slice_iter(pem)) {
        let added = certificate
            .map_err(|error| error.to_string())
            .and_then(|certificate| roots.add(certificate).map_err(|error| error.to_string()));
        added.map_err(|detail| HttpError::Setup { detail: format!("the extra CA is not usable: {detail}") })?;
    }
    if roots.is_empty() && (!options.native_roots || options.extra_ca.is_some()) {
        return Err(HttpError::Setup { detail: "no certificate authority is trusted".to_owned() });
    }
    Ok(roots)
}
