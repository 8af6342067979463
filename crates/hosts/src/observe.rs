//! Gathers one snapshot of a machine: from the indexes, and from EC2 as far as the next decision depends on it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use api::key::ObjectKey;
use api::names::hosts::{ALLOCATION_ID_TAG, MACHINE_NAME_TAG};
use api::names::{HostId, ImageId, InstanceType, SecurityGroupId};
use aws::cloud::Cloud;
use aws::errors::Error as Ec2Error;
use aws::port::{Ec2, Host, HostQuery, Instance, InstanceQuery};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kit::class::chain;
use kit::feed::{Feed, Project, Seen, Version};
use kit::write::Target;
use kube::Api;

use crate::classes::Class;
use crate::decide::{Gate, gate};
use crate::facts::{CloudFacts, ClusterFacts, MachineFacts, SYSTEM};
use crate::journal::{AllocationId, Journal, Phase, Scope};
use crate::names::cluster_tag;
use crate::obstacle::{About, Obstacle};
use crate::placement::{self, Need};
use crate::request::{self, Recipe};
use crate::room::{Error, Keeper, read};
use crate::shelf::{Shelf, missing_is_none};
use crate::snapshot::{Preflight, Sight, Sky, Snapshot, Usage};
use crate::{groups, memory, tags, userdata};

/// Lists may be this old while a machine is on its way: many machines on their way ask together.
const AT_ONCE: Duration = Duration::from_secs(2);

/// After so many refused writes in a row the server is asked instead of the index.
const CONFLICTS: u32 = 3;

/// What EC2 said no to, in words for people.
pub(crate) fn obstacle(about: About, error: &Ec2Error, identity: &str) -> Obstacle {
    let class = Class::of(error.kind());
    Obstacle { about, class, message: words(error, identity), fatal: false }
}

/// An error of EC2 in words for people: what was called, what it said, and as whom.
pub(crate) fn words(error: &Ec2Error, identity: &str) -> String {
    let said = match (error.code(), error.message()) {
        (Some(code), Some(message)) => format!("ec2:{} failed: {code}: {message}", error.operation()),
        _ => chain(error),
    };
    // Conditions are cut at their end, and EC2 talks a lot: what it leaves out comes first.
    match Class::of(error.kind()) {
        Class::Permission => format!("called as {identity}: {said}"),
        Class::HostQuota => format!("quota Running Dedicated Hosts of the family (Service Quotas): {said}"),
        _ => said,
    }
}

pub(crate) fn at<P: Project>(feed: &Feed<P>, key: &ObjectKey) -> Option<Arc<P::Slim>> {
    match feed.get(key) {
        Seen::At(slim) => Some(slim),
        Seen::Absent | Seen::Behind => None,
    }
}

impl<C: Cloud> Keeper<C> {
    /// Gathers the snapshot of a machine; none when it is gone.
    pub(crate) async fn gather(&self, key: &ObjectKey, now: Timestamp) -> Result<Option<Snapshot>, Error> {
        let Some((machine, version)) = self.machine(key).await? else {
            self.memories.forget(key);
            return Ok(None);
        };
        let mut snapshot = self.around(key, machine, version, now);
        match gate(&snapshot) {
            Gate::Go => {}
            Gate::Delete => {
                let made = snapshot.journal() != Journal::default() || snapshot.machine.instance().is_some();
                if snapshot.machine.journal.is_err() || !made || !snapshot.machine.has_finalizer() {
                    return Ok(Some(snapshot));
                }
            }
            _ => return Ok(Some(snapshot)),
        }
        let Some(scope) = snapshot.scope.clone() else { return Ok(Some(snapshot)) };
        let identity = name(&scope);
        let shelf = match self.open(&scope, key.namespace().unwrap_or_default()).await? {
            Ok(shelf) => shelf,
            Err(obstacle) => {
                snapshot.sky = Sky::Clouded(obstacle);
                return Ok(Some(snapshot));
            }
        };
        match self.look(&shelf, &snapshot).await {
            Ok(sight) => snapshot.sky = Sky::Clear(Box::new(sight)),
            Err(error) => {
                if Class::of(error.kind()) == Class::Permission {
                    // Credentials may have been replaced; the next look opens the door anew.
                    self.shelves.forget(shelf.door());
                }
                snapshot.sky = Sky::Clouded(obstacle(About::Instance, &error, &identity));
                return Ok(Some(snapshot));
            }
        }
        if !snapshot.machine.deleting {
            self.prepare(&shelf, &mut snapshot, &identity).await?;
        }
        Ok(Some(snapshot))
    }

