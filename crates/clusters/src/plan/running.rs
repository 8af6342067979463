//! What would be done for clusters that run: files are laid over what their server holds, and what they come to is compared
//! with the generated objects as they are, whoever wrote them.

use std::collections::{BTreeMap, BTreeSet};

use api::key::ObjectKey;
use api::names::clusters::{ADOPT_REVISION_ANNOTATION, ON};
use api::own::anywhere::{Bundles, Cluster, ClusterSpec};
use serde_json::{Value, json};

use super::documents::{self, Documents};
use super::{Plan, datacenter_name, found, judge_parts, machine_names, oidc_name, rendered_with, shelf};
use crate::admit::{self, Terms};
use crate::bundle;
use crate::change::{Action, Cause, Difference, Effect, ObjectChange, Role, RoleChange, change, differences};
use crate::compare;
use crate::manifest::word;
use crate::observe::runs_kube_vip;
use crate::render::{GroupReferences, Live, REVISION, Rendered, Settings, Template};
use crate::snapshot::owner_of;

const CLUSTER: &str = "Cluster";
const PLANE: &str = "KubeadmControlPlane";
const GROUP: &str = "MachineDeployment";
const CHECK: &str = "MachineHealthCheck";
const MACHINE_TEMPLATE: &str = "CloudStackMachineTemplate";
const TEMPLATES: [&str; 2] = [MACHINE_TEMPLATE, "KubeadmConfigTemplate"];

/// Where a control plane and a group name their templates.
const PLANE_TEMPLATE: &str = "/spec/machineTemplate/spec/infrastructureRef/name";
const GROUP_TEMPLATES: [&str; 2] =
    ["/spec/template/spec/infrastructureRef/name", "/spec/template/spec/bootstrap/configRef/name"];

/// What of them replaces machines, beside their templates.
const PLANE_PATHS: [&str; 2] = ["spec.version", "spec.kubeadmConfigSpec"];
const GROUP_PATHS: [&str; 2] = ["spec.template.spec.version", "spec.template.spec.failureDomain"];

/// What a server holds of clusters.
#[derive(Clone, Debug, Default)]
pub struct Server {
    /// What users wrote, and bundles.
    pub documents: Documents,
    generated: BTreeMap<(String, String), Value>,
}

impl Server {
    /// Adds an object of the namespace of generated objects.
    pub fn add(&mut self, object: Value) {
        let key = (word(&object, "/kind").to_owned(), word(&object, "/metadata/name").to_owned());
        self.generated.insert(key, object);
    }

    fn stored(&self, kind: &str, name: &str) -> Option<&Value> {
        self.generated.get(&(kind.to_owned(), name.to_owned()))
    }

    fn of_kind<'s>(&'s self, kind: &'s str) -> impl Iterator<Item = (&'s str, &'s Value)> {
        let all = self.generated.iter().filter(move |((found, _), _)| found == kind);
        all.map(|((_, name), object)| (name.as_str(), object))
    }
}

/// Plans every workload cluster that the files change: those in them, and those that refer to something in them.
#[must_use]
pub fn plan_running(files: &Documents, server: &Server, terms: &Terms, settings: &Settings) -> Vec<Plan> {
    let all = files.over(&server.documents);
    let named = concerned(files, &server.documents);
    let clusters = named.iter().filter_map(|(namespace, name)| all.cluster(namespace, name));
    let workload = clusters.filter(|cluster| !admit::is_self_managed(cluster));
    workload.map(|cluster| one(cluster, &all, server, terms, settings)).collect()
}

fn concerned(files: &Documents, stored: &Documents) -> BTreeSet<(String, String)> {
    let key = |cluster: &Cluster| {
        let meta = &cluster.metadata;
        (documents::namespace(meta).to_owned(), documents::name(meta).to_owned())
    };
    let refers = |cluster: &&Cluster| {
        let namespace = documents::namespace(&cluster.metadata);
        files.datacenter(namespace, &datacenter_name(cluster)).is_some()
            || machine_names(cluster).iter().any(|name| files.machine(namespace, name).is_some())
            || oidc_name(cluster).is_some_and(|name| files.oidc(namespace, name).is_some())
    };
    files.clusters.iter().chain(stored.clusters.iter().filter(refers)).map(key).collect()
}

