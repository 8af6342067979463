//! The yard: which hosts there are, who waits for one, and who gets which. Everything in memory, nothing read or written.
//!
//! Events go in, the claims to look at come out. Once it is open, the yard keeps one promise: *no claim waits while a free
//! host fits it*. Choosing is therefore incremental. A host that becomes free is tried once per distinct wish, not once per
//! claim, and goes to the first in rank. A claim that appears walks the shortest list of free hosts that can hold its host.
//! What was chosen is promised to the claim until the host's own facts show the claim, or the claim lets go.
//!
//! Time is an argument, so that every order of events can be tested.
#![allow(
    clippy::mutable_key_type,
    reason = "wishes are ordered by what never changes of them, not by the patterns in policies"
)]

mod events;
mod explain;
mod fit;
mod hosts;
mod matching;
mod policies;
mod queue;
mod quotas;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use api::key::ObjectKey;
use api::names::claims::AVOID_PREFIX;
use claim_kind::held::Held;
use jiff::Timestamp;

use crate::facts::{HostFacts, KeptClaim};
use crate::names::reuse_value;
use explain::Texts;
pub use explain::{Unbound, Why};
pub use fit::{Unfit, ailment};
use hosts::{Hosts, Seen, reserved_until};
use policies::{Admitted, Rules};
pub use policies::{Grant, Pass};
use queue::{Lines, Signature, Waiter};
pub use quotas::{Full, Limit, Touched, Use};
use quotas::{Holdings, Loosened};

/// Whether a namespace without any policy is open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DefaultAdmission {
    /// It is closed.
    #[default]
    Deny,
    /// It is open to everybody.
    Allow,
}

/// In which order fitting hosts are tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HostOrder {
    /// Each claim begins elsewhere, so that claims do not meet at one host.
    #[default]
    Spread,
    /// By namespace and name, so that pools fill in sequence.
    Name,
}

/// How long a claim waits for one step of priority; none means for ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ageing(pub Option<Duration>);

impl Ageing {
    /// The steps of priority that a claim has gained.
    fn steps(self, since: Timestamp, now: Timestamp) -> i64 {
        let waited = now.duration_since(since).as_secs().max(0);
        let step = self.0.map(|step| i64::try_from(step.as_secs().max(1)).unwrap_or(i64::MAX));
        step.map_or(0, |step| waited / step)
    }
}

/// How the yard chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Whether a claim may have a host of its own namespace without a policy.
    pub admit_same_namespace: bool,
    /// Whether a namespace without any policy is open.
    pub default_admission: DefaultAdmission,
    /// In which order fitting hosts are tried.
    pub host_order: HostOrder,
    /// How long a claim waits for one step of priority.
    pub ageing: Ageing,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            admit_same_namespace: true,
            default_admission: DefaultAdmission::Deny,
            host_order: HostOrder::Spread,
            ageing: Ageing::default(),
        }
    }
}

/// A claim, its uid, and the host that was promised to it; none when it gave that back.
pub type Promise = (ObjectKey, Box<str>, Option<Held>);

/// So many hosts a tenant gets at once before its further claims come after those of others.
const AT_ONCE: usize = 32;

/// A host that a claim may bind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The host.
    pub host: ObjectKey,
    /// The server's unique id of it.
    pub uid: Box<str>,
    /// How many hosts were looked at to find it.
    pub examined: u32,
}

/// How much work choosing was, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effort {
    /// Hosts promised.
    pub promises: u64,
    /// Hosts looked at for claims.
    pub examined: u64,
    /// Wishes that hosts were tried on.
    pub wishes_tried: u64,
}

#[derive(Clone, Debug)]
enum State {
    /// It wants no host, or may not have one.
    Idle,
    /// No free host fits it.
    Waiting(Arc<Signature>),
    /// A host is set aside for it.
    Promised { host: ObjectKey, examined: u32 },
    /// A host names it as its consumer.
    Bound,
}

#[derive(Debug)]
struct Claim {
    key: Arc<ObjectKey>,
    facts: Arc<KeptClaim>,
    state: State,
    /// The priority it waits with.
    priority: i32,
    /// Hosts that it does not get before a time.
    cool: Vec<(ObjectKey, Timestamp)>,
    /// Whether it is not to get a host for now.
    resting: bool,
}

