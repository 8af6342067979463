//! Claims ask.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::key::ObjectKey;
use api::meta::Versioned;
use api::names::hosts::INSTANCE_ANNOTATION;
use api::names::{HostId, InstanceId};
use api::own::HostClaimStatus;
use api::raw::HostClaim;
use claim_kind::held::{Held, Holders};
use claim_kind::quota::{Allowance, Full};
use claim_kind::table::{News, Seat, Turn};
use claim_kind::terms::{Catalogue, Listing, Terms};
use kit::conditions::Transition;
use kit::feed::{Feed, Seen, Version};
use kit::kinds::Kind;
use kit::room::{Notice, Report};
use kube::Api;
use kube::api::ListParams;
use serde_json::{Value, json};

use super::facts::{ClaimFacts, Claims, Quotas};
use super::{KIND, kind, status, wish};
use crate::asker::{Around, Asked, Asker, intent};
use crate::decide::{Step, Thought};
use crate::facts::World;
use crate::memory::Shown;
use crate::observe::at;
use crate::room::{Error, read};
use crate::snapshot::{Holder, Snapshot};

/// What is followed for claims.
#[derive(Clone)]
pub struct Feeds {
    /// Claims.
    pub claims: Feed<Claims>,
    /// What claims of all kinds hold.
    pub holders: Feed<Holders>,
    /// Quotas.
    pub quotas: Feed<Quotas>,
    /// Kinds of claims.
    pub kinds: Feed<Catalogue>,
}

impl Feeds {
    /// Waits until every index is complete, or known to have nothing to hold.
    pub async fn settled(&self) {
        self.claims.settled().await;
        self.holders.settled().await;
        self.quotas.settled().await;
        self.kinds.settled().await;
    }

    /// The claims of our kind.
    pub fn keys(&self, accepts: impl Fn(&ObjectKey) -> bool) -> Vec<ObjectKey> {
        let ours = self.claims.all().into_iter().filter(|(_, claim)| claim.is_some());
        ours.map(|(key, _)| key).filter(|key| accepts(key)).collect()
    }
}

/// What claims of other kinds are about to have and do not show yet, by their uids, each with its tenant.
pub(super) type Announced = Arc<Mutex<BTreeMap<Box<str>, (Box<str>, Held)>>>;

/// Claims ask.
pub struct ByClaim {
    feeds: Feeds,
    world: World,
    terms: Arc<Terms>,
    /// Claims that room was taken for and whose journal the index does not show yet, by key, with their uids.
    taken: Mutex<BTreeMap<ObjectKey, Box<str>>>,
    announced: Announced,
    /// Locked before what was taken.
    seat: Seat,
}

impl ByClaim {
    /// Those of these indexes.
    #[must_use]
    pub fn new(feeds: Feeds, world: World, seat: Seat) -> Self {
        let (taken, announced) = (Mutex::default(), Announced::default());
        Self { feeds, world, terms: Arc::new(kind::terms()), taken, announced, seat }
    }

    /// What is heard at the table.
    pub(super) fn announced(&self) -> Announced {
        Arc::clone(&self.announced)
    }

    /// Tells those who serve other kinds what a claim is about to have, or that it has given that back.
    fn tell(turn: &Turn<'_>, claim: &ObjectKey, uid: &str, takes: bool) {
        let held = Held { uid: uid.into(), kind: KIND.into(), place: None, labels: BTreeMap::new() };
        turn.tell(News { claim, uid, held: takes.then_some(&held) });
    }

    fn taken(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, Box<str>>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What claims may ask for: as the registry says, where it says something.
    fn terms(&self) -> Arc<Terms> {
        match Listing::of(&self.feeds.kinds, KIND) {
            Listing::Listed(terms) => terms,
            Listing::Silent | Listing::Missing => Arc::clone(&self.terms),
        }
    }

    fn asked(&self, claim: Arc<ClaimFacts>, version: Version) -> Asked {
        let terms = self.terms();
        let machine = wish::machine(&claim, &terms.complete(&claim.spec.args));
        let claim = match wish::fault(&terms, &claim).filter(|_| claim.fault.is_none()) {
            Some(fault) => Arc::new(ClaimFacts { fault: Some(fault), ..(*claim).clone() }),
            None => claim,
        };
        Asked { machine: Arc::new(machine), claim: Some(claim), version }
    }
}

impl Asker for ByClaim {
    const NAME: &'static str = "hosts-claims";
    type Status = HostClaimStatus;

