//! Looks for hosts that are paid for and belong to no machine. It reports them; it releases only where it was told to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::key::ObjectKey;
use api::meta::Versioned;
use api::names::HostId;
use api::names::hosts::{
    ALLOCATION_ID_TAG, AUTO_RELEASE_TAG, CLUSTER_TAG_PREFIX, MACHINE_NAME_TAG, MANAGEMENT_CLUSTER_TAG,
    RELEASABLE_AFTER_TAG, RELEASE_PENDING_TAG,
};
use api::raw::{AWSMachine, HostClaim};
use api::reasons::hosts::Reason;
use api::views::Cluster;
use aws::cloud::Cloud;
use aws::port::{Ec2, Host, HostQuery};
use jiff::Timestamp;
use kit::class::chain;
use kit::fault::{self, Side};
use kit::feed::{Feed, Phase};
use kit::room::{Driver, Room};
use kit::write::Target;
use kube::Api;
use kube::api::ListParams;
use tokio_util::sync::CancellationToken;

use crate::claim::{ClaimFacts, is_claimed};
use crate::facts::{MachineFacts, SYSTEM};
use crate::identity::SECRET;
use crate::journal::{Journal, JournalError, Scope};
use crate::observe::{at, words};
use crate::own::is_retained;
use crate::room::Keeper;
use crate::selfcheck::{Failed, denied};
use crate::shelf::{Age, Shelf};

/// A host younger than this is never an orphan: its journal comes first, but reads lag.
pub const YOUNGEST: Duration = Duration::from_secs(3_600);
/// Rights are looked at this soon after the start.
const FIRST_CHECK: Duration = Duration::from_secs(20);

/// Whom hosts belong to, by the journals of all machines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owners {
    /// Hosts that journals name.
    pub hosts: BTreeSet<HostId>,
    /// Allocations that journals name.
    pub allocations: BTreeSet<String>,
    /// Whether every journal could be read; what cannot be read may own anything.
    pub complete: bool,
    /// Whether the journals of claims are among them; without them nobody can say whose the hosts of claims are.
    pub claims: bool,
}

