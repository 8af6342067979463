//! Logs, metrics, and the endpoints that show them together with health.
//!
//! Logs go to standard error as text or JSON. Metrics live in one [`Metrics`] registry without globals, so that a test
//! can hold its own. Whole objects, user data and secrets are never fields of either.

mod bind;
mod endpoints;
mod logs;
mod metrics;
mod passes;
mod process;
mod samples;
mod standing;

pub use bind::{BindError, parse_bind_address};
pub use endpoints::{health_router, metrics_router};
pub use logs::{LogError, LogFormat, coloured, init_logs, subscriber};
pub use metrics::{Metrics, gauge, gauges};
pub use passes::{Failed, Failure, Lately, Pass, Passes, Slow};
pub use samples::{Histogram, Labels, Sample, Samples};
