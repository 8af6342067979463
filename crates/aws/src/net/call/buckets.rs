//! One line of waiting calls per account, region and operation.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use api::names::Region;
use kit::bucket::{Fill, Limiter};
use kit::clock::Clock;
use kit::queue::Priority;

use crate::limits::{Limits, Pace, Size, rates};

/// Buckets that are remembered; those that nobody uses make room.
const REMEMBERED: usize = 4096;

/// Part of a bucket that is left unused: a request that travels faster than the one before it arrives at the service
/// before the token we counted on. A twenty-fifth forgives 0.4 s at the usual ratio of size and rate, and costs that once.
const SPARE: u32 = 25;

/// Which bucket.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    account: Box<str>,
    region: Region,
    operation: &'static str,
    narrow: bool,
}

/// What is told of buckets: accounts are not told apart, because who may be called as is in users' hands.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Line {
    pub(crate) region: Region,
    pub(crate) operation: &'static str,
    /// What the bucket counts.
    pub(crate) counts: &'static str,
}

/// The two buckets of an operation.
#[derive(Debug)]
pub(crate) struct Pair {
    requests: Limiter,
    resources: Option<Limiter>,
}

impl Pair {
    /// Waits for the turn of a call that asks for so many resources.
    pub(crate) async fn turn(&self, resources: u32, priority: Priority) -> Result<(), kit::bucket::TooMany> {
        if let Some(limiter) = &self.resources {
            limiter.take(resources, priority).await?;
        }
        self.requests.take(1, priority).await
    }

    /// The service said "too many".
    pub(crate) fn penalise(&self) {
        self.requests.penalise();
    }
}

/// All buckets of a process.
#[derive(Debug)]
pub(crate) struct Buckets {
    clock: Clock,
    limits: Limits,
    paces: Vec<Pace>,
    pairs: Mutex<BTreeMap<Key, Arc<Pair>>>,
}

impl Buckets {
    pub(crate) fn new(clock: Clock, limits: Limits, paces: Vec<Pace>) -> Self {
        Self { clock, limits, paces, pairs: Mutex::new(BTreeMap::new()) }
    }

