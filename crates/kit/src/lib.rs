//! What every room shares: watching, queueing, deciding, writing, serving, and saying why.

pub mod admission;
pub mod backoff;
pub mod bucket;
pub mod certs;
pub mod class;
pub mod client;
pub mod clock;
pub mod conditions;
pub mod events;
pub mod fault;
pub mod feed;
pub mod field;
pub mod gates;
pub mod http;
pub mod kinds;
pub mod lease;
pub mod manager;
pub mod queue;
pub mod rights;
pub mod room;
pub mod secret;
pub mod serve;
pub mod telemetry;
pub mod write;
