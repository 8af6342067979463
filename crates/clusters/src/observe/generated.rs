//! What generated objects should be, and what is stored of them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::key::ObjectKey;
use api::names::CLUSTER_NAME_LABEL;
use api::names::clusters::CLONED_FROM_ANNOTATION;
use api::own::anywhere::{CloudStackMachineConfig, OIDCConfig};
use api::views::{KubeadmControlPlane, MachineDeployment};
use kit::feed::{Feed, Project};
use kit::kinds::Kind;
use kit::write::Target;
use kube::Api;
use kube::api::ListParams;
use kube::core::DynamicObject;
use serde_json::Value;

use crate::acs::Clouds;
use crate::bodies::{Shown, Wish};
use crate::compare;
use crate::facts::{Belonging, Mark, plane_of, standing_of};
use crate::manifest::word;
use crate::render::{self, GroupReferences, Inputs, Live, REVISION, Rendered};
use crate::room::{Error, Keeper, read};
use crate::snapshot::{Generated, Snapshot, owner_of};

/// Names of templates are settled after so many looks: the one in use, the short one and the long one.
const LOOKS: usize = 4;
/// Templates that nobody refers to are kept for this long.
const UNUSED: Duration = Duration::from_secs(600);

/// The kind of a generated object.
#[must_use]
pub fn kind_of(object: &Value) -> Kind {
    let version = word(object, "/apiVersion");
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let kind = word(object, "/kind");
    Kind {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        plural: format!("{}s", kind.to_lowercase()),
    }
}

/// What a look at generated objects found.
enum Found {
    /// What they should be and are.
    Rendered(Box<Generated>),
    /// They cannot be rendered.
    Error(render::Error),
    /// One of them belongs to another Cluster.
    Anothers(ObjectKey),
    /// Those that the others hang on are being deleted.
    Leaving,
}

fn key(object: &Value) -> (String, String) {
    (word(object, "/kind").to_owned(), word(object, "/metadata/name").to_owned())
}

impl<C: Clouds> Keeper<C> {
    /// A generated object as the server has it.
    pub(crate) async fn fetch(&self, kind: &Kind, name: &str) -> Result<Option<Value>, Error> {
        let namespace = self.config.system_namespace();
        let api: Api<DynamicObject> = Api::namespaced_with(self.writer.client().clone(), namespace, &kind.resource());
        let found = api.get_opt(name).await.map_err(read(|| format!("{} {namespace}/{name}", kind.kind)))?;
        Ok(found.and_then(|object| serde_json::to_value(object).ok()))
    }

    /// A generated object of a cluster: as it was read or written last, if the index shows nothing else, or as the server
    /// has it.
    pub(super) async fn known(&self, cluster: &ObjectKey, kind: &Kind, name: &str) -> Result<Option<Value>, Error> {
        let (named, now) = ((kind.kind.clone(), name.to_owned()), self.clock.instant());
        let shown = self.world.shows(kind, &ObjectKey::namespaced(self.config.system_namespace(), name));
        if let Some(found) = shown.and_then(|shown| self.bodies.recall(cluster, &named, &shown, now)) {
            return Ok(found);
        }
        let found = self.fetch(kind, name).await?;
        self.bodies.keep(cluster, named, found.as_ref(), now);
        Ok(found)
    }

    /// The same of an object that is there only with its Cluster of Cluster API, of which `begun` says whether the server has
    /// it: without it nothing else is there, unless the index shows it.
    async fn hanging(&self, s: &Snapshot, kind: &Kind, name: &str, begun: bool) -> Result<Option<Value>, Error> {
        let at = ObjectKey::namespaced(self.config.system_namespace(), name);
        if !begun && self.world.shows(kind, &at) == Some(Shown::Absent) {
            let named = (kind.kind.clone(), name.to_owned());
            self.bodies.keep(&s.key, named, None, self.clock.instant());
            return Ok(None);
        }
        self.known(&s.key, kind, name).await
    }

    /// Whether an index does not show one of our own writes yet.
    pub(super) fn is_lagging(&self, s: &Snapshot) -> bool {
        let Some(Ok(generated)) = &s.generated else { return false };
        generated.rendered.objects().into_iter().any(|object| {
            let at = ObjectKey::namespaced(self.config.system_namespace(), word(object, "/metadata/name"));
            self.world.shows(&kind_of(object), &at) == Some(Shown::Behind)
        })
    }

