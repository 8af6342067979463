//! Judges one cluster: is it ours, what does it want, what does it have, and what should stand on it.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use api::key::ObjectKey;
use api::views::Endpoint;
use jiff::Timestamp;

use crate::config::{MissingPool, port};
use crate::facts::{ClaimFacts, ClusterFacts, GLOBAL_POOL_KIND, Owner, POOL_KIND, Pool, PoolName, address};
use crate::goal::Goal;
use crate::names::{
    ALLOCATED, CLUSTER_CLASS, CONTROL_PLANE_ENABLED, CONTROL_PLANE_SOURCE, Family, INGRESS_ENABLED, IP_FAMILIES, PORT,
    Role, Slot, VIP_ONLY,
};
use crate::pools::{Search, concerns, misfit, order, tally};
use crate::scene::{Holding, Scene, Use, User};

/// How long an ingress address that nobody insists on may hold a cluster back.
pub const INGRESS_PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);

/// Why a cluster is left alone that nobody gave to us.
pub const UNMANAGED: &str = "nothing asks for an address: no handler, annotation or pool names the class";
/// Why a cluster is left alone that does not want to be looked after.
pub const OPTED_OUT: &str = "the cluster or its class opted out";
/// Why a cluster is left alone that nothing can be had for.
pub const UNPOOLED: &str = "no pool matches, and the policy is to ignore that";

/// How this capability stands to a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stance {
    /// Left alone, for this reason.
    Out(&'static str),
    /// The user chose the endpoint.
    Manual,
    /// The endpoint is an address from a pool.
    Pooled,
    /// An address comes from a pool, the endpoint from the user.
    VipOnly,
}

/// What is wrong with what the user wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The annotation.
    pub key: &'static str,
    /// What is wrong with it.
    pub problem: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "annotation {}: {}", self.key, self.problem)
    }
}

/// How things stand with one address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// The claim holds it.
    Bound {
        /// The address.
        address: IpAddr,
        /// Its pool.
        pool: Option<PoolName>,
    },
    /// There is no claim yet, and this is the pool to ask.
    Unclaimed {
        /// The pool.
        pool: PoolName,
        /// Those that were asked before.
        tried: Vec<PoolName>,
    },
    /// A claim of the right name and role has no owner: it can be taken over.
    Unowned,
    /// The claim waits for its provider.
    Waiting {
        /// The pool it asks.
        pool: Option<PoolName>,
        /// When another pool may be tried.
        until: Option<Timestamp>,
    },
    /// The claim waits at a pool that cannot give anything, and this one can.
    Stuck {
        /// The pool it asks.
        pool: Option<PoolName>,
        /// The pool to ask instead.
        better: PoolName,
    },
    /// No matching pool has an address left.
    Exhausted {
        /// The matching pools.
        pools: Vec<PoolName>,
    },
    /// The indexes do not show our own write yet.
    Behind,
    /// A claim of that name is going away.
    Leaving,
    /// A claim of that name belongs to somebody else.
    Foreign {
        /// To whom.
        owner: String,
    },
    /// No pool matches.
    NoPool {
        /// The class that a pool would have to name.
        class: String,
        /// How many pools failed on which criterion.
        tally: String,
    },
    /// Another cluster or claim uses the same address.
    Conflict {
        /// The address.
        address: IpAddr,
        /// Who uses it.
        by: String,
    },
    /// The Cluster shows another address than its claim holds.
    Mismatch {
        /// The address of the claim, or the endpoint.
        held: String,
        /// What the Cluster shows.
        shown: String,
    },
    /// The Cluster shows an address, and there is no claim that holds it.
    Missing {
        /// The address.
        shown: String,
    },
}

/// One address a cluster wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Want {
    /// Its family, where that matters.
    pub family: Option<Family>,
    /// Whether the cluster cannot go on without it.
    pub required: bool,
    /// How things stand with it.
    pub state: State,
}

