//! What is measured of every call.

use std::time::Duration;

use kit::telemetry::Metrics;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;

use crate::errors::{Cause, Kind, label_of};

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Call {
    service: &'static str,
    operation: &'static str,
    region: String,
    code: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Operation {
    service: &'static str,
    operation: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Place {
    service: &'static str,
    region: String,
}

/// Calls to AWS, counted by attempt.
#[derive(Clone, Debug)]
pub struct Meter {
    calls: Family<Call, Counter>,
    throttled: Family<Place, Counter>,
    seconds: Family<Operation, Histogram, fn() -> Histogram>,
}

impl Default for Meter {
    fn default() -> Self {
        let buckets = || Histogram::new([0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0]);
        Self { calls: Family::default(), throttled: Family::default(), seconds: Family::new_with_constructor(buckets) }
    }
}

impl Meter {
    /// Registers the metrics.
    #[must_use]
    pub fn new(metrics: &Metrics) -> Self {
        let meter = Self::default();
        metrics.register("aws_requests", "Requests to AWS by error code", meter.calls.clone());
        metrics.register(
            "aws_throttled",
            "Requests that AWS answered with a word to slow down",
            meter.throttled.clone(),
        );
        metrics.register("aws_request_seconds", "How long a request to AWS took", meter.seconds.clone());
        meter
    }

    pub(crate) fn record(
        &self,
        service: &'static str,
        operation: &'static str,
        region: &str,
        cause: Option<&Cause>,
        elapsed: Duration,
    ) {
        let code = match cause {
            None => "",
            Some(Cause::Refused { code, .. }) => label_of(code),
            Some(Cause::NoAnswer(_)) => "no-answer",
            Some(cause) => cause.kind().as_str(),
        };
        if cause.is_some_and(|cause| cause.kind() == Kind::Throttled) {
            self.throttled.get_or_create(&Place { service, region: region.to_owned() }).inc();
        }
        self.calls.get_or_create(&Call { service, operation, region: region.to_owned(), code }).inc();
        self.seconds.get_or_create(&Operation { service, operation }).observe(elapsed.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_by_code_and_labels_stay_bounded() {
        let metrics = Metrics::new();
        let meter = Meter::new(&metrics);
        let refused = |code: &str| Cause::Refused { status: 400, code: code.to_owned(), message: String::new() };
        let second = Duration::from_secs(1);
        meter.record("ec2", "DescribeHosts", "us-east-1", None, second);
        meter.record("ec2", "DescribeHosts", "us-east-1", Some(&refused("RequestLimitExceeded")), second);
        meter.record("ec2", "DescribeHosts", "us-east-1", Some(&refused("Made.Up1")), second);
        meter.record("ec2", "DescribeHosts", "us-east-1", Some(&refused("Made.Up2")), second);
        let text = metrics.encode();
        let labels = "service=\"ec2\",operation=\"DescribeHosts\",region=\"us-east-1\"";
        for (code, count) in [("", 1), ("RequestLimitExceeded", 1), ("other", 2)] {
            let line = format!("berth_aws_requests_total{{{labels},code=\"{code}\"}} {count}");
            assert!(text.contains(&line), "{line}\n{text}");
        }
        assert!(text.contains("berth_aws_throttled_total{service=\"ec2\",region=\"us-east-1\"} 1"), "{text}");
        assert!(
            text.contains("berth_aws_request_seconds_count{service=\"ec2\",operation=\"DescribeHosts\"} 4"),
            "{text}"
        );
    }
}
