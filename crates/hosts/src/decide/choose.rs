//! Which host that is there already a claim takes, or takes a place on, before another one is paid for.

use api::names::hosts::{ALLOCATION_ID_TAG, RELEASE_PENDING_TAG};
use api::names::{HostId, InstanceType};
use aws::port::{Host, HostState};

use super::CONSISTENT;
use crate::journal::{Allocation, Phase};
use crate::own::is_retained;
use crate::placement::Place;
use crate::snapshot::{Holder, Pool, Snapshot};

/// The host that was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chosen {
    /// Which.
    pub host: HostId,
    /// Where the instance goes: a subnet of the zone of the host.
    pub place: Place,
    /// Whether the host becomes the claim's own (`Allocated`), or the claim has a place on it (`Claimed`).
    pub phase: Phase,
    /// For how many instances like the claim's there is room that nobody else counts on.
    pub room: u32,
}

/// The host that a claim with a selector takes; none when none fits. Of those that fit, one in the wished zone comes first,
/// then the fullest, because few full hosts cost less than many empty ones; the id decides between equals.
pub(crate) fn choose(s: &Snapshot, before: Option<&Allocation>) -> Option<Chosen> {
    let pool = s.pool.as_deref()?;
    let wished = pool.places.first().map(|place| &place.zone);
    let all = pool.hosts.iter().filter(|host| !was_left(s, before, &host.id)).filter_map(|host| offer(s, pool, host));
    all.min_by_key(|chosen| (Some(&chosen.place.zone) != wished, chosen.room, chosen.host.clone()))
}

/// The offer that a host is to a claim, as a journal that was just decided on takes it up.
pub(crate) fn offered(s: &Snapshot, taken: &Allocation) -> Option<Chosen> {
    let (pool, id) = (s.pool.as_deref()?, taken.hosts.first()?);
    let host = pool.hosts.iter().find(|host| host.id == *id)?;
    offer(s, pool, host).filter(|offer| offer.phase == taken.phase)
}

/// A host that did not work out is left alone until EC2 has had time to show why.
fn was_left(s: &Snapshot, before: Option<&Allocation>, host: &HostId) -> bool {
    before.is_some_and(|before| before.knows(host) && !s.is_older(before.at, CONSISTENT))
}

fn offer(s: &Snapshot, pool: &Pool, host: &Host) -> Option<Chosen> {
    let selector = s.claim.as_ref()?.selector.as_ref()?;
    let type_: InstanceType = s.machine.spec.instance_type.parse().ok()?;
    let zone = host.zone.as_ref()?;
    let place = pool.places.iter().find(|place| place.zone == *zone)?;
    let takes = match (&host.instance_type, &host.instance_family) {
        (Some(only), _) => only == type_.as_str(),
        (None, Some(family)) => family == type_.family().as_str(),
        (None, None) => false,
    };
    let ours = host.owner.is_none() || host.owner == s.account;
    let going = host.tags.contains_key(RELEASE_PENDING_TAG);
    if host.state != HostState::Available || !takes || !ours || going || host.in_resource_group {
        return None;
    }
    if !s.is_near(&host.tags) || !selector.fits(&host.tags) {
        return None;
    }
    let others: Vec<&Holder> = pool.others(&host.id, &s.key).collect();
    let phase = if s.may_adopt(host) {
        others.is_empty().then_some(Phase::Allocated)?
    } else {
        shared(s, host, &others).then_some(Phase::Claimed)?
    };
    let unseen = others.iter().filter(|other| !is_on(other, host));
    let room = host.room_for(&type_)?.saturating_sub(unseen.map(|other| places(host, &type_, other)).sum::<u32>());
    (room > 0).then(|| Chosen { host: host.id.clone(), place: place.clone(), phase, room })
}

/// Whether a host is shared by whoever has it: a claim that selects hosts itself and that goes on having it. What a machine
/// has, or a claim that selects nothing, is its own alone.
fn shared(s: &Snapshot, host: &Host, others: &[&Holder]) -> bool {
    let named = host.tags.get(ALLOCATION_ID_TAG);
    let has = |other: &&Holder| other.phase == Phase::Allocated && named.is_some_and(|id| id == other.id.as_str());
    s.may_share(host)
        && !is_retained(&host.tags)
        && others.iter().all(|other| other.is_claim && other.shares)
        && others.iter().any(|other| has(other) && !other.deleting)
}

/// Whether EC2 counts the instance of a holder already.
fn is_on(other: &Holder, host: &Host) -> bool {
    other.instance.as_ref().is_some_and(|id| host.instances.iter().any(|instance| instance.id == *id))
}

/// How many instances of a type would fit where one of another holder goes.
fn places(host: &Host, type_: &InstanceType, other: &Holder) -> u32 {
    let total = |name: &str| host.room.iter().find(|room| room.instance_type == name).map(|room| room.total);
    match (total(type_.as_str()), total(&other.instance_type)) {
        (Some(own), Some(theirs)) if theirs > 0 => own.div_ceil(theirs).max(1),
        _ => 1,
    }
}
