//! The fleet as one document, made of what was read and of nothing else.
//!
//! Its parts are the models of the other commands: the nodes of `berth tree`, the rows of `berth hosts`, `vips` and `capacity`.
//! It holds no clock: a fleet that has not changed is the same document, so that a browser that has it is sent nothing.

mod hosts;
mod troubles;

use std::collections::{BTreeMap, BTreeSet};

use ::claims::explain::Sight as Claims;
use ::claims::yard::Settings;
use ::vip::config::Config;
use ::vip::explain::Sight as Addresses;
use api::key::ObjectKey;
use api::names::clusters::SYSTEM_NAMESPACE;
use api::views::{AddressPoolSpec, Machine, PoolCounts};
use k8s_openapi::jiff::Timestamp;
use kit::clock::Clock;
use kit::explain::{Level, Node, Object};
use kube::ResourceExt as _;
use serde::Serialize;

use crate::explain::{self, Vip};
use crate::groups;
use crate::look::{self, Anywhere, Metal};

pub use hosts::Cell;
use troubles::Troubles;
pub use troubles::{Said, Trouble};

/// What the node of a cluster of EKS Anywhere is called, so that nobody takes it for the one of Cluster API.
const ANYWHERE: &str = "Cluster.anywhere";

/// Everything there is to show.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Fleet {
    /// When it was read, in a document that is kept; what is served does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taken: Option<String>,
    /// Why the last look failed, so that this is older than it should be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Where the book is served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub book: Option<String>,
    /// Clusters with everything that hangs on them, and claims that hang on no cluster.
    pub trees: Vec<Node>,
    /// Hosts.
    pub hosts: Vec<Cell>,
    /// Pools of addresses.
    pub pools: Vec<Pool>,
    /// Addresses of clusters.
    pub vips: Vec<Vip>,
    /// Groups of machines.
    pub groups: Vec<groups::Row>,
    /// Everything that is not as it should be.
    pub troubles: Vec<Trouble>,
    /// What each reason among the troubles means, by its page in the book.
    pub reasons: BTreeMap<&'static str, &'static str>,
    /// What could not be seen, each in a sentence.
    pub unseen: Vec<String>,
    /// What the server does not know, each in a sentence.
    pub absent: Vec<String>,
}

/// A pool of addresses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Pool {
    /// Kind.
    pub kind: &'static str,
    /// Namespace; none for a pool of all namespaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name.
    pub name: String,
    /// Whether it has an address left.
    pub level: Level,
    /// How many are given away, once they were counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used: Option<i64>,
    /// How many are left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free: Option<i64>,
    /// How many there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<i64>,
    /// What to know of it.
    pub note: String,
    /// The addresses as its owner wrote them.
    pub addresses: Vec<String>,
}

impl Pool {
    fn of(kind: &'static str, key: &ObjectKey, spec: &AddressPoolSpec, counts: Option<&PoolCounts>) -> Self {
        let (level, note) = match counts {
            None => (Level::Unknown, "its provider has not counted it yet"),
            Some(counts) if counts.total <= 0 => (Level::Problem, "it has no addresses"),
            Some(counts) if counts.free <= 0 => (Level::Problem, "no address is left"),
            Some(_) => (Level::Ok, ""),
        };
        Self {
            kind,
            namespace: key.namespace().map(str::to_owned),
            name: key.name().to_owned(),
            level,
            used: counts.map(|counts| counts.used),
            free: counts.map(|counts| counts.free),
            total: counts.map(|counts| counts.total),
            note: note.to_owned(),
            addresses: spec.addresses.clone(),
        }
    }
}

/// Everything that was read.
#[derive(Default)]
pub struct Seen {
    /// Clusters and what their addresses depend on.
    pub addresses: ::vip::explain::Lists,
    /// Claims and what decides about them; none where the server does not know claims.
    pub claims: Option<::claims::explain::Lists>,
    /// Machines of Metal3, of every namespace.
    pub metal: Metal,
    /// Machines on EC2.
    pub dedicated: Vec<Dedicated>,
    /// Clusters on CloudStack.
    pub anywhere: Vec<Anywhere>,
    /// Groups of machines.
    pub groups: Vec<groups::Row>,
    /// What could not be seen.
    pub unseen: BTreeSet<String>,
    /// What the server does not know.
    pub absent: BTreeSet<String>,
}

/// A machine on EC2.
pub struct Dedicated {
    /// The machine.
    pub key: ObjectKey,
    /// Its cluster.
    pub cluster: Option<String>,
    /// The MachineDeployment it belongs to.
    pub group: Option<String>,
    /// The machine with its instance and hosts.
    pub node: Node,
    /// Its hosts: id, state and zone.
    pub hosts: Vec<(String, String, Option<String>)>,
    /// What its conditions say.
    pub said: Vec<Said>,
}

/// How the operator runs, where that changes what it thinks.
#[derive(Clone, Debug, Default)]
pub struct Judges {
    /// The room `vip`.
    pub addresses: Config,
    /// How the room `claims` chooses.
    pub yard: Settings,
    /// The kind of machines that name none.
    pub default_kind: Option<String>,
}

