//! Who gets which host.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::key::ObjectKey;
use api::own::BAREMETAL;
use claim_kind::held::Held;
use jiff::Timestamp;

use super::fit::Unfit;
use super::hosts::{Host, Seen, Shelf, is_reservation, reserved_until};
use super::queue::{Rank, Signature, Turn};
use super::quotas::Full;
use super::{State, Yard};
use crate::names::{avoid_annotation, spread};

impl Yard {
    /// The first filter that a host fails for a wish: all that look at neither tenant nor claim.
    pub(super) fn misfit(&self, wish: &Signature, host: &Seen<'_>, claim: Option<&ObjectKey>) -> Option<Unfit> {
        let namespace = host.namespace();
        if wish.in_namespace.as_deref().is_some_and(|only| only != namespace) {
            return Some(Unfit::OtherNamespace);
        }
        let Some(way) = wish.admitted.ways.get(namespace) else { return Some(Unfit::NotAdmitted) };
        let covering = || way.policies.iter().filter(|policy| policy.covers(host));
        if way.pass.is_none() && covering().next().is_none() {
            return Some(Unfit::NotAdmitted);
        }
        let permitted = way.pass.is_some() || covering().any(|policy| policy.permits(&wish.selector));
        if !permitted || !wish.selector.fits(&host.labels()) {
            return Some(Unfit::SelectorMismatch);
        }
        let group = host.group();
        let own_group = group.is_some() && group == wish.group.as_deref();
        let consumed = host.facts.consumer.is_some() && !(own_group && is_reservation(host.facts));
        if consumed || host.assumed.is_some_and(|by| Some(by) != claim) {
            return Some(Unfit::InUse);
        }
        if group.is_some() && !own_group {
            return Some(Unfit::ReservedForReuse);
        }
        if host.ailment.is_some() {
            return host.ailment;
        }
        wish.is_elsewhere(host).then_some(Unfit::OtherFailureDomain)
    }

    /// Which limit keeps a tenant from a host, which it may hold already.
    pub(super) fn full(&self, wish: &Signature, tenant: &str, host: &Seen<'_>) -> Option<Full> {
        let counted = self.hosts.get(host.key).and_then(|known| known.tenant()) == Some(tenant);
        self.limit(wish, tenant, host, counted)
    }

    /// Which limit would keep a tenant from one more host like this one.
    pub(super) fn full_for_another(&self, wish: &Signature, tenant: &str, like: &Seen<'_>) -> Option<Full> {
        self.limit(wish, tenant, like, false)
    }

    fn limit(&self, wish: &Signature, tenant: &str, host: &Seen<'_>, counted: bool) -> Option<Full> {
        let quotas = self.tenants.get(tenant).map(|known| &*known.quotas).unwrap_or_default();
        if let Some(full) = self.holdings.full_quota(tenant, quotas, host, counted) {
            return Some(full);
        }
        let way = wish.admitted.ways.get(host.namespace())?;
        if way.pass.is_some() {
            return None;
        }
        let usable = way.policies.iter().filter(|p| p.covers(host) && p.permits(&wish.selector));
        // One policy with room is enough; the last one without stands for all.
        let mut last = None;
        for policy in usable {
            last = Some(self.holdings.full_policy(tenant, policy, counted)?);
        }
        last
    }

    /// Whether a tenant is not to get a host, because it failed it under another claim.
    pub(super) fn avoids(&self, tenant: &str, host: &Seen<'_>, now: Timestamp) -> bool {
        let mark = host
            .facts
            .annotations
            .range::<str, _>((std::ops::Bound::Included(api::names::claims::AVOID_PREFIX), std::ops::Bound::Unbounded));
        let marked = mark.take_while(|(key, _)| key.starts_with(api::names::claims::AVOID_PREFIX)).next().is_some();
        // Digests are made only for hosts that anybody avoids.
        marked && host.facts.annotation(&avoid_annotation(tenant)).is_some_and(|until| !is_over(until, now))
    }

    /// Filters of the tenant and of the claim.
    pub(super) fn barred(
        &self,
        wish: &Signature,
        tenant: &str,
        claim: Option<&ObjectKey>,
        host: &Seen<'_>,
        now: Timestamp,
    ) -> Option<Unfit> {
        if self.full(wish, tenant, host).is_some() {
            return Some(Unfit::QuotaExceeded);
        }
        let cooling = claim.and_then(|claim| self.claims.get(claim)).is_some_and(|claim| claim.cools(host.key, now));
        (cooling || self.avoids(tenant, host, now)).then_some(Unfit::CoolDown)
    }

