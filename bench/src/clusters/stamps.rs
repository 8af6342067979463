//! What the watchers' stamps say: when each cluster was applied, judged, written out and ready.

use std::collections::BTreeMap;

use crate::machines::stamps::Moments;
use crate::watch::Stamp;

/// Texts that stamps of datacenters and machine configurations show.
pub const OF_PARTS: [&str; 1] = ["/status/specValid"];
/// Texts that stamps of health checks show.
pub const OF_CHECKS: [&str; 1] = ["/metadata/labels/cluster.x-k8s.io~1cluster-name"];
/// Health checks of one cluster: of its control plane and of its only group.
const CHECKS: usize = 2;

/// Texts that stamps of clusters show.
pub const OF_CLUSTERS: [&str; 1] = ["/status/failureReason"];
/// What a cluster says whose machine configuration cannot be used.
const REFUSED: &str = "MachineConfigInvalid";

/// What was seen so far, by the name of the cluster.
#[derive(Debug, Default)]
pub struct Seen {
    /// The first of its own objects appeared: its datacenter where that is its own, the cluster otherwise.
    pub born: Moments,
    /// Its datacenter said whether it can be used.
    pub placed: Moments,
    /// Its machine configuration said whether it can be used: the last of the checks.
    pub judged: Moments,
    /// The last of its generated objects appeared.
    pub written: Moments,
    /// It was ready.
    pub ready: Moments,
    /// It said that its machine configuration cannot be used.
    pub refused: Moments,
    checks: BTreeMap<String, usize>,
}

fn name(stamp: &Stamp) -> String {
    stamp.key.rsplit('/').next().unwrap_or_default().to_owned()
}

/// Notes a moment, unless an earlier one is known: watchers are read one after the other.
fn first(moments: &mut Moments, name: String, is_so: bool, at: i64) {
    if is_so {
        moments.entry(name).and_modify(|known| *known = at.min(*known)).or_insert(at);
    }
}

impl Seen {
    /// Takes in a stamp of a datacenter that one cluster has for itself.
    pub fn datacenter(&mut self, stamp: &Stamp) {
        first(&mut self.born, name(stamp), stamp.event == "ADDED", stamp.at_us);
        first(&mut self.placed, name(stamp), !stamp.shows(0).is_empty(), stamp.at_us);
    }

    /// Takes in a stamp of a machine configuration that one cluster has for itself.
    pub fn machine(&mut self, stamp: &Stamp) {
        first(&mut self.judged, name(stamp), !stamp.shows(0).is_empty(), stamp.at_us);
    }

    /// Takes in a stamp of a cluster.
    pub fn cluster(&mut self, stamp: &Stamp) {
        first(&mut self.born, name(stamp), stamp.event == "ADDED", stamp.at_us);
        first(&mut self.ready, name(stamp), stamp.is("Ready"), stamp.at_us);
        first(&mut self.refused, name(stamp), stamp.shows(0) == REFUSED, stamp.at_us);
    }

    /// Takes in a stamp of a health check; the last one of a cluster is the last object that is written for it.
    pub fn check(&mut self, stamp: &Stamp) {
        if stamp.event != "ADDED" {
            return;
        }
        let cluster = stamp.shows(0).to_owned();
        let seen = self.checks.entry(cluster.clone()).or_default();
        *seen += 1;
        let all = *seen >= CHECKS;
        first(&mut self.written, cluster, all, stamp.at_us);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machines::stamps::{ms, span};

    fn stamp(at_us: i64, event: &str, key: &str, shown: &str, conditions: &[&str]) -> Stamp {
        let conditions = conditions.iter().map(|&text| text.to_owned()).collect();
        let (event, key) = (event.to_owned(), key.to_owned());
        Stamp { at_us, event, key, version: String::new(), conditions, shown: vec![shown.to_owned()] }
    }

    #[test]
    fn a_cluster_is_judged_when_its_last_part_is_whatever_the_verdict() {
        let mut seen = Seen::default();
        seen.cluster(&stamp(3_000, "ADDED", "t/a", "", &[]));
        seen.datacenter(&stamp(1_000, "ADDED", "t/a", "", &[]));
        seen.datacenter(&stamp(4_000, "MODIFIED", "t/a", "true", &[]));
        seen.machine(&stamp(2_000, "ADDED", "t/a", "", &[]));
        seen.machine(&stamp(9_000, "MODIFIED", "t/a", "false", &[]));
        seen.machine(&stamp(10_000, "MODIFIED", "t/a", "true", &[]));
        seen.cluster(&stamp(9_500, "MODIFIED", "t/a", "MachineConfigInvalid", &[]));
        assert_eq!((ms(&seen.born, &seen.placed), ms(&seen.born, &seen.judged)), (vec![3.0], vec![8.0]));
        assert_eq!((ms(&seen.born, &seen.refused), seen.ready.len()), (vec![8.5], 0));
    }

    #[test]
    fn a_cluster_is_written_with_its_last_check() {
        let mut seen = Seen::default();
        seen.cluster(&stamp(1_000, "ADDED", "t/a", "", &[]));
        seen.check(&stamp(4_000, "ADDED", "s/a-kcp-unhealthy", "a", &[]));
        assert!(seen.written.is_empty());
        seen.check(&stamp(5_000, "MODIFIED", "s/a-kcp-unhealthy", "a", &[]));
        assert!(seen.written.is_empty());
        seen.check(&stamp(6_000, "ADDED", "s/a-md-0-worker-unhealthy", "a", &[]));
        seen.cluster(&stamp(7_000, "MODIFIED", "t/a", "", &["WorkersReady"]));
        seen.cluster(&stamp(8_000, "MODIFIED", "t/a", "", &["Ready"]));
        assert_eq!((ms(&seen.born, &seen.written), ms(&seen.born, &seen.ready)), (vec![5.0], vec![7.0]));
        assert_eq!((span(&seen.born, &seen.ready), span(&seen.born, &seen.judged)), (Some(0.007), None));
    }
}
