//! Gathers what is known of one cluster: from the indexes, and live where stale data could harm.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use api::key::ObjectKey;
use api::meta::Versioned;
use api::views::{Cluster, ClusterClass, GlobalInClusterIPPool, InClusterIPPool};
use jiff::Timestamp;
use kit::feed::{Project, Seen, Version};
use kube::api::ListParams;
use kube::{Api, Client};

use crate::config::Config;
use crate::facts::{ClassFacts, ClusterFacts, GLOBAL_POOL_KIND, GlobalPools, POOL_KIND, Pool, Pools, World, address};
use crate::names::{ALLOCATED, CLUSTER_CLASS, CONTROL_PLANE_SOURCE, NAMESPACE_SELECTOR, Slot};
use crate::pools::names_class;
use crate::scene::{Holding, Live, LiveCluster, Scene, Use, User};
use crate::survey::class_of;

/// What the indexes show around a cluster.
#[must_use]
pub fn scene(world: &World, key: &ObjectKey, cluster: &ClusterFacts, config: Arc<Config>, now: Timestamp) -> Scene {
    let namespace = key.namespace().unwrap_or_default();
    let class = class_of(cluster, key, config.reconciler);
    let holdings: BTreeMap<Slot, Holding> =
        Slot::ALL.into_iter().filter_map(|slot| Some((slot, holding(world, key, slot)?))).collect();
    let mut pools = class.as_ref().map(|class| pools(world, key, class, &holdings)).unwrap_or_default();
    let class = class.and_then(|class| match world.classes.get(&class) {
        Seen::At(class) => Some(class),
        Seen::Absent | Seen::Behind => None,
    });
    let namespace_labels = match world.namespaces.get(&ObjectKey::cluster_scoped(namespace)) {
        Seen::At(labels) => labels,
        Seen::Absent | Seen::Behind => {
            // Nobody knows its labels yet, so it cannot be selected by the lack of one either.
            pools.retain(|pool| pool.namespace.is_some() || !pool.facts.annotations.contains_key(NAMESPACE_SELECTOR));
            Arc::default()
        }
    };
    let uses = uses(world, key, cluster, &holdings);
    Scene {
        key: key.clone(),
        now,
        config,
        class,
        namespace_labels,
        holdings,
        pools,
        uses,
        tried: BTreeMap::new(),
        pointed: false,
        warned: BTreeSet::new(),
    }
}

fn holding(world: &World, key: &ObjectKey, slot: Slot) -> Option<Holding> {
    let namespace = key.namespace().unwrap_or_default();
    match world.claims.get(&slot.claim_of(key)) {
        Seen::Absent => None,
        Seen::Behind => Some(Holding::Behind),
        Seen::At(claim) => {
            let address = claim.address.as_ref().and_then(|name| {
                match world.addresses.get(&ObjectKey::namespaced(namespace, name.as_ref())) {
                    Seen::At(address) => Some(address),
                    Seen::Absent | Seen::Behind => None,
                }
            });
            Some(Holding::Claim { claim, address })
        }
    }
}

/// The pools that name the class, and those that claims ask; all of them when none names it, so that a typo can be told.
fn pools(world: &World, cluster: &ObjectKey, class: &ObjectKey, holdings: &BTreeMap<Slot, Holding>) -> Vec<Pool> {
    let namespace = cluster.namespace().unwrap_or_default();
    let words = [
        class.name().to_owned(),
        format!("{}/{}", class.namespace().unwrap_or_default(), class.name()),
        format!("{}/*", class.namespace().unwrap_or_default()),
        "*".to_owned(),
    ];
    let mut found: BTreeMap<_, Pool> = BTreeMap::new();
    let mut add = |pool: Pool| {
        found.insert((pool.name.clone(), pool.namespace.clone()), pool);
    };
    for word in &words {
        // A pool serves its own namespace only; what other tenants write on theirs is not looked at.
        for (key, facts) in world.pools.by("class", word) {
            if key.namespace() == Some(namespace) {
                add(Pool::new(POOL_KIND, &key, facts));
            }
        }
        for (key, facts) in world.global_pools.by("class", word) {
            add(Pool::new(GLOBAL_POOL_KIND, &key, facts));
        }
    }
    for holding in holdings.values() {
        let Holding::Claim { claim, .. } = holding else { continue };
        let Some(pool) = &claim.pool else { continue };
        if *pool.kind == *POOL_KIND {
            let key = ObjectKey::namespaced(namespace, pool.name.as_ref());
            if let Seen::At(facts) = world.pools.get(&key) {
                add(Pool::new(POOL_KIND, &key, facts));
            }
        } else if *pool.kind == *GLOBAL_POOL_KIND {
            let key = ObjectKey::cluster_scoped(pool.name.as_ref());
            if let Seen::At(facts) = world.global_pools.get(&key) {
                add(Pool::new(GLOBAL_POOL_KIND, &key, facts));
            }
        }
    }
    if found.is_empty() {
        return all_pools(world);
    }
    let own: Vec<ObjectKey> = holdings.keys().map(|slot| slot.claim_of(cluster)).collect();
    for pool in found.values_mut() {
        let asking = world.claims.by("pool", &pool.index_value());
        pool.pending = asking.iter().filter(|(claim, _)| !own.contains(claim)).count();
    }
    found.into_values().collect()
}