    /// Looks at everything that is generated for a cluster.
    pub(super) async fn look_at_generated(&self, s: &mut Snapshot) -> Result<(), Error> {
        let generated = match self.generated(s).await? {
            Found::Rendered(generated) => *generated,
            Found::Error(error) => {
                s.generated = Some(Err(error));
                return Ok(());
            }
            Found::Anothers(other) => {
                s.clash = Some(other.to_string());
                return Ok(());
            }
            Found::Leaving => {
                s.fading = true;
                return Ok(());
            }
        };
        // What the server has counts more than what an index shows.
        let plane = generated.stored.get(&key(&generated.rendered.control_plane)).cloned();
        s.plane = plane.and_then(|plane| serde_json::from_value::<KubeadmControlPlane>(plane).ok()).map(plane_of);
        for group in &generated.rendered.groups {
            let (kind, name) = key(&group.deployment);
            let stored = generated.stored.get(&(kind, name.clone())).cloned();
            match stored.and_then(|stored| serde_json::from_value::<MachineDeployment>(stored).ok()) {
                Some(deployment) => drop(s.groups.insert(name, standing_of(deployment))),
                None => drop(s.groups.remove(&name)),
            }
        }
        s.generated = Some(Ok(generated));
        Ok(())
    }

    async fn generated(&self, s: &Snapshot) -> Result<Found, Error> {
        let (Some(datacenter), Ok(bundles)) = (&s.datacenter, &s.bundles) else { return Err(Error::Behind) };
        let machines: BTreeMap<String, CloudStackMachineConfig> =
            s.machines.iter().map(|(name, machine)| (name.clone(), machine.object.clone())).collect();
        let oidc = s.identities.iter().find(|((kind, _), _)| kind == "OIDCConfig");
        let oidc = oidc.map(|(_, identity)| {
            let mut object = OIDCConfig::new("", identity.oidc.clone());
            object.metadata = identity.metadata.clone();
            object
        });
        let inputs = Inputs {
            cluster: &s.cluster.object,
            datacenter: &datacenter.object,
            machines: &machines,
            oidc: oidc.as_ref(),
            bundles,
            settings: &self.config.settings,
        };
        let mut live = Live::default();
        let mut stored = BTreeMap::new();
        let begun = self.known(&s.key, &self.world.capi.kind(), s.key.name()).await?.is_some();
        // What a cluster runs with stays, whatever the flags say now: its endpoint hangs on it.
        let plane = Kind::of::<KubeadmControlPlane>();
        let mut settings = self.config.settings.clone();
        if let Some(running) = self.hanging(s, &plane, s.key.name(), begun).await? {
            settings.kube_vip = runs_kube_vip(&running);
        }
        let inputs = Inputs { settings: &settings, ..inputs };
        let first = match render::render(REVISION, &inputs, &live) {
            Ok(rendered) => rendered,
            Err(error) => return Ok(Found::Error(error)),
        };
        // Those that keep their names, and which templates they refer to.
        for object in first.objects().into_iter().filter(|object| !is_template(object)) {
            let name = word(object, "/metadata/name");
            if let Some(found) = self.hanging(s, &kind_of(object), name, begun).await? {
                stored.insert(key(object), found);
            }
        }
        let owners = stored.values().filter_map(owner_of);
        if let Some(other) = owners.into_iter().find(|owner| *owner != s.key) {
            return Ok(Found::Anothers(other));
        }
        let leaving = |object: &Value| object.pointer("/metadata/deletionTimestamp").is_some();
        let kept = [&first.cluster, &first.control_plane, &first.infrastructure];
        if kept.into_iter().filter_map(|object| stored.get(&key(object))).any(leaving) {
            return Ok(Found::Leaving);
        }
        self.references(&first, &stored, &mut live);
        let mut looked: BTreeSet<(String, String)> = BTreeSet::new();
        let templates = [kind_of(&first.control_plane_template.object)];
        let configs = first.groups.first().map(|group| kind_of(&group.config_template.object));
        let kinds: BTreeMap<String, Kind> =
            templates.into_iter().chain(configs).map(|kind| (kind.kind.clone(), kind)).collect();
        let machine = first.control_plane_template.object.get("kind").and_then(Value::as_str).unwrap_or_default();
        let config = configs_kind(&first);
        let mut wanted: Vec<(String, String)> = Vec::new();
        wanted.extend(live.control_plane.iter().map(|name| (machine.to_owned(), name.clone())));
        for group in live.groups.values() {
            wanted.extend(group.machine.iter().map(|name| (machine.to_owned(), name.clone())));
            wanted.extend(group.config.iter().map(|name| (config.clone(), name.clone())));
        }
        let mut rendered = first;
        for _ in 0..LOOKS {
            for (kind, name) in wanted.drain(..) {
                if !looked.insert((kind.clone(), name.clone())) {
                    continue;
                }
                let Some(address) = kinds.get(&kind) else { continue };
                if let Some(found) = self.hanging(s, address, &name, begun).await? {
                    let spec = found.get("spec").cloned().unwrap_or_default();
                    live.templates.insert((kind.clone(), name.clone()), spec);
                    stored.insert((kind, name), found);
                }
            }
            rendered = match render::render(REVISION, &inputs, &live) {
                Ok(rendered) => rendered,
                Err(error) => return Ok(Found::Error(error)),
            };
            let unseen = rendered.objects().into_iter().filter(|object| is_template(object)).map(key);
            wanted = unseen.filter(|key| !looked.contains(key)).collect();
            if wanted.is_empty() {
                break;
            }
        }
        let (orphans, foreign) = self.orphans(s, &rendered).await?;
        let unused = if s.is_converged() { self.unused(s, &rendered).await? } else { Vec::new() };
        Ok(Found::Rendered(Box::new(Generated { rendered, stored, orphans, foreign, unused })))
    }

