//! What a group's machines are and what cluster-autoscaler will make of it: the room's own judgement, told and not
//! carried out.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::key::ObjectKey;
use api::raw::HostDeployPolicy;
use api::views::cloudstack_specs::{CloudStackCluster, CloudStackMachineTemplate};
use api::views::{
    AWSCluster, AWSMachinePool, AWSMachineTemplate, AWSManagedControlPlane, AWSManagedMachinePool, BareMetalHost,
    Cluster, HardwareData, Infrastructure, MachineDeployment, MachinePool, MachineSet, Metal3MachineTemplate,
    Namespace, OpenShiftMachineSet, ROSAControlPlane,
};
use aws::identity::{IdentityFeeds, IdentityLists};
use jiff::Timestamp;
use kit::clock::Clock;
use kit::explain::{Explanation, Fact, Fix, Level, Need, Next, Object};
use kit::feed::{Feed, Project, Seen};
use kit::kinds::Kind;

use crate::acs::{Site, shown};
use crate::archive::Page;
use crate::config::Config;
use crate::decide::{Snapshot, Standing, Step, decide};
use crate::facts::{ACS, Acs, GroupFacts, GroupKey, GroupKind, MANAGED_POOL, METAL, Metal, POOL, Pools, World};
use crate::judge::{Ec2Wish, Judgement, Lookup, Scene, Skip, Wish, judge};
use crate::memory::Memory;
use crate::names;
use crate::observe::{not_in_table, on_metal, place, scene};
use crate::offer::Offer;
use crate::record::Record;
use crate::sees::{Build, Sees, sees};
use crate::status::Trouble;
use crate::table::Table;

/// Objects as somebody read them.
#[derive(Clone, Debug, Default)]
pub struct Lists {
    /// MachineSets of OpenShift's Machine API.
    pub openshift_sets: Vec<OpenShiftMachineSet>,
    /// MachineDeployments.
    pub deployments: Vec<MachineDeployment>,
    /// MachineSets of Cluster API.
    pub sets: Vec<MachineSet>,
    /// Machine pools.
    pub pools: Vec<MachinePool>,
    /// Auto scaling groups.
    pub scaling: Vec<AWSMachinePool>,
    /// Node groups of EKS.
    pub managed: Vec<AWSManagedMachinePool>,
    /// Templates.
    pub templates: Vec<AWSMachineTemplate>,
    /// Clusters.
    pub clusters: Vec<Cluster>,
    /// Networks of clusters.
    pub aws_clusters: Vec<AWSCluster>,
    /// Control planes on EKS.
    pub managed_planes: Vec<AWSManagedControlPlane>,
    /// Control planes on ROSA.
    pub rosa_planes: Vec<ROSAControlPlane>,
    /// The platform.
    pub infrastructures: Vec<Infrastructure>,
    /// Templates of machines on CloudStack.
    pub acs_templates: Vec<CloudStackMachineTemplate>,
    /// Clusters on CloudStack.
    pub acs_clusters: Vec<CloudStackCluster>,
    /// Templates of bare-metal machines.
    pub metal_templates: Vec<Metal3MachineTemplate>,
    /// Bare-metal hosts.
    pub hosts: Vec<BareMetalHost>,
    /// What inspection found in them.
    pub hardware: Vec<HardwareData>,
    /// Who may claim which hosts.
    pub policies: Vec<HostDeployPolicy>,
    /// Namespaces, whose labels policies ask for.
    pub spaces: Vec<Namespace>,
    /// Identities, where they are looked at.
    pub identities: Option<IdentityLists>,
    /// The table of types.
    pub table: Table,
    /// What could not be read, each in a sentence.
    pub unseen: Vec<String>,
}

/// What there is to see.
pub struct Sight {
    world: World,
    table: Table,
    pages: Vec<Page>,
    unseen: Vec<String>,
}

/// What EC2 said about the type of a group, and when the operator was told, where it was the operator that asked.
type Looked = (Result<Arc<Offer>, Trouble>, Option<Timestamp>);