    /// The machine and its version: from the index, unless the server has refused again and again what was decided on
    /// it. An index that missed a change would otherwise be believed for as long as its watch lasts.
    async fn machine(&self, key: &ObjectKey) -> Result<Option<(Arc<MachineFacts>, Version)>, Error> {
        if self.memories.of(key).conflicts < CONFLICTS {
            return match self.world.machines.get(key) {
                Seen::At(machine) => {
                    let version = self.world.machines.version(key, &machine).ok_or(Error::Behind)?;
                    Ok(Some((machine, version)))
                }
                Seen::Absent => Ok(None),
                Seen::Behind => Err(Error::Behind),
            };
        }
        let Some(live) = self.fetch(key).await? else { return Ok(None) };
        if let Seen::At(seen) = self.world.machines.get(key)
            && self.world.machines.version(key, &seen).as_ref() == Some(&live.version)
        {
            self.memories.change(key, |memory| memory.conflicts = 0);
        }
        Ok(Some((Arc::new(live.facts), live.version)))
    }

    fn around(&self, key: &ObjectKey, machine: Arc<MachineFacts>, version: Version, now: Timestamp) -> Snapshot {
        let namespace = key.namespace().unwrap_or_default();
        let named = |name: &str| ObjectKey::namespaced(namespace, name);
        let owner = machine.owner.as_deref().and_then(|name| at(&self.world.owners, &named(name)));
        let cluster_name = owner.as_ref().and_then(|owner| owner.cluster.clone()).or_else(|| machine.cluster.clone());
        let cluster = cluster_name.as_deref().and_then(|name| at(&self.world.clusters, &named(name)));
        let cloud = cluster.as_deref().and_then(|cluster: &ClusterFacts| {
            let reference = cluster.infrastructure.as_ref().filter(|reference| reference.kind == "AWSCluster")?;
            at(&self.world.clouds, &named(&reference.name))
        });
        let journal = machine.journal.clone().unwrap_or_default();
        let memory = self.memories.of(key);
        let usage = cluster_name.as_deref().map(|name| self.usage(namespace, name, now)).unwrap_or_default();
        let management = at(&self.world.spaces, &ObjectKey::cluster_scoped(SYSTEM)).map(|space| space.uid.clone());
        Snapshot {
            key: key.clone(),
            target: Target { kind: self.world.machines.kind(), key: key.clone(), uid: machine.uid.clone() },
            now,
            config: Arc::clone(&self.config),
            scope: scope_of(cloud.as_deref(), &journal),
            machine,
            version,
            owner,
            cluster,
            cloud,
            management: management.filter(|uid| !uid.is_empty()),
            sky: Sky::NotAsked,
            preflight: None,
            groups: None,
            fresh: AllocationId::of(self.clock.roll(), self.clock.roll()),
            usage,
            mishap: memory.mishap,
            refusals: memory.refusals,
            tries: memory.tries,
        }
    }