/// Every pool there is.
#[must_use]
pub fn all_pools(world: &World) -> Vec<Pool> {
    let own = world.pools.all().into_iter().map(|(key, facts)| Pool::new(POOL_KIND, &key, facts));
    let global = world.global_pools.all().into_iter().map(|(key, facts)| Pool::new(GLOBAL_POOL_KIND, &key, facts));
    own.chain(global).collect()
}

/// Who else uses an address that this cluster has, shows, or would get.
fn uses(world: &World, key: &ObjectKey, cluster: &ClusterFacts, holdings: &BTreeMap<Slot, Holding>) -> Vec<Use> {
    let named = cluster.variables.values().filter_map(|text| address(text));
    let bound = holdings.iter().filter_map(|(slot, holding)| holding.bound(&slot.claim(key.name())));
    let wanted: BTreeSet<IpAddr> = cluster.address().into_iter().chain(named).chain(bound).collect();
    let claims: Vec<String> = Slot::ALL.into_iter().map(|slot| slot.claim(key.name())).collect();
    let mut uses = Vec::new();
    for wanted in wanted {
        let value = wanted.to_string();
        for (other, facts) in world.clusters.by("address", &value) {
            if other == *key {
                continue;
            }
            let endpoint = address(&facts.endpoint.host) == Some(wanted);
            let manual = facts.annotation(CONTROL_PLANE_SOURCE) != Some(ALLOCATED);
            let by = User::Cluster { key: other, port: endpoint.then_some(facts.endpoint.port), manual };
            uses.push(Use { address: wanted, by });
        }
        for (other, facts) in world.addresses.by("address", &value) {
            let Some(claim) = &facts.claim else { continue };
            if other.namespace() == key.namespace() && claims.iter().any(|ours| **ours == **claim) {
                continue;
            }
            let claim = ObjectKey::namespaced(other.namespace().unwrap_or_default(), claim.as_ref());
            let by = match is_rival(world, &claim, wanted) {
                true => User::Rival { claim, since: facts.created },
                false => User::Claim(claim),
            };
            uses.push(Use { address: wanted, by });
        }
    }
    uses
}

/// Whether a claim is that of a cluster which is there and shows the address nowhere, so that nobody can use it yet.
fn is_rival(world: &World, claim: &ObjectKey, held: IpAddr) -> bool {
    let Some((slot, name)) = Slot::of_claim(claim.name()) else { return false };
    let key = ObjectKey::namespaced(claim.namespace().unwrap_or_default(), name);
    let (Seen::At(facts), Seen::At(cluster)) = (world.claims.get(claim), world.clusters.get(&key)) else {
        return false;
    };
    let owned = facts.is_ours(slot) && !facts.deleting && facts.owners.iter().any(|owner| owner.uid == cluster.uid);
    let noted = Slot::ALL.into_iter().filter_map(|slot| cluster.annotation(slot.annotation()).and_then(address));
    owned && !cluster.deleting && !cluster.rendered && cluster.address().into_iter().chain(noted).all(|a| a != held)
}

/// What the server itself says about a cluster's class and pools.
#[derive(Clone, Debug)]
pub struct Certain {
    class: Option<Arc<ClassFacts>>,
    pools: Vec<Pool>,
}