impl Claim {
    fn tenant(&self) -> &str {
        self.key.namespace().unwrap_or_default()
    }

    fn cools(&self, host: &ObjectKey, now: Timestamp) -> bool {
        self.cool.iter().any(|(cooling, until)| cooling == host && *until > now)
    }

    fn is_cooling(&self, now: Timestamp) -> bool {
        self.cool.iter().any(|(_, until)| *until > now)
    }

    fn waiter(&self) -> Waiter {
        Waiter { created: self.facts.created, uid: self.facts.uid.clone(), key: Arc::clone(&self.key) }
    }

    /// Whether it wants a host.
    fn wants(&self) -> bool {
        self.facts.asks && !self.resting
    }
}

#[derive(Debug)]
struct Tenant {
    admitted: Arc<Admitted>,
    quotas: Vec<Box<str>>,
    claims: BTreeSet<Arc<ObjectKey>>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// A cool-down of a claim ends.
    Claim(ObjectKey),
    /// A reservation or an avoidance of a host ends.
    Host(ObjectKey),
    /// A text may be out of date.
    Text(Arc<Signature>, Box<str>),
}

/// What is left to do after an event.
#[derive(Debug, Default)]
struct Todo {
    hosts: BTreeSet<ObjectKey>,
    lines: BTreeSet<(Box<str>, Arc<Signature>)>,
}

/// The hosts, the claims that wait for one, and the rules by which they get it.
#[derive(Debug)]
pub struct Yard {
    settings: Settings,
    open: bool,
    hosts: Hosts,
    rules: Rules,
    holdings: Holdings,
    claims: HashMap<ObjectKey, Claim>,
    /// What claims of other kinds hold.
    elsewhere: BTreeMap<ObjectKey, Held>,
    /// What claims of other kinds are about to have and do not show yet.
    announced: BTreeMap<ObjectKey, Held>,
    /// Whom a host was promised to, and who gave that back, since that was asked last.
    promises: Vec<Promise>,
    tenants: BTreeMap<Box<str>, Tenant>,
    /// How many claims of each tenant are promised a host.
    promised: BTreeMap<Box<str>, usize>,
    lines: Lines,
    timers: BTreeSet<(Timestamp, Timer)>,
    texts: Texts,
    todo: Todo,
    wake: BTreeSet<ObjectKey>,
    effort: Effort,
    /// Moves with every change that an explanation may show.
    changes: u64,
}

