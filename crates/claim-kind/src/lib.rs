//! The registry of claim kinds: which kinds of compute tenants may claim, and whether anybody serves them.
//!
//! **Promise.** A HostClaimKind says within seconds whether claims of it are served: `Available` is true while the
//! kind's controller renews its heartbeat, and false, with the reason, when it stops, never started, or the kind's own
//! spec cannot be used.
//!
//! **Inputs.** HostClaimKind objects: their spec, and the heartbeat that the kind's controller writes into the status.
//!
//! **Effects.** The `Available` condition and an event when it moves. Nothing else is written; the heartbeat belongs to
//! the kind's controller, which may use [`heartbeat`] for it. Claims of kinds that nobody serves are told so by
//! [`unserved`].
//!
//! **Invariants.** The condition follows from the object and the time alone, so equal objects have equal conditions. A
//! healthy kind costs one pass per heartbeat and no request.
//!
//! **Failure modes.** A heartbeat from a clock far ahead of ours is not believed. A kind that was stored while the
//! webhook was down is checked again here.

pub mod admit;
pub mod apply;
pub mod around;
pub mod claim;
#[cfg(feature = "contract")]
pub mod contract;
pub mod decide;
pub mod guard;
pub mod heartbeat;
pub mod held;
pub mod observe;
mod patterns;
pub mod quota;
pub mod rights;
pub mod status;
pub mod table;
pub mod terms;
pub mod unserved;
pub mod updated;

use std::time::Duration;

use api::key::ObjectKey;
use jiff::Timestamp;
use kit::feed::{Feed, Version};
use kit::manager::{self, Manager};
use kit::queue::Priority;
use kit::room::{Driver, Flow, Report, Room, Trouble, Violation};

use crate::decide::Step;
use crate::observe::{Kind, Snapshot};
use crate::status::Availability;
use crate::unserved::Wards;

/// How often a kind's controller renews its heartbeat.
pub const HEARTBEAT: Duration = Duration::from_secs(30);
/// A heartbeat older than this is stale: three were missed.
pub const STALE: Duration = Duration::from_secs(90);
/// A heartbeat further ahead of our clock than this is not believed.
pub const SKEW: Duration = Duration::from_secs(300);

/// The room.
pub struct Registry {
    kinds: Feed<Kind>,
    wards: Wards,
}

impl Room for Registry {
    const NAME: &'static str = "claims-kinds";
    type Key = ObjectKey;
    type Snapshot = Snapshot;
    type Step = Step;
    type Status = Availability;
    type Error = observe::Error;

    async fn observe(&self, key: &ObjectKey, now: Timestamp) -> Result<Option<Snapshot>, observe::Error> {
        let seen = observe::observe(&self.kinds, key, now)?;
        self.wards.note(key, seen.as_ref().map(decide::pulse));
        Ok(seen)
    }

    fn decide(&self, snapshot: &Snapshot) -> Vec<Step> {
        decide::decide(snapshot)
    }

    fn guard(&self, snapshot: &Snapshot, plan: &[Step]) -> Result<(), Violation> {
        guard::guard(snapshot, plan)
    }

    async fn apply(&self, _: &Snapshot, step: Step) -> Result<Flow, observe::Error> {
        Ok(apply::apply(&step))
    }

    fn report<'s>(
        &self,
        snapshot: &'s Snapshot,
        trouble: Option<&Trouble<observe::Error>>,
    ) -> Option<Report<'s, Availability>> {
        Some(status::report(snapshot, trouble))
    }

    fn wrote(&self, key: &ObjectKey, version: &Version) {
        self.kinds.wrote(key, version);
    }
}

/// Adds the registry to a manager: one feed, one queue, its workers. `here` names the kinds that rooms of the same
/// process serve.
///
/// # Errors
/// When another room follows the same kind by another view.
pub fn mount(manager: &Manager, here: &[&'static str]) -> Result<(), manager::Error> {
    let kinds = manager.feed::<Kind>()?;
    let wards = unserved::mount(manager, here)?;
    let driver = Driver::new(manager, Registry { kinds: kinds.clone(), wards });
    let work = driver.work().clone();
    kinds.observe(move |delta| work.add_now(delta.key.clone(), Priority::Urgent));
    let ready = kinds.clone();
    manager.drive(&driver, async move { ready.settled().await }, move |accepts| kinds.keys(accepts));
    Ok(())
}
