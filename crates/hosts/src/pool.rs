//! Hosts that are there already, looked for by claims that select them; and who counts on them.

use std::collections::BTreeMap;

use api::key::ObjectKey;
use api::names::HostId;
use aws::cloud::Cloud;
use aws::errors::Error as Ec2Error;
use aws::port::Host;

use crate::asker::Asker;
use crate::facts::MachineFacts;
use crate::journal::{Journal, Phase};
use crate::observe::default_subnets;
use crate::placement::{self, Need, Place};
use crate::room::{Error, Keeper};
use crate::shelf::{Age, Shelf};
use crate::snapshot::{Holder, Pool, Preflight, Snapshot};

impl<C: Cloud, A: Asker> Keeper<C, A> {
    /// What a claim that selects hosts may choose from.
    pub(crate) async fn pool(&self, shelf: &Shelf<C::Ec2>, s: &Snapshot) -> Result<Option<Box<Pool>>, Ec2Error> {
        let selects = s.claim.as_ref().is_some_and(|claim| claim.selector.is_some());
        let Some(Ok(preflight)) = s.preflight.as_ref().filter(|_| selects) else { return Ok(None) };
        let (named, left) = (shelf.hosts(Age::OnTheWay).await?, shelf.left(Age::OnTheWay).await?);
        // A host that is about to be left behind, or to be taken, is in both lists; the younger one is right.
        let [older, younger] = if named.asked < left.asked { [named, left] } else { [left, named] };
        let near = |host: &&Host| s.is_near(&host.tags);
        let both = older.all.iter().chain(younger.all.iter()).filter(near);
        let hosts: BTreeMap<HostId, Host> = both.map(|host| (host.id.clone(), host.clone())).collect();
        let mut holders = self.asker.holders(s.key.namespace().unwrap_or_default());
        holders.extend(self.machines_of(s));
        let places = self.reachable(shelf, s, preflight).await;
        Ok(Some(Box::new(Pool { hosts: hosts.into_values().collect(), holders, places })))
    }

    /// Who counts on the hosts of a claim that is about to leave them, by what the server has now: whoever is overlooked
    /// here would lose its host.
    pub(crate) async fn heirs(&self, s: &Snapshot) -> Result<Option<Box<Pool>>, Error> {
        let Some(claim) = &s.claim else { return Ok(None) };
        let journal = s.journal();
        let leaves = |phase: Phase| phase == Phase::Releasing || (phase == Phase::Allocated && s.machine.deleting);
        let Some(allocation) = journal.allocation.filter(|allocation| leaves(allocation.phase)) else {
            return Ok(None);
        };
        let shown = || allocation.hosts.iter().filter_map(|id| s.sight()?.hosts.get(id));
        // Nobody has a place on the host of a claim that never selected one.
        let shared = claim.selector.is_some() || shown().any(|host| !host.instances.is_empty());
        if !shared || !s.alive().is_empty() {
            return Ok(None);
        }
        let namespace = s.key.namespace().unwrap_or_default();
        let mut holders = self.asker.holders_now(self.writer.client().clone(), namespace).await?;
        holders.extend(self.machines_of(s));
        Ok(Some(Box::new(Pool { holders, ..Pool::default() })))
    }

    /// The machines of the namespace of a claim whose journals name hosts.
    fn machines_of(&self, s: &Snapshot) -> Vec<(HostId, Holder)> {
        let near = |key: &ObjectKey| key.namespace() == s.key.namespace();
        let machines = self.world.machines.all().into_iter().filter(|(key, _)| near(key));
        machines.flat_map(|(key, machine)| held(&key, &machine)).collect()
    }

    /// Where a claim may go: where it goes without a host that is there already, and where else it would have a subnet.
    async fn reachable(&self, shelf: &Shelf<C::Ec2>, s: &Snapshot, preflight: &Preflight) -> Vec<Place> {
        let mut all = vec![preflight.place.clone()];
        let bound = s.claim.as_ref().is_none_or(|claim| claim.required_zone().is_some());
        let Some(cloud) = s.cloud.as_ref().filter(|_| !bound && s.machine.spec.subnet.is_none()) else { return all };
        let (ids, filters) = placement::question(&default_subnets());
        let Ok(found) = shelf.subnets(ids, filters).await else { return all };
        let mut found = found.to_vec();
        found.sort_by(|a, b| (&a.zone, &a.id).cmp(&(&b.zone, &b.id)));
        for zone in found.iter().filter_map(|subnet| subnet.zone.as_ref()) {
            let need = Need { failure_domain: Some(zone.as_str()), ..Need::default() };
            match placement::among_described(&found, &need, cloud) {
                Ok(place) if !all.iter().any(|known| known.zone == place.zone) => all.push(place),
                _ => {}
            }
        }
        all
    }
}

/// The hosts that a machine has, or that it is launched on because its spec names one.
fn held(key: &ObjectKey, machine: &MachineFacts) -> Vec<(HostId, Holder)> {
    let Ok(Journal { allocation, launch, .. }) = &machine.journal else { return Vec::new() };
    let (id, epoch, phase, hosts) = match (allocation, launch) {
        (Some(own), _) if own.phase.is_over() => return Vec::new(),
        (Some(own), _) => (&own.id, own.epoch, own.phase, own.hosts.clone()),
        (None, Some(launch)) => (&launch.id, launch.epoch, Phase::Allocated, launch.host.iter().cloned().collect()),
        (None, None) => return Vec::new(),
    };
    let holder = Holder {
        key: key.clone(),
        is_claim: false,
        id: id.clone(),
        epoch,
        phase,
        from: None,
        shares: false,
        deleting: machine.deleting,
        paused: machine.is_paused(),
        releases: machine.releases(),
        instance_type: machine.spec.instance_type.clone(),
        instance: machine.instance(),
    };
    hosts.into_iter().map(|host| (host, holder.clone())).collect()
}
