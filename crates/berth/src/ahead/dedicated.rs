//! Machines on EC2: whether a dedicated host would be allocated for one, of which type and where, and which cap is in the way.
//! EC2 is not asked.

use std::collections::BTreeMap;
use std::sync::Arc;

use ::hosts::admit::{fill, problem};
use ::hosts::config::Config;
use ::hosts::decide::{Gate, caps, gate};
use ::hosts::facts::World;
use ::hosts::placement::{Need as Wanted, among_listed};
use ::hosts::request::{shape, tenancy};
use ::hosts::snapshot::Snapshot;
use api::key::ObjectKey;
use api::own::AWSMachineSpec;
use api::raw::AWSMachine;
use api::reasons::hosts::Reason;
use api::views::{AWSCluster, AWSMachineTemplate, Cluster, INFRASTRUCTURE_GROUP, Machine};
use aws::identity::{IdentityFeeds, IdentityLists};
use aws::port::{HostShape, Tenancy};
use kit::clock::Clock;
use kit::explain::{Explanation, Fact, Fix, Level, Need, Next, Object};
use kit::feed::{Feed, Project};
use kit::kinds::Kind;

use super::files::Files;
use super::owners::{adopt, labelled, owner_of};
use super::{AheadOptions, REFUSED, seen};
use crate::explain::closed;
use crate::look::{Reader, Surroundings};

/// Who looks after these machines.
const ROOM: &str = "hosts";

/// What nobody knows before EC2 is asked for it.
const UNASKED: &str =
    "EC2 was not asked: whether the account's quota and the zone have room for a host shows when one is asked for";

/// What the files and the server say of machines on EC2.
struct Lists {
    machines: Vec<AWSMachine>,
    owners: Vec<Machine>,
    clusters: Vec<Cluster>,
    networks: Vec<AWSCluster>,
    unseen: Vec<String>,
}

/// Whether a host is asked for, and for whom.
enum Place {
    /// In this zone, because of this subnet.
    In(String, String),
    /// In a zone that only EC2 knows, for this reason.
    Untold(String),
    /// Nowhere, for this reason.
    Nowhere(String),
}

/// Says what becomes of the machines of files.
pub async fn tell(reader: &Reader<'_>, files: &mut Files, options: &AheadOptions) -> anyhow::Result<Vec<Explanation>> {
    let mut told = Vec::new();
    if files.hold(INFRASTRUCTURE_GROUP, "AWSMachine") {
        told.extend(machines(reader, files, options).await?);
    }
    if files.hold(INFRASTRUCTURE_GROUP, "AWSMachineTemplate") {
        let (mut templates, mut unseen): (Vec<Template>, _) = (Vec::new(), Vec::new());
        let mut views: Vec<AWSMachineTemplate> = Vec::new();
        for key in files.lay(reader, &mut views, &mut unseen).await? {
            let spec = files.stored(INFRASTRUCTURE_GROUP, "AWSMachineTemplate", &key);
            let spec = spec.and_then(|object| object.pointer("/spec/template/spec")).cloned().unwrap_or_default();
            templates.push(Template { key, spec: serde_json::from_value(spec).map_err(|error| error.to_string()) });
        }
        told.extend(templates.into_iter().map(|template| template.told(&unseen)));
    }
    Ok(told)
}

async fn machines(reader: &Reader<'_>, files: &mut Files, options: &AheadOptions) -> anyhow::Result<Vec<Explanation>> {
    let mut unseen = Vec::new();
    let mut lists = Lists {
        machines: seen(reader.read().await?, &mut unseen),
        owners: seen(reader.read().await?, &mut unseen),
        clusters: seen(reader.read().await?, &mut unseen),
        networks: seen(reader.read().await?, &mut unseen),
        unseen,
    };
    let keys = files.lay(reader, &mut lists.machines, &mut lists.unseen).await?;
    files.lay(reader, &mut lists.owners, &mut lists.unseen).await?;
    files.lay(reader, &mut lists.clusters, &mut lists.unseen).await?;
    files.lay(reader, &mut lists.networks, &mut lists.unseen).await?;
    lists.unseen.push(UNASKED.to_owned());
    lists.owners = labelled(lists.owners);
    for machine in lists.machines.iter_mut().filter(|machine| keys.contains(&ObjectKey::of(*machine))) {
        if let Some(owner) = owner_of(&lists.owners, "AWSMachine", &ObjectKey::of(machine)) {
            adopt(owner, &mut machine.metadata);
        }
    }
    let config = Config {
        watch_filter: options.operator.watch_filter.value(),
        max_hosts_per_cluster: options.max_hosts_per_cluster,
        max_allocations_per_hour: options.max_allocations_per_hour,
        ..Config::default()
    };
    let unseen = std::mem::take(&mut lists.unseen);
    let around = lists.around();
    let (mut told, mut asked) = (Vec::new(), BTreeMap::new());
    for key in keys {
        let snapshot = closed(reader.client, &around, &config, &key).await?;
        told.push(Case::new(snapshot, &mut asked).told(&unseen));
    }
    Ok(told)
}

