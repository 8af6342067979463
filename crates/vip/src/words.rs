//! The one sentence and the one reason for each way an address can stand, for hooks, conditions and explanations alike.
//!
//! Sentences hold no times, counters or server errors: every new text on a Cluster wakes Cluster API.

use api::reasons::vip::Reason;

use crate::facts::PoolName;
use crate::names::Slot;
use crate::scene::{Scene, Use};
use crate::survey::{State, Want};

/// The reason for the state of an address.
#[must_use]
pub const fn reason(state: &State) -> Reason {
    match state {
        State::Bound { .. } => Reason::Allocated,
        State::Unclaimed { .. }
        | State::Unowned
        | State::Waiting { .. }
        | State::Stuck { .. }
        | State::Behind
        | State::Leaving => Reason::WaitingForAddress,
        State::Exhausted { .. } => Reason::PoolExhausted,
        State::Foreign { .. } => Reason::ClaimForeign,
        State::NoPool { .. } => Reason::NoMatchingPool,
        State::Conflict { .. } => Reason::AddressConflict,
        State::Mismatch { .. } => Reason::AddressMismatch,
        State::Missing { .. } => Reason::ClaimMissing,
    }
}

/// What there is to say about the state of an address.
#[must_use]
pub fn sentence(slot: Slot, want: &Want, scene: &Scene) -> String {
    let claim =
        format!("IPAddressClaim {}/{}", scene.key.namespace().unwrap_or_default(), slot.claim(scene.key.name()));
    match &want.state {
        State::Bound { address, pool } => format!("{slot} address {address} from {}", named(pool.as_ref())),
        State::Unclaimed { pool, .. } => format!("about to ask {pool} for the {slot} address: {claim}"),
        State::Unowned => format!("about to take over {claim}"),
        State::Waiting { pool, .. } => format!("waiting for address: {claim}, {}", named(pool.as_ref())),
        State::Stuck { pool, better } => {
            format!("{claim} gets nothing from {}; {better} is asked instead", named(pool.as_ref()))
        }
        State::Behind => format!("waiting to see {claim}"),
        State::Leaving => format!("waiting until the earlier {claim} is gone"),
        State::Exhausted { pools } => {
            let pools: Vec<String> = pools.iter().map(ToString::to_string).collect();
            let many = if pools.len() == 1 { "pool" } else { "pools" };
            format!(
                "no free address in {} matching {many}: {}; enlarge one or add another",
                pools.len(),
                pools.join(", ")
            )
        }
        State::Foreign { owner } => format!("{claim} belongs to {owner}; delete it or rename the cluster"),
        State::NoPool { class, tally } => {
            let family = want.family.map(|family| format!(", family {family}")).unwrap_or_default();
            let namespace = scene.key.namespace().unwrap_or_default();
            format!(
                "no pool fits the {slot} address (class {class}, namespace {namespace}{family}): of the pools, {tally}"
            )
        }
        State::Conflict { address, by } => {
            format!("address {address} is already {by}; exclude it from the pool, then delete {claim}")
        }
        State::Mismatch { held, shown } => {
            format!(
                "the Cluster shows {shown} as {slot} address, but {claim} holds {held}; nothing is changed by itself"
            )
        }
        State::Missing { shown } => format!(
            "{shown} is shown as {slot} address, but {claim} is gone, so the pool may give it away again; exclude it from the pool"
        ),
    }
}

/// What there is to say about somebody else's use of an address that a user chose.
#[must_use]
pub fn rivalry(rival: &Use) -> String {
    format!("the endpoint {} is already {}; choose another one", rival.address, rival.by)
}

fn named(pool: Option<&PoolName>) -> String {
    pool.map_or_else(|| "a pool it does not name".to_owned(), ToString::to_string)
}
