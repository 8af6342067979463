//! How long to leave a failing key alone.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::clock::Clock;

/// The first delay (half of it fixed, half of it jitter).
pub const FIRST: Duration = Duration::from_secs(1);

/// No delay of our own is longer.
pub const LONGEST: Duration = Duration::from_secs(300);

/// A server may ask for more than [`LONGEST`], but not for more than this: a broken `Retry-After` must not park a key for ever.
pub const LONGEST_ASKED: Duration = Duration::from_secs(3600);

/// A view that was stale is looked at again after this (half of it jitter), without counting as a failure.
pub const STALE: Duration = Duration::from_millis(200);

/// More failing keys than this are not told apart: each further one waits the longest.
const REMEMBERED: usize = 100_000;

/// The failures in a row of each key; forget a key on success and when its object is gone.
#[derive(Debug)]
pub struct Backoff<K> {
    clock: Clock,
    failures: Mutex<HashMap<K, u32>>,
    remembered: usize,
}

impl<K: Eq + Hash> Backoff<K> {
    /// Nothing has failed yet.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        Self::remembering(clock, REMEMBERED)
    }

    fn remembering(clock: Clock, remembered: usize) -> Self {
        Self { clock, failures: Mutex::new(HashMap::new()), remembered }
    }

    /// Counts a failure and says how long to wait: doubling from [`FIRST`] to [`LONGEST`], half of it jitter, never
    /// less than `at_least` (what the server asked for).
    pub fn fail(&self, key: K, at_least: Option<Duration>) -> Duration {
        let count = {
            let mut failures = self.failures();
            let full = failures.len() >= self.remembered;
            match failures.get_mut(&key) {
                Some(count) => {
                    *count = count.saturating_add(1);
                    *count
                }
                None if full => u32::MAX,
                None => {
                    failures.insert(key, 1);
                    1
                }
            }
        };
        let factor = 1u32.checked_shl(count.saturating_sub(1)).unwrap_or(u32::MAX);
        let whole = FIRST.saturating_mul(factor).min(LONGEST);
        let jitter = self.clock.jitter(whole / 2);
        let asked = at_least.unwrap_or(Duration::ZERO).min(LONGEST_ASKED);
        // The jitter goes on top of what was asked too, or all keys of one throttled client come back together.
        (whole / 2).max(asked) + jitter
    }

    /// How long to wait for a view to catch up; no failure is counted.
    #[must_use]
    pub fn stale(&self) -> Duration {
        STALE / 2 + self.clock.jitter(STALE / 2)
    }

    /// The key succeeded: its next failure is the first again.
    pub fn reset(&self, key: &K) {
        self.failures().remove(key);
    }

    /// The object is gone: nothing of it is kept.
    pub fn forget(&self, key: &K) {
        self.reset(key);
    }

    /// Failures in a row of `key`.
    #[must_use]
    pub fn count(&self, key: &K) -> u32 {
        self.failures().get(key).copied().unwrap_or(0)
    }

    /// How many keys are failing.
    #[must_use]
    pub fn len(&self) -> usize {
        self.failures().len()
    }

    /// True when no key is failing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn failures(&self) -> MutexGuard<'_, HashMap<K, u32>> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use proptest::prelude::*;

    use super::*;

    fn clock(seed: u64) -> Clock {
        Clock::simulated(Timestamp::UNIX_EPOCH, seed)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn delays_double_to_five_minutes_with_half_jitter(seed: u64, times in 1u32..80) {
            let backoff = Backoff::new(clock(seed));
            for n in 0..times {
                let whole = Duration::from_secs(2u64.saturating_pow(n).min(300));
                let delay = backoff.fail("a", None);
                prop_assert!(delay >= whole / 2 && delay < whole, "failure {}: {:?}", n + 1, delay);
            }
            prop_assert_eq!(backoff.count(&"a"), times);
        }

        #[test]
        fn a_wait_the_server_asked_for_is_honoured_within_an_hour(seed: u64, times in 0u32..12, secs in 0u64..u64::MAX) {
            let backoff = Backoff::new(clock(seed));
            for _ in 0..times { backoff.fail(1, None); }
            let asked = Duration::from_secs(secs);
            let delay = backoff.fail(1, Some(asked));
            prop_assert!(delay >= asked.min(LONGEST_ASKED));
            prop_assert!(delay <= LONGEST_ASKED + LONGEST / 2);
        }

        #[test]
        fn success_and_deletion_start_again_and_keys_do_not_share(seed: u64, times in 1u32..20, gone: bool) {
            let backoff = Backoff::new(clock(seed));
            for _ in 0..times { backoff.fail(1, None); }
            backoff.fail(2, None);
            if gone { backoff.forget(&1) } else { backoff.reset(&1) }
            prop_assert_eq!(backoff.len(), 1);
            prop_assert!(backoff.fail(1, None) < FIRST);
            prop_assert_eq!(backoff.count(&2), 1);
        }

        #[test]
        fn stale_views_are_tried_again_soon_without_growth(seed: u64, times in 1u32..50) {
            let backoff = Backoff::<u8>::new(clock(seed));
            for _ in 0..times {
                let delay = backoff.stale();
                prop_assert!(delay >= STALE / 2 && delay < STALE);
            }
            prop_assert!(backoff.is_empty());
        }
    }

    #[test]
    fn memory_is_bounded_and_further_keys_wait_the_longest() {
        let backoff = Backoff::remembering(clock(1), 3);
        for key in 0..3 {
            assert!(backoff.fail(key, None) < FIRST);
        }
        assert!(backoff.fail(9, None) >= LONGEST / 2);
        assert_eq!(backoff.len(), 3);
        backoff.reset(&0);
        assert!(backoff.fail(9, None) < FIRST);
    }
}