    /// Intents of the machines of a cluster, as the index shows them.
    pub(crate) fn shown(&self, namespace: &str, cluster: &str) -> Vec<memory::Shown> {
        let machines = self.world.machines.by("cluster", &format!("{namespace}/{cluster}"));
        let mut all = Vec::new();
        for (key, machine) in machines {
            let Ok(journal) = &machine.journal else { continue };
            let Some(allocation) = &journal.allocation else { continue };
            let hosts = match allocation.phase {
                Phase::Intended => allocation.terms.quantity,
                Phase::Allocated | Phase::Releasing => u32::try_from(allocation.hosts.len()).unwrap_or(u32::MAX),
                Phase::Released | Phase::Retained | Phase::Abandoned => 0,
            };
            let (epoch, quantity, at) = (allocation.epoch, allocation.terms.quantity, allocation.at);
            all.push(memory::Shown { key, epoch, hosts, quantity, at });
        }
        all
    }

    fn usage(&self, namespace: &str, cluster: &str, now: Timestamp) -> Usage {
        let shown = self.shown(namespace, cluster);
        let (hosts, recent) = self.ledger.count(&format!("{namespace}/{cluster}"), &shown, now);
        Usage { hosts, recent }
    }

    /// What EC2 shows of a machine.
    async fn look(&self, shelf: &Shelf<C::Ec2>, s: &Snapshot) -> Result<Sight, Ec2Error> {
        let steady = s.machine.status.ready == Some(true) && !s.machine.deleting && s.mishap.is_none();
        let age = if steady { self.config.describe_interval } else { AT_ONCE };
        let mut sight = Sight { instances: self.instances(shelf, s, age).await?, ..Sight::default() };
        self.hosts(shelf, s, age, &mut sight).await?;
        let network = s.instance().or(sight.instances.first()).and_then(|instance| instance.vpc.clone());
        if let Some(vpc) = network.filter(|_| !s.machine.deleting) {
            // Names are a courtesy: without the right to read them the machine goes on.
            sight.domains = shelf.domains(&vpc).await.map(|domains| domains.to_vec()).unwrap_or_default();
        }
        Ok(sight)
    }

    /// The instances of a machine: by id, by token, by tag.
    async fn instances(&self, shelf: &Shelf<C::Ec2>, s: &Snapshot, age: Duration) -> Result<Vec<Instance>, Ec2Error> {
        let all = shelf.instances(age).await?;
        let journal = s.journal();
        let id = journal.launch.as_ref().map(|l| &l.id).or(journal.allocation.as_ref().map(|a| &a.id));
        let named = s.machine.instance();
        let pair = s.cluster_name().zip(s.machine.owner.as_deref()).map(|(cluster, owner)| {
            (cluster_tag(cluster), format!("{}/{owner}", s.key.namespace().unwrap_or_default()))
        });
        let is_ours = |instance: &&Instance| {
            let tag = |key: &str, value: &str| instance.tags.get(key).is_some_and(|found| found == value);
            Some(&instance.id) == named.as_ref()
                || journal.launch.as_ref().is_some_and(|l| instance.client_token.as_deref() == Some(l.token.as_str()))
                || id.is_some_and(|id| tag(ALLOCATION_ID_TAG, id.as_str()))
                || pair.as_ref().is_some_and(|(cluster, machine)| {
                    // Names come back: an instance that ended before is another machine's, and so is one with an id of its own.
                    tag(cluster, "owned")
                        && tag(MACHINE_NAME_TAG, machine)
                        && !instance.tags.contains_key(ALLOCATION_ID_TAG)
                        && named.is_none()
                        && crate::snapshot::is_alive(&instance.state)
                })
        };
        let mut found: Vec<Instance> = all.iter().filter(is_ours).cloned().collect();
        if let Some(id) = &named
            && !found.iter().any(|instance| instance.id == *id)
        {
            let asked = shelf.ec2().describe_instances(&InstanceQuery::Ids(vec![id.clone()])).await;
            found.extend(missing_is_none(asked, |_| false)?.unwrap_or_default());
        }
        if let Some(launch) = &journal.launch
            && found.is_empty()
        {
            found = shelf.ec2().describe_instances(&InstanceQuery::by_token(&launch.token)).await?;
        }
        Ok(found)
    }

