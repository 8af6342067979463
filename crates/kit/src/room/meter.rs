//! What is measured of every room.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;

use crate::class::Class;
use crate::clock::Clock;
use crate::queue::Depth;
use crate::telemetry::{self, Metrics, Passes, gauges};

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

/// Tells how a queue stands; nothing where it only gathers, because another replica decides.
type Ask = Box<dyn Fn() -> Option<Depth> + Send + Sync>;

/// The queues of all rooms, asked at each scrape: a room whose workers all hang ends no pass in which it could tell.
#[derive(Clone, Default)]
struct Queues(Arc<Mutex<Vec<(&'static str, Ask)>>>);

impl fmt::Debug for Queues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Queues")
    }
}

impl Collector for Queues {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        // Of several queues of one room there is one figure.
        let mut rooms: BTreeMap<&'static str, Depth> = BTreeMap::new();
        for (room, ask) in self.0.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let Some(depth) = ask() else { continue };
            let all = rooms.entry(*room).or_default();
            all.waiting += depth.waiting;
            all.busy += depth.busy;
            all.late = all.late.max(depth.late);
        }
        let each = |figure: fn(&Depth) -> i64| {
            rooms.iter().map(|(room, depth)| (Room { room }, figure(depth))).collect::<Vec<_>>()
        };
        let waiting = each(|depth| i64::try_from(depth.waiting).unwrap_or(i64::MAX));
        gauges(&mut encoder, "room_queue_waiting", "Objects waiting for a pass", waiting)?;
        let busy = each(|depth| i64::try_from(depth.busy).unwrap_or(i64::MAX));
        gauges(&mut encoder, "room_queue_busy", "Objects being worked on", busy)?;
        let late = each(|depth| i64::try_from(depth.late.as_secs()).unwrap_or(i64::MAX));
        gauges(&mut encoder, "room_queue_late_seconds", "For how long an object has been due", late)
    }
}

/// The metrics of all rooms, registered once.
#[derive(Clone)]
pub struct Meter {
    passes: Family<Pass, Counter>,
    seconds: Family<Room, Histogram, fn() -> Histogram>,
    failures: Family<Failure, Counter>,
    queues: Queues,
    panics: Family<Room, Counter>,
    /// By name, beside the metrics.
    named: Passes,
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
            queues: Queues::default(),
            panics: Family::default(),
            named: metrics.passes().clone(),
        };
        metrics.register("room_passes", "Passes over one object, by how they ended", meter.passes.clone());
        metrics.register("room_pass_seconds", "How long a pass took", meter.seconds.clone());
        metrics.register("room_failures", "Passes that failed, by error class", meter.failures.clone());
        metrics.register_collector(meter.queues.clone());
        metrics.register("room_panics", "Panics caught in a pass", meter.panics.clone());
        meter
    }

    /// Shows the room before anything happens: of a count that begins at one nobody can tell that it has grown. `ask`
    /// tells at each scrape how its queue stands.
    pub(super) fn open(&self, room: &'static str, ask: impl Fn() -> Option<Depth> + Send + Sync + 'static) {
        self.queues.0.lock().unwrap_or_else(PoisonError::into_inner).push((room, Box::new(ask)));
        self.panics.get_or_create(&Room { room }).inc_by(0);
    }

    pub(super) fn pass(&self, clock: &Clock, pass: &telemetry::Pass<'_>) {
        let room = pass.room;
        self.passes.get_or_create(&Pass { room, outcome: pass.outcome }).inc();
        self.seconds.get_or_create(&Room { room }).observe(pass.took.as_secs_f64());
        self.named.ended(clock, pass);
    }

    pub(super) fn failure(&self, room: &'static str, class: Class) {
        self.failures.get_or_create(&Failure { room, class: class.as_str() }).inc();
    }

    pub(super) fn panic(&self, room: &'static str) {
        self.panics.get_or_create(&Room { room }).inc();
    }
}
