//! What every room shares: watching, queueing, deciding, writing, serving, and saying why.

pub mod backoff;
pub mod bucket;
pub mod clock;
pub mod conditions;
pub mod gates;
pub mod queue;
pub mod secret;
pub mod telemetry;