impl Want {
    /// Whether the cluster must still wait for it at `now`, counted from the claim or, without one, from `created`.
    #[must_use]
    pub fn holds_back(&self, claim: Option<&ClaimFacts>, created: Timestamp, now: Timestamp) -> bool {
        match &self.state {
            State::Bound { .. } => false,
            _ if self.required => true,
            // What nobody insists on is waited for a moment, as long as it may still come.
            State::Waiting { .. } | State::Unclaimed { .. } | State::Unowned | State::Behind => {
                since(claim.map_or(created, |claim| claim.created), now) < INGRESS_PATIENCE
            }
            _ => false,
        }
    }
}

/// Everything there is to say about one cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Survey {
    /// How we stand to it.
    pub stance: Stance,
    /// What is wrong with its annotations.
    pub faults: Vec<Fault>,
    /// The addresses it wants.
    pub wants: BTreeMap<Slot, Want>,
    /// Who else uses the endpoint that the user chose.
    pub rival: Option<Use>,
    /// A matching pool that could give the endpoint that the user chose to somebody else.
    pub offered: Option<PoolName>,
    /// A claim that the endpoint that the user chose never needed.
    pub unused: Option<Slot>,
    /// What should stand on the Cluster, as far as is known.
    pub goal: Goal,
}

/// The class that pools are matched with: that of the topology, or the one a cluster without topology names.
#[must_use]
pub fn class_of(cluster: &ClusterFacts, key: &ObjectKey, reconciler: bool) -> Option<ObjectKey> {
    let named = || {
        let class = cluster.annotation(CLUSTER_CLASS).filter(|class| !class.is_empty())?;
        Some(ObjectKey::namespaced(key.namespace().unwrap_or_default(), class))
    };
    cluster.class.clone().or_else(|| if reconciler { named() } else { None })
}

/// How long a claim has existed.
#[must_use]
pub fn age(claim: &ClaimFacts, now: Timestamp) -> std::time::Duration {
    since(claim.created, now)
}

fn since(then: Timestamp, now: Timestamp) -> std::time::Duration {
    now.duration_since(then).try_into().unwrap_or_default()
}

/// What an address for a slot of the cluster is looked for with.
#[must_use]
pub fn search<'a>(
    cluster: &'a ClusterFacts,
    class: &'a ObjectKey,
    scene: &'a Scene,
    slot: Slot,
    family: Option<Family>,
) -> Search<'a> {
    Search {
        class,
        namespace: scene.key.namespace().unwrap_or_default(),
        namespace_labels: &scene.namespace_labels,
        role: slot.role,
        family,
        pin: cluster.annotation(slot.role.pin()).map(str::trim).filter(|pin| !pin.is_empty()),
    }
}

/// Judges a cluster against its scene.
#[must_use]
pub fn survey(cluster: &ClusterFacts, scene: &Scene) -> Survey {
    let mut survey = Survey {
        stance: Stance::Out("the cluster has no class"),
        faults: Vec::new(),
        wants: BTreeMap::new(),
        rival: None,
        offered: None,
        unused: None,
        goal: Goal::default(),
    };
    let Some(class) = class_of(cluster, &scene.key, scene.config.reconciler) else { return survey };
    let judge = Judge { cluster, scene, class: &class };
    survey.stance = judge.stance();
    if let Stance::Out(_) = survey.stance {
        return survey;
    }
    let families = judge.families(&mut survey.faults);
    if survey.stance != Stance::Manual {
        let [first, second] = families;
        judge.want(&mut survey.wants, Slot::CONTROL_PLANE, first, true);
        if second.is_some() {
            judge.want(&mut survey.wants, Slot { role: Role::ControlPlane, second: true }, second, true);
        }
    }
    judge.ingress(&mut survey, families);
    if judge.unpooled(&survey) {
        survey.stance = Stance::Out(UNPOOLED);
        survey.wants.clear();
        return survey;
    }
    if survey.stance == Stance::Manual {
        survey.offered = judge.offered();
        survey.unused = scene.owned(Slot::CONTROL_PLANE, &cluster.uid).map(|_| Slot::CONTROL_PLANE);
    }
    if survey.stance != Stance::Pooled {
        survey.rival = judge.rival();
    }
    survey.goal = judge.goal(&mut survey);
    survey
}

