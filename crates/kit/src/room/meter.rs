//! What is measured of every room.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use super::Outcome;
use crate::class::Class;
use crate::queue::Depth;
use crate::telemetry::Metrics;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Room {
    room: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Pass {
    room: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Failure {
    room: &'static str,
    class: &'static str,
}

/// The metrics of all rooms, registered once.
#[derive(Clone)]
pub struct Meter {
    passes: Family<Pass, Counter>,
    seconds: Family<Room, Histogram, fn() -> Histogram>,
    failures: Family<Failure, Counter>,
    waiting: Family<Room, Gauge>,
    busy: Family<Room, Gauge>,
    late: Family<Room, Gauge>,
    panics: Family<Room, Counter>,
}

impl Meter {
    /// Registers the metrics.
    #[must_use]
    pub fn new(metrics: &Metrics) -> Self {
        let buckets = || Histogram::new([0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0]);
        let meter = Self {
            passes: Family::default(),
            seconds: Family::new_with_constructor(buckets),
            failures: Family::default(),
            waiting: Family::default(),
            busy: Family::default(),
            late: Family::default(),
            panics: Family::default(),
        };
        metrics.register("room_passes", "Passes over one object, by how they ended", meter.passes.clone());
        metrics.register("room_pass_seconds", "How long a pass took", meter.seconds.clone());
        metrics.register("room_failures", "Passes that failed, by error class", meter.failures.clone());
        metrics.register("room_queue_waiting", "Objects waiting for a pass", meter.waiting.clone());
        metrics.register("room_queue_busy", "Objects being worked on", meter.busy.clone());
        metrics.register("room_queue_late_seconds", "For how long an object has been due", meter.late.clone());
        metrics.register("room_panics", "Panics caught in a pass", meter.panics.clone());
        meter
    }

    /// Shows the room before anything happens: of a count that begins at one nobody can tell that it has grown.
    pub(super) fn open(&self, room: &'static str) {
        self.panics.get_or_create(&Room { room }).inc_by(0);
    }

    pub(super) fn pass(&self, room: &'static str, outcome: Outcome, took: Duration) {
        self.passes.get_or_create(&Pass { room, outcome: outcome.as_str() }).inc();
        self.seconds.get_or_create(&Room { room }).observe(took.as_secs_f64());
    }

    pub(super) fn queue(&self, room: &'static str, depth: &Depth) {
        self.waiting.get_or_create(&Room { room }).set(i64::try_from(depth.waiting).unwrap_or(i64::MAX));
        self.busy.get_or_create(&Room { room }).set(i64::try_from(depth.busy).unwrap_or(i64::MAX));
        self.late.get_or_create(&Room { room }).set(i64::try_from(depth.late.as_secs()).unwrap_or(i64::MAX));
    }

    pub(super) fn failure(&self, room: &'static str, class: Class) {
        self.failures.get_or_create(&Failure { room, class: class.as_str() }).inc();
    }

    pub(super) fn panic(&self, room: &'static str) {
        self.panics.get_or_create(&Room { room }).inc();
    }
}
