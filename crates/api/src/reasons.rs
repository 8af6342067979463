//! Condition types and reasons: one enum per room, each reason with its meaning and its place in the book.
//!
//! A reason is part of the API: users wait for it, alerts match it, the book explains it. [`all`] lists every one so
//! that a test can join code and book in both directions.

/// Condition type: the object is fine as a whole; every kind has it, or names its own summary.
pub const READY: &str = "Ready";

/// Condition type of a HostClaimKind: a controller for the kind is alive.
pub const AVAILABLE: &str = "Available";

/// A reason as the book lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The room that uses it, or `common`.
    pub room: &'static str,
    /// The reason as it stands in conditions and events.
    pub reason: &'static str,
    /// What it means, in one sentence.
    pub meaning: &'static str,
    /// Page and anchor in the book, below `book/src/`.
    pub anchor: &'static str,
}

/// Every reason of every room, room by room in the order of this file.
pub fn all() -> Vec<Entry> {
    let mut all = Vec::new();
    all.extend(common::Reason::ALL.iter().map(|r| r.entry()));
    all.extend(claim_kind::Reason::ALL.iter().map(|r| r.entry()));
    all.extend(vip::Reason::ALL.iter().map(|r| r.entry()));
    all
}

macro_rules! reasons {
    ($room:literal { $($name:ident, $anchor:literal, $meaning:literal;)+ }) => {
        /// Why a condition of this room is as it is.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Reason {
            $(#[doc = $meaning] $name,)+
        }

        impl Reason {
            /// Every reason of the room.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// The reason as it stands in conditions and events.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)+ }
            }

            /// What the reason means, in one sentence.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$name => $meaning,)+ }
            }

            /// Page and anchor in the book, below `book/src/`.
            pub const fn anchor(self) -> &'static str {
                match self { $(Self::$name => concat!("reasons/", $room, ".md#", $anchor),)+ }
            }

            /// The reason as the book lists it.
            pub const fn entry(self) -> super::Entry {
                super::Entry { room: $room, reason: self.as_str(), meaning: self.meaning(), anchor: self.anchor() }
            }
        }

        impl std::fmt::Display for Reason {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl From<Reason> for &'static str {
            fn from(reason: Reason) -> Self {
                reason.as_str()
            }
        }
    };
}

/// Reasons the kit itself sets, on objects of any room.
pub mod common {
    reasons! { "common" {
        InternalError, "internalerror",
            "Berth met a fault of its own while working on this object; the object was set aside and is tried again.";
    } }
}

/// Reasons on HostClaimKind objects.
pub mod claim_kind {
    reasons! { "claim-kind" {
        ControllerAlive, "controlleralive",
            "The controller of this kind renewed its heartbeat in time, so claims of the kind are served.";
        HeartbeatMissing, "heartbeatmissing",
            "No controller has ever reported for this kind, so claims of the kind wait.";
        HeartbeatStale, "heartbeatstale",
            "The controller of this kind stopped renewing its heartbeat, so new and changed claims of the kind wait.";
        InvalidSpec, "invalidspec",
            "The spec of this kind breaks a rule the schema cannot express, such as a pattern that does not compile.";
    } }
}

/// Reasons on Clusters, for their control-plane and ingress addresses.
pub mod vip {
    reasons! { "vip" {
        Allocated, "allocated",
            "The address was taken from a pool and stands on the Cluster.";
        Manual, "manual",
            "The user chose the endpoint, so no address is taken from a pool.";
        ManualInsidePool, "manualinsidepool",
            "The user chose an endpoint that a matching pool may still give to somebody else.";
        ManualClaimUnused, "manualclaimunused",
            "The user chose the endpoint, and a claim of this cluster holds another address for nothing.";
        WaitingForAddress, "waitingforaddress",
            "The claim is there and its provider has not given it an address yet.";
        NoMatchingPool, "nomatchingpool",
            "No pool fits the cluster's class, role, namespace and family.";
        PoolExhausted, "poolexhausted",
            "Pools fit, but none of them has an address left.";
        AddressConflict, "addressconflict",
            "Another cluster or claim uses the same address.";
        AddressMismatch, "addressmismatch",
            "The Cluster shows another address than its claim holds, and no repair would be safe.";
        ClaimMissing, "claimmissing",
            "The Cluster shows an address that no claim protects any more.";
        ClaimForeign, "claimforeign",
            "A claim with the name this cluster needs belongs to somebody else.";
        InvalidAnnotation, "invalidannotation",
            "An annotation of the Cluster or its class has a value that cannot be used.";
    } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_reason_is_a_pascal_case_word_with_one_sentence_and_its_own_anchor() {
        let mut anchors = BTreeSet::new();
        for entry in all() {
            assert!(entry.reason.starts_with(|c: char| c.is_ascii_uppercase()), "{entry:?}");
            assert!(entry.reason.chars().all(|c| c.is_ascii_alphanumeric()) && entry.reason.len() <= 64, "{entry:?}");
            assert!(entry.meaning.ends_with('.') && entry.meaning.matches(". ").count() == 0, "{entry:?}");
            assert_eq!(entry.anchor, format!("reasons/{}.md#{}", entry.room, entry.reason.to_lowercase()));
            assert!(anchors.insert(entry.anchor), "{entry:?}");
        }
        assert_eq!(anchors.len(), common::Reason::ALL.len() + claim_kind::Reason::ALL.len() + vip::Reason::ALL.len());
    }
}
