//! Any order of events: the yard against the model.

use std::collections::BTreeSet;

use api::key::ObjectKey;
use claims::yard::{DefaultAdmission, HostOrder, Settings, Yard};
use proptest::prelude::*;

use super::build::{at, key};
use super::model::{Claim, Host, Model, Policy, Promises, Quota, User};

const TENANTS: [&str; 3] = ["t1", "t2", "i1"];
const CLAIMS: [&str; 8] = ["t1/a", "t1/b", "t1/c", "t2/d", "t2/e", "t2/f", "i1/g", "i1/h"];
const HOSTS: [&str; 6] = ["i1/h1", "i1/h2", "i1/h3", "i2/h4", "i2/h5", "i2/h6"];
const POLICIES: [&str; 4] = ["i1/p", "i1/q", "i2/p", "i2/q"];
const QUOTAS: [&str; 2] = ["gold", "iron"];

#[derive(Clone, Debug)]
enum Op {
    Host(usize, Option<Host>),
    Claim(usize, Option<Claim>),
    Policy(usize, Option<Policy>),
    Quota(usize, Option<Quota>),
    /// The claim binds what it is offered.
    Bind(usize),
    /// The claim is refused what it is offered, for ten seconds.
    Refuse(usize),
    /// The claim takes a host that it had decided on.
    Keep(usize, usize),
    Pass(i64),
    Open,
}

fn tenant() -> impl Strategy<Value = &'static str> {
    prop::sample::select(&TENANTS[..])
}

fn pool() -> impl Strategy<Value = Option<&'static str>> {
    prop::sample::select(vec![None, Some("a"), Some("b")])
}

fn domain() -> impl Strategy<Value = Option<&'static str>> {
    prop::sample::select(vec![None, Some("n"), Some("s")])
}

fn host() -> impl Strategy<Value = Host> {
    let user = prop_oneof![
        6 => Just(None),
        1 => Just(Some(User::Other)),
        1 => Just(Some(User::Reservation)),
        2 => prop::sample::select(&CLAIMS[..]).prop_map(|claim| Some(User::Claim(key(claim)))),
    ];
    let kept = prop_oneof![3 => Just(None), 1 => (tenant(), 0..200_i64).prop_map(Some)];
    let avoid = prop_oneof![5 => Just(None), 1 => (tenant(), 0..200_i64).prop_map(Some)];
    (pool(), domain(), prop::bool::weighted(0.8), prop::bool::weighted(0.1), user, kept, avoid).prop_map(
        |(pool, domain, available, deleting, user, kept, avoid)| {
            // A reservation without its label is somebody else's consumer.
            Host { pool, domain, available, deleting, user, kept, avoid }
        },
    )
}

fn claim() -> impl Strategy<Value = Claim> {
    let namespace = prop_oneof![3 => Just(None), 1 => Just(Some("i1")), 1 => Just(Some("i2"))];
    (
        (0..50_i64, -1..2_i32, pool(), any::<bool>()),
        (namespace, domain(), any::<bool>(), prop::bool::weighted(0.3), prop::bool::weighted(0.1)),
    )
        .prop_map(|((created, priority, pool, other_pool), (in_namespace, domain, required, reuse, paused))| {
            Claim { created, priority, pool, other_pool, in_namespace, domain, required, reuse, paused }
        })
}

fn tenants() -> impl Strategy<Value = Vec<&'static str>> {
    prop::sample::subsequence(&TENANTS[..], 0..=3)
}

fn policy() -> impl Strategy<Value = Policy> {
    (tenants(), pool(), prop::option::of(0..3_u32)).prop_map(|(tenants, pool, max)| Policy { tenants, pool, max })
}

fn quota() -> impl Strategy<Value = Quota> {
    (tenants(), pool(), 0..4_u32, any::<bool>(), prop::option::of(-1..2_i32))
        .prop_map(|(tenants, pool, hard, shared, max_priority)| Quota { tenants, pool, hard, shared, max_priority })
}

fn op() -> impl Strategy<Value = Op> {
    let claim_number = 0..CLAIMS.len();
    prop_oneof![
        6 => (0..HOSTS.len(), prop::option::weighted(0.9, host())).prop_map(|(n, host)| Op::Host(n, host)),
        6 => (claim_number.clone(), prop::option::weighted(0.8, claim())).prop_map(|(n, claim)| Op::Claim(n, claim)),
        2 => (0..POLICIES.len(), prop::option::weighted(0.8, policy())).prop_map(|(n, policy)| Op::Policy(n, policy)),
        2 => (0..QUOTAS.len(), prop::option::weighted(0.6, quota())).prop_map(|(n, quota)| Op::Quota(n, quota)),
        5 => claim_number.clone().prop_map(Op::Bind),
        2 => claim_number.clone().prop_map(Op::Refuse),
        2 => (claim_number, 0..HOSTS.len()).prop_map(|(claim, host)| Op::Keep(claim, host)),
        2 => (1..40_i64).prop_map(Op::Pass),
        2 => Just(Op::Open),
    ]
}

