//! What the indexes show around a cluster.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use api::key::ObjectKey;
use api::own::anywhere::{Bundles, BundlesRef, Cluster, EKSARelease};
use aws_lc_rs::digest::{SHA256, digest};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kit::feed::{Feed, Project, Version};
use kit::kinds::Kind;
use kit::write::Target;

use crate::acs::Clouds;
use crate::bundle::{self, Shelf};
use crate::decide::Child;
use crate::facts::{Belonging, ClusterFacts, IdentityFacts, shown};
use crate::manifests;
use crate::owners::Owned;
use crate::phase::Failure;
use crate::room::{Error, Keeper};
use crate::snapshot::{Belongs, Endpoint, Reported, Snapshot, belongs};
use crate::version::{Minor, release_object};

impl<C: Clouds> Keeper<C> {
    /// What the indexes show of a cluster and around it.
    pub(super) fn around(
        &self,
        key: &ObjectKey,
        cluster: Arc<ClusterFacts>,
        version: Version,
        now: Timestamp,
    ) -> Result<Snapshot, Error> {
        let world = &self.world;
        let namespace = key.namespace().unwrap_or_default();
        let named = |name: &str| ObjectKey::namespaced(namespace, name);
        let inside = ObjectKey::namespaced(self.config.system_namespace(), key.name());
        let datacenter = shown(&world.datacenters, &named(cluster.datacenter()))?;
        let mut machines = BTreeMap::new();
        for name in cluster.machines() {
            machines.extend(shown(&world.machines, &named(name))?.map(|machine| (name.to_owned(), machine)));
        }
        let there = shown(&world.capi, &inside)?;
        let alone = self.is_alone(key);
        let capi = there.clone().filter(|capi| belongs(capi, key, &cluster, alone) != Belongs::Elsewhere);
        let ours = capi.is_some() || there.is_none();
        let plane = shown(&world.planes, &inside)?.filter(|_| ours).map(|plane| (*plane).clone());
        let index = inside.to_string();
        let groups = world.groups.by("cluster", &index).into_iter().filter(|_| ours);
        let groups: BTreeMap<_, _> = groups.map(|(key, facts)| (key.name().to_owned(), (*facts).clone())).collect();
        let fading = capi.as_ref().is_some_and(|capi| capi.mark.deleting);
        let mut s = Snapshot {
            key: key.clone(),
            target: Target { kind: world.clusters.kind(), key: key.clone(), uid: cluster.uid().into() },
            now,
            config: Arc::clone(&self.config),
            terms: self.terms(),
            stored: Reported::of(cluster.status.clone()),
            version,
            datacenter,
            machines,
            identities: self.identities(&cluster, namespace)?,
            peers: self.peers(key),
            strangers: Vec::new(),
            clash: self.clash(key, &cluster)?,
            manager_problem: None,
            bundles: Err(Failure {
                reason: api::reasons::clusters::Reason::EksaVersionInvalid,
                message: String::new(),
            }),
            bundled_for: String::new(),
            unserved: world.missing(),
            capi,
            plane,
            groups,
            nodes: world.nodes.by("cluster", &index).len(),
            hash: String::new(),
            fading,
            signature: String::new(),
            due: false,
            endpoint: Endpoint::NotAsked,
            checked: None,
            generated: None,
            inside: None,
            leftovers: None,
            cluster,
        };
        let manager = self.manager(&s.cluster, namespace);
        (s.bundles, s.bundled_for) = self.bundles(&s, manager.as_deref().ok());
        if self.unnoted.load(Ordering::Relaxed) {
            s.bundled_for.clear();
        }
        s.manager_problem = manager.err();
        s.hash = hash(&s);
        s.strangers = self.strangers(&s);
        s.signature = self.signature(&s);
        s.due = self.memories.is_due(key, &s.signature, self.clock.instant(), self.config.cluster_resync);
        Ok(s)
    }

