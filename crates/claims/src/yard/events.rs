//! What happens to the yard: every change of what is known, and every answer of those who bind.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api::key::ObjectKey;
use claim_kind::held::Held;
use jiff::Timestamp;

use super::fit::ailment;
use super::hosts::{Host, is_reservation, tenant};
use super::queue::Signature;
use super::{Claim, State, Tenant, Timer, Yard, times};
use crate::facts::{Consumer, HardwareFacts, HostFacts, KeptClaim, PolicyFacts, QuotaFacts, SpaceFacts};

/// So many texts are found anew at once.
const TEXTS: usize = 16;
/// The others have to wait this long, while the yard is free for whoever needs it.
const TEXTS_PAUSE: Duration = Duration::from_millis(100);

impl Yard {
    /// A host changed, appeared or is gone. Returns the claims to look at.
    pub fn host(&mut self, key: &ObjectKey, facts: Option<Arc<HostFacts>>, now: Timestamp) -> Vec<ObjectKey> {
        self.changes += 1;
        let known = self.hosts.get(key);
        let promised = known.and_then(|host| host.assumed.clone());
        let held_by = |facts: &HostFacts| facts.consumer.as_ref().and_then(Consumer::claim);
        let mut concerned: BTreeSet<ObjectKey> = known.and_then(|host| held_by(&host.facts)).into_iter().collect();
        concerned.extend(facts.as_deref().and_then(held_by));
        concerned.extend(promised.as_deref().cloned());
        let group = |host: &HostFacts| host.label(api::names::claims::NODE_REUSE_LABEL).map(Box::<str>::from);
        let mut groups: BTreeSet<Box<str>> = known.and_then(|host| group(&host.facts)).into_iter().collect();
        groups.extend(facts.as_deref().and_then(group));
        if let Some(known) = known {
            for at in times(&known.facts) {
                self.timers.remove(&(at, Timer::Host(key.clone())));
            }
        }
        let keeps = facts.as_ref().is_some_and(|facts| known.is_some_and(|known| keeps_promise(known, facts)));
        let namespace = key.namespace().unwrap_or_default();
        let had_hosts = self.hosts.has_namespace(namespace);
        // Who counts it and what counts it look at nothing else: a host that only reports costs nobody anything.
        let counts_alike = facts.as_ref().zip(known).is_some_and(|(facts, known)| {
            let promised = promised.as_deref().filter(|_| keeps);
            known.facts.labels == facts.labels
                && known.hardware.as_ref() == self.hosts.hardware(key, facts)
                && known.tenant() == tenant(facts, promised)
        });
        if !counts_alike {
            self.uncount(key);
        }
        match facts {
            Some(facts) => {
                for at in times(&facts).filter(|at| *at > now) {
                    self.timers.insert((at, Timer::Host(key.clone())));
                }
                self.hosts.put(key, facts, promised.filter(|_| keeps));
                if !counts_alike {
                    self.recount(key);
                }
                self.todo.hosts.insert(key.clone());
            }
            None => {
                self.hosts.take(key);
            }
        }
        if had_hosts != self.hosts.has_namespace(namespace) {
            self.readmit_for(namespace, now);
        }
        for claim in &concerned {
            self.replace(claim, now);
        }
        self.wake.extend(concerned);
        self.retry_groups(&groups);
        self.finish(now)
    }

    /// The hardware of a host became known or changed. Returns the claims to look at.
    pub fn hardware(
        &mut self,
        key: &ObjectKey,
        hardware: Option<Arc<HardwareFacts>>,
        now: Timestamp,
    ) -> Vec<ObjectKey> {
        self.hosts.set_hardware(key, hardware);
        let facts = self.hosts.get(key).map(|host| Arc::clone(&host.facts));
        facts.map(|facts| self.host(key, Some(facts), now)).unwrap_or_default()
    }

