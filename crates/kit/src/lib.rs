//! What every room shares: watching, queueing, deciding, writing, serving, and saying why.
//!
//! Data flows one way. A [`feed`] follows one kind and keeps a projection of it; a change puts a key on the room's
//! [`queue`]; a worker of the [`room`] driver takes the key, observes, decides and applies; [`mod@write`] is the only code
//! that changes objects, and the feed hears of it. Single objects among many are followed by [`lone`]. Around that circle:
//!
//! | What for | Modules |
//! |---|---|
//! | start, supervise, stop, be ready | [`manager`], [`gates`], [`lease`], [`kinds`], [`client`] |
//! | pace | [`backoff`], [`bucket`], [`clock`], [`pace`] |
//! | say why | [`conditions`], [`events`], [`teller`], [`explain`], [`class`], [`field`], [`words`], [`telemetry`], [`lacks`] |
//! | serve | [`serve`], [`certs`], [`admission`] |
//! | call out | [`http`], [`urls`], [`doors`], [`flight`], [`secret`], [`open!`] for values others may extend |
//! | prove | [`fault`], [`rights`] |
//!
//! Every part that thinks (queue, index, election, fold, certificate plan, buckets) is plain data with time passed in, so
//! it can be tested without waiting; the part that touches the world around it is thin.

pub mod admission;
pub mod backoff;
pub mod bucket;
pub mod certs;
pub mod class;
pub mod client;
pub mod clock;
pub mod conditions;
pub mod doors;
pub mod events;
pub mod explain;
pub mod fault;
pub mod feed;
pub mod field;
pub mod flight;
pub mod gates;
pub mod http;
pub mod kinds;
pub mod lacks;
pub mod lease;
pub mod lone;
pub mod manager;
mod open;
pub mod pace;
pub mod pattern;
pub mod queue;
pub mod rights;
pub mod room;
pub mod secret;
pub mod serve;
pub mod telemetry;
pub mod teller;
pub mod urls;
pub mod words;
pub mod write;
