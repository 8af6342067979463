//! A proxy that breaks things on purpose, between a real client and a real server.
//!
//! It speaks HTTP/1.1 and HTTP/2 on both sides, with and without TLS, streams every body, and applies [`rules`] to the
//! requests that pass: delays, made-up answers, resets before or after the upstream did its work, watches that end,
//! expire, stutter or repeat themselves, lists from the past, slow bodies, rate limits. The rules are data, and what
//! they hit follows from the seed, the rule's name and the number of the match alone, so that a run can be repeated.
//!
//! It listens on the loopback address only, because it lends its client certificate to everyone who reaches it.
#![allow(
    clippy::disallowed_methods,
    reason = "the proxy is test equipment beside real processes and lives in their time; unit layers pause tokio's clock"
)]

mod body;
mod control;
mod engine;
mod kubeconfig;
mod lines;
mod recordings;
pub mod rules;
mod serve;
mod tls;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

pub use control::command;
pub use engine::{Hit, MAX_HITS};
pub use rules::{Action, Match, Rule, RuleError, When};

use engine::{Engine, HitLog, lock};
use serve::Shared;

/// Why a proxy did not start or a command did not get through.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting is wrong; the field has the name of the program's flag.
    #[error("{field}: {problem}")]
    Option {
        /// Name of the setting.
        field: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// A rule is wrong.
    #[error(transparent)]
    Rule(#[from] RuleError),
    /// The address could not be listened on.
    #[error("listen: {address}")]
    Listen {
        /// The address asked for.
        address: SocketAddr,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
}

/// A certificate or key in PEM form.
#[derive(Clone)]
pub enum Pem {
    /// In a file.
    File(PathBuf),
    /// At hand.
    Text(Vec<u8>),
}

/// Which protocol is spoken to the upstream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Protocol {
    /// What the TLS handshake settles on; HTTP/1.1 without TLS.
    #[default]
    Auto,
    /// HTTP/1.1 always.
    Http1,
    /// HTTP/2 always, without TLS by prior knowledge.
    Http2,
}

/// Where requests go.
#[derive(Clone)]
pub struct Upstream {
    /// Scheme, host and port, for example `https://127.0.0.1:6443`; requests keep their own path and Host.
    pub url: String,
    /// Certificate authority of an https upstream.
    pub ca: Option<Pem>,
    /// Client certificate and key that the proxy shows to the upstream.
    pub identity: Option<(Pem, Pem)>,
    /// Protocol spoken to the upstream.
    pub protocol: Protocol,
    /// Name on the upstream's certificate where it differs from the host in `url`.
    pub server_name: Option<String>,
}

impl Upstream {
    /// An upstream without certificates.
    pub fn plain(url: impl Into<String>) -> Self {
        Self { url: url.into(), ca: None, identity: None, protocol: Protocol::Auto, server_name: None }
    }

    /// The API server that a kubeconfig's current context names, with that user's client certificate.
    pub fn from_kubeconfig(path: &Path) -> Result<Self, Error> {
        kubeconfig::upstream(path)
    }
}

/// How clients reach the proxy.
#[derive(Debug, Clone)]
pub enum Inbound {
    /// Without TLS.
    Plain,
    /// With a given certificate chain and key.
    Files {
        /// Certificate chain.
        cert: PathBuf,
        /// Private key.
        key: PathBuf,
        /// What clients should trust; left out, the chain itself.
        ca: Option<PathBuf>,
    },
    /// With a certificate made at start; `ca.crt`, `tls.crt` and `tls.key` are written to the directory.
    Generated {
        /// The directory, made if it is not there.
        dir: PathBuf,
    },
}

/// Everything a proxy is started with.
#[derive(Clone)]
pub struct Options {
    /// Loopback address to listen on; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Where requests go.
    pub upstream: Upstream,
    /// How clients reach the proxy.
    pub inbound: Inbound,
    /// Rules to start with.
    pub rules: Vec<Rule>,
    /// Path of the control socket, if there is to be one.
    pub control: Option<PathBuf>,
    /// Number that all chance is drawn from.
    pub seed: u64,
}

impl Options {
    /// A free port on 127.0.0.1, no TLS towards clients, no rules, seed 1.
    pub fn new(upstream: Upstream) -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            upstream,
            inbound: Inbound::Plain,
            rules: Vec::new(),
            control: None,
            seed: 1,
        }
    }
}

