//! The one table from error codes to what they mean.

use std::time::Duration;

use kit::class::Class;

/// What an error means for the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Too many requests; nothing was done. The client has slowed down.
    Throttled,
    /// A passing fault: again with the same token.
    Transient,
    /// The answer cannot be read.
    Malformed,
    /// There is no such thing, or not yet: reads lag behind writes.
    NotFound,
    /// The account has as many hosts as it may.
    HostQuota,
    /// Another limit of the account.
    Quota,
    /// EC2 has no host to give at present.
    HostCapacity,
    /// No room for the instance at present.
    LaunchCapacity,
    /// Credentials are missing, wrong, ended, or lack a right.
    Permission,
    /// The request cannot work as it is.
    Terminal,
    /// The token was used before.
    Idempotency,
    /// The host still holds an instance.
    HostOccupied,
    /// The host must be kept for its minimum period (mac: 24 h).
    HostTooYoung,
    /// Not an error: a dry run would have succeeded.
    DryRun,
}

impl Kind {
    /// The word in metrics and logs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Throttled => "throttled",
            Self::Transient => "transient",
            Self::Malformed => "malformed",
            Self::NotFound => "not-found",
            Self::HostQuota => "host-quota",
            Self::Quota => "quota",
            Self::HostCapacity => "host-capacity",
            Self::LaunchCapacity => "launch-capacity",
            Self::Permission => "permission",
            Self::Terminal => "terminal",
            Self::Idempotency => "idempotency",
            Self::HostOccupied => "host-occupied",
            Self::HostTooYoung => "host-too-young",
            Self::DryRun => "dry-run",
        }
    }

    /// What a pass that failed with it should do, unless the room knows better.
    ///
    /// The shortest waits are those at which an outside cause (a quota raised, a right granted, a lagging read) may
    /// have gone away.
    #[must_use]
    pub fn class(self) -> Class {
        let after = |seconds| Class::Transient { at_least: Some(Duration::from_secs(seconds)) };
        match self {
            Self::Throttled | Self::Transient | Self::Malformed | Self::DryRun => Class::Transient { at_least: None },
            Self::NotFound | Self::Idempotency => after(5),
            Self::LaunchCapacity | Self::HostOccupied => after(30),
            Self::HostCapacity => after(120),
            Self::HostQuota | Self::Quota | Self::Permission | Self::HostTooYoung => after(300),
            Self::Terminal => Class::Terminal,
        }
    }
}

