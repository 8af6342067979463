//! The secrets a claim hands to its host, and how far each has come.
//!
//! A host reads secrets of its own namespace only. When the claim lives elsewhere each secret is copied there, under a
//! name that tells host, claim and part, and the host is pointed at the copy.

use std::fmt;

use api::reasons::claims::Reason;

use crate::facts::{ClaimFacts, SecretRef};
use crate::names::short;

/// One of the secrets a claim can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// What the machine does at its first start.
    UserData,
    /// What the machine knows about itself.
    MetaData,
    /// How the machine's network is set up.
    NetworkData,
    /// What opens the registry of the image.
    Pull,
}

impl Part {
    /// Every part.
    pub const ALL: [Self; 4] = [Self::UserData, Self::MetaData, Self::NetworkData, Self::Pull];
    /// The parts that a host has fields of their own for.
    pub const DATA: [Self; 3] = [Self::UserData, Self::MetaData, Self::NetworkData];

    /// The host's field, which is also the key that the host's controller reads first.
    #[must_use]
    pub fn field(self) -> &'static str {
        match self {
            Self::UserData => "userData",
            Self::MetaData => "metaData",
            Self::NetworkData => "networkData",
            Self::Pull => "ociAuthSecretName",
        }
    }

    /// The last word of a copy's name.
    #[must_use]
    pub fn suffix(self) -> &'static str {
        match self {
            Self::UserData => "userdata",
            Self::MetaData => "metadata",
            Self::NetworkData => "networkdata",
            Self::Pull => "pull",
        }
    }

    /// The name of the secret that the claim gives for this part; empty when it asks for the part and names none.
    #[must_use]
    pub fn asked(self, claim: &ClaimFacts) -> Option<&str> {
        let reference = match self {
            Self::UserData => &claim.spec.user_data,
            Self::MetaData => &claim.spec.meta_data,
            Self::NetworkData => &claim.spec.network_data,
            Self::Pull => return claim.spec.image.as_ref()?.oci_auth_secret_name.as_deref(),
        };
        reference.as_ref().map(|reference| reference.name.as_deref().unwrap_or_default())
    }

    /// The reason of a condition that says the part did not reach the host.
    #[must_use]
    pub fn failure(self) -> Reason {
        match self {
            Self::UserData => Reason::UserDataSecretSyncFailure,
            Self::MetaData => Reason::MetaDataSecretSyncFailure,
            Self::NetworkData => Reason::NetworkDataSecretSyncFailure,
            Self::Pull => Reason::ImageAuthSecretSyncFailure,
        }
    }

    /// Whether a secret of this name is a copy for the claim of this uid: its label alone can be written by anybody who
    /// may write secrets.
    #[must_use]
    pub fn is_copy(name: &str, uid: &str) -> bool {
        let made = name.rsplit_once("-hc-").and_then(|(_, made)| made.split_once('-'));
        made.is_some_and(|(claim, part)| claim == short(uid) && Self::ALL.iter().any(|known| known.suffix() == part))
    }

    /// The name of the copy for a host and the claim of this uid.
    #[must_use]
    pub fn copy(self, host: &str, uid: &str) -> String {
        format!("{host}-hc-{}-{}", short(uid), self.suffix())
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UserData => "user data",
            Self::MetaData => "meta data",
            Self::NetworkData => "network data",
            Self::Pull => "image registry",
        })
    }
}

/// How far one part has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The claim does not ask for it.
    NotAsked,
    /// The secret is not there.
    Missing {
        /// Its name in the claim's namespace.
        name: Box<str>,
    },
    /// The secret cannot be used as it is.
    Unusable {
        /// Its name in the claim's namespace.
        name: Box<str>,
        /// What is wrong.
        fault: Fault,
    },
    /// It must be copied, or copied again.
    Due {
        /// Where the host will find it.
        at: SecretRef,
    },
    /// The host can read it.
    Ready {
        /// Where the host finds it.
        at: SecretRef,
    },
}

/// Why a secret cannot be handed to a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It holds neither the part's own key nor `value`.
    NoKey,
    /// A secret that is not ours has the name of the copy.
    NameTaken,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_known_by_its_whole_name() {
        for part in Part::ALL {
            assert!(Part::is_copy(&part.copy("rack-hc-1", "u"), "u"));
        }
        let short = short("u");
        for other in ["user", "h1-hc-", "h1-hc-00000000-userdata", &format!("h1-hc-{short}-other"), &short] {
            assert!(!Part::is_copy(other, "u"), "{other}");
        }
    }
}
