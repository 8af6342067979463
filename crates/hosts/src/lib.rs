//! The room `hosts`: machines on EC2, and the dedicated hosts they run on.
//!
//! **Promise.** An AWSMachine gets one instance and, where it asks for them, dedicated hosts of its own; with the machine
//! they are given back. A host costs money by the hour whether or not anything runs on it, so above all: **no path, crash
//! or race loses track of a host.**
//!
//! **Inputs.** AWSMachines with their Machines, Clusters, AWSClusters and identities, all from indexes; bootstrap data and
//! keys by name; what EC2 shows, in lists that serve all machines of a region and identity.
//!
//! **Effects.** Requests to EC2, each preceded by an entry of the [`journal`] stored on the machine itself, so that a
//! repetition is the same request; the machine's finalizer, ids and status.
//!
//! **Parts.** [`decide`] thinks about one machine and says what to do and what to tell; [`guard`] holds against every plan
//! what must never happen; [`own`] says whose a host or an instance is; [`request`], [`placement`], [`groups`], [`tags`], [`userdata`], [`addresses`] and [`classes`] are
//! its tables; [`admit`] fills in and checks what users write; [`shelf`] asks EC2 once for many, [`batch`] changes it once for many, [`turns`] says who is next, and [`first`] who is looked at first; [`sweeper`] looks for hosts that belong to nobody; [`explain`] tells people.
//!
//! **Invariants.** A finalizer is on the machine before the first request that changes EC2. Nothing is asked for that the
//! stored journal does not intend. One epoch of a machine is one token in one zone. An epoch ends, and the finalizer goes,
//! only when every host is known to be released, retained or abandoned. A host or an instance whose tags do not say that it
//! is the machine's is neither changed nor ended, and what is not seen counts as gone only in the account it was made in.
//!
//! **Failure modes.** Refusals of EC2 are told in conditions by their class and tried again at its pace. Without EC2, or
//! without credentials, machines that run are left as they are and machines that go stay until their hosts are gone.
//! Fields that are not built are refused by name.

pub mod addresses;
pub mod admit;
mod apply;
pub mod asker;
pub mod batch;
pub mod claim;
pub mod classes;
pub mod config;
pub mod decide;
pub mod explain;
pub mod facts;
pub mod first;
pub mod groups;
pub mod guard;
pub mod iam;
mod identity;
pub mod journal;
pub mod memory;
pub mod metrics;
pub mod names;
mod observe;
pub mod obstacle;
pub mod own;
pub mod placement;
mod pool;
pub mod request;
pub mod rights;
pub mod room;
#[cfg(test)]
mod sample;
pub mod selfcheck;
pub mod shelf;
pub mod snapshot;
pub mod status;
pub mod sweeper;
pub mod tags;
pub mod turns;
pub mod userdata;
mod wake;

use std::sync::Arc;

use aws::cloud::Cloud;
use kit::events::Events;
use kit::lacks::Lacks;
use kit::manager::{self, Manager, Stage};
use kit::room::{Driver, Roll, Room};
use kit::teller::Teller;
use kit::write::Writer;

use crate::config::Config;
use crate::facts::World;
use crate::metrics::HostsMetrics;
use crate::room::{Keeper, Parts};
use crate::shelf::Shelves;
use crate::sweeper::Sweeper;

/// Adds the room to a manager.
///
/// # Errors
/// When a kind cannot be followed.
pub fn mount<C: Cloud>(manager: &Manager, config: Config, cloud: C) -> Result<Arc<Driver<Keeper<C>>>, manager::Error> {
    let (world, config) = (World::follow(manager)?, Arc::new(config));
    let (client, clock) = (manager.client().clone(), manager.clock().clone());
    let mut metrics = HostsMetrics::register(manager.metrics(), &world, &clock, config.watch_filter.clone());
    metrics.lacks = Lacks::of(manager);
    let shelves = Arc::new(Shelves::new(cloud, clock.clone(), config.launches));
    let name = Keeper::<C>::NAME;
    let events = Events::new(client.clone(), name, Some(manager.instance().to_owned()));
    let keeper = Keeper::new(Parts {
        world: world.clone(),
        config: Arc::clone(&config),
        shelves,
        writer: Writer::new(client, name),
        events,
        clock,
        metrics,
    });
    let driver = Driver::new(manager, keeper.telling(Teller::start(manager, name)));
    wake::machines(&world, driver.work(), &driver.room().hurry);
    let filter = config.watch_filter.clone();
    let roll = Roll::open(manager, name, "AWSMachine");
    roll.follow(&world.machines, move |_, machine| machine.stand(filter.as_deref()));
    let all = !matches!(manager.scope(), kit::feed::Scope::Namespaces(names) if !names.is_empty());
    if !all && config.orphan_interval.is_some() {
        // Hosts of other namespaces carry the tag of the same management cluster, and their machines are not seen here.
        tracing::warn!("hosts that belong to no machine are not looked for, because only some namespaces are followed");
    }
    if let Some(interval) = config.orphan_interval.filter(|_| all) {
        let sweeper = Sweeper::new(Arc::clone(&driver), manager.leadership());
        manager.spawn(Stage::Watch, "hosts orphans", |stop| sweeper.run(interval, stop));
    }
    let (ready, keys) = (world.clone(), world);
    manager.drive(&driver, async move { ready.settled().await }, move |accepts| keys.machines.keys(accepts));
    Ok(driver)
}
