//! How long to leave a failing key alone.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::clock::Clock;

/// How soon a room tries again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// The first delay after a failure (half of it fixed, half of it jitter); it doubles.
    pub first: Duration,
    /// No delay of our own is longer.
    pub longest: Duration,
    /// A view that was stale is looked at again after this at least, without counting as a failure.
    pub stale: Duration,
    /// And with this much jitter on top.
    pub stale_jitter: Duration,
}

impl Pace {
    /// What suits most rooms: from a second to five minutes.
    pub const USUAL: Self = Self {
        first: Duration::from_secs(1),
        longest: Duration::from_secs(300),
        stale: Duration::from_millis(100),
        stale_jitter: Duration::from_millis(100),
    };
}

/// A server may ask for more than [`Pace::longest`], but not for more than this: a broken `Retry-After` must not park a key for ever.
pub const LONGEST_ASKED: Duration = Duration::from_secs(3600);

/// So many looks in a row at a view that is behind are taken for a race that is about to end.
pub const RACES: u32 = 10;

/// More failing keys than this are not told apart: each further one waits the longest.
const REMEMBERED: usize = 100_000;

/// The failures in a row of each key; forget a key on success and when its object is gone.
#[derive(Debug)]
pub struct Backoff<K> {
    clock: Clock,
    pace: Pace,
    failures: Mutex<HashMap<K, u32>>,
    lags: Mutex<HashMap<K, u32>>,
    remembered: usize,
}

impl<K: Eq + Hash> Backoff<K> {
    /// Nothing has failed yet.
    #[must_use]
    pub fn new(clock: Clock, pace: Pace) -> Self {
        Self::remembering(clock, pace, REMEMBERED)
    }

    fn remembering(clock: Clock, pace: Pace, remembered: usize) -> Self {
        Self { clock, pace, failures: Mutex::default(), lags: Mutex::default(), remembered }
    }

    /// Counts a failure and says how long to wait: doubling from the pace's first delay to its longest, half of it
    /// jitter, never less than `at_least` (what the server asked for).
    pub fn fail(&self, key: K, at_least: Option<Duration>) -> Duration {
        self.lags().remove(&key);
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
        let whole = self.pace.first.saturating_mul(factor).min(self.pace.longest);
        let jitter = self.clock.jitter(whole / 2);
        let asked = at_least.unwrap_or(Duration::ZERO).min(LONGEST_ASKED);
        // The jitter goes on top of what was asked too, or all keys of one throttled client come back together.
        (whole / 2).max(asked) + jitter
    }

    /// How long to wait for a view to catch up; no failure is counted. A view that stays behind has missed a change, and shows
    /// it only when everything is listed again: after [`RACES`] looks in a row the pause doubles, up to the pace's longest.
    #[must_use]
    pub fn stale(&self, key: K) -> Duration {
        let looks = {
            let mut lags = self.lags();
            let full = lags.len() >= self.remembered && !lags.contains_key(&key);
            if full {
                RACES
            } else {
                let looks = lags.entry(key).or_default();
                *looks = looks.saturating_add(1);
                *looks
            }
        };
        let factor = 1u32.checked_shl(looks.saturating_sub(RACES)).unwrap_or(u32::MAX);
        let whole = self.pace.stale.saturating_mul(factor).min(self.pace.longest.max(self.pace.stale));
        whole + self.clock.jitter(self.pace.stale_jitter)
    }

    /// The key succeeded: its next failure is the first again.
    pub fn reset(&self, key: &K) {
        self.failures().remove(key);
        self.lags().remove(key);
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

    fn lags(&self) -> MutexGuard<'_, HashMap<K, u32>> {
        self.lags.lock().unwrap_or_else(PoisonError::into_inner)
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

    const FIRST: Duration = Pace::USUAL.first;
    const LONGEST: Duration = Pace::USUAL.longest;

    fn clock(seed: u64) -> Clock {
        Clock::simulated(Timestamp::UNIX_EPOCH, seed)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn delays_double_to_five_minutes_with_half_jitter(seed: u64, times in 1u32..80) {
            let backoff = Backoff::new(clock(seed), Pace::USUAL);
            for n in 0..times {
                let whole = Duration::from_secs(2u64.saturating_pow(n).min(300));
                let delay = backoff.fail("a", None);
                prop_assert!(delay >= whole / 2 && delay < whole, "failure {}: {:?}", n + 1, delay);
            }
            prop_assert_eq!(backoff.count(&"a"), times);
        }

        #[test]
        fn a_wait_the_server_asked_for_is_honoured_within_an_hour(seed: u64, times in 0u32..12, secs in 0u64..u64::MAX) {
            let backoff = Backoff::new(clock(seed), Pace::USUAL);
            for _ in 0..times { backoff.fail(1, None); }
            let asked = Duration::from_secs(secs);
            let delay = backoff.fail(1, Some(asked));
            prop_assert!(delay >= asked.min(LONGEST_ASKED));
            prop_assert!(delay <= LONGEST_ASKED + LONGEST / 2);
        }

        #[test]
        fn success_and_deletion_start_again_and_keys_do_not_share(seed: u64, times in 1u32..20, gone: bool) {
            let backoff = Backoff::new(clock(seed), Pace::USUAL);
            for _ in 0..times { backoff.fail(1, None); }
            backoff.fail(2, None);
            if gone { backoff.forget(&1) } else { backoff.reset(&1) }
            prop_assert_eq!(backoff.len(), 1);
            prop_assert!(backoff.fail(1, None) < FIRST);
            prop_assert_eq!(backoff.count(&2), 1);
        }

        #[test]
        fn races_are_waited_out_soon_and_views_that_stay_behind_ever_more_rarely(seed: u64, least in 1u64..90) {
            let jitter = Duration::from_millis(100 - least);
            let pace = Pace { stale: Duration::from_millis(least), stale_jitter: jitter, ..Pace::USUAL };
            let backoff = Backoff::new(clock(seed), pace);
            for n in 1..80 {
                let doubled = 1u32.checked_shl(u32::saturating_sub(n, RACES)).unwrap_or(u32::MAX);
                let whole = pace.stale.saturating_mul(doubled).min(LONGEST);
                let delay = backoff.stale(1);
                prop_assert!(delay >= whole && delay <= whole + jitter, "look {n}: {delay:?}");
            }
            // Other keys and what comes after a success begin anew, and nothing counts as a failure.
            prop_assert!(backoff.stale(2) <= pace.stale + jitter);
            backoff.reset(&1);
            prop_assert!(backoff.stale(1) <= pace.stale + jitter);
            prop_assert!(backoff.is_empty());
        }
    }

    #[test]
    fn memory_is_bounded_and_further_keys_wait_the_longest() {
        let backoff = Backoff::remembering(clock(1), Pace::USUAL, 3);
        for key in 0..3 {
            assert!(backoff.fail(key, None) < FIRST);
        }
        assert!(backoff.fail(9, None) >= LONGEST / 2);
        assert_eq!(backoff.len(), 3);
        backoff.reset(&0);
        assert!(backoff.fail(9, None) < FIRST);
    }
}
