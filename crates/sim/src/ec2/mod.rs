//! A strict simulator of EC2 and of the token service beside it, over the real wire protocol.
//!
//! It answers what a foreign simulator does not: the same client token twice has one effect and another request under it
//! is refused; hosts take their time, fill up and refuse to be released; quotas, request limits, pages, lagging reads and
//! scripted faults. Unknown parameters are refused and every signature is checked.
//!
//! Three layers, the first two without sockets, clock or chance of their own:
//!
//! - [`wire`]: forms, parameters, signatures, XML;
//! - [`world`]: a state machine, `request and moment in, answer out`, with the operations in `calls`;
//! - the edge: plain HTTP or TLS on the loopback address.
//!
//! [`start`] gives a [`Handle`] that moves the clock, scripts faults, reads the request log and asks the oracle what is
//! still paid for. The token and request limits of real accounts apply from the start: two dedicated hosts per family,
//! the published buckets. [`world::settings::Settings`] changes them.

mod calls;
pub mod catalogue;
mod clock;
mod edge;
mod handle;
pub mod wire;
pub mod world;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub use handle::Handle;
use world::World;
use world::settings::Settings;

/// A certificate chain and its key, in PEM form.
#[derive(Clone, Debug)]
pub struct KeyPair {
    /// Certificates, the server's own first.
    pub chain: Vec<u8>,
    /// Private key.
    pub key: Vec<u8>,
}

/// How to start a simulator.
#[derive(Clone, Debug)]
pub struct Options {
    /// Port on the loopback address; 0 = a free one.
    pub port: u16,
    /// Serve TLS with this key pair.
    pub tls: Option<KeyPair>,
    /// Chance comes from this number alone.
    pub seed: u64,
    /// The world's first moment; the machine's time when not given. Clients must sign with the same time, unless
    /// [`Settings::max_skew`] is off.
    pub time: Option<Timestamp>,
    /// The world's time moves only by hand.
    pub frozen: bool,
    /// The first account.
    pub account: String,
    /// Id of its key.
    pub access_key: String,
    /// Secret half of its key.
    pub secret: String,
    /// How the world behaves.
    pub settings: Settings,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            port: 0,
            tls: None,
            seed: 1,
            time: None,
            frozen: false,
            account: "123456789012".to_owned(),
            access_key: "AKIASIMULATOR0000001".to_owned(),
            secret: "simulator-secret-key-of-the-first-account".to_owned(),
            settings: Settings::default(),
        }
    }
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

/// Starts a simulator on the loopback address.
pub async fn start(options: Options) -> Result<Handle, Error> {
    let tls = options.tls.as_ref().map(edge::acceptor).transpose()?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, options.port));
    let listen = |source| Error::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(listen)?;
    let bound = listener.local_addr().map_err(listen)?;
    let world = World::new(options.settings, &options.account, &options.access_key, &options.secret, options.seed);
    let clock = clock::Clock::new(options.time, options.frozen);
    let shared = Arc::new(edge::Shared { world: Mutex::new(world), clock });
    let stop = CancellationToken::new();
    let scheme = if tls.is_some() { "https" } else { "http" };
    tokio::spawn(edge::run(listener, tls, shared.clone(), stop.clone()));
    Ok(Handle {
        endpoint: format!("{scheme}://{bound}"),
        account: options.account,
        access_key: options.access_key,
        secret: options.secret,
        shared,
        _guard: Arc::new(stop.clone().drop_guard()),
        stop,
    })
}
