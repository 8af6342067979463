//! The room: reads the world around one group, and carries out what was decided.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use api::key::ObjectKey;
use api::meta::Versioned;
use api::status::Conditioned;
use api::views::{MachineDeployment, MachineSet, ObjectRef, OpenShiftMachineSet};
use aws::credentials::from_secret;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kit::class::{Class, Classify, chain};
use kit::clock::Clock;
use kit::events::Events;
use kit::feed::{Feed, Project, Seen, Version};
use kit::kinds::Kind;
use kit::room::{Flow, Report, Room, Trouble as Failure, Violation};
use kit::write::{self, Target, Writer};
use kube::Api;
use serde::Serialize;
use tokio::time::Instant;

use crate::catalogue::Catalogue;
use crate::cloud::{Cloud, Door};
use crate::config::Config;
use crate::decide::{self, Snapshot, Standing, Step};
use crate::facts::{GroupFacts, GroupKey, GroupKind, HostFacts, METAL, MachineApi, PlaceFacts, Shape, World};
use crate::guard;
use crate::judge::{Credential, Ec2Wish, Judgement, Lookup, Scene, Wish, judge};
use crate::memory::Memories;
use crate::metal::{self, MetalFault};
use crate::metrics::{CapacityMetrics, Result as Outcome};
use crate::names::MACHINE_API_NAMESPACE;
use crate::near::nearest;
use crate::plan::Plan;
use crate::record::Record;
use crate::shelf::{Found, Place};
use crate::status::{Outlook, Trouble};
use crate::table::Table;

/// Where an OpenShift cluster keeps the certificate authorities of its cloud.
pub const BUNDLE: (&str, &str, &str) = ("openshift-config-managed", "kube-cloud-config", "ca-bundle.pem");
/// A write that meets another one is tried this often at once.
const TRIES: usize = 3;

/// Why a pass could not be finished.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The index does not show our own last write yet.
    #[error("the index is behind our own write")]
    Behind,
    /// Something could not be read.
    #[error("read {what}")]
    Read {
        /// What.
        what: String,
        /// Why.
        #[source]
        source: Box<kube::Error>,
    },
    /// The annotations could not be written.
    #[error(transparent)]
    Write(#[from] write::Error),
}

impl Classify for Error {
    fn class(&self) -> Class {
        match self {
            Self::Behind => Class::Stale,
            Self::Read { source, .. } => source.class(),
            Self::Write(error) => error.class(),
        }
    }
}

/// The room has no status of its own: other people's objects tell by their annotations.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct NoStatus {
    #[serde(skip)]
    none: Vec<Condition>,
}

impl Conditioned for NoStatus {
    fn conditions(&self) -> &[Condition] {
        &self.none
    }
    fn conditions_mut(&mut self) -> &mut Vec<Condition> {
        &mut self.none
    }
    fn set_observed_generation(&mut self, _: i64) {}
}

/// What a pass learns, and which version of the group it is about.
#[derive(Clone, Debug)]
pub struct Seeing {
    /// The group.
    pub key: GroupKey,
    /// What is decided on.
    pub snapshot: Snapshot,
    /// The version of the group.
    pub version: Option<Version>,
}

/// The room.
pub struct Annotator<C> {
    world: World,
    config: Arc<Config>,
    catalogue: Arc<Catalogue<C>>,
    writer: Writer,
    events: Events,
    clock: Clock,
    metrics: CapacityMetrics,
    memories: Mutex<Memories>,
    table: Arc<RwLock<Table>>,
}

/// What the room is made of.
pub struct Parts<C> {
    /// The indexes.
    pub world: World,
    /// What the flags say.
    pub config: Arc<Config>,
    /// The catalogue.
    pub catalogue: Arc<Catalogue<C>>,
    /// The table of types.
    pub table: Arc<RwLock<Table>>,
    /// Writes annotations.
    pub writer: Writer,
    /// Says what is wrong.
    pub events: Events,
    /// Tells the time.
    pub clock: Clock,
    /// Counts.
    pub metrics: CapacityMetrics,
}