    fn identities(
        &self,
        cluster: &ClusterFacts,
        namespace: &str,
    ) -> Result<BTreeMap<(String, String), Arc<IdentityFacts>>, Error> {
        let mut all = BTreeMap::new();
        for reference in &cluster.object.spec.identity_provider_refs {
            let key = ObjectKey::namespaced(namespace, reference.name.as_str());
            let found = match reference.kind.as_str() {
                "OIDCConfig" => shown(&self.world.oidcs, &key)?,
                "AWSIamConfig" => shown(&self.world.iams, &key)?,
                _ => None,
            };
            if let Some(found) = found {
                all.insert((reference.kind.clone(), reference.name.clone()), found);
            }
        }
        Ok(all)
    }

    /// The other clusters of the namespace, and what machines of each are made of.
    fn peers(&self, key: &ObjectKey) -> Vec<(ObjectKey, Vec<String>)> {
        let all = self.world.clusters.all().into_iter();
        all.filter(|(other, facts)| other.namespace() == key.namespace() && other != key && !facts.is_deleting())
            .map(|(other, facts)| (other, facts.machines().into_iter().map(str::to_owned).collect()))
            .collect()
    }

    /// Who has the name of the cluster and had it first.
    fn clash(&self, key: &ObjectKey, cluster: &ClusterFacts) -> Result<Option<String>, Error> {
        let inside = ObjectKey::namespaced(self.config.system_namespace(), key.name());
        if let Some(capi) = shown(&self.world.capi, &inside)?
            && belongs(&capi, key, cluster, self.is_alone(key)) == Belongs::Elsewhere
        {
            let owner = capi.mark.owner.as_ref().map(ToString::to_string);
            return Ok(Some(owner.unwrap_or_else(|| format!("a Cluster of Cluster API, {inside}"))));
        }
        let age = |facts: &ClusterFacts| (facts.created(), facts.uid().to_owned());
        let others = self.world.clusters.by("name", key.name()).into_iter();
        let mut others =
            others.filter(|(other, facts)| other != key && !facts.is_deleting() && age(facts) < age(cluster));
        Ok(others.next().map(|(other, _)| other.to_string()))
    }

    /// The managing cluster: beside the cluster, or the only one of its name.
    fn manager(&self, cluster: &ClusterFacts, namespace: &str) -> Result<Arc<ClusterFacts>, String> {
        let name = cluster.manager();
        let all = self.world.clusters.by("name", name);
        let beside = all.iter().find(|(key, _)| key.namespace() == Some(namespace));
        let found = match (beside, all.as_slice()) {
            (Some((_, facts)), _) | (None, [(_, facts)]) => facts,
            (None, []) => return Err(format!("management cluster {name} not found")),
            (None, _) => return Err(format!("there is more than one cluster named {name}")),
        };
        if found.is_self_managed() {
            Ok(Arc::clone(found))
        } else {
            Err(format!("cluster {name} is not a management cluster"))
        }
    }

    /// The bundle of a cluster, and the version by which it was found: the one that was found before, for as long as its user
    /// chooses no other version.
    fn bundles(&self, s: &Snapshot, manager: Option<&ClusterFacts>) -> (Result<Bundles, Failure>, String) {
        let system = self.config.system_namespace();
        let releases = self.world.releases.all().into_iter().filter(|(key, _)| key.namespace() == Some(system));
        let releases: Vec<EKSARelease> = releases.map(|(_, release)| (*release).clone()).collect();
        let named = |reference: &BundlesRef, key: &ObjectKey| {
            key.namespace() == Some(reference.namespace.as_str()) && key.name() == reference.name
        };
        let pin = pinned(s, &releases);
        let wanted: Vec<BundlesRef> = [
            s.cluster.object.spec.bundles_ref.clone(),
            manager.and_then(|manager| manager.object.spec.bundles_ref.clone()),
            pin.as_ref().map(|pin| pin.bundles.clone()),
        ]
        .into_iter()
        .flatten()
        .chain(releases.iter().map(|release| release.spec.bundles_ref.clone()))
        .collect();
        let all = self.world.bundles.all().into_iter();
        let bundles: Vec<Bundles> = all
            .filter(|(key, _)| wanted.iter().any(|reference| named(reference, key)))
            .map(|(_, bundles)| (*bundles).clone())
            .collect();
        let management = manager.map(|manager| &manager.object);
        let shelf = Shelf { management, releases: &releases, system, bundles: &bundles };
        let mut cluster: Cluster = s.cluster.object.clone();
        // What is carried out stays whatever its management cluster becomes; what is asked for is judged by it.
        let judged = match &pin {
            Some(_) if !is_reconciled(s) => bundle::newer_than_manager(&cluster, &shelf),
            _ => Ok(()),
        };
        let mut version = s.cluster.object.spec.eksa_version.as_str();
        if cluster.spec.bundles_ref.is_some() {
            version = "";
        }
        if let Some(pin) = &pin {
            cluster.spec.eksa_version.clear();
            cluster.spec.bundles_ref = Some(pin.bundles.clone());
            version = pin.version;
        }
        let found = judged.and_then(|()| bundle::find(&cluster, &shelf).cloned());
        (found.map_err(|error| Failure { reason: error.reason, message: error.message }), version.to_owned())
    }