    fn kind(&self) -> Kind {
        self.feeds.claims.kind()
    }

    fn seen(&self, key: &ObjectKey) -> Result<Option<Asked>, Error> {
        match self.feeds.claims.get(key) {
            Seen::At(seen) => {
                let Some(claim) = &*seen else { return Ok(None) };
                let version = self.feeds.claims.version(key, &seen).ok_or(Error::Behind)?;
                Ok(Some(self.asked(Arc::clone(claim), version)))
            }
            Seen::Absent => Ok(None),
            Seen::Behind => Err(Error::Behind),
        }
    }

    async fn fetch(&self, client: kube::Client, key: &ObjectKey) -> Result<Option<Asked>, Error> {
        let (resource, namespace) = (self.kind().resource(), key.namespace().unwrap_or_default());
        let api: Api<Versioned<HostClaim>> = Api::namespaced_with(client, namespace, &resource);
        let found = api.get_opt(key.name()).await.map_err(read(|| format!("HostClaim {key}")))?;
        Ok(found.and_then(|Versioned(claim)| {
            let version = Version::of(&claim);
            Some(self.asked(Arc::new(ClaimFacts::of(claim)?), version))
        }))
    }

    fn wrote(&self, key: &ObjectKey, version: &Version) {
        self.feeds.claims.wrote(key, version);
    }

    fn around(&self, key: &ObjectKey, asked: &Asked) -> Around {
        let Some(claim) = &asked.claim else { return Around::default() };
        let named = |name: &str| ObjectKey::namespaced(key.namespace().unwrap_or_default(), name);
        let args = self.terms().complete(&claim.spec.args);
        Around {
            owner: Some(Arc::new(wish::owner(claim))),
            cluster: claim.cluster.as_deref().and_then(|name| at(&self.world.clusters, &named(name))),
            cloud: Some(Arc::new(wish::cloud(&args))),
        }
    }

    fn shown(&self, namespace: &str, _: &str) -> Vec<Shown> {
        let claims = self.feeds.claims.by("namespace", namespace).into_iter();
        claims.filter_map(|(key, claim)| journalled(key, claim.as_deref()?)).collect()
    }

    fn holders(&self, namespace: &str) -> Vec<(HostId, Holder)> {
        let terms = self.terms();
        let claims = self.feeds.claims.by("namespace", namespace).into_iter();
        claims
            .flat_map(|(key, claim)| claim.as_deref().map(|claim| held(&terms, &key, claim)).unwrap_or_default())
            .collect()
    }

    async fn holders_now(&self, client: kube::Client, namespace: &str) -> Result<Vec<(HostId, Holder)>, Error> {
        let resource = self.kind().resource();
        let api: Api<Versioned<HostClaim>> = Api::namespaced_with(client, namespace, &resource);
        let what = read(|| format!("HostClaims of {namespace}"));
        let listed = api.list(&ListParams::default()).await.map_err(what)?;
        let terms = self.terms();
        let of = |Versioned(claim): Versioned<HostClaim>| {
            let key = ObjectKey::of(&claim);
            ClaimFacts::of(claim).map(|claim| held(&terms, &key, &claim)).unwrap_or_default()
        };
        Ok(listed.items.into_iter().flat_map(of).collect())
    }

    fn published(_: &InstanceId, provider_id: &str) -> Value {
        json!({"metadata": {"annotations": {INSTANCE_ANNOTATION: provider_id}}})
    }

