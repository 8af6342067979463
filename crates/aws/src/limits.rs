//! How fast each operation may be called, per account and region.
//!
//! EC2 gives every account in every region one bucket per operation, and for some operations a second one that counts
//! resources instead of requests. Staying inside them costs nothing; running dry costs refused calls for everybody in
//! the account.

use std::fmt;

/// A bucket: how many at once, and how many more per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Size {
    /// Tokens when full.
    pub burst: u32,
    /// Tokens per second.
    pub per_second: f64,
}

impl Size {
    const fn new(burst: u32, per_second: f64) -> Self {
        Self { burst, per_second }
    }
}

/// The buckets of one operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// Counts requests.
    pub requests: Size,
    /// Counts resources, where EC2 does.
    pub resources: Option<Size>,
}

/// The table of buckets a client keeps to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Limits {
    /// What EC2 publishes.
    Published,
    /// Slower where a mistake costs money: a few hosts and instances per second, never more.
    Shipped,
    /// None worth mentioning: for simulators that count for themselves.
    Unlimited,
}

impl fmt::Debug for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Published => "published",
            Self::Shipped => "shipped",
            Self::Unlimited => "unlimited",
        })
    }
}

impl Limits {
    /// The buckets of an operation. `narrow` says that the request names ids, filters or a page size: without any of
    /// these EC2 counts lists as expensive.
    #[must_use]
    pub fn of(self, operation: &str, narrow: bool) -> Rates {
        let requests = |burst, per_second| Rates { requests: Size::new(burst, per_second), resources: None };
        let published = match operation {
            "RunInstances" => Rates { requests: Size::new(5, 2.0), resources: Some(Size::new(1000, 2.0)) },
            "TerminateInstances" => Rates { requests: Size::new(100, 5.0), resources: Some(Size::new(1000, 20.0)) },
            "CreateTags" => requests(100, 10.0),
            "DescribeHostReservations" => requests(5, 2.0),
            _ if operation.starts_with("Describe") && narrow => requests(100, 20.0),
            _ if operation.starts_with("Describe") => requests(50, 10.0),
            // STS counts hundreds per second; what is asked here is a handful per hour.
            "GetCallerIdentity" | "AssumeRole" | "AssumeRoleWithWebIdentity" => requests(100, 50.0),
            _ => requests(50, 5.0),
        };
        match (self, operation) {
            (Self::Unlimited, _) => requests(1_000_000, 1_000_000.0),
            (Self::Shipped, "AllocateHosts" | "ReleaseHosts") => requests(5, 2.0),
            _ => published,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_buckets_are_those_ec2_publishes() {
        let size = |operation, narrow| {
            let rates = Limits::Published.of(operation, narrow);
            (rates.requests.burst, rates.requests.per_second, rates.resources.map(|r| (r.burst, r.per_second)))
        };
        for (operation, narrow, expected) in [
            ("DescribeHosts", true, (100, 20.0, None)),
            ("DescribeInstanceTypes", true, (100, 20.0, None)),
            ("DescribeInstances", true, (100, 20.0, None)),
            ("DescribeInstances", false, (50, 10.0, None)),
            ("AllocateHosts", true, (50, 5.0, None)),
            ("ReleaseHosts", true, (50, 5.0, None)),
            ("ModifyHosts", true, (50, 5.0, None)),
            ("RunInstances", true, (5, 2.0, Some((1000, 2.0)))),
            ("TerminateInstances", true, (100, 5.0, Some((1000, 20.0)))),
            ("CreateTags", true, (100, 10.0, None)),
            ("DescribeHostReservations", true, (5, 2.0, None)),
        ] {
            assert_eq!(size(operation, narrow), expected, "{operation}");
        }
    }

    #[test]
    fn shipped_buckets_are_never_larger() {
        for operation in [
            "DescribeHosts",
            "AllocateHosts",
            "ReleaseHosts",
            "RunInstances",
            "TerminateInstances",
            "CreateTags",
            "DeleteTags",
            "ModifyHosts",
            "AssumeRole",
        ] {
            for narrow in [true, false] {
                let (ours, theirs) = (Limits::Shipped.of(operation, narrow), Limits::Published.of(operation, narrow));
                assert!(ours.requests.burst <= theirs.requests.burst, "{operation}");
                assert!(ours.requests.per_second <= theirs.requests.per_second, "{operation}");
            }
        }
        let hosts = Limits::Shipped.of("AllocateHosts", true).requests;
        assert_eq!((hosts.burst, hosts.per_second), (5, 2.0));
    }
}
