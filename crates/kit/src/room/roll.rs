//! How many objects of each kind are ready, what the others wait for, and since when.
//!
//! Counted as feeds tell of changes, so that a scrape costs the same for ten objects and for a hundred thousand, and
//! nothing is asked of anybody. Of objects that are ready there is one count; of the others the seconds since when they
//! wait are kept, each once.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, Hash};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use api::key::ObjectKey;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;

use super::stand::{Stage, Stand};
use crate::clock::Clock;
use crate::feed::{Feed, Project};
use crate::lease::Leadership;
use crate::manager::Manager;
use crate::telemetry::{Metrics, gauges};

#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct Kind {
    room: &'static str,
    kind: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct Standing {
    room: &'static str,
    kind: &'static str,
    state: &'static str,
    reason: &'static str,
}

/// A room and a kind.
type Place = (&'static str, &'static str);

/// From what is done at once to what takes days.
fn seconds() -> Histogram {
    Histogram::new([1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0, 86_400.0])
}

/// The objects that stand alike.
#[derive(Debug, Default)]
struct Alike {
    count: u64,
    /// How many wait since each second; of those that are ready nobody asks.
    since: BTreeMap<u32, u32>,
}

/// The objects of one kind.
#[derive(Debug, Default)]
struct Tally(BTreeMap<(Stage, &'static str), Alike>);

impl Tally {
    fn add(&mut self, stand: Stand) {
        let alike = self.0.entry((stand.stage(), stand.reason())).or_default();
        alike.count += 1;
        if stand.stage() != Stage::Ready {
            *alike.since.entry(stand.since()).or_default() += 1;
        }
    }

    fn take(&mut self, stand: Stand) {
        let place = (stand.stage(), stand.reason());
        let Some(alike) = self.0.get_mut(&place) else { return };
        alike.count = alike.count.saturating_sub(1);
        if let Some(count) = alike.since.get_mut(&stand.since()) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                alike.since.remove(&stand.since());
            }
        }
        if alike.count == 0 {
            self.0.remove(&place);
        }
    }
}

/// How long objects of each kind waited.
type Waits = Family<Kind, Histogram, fn() -> Histogram>;

/// The rolls of all rooms of a process.
#[derive(Default)]
struct Rolls {
    shown: OnceLock<Waits>,
    tallies: Arc<Mutex<BTreeMap<Place, Arc<Mutex<Tally>>>>>,
}

impl Rolls {
    /// Shows them, the first time it is called; gives the waits that have ended.
    fn waits(&self, metrics: &Metrics, clock: &Clock) -> Waits {
        let shown = self.shown.get_or_init(|| {
            let waits: Waits = Family::new_with_constructor(seconds);
            metrics.register("room_ready_seconds", "How long objects waited until they were ready", waits.clone());
            metrics.register_collector(Counted { tallies: Arc::clone(&self.tallies), clock: clock.clone() });
            waits
        });
        shown.clone()
    }

    fn tally(&self, place: Place) -> Arc<Mutex<Tally>> {
        Arc::clone(held(&self.tallies).entry(place).or_default())
    }
}

struct Counted {
    tallies: Arc<Mutex<BTreeMap<Place, Arc<Mutex<Tally>>>>>,
    clock: Clock,
}

impl std::fmt::Debug for Counted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Counted")
    }
}

impl Collector for Counted {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let now = self.clock.now().as_second();
        let (mut counts, mut oldest) = (BTreeMap::new(), BTreeMap::new());
        for ((room, kind), tally) in held(&self.tallies).iter() {
            let labels = |state: Stage, reason: &'static str| Standing { room, kind, state: state.as_str(), reason };
            // That none is ready is worth a line; reasons come and go.
            counts.insert(labels(Stage::Ready, ""), 0);
            for ((stage, reason), alike) in &held(tally).0 {
                counts.insert(labels(*stage, reason), i64::try_from(alike.count).unwrap_or(i64::MAX));
                if let Some((since, _)) = alike.since.first_key_value() {
                    oldest.insert(labels(*stage, reason), now.saturating_sub(i64::from(*since)).max(0));
                }
            }
        }
        gauges(&mut encoder, "room_objects", "Objects by how they stand", counts)?;
        gauges(&mut encoder, "room_oldest_wait_seconds", "For how long the oldest of them has stood like this", oldest)
    }
}

fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The objects of one kind that a room looks after. A pass or a feed says how each stands.
pub struct Roll {
    place: Kind,
    tally: Arc<Mutex<Tally>>,
    waits: Waits,
    clock: Clock,
    leadership: Leadership,
    told: Mutex<HashMap<u64, Stand>>,
    hashes: RandomState,
}

impl std::fmt::Debug for Roll {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Roll").field(&self.place).finish()
    }
}

impl Roll {
    /// The roll of a kind in a room, none of which has been counted yet.
    #[must_use]
    pub fn open(manager: &Manager, room: &'static str, kind: &'static str) -> Self {
        let rolls = manager.common::<Rolls>();
        let waits = rolls.waits(manager.metrics(), manager.clock());
        Self {
            place: Kind { room, kind },
            tally: rolls.tally((room, kind)),
            waits,
            clock: manager.clock().clone(),
            leadership: manager.leadership(),
            told: Mutex::default(),
            hashes: RandomState::new(),
        }
    }

    /// Counts the objects of a feed, each as `judge` says; those of which it says nothing are somebody else's. To be
    /// called before the feed is filled.
    pub fn follow<P: Project>(
        self,
        feed: &Feed<P>,
        judge: impl Fn(&ObjectKey, &P::Slim) -> Option<Stand> + Send + Sync + 'static,
    ) {
        feed.observe(move |delta| {
            let stand = |slim: &Option<Arc<P::Slim>>| judge(&delta.key, slim.as_deref()?);
            self.moved(stand(&delta.old), stand(&delta.new));
        });
    }

    /// An object that no feed can judge was found to stand like this; `None` when it is gone, or not the room's any more.
    /// Of the object a number is kept.
    pub fn tell(&self, object: &impl Hash, stand: Option<Stand>) {
        let number = self.hashes.hash_one(object);
        let mut told = held(&self.told);
        let old = told.get(&number).copied();
        let new = match (stand, old) {
            (Some(new), Some(old)) => Some(new.lasting(old)),
            (new, _) => new,
        };
        match new {
            Some(new) => told.insert(number, new),
            None => told.remove(&number),
        };
        // Still under the lock: two that tell of one object are counted in their order.
        self.moved(old, new);
    }

    fn moved(&self, old: Option<Stand>, new: Option<Stand>) {
        if old == new {
            return;
        }
        {
            let mut tally = held(&self.tally);
            if let Some(old) = old {
                tally.take(old);
            }
            if let Some(new) = new {
                tally.add(new);
            }
        }
        // What was ready when this process began was counted by another one, and every replica sees it: the one that
        // decides counts.
        let (Some(old), Some(new)) = (old, new) else { return };
        if old.stage() == Stage::Waiting && new.stage() == Stage::Ready && self.leadership.leads() {
            let now = self.clock.now().as_millisecond();
            let took = now.saturating_sub(i64::from(old.since()).saturating_mul(1_000)).max(0);
            self.waits.get_or_create(&self.place).observe(took as f64 / 1_000.0);
        }
    }
}

#[cfg(test)]
mod tests;