struct World {
    model: Model,
    yard: Yard,
    now: i64,
    open: bool,
}

impl World {
    fn new(settings: Settings) -> Self {
        let model = Model { settings, ..Model::default() };
        Self { model, yard: Yard::new(settings), now: 0, open: false }
    }

    fn promises(&self) -> Promises {
        let offer = |claim: &&str| Some((key(claim), self.yard.offer(&key(claim))?.host));
        CLAIMS.iter().filter_map(offer).collect()
    }

    /// Lets an event happen and checks everything; `host` and `claim` say what the event was about.
    fn step(&mut self, op: &Op) -> Result<(), TestCaseError> {
        let before = self.promises();
        let now = at(self.now);
        let mut arrived = None;
        let mut freed = None;
        let mut kept = None;
        let woken = match op {
            Op::Host(number, host) => {
                let key = key(HOSTS[*number]);
                match host {
                    Some(host) => self.model.hosts.insert(key.clone(), host.clone()),
                    None => self.model.hosts.remove(&key),
                };
                freed = Some(key.clone());
                self.yard.host(&key, host.as_ref().map(|host| host.facts(&key)), now)
            }
            Op::Claim(number, claim) => {
                let key = key(CLAIMS[*number]);
                let known = match claim {
                    Some(claim) => self.model.claims.insert(key.clone(), claim.clone()),
                    None => self.model.claims.remove(&key),
                };
                if claim.is_none() {
                    self.model.cool.retain(|(claim, _), _| *claim != key);
                }
                arrived = known.is_none().then(|| key.clone());
                self.yard.claim(&key, claim.as_ref().map(|claim| claim.facts(&key)), now)
            }
            Op::Policy(number, policy) => {
                let key = key(POLICIES[*number]);
                match policy {
                    Some(policy) => self.model.policies.insert(key.clone(), policy.clone()),
                    None => self.model.policies.remove(&key),
                };
                self.yard.policy(&key, policy.as_ref().map(Policy::facts), now)
            }
            Op::Quota(number, quota) => {
                let name = QUOTAS[*number];
                match quota {
                    Some(quota) => self.model.quotas.insert(name.to_owned(), quota.clone()),
                    None => self.model.quotas.remove(name),
                };
                self.yard.quota(name, quota.as_ref().map(Quota::facts), now)
            }
            Op::Bind(number) => {
                let claim = key(CLAIMS[*number]);
                let Some(offer) = self.yard.offer(&claim) else { return Ok(()) };
                let host = self.model.hosts.get_mut(&offer.host).unwrap();
                (host.user, host.kept) = (Some(User::Claim(claim)), None);
                let facts = host.facts(&offer.host);
                self.yard.host(&offer.host, Some(facts), now)
            }
            Op::Refuse(number) => {
                let claim = key(CLAIMS[*number]);
                let Some(offer) = self.yard.offer(&claim) else { return Ok(()) };
                self.model.cool.insert((claim.clone(), offer.host.clone()), self.now + 10);
                self.yard.refused(&claim, &offer.host, at(self.now + 10), now)
            }
            Op::Keep(claim, host) => {
                let (claim, host) = (key(CLAIMS[*claim]), key(HOSTS[*host]));
                let known = self.open && self.model.claims.contains_key(&claim) && self.model.hosts.contains_key(&host);
                if !known {
                    return Ok(());
                }
                let mut others = before.clone();
                others.remove(&claim);
                let may = self.model.wants(&claim)
                    && self.model.suits(&claim, &host, &others)
                    && !self.model.cools(&claim, &host, self.now);
                let has = before.get(&claim) == Some(&host)
                    || self.model.hosts[&host].user == Some(User::Claim(claim.clone()));
                let answer = self.yard.keep(&claim, &host, now);
                prop_assert!(answer.is_none() || has || may, "{claim} kept {host}");
                prop_assert!(answer.is_some() || !has);
                kept = answer.as_ref().map(|_| claim);
                answer.unwrap_or_default()
            }
            Op::Pass(seconds) => {
                self.now += seconds;
                self.yard.tick(at(self.now))
            }
            Op::Open => {
                self.open = true;
                self.yard.open(now)
            }
        };
        let after = self.promises();
        let woken: BTreeSet<ObjectKey> = woken.into_iter().collect();
        let new: Vec<(&ObjectKey, &ObjectKey)> =
            after.iter().filter(|(claim, host)| before.get(*claim) != Some(*host)).collect();
        for (claim, _) in &new {
            prop_assert!(woken.contains(claim) || kept.as_ref() == Some(claim), "{claim} was not told");
        }
        for claim in before.keys().filter(|claim| !after.contains_key(*claim)) {
            let own = matches!(op, Op::Claim(n, _) | Op::Refuse(n) if key(CLAIMS[*n]) == *claim);
            prop_assert!(own || woken.contains(claim), "{claim} was not told that it lost its host");
        }
        self.check(&before, &after)?;
        if let Some(claim) = arrived
            && self.open
            && self.model.wants(&claim)
        {
            let expected = self.model.choose(&claim, &before, self.now);
            prop_assert_eq!(after.get(&claim), expected.as_ref(), "{} chose", claim);
        }
        if let (Some(host), [(winner, got)]) = (freed, new.as_slice())
            && **got == host
            && !before.contains_key(*winner)
        {
            let mut without = after.clone();
            without.remove(*winner);
            for other in CLAIMS.iter().map(|claim| key(claim)) {
                let waits = self.model.wants(&other) && !after.contains_key(&other);
                if waits && self.model.fits(&other, &host, &without, self.now) {
                    let (first, second) = (self.model.rank(winner, &without), self.model.rank(&other, &without));
                    prop_assert!(first <= second, "{winner} {first:?} went before {other} {second:?}");
                }
            }
        }
        Ok(())
    }

