//! A strict simulator of a CloudStack management server, over the real wire protocol.
//!
//! It checks what a real server checks, with the server's own algorithm (signatures, expiries, entities behind ids), and
//! more than that: parameters that are not in the published catalogue of commands are refused, where a real server
//! would pass over them. Errors have the shapes and codes of a real server, long work runs as jobs, a machine's name is
//! unique in its network, and the machine of a failed job stays.
//!
//! Three layers, the first two without sockets, clock or chance of their own:
//!
//! - [`wire`]: signatures, the catalogue of commands, parameters, refusals;
//! - [`world`]: a state machine, `request and moment in, answer out`, with the commands in `calls`;
//! - [`crate::edge`]: plain HTTP or TLS on the loopback address.
//!
//! [`start`] gives a [`Handle`] that moves the clock, scripts faults, reads the request log and asks the oracle which
//! machines are left. The world begins with three zones (one of them disabled), three domains, accounts of every role,
//! networks, templates and offerings; [`world::things`] says which.

mod calls;
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
    /// The world's first moment; the machine's time when not given.
    pub time: Option<Timestamp>,
    /// The world's time moves only by hand.
    pub frozen: bool,
    /// Public half of the root administrator's key.
    pub api_key: String,
    /// Secret half of that key.
    pub secret_key: String,
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
            api_key: "simulator-api-key-of-the-root-administrator".to_owned(),
            secret_key: "simulator-secret-key-of-the-root-administrator".to_owned(),
            settings: Settings::default(),
        }
    }
}

/// Starts a simulator on the loopback address.
pub async fn start(options: Options) -> Result<Handle, Error> {
    let (endpoint, held) = serve(world(&options), place(&options)).await?;
    Ok(handle(options, &endpoint, held))
}

/// A simulator without a socket, which is called through [`crate::edge::Held::carry`].
#[must_use]
pub fn without_socket(options: Options) -> Handle {
    let held = keep(world(&options), &place(&options));
    handle(options, "http://127.0.0.1:1", held)
}

fn world(options: &Options) -> World {
    World::new(options.settings.clone(), &options.api_key, &options.secret_key, options.seed)
}

fn place(options: &Options) -> Place<'_> {
    Place { port: options.port, tls: options.tls.as_ref(), time: options.time, frozen: options.frozen }
}

fn handle(options: Options, endpoint: &str, held: crate::edge::Held<World>) -> Handle {
    let endpoint = format!("{endpoint}{}", world::engine::PATH);
    Handle { endpoint, api_key: options.api_key, secret_key: options.secret_key, held }
}