impl Lists {
    fn around(self) -> Surroundings {
        fn feed<P: Project>(clock: &Clock, objects: Vec<P::Source>) -> Feed<P> {
            Feed::of(clock.clone(), Kind::of::<P::Source>(), objects)
        }
        let (clock, mut networks) = (Clock::system(), self.networks);
        // As whom EC2 is called matters to nobody who does not call it.
        networks.iter_mut().for_each(|network| network.spec.identity_ref = None);
        let world = World {
            machines: feed(&clock, self.machines),
            owners: feed(&clock, self.owners),
            clusters: feed(&clock, self.clusters),
            clouds: feed(&clock, networks),
            identities: IdentityFeeds::of(IdentityLists::default(), &clock),
            spaces: feed(&clock, Vec::new()),
        };
        Surroundings { world, identities: Vec::new(), unseen: Vec::new() }
    }
}

fn fact(name: &'static str, value: impl Into<String>) -> Fact {
    Fact { name, value: value.into() }
}

fn next(what: String) -> Next {
    Next { by: ROOM, what }
}

/// What hosts a machine asks for, in words.
fn wanted(spec: &AWSMachineSpec) -> Result<(u32, String), String> {
    let count = spec.dynamic_host_allocation.as_ref().map_or(0, |hosts| hosts.hosts());
    let count = u32::try_from(count).unwrap_or_default();
    let hosts = if count == 1 { "a dedicated host".to_owned() } else { format!("{count} dedicated hosts") };
    match shape(spec).map_err(|obstacle| obstacle.message)? {
        HostShape::Type(type_) => Ok((count, format!("{hosts} for {type_}"))),
        HostShape::Family(family) => Ok((count, format!("{hosts} for the family {family}"))),
    }
}

/// Why a machine that asks for no host of its own gets none.
fn unwanted(spec: &AWSMachineSpec) -> String {
    match (tenancy(spec).0, spec.host_id.as_deref().filter(|host| !host.is_empty())) {
        (_, Some(host)) => format!("no dedicated host would be allocated: it names {host}"),
        (Some(Tenancy::Host), None) => {
            "no dedicated host would be allocated: it runs on whichever of the account EC2 chooses".to_owned()
        }
        _ => "no dedicated host would be allocated: it asks for none (spec.dynamicHostAllocation)".to_owned(),
    }
}

/// A machine, judged.
struct Case {
    snapshot: Snapshot,
    spec: AWSMachineSpec,
}

impl Case {
    /// Judges a machine by what was asked for already, for others of the files, by the cluster of each.
    fn new(mut snapshot: Snapshot, asked: &mut BTreeMap<(String, String), u32>) -> Self {
        let mut spec = snapshot.machine.spec.clone();
        fill(&mut spec);
        let count = spec.dynamic_host_allocation.as_ref().map_or(0, |hosts| hosts.hosts());
        if let Some(cluster) = snapshot.cluster_name().map(str::to_owned) {
            let namespace = snapshot.key.namespace().unwrap_or_default().to_owned();
            let before = asked.entry((namespace, cluster)).or_default();
            snapshot.usage.hosts = snapshot.usage.hosts.saturating_add(*before);
            snapshot.usage.recent = snapshot.usage.recent.saturating_add(*before);
            let refused = never(&snapshot).is_some()
                || problem(&spec).is_some()
                || caps(&snapshot, u32::try_from(count).unwrap_or_default()).is_some();
            if !refused && !has_begun(&snapshot) {
                *before = before.saturating_add(u32::try_from(count).unwrap_or_default());
            }
        }
        let machine = ::hosts::facts::MachineFacts { spec: spec.clone(), ..(*snapshot.machine).clone() };
        snapshot.machine = Arc::new(machine);
        Self { snapshot, spec }
    }

    /// What has to be there before anything is asked for; none once it is.
    fn waits(&self) -> Option<(Level, Option<&'static str>, String)> {
        match gate(&self.snapshot) {
            // That nothing is ever asked for the first three is told in place of all else.
            Gate::Ignored | Gate::Delete | Gate::Failed | Gate::Go => None,
            Gate::Unowned => {
                let why = "no Machine refers to it, or its Cluster is not there: nothing is done before that";
                Some((Level::Waiting, None, why.to_owned()))
            }
            Gate::Paused(why) => Some((Level::Aside, None, format!("nothing is done: {why}"))),
            Gate::Waiting(says) => Some((Level::Waiting, Some(says.reason.as_str()), says.message)),
            Gate::Refused(obstacle) => Some((Level::Problem, None, obstacle.message)),
        }
    }

