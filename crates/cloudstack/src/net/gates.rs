//! Who may call now: so many requests at once per server, so many per second per user.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use kit::bucket::{Fill, Limiter};
use kit::clock::Clock;
use tokio::sync::Semaphore;

use crate::limits::Limits;
use crate::profile::host_of;

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

    /// How full the buckets of each server are: of all users the emptiest, with those who wait for any.
    pub(crate) fn fills(&self) -> BTreeMap<String, Fill> {
        let mut all: BTreeMap<String, Fill> = BTreeMap::new();
        for ((url, _), line) in self.lines.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let fill = line.fill();
            all.entry(host_of(url)).and_modify(|known| *known = known.worse(fill)).or_insert(fill);
        }
        all
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

    #[tokio::test(start_paused = true)]
    async fn of_all_users_of_a_server_the_emptiest_bucket_is_told() {
        let gates = Gates::new(Clock::simulated(jiff::Timestamp::UNIX_EPOCH, 1), Limits::SHIPPED);
        assert!(gates.fills().is_empty());
        gates.of("https://a:8443/client/api", "one");
        assert!(gates.of("https://a:8443/client/api", "other").line.try_take(4));
        gates.of("https://b/client/api", "one");
        let fill = |tokens| Fill { tokens, size: 10, waiting: 0 };
        assert_eq!(gates.fills(), [("a:8443".to_owned(), fill(6)), ("b".to_owned(), fill(10))].into());
    }

    #[test]
    fn users_share_the_slots_of_a_server_but_not_their_lines() {
        let gates = Gates::new(Clock::system(), Limits::SHIPPED);
        let (a, b, c) = (gates.of("u", "a"), gates.of("u", "b"), gates.of("v", "a"));
        assert!(Arc::ptr_eq(&a.slots, &b.slots) && !Arc::ptr_eq(&a.slots, &c.slots));
        assert!(!Arc::ptr_eq(&a.line, &b.line) && !Arc::ptr_eq(&a.line, &c.line));
        assert!(Arc::ptr_eq(&a.line, &gates.of("u", "a").line));
    }
}