fn one(cluster: &Cluster, all: &Documents, server: &Server, terms: &Terms, settings: &Settings) -> Plan {
    let mut plan = Plan::of(cluster);
    let name = plan.name.clone();
    let before = server.documents.cluster(&plan.namespace, &name);
    plan.take(CLUSTER, &name, admit::judge_cluster(cluster, before, terms));
    judge_parts(&mut plan, cluster, all, Some(&server.documents));
    if before.is_some_and(|before| before.metadata.deletion_timestamp.is_some()) {
        plan.fault(CLUSTER, &name, "it is being deleted".to_owned());
    }
    if before.into_iter().chain([cluster]).any(|one| admit::is_paused(&one.metadata)) {
        plan.warnings.push("it is paused: nothing is done until it is not".to_owned());
    }
    let manager = cluster.spec.management_cluster.clone().unwrap_or_default().name;
    match all.manager(&plan.namespace, &manager) {
        None => plan.fault(CLUSTER, &name, format!("management cluster {manager} not found")),
        Some(found) if !admit::is_self_managed(found) => {
            plan.fault(CLUSTER, &name, format!("cluster {manager} is not a management cluster"));
        }
        Some(_) => {}
    }
    let there = There { server, key: ObjectKey::namespaced(plan.namespace.as_str(), name.as_str()) };
    if let Some(other) = there.anothers() {
        plan.fault(CLUSTER, &name, format!("name already used by {other}"));
    }
    let bundles = match bundles(cluster, before, all, settings) {
        Ok(bundles) => bundles,
        Err(message) => {
            plan.fault(CLUSTER, &name, message);
            return plan;
        }
    };
    plan.bundles = Some(documents::name(&bundles.metadata).to_owned());
    if before.is_some_and(|before| is_left(cluster, before, all, &server.documents)) {
        let told = "another release or controller rendered it: it stays as it is until something of it changes";
        plan.warnings.push(told.to_owned());
        if plan.faults.is_empty() {
            plan.machines = there.as_they_are(cluster);
        }
        return plan;
    }
    // What a cluster runs with stays, whatever the flags say now: its endpoint hangs on it.
    let kube_vip = there.plane().map_or(settings.kube_vip, runs_kube_vip);
    let settings = Settings { kube_vip, ..settings.clone() };
    match rendered_with(cluster, all, bundles, &settings, &there.live(cluster)) {
        Ok(rendered) if plan.faults.is_empty() => {
            plan.objects = there.objects(&rendered);
            plan.machines = there.roles(&rendered);
        }
        Ok(_) => {}
        Err(message) => plan.fault(CLUSTER, &name, message),
    }
    plan
}

/// The bundle that a cluster runs with, until its user chooses another version.
fn bundles<'d>(
    cluster: &Cluster,
    before: Option<&Cluster>,
    all: &'d Documents,
    settings: &'d Settings,
) -> Result<&'d Bundles, String> {
    let chosen = |spec: &ClusterSpec| {
        (spec.kubernetes_version.clone(), spec.eksa_version.clone(), spec.bundles_ref.clone().unwrap_or_default())
    };
    let same = before.filter(|before| chosen(&before.spec) == chosen(&cluster.spec));
    let wanted = &cluster.spec.eksa_version;
    let pin = same.and_then(|before| {
        let status = before.status.as_ref()?;
        let pin = status.resolved_bundles.as_ref()?;
        // A version that was asked for earlier and led to no bundle yet is not what the cluster runs with.
        let done = status.reconciled_generation.is_some()
            && status.reconciled_generation == before.metadata.generation
            && before.spec == cluster.spec;
        let holds = cluster.spec.bundles_ref.is_some()
            || wanted.is_empty()
            || pin.eksa_version == *wanted
            || pin.eksa_version.is_empty() && done;
        holds.then(|| (pin.clone(), done))
    });
    let Some((pin, done)) = pin else {
        return found(cluster, all, settings);
    };
    if !done {
        bundle::newer_than_manager(cluster, &shelf(cluster, all, settings)).map_err(|error| error.to_string())?;
    }
    let fits = |bundles: &&Bundles| {
        let meta = &bundles.metadata;
        meta.namespace.as_deref() == Some(pin.namespace.as_str()) && documents::name(meta) == pin.name
    };
    let found = all.bundles.iter().find(fits);
    found.ok_or_else(|| format!("Bundles {}/{} not found", pin.namespace, pin.name))
}