    /// A claim changed, appeared or is gone. Returns the claims to look at, the claim itself where it got a host.
    pub fn claim(&mut self, key: &ObjectKey, facts: Option<Arc<KeptClaim>>, now: Timestamp) -> Vec<ObjectKey> {
        let shown = facts.as_ref().and_then(|facts| facts.held.as_deref().cloned());
        if shown.is_some() || facts.is_none() {
            self.announced.remove(key);
        }
        let held = shown.or_else(|| self.announced.get(key).cloned());
        self.elsewhere(key, held);
        let Some(facts) = facts else {
            self.forget(key);
            return self.finish(now);
        };
        // A claim made again under the same name is another claim.
        if self.claims.get(key).is_some_and(|known| known.facts.uid != facts.uid) {
            self.forget(key);
        }
        match self.claims.get_mut(key) {
            Some(known) => {
                // The line knows a claim by its facts, so it leaves with the old ones.
                let moved = known.facts.created != facts.created;
                if moved {
                    self.leave_line(key);
                }
                if let Some(known) = self.claims.get_mut(key) {
                    known.facts = facts;
                }
            }
            None => {
                let arc = Arc::new(key.clone());
                self.enrol(&arc);
                let (state, cool) = (State::Idle, Vec::new());
                let claim = Claim { key: arc, facts, state, priority: 0, cool, resting: false };
                self.claims.insert(key.clone(), claim);
            }
        }
        self.replace(key, now);
        self.finish(now)
    }

    /// A policy changed, appeared or is gone. Returns the claims to look at.
    pub fn policy(&mut self, key: &ObjectKey, facts: Option<Arc<PolicyFacts>>, now: Timestamp) -> Vec<ObjectKey> {
        self.changes += 1;
        self.rules.set(key, facts);
        let namespace = key.namespace().unwrap_or_default();
        let held = self.hosts.of_namespace(namespace).filter_map(|host| Some((host.tenant()?, host.seen())));
        self.holdings.recount_policy(key, self.rules.get(key).map(|policy| &**policy), held);
        self.readmit_all(now);
        self.finish(now)
    }

    /// The labels of a namespace changed, or it appeared or is gone. Returns the claims to look at.
    pub fn space(&mut self, name: &str, facts: Option<Arc<SpaceFacts>>, now: Timestamp) -> Vec<ObjectKey> {
        self.rules.set_space(name, facts);
        let quotas: Vec<Box<str>> = self.holdings.quota_names().map(Into::into).collect();
        for quota in &quotas {
            self.holdings.sum(quota, |tenant| self.rules.space(tenant));
        }
        self.readmit(name, now);
        self.rebind(&[name.into()], now);
        // No quota may hold this tenant any more, and a shared one may have room now for others.
        let bound = self.tenants.get(name).is_some_and(|tenant| !tenant.quotas.is_empty());
        let better_off = |other: &str, tenant: &Tenant| bound || other == name || !tenant.quotas.is_empty();
        let sharing = self.tenants.iter().filter(|(other, tenant)| better_off(other, tenant));
        let sharing: Vec<Box<str>> = sharing.map(|(name, _)| name.clone()).collect();
        self.retry_tenants(&sharing);
        self.finish(now)
    }

    /// A quota changed, appeared or is gone. Returns the claims to look at.
    pub fn quota(&mut self, name: &str, facts: Option<Arc<QuotaFacts>>, now: Timestamp) -> Vec<ObjectKey> {
        self.changes += 1;
        let elsewhere = self.elsewhere.iter().map(|(claim, held)| (claim.namespace().unwrap_or_default(), held));
        self.holdings.set_quota(name, facts, self.hosts.held(), elsewhere, |tenant| self.rules.space(tenant));
        let bound_before: Vec<Box<str>> = self
            .tenants
            .iter()
            .filter(|(_, tenant)| tenant.quotas.iter().any(|quota| **quota == *name))
            .map(|(tenant, _)| tenant.clone())
            .collect();
        let all: Vec<Box<str>> = self.tenants.keys().cloned().collect();
        self.rebind(&all, now);
        let bound_now = self.tenants.iter().filter(|(_, tenant)| tenant.quotas.iter().any(|quota| **quota == *name));
        let concerned: Vec<Box<str>> =
            bound_before.into_iter().chain(bound_now.map(|(tenant, _)| tenant.clone())).collect();
        self.retry_tenants(&concerned);
        for tenant in &concerned {
            let wishes: Vec<Arc<Signature>> = self.lines.of_tenant(tenant).cloned().collect();
            for wish in wishes {
                self.wake.extend(self.lines.members(&wish, tenant).map(|key| (**key).clone()));
            }
        }
        self.finish(now)
    }