    fn place(&self) -> Place {
        let owner = self.snapshot.owner.as_ref();
        let dynamic = self.spec.dynamic_host_allocation.as_ref();
        let need = Wanted {
            failure_domain: owner.and_then(|owner| owner.failure_domain.as_deref()),
            host_zone: dynamic.and_then(|dynamic| dynamic.availability_zone.as_deref()),
            public: self.spec.public_ip == Some(true),
        };
        let required = match need.zone() {
            Ok(required) => required,
            Err(obstacle) => return Place::Nowhere(obstacle.message),
        };
        let named = self.spec.subnet.as_ref();
        let named = named.filter(|it| it.id.as_deref().is_some_and(|id| !id.is_empty()) || !it.filters.is_empty());
        match (&self.snapshot.cloud, named, required) {
            (_, Some(subnet), required) => {
                let which =
                    subnet.id.as_deref().map_or_else(|| "it describes".to_owned(), |id| format!("{id} that it names"));
                let zone = required.map(|zone| format!(", which has to be {zone}")).unwrap_or_default();
                Place::Untold(format!("the zone of the subnet {which} is asked of EC2{zone}"))
            }
            (None, None, Some(zone)) => Place::Untold(format!(
                "{zone} is asked for, and which subnets there are the AWSCluster says, which is not there yet"
            )),
            (None, None, None) => {
                Place::Untold("which subnets there are the AWSCluster says, which is not there yet".to_owned())
            }
            (Some(cloud), None, _) => match among_listed(&need, cloud) {
                Ok(place) => Place::In(place.zone.to_string(), place.subnet.to_string()),
                Err(obstacle) => Place::Nowhere(obstacle.message),
            },
        }
    }

    fn facts(&self, place: &Place) -> Vec<Fact> {
        let s = &self.snapshot;
        let mut facts = vec![fact("instance type", self.spec.instance_type.clone())];
        facts.extend(s.cluster_name().map(|name| fact("cluster", name)));
        facts.extend(s.machine.owner.as_deref().map(|name| fact("machine", name)));
        facts.extend(s.scope.as_ref().map(|scope| fact("region", scope.region.to_string())));
        if let Place::In(zone, subnet) = place {
            facts.extend([fact("zone", zone), fact("subnet", subnet)]);
        }
        facts
    }

    /// The dedicated hosts, and whether a cap is in the way.
    fn hosts(&self, place: &Place) -> Need {
        let s = &self.snapshot;
        let need = |level, reason: Option<Reason>, sentence: String| Need {
            name: "dedicated hosts".to_owned(),
            level,
            reason: reason.map(Reason::as_str),
            sentence,
            required: true,
            ..Need::default()
        };
        let (count, hosts) = match wanted(&self.spec) {
            Ok(wanted) => wanted,
            Err(why) => return need(Level::Problem, Some(Reason::InvalidSpec), why),
        };
        let (has, recent) = (s.usage.hosts, s.usage.recent);
        let used = vec![
            fact("the cluster has", format!("{has} of at most {}", s.config.max_hosts_per_cluster)),
            fact("within an hour", format!("{recent} of at most {}", s.config.max_allocations_per_hour)),
        ];
        let facts = if s.cluster_name().is_some() { used } else { Vec::new() };
        let told = match (caps(s, count).filter(|_| s.cluster_name().is_some()), place) {
            (Some(obstacle), _) => need(
                Level::Problem,
                Some(Reason::HostAllocationDenied),
                format!("{hosts} would not be allocated: {}", obstacle.message),
            ),
            (None, Place::In(zone, _)) => need(Level::Waiting, None, format!("{hosts} would be allocated in {zone}")),
            (None, Place::Untold(why)) => need(Level::Waiting, None, format!("{hosts} would be allocated: {why}")),
            (None, Place::Nowhere(why)) => need(Level::Problem, None, format!("{hosts} would not be allocated: {why}")),
        };
        Need { facts, ..told }
    }