impl Sight {
    /// Everything that was read.
    #[must_use]
    pub fn of(lists: Lists, clock: &Clock) -> Self {
        fn feed<P: Project>(clock: &Clock, objects: Vec<P::Source>) -> Feed<P> {
            Feed::of(clock.clone(), Kind::of::<P::Source>(), objects)
        }
        let world = World {
            openshift_sets: feed(clock, lists.openshift_sets),
            deployments: feed(clock, lists.deployments),
            sets: feed(clock, lists.sets),
            templates: feed(clock, lists.templates),
            clusters: feed(clock, lists.clusters),
            aws_clusters: feed(clock, lists.aws_clusters),
            managed_planes: feed(clock, lists.managed_planes),
            rosa_planes: feed(clock, lists.rosa_planes),
            infrastructures: feed(clock, lists.infrastructures),
            metal: Some(Metal {
                templates: feed(clock, lists.metal_templates),
                hosts: feed(clock, lists.hosts),
                hardware: feed(clock, lists.hardware),
                policies: feed(clock, lists.policies),
                spaces: feed(clock, lists.spaces),
            }),
            acs: Some(Acs { templates: feed(clock, lists.acs_templates), clusters: feed(clock, lists.acs_clusters) }),
            identities: lists.identities.map(|found| IdentityFeeds::of(found, clock)),
            pools: Some(Pools {
                groups: feed(clock, lists.pools),
                scaling: feed(clock, lists.scaling),
                managed: feed(clock, lists.managed),
            }),
        };
        Self { world, table: lists.table, pages: Vec::new(), unseen: lists.unseen }
    }

    /// What the operator was told of instance types is known too, and what of it cannot be read.
    pub fn recall(&mut self, pages: Vec<Page>, unseen: Vec<String>) {
        self.pages.extend(pages);
        self.unseen.extend(unseen);
    }

    /// What the operator was told of the types of a group. Of a type that is not in its list it asks by name, so nothing
    /// is said of that here.
    fn recalled(&self, wish: &Wish, ec2: &Ec2Wish) -> Option<Looked> {
        let place = place(ec2);
        let page = self.pages.iter().find(|page| page.place == place)?;
        let mut offers = Vec::new();
        for name in &wish.types {
            let offer = Offer::of_ec2(page.types.iter().find(|facts| facts.name == *name)?);
            if offer.is_incomplete() {
                return Some((Err(Trouble::incomplete(name, ec2.region.as_str())), Some(page.listed)));
            }
            offers.push(Arc::new(offer));
        }
        Some((Ok(wish.offer(&offers)?), Some(page.listed)))
    }

    /// How things stand with machines of which everything is known without a cloud, as the room would have it.
    fn standing(&self, wish: &Wish, config: &Config) -> Option<Standing> {
        if let Some(offer) = self.table.get(&wish.table_name) {
            return Some(Standing::Known { offer, around: wish.around.clone(), again: None });
        }
        match &wish.lookup {
            Lookup::Metal(template) => Some(on_metal(self.world.metal.as_ref()?, template, wish, config.claims)),
            Lookup::Table => Some(not_in_table(&self.table, wish, config)),
            Lookup::Ec2(_) | Lookup::Acs(_) => None,
        }
    }

    /// What could not be read, each in a sentence.
    #[must_use]
    pub fn unseen(&self) -> &[String] {
        &self.unseen
    }

    /// The groups, ordered by kind, namespace and name.
    #[must_use]
    pub fn groups(&self) -> Vec<GroupKey> {
        let mut keys = self.world.keys(&|_| true);
        keys.sort();
        keys
    }

    fn group(&self, key: &GroupKey) -> Option<Arc<GroupFacts>> {
        fn at<P: Project<Slim = GroupFacts>>(feed: &Feed<P>, key: &ObjectKey) -> Option<Arc<GroupFacts>> {
            match feed.get(key) {
                Seen::At(facts) => Some(facts),
                Seen::Absent | Seen::Behind => None,
            }
        }
        match key.kind {
            GroupKind::OpenShiftSet => at(&self.world.openshift_sets, &key.key),
            GroupKind::Deployment => at(&self.world.deployments, &key.key),
            GroupKind::Set => at(&self.world.sets, &key.key),
            GroupKind::Pool => at(&self.world.pools.as_ref()?.groups, &key.key),
        }
    }

    /// What must be looked up for a group, if anything.
    #[must_use]
    pub fn wish(&self, key: &GroupKey, config: &Arc<Config>) -> Option<Wish> {
        let group = self.group(key)?;
        match judge(&scene(&self.world, key, &group, config)) {
            Judgement::Wants(wish) => Some(*wish),
            Judgement::Skip(_) | Judgement::Stuck(_) => None,
        }
    }
}

/// One line about a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// How things stand.
    pub level: Level,
    /// The type.
    pub instance_type: Option<String>,
    /// The region.
    pub region: Option<String>,
    /// What the build that is most likely in use sees.
    pub sees: Sees,
    /// A word or two.
    pub state: String,
}

