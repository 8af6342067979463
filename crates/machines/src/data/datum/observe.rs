//! Gathers one data with everything it is made of.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::key::ObjectKey;
use jiff::Timestamp;
use kit::feed::{Seen, Version};
use kit::kinds::Kind;
use kit::write::Target;

use super::super::error::Error;
use super::super::facts::{
    DataClaimFacts, DataFacts, HostClaimFacts, LeaseFacts, MachineFacts, MetalMachineFacts, TemplateFacts,
};
use super::super::names::{beside, lease};
use super::super::pools::{PoolKind, pools};
use super::super::render::{Fault, Named, Objects, PoolAddress};
use super::Datas;

/// How far the wish for an address of one pool is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// There is no wish.
    Missing,
    /// The wish has no address yet, and why, when somebody said so.
    Waiting(Option<Box<str>>),
    /// The name of the wish belongs to somebody else, or to an earlier incarnation of the data.
    Taken,
    /// The address is there.
    Given(PoolAddress),
}

/// A wish for an address that was made for the data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The kind of wish.
    pub kind: Kind,
    /// Where it is.
    pub key: ObjectKey,
    /// The wish.
    pub facts: Arc<LeaseFacts>,
}

/// Pools by their names, and how far the address of each is.
pub type Pools = BTreeMap<Box<str>, (PoolKind, Progress)>;

/// One data at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Where it is.
    pub key: ObjectKey,
    /// When this was read.
    pub now: Timestamp,
    /// The kind, as it is served.
    pub kind: Kind,
    /// The data.
    pub data: Arc<DataFacts>,
    /// The version that was read.
    pub version: Version,
    /// Its data claim, when that is the one it was made for.
    pub claim: Option<Arc<DataClaimFacts>>,
    /// Its template.
    pub template: Option<Arc<TemplateFacts>>,
    /// The Metal3Machine of the claim.
    pub metal: Option<(ObjectKey, Arc<MetalMachineFacts>)>,
    /// The Machine of that.
    pub machine: Option<(ObjectKey, Arc<MachineFacts>)>,
    /// The HostClaim of the Metal3Machine.
    pub host: Option<Arc<HostClaimFacts>>,
    /// The pools that the template needs, once everything is known that names them.
    pub pools: Option<Result<Pools, Fault>>,
    /// Every wish that was made for the data.
    pub leases: Vec<Lease>,
    /// Whether the Secret for metadata is there.
    pub has_meta: bool,
    /// Whether the Secret for network data is there.
    pub has_network: bool,
    /// Whether it must be left alone.
    pub paused: bool,
}

impl Snapshot {
    /// The data, to write to.
    #[must_use]
    pub fn target(&self) -> Target {
        Target { kind: self.kind.clone(), key: self.key.clone(), uid: self.data.head.uid.clone() }
    }

    /// The HostClaim, once it has a machine.
    #[must_use]
    pub fn bound(&self) -> Option<&HostClaimFacts> {
        self.host.as_deref().filter(|host| host.bound && !host.deleting)
    }

    /// Everything that can reach the documents, once it is all there.
    #[must_use]
    pub fn objects(&self) -> Option<Objects<'_>> {
        let ((metal, m), (machine, c), host) = (self.metal.as_ref()?, self.machine.as_ref()?, self.bound()?);
        Some(Objects {
            namespace: self.key.namespace().unwrap_or_default(),
            machine: Named { name: machine.name(), labels: &c.labels, annotations: &c.annotations },
            metal3machine: Named { name: metal.name(), labels: &m.labels, annotations: &m.annotations },
            host: host.view(metal.name()),
            claim: metal.name(),
        })
    }
}

fn at<S>(seen: Seen<S>) -> Result<Option<Arc<S>>, Error> {
    match seen {
        Seen::At(found) => Ok(Some(found)),
        Seen::Absent => Ok(None),
        Seen::Behind => Err(Error::Behind),
    }
}

