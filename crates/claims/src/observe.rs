//! Gathers one snapshot: from the indexes, and live where an index that lags could cost a host.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use api::key::ObjectKey;
use api::own::HostImage;
use api::views::Cluster;
use claim_kind::terms::Listing;
use jiff::Timestamp;
use kit::feed::{Phase, Project, Seen, Version};
use kit::urls::{Place, is_fetched};
use kit::write::Target;
use kube::Api;
use kube::api::DynamicObject;

use crate::apply::Error;
use crate::config::Config;
use crate::facts::{ClaimFacts, ClusterFacts, Clusters, HardwareFacts, SecretRef};
use crate::parts::{Fault, Part, Progress};
use crate::room::Claims;
use crate::standing::{Found, Standing, standing};
use crate::status;
use crate::words::Tell;
use crate::yard::{Grant, Offer, Unbound};

/// So many copies are looked after in one pass.
const COPIES: usize = 32;

/// One claim at one moment, with everything that a decision about it needs.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Where the claim is.
    pub key: ObjectKey,
    /// When this was read.
    pub now: Timestamp,
    /// How the room is set up.
    pub config: Arc<Config>,
    /// The kind, as it is served.
    pub kind: kit::kinds::Kind,
    /// The claim.
    pub claim: Arc<ClaimFacts>,
    /// The version of the claim that was read.
    pub version: Version,
    /// What is wrong with its spec.
    pub problem: Option<Box<str>>,
    /// The cluster it belongs to.
    pub cluster: Option<Arc<ClusterFacts>>,
    /// Every host whose reference names the claim, whatever the uid.
    pub hosts: Vec<Found>,
    /// What inspection found in the bound host, where an object of its own says so.
    pub hardware: Option<Arc<HardwareFacts>>,
    /// What policies let the claim do with its host.
    pub grant: Grant,
    /// The host that the claim may bind.
    pub offer: Option<Offer>,
    /// Why there is none.
    pub unbound: Option<Unbound>,
    /// Since when its host cannot be registered.
    pub failing_since: Option<Timestamp>,
    /// When this process told its host something new, if that was a moment ago.
    pub driven: Option<Timestamp>,
    /// How far its secrets have come, when there is a host.
    pub parts: BTreeMap<Part, Progress>,
    /// Every copy made for it, as it was before its hosts were looked at: where there was one already, they show for whom.
    pub copies: BTreeMap<ObjectKey, Version>,
    /// What people were told about it already.
    pub told: BTreeSet<Tell>,
    /// The version that this pass itself made of the claim.
    made: Arc<Mutex<Option<Version>>>,
}

impl Snapshot {
    /// How the claim stands with its host.
    #[must_use]
    pub fn standing(&self) -> Standing<'_> {
        standing(&self.key, &self.claim, &self.hosts)
    }

    /// The host that counts.
    #[must_use]
    pub fn bound(&self) -> Option<&Found> {
        match self.standing() {
            Standing::Bound { host, .. } => Some(host),
            Standing::Free | Standing::Lost { .. } => None,
        }
    }

    /// Whether the bound host is in the claim's own namespace.
    #[must_use]
    pub fn is_at_home(&self) -> bool {
        self.bound().is_some_and(|host| host.key.namespace() == self.key.namespace())
    }

    /// Whether an image, and where its checksum comes from, may be fetched at all and is allowed by the policies.
    #[must_use]
    pub fn allows(&self, image: &HostImage) -> bool {
        let fetched = image.checksum.as_deref().filter(|checksum| is_fetched(checksum));
        self.grant.allows_image(&image.url)
            && fetched.is_none_or(|url| Place::checksum(url).is_ok() && self.grant.allows_image(url))
    }

    /// Whether the claim must be left alone.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.claim.is_paused() || self.cluster.as_ref().is_some_and(|cluster| cluster.paused)
    }

    /// The version of the claim that this pass knows: the one it read, or the one it made of it.
    #[must_use]
    pub fn latest(&self) -> Version {
        self.made.lock().unwrap_or_else(PoisonError::into_inner).clone().unwrap_or_else(|| self.version.clone())
    }

    /// Whether this pass made a version of the claim.
    #[must_use]
    pub fn has_written(&self) -> bool {
        self.made.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// This pass made a version of the claim.
    pub(crate) fn wrote(&self, version: Version) {
        *self.made.lock().unwrap_or_else(PoisonError::into_inner) = Some(version);
    }

    /// A claim of which nothing else is known.
    #[cfg(test)]
    pub(crate) fn of(key: ObjectKey, claim: ClaimFacts) -> Self {
        Self {
            key,
            now: Timestamp::UNIX_EPOCH,
            config: Arc::default(),
            kind: kit::kinds::Kind::of::<api::raw::HostClaim>(),
            version: Version { uid: claim.uid.clone(), resource_version: "1".into() },
            claim: Arc::new(claim),
            problem: None,
            cluster: None,
            hosts: Vec::new(),
            hardware: None,
            grant: Grant::default(),
            offer: None,
            unbound: None,
            failing_since: None,
            driven: None,
            parts: BTreeMap::new(),
            copies: BTreeMap::new(),
            told: BTreeSet::new(),
            made: Arc::default(),
        }
    }

    /// The claim, to write to.
    #[must_use]
    pub fn target(&self) -> Target {
        Target { kind: self.kind.clone(), key: self.key.clone(), uid: self.claim.uid.clone() }
    }
}

