//! The shell around the queue: a mutex, a wake-up and any number of workers.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::time::{Instant, timeout};

use super::{Priority, Queue, SPACING};
use crate::clock::Clock;

/// The queue that feeds add to and workers wait on; share it in an [`Arc`].
///
/// At least one idle worker always sleeps no longer than the first due time: whoever takes a key, adds one, finishes
/// one or stops waiting wakes the next.
#[derive(Debug)]
pub struct Work<K: Clone + Eq + Hash + Ord> {
    clock: Clock,
    state: Mutex<State<K>>,
    wake: Notify,
}

#[derive(Debug)]
struct State<K> {
    queue: Queue<K>,
    paused: bool,
}

/// What the metrics show of a queue at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Depth {
    /// Keys that wait, due or not.
    pub waiting: usize,
    /// Keys with a worker.
    pub busy: usize,
    /// For how long the key that has waited longest has been due.
    pub late: Duration,
}

impl<K: Clone + Eq + Hash + Ord> Work<K> {
    /// An empty queue with the default spacing.
    #[must_use]
    pub fn new(clock: Clock) -> Arc<Self> {
        Self::with_spacing(clock, SPACING)
    }

    /// An empty queue that leaves at least `spacing` between two starts of one key.
    #[must_use]
    pub fn with_spacing(clock: Clock, spacing: Duration) -> Arc<Self> {
        let state = State { queue: Queue::new(spacing), paused: false };
        Arc::new(Self { clock, state: Mutex::new(state), wake: Notify::new() })
    }

    /// From now on so many keys of the background may be busy at once, at least one.
    pub fn limit_background(&self, at_most: usize) {
        self.state().queue.limit_background(at_most);
    }

    /// Asks for `key` as soon as a worker is free.
    pub fn add_now(&self, key: K, priority: Priority) {
        self.add_at(key, self.clock.instant(), priority);
    }

    /// Asks for `key` at `when`; an earlier time already asked for stands.
    pub fn add_at(&self, key: K, when: Instant, priority: Priority) {
        self.state().queue.add(key, when, priority);
        self.wake.notify_one();
    }

    /// Asks for `key` after `delay`.
    pub fn add_after(&self, key: K, delay: Duration, priority: Priority) {
        // A delay beyond the clock's range is as good as a year.
        let now = self.clock.instant();
        let when = now.checked_add(delay).unwrap_or(now + Duration::from_secs(31_536_000));
        self.add_at(key, when, priority);
    }

    /// The next due key, busy until the turn is dropped. Dropping the future loses nothing.
    pub async fn next(self: &Arc<Self>) -> Turn<K> {
        loop {
            let wake = self.wake.notified();
            let sleep = {
                let mut state = self.state();
                if state.paused {
                    None
                } else {
                    match state.queue.take(self.clock.instant()) {
                        Ok(key) => {
                            if !state.queue.is_empty() {
                                self.wake.notify_one();
                            }
                            return Turn { key, work: Arc::clone(self), too_early: false };
                        }
                        Err(sleep) => sleep,
                    }
                }
            };
            Handover { work: self }.wait(wake, sleep).await;
        }
    }

    /// Stops handing out keys; they gather until [`Work::resume`]. Turns already handed out go on.
    pub fn pause(&self) {
        self.state().paused = true;
    }

    /// Hands out keys again.
    pub fn resume(&self) {
        self.state().paused = false;
        self.wake.notify_one();
    }

    /// What the metrics show.
    #[must_use]
    pub fn depth(&self) -> Depth {
        let state = self.state();
        Depth { waiting: state.queue.len(), busy: state.queue.busy(), late: state.queue.late(self.clock.instant()) }
    }

    fn done(&self, key: &K, too_early: bool) {
        let now = self.clock.instant();
        let mut state = self.state();
        match too_early {
            true => state.queue.done_too_early(key, now),
            false => state.queue.done(key, now),
        }
        drop(state);
        self.wake.notify_one();
    }

    fn state(&self) -> MutexGuard<'_, State<K>> {
        // The queue holds no invariant across a panic of a caller: every change is finished before the lock is given up.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Passes the watch over the next due time on when its holder stops waiting for any reason.
struct Handover<'a, K: Clone + Eq + Hash + Ord> {
    work: &'a Work<K>,
}

impl<K: Clone + Eq + Hash + Ord> Handover<'_, K> {
    async fn wait(self, wake: Notified<'_>, sleep: Option<Duration>) {
        match sleep {
            None => wake.await,
            Some(sleep) => drop(timeout(sleep, wake).await),
        }
        // Not cancelled: this worker looks at the queue itself.
        std::mem::forget(self);
    }
}

impl<K: Clone + Eq + Hash + Ord> Drop for Handover<'_, K> {
    fn drop(&mut self) {
        self.work.wake.notify_one();
    }
}

/// One key with its only worker; dropping it, also by a panic, frees the key.
pub struct Turn<K: Clone + Eq + Hash + Ord> {
    key: K,
    work: Arc<Work<K>>,
    too_early: bool,
}

impl<K: Clone + Eq + Hash + Ord> Turn<K> {
    /// Gives the key back: there was nothing to do yet, and what there will be to do need not wait because of that.
    pub fn too_early(mut self) {
        self.too_early = true;
    }

    /// The key to work on.
    #[must_use]
    pub fn key(&self) -> &K {
        &self.key
    }
}

impl<K: Clone + Eq + Hash + Ord> Deref for Turn<K> {
    type Target = K;

    fn deref(&self) -> &K {
        &self.key
    }
}

impl<K: Clone + Eq + Hash + Ord + fmt::Debug> fmt::Debug for Turn<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Turn").field(&self.key).finish()
    }
}

impl<K: Clone + Eq + Hash + Ord> Drop for Turn<K> {
    fn drop(&mut self) {
        self.work.done(&self.key, self.too_early);
    }
}

/// Which of `slots` turns of a resync `key` belongs to: always the same for one key, in every process, and spread so that
/// many keys do not fall due together.
#[must_use]
pub fn slot<K: Hash + ?Sized>(key: &K, slots: u64) -> u64 {
    let mut hash = Fnv(0xCBF2_9CE4_8422_2325);
    key.hash(&mut hash);
    // The low bits of FNV are weak for short keys: mix once more.
    let mut mixed = hash.finish();
    mixed = (mixed ^ (mixed >> 33)).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    mixed ^= mixed >> 33;
    mixed.checked_rem(slots).unwrap_or(0)
}

/// FNV-1a: the standard hasher is seeded per process and would move every resync at a restart.
struct Fnv(u64);

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3);
        }
    }
}