impl<C: Cloud> Annotator<C> {
    /// A room of these parts.
    #[must_use]
    pub fn new(parts: Parts<C>) -> Self {
        let Parts { world, config, catalogue, table, writer, events, clock, metrics } = parts;
        Self { world, config, catalogue, writer, events, clock, metrics, memories: Mutex::default(), table }
    }

    fn memories(&self) -> MutexGuard<'_, Memories> {
        self.memories.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn kind(&self, kind: GroupKind) -> Kind {
        match kind {
            GroupKind::OpenShiftSet => self.world.openshift_sets.kind(),
            GroupKind::Deployment => self.world.deployments.kind(),
            GroupKind::Set => self.world.sets.kind(),
        }
    }

    fn target(&self, key: &GroupKey, uid: &str) -> Target {
        Target { kind: self.kind(key.kind), key: key.key.clone(), uid: uid.into() }
    }

    /// The group and its version, from the index.
    fn group(&self, key: &GroupKey) -> Sighting<GroupFacts> {
        match key.kind {
            GroupKind::OpenShiftSet => seen(&self.world.openshift_sets, &key.key),
            GroupKind::Deployment => seen(&self.world.deployments, &key.key),
            GroupKind::Set => seen(&self.world.sets, &key.key),
        }
    }

    fn scene(&self, key: &GroupKey, group: &Arc<GroupFacts>) -> Scene {
        scene(&self.world, key, group, &self.config)
    }

    /// What the type of a group offers, as far as that is known.
    async fn look_up(&self, key: &GroupKey, group: &GroupFacts, wish: Wish, now: Timestamp) -> Result<Standing, Error> {
        let in_table = {
            let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
            table.get(&wish.table_name)
        };
        if let Some(offer) = in_table {
            return Ok(Standing::Known { offer, around: wish.around, again: None });
        }
        match &wish.lookup {
            Lookup::Ec2(ec2) => self.ask_ec2(key, group, ec2, &wish, now).await,
            Lookup::Metal(template) => Ok(self.ask_hosts(template, &wish)),
            Lookup::Table => {
                let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
                let near = nearest(&wish.table_name, table.names());
                let place = self.config.table.as_ref().map_or("any table".to_owned(), |t| format!("ConfigMap {t}"));
                let trouble = match table.faults.get(&wish.table_name) {
                    Some(fault) => Trouble::missing(format!("{place}: {}: {fault}", wish.table_name)),
                    None => Trouble::unknown(&wish.table_name, &place, &near, None),
                };
                Ok(Standing::Stuck { trouble, again: None })
            }
        }
    }

    /// What hosts behind a template offer.
    fn ask_hosts(&self, key: &ObjectKey, wish: &Wish) -> Standing {
        let stuck = |trouble| Standing::Stuck { trouble, again: None };
        let Some(metal) = &self.world.metal else {
            return stuck(Trouble::missing("bare metal is not followed".to_owned()));
        };
        let Some(selector) = at(&metal.templates, key) else {
            return stuck(Trouble::missing(format!("{METAL} {} is not there", key.name())));
        };
        let hosts: Vec<HostFacts> = metal
            .hosts
            .by("namespace", key.namespace().unwrap_or_default())
            .into_iter()
            .map(|(host, facts)| {
                let mut facts = HostFacts::clone(&facts);
                if facts.hardware.is_none() {
                    facts.hardware = at(&metal.hardware, &host).and_then(|found| Option::clone(&found));
                }
                facts
            })
            .collect();
        match metal::offer(&selector, hosts.iter()) {
            Ok(offer) => Standing::Known { offer: Arc::new(offer), around: wish.around.clone(), again: None },
            Err(MetalFault::NoHost) => {
                let place = format!("namespace {}", key.namespace().unwrap_or_default());
                stuck(Trouble::no_host(key.name(), &place))
            }
            Err(fault) => stuck(Trouble::missing(format!("{METAL} {}: {fault}", key.name()))),
        }
    }