/// Codes and their kinds; a `*` at the end stands for any rest. An exact row wins over a pattern, a longer pattern over
/// a shorter one; codes that are not listed are passing faults.
pub(crate) const TABLE: &[(&str, Kind)] = &[
    ("RequestLimitExceeded", Kind::Throttled),
    ("Throttling*", Kind::Throttled),
    ("ThrottledException", Kind::Throttled),
    ("RequestThrottled*", Kind::Throttled),
    ("TooManyRequestsException", Kind::Throttled),
    ("EC2ThrottledException", Kind::Throttled),
    ("InternalError", Kind::Transient),
    ("InternalFailure", Kind::Transient),
    ("ServiceUnavailable*", Kind::Transient),
    ("Unavailable", Kind::Transient),
    ("RequestTimeout*", Kind::Transient),
    ("IDPCommunicationError*", Kind::Transient),
    ("InvalidHostID.NotFound", Kind::NotFound),
    ("InvalidHostId.NotFound", Kind::NotFound),
    ("InvalidInstanceID.NotFound", Kind::NotFound),
    ("InvalidNetworkInterfaceID.NotFound", Kind::NotFound),
    ("InvalidVolume.NotFound", Kind::NotFound),
    ("InvalidVpcID.NotFound", Kind::NotFound),
    ("InvalidDhcpOptionsID.NotFound", Kind::NotFound),
    ("InvalidDhcpOptionID.NotFound", Kind::NotFound),
    ("InvalidID", Kind::NotFound),
    ("HostLimitExceeded", Kind::HostQuota),
    ("InstanceLimitExceeded", Kind::Quota),
    ("VcpuLimitExceeded", Kind::Quota),
    ("VolumeLimitExceeded", Kind::Quota),
    ("MaxIOPSLimitExceeded", Kind::Quota),
    ("ResourceLimitExceeded", Kind::Quota),
    ("PendingVerification", Kind::Quota),
    ("InsufficientHostCapacity", Kind::HostCapacity),
    ("InsufficientCapacityOnHost", Kind::LaunchCapacity),
    ("InsufficientInstanceCapacity", Kind::LaunchCapacity),
    ("IncompatibleHostRequirements", Kind::LaunchCapacity),
    ("InsufficientFreeAddressesInSubnet", Kind::LaunchCapacity),
    ("UnauthorizedOperation", Kind::Permission),
    ("AccessDenied*", Kind::Permission),
    ("AuthFailure", Kind::Permission),
    ("OptInRequired", Kind::Permission),
    ("ExpiredToken*", Kind::Permission),
    ("InvalidClientTokenId", Kind::Permission),
    ("UnrecognizedClientException", Kind::Permission),
    ("SignatureDoesNotMatch", Kind::Permission),
    ("IncompleteSignature", Kind::Permission),
    ("MissingAuthenticationToken*", Kind::Permission),
    ("InvalidIdentityToken*", Kind::Permission),
    ("IDPRejectedClaim*", Kind::Permission),
    ("RegionDisabled*", Kind::Permission),
    ("RequestExpired", Kind::Permission),
    ("Blocked", Kind::Permission),
    ("InvalidHostConfiguration", Kind::Terminal),
    ("UnsupportedHostConfiguration", Kind::Terminal),
    ("Unsupported*", Kind::Terminal),
    ("InvalidParameter*", Kind::Terminal),
    ("MissingParameter", Kind::Terminal),
    ("UnknownParameter", Kind::Terminal),
    ("InvalidAction", Kind::Terminal),
    ("InvalidFilter", Kind::Terminal),
    ("InvalidInstanceType", Kind::Terminal),
    ("InvalidAMIID.*", Kind::Terminal),
    ("InvalidSubnetID.NotFound", Kind::Terminal),
    ("InvalidGroup.NotFound", Kind::Terminal),
    ("InvalidKeyPair.NotFound", Kind::Terminal),
    ("InvalidAffinity", Kind::Terminal),
    ("InvalidAvailabilityZone", Kind::Terminal),
    ("InvalidBlockDeviceMapping", Kind::Terminal),
    ("TagLimitExceeded", Kind::Terminal),
    ("InvalidHostID.Malformed", Kind::Terminal),
    ("InvalidInstanceID.Malformed", Kind::Terminal),
    ("InvalidUserData.Malformed", Kind::Terminal),
    ("ValidationError", Kind::Terminal),
    ("MalformedPolicyDocument*", Kind::Terminal),
    ("PackedPolicyTooLarge*", Kind::Terminal),
    ("IdempotentParameterMismatch", Kind::Idempotency),
    ("IdempotentInstanceTerminated", Kind::Idempotency),
    ("InvalidClientToken", Kind::Idempotency),
    ("InvalidHost.Occupied", Kind::HostOccupied),
    ("HostMinAllocationPeriodUnexpired", Kind::HostTooYoung),
    ("DryRunOperation", Kind::DryRun),
];

/// The code without the `Client.` or `Server.` that EC2 puts before the codes of items and state reasons.
#[must_use]
pub fn strip_prefix(code: &str) -> &str {
    code.strip_prefix("Client.").or_else(|| code.strip_prefix("Server.")).unwrap_or(code)
}

fn row(code: &str) -> Option<(&'static str, Kind)> {
    let code = strip_prefix(code);
    let fits = |pattern: &str| match pattern.strip_suffix('*') {
        Some(start) => code.starts_with(start),
        None => code == pattern,
    };
    let weight = |pattern: &str| (!pattern.ends_with('*'), pattern.len());
    TABLE.iter().filter(|(pattern, _)| fits(pattern)).max_by_key(|(pattern, _)| weight(pattern)).copied()
}

/// What a code means; one that is not in the table is a passing fault.
#[must_use]
pub fn kind_of(code: &str) -> Kind {
    row(code).map_or(Kind::Transient, |(_, kind)| kind)
}

