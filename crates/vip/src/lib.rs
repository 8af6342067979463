//! The room `vip`: control-plane and ingress addresses for clusters, from IPAM pools, without a race and without a leak.
//!
//! **Promise.** A cluster with a ClusterClass has its control-plane address before anything of it is rendered, keeps it for
//! life, and gives it back when its machines are gone. Two clusters never have the same one. An endpoint that a user
//! chose is never changed and costs no address.
//!
//! **Inputs.** Clusters, their classes, IPAM pools, claims and addresses, all from indexes; the Cluster inside a hook's
//! request, which is the very copy that Cluster API renders next.
//!
//! **Effects.** One claim per address, named after the cluster and owned by it; one guarded patch of the Cluster; two
//! conditions; events. Nothing is written when nothing changed, and a cluster that has its address costs no request.
//!
//! **Parts.** Every replica answers hooks ([`extension`], [`hooks`], [`topology`]); the [`gate`] decides whether a cluster may be
//! rendered; the leader's [`keeper`] does what no call would do. Both judge a cluster by the same [`survey`] and have
//! their effects through the same [`apply`]. [`explain`] tells people what that judgement is, and has no effect at all.
//!
//! **Invariants.** The gate opens only for a Cluster that carries, in the request itself, everything we would write. A claim's
//! name is the lock: replicas cannot make two. A claim with an address is never moved, an endpoint that is set is never
//! changed, and nothing is deleted but by uid and version. Before an address is shown for the first time, the server itself
//! says that it is still this cluster's ([`proof`]).
//!
//! **Failure modes.** Without a pool, an address, the IPAM provider or the API server a cluster waits with a reason; it does
//! not fail. A claim that somebody deleted is reported, not replaced: no pool can be asked for one given address.

pub mod apply;
pub mod config;
pub mod decide;
pub mod explain;
pub mod extension;
pub mod facts;
pub mod gate;
pub mod goal;
pub mod guard;
pub mod hooks;
pub mod keeper;
pub mod metrics;
pub mod names;
pub mod observe;
pub mod pools;
pub mod proof;
pub mod rights;
pub mod scene;
pub mod seats;
pub mod status;
pub mod survey;
pub mod teller;
pub mod topology;
pub mod words;

use std::collections::BTreeSet;
use std::sync::Arc;

use api::key::ObjectKey;
use kit::events::Events;
use kit::manager::{self, Manager, Stage};
use kit::queue::{Priority, Work};
use kit::room::{Driver, Roll, Room};

use crate::apply::Hand;
use crate::config::Config;
use crate::extension::Extension;
use crate::facts::{PoolFacts, World};
use crate::gate::Gate;
use crate::keeper::Keeper;
use crate::metrics::VipMetrics;
use crate::names::{ROLE, Role, Slot};
use crate::proof::Former;
use crate::teller::Teller;

/// Adds the room to a manager and returns what answers the hooks.
///
/// # Errors
/// When another room follows one of the kinds by another view.
pub fn mount(manager: &Manager, config: Config) -> Result<Arc<Extension>, manager::Error> {
    let (world, config) = (World::follow(manager)?, Arc::new(config));
    let metrics = VipMetrics::register(manager.metrics(), &world);
    let former = Former::follow(&world, manager.clock().clone(), manager.scope().clone());
    let hand = Arc::new(Hand::new(manager.client().clone(), world.clone(), former));
    // Cluster API waits for the gate, and what the gate tells people is part of its answer's time.
    let front = Arc::new(hand.on(manager.front().clone()));
    manager.spawn(Stage::Watch, "vip: clusters of before", |stop| Arc::clone(&front).catch_up(stop));
    let events = Events::new(manager.front().clone(), Keeper::NAME, Some(manager.instance().to_owned()));
    let teller = Teller::new(events, metrics, world.clone(), manager.clock().clone());
    if config.reconciler && !config.extension {
        tracing::warn!(
            "without the runtime extension an address may come too late: Cluster API does not wait for it, so objects can be \
             rendered without one"
        );
    }
    let keeper = Keeper::new(world.clone(), Arc::clone(&hand), Arc::clone(&config), teller.clone());
    let driver = Driver::new(manager, keeper);
    wake(&world, driver.work());
    let filter = Arc::clone(&config);
    Roll::open(manager, Keeper::NAME, "Cluster").follow(&world.clusters, move |_, cluster| {
        let foreign = filter.is_foreign(cluster.watch_filter.as_deref());
        cluster.stand().filter(|_| !foreign)
    });
    let (ready, keys) = (world.clone(), world.clone());
    manager.drive(&driver, async move { ready.settled().await }, move |accepts| {
        let claims = keys.claims.keys(|_| true).into_iter().filter_map(|claim| cluster_of(&claim, claim.name()));
        let all: BTreeSet<ObjectKey> = keys.clusters.keys(|_| true).into_iter().chain(claims).collect();
        all.into_iter().filter(|key| accepts(key)).collect()
    });
    Ok(Arc::new(Extension::new(Gate::new(world, front, config, manager, teller))))
}