    fn check(&self, before: &Promises, after: &Promises) -> Result<(), TestCaseError> {
        let (model, now) = (&self.model, self.now);
        if !self.open {
            prop_assert!(after.is_empty());
            return Ok(());
        }
        let promised: BTreeSet<&ObjectKey> = after.values().collect();
        prop_assert_eq!(promised.len(), after.len(), "a host is promised twice: {:?}", after);
        let mut waiting = 0;
        for claim in CLAIMS.iter().map(|claim| key(claim)) {
            if !model.wants(&claim) {
                prop_assert!(!after.contains_key(&claim), "{} wants nothing", claim);
                continue;
            }
            if let Some(host) = after.get(&claim) {
                prop_assert!(model.suits(&claim, host, after), "{} does not suit {}", host, claim);
                prop_assert!(!model.cools(&claim, host, now));
                continue;
            }
            waiting += 1;
            for host in model.hosts.keys() {
                prop_assert!(!model.fits(&claim, host, after, now), "{} waits while {} fits", claim, host);
            }
        }
        prop_assert_eq!(self.yard.waiting(), waiting);
        for (claim, host) in after.iter().filter(|(claim, host)| before.get(*claim) != Some(*host)) {
            let tenant = claim.namespace().unwrap();
            for quota in model.quotas.values().filter(|quota| quota.tenants.contains(&tenant)) {
                let covered = quota.pool.is_none() || quota.pool == model.hosts[host].pool;
                prop_assert!(
                    !covered || model.quota_used(quota, tenant, after) <= quota.hard,
                    "{} passed {:?}",
                    claim,
                    quota
                );
            }
        }
        for tenant in TENANTS {
            let held = model.count(after, |holder, _, _| holder == tenant);
            prop_assert_eq!(self.yard.holdings().get(tenant).copied().unwrap_or(0), held, "{} holds", tenant);
        }
        for (name, quota) in &model.quotas {
            let covers = |host: &Host| quota.pool.is_none() || quota.pool == host.pool;
            let used = model.count(after, |holder, _, host| quota.tenants.contains(&holder) && covers(host));
            prop_assert_eq!(self.yard.quota_use(name).unwrap().hosts, used, "{}", name);
        }
        for (key, policy) in &model.policies {
            let covers = |host: &Host| policy.pool.is_none() || policy.pool == host.pool;
            let used = model.count(after, |holder, at, host| {
                policy.tenants.contains(&holder) && at.namespace() == key.namespace() && covers(host)
            });
            prop_assert_eq!(self.yard.policy_use(key).unwrap().hosts, used, "{}", key);
        }
        for claim in CLAIMS.iter().map(|claim| key(claim)) {
            let held = model.hosts.iter().filter(|(_, host)| host.user == Some(User::Claim(claim.clone())));
            let held: Vec<ObjectKey> = held.map(|(key, _)| key.clone()).collect();
            prop_assert_eq!(self.yard.held(claim.namespace().unwrap(), claim.name()), held);
        }
        Ok(())
    }
}

fn settings() -> impl Strategy<Value = Settings> {
    (any::<bool>(), any::<bool>(), any::<bool>()).prop_map(|(same, allow, by_name)| Settings {
        admit_same_namespace: same,
        default_admission: if allow { DefaultAdmission::Allow } else { DefaultAdmission::Deny },
        host_order: if by_name { HostOrder::Name } else { HostOrder::Spread },
        ..Settings::default()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn any_order_of_events_leaves_nobody_waiting_for_a_host_that_fits(
        settings in settings(),
        ops in prop::collection::vec(op(), 1..60),
    ) {
        let mut world = World::new(settings);
        for op in &ops {
            world.step(op)?;
        }
        world.step(&Op::Open)?;
        world.step(&Op::Pass(300))?;
    }

    #[test]
    fn equal_events_give_equal_choices(settings in settings(), ops in prop::collection::vec(op(), 1..40)) {
        let (mut one, mut two) = (World::new(settings), World::new(settings));
        for op in &ops {
            one.step(op)?;
            two.step(op)?;
            prop_assert_eq!(one.promises(), two.promises());
        }
    }
}