/// Whether a cluster that others rendered, or another release, is changed in nothing.
fn is_left(cluster: &Cluster, before: &Cluster, all: &Documents, stored: &Documents) -> bool {
    let status = before.status.clone().unwrap_or_default();
    let done = status.reconciled_generation.is_some() && status.reconciled_generation == before.metadata.generation;
    let adopts = [cluster, before].iter().any(|one| {
        let annotations = one.metadata.annotations.as_ref();
        annotations.and_then(|all| all.get(ADOPT_REVISION_ANNOTATION)).map(String::as_str) == Some(ON)
    });
    if !done || adopts || status.render_revision == Some(REVISION) || cluster.spec != before.spec {
        return false;
    }
    let namespace = documents::namespace(&cluster.metadata);
    let datacenter = datacenter_name(cluster);
    let zones = |of: &Documents| of.datacenter(namespace, &datacenter).map(|one| one.spec.clone());
    let machine = |of: &Documents, name: &str| of.machine(namespace, name).map(|one| one.spec.clone());
    let oidc = |of: &Documents| oidc_name(cluster).and_then(|name| Some(of.oidc(namespace, name)?.spec.clone()));
    zones(all) == zones(stored)
        && oidc(all) == oidc(stored)
        && machine_names(cluster).iter().all(|name| machine(all, name) == machine(stored, name))
}

/// What is there of one cluster.
struct There<'s> {
    server: &'s Server,
    key: ObjectKey,
}

impl<'s> There<'s> {
    /// The Cluster whose the generated objects of this name are, if it is another one.
    fn anothers(&self) -> Option<ObjectKey> {
        owner_of(self.server.stored(CLUSTER, self.key.name())?).filter(|owner| *owner != self.key)
    }