    /// Everything there is, is known: from now on hosts are promised. Returns the claims to look at.
    pub fn open(&mut self, now: Timestamp) -> Vec<ObjectKey> {
        if self.open {
            return Vec::new();
        }
        self.open = true;
        let tenants: Vec<Box<str>> = self.tenants.keys().cloned().collect();
        let claims: Vec<ObjectKey> =
            self.tenants.values().flat_map(|tenant| tenant.claims.iter().map(|key| (**key).clone())).collect();
        for tenant in &tenants {
            self.readmit(tenant, now);
        }
        self.rebind(&tenants, now);
        // What was decided before the start stands, before anything new is decided.
        let (decided, undecided): (Vec<_>, Vec<_>) =
            claims.into_iter().partition(|key| self.claims.get(key).is_some_and(|claim| claim.facts.intent.is_some()));
        for key in decided.iter().chain(&undecided) {
            self.replace(key, now);
        }
        self.finish(now)
    }

    /// A claim whose intent is stored takes its host again, unless that no longer fits it. Returns the other claims to
    /// look at, or nothing when it may not have the host.
    pub fn keep(&mut self, claim: &ObjectKey, host: &ObjectKey, now: Timestamp) -> Option<Vec<ObjectKey>> {
        let entry = self.claims.get(claim)?;
        let known = self.hosts.get(host)?;
        let names = known.facts.consumer.as_ref().filter(|consumer| consumer.claim().as_ref() == Some(claim));
        if names.is_some_and(|consumer| consumer.means(&entry.facts.uid)) {
            return Some(Vec::new());
        }
        if matches!(&entry.state, State::Promised { host: promised, .. } if promised == host) {
            return Some(Vec::new());
        }
        if !self.takes(claim, host, now) {
            return None;
        }
        let mut others = self.finish(now);
        others.retain(|key| key != claim);
        Some(others)
    }

    /// A claim could not bind the host it was offered, and does not get it before a time. Returns the claims to look at.
    pub fn refused(&mut self, claim: &ObjectKey, host: &ObjectKey, until: Timestamp, now: Timestamp) -> Vec<ObjectKey> {
        let Some(entry) = self.claims.get_mut(claim) else { return Vec::new() };
        entry.cool.retain(|(cooling, end)| cooling != host && *end > now);
        if until > now {
            entry.cool.push((host.clone(), until));
            self.timers.insert((until, Timer::Claim(claim.clone())));
        }
        if matches!(&entry.state, State::Promised { host: promised, .. } if promised == host) {
            self.release(claim);
            self.join(claim, now);
        }
        self.finish(now)
    }

    /// A claim is not to get a host for now, or is again. Returns the claims to look at.
    pub fn rest(&mut self, claim: &ObjectKey, resting: bool, now: Timestamp) -> Vec<ObjectKey> {
        if let Some(entry) = self.claims.get_mut(claim)
            && entry.resting != resting
        {
            entry.resting = resting;
            self.replace(claim, now);
        }
        self.finish(now)
    }

