//! Whether this process is fit to be used and whether it decides, read at each scrape.

use std::fmt::Error;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet};

use super::{Metrics, gauge, gauges};
use crate::gates::{GateState, Gates};
use crate::lease::Leadership;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct StateLabel {
    state: &'static str,
}

#[derive(Debug)]
struct Standing {
    gates: Gates,
    leadership: Leadership,
}

impl Metrics {
    /// Adds `berth_run_…`: what `/readyz` answers, and whether this replica is the one that decides.
    pub fn standing(&self, gates: &Gates, leadership: Leadership) {
        self.register_collector(Standing { gates: gates.clone(), leadership });
    }
}

impl Collector for Standing {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let report = self.gates.report();
        gauge(&mut encoder, "run_ready", "1 when nothing keeps this replica from being used", report.ready.into())?;
        let leads = self.leadership.leads();
        gauge(&mut encoder, "run_leading", "1 on the replica that decides", leads.into())?;
        let count = |state| {
            let count = report.gates.iter().filter(|gate| gate.state == state).count();
            i64::try_from(count).unwrap_or(i64::MAX)
        };
        let states = [("ready", GateState::Ready), ("waiting", GateState::Waiting), ("blocked", GateState::Blocked)];
        let values = states.map(|(name, state)| (StateLabel { state: name }, count(state)));
        gauges(&mut encoder, "run_gates", "Parts of this replica, by how they stand", values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;

    #[test]
    fn readiness_and_leadership_are_those_of_the_moment() {
        let (metrics, gates) = (Metrics::new(), Gates::new());
        metrics.standing(&gates, Leadership::alone(Clock::system()));
        let gate = gates.gate("feeds");
        let text = metrics.encode();
        for line in ["berth_run_ready 0", "berth_run_leading 1", "berth_run_gates{state=\"blocked\"} 1"] {
            assert!(text.contains(&format!("\n{line}\n")), "{line}: {text}");
        }
        gate.ready("");
        let text = metrics.encode();
        for line in ["berth_run_ready 1", "berth_run_gates{state=\"blocked\"} 0", "berth_run_gates{state=\"ready\"} 1"]
        {
            assert!(text.contains(&format!("\n{line}\n")), "{line}: {text}");
        }
    }
}
