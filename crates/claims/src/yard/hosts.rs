//! The hosts: who uses them, which are free, and how to find a free one quickly.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::iter::Peekable;
use std::sync::Arc;

use api::key::ObjectKey;
use api::names::claims::{FAILURE_DOMAIN_LABEL, NODE_REUSE_LABEL, REUSE_UNTIL_ANNOTATION};
use api::views::CLUSTER_API_GROUP;
use jiff::Timestamp;

use super::HostOrder;
use super::fit::{Unfit, ailment};
use crate::facts::{Consumer, HardwareFacts, HostFacts};
use crate::labels::{HostLabels, Selector, Test, is_derived};
use crate::names::spread;

/// The place of a host in every list of hosts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) at: u64,
    pub(super) key: Arc<ObjectKey>,
}

impl Place {
    /// The first place at or after a point of the circle.
    fn from(at: u64) -> Self {
        Self { at, key: Arc::new(ObjectKey::cluster_scoped("")) }
    }
}

pub(super) type Places = BTreeSet<Place>;

/// One host.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) facts: Arc<HostFacts>,
    pub(super) hardware: Option<Arc<HardwareFacts>>,
    pub(super) place: Place,
    /// What keeps it from anybody.
    pub(super) ailment: Option<Unfit>,
    /// The claim it is promised to, until its own facts show that.
    pub(super) assumed: Option<Arc<ObjectKey>>,
}

/// A host as it is judged: as last seen, or as a live read shows it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen<'a> {
    pub(super) key: &'a ObjectKey,
    pub(super) facts: &'a HostFacts,
    pub(super) hardware: Option<&'a HardwareFacts>,
    pub(super) ailment: Option<Unfit>,
    pub(super) assumed: Option<&'a ObjectKey>,
}

impl<'a> Seen<'a> {
    pub(super) fn labels(&self) -> HostLabels<'a> {
        HostLabels {
            name: self.key.name(),
            labels: &self.facts.labels,
            hardware: self.hardware.map(HardwareFacts::figures),
        }
    }

    pub(super) fn namespace(&self) -> &'a str {
        self.key.namespace().unwrap_or_default()
    }

    /// The reuse group it is kept for.
    pub(super) fn group(&self) -> Option<&'a str> {
        self.facts.label(NODE_REUSE_LABEL)
    }

    /// Its failure domain.
    pub(super) fn domain(&self) -> Option<&'a str> {
        self.facts.label(FAILURE_DOMAIN_LABEL)
    }
}

impl Host {
    pub(super) fn seen(&self) -> Seen<'_> {
        Seen {
            key: &self.place.key,
            facts: &self.facts,
            hardware: self.hardware.as_deref(),
            ailment: self.ailment,
            assumed: self.assumed.as_deref(),
        }
    }

    /// The tenant that holds it.
    pub(super) fn tenant(&self) -> Option<&str> {
        tenant(&self.facts, self.assumed.as_deref())
    }

    fn shelf(&self) -> Shelf {
        let taken = self.facts.consumer.is_some() && !is_reservation(&self.facts);
        if taken || self.ailment.is_some() || self.assumed.is_some() {
            return Shelf::Away;
        }
        match self.facts.label(NODE_REUSE_LABEL) {
            Some(group) => Shelf::Kept(group.into()),
            None => Shelf::Free,
        }
    }
}

/// Where a host can be found by those who look for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shelf {
    /// Nowhere.
    Away,
    /// Among those anybody may have.
    Free,
    /// Among those kept for a reuse group.
    Kept(Box<str>),
}

/// The tenant that holds a host: by a claim, by a reservation, or by a promise.
pub(super) fn tenant<'a>(host: &'a HostFacts, promised: Option<&'a ObjectKey>) -> Option<&'a str> {
    match &host.consumer {
        Some(consumer) if consumer.claim().is_some() => Some(&consumer.namespace),
        Some(consumer) if is_reservation(host) => reserving_tenant(consumer),
        Some(_) => None,
        None => promised.and_then(ObjectKey::namespace),
    }
}

/// Whether the consumer of a host only keeps it for reuse.
pub(super) fn is_reservation(host: &HostFacts) -> bool {
    crate::wish::is_reserved(host)
}