    async fn ask_ec2(
        &self,
        key: &GroupKey,
        group: &GroupFacts,
        ec2: &Ec2Wish,
        wish: &Wish,
        now: Timestamp,
    ) -> Result<Standing, Error> {
        let place = place(ec2);
        let name = wish.around.instance_type.as_str();
        let found = self.catalogue.find(&place, name, key);
        Ok(match found {
            Found::Known { offer, errand, again, .. } => {
                if let Some(errand) = errand {
                    // The old list goes on, so being without credentials for a new one is nobody's trouble yet.
                    match self.door(ec2).await {
                        Ok(Ok(door)) => self.catalogue.send(errand, door, None),
                        Ok(Err(trouble)) => {
                            tracing::warn!(object = %key, error = trouble.message, "catalogue not refreshed")
                        }
                        Err(error) => tracing::warn!(object = %key, error = %chain(&error), "catalogue not refreshed"),
                    }
                }
                if offer.is_incomplete() {
                    let trouble = Trouble::incomplete(name, ec2.region.as_str());
                    return Ok(Standing::Stuck { trouble, again: None });
                }
                Standing::Known { offer, around: wish.around.clone(), again: again.map(|at| self.wall(at, now)) }
            }
            Found::Unknown { near } => {
                let record = Record::parse(group.annotation(crate::names::APPLIED));
                let trouble = Trouble::unknown(name, ec2.region.as_str(), &near, Some(&record.instance_type));
                Standing::Stuck { trouble, again: None }
            }
            Found::Ask(errand) => match self.door(ec2).await? {
                Ok(door) => {
                    self.catalogue.send(errand, door, Some(key));
                    Standing::Asking
                }
                Err(trouble) => Standing::Stuck { trouble, again: None },
            },
            Found::Wait => Standing::Asking,
            Found::Failed { refusal, again } => {
                let trouble = if refusal.terminal {
                    Trouble::refused(refusal.message)
                } else {
                    Trouble::passing(refusal.message)
                };
                Standing::Stuck { trouble, again: Some(self.wall(again, now)) }
            }
        })
    }

    /// A monotonic time as the driver counts.
    fn wall(&self, at: Instant, now: Timestamp) -> Timestamp {
        let pause = at.saturating_duration_since(self.clock.instant());
        now.saturating_add(pause.max(Duration::from_millis(1))).unwrap_or(now)
    }

