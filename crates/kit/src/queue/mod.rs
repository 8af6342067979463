//! Which key is worked on next: a deduplicating queue with due times, one worker per key and two priorities.
//!
//! [`Queue`] is plain data driven by the instants it is given; [`Work`] is the shell that workers wait on.

mod work;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::time::Duration;

use tokio::time::Instant;

pub use work::{Depth, Turn, Work, slot};

/// A key is started again no sooner than this after its last start, unless the queue was built with another spacing.
pub const SPACING: Duration = Duration::from_millis(100);

/// While both priorities are due, every eighth turn belongs to the background.
const URGENT_RUN: u8 = 7;

/// Who waits for the result: somebody, or nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// Deletions, edits, events: goes first.
    Urgent,
    /// Resyncs and housekeeping: guaranteed one turn in eight while urgent work is due too.
    Background,
}

/// The order of work as a value: keys with due times, never two workers on one key.
#[derive(Debug)]
pub struct Queue<K> {
    spacing: Duration,
    entries: HashMap<K, Entry>,
    urgent: Lane<K>,
    background: Lane<K>,
    /// Free keys without work whose last start still holds back the next one, by the end of that wait.
    cooling: Lane<K>,
    seq: u64,
    run: u8,
    busy: usize,
    /// How many of the busy keys were handed out as background, and how many may be.
    behind: usize,
    behind_at_most: usize,
    waiting: usize,
}

type Place = (Instant, u64);
type Lane<K> = BTreeMap<Place, K>;

#[derive(Debug, Default)]
struct Entry {
    asked: Option<Asked>,
    started: Option<Instant>,
    busy: bool,
    /// Whether the worker that has it was lent to the background.
    behind: bool,
    /// Whether its last start did not count.
    excused: bool,
    /// Where the key stands in its lane (or among the cooling); none while a worker has it.
    place: Option<Place>,
}

#[derive(Clone, Copy, Debug)]
struct Asked {
    when: Instant,
    priority: Priority,
    seq: u64,
}

impl<K: Clone + Eq + Hash + Ord> Default for Queue<K> {
    fn default() -> Self {
        Self::new(SPACING)
    }
}

impl<K: Clone + Eq + Hash + Ord> Queue<K> {
    /// An empty queue that leaves at least `spacing` between two starts of one key.
    #[must_use]
    pub fn new(spacing: Duration) -> Self {
        Self {
            spacing,
            entries: HashMap::new(),
            urgent: Lane::new(),
            background: Lane::new(),
            cooling: Lane::new(),
            seq: 0,
            run: 0,
            busy: 0,
            behind: 0,
            behind_at_most: usize::MAX,
            waiting: 0,
        }
    }

    /// From now on so many keys of the background may be busy at once, at least one.
    pub fn limit_background(&mut self, at_most: usize) {
        self.behind_at_most = at_most.max(1);
    }

    /// Asks for `key` at `when`: of two due times the earlier wins, of two priorities the urgent one.
    pub fn add(&mut self, key: K, when: Instant, priority: Priority) {
        let entry = self.entries.entry(key.clone()).or_default();
        let merged = match entry.asked {
            None => {
                self.waiting += 1;
                (when, priority)
            }
            Some(old) if old.when <= when && old.priority <= priority => return,
            Some(old) => (old.when.min(when), old.priority.min(priority)),
        };
        self.seq += 1;
        let before = entry.asked;
        let asked = Asked { when: merged.0, priority: merged.1, seq: self.seq };
        entry.asked = Some(asked);
        if entry.busy {
            return;
        }
        let old = entry.place.take();
        let due = entry.started.map_or(asked.when, |started| asked.when.max(started + self.spacing));
        let place = (due, asked.seq);
        entry.place = Some(place);
        if let Some(old) = old {
            self.lane(before.map(|b| b.priority)).remove(&old);
        }
        self.lane(Some(asked.priority)).insert(place, key);
    }

