//! What an error of EC2 means for a machine: its class, what the conditions say, and how long to wait.

use std::time::Duration;

use api::reasons::hosts::Reason;
use aws::errors::Kind;

/// What a refusal means for a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// It passes by itself.
    Transient,
    /// What was written a moment ago is not visible yet.
    Consistency,
    /// The account has as many hosts as it may.
    HostQuota,
    /// Another limit of the account.
    Quota,
    /// EC2 has no host to give.
    HostCapacity,
    /// No room for the instance.
    LaunchCapacity,
    /// A right is missing.
    Permission,
    /// It cannot work as it is.
    Terminal,
    /// The token was used before.
    Idempotency,
    /// The host still holds an instance.
    Occupied,
    /// The host is too young to be given back.
    TooYoung,
    /// Something that others provide is not there.
    Dependency,
}

impl Class {
    /// The class of a kind of error.
    #[must_use]
    pub fn of(kind: Kind) -> Self {
        match kind {
            Kind::Throttled | Kind::Transient | Kind::Malformed | Kind::DryRun => Self::Transient,
            Kind::NotFound => Self::Consistency,
            Kind::HostQuota => Self::HostQuota,
            Kind::Quota => Self::Quota,
            Kind::HostCapacity => Self::HostCapacity,
            Kind::LaunchCapacity => Self::LaunchCapacity,
            Kind::Permission => Self::Permission,
            Kind::Terminal => Self::Terminal,
            Kind::Idempotency => Self::Idempotency,
            Kind::HostOccupied => Self::Occupied,
            Kind::HostTooYoung => Self::TooYoung,
        }
    }

    /// The word in metrics and logs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Transient => "transient",
            Self::Consistency => "consistency",
            Self::HostQuota => "host-quota",
            Self::Quota => "quota",
            Self::HostCapacity => "host-capacity",
            Self::LaunchCapacity => "launch-capacity",
            Self::Permission => "permission",
            Self::Terminal => "terminal",
            Self::Idempotency => "idempotency",
            Self::Occupied => "host-occupied",
            Self::TooYoung => "host-too-young",
            Self::Dependency => "dependency",
        }
    }

    /// How long to wait: from the first to the longest, doubling from try to try.
    #[must_use]
    pub fn pace(self) -> (Duration, Duration) {
        let between = |first, longest| (Duration::from_secs(first), Duration::from_secs(longest));
        match self {
            Self::Transient => between(1, 120),
            Self::Consistency | Self::Idempotency => between(5, 15),
            Self::LaunchCapacity | Self::Dependency => between(30, 300),
            Self::Occupied => between(30, 120),
            Self::HostCapacity => between(120, 900),
            Self::HostQuota | Self::Quota | Self::Permission => between(300, 300),
            Self::Terminal => between(600, 600),
            Self::TooYoung => between(3_600, 3_600),
        }
    }

    /// How long to wait after so many failures in a row, the present one included.
    #[must_use]
    pub fn wait(self, tries: u32) -> Duration {
        let (first, longest) = self.pace();
        let factor = 1_u32.checked_shl(tries.saturating_sub(1)).unwrap_or(u32::MAX);
        first.saturating_mul(factor).min(longest)
    }

    /// What the condition of the host says when an allocation failed.
    #[must_use]
    pub fn of_allocation(self) -> Reason {
        match self {
            Self::HostQuota | Self::Quota => Reason::HostQuotaExceeded,
            Self::HostCapacity | Self::LaunchCapacity => Reason::HostCapacityUnavailable,
            Self::Permission => Reason::HostAllocationDenied,
            Self::Terminal => Reason::HostAllocationFailed,
            Self::Transient
            | Self::Consistency
            | Self::Idempotency
            | Self::Occupied
            | Self::TooYoung
            | Self::Dependency => Reason::HostAllocationStarted,
        }
    }

    /// What the condition of the release says when a host was not given back.
    #[must_use]
    pub fn of_release(self) -> Reason {
        match self {
            Self::Occupied => Reason::HostOccupied,
            Self::TooYoung => Reason::MinimumAllocationPeriod,
            _ => Reason::DedicatedHostReleaseFailed,
        }
    }

    /// Whether a launch that was refused so can never work: an empty host that waits for it only costs money.
    #[must_use]
    pub fn dooms_launch(self) -> bool {
        self == Self::Terminal
    }

    /// Whether a rehearsal that ends so means that the real thing would not work either.
    #[must_use]
    pub fn dooms_rehearsal(self) -> bool {
        matches!(self, Self::Terminal | Self::Permission)
    }
}

