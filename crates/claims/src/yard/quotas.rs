//! Who holds how much, and how much they may hold. Promised hosts count, so that nobody passes a last unit twice, and for
//! quotas the machines of claims of other kinds count too.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::key::ObjectKey;
use claim_kind::held::Held;

use super::hosts::Seen;
use super::policies::Policy;
use crate::facts::{QuotaFacts, SpaceFacts};

/// Hosts by tenant.
type Counts = BTreeMap<Box<str>, u32>;

fn add(counts: &mut Counts, tenant: &str) {
    match counts.get_mut(tenant) {
        Some(count) => *count += 1,
        None => {
            counts.insert(tenant.into(), 1);
        }
    }
}

fn subtract(counts: &mut Counts, tenant: &str) {
    if let Some(count) = counts.get_mut(tenant) {
        *count = count.saturating_sub(1);
        if *count == 0 {
            counts.remove(tenant);
        }
    }
}

/// A quota, and what is held under it.
#[derive(Debug)]
pub(super) struct Quota {
    rule: claim_kind::quota::Quota,
    counts: Counts,
    /// What those bound by it hold together.
    used: u32,
}

impl Quota {
    fn new(facts: &QuotaFacts) -> Self {
        let rule = claim_kind::quota::Quota::new(facts.spec.clone(), facts.problem.clone());
        Self { rule, counts: Counts::new(), used: 0 }
    }

    fn binds(&self, tenant: &str, space: Option<&SpaceFacts>) -> bool {
        self.rule.binds(tenant, space.map(|space| &space.labels))
    }

    fn covers(&self, host: &Seen<'_>) -> bool {
        self.rule.covers(Some(host.namespace()), &host.labels())
    }

    fn covers_elsewhere(&self, held: &Held) -> bool {
        self.rule.covers(held.place.as_deref(), &held.labels)
    }

    fn hard(&self) -> u32 {
        self.rule.hard()
    }

    /// Who has room again when this tenant gives something back.
    fn loosens(&self, tenant: &str) -> Loosened {
        if self.used_by(tenant) < self.hard() {
            return Loosened::Nobody;
        }
        if self.rule.spec().shared { Loosened::Everybody } else { Loosened::Tenant }
    }

    /// What counts against the limit when this tenant asks.
    fn used_by(&self, tenant: &str) -> u32 {
        if self.rule.spec().shared { self.used } else { self.counts.get(tenant).copied().unwrap_or(0) }
    }
}

/// How much of what it may hold a tenant holds; less goes first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    held: u64,
    of: u64,
}

impl Ord for Share {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.held * other.of).cmp(&(other.held * self.of))
    }
}

impl PartialOrd for Share {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Share {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Share {}

/// How much of a quota or a policy is used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Use {
    /// Hosts held by all tenants together, promised ones and reservations included; of a quota also machines of other kinds.
    pub hosts: u32,
    /// Hosts by tenant.
    pub tenants: BTreeMap<Box<str>, u32>,
    /// Why the quota or policy is not in force.
    pub fault: Option<Box<str>>,
}

/// What everybody holds.
#[derive(Debug, Default)]
pub(super) struct Holdings {
    tenants: Counts,
    policies: BTreeMap<ObjectKey, Counts>,
    quotas: BTreeMap<Box<str>, Quota>,
    /// Quotas and policies whose use changed and was not asked for since.
    touched: Touched,
    /// How often something changed hands.
    moves: u64,
}

/// Quotas and policies whose use changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Touched {
    /// Quotas by name.
    pub quotas: BTreeSet<Box<str>>,
    /// Policies by key.
    pub policies: BTreeSet<ObjectKey>,
}

/// A limit that leaves no room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Full {
    /// What sets it.
    pub what: Limit,
    /// The name of the quota or the policy.
    pub name: Box<str>,
    /// Hosts held.
    pub used: u32,
    /// Hosts that may be held.
    pub hard: u32,
}

/// What limits how many hosts a tenant holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// A HostClaimQuota.
    Quota,
    /// The `maxHosts` of a HostDeployPolicy.
    Policy,
}

impl std::fmt::Display for Full {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let what = match self.what {
            Limit::Quota => "quota",
            Limit::Policy => "policy",
        };
        write!(f, "uses {} of {} hosts of {what} {}", self.used, self.hard, self.name)
    }
}

impl Holdings {
    pub(super) fn is_touched(&self) -> bool {
        self.touched != Touched::default()
    }

    pub(super) fn touched(&mut self) -> Touched {
        std::mem::take(&mut self.touched)
    }

    pub(super) fn moves(&self) -> u64 {
        self.moves
    }

    pub(super) fn of_tenant(&self, tenant: &str) -> u32 {
        self.tenants.get(tenant).copied().unwrap_or(0)
    }