    fn plane(&self) -> Option<&'s Value> {
        self.server.stored(PLANE, self.key.name())
    }

    fn group(&self, group: &str) -> Option<&'s Value> {
        self.server.stored(GROUP, &format!("{}-{group}", self.key.name()))
    }

    /// The groups that were made for the cluster, by the names of their objects.
    fn groups(&self) -> Vec<(&'s str, &'s Value)> {
        let all = self.server.of_kind(GROUP);
        let all = all.filter(|(_, group)| word(group, "/spec/clusterName") == self.key.name());
        all.filter(|(_, group)| match owner_of(group) {
            Some(owner) => owner == self.key,
            None => compare::is_ours(group),
        })
        .collect()
    }

    /// The templates that are referred to, by kind and name.
    fn templates(&self) -> BTreeSet<(String, String)> {
        let plane = self.plane().map(|plane| (MACHINE_TEMPLATE, word(plane, PLANE_TEMPLATE)));
        let groups = self.groups();
        let groups = groups.iter().flat_map(|(_, group)| {
            TEMPLATES.into_iter().zip(GROUP_TEMPLATES).map(move |(kind, at)| (kind, word(group, at)))
        });
        plane.into_iter().chain(groups).map(|(kind, name)| (kind.to_owned(), name.to_owned())).collect()
    }

    fn live(&self, cluster: &Cluster) -> Live {
        let held = |object: &Value, at: &str| Some(word(object, at).to_owned()).filter(|name| !name.is_empty());
        let groups = cluster.spec.worker_node_group_configurations.iter().filter_map(|group| {
            let stored = self.group(&group.name)?;
            let [machine, config] = GROUP_TEMPLATES.map(|at| held(stored, at));
            Some((group.name.clone(), GroupReferences { machine, config }))
        });
        let templates = TEMPLATES.into_iter().flat_map(|kind| {
            self.server.of_kind(kind).map(move |(name, object)| {
                ((kind.to_owned(), name.to_owned()), object.get("spec").cloned().unwrap_or_default())
            })
        });
        Live {
            templates: templates.collect(),
            control_plane: self.plane().and_then(|plane| held(plane, PLANE_TEMPLATE)),
            groups: groups.collect(),
        }
    }

    /// Every role with the machines it has.
    fn as_they_are(&self, cluster: &Cluster) -> Vec<RoleChange> {
        let kept = |role: Role, stored: &Value| change(role, Some(stored), Vec::new(), stored);
        let plane = self.plane().map(|plane| kept(Role::ControlPlane, plane));
        let groups = cluster.spec.worker_node_group_configurations.iter();
        let groups = groups.filter_map(|group| Some(kept(Role::Group(group.name.clone()), self.group(&group.name)?)));
        plane.into_iter().chain(groups).collect()
    }

    fn objects(&self, rendered: &Rendered) -> Vec<ObjectChange> {
        let mut wanted = BTreeSet::new();
        let mut all = Vec::new();
        for object in rendered.objects() {
            let (kind, name) = (word(object, "/kind"), word(object, "/metadata/name"));
            let action = match self.server.stored(kind, name) {
                None => Action::Create,
                // Nobody may change a template; one of this name holds what is wanted.
                Some(_) if TEMPLATES.contains(&kind) => Action::Keep,
                Some(stored) if compare::changes(object, stored).is_empty() => Action::Keep,
                Some(_) => Action::Update,
            };
            wanted.insert((kind.to_owned(), name.to_owned()));
            all.push(ObjectChange { action, kind: kind.to_owned(), name: name.to_owned() });
        }
        let mut there = self.templates();
        there.extend(self.groups().into_iter().map(|(name, _)| (GROUP.to_owned(), name.to_owned())));
        let checks = self.server.of_kind(CHECK).filter(|(_, check)| owner_of(check).as_ref() == Some(&self.key));
        there.extend(checks.map(|(name, _)| (CHECK.to_owned(), name.to_owned())));
        let gone = there.into_iter().filter(|key| !wanted.contains(key));
        all.extend(gone.map(|(kind, name)| ObjectChange { action: Action::Delete, kind, name }));
        all
    }

    fn roles(&self, rendered: &Rendered) -> Vec<RoleChange> {
        let plane = self.plane();
        let mut causes = Vec::new();
        if let Some(stored) = plane {
            causes.extend(differing(PLANE, &rendered.control_plane, stored, &PLANE_PATHS));
            causes.extend(self.replaced(&rendered.control_plane_template, word(stored, PLANE_TEMPLATE)));
        }
        let mut all = vec![change(Role::ControlPlane, plane, causes, &rendered.control_plane)];
        for group in &rendered.groups {
            let stored = self.group(&group.name);
            let mut causes = Vec::new();
            if let Some(stored) = stored {
                causes.extend(differing(GROUP, &group.deployment, stored, &GROUP_PATHS));
                let templates = [&group.machine_template, &group.config_template];
                for (template, at) in templates.into_iter().zip(GROUP_TEMPLATES) {
                    causes.extend(self.replaced(template, word(stored, at)));
                }
            }
            all.push(change(Role::Group(group.name.clone()), stored, causes, &group.deployment));
        }
        let kept: BTreeSet<&str> =
            rendered.groups.iter().map(|group| word(&group.deployment, "/metadata/name")).collect();
        let prefix = format!("{}-", self.key.name());
        let gone = self.groups().into_iter().filter(|(name, _)| !kept.contains(name));
        all.extend(gone.map(|(name, stored)| RoleChange {
            role: Role::Group(name.strip_prefix(&prefix).unwrap_or(name).to_owned()),
            effect: Effect::Remove,
            because: Vec::new(),
            replicas_before: stored.pointer("/spec/replicas").and_then(Value::as_i64),
            replicas: None,
        }));
        all
    }

    /// Why a template takes the place of the one that is referred to.
    fn replaced(&self, new: &Template, old: &str) -> Vec<Cause> {
        if old == new.name {
            return Vec::new();
        }
        let kind = word(&new.object, "/kind");
        let spec = |object: Option<&Value>| object.and_then(|object| object.get("spec")).cloned().unwrap_or_default();
        let mut found = differences("spec", &spec(self.server.stored(kind, old)), &spec(Some(&new.object)));
        if found.is_empty() {
            let name =
                Difference { path: "metadata.name".to_owned(), old: Some(json!(old)), new: Some(json!(new.name)) };
            found.push(name);
        }
        found.into_iter().map(|difference| Cause { kind: kind.to_owned(), difference }).collect()
    }
}

/// What differs between an object as wanted and as stored, as far as it replaces machines.
fn differing(kind: &str, wanted: &Value, stored: &Value, paths: &[&str]) -> Vec<Cause> {
    let below = |path: &str, top: &str| {
        path.strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    let counts = |difference: &Difference| paths.iter().any(|top| below(&difference.path, top));
    let found = compare::differences(wanted, stored).into_iter().filter(counts);
    found.map(|difference| Cause { kind: kind.to_owned(), difference }).collect()
}
