//! How many reviews were answered, and how.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use kube::core::admission::Operation;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

use crate::telemetry::Metrics;

/// Kinds are named by whoever sends a review, which need not be the API server: so many are told apart.
const KINDS: usize = 64;
/// Every kind beyond that.
const OTHER: &str = "other";
/// No kind has a longer name.
const LONGEST: usize = 63;

/// Counts reviews; clones count together.
#[derive(Clone, Debug, Default)]
pub(super) struct Count {
    reviews: Family<ReviewLabels, Counter>,
    kinds: Arc<Mutex<BTreeSet<String>>>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ReviewLabels {
    kind: String,
    operation: &'static str,
    allowed: &'static str,
}

impl Count {
    /// Adds the counter to the registry.
    pub(super) fn register(metrics: &Metrics) -> Self {
        let new = Self::default();
        metrics.register("admission_reviews", "Reviews of objects answered", new.reviews.clone());
        new
    }

    /// A review was answered.
    pub(super) fn answered(&self, kind: &str, operation: &Operation, allowed: bool) {
        let operation = match operation {
            Operation::Create => "create",
            Operation::Update => "update",
            Operation::Delete => "delete",
            Operation::Connect => "connect",
        };
        let allowed = if allowed { "true" } else { "false" };
        self.reviews.get_or_create(&ReviewLabels { kind: self.known(kind), operation, allowed }).inc();
    }

    fn known(&self, kind: &str) -> String {
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        if kinds.contains(kind) {
            return kind.to_owned();
        }
        if kinds.len() >= KINDS || kind.len() > LONGEST {
            return OTHER.to_owned();
        }
        kinds.insert(kind.to_owned());
        kind.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_makes_up_kinds_makes_no_more_figures_than_there_is_room_for() {
        let count = Count::default();
        count.answered(&"K".repeat(LONGEST + 1), &Operation::Create, true);
        for number in 0..KINDS + 10 {
            count.answered(&format!("Kind{number}"), &Operation::Update, true);
        }
        count.answered("Kind0", &Operation::Connect, false);
        let labels = |kind: &str, operation, allowed| ReviewLabels { kind: kind.to_owned(), operation, allowed };
        let counted = |labels| count.reviews.get(&labels).map(|counter| counter.get());
        assert_eq!(counted(labels(OTHER, "create", "true")), Some(1));
        assert_eq!(counted(labels(OTHER, "update", "true")), Some(10));
        assert_eq!(counted(labels("Kind63", "update", "true")), Some(1));
        assert_eq!(counted(labels("Kind64", "update", "true")), None);
        assert_eq!(counted(labels("Kind0", "connect", "false")), Some(1));
    }
}
