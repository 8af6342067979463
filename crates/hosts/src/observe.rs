//! Gathers one snapshot of a machine: from the indexes, and from EC2 as far as the next decision depends on it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use api::key::ObjectKey;
use api::names::hosts::ALLOCATION_ID_TAG;
use api::names::{AccountId, HostId, ImageId, InstanceType, SecurityGroupId};
use api::own::{ResourceFilter, ResourceReference};
use aws::cloud::Cloud;
use aws::errors::Error as Ec2Error;
use aws::port::{Ec2, Host, HostQuery, Instance, InstanceQuery, InstanceState};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kit::class::chain;
use kit::feed::{Feed, Project, Seen};
use kit::secret::Secret as Private;
use kit::write::Target;
use kube::Api;
use tokio::time::Instant;

use crate::asker::{Around, Asked, Asker};
use crate::claim::ClaimFacts;
use crate::classes::Class;
use crate::decide::{Gate, gate};
use crate::facts::{CloudFacts, SYSTEM};
use crate::journal::{AllocationId, Journal, Phase, Scope};
use crate::obstacle::{About, Obstacle};
use crate::placement::{self, Need};
use crate::request::{self, Recipe};
use crate::room::{Error, Keeper, read};
use crate::shelf::{Age, Shelf, missing_is_none};
use crate::snapshot::{Preflight, Sight, Sky, Snapshot, Usage};
use crate::{groups, tags, userdata};

/// After so many refused writes in a row the server is asked instead of the index.
const CONFLICTS: u32 = 3;