    fn quota(&self, s: &Snapshot) -> Option<Full> {
        let (claim, tenant) = (s.claim.as_ref()?, s.key.namespace()?);
        let turn = self.seat.turn();
        let mut allowance = Allowance::default();
        let quotas = self.feeds.quotas.all();
        // Where there is no quota nobody has to be counted, and of other kinds there may be very many.
        let others = if quotas.is_empty() { Vec::new() } else { self.feeds.holders.all() };
        for (key, quota) in quotas {
            allowance.quota(key.name(), Some(quota.quota()));
        }
        for (key, space) in self.world.spaces.all() {
            allowance.space(key.name(), Some(space.labels.clone()));
        }
        let other = |held: &&Arc<Held>| *held.kind != *KIND;
        let others =
            others.iter().filter_map(|(key, held)| Some((key.namespace()?, &**held.as_ref().as_ref().filter(other)?)));
        allowance.elsewhere(others);
        {
            let mut announced = self.announced.lock().unwrap_or_else(PoisonError::into_inner);
            // What its claim shows by now has been counted.
            announced.retain(|uid, _| !allowance.holds(uid));
            for (tenant, held) in announced.values() {
                allowance.hold_elsewhere(tenant, held);
            }
        }
        let mut taken = self.taken();
        for (key, other) in self.feeds.claims.all() {
            let (Some(other), Some(namespace)) = (&*other, key.namespace()) else { continue };
            if other.holds() || taken.get(&key).is_some_and(|uid| *uid == other.uid) {
                allowance.hold(&other.uid, namespace, BTreeMap::new());
            }
        }
        // A claim that was seen a moment ago may not be in the index any more; who has taken room still has it.
        for (key, uid) in taken.iter() {
            allowance.hold(uid, key.namespace().unwrap_or_default(), BTreeMap::new());
        }
        match allowance.take(&claim.uid, tenant, BTreeMap::new()) {
            Ok(()) => {
                let known = taken.insert(s.key.clone(), claim.uid.clone());
                if known.as_ref() != Some(&claim.uid) {
                    Self::tell(&turn, &s.key, &claim.uid, true);
                }
                None
            }
            Err(full) => {
                if let Some(uid) = taken.remove(&s.key) {
                    Self::tell(&turn, &s.key, &uid, false);
                }
                Some(full)
            }
        }
    }

    fn gone(&self, key: &ObjectKey) {
        let turn = self.seat.turn();
        let taken = self.taken().remove(key);
        if let Some(uid) = taken {
            Self::tell(&turn, key, &uid, false);
        }
    }

    fn report<'s>(&self, s: &'s Snapshot, now: &Snapshot, thought: &Thought) -> Option<Report<'s, HostClaimStatus>> {
        // Whoever pauses a claim wants nothing of it to be written, its status included. And what is about to change is
        // told once it has changed.
        let claim = s.claim.as_ref().filter(|_| thought.paused.is_none() && !is_on_its_way(now, thought))?;
        let (next, verdicts) = status::status(now, claim, thought);
        Some(Report {
            target: s.target.clone(),
            generation: claim.generation,
            stored: &claim.status,
            next,
            based_on: None,
            verdicts,
        })
    }

    fn event(transition: &Transition) -> Option<Notice> {
        status::event(transition)
    }
}

/// Whether the next pass follows at once, and has more to tell.
fn is_on_its_way(s: &Snapshot, thought: &Thought) -> bool {
    let goes_on = |step: &Step| match step {
        Step::Reboot { .. } => true,
        // What could not be applied is not noted, for as long as it cannot be.
        Step::Note { .. } => s.mishap.is_none(),
        _ => false,
    };
    thought.goes_on() || thought.steps.iter().any(goes_on)
}

/// The hosts that a claim counts on: those of an allocation that is not over.
fn held(terms: &Terms, key: &ObjectKey, claim: &ClaimFacts) -> Vec<(HostId, Holder)> {
    let Some(allocation) = claim.journal.as_ref().ok().and_then(|journal| journal.allocation.as_ref()) else {
        return Vec::new();
    };
    if allocation.phase.is_over() {
        return Vec::new();
    }
    let machine = wish::machine(claim, &terms.complete(&claim.spec.args));
    let holder = Holder {
        key: key.clone(),
        is_claim: true,
        id: allocation.id.clone(),
        epoch: allocation.epoch,
        phase: allocation.phase,
        from: allocation.from.clone(),
        shares: claim.selector.is_some(),
        deleting: claim.deleting,
        paused: machine.is_paused(),
        releases: machine.releases(),
        instance: machine.instance(),
        instance_type: machine.spec.instance_type,
    };
    allocation.hosts.iter().map(|host| (host.clone(), holder.clone())).collect()
}

fn journalled(key: ObjectKey, claim: &ClaimFacts) -> Option<Shown> {
    intent(key, claim.journal.as_ref().ok()?)
}