    /// Time has passed. Returns the claims to look at.
    pub fn tick(&mut self, now: Timestamp) -> Vec<ObjectKey> {
        let mut texts = 0;
        let mut later = Vec::new();
        while let Some((at, _)) = self.timers.first()
            && *at <= now
        {
            let Some((_, timer)) = self.timers.pop_first() else { break };
            match timer {
                Timer::Claim(key) => {
                    if let Some(entry) = self.claims.get_mut(&key) {
                        entry.cool.retain(|(_, until)| *until > now);
                        if let State::Waiting(wish) = &entry.state {
                            self.todo.lines.insert((entry.tenant().into(), Arc::clone(wish)));
                        }
                    }
                }
                Timer::Host(key) => {
                    let group = self.hosts.get(&key).and_then(|host| host.seen().group().map(Box::<str>::from));
                    self.retry_groups(&group.into_iter().collect());
                    self.todo.hosts.insert(key);
                }
                // Each looks at every host: so many wishes may not hold up everybody else at once.
                Timer::Text(..) if texts >= TEXTS => later.push(timer),
                Timer::Text(wish, tenant) => texts += usize::from(self.refresh(&wish, &tenant, now)),
            }
        }
        let soon = now.saturating_add(TEXTS_PAUSE).unwrap_or(Timestamp::MAX);
        self.timers.extend(later.into_iter().map(|timer| (soon, timer)));
        self.finish(now)
    }

    /// A claim of another kind is about to hold this, or not any more, and does not show it yet. What follows is done by the
    /// next event, or by [`Yard::tick`].
    pub fn announced(&mut self, key: &ObjectKey, held: Option<Held>) {
        match held {
            Some(held) => drop(self.announced.insert(key.clone(), held)),
            None => drop(self.announced.remove(key)),
        }
        let shown = self.claims.get(key).and_then(|claim| claim.facts.held.as_deref().cloned());
        let held = shown.or_else(|| self.announced.get(key).cloned());
        self.elsewhere(key, held);
    }

    /// A claim of another kind holds this, or nothing any more: its tenant's quotas count it.
    fn elsewhere(&mut self, key: &ObjectKey, held: Option<Held>) {
        if self.elsewhere.get(key) == held.as_ref() {
            return;
        }
        self.changes += 1;
        let tenant = key.namespace().unwrap_or_default();
        if let Some(old) = self.elsewhere.remove(key) {
            let loosened = self.holdings.discount_elsewhere(tenant, self.rules.space(tenant), &old);
            self.loosen(tenant, loosened);
        }
        if let Some(held) = held {
            self.holdings.count_elsewhere(tenant, self.rules.space(tenant), &held);
            self.elsewhere.insert(key.clone(), held);
        }
    }

    /// Judges a claim again: whether it has a host, is promised one, wants one or wants none.
    fn replace(&mut self, key: &ObjectKey, now: Timestamp) {
        let Some(entry) = self.claims.get(key) else { return };
        let uid = &entry.facts.uid;
        let mine = |host: &Host| host.facts.consumer.as_ref().is_some_and(|consumer| consumer.means(uid));
        let bound = self.hosts.of_claim(key).any(mine);
        let wants = !bound && entry.wants();
        let promised = match &entry.state {
            State::Promised { host, .. } => Some(host.clone()),
            _ => None,
        };
        let stands = promised.as_ref().is_some_and(|host| wants && self.may_have(key, host, now));
        if !stands {
            self.release(key);
        }
        if !wants {
            self.leave_line(key);
            if let Some(entry) = self.claims.get_mut(key) {
                entry.state = if bound { State::Bound } else { State::Idle };
            }
            return;
        }
        if !self.open {
            return;
        }
        let intent = self.claims.get(key).and_then(|entry| entry.facts.intent.as_deref());
        let intent = intent.map(|host| (host.key(), host.uid.clone()));
        if let Some((host, uid)) = intent
            && promised.as_ref() != Some(&host)
            && self.hosts.get(&host).is_some_and(|known| *known.facts.uid == *uid)
            && self.takes(key, &host, now)
        {
            return;
        }
        if !stands {
            self.join(key, now);
        }
    }