/// Puts the document together; of one namespace, if one is given.
pub fn fleet(seen: Seen, judges: &Judges, only: Option<&str>, clock: &Clock) -> Fleet {
    let now = clock.now();
    let Seen { mut addresses, claims, metal, dedicated, anywhere, groups, unseen, absent } = seen;
    if let Some(only) = only {
        addresses.pools.retain(|pool| pool.metadata.namespace.as_deref() == Some(only));
    }
    let here = |key: &ObjectKey| only.is_none_or(|only| key.namespace() == Some(only));
    let mut troubles = Troubles::default();
    troubles.hear_addresses(&addresses);
    troubles.hear_machines(&metal);
    let zones = claims.as_ref().map(look::zones).unwrap_or_default();
    let claim_keys: Vec<ObjectKey> = claims.iter().flat_map(|lists| &lists.claims).map(ObjectKey::of).collect();
    if let Some(lists) = &claims {
        troubles.hear_claims(&lists.claims);
    }

    let sight = claims.map(|lists| Claims::of(lists, judges.yard, now));
    let mut cells = sight.as_ref().map(|sight| hosts::metal(sight, only, &zones)).unwrap_or_default();
    cells.extend(dedicated.iter().filter(|one| here(&one.key)).flat_map(hosts::dedicated));

    let pools = pools(&addresses);
    let mut forest = Forest::new(metal, sight, judges.default_kind.clone(), now);
    forest.add_dedicated(dedicated, &mut troubles);
    let (mut trees, mut vips) = (Vec::new(), Vec::new());
    let theirs: BTreeSet<String> = anywhere.iter().map(|seen| seen.cluster.name_any()).collect();
    let clusters = addresses.clusters.clone();
    let world = Addresses::of(addresses, clock);
    let mut clusters: Vec<_> = clusters.iter().map(|cluster| (ObjectKey::of(cluster), cluster)).collect();
    clusters.sort_by(|a, b| a.0.cmp(&b.0));
    for (key, cluster) in clusters.into_iter().filter(|(key, _)| here(key)) {
        let told = ::vip::explain::explain(&world, cluster, &judges.addresses, now);
        // What is generated for a cluster on CloudStack stands below that cluster.
        if key.namespace() == Some(SYSTEM_NAMESPACE) && theirs.contains(key.name()) && told.level == Level::Aside {
            continue;
        }
        let mut root = ::vip::explain::tree(&world, cluster, &judges.addresses, now);
        let rows = explain::vip_rows(&told);
        troubles.cluster(&told, &rows);
        vips.extend(rows);
        root.children.extend(forest.below(&key));
        trees.push(root);
    }
    for seen in anywhere.iter().filter(|seen| here(&key_of(&seen.cluster))) {
        let mut root = explain::anywhere_tree(seen);
        root.object.kind = ANYWHERE.to_owned();
        troubles.anywhere(seen, &root);
        trees.push(root);
    }
    trees.extend(forest.rest(only));
    let drawn = claims_in(&trees);
    trees.extend(claim_keys.iter().filter(|key| here(key) && !drawn.contains(key)).filter_map(|key| forest.claim(key)));
    trees.iter().for_each(|root| troubles.walk(root));
    troubles.hosts(&cells);
    troubles.pools(&pools);
    let groups: Vec<groups::Row> =
        groups.into_iter().filter(|row| only.is_none_or(|only| row.namespace == only)).collect();
    troubles.groups(&groups);
    let (troubles, reasons) = troubles.done();
    let (unseen, absent) = (unseen.into_iter().collect(), absent.into_iter().collect());
    Fleet { trees, hosts: cells, pools, vips, groups, troubles, reasons, unseen, absent, ..Fleet::default() }
}

fn pools(addresses: &::vip::explain::Lists) -> Vec<Pool> {
    let own = addresses
        .pools
        .iter()
        .map(|pool| Pool::of("InClusterIPPool", &ObjectKey::of(pool), &pool.spec, pool.status.counts.as_ref()));
    let global = addresses
        .global_pools
        .iter()
        .map(|pool| Pool::of("GlobalInClusterIPPool", &ObjectKey::of(pool), &pool.spec, pool.status.counts.as_ref()));
    let mut pools: Vec<Pool> = own.chain(global).collect();
    pools.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    pools
}

fn key_of(object: &impl kube::ResourceExt) -> ObjectKey {
    ObjectKey::namespaced(object.namespace().unwrap_or_default(), object.name_any())
}

/// The claims that are drawn somewhere.
fn claims_in(trees: &[Node]) -> BTreeSet<ObjectKey> {
    fn gather(node: &Node, found: &mut BTreeSet<ObjectKey>) {
        if let ("HostClaim", Some(namespace)) = (node.object.kind.as_str(), &node.object.namespace) {
            found.insert(ObjectKey::namespaced(namespace.as_str(), node.object.name.as_str()));
        }
        node.children.iter().for_each(|child| gather(child, found));
    }
    let mut found = BTreeSet::new();
    trees.iter().for_each(|root| gather(root, &mut found));
    found
}