/// The code for a metric label: as it is if the table knows it, so that the number of labels is bounded.
#[must_use]
pub fn label_of(code: &str) -> &'static str {
    row(code).map_or("other", |(pattern, _)| pattern.strip_suffix('*').unwrap_or(pattern))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_code_has_its_class() {
        let rows: &[(Kind, &[&str])] = &[
            (Kind::Throttled, &["RequestLimitExceeded", "Throttling", "ThrottlingException", "Throttling.User"]),
            (Kind::Transient, &["InternalError", "InternalFailure", "ServiceUnavailable", "Unavailable"]),
            (Kind::Transient, &["NeverHeardOf", "", "Client.", "Server.InternalError", "RequestTimeout"]),
            (Kind::NotFound, &["InvalidHostID.NotFound", "InvalidHostId.NotFound", "InvalidInstanceID.NotFound"]),
            (Kind::HostQuota, &["HostLimitExceeded", "Client.HostLimitExceeded"]),
            (
                Kind::Quota,
                &[
                    "InstanceLimitExceeded",
                    "VcpuLimitExceeded",
                    "VolumeLimitExceeded",
                    "MaxIOPSLimitExceeded",
                    "ResourceLimitExceeded",
                    "PendingVerification",
                ],
            ),
            (Kind::HostCapacity, &["InsufficientHostCapacity", "Server.InsufficientHostCapacity"]),
            (
                Kind::LaunchCapacity,
                &[
                    "InsufficientCapacityOnHost",
                    "InsufficientInstanceCapacity",
                    "IncompatibleHostRequirements",
                    "InsufficientFreeAddressesInSubnet",
                ],
            ),
            (
                Kind::Permission,
                &[
                    "UnauthorizedOperation",
                    "AccessDenied",
                    "AccessDeniedException",
                    "AuthFailure",
                    "OptInRequired",
                    "ExpiredToken",
                    "ExpiredTokenException",
                    "InvalidClientTokenId",
                    "SignatureDoesNotMatch",
                    "InvalidIdentityToken",
                ],
            ),
            (
                Kind::Terminal,
                &[
                    "InvalidHostConfiguration",
                    "UnsupportedHostConfiguration",
                    "Unsupported",
                    "UnsupportedOperation",
                    "InvalidParameterValue",
                    "InvalidParameterCombination",
                    "InvalidParameter",
                    "MissingParameter",
                    "InvalidAMIID.NotFound",
                    "InvalidAMIID.Malformed",
                    "InvalidAMIID.Unavailable",
                    "InvalidSubnetID.NotFound",
                    "InvalidGroup.NotFound",
                    "InvalidKeyPair.NotFound",
                    "InvalidAffinity",
                    "InvalidAvailabilityZone",
                    "InvalidBlockDeviceMapping",
                    "TagLimitExceeded",
                    "InvalidInstanceType",
                ],
            ),
            (Kind::Idempotency, &["IdempotentParameterMismatch", "IdempotentInstanceTerminated", "InvalidClientToken"]),
            (Kind::HostOccupied, &["InvalidHost.Occupied", "Client.InvalidHost.Occupied"]),
            (Kind::HostTooYoung, &["HostMinAllocationPeriodUnexpired"]),
            (Kind::DryRun, &["DryRunOperation", "Client.DryRunOperation"]),
        ];
        let mut seen = BTreeSet::new();
        for (kind, codes) in rows {
            for code in *codes {
                assert_eq!(kind_of(code), *kind, "{code}");
                seen.insert(label_of(code));
            }
        }
        assert!(seen.contains("Throttling") && seen.contains("other"));
    }

    #[test]
    fn every_kind_says_what_to_do() {
        let soon = Class::Transient { at_least: None };
        let after = |seconds| Class::Transient { at_least: Some(Duration::from_secs(seconds)) };
        for (kind, class) in [
            (Kind::Throttled, soon),
            (Kind::Transient, soon),
            (Kind::Malformed, soon),
            (Kind::DryRun, soon),
            (Kind::NotFound, after(5)),
            (Kind::Idempotency, after(5)),
            (Kind::LaunchCapacity, after(30)),
            (Kind::HostOccupied, after(30)),
            (Kind::HostCapacity, after(120)),
            (Kind::HostQuota, after(300)),
            (Kind::Quota, after(300)),
            (Kind::Permission, after(300)),
            (Kind::HostTooYoung, after(300)),
            (Kind::Terminal, Class::Terminal),
        ] {
            assert_eq!(kind.class(), class, "{}", kind.as_str());
        }
    }

    #[test]
    fn no_row_is_there_twice() {
        let mut seen = BTreeSet::new();
        for (pattern, _) in TABLE {
            assert!(seen.insert(pattern), "{pattern}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn a_row_matches_itself_and_prefixes_change_nothing(at in 0..TABLE.len(), tail in "[A-Za-z.]{0,12}") {
            let (pattern, kind) = TABLE[at];
            let code = match pattern.strip_suffix('*') { Some(start) => format!("{start}{tail}"), None => pattern.to_owned() };
            for prefix in ["", "Client.", "Server."] {
                let found = kind_of(&format!("{prefix}{code}"));
                // A longer row may know better what a pattern covers.
                prop_assert!(found == kind || TABLE.iter().any(|(other, k)| *k == found && other.len() > pattern.len()));
            }
        }

        #[test]
        fn any_text_has_a_kind_and_a_label_of_the_table(code in any::<String>()) {
            let _ = kind_of(&code);
            let label = label_of(&code);
            prop_assert!(label == "other" || TABLE.iter().any(|(pattern, _)| pattern.trim_end_matches('*') == label));
        }
    }
}