impl Claims {
    /// Gathers the snapshot of a claim; `None` when it is gone or not of our kind.
    ///
    /// # Errors
    /// When an index is behind our own write, or a live read failed.
    pub(crate) async fn gather(&self, key: &ObjectKey, now: Timestamp) -> Result<Option<Snapshot>, Error> {
        let world = &self.world;
        let claim = match world.claims.get(key) {
            Seen::At(claim) if claim.baremetal => claim,
            Seen::At(_) | Seen::Absent => return Ok(None),
            Seen::Behind => return Err(Error::Behind),
        };
        let Some(version) = world.claims.version(key, &claim) else { return Err(Error::Behind) };
        let Some(claim) = claim.facts().map(Arc::new) else { return Err(Error::Garbled(key.clone())) };
        let copies = self.made_for(key, &claim);
        let mut hosts = self.named(key)?;
        if let Standing::Free | Standing::Lost { .. } = standing(key, &claim, &hosts) {
            self.look(&claim, &mut hosts).await?;
        }
        let bound = matches!(standing(key, &claim, &hosts), Standing::Bound { .. });
        // What admission refuses may have been stored while it was off. A bound claim is driven all the same: what could
        // do harm is refused where it would be done.
        let refused = || {
            let spec = crate::admit::problem(&claim.spec, key.namespace().unwrap_or_default());
            spec.or_else(|| crate::admit::kind_problem(&claim.spec, &Listing::Silent)).map(Into::into)
        };
        let problem = claim.problem.clone().or_else(|| if bound { None } else { refused() });
        let cluster = self.cluster(key, &claim).await?;
        let mut snapshot = Snapshot {
            key: key.clone(),
            now,
            config: Arc::clone(&self.config),
            kind: world.claims.kind(),
            claim,
            version,
            problem,
            cluster,
            hosts,
            hardware: None,
            grant: Grant::default(),
            offer: None,
            unbound: None,
            failing_since: None,
            driven: None,
            parts: BTreeMap::new(),
            copies,
            told: BTreeSet::new(),
            made: Arc::default(),
        };
        snapshot.told = self.told.about(&snapshot.claim.uid);
        match snapshot.bound().cloned() {
            Some(host) => self.furnish(&mut snapshot, &host)?,
            None => self.match_up(&mut snapshot)?,
        }
        Ok(Some(snapshot))
    }