fn reserving_tenant(consumer: &Consumer) -> Option<&str> {
    match (&*consumer.group, &*consumer.kind) {
        (CLUSTER_API_GROUP, "Cluster") => Some(&consumer.namespace),
        ("", "Namespace") => Some(&consumer.name),
        _ => None,
    }
}

/// The end of a reservation; none when it has none that can be read.
pub(super) fn reserved_until(host: &HostFacts) -> Option<Timestamp> {
    host.annotation(REUSE_UNTIL_ANNOTATION)?.parse().ok()
}

/// Free hosts that carry a label, and those with each value of it.
#[derive(Debug, Default)]
struct Posting {
    all: Places,
    values: BTreeMap<Box<str>, Places>,
}

/// The free hosts of one namespace.
#[derive(Debug, Default)]
struct Shelves {
    free: Places,
    postings: BTreeMap<Box<str>, Posting>,
}

/// All hosts.
#[derive(Debug)]
pub(super) struct Hosts {
    order: HostOrder,
    by_key: HashMap<ObjectKey, Host>,
    /// HardwareData, which may come before its host.
    hardware: HashMap<ObjectKey, Arc<HardwareFacts>>,
    /// Every host of each namespace.
    namespaces: BTreeMap<Box<str>, BTreeSet<Arc<ObjectKey>>>,
    shelves: BTreeMap<Box<str>, Shelves>,
    /// Free hosts kept for each reuse group.
    kept: BTreeMap<Box<str>, Places>,
    /// Every host that carries the label of a reuse group.
    groups: BTreeMap<Box<str>, BTreeSet<Arc<ObjectKey>>>,
    /// Hosts by the claim that uses them.
    consumers: BTreeMap<ObjectKey, BTreeSet<Arc<ObjectKey>>>,
}

impl Hosts {
    pub(super) fn new(order: HostOrder) -> Self {
        Self {
            order,
            by_key: HashMap::new(),
            hardware: HashMap::new(),
            namespaces: BTreeMap::new(),
            shelves: BTreeMap::new(),
            kept: BTreeMap::new(),
            groups: BTreeMap::new(),
            consumers: BTreeMap::new(),
        }
    }

    pub(super) fn get(&self, key: &ObjectKey) -> Option<&Host> {
        self.by_key.get(key)
    }

    /// The hardware of a host: what its HardwareData says, else what its own facts say.
    pub(super) fn hardware<'a>(&'a self, key: &ObjectKey, facts: &'a HostFacts) -> Option<&'a Arc<HardwareFacts>> {
        self.hardware.get(key).or(facts.hardware.as_ref())
    }

    pub(super) fn set_hardware(&mut self, key: &ObjectKey, hardware: Option<Arc<HardwareFacts>>) {
        match hardware {
            Some(hardware) => self.hardware.insert(key.clone(), hardware),
            None => self.hardware.remove(key),
        };
    }

    /// The keys of all hosts of a namespace, in order.
    pub(super) fn of_namespace(&self, namespace: &str) -> impl Iterator<Item = &Host> {
        self.namespaces.get(namespace).into_iter().flatten().filter_map(|key| self.by_key.get(&**key))
    }

    /// The namespaces that have hosts.
    pub(super) fn namespaces(&self) -> impl Iterator<Item = &str> {
        self.namespaces.keys().map(|name| &**name)
    }

    pub(super) fn has_namespace(&self, namespace: &str) -> bool {
        self.namespaces.contains_key(namespace)
    }

    /// Free hosts in each namespace, those kept for reuse not counted.
    pub(super) fn free(&self) -> impl Iterator<Item = (&str, usize)> {
        self.shelves.iter().map(|(namespace, shelves)| (&**namespace, shelves.free.len()))
    }

    /// The hosts whose consumer is this claim.
    pub(super) fn of_claim(&self, claim: &ObjectKey) -> impl Iterator<Item = &Host> {
        self.consumers.get(claim).into_iter().flatten().filter_map(|key| self.by_key.get(&**key))
    }

    /// The hosts that carry the label of a reuse group.
    pub(super) fn of_group(&self, group: &str) -> impl Iterator<Item = &Host> {
        self.groups.get(group).into_iter().flatten().filter_map(|key| self.by_key.get(&**key))
    }

