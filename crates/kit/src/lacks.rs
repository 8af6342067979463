//! Objects that lack credentials for a cloud. Nothing is sent without them, so no count of requests tells of it.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet};

use crate::manager::Manager;
use crate::telemetry::{Metrics, gauges};

/// What is lacking and why, in words of ours: labels hold no names.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct Lacking {
    room: &'static str,
    kind: &'static str,
    reason: &'static str,
}

/// What each object lacks, and whether the pass that is under way has found so too.
type All = BTreeMap<(&'static str, String), (Lacking, bool)>;

/// The objects of all rooms that lack credentials; clones share them.
#[derive(Clone, Debug, Default)]
pub struct Lacks {
    all: Arc<Mutex<All>>,
    shown: Arc<OnceLock<()>>,
}

impl Lacks {
    /// Those of this process.
    #[must_use]
    pub fn of(manager: &Manager) -> Self {
        let lacks = Self::clone(&manager.common::<Self>());
        lacks.show(manager.metrics());
        lacks
    }

    fn show(&self, metrics: &Metrics) {
        self.shown.get_or_init(|| metrics.register_collector(Counted(Arc::clone(&self.all))));
    }

    /// A pass over an object begins; what was found before counts until the pass ends.
    pub fn begin(&self, room: &'static str, object: &impl Display) {
        if let Some((_, found)) = held(&self.all).get_mut(&(room, object.to_string())) {
            *found = false;
        }
    }

    /// The pass has found that the object has no credentials of this kind.
    pub fn tell(&self, room: &'static str, object: &impl Display, kind: &'static str, reason: &'static str) {
        held(&self.all).insert((room, object.to_string()), (Lacking { room, kind, reason }, true));
    }

    /// The pass has ended: what it has not found is no more.
    pub fn end(&self, room: &'static str, object: &impl Display) {
        let (key, mut all) = ((room, object.to_string()), held(&self.all));
        if all.get(&key).is_some_and(|(_, found)| !found) {
            all.remove(&key);
        }
    }
}

#[derive(Debug)]
struct Counted(Arc<Mutex<All>>);

impl Collector for Counted {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let mut counts: BTreeMap<Lacking, i64> = BTreeMap::new();
        for (lacking, _) in held(&self.0).values() {
            *counts.entry(*lacking).or_default() += 1;
        }
        gauges(&mut encoder, "room_credentials_lacking", "Objects without credentials for their cloud", counts)
    }
}

fn held(all: &Mutex<All>) -> MutexGuard<'_, All> {
    all.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_counts_until_a_pass_ends_that_found_its_credentials() {
        let (lacks, metrics) = (Lacks::default(), Metrics::new());
        lacks.show(&metrics);
        let line = "berth_room_credentials_lacking{room=\"hosts\",kind=\"secret\",reason=\"missing\"} ";
        let count = || metrics.encode().lines().find_map(|found| found.strip_prefix(line).map(str::to_owned));
        let pass = |object: &str, lacking: bool| {
            lacks.begin("hosts", &object);
            let before = count();
            if lacking {
                lacks.tell("hosts", &object, "secret", "missing");
            }
            lacks.end("hosts", &object);
            before
        };
        assert_eq!((pass("n/a", true), pass("n/b", true)), (None, Some("1".to_owned())));
        assert!(!metrics.encode().contains("n/a"), "objects have no label");
        assert_eq!(pass("n/a", true).as_deref(), Some("2"), "a pass that looks again takes nothing back");
        assert_eq!((pass("n/a", false).as_deref(), count().as_deref()), (Some("2"), Some("1")));
        pass("n/b", false);
        assert_eq!(count(), None);
    }
}