    /// The copies that were made for a claim.
    fn made_for(&self, key: &ObjectKey, claim: &ClaimFacts) -> BTreeMap<ObjectKey, Version> {
        let copies = self.world.secrets.by("claim", &claim.uid).into_iter();
        // The label is not proof: anybody may put it on a secret of theirs, and have it stay for ever.
        let ours = copies.filter(|(copy, facts)| {
            copy.namespace() != key.namespace() && Part::is_copy(copy.name(), &claim.uid) && !facts.deleting
        });
        ours.map(|(copy, facts)| (copy, facts.version.clone())).take(COPIES).collect()
    }

    /// The cluster of a claim. Claims and clusters come by two watches, and a claim that is ahead of its cluster must not
    /// be driven as if that were not paused: so a cluster that is not there is asked for once.
    async fn cluster(&self, key: &ObjectKey, claim: &ClaimFacts) -> Result<Option<Arc<ClusterFacts>>, Error> {
        let Some(name) = claim.cluster.as_deref() else { return Ok(None) };
        let place = key.namespace().unwrap_or_default();
        let feed = &self.world.clusters;
        match feed.get(&ObjectKey::namespaced(place, name)) {
            Seen::At(cluster) => return Ok(Some(cluster)),
            Seen::Behind => return Err(Error::Behind),
            Seen::Absent => {}
        }
        if feed.phase() != Phase::Synced || self.alone.is(&claim.uid) {
            return Ok(None);
        }
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.writer.client().clone(), place, &feed.kind().resource());
        let read = |source| Error::Cluster { key: ObjectKey::namespaced(place, name), source: Box::new(source) };
        let Some(found) = api.get_opt(name).await.map_err(read)? else {
            self.alone.note(&claim.uid);
            return Ok(None);
        };
        // What cannot be read must not be taken for one that is not paused.
        let cluster: Cluster = serde_json::to_value(found)
            .and_then(serde_json::from_value)
            .map_err(|error| read(kube::Error::SerdeError(error)))?;
        Ok(Some(Arc::new(Clusters::slim(cluster))))
    }

    /// The hosts whose reference names the claim.
    fn named(&self, key: &ObjectKey) -> Result<Vec<Found>, Error> {
        let held = self.yard().held(key.namespace().unwrap_or_default(), key.name());
        let mut found = Vec::with_capacity(held.len());
        for host in held {
            match self.world.hosts.get(&host) {
                Seen::At(facts) => found.push(Found { key: host, facts }),
                Seen::Absent => {}
                Seen::Behind => return Err(Error::Behind),
            }
        }
        Ok(found)
    }

    /// Looks live at the hosts that the status names when the index shows none of ours: an index that lags must not
    /// make us believe that a host is lost, or take a second one.
    async fn look(&self, claim: &ClaimFacts, hosts: &mut Vec<Found>) -> Result<(), Error> {
        let bound = claim.status.bare_metal_host.as_ref().map(|host| (&host.namespace, &host.name));
        let chosen = claim.status.selected_host.as_ref().map(|host| (&host.namespace, &host.name));
        let named: BTreeSet<ObjectKey> = bound
            .into_iter()
            .chain(chosen)
            .map(|(namespace, name)| ObjectKey::namespaced(namespace.as_str(), name.as_str()))
            .collect();
        for key in named {
            if self.world.hosts.get(&key) == Seen::Behind {
                return Err(Error::Behind);
            }
            if claim.deleting && self.given.of(&claim.uid).as_ref() == Some(&key) {
                continue;
            }
            if let Some(live) = self.hand.read(&key).await? {
                hosts.retain(|found| found.key != key);
                hosts.push(Found { key, facts: live.facts });
            }
        }
        Ok(())
    }

    /// What belongs to a claim with a host.
    fn furnish(&self, snapshot: &mut Snapshot, host: &Found) -> Result<(), Error> {
        let tenant = snapshot.key.namespace().unwrap_or_default();
        snapshot.grant = self.yard().grant(tenant, &host.key, &host.facts);
        snapshot.hardware = match self.world.hardware.get(&host.key) {
            Seen::At(hardware) => Some(hardware),
            Seen::Absent => None,
            Seen::Behind => return Err(Error::Behind),
        };
        let failing = host.facts.error.as_deref() == Some("registration error");
        snapshot.failing_since = self.failing.since(&snapshot.claim.uid, failing, snapshot.now);
        snapshot.driven = self.driven.since(&snapshot.claim.uid, snapshot.now, status::MOMENT);
        for part in Part::ALL {
            let progress = self.progress(snapshot, host, part)?;
            snapshot.parts.insert(part, progress);
        }
        Ok(())
    }

    /// What belongs to a claim without one.
    fn match_up(&self, snapshot: &mut Snapshot) -> Result<(), Error> {
        let rests = snapshot.is_paused() || snapshot.problem.is_some();
        let mut yard = self.yard();
        let mut woken = yard.rest(&snapshot.key, rests, snapshot.now);
        if snapshot.claim.deleting || rests {
            drop(yard);
            self.wake(woken);
            return Ok(());
        }
        if let Some(chosen) = &snapshot.claim.status.selected_host {
            // After a restart nobody remembers for whom the host was kept; the claim does.
            woken.extend(yard.keep(&snapshot.key, &chosen.key(), snapshot.now).into_iter().flatten());
        }
        snapshot.offer = yard.offer(&snapshot.key);
        if let Some(offer) = &snapshot.offer {
            // Without a look at the host nobody knows what its policies allow.
            let Seen::At(facts) = self.world.hosts.get(&offer.host) else { return Err(Error::Behind) };
            snapshot.grant = yard.grant(snapshot.key.namespace().unwrap_or_default(), &offer.host, &facts);
        } else {
            snapshot.unbound = Some(yard.unbound(&snapshot.key, snapshot.now));
        }
        drop(yard);
        woken.retain(|claim| *claim != snapshot.key);
        self.wake(woken);
        Ok(())
    }

    fn progress(&self, snapshot: &Snapshot, host: &Found, part: Part) -> Result<Progress, Error> {
        let Some(name) = part.asked(&snapshot.claim) else { return Ok(Progress::NotAsked) };
        if name.is_empty() {
            return Ok(Progress::Missing { name: name.into() });
        }
        let (home, place) = (snapshot.key.namespace().unwrap_or_default(), host.key.namespace().unwrap_or_default());
        let source = match self.world.secrets.get(&ObjectKey::namespaced(home, name)) {
            Seen::At(secret) => Some(secret),
            Seen::Absent => None,
            Seen::Behind => return Err(Error::Behind),
        };
        let missing = || Progress::Missing { name: name.into() };
        let runs = host.facts.image.is_some() || host.facts.custom_deploy.is_some();
        if home == place {
            let at = SecretRef { name: name.into(), namespace: Some(place.into()) };
            return Ok(if source.is_some() || runs { Progress::Ready { at } } else { missing() });
        }
        let at =
            SecretRef { name: part.copy(host.key.name(), &snapshot.claim.uid).into(), namespace: Some(place.into()) };
        let key = ObjectKey::namespaced(place, at.name.clone());
        let copy = match self.world.secrets.get(&key) {
            Seen::At(copy) => Some(copy),
            Seen::Absent => None,
            Seen::Behind => return Err(Error::Behind),
        };
        let ours = copy.as_ref().is_some_and(|copy| copy.claim.as_deref() == Some(&*snapshot.claim.uid));
        let Some(source) = source else {
            // What was handed over stays: the tenant may clean up once the machine runs.
            return Ok(if ours && runs { Progress::Ready { at } } else { missing() });
        };
        let fault = self.faults.of(&snapshot.claim.uid, part, &source.version);
        // A name is free again as soon as the index says so.
        let fault = fault.filter(|fault| *fault != Fault::NameTaken || (copy.is_some() && !ours));
        if let Some(fault) = fault {
            return Ok(Progress::Unusable { name: name.into(), fault });
        }
        let fresh = copy.is_some_and(|copy| {
            copy.source.as_deref() == Some(&*source.version.resource_version) && self.copies.is_untouched(&key, &copy)
        });
        Ok(if ours && fresh { Progress::Ready { at } } else { Progress::Due { at } })
    }
}
