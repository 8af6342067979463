//! Quotas: how many machines a tenant may hold, whatever kind they are of.
//!
//! [`Quota`] is one HostClaimQuota, ready to be asked. A controller whose machines are not counted elsewhere keeps an
//! [`Allowance`]: it takes room for a claim before anything is made, so that two claims of its kind never pass a last unit
//! together, and it is told what claims of other kinds [hold](crate::held), and at the [table](crate::table) what they are
//! about to.

use std::collections::BTreeMap;
use std::fmt;

use api::own::HostClaimQuotaSpec;
use api::selector::{Labels, Selector, SelectorFault};

use crate::held::Held;

/// Labels as they are kept.
type Texts = BTreeMap<Box<str>, Box<str>>;

/// A quota, ready to be asked.
#[derive(Clone, Debug)]
pub struct Quota {
    spec: HostClaimQuotaSpec,
    tenants: Option<Selector>,
    covers: Selector,
    fault: Option<Box<str>>,
}

impl Quota {
    /// Reads a quota. What cannot be read of it lifts no limit: it still binds the tenants that it names, and a selector
    /// of machines that cannot be read covers them all.
    #[must_use]
    pub fn new(spec: HostClaimQuotaSpec, problem: Option<Box<str>>) -> Self {
        let read = |path: &str, selector| {
            Selector::of_labels(selector).map_err(|faults: Vec<SelectorFault>| {
                let faults: Vec<String> = faults.iter().map(|fault| format!("spec.{path}.{fault}")).collect();
                Box::<str>::from(faults.join("; "))
            })
        };
        let tenants =
            spec.tenants.namespace_selector.as_ref().map(|s| read("tenants.namespaceSelector", s)).transpose();
        let covers = spec.host_selector.as_ref().map(|s| read("hostSelector", s)).transpose();
        let (tenants, mistaken) = tenants.map_or_else(|fault| (None, Some(fault)), |tenants| (tenants, None));
        let (covers, overdone) = covers.map_or_else(|fault| (None, Some(fault)), |covers| (covers, None));
        let fault = problem.or(mistaken).or(overdone);
        Self { spec, tenants, covers: covers.unwrap_or_default(), fault }
    }

    /// What its administrator wrote.
    #[must_use]
    pub fn spec(&self) -> &HostClaimQuotaSpec {
        &self.spec
    }

    /// Why it binds others, or more of what they hold, than it says.
    #[must_use]
    pub fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    /// Whether it binds a tenant, whose namespace has these labels. A namespace that is not known yet may have any: who
    /// is bound by all that could be meant is never given too much.
    #[must_use]
    pub fn binds(&self, tenant: &str, labels: Option<&impl Labels>) -> bool {
        let named = self.spec.tenants.names.iter().any(|name| name == tenant);
        let selected = self.tenants.as_ref().is_some_and(|selector| labels.is_none_or(|labels| selector.fits(labels)));
        named || selected
    }

    /// Whether a machine with these labels counts. What stands in no namespace of hosts is in none that could be listed.
    #[must_use]
    pub fn covers(&self, namespace: Option<&str>, labels: &impl Labels) -> bool {
        let listed = &self.spec.infra_namespaces;
        (listed.is_empty() || namespace.is_some_and(|namespace| listed.iter().any(|name| name == namespace)))
            && self.covers.fits(labels)
    }

    /// The most machines that may be held.
    #[must_use]
    pub fn hard(&self) -> u32 {
        u32::try_from(self.spec.hard.hosts).unwrap_or(0)
    }
}

/// A quota that leaves no room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Full {
    /// Its name.
    pub name: Box<str>,
    /// How much is held.
    pub used: u32,
    /// How much may be held.
    pub hard: u32,
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "uses {} of {} hosts of quota {}", self.used, self.hard, self.name)
    }
}

/// What one claim holds, or is about to.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Holding {
    tenant: Box<str>,
    /// The namespace of the machine, for a host.
    place: Option<Box<str>>,
    labels: Texts,
    /// Whether it is of another kind.
    elsewhere: bool,
}

/// Who of the claims of one kind holds a machine, or is about to, what claims of other kinds hold, and what the quotas say
/// to one more.
#[derive(Clone, Debug, Default)]
pub struct Allowance {
    quotas: BTreeMap<Box<str>, Quota>,
    spaces: BTreeMap<Box<str>, Texts>,
    held: BTreeMap<Box<str>, Holding>,
}

impl Allowance {
    /// A quota was made, changed or deleted.
    pub fn quota(&mut self, name: &str, quota: Option<Quota>) {
        match quota {
            Some(quota) => drop(self.quotas.insert(name.into(), quota)),
            None => drop(self.quotas.remove(name)),
        }
    }