/// The machines, by the cluster they belong to.
struct Forest {
    world: explain::MetalWorld,
    /// By cluster: machines of Metal3 with their Machines and groups.
    metal: BTreeMap<ObjectKey, Metal>,
    /// Machines of Metal3 that no Machine has.
    loose: Vec<api::own::metal3::Metal3Machine>,
    /// By cluster: machines on EC2.
    dedicated: BTreeMap<ObjectKey, Vec<Node>>,
    /// Machines on EC2 of no cluster.
    stray: Vec<Node>,
}

impl Forest {
    fn new(metal: Metal, sight: Option<Claims>, default_kind: Option<String>, now: Timestamp) -> Self {
        let mut machines: BTreeMap<ObjectKey, _> = metal.machines.into_iter().map(|one| (key_of(&one), one)).collect();
        let mut parts: BTreeMap<ObjectKey, Metal> = BTreeMap::new();
        let within = |namespace: Option<String>, cluster: Option<&String>| {
            Some(ObjectKey::namespaced(namespace.unwrap_or_default(), cluster?.as_str()))
        };
        for owner in metal.owners {
            let Some(cluster) = within(owner.namespace(), owner.spec.cluster_name.as_ref()) else { continue };
            let part = parts.entry(cluster).or_default();
            part.machines.extend(infrastructure(&owner).and_then(|key| machines.remove(&key)));
            part.owners.push(owner);
        }
        for group in metal.groups {
            let Some(cluster) = within(group.namespace(), group.spec.cluster_name.as_ref()) else { continue };
            parts.entry(cluster).or_default().groups.push(group);
        }
        let world = explain::MetalWorld { seen: Metal::default(), sight, default_kind, now };
        let loose = machines.into_values().collect();
        Self { world, metal: parts, loose, dedicated: BTreeMap::new(), stray: Vec::new() }
    }

    /// Adds machines on EC2, those of one group together.
    fn add_dedicated(&mut self, machines: Vec<Dedicated>, troubles: &mut Troubles) {
        let mut groups: BTreeMap<(ObjectKey, String), Vec<Node>> = BTreeMap::new();
        for Dedicated { key, cluster, group, node, said, .. } in machines {
            troubles.hear(&node.object, said);
            let namespace = key.namespace().unwrap_or_default();
            match (cluster, group) {
                (Some(cluster), Some(group)) => {
                    groups.entry((ObjectKey::namespaced(namespace, cluster), group)).or_default().push(node);
                }
                (Some(cluster), None) => {
                    self.dedicated.entry(ObjectKey::namespaced(namespace, cluster)).or_default().push(node);
                }
                (None, _) => self.stray.push(node),
            }
        }
        for ((cluster, group), nodes) in groups {
            let fine = nodes.iter().filter(|node| node.level == Level::Ok).count();
            let level = if fine == nodes.len() { Level::Ok } else { Level::Waiting };
            let object = Object::new(
                "MachineDeployment",
                &ObjectKey::namespaced(cluster.namespace().unwrap_or_default(), group),
            );
            let note = format!("{fine} of {} as they should be", nodes.len());
            self.dedicated.entry(cluster).or_default().push(Node::new(object, level, note).with(nodes));
        }
    }

    /// The machines of a cluster.
    fn below(&mut self, cluster: &ObjectKey) -> Vec<Node> {
        let mut nodes = Vec::new();
        if let Some(part) = self.metal.remove(cluster) {
            self.world.seen = part;
            nodes = explain::metal_cluster(&mut self.world, cluster.namespace().unwrap_or_default(), cluster.name());
        }
        nodes.extend(self.dedicated.remove(cluster).unwrap_or_default());
        nodes
    }

    /// What belongs to no cluster that was read.
    fn rest(&mut self, only: Option<&str>) -> Vec<Node> {
        let left: BTreeSet<ObjectKey> = self.metal.keys().chain(self.dedicated.keys()).cloned().collect();
        let mut roots = Vec::new();
        for cluster in left {
            let nodes = self.below(&cluster);
            if !nodes.is_empty() {
                let object = Object::new("Cluster", &cluster);
                roots.push(Node::new(object, Level::Unknown, "the Cluster itself was not read").with(nodes));
            }
        }
        let loose = std::mem::take(&mut self.loose);
        let keys: Vec<ObjectKey> = loose.iter().map(key_of).collect();
        self.world.seen = Metal { machines: loose, ..Metal::default() };
        roots.extend(keys.iter().filter_map(|key| explain::metal_tree(&mut self.world, key)));
        roots.append(&mut self.stray);
        roots.retain(|root| only.is_none_or(|only| root.object.namespace.as_deref() == Some(only)));
        roots
    }

    /// One claim.
    fn claim(&mut self, key: &ObjectKey) -> Option<Node> {
        ::claims::explain::tree(self.world.sight.as_mut()?, key, self.world.now)
    }
}

/// The machine of Metal3 that a Machine is made of.
fn infrastructure(owner: &Machine) -> Option<ObjectKey> {
    let to = owner.spec.infrastructure_ref.as_ref().filter(|to| to.kind == "Metal3Machine")?;
    Some(ObjectKey::namespaced(owner.namespace().unwrap_or_default(), to.name.as_str()))
}