    /// The buckets of an operation for an account in a region.
    pub(crate) fn of(&self, account: &str, region: &Region, operation: &'static str, narrow: bool) -> Arc<Pair> {
        let key = Key { account: account.into(), region: region.clone(), operation, narrow };
        let mut pairs = self.pairs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pair) = pairs.get(&key) {
            return Arc::clone(pair);
        }
        if pairs.len() >= REMEMBERED {
            pairs.retain(|_, pair| Arc::strong_count(pair) > 1);
        }
        let limiter = |size: Size| Limiter::new(self.clock.clone(), size.burst, size.per_second);
        let rates = rates(self.limits, &self.paces, operation, narrow);
        let spare = rates.requests.burst.div_ceil(SPARE);
        let requests = Size { burst: rates.requests.burst.saturating_sub(spare).max(1), ..rates.requests };
        let pair = Arc::new(Pair { requests: limiter(requests), resources: rates.resources.map(limiter) });
        pairs.insert(key, Arc::clone(&pair));
        pair
    }

    /// How full the buckets are that somebody took from since the process began.
    pub(crate) fn fills(&self) -> BTreeMap<Line, Fill> {
        let mut all: BTreeMap<Line, Fill> = BTreeMap::new();
        for (key, pair) in self.pairs.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let counted = [("requests", Some(&pair.requests)), ("resources", pair.resources.as_ref())];
            for (counts, limiter) in counted {
                let Some(fill) = limiter.map(Limiter::fill) else { continue };
                let line = Line { region: key.region.clone(), operation: key.operation, counts };
                all.entry(line).and_modify(|known| *known = known.worse(fill)).or_insert(fill);
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::Timestamp;

    use super::*;

    fn region(name: &str) -> Region {
        name.parse().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn accounts_regions_and_operations_do_not_wait_for_each_other() {
        let clock = Clock::simulated(Timestamp::UNIX_EPOCH, 1);
        let buckets = Buckets::new(clock.clone(), Limits::Shipped, Vec::new());
        let here = buckets.of("1", &region("us-east-1"), "AllocateHosts", true);
        for _ in 0..4 {
            here.turn(1, Priority::Background).await.unwrap();
        }
        let begin = clock.instant();
        for (account, place, operation) in [
            ("2", "us-east-1", "AllocateHosts"),
            ("1", "us-west-2", "AllocateHosts"),
            ("1", "us-east-1", "ReleaseHosts"),
        ] {
            buckets.of(account, &region(place), operation, true).turn(1, Priority::Background).await.unwrap();
        }
        assert_eq!(clock.instant(), begin);
        buckets.of("1", &region("us-east-1"), "AllocateHosts", true).turn(1, Priority::Background).await.unwrap();
        assert_eq!(clock.instant() - begin, Duration::from_millis(500), "two per second once the burst is gone");
    }

    #[tokio::test(start_paused = true)]
    async fn a_whole_catalogue_goes_at_once_and_names_after_it_two_a_second() {
        let clock = Clock::simulated(Timestamp::UNIX_EPOCH, 1);
        let buckets = Buckets::new(clock.clone(), Limits::Shipped, Vec::new());
        let pair = buckets.of("1", &region("us-east-1"), "DescribeInstanceTypes", true);
        let begin = clock.instant();
        for _ in 0..19 {
            pair.turn(1, Priority::Background).await.unwrap();
        }
        assert_eq!(clock.instant(), begin, "more pages than any region has");
        for _ in 0..10 {
            pair.turn(1, Priority::Background).await.unwrap();
        }
        assert_eq!(clock.instant() - begin, Duration::from_secs(5));
    }

    #[tokio::test(start_paused = true)]
    async fn a_thousand_launches_take_what_the_published_buckets_allow() {
        let clock = Clock::simulated(Timestamp::UNIX_EPOCH, 1);
        let buckets = Buckets::new(clock.clone(), Limits::Published, Vec::new());
        let pair = buckets.of("1", &region("us-east-1"), "RunInstances", true);
        let begin = clock.instant();
        for _ in 0..1000 {
            pair.turn(1, Priority::Background).await.unwrap();
        }
        let spent = (clock.instant() - begin).as_secs_f64();
        // The floor of the published bucket is 497.5 s, that of hosts below 190 s.
        assert!((497.5..498.5).contains(&spent), "{spent}");
        let pair = buckets.of("1", &region("us-east-1"), "AllocateHosts", true);
        let begin = clock.instant();
        for _ in 0..1000 {
            pair.turn(1, Priority::Background).await.unwrap();
        }
        let spent = (clock.instant() - begin).as_secs_f64();
        assert!((190.0..191.0).contains(&spent), "{spent}");
    }

    #[tokio::test(start_paused = true)]
    async fn of_all_accounts_the_emptiest_bucket_is_told() {
        let buckets = Buckets::new(Clock::simulated(Timestamp::UNIX_EPOCH, 1), Limits::Published, Vec::new());
        assert!(buckets.fills().is_empty());
        let region = region("us-east-1");
        let (one, other) =
            (buckets.of("1", &region, "RunInstances", true), buckets.of("2", &region, "RunInstances", true));
        one.turn(3, Priority::Background).await.unwrap();
        other.turn(1, Priority::Background).await.unwrap();
        other.turn(1, Priority::Background).await.unwrap();
        let told = buckets.fills();
        let fill = |counts| told.get(&Line { region: region.clone(), operation: "RunInstances", counts }).copied();
        assert_eq!(fill("requests"), Some(Fill { tokens: 2, size: 4, waiting: 0 }));
        assert_eq!(fill("resources"), Some(Fill { tokens: 997, size: 1000, waiting: 0 }));
        assert_eq!(told.len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn memory_is_bounded() {
        let clock = Clock::simulated(Timestamp::UNIX_EPOCH, 1);
        let buckets = Buckets::new(clock, Limits::Shipped, Vec::new());
        let used = buckets.of("used", &region("us-east-1"), "DescribeHosts", true);
        for account in 0..2 * REMEMBERED {
            buckets.of(&account.to_string(), &region("us-east-1"), "DescribeHosts", true);
        }
        assert!(buckets.pairs.lock().unwrap().len() <= REMEMBERED + 1);
        assert!(Arc::ptr_eq(&used, &buckets.of("used", &region("us-east-1"), "DescribeHosts", true)));
    }
}
