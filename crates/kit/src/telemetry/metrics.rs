//! The registry of one process.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Metric, Registry};

use super::passes::Passes;
use super::process::Process;

/// All metrics of one process, named `berth_…`, and what `/proc` knows about it; clones share them.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Arc<Mutex<Registry>>,
    process: Arc<Registry>,
    passes: Passes,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// A registry that holds only the figures of the process itself.
    #[must_use]
    pub fn new() -> Self {
        // The `process_…` names are a convention across projects and carry no prefix, hence a registry of their own.
        let mut process = Registry::default();
        process.register_collector(Box::new(Process));
        let registry = Arc::new(Mutex::new(Registry::with_prefix("berth")));
        Self { registry, process: Arc::new(process), passes: Passes::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a metric as `berth_<name>`; a counter's `_total` is added when it is written out.
    ///
    /// Metrics are shared handles: register a clone, keep the other.
    pub fn register(&self, name: &str, help: &str, metric: impl Metric) {
        self.lock().register(name, help, metric);
    }

    /// Adds a source that is asked at each scrape.
    pub fn register_collector(&self, collector: impl Collector) {
        self.lock().register_collector(Box::new(collector));
    }

    /// Adds `berth_build_info` with these labels, for instance the version and the revision.
    pub fn build_info(&self, labels: &[(&str, &str)]) {
        let labels: Vec<(String, String)> =
            labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        self.register("build", "What this binary was built from", Info::new(labels));
    }

    /// The passes that are worth a look, by name, which no label may hold.
    #[must_use]
    pub fn passes(&self) -> &Passes {
        &self.passes
    }

    /// All metrics as OpenMetrics text.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut text = String::with_capacity(8 * 1024);
        // Writing into a String cannot fail, and a collector that did would cost only what follows it.
        let _ = encode_registry(&mut text, &self.lock());
        let _ = encode_registry(&mut text, &self.process);
        let _ = encode_eof(&mut text);
        text
    }
}

/// Writes a gauge without labels, for a source that is asked at each scrape.
///
/// # Errors
/// When the text cannot be written.
pub fn gauge(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: usize) -> Result<(), std::fmt::Error> {
    let value = i64::try_from(value).unwrap_or(i64::MAX);
    ConstGauge::new(value).encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)
}

/// Writes a gauge with one value per set of labels, for a source that is asked at each scrape.
///
/// # Errors
/// When the text cannot be written.
pub fn gauges<L: EncodeLabelSet>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    values: impl IntoIterator<Item = (L, i64)>,
) -> Result<(), std::fmt::Error> {
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (labels, value) in values {
        ConstGauge::new(value).encode(metric.encode_family(&labels)?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus_client::metrics::counter::Counter;

    #[test]
    fn a_registered_counter_is_written_with_prefix_and_suffix() {
        let metrics = Metrics::new();
        let counter: Counter = Counter::default();
        metrics.register("serve_panics", "Handlers that panicked", counter.clone());
        counter.inc();
        metrics.build_info(&[("version", "1.2.3")]);
        let text = metrics.encode();
        assert!(text.contains("\nberth_serve_panics_total 1\n"), "{text}");
        assert!(text.contains("berth_build_info{version=\"1.2.3\"} 1"), "{text}");
        assert!(text.ends_with("# EOF\n"), "{text}");
        assert_eq!(text.matches("# EOF").count(), 1);
    }

    #[test]
    fn the_process_figures_are_read_at_each_scrape() {
        let text = Metrics::new().encode();
        for name in [
            "process_resident_memory_bytes",
            "process_cpu_seconds_total",
            "process_open_fds",
            "process_start_time_seconds",
            "process_threads",
        ] {
            let line = text.lines().find(|line| line.starts_with(&format!("{name} "))).expect(name);
            let value: f64 = line.rsplit(' ').next().unwrap().parse().expect(line);
            assert!(value > 0.0 || name == "process_cpu_seconds_total", "{line}");
        }
    }
}