/// The cluster that a claim's name stands for.
fn cluster_of(object: &ObjectKey, claim: &str) -> Option<ObjectKey> {
    let (_, cluster) = Slot::of_claim(claim)?;
    Some(ObjectKey::namespaced(object.namespace().unwrap_or_default(), cluster))
}

/// What wakes the housekeeper: its cluster, a claim, an address, and, for clusters that wait, pools, classes and namespaces.
fn wake(world: &World, work: &Arc<Work<ObjectKey>>) {
    let queue = Arc::clone(work);
    let rivals = world.clusters.clone();
    world.clusters.observe(move |delta| {
        queue.add_now(delta.key.clone(), Priority::Urgent);
        // Whoever wanted an address that this cluster has given up hears of it.
        let before = delta.old.as_ref().and_then(|cluster| cluster.address());
        let after = delta.new.as_ref().and_then(|cluster| cluster.address());
        if let Some(before) = before.filter(|_| before != after) {
            for (key, _) in rivals.by("address", &before.to_string()) {
                queue.add_now(key, Priority::Background);
            }
        }
    });
    let queue = Arc::clone(work);
    world.claims.observe(move |delta| {
        if let Some(cluster) = cluster_of(&delta.key, delta.key.name()) {
            queue.add_now(cluster, Priority::Urgent);
        }
    });
    let queue = Arc::clone(work);
    world.addresses.observe(move |delta| {
        let facts = delta.new.as_ref().or(delta.old.as_ref());
        let claim = facts.and_then(|facts| facts.claim.as_deref());
        if let Some(cluster) = claim.and_then(|claim| cluster_of(&delta.key, claim)) {
            queue.add_now(cluster, Priority::Urgent);
        }
    });
    let (queue, waiting) = (Arc::clone(work), world.clone());
    world.pools.observe(move |delta| {
        if matters(delta.old.as_deref(), delta.new.as_deref()) {
            wake_waiting(&waiting, &queue);
            wake_late(&waiting, &queue, [&delta.old, &delta.new]);
        }
    });
    let (queue, waiting) = (Arc::clone(work), world.clone());
    world.global_pools.observe(move |delta| {
        if matters(delta.old.as_deref(), delta.new.as_deref()) {
            wake_waiting(&waiting, &queue);
            wake_late(&waiting, &queue, [&delta.old, &delta.new]);
        }
    });
    let (queue, clusters) = (Arc::clone(work), world.clusters.clone());
    world.classes.observe(move |delta| {
        for (key, _) in clusters.by("class", &delta.key.to_string()) {
            queue.add_now(key, Priority::Background);
        }
    });
    let (queue, waiting) = (Arc::clone(work), world.clone());
    world.namespaces.observe(move |delta| {
        if delta.old.is_some() && delta.new.is_some() {
            wake_waiting(&waiting, &queue);
        }
    });
}

/// Whether a change of a pool can change a decision: each address that is given away changes its counts, and with many
/// clusters waiting nobody needs to hear of more than the last one.
fn matters(old: Option<&PoolFacts>, new: Option<&PoolFacts>) -> bool {
    let (Some(old), Some(new)) = (old, new) else { return true };
    let plain = |pool: &PoolFacts| PoolFacts { counts: None, ..pool.clone() };
    old.has_capacity() != new.has_capacity() || plain(old) != plain(new)
}

/// Clusters that go on without an ingress address take one when a pool for it appears.
fn wake_late(world: &World, work: &Arc<Work<ObjectKey>>, pool: [&Option<Arc<PoolFacts>>; 2]) {
    let ingress = |pool: &Arc<PoolFacts>| pool.words(ROLE).any(|word| word == Role::Ingress.as_str());
    if pool.into_iter().flatten().any(ingress) {
        for (key, _) in world.clusters.by("late", "") {
            work.add_now(key, Priority::Background);
        }
    }
}

fn wake_waiting(world: &World, work: &Arc<Work<ObjectKey>>) {
    for (key, _) in world.clusters.by("open", "") {
        work.add_now(key, Priority::Background);
    }
    for (claim, _) in world.claims.by("waiting", "") {
        if let Some(cluster) = cluster_of(&claim, claim.name()) {
            work.add_now(cluster, Priority::Background);
        }
    }
}
