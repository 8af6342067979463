//! Puts the parts of the room together.

use std::sync::Arc;

use kit::doors::{Clients, Doors};
use kit::manager::{self, Manager};
use kit::room::{Driver, Roll, Room};
use kit::teller::Teller;
use kit::write::Writer;

use crate::cluster::decide::stand;
use crate::cluster::room::Warden;
use crate::config::Config;
use crate::facts::World;
use crate::machine::room::Keeper;
use crate::remediation::Treat;
use crate::{cluster, data, machine, remediation};

/// What carries out machines, and what carries out Metal3Clusters.
pub type Drivers = (Arc<Driver<Keeper>>, Arc<Driver<Warden>>);

/// Adds the room to a manager; `doors` is the way into workload clusters.
///
/// # Errors
/// When a kind cannot be followed.
pub fn mount(manager: &Manager, config: Config, doors: Box<dyn Doors>) -> Result<Drivers, manager::Error> {
    let (config, clients) = (Arc::new(config), Arc::new(Clients::new(doors)));
    let drivers = mount_machines(manager, &config, &clients)?;
    data::mount(manager, &config)?;
    remediation::mount(manager, &config, clients, Treat::default())?;
    Ok(drivers)
}

/// Adds Metal3Machines and Metal3Clusters alone.
///
/// # Errors
/// When a kind cannot be followed.
pub fn mount_machines(
    manager: &Manager,
    config: &Arc<Config>,
    clients: &Arc<Clients>,
) -> Result<Drivers, manager::Error> {
    let world = World::follow(manager)?;
    let client = manager.client().clone();
    machine::metrics::register(manager.metrics(), &world, config);
    let name = Keeper::NAME;
    let (writer, events) = (Writer::new(client.clone(), name), Teller::start(manager, name));
    let (by, clock) = ((writer, events), manager.clock().clone());
    let keeper = Keeper::new(world.clone(), Arc::clone(config), Arc::clone(clients), by, clock);
    let keeper = Driver::new(manager, keeper);
    let warden = Warden::new(world.clone(), Arc::clone(config), Writer::new(client, Warden::NAME));
    let warden = Driver::new(manager, warden);
    machine::wake::machines(&world, keeper.work());
    cluster::wake::places(&world, warden.work());
    let (ours, places) = (Arc::clone(config), Arc::clone(config));
    let roll = |room, kind| Roll::open(manager, room, kind);
    roll(Keeper::NAME, "Metal3Machine").follow(&world.machines, move |_, machine| machine.stand(&ours));
    roll(Warden::NAME, "Metal3Cluster").follow(&world.places, move |_, place| stand(&places, place));
    let (ready, keys) = (world.clone(), world.clone());
    manager.drive(&keeper, async move { ready.settled().await }, move |accepts| keys.machines.keys(accepts));
    let (ready, keys) = (world.clone(), world);
    manager.drive(&warden, async move { ready.settled().await }, move |accepts| keys.places.keys(accepts));
    Ok((keeper, warden))
}
