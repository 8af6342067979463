//! What is measured of every call.

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use kit::bucket::Fill;
use kit::telemetry::{Metrics, gauges};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;

use super::buckets::{Buckets, Line};
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

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Counted {
    region: String,
    operation: &'static str,
    counts: &'static str,
}

/// How full buckets are, asked at each scrape.
#[derive(Debug)]
struct Fills(Arc<OnceLock<Weak<Buckets>>>);

impl Collector for Fills {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let fills = self.0.get().and_then(Weak::upgrade).map(|buckets| buckets.fills()).unwrap_or_default();
        let each = |figure: fn(&Fill) -> i64| {
            let label = |line: &Line| {
                let (operation, counts) = (line.operation, line.counts);
                Counted { region: line.region.to_string(), operation, counts }
            };
            fills.iter().map(|(line, fill)| (label(line), figure(fill))).collect::<Vec<_>>()
        };
        let tokens = each(|fill| i64::from(fill.tokens));
        gauges(&mut encoder, "aws_bucket_tokens", "Calls that may be made at once", tokens)?;
        let sizes = each(|fill| i64::from(fill.size));
        gauges(&mut encoder, "aws_bucket_size_tokens", "The most of them there can be", sizes)?;
        let waiting = each(|fill| i64::try_from(fill.waiting).unwrap_or(i64::MAX));
        gauges(&mut encoder, "aws_bucket_waiting_calls", "Calls that wait for their turn", waiting)
    }
}

/// Calls to AWS, counted by attempt.
#[derive(Clone, Debug)]
pub struct Meter {
    calls: Family<Call, Counter>,
    throttled: Family<Place, Counter>,
    seconds: Family<Operation, Histogram, fn() -> Histogram>,
    buckets: Arc<OnceLock<Weak<Buckets>>>,
}

impl Default for Meter {
    fn default() -> Self {
        let buckets = || Histogram::new([0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0]);
        Self {
            calls: Family::default(),
            throttled: Family::default(),
            seconds: Family::new_with_constructor(buckets),
            buckets: Arc::default(),
        }
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
        metrics.register_collector(Fills(Arc::clone(&meter.buckets)));
        meter
    }

    /// Shows how full these buckets are; there is one set of them.
    pub(crate) fn show(&self, buckets: &Arc<Buckets>) {
        let _ = self.buckets.set(Arc::downgrade(buckets));
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

    /// A call for which no credentials could be had. Nothing was sent, but whoever watches for refused keys has to learn
    /// of it.
    pub(crate) fn unsigned(&self, service: &'static str, operation: &'static str, region: &str, why: Kind) {
        self.calls.get_or_create(&Call { service, operation, region: region.to_owned(), code: why.as_str() }).inc();
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
        meter.unsigned("ec2", "DescribeHosts", "us-east-1", Kind::Permission);
        let text = metrics.encode();
        let labels = "service=\"ec2\",operation=\"DescribeHosts\",region=\"us-east-1\"";
        for (code, count) in [("", 1), ("RequestLimitExceeded", 1), ("other", 2), ("permission", 1)] {
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