/// Says in a line how things stand with a group. `looked` is what the cloud said about its type, where somebody asked it.
#[must_use]
pub fn line(
    sight: &Sight,
    key: &GroupKey,
    config: &Arc<Config>,
    looked: Option<Result<Arc<Offer>, Trouble>>,
) -> Option<Line> {
    let group = sight.group(key)?;
    let case = Case::new(sight, key, &group, config, looked, Timestamp::UNIX_EPOCH);
    let (level, _) = case.verdict();
    let build = if key.kind.is_machine_api() { Build::OpenShiftNew } else { Build::Upstream };
    let around = case.wish().map(|wish| &wish.around);
    let state = match (&case.judgement, &case.looked) {
        (Judgement::Skip(_), _) => "left alone",
        (Judgement::Stuck(trouble), _) | (_, Some(Err(trouble))) => trouble.reason.as_str(),
        _ if level == Level::Ok => "annotated",
        _ => "not annotated",
    };
    Some(Line {
        level,
        instance_type: around.map(|around| around.instance_type.clone()),
        region: around.and_then(|around| around.region.clone()),
        sees: case.sees(build),
        state: state.to_owned(),
    })
}

/// Explains a group. `looked` is what the cloud said about its type, where somebody asked it.
#[must_use]
pub fn explain(
    sight: &Sight,
    key: &GroupKey,
    config: &Arc<Config>,
    looked: Option<Result<Arc<Offer>, Trouble>>,
    now: Timestamp,
) -> Option<Explanation> {
    let group = sight.group(key)?;
    let case = Case::new(sight, key, &group, config, looked, now);
    let (level, summary) = case.verdict();
    Some(Explanation {
        object: Object::new(key.kind.as_str(), &key.key),
        level,
        summary,
        facts: case.facts(),
        needs: case.needs(),
        next: case.next(),
        fixes: case.fixes(),
        unseen: sight.unseen.clone(),
    })
}

struct Case<'a> {
    key: &'a GroupKey,
    group: &'a Arc<GroupFacts>,
    scene: Scene,
    judgement: Judgement,
    looked: Option<Result<Arc<Offer>, Trouble>>,
    listed: Option<Timestamp>,
    now: Timestamp,
}

impl<'a> Case<'a> {
    fn new(
        sight: &'a Sight,
        key: &'a GroupKey,
        group: &'a Arc<GroupFacts>,
        config: &Arc<Config>,
        looked: Option<Result<Arc<Offer>, Trouble>>,
        now: Timestamp,
    ) -> Self {
        let scene = scene(&sight.world, key, group, config);
        let judgement = judge(&scene);
        let standing = match &judgement {
            Judgement::Wants(wish) => sight.standing(wish, config),
            Judgement::Skip(_) | Judgement::Stuck(_) => None,
        };
        let recalled = || match &judgement {
            Judgement::Wants(wish) => match &wish.lookup {
                Lookup::Ec2(ec2) => sight.recalled(wish, ec2),
                Lookup::Acs(_) | Lookup::Metal(_) | Lookup::Table => None,
            },
            Judgement::Skip(_) | Judgement::Stuck(_) => None,
        };
        let (judgement, looked, listed) = match standing {
            Some(Standing::Skipped(skip)) => (Judgement::Skip(skip), None, None),
            Some(Standing::Stuck { trouble, .. }) => (judgement, Some(Err(trouble)), None),
            Some(Standing::Known { offer, .. }) => (judgement, Some(Ok(offer)), None),
            Some(Standing::Asking) | None => {
                let (looked, listed) = looked.map(|looked| (looked, None)).or_else(recalled).unzip();
                (judgement, looked, listed.flatten())
            }
        };
        Self { key, group, scene, judgement, looked, listed, now }
    }

    fn wish(&self) -> Option<&Wish> {
        match &self.judgement {
            Judgement::Wants(wish) => Some(wish),
            Judgement::Skip(_) | Judgement::Stuck(_) => None,
        }
    }

    fn machine_api(&self) -> bool {
        self.key.kind.is_machine_api()
    }

    /// What a build sees.
    fn sees(&self, build: Build) -> Sees {
        sees(build, &self.group.annotations, self.scene.template.as_ref().map(|template| &template.status))
    }

    /// What a build would see without the status of the template.
    fn sees_alone(&self, build: Build) -> Sees {
        sees(build, &self.group.annotations, None)
    }

    /// Whether every build that looks at the group can plan with what it sees.
    fn is_enough(&self, sees: impl Fn(Build) -> Sees) -> bool {
        Build::of(self.machine_api()).iter().all(|build| matches!(sees(*build), Sees::Enough { .. }))
    }

