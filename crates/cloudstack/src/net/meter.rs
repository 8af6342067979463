//! What is measured of every request.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use kit::bucket::Fill;
use kit::telemetry::{Metrics, gauges};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;

use super::gates::Gates;
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

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Server {
    endpoint: String,
}

/// How full buckets are, asked at each scrape: of every set of gates that is still in use.
#[derive(Clone, Debug, Default)]
struct Fills(Arc<Mutex<Vec<Weak<Gates>>>>);

impl Fills {
    fn show(&self, gates: &Arc<Gates>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|known| known.strong_count() > 0);
        all.push(Arc::downgrade(gates));
    }

    /// A server that is reached in several ways is told of once, with the emptiest of its buckets.
    fn told(&self) -> BTreeMap<String, Fill> {
        let mut told: BTreeMap<String, Fill> = BTreeMap::new();
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (endpoint, fill) in all.iter().filter_map(Weak::upgrade).flat_map(|gates| gates.fills()) {
            told.entry(endpoint).and_modify(|known| *known = known.worse(fill)).or_insert(fill);
        }
        told
    }
}

impl Collector for Fills {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let fills = self.told();
        let each = |figure: fn(&Fill) -> i64| {
            let one = |(endpoint, fill): (&String, &Fill)| (Server { endpoint: endpoint.clone() }, figure(fill));
            fills.iter().map(one).collect::<Vec<_>>()
        };
        let tokens = each(|fill| i64::from(fill.tokens));
        gauges(&mut encoder, "cloudstack_bucket_tokens", "Requests that may be sent at once", tokens)?;
        let sizes = each(|fill| i64::from(fill.size));
        gauges(&mut encoder, "cloudstack_bucket_size_tokens", "The most of them there can be", sizes)?;
        let waiting = each(|fill| i64::try_from(fill.waiting).unwrap_or(i64::MAX));
        gauges(&mut encoder, "cloudstack_bucket_waiting_requests", "Requests that wait for their turn", waiting)
    }
}

/// Requests to CloudStack, counted by attempt.
#[derive(Clone, Debug)]
pub struct Meter {
    requests: Family<Request, Counter>,
    seconds: Family<Timed, Histogram, fn() -> Histogram>,
    fills: Fills,
}

impl Default for Meter {
    fn default() -> Self {
        let buckets = || Histogram::new([0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0]);
        Self { requests: Family::default(), seconds: Family::new_with_constructor(buckets), fills: Fills::default() }
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
        metrics.register_collector(meter.fills.clone());
        meter
    }

    /// Shows how full the buckets behind these gates are, too.
    pub(crate) fn show(&self, gates: &Arc<Gates>) {
        self.fills.show(gates);
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

    #[tokio::test(start_paused = true)]
    async fn every_set_of_gates_that_is_in_use_is_shown() {
        let metrics = Metrics::new();
        let meter = Meter::new(&metrics);
        let ways = || {
            let clock = kit::clock::Clock::simulated(jiff::Timestamp::UNIX_EPOCH, 1);
            crate::net::CloudStacks::new(crate::net::Options::new("berth/test"), clock, meter.clone())
        };
        let (usual, named, gone) = (ways(), ways(), ways());
        let call = |ways: &crate::net::CloudStacks, url: &str, taken: u32| {
            assert!(ways.inner.gates.of(url, "user").line.try_take(taken));
        };
        call(&usual, "https://usual/client/api", 1);
        call(&usual, "https://both/client/api", 2);
        call(&named, "https://both/client/api", 3);
        call(&named, "http://127.0.0.1:8080/client/api", 4);
        call(&gone, "https://gone/client/api", 5);
        drop(gone);
        let text = metrics.encode();
        for (endpoint, tokens) in [("usual", 9), ("both", 7), ("127.0.0.1:8080", 6)] {
            let line = format!("berth_cloudstack_bucket_tokens{{endpoint=\"{endpoint}\"}} {tokens}\n");
            assert_eq!(text.matches(&line).count(), 1, "{line} in {text}");
        }
        assert!(!text.contains("gone"), "{text}");
        assert_eq!(meter.fills.0.lock().unwrap().len(), 3);
        let _other = ways();
        assert_eq!(meter.fills.0.lock().unwrap().len(), 3, "the one that is gone made room");
    }
}
