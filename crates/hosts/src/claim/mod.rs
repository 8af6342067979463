//! The kind of claims `aws-dedicated-host`: a HostClaim gets a dedicated host and an instance on it, and gives both back.
//!
//! **Promise.** The fifteen promises of every kind, and above them that of the room: no path, crash or race loses track of
//! a host.
//!
//! **How.** A claim is read as the machine it asks for ([`wish`]). From there on it goes the way of every machine: the
//! same preflight, journal, placement, launch, release and proof by tags. The journal stands in annotations of the claim,
//! tokens and the id in the tags are the claim's uid, and the tag that names a Machine names the claim.
//!
//! **What differs.** The claim's status ([`status`]) says what tenants may read. Power follows the claim, by stopping and
//! starting the instance. Quotas hold before the first intent is stored.
//!
//! **Hosts that are there.** A claim with a selector first looks for a host of its tenant that fits: one that was left behind
//! becomes its own, and on one that another such claim has it gets a place. A host has one claim at a time; that one hands it
//! over to another one on it when it leaves, and the last one gives it back.
//!
//! What a tenant writes on its claim, the journal included, is believed as little as what stands on a machine: nothing is
//! changed or ended that does not carry the claim's own tags, and nothing is launched on a host that does not carry them or,
//! for a place, those of its tenant.

mod asker;
mod facts;
mod kind;
pub mod rights;
mod status;
mod wake;
mod wish;

use std::sync::Arc;
use std::time::Duration;

use api::key::ObjectKey;
use api::names::hosts::MACHINE_NAME_TAG;
use aws::cloud::Cloud;
use aws::port::Tags;
use claim_kind::heartbeat;
use claim_kind::table::Table;
use kit::events::Events;
use kit::manager::{self, Manager};
use kit::room::{Driver, Roll};
use kit::teller::Teller;
use kit::write::Writer;

pub use asker::{ByClaim, Feeds};
pub use facts::{ClaimFacts, Claims, Fault, Progress, Quotas};
pub use kind::{FINALIZER, KIND, profile};

use crate::asker::Asker;
use crate::room::{Keeper, Parts};

/// Whose hosts are counted together: those of all claims of a namespace.
pub const GROUP: &str = "HostClaim";
/// The shortest and the longest pause between two tries; all kinds of claims keep to them.
const PAUSES: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(300));

/// How long to wait after so many failures in a row.
#[must_use]
pub fn pace(tries: u32) -> Duration {
    let factor = 1_u32.checked_shl(tries.saturating_sub(1)).unwrap_or(u32::MAX);
    PAUSES.0.saturating_mul(factor).min(PAUSES.1)
}

/// How the tag that names a Machine names a claim. No Machine has such a name.
pub(crate) fn owner_name(claim: &str) -> String {
    format!("{GROUP}/{claim}")
}

/// How the tag that names the owner of a resource names a claim, with its namespace.
#[must_use]
pub fn tagged(claim: &ObjectKey) -> String {
    format!("{}/{}", claim.namespace().unwrap_or_default(), owner_name(claim.name()))
}

/// Whether a resource was made for a claim.
#[must_use]
pub fn is_claimed(tags: &Tags) -> bool {
    let owner = tags.get(MACHINE_NAME_TAG).and_then(|tag| tag.split_once('/'));
    owner.is_some_and(|(_, name)| name.split_once('/').is_some_and(|(group, _)| group == GROUP))
}

/// Adds the kind to a manager, beside the room: both share what EC2 says, whose turn it is, and the look for orphans.
///
/// # Errors
/// When a kind of object cannot be followed.
pub fn mount<C: Cloud>(
    manager: &Manager,
    room: &Arc<Driver<Keeper<C>>>,
) -> Result<Arc<Driver<Keeper<C, ByClaim>>>, manager::Error> {
    let machines = room.room();
    let claims = manager.feed::<Claims>()?;
    // Once: a second mount would serve the same feed.
    let _ = machines.claims.set(claims.clone());
    let world = machines.world.clone();
    let feeds = Feeds { claims, holders: manager.feed()?, quotas: manager.feed()?, kinds: manager.feed()? };
    let seat = manager.common::<Table>().seat();
    let asker = ByClaim::new(feeds.clone(), world.clone(), seat.clone());
    let announced = asker.announced();
    let (client, name) = (manager.client().clone(), ByClaim::NAME);
    let parts = Parts {
        world: world.clone(),
        config: Arc::clone(&machines.config),
        shelves: Arc::clone(&machines.shelves),
        writer: Writer::new(client.clone(), name),
        events: Events::new(client, name, Some(manager.instance().to_owned())),
        clock: machines.clock.clone(),
        metrics: machines.metrics.clone(),
    };
    let driver = Driver::new(manager, Keeper::asked_by(asker, parts).telling(Teller::start(manager, name)));
    wake::claims(&feeds, &world, driver.work(), &driver.room().hurry);
    let roll = Roll::open(manager, name, "HostClaim");
    roll.follow(&feeds.claims, |_, claim| claim.as_ref().map(|claim| claim.stand()));
    wake::table(&seat, announced, &feeds, driver.work());
    heartbeat::mount(manager, profile(), || true)?;
    let (ready, around) = (feeds.clone(), world);
    let settled = async move {
        ready.settled().await;
        around.settled().await;
    };
    manager.drive(&driver, settled, move |accepts| feeds.keys(accepts));
    Ok(driver)
}