    /// Which templates stored objects refer to.
    fn references(&self, rendered: &Rendered, stored: &BTreeMap<(String, String), Value>, live: &mut Live) {
        let plane = stored.get(&key(&rendered.control_plane)).cloned();
        let plane = plane.and_then(|plane| serde_json::from_value::<KubeadmControlPlane>(plane).ok()).map(plane_of);
        live.control_plane = plane.and_then(|plane| plane.template).map(Into::into);
        for group in &rendered.groups {
            let found = stored.get(&key(&group.deployment)).cloned();
            let found = found.and_then(|found| serde_json::from_value::<MachineDeployment>(found).ok());
            if let Some(facts) = found.map(standing_of) {
                let references =
                    GroupReferences { machine: facts.template.map(Into::into), config: facts.config.map(Into::into) };
                live.groups.insert(group.name.clone(), references);
            }
        }
    }

    /// What was decided on is what the server has: nothing is written on old news. What the server said a moment ago, to
    /// whichever cluster or in answer to our own write, is not asked again.
    pub(super) async fn confirm(&self, s: &Snapshot) -> Result<(), Error> {
        let namespace = s.key.namespace().unwrap_or_default();
        let mut all = Vec::new();
        if !self.memories.wrote_lately(&s.key, &s.version, self.clock.instant()) {
            all.push((Kind::of::<api::raw::Cluster>(), s.key.name().to_owned(), s.cluster.meta()));
        }
        if let Some(datacenter) = &s.datacenter {
            let kind = Kind::of::<api::raw::CloudStackDatacenterConfig>();
            all.push((kind, s.cluster.datacenter().to_owned(), &datacenter.object.metadata));
        }
        for (name, machine) in &s.machines {
            let kind = Kind::of::<api::raw::CloudStackMachineConfig>();
            all.push((kind, name.clone(), &machine.object.metadata));
        }
        for (kind, name, seen) in all {
            let (at, seen, now) =
                (ObjectKey::namespaced(namespace, name.as_str()), Wish::of(seen), self.clock.instant());
            if self.wishes.is_known(&kind.kind, &at, &seen, now) {
                continue;
            }
            let api: Api<DynamicObject> =
                Api::namespaced_with(self.writer.client().clone(), namespace, &kind.resource());
            let found = api.get_metadata_opt(&name).await;
            let found = found.map_err(read(|| format!("{} {namespace}/{name}", kind.kind)))?;
            let found = found.map(|found| Wish::of(&found.metadata));
            if found.as_ref() != Some(&seen) {
                return Err(Error::Moved(format!("{} {namespace}/{name}", kind.kind)));
            }
            self.wishes.heard(&kind.kind, &at, seen, now);
        }
        Ok(())
    }

    /// MachineDeployments and health checks of the cluster that nobody wants any more, and those that others made.
    async fn orphans(&self, s: &Snapshot, rendered: &Rendered) -> Result<(Vec<Target>, Vec<String>), Error> {
        let index = ObjectKey::namespaced(self.config.system_namespace(), s.key.name()).to_string();
        let wanted: BTreeSet<(String, String)> = rendered.objects().into_iter().map(key).collect();
        let is_wanted = |kind: &str, name: &str| wanted.contains(&(kind.to_owned(), name.to_owned()));
        let (mut orphans, mut foreign) = (Vec::new(), Vec::new());
        let kind = self.world.groups.kind();
        for (at, facts) in self.world.groups.by("cluster", &index) {
            if is_wanted("MachineDeployment", at.name()) || facts.mark.deleting {
                continue;
            }
            let ours = match &facts.mark.owner {
                Some(owner) => *owner == s.key,
                None => self.fetch(&kind, at.name()).await?.as_ref().is_some_and(compare::is_ours),
            };
            if ours {
                orphans.push(Target { kind: kind.clone(), key: at, uid: facts.mark.uid.clone() });
            } else {
                foreign.push(at.name().to_owned());
            }
        }
        orphans.extend(unwanted(&self.world.checks, &index, s, |name| is_wanted("MachineHealthCheck", name)));
        // An index that has not heard of a deletion would have it done and told again and again.
        orphans.retain(|target| !self.memories.is_deleted(&s.key, &target.uid));
        Ok((orphans, foreign))
    }