impl Datas {
    /// Gathers the snapshot of data; `None` when it is gone or not ours.
    pub(super) fn gather(&self, key: &ObjectKey, now: Timestamp) -> Result<Option<Snapshot>, Error> {
        let world = &self.world;
        let Some(data) = at(world.datas.get(key))? else { return Ok(None) };
        let Some(version) = world.datas.version(key, &data) else { return Err(Error::Behind) };
        let home = beside(key, &data.claim);
        let claim = at(world.claims.get(&home))?.filter(|claim| data.belongs_to(&data.claim, &claim.head.uid));
        let owner = claim.as_ref().and_then(|claim| claim.machine.as_ref());
        let metal = match owner.map(|owner| beside(key, &owner.name)) {
            // Not by uid: a move makes new ones, and the claim is told of its owner's later.
            Some(place) => at(world.metal.get(&place))?.map(|metal| (place, metal)),
            None => None,
        };
        let ours = metal.as_ref().is_some_and(|(_, metal)| metal.is_ours(&world.config));
        if !ours && !data.is_kept() {
            return Ok(None);
        }
        let machine = match metal.as_ref().and_then(|(_, metal)| metal.machine.as_ref()) {
            Some(owner) => {
                let place = beside(key, &owner.name);
                at(world.machines.get(&place))?.map(|machine| (place, machine))
            }
            None => None,
        };
        // The claim of a machine has its name, and belongs to it.
        let host = match &metal {
            Some((place, metal)) => {
                at(world.hosts.get(place))?.filter(|host| host.machine.as_ref() == Some(&metal.uid))
            }
            None => None,
        };
        let template = at(world.templates.get(&beside(key, &data.template)))?;
        let is_there = |name: Option<&str>| match name {
            Some(name) => at(world.secrets.get(&beside(key, name))).map(|found| found.is_some()),
            None => Ok(false),
        };
        let cluster = data.head.cluster.as_deref().or_else(|| template.as_ref().and_then(|t| t.cluster()));
        let mut snapshot = Snapshot {
            now,
            kind: world.datas.kind(),
            version,
            has_meta: is_there(data.meta.as_deref())?,
            has_network: is_there(data.network.as_deref())?,
            paused: data.head.paused || world.is_paused(key, cluster),
            leases: self.leases(&data.head.uid),
            key: key.clone(),
            data,
            claim,
            template,
            metal,
            machine,
            host,
            pools: None,
        };
        snapshot.pools = self.pools(&snapshot)?;
        Ok(Some(snapshot))
    }

    fn leases(&self, uid: &str) -> Vec<Lease> {
        let (capi, metal) = (self.world.leases.kind(), self.world.pool_leases.kind());
        let one = self.world.leases.by("data", uid).into_iter();
        let two = self.world.pool_leases.by("data", uid).into_iter();
        let one = one.map(|(key, facts)| Lease { kind: capi.clone(), key, facts });
        one.chain(two.map(|(key, facts)| Lease { kind: metal.clone(), key, facts })).collect()
    }

    fn pools(&self, s: &Snapshot) -> Result<Option<Result<Pools, Fault>>, Error> {
        let (Some(template), Some(objects)) = (&s.template, s.objects()) else { return Ok(None) };
        let pools = match pools(&template.spec, Some(&objects)) {
            Ok(pools) => pools,
            Err(fault) => return Ok(Some(Err(fault))),
        };
        let mut all = BTreeMap::new();
        for (name, kind) in pools {
            let progress = self.progress(s, &name, &kind)?;
            all.insert(name, (kind, progress));
        }
        Ok(Some(Ok(all)))
    }

    fn progress(&self, s: &Snapshot, pool: &str, kind: &PoolKind) -> Result<Progress, Error> {
        let world = &self.world;
        let place = beside(&s.key, &lease(s.key.name(), pool));
        let found = if kind.is_metal3() { at(world.pool_leases.get(&place))? } else { at(world.leases.get(&place))? };
        let Some(found) = found else { return Ok(Progress::Missing) };
        if found.data.as_ref().is_none_or(|data| data.uid != s.data.head.uid) || found.head.deleting {
            return Ok(Progress::Taken);
        }
        let Some(address) = &found.address else { return Ok(Progress::Waiting(found.problem.clone())) };
        let place = beside(&s.key, address);
        let given =
            if kind.is_metal3() { at(world.pool_addresses.get(&place))? } else { at(world.addresses.get(&place))? };
        Ok(given.map_or(Progress::Waiting(None), |address| Progress::Given((*address).clone())))
    }
}