    /// The labels of a tenant's namespace are these, or it is gone.
    pub fn space(&mut self, tenant: &str, labels: Option<Texts>) {
        match labels {
            Some(labels) => drop(self.spaces.insert(tenant.into(), labels)),
            None => drop(self.spaces.remove(tenant)),
        }
    }

    /// A claim, by its uid, has a machine with these labels: what is there counts, whatever the quotas say.
    pub fn hold(&mut self, claim: &str, tenant: &str, labels: Texts) {
        let holding = Holding { tenant: tenant.into(), place: None, labels, elsewhere: false };
        self.held.insert(claim.into(), holding);
    }

    /// A claim of another kind has a machine, or is about to.
    pub fn hold_elsewhere(&mut self, tenant: &str, held: &Held) {
        let holding =
            Holding { tenant: tenant.into(), place: held.place.clone(), labels: held.labels.clone(), elsewhere: true };
        self.held.insert(held.uid.clone(), holding);
    }

    /// Claims of other kinds, each with its tenant, hold this and nothing else.
    pub fn elsewhere<'h>(&mut self, all: impl Iterator<Item = (&'h str, &'h Held)>) {
        self.held.retain(|_, holding| !holding.elsewhere);
        for (tenant, held) in all {
            self.hold_elsewhere(tenant, held);
        }
    }

    /// Takes room for a machine with these labels before it is made; a claim that has it keeps it.
    ///
    /// # Errors
    /// The first quota that leaves none.
    pub fn take(&mut self, claim: &str, tenant: &str, labels: Texts) -> Result<(), Full> {
        let space = self.spaces.get(tenant);
        for (name, quota) in &self.quotas {
            if !quota.binds(tenant, space) || !quota.covers(None, &labels) {
                continue;
            }
            let counts = |uid: &str, holding: &Holding| {
                let pot = if quota.spec().shared {
                    quota.binds(&holding.tenant, self.spaces.get(&*holding.tenant))
                } else {
                    *holding.tenant == *tenant
                };
                uid != claim && pot && quota.covers(holding.place.as_deref(), &holding.labels)
            };
            let used = u32::try_from(self.held.iter().filter(|(uid, holding)| counts(uid, holding)).count())
                .unwrap_or(u32::MAX);
            if used >= quota.hard() {
                return Err(Full { name: name.clone(), used, hard: quota.hard() });
            }
        }
        self.hold(claim, tenant, labels);
        Ok(())
    }

    /// A claim holds nothing any more; says whether it held something.
    pub fn give_back(&mut self, claim: &str) -> bool {
        self.held.remove(claim).is_some()
    }

    /// Whether a claim holds something.
    #[must_use]
    pub fn holds(&self, claim: &str) -> bool {
        self.held.contains_key(claim)
    }

    /// The priority that a tenant's claim has when it asks for this one.
    #[must_use]
    pub fn priority(&self, tenant: &str, asked: i32) -> i32 {
        let space = self.spaces.get(tenant);
        let bounds = self.quotas.values().filter(|quota| quota.binds(tenant, space));
        bounds.filter_map(|quota| quota.spec().max_priority).min().map_or(asked, |bound| asked.min(bound))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn quota(spec: Value) -> Quota {
        Quota::new(serde_json::from_value(spec).unwrap(), None)
    }

    fn texts(all: &[(&str, &str)]) -> Texts {
        all.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()
    }

    #[test]
    fn the_last_unit_is_taken_once() {
        let mut allowance = Allowance::default();
        allowance.quota("gold", Some(quota(json!({"tenants": {"names": ["red"]}, "hard": {"hosts": 1}}))));
        assert_eq!(allowance.take("one", "red", Texts::new()), Ok(()));
        assert_eq!(allowance.take("one", "red", Texts::new()), Ok(()), "who has it keeps it");
        let full = allowance.take("two", "red", Texts::new()).unwrap_err();
        assert_eq!(full.to_string(), "uses 1 of 1 hosts of quota gold");
        assert_eq!(allowance.take("other", "blue", Texts::new()), Ok(()), "it binds red alone");
        allowance.give_back("one");
        assert_eq!(allowance.take("two", "red", Texts::new()), Ok(()));
        // What is there counts, even beyond the limit.
        allowance.hold("three", "red", Texts::new());
        assert_eq!(allowance.take("four", "red", Texts::new()).unwrap_err().used, 2);
        allowance.quota("gold", None);
        assert_eq!(allowance.take("four", "red", Texts::new()), Ok(()));
    }

    #[test]
    fn a_shared_pot_counts_everybody_it_binds_and_each_of_many_quotas_must_allow() {
        let mut allowance = Allowance::default();
        for tenant in ["red", "blue"] {
            allowance.space(tenant, Some(texts(&[("tier", "gold")])));
        }
        let selector = json!({"namespaceSelector": {"matchLabels": {"tier": "gold"}}});
        allowance.quota("pot", Some(quota(json!({"tenants": selector, "hard": {"hosts": 2}, "shared": true}))));
        let fast = json!({"tenants": {"names": ["red"]}, "hard": {"hosts": 1}, "maxPriority": 5,
            "hostSelector": {"matchLabels": {"size": "large"}}});
        allowance.quota("fast", Some(quota(fast)));
        assert_eq!(allowance.take("a", "red", texts(&[("size", "large")])), Ok(()));
        assert_eq!(&*allowance.take("b", "red", texts(&[("size", "large")])).unwrap_err().name, "fast");
        assert_eq!(allowance.take("b", "red", Texts::new()), Ok(()), "a small one does not count there");
        assert_eq!(&*allowance.take("c", "blue", Texts::new()).unwrap_err().name, "pot");
        allowance.space("blue", None);
        assert!(allowance.take("c", "blue", Texts::new()).is_err(), "nobody knows its labels, so any may be there");
        allowance.space("blue", Some(Texts::new()));
        assert_eq!(allowance.take("c", "blue", Texts::new()), Ok(()), "no longer bound");
        assert_eq!((allowance.priority("red", 9), allowance.priority("blue", 9)), (5, 9));
    }

    #[test]
    fn machines_of_every_kind_count_where_the_quota_means_them() {
        let mut allowance = Allowance::default();
        allowance.quota("all", Some(quota(json!({"tenants": {"names": ["red"]}, "hard": {"hosts": 2}}))));
        let metal = json!({"tenants": {"names": ["red"]}, "hard": {"hosts": 0}, "infraNamespaces": ["metal"]});
        allowance.quota("metal", Some(quota(metal)));
        let held = |uid: &str, place: Option<&str>| Held {
            uid: uid.into(),
            kind: "baremetal".into(),
            place: place.map(Into::into),
            labels: Texts::new(),
        };
        allowance.hold_elsewhere("red", &held("host", Some("metal")));
        allowance.hold_elsewhere("blue", &held("other", Some("metal")));
        assert_eq!(allowance.take("one", "red", Texts::new()), Ok(()), "what stands in no namespace is in none listed");
        let full = allowance.take("two", "red", Texts::new()).unwrap_err();
        assert_eq!(full.to_string(), "uses 2 of 2 hosts of quota all");
        allowance.elsewhere(std::iter::empty());
        assert_eq!(allowance.take("two", "red", Texts::new()), Ok(()), "its own are still there, the host is not");
        let again = held("host", Some("metal"));
        allowance.elsewhere([("red", &again)].into_iter());
        assert_eq!(allowance.take("three", "red", Texts::new()).unwrap_err().used, 3, "nobody loses one");
        allowance.give_back("host");
        allowance.give_back("one");
        assert_eq!(allowance.take("three", "red", Texts::new()), Ok(()));
    }

    #[test]
    fn a_quota_that_cannot_be_read_still_binds_whom_it_names() {
        let broken = json!({"tenants": {"names": ["red"]}, "hard": {"hosts": 0},
            "hostSelector": {"matchLabels": {"a b": "c"}}});
        let broken = quota(broken);
        assert!(broken.fault().is_some_and(|fault| fault.contains("spec.hostSelector")), "{:?}", broken.fault());
        assert!(broken.binds("red", None::<&Texts>) && !broken.binds("blue", None::<&Texts>));
        assert!(broken.covers(None, &Texts::new()) && broken.hard() == 0, "all machines, and its own limit");
        let selector = json!({"names": ["red"], "namespaceSelector": {"matchLabels": {"a b": "c"}}});
        let broken = quota(json!({"tenants": selector, "hard": {"hosts": 1},
            "hostSelector": {"matchLabels": {"size": "large"}}}));
        assert!(
            broken.fault().is_some() && broken.binds("red", None::<&Texts>) && !broken.binds("blue", None::<&Texts>)
        );
        assert!(!broken.covers(None, &Texts::new()), "what can be read holds");
        let elsewhere =
            quota(json!({"tenants": {"names": ["red"]}, "hard": {"hosts": 0}, "infraNamespaces": ["metal"]}));
        assert!(elsewhere.covers(Some("metal"), &Texts::new()) && !elsewhere.covers(None, &Texts::new()));
    }
}
