//! Who may call now: so many requests at once per server, so many per second per user.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use kit::bucket::Limiter;
use kit::clock::Clock;
use tokio::sync::Semaphore;

use crate::limits::Limits;

/// Gates that are remembered; those that nobody uses make room.
const REMEMBERED: usize = 256;

/// The way to one server for one user.
#[derive(Clone, Debug)]
pub(crate) struct Gate {
    pub(crate) slots: Arc<Semaphore>,
    pub(crate) line: Arc<Limiter>,
}

/// All gates of a process.
#[derive(Debug)]
pub(crate) struct Gates {
    clock: Clock,
    limits: Limits,
    slots: Mutex<BTreeMap<String, Arc<Semaphore>>>,
    lines: Mutex<BTreeMap<(String, String), Arc<Limiter>>>,
}

impl Gates {
    pub(crate) fn new(clock: Clock, limits: Limits) -> Self {
        Self { clock, limits, slots: Mutex::default(), lines: Mutex::default() }
    }

    /// The gate of a server and a user.
    pub(crate) fn of(&self, url: &str, user: &str) -> Gate {
        let slots = || Arc::new(Semaphore::new(self.limits.at_once.max(1)));
        let line = || Arc::new(Limiter::new(self.clock.clone(), self.limits.burst, self.limits.per_second));
        Gate {
            slots: kept(&self.slots, url.to_owned(), slots),
            line: kept(&self.lines, (url.to_owned(), user.to_owned()), line),
        }
    }
}

fn kept<K: Ord, V>(all: &Mutex<BTreeMap<K, Arc<V>>>, key: K, make: impl FnOnce() -> Arc<V>) -> Arc<V> {
    let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
    if all.len() >= REMEMBERED {
        all.retain(|_, value| Arc::strong_count(value) > 1);
    }
    Arc::clone(all.entry(key).or_insert_with(make))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_share_the_slots_of_a_server_but_not_their_lines() {
        let gates = Gates::new(Clock::system(), Limits::SHIPPED);
        let (a, b, c) = (gates.of("u", "a"), gates.of("u", "b"), gates.of("v", "a"));
        assert!(Arc::ptr_eq(&a.slots, &b.slots) && !Arc::ptr_eq(&a.slots, &c.slots));
        assert!(!Arc::ptr_eq(&a.line, &b.line) && !Arc::ptr_eq(&a.line, &c.line));
        assert!(Arc::ptr_eq(&a.line, &gates.of("u", "a").line));
    }
}