    /// The hosts that somebody holds, each with the tenant.
    pub(super) fn held(&self) -> impl Iterator<Item = (&str, Seen<'_>)> {
        let hosts = self.namespaces.values().flatten().filter_map(|key| self.by_key.get(&**key));
        hosts.filter_map(|host| Some((host.tenant()?, host.seen())))
    }

    /// Puts a host in, or in place of what was known of it.
    pub(super) fn put(&mut self, key: &ObjectKey, facts: Arc<HostFacts>, assumed: Option<Arc<ObjectKey>>) {
        let known = self.take(key);
        let place = match known {
            Some(host) if host.facts.uid == facts.uid => host.place,
            _ => {
                let at = match self.order {
                    HostOrder::Spread => spread(&facts.uid),
                    HostOrder::Name => 0,
                };
                Place { at, key: Arc::new(key.clone()) }
            }
        };
        let hardware = self.hardware(key, &facts).cloned();
        let host = Host { ailment: ailment(&facts), facts, hardware, place, assumed };
        let arc = Arc::clone(&host.place.key);
        let namespace = key.namespace().unwrap_or_default();
        self.namespaces.entry(namespace.into()).or_default().insert(Arc::clone(&arc));
        if let Some(group) = host.seen().group() {
            self.groups.entry(group.into()).or_default().insert(Arc::clone(&arc));
        }
        if let Some(claim) = host.facts.consumer.as_ref().and_then(Consumer::claim) {
            self.consumers.entry(claim).or_default().insert(arc);
        }
        self.shelve(&host);
        self.by_key.insert(key.clone(), host);
    }

    /// Takes a host out of every list.
    pub(super) fn take(&mut self, key: &ObjectKey) -> Option<Host> {
        let host = self.by_key.remove(key)?;
        self.unshelve(&host);
        let namespace = key.namespace().unwrap_or_default();
        leave(&mut self.namespaces, namespace, &host.place.key);
        if let Some(group) = host.seen().group() {
            leave(&mut self.groups, group, &host.place.key);
        }
        if let Some(claim) = host.facts.consumer.as_ref().and_then(Consumer::claim)
            && let Some(hosts) = self.consumers.get_mut(&claim)
        {
            hosts.remove(&host.place.key);
            if hosts.is_empty() {
                self.consumers.remove(&claim);
            }
        }
        Some(host)
    }

    /// Promises a host to a claim, or to nobody.
    pub(super) fn assume(&mut self, key: &ObjectKey, claim: Option<Arc<ObjectKey>>) {
        let Some(mut host) = self.by_key.remove(key) else { return };
        self.unshelve(&host);
        host.assumed = claim;
        self.shelve(&host);
        self.by_key.insert(key.clone(), host);
    }

    /// Where a host can be found.
    pub(super) fn shelf(&self, key: &ObjectKey) -> Shelf {
        self.by_key.get(key).map_or(Shelf::Away, Host::shelf)
    }

    fn shelve(&mut self, host: &Host) {
        match host.shelf() {
            Shelf::Away => {}
            Shelf::Kept(group) => {
                self.kept.entry(group).or_default().insert(host.place.clone());
            }
            Shelf::Free => {
                let shelves = self.shelves.entry(host.seen().namespace().into()).or_default();
                shelves.free.insert(host.place.clone());
                each_label(host, |key, value| {
                    let posting = shelves.postings.entry(key.into()).or_default();
                    posting.all.insert(host.place.clone());
                    posting.values.entry(value.into()).or_default().insert(host.place.clone());
                });
            }
        }
    }

    fn unshelve(&mut self, host: &Host) {
        match host.shelf() {
            Shelf::Away => {}
            Shelf::Kept(group) => leave(&mut self.kept, &group, &host.place),
            Shelf::Free => {
                let namespace = host.seen().namespace();
                let Some(shelves) = self.shelves.get_mut(namespace) else { return };
                shelves.free.remove(&host.place);
                each_label(host, |key, value| {
                    if let Some(posting) = shelves.postings.get_mut(key) {
                        posting.all.remove(&host.place);
                        leave(&mut posting.values, value, &host.place);
                        if posting.all.is_empty() {
                            shelves.postings.remove(key);
                        }
                    }
                });
                if shelves.free.is_empty() {
                    self.shelves.remove(namespace);
                }
            }
        }
    }