impl Owners {
    /// The owners among these machines.
    pub fn of<'a>(machines: impl IntoIterator<Item = &'a MachineFacts>) -> Self {
        let mut owners = Self { complete: true, ..Self::default() };
        for machine in machines {
            let shown = machine.status.dedicated_host.as_ref().and_then(|host| host.id.as_deref()?.parse().ok());
            owners.hosts.extend(shown);
            owners.count(&machine.journal);
        }
        owners
    }

    /// The same, and the owners among these claims.
    #[must_use]
    pub fn with_claims<'a>(mut self, claims: impl IntoIterator<Item = &'a ClaimFacts>) -> Self {
        self.claims = true;
        for claim in claims {
            self.count(&claim.journal);
        }
        self
    }

    fn count(&mut self, journal: &Result<Journal, JournalError>) {
        let Ok(journal) = journal else {
            self.complete = false;
            return;
        };
        if let Some(launch) = &journal.launch {
            self.allocations.insert(launch.id.to_string());
            self.hosts.extend(launch.host.clone());
        }
        if let Some(allocation) = &journal.allocation {
            self.allocations.insert(allocation.id.to_string());
            self.hosts.extend(allocation.hosts.iter().cloned());
        }
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
                && (owners.claims || !is_claimed(&host.tags))
                && !is_retained(&host.tags)
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

/// Whether a host that nobody owns may be given back without a person: whoever asked for it did not want to keep it.
#[must_use]
pub fn is_releasable(host: &Host) -> bool {
    host.tags.get(AUTO_RELEASE_TAG).is_none_or(|value| value != "false")
}

/// How long a region and identity are looked into after the last object that names them has gone: that is when leftovers
/// show.
const REMEMBERED: Duration = Duration::from_secs(24 * 3_600);

/// A region and identity, and who names them.
struct Place {
    scope: Scope,
    /// The AWSClusters and machines that name it; any that may use the identity opens it.
    named_by: BTreeSet<ObjectKey>,
    /// The AWSCluster that hears of its orphans.
    cloud: Option<ObjectKey>,
    seen: Timestamp,
}

/// Looks for orphans now and then.
pub struct Sweeper<C: Cloud> {
    driver: Arc<Driver<Keeper<C>>>,
    leadership: kit::lease::Leadership,
    seen: BTreeSet<HostId>,
    places: BTreeMap<(String, String), Place>,
    regions: BTreeSet<String>,
}

impl<C: Cloud> Sweeper<C> {
    /// Nothing was seen yet.
    #[must_use]
    pub fn new(driver: Arc<Driver<Keeper<C>>>, leadership: kit::lease::Leadership) -> Self {
        let (seen, places, regions) = (BTreeSet::new(), BTreeMap::new(), BTreeSet::new());
        Self { driver, leadership, seen, places, regions }
    }

    /// Looks once per interval until told to stop.
    pub async fn run(mut self, interval: Duration, stop: CancellationToken) {
        let (mut pause, mut checked) = (FIRST_CHECK.min(interval), false);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
            if !self.leadership.leads() || !self.driver.room().world.knows_machines() {
                continue;
            }
            if checked {
                self.sweep().await;
            } else {
                self.check_rights().await;
                (pause, checked) = (interval, true);
            }
        }
    }

    /// Tells which rights to look are missing, once, before anything is missed.
    async fn check_rights(&mut self) {
        let now = self.driver.room().clock.now();
        self.note_places(now);
        for place in self.places.values() {
            let Some(shelf) = self.enter(place).await else { continue };
            let (region, identity) = (&place.scope.region, crate::observe::name(&place.scope));
            for Failed { action, error } in denied(shelf.ec2()).await {
                let code = error.code().unwrap_or_default();
                tracing::warn!(%region, identity, action, code, "a right to look is missing; berth iam prints them all");
            }
        }
    }

    /// Takes note of every region and identity that a cluster or a journal names.
    fn note_places(&mut self, now: Timestamp) {
        let world = &self.driver.room().world;
        let mut named: Vec<(Scope, ObjectKey, bool)> = Vec::new();
        for (key, cloud) in world.clouds.all() {
            let Some(region) = cloud.region.as_deref().and_then(|region| region.parse().ok()) else { continue };
            named.push((Scope { region, identity: cloud.identity.clone(), account: None }, key, true));
        }
        for (key, machine) in world.machines.all() {
            let scope = machine.journal.as_ref().ok().and_then(|journal| journal.scope.clone());
            named.extend(scope.map(|scope| (Scope { account: None, ..scope }, key, false)));
        }
        for (key, claim) in self.claims() {
            let scope = claim.journal.as_ref().ok().and_then(|journal| journal.scope.clone());
            named.extend(scope.map(|scope| (Scope { account: None, ..scope }, key, false)));
        }
        for (scope, key, is_cloud) in named {
            let mut identity = crate::observe::name(&scope);
            if scope.identity.as_ref().is_some_and(|(kind, _)| kind == SECRET) {
                // Secrets of one name in two namespaces are two identities.
                identity = format!("{}/{identity}", key.namespace().unwrap_or_default());
            }
            let name = (scope.region.to_string(), identity);
            let place = self.places.entry(name).or_insert_with(|| Place {
                scope,
                named_by: BTreeSet::new(),
                cloud: None,
                seen: now,
            });
            if place.seen != now {
                (place.named_by, place.cloud, place.seen) = (BTreeSet::new(), None, now);
            }
            if is_cloud {
                place.cloud.get_or_insert_with(|| key.clone());
            }
            place.named_by.insert(key);
        }
        let young = |at: Timestamp| at.saturating_add(REMEMBERED).unwrap_or(Timestamp::MAX) > now;
        self.places.retain(|_, place| young(place.seen));
    }

    /// The claims that are served here, where the index of them is complete.
    fn claims(&self) -> Vec<(ObjectKey, Arc<ClaimFacts>)> {
        let all = self.driver.room().claims.get().filter(|claims| claims.phase() == Phase::Synced).map(Feed::all);
        let ours = |(key, claim): (ObjectKey, Arc<Option<Arc<ClaimFacts>>>)| Some((key, (*claim).clone()?));
        all.into_iter().flatten().filter_map(ours).collect()
    }

    /// The owners of hosts with those among the claims, if claims are served here and known.
    fn with_claims(&self, owners: Owners) -> Owners {
        match self.driver.room().claims.get().filter(|claims| claims.phase() == Phase::Synced) {
            Some(_) => owners.with_claims(self.claims().iter().map(|(_, claim)| &**claim)),
            None => owners,
        }
    }

    /// The way into a place: as the first of those that name it and may use its identity.
    async fn enter(&self, place: &Place) -> Option<Arc<Shelf<C::Ec2>>> {
        let spaces: BTreeSet<&str> = place.named_by.iter().filter_map(ObjectKey::namespace).collect();
        let mut why = "nobody names it any more".to_owned();
        for namespace in spaces {
            match self.driver.room().open(&place.scope, namespace).await {
                Ok(Ok(shelf)) => return Some(shelf),
                Ok(Err(obstacle)) => why = obstacle.message,
                Err(error) => why = chain(&error),
            }
        }
        tracing::warn!(region = %place.scope.region, error = why, "orphans not looked for");
        None
    }

    /// One look at all places.
    async fn sweep(&mut self) {
        let now = self.driver.room().clock.now();
        self.note_places(now);
        let room = self.driver.room();
        let world = &room.world;
        let Some(management) = at(&world.spaces, &ObjectKey::cluster_scoped(SYSTEM)).map(|s| s.uid.clone()) else {
            return;
        };
        let machines: Vec<Arc<MachineFacts>> = world.machines.all().into_iter().map(|(_, machine)| machine).collect();
        let owners = self.with_claims(Owners::of(machines.iter().map(|machine| &**machine)));
        let mut counts: BTreeMap<String, BTreeSet<HostId>> = BTreeMap::new();
        let mut unseen: BTreeSet<String> = BTreeSet::new();
        let mut found: BTreeSet<HostId> = BTreeSet::new();
        for place in self.places.values() {
            let region = place.scope.region.to_string();
            let Some(shelf) = self.enter(place).await else {
                unseen.insert(region);
                continue;
            };
            let hosts = match shelf.hosts(Age::AtMost(Duration::from_secs(60))).await {
                Ok(hosts) => hosts,
                Err(error) => {
                    tracing::warn!(region, error = words(&error, ""), "orphans not looked for");
                    unseen.insert(region);
                    continue;
                }
            };
            let counted = counts.entry(region).or_default();
            let mut give_back: Vec<HostId> = Vec::new();
            for host in orphans(&hosts.all, &owners, &management, now) {
                found.insert(host.id.clone());
                if !self.seen.contains(&host.id) || self.is_paused(host) || !counted.insert(host.id.clone()) {
                    continue;
                }
                self.tell(place.cloud.as_ref(), host).await;
                if (room.config.release_orphans || is_pending(host, now)) && is_releasable(host) && owners.complete {
                    give_back.push(host.id.clone());
                }
            }
            if !give_back.is_empty() {
                self.release(place, &shelf, give_back, &management).await;
            }
        }
        // A region that nobody names any more has no orphans that we know of; one that could not be seen keeps its count.
        for region in self.regions.iter().filter(|region| !counts.contains_key(*region) && !unseen.contains(*region)) {
            room.metrics.orphans(region, 0);
        }
        for (region, hosts) in &counts {
            room.metrics.orphans(region, hosts.len());
        }
        self.regions = counts.into_keys().chain(unseen).collect();
        self.seen = found;
    }

    /// Whether the cluster of a host is paused: then its machines may be on their way to another management cluster.
    fn is_paused(&self, host: &Host) -> bool {
        let clusters = &self.driver.room().world.clusters;
        let Some(name) = cluster_of(host) else { return false };
        clusters.all().iter().any(|(key, cluster)| key.name() == name && cluster.paused)
    }

    async fn tell(&self, cloud: Option<&ObjectKey>, host: &Host) {
        let room = self.driver.room();
        let cluster = cluster_of(host).unwrap_or("unknown");
        tracing::warn!(host_id = %host.id, cluster, "a host that is paid for belongs to no machine");
        let Some(cloud) = cloud else { return };
        let message = format!("host {} of cluster {cluster} is paid for and belongs to no machine", host.id);
        // Machines are remembered by their names too, and may have the same one.
        let remembered =
            ObjectKey::namespaced(cloud.namespace().unwrap_or_default(), format!("AWSCluster/{}", cloud.name()));
        if room.memories.is_new(&remembered, &message) {
            let clouds = &room.world.clouds;
            let version = at(clouds, cloud).and_then(|facts| clouds.version(cloud, &facts));
            let uid = version.map(|version| version.uid).unwrap_or_default();
            let target = Target { kind: clouds.kind(), key: cloud.clone(), uid };
            room.tell(&target, true, Reason::DedicatedHostFailed.as_str(), &message).await;
        }
    }

    /// Releases hosts that are still nobody's when the server and EC2 are asked once more.
    async fn release(&self, place: &Place, shelf: &Shelf<C::Ec2>, hosts: Vec<HostId>, management: &str) {
        let still = match self.proven(shelf, hosts, management).await {
            Ok(still) => still,
            Err(why) => {
                tracing::warn!(error = why, "orphans not released");
                return;
            }
        };
        for chunk in still.chunks(100) {
            // A look may take minutes, and another process may lead by now.
            if !self.leadership.leads() {
                return;
            }
            // Told before it is asked for: the answer may be lost.
            for host in chunk {
                self.log_release(place, host, management);
            }
            let ids: Vec<HostId> = chunk.iter().map(|host| host.id.clone()).collect();
            fault::point(<Keeper<C> as Room>::NAME, "ReleaseOrphans", Side::Before).await;
            let answer = shelf.ec2().release_hosts(&ids).await;
            fault::point(<Keeper<C> as Room>::NAME, "ReleaseOrphans", Side::After).await;
            match answer {
                Ok(judged) => {
                    for host in judged.done {
                        tracing::info!(region = %place.scope.region, host_id = %host, "orphan released");
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

    /// Who asked for an orphan to be released, and what proves that it is one.
    fn log_release(&self, place: &Place, host: &Host, management: &str) {
        let tag = |key: &str| host.tags.get(key).map(String::as_str).unwrap_or_default();
        let pending = is_pending(host, self.driver.room().clock.now());
        tracing::info!(
            region = %place.scope.region, identity = crate::observe::name(&place.scope),
            cluster = cluster_of(host).unwrap_or_default(), host_id = %host.id,
            reason = if pending { "left by its machine to be released" } else { "orphans are released" },
            proof = "no journal names host or allocation, and nothing is on it",
            allocation = tag(ALLOCATION_ID_TAG), machine = tag(MACHINE_NAME_TAG), management,
            allocated = ?host.allocated, state = ?host.state,
            "an orphan is being released"
        );
    }

    /// Which of these hosts are nobody's by what the server and EC2 say now, indexes and lists aside.
    async fn proven(&self, shelf: &Shelf<C::Ec2>, hosts: Vec<HostId>, management: &str) -> Result<Vec<Host>, String> {
        let room = self.driver.room();
        let client = || room.writer.client().clone();
        let machines: Api<Versioned<AWSMachine>> = Api::all_with(client(), &room.world.machines.kind().resource());
        let clusters: Api<Versioned<Cluster>> = Api::all_with(client(), &room.world.clusters.kind().resource());
        let machines = machines.list(&ListParams::default()).await.map_err(|error| chain(&error))?;
        let clusters = clusters.list(&ListParams::default()).await.map_err(|error| chain(&error))?;
        let machines: Vec<MachineFacts> = machines.items.into_iter().map(|Versioned(m)| MachineFacts::of(m)).collect();
        let mut owners = Owners::of(&machines);
        if let Some(claims) = room.claims.get() {
            let claims: Api<Versioned<HostClaim>> = Api::all_with(client(), &claims.kind().resource());
            let claims = claims.list(&ListParams::default()).await.map_err(|error| chain(&error))?;
            let claims: Vec<ClaimFacts> =
                claims.items.into_iter().filter_map(|Versioned(claim)| ClaimFacts::of(claim)).collect();
            owners = owners.with_claims(&claims);
        }
        if !owners.complete {
            return Err("a journal cannot be read, and may own anything".to_owned());
        }
        let paused: BTreeSet<String> = clusters
            .items
            .into_iter()
            .filter(|Versioned(cluster)| cluster.spec.paused)
            .filter_map(|Versioned(cluster)| cluster.metadata.name)
            .collect();
        let shown = shelf.ec2().describe_hosts(&HostQuery::Ids(hosts)).await.map_err(|error| words(&error, ""))?;
        let rests = |host: &Host| cluster_of(host).is_some_and(|cluster| paused.contains(cluster));
        let still = orphans(&shown, &owners, management, room.clock.now()).into_iter();
        Ok(still.filter(|host| is_releasable(host) && !rests(host)).cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use api::names::hosts::RETAINED_TAG;

    use super::*;
    use crate::journal::Phase;
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
        let mut retained = orphan.clone();
        retained.tags.remove(ALLOCATION_ID_TAG);
        assert_eq!(count(&retained, &nobody), 0, "retained hosts are their owner's");
        let mut leaving = orphan.clone();
        leaving.tags.insert(RETAINED_TAG.to_owned(), "true".to_owned());
        assert_eq!(count(&leaving, &nobody), 0, "and so is one whose id was to be taken off next");
        let mut wanted = orphan;
        wanted.tags.insert(AUTO_RELEASE_TAG.to_owned(), "false".to_owned());
        assert_eq!((count(&wanted, &nobody), is_releasable(&wanted)), (1, false), "told, and left to a person");
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
        machine.journal = Err(JournalError { annotation: "a", detail: String::new() });
        assert!(!Owners::of([&machine]).complete);
        let mut known = sample::machine();
        known.journal = Ok(Journal {
            allocation: Some(sample::allocation().in_phase(Phase::Allocated, now())),
            ..Journal::default()
        });
        assert_eq!(Owners::of([&known]).allocations.len(), 1);
    }
}