    /// Whether a claim of this wish must wait for a host that is kept for its group.
    pub(super) fn waits_for_reuse(&self, wish: &Signature, now: Timestamp) -> bool {
        let Some(group) = &wish.group else { return false };
        self.hosts.of_group(group).any(|host| {
            let over = reserved_until(&host.facts).is_some_and(|until| until <= now);
            let soon = matches!(
                self.misfit(wish, &host.seen(), None),
                None | Some(
                    Unfit::Paused
                        | Unfit::Detached
                        | Unfit::Unhealthy
                        | Unfit::ExternallyProvisioned
                        | Unfit::NotAvailable
                        | Unfit::HostError
                        | Unfit::NotClean
                )
            );
            !over && soon
        })
    }

    /// Finds a host for a claim: one kept for its group, one in the failure domain it wishes, any other.
    fn find(&mut self, claim: &ObjectKey, now: Timestamp) -> Option<(Arc<ObjectKey>, u32)> {
        let (found, examined) = self.look(claim, now);
        self.effort.examined += u64::from(examined);
        found.map(|host| (host, examined))
    }

    fn look(&self, claim: &ObjectKey, now: Timestamp) -> (Option<Arc<ObjectKey>>, u32) {
        let Some(entry) = self.claims.get(claim) else { return (None, 0) };
        let State::Waiting(wish) = &entry.state else { return (None, 0) };
        let start = spread(&entry.facts.uid);
        let mut examined = 0;
        let mut fits = |key: &ObjectKey, domain: Option<&str>| {
            examined += 1;
            let Some(host) = self.hosts.get(key).map(Host::seen) else { return false };
            domain.is_none_or(|domain| host.domain() == Some(domain))
                && self.misfit(wish, &host, Some(claim)).is_none()
                && self.barred(wish, entry.tenant(), Some(claim), &host, now).is_none()
        };
        if let Some(group) = &wish.group {
            let kept = self.hosts.kept_from(group, start).find(|place| fits(&place.key, None));
            if let Some(place) = kept {
                return (Some(Arc::clone(&place.key)), examined);
            }
            if self.waits_for_reuse(wish, now) {
                return (None, examined);
            }
        }
        let namespaces = || {
            let all = wish.admitted.ways.keys().map(|name| &**name);
            all.filter(|name| wish.in_namespace.as_deref().is_none_or(|only| only == *name))
        };
        if let Some(domain) = &wish.domain {
            let mut near = self.hosts.free_from(namespaces(), &wish.selector, Some(domain), start);
            // The shortest list may be that of another label, so the domain is asked of each.
            if let Some(place) = near.find(|place| fits(&place.key, Some(domain))) {
                return (Some(Arc::clone(&place.key)), examined);
            }
            if wish.required {
                return (None, examined);
            }
        }
        let mut any = self.hosts.free_from(namespaces(), &wish.selector, None, start);
        let found = any.find(|place| fits(&place.key, None)).map(|place| Arc::clone(&place.key));
        (found, examined)
    }

    /// Promises a host to a waiting claim.
    pub(super) fn promise(&mut self, claim: &ObjectKey, host: &ObjectKey, examined: u32) {
        let Some(arc) = self.leave_line(claim) else { return };
        self.uncount(host);
        self.hosts.assume(host, Some(Arc::clone(&arc)));
        self.recount(host);
        if let Some(entry) = self.claims.get_mut(claim) {
            entry.state = State::Promised { host: host.clone(), examined };
            *self.promised.entry(claim.namespace().unwrap_or_default().into()).or_default() += 1;
        }
        self.pledge(claim, Some(host));
        self.effort.promises += 1;
        self.changes += 1;
        self.wake.insert((*arc).clone());
    }

    /// Notes for those who serve other kinds that a claim is to get a host, or is not any more.
    pub(super) fn pledge(&mut self, claim: &ObjectKey, host: Option<&ObjectKey>) {
        if self.holdings.quota_names().next().is_none() {
            return;
        }
        let Some(uid) = self.claims.get(claim).map(|claim| claim.facts.uid.clone()) else { return };
        let held = host.and_then(|host| self.hosts.get(host)).map(|host| Held {
            uid: uid.clone(),
            kind: BAREMETAL.into(),
            place: host.place.key.namespace().map(Into::into),
            labels: host.facts.labels.clone(),
        });
        self.promises.push((claim.clone(), uid, held));
    }

