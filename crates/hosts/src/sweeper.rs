//! Looks for hosts that are paid for and belong to no machine. It reports them; it releases only where it was told to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::key::ObjectKey;
use api::meta::Versioned;
use api::names::HostId;
use api::names::hosts::{
    ALLOCATION_ID_TAG, CLUSTER_TAG_PREFIX, MANAGEMENT_CLUSTER_TAG, RELEASABLE_AFTER_TAG, RELEASE_PENDING_TAG,
};
use api::raw::AWSMachine;
use api::reasons::hosts::Reason;
use aws::cloud::Cloud;
use aws::port::{Ec2, Host};
use jiff::Timestamp;
use kit::class::chain;
use kit::room::Driver;
use kit::write::Target;
use kube::Api;
use kube::api::ListParams;
use tokio_util::sync::CancellationToken;

use crate::facts::{MachineFacts, SYSTEM};
use crate::journal::Scope;
use crate::observe::{at, words};
use crate::room::Keeper;

/// A host younger than this is never an orphan: its journal comes first, but reads lag.
pub const YOUNGEST: Duration = Duration::from_secs(3_600);

/// Whom hosts belong to, by the journals of all machines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owners {
    /// Hosts that journals name.
    pub hosts: BTreeSet<HostId>,
    /// Allocations that journals name.
    pub allocations: BTreeSet<String>,
    /// Whether every journal could be read; what cannot be read may own anything.
    pub complete: bool,
}

impl Owners {
    /// The owners among these machines.
    pub fn of<'a>(machines: impl IntoIterator<Item = &'a MachineFacts>) -> Self {
        let mut owners = Self { complete: true, ..Self::default() };
        for machine in machines {
            let Ok(journal) = &machine.journal else {
                owners.complete = false;
                continue;
            };
            let shown = machine.status.dedicated_host.as_ref().and_then(|host| host.id.as_deref()?.parse().ok());
            owners.hosts.extend(shown);
            if let Some(launch) = &journal.launch {
                owners.allocations.insert(launch.id.to_string());
                owners.hosts.extend(launch.host.clone());
            }
            if let Some(allocation) = &journal.allocation {
                owners.allocations.insert(allocation.id.to_string());
                owners.hosts.extend(allocation.hosts.iter().cloned());
            }
        }
        owners
    }
}

/// Hosts of this management cluster that are old, empty, and nobody's.
#[must_use]
pub fn orphans<'h>(hosts: &'h [Host], owners: &Owners, management: &str, now: Timestamp) -> Vec<&'h Host> {
    let old =
        |host: &Host| host.allocated.is_some_and(|at| at.saturating_add(YOUNGEST).unwrap_or(Timestamp::MAX) <= now);
    let tag = |host: &Host, key: &str| host.tags.get(key).cloned();
    hosts
        .iter()
        .filter(|host| {
            tag(host, MANAGEMENT_CLUSTER_TAG).as_deref() == Some(management)
                && tag(host, ALLOCATION_ID_TAG).is_some_and(|id| !owners.allocations.contains(&id))
                && !owners.hosts.contains(&host.id)
                && !host.state.is_released()
                && host.instances.is_empty()
                && old(host)
        })
        .collect()
}

/// The cluster a host says it belongs to.
#[must_use]
pub fn cluster_of(host: &Host) -> Option<&str> {
    host.tags.keys().find_map(|key| key.strip_prefix(CLUSTER_TAG_PREFIX))
}

/// Whether a machine left the host behind to be released when EC2 allows it.
#[must_use]
pub fn is_pending(host: &Host, now: Timestamp) -> bool {
    let due = host.tags.get(RELEASABLE_AFTER_TAG).and_then(|text| text.parse::<Timestamp>().ok());
    host.tags.get(RELEASE_PENDING_TAG).is_some_and(|value| value == "true") && due.is_none_or(|due| due <= now)
}

/// Looks for orphans now and then.
pub struct Sweeper<C: Cloud> {
    driver: Arc<Driver<Keeper<C>>>,
    leadership: kit::lease::Leadership,
    seen: BTreeSet<HostId>,
}

impl<C: Cloud> Sweeper<C> {
    /// Nothing was seen yet.
    #[must_use]
    pub fn new(driver: Arc<Driver<Keeper<C>>>, leadership: kit::lease::Leadership) -> Self {
        Self { driver, leadership, seen: BTreeSet::new() }
    }