    /// The way to EC2: credentials and trust are read only now that they are needed.
    async fn door(&self, wish: &Ec2Wish) -> Result<Result<Door, Trouble>, Error> {
        let client = self.writer.client();
        let source = match &wish.credential {
            Credential::Ambient => match &self.config.ambient {
                Ok(ambient) => ambient.source().clone(),
                Err(why) => return Ok(Err(Trouble::refused(format!("no AWS credentials: {why}")))),
            },
            Credential::Secret(secret) => {
                let api: Api<Secret> = Api::namespaced(client.clone(), secret.namespace().unwrap_or_default());
                let found = api.get_opt(secret.name()).await;
                let Some(found) = found.map_err(read(|| format!("Secret {secret}")))? else {
                    return Ok(Err(Trouble::missing(format!("Secret {secret} is not there"))));
                };
                let data = found.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0)).collect();
                match from_secret(&data, &self.config.token_paths) {
                    Ok(source) => source,
                    Err(error) => return Ok(Err(Trouble::refused(format!("Secret {secret}: {}", chain(&error))))),
                }
            }
        };
        let (namespace, name, key) = BUNDLE;
        let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
        let bundle = api.get_opt(name).await.map_err(read(|| format!("ConfigMap {namespace}/{name}")))?;
        let bundle = bundle.and_then(|map| map.data?.remove(key)).filter(|text| !text.trim().is_empty());
        Ok(Ok(Door {
            region: wish.region.clone(),
            source,
            endpoints: wish.endpoints.clone(),
            bundle: bundle.map(Into::into),
        }))
    }

    /// Writes annotations, at once again where somebody else wrote the group meanwhile.
    async fn annotate(&self, seeing: &Seeing, mut plan: Plan) -> Result<Flow, Error> {
        let (key, snapshot) = (&seeing.key, &seeing.snapshot);
        let Some(mut version) = seeing.version.clone() else { return Err(Error::Behind) };
        let target = self.target(key, &snapshot.group.uid);
        for _ in 0..=TRIES {
            let written = self.writer.merge(&target, plan.patch(&version.resource_version), None).await;
            match written {
                Ok(version) => {
                    self.wrote(key, &version);
                    self.metrics.patched(key.kind, "done");
                    self.metrics.passed(key.kind, Outcome::Changed);
                    let now = snapshot.now;
                    self.memories().change(key, now, |memory| {
                        plan.changes.iter().for_each(|(key, value)| memory.write(key, value.as_deref(), now));
                    });
                    tracing::info!(object = %key, changes = %changes(snapshot, &plan), "annotated");
                    return Ok(Flow::Next);
                }
                Err(write::Error::Changed { .. }) => {
                    self.metrics.patched(key.kind, "conflict");
                    let Some((group, live)) = self.live(key).await? else { return Ok(Flow::Wait(None)) };
                    // Only annotations may have changed under us; anything else is judged from the start.
                    if group.uid != snapshot.group.uid || group.shape != snapshot.group.shape || group.deleting {
                        return Err(Error::Behind);
                    }
                    let Standing::Known { offer, around, .. } = &snapshot.standing else { return Err(Error::Behind) };
                    plan = snapshot.plan_for(&group, &snapshot.goal(offer, around));
                    if plan.is_empty() {
                        return Ok(Flow::Wait(None));
                    }
                    version = live;
                }
                Err(write::Error::Refused { source, .. }) if is_code(&source, &[404]) => return Ok(Flow::Wait(None)),
                // An admission policy guards the copy that does not own the annotations: that is no failure, and
                // nothing announces its end but the group itself.
                Err(error @ write::Error::Refused { .. }) if refused(&error) => {
                    self.metrics.patched(key.kind, "refused");
                    tracing::info!(object = %key, error = %chain(&error), "the annotations were refused, looking again later");
                    return Ok(Flow::Wait(None));
                }
                Err(error) => {
                    self.metrics.patched(key.kind, "failed");
                    return Err(error.into());
                }
            }
        }
        Err(Error::Behind)
    }

    fn wrote(&self, key: &GroupKey, version: &Version) {
        match key.kind {
            GroupKind::OpenShiftSet => self.world.openshift_sets.wrote(&key.key, version),
            GroupKind::Deployment => self.world.deployments.wrote(&key.key, version),
            GroupKind::Set => self.world.sets.wrote(&key.key, version),
        }
    }

    /// The group as the server has it now.
    async fn live(&self, key: &GroupKey) -> Result<Option<(GroupFacts, Version)>, Error> {
        let (resource, namespace) = (self.kind(key.kind).resource(), key.key.namespace().unwrap_or_default());
        let (client, name) = (self.writer.client().clone(), key.key.name());
        let failed = |error| read(|| key.to_string())(error);
        Ok(match key.kind {
            GroupKind::OpenShiftSet => {
                let api: Api<Versioned<OpenShiftMachineSet>> = Api::namespaced_with(client, namespace, &resource);
                let found = api.get_opt(name).await.map_err(failed)?;
                found.map(|Versioned(set)| (Version::of(&set), set)).map(|(v, set)| (GroupFacts::of_openshift(set), v))
            }
            GroupKind::Deployment => {
                let api: Api<Versioned<MachineDeployment>> = Api::namespaced_with(client, namespace, &resource);
                let found = api.get_opt(name).await.map_err(failed)?;
                found
                    .map(|Versioned(d)| (Version::of(&d), d))
                    .map(|(v, d)| (GroupFacts::of_cluster_api(d.metadata, d.spec), v))
            }
            GroupKind::Set => {
                let api: Api<Versioned<MachineSet>> = Api::namespaced_with(client, namespace, &resource);
                let found = api.get_opt(name).await.map_err(failed)?;
                found
                    .map(|Versioned(s)| (Version::of(&s), s))
                    .map(|(v, s)| (GroupFacts::of_cluster_api(s.metadata, s.spec), v))
            }
        })
    }

    /// Counts how a pass ends that writes nothing.
    fn count(&self, key: &GroupKey, snapshot: &Snapshot) {
        let outcome = match &snapshot.standing {
            Standing::Skipped(_) => Outcome::Skipped,
            Standing::Asking => Outcome::Asking,
            Standing::Stuck { trouble, .. } => match trouble.outlook {
                Outlook::UnknownType | Outlook::Incomplete => Outcome::UnknownType,
                Outlook::Terminal | Outlook::Missing => Outcome::Terminal,
                Outlook::Passing => Outcome::Error,
            },
            Standing::Known { offer, around, .. } => {
                let plan = snapshot.plan(&snapshot.goal(offer, around));
                self.metrics.overrides(key, plan.overrides.len());
                if !plan.is_empty() {
                    return;
                }
                Outcome::Unchanged
            }
        };
        self.metrics.passed(key.kind, outcome);
    }
}