    /// The hosts of a machine: by journal, by token, by tag, and the one its instance is on.
    async fn hosts(
        &self,
        shelf: &Shelf<C::Ec2>,
        s: &Snapshot,
        age: Duration,
        sight: &mut Sight,
    ) -> Result<(), Ec2Error> {
        if !s.is_dynamic() && s.journal().allocation.is_none() {
            return Ok(());
        }
        let mut hosts: BTreeMap<HostId, Host> = BTreeMap::new();
        let mut add = |host: Host| drop(hosts.insert(host.id.clone(), host));
        let listed = shelf.hosts(age).await?;
        let journal = s.journal();
        let mut wanted: Vec<HostId> = sight.instances.iter().filter_map(|instance| instance.host.clone()).collect();
        if let Some(allocation) = &journal.allocation {
            wanted.extend(allocation.hosts.iter().cloned());
            let tagged = |host: &&Host| host.tags.get(ALLOCATION_ID_TAG).is_some_and(|id| id == allocation.id.as_str());
            listed.iter().filter(tagged).cloned().for_each(&mut add);
            if allocation.phase == Phase::Intended {
                shelf
                    .ec2()
                    .describe_hosts(&HostQuery::by_token(&allocation.token))
                    .await?
                    .into_iter()
                    .for_each(&mut add);
            }
        }
        let shown = s.machine.status.dedicated_host.as_ref().and_then(|host| host.id.as_deref()?.parse().ok());
        wanted.extend(shown);
        wanted.sort();
        wanted.dedup();
        for id in wanted {
            if let Some(host) = listed.iter().find(|host| host.id == id) {
                hosts.insert(id, host.clone());
            } else if let Entry::Vacant(unseen) = hosts.entry(id.clone()) {
                let asked = shelf.ec2().describe_hosts(&HostQuery::Ids(vec![id.clone()])).await;
                match missing_is_none(asked, |_| false)?.unwrap_or_default().into_iter().next() {
                    Some(host) => drop(unseen.insert(host)),
                    None => drop(sight.unknown_hosts.insert(id)),
                }
            }
        }
        sight.hosts = hosts;
        Ok(())
    }

    /// What a launch or a running instance needs.
    async fn prepare(&self, shelf: &Shelf<C::Ec2>, s: &mut Snapshot, identity: &str) -> Result<(), Error> {
        let Some(cloud) = s.cloud.clone() else { return Ok(()) };
        let alive = s.instance().is_some_and(|instance| crate::snapshot::is_alive(&instance.state));
        let known = s.instance().is_some() || s.machine.instance().is_some();
        if known && !alive {
            return Ok(());
        }
        s.groups = Some(self.groups(shelf, s, &cloud, identity).await);
        if !known {
            s.preflight = Some(self.preflight(shelf, s, &cloud, identity).await?.map(Box::new));
        }
        Ok(())
    }

    async fn groups(
        &self,
        shelf: &Shelf<C::Ec2>,
        s: &Snapshot,
        cloud: &CloudFacts,
        identity: &str,
    ) -> Result<Vec<SecurityGroupId>, Obstacle> {
        let mut additional = Vec::new();
        for (index, reference) in s.machine.spec.additional_security_groups.iter().enumerate() {
            let path = format!("spec.additionalSecurityGroups[{index}]");
            if let Some(id) = reference.id.as_deref().filter(|id| !id.is_empty()) {
                let bad = |error| Obstacle::terminal(About::Groups, format!("{path}.id: {error}"));
                additional.push(id.parse().map_err(bad)?);
            } else if !reference.filters.is_empty() {
                let filters = reference.filters.iter();
                let filters = filters.map(|f| aws::port::Filter::new(&f.name, f.values.iter().cloned())).collect();
                let found = shelf.groups(filters).await.map_err(|e| obstacle(About::Groups, &e, identity))?;
                if found.is_empty() {
                    let message = format!("{path}.filters: EC2 finds no such security group");
                    return Err(Obstacle::dependency(About::Groups, message));
                }
                additional.extend(found);
            }
        }
        groups::wanted(cloud, &s.machine.spec.security_group_overrides, s.is_control_plane(), &additional)
    }

