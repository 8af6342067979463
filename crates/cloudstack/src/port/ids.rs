//! Ids of things at a server: opaque, but told from each other.

use std::fmt;
use std::str::FromStr;

/// A text that no server would give as an id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} must be 1 to 64 letters, digits, '-' or '_'")]
pub struct IdError {
    what: &'static str,
}

/// An id; servers send UUIDs, and administrators may have chosen others.
macro_rules! ids {
    ($($(#[$doc:meta])* $ty:ident, $what:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $ty(Box<str>);

        impl $ty {
            /// The text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $ty {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                let fits = (1..=64).contains(&text.len())
                    && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
                if fits { Ok(Self(text.into())) } else { Err(IdError { what: $what }) }
            }
        }

        impl fmt::Display for $ty {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )*};
}

ids! {
    /// The id of a zone.
    ZoneId, "a zone id";
    /// The id of a domain.
    DomainId, "a domain id";
    /// The id of an account.
    AccountId, "an account id";
    /// The id of a user.
    UserId, "a user id";
    /// The id of a project.
    ProjectId, "a project id";
    /// The id of a network.
    NetworkId, "a network id";
    /// The id of a template.
    TemplateId, "a template id";
    /// The id of a compute offering.
    ServiceOfferingId, "a compute offering id";
    /// The id of a disk offering.
    DiskOfferingId, "a disk offering id";
    /// The id of an affinity group.
    AffinityGroupId, "an affinity group id";
    /// The id of a virtual machine.
    VirtualMachineId, "a virtual machine id";
    /// The id of a job.
    JobId, "a job id";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_short_plain_words() {
        let id: ZoneId = "86c2a73c-bec9-40fd-945b-f2fcc59ad5eb".parse().unwrap();
        assert_eq!(id.to_string(), "86c2a73c-bec9-40fd-945b-f2fcc59ad5eb");
        for text in ["", "a b", "a&b", "ä", &"a".repeat(65)] {
            assert!(text.parse::<ZoneId>().is_err(), "{text}");
        }
        assert_eq!(
            "".parse::<JobId>().unwrap_err().to_string(),
            "a job id must be 1 to 64 letters, digits, '-' or '_'"
        );
    }
}
