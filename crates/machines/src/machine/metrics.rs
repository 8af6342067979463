//! What is read when somebody scrapes.

use std::collections::BTreeMap;

use api::reasons::READY;
use api::status::find;
use kit::telemetry::{Metrics, gauges};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet};

use crate::config::Config;
use crate::facts::{MachineFacts, World};
use crate::mode::claim_kind;

#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct PhaseLabel {
    phase: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

struct Counted {
    world: World,
    config: std::sync::Arc<Config>,
}

impl std::fmt::Debug for Counted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Counted")
    }
}

/// Adds the gauges of the room to the registry as `berth_machines_…`.
pub fn register(metrics: &Metrics, world: &World, config: &std::sync::Arc<Config>) {
    metrics.register_collector(Counted { world: world.clone(), config: std::sync::Arc::clone(config) });
}

fn phase(machine: &MachineFacts) -> &'static str {
    let provisioned = machine.status.initialization.as_ref().and_then(|done| done.provisioned) == Some(true);
    match (machine.deleting, provisioned, &machine.status.host_claim) {
        (true, ..) => "deleting",
        (_, true, _) => "provisioned",
        (_, _, Some(_)) => "claimed",
        _ => "pending",
    }
}

impl Collector for Counted {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let mut phases: BTreeMap<PhaseLabel, i64> = BTreeMap::new();
        let mut waiting: BTreeMap<ReasonLabel, i64> = BTreeMap::new();
        let known = api::reasons::all();
        for (_, machine) in self.world.machines.all() {
            let default = self.config.default_host_kind.as_deref();
            if claim_kind(machine.spec.kind.as_deref(), &machine.annotations, default).is_none() {
                continue;
            }
            *phases.entry(PhaseLabel { phase: phase(&machine) }).or_default() += 1;
            let Some(ready) = find(&machine.status.conditions, READY).filter(|ready| ready.status != "True") else {
                continue;
            };
            let reason = known.iter().find(|entry| entry.reason == ready.reason).map_or("Other", |entry| entry.reason);
            *waiting.entry(ReasonLabel { reason }).or_default() += 1;
        }
        gauges(&mut encoder, "machines_machines", "Machines on claims, by phase", phases)?;
        gauges(&mut encoder, "machines_waiting_machines", "Machines on claims that are not ready, by reason", waiting)
    }
}