    /// Templates of ours that nobody refers to any more.
    async fn unused(&self, s: &Snapshot, rendered: &Rendered) -> Result<Vec<Target>, Error> {
        let index = ObjectKey::namespaced(self.config.system_namespace(), s.key.name()).to_string();
        let wanted: BTreeSet<String> = rendered.objects().into_iter().map(|object| key(object).1).collect();
        let old = s.now.as_second().saturating_sub(i64::try_from(UNUSED.as_secs()).unwrap_or(i64::MAX));
        let is_kept = |name: &str| wanted.contains(name);
        let mut found = unwanted_since(&self.world.templates, &index, s, old, is_kept);
        found.extend(unwanted_since(&self.world.configs, &index, s, old, is_kept));
        found.retain(|target| !self.memories.is_deleted(&s.key, &target.uid));
        if found.is_empty() {
            return Ok(found);
        }
        let referred = self.referred(s, &index).await?;
        found.retain(|target| !referred.contains(target.key.name()));
        Ok(found)
    }

    /// Every name of a template that somebody refers to, as the server has it.
    async fn referred(&self, s: &Snapshot, index: &str) -> Result<BTreeSet<String>, Error> {
        let mut names: BTreeSet<String> = BTreeSet::new();
        names.extend(s.plane.iter().filter_map(|plane| plane.template.as_deref()).map(str::to_owned));
        for (_, group) in self.world.groups.by("cluster", index) {
            names.extend([&group.template, &group.config].into_iter().flatten().map(|name| name.to_string()));
        }
        let mut sets = self.world.groups.kind();
        (sets.kind, sets.plural) = ("MachineSet".to_owned(), "machinesets".to_owned());
        let paths = ["/spec/template/spec/infrastructureRef/name", "/spec/template/spec/bootstrap/configRef/name"];
        for object in self.labelled(&sets, s.key.name()).await? {
            names.extend(paths.iter().map(|at| word(&object, at).to_owned()));
        }
        let mut machines = self.world.templates.kind();
        (machines.kind, machines.plural) = ("CloudStackMachine".to_owned(), "cloudstackmachines".to_owned());
        for object in self.labelled(&machines, s.key.name()).await? {
            let from = object.pointer("/metadata/annotations").and_then(|all| all.get(CLONED_FROM_ANNOTATION));
            names.extend(from.and_then(Value::as_str).map(str::to_owned));
        }
        Ok(names)
    }

    /// The objects of a kind that belong to a cluster of Cluster API.
    pub(super) async fn labelled(&self, kind: &Kind, cluster: &str) -> Result<Vec<Value>, Error> {
        let namespace = self.config.system_namespace();
        let api: Api<DynamicObject> = Api::namespaced_with(self.writer.client().clone(), namespace, &kind.resource());
        let params = ListParams::default().labels(&format!("{CLUSTER_NAME_LABEL}={cluster}"));
        match api.list(&params).await {
            Ok(list) => Ok(list.items.into_iter().filter_map(|one| serde_json::to_value(one).ok()).collect()),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
            Err(error) => Err(read(|| format!("{} of {cluster}", kind.plural))(error)),
        }
    }
}

/// Whether kube-vip holds the endpoint of a control plane as it runs.
pub fn runs_kube_vip(plane: &Value) -> bool {
    let files = plane.pointer("/spec/kubeadmConfigSpec/files").and_then(Value::as_array);
    files.into_iter().flatten().any(|file| word(file, "/path").ends_with("/kube-vip.yaml"))
}

fn is_template(object: &Value) -> bool {
    word(object, "/kind").ends_with("Template")
}

fn configs_kind(rendered: &Rendered) -> String {
    let config = rendered.groups.first().map(|group| word(&group.config_template.object, "/kind").to_owned());
    config.unwrap_or_default()
}

fn unwanted<P: Project>(feed: &Feed<P>, index: &str, s: &Snapshot, kept: impl Fn(&str) -> bool) -> Vec<Target>
where
    P::Slim: Belonging,
{
    unwanted_since(feed, index, s, i64::MAX, kept)
}

fn unwanted_since<P: Project>(
    feed: &Feed<P>,
    index: &str,
    s: &Snapshot,
    before: i64,
    kept: impl Fn(&str) -> bool,
) -> Vec<Target>
where
    P::Slim: Belonging,
{
    let kind = feed.kind();
    let ours = |mark: &Mark| mark.owner.as_ref() == Some(&s.key) && !mark.deleting && mark.created < before;
    let found = feed.by("cluster", index).into_iter();
    let found = found.filter(|(at, facts)| ours(facts.mark()) && !kept(at.name()));
    found.map(|(at, facts)| Target { kind: kind.clone(), key: at, uid: facts.mark().uid.clone() }).collect()
}