    /// Whether a host still fits a claim that it is promised to.
    fn may_have(&self, claim: &ObjectKey, host: &ObjectKey, now: Timestamp) -> bool {
        let Some(wish) = self.wish(claim) else { return false };
        let Some(known) = self.hosts.get(host).filter(|known| known.assumed.as_deref() == Some(claim)) else {
            return false;
        };
        let (seen, tenant) = (known.seen(), claim.namespace().unwrap_or_default());
        self.misfit(&wish, &seen, Some(claim)).is_none()
            && self.barred(&wish, tenant, Some(claim), &seen, now).is_none()
    }

    /// Gives a claim the host that it decided on, if it fits and nobody else has it.
    fn takes(&mut self, claim: &ObjectKey, host: &ObjectKey, now: Timestamp) -> bool {
        let Some(wish) = self.wish(claim) else { return false };
        // Who has a host already gets no second one, whatever it had decided on.
        let wants = self.claims.get(claim).is_some_and(|entry| entry.wants() && !matches!(entry.state, State::Bound));
        let tenant = claim.namespace().unwrap_or_default();
        let fits = self.hosts.get(host).is_some_and(|known| {
            let seen = known.seen();
            self.misfit(&wish, &seen, Some(claim)).is_none()
                && self.barred(&wish, tenant, Some(claim), &seen, now).is_none()
        });
        if !wants || !fits {
            return false;
        }
        self.release(claim);
        self.promise(claim, host, 1);
        true
    }

    /// Puts a claim in the line of its wish. Whoever stands there already shows that nothing is free that fits, unless
    /// only a cool-down keeps them from it.
    fn join(&mut self, key: &ObjectKey, now: Timestamp) {
        let Some(wish) = self.wish(key) else { return };
        let tenant = key.namespace().unwrap_or_default();
        let bound = self.tenants.get(tenant).and_then(|known| self.holdings.priority_bound(&known.quotas));
        let Some(entry) = self.claims.get(key) else { return };
        let priority = entry.facts.priority.min(bound.unwrap_or(i32::MAX));
        if let State::Waiting(known) = &entry.state
            && **known == wish
            && entry.priority == priority
        {
            return;
        }
        self.leave_line(key);
        let stands = |other: &Arc<ObjectKey>| self.claims.get(&**other).is_some_and(|other| !other.is_cooling(now));
        let hopeless = self.lines.members(&wish, tenant).next().is_some_and(stands);
        let Some(entry) = self.claims.get_mut(key) else { return };
        entry.priority = priority;
        let wish = self.lines.join(wish, tenant, priority, entry.waiter());
        entry.state = State::Waiting(Arc::clone(&wish));
        if !hopeless {
            self.todo.lines.insert((tenant.into(), wish));
        }
    }

    /// Takes the host back that was promised to a claim.
    fn release(&mut self, claim: &ObjectKey) {
        let Some(entry) = self.claims.get_mut(claim) else { return };
        let State::Promised { host, .. } = &entry.state else { return };
        let host = host.clone();
        entry.state = State::Idle;
        let tenant = claim.namespace().unwrap_or_default();
        if let Some(all) = self.promised.get_mut(tenant) {
            *all -= 1;
            if *all == 0 {
                self.promised.remove(tenant);
            }
        }
        let promised = self.hosts.get(&host).is_some_and(|known| known.assumed.as_deref() == Some(claim));
        if promised {
            self.changes += 1;
            self.pledge(claim, None);
            self.uncount(&host);
            self.hosts.assume(&host, None);
            self.recount(&host);
            self.todo.hosts.insert(host);
        }
    }

    /// Forgets a claim and lets go of what it was promised.
    fn forget(&mut self, key: &ObjectKey) {
        self.release(key);
        self.leave_line(key);
        let Some(claim) = self.claims.remove(key) else { return };
        for (_, until) in &claim.cool {
            self.timers.remove(&(*until, Timer::Claim(key.clone())));
        }
        let tenant = claim.tenant();
        if let Some(known) = self.tenants.get_mut(tenant) {
            known.claims.remove(&claim.key);
            if known.claims.is_empty() {
                self.tenants.remove(tenant);
            }
        }
    }