/// Where a type is looked up.
#[must_use]
pub fn place(wish: &Ec2Wish) -> Place {
    let set = wish.endpoints.is_set(aws::errors::Service::Ec2);
    let endpoint = set.then(|| wish.endpoints.of(aws::errors::Service::Ec2, &wish.region).url.into());
    Place { region: wish.region.clone(), endpoint }
}

/// What the indexes show around one group.
#[must_use]
pub fn scene(world: &World, key: &GroupKey, group: &Arc<GroupFacts>, config: &Arc<Config>) -> Scene {
    let namespace = key.key.namespace().unwrap_or_default();
    let cluster = group.cluster().and_then(|name| at(&world.clusters, &ObjectKey::namespaced(namespace, name)));
    let region = cluster.as_ref().and_then(|cluster| {
        // The infrastructure comes first; what EKS and ROSA have is often named in both places.
        let references = cluster.infrastructure.iter().chain(&cluster.control_plane);
        references.filter_map(|reference| place_of(world, namespace, reference)).find_map(|place| place.region.clone())
    });
    let template = group.reference().filter(|r| r.kind.as_ref() == "AWSMachineTemplate" && r.elsewhere.is_none());
    let twin = (key.kind == GroupKind::Set)
        .then(|| at(&world.openshift_sets, &ObjectKey::namespaced(MACHINE_API_NAMESPACE, key.key.name())))
        .flatten()
        .and_then(|twin| match &twin.shape {
            Shape::MachineApi { api, .. } => Some(MachineApi::clone(api)),
            Shape::ClusterApi { .. } => None,
        });
    Scene {
        key: key.clone(),
        group: Arc::clone(group),
        cluster,
        cluster_region: region,
        template: template.and_then(|r| at(&world.templates, &ObjectKey::namespaced(namespace, r.name.clone()))),
        infrastructure: at(&world.infrastructures, &ObjectKey::cluster_scoped("cluster")),
        twin,
        config: Arc::clone(config),
    }
}

fn place_of(world: &World, namespace: &str, reference: &ObjectRef) -> Option<Arc<PlaceFacts>> {
    let key = ObjectKey::namespaced(namespace, reference.name.as_str());
    match reference.kind.as_str() {
        "AWSCluster" => at(&world.aws_clusters, &key),
        "AWSManagedControlPlane" => at(&world.managed_planes, &key),
        "ROSAControlPlane" => at(&world.rosa_planes, &key),
        _ => None,
    }
}

fn at<P: Project>(feed: &Feed<P>, key: &ObjectKey) -> Option<Arc<P::Slim>> {
    match feed.get(key) {
        Seen::At(slim) => Some(slim),
        Seen::Absent | Seen::Behind => None,
    }
}

type Sighting<S> = Result<Option<(Arc<S>, Option<Version>)>, Error>;

fn seen<P: Project>(feed: &Feed<P>, key: &ObjectKey) -> Sighting<P::Slim> {
    match feed.get(key) {
        Seen::At(slim) => {
            let version = feed.version(key, &slim);
            Ok(Some((slim, version)))
        }
        Seen::Absent => Ok(None),
        Seen::Behind => Err(Error::Behind),
    }
}

fn read(what: impl FnOnce() -> String) -> impl FnOnce(kube::Error) -> Error {
    move |source| Error::Read { what: what(), source: Box::new(source) }
}