    /// Everything that can fail without a host fails before a host is paid for.
    async fn preflight(
        &self,
        shelf: &Shelf<C::Ec2>,
        s: &Snapshot,
        cloud: &CloudFacts,
        identity: &str,
    ) -> Result<Result<Preflight, Obstacle>, Error> {
        let secret = match s.owner.as_ref().and_then(|owner| owner.data_secret.as_deref()) {
            Some(name) => self.bootstrap(s.key.namespace().unwrap_or_default(), name).await?,
            None => None,
        };
        Ok(self.judge(shelf, s, cloud, identity, secret).await)
    }

    async fn judge(
        &self,
        shelf: &Shelf<C::Ec2>,
        s: &Snapshot,
        cloud: &CloudFacts,
        identity: &str,
        secret: Option<BTreeMap<String, Vec<u8>>>,
    ) -> Result<Preflight, Obstacle> {
        let spec = &s.machine.spec;
        let asked = |about| move |error: Ec2Error| obstacle(about, &error, identity);
        let terminal = |about, message: String| Obstacle::terminal(about, message);
        let type_: InstanceType = spec
            .instance_type
            .parse()
            .map_err(|error| terminal(About::Instance, format!("spec.instanceType: {error}")))?;
        let region = &shelf.door().region;
        let facts = shelf.type_facts(&type_).await.map_err(asked(About::Instance))?;
        let Some(facts) = facts else {
            return Err(terminal(About::Instance, format!("spec.instanceType: EC2 knows no type {type_} in {region}")));
        };
        if s.is_dynamic() && !facts.dedicated_hosts {
            return Err(terminal(About::Host, format!("type {type_} does not run on dedicated hosts")));
        }
        let Some(image) = spec.ami.id.as_deref().filter(|id| !id.is_empty()) else {
            let version = s.owner.as_ref().is_some_and(|owner| owner.version.is_some());
            let message = if version {
                "image lookup is not built yet: give spec.ami.id"
            } else {
                "neither spec.ami.id nor a version of the Machine says which image to launch"
            };
            return Err(Obstacle { fatal: !version, ..terminal(About::Instance, message.to_owned()) });
        };
        let id: ImageId = image.parse().map_err(|error| terminal(About::Instance, format!("spec.ami.id: {error}")))?;
        let Some(image) = shelf.image(&id).await.map_err(asked(About::Instance))? else {
            return Err(terminal(About::Instance, format!("spec.ami.id: EC2 knows no image {id} in {region}")));
        };
        let fits = image.architecture.as_ref().is_none_or(|needed| facts.architectures.contains(needed));
        if !fits {
            let needed = image.architecture.as_ref().map(ToString::to_string).unwrap_or_default();
            let message = format!("image {id} is for {needed}, and type {type_} is not");
            return Err(terminal(About::Instance, message));
        }
        let place = self.place(shelf, s, cloud, identity).await?;
        let groups = s.groups.clone().unwrap_or_else(|| Ok(Vec::new()))?;
        if s.is_control_plane() && !cloud.external && cloud.balancer.is_none() {
            let message = "the load balancer of the API has no name yet, and a control plane needs it";
            return Err(Obstacle::dependency(About::Instance, message));
        }
        let Some(secret) = secret else {
            return Err(Obstacle::dependency(About::Instance, "the bootstrap secret of the Machine is not there"));
        };
        let user_data = userdata::prepare(&secret, spec)?;
        let journal = s.journal();
        let id = journal.launch.as_ref().map(|l| &l.id).or(journal.allocation.as_ref().map(|a| &a.id));
        let Some(belonging) = self.belonging(s, id.unwrap_or(&s.fresh)) else {
            let message = "the namespace kube-system, which names this management cluster, is not known yet";
            return Err(Obstacle::dependency(About::Instance, message));
        };
        let tags = tags::merged([&cloud.tags, &spec.additional_tags], &belonging);
        if tags.len() > api::names::hosts::MOST_TAGS {
            let message =
                format!("the instance would have {} tags, and EC2 takes {}", tags.len(), api::names::hosts::MOST_TAGS);
            return Err(terminal(About::Instance, message));
        }
        let (tenancy, affinity) = request::tenancy(spec);
        let recipe = Recipe {
            block_devices: request::block_devices(spec, &image)?,
            image: image.id.clone(),
            instance_type: type_,
            groups,
            key_name: request::ssh_key(spec.ssh_key_name.as_deref(), cloud),
            profile: spec.iam_instance_profile.clone().filter(|name| !name.is_empty()),
            public_ip: spec.public_ip,
            metadata: request::metadata(spec)?,
            user_data,
            tenancy,
            affinity,
            tags,
        };
        Ok(Preflight { recipe, place })
    }