    /// The next free key that is due, now busy until [`Queue::done`]; or how long to sleep (`None`: nothing is scheduled
    /// before a key is done).
    pub fn take(&mut self, now: Instant) -> Result<K, Option<Duration>> {
        self.sweep(now);
        let first = |lane: &Lane<K>| lane.first_key_value().map(|((due, _), _)| *due);
        let (urgent, mut background) = (first(&self.urgent), first(&self.background));
        if self.behind >= self.behind_at_most {
            background = None;
        }
        let due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        let (lane, behind) = match (due(urgent), due(background)) {
            (true, true) if self.run < URGENT_RUN => {
                self.run += 1;
                (&mut self.urgent, false)
            }
            (true, false) => (&mut self.urgent, false),
            (_, true) => {
                self.run = 0;
                (&mut self.background, true)
            }
            (false, false) => {
                let next = urgent.into_iter().chain(background).min();
                return Err(next.map(|at| at.saturating_duration_since(now)));
            }
        };
        let Some((_, key)) = lane.pop_first() else { return Err(None) };
        let entry = self.entries.entry(key.clone()).or_default();
        *entry = Entry { asked: None, started: Some(now), busy: true, behind, excused: entry.excused, place: None };
        self.busy += 1;
        self.behind += usize::from(behind);
        self.waiting -= 1;
        Ok(key)
    }

    /// The worker is finished with `key`; what was asked meanwhile is still there. A key that is not busy is left alone.
    pub fn done(&mut self, key: &K, now: Instant) {
        self.end(key, now, false);
    }

    /// The same, but the worker came too early to do anything: what it waits for may start the key without delay. Two such
    /// starts in a row count as one, so that a key that comes too early again and again keeps its spacing.
    pub fn done_too_early(&mut self, key: &K, now: Instant) {
        self.end(key, now, true);
    }

    fn end(&mut self, key: &K, now: Instant, too_early: bool) {
        let Some(entry) = self.entries.get_mut(key).filter(|entry| entry.busy) else { return };
        entry.excused = too_early && !entry.excused;
        if entry.excused {
            entry.started = None;
        }
        entry.busy = false;
        self.busy -= 1;
        self.behind -= usize::from(std::mem::take(&mut entry.behind));
        let held_until = entry.started.map(|started| started + self.spacing);
        let (place, priority) = match entry.asked {
            Some(asked) => ((held_until.map_or(asked.when, |at| asked.when.max(at)), asked.seq), Some(asked.priority)),
            None => {
                self.seq += 1;
                ((held_until.unwrap_or(now), self.seq), None)
            }
        };
        entry.place = Some(place);
        self.lane(priority).insert(place, key.clone());
        self.sweep(now);
    }

    /// How many keys wait, due or not, those behind their own busy worker included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting
    }

    /// True when no key waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// How many keys are with a worker.
    #[must_use]
    pub fn busy(&self) -> usize {
        self.busy
    }

    /// For how long the key that has waited longest has been due; zero when none is.
    #[must_use]
    pub fn late(&self, now: Instant) -> Duration {
        let lanes = [&self.urgent, &self.background].into_iter();
        let first = lanes.filter_map(|lane| lane.first_key_value()).map(|((due, _), _)| *due).min();
        first.map_or(Duration::ZERO, |due| now.saturating_duration_since(due))
    }

    fn lane(&mut self, priority: Option<Priority>) -> &mut Lane<K> {
        match priority {
            Some(Priority::Urgent) => &mut self.urgent,
            Some(Priority::Background) => &mut self.background,
            None => &mut self.cooling,
        }
    }

    /// Nothing is kept for a key that is idle past its spacing.
    fn sweep(&mut self, now: Instant) {
        while let Some(first) = self.cooling.first_entry() {
            if first.key().0 > now {
                break;
            }
            self.entries.remove(&first.remove());
        }
    }

    /// How many keys the queue remembers anything about.
    #[cfg(test)]
    fn remembered(&self) -> usize {
        self.entries.len()
    }
}
