//! The published request limits: one bucket of request tokens per operation, and some of resource tokens.
//!
//! Kept apart from the buckets of the kit on purpose: clients model the limits with those, and a mistake in shared code
//! would cancel itself out.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::settings::Throttle;
use super::time::between;

/// Size and tokens per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Tokens when full.
    pub size: u32,
    /// Tokens that come back each second.
    pub refill: u32,
}

const fn limit(size: u32, refill: u32) -> Limit {
    Limit { size, refill }
}

/// The request tokens of an operation; `broad` is a read without filter, ids and page size.
#[must_use]
pub fn request_limit(action: &str, broad: bool) -> Limit {
    match action {
        "DescribeHostReservations" => limit(5, 2),
        "RunInstances" => limit(5, 2),
        "StartInstances" => limit(5, 2),
        "TerminateInstances" => limit(100, 5),
        "CreateTags" | "DeleteTags" => limit(100, 10),
        "DescribeInstances" if broad => limit(50, 10),
        action if action.starts_with("Describe") => limit(100, 20),
        _ => limit(50, 5),
    }
}

/// The resource tokens of an operation: one for each instance.
#[must_use]
pub fn resource_limit(action: &str) -> Option<Limit> {
    match action {
        "RunInstances" | "StartInstances" => Some(limit(1_000, 2)),
        "StopInstances" | "TerminateInstances" => Some(limit(1_000, 20)),
        _ => None,
    }
}

/// Tokens are counted in billionths, so that nothing is lost to rounding.
const TOKEN: u128 = 1_000_000_000;

#[derive(Clone, Debug)]
struct Bucket {
    level: u128,
    at: Timestamp,
}

/// All buckets of one account in one region.
#[derive(Clone, Debug, Default)]
pub struct Buckets {
    by_name: BTreeMap<String, Bucket>,
}

impl Buckets {
    /// Takes `tokens` from a bucket, or says that there are not enough.
    pub fn take(&mut self, name: &str, limit: Limit, tokens: u32, throttle: Throttle, now: Timestamp) -> bool {
        let Throttle::Percent(percent) = throttle else { return true };
        let part = |n: u32| (u128::from(n) * u128::from(percent) * TOKEN / 100).max(TOKEN);
        let (size, refill) = (part(limit.size), part(limit.refill));
        let bucket = self.by_name.entry(name.to_owned()).or_insert(Bucket { level: size, at: now });
        let gained = between(bucket.at, now).as_nanos().saturating_mul(refill) / TOKEN;
        bucket.level = bucket.level.saturating_add(gained).min(size);
        bucket.at = bucket.at.max(now);
        let wanted = u128::from(tokens) * TOKEN;
        if bucket.level < wanted {
            return false;
        }
        bucket.level -= wanted;
        true
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::time::later;
    use super::*;
    use std::time::Duration;

    const FULL: Throttle = Throttle::Percent(100);

    #[test]
    fn published_sizes_and_rates_hold() {
        for (action, broad, size, refill) in [
            ("DescribeHosts", false, 100, 20),
            ("DescribeInstances", false, 100, 20),
            ("DescribeInstances", true, 50, 10),
            ("DescribeHostReservations", false, 5, 2),
            ("AllocateHosts", false, 50, 5),
            ("ReleaseHosts", false, 50, 5),
            ("RunInstances", false, 5, 2),
            ("TerminateInstances", false, 100, 5),
            ("CreateTags", false, 100, 10),
        ] {
            assert_eq!(request_limit(action, broad), limit(size, refill), "{action}");
        }
        assert_eq!(resource_limit("RunInstances"), Some(limit(1_000, 2)));
        assert_eq!(resource_limit("TerminateInstances"), Some(limit(1_000, 20)));
    }

    #[test]
    fn a_thousand_single_allocations_take_190_seconds() {
        let (mut buckets, mut now) = (Buckets::default(), Timestamp::UNIX_EPOCH);
        let limit = request_limit("AllocateHosts", false);
        let mut granted = 0;
        while granted < 1_000 {
            if buckets.take("AllocateHosts", limit, 1, FULL, now) {
                granted += 1;
            } else {
                now = later(now, Duration::from_millis(100));
            }
        }
        assert_eq!(between(Timestamp::UNIX_EPOCH, now), Duration::from_secs(190));
    }

    #[test]
    fn limits_can_be_switched_off_and_scaled() {
        let (mut buckets, now) = (Buckets::default(), Timestamp::UNIX_EPOCH);
        assert!((0..1_000).all(|_| buckets.take("a", limit(1, 1), 1, Throttle::Off, now)));
        let mut tenth = Buckets::default();
        let granted = (0..100).filter(|_| tenth.take("a", limit(100, 20), 1, Throttle::Percent(10), now)).count();
        assert_eq!(granted, 10);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn no_window_grants_more_than_size_plus_rate_times_time(
            size in 1u32..20, refill in 1u32..20, steps in prop::collection::vec((0u64..3_000, 1u32..4), 1..80),
        ) {
            let (mut buckets, start) = (Buckets::default(), Timestamp::UNIX_EPOCH);
            let (mut now, mut granted) = (start, 0u64);
            for (millis, tokens) in steps {
                now = later(now, Duration::from_millis(millis));
                if buckets.take("a", limit(size, refill), tokens, FULL, now) {
                    granted += u64::from(tokens);
                }
                let most = f64::from(size) + f64::from(refill) * between(start, now).as_secs_f64();
                prop_assert!(granted as f64 <= most + 1e-6, "{granted} > {most}");
            }
        }
    }
}