    fn described(&self) -> Option<String> {
        let record = Record::parse(self.group.annotation(names::APPLIED));
        Some(record.instance_type).filter(|name| !name.is_empty())
    }

    fn verdict(&self) -> (Level, String) {
        match &self.judgement {
            Judgement::Skip(skip) => (Level::Aside, format!("it is left alone: {skip}")),
            Judgement::Stuck(trouble) => (Level::Problem, trouble.message.clone()),
            Judgement::Wants(wish) => {
                let name = &wish.around.instance_type;
                let place = wish.around.region.as_deref().map(|region| format!(" in {region}")).unwrap_or_default();
                if let Some(Err(trouble)) = &self.looked {
                    return (Level::Problem, trouble.message.clone());
                }
                match self.described().filter(|described| described != name) {
                    Some(described) => (
                        Level::Waiting,
                        format!("its machines are {name}{place}, its annotations still describe {described}"),
                    ),
                    None if self.is_enough(|build| self.sees_alone(build)) => {
                        (Level::Ok, format!("its annotations describe {name}{place}"))
                    }
                    None if self.is_enough(|build| self.sees(build)) => {
                        (Level::Ok, format!("its annotations and its template describe {name}{place}"))
                    }
                    None => {
                        (Level::Waiting, format!("its machines are {name}{place}, its annotations do not say so yet"))
                    }
                }
            }
        }
    }

    fn facts(&self) -> Vec<Fact> {
        let fact = |name, value: String| Fact { name, value };
        let mut facts = Vec::new();
        if let Some(wish) = self.wish() {
            let name = wish.around.instance_type.clone();
            facts.push(match &wish.lookup {
                Lookup::Acs(_) => fact("compute offering", name),
                Lookup::Metal(_) => fact("template", name),
                Lookup::Table => fact("entry of the table", wish.table_name.to_string()),
                Lookup::Ec2(_) => fact("instance type", name),
            });
            facts.extend(wish.around.region.clone().map(|region| fact("region", region)));
            if let Lookup::Ec2(ec2) = &wish.lookup {
                facts.push(fact("credentials", ec2.credential.to_string()));
                let endpoint = ec2.endpoints.of(aws::errors::Service::Ec2, &ec2.region);
                if ec2.endpoints.is_set(aws::errors::Service::Ec2) {
                    facts.push(fact("endpoint", endpoint.url));
                }
            }
            if let Lookup::Acs(acs) = &wish.lookup {
                let all = |one: &dyn Fn(&Site) -> String| {
                    let words: BTreeSet<String> = acs.sites.iter().map(one).collect();
                    words.into_iter().collect::<Vec<_>>().join(", ")
                };
                facts.push(fact("zones", all(&|site| shown(&site.zone).to_owned())));
                facts.push(fact("credentials", all(&|site| format!("Secret {}", site.secret))));
                facts.extend((!acs.image.is_empty()).then(|| fact("image", shown(&acs.image).to_owned())));
            }
            facts.extend(wish.around.root_gib.map(|size| fact("root disk", format!("{size}Gi"))));
        }
        if let Some(Ok(offer)) = &self.looked {
            facts.push(fact("processors", offer.vcpus.to_string()));
            facts.push(fact("memory", format!("{}Mi", offer.memory_mib)));
            facts.extend(offer.arch.map(|arch| {
                let assumed = if offer.assumed { " (assumed)" } else { "" };
                fact("architecture", format!("{}{assumed}", arch.as_str()))
            }));
            facts.extend(
                offer.accelerators.as_ref().map(|a| fact("accelerators", format!("{} {}", a.count, a.resource))),
            );
        }
        facts.extend(self.listed.map(|listed| fact("catalogue", format!("of {listed:.0}"))));
        facts.extend(self.group.annotation(names::LABELS).map(|list| fact("node labels", list.to_owned())));
        facts
    }

    /// What each build of cluster-autoscaler sees.
    fn needs(&self) -> Vec<Need> {
        let one = |build: &Build| {
            let seen = self.sees(*build);
            let by = if seen == self.sees_alone(*build) { "" } else { ", with what its template says" };
            let (level, sentence) = match seen {
                Sees::Enough { cpu, memory, gpus } => {
                    let gpus = gpus.map(|(count, resource)| format!(", {count} {resource}")).unwrap_or_default();
                    (Level::Ok, format!("sees {cpu} processors and {memory} of memory{gpus}{by}"))
                }
                Sees::Lacks(what) => (Level::Waiting, format!("sees no {what}: the group cannot be scaled from zero")),
                Sees::Unreadable(key) => {
                    let value = self.group.annotation(key).unwrap_or_default();
                    (Level::Problem, format!("cannot read {key}: {value:?}, so the group cannot be scaled from zero"))
                }
            };
            let name = build.name(self.machine_api()).to_owned();
            Need { name, level, sentence, ..Need::default() }
        };
        Build::of(self.machine_api()).iter().map(one).collect()
    }