#[cfg(test)]
mod tests {
    use aws::errors::kind_of;

    use super::*;

    fn class(code: &str) -> Class {
        Class::of(kind_of(code))
    }

    #[test]
    fn every_code_of_the_table_has_its_class_and_its_waits() {
        let table: &[(&[&str], Class, u64, u64)] = &[
            (
                &["RequestLimitExceeded", "ThrottlingException", "InternalError", "ServiceUnavailable", "Unheard"],
                Class::Transient,
                1,
                120,
            ),
            (&["InvalidHostID.NotFound", "InvalidInstanceID.NotFound"], Class::Consistency, 5, 15),
            (&["HostLimitExceeded"], Class::HostQuota, 300, 300),
            (
                &["InstanceLimitExceeded", "VcpuLimitExceeded", "VolumeLimitExceeded", "PendingVerification"],
                Class::Quota,
                300,
                300,
            ),
            (&["InsufficientHostCapacity"], Class::HostCapacity, 120, 900),
            (
                &["InsufficientCapacityOnHost", "InsufficientInstanceCapacity", "InsufficientFreeAddressesInSubnet"],
                Class::LaunchCapacity,
                30,
                300,
            ),
            (
                &["UnauthorizedOperation", "AccessDeniedException", "AuthFailure", "ExpiredToken"],
                Class::Permission,
                300,
                300,
            ),
            (
                &[
                    "InvalidHostConfiguration",
                    "Unsupported",
                    "InvalidParameterValue",
                    "InvalidAMIID.NotFound",
                    "InvalidKeyPair.NotFound",
                    "TagLimitExceeded",
                ],
                Class::Terminal,
                600,
                600,
            ),
            (&["IdempotentParameterMismatch", "IdempotentInstanceTerminated"], Class::Idempotency, 5, 15),
            (&["Client.InvalidHost.Occupied"], Class::Occupied, 30, 120),
            (&["Client.HostMinAllocationPeriodUnexpired"], Class::TooYoung, 3_600, 3_600),
        ];
        for (codes, wanted, first, longest) in table {
            for code in *codes {
                assert_eq!(class(code), *wanted, "{code}");
            }
            assert_eq!(wanted.wait(1), Duration::from_secs(*first), "{wanted:?}");
            assert_eq!(wanted.wait(1_000), Duration::from_secs(*longest), "{wanted:?}");
        }
        assert_eq!(Class::HostCapacity.wait(2), Duration::from_secs(240));
    }

    #[test]
    fn only_what_can_never_work_gives_a_host_back_and_stops_a_rehearsal() {
        assert!(
            Class::Terminal.dooms_launch() && Class::Terminal.dooms_rehearsal() && Class::Permission.dooms_rehearsal()
        );
        for class in [Class::Transient, Class::Quota, Class::LaunchCapacity, Class::Permission, Class::Idempotency] {
            assert!(!class.dooms_launch(), "{class:?}");
        }
        assert!(!Class::LaunchCapacity.dooms_rehearsal() && !Class::Transient.dooms_rehearsal());
    }

    #[test]
    fn conditions_name_the_class() {
        assert_eq!(Class::HostQuota.of_allocation(), Reason::HostQuotaExceeded);
        assert_eq!(Class::HostCapacity.of_allocation(), Reason::HostCapacityUnavailable);
        assert_eq!(Class::Permission.of_allocation(), Reason::HostAllocationDenied);
        assert_eq!(Class::Terminal.of_allocation(), Reason::HostAllocationFailed);
        assert_eq!(Class::Occupied.of_release(), Reason::HostOccupied);
        assert_eq!(Class::TooYoung.of_release(), Reason::MinimumAllocationPeriod);
        assert_eq!(Class::Permission.of_release(), Reason::DedicatedHostReleaseFailed);
    }
}
