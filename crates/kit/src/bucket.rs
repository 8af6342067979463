//! Token buckets: how many requests a client may send, and who sends the next one.
//!
//! [`Bucket`] is plain integer arithmetic on the instants it is given; [`Limiter`] lets tasks wait for it in order.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use crate::clock::Clock;
use crate::queue::Priority;

/// One token in units of a millionth of a token per second, times one nanosecond: refills are exact integers.
const TOKEN: u128 = 1_000_000_000_000_000;

/// While throttled the rate grows by this part of the configured rate every [`STEP`].
const RECOVERY_PART: u64 = 20;

/// The pace of recovery, and the time within which several throttle answers count as one.
const STEP: Duration = Duration::from_secs(1);

/// The rate never falls below this part of the configured rate.
const FLOOR_PART: u64 = 64;

/// While both priorities wait, every eighth grant goes to the background.
const URGENT_RUN: u8 = 7;

/// A bucket that never grants more than its size plus its rate times the time, in any window.
#[derive(Clone, Debug)]
pub struct Bucket {
    size: u32,
    /// Millionths of a token per second.
    configured: u64,
    rate: u64,
    level: u128,
    at: Instant,
    /// When the rate grows next, while it is below the configured one.
    step_at: Instant,
    penalised: Option<Instant>,
}

impl Bucket {
    /// A full bucket of `size` tokens (at least one) that refills `per_second` (at least a millionth).
    #[must_use]
    pub fn new(size: u32, per_second: f64, now: Instant) -> Self {
        let size = size.max(1);
        // Casting saturates, and turns what is no number into zero.
        let configured = ((per_second * 1e6).round() as u64).max(1);
        let level = u128::from(size) * TOKEN;
        Self { size, configured, rate: configured, level, at: now, step_at: now, penalised: None }
    }

    /// Takes `n` tokens, or says how long until there will be enough; [`Duration::MAX`] when `n` exceeds the size.
    pub fn take(&mut self, n: u32, now: Instant) -> Result<(), Duration> {
        if n > self.size {
            return Err(Duration::MAX);
        }
        self.settle(now);
        let wanted = u128::from(n) * TOKEN;
        if self.level >= wanted {
            self.level -= wanted;
            return Ok(());
        }
        // A caller whose clock reads earlier than the last one waits from the last reading.
        let behind = self.at.saturating_duration_since(now);
        Err(behind.saturating_add(self.time_for(wanted - self.level)))
    }

    /// Takes `n` tokens if they are there.
    pub fn try_take(&mut self, n: u32, now: Instant) -> bool {
        self.take(n, now).is_ok()
    }

    /// The server said "too many": the bucket is empty and refills at half its rate, recovering step by step.
    /// Further answers within a second are the same overload and change nothing.
    pub fn penalise(&mut self, now: Instant) {
        self.settle(now);
        self.level = 0;
        if self.penalised.is_some_and(|last| now.saturating_duration_since(last) < STEP) {
            return;
        }
        self.penalised = Some(now);
        self.rate = (self.rate / 2).max(self.configured / FLOOR_PART).max(1);
        self.step_at = now + STEP;
    }

    /// Tokens per second at present.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.rate as f64 / 1e6
    }

    /// The size of the bucket: the most that can be taken at once.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.size
    }

    /// How many whole tokens there are.
    #[must_use]
    pub fn tokens(&self, now: Instant) -> u32 {
        let mut then = self.clone();
        then.settle(now);
        u32::try_from(then.level / TOKEN).unwrap_or(u32::MAX)
    }

    fn growth(&self) -> u64 {
        (self.configured / RECOVERY_PART).max(1)
    }

    fn settle(&mut self, now: Instant) {
        while self.rate < self.configured && self.step_at <= now {
            self.fill(self.step_at);
            self.rate = self.configured.min(self.rate.saturating_add(self.growth()));
            self.step_at += STEP;
        }
        self.fill(now);
    }

    fn fill(&mut self, to: Instant) {
        let nanos = to.saturating_duration_since(self.at).as_nanos();
        self.at = self.at.max(to);
        let gained = nanos.saturating_mul(u128::from(self.rate));
        self.level = self.level.saturating_add(gained).min(u128::from(self.size) * TOKEN);
    }

    fn time_for(&self, mut missing: u128) -> Duration {
        let (mut rate, mut from, mut step_at) = (self.rate, self.at, self.step_at);
        let mut waited = Duration::ZERO;
        loop {
            let nanos = missing.div_ceil(u128::from(rate));
            let wait = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
            let step = step_at.saturating_duration_since(from);
            if rate >= self.configured || wait <= step {
                return waited.saturating_add(wait);
            }
            missing = missing.saturating_sub(step.as_nanos() * u128::from(rate));
            waited += step;
            from = step_at;
            step_at += STEP;
            rate = self.configured.min(rate.saturating_add(self.growth()));
        }
    }
}