    fn belonging(&self, s: &Snapshot, id: &AllocationId) -> Option<tags::Belonging> {
        crate::decide::belonging(s, id)
    }

    async fn place(
        &self,
        shelf: &Shelf<C::Ec2>,
        s: &Snapshot,
        cloud: &CloudFacts,
        identity: &str,
    ) -> Result<placement::Place, Obstacle> {
        let spec = &s.machine.spec;
        let need = Need {
            failure_domain: s.owner.as_ref().and_then(|owner| owner.failure_domain.as_deref()),
            host_zone: spec.dynamic_host_allocation.as_ref().and_then(|d| d.availability_zone.as_deref()),
            public: spec.public_ip == Some(true),
        };
        let named = spec
            .subnet
            .as_ref()
            .filter(|subnet| subnet.id.as_deref().is_some_and(|id| !id.is_empty()) || !subnet.filters.is_empty());
        let Some(reference) = named else { return placement::among_listed(&need, cloud) };
        if let Some(id) = reference.id.as_deref().filter(|id| !id.is_empty())
            && let Err(error) = id.parse::<api::names::SubnetId>()
        {
            return Err(Obstacle::terminal(About::Instance, format!("spec.subnet.id: {error}")));
        }
        let (ids, filters) = placement::question(reference);
        let found = shelf.subnets(ids, filters).await.map_err(|error| obstacle(About::Instance, &error, identity))?;
        placement::among_described(&found, &need, cloud)
    }

    async fn bootstrap(&self, namespace: &str, name: &str) -> Result<Option<BTreeMap<String, Vec<u8>>>, Error> {
        let api: Api<Secret> = Api::namespaced(self.writer.client().clone(), namespace);
        let found = api.get_opt(name).await.map_err(read(|| format!("Secret {namespace}/{name}")))?;
        Ok(found.map(|secret| secret.data.unwrap_or_default().into_iter().map(|(k, v)| (k, v.0)).collect()))
    }
}

/// Where and as whom EC2 is called. What was made in a region is looked for there, whatever the cluster says now; as whom
/// is the cluster's to say, as long as it is there.
fn scope_of(cloud: Option<&CloudFacts>, journal: &Journal) -> Option<Scope> {
    let now = cloud.and_then(|cloud| {
        let region = cloud.region.as_deref()?.parse().ok()?;
        Some(Scope { region, identity: cloud.identity.clone() })
    });
    match (now, journal.scope.clone()) {
        (Some(now), Some(then)) => Some(Scope { region: then.region, identity: now.identity }),
        (now, then) => now.or(then),
    }
}

/// The name of an identity, for people.
pub(crate) fn name(scope: &Scope) -> String {
    match &scope.identity {
        Some((kind, name)) => format!("{kind} {name}"),
        None => "the controller's own identity".to_owned(),
    }
}