impl Yard {
    /// An empty yard, which promises nothing before it is open.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            open: false,
            hosts: Hosts::new(settings.host_order),
            rules: Rules::new(&settings),
            holdings: Holdings::default(),
            claims: HashMap::new(),
            elsewhere: BTreeMap::new(),
            announced: BTreeMap::new(),
            promises: Vec::new(),
            tenants: BTreeMap::new(),
            promised: BTreeMap::new(),
            lines: Lines::default(),
            timers: BTreeSet::new(),
            texts: Texts::default(),
            todo: Todo::default(),
            wake: BTreeSet::new(),
            effort: Effort::default(),
            changes: 0,
        }
    }

    /// The host that is set aside for a claim.
    #[must_use]
    pub fn offer(&self, claim: &ObjectKey) -> Option<Offer> {
        let State::Promised { host, examined } = &self.claims.get(claim)?.state else { return None };
        let uid = self.hosts.get(host)?.facts.uid.clone();
        Some(Offer { host: host.clone(), uid, examined: *examined })
    }

    /// The first filter that a host fails for a claim, cool-downs left out, by the facts of a live read.
    ///
    /// A claim that is not known may have nothing.
    #[must_use]
    pub fn unfit(&self, claim: &ObjectKey, host: &ObjectKey, facts: &HostFacts, _: Timestamp) -> Option<Unfit> {
        let Some(wish) = self.wish(claim) else { return Some(Unfit::NotAdmitted) };
        let seen = self.live(host, facts);
        let tenant = claim.namespace().unwrap_or_default();
        let misfit = self.misfit(&wish, &seen, Some(claim));
        misfit.or_else(|| self.full(&wish, tenant, &seen).map(|_| Unfit::QuotaExceeded))
    }

    /// The hosts whose consumer is a claim of this name, whatever its uid.
    #[must_use]
    pub fn held(&self, namespace: &str, name: &str) -> Vec<ObjectKey> {
        let claim = ObjectKey::namespaced(namespace, name);
        self.hosts.of_claim(&claim).map(|host| (*host.place.key).clone()).collect()
    }

    /// What a tenant may do with a host, by the policies of now.
    #[must_use]
    pub fn grant(&self, tenant: &str, host: &ObjectKey, facts: &HostFacts) -> Grant {
        let way = self.rules.way(tenant, host.namespace().unwrap_or_default());
        Grant::of(&way, &self.live(host, facts))
    }

    /// What the policies of a host's namespace show of it, whoever asks.
    #[must_use]
    pub fn catalogue(&self, host: &ObjectKey, facts: &HostFacts) -> Grant {
        Grant::of(&self.rules.all(host.namespace().unwrap_or_default()), &self.live(host, facts))
    }

    /// Hosts held by each tenant, promised ones and reservations included.
    #[must_use]
    pub fn holdings(&self) -> &BTreeMap<Box<str>, u32> {
        self.holdings.tenants()
    }

    /// How much is held through a policy, by the tenants it admits.
    #[must_use]
    pub fn policy_use(&self, policy: &ObjectKey) -> Option<Use> {
        let policy = self.rules.get(policy)?;
        Some(self.holdings.policy_use(policy, |tenant| policy.admits(tenant, self.rules.space(tenant))))
    }

    /// How much of a quota is used, by the tenants it binds.
    #[must_use]
    pub fn quota_use(&self, quota: &str) -> Option<Use> {
        self.holdings.quota_use(quota, |tenant| self.rules.space(tenant))
    }

    /// Whom a host was promised to, and who gave that back, since this was asked last. Nobody has to know where there is
    /// no quota.
    pub fn promises(&mut self) -> Vec<Promise> {
        std::mem::take(&mut self.promises)
    }

    /// Whether something that was heard of is still to be acted on by [`Yard::tick`].
    #[must_use]
    pub fn is_unsettled(&self) -> bool {
        self.open && !(self.todo.hosts.is_empty() && self.todo.lines.is_empty())
    }

    /// Whether the use of any quota or policy changed since that was asked last.
    #[must_use]
    pub fn is_touched(&self) -> bool {
        self.holdings.is_touched()
    }

    /// Quotas and policies whose use changed since this was asked last.
    pub fn touched(&mut self) -> Touched {
        self.holdings.touched()
    }

    /// How often something changed hands, since the start.
    #[must_use]
    pub fn moves(&self) -> u64 {
        self.holdings.moves()
    }

    /// Free hosts by namespace, those kept for reuse not counted.
    #[must_use]
    pub fn free(&self) -> BTreeMap<Box<str>, usize> {
        self.hosts.free().map(|(namespace, count)| (namespace.into(), count)).collect()
    }

    /// Whether a claim has neither a host nor the promise of one, and is not on its way out either: looking at it can
    /// bring it nothing but words.
    #[must_use]
    pub fn is_idle(&self, claim: &ObjectKey) -> bool {
        self.claims.get(claim).is_some_and(|claim| {
            !claim.facts.deleting && self.open && matches!(claim.state, State::Waiting(_) | State::Idle)
        })
    }

    /// Whether a claim is to get a host as one of very many of its tenant: those who ask for few come first.
    #[must_use]
    pub fn is_one_of_many(&self, claim: &ObjectKey) -> bool {
        let promised = self.claims.get(claim).is_some_and(|claim| matches!(claim.state, State::Promised { .. }));
        let all = claim.namespace().and_then(|tenant| self.promised.get(tenant));
        promised && all.is_some_and(|all| *all > AT_ONCE)
    }

    /// How many claims wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.lines.len()
    }

    /// How much work choosing was, since the start.
    #[must_use]
    pub fn effort(&self) -> Effort {
        self.effort
    }

    /// When [`Yard::tick`] has something to do.
    #[must_use]
    pub fn due(&self) -> Option<Timestamp> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// A host as a live read shows it.
    fn live<'a>(&'a self, key: &'a ObjectKey, facts: &'a HostFacts) -> Seen<'a> {
        Seen {
            key,
            facts,
            hardware: self.hosts.hardware(key, facts).map(|hardware| &**hardware),
            ailment: ailment(facts),
            assumed: self.hosts.get(key).and_then(|host| host.assumed.as_deref()),
        }
    }

    /// What a claim wants; nothing when that cannot be read, or its tenant is not known yet.
    fn wish(&self, claim: &ObjectKey) -> Option<Signature> {
        let facts = &self.claims.get(claim)?.facts;
        let tenant = claim.namespace().unwrap_or_default();
        let wish = facts.wish.as_ref().ok()?;
        Some(Signature {
            admitted: Arc::clone(&self.tenants.get(tenant)?.admitted),
            selector: wish.selector.clone(),
            in_namespace: wish.in_namespace.clone(),
            required: wish.required,
            domain: wish.domain.clone(),
            group: wish.group.as_deref().map(|group| reuse_value(tenant, group).into()),
        })
    }

    /// Counts a host for its tenant no longer.
    fn uncount(&mut self, key: &ObjectKey) {
        let Some(host) = self.hosts.get(key) else { return };
        let Some(tenant) = host.tenant() else { return };
        let seen = host.seen();
        let policies = self.rules.of_namespace(seen.namespace());
        let space = self.rules.space(tenant);
        let tenant: Box<str> = tenant.into();
        let loosened = self.holdings.discount(&tenant, space, &seen, policies);
        self.loosen(&tenant, loosened);
    }

    /// Tries the lines of those again who may have room.
    fn loosen(&mut self, tenant: &str, loosened: Loosened) {
        match loosened {
            Loosened::Nobody => {}
            Loosened::Tenant => {
                let wishes = self.lines.of_tenant(tenant);
                self.todo.lines.extend(wishes.map(|wish| (tenant.into(), Arc::clone(wish))));
            }
            Loosened::Everybody => {
                for tenant in self.lines.tenants() {
                    let wishes = self.lines.of_tenant(tenant);
                    self.todo.lines.extend(wishes.map(|wish| (tenant.into(), Arc::clone(wish))));
                }
            }
        }
    }

    /// Counts a host for its tenant.
    fn recount(&mut self, key: &ObjectKey) {
        let Some(host) = self.hosts.get(key) else { return };
        let Some(tenant) = host.tenant() else { return };
        let seen = host.seen();
        self.holdings.count(tenant, self.rules.space(tenant), &seen, self.rules.of_namespace(seen.namespace()));
    }

    /// Takes a claim out of its line, if it stands in one.
    fn leave_line(&mut self, claim: &ObjectKey) -> Option<Arc<ObjectKey>> {
        let entry = self.claims.get_mut(claim)?;
        if let State::Waiting(wish) = &entry.state {
            let wish = Arc::clone(wish);
            entry.state = State::Idle;
            let tenant = claim.namespace().unwrap_or_default();
            self.lines.leave(&wish, tenant, entry.priority, &entry.waiter());
            if self.lines.line(&wish, tenant).is_none() {
                self.texts.forget(&wish, tenant);
            }
        }
        Some(Arc::clone(&entry.key))
    }

    /// Does what an event left to do, and tells who is to be looked at.
    fn finish(&mut self, now: Timestamp) -> Vec<ObjectKey> {
        // Each round promises a host or ends: a host goes to one claim, and a line is tried until it can have none.
        while self.is_unsettled() {
            let todo = std::mem::take(&mut self.todo);
            for host in &todo.hosts {
                self.give(host, now);
            }
            self.settle(todo.lines, now);
        }
        std::mem::take(&mut self.wake).into_iter().collect()
    }
}

/// The times at which a host may be had by somebody who may not have it now.
fn times(host: &HostFacts) -> impl Iterator<Item = Timestamp> + '_ {
    let marks = host.annotations.iter().filter(|(key, _)| key.starts_with(AVOID_PREFIX));
    let marks = marks.filter_map(|(_, until)| until.parse().ok());
    marks.chain(reserved_until(host))
}