    /// Objects that the cluster refers to and that do not name it as an owner.
    fn strangers(&self, s: &Snapshot) -> Vec<Child> {
        let mut all = Vec::new();
        let namespace = s.key.namespace().unwrap_or_default();
        let uid = s.cluster.uid();
        let knows = |meta: &ObjectMeta| meta.owner_references.iter().flatten().any(|owner| owner.uid == uid);
        if let Some(datacenter) = s.datacenter.as_ref().filter(|one| !knows(&one.object.metadata)) {
            let key = ObjectKey::namespaced(namespace, s.cluster.datacenter());
            all.extend(child(&self.world.datacenters, &key, datacenter, &datacenter.object.metadata));
        }
        for (name, machine) in s.machines.iter().filter(|(_, one)| !knows(&one.object.metadata)) {
            let key = ObjectKey::namespaced(namespace, name.as_str());
            all.extend(child(&self.world.machines, &key, machine, &machine.object.metadata));
        }
        for ((kind, name), identity) in s.identities.iter().filter(|(_, one)| !knows(&one.metadata)) {
            let key = ObjectKey::namespaced(namespace, name.as_str());
            all.extend(match kind.as_str() {
                "OIDCConfig" => child(&self.world.oidcs, &key, identity, &identity.metadata),
                _ => child(&self.world.iams, &key, identity, &identity.metadata),
            });
        }
        all
    }

    /// Which generated objects there are, which version of its spec each has, and which manifest the network plugin comes
    /// from.
    fn signature(&self, s: &Snapshot) -> String {
        fn add<P: Project>(feed: &Feed<P>, found: Vec<(ObjectKey, Arc<P::Slim>)>, all: &mut Vec<String>)
        where
            P::Slim: Belonging,
        {
            let kind = feed.kind().kind;
            for (key, facts) in found {
                let mark = facts.mark();
                all.push(format!("{kind} {} {} {}", key.name(), mark.uid, mark.generation));
            }
        }
        let (world, system) = (&self.world, self.config.system_namespace());
        let inside = ObjectKey::namespaced(system, s.key.name());
        let index = inside.to_string();
        let mut all = Vec::new();
        let version = &s.cluster.object.spec.kubernetes_version;
        if let Some(map) = s.bundles.as_ref().ok().and_then(|bundles| manifests::of(bundles, version, system)) {
            all.push(format!("ConfigMap {map} {}", self.manifests.changes(&map)));
        }
        let capi = shown(&world.capi, &inside).ok().flatten().map(|facts| (inside.clone(), facts));
        add(&world.capi, capi.into_iter().collect(), &mut all);
        let plane = shown(&world.planes, &inside).ok().flatten().map(|facts| (inside.clone(), facts));
        add(&world.planes, plane.into_iter().collect(), &mut all);
        add(&world.groups, world.groups.by("cluster", &index), &mut all);
        add(&world.checks, world.checks.by("cluster", &index), &mut all);
        add(&world.provider, world.provider.by("cluster", &index), &mut all);
        add(&world.templates, world.templates.by("cluster", &index), &mut all);
        add(&world.configs, world.configs.by("cluster", &index), &mut all);
        all.sort();
        all.join("\n")
    }
}

