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
//! - [`crate::edge`]: plain HTTP or TLS on the loopback address.
//!
//! [`start`] gives a [`Handle`] that moves the clock, scripts faults, reads the request log and asks the oracle what is
//! still paid for. The token and request limits of real accounts apply from the start: two dedicated hosts per family,
//! the published buckets. [`world::settings::Settings`] changes them.

mod calls;
pub mod catalogue;
mod handle;
pub mod wire;
pub mod world;

use jiff::Timestamp;

pub use crate::edge::{Error, KeyPair};
use crate::edge::{Place, keep, serve};
pub use handle::Handle;
use world::World;
use world::settings::Settings;

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

/// Starts a simulator on the loopback address.
pub async fn start(options: Options) -> Result<Handle, Error> {
    let (world, place) = (world(&options), place(&options));
    let (endpoint, held) = serve(world, place).await?;
    Ok(handle(options, endpoint, held))
}

/// A simulator without a socket, which is called through [`crate::edge::Held::carry`].
#[must_use]
pub fn without_socket(options: Options) -> Handle {
    let held = keep(world(&options), &place(&options));
    handle(options, "http://127.0.0.1:1".to_owned(), held)
}

fn world(options: &Options) -> World {
    World::new(options.settings.clone(), &options.account, &options.access_key, &options.secret, options.seed)
}

fn place(options: &Options) -> Place<'_> {
    Place { port: options.port, tls: options.tls.as_ref(), time: options.time, frozen: options.frozen }
}

fn handle(options: Options, endpoint: String, held: crate::edge::Held<World>) -> Handle {
    Handle { endpoint, account: options.account, access_key: options.access_key, secret: options.secret, held }
}
