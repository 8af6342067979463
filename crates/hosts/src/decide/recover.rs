//! Hosts that the journal should know and does not: what can be proven is recorded again, and what cannot is told.

use api::names::hosts::{ALLOCATION_ID_TAG, MANAGEMENT_CLUSTER_TAG, RETAINED_FROM_TAG, RETAINED_TAG};
use api::names::{HostId, SubnetId};
use api::reasons::hosts::Reason;
use aws::port::{Host, HostShape, HostState, Instance};

use super::host::host_tags;
use super::{Says, Step};
use crate::journal::{Allocation, AllocationId, MOST_HOSTS, Phase, Terms, whole};
use crate::own::is_retained;
use crate::request;
use crate::snapshot::Snapshot;
use crate::tags::{self, Change};

/// Hosts that EC2 shows as the machine's own and paid for, and the journal does not count as such. What it took for given
/// back counts as seen again once reads have had time to agree.
pub(super) fn surfaced(s: &Snapshot, allocation: &Allocation) -> Vec<HostId> {
    let settled = s.is_older(allocation.at, super::CONSISTENT);
    let new = |host: &&Host| match allocation.phase {
        Phase::Released => settled || !allocation.knows(&host.id),
        _ => !allocation.hosts.contains(&host.id) && (settled || !allocation.past.contains(&host.id)),
    };
    s.paid().filter(new).map(|host| host.id.clone()).collect()
}

/// The journal of a machine that has lost it, from hosts whose tags name the machine.
pub(super) fn recovered(s: &Snapshot) -> Option<Allocation> {
    let journal = s.journal();
    if journal.allocation.is_some() {
        return None;
    }
    let launched = journal.launch.as_ref().map(|launch| launch.id.as_str());
    let is_mine = |host: &&Host| {
        let tag = |key: &str| host.tags.get(key).map(String::as_str);
        let Some(id) = tag(ALLOCATION_ID_TAG) else { return false };
        let here = s.management.is_some() && tag(MANAGEMENT_CLUSTER_TAG) == s.management.as_deref();
        let proven = launched.map_or_else(|| here || s.is_on(host), |launched| launched == id);
        let fixed = s.machine.spec.host_id.as_deref() == Some(host.id.as_str());
        proven && !fixed && !host.state.is_released() && !is_retained(&host.tags) && s.is_named_in(&host.tags)
    };
    let mine: Vec<&Host> = s.sight()?.hosts.values().filter(is_mine).collect();
    let first = mine.first()?;
    let text = first.tags.get(ALLOCATION_ID_TAG)?;
    let id: AllocationId = text.parse().ok()?;
    // Two ids are two machines' lives; a person must say which is this one's.
    if mine.iter().any(|host| host.tags.get(ALLOCATION_ID_TAG) != Some(text)) {
        return None;
    }
    // The next epoch needs a token that was never used, so the count goes on where the hosts say it was.
    let epochs = mine.iter().filter_map(|host| host.client_token.as_deref()?.rsplit('-').next()?.parse::<u32>().ok());
    let epoch = epochs.filter(|epoch| *epoch > 0).max().unwrap_or(1);
    let quantity = u32::try_from(mine.len()).unwrap_or(MOST_HOSTS).min(MOST_HOSTS);
    Some(Allocation {
        token: id.host_token(epoch).ok()?,
        terms: Terms {
            zone: first.zone.clone()?,
            subnet: subnet(s, first)?,
            shape: shape(first).or_else(|| request::shape(&s.machine.spec).ok())?,
            quantity,
            recovery: None,
            maintenance: None,
            tags: first.tags.clone(),
        },
        id,
        epoch,
        phase: Phase::Allocated,
        hosts: mine.iter().map(|host| host.id.clone()).collect(),
        past: Vec::new(),
        adopted: true,
        from: None,
        cause: None,
        at: whole(s.now),
    })
}

/// A subnet of the host's zone: that of the launch, of the instance, of the next launch, or one of the cluster.
fn subnet(s: &Snapshot, host: &Host) -> Option<SubnetId> {
    let zone = host.zone.as_ref()?;
    let launched = s.journal().launch.map(|launch| launch.subnet);
    let placed = || s.instance().and_then(|instance| instance.subnet.clone());
    let planned = || match &s.preflight {
        Some(Ok(preflight)) if preflight.place.zone == *zone => Some(preflight.place.subnet.clone()),
        _ => None,
    };
    let listed = || {
        let all = s.cloud.iter().flat_map(|cloud| &cloud.subnets);
        all.filter(|subnet| subnet.zone == zone.as_str()).find_map(|subnet| subnet.id.parse().ok())
    };
    launched.or_else(placed).or_else(planned).or_else(listed)
}