fn child<P: Project>(feed: &Feed<P>, key: &ObjectKey, held: &Arc<P::Slim>, meta: &ObjectMeta) -> Option<Child> {
    let owned = Owned { version: feed.version(key, held)?, owners: meta.owner_references.clone().unwrap_or_default() };
    let uid = meta.uid.clone().unwrap_or_default().into();
    Some(Child { target: Target { kind: Kind::of::<P::Source>(), key: key.clone(), uid }, owned })
}

/// A bundle that was found before.
struct Pin<'s> {
    bundles: BundlesRef,
    /// The version by which it was found, as far as that is known.
    version: &'s str,
}

/// Whether its status says that what its user wrote was carried out.
fn is_reconciled(s: &Snapshot) -> bool {
    s.stored.status.reconciled_generation == Some(s.cluster.generation())
}

/// The bundle that was found before, if nothing that its user chooses has changed since.
fn pinned<'s>(s: &'s Snapshot, releases: &[EKSARelease]) -> Option<Pin<'s>> {
    let pin = s.stored.status.resolved_bundles.as_ref()?;
    let spec = &s.cluster.object.spec;
    // What runs says which version was chosen when the bundle was found.
    let minor: Minor = spec.kubernetes_version.parse().ok()?;
    let tag = s.plane.as_ref().and_then(|plane| plane.report.wanted.strip_prefix('v'));
    let runs = tag.is_some_and(|tag| tag.starts_with(&format!("{minor}."))) || is_reconciled(s);
    let same = |reference: &BundlesRef| reference.name == pin.name && reference.namespace == pin.namespace;
    let chosen = spec.bundles_ref.as_ref().is_none_or(same);
    let wanted = spec.eksa_version.as_str();
    let release = release_object(wanted);
    let mut named = releases.iter().filter(|one| one.metadata.name.as_deref() == Some(release.as_str()));
    let (released, version) = match named.next() {
        _ if wanted.is_empty() => (true, ""),
        // Whatever becomes of a release, what was made with it stays as it is.
        _ if pin.eksa_version == wanted => (true, wanted),
        Some(one) => (same(&one.spec.bundles_ref), wanted),
        // Nobody noted the version; that it was carried out says that nothing was chosen since, not what was found then.
        None => (pin.eksa_version.is_empty() && is_reconciled(s), ""),
    };
    let version = if spec.bundles_ref.is_some() { "" } else { version };
    let bundles = BundlesRef { name: pin.name.clone(), namespace: pin.namespace.clone(), ..BundlesRef::default() };
    (runs && chosen && released).then_some(Pin { bundles, version })
}

/// A digest of everything that generated objects are made from.
fn hash(s: &Snapshot) -> String {
    let mut all: Vec<String> = Vec::new();
    let mut add = |kind: &str, meta: &ObjectMeta| {
        let uid = meta.uid.as_deref().unwrap_or_default();
        all.push(format!("{kind} {uid} {}", meta.generation.unwrap_or_default()));
    };
    add("Cluster", s.cluster.meta());
    if let Some(datacenter) = &s.datacenter {
        add("CloudStackDatacenterConfig", &datacenter.object.metadata);
    }
    for machine in s.machines.values() {
        add("CloudStackMachineConfig", &machine.object.metadata);
    }
    for ((kind, _), identity) in &s.identities {
        add(kind, &identity.metadata);
    }
    if let Ok(bundles) = &s.bundles {
        let meta = &bundles.metadata;
        let name = meta.name.as_deref().unwrap_or_default();
        let namespace = meta.namespace.as_deref().unwrap_or_default();
        all.push(format!("Bundles {namespace}/{name} {}", bundles.spec.number));
    }
    all.sort();
    let digest = digest(&SHA256, all.join("\n").as_bytes());
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}