impl Certain {
    /// Lays it over what the indexes show.
    pub fn show(&self, scene: &mut Scene) {
        scene.class = self.class.clone().or_else(|| scene.class.take());
        for pool in &self.pools {
            scene.pools.retain(|known| (&known.name, &known.namespace) != (&pool.name, &pool.namespace));
        }
        scene.pools.extend(self.pools.iter().cloned());
    }
}

/// Reads a cluster's class and the pools that name it from the server: an index that shows none may only be behind.
///
/// # Errors
/// When the server does not answer.
pub async fn certain(
    client: &Client,
    world: &World,
    key: &ObjectKey,
    cluster: &ClusterFacts,
) -> Result<Certain, Box<kube::Error>> {
    let Some(class) = &cluster.class else { return Ok(Certain { class: None, pools: Vec::new() }) };
    let found = self::class(client, world, class).await?;
    let namespace = key.namespace().unwrap_or_default();
    let own = labelled(&Api::<InClusterIPPool>::namespaced(client.clone(), namespace), class).await?;
    let global = labelled(&Api::<GlobalInClusterIPPool>::all(client.clone()), class).await?;
    let own = own.into_iter().map(|pool| {
        let key = ObjectKey::of(&pool);
        Pool::new(POOL_KIND, &key, Arc::new(Pools::slim(pool)))
    });
    let global = global.into_iter().map(|pool| {
        let key = ObjectKey::of(&pool);
        Pool::new(GLOBAL_POOL_KIND, &key, Arc::new(GlobalPools::slim(pool)))
    });
    let known = matches!(world.namespaces.get(&ObjectKey::cluster_scoped(namespace)), Seen::At(_));
    let selectable = |pool: &Pool| known || !pool.facts.annotations.contains_key(NAMESPACE_SELECTOR);
    let fit = |pool: &Pool| names_class(pool, class) && selectable(pool);
    Ok(Certain { class: found, pools: own.chain(global).filter(fit).collect() })
}

/// Reads a class from the server.
///
/// # Errors
/// When the server does not answer, or not with a class.
pub async fn class(
    client: &Client,
    world: &World,
    class: &ObjectKey,
) -> Result<Option<Arc<ClassFacts>>, Box<kube::Error>> {
    let kind = world.classes.kind().resource();
    let api: Api<Versioned<ClusterClass>> =
        Api::namespaced_with(client.clone(), class.namespace().unwrap_or_default(), &kind);
    Ok(api.get_opt(class.name()).await?.map(|Versioned(class)| Arc::new(ClassFacts::of(class))))
}

/// Pools per page of a list.
const PAGE: u32 = 100;

/// The pools whose label may name the class: by its name, or by pointing to a list. None of a kind that is not served.
async fn labelled<K>(api: &Api<K>, class: &ObjectKey) -> Result<Vec<K>, Box<kube::Error>>
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    // A longer name fits no label, so only a list can hold it; the server would refuse the selector.
    let name = Some(class.name()).filter(|name| name.len() <= 63);
    let words: Vec<&str> = name.into_iter().chain(["true"]).collect();
    let selector = format!("{CLUSTER_CLASS} in ({})", words.join(", "));
    let mut params = ListParams::default().labels(&selector).limit(PAGE);
    let mut found = Vec::new();
    loop {
        match api.list(&params).await {
            Ok(page) => {
                found.extend(page.items);
                match page.metadata.continue_.filter(|token| !token.is_empty()) {
                    Some(token) => params = params.continue_token(&token),
                    None => return Ok(found),
                }
            }
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(found),
            Err(error) => return Err(Box::new(error)),
        }
    }
}

/// Reads the Cluster from the server.
///
/// # Errors
/// When the server does not answer, or not with a Cluster.
pub async fn live(client: &Client, world: &World, key: &ObjectKey) -> Result<Live, Box<kube::Error>> {
    let kind = world.clusters.kind().resource();
    let api: Api<Versioned<Cluster>> = Api::namespaced_with(client.clone(), key.namespace().unwrap_or_default(), &kind);
    let Some(Versioned(cluster)) = api.get_opt(key.name()).await? else { return Ok(Live::Absent) };
    let version = Version::of(&cluster);
    let variables = cluster.spec.topology.as_ref().map(|t| t.variables.clone()).unwrap_or_default();
    Ok(Live::At(Box::new(LiveCluster { facts: ClusterFacts::of(cluster), version, variables })))
}
