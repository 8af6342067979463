//! Leadership on a Lease that two candidates cannot both win.
//!
//! A term begins when the write that won it is *sent* and lasts as long as the Lease says. Another candidate takes a
//! held Lease only after it has seen one version of it unchanged for that long on its own monotonic clock, and only
//! by a replace that names this version. Nothing is ever concluded from the times written in the Lease. So with clocks
//! that run at one rate no two terms overlap; a Lease is still a hint and no fence (a process may be stopped between
//! the check and the effect), so destructive steps carry their own precondition. Deleting the Lease by hand voids the
//! promise for one term: the leader creates it again and candidates that knew it wait, but one that is just starting
//! cannot tell a deleted Lease from one that never was.
//!
//! [`Election`] decides as a plain value and is checked exhaustively within bounds; [`Candidate`] is the shell that
//! talks to the API server; [`Leadership`] is what the rest of the program asks.

mod candidate;
mod election;
mod store;

#[cfg(test)]
mod model;
#[cfg(test)]
mod simulation;

pub use candidate::{Candidate, Leadership, Settings};
pub use election::{Action, BadTerms, Draft, Election, Standing, Terms, View};

use crate::clock::Clock;

/// A name for this process that no other process has: the host's name and a random number.
#[must_use]
pub fn identity(host: &str, clock: &Clock) -> String {
    format!("{}_{:016x}", host.trim(), clock.roll())
}