    fn told(&self, unseen: &[String]) -> Explanation {
        let place = if self.snapshot.is_dynamic() { self.place() } else { Place::Untold(String::new()) };
        let object = Object::new("AWSMachine", &self.snapshot.key);
        let told = |level, summary: String| Explanation {
            object: object.clone(),
            level,
            summary,
            facts: self.facts(&place),
            needs: Vec::new(),
            next: Vec::new(),
            fixes: Vec::new(),
            unseen: unseen.to_vec(),
        };
        let unread = self.snapshot.machine.problem.as_deref().map(str::to_owned);
        if let Some(problem) = unread.or_else(|| problem(&self.spec).filter(|_| !has_begun(&self.snapshot))) {
            return told(Level::Problem, format!("it {REFUSED}{problem}"));
        }
        if has_begun(&self.snapshot) {
            let (namespace, name) = (self.snapshot.key.namespace().unwrap_or_default(), self.snapshot.key.name());
            let summary = "it is there already and has what was allocated for it: no host is asked for anew".to_owned();
            let see = Fix::run("see how it stands", format!("berth explain awsmachine/{name} -n {namespace}"));
            return Explanation { fixes: vec![see], ..told(Level::Ok, summary) };
        }
        if let Some((level, why)) = never(&self.snapshot) {
            return told(level, format!("no dedicated host would be allocated: {why}"));
        }
        let waits = self.waits();
        let first = waits.map(|(level, reason, sentence)| Need {
            name: "before anything is done".to_owned(),
            level,
            reason,
            sentence,
            required: true,
            ..Need::default()
        });
        if !self.snapshot.is_dynamic() {
            return Explanation { needs: first.into_iter().collect(), ..told(Level::Aside, unwanted(&self.spec)) };
        }
        let hosts = self.hosts(&place);
        let (level, summary) = (hosts.level, hosts.sentence.clone());
        let capped = hosts.reason == Some(Reason::HostAllocationDenied.as_str());
        let fixes = if capped {
            vec![Fix::say(
                "let fewer machines have hosts of their own, or raise the cap of the operator that the message names; where it runs with another one, ask again with the same flag",
            )]
        } else {
            Vec::new()
        };
        let next = match (&level, wanted(&self.spec)) {
            (Level::Waiting, Ok((_, hosts))) => {
                vec![next(format!("asks EC2 for {hosts}, and launches the instance on it"))]
            }
            _ => Vec::new(),
        };
        Explanation { needs: std::iter::once(hosts).chain(first).collect(), next, fixes, ..told(level, summary) }
    }
}

/// Why nothing is ever asked for a machine, whatever it wants; none where something may be.
fn never(s: &Snapshot) -> Option<(Level, &'static str)> {
    match gate(s) {
        Gate::Ignored => Some((Level::Aside, "the watch filter does not take it in")),
        Gate::Delete => Some((Level::Waiting, "it is being deleted")),
        Gate::Failed => Some((Level::Problem, "it has failed for good")),
        Gate::Unowned | Gate::Paused(_) | Gate::Waiting(_) | Gate::Refused(_) | Gate::Go => None,
    }
}

/// Whether a machine has hosts or an instance, or has asked for them.
fn has_begun(s: &Snapshot) -> bool {
    s.journal().allocation.is_some() || s.journal().launch.is_some() || s.machine.instance().is_some()
}

/// A template, and what each machine of it would ask for.
struct Template {
    key: ObjectKey,
    spec: Result<AWSMachineSpec, String>,
}

impl Template {
    fn told(self, unseen: &[String]) -> Explanation {
        let (mut facts, mut unseen) = (Vec::new(), unseen.to_vec());
        let (level, summary) = match self.spec {
            Err(error) => (Level::Problem, format!("it {REFUSED}spec.template.spec: {error}")),
            Ok(mut spec) => {
                fill(&mut spec);
                facts.push(fact("instance type", spec.instance_type.clone()));
                let zone = spec.dynamic_host_allocation.as_ref().and_then(|hosts| hosts.availability_zone.as_deref());
                facts.extend(zone.map(|zone| fact("zone", zone)));
                match (problem(&spec), spec.dynamic_host_allocation.is_some()) {
                    (Some(problem), _) => (Level::Problem, format!("a machine of it {REFUSED}{problem}")),
                    (None, false) => (Level::Aside, format!("for a machine of it {}", unwanted(&spec))),
                    (None, true) => match wanted(&spec) {
                        Ok((_, hosts)) => {
                            let later = "which zone it is, and whether the caps leave room, shows with each machine";
                            unseen.extend([later.to_owned(), UNASKED.to_owned()]);
                            (Level::Ok, format!("for each machine of it {hosts} would be allocated"))
                        }
                        Err(why) => (Level::Problem, format!("a machine of it {REFUSED}{why}")),
                    },
                }
            }
        };
        let object = Object::new("AWSMachineTemplate", &self.key);
        let (needs, next, fixes) = (Vec::new(), Vec::new(), Vec::new());
        Explanation { object, level, summary, facts, needs, next, fixes, unseen }
    }
}