    /// Offers a host that somebody may have to those who wait for one like it: the first in rank gets it.
    pub(super) fn give(&mut self, host: &ObjectKey, now: Timestamp) {
        if !self.open {
            return;
        }
        let shelf = self.hosts.shelf(host);
        if shelf == Shelf::Away {
            return;
        }
        let Some(seen) = self.hosts.get(host).map(Host::seen) else { return };
        let mut best: Option<Rank> = None;
        let mut tried = 0;
        for (wish, lines) in self.lines.wishes() {
            tried += 1;
            let kept = matches!(&shelf, Shelf::Kept(group) if wish.group.as_deref() == Some(group));
            if self.misfit(wish, &seen, None).is_some() || (!kept && self.waits_for_reuse(wish, now)) {
                continue;
            }
            for (tenant, line) in lines {
                let quotas = self.tenants.get(&**tenant).map(|known| &*known.quotas).unwrap_or_default();
                let share = self.holdings.share(tenant, quotas);
                if self.barred(wish, tenant, None, &seen, now).is_some() {
                    continue;
                }
                let accepts = |claim: &ObjectKey| self.claims.get(claim).is_some_and(|c| !c.cools(host, now));
                let turn = line.first(self.settings.ageing, now, accepts);
                let rank = turn.map(|turn| Rank::new(&turn, share));
                best = [best, rank].into_iter().flatten().min();
            }
        }
        self.effort.wishes_tried += tried;
        if let Some(best) = best {
            self.effort.examined += 1;
            let claim = best.claim();
            self.promise(&claim, &host.clone(), 1);
        }
    }

    /// Finds hosts for those who wait in these lines, in rank order, until no line can have one.
    pub(super) fn settle(&mut self, lines: BTreeSet<(Box<str>, Arc<Signature>)>, now: Timestamp) {
        if !self.open {
            return;
        }
        let ageing = self.settings.ageing;
        // Of each tenant the lines by the turn of their first claim, so that a choice looks at tenants, not at lines.
        let mut queues: BTreeMap<Box<str>, BTreeSet<(Turn, Arc<Signature>)>> = BTreeMap::new();
        for (tenant, wish) in lines {
            let first = self.lines.line(&wish, &tenant).and_then(|line| line.first(ageing, now, |_| true));
            if let Some(turn) = first {
                queues.entry(tenant).or_default().insert((turn, wish));
            }
        }
        let share = |yard: &Self, tenant: &str| {
            let quotas = yard.tenants.get(tenant).map(|known| &*known.quotas).unwrap_or_default();
            yard.holdings.share(tenant, quotas)
        };
        let mut shares: BTreeMap<Box<str>, super::quotas::Share> =
            queues.keys().map(|tenant| (tenant.clone(), share(self, tenant))).collect();
        loop {
            let firsts = queues.iter().filter_map(|(tenant, queue)| {
                let (turn, _) = queue.first()?;
                Some((Rank::new(turn, *shares.get(tenant)?), tenant))
            });
            let Some(tenant) = firsts.min().map(|(_, tenant)| tenant.clone()) else { break };
            let Some(queue) = queues.get_mut(&tenant) else { break };
            let Some((turn, wish)) = queue.pop_first() else { break };
            if !self.serve(&turn, &wish, &tenant, now) {
                continue;
            }
            shares.insert(tenant.clone(), share(self, &tenant));
            let next = self.lines.line(&wish, &tenant).and_then(|line| line.first(ageing, now, |_| true));
            if let Some(turn) = next {
                queues.entry(tenant).or_default().insert((turn, wish));
            }
        }
    }

    /// Finds a host for the first of a line, or, where only a cool-down keeps that one from it, for a later one.
    fn serve(&mut self, first: &Turn, wish: &Arc<Signature>, tenant: &str, now: Timestamp) -> bool {
        let mut turn = first.clone();
        let mut later: Option<std::vec::IntoIter<Turn>> = None;
        loop {
            let claim = Arc::clone(&turn.1.key);
            if let Some((host, examined)) = self.find(&claim, now) {
                self.promise(&claim, &host, examined);
                return true;
            }
            if !self.claims.get(&*claim).is_some_and(|claim| claim.is_cooling(now)) {
                return false;
            }
            let rest = later.get_or_insert_with(|| {
                let turns = self.lines.line(wish, tenant).map(|line| line.turns(self.settings.ageing, now));
                turns.unwrap_or_default().into_iter()
            });
            match rest.find(|next| next > &turn) {
                Some(next) => turn = next,
                None => return false,
            }
        }
    }
}

/// Whether a time in an annotation has passed; one that cannot be read never does.
fn is_over(until: &str, now: Timestamp) -> bool {
    until.parse::<Timestamp>().is_ok_and(|until| until <= now)
}