/// More tokens were asked for at once than the bucket can ever hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{asked} tokens were asked for at once, but the bucket holds {size}")]
pub struct TooMany {
    /// What was asked for.
    pub asked: u32,
    /// What the bucket holds when full.
    pub size: u32,
}

/// A bucket that tasks wait for in order: deletions ([`Priority::Urgent`]) before creations, first come first served
/// within each, and one grant in eight for the background while both wait.
#[derive(Debug)]
pub struct Limiter {
    clock: Clock,
    line: Mutex<Line>,
}

#[derive(Debug)]
struct Line {
    bucket: Bucket,
    waiting: BTreeMap<Ticket, Arc<Notify>>,
    seq: u64,
    run: u8,
}

type Ticket = (Priority, u64);

impl Line {
    fn head(&self) -> Option<Ticket> {
        let background = || self.waiting.range((Priority::Background, 0)..).next();
        let first = self.waiting.first_key_value();
        let chosen = if self.run >= URGENT_RUN { background().or(first) } else { first };
        chosen.map(|(ticket, _)| *ticket)
    }

    fn leave(&mut self, ticket: Ticket) {
        self.waiting.remove(&ticket);
        if let Some(next) = self.head().and_then(|head| self.waiting.get(&head)) {
            next.notify_one();
        }
    }

    fn granted(&mut self, ticket: Ticket) {
        let others = self.waiting.keys().any(|(priority, _)| *priority == Priority::Background);
        self.run = if ticket.0 == Priority::Urgent && others { self.run.saturating_add(1) } else { 0 };
    }
}

impl Limiter {
    /// A limiter over a full bucket of `size` tokens that refills `per_second`.
    #[must_use]
    pub fn new(clock: Clock, size: u32, per_second: f64) -> Self {
        let bucket = Bucket::new(size, per_second, clock.instant());
        let line = Line { bucket, waiting: BTreeMap::new(), seq: 0, run: 0 };
        Self { clock, line: Mutex::new(line) }
    }

    /// Waits for `n` tokens. Dropping the future leaves the line and takes nothing.
    pub async fn take(&self, n: u32, priority: Priority) -> Result<(), TooMany> {
        let wake = Arc::new(Notify::new());
        let ticket = {
            let mut line = self.line();
            let size = line.bucket.size();
            if n > size {
                return Err(TooMany { asked: n, size });
            }
            line.seq += 1;
            let ticket = (priority, line.seq);
            line.waiting.insert(ticket, Arc::clone(&wake));
            ticket
        };
        let place = InLine { limiter: self, ticket };
        loop {
            let wait = {
                let mut line = self.line();
                if line.head() == Some(ticket) {
                    match line.bucket.take(n, self.clock.instant()) {
                        Ok(()) => {
                            line.granted(ticket);
                            drop(line);
                            drop(place);
                            return Ok(());
                        }
                        Err(wait) => Some(wait),
                    }
                } else {
                    None
                }
            };
            match wait {
                // A penalty meanwhile only makes it longer: the bucket is asked again after the sleep.
                Some(wait) => sleep(wait).await,
                None => wake.notified().await,
            }
        }
    }

    /// Takes `n` tokens if they are there and nobody waits.
    #[must_use]
    pub fn try_take(&self, n: u32) -> bool {
        let mut line = self.line();
        line.waiting.is_empty() && line.bucket.try_take(n, self.clock.instant())
    }

    /// The server said "too many"; see [`Bucket::penalise`].
    pub fn penalise(&self) {
        self.line().bucket.penalise(self.clock.instant());
    }