fn is_code(error: &kube::Error, codes: &[u16]) -> bool {
    matches!(error, kube::Error::Api(status) if codes.contains(&status.code))
}

fn refused(error: &write::Error) -> bool {
    matches!(error, write::Error::Refused { source, .. } if is_code(source, &[403, 422]))
}

/// What changes, for the log: old value and new one of each key.
fn changes(snapshot: &Snapshot, plan: &Plan) -> String {
    let one = |(key, new): (&String, &Option<String>)| {
        let short = key.rsplit('/').next().unwrap_or(key);
        let old = snapshot.group.annotation(key).unwrap_or("-");
        format!("{short}: {old} -> {}", new.as_deref().unwrap_or("-"))
    };
    let shown: Vec<String> = plan.changes.iter().filter(|(key, _)| *key != crate::names::APPLIED).map(one).collect();
    shown.join("; ")
}

impl<C: Cloud> Room for Annotator<C> {
    const NAME: &'static str = "capacity";
    type Key = GroupKey;
    type Snapshot = Seeing;
    type Step = Step;
    type Status = NoStatus;
    type Error = Error;

    async fn observe(&self, key: &GroupKey, now: Timestamp) -> Result<Option<Seeing>, Error> {
        let Some((group, version)) = self.group(key)? else {
            self.memories().forget(key);
            self.catalogue.forget(key);
            self.metrics.overrides(key, 0);
            return Ok(None);
        };
        let scene = self.scene(key, &group);
        let deferred = self.config.defer_to_template
            && scene.template.as_ref().is_some_and(|template| crate::template::says_everything(&template.status));
        let standing = match judge(&scene) {
            Judgement::Skip(skip) => {
                tracing::trace!(object = %key, reason = %skip, "left alone");
                Standing::Skipped(skip)
            }
            Judgement::Stuck(trouble) => Standing::Stuck { trouble, again: None },
            Judgement::Wants(wish) => self.look_up(key, &group, wish, now).await?,
        };
        let memory = self.memories().of(key);
        if matches!(standing, Standing::Skipped(_)) {
            self.memories().recover(key);
        }
        let machine_api = key.kind.is_machine_api();
        let config = Arc::clone(&self.config);
        let snapshot = Snapshot { machine_api, group, standing, deferred, memory, config, now };
        self.count(key, &snapshot);
        Ok(Some(Seeing { key: key.clone(), snapshot, version }))
    }

    fn decide(&self, seeing: &Seeing) -> Vec<Step> {
        decide::decide(&seeing.snapshot)
    }

    fn guard(&self, seeing: &Seeing, plan: &[Step]) -> Result<(), Violation> {
        guard::guard(&seeing.snapshot, plan)
    }

    async fn apply(&self, seeing: &Seeing, step: Step) -> Result<Flow, Error> {
        let (key, snapshot) = (&seeing.key, &seeing.snapshot);
        let (now, target) = (snapshot.now, self.target(key, &snapshot.group.uid));
        match step {
            Step::Annotate(plan) => return self.annotate(seeing, plan).await,
            Step::Yield { key: fought, message } => {
                self.memories().change(key, now, |memory| memory.yield_to(&fought, now));
                self.events
                    .say(&target, true, api::reasons::capacity::Reason::AnnotationConflict.as_str(), &message)
                    .await;
            }
            Step::Tell { warning, reason, message } => {
                let troubled = matches!(snapshot.standing, Standing::Stuck { .. });
                self.memories().change(key, now, |memory| {
                    memory.tell(reason, &message, now);
                    memory.troubled |= troubled;
                });
                self.events.say(&target, warning, reason.as_str(), &message).await;
            }
            Step::Wait { until } => return Ok(Flow::Wait(until)),
        }
        Ok(Flow::Next)
    }

    fn report<'s>(&self, seeing: &'s Seeing, _: Option<&Failure<Error>>) -> Option<Report<'s, NoStatus>> {
        if matches!(seeing.snapshot.standing, Standing::Known { .. }) && seeing.snapshot.memory.troubled {
            self.memories().recover(&seeing.key);
        }
        None
    }
}