/// What EC2 said no to, in words for people.
pub(crate) fn obstacle(about: About, error: &Ec2Error, identity: &str) -> Obstacle {
    let class = Class::of(error.kind());
    Obstacle::private(about, class, words(error, identity))
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

impl<C: Cloud, A: Asker> Keeper<C, A> {
    /// Gathers the snapshot of a machine; none when it is gone.
    pub(crate) async fn gather(&self, key: &ObjectKey, now: Timestamp) -> Result<Option<Snapshot>, Error> {
        let Some(asked) = self.asked(key).await? else {
            self.memories.forget(key);
            self.asker.gone(key);
            return Ok(None);
        };
        let mut snapshot = self.around(key, asked, now);
        match gate(&snapshot) {
            Gate::Go => {}
            Gate::Delete => {
                let made = snapshot.journal() != Journal::default()
                    || snapshot.machine.instance().is_some()
                    || snapshot.shown_host().is_some();
                if snapshot.machine.journal.is_err() || !made || !snapshot.machine.has_finalizer() {
                    return Ok(Some(snapshot));
                }
            }
            _ => return Ok(Some(snapshot)),
        }
        let Some(scope) = snapshot.scope.clone() else { return Ok(Some(snapshot)) };
        let identity = name(&scope);
        let shelf = match self.unlock(&scope, key.namespace().unwrap_or_default()).await? {
            Ok(shelf) => shelf,
            Err(lack) => {
                self.metrics.lacks.tell(A::NAME, key, lack.kind, lack.reason);
                snapshot.sky = Sky::Clouded(lack.obstacle);
                return Ok(Some(snapshot));
            }
        };
        let account = self.shelves.account(&shelf).await;
        if let Some(obstacle) = abroad(&scope, &account) {
            snapshot.sky = Sky::Clouded(obstacle);
            return Ok(Some(snapshot));
        }
        snapshot.account = account.ok();
        match self.look(&shelf, &snapshot).await {
            Ok(sight) => snapshot.sky = Sky::Clear(Box::new(sight)),
            Err(error) => {
                if Class::of(error.kind()) == Class::Permission {
                    // Credentials may have been replaced; the next look opens the door anew, though not for every machine.
                    self.shelves.forget_old(&shelf);
                }
                snapshot.sky = Sky::Clouded(obstacle(About::Instance, &error, &identity));
                return Ok(Some(snapshot));
            }
        }
        if snapshot.machine.deleting {
            shelf.turns().forget(key);
        } else {
            self.prepare(&shelf, &mut snapshot, &identity).await?;
            if begins(&snapshot) {
                snapshot.full = self.asker.quota(&snapshot);
                snapshot.turn = snapshot.full.is_none().then(|| shelf.turns().of(key, now));
                match self.pool(&shelf, &snapshot).await {
                    Ok(pool) => snapshot.pool = pool,
                    Err(error) => snapshot.sky = Sky::Clouded(obstacle(About::Host, &error, &identity)),
                }
            }
        }
        if snapshot.pool.is_none() {
            snapshot.pool = self.heirs(&snapshot).await?;
        }
        Ok(Some(snapshot))
    }

    /// What is asked for: from the index, unless the server has refused again and again what was decided on it. An index
    /// that missed a change would otherwise be believed for as long as its watch lasts.
    async fn asked(&self, key: &ObjectKey) -> Result<Option<Asked>, Error> {
        if self.memories.of(key).conflicts < CONFLICTS {
            return self.asker.seen(key);
        }
        let Some(live) = self.asker.fetch(self.writer.client().clone(), key).await? else { return Ok(None) };
        if matches!(self.asker.seen(key), Ok(Some(seen)) if seen.version == live.version) {
            self.memories.change(key, |memory| memory.conflicts = 0);
        }
        Ok(Some(live))
    }

    fn around(&self, key: &ObjectKey, asked: Asked, now: Timestamp) -> Snapshot {
        let Around { owner, cluster, cloud } = self.asker.around(key, &asked);
        let Asked { machine, claim, version } = asked;
        let journal = machine.journal.clone().unwrap_or_default();
        let memory = self.memories.of(key);
        let management = at(&self.world.spaces, &ObjectKey::cluster_scoped(SYSTEM)).map(|space| space.uid.clone());
        // The uid of a claim is the token of everything that is ordered for it.
        let uid = claim.as_ref().and_then(|claim| claim.uid.parse().ok());
        let ago = |at: &Instant| self.clock.instant().saturating_duration_since(*at);
        let ended_at = memory.first_ended.as_ref().map(ago).and_then(|ago| now.checked_sub(ago).ok());
        let mut snapshot = Snapshot {
            key: key.clone(),
            target: Target { kind: self.asker.kind(), key: key.clone(), uid: machine.uid.clone() },
            now,
            config: Arc::clone(&self.config),
            scope: scope_of(cloud.as_deref(), &journal),
            machine,
            claim,
            version,
            owner,
            cluster,
            cloud,
            account: None,
            management: management.filter(|uid| !uid.is_empty()),
            sky: Sky::NotAsked,
            preflight: None,
            pool: None,
            groups: None,
            fresh: uid.unwrap_or_else(|| AllocationId::of(self.clock.roll(), self.clock.roll())),
            usage: Usage::default(),
            full: None,
            mishap: memory.mishap,
            refusals: memory.refusals,
            tries: memory.tries,
            turn: None,
            ended_at,
            announced: memory.announced,
        };
        // All of a cluster are counted only for one that may ask for more.
        let asks = journal.allocation.is_none_or(|allocation| allocation.phase == Phase::Released);
        if let Some(group) = snapshot.group().filter(|_| asks && !snapshot.machine.deleting) {
            snapshot.usage = self.usage(key.namespace().unwrap_or_default(), group, now);
        }
        snapshot
    }

    fn usage(&self, namespace: &str, group: &str, now: Timestamp) -> Usage {
        let shown = self.asker.shown(namespace, group);
        let (hosts, recent) = self.ledger.count(&format!("{namespace}/{group}"), &shown, now);
        Usage { hosts, recent }
    }

    /// What EC2 shows of a machine.
    async fn look(&self, shelf: &Shelf<C::Ec2>, s: &Snapshot) -> Result<Sight, Ec2Error> {
        let steady = s.machine.status.ready == Some(true) && !s.machine.deleting && s.mishap.is_none();
        let age = if steady { Age::AtMost(self.config.describe_interval) } else { Age::OnTheWay };
        let mut sight = Sight::default();
        self.instances(shelf, s, age, &mut sight).await?;
        self.hosts(shelf, s, age, &mut sight).await?;
        let network = s.instance().or(sight.instances.first()).and_then(|instance| instance.vpc.clone());
        if let Some(vpc) = network.filter(|_| !s.machine.deleting) {
            // Names are a courtesy: without the right to read them the machine goes on.
            sight.domains = shelf.domains(&vpc).await.map(|domains| domains.to_vec()).unwrap_or_default();
        }
        Ok(sight)
    }

    /// The instances of a machine: by id, by token, by tag; and those that it names and that are not its own.
    async fn instances(
        &self,
        shelf: &Shelf<C::Ec2>,
        s: &Snapshot,
        age: Age,
        sight: &mut Sight,
    ) -> Result<(), Ec2Error> {
        let (list, memory) = (shelf.instances(age).await?, self.memories.of(&s.key));
        let all = &list.all;
        let is_own = |instance: &Instance| s.is_own(instance);
        sight.instances = all.iter().filter(|instance| is_own(instance)).cloned().collect();
        // What EC2 has said to this machine since the list was asked for counts more than the list.
        if let Some((at, launched)) = memory.launched
            && at >= list.asked
            && !sight.instances.iter().any(|instance| instance.id == launched.id)
        {
            sight.instances.push(*launched);
        }
        for instance in &mut sight.instances {
            let ended = memory.ended.get(&instance.id).is_some_and(|at| *at >= list.asked);
            if ended && crate::snapshot::is_alive(&instance.state) {
                instance.state = InstanceState::ShuttingDown;
            }
        }
        if let Some(id) = s.machine.instance()
            && !sight.instances.iter().any(|instance| instance.id == id)
        {
            let named = match all.iter().find(|instance| instance.id == id) {
                Some(listed) => vec![listed.clone()],
                None => {
                    let asked = shelf.ec2().describe_instances(&InstanceQuery::Ids(vec![id])).await;
                    missing_is_none(asked, |_| false)?.unwrap_or_default()
                }
            };
            let (own, strangers): (Vec<Instance>, Vec<Instance>) = named.into_iter().partition(is_own);
            sight.instances.extend(own);
            sight.strangers = strangers;
        }
        if let Some(launch) = s.journal().launch
            && sight.instances.is_empty()
            && memory.unused.as_ref() != Some(&launch.token)
        {
            let launched = shelf.ec2().describe_instances(&InstanceQuery::by_token(&launch.token)).await?;
            sight.instances = launched.into_iter().filter(|instance| is_own(instance)).collect();
        }
        Ok(())
    }

    /// The hosts of a machine: by journal, by token, by tag, and the one its instance is on.
    async fn hosts(&self, shelf: &Shelf<C::Ec2>, s: &Snapshot, age: Age, sight: &mut Sight) -> Result<(), Ec2Error> {
        if !s.is_dynamic() && s.journal().allocation.is_none() {
            return Ok(());
        }
        let mut hosts: BTreeMap<HostId, Host> = BTreeMap::new();
        let mut add = |host: Host| drop(hosts.insert(host.id.clone(), host));
        let (list, memory) = (shelf.hosts(age).await?, self.memories.of(&s.key));
        let (listed, journal) = (&list.all, s.journal());
        // A list that was asked for before EC2 allocated the hosts cannot show them, and need not.
        let too_old = memory.allocated.is_some_and(|at| at >= list.asked);
        let mut wanted: Vec<HostId> = sight.instances.iter().filter_map(|instance| instance.host.clone()).collect();
        if let Some(allocation) = &journal.allocation {
            wanted.extend(allocation.hosts.iter().cloned());
            let tagged = |host: &&Host| host.tags.get(ALLOCATION_ID_TAG).is_some_and(|id| id == allocation.id.as_str());
            listed.iter().filter(tagged).cloned().for_each(&mut add);
            if allocation.phase == Phase::Intended && memory.unused.as_ref() != Some(&allocation.token) {
                shelf
                    .ec2()
                    .describe_hosts(&HostQuery::by_token(&allocation.token))
                    .await?
                    .into_iter()
                    .for_each(&mut add);
            }
        }
        if journal.allocation.is_none() {
            // The journal may have been lost, and the hosts not.
            listed.iter().filter(|host| s.is_named_in(&host.tags)).cloned().for_each(&mut add);
        }
        wanted.extend(s.shown_host());
        wanted.sort();
        wanted.dedup();
        for id in wanted {
            if let Some(host) = listed.iter().find(|host| host.id == id) {
                hosts.insert(id, host.clone());
            } else if too_old && journal.allocation.as_ref().is_some_and(|allocation| allocation.hosts.contains(&id)) {
                continue;
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
            let path = match &s.claim {
                Some(_) => "spec.args[securityGroups]".to_owned(),
                None => format!("spec.additionalSecurityGroups[{index}]"),
            };
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
        // Secrets are read in the namespace of who asks, and in no other.
        let secret = match s.owner.as_ref().and_then(|owner| owner.data_secret.as_deref()) {
            Some(name) => self.bootstrap(s.key.namespace().unwrap_or_default(), name).await?,
            None => None,
        };
        let data = match &s.claim {
            Some(claim) => userdata::of_claim(claim.spec.user_data.is_some(), secret.as_ref()),
            None => match secret {
                Some(secret) => userdata::prepare(&secret, &s.machine.spec),
                None => {
                    let message = "the bootstrap secret of the Machine is not there";
                    Err(Obstacle::dependency(About::Instance, message))
                }
            },
        };
        Ok(self.judge(shelf, s, cloud, identity, data).await)
    }

    async fn judge(
        &self,
        shelf: &Shelf<C::Ec2>,
        s: &Snapshot,
        cloud: &CloudFacts,
        identity: &str,
        data: Result<Private<Vec<u8>>, Obstacle>,
    ) -> Result<Preflight, Obstacle> {
        let spec = &s.machine.spec;
        let path =
            |of_machine: &'static str, of_claim: &'static str| if s.claim.is_some() { of_claim } else { of_machine };
        let (type_path, image_path) =
            (path("spec.instanceType", "spec.args[instanceType]"), path("spec.ami.id", "spec.args[ami]"));
        let asked = |about| move |error: Ec2Error| obstacle(about, &error, identity);
        let terminal = |about, message: String| Obstacle::terminal(about, message);
        let type_: InstanceType =
            spec.instance_type.parse().map_err(|error| terminal(About::Instance, format!("{type_path}: {error}")))?;
        let region = &shelf.door().region;
        let facts = shelf.type_facts(&type_).await.map_err(asked(About::Instance))?;
        let Some(facts) = facts else {
            return Err(terminal(About::Instance, format!("{type_path}: EC2 knows no type {type_} in {region}")));
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
        let id: ImageId = image.parse().map_err(|error| terminal(About::Instance, format!("{image_path}: {error}")))?;
        let Some(image) = shelf.image(&id).await.map_err(asked(About::Instance))? else {
            return Err(terminal(About::Instance, format!("{image_path}: EC2 knows no image {id} in {region}")));
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
        let user_data = data?;
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
        if let Some(claim) = &s.claim {
            return self.place_of_claim(shelf, claim, named, &need, cloud, identity).await;
        }
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

    /// A claim goes to the subnet it names, else to a default one of the account.
    async fn place_of_claim(
        &self,
        shelf: &Shelf<C::Ec2>,
        claim: &ClaimFacts,
        named: Option<&ResourceReference>,
        need: &Need<'_>,
        cloud: &CloudFacts,
        identity: &str,
    ) -> Result<placement::Place, Obstacle> {
        let id = named.and_then(|reference| reference.id.as_deref());
        if let Some(Err(error)) = id.map(str::parse::<api::names::SubnetId>) {
            return Err(Obstacle::terminal(About::Instance, format!("spec.args[subnet]: {error}")));
        }
        let (ids, filters) = placement::question(named.unwrap_or(&default_subnets()));
        let found = shelf.subnets(ids, filters).await.map_err(|error| obstacle(About::Instance, &error, identity))?;
        // The order in which EC2 tells them means nothing.
        let mut found = found.to_vec();
        found.sort_by(|a, b| (&a.zone, &a.id).cmp(&(&b.zone, &b.id)));
        let preferred = Need { failure_domain: claim.preferred_zone(), ..*need };
        let place = placement::among_described(&found, &preferred, cloud);
        place.or_else(|_| placement::among_described(&found, need, cloud)).map_err(|obstacle| match need.zone() {
            Ok(Some(zone)) => Obstacle::dependency(About::Zone, format!("no subnet of this claim is in zone {zone}")),
            _ => Obstacle {
                message: "spec.args[subnet]: the subnet is not there, or the account has no default one".to_owned(),
                ..obstacle
            },
        })
    }

    async fn bootstrap(&self, namespace: &str, name: &str) -> Result<Option<BTreeMap<String, Vec<u8>>>, Error> {
        let api: Api<Secret> = Api::namespaced(self.writer.client().clone(), namespace);
        let found = api.get_opt(name).await.map_err(read(|| format!("Secret {namespace}/{name}")))?;
        Ok(found.map(|secret| secret.data.unwrap_or_default().into_iter().map(|(k, v)| (k, v.0)).collect()))
    }
}

/// The subnets of a claim that names none.
pub(crate) fn default_subnets() -> ResourceReference {
    ResourceReference {
        id: None,
        filters: vec![ResourceFilter { name: "default-for-az".to_owned(), values: vec!["true".to_owned()] }],
    }
}

/// Whether the machine is about to ask for its first host or, without one, for its instance.
fn begins(s: &Snapshot) -> bool {
    let journal = s.journal();
    let idle = journal.allocation.as_ref().is_none_or(|allocation| allocation.phase == Phase::Released);
    let new = if s.is_dynamic() { idle } else { journal.launch.is_none() };
    new && s.machine.has_finalizer() && matches!(s.preflight, Some(Ok(_)))
}

/// Where and as whom EC2 is called. What was made in a region is looked for there, whatever the cluster says now; as whom
/// is the cluster's to say, as long as it is there.
fn scope_of(cloud: Option<&CloudFacts>, journal: &Journal) -> Option<Scope> {
    let now = cloud.and_then(|cloud| {
        let region = cloud.region.as_deref()?.parse().ok()?;
        Some(Scope { region, identity: cloud.identity.clone(), account: None })
    });
    match (now, journal.scope.clone()) {
        (Some(now), Some(then)) => Some(Scope { identity: now.identity, ..then }),
        (now, then) => now.or(then),
    }
}

/// Why EC2 is not believed: it is asked in another account than the one the machine was made in, where nothing of the
/// machine can be, or nobody can tell in which.
fn abroad(scope: &Scope, account: &Result<AccountId, Ec2Error>) -> Option<Obstacle> {
    let (home, identity) = (scope.account.as_ref()?, name(scope));
    match account {
        Ok(account) if account == home => None,
        Ok(account) => {
            let message = format!("{identity} is of account {account}, and this machine was made in account {home}");
            Some(Obstacle::private(About::Instance, Class::Permission, message))
        }
        Err(error) => Some(obstacle(About::Instance, error, &identity)),
    }
}

/// The name of an identity, for people.
pub(crate) fn name(scope: &Scope) -> String {
    match &scope.identity {
        Some((kind, name)) => format!("{kind} {name}"),
        None => "the controller's own identity".to_owned(),
    }
}
