//! The room `clusters`: the life of workload clusters on CloudStack.
//!
//! **Promise.** What a user writes as Cluster, CloudStackDatacenterConfig and CloudStackMachineConfig becomes a cluster:
//! it is judged, turned into objects of Cluster API and its CloudStack provider, given its network plugin, followed through
//! changes, and removed with its Cluster. Nodes are replaced when the user's wish asks for it and never otherwise.
//!
//! **Inputs.** The kinds of users, bundles and releases, and the objects of Cluster API, all from indexes; secrets by name
//! whenever CloudStack is asked, once for all who ask the same; generated objects as the server has them, before anything is
//! written: [`bodies`] spares those reads whose answer is known.
//!
//! **Effects.** Generated objects in one namespace, under the field manager of the controller whose clusters may be taken
//! over; the network plugin inside of each cluster; the finalizer, one annotation and the status of a Cluster, owners on
//! what it refers to, and the status of datacenters and machine configurations.
//!
//! **Parts.** [`decide`] thinks about one cluster, in phases ([`phase`]), and says what has to be known first; [`guard`]
//! holds against every plan what must never happen; [`status`] and [`conditions`] tell how it stands. [`render`] makes the
//! generated objects, [`compare`] says whether applying one would change anything, [`change`](mod@change) which machines a
//! change replaces, [`bundle`] where images come from, [`manifest`] and [`cni`] what is done about the network plugin.
//! [`acs`] asks CloudStack, [`datacenter`] looks after datacenters, [`inside`] enters clusters. [`admit`] fills in and
//! checks what users write, [`plan`] puts it together for files. [`vm`] is a room of its own: claims on virtual machines.
//!
//! **Invariants.** No generated object exists before every check passed. A template is never changed, only replaced by one
//! of another name. The network plugin and workers wait for the control plane. Nothing is written on old news. The
//! finalizer goes only when no cluster remains. Keys never leave the request they sign. `tests/world/invariants.rs` names
//! the test of each.
//!
//! **Failure modes.** What has to be put right stands in the status with every fault at once. Without CloudStack running
//! clusters are left as they are. Kinds that the server does not know are waited for. External etcd, encryption of etcd and
//! values of charts are refused by name.

pub mod acs;
pub mod admit;
mod apply;
pub mod bodies;
pub mod bundle;
pub mod change;
pub mod cni;
pub mod compare;
pub mod conditions;
pub mod config;
pub mod datacenter;
pub mod decide;
pub mod endpoint;
pub mod facts;
pub mod guard;
pub mod image;
pub mod inside;
pub mod keys;
pub mod manifest;
mod manifests;
pub mod memory;
pub mod metrics;
mod observe;
pub mod owners;
pub mod phase;
pub mod plan;
pub mod probe;
pub mod render;
pub mod rights;
pub mod room;
pub mod secrets;
pub mod snapshot;
pub mod status;
mod trials;
pub mod version;
pub mod vm;
mod wake;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use api::names::clusters::FIELD_MANAGER;
use kit::doors::{Clients, Doors};
use kit::events::Events;
use kit::manager::{self, Manager};
use kit::room::{Driver, Roll, Room};
use kit::teller::Teller;
use kit::write::Writer;
use tokio::sync::mpsc;

use crate::acs::{Clouds, Shelf};
use crate::bodies::{Bodies, Wishes};
use crate::config::Config;
use crate::datacenter::Surveyor;
use crate::facts::World;
use crate::manifests::{Manifests, Texts};
use crate::memory::Memories;
use crate::metrics::ClustersMetrics;
use crate::owners::Owners;
use crate::probe::Probe;
use crate::room::Keeper;

/// The ways out of the room.
pub struct Ways<C: Clouds> {
    /// To CloudStack.
    pub clouds: C,
    /// Into clusters.
    pub doors: Box<dyn Doors>,
    /// To endpoints.
    pub probe: Arc<dyn Probe>,
}

/// What carries out clusters, and what judges datacenters.
pub type Drivers<C> = (Arc<Driver<Keeper<C>>>, Arc<Driver<Surveyor<C>>>);

/// Adds the room to a manager.
///
/// # Errors
/// When a kind cannot be followed.
pub fn mount<C: Clouds>(manager: &Manager, config: Config, ways: Ways<C>) -> Result<Drivers<C>, manager::Error> {
    let (world, config) = (World::follow(manager, config.system_namespace())?, Arc::new(config));
    let (client, clock) = (manager.client().clone(), manager.clock().clone());
    let metrics = ClustersMetrics::register(manager.metrics(), &world);
    let shelf = Shelf::new(ways.clouds, clock.clone());
    let manifests = Manifests::default();
    let memories = Arc::new(Memories::default());
    let (trials, asked) = mpsc::unbounded_channel();
    let name = Keeper::<C>::NAME;
    let events = |name: &'static str| Events::new(client.clone(), name, Some(manager.instance().to_owned()));
    let keeper = Keeper {
        world: world.clone(),
        config: Arc::clone(&config),
        shelf: Arc::clone(&shelf),
        clients: Clients::new(ways.doors),
        trials,
        writer: Writer::new(client.clone(), name),
        generator: Writer::with_manager(client.clone(), name, FIELD_MANAGER),
        events: Teller::start(manager, name),
        clock: clock.clone(),
        metrics,
        memories: Arc::clone(&memories),
        bodies: Bodies::default(),
        wishes: Wishes::default(),
        owners: Owners::default(),
        manifests: manifests.clone(),
        texts: Texts::default(),
        unnoted: AtomicBool::new(false),
    };
    let keeper = Driver::new(manager, keeper);
    trials::follow(manager, asked, ways.probe, memories, keeper.work());
    let name = Surveyor::<C>::NAME;
    let surveyor = Surveyor {
        world: world.clone(),
        config: Arc::clone(&config),
        shelf,
        writer: Writer::new(client.clone(), name),
        events: events(name),
        clock,
        versions: Mutex::default(),
    };
    let surveyor = Driver::new(manager, surveyor);
    Roll::open(manager, Keeper::<C>::NAME, "Cluster").follow(&world.clusters, |_, cluster| cluster.stand());
    let roll = Roll::open(manager, name, "CloudStackDatacenterConfig");
    roll.follow(&world.datacenters, |_, datacenter| Some(datacenter.stand()));
    wake::clusters(&world, &config, keeper.work());
    wake::datacenters(&world, &config, surveyor.work());
    manifests::follow(manager, &world, &config, &manifests, keeper.work());
    let (ready, keys) = (world.clone(), world.clone());
    manager.drive(&keeper, async move { ready.settled().await }, move |accepts| keys.clusters.keys(accepts));
    let (ready, keys) = (world.clone(), world);
    manager.drive(&surveyor, async move { ready.settled().await }, move |accepts| keys.datacenters.keys(accepts));
    Ok((keeper, surveyor))
}
