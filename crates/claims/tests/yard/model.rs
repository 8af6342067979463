//! The same rules once more, the simple way: everything is looked at, every time.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use api::key::ObjectKey;
use aws_lc_rs::digest::{SHA256, digest};
use claims::facts::{HostFacts, KeptClaim, PolicyFacts, QuotaFacts};
use claims::names::{avoid_annotation, reuse_value};
use claims::yard::{DefaultAdmission, HostOrder, Settings};
use serde_json::json;

use super::build::{at, claim, consumer, host, merge, object_claim, policy, quota};

/// Who uses a host.
#[derive(Clone, Debug, PartialEq)]
pub enum User {
    Claim(ObjectKey),
    Other,
    /// Kept for the reuse group of this tenant.
    Reservation,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Host {
    pub pool: Option<&'static str>,
    pub domain: Option<&'static str>,
    pub available: bool,
    pub deleting: bool,
    pub user: Option<User>,
    /// The tenant for whose group it is kept, and until when.
    pub kept: Option<(&'static str, i64)>,
    pub avoid: Option<(&'static str, i64)>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    pub created: i64,
    pub priority: i32,
    pub pool: Option<&'static str>,
    /// Negates the choice of the pool.
    pub other_pool: bool,
    pub in_namespace: Option<&'static str>,
    pub domain: Option<&'static str>,
    pub required: bool,
    pub reuse: bool,
    pub paused: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    pub tenants: Vec<&'static str>,
    pub pool: Option<&'static str>,
    pub max: Option<u32>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Quota {
    pub tenants: Vec<&'static str>,
    pub pool: Option<&'static str>,
    pub hard: u32,
    pub shared: bool,
    pub max_priority: Option<i32>,
}

pub type Promises = BTreeMap<ObjectKey, ObjectKey>;

#[derive(Clone, Debug, Default)]
pub struct Model {
    pub settings: Settings,
    pub hosts: BTreeMap<ObjectKey, Host>,
    pub claims: BTreeMap<ObjectKey, Claim>,
    pub policies: BTreeMap<ObjectKey, Policy>,
    pub quotas: BTreeMap<String, Quota>,
    pub cool: BTreeMap<(ObjectKey, ObjectKey), i64>,
}

fn space(key: &ObjectKey) -> &str {
    key.namespace().unwrap()
}

impl Host {
    pub fn facts(&self, key: &ObjectKey) -> Arc<HostFacts> {
        let mut changes = json!({"metadata": {"labels": {}, "annotations": {}}, "spec": {}, "status": {}});
        let mut label = |key: &str, value: &str| merge(&mut changes, json!({"metadata": {"labels": {key: value}}}));
        if let Some(pool) = self.pool {
            label("pool", pool);
        }
        if let Some(domain) = self.domain {
            label("infrastructure.cluster.x-k8s.io/failure-domain", domain);
        }
        if let Some((tenant, until)) = self.kept {
            label("infrastructure.cluster.x-k8s.io/node-reuse", &reuse_value(tenant, "g"));
            merge(&mut changes, json!({"metadata": {"annotations": {"berth.dev/reuse-until": at(until).to_string()}}}));
        }
        if let Some((tenant, until)) = self.avoid {
            let mark = json!({avoid_annotation(tenant): at(until).to_string()});
            merge(&mut changes, json!({"metadata": {"annotations": mark}}));
        }
        if self.deleting {
            merge(&mut changes, json!({"metadata": {"deletionTimestamp": at(0).to_string()}}));
        }
        if !self.available {
            merge(&mut changes, json!({"status": {"provisioning": {"state": "inspecting"}}}));
        }
        let reference = match (&self.user, self.kept) {
            (Some(User::Claim(claim)), _) => Some(consumer(&claim.to_string())),
            (Some(User::Reservation), Some((tenant, _))) => {
                Some(json!({"apiVersion": "v1", "kind": "Namespace", "name": tenant}))
            }
            (Some(_), _) => Some(json!({"apiVersion": "x.org/v1", "kind": "Machine", "namespace": "n", "name": "m"})),
            (None, _) => None,
        };
        if let Some(reference) = reference {
            merge(&mut changes, json!({"spec": {"consumerRef": reference}}));
        }
        host(key.name(), changes)
    }

    /// Whether somebody uses it who is more than a reservation.
    fn taken(&self) -> bool {
        match &self.user {
            None => false,
            Some(User::Reservation) => self.kept.is_none(),
            Some(_) => true,
        }
    }
}

impl Claim {
    pub fn facts(&self, key: &ObjectKey) -> Arc<KeptClaim> {
        let mut spec = json!({"priority": self.priority, "hostSelector": {}});
        if let Some(pool) = self.pool {
            let operator = if self.other_pool { "!=" } else { "=" };
            let term = json!({"key": "pool", "operator": operator, "values": [pool]});
            merge(&mut spec, json!({"hostSelector": {"matchExpressions": [term]}}));
        }
        if let Some(namespace) = self.in_namespace {
            merge(&mut spec, json!({"hostSelector": {"inNamespace": namespace}}));
        }
        if let Some(domain) = self.domain {
            let mode = if self.required { "Required" } else { "Preferred" };
            merge(&mut spec, json!({"failureDomain": domain, "failureDomainMode": mode}));
        }
        if self.reuse {
            merge(&mut spec, json!({"nodeReuse": "g"}));
        }
        if self.paused {
            let mut changes = json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": ""}}});
            merge(&mut changes, json!({"spec": spec}));
            return object_claim(&key.to_string(), self.created, changes);
        }
        claim(&key.to_string(), self.created, spec)
    }
}

impl Policy {
    pub fn facts(&self) -> Arc<PolicyFacts> {
        let mut spec = json!({"hostClaimNamespaces": {"names": self.tenants}});
        if let Some(pool) = self.pool {
            merge(&mut spec, json!({"hostSelector": {"matchLabels": {"pool": pool}}}));
        }
        if let Some(max) = self.max {
            merge(&mut spec, json!({"maxHosts": max}));
        }
        policy(spec)
    }

    fn covers(&self, host: &Host) -> bool {
        self.pool.is_none() || self.pool == host.pool
    }
}

impl Quota {
    pub fn facts(&self) -> Arc<QuotaFacts> {
        let mut spec = json!({"tenants": {"names": self.tenants}, "hard": {"hosts": self.hard}, "shared": self.shared});
        if let Some(pool) = self.pool {
            merge(&mut spec, json!({"hostSelector": {"matchLabels": {"pool": pool}}}));
        }
        if let Some(most) = self.max_priority {
            merge(&mut spec, json!({"maxPriority": most}));
        }
        quota(spec)
    }

    fn covers(&self, host: &Host) -> bool {
        self.pool.is_none() || self.pool == host.pool
    }
}

fn circle(uid: &str) -> u64 {
    u64::from_be_bytes(digest(&SHA256, uid.as_bytes()).as_ref()[..8].try_into().unwrap())
}

impl Model {
    /// The tenant that holds a host.
    pub fn holder(&self, key: &ObjectKey, promises: &Promises) -> Option<String> {
        let host = self.hosts.get(key)?;
        match (&host.user, host.kept) {
            (Some(User::Claim(claim)), _) => Some(space(claim).to_owned()),
            (Some(User::Reservation), Some((tenant, _))) => Some(tenant.to_owned()),
            (Some(_), _) => None,
            (None, _) => {
                let promised = promises.iter().find(|(_, promised)| *promised == key);
                promised.map(|(claim, _)| space(claim).to_owned())
            }
        }
    }

    pub fn count(&self, promises: &Promises, mut counts: impl FnMut(&str, &ObjectKey, &Host) -> bool) -> u32 {
        let held = self.hosts.iter().filter_map(|(key, host)| Some((self.holder(key, promises)?, key, host)));
        held.filter(|(tenant, key, host)| counts(tenant, key, host)).count() as u32
    }

    pub fn quota_used(&self, quota: &Quota, tenant: &str, promises: &Promises) -> u32 {
        self.count(promises, |holder, _, host| {
            let counts = if quota.shared { quota.tenants.contains(&holder) } else { holder == tenant };
            counts && quota.covers(host)
        })
    }

    pub fn bound(&self, claim: &ObjectKey) -> bool {
        self.hosts.values().any(|host| host.user == Some(User::Claim(claim.clone())))
    }

    pub fn wants(&self, claim: &ObjectKey) -> bool {
        self.claims.get(claim).is_some_and(|facts| !facts.paused) && !self.bound(claim)
    }

    /// Ways into a namespace: whether without a policy, and by which policies.
    fn ways(&self, tenant: &str, namespace: &str) -> (bool, Vec<(&ObjectKey, &Policy)>) {
        let there: Vec<(&ObjectKey, &Policy)> =
            self.policies.iter().filter(|(key, _)| space(key) == namespace).collect();
        let free = (self.settings.admit_same_namespace && tenant == namespace)
            || (there.is_empty() && self.settings.default_admission == DefaultAdmission::Allow);
        (free, there.into_iter().filter(|(_, policy)| policy.tenants.contains(&tenant)).collect())
    }

    /// Filters 1 to 5: the host is one that the claim could have if it were in order.
    fn eligible(&self, claim: &ObjectKey, key: &ObjectKey, promises: &Promises) -> bool {
        let (facts, host, tenant) = (&self.claims[claim], &self.hosts[key], space(claim));
        let (free, policies) = self.ways(tenant, space(key));
        let admitted = free || policies.iter().any(|(_, policy)| policy.covers(host));
        let selected = facts.pool.is_none_or(|pool| (host.pool == Some(pool)) != facts.other_pool);
        let own = facts.reuse && host.kept.is_some_and(|(kept, _)| kept == tenant);
        let unused = !host.taken() && (host.user.is_none() || own);
        let promised = promises.iter().any(|(other, promised)| promised == key && other != claim);
        facts.in_namespace.is_none_or(|only| only == space(key))
            && admitted
            && selected
            && unused
            && !promised
            && (host.kept.is_none() || own)
    }

    /// Filters 1 to 14.
    pub fn suits(&self, claim: &ObjectKey, key: &ObjectKey, promises: &Promises) -> bool {
        let (facts, host) = (&self.claims[claim], &self.hosts[key]);
        let domain = !facts.required || facts.domain.is_none() || facts.domain == host.domain;
        self.eligible(claim, key, promises) && host.available && !host.deleting && domain
    }

    /// Filter 16.
    pub fn cools(&self, claim: &ObjectKey, key: &ObjectKey, now: i64) -> bool {
        let refused = self.cool.get(&(claim.clone(), key.clone())).is_some_and(|until| *until > now);
        let avoid = self.hosts[key].avoid;
        refused || avoid.is_some_and(|(tenant, until)| tenant == space(claim) && until > now)
    }

    /// Filter 15.
    fn has_room(&self, claim: &ObjectKey, key: &ObjectKey, promises: &Promises) -> bool {
        let (host, tenant) = (&self.hosts[key], space(claim));
        let more = u32::from(self.holder(key, promises).as_deref() != Some(tenant));
        let quotas = self.quotas.values().filter(|quota| quota.tenants.contains(&tenant) && quota.covers(host));
        let allowed = quotas.into_iter().all(|quota| self.quota_used(quota, tenant, promises) + more <= quota.hard);
        let (free, policies) = self.ways(tenant, space(key));
        let room = |at: &ObjectKey, policy: &Policy| {
            let held = self.count(promises, |holder, key, host| {
                holder == tenant && space(key) == space(at) && policy.covers(host)
            });
            policy.max.is_none_or(|max| held + more <= max)
        };
        allowed && (free || policies.iter().any(|(at, policy)| policy.covers(host) && room(at, policy)))
    }

    fn waits_for_reuse(&self, claim: &ObjectKey, promises: &Promises, now: i64) -> bool {
        let facts = &self.claims[claim];
        // A claim has no promise of its own while it waits.
        let mut others = promises.clone();
        others.remove(claim);
        facts.reuse
            && self.hosts.iter().any(|(key, host)| {
                let own = host.kept.is_some_and(|(kept, until)| kept == space(claim) && until > now);
                let near = facts.domain.is_none() || !facts.required || facts.domain == host.domain;
                own && !host.deleting && self.eligible(claim, key, &others) && (!host.available || near)
            })
    }

    /// Whether the claim may have the host now.
    pub fn fits(&self, claim: &ObjectKey, key: &ObjectKey, promises: &Promises, now: i64) -> bool {
        let reuse = self.hosts[key].kept.is_some() || !self.waits_for_reuse(claim, promises, now);
        self.suits(claim, key, promises) && self.has_room(claim, key, promises) && !self.cools(claim, key, now) && reuse
    }

    /// The host the claim chooses.
    pub fn choose(&self, claim: &ObjectKey, promises: &Promises, now: i64) -> Option<ObjectKey> {
        let facts = &self.claims[claim];
        let start = circle(&format!("uid-of-{claim}"));
        let mut fitting: Vec<&ObjectKey> =
            self.hosts.keys().filter(|key| self.fits(claim, key, promises, now)).collect();
        fitting.sort_by_key(|key| {
            let host = &self.hosts[*key];
            let tier = match (host.kept, facts.domain) {
                (Some(_), _) => 0,
                (None, Some(domain)) if host.domain == Some(domain) => 1,
                _ => 2,
            };
            let place = circle(&format!("uid-of-{}", key.name())).wrapping_sub(start);
            let place = if self.settings.host_order == HostOrder::Name { 0 } else { place };
            (tier, place, (*key).clone())
        });
        fitting.first().map(|key| (*key).clone())
    }

    /// The place of a claim among all that wait; the lesser goes first.
    pub fn rank(&self, claim: &ObjectKey, promises: &Promises) -> (Reverse<i32>, f64, i64, String) {
        let (facts, tenant) = (&self.claims[claim], space(claim));
        let quotas: Vec<&Quota> = self.quotas.values().filter(|quota| quota.tenants.contains(&tenant)).collect();
        let bound = quotas.iter().filter_map(|quota| quota.max_priority).min().unwrap_or(i32::MAX);
        let part = |quota: &&Quota| {
            let held = self.count(promises, |holder, _, host| holder == tenant && quota.covers(host));
            f64::from(held) / f64::from(quota.hard.max(1))
        };
        let all = f64::from(self.count(promises, |holder, _, _| holder == tenant));
        let share = quotas.iter().map(part).reduce(f64::max).unwrap_or(all);
        (Reverse(facts.priority.min(bound)), share, facts.created, format!("uid-of-{claim}"))
    }
}
