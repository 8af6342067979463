//! Thinks: pausing, and moving a claim with its host to another management cluster.
//!
//! A move copies objects, not status, and gives them new uids. So before one may begin the host's status is written
//! where it travels, the host is paused, and the uid of the claim, which will not be true there, is taken off the host.

use api::names::claims as names;

use crate::decide::Step;
use crate::observe::Snapshot;
use crate::standing::{Found, Standing};

/// One act of pausing or moving.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Carries the claim's pause to its host.
    Pause {
        /// The host.
        host: api::key::ObjectKey,
    },
    /// Makes the host ready to travel: paused, with its status in an annotation and without the claim's uid.
    Pack {
        /// The host.
        host: api::key::ObjectKey,
    },
    /// Lets a move go past the host.
    OpenHost {
        /// The host.
        host: api::key::ObjectKey,
    },
    /// Lets a move go past the claim.
    OpenClaim,
    /// Makes a move wait for the claim.
    CloseClaim,
}

/// The plan for a paused claim: only what the pause itself asks for.
#[must_use]
pub fn pausing(s: &Snapshot) -> Vec<Step> {
    let Standing::Bound { host, .. } = s.standing() else {
        return open_claim(s).into_iter().collect();
    };
    let here = host.key.namespace() == s.key.namespace();
    if !(here && s.cluster.as_ref().is_some_and(|cluster| cluster.paused)) {
        let carries = (here || s.grant.pause) && host.facts.annotation(names::HOST_PAUSED_ANNOTATION).is_none();
        return carries.then(|| Step::Move(Act::Pause { host: host.key.clone() })).into_iter().collect();
    }
    if !is_packed(host) {
        return vec![Step::Move(Act::Pack { host: host.key.clone() })];
    }
    let mut plan = Vec::new();
    if host.facts.annotation(names::BLOCK_MOVE_ANNOTATION).is_some() {
        plan.push(Step::Move(Act::OpenHost { host: host.key.clone() }));
    }
    plan.extend(open_claim(s));
    plan
}

/// Whether the host is ready to travel.
#[must_use]
pub fn is_packed(host: &Found) -> bool {
    let uid = host.facts.consumer.as_ref().map(|consumer| &*consumer.uid);
    host.facts.annotation(names::HOST_PAUSED_ANNOTATION).is_some()
        && host.facts.annotation(names::HOST_STATUS_ANNOTATION).is_some()
        && uid == Some("")
}

fn open_claim(s: &Snapshot) -> Option<Step> {
    s.claim.annotation(names::BLOCK_MOVE_ANNOTATION).is_some().then_some(Step::Move(Act::OpenClaim))
}

/// A claim of a cluster makes a move of that cluster wait while its host is in use.
#[must_use]
pub fn block(s: &Snapshot, _: &Found) -> Option<Step> {
    let open = s.claim.cluster.is_some() && s.claim.annotation(names::BLOCK_MOVE_ANNOTATION).is_none();
    open.then_some(Step::Move(Act::CloseClaim))
}
