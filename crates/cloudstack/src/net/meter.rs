//! What is measured of every request.

use std::time::Duration;

use kit::telemetry::Metrics;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;

use crate::errors::Cause;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Request {
    endpoint: String,
    command: &'static str,
    class: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Timed {
    endpoint: String,
    command: &'static str,
}

/// Requests to CloudStack, counted by attempt.
#[derive(Clone, Debug)]
pub struct Meter {
    requests: Family<Request, Counter>,
    seconds: Family<Timed, Histogram, fn() -> Histogram>,
}

impl Default for Meter {
    fn default() -> Self {
        let buckets = || Histogram::new([0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0]);
        Self { requests: Family::default(), seconds: Family::new_with_constructor(buckets) }
    }
}

impl Meter {
    /// Registers the metrics.
    #[must_use]
    pub fn new(metrics: &Metrics) -> Self {
        let meter = Self::default();
        metrics.register("cloudstack_requests", "Requests to CloudStack by what came of them", meter.requests.clone());
        let seconds = meter.seconds.clone();
        metrics.register("cloudstack_request_seconds", "How long a request to CloudStack took", seconds);
        meter
    }

    pub(crate) fn record(&self, host: &str, command: &'static str, cause: Option<&Cause>, elapsed: Duration) {
        let class = cause.map_or("ok", |cause| cause.kind().as_str());
        let request = Request { endpoint: host.to_owned(), command, class };
        self.requests.get_or_create(&request).inc();
        self.seconds.get_or_create(&Timed { endpoint: host.to_owned(), command }).observe(elapsed.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_endpoint_command_and_class() {
        let metrics = Metrics::new();
        let meter = Meter::new(&metrics);
        meter.record("acs:8080", "listZones", None, Duration::from_secs(1));
        meter.record("acs:8080", "listZones", Some(&Cause::Crowded), Duration::from_secs(1));
        let text = metrics.encode();
        for class in ["ok", "throttled"] {
            let labels = format!("endpoint=\"acs:8080\",command=\"listZones\",class=\"{class}\"");
            assert!(text.contains(&format!("berth_cloudstack_requests_total{{{labels}}} 1")), "{text}");
        }
        assert!(text.contains("berth_cloudstack_request_seconds_count{endpoint=\"acs:8080\",command=\"listZones\"} 2"));
    }
}
