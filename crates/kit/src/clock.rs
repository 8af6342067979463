//! The only code that reads a clock or rolls dice.
//!
//! Everything else is given a [`Clock`]. Monotonic time is tokio's, so a test that pauses the runtime owns both
//! clocks: the wall time of [`Clock::simulated`] is derived from the monotonic one and moves only with it.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

/// Wall time, monotonic time and random numbers, from one place that a test can own.
#[derive(Clone, Debug)]
pub struct Clock {
    wall: Wall,
    dice: Arc<Mutex<u64>>,
}

#[derive(Clone, Copy, Debug)]
enum Wall {
    System,
    Simulated { base: Timestamp, origin: Instant },
}

impl Clock {
    /// The machine's clocks and a random seed of this process.
    #[must_use]
    pub fn system() -> Self {
        Self::with(Wall::System, RandomState::new().hash_one("berth"))
    }

    /// A clock that starts at `base`, moves with tokio's (possibly paused) time and rolls dice from `seed`.
    #[must_use]
    pub fn simulated(base: Timestamp, seed: u64) -> Self {
        Self::with(Wall::Simulated { base, origin: instant() }, seed)
    }

    fn with(wall: Wall, seed: u64) -> Self {
        Self { wall, dice: Arc::new(Mutex::new(seed)) }
    }

    /// Wall time, for stored timestamps and certificate expiry. Never subtract two of these to get an interval.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        match self.wall {
            #[expect(clippy::disallowed_methods, reason = "this file owns the wall clock")]
            Wall::System => Timestamp::now(),
            Wall::Simulated { base, origin } => {
                base.saturating_add(instant().saturating_duration_since(origin)).unwrap_or(base)
            }
        }
    }

    /// Monotonic time, for every interval, deadline and back-off.
    #[must_use]
    pub fn instant(&self) -> Instant {
        instant()
    }

    /// The next random number (splitmix64: small, seedable, good enough to spread work; never for secrets).
    #[must_use]
    pub fn roll(&self) -> u64 {
        let mut state = self.dice.lock().unwrap_or_else(PoisonError::into_inner);
        *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = *state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A random duration in `[0, limit)`; zero when `limit` is zero.
    #[must_use]
    pub fn jitter(&self, limit: Duration) -> Duration {
        let nanos = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(self.roll().checked_rem(nanos).unwrap_or(0))
    }
}

#[expect(clippy::disallowed_methods, reason = "this file owns the monotonic clock")]
fn instant() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn simulated_wall_time_moves_only_with_the_runtime() {
        let base: Timestamp = "2030-01-01T00:00:00Z".parse().expect("a valid timestamp");
        let clock = Clock::simulated(base, 1);
        assert_eq!(clock.now(), base);
        tokio::time::advance(Duration::from_secs(90)).await;
        assert_eq!(clock.now().to_string(), "2030-01-01T00:01:30Z");
    }

    #[test]
    fn equal_seeds_roll_equal_numbers_and_jitter_stays_below_its_limit() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        runtime.block_on(async {
            let (a, b) = (Clock::simulated(Timestamp::UNIX_EPOCH, 7), Clock::simulated(Timestamp::UNIX_EPOCH, 7));
            for _ in 0..1000 {
                assert_eq!(a.roll(), b.roll());
                assert!(a.jitter(Duration::from_millis(3)) < Duration::from_millis(3));
                let _ = b.roll();
            }
            assert_eq!(a.jitter(Duration::ZERO), Duration::ZERO);
        });
    }
}