    /// Makes the tenant of a claim known.
    fn enrol(&mut self, key: &Arc<ObjectKey>) {
        let tenant = key.namespace().unwrap_or_default();
        if !self.tenants.contains_key(tenant) {
            // Before the start nothing is complete, so nothing is computed twice.
            let known = if self.open { Some(self.rules.admitted(tenant, self.hosts.namespaces())) } else { None };
            let admitted = known.unwrap_or_else(|| self.rules.admitted(tenant, std::iter::empty()));
            let quotas = self.holdings.binding(tenant, self.rules.space(tenant));
            self.tenants.insert(tenant.into(), Tenant { admitted, quotas, claims: BTreeSet::new() });
        }
        if let Some(known) = self.tenants.get_mut(tenant) {
            known.claims.insert(Arc::clone(key));
        }
    }

    /// Asks again which namespaces a tenant may look into.
    fn readmit(&mut self, tenant: &str, now: Timestamp) {
        if !self.open || !self.tenants.contains_key(tenant) {
            return;
        }
        let admitted = self.rules.admitted(tenant, self.hosts.namespaces());
        let Some(known) = self.tenants.get_mut(tenant).filter(|known| known.admitted.id != admitted.id) else {
            return;
        };
        known.admitted = admitted;
        let claims: Vec<ObjectKey> = known.claims.iter().map(|key| (**key).clone()).collect();
        for key in &claims {
            self.replace(key, now);
        }
        self.wake.extend(claims);
    }

    fn readmit_all(&mut self, now: Timestamp) {
        let tenants: Vec<Box<str>> = self.tenants.keys().cloned().collect();
        for tenant in tenants {
            self.readmit(&tenant, now);
        }
    }

    /// A namespace has its first host, or none any more.
    fn readmit_for(&mut self, namespace: &str, now: Timestamp) {
        match self.settings.default_admission {
            super::DefaultAdmission::Deny => self.readmit(namespace, now),
            super::DefaultAdmission::Allow => self.readmit_all(now),
        }
    }

    /// Asks again which quotas bind these tenants.
    fn rebind(&mut self, tenants: &[Box<str>], now: Timestamp) {
        for tenant in tenants {
            let quotas = self.holdings.binding(tenant, self.rules.space(tenant));
            let bound = self.holdings.priority_bound(&quotas);
            let Some(known) = self.tenants.get_mut(tenant) else { continue };
            known.quotas = quotas;
            let claims: Vec<ObjectKey> = known.claims.iter().map(|key| (**key).clone()).collect();
            for key in claims {
                let moves = self.claims.get(&key).is_some_and(|claim| {
                    let priority = claim.facts.priority.min(bound.unwrap_or(i32::MAX));
                    matches!(claim.state, State::Waiting(_)) && claim.priority != priority
                });
                if moves {
                    self.join(&key, now);
                }
            }
        }
    }

    /// Tries the lines of these tenants again.
    fn retry_tenants(&mut self, tenants: &[Box<str>]) {
        for tenant in tenants {
            let wishes = self.lines.of_tenant(tenant);
            self.todo.lines.extend(wishes.map(|wish| (tenant.clone(), Arc::clone(wish))));
        }
    }

    /// Tries the lines of these reuse groups again.
    fn retry_groups(&mut self, groups: &BTreeSet<Box<str>>) {
        if groups.is_empty() {
            return;
        }
        let wishes = self.lines.wishes().filter(|(wish, _)| wish.group.as_ref().is_some_and(|g| groups.contains(g)));
        let lines = wishes.flat_map(|(wish, lines)| lines.keys().map(|tenant| (tenant.clone(), Arc::clone(wish))));
        self.todo.lines.extend(lines);
    }
}

/// Whether a promise survives new facts of its host: it is the same host, and nobody but a reservation has it.
fn keeps_promise(known: &Host, facts: &HostFacts) -> bool {
    known.facts.uid == facts.uid && (facts.consumer.is_none() || is_reservation(facts)) && ailment(facts).is_none()
}