    /// How many tasks wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.line().waiting.len()
    }

    /// Tokens per second at present.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.line().bucket.rate()
    }

    /// How full the bucket is, and who waits for it.
    #[must_use]
    pub fn fill(&self) -> Fill {
        let line = self.line();
        Fill { tokens: line.bucket.tokens(self.clock.instant()), size: line.bucket.size(), waiting: line.waiting.len() }
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How full a bucket is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fill {
    /// Whole tokens that are left.
    pub tokens: u32,
    /// The most it can hold.
    pub size: u32,
    /// How many tasks wait for one.
    pub waiting: usize,
}

impl Fill {
    /// Of two buckets the emptier one, with those who wait for either.
    #[must_use]
    pub fn worse(self, other: Self) -> Self {
        let parts = |of: Self, size: u32| u64::from(of.tokens) * u64::from(size);
        let emptier = if parts(other, self.size) < parts(self, other.size) { other } else { self };
        Self { waiting: self.waiting + other.waiting, ..emptier }
    }
}

struct InLine<'a> {
    limiter: &'a Limiter,
    ticket: Ticket,
}

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        self.limiter.line().leave(self.ticket);
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use proptest::prelude::*;
    use tokio::task::JoinSet;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[derive(Clone, Debug)]
    enum Op {
        Take(u32),
        /// Waits as long as the bucket says and takes then.
        Wait(u32),
        Pass(u64),
        Penalise,
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            6 => (0u32..6).prop_map(Op::Take),
            3 => (0u32..6).prop_map(Op::Wait),
            4 => (0u64..2_000_000_000).prop_map(Op::Pass),
            1 => Just(Op::Penalise),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn no_window_grants_more_than_size_plus_rate_times_time(
            size in 1u32..20, millis in 1u32..50_000, ops in prop::collection::vec(op(), 1..80),
        ) {
            let per_second = f64::from(millis) / 1000.0;
            let mut now = Clock::system().instant();
            let mut bucket = Bucket::new(size, per_second, now);
            let mut grants: Vec<(Instant, u32)> = Vec::new();
            for op in ops {
                match op {
                    Op::Take(n) => if bucket.try_take(n, now) { grants.push((now, n)) },
                    Op::Wait(n) => match bucket.take(n, now) {
                        Ok(()) => grants.push((now, n)),
                        Err(Duration::MAX) => prop_assert!(n > size),
                        Err(wait) => {
                            prop_assert!(!bucket.clone().try_take(n, now + wait - Duration::from_nanos(1)), "it could have been sooner");
                            now += wait;
                            prop_assert!(bucket.try_take(n, now), "the promised wait was too short");
                            grants.push((now, n));
                        }
                    },
                    Op::Pass(nanos) => now += Duration::from_nanos(nanos),
                    Op::Penalise => bucket.penalise(now),
                }
                prop_assert!(bucket.rate() <= per_second + 1e-6);
            }
            for (at, (from, _)) in grants.iter().enumerate() {
                let mut sum = 0u64;
                for (to, n) in &grants[at..] {
                    sum += u64::from(*n);
                    let allowed = f64::from(size) + per_second * (*to - *from).as_secs_f64();
                    prop_assert!(sum as f64 <= allowed + 1e-6, "{} tokens in {:?}", sum, *to - *from);
                }
            }
        }

        #[test]
        fn a_throttled_bucket_halves_once_per_second_and_recovers_fully(rate in 1u32..1000, times in 1u32..200) {
            let mut now = Clock::system().instant();
            let full = f64::from(rate);
            let mut bucket = Bucket::new(10, full, now);
            bucket.penalise(now);
            bucket.penalise(now + MS);
            prop_assert!((bucket.rate() - full / 2.0).abs() < 1e-5, "one overload halves once: {}", bucket.rate());
            prop_assert!(!bucket.try_take(1, now + MS), "the bucket is empty");
            for _ in 0..times {
                now += Duration::from_millis(1001);
                bucket.penalise(now);
                prop_assert!(bucket.rate() >= full / 64.0 - 1e-5);
            }
            if times > 10 {
                prop_assert!(bucket.rate() < full / 8.0, "each further overload halves again: {}", bucket.rate());
            }
            now += Duration::from_secs(21);
            let _ = bucket.try_take(1, now);
            prop_assert!((bucket.rate() - full).abs() < 1e-5);
        }
    }

    #[test]
    fn odd_rates_and_sizes_do_not_break_it() {
        let now = Clock::system().instant();
        for rate in [f64::NAN, -1.0, 0.0, f64::INFINITY, f64::MAX] {
            let mut bucket = Bucket::new(0, rate, now);
            assert!(bucket.try_take(1, now));
            assert!(bucket.take(1, now).is_err());
            assert_eq!(bucket.take(2, now), Err(Duration::MAX));
            bucket.penalise(now);
            let _ = bucket.take(1, now + Duration::from_secs(1 << 40));
        }
    }

    fn limiter(size: u32, rate: f64) -> (Clock, Arc<Limiter>) {
        let clock = Clock::simulated(Timestamp::UNIX_EPOCH, 1);
        (clock.clone(), Arc::new(Limiter::new(clock, size, rate)))
    }

    async fn line_up(
        limiter: &Arc<Limiter>,
        tasks: &mut JoinSet<()>,
        said: &Arc<Mutex<Vec<u32>>>,
        who: u32,
        p: Priority,
    ) {
        let (limiter, said) = (limiter.clone(), said.clone());
        tasks.spawn(async move {
            limiter.take(1, p).await.unwrap();
            said.lock().unwrap().push(who);
        });
        tokio::task::yield_now().await;
    }

    #[tokio::test(start_paused = true)]
    async fn deletions_go_first_and_creations_are_not_starved() {
        let (clock, limiter) = limiter(1, 10.0);
        limiter.take(1, Priority::Background).await.unwrap();
        let (mut tasks, said) = (JoinSet::new(), Arc::new(Mutex::new(Vec::new())));
        for who in 100..103 {
            line_up(&limiter, &mut tasks, &said, who, Priority::Background).await;
        }
        for who in 0..16 {
            line_up(&limiter, &mut tasks, &said, who, Priority::Urgent).await;
        }
        let begin = clock.instant();
        tasks.join_all().await;
        let expected: Vec<u32> = (0..7).chain([100]).chain(7..14).chain([101]).chain([14, 15, 102]).collect();
        assert_eq!(*said.lock().unwrap(), expected);
        let took = clock.instant() - begin;
        assert!(took >= MS * 1900 && took < MS * 1925, "19 tokens at 10 per second took {took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn leaving_the_line_takes_nothing_and_lets_the_next_one_through() {
        let (clock, limiter) = limiter(1, 1.0);
        limiter.take(1, Priority::Urgent).await.unwrap();
        let begin = clock.instant();
        let mut first = Box::pin(limiter.take(1, Priority::Urgent));
        assert!(futures::poll!(&mut first).is_pending());
        let (mut tasks, said) = (JoinSet::new(), Arc::new(Mutex::new(Vec::new())));
        line_up(&limiter, &mut tasks, &said, 1, Priority::Urgent).await;
        line_up(&limiter, &mut tasks, &said, 2, Priority::Background).await;
        assert_eq!(limiter.waiting(), 3);
        drop(first);
        tasks.join_all().await;
        assert_eq!(*said.lock().unwrap(), [1, 2]);
        let took = clock.instant() - begin;
        assert!(took < MS * 2003, "the one that left took no token: {took:?}");
        assert_eq!(limiter.waiting(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn how_full_it_is_follows_the_clock_and_looking_takes_nothing() {
        let (_, limiter) = limiter(4, 2.0);
        let fill = |tokens, waiting| Fill { tokens, size: 4, waiting };
        assert_eq!(limiter.fill(), fill(4, 0));
        assert!(limiter.try_take(3));
        assert_eq!((limiter.fill(), limiter.fill()), (fill(1, 0), fill(1, 0)));
        tokio::time::advance(MS * 999).await;
        assert_eq!(limiter.fill(), fill(2, 0), "a token that is not whole cannot be taken");
        limiter.penalise();
        let mut waits = Box::pin(limiter.take(1, Priority::Urgent));
        assert!(futures::poll!(&mut waits).is_pending());
        assert_eq!(limiter.fill(), fill(0, 1));
        let large = Fill { tokens: 40, size: 100, waiting: 2 };
        assert_eq!(
            (fill(3, 1).worse(large), large.worse(fill(3, 1))),
            (Fill { waiting: 3, ..large }, Fill { waiting: 3, ..large })
        );
    }

    #[tokio::test(start_paused = true)]
    async fn asking_for_more_than_the_bucket_holds_is_an_error_at_once() {
        let (_, limiter) = limiter(3, 1.0);
        assert_eq!(limiter.take(4, Priority::Urgent).await, Err(TooMany { asked: 4, size: 3 }));
        assert!(limiter.try_take(3) && !limiter.try_take(1));
        limiter.penalise();
        assert!((limiter.rate() - 0.5).abs() < 1e-9);
    }
}