    /// Looks once per interval until told to stop.
    pub async fn run(mut self, interval: Duration, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(interval) => {}
            }
            if self.leadership.leads() && self.driver.room().world.knows_machines() {
                self.sweep().await;
            }
        }
    }

    /// Every region and identity that a cluster names, once, with the cluster that names it.
    fn places(&self) -> BTreeMap<(String, String), (Scope, ObjectKey)> {
        let mut places = BTreeMap::new();
        for (key, cloud) in self.driver.room().world.clouds.all() {
            let Some(region) = cloud.region.as_deref().and_then(|region| region.parse().ok()) else { continue };
            let scope = Scope { region, identity: cloud.identity.clone() };
            let name = (scope.region.to_string(), crate::observe::name(&scope));
            places.entry(name).or_insert((scope, key));
        }
        places
    }

    /// One look at all places.
    async fn sweep(&mut self) {
        let room = self.driver.room();
        let (now, world) = (room.clock.now(), &room.world);
        let Some(management) = at(&world.spaces, &ObjectKey::cluster_scoped(SYSTEM)).map(|s| s.uid.clone()) else {
            return;
        };
        let machines: Vec<Arc<MachineFacts>> = world.machines.all().into_iter().map(|(_, machine)| machine).collect();
        let owners = Owners::of(machines.iter().map(|machine| &**machine));
        let mut counts: BTreeMap<String, BTreeSet<HostId>> = BTreeMap::new();
        let mut found: BTreeSet<HostId> = BTreeSet::new();
        for (scope, cloud) in self.places().into_values() {
            let shelf = match room.open(&scope, cloud.namespace().unwrap_or_default()).await {
                Ok(Ok(shelf)) => shelf,
                Ok(Err(obstacle)) => {
                    tracing::warn!(region = %scope.region, error = obstacle.message, "orphans not looked for");
                    continue;
                }
                Err(error) => {
                    tracing::warn!(region = %scope.region, error = %chain(&error), "orphans not looked for");
                    continue;
                }
            };
            let hosts = match shelf.hosts(Duration::from_secs(60)).await {
                Ok(hosts) => hosts,
                Err(error) => {
                    tracing::warn!(region = %scope.region, error = words(&error, ""), "orphans not looked for");
                    continue;
                }
            };
            let counted = counts.entry(scope.region.to_string()).or_default();
            let mut give_back: Vec<HostId> = Vec::new();
            for host in orphans(&hosts, &owners, &management, now) {
                found.insert(host.id.clone());
                if !self.seen.contains(&host.id) || self.is_paused(host) || !counted.insert(host.id.clone()) {
                    continue;
                }
                self.tell(&cloud, host).await;
                if (room.config.release_orphans || is_pending(host, now)) && owners.complete {
                    give_back.push(host.id.clone());
                }
            }
            if !give_back.is_empty() {
                self.release(&shelf, &give_back).await;
            }
        }
        for (region, hosts) in counts {
            room.metrics.orphans(&region, hosts.len());
        }
        self.seen = found;
    }

    /// Whether the cluster of a host is paused: then its machines may be on their way to another management cluster.
    fn is_paused(&self, host: &Host) -> bool {
        let clusters = &self.driver.room().world.clusters;
        let Some(name) = cluster_of(host) else { return false };
        clusters.all().iter().any(|(key, cluster)| key.name() == name && cluster.paused)
    }

    async fn tell(&self, cloud: &ObjectKey, host: &Host) {
        let room = self.driver.room();
        let cluster = cluster_of(host).unwrap_or("unknown");
        tracing::warn!(host_id = %host.id, cluster, "a host that is paid for belongs to no machine");
        let message = format!("host {} of cluster {cluster} is paid for and belongs to no machine", host.id);
        if room.memories.is_new(cloud, &message) {
            let kind = room.world.clouds.kind();
            let target = Target { kind, key: cloud.clone(), uid: Box::default() };
            room.events.say(&target, true, Reason::DedicatedHostFailed.as_str(), &message).await;
        }
    }

    /// Releases hosts that are still nobody's when the server is asked once more.
    async fn release(&self, shelf: &crate::shelf::Shelf<C::Ec2>, hosts: &[HostId]) {
        let room = self.driver.room();
        let resource = room.world.machines.kind().resource();
        let api: Api<Versioned<AWSMachine>> = Api::all_with(room.writer.client().clone(), &resource);
        let live = match api.list(&ListParams::default()).await {
            Ok(live) => live,
            Err(error) => {
                tracing::warn!(error = %chain(&error), "orphans not released: machines could not be listed");
                return;
            }
        };
        let machines: Vec<MachineFacts> = live.items.into_iter().map(|Versioned(m)| MachineFacts::of(m)).collect();
        let owners = Owners::of(&machines);
        let still: Vec<HostId> =
            hosts.iter().filter(|id| owners.complete && !owners.hosts.contains(id)).cloned().collect();
        for chunk in still.chunks(100) {
            match shelf.ec2().release_hosts(chunk).await {
                Ok(judged) => {
                    for host in judged.done {
                        tracing::info!(host_id = %host, "orphan released");
                    }
                    for (host, error) in judged.refused {
                        tracing::warn!(host_id = %host, code = error.code, error = error.message, "orphan not released");
                    }
                }
                Err(error) => tracing::warn!(error = words(&error, ""), "orphans not released"),
            }
        }
        shelf.touch();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    const NOW: &str = "2026-01-01T12:00:00Z";

    fn now() -> Timestamp {
        NOW.parse().unwrap()
    }

    fn host(allocation: &str, management: &str, allocated: &str) -> Host {
        let mut host = sample::host("h-0123456789abcdef0");
        host.tags.insert(ALLOCATION_ID_TAG.to_owned(), allocation.to_owned());
        host.tags.insert(MANAGEMENT_CLUSTER_TAG.to_owned(), management.to_owned());
        host.tags.insert(format!("{CLUSTER_TAG_PREFIX}c"), "owned".to_owned());
        host.allocated = Some(allocated.parse().unwrap());
        host
    }

    #[test]
    fn an_orphan_is_ours_old_empty_and_nobodys() {
        let old = "2026-01-01T10:00:00Z";
        let orphan = host("lost", "here", old);
        let count = |host: &Host, owners: &Owners| orphans(std::slice::from_ref(host), owners, "here", now()).len();
        let nobody = Owners { complete: true, ..Owners::default() };
        assert_eq!(count(&orphan, &nobody), 1);
        assert_eq!(cluster_of(&orphan), Some("c"));
        assert_eq!(count(&host("lost", "elsewhere", old), &nobody), 0, "another management cluster's");
        assert_eq!(count(&host("lost", "here", "2026-01-01T11:00:01Z"), &nobody), 0, "too young");
        let by_id = Owners { hosts: [orphan.id.clone()].into(), ..nobody.clone() };
        let by_allocation = Owners { allocations: ["lost".to_owned()].into(), ..nobody.clone() };
        assert_eq!((count(&orphan, &by_id), count(&orphan, &by_allocation)), (0, 0), "a journal names it");
        let released = Host { state: aws::port::HostState::Released, ..orphan.clone() };
        assert_eq!(count(&released, &nobody), 0);
        let mut used = orphan.clone();
        used.instances = vec![sample::hosted("i-0123456789abcdef0")];
        assert_eq!(count(&used, &nobody), 0);
        let mut retained = orphan;
        retained.tags.remove(ALLOCATION_ID_TAG);
        assert_eq!(count(&retained, &nobody), 0, "retained hosts are their owner's");
    }

    #[test]
    fn what_a_machine_left_to_be_released_is_due_at_its_time() {
        let mut left = host("a", "here", "2026-01-01T10:00:00Z");
        assert!(!is_pending(&left, now()));
        left.tags.insert(RELEASE_PENDING_TAG.to_owned(), "true".to_owned());
        assert!(is_pending(&left, now()));
        left.tags.insert(RELEASABLE_AFTER_TAG.to_owned(), "2026-01-02T00:00:00Z".to_owned());
        assert!(!is_pending(&left, now()));
    }

    #[test]
    fn a_journal_that_cannot_be_read_may_own_anything() {
        let mut machine = sample::machine();
        assert!(Owners::of([&machine]).complete);
        machine.journal = Err(crate::journal::JournalError { annotation: "a", detail: String::new() });
        assert!(!Owners::of([&machine]).complete);
        let mut known = sample::machine();
        known.journal = Ok(crate::journal::Journal {
            allocation: Some(sample::allocation().in_phase(crate::journal::Phase::Allocated, now())),
            ..crate::journal::Journal::default()
        });
        assert_eq!(Owners::of([&known]).allocations.len(), 1);
    }
}