fn shape(host: &Host) -> Option<HostShape> {
    let type_ = host.instance_type.as_deref().and_then(|text| text.parse().ok()).map(HostShape::Type);
    type_.or_else(|| host.instance_family.as_deref().and_then(|text| text.parse().ok()).map(HostShape::Family))
}

/// The journal of a host that another controller allocated: only where the status names it and the instance is on it.
pub(super) fn adopted(s: &Snapshot, instance: &Instance) -> Option<Allocation> {
    let host = instance.host.clone()?;
    let id = s.journal().launch.map_or_else(|| s.fresh.clone(), |launch| launch.id);
    let shown = s.sight()?.hosts.get(&host)?;
    if s.shown_host().as_ref() != Some(&host) || shown.state.is_released() || !s.may_take(shown, &id) {
        return None;
    }
    let terms = Terms {
        zone: instance.zone.clone()?,
        subnet: instance.subnet.clone()?,
        shape: request::shape(&s.machine.spec).ok()?,
        quantity: 1,
        recovery: None,
        maintenance: None,
        tags: host_tags(s, &id)?,
    };
    let intended = Allocation::intend(id, None, terms, s.now).ok()?;
    let mut adopted = intended.in_phase(Phase::Allocated, s.now).with_hosts(vec![host]);
    adopted.adopted = true;
    Some(adopted)
}

/// What is said about a host that seems to be the machine's and is not proven to be.
pub(super) fn doubt(s: &Snapshot) -> Option<String> {
    let host = s.doubtful()?;
    let why = match host.tags.get(ALLOCATION_ID_TAG) {
        Some(id) => format!("it carries the allocation id {id}, which no journal of this machine names"),
        None => format!("it carries no tag {ALLOCATION_ID_TAG}"),
    };
    Some(format!("host {} is paid for and seems to be this machine's, but {why}", host.id))
}

/// What a living machine says of such a host.
pub(super) fn doubted(s: &Snapshot) -> Option<Says> {
    doubt(s).map(|message| Says::no(Reason::HostMismatch, format!("{message}; no other one is asked for")))
}

/// Whether a host that was there before its journal still has to be told whose it is.
pub(super) fn is_unsigned(s: &Snapshot, allocation: &Allocation, host: &Host) -> bool {
    // What was left behind is taken to be used, and not in order to be given back.
    let taken = || allocation.phase == Phase::Allocated && !s.machine.deleting && s.may_adopt(host);
    let may_sign = || s.may_take(host, &allocation.id) || taken() || s.inherits(allocation, host);
    let its_own = allocation.adopted && !s.owns(host) && allocation.hosts.contains(&host.id);
    its_own && allocation.phase != Phase::Claimed && may_sign()
}

/// Whether a host that was left behind once, and has somebody again, still says so.
pub(super) fn is_still_left(s: &Snapshot, allocation: &Allocation, host: &Host) -> bool {
    let leaving = s.machine.deleting && !s.machine.releases();
    s.claim.is_some() && allocation.adopted && !leaving && s.owns(host) && is_retained(&host.tags)
}

/// What takes a host that was left behind back: it is nobody's to keep any more.
pub(super) fn taken_back() -> Vec<String> {
    vec![RETAINED_TAG.to_owned(), RETAINED_FROM_TAG.to_owned()]
}

/// What makes hosts say whose they are: those that were adopted and do not say so yet, and those that still name the
/// management cluster they came from.
pub(super) fn signatures(s: &Snapshot) -> Vec<Step> {
    let journal = s.journal();
    let Some(allocation) = journal.allocation.filter(|allocation| !allocation.phase.is_over()) else {
        return Vec::new();
    };
    let Some(management) = s.management.as_deref() else { return Vec::new() };
    let shown = allocation.hosts.iter().filter_map(|id| s.sight()?.hosts.get(id));
    let change = |host: &Host| {
        if is_unsigned(s, &allocation, host) {
            let signed = tags::change(&host.tags, &host_tags(s, &allocation.id)?, &std::collections::BTreeSet::new());
            let unset = if is_retained(&host.tags) { taken_back() } else { Vec::new() };
            return Some(Change { unset, ..signed });
        }
        if is_still_left(s, &allocation, host) {
            return Some(Change { set: aws::port::Tags::new(), unset: taken_back() });
        }
        let moved = s.owns(host) && host.tags.get(MANAGEMENT_CLUSTER_TAG).is_none_or(|found| found != management);
        let set = aws::port::Tags::from([(MANAGEMENT_CLUSTER_TAG.to_owned(), management.to_owned())]);
        moved.then_some(Change { set, unset: Vec::new() })
    };
    shown
        .filter(|host| !host.state.is_released() && !matches!(host.state, HostState::Other(_)))
        .filter_map(|host| Some(Step::Retag { resources: vec![host.id.to_string()], change: change(host)? }))
        .collect()
}