    /// The free hosts kept for a group, from a point of the circle on.
    pub(super) fn kept_from(&self, group: &str, start: u64) -> Walk<'_> {
        Walk::new(self.start(start), self.kept.get(group).into_iter())
    }

    /// Free hosts of these namespaces among which are all that fit the selector and the failure domain, from a point of
    /// the circle on. The shortest list that holds them all is walked, so that few are looked at in vain.
    pub(super) fn free_from<'a>(
        &'a self,
        namespaces: impl Iterator<Item = &'a str>,
        selector: &Selector,
        domain: Option<&str>,
        start: u64,
    ) -> Walk<'a> {
        let shelves = namespaces.filter_map(|namespace| self.shelves.get(namespace));
        Walk::new(self.start(start), shelves.flat_map(|shelves| shelves.shortest(selector, domain)))
    }

    fn start(&self, start: u64) -> u64 {
        match self.order {
            HostOrder::Spread => start,
            HostOrder::Name => 0,
        }
    }
}

impl Shelves {
    fn shortest(&self, selector: &Selector, domain: Option<&str>) -> Vec<&Places> {
        let value = |key: &str, value: &str| self.postings.get(key).and_then(|posting| posting.values.get(value));
        let domain = domain.map(|domain| value(FAILURE_DOMAIN_LABEL, domain).into_iter().collect());
        let terms = selector.terms().iter().filter_map(|term| match &term.test {
            Test::OneOf(values) => Some(values.iter().filter_map(|text| value(&term.key, text)).collect()),
            Test::Exists | Test::Above(_) | Test::Below(_) => {
                Some(self.postings.get(&term.key).map(|posting| &posting.all).into_iter().collect())
            }
            Test::NoneOf(_) | Test::Absent => None,
        });
        let lists = std::iter::once(vec![&self.free]).chain(domain).chain(terms);
        lists.min_by_key(|lists: &Vec<&Places>| lists.iter().map(|list| list.len()).sum::<usize>()).unwrap_or_default()
    }
}

/// Calls `each` for every label by which a host can be found.
fn each_label(host: &Host, mut each: impl FnMut(&str, &str)) {
    let labels = host.seen().labels();
    for (key, value) in labels.labels.iter().filter(|(key, _)| !is_derived(key)) {
        each(key, value);
    }
    for (key, value) in labels.derived() {
        each(key, &value);
    }
}

/// Takes a member out of a set in a map of sets that are never empty.
fn leave<K, M>(map: &mut BTreeMap<Box<str>, BTreeSet<M>>, key: &K, member: &M)
where
    K: Ord + ?Sized,
    Box<str>: std::borrow::Borrow<K>,
    M: Ord,
{
    if let Some(set) = map.get_mut(key) {
        set.remove(member);
        if set.is_empty() {
            map.remove(key);
        }
    }
}

type Circle<'a> = Peekable<Box<dyn Iterator<Item = &'a Place> + 'a>>;

/// Several ordered lists walked as one, once around the circle.
pub(super) struct Walk<'a> {
    start: u64,
    lists: Vec<Circle<'a>>,
}

impl<'a> Walk<'a> {
    fn new(start: u64, lists: impl Iterator<Item = &'a Places>) -> Self {
        let from = Place::from(start);
        let circle = |list: &'a Places| -> Circle<'a> {
            let around: Box<dyn Iterator<Item = &'a Place> + 'a> =
                Box::new(list.range(from.clone()..).chain(list.range(..from.clone())));
            around.peekable()
        };
        Self { start, lists: lists.map(circle).collect() }
    }
}

impl<'a> Iterator for Walk<'a> {
    type Item = &'a Place;

    fn next(&mut self) -> Option<&'a Place> {
        let start = self.start;
        let heads = self.lists.iter_mut().enumerate();
        let heads = heads.filter_map(|(number, list)| list.peek().map(|place| (number, *place)));
        let (first, _) = heads
            .min_by(|(_, a), (_, b)| (a.at.wrapping_sub(start), &a.key).cmp(&(b.at.wrapping_sub(start), &b.key)))?;
        self.lists.get_mut(first)?.next()
    }
}
