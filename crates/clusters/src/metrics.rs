//! What is counted, and what is read when somebody scrapes.

use std::time::Duration;

use kit::telemetry::Metrics;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;

use crate::facts::World;
use crate::phase::{Outcome, Phase};

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct PhaseLabel {
    phase: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct StayLabel {
    phase: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct KindLabel {
    kind: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ConditionLabel {
    namespace: String,
    name: String,
    r#type: String,
    status: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct FailureLabel {
    namespace: String,
    name: String,
    reason: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ObjectLabel {
    namespace: String,
    name: String,
}

/// From a check that passes at once to machines that take hours.
fn seconds() -> Histogram {
    Histogram::new([1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0])
}

/// The counters of the room; clones share them.
#[derive(Clone, Debug)]
pub struct ClustersMetrics {
    phases: Family<PhaseLabel, Counter>,
    stays: Family<StayLabel, Histogram, fn() -> Histogram>,
    drifts: Family<KindLabel, Counter>,
    templates: Counter,
}

impl Phase {
    /// The word in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ValidateControlPlaneIp => "validate-control-plane-ip",
            Self::ValidateDatacenterConfig => "validate-datacenter-config",
            Self::ValidateMachineConfig => "validate-machine-config",
            Self::CleanupStatusAfterValidate => "cleanup-status-after-validate",
            Self::ReconcileControlPlane => "reconcile-control-plane",
            Self::CheckControlPlaneReady => "check-control-plane-ready",
            Self::ReconcileCni => "reconcile-cni",
            Self::ReconcileWorkers => "reconcile-workers",
        }
    }
}

impl ClustersMetrics {
    /// Adds them to the registry as `berth_clusters_…`.
    #[must_use]
    pub fn register(metrics: &Metrics, world: &World) -> Self {
        let new = Self {
            phases: Family::default(),
            stays: Family::new_with_constructor(seconds),
            drifts: Family::default(),
            templates: Counter::default(),
        };
        metrics.register("clusters_phases", "Passes that ended in a phase, by what followed", new.phases.clone());
        metrics.register(
            "clusters_phase_duration_seconds",
            "How long clusters stood in a phase before they went on",
            new.stays.clone(),
        );
        metrics.register("clusters_drift_repairs", "Generated objects that were set back", new.drifts.clone());
        metrics.register(
            "clusters_template_replacements",
            "Templates that took the place of others",
            new.templates.clone(),
        );
        metrics.register_collector(Counted { world: world.clone() });
        new
    }

    /// A pass ended in a phase.
    pub fn phase(&self, phase: Phase, outcome: &Outcome) {
        let result = match outcome {
            Outcome::Continue => "applied",
            Outcome::Stop(Some(_)) => "failed",
            Outcome::Stop(None) => "stopped",
            Outcome::Again(_) => "waiting",
        };
        self.phases.get_or_create(&PhaseLabel { phase: phase.as_str(), result }).inc();
    }

    /// A cluster left a phase that it stood in for this long.
    pub fn stayed(&self, phase: Phase, lasted: Duration) {
        self.stays.get_or_create(&StayLabel { phase: phase.as_str() }).observe(lasted.as_secs_f64());
    }

    /// An object was set back.
    pub fn repaired(&self, kind: &str) {
        self.drifts.get_or_create(&KindLabel { kind: kind.to_owned() }).inc();
    }

    /// A template was made.
    pub fn replaced(&self) {
        self.templates.inc();
    }
}

/// Reads conditions and failures from the indexes.
struct Counted {
    world: World,
}

impl std::fmt::Debug for Counted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Counted")
    }
}

impl Collector for Counted {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let clusters = self.world.clusters.all();
        let names = |key: &api::key::ObjectKey| (key.namespace().unwrap_or_default().to_owned(), key.name().to_owned());
        let help = "Conditions of clusters";
        let mut metric = encoder.encode_descriptor("clusters_condition", help, None, MetricType::Gauge)?;
        for (key, cluster) in &clusters {
            for condition in &cluster.status.conditions {
                let (namespace, name) = names(key);
                let label = ConditionLabel {
                    namespace,
                    name,
                    r#type: condition.type_.clone(),
                    status: condition.status.clone(),
                };
                ConstGauge::new(1_i64).encode(metric.encode_family(&label)?)?;
            }
        }
        let help = "Clusters that cannot go on";
        let mut metric = encoder.encode_descriptor("clusters_failure", help, None, MetricType::Gauge)?;
        for (key, cluster) in clusters.iter().filter(|(_, cluster)| !cluster.status.failure_reason.is_empty()) {
            let (namespace, name) = names(key);
            let label = FailureLabel { namespace, name, reason: cluster.status.failure_reason.clone() };
            ConstGauge::new(1_i64).encode(metric.encode_family(&label)?)?;
        }
        let help = "Whether datacenters can be used";
        let mut metric = encoder.encode_descriptor("clusters_datacenter_valid", help, None, MetricType::Gauge)?;
        for (key, datacenter) in self.world.datacenters.all() {
            let (namespace, name) = names(&key);
            let valid = datacenter.status().spec_valid == Some(true);
            ConstGauge::new(i64::from(valid)).encode(metric.encode_family(&ObjectLabel { namespace, name })?)?;
        }
        Ok(())
    }
}