    fn next(&self) -> Vec<Next> {
        let by = "capacity";
        let Some(wish) = self.wish() else { return Vec::new() };
        let Some(Ok(offer)) = &self.looked else {
            let what = match &wish.lookup {
                Lookup::Ec2(ec2) => {
                    format!("looks {} up in the catalogue of {}", wish.around.instance_type, ec2.region)
                }
                Lookup::Acs(acs) => {
                    let zones: Vec<&str> = acs.sites.iter().map(|site| shown(&site.zone)).collect();
                    format!("looks {} up in the offerings of {}", wish.around.instance_type, zones.join(", "))
                }
                Lookup::Metal(_) => "takes the least of the hosts behind the template's selector".to_owned(),
                Lookup::Table => format!("looks {} up in the table", wish.table_name),
            };
            return vec![Next { by, what }];
        };
        let snapshot = Snapshot {
            machine_api: self.machine_api(),
            group: Arc::clone(self.group),
            standing: Standing::Known { offer: Arc::clone(offer), around: wish.around.clone(), again: None },
            template: self.scene.sight(),
            memory: Memory::default(),
            config: Arc::clone(&self.scene.config),
            now: self.now,
        };
        let mut next = Vec::new();
        for step in decide(&snapshot) {
            match step {
                Step::Annotate(plan) => {
                    for (key, value) in plan.changes.iter().filter(|(key, _)| *key != names::APPLIED) {
                        let what = match value {
                            Some(value) => format!("writes {key}: {value:?}"),
                            None => format!("takes off {key}"),
                        };
                        next.push(Next { by, what });
                    }
                }
                Step::Tell { message, .. } | Step::Yield { message, .. } => next.push(Next { by, what: message }),
                Step::Describe(_) => next
                    .push(Next { by, what: "writes what machines offer into the status of their template".to_owned() }),
                Step::Wait { .. } => {}
            }
        }
        next
    }

    fn fixes(&self) -> Vec<Fix> {
        let fix = |what: &str, command: Option<String>| Fix { what: what.to_owned(), command };
        let (name, namespace) = (self.key.key.name(), self.key.key.namespace().unwrap_or_default());
        match &self.judgement {
            Judgement::Stuck(trouble) if trouble.message.contains("no region") => vec![
                fix("start Berth with --default-region", None),
                fix(
                    "name the region on the object",
                    Some(format!(
                        "kubectl annotate -n {namespace} {} {name} {}=REGION",
                        self.key.kind.full(),
                        names::REGION
                    )),
                ),
            ],
            Judgement::Stuck(trouble) if trouble.message.contains("credentials") => vec![
                fix("start Berth with --aws-credentials-secret=NAMESPACE/NAME", None),
                fix(
                    "give Berth's service account an identity of its own and start it with --prefer-ambient-credentials",
                    None,
                ),
            ],
            Judgement::Wants(wish) if matches!(&self.looked, Some(Err(_))) => vec![match &wish.lookup {
                Lookup::Metal(template) => fix(
                    "let the selector of the template fit an inspected host, or put the template into the table of \
                     --capacity-table",
                    Some(format!("kubectl get -n {namespace} metal3machinetemplate {} -o yaml", template.name())),
                ),
                Lookup::Table => fix(&format!("add {} to the table of --capacity-table", wish.table_name), None),
                Lookup::Ec2(_) | Lookup::Acs(_) => {
                    fix("correct the instance type, or add it to the table of --capacity-table", None)
                }
            }],
            Judgement::Skip(Skip::OtherProvider(kind)) => {
                let flag = match kind.as_ref() {
                    METAL => "--capacity-metal3",
                    ACS => "--capacity-cloudstack",
                    POOL | MANAGED_POOL => "--watch-machine-pools",
                    _ => "--capacity-table=NAMESPACE/NAME, with an entry for it",
                };
                vec![fix(&format!("start Berth with {flag}; where it runs so, ask again with the same flag"), None)]
            }
            _ => Vec::new(),
        }
    }
}