/// A running proxy; dropping it ends all of its connections.
pub struct Proxy {
    address: SocketAddr,
    trust: Option<String>,
    shared: Arc<Shared>,
    tasks: JoinSet<()>,
}

impl Proxy {
    /// Checks the options, binds the sockets and begins to serve.
    pub async fn start(options: Options) -> Result<Self, Error> {
        let Options { listen, upstream, inbound, rules, control, seed } = options;
        if !listen.ip().is_loopback() {
            return Err(Error::Option { field: "listen", problem: format!("{listen} is not a loopback address") });
        }
        let target = tls::target(&upstream)?;
        let client = tls::outbound(&upstream, &target)?;
        let log: Arc<Mutex<HitLog>> = Arc::default();
        let mut engine = Engine::new(seed, log.clone());
        engine.set(rules, Instant::now())?;
        let serving = tls::serving(&inbound)?;
        let socket = match &control {
            Some(path) => Some(control::Socket::bind(path).await?),
            None => None,
        };
        let fail = |source| Error::Listen { address: listen, source };
        let listener = TcpListener::bind(listen).await.map_err(fail)?;
        let address = listener.local_addr().map_err(fail)?;
        let shared =
            Arc::new(Shared { engine: Mutex::new(engine), log, client, target, stop: CancellationToken::new() });
        let mut tasks = JoinSet::new();
        let (acceptor, trust) = match serving {
            Some(serving) => (Some(TlsAcceptor::from(serving.config)), Some(serving.trust)),
            None => (None, None),
        };
        tasks.spawn(serve::run(listener, acceptor, shared.clone()));
        if let Some(socket) = socket {
            tasks.spawn(socket.run(shared.clone()));
        }
        Ok(Self { address, trust, shared, tasks })
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address as a URL.
    pub fn url(&self) -> String {
        let scheme = if self.trust.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// PEM text of what clients should trust; nothing without TLS.
    pub fn ca_pem(&self) -> Option<&str> {
        self.trust.as_deref()
    }

    /// Takes these rules in place of the present ones; their counters, buckets and recordings start anew. Unsound rules
    /// change nothing.
    pub fn set_rules(&self, rules: Vec<Rule>) -> Result<(), RuleError> {
        lock(&self.shared.engine).set(rules, Instant::now())
    }

    /// The same for a JSON document.
    pub fn load(&self, document: &str) -> Result<(), RuleError> {
        self.set_rules(rules::parse(document)?)
    }

    /// Removes all rules.
    pub fn clear(&self) -> Result<(), RuleError> {
        self.set_rules(Vec::new())
    }

    /// The rules in force.
    pub fn rules(&self) -> Vec<Rule> {
        lock(&self.shared.engine).rules()
    }

    /// All hits since the start, oldest first, at most [`MAX_HITS`].
    pub fn hits(&self) -> Vec<Hit> {
        lock(&self.shared.log).all()
    }

    /// How many requests came in since the start.
    pub fn requests(&self) -> u64 {
        lock(&self.shared.engine).requests()
    }

    /// A kubeconfig that goes through this proxy, made from the one of its API server.
    ///
    /// The client certificate stays behind: the proxy shows its own. A token is kept and passes through.
    pub fn kubeconfig(&self, original: &Path) -> Result<String, Error> {
        kubeconfig::through(original, &self.url(), self.ca_pem())
    }

    /// Waits until someone asks for the end over the control socket.
    pub async fn stopped(&self) {
        self.shared.stop.cancelled().await;
    }

    /// Ends all connections and removes the control socket.
    pub async fn stop(mut self) {
        self.shared.stop.cancel();
        let ended = async { while self.tasks.join_next().await.is_some() {} };
        if timeout(Duration::from_secs(1), ended).await.is_err() {
            self.tasks.shutdown().await;
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // Streams of HTTP/2 are tasks of the connection's executor; this is how they hear of the end.
        self.shared.stop.cancel();
    }
}