struct Judge<'a> {
    cluster: &'a ClusterFacts,
    scene: &'a Scene,
    class: &'a ObjectKey,
}

impl Judge<'_> {
    /// An annotation of the Cluster, or else of its class.
    fn annotation(&self, key: &str) -> Option<&str> {
        let class = || self.scene.class.as_ref().and_then(|class| class.annotations.get(key)).map(String::as_str);
        self.cluster.annotation(key).or_else(class)
    }

    fn insists(&self) -> bool {
        self.annotation(CONTROL_PLANE_ENABLED) == Some("true")
    }

    /// Whether anybody has said that clusters of this class get addresses from us.
    fn managed(&self) -> bool {
        let handler = |class: &crate::facts::ClassFacts| class.handlers.iter().any(|h| self.scene.config.is_ours(h));
        let owned = |slot: &Slot| self.scene.owned(*slot, &self.cluster.uid).is_some();
        self.insists()
            || self.scene.class.as_deref().is_some_and(handler)
            || self.scene.pools.iter().any(|pool| concerns(pool, &self.search(Slot::CONTROL_PLANE, None)))
            || self.cluster.annotation(CONTROL_PLANE_SOURCE).is_some()
            || Slot::ALL.iter().any(owned)
    }

    fn stance(&self) -> Stance {
        let (cluster, config) = (self.cluster, &self.scene.config);
        if cluster.deleting {
            return Stance::Out("the cluster is being deleted");
        }
        if cluster.paused {
            return Stance::Out("the cluster is paused");
        }
        if config.is_foreign(cluster.watch_filter.as_deref()) {
            return Stance::Out("the cluster's watch-filter label is not ours");
        }
        if self.annotation(CONTROL_PLANE_ENABLED) == Some("false") {
            return Stance::Out(OPTED_OUT);
        }
        if matches!(config.missing_pool, MissingPool::Auto | MissingPool::Ignore) && !self.managed() {
            return Stance::Out(UNMANAGED);
        }
        if cluster.annotation(VIP_ONLY) == Some("true") {
            return Stance::VipOnly;
        }
        let chosen = self.chosen();
        let held = self.scene.owned(Slot::CONTROL_PLANE, &cluster.uid);
        let pooled = cluster.annotation(CONTROL_PLANE_SOURCE) == Some(ALLOCATED);
        match chosen {
            None => Stance::Pooled,
            Some(_) if pooled && !cluster.endpoint.host.is_empty() => Stance::Pooled,
            Some(host) if held.is_some() && address(host) == held => Stance::Pooled,
            Some(_) => Stance::Manual,
        }
    }

    /// The host the Cluster carries: its endpoint's, or the one a user put into the variable instead.
    fn chosen(&self) -> Option<&str> {
        let host = self.cluster.endpoint.host.as_str();
        let variable = || self.cluster.variables.get(&Slot::CONTROL_PLANE).map(String::as_str).map(str::trim);
        Some(host).filter(|h| !h.is_empty()).or_else(|| variable().filter(|v| !v.is_empty()))
    }

    fn families(&self, faults: &mut Vec<Fault>) -> [Option<Family>; 2] {
        match self.annotation(IP_FAMILIES).map(str::trim) {
            None | Some("") => [None, None],
            Some("ipv4") => [Some(Family::V4), None],
            Some("ipv6") => [Some(Family::V6), None],
            Some("ipv4,ipv6") => [Some(Family::V4), Some(Family::V6)],
            Some("ipv6,ipv4") => [Some(Family::V6), Some(Family::V4)],
            Some(other) => {
                let problem = format!("`{other}` is none of ipv4, ipv6, ipv4,ipv6 and ipv6,ipv4");
                faults.push(Fault { key: IP_FAMILIES, problem });
                [None, None]
            }
        }
    }

    fn port(&self, faults: &mut Vec<Fault>) -> i32 {
        if self.cluster.endpoint.port != 0 {
            return self.cluster.endpoint.port;
        }
        match self.annotation(PORT) {
            None => self.scene.config.default_port.into(),
            Some(text) => port(text).map_or_else(
                || {
                    let problem = format!("`{text}` is no port between 1 and 65535");
                    faults.push(Fault { key: PORT, problem });
                    self.scene.config.default_port.into()
                },
                i32::from,
            ),
        }
    }

    fn ingress(&self, survey: &mut Survey, [first, second]: [Option<Family>; 2]) {
        let required = match self.annotation(INGRESS_ENABLED).map(str::trim) {
            Some("true") => true,
            Some("false") => return,
            None | Some("") => false,
            Some(other) => {
                let problem = format!("`{other}` is neither true nor false");
                survey.faults.push(Fault { key: INGRESS_ENABLED, problem });
                return;
            }
        };
        let mut slots = vec![(Slot::INGRESS, first)];
        if second.is_some() {
            slots.push((Slot { role: Role::Ingress, second: true }, second));
        }
        for (slot, family) in slots {
            self.want(&mut survey.wants, slot, family, required);
            if !required && matches!(survey.wants.get(&slot).map(|w| &w.state), Some(State::NoPool { .. })) {
                survey.wants.remove(&slot);
            }
        }
    }

    /// Whether the policy lets this cluster pass because nothing can be allocated for it.
    fn unpooled(&self, survey: &Survey) -> bool {
        let first = survey.wants.get(&Slot::CONTROL_PLANE).map(|want| &want.state);
        self.scene.config.missing_pool == MissingPool::Ignore
            && !self.insists()
            && matches!(first, Some(State::NoPool { .. }))
    }

    fn want(&self, wants: &mut BTreeMap<Slot, Want>, slot: Slot, family: Option<Family>, required: bool) {
        let state = self.state(slot, family);
        wants.insert(slot, Want { family, required, state });
    }

    fn search(&self, slot: Slot, family: Option<Family>) -> Search<'_> {
        search(self.cluster, self.class, self.scene, slot, family)
    }

    /// The address that the Cluster shows in a slot and that must not change any more: its endpoint or, once something was
    /// rendered from it, its annotation. Before that an annotation proves nothing, it may have come with a copied manifest.
    fn shown(&self, slot: Slot) -> Option<&str> {
        let annotated = self.cluster.annotation(slot.annotation()).filter(|value| !value.is_empty());
        let endpoint = Some(self.cluster.endpoint.host.as_str()).filter(|host| !host.is_empty());
        let vip_only = self.cluster.annotation(VIP_ONLY) == Some("true");
        match slot == Slot::CONTROL_PLANE && !vip_only {
            true => endpoint,
            false if self.cluster.rendered => annotated,
            false => None,
        }
    }

    fn state(&self, slot: Slot, family: Option<Family>) -> State {
        let state = match self.scene.holdings.get(&slot) {
            None => self.without_claim(slot, family),
            Some(Holding::Behind) => State::Behind,
            Some(Holding::Claim { claim, .. }) => self.with_claim(slot, family, claim),
        };
        let State::Bound { address: held, .. } = state else { return state };
        if let Some(by) = self.used_by_another(slot, held) {
            return State::Conflict { address: held, by };
        }
        let Some(shown) = self.shown(slot) else { return state };
        let annotated = self.cluster.annotation(slot.annotation()).filter(|value| !value.is_empty());
        match [Some(shown), annotated].into_iter().flatten().find(|shown| address(shown) != Some(held)) {
            Some(shown) => State::Mismatch { held: held.to_string(), shown: shown.to_owned() },
            None => state,
        }
    }

    fn without_claim(&self, slot: Slot, family: Option<Family>) -> State {
        if let Some(shown) = self.shown(slot) {
            // Nothing could be asked for that would give this very address back.
            return State::Missing { shown: shown.to_owned() };
        }
        let tried = self.scene.tried.get(&slot).cloned().unwrap_or_default();
        let search = self.search(slot, family);
        match order(&self.scene.pools, &search, &tried).first() {
            Some(pool) => State::Unclaimed { pool: pool.name.clone(), tried },
            None => self.no_pool(&search),
        }
    }

    fn with_claim(&self, slot: Slot, family: Option<Family>, claim: &ClaimFacts) -> State {
        if claim.deleting {
            return State::Leaving;
        }
        if !claim.owners.iter().any(|owner| owner.uid == self.cluster.uid) {
            // The claim of an earlier Cluster of this name: the collector takes it away.
            let earlier = |owner: &Owner| *owner.kind == *"Cluster" && *owner.name == *self.scene.key.name();
            return match claim.owners.first() {
                Some(owner) if earlier(owner) => State::Leaving,
                Some(owner) => State::Foreign { owner: format!("{} {} (uid {})", owner.kind, owner.name, owner.uid) },
                None if claim.is_ours(slot) => State::Unowned,
                None => State::Foreign { owner: "somebody who did not label it for this role".to_owned() },
            };
        }
        if let Some(held) = self.scene.bound(slot) {
            return State::Bound { address: held, pool: claim.pool.clone() };
        }
        if claim.address.is_some() {
            // The provider has answered; the address object is on its way into the index.
            return State::Waiting { pool: claim.pool.clone(), until: None };
        }
        self.unbound(slot, family, claim)
    }

    fn unbound(&self, slot: Slot, family: Option<Family>, claim: &ClaimFacts) -> State {
        let pool = claim.pool.clone();
        let own = |name: &PoolName| {
            self.scene.pools.iter().find(|p| {
                p.name == *name && p.namespace.as_deref().is_none_or(|n| Some(n) == self.scene.key.namespace())
            })
        };
        let refused = matches!(claim.refusal.as_deref(), Some("PoolExhausted" | "PoolNotReady"));
        // Of another provider's pool nothing is known: it may have addresses.
        let known = pool.as_ref().is_none_or(|pool| [POOL_KIND, GLOBAL_POOL_KIND].contains(&&*pool.kind));
        let empty = known && pool.as_ref().and_then(own).is_none_or(|pool| !pool.facts.has_capacity());
        // What the Cluster shows comes back from the same pool or not at all: after a move between management clusters
        // the claim has lost its status, and its provider finds the address again.
        if (!refused && !empty) || self.shown(slot).is_some() {
            return State::Waiting { pool, until: None };
        }
        let mut tried = claim.tried.clone();
        tried.extend(pool.clone());
        let search = self.search(slot, family);
        let fit = order(&self.scene.pools, &search, &tried);
        let better = fit.iter().find(|p| Some(&p.name) != pool.as_ref() && p.has_room());
        let due = claim.created.checked_add(self.scene.config.fallback_after).unwrap_or(claim.created);
        match better {
            Some(better) if due <= self.scene.now => State::Stuck { pool, better: better.name.clone() },
            Some(_) => State::Waiting { pool, until: Some(due) },
            None if fit.is_empty() && pool.is_none() => self.no_pool(&search),
            None => {
                let mut pools: Vec<PoolName> = fit.into_iter().map(|p| p.name.clone()).chain(pool).collect();
                pools.sort();
                pools.dedup();
                State::Exhausted { pools }
            }
        }
    }

    /// Nothing can be asked. A class of the cluster's own namespace is named as people write it on pools.
    fn no_pool(&self, search: &Search<'_>) -> State {
        let near = self.class.namespace() == self.scene.key.namespace();
        let class = if near { self.class.name().to_owned() } else { self.class.to_string() };
        State::NoPool { class, tally: tally(&self.scene.pools, search) }
    }

    /// Who else uses an address that a claim of this cluster holds. Where pools overlap, two claims can hold one address;
    /// the Cluster that shows it already keeps it. Of two that do not, one may go on after a while, or both would wait for
    /// ever.
    fn used_by_another(&self, slot: Slot, held: IpAddr) -> Option<String> {
        let fresh = self.shown(slot).is_none();
        let another = |u: &&Use| {
            u.address == held
                && match &u.by {
                    User::Cluster { .. } => true,
                    User::Claim(_) => fresh,
                    User::Rival { claim, since } => {
                        fresh && self.scene.turn(slot, claim, *since).is_none_or(|turn| self.scene.now < turn)
                    }
                }
        };
        self.scene.uses.iter().find(another).map(|u| u.by.to_string())
    }

    /// Who else uses the address that the user chose. Two clusters whose owners chose one address with different ports
    /// share a load balancer on purpose.
    fn rival(&self) -> Option<Use> {
        let vip_only = self.cluster.annotation(VIP_ONLY) == Some("true");
        let chosen = if vip_only { self.cluster.address() } else { address(self.chosen()?) }?;
        let mine = self.cluster.endpoint.port;
        let rival = |u: &&Use| {
            u.address == chosen
                && match &u.by {
                    User::Cluster { port: Some(port), manual: true, .. } => mine == 0 || *port == mine,
                    User::Cluster { .. } | User::Claim(_) | User::Rival { .. } => true,
                }
        };
        self.scene.uses.iter().find(rival).cloned()
    }

    /// A pool that could give away the address that the user chose.
    fn offered(&self) -> Option<PoolName> {
        let chosen = address(self.chosen()?)?;
        let search = self.search(Slot::CONTROL_PLANE, None);
        let offers = |pool: &&Pool| misfit(pool, &search).is_none() && pool.facts.offers(chosen);
        self.scene.pools.iter().find(offers).map(|pool| pool.name.clone())
    }

    fn goal(&self, survey: &mut Survey) -> Goal {
        let variables = self.scene.class.as_ref().filter(|_| self.cluster.class.is_some());
        let defined = |slot: Slot| variables.is_some_and(|class| class.variables.contains(&slot));
        let mut goal = Goal::default();
        match survey.stance {
            Stance::Out(_) => return goal,
            Stance::Manual => {
                if let Some(host) = self.chosen() {
                    let port = self.port(&mut survey.faults);
                    goal.endpoint = Some(Endpoint { host: host.to_owned(), port });
                    let variable = address(host).is_some() && defined(Slot::CONTROL_PLANE);
                    goal.manual(host, variable);
                }
            }
            Stance::Pooled => {
                let shown = self.shown(Slot::CONTROL_PLANE).map(str::to_owned);
                let held = match survey.wants.get(&Slot::CONTROL_PLANE).map(|want| &want.state) {
                    Some(State::Bound { address, .. }) => Some(address.to_string()),
                    _ => None,
                };
                // What the Cluster carries is the truth; annotations and variables follow it, also without a claim.
                if let Some(host) = shown.or(held) {
                    let port = self.port(&mut survey.faults);
                    goal.show(Slot::CONTROL_PLANE, &host, defined(Slot::CONTROL_PLANE));
                    goal.endpoint = Some(Endpoint { host, port });
                }
            }
            Stance::VipOnly => {}
        }
        for (slot, want) in &survey.wants {
            if let State::Bound { address, pool } = &want.state {
                goal.show(*slot, &address.to_string(), defined(*slot));
                if *slot == Slot::CONTROL_PLANE {
                    goal.allocated(pool.as_ref());
                }
            }
        }
        if self.annotation(INGRESS_ENABLED).map(str::trim) == Some("false") {
            // Only what we ourselves put there is taken away again: that is what a claim of ours proves.
            for slot in Slot::ALL.into_iter().filter(|slot| slot.role == Role::Ingress) {
                if self.scene.owned(slot, &self.cluster.uid).is_some() {
                    goal.hide(slot);
                }
            }
        }
        goal
    }
}