    pub(super) fn tenants(&self) -> &BTreeMap<Box<str>, u32> {
        &self.tenants
    }

    pub(super) fn quota_names(&self) -> impl Iterator<Item = &str> {
        self.quotas.keys().map(|name| &**name)
    }

    pub(super) fn policy_use(&self, policy: &Policy, admits: impl Fn(&str) -> bool) -> Use {
        let counts = self.policies.get(&policy.key).into_iter().flatten();
        let tenants: Counts =
            counts.filter(|(tenant, _)| admits(tenant)).map(|(tenant, count)| (tenant.clone(), *count)).collect();
        Use { hosts: tenants.values().sum(), tenants, fault: policy.fault.clone() }
    }

    pub(super) fn quota_use<'a>(&self, name: &str, space: impl Fn(&str) -> Option<&'a SpaceFacts>) -> Option<Use> {
        let quota = self.quotas.get(name)?;
        let bound = quota.counts.iter().filter(|(tenant, _)| quota.binds(tenant, space(tenant)));
        let tenants: Counts = bound.map(|(tenant, count)| (tenant.clone(), *count)).collect();
        Some(Use { hosts: quota.used, tenants, fault: quota.rule.fault().map(Into::into) })
    }

    /// Counts a host for its tenant.
    pub(super) fn count<'p>(
        &mut self,
        tenant: &str,
        space: Option<&SpaceFacts>,
        host: &Seen<'_>,
        policies: impl Iterator<Item = &'p Arc<Policy>>,
    ) {
        self.moves += 1;
        add(&mut self.tenants, tenant);
        for policy in policies.filter(|policy| policy.covers(host)) {
            add(self.policies.entry(policy.key.clone()).or_default(), tenant);
            self.touched.policies.insert(policy.key.clone());
        }
        for (name, quota) in self.quotas.iter_mut().filter(|(_, quota)| quota.covers(host)) {
            add(&mut quota.counts, tenant);
            if quota.binds(tenant, space) {
                quota.used += 1;
                self.touched.quotas.insert(name.clone());
            }
        }
    }

    /// Counts a host for its tenant no longer; says whether a limit was reached that is not now.
    pub(super) fn discount<'p>(
        &mut self,
        tenant: &str,
        space: Option<&SpaceFacts>,
        host: &Seen<'_>,
        policies: impl Iterator<Item = &'p Arc<Policy>>,
    ) -> Loosened {
        let mut loosened = Loosened::Nobody;
        self.moves += 1;
        subtract(&mut self.tenants, tenant);
        for policy in policies.filter(|policy| policy.covers(host)) {
            let counts = self.policies.entry(policy.key.clone()).or_default();
            let held = counts.get(tenant).copied().unwrap_or(0);
            if limit(policy).is_some_and(|limit| held >= limit) {
                loosened = loosened.max(Loosened::Tenant);
            }
            subtract(counts, tenant);
            self.touched.policies.insert(policy.key.clone());
        }
        for (name, quota) in self.quotas.iter_mut().filter(|(_, quota)| quota.covers(host)) {
            if quota.binds(tenant, space) {
                loosened = loosened.max(quota.loosens(tenant));
                quota.used = quota.used.saturating_sub(1);
                self.touched.quotas.insert(name.clone());
            }
            subtract(&mut quota.counts, tenant);
        }
        loosened
    }

    /// Counts a machine of another kind for its tenant.
    pub(super) fn count_elsewhere(&mut self, tenant: &str, space: Option<&SpaceFacts>, held: &Held) {
        self.moves += 1;
        for (name, quota) in self.quotas.iter_mut().filter(|(_, quota)| quota.covers_elsewhere(held)) {
            add(&mut quota.counts, tenant);
            if quota.binds(tenant, space) {
                quota.used += 1;
                self.touched.quotas.insert(name.clone());
            }
        }
    }

    /// Counts a machine of another kind for its tenant no longer; says whether a limit was reached that is not now.
    pub(super) fn discount_elsewhere(&mut self, tenant: &str, space: Option<&SpaceFacts>, held: &Held) -> Loosened {
        let mut loosened = Loosened::Nobody;
        self.moves += 1;
        for (name, quota) in self.quotas.iter_mut().filter(|(_, quota)| quota.covers_elsewhere(held)) {
            if quota.binds(tenant, space) {
                loosened = loosened.max(quota.loosens(tenant));
                quota.used = quota.used.saturating_sub(1);
                self.touched.quotas.insert(name.clone());
            }
            subtract(&mut quota.counts, tenant);
        }
        loosened
    }

    /// Replaces a policy's counts by those of the hosts that are held in its namespace.
    pub(super) fn recount_policy<'h>(
        &mut self,
        key: &ObjectKey,
        policy: Option<&Policy>,
        held: impl Iterator<Item = (&'h str, Seen<'h>)>,
    ) {
        self.policies.remove(key);
        self.touched.policies.insert(key.clone());
        if let Some(policy) = policy {
            let mut counts = Counts::new();
            for (tenant, _) in held.filter(|(_, host)| policy.covers(host)) {
                add(&mut counts, tenant);
            }
            self.policies.insert(key.clone(), counts);
        }
    }

    /// Replaces a quota and counts the hosts that are held, and the machines of other kinds.
    pub(super) fn set_quota<'h, 's>(
        &mut self,
        name: &str,
        facts: Option<Arc<QuotaFacts>>,
        held: impl Iterator<Item = (&'h str, Seen<'h>)>,
        elsewhere: impl Iterator<Item = (&'h str, &'h Held)>,
        space: impl Fn(&str) -> Option<&'s SpaceFacts>,
    ) {
        self.touched.quotas.insert(name.into());
        self.quotas.remove(name);
        if let Some(facts) = facts {
            let mut quota = Quota::new(&facts);
            for (tenant, host) in held {
                if quota.covers(&host) {
                    add(&mut quota.counts, tenant);
                }
            }
            for (tenant, held) in elsewhere {
                if quota.covers_elsewhere(held) {
                    add(&mut quota.counts, tenant);
                }
            }
            self.quotas.insert(name.into(), quota);
            self.sum(name, space);
        }
    }

    /// Sums up again what those bound by a quota hold, because who they are may have changed.
    pub(super) fn sum<'s>(&mut self, name: &str, space: impl Fn(&str) -> Option<&'s SpaceFacts>) {
        if let Some(quota) = self.quotas.get_mut(name) {
            let bound = quota.counts.iter().filter(|(tenant, _)| quota.binds(tenant, space(tenant)));
            let used = bound.map(|(_, count)| count).sum();
            if quota.used != used {
                quota.used = used;
                self.touched.quotas.insert(name.into());
            }
        }
    }

    /// The quotas that bind a tenant.
    pub(super) fn binding(&self, tenant: &str, space: Option<&SpaceFacts>) -> Vec<Box<str>> {
        let bound = self.quotas.iter().filter(|(_, quota)| quota.binds(tenant, space));
        bound.map(|(name, _)| name.clone()).collect()
    }

    /// The greatest priority that these quotas allow.
    pub(super) fn priority_bound(&self, quotas: &[Box<str>]) -> Option<i32> {
        quotas.iter().filter_map(|name| self.quotas.get(name)?.rule.spec().max_priority).min()
    }

    /// How much of what it may hold a tenant holds: the greatest part of any of its quotas, or plainly the number of hosts.
    pub(super) fn share(&self, tenant: &str, quotas: &[Box<str>]) -> Share {
        let part = |quota: &Quota| Share {
            held: u64::from(quota.counts.get(tenant).copied().unwrap_or(0)),
            of: u64::from(quota.hard().max(1)),
        };
        let parts = quotas.iter().filter_map(|name| self.quotas.get(name)).map(part);
        parts.max().unwrap_or(Share { held: u64::from(self.of_tenant(tenant)), of: 1 })
    }

    /// The first of the tenant's quotas that has no room for the host; a host that counts already needs none.
    pub(super) fn full_quota(&self, tenant: &str, quotas: &[Box<str>], host: &Seen<'_>, counted: bool) -> Option<Full> {
        quotas.iter().find_map(|name| {
            let quota = self.quotas.get(name)?;
            let (used, hard) = (quota.used_by(tenant), quota.hard());
            let full = used + u32::from(!counted) > hard && quota.covers(host);
            full.then(|| Full { what: Limit::Quota, name: name.clone(), used, hard })
        })
    }

    /// Why a policy has no room for another host of a tenant; a host that counts already needs none.
    pub(super) fn full_policy(&self, tenant: &str, policy: &Policy, counted: bool) -> Option<Full> {
        let hard = limit(policy)?;
        let used = self.policies.get(&policy.key).and_then(|counts| counts.get(tenant)).copied().unwrap_or(0);
        (used + u32::from(!counted) > hard).then(|| Full {
            what: Limit::Policy,
            name: policy.key.name().into(),
            used,
            hard,
        })
    }
}

/// The most hosts one tenant may hold through a policy.
pub(super) fn limit(policy: &Policy) -> Option<u32> {
    policy.facts.spec.max_hosts.map(|most| u32::try_from(most).unwrap_or(0))
}

/// Who may have room again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Loosened {
    /// Nobody that had none.
    Nobody,
    /// The tenant.
    Tenant,
    /// All who share a quota with the tenant.
    Everybody,
}
