//! How fast each operation may be called, per account and region.
//!
//! EC2 gives every account in every region one bucket per operation, and for some operations a second one that counts
//! resources instead of requests. Staying inside them costs nothing; running dry costs refused calls for everybody in
//! the account.

use std::fmt;
use std::str::FromStr;

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
    /// Slower where a mistake costs money, a few hosts and instances per second, or where users' typos are asked about.
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
            "StartInstances" => Rates { requests: Size::new(5, 2.0), resources: Some(Size::new(1000, 2.0)) },
            "StopInstances" => Rates { requests: Size::new(50, 5.0), resources: Some(Size::new(1000, 20.0)) },
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
            // All types of a region are some thirteen pages, which go at once. What comes on top are single names, often
            // mistyped ones, and nobody is in a hurry for these.
            (Self::Shipped, "DescribeInstanceTypes") => requests(20, 2.0),
            _ => published,
        }
    }
}

/// Operations that share what a user may say about their pace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OperationClass {
    /// Reads.
    Describe,
    /// `RunInstances`.
    Launch,
    /// `AllocateHosts` and `ReleaseHosts`.
    Hosts,
    /// Every other change.
    Other,
}

impl OperationClass {
    /// Every class by its name.
    pub const ALL: [(&'static str, Self); 4] =
        [("describe", Self::Describe), ("launch", Self::Launch), ("hosts", Self::Hosts), ("other", Self::Other)];

    /// The class of an operation of EC2; none for the token service.
    #[must_use]
    pub fn of(operation: &str) -> Option<Self> {
        match operation {
            "GetCallerIdentity" | "AssumeRole" | "AssumeRoleWithWebIdentity" => None,
            "RunInstances" => Some(Self::Launch),
            "AllocateHosts" | "ReleaseHosts" => Some(Self::Hosts),
            _ if operation.starts_with("Describe") => Some(Self::Describe),
            _ => Some(Self::Other),
        }
    }
}

/// What a user says about a class, written `CLASS=PER_SECOND:BURST`: each operation of it has a bucket of this size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Which operations.
    pub class: OperationClass,
    /// Their bucket.
    pub size: Size,
}

/// More than this in a second is no limit.
const FASTEST: f64 = 1_000.0;
/// More than this at once is no limit.
const LARGEST: u32 = 10_000;

impl FromStr for Pace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (class, size) = text.split_once('=').ok_or("must be CLASS=PER_SECOND:BURST")?;
        let (rate, burst) = size.split_once(':').ok_or("must be CLASS=PER_SECOND:BURST")?;
        let found = OperationClass::ALL.into_iter().find_map(|(name, known)| (name == class).then_some(known));
        let class = found.ok_or_else(|| {
            let all = OperationClass::ALL.map(|(name, _)| name).join(", ");
            format!("`{class}` is none of {all}")
        })?;
        let per_second = rate.parse::<f64>().ok().filter(|rate| *rate > 0.0 && *rate <= FASTEST);
        let per_second =
            per_second.ok_or_else(|| format!("`{rate}` per second must be above 0 and at most {FASTEST}"))?;
        let burst = burst.parse::<u32>().ok().filter(|burst| (1..=LARGEST).contains(burst));
        let burst = burst.ok_or_else(|| format!("a burst must be 1 to {LARGEST}"))?;
        Ok(Self { class, size: Size { burst, per_second } })
    }
}

/// The buckets of an operation: what users say about its class, the last word first, else the table.
#[must_use]
pub fn rates(limits: Limits, paces: &[Pace], operation: &str, narrow: bool) -> Rates {
    let table = limits.of(operation, narrow);
    let class = OperationClass::of(operation);
    match paces.iter().rev().find(|pace| Some(pace.class) == class) {
        // Resources are counted by EC2 whatever we say.
        Some(pace) => Rates { requests: pace.size, ..table },
        None => table,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_choose_the_pace_of_a_class() {
        let paces: Vec<Pace> =
            ["launch=1:3", "hosts=0.5:2", "launch=4:9"].iter().map(|text| text.parse().unwrap()).collect();
        let of = |operation| {
            let rates = rates(Limits::Shipped, &paces, operation, true);
            (rates.requests.burst, rates.requests.per_second, rates.resources.is_some())
        };
        assert_eq!(of("RunInstances"), (9, 4.0, true), "the last word counts, and resources stay EC2's");
        assert_eq!((of("AllocateHosts"), of("ReleaseHosts")), ((2, 0.5, false), (2, 0.5, false)));
        assert_eq!(of("DescribeHosts"), (100, 20.0, false), "nobody said anything about it");
        assert_eq!(of("AssumeRole"), (100, 50.0, false));
    }

    #[test]
    fn a_pace_that_is_none_is_refused_with_the_reason() {
        for (text, part) in [
            ("launch", "CLASS=PER_SECOND:BURST"),
            ("launch=2", "CLASS=PER_SECOND:BURST"),
            ("terminate=2:5", "none of describe, launch, hosts, other"),
            ("launch=0:5", "above 0"),
            ("launch=NaN:5", "above 0"),
            ("launch=inf:5", "above 0"),
            ("launch=2:0", "1 to 10000"),
            ("launch=2:x", "1 to 10000"),
        ] {
            let error = text.parse::<Pace>().unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

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
            "DescribeInstanceTypes",
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
        for (operation, size) in [("AllocateHosts", (5, 2.0)), ("DescribeInstanceTypes", (20, 2.0))] {
            let shipped = Limits::Shipped.of(operation, true).requests;
            assert_eq!((shipped.burst, shipped.per_second), size, "{operation}");
        }
    }
}
