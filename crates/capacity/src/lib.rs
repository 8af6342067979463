//! The room `capacity`: groups of machines at zero replicas tell cluster-autoscaler what a machine of theirs would offer.
//!
//! **Promise.** A MachineSet or MachineDeployment whose machines are of a known type carries the annotations that its
//! cluster-autoscaler reads, for as long as it lives, and they follow its type. A value that a user has set is the
//! user's. Of groups nothing but annotations is written, and nothing at all when nothing changed.
//!
//! **Inputs.** Groups of both APIs, their templates, clusters and regions, all from indexes; the catalogue of instance
//! types, asked of EC2 once a day for each region and kept for the next process; that of compute offerings, asked of
//! CloudStack once a day for each zone; a table of types from a ConfigMap.
//!
//! **Effects.** One merge patch with only the keys that change; events, one for each cause and hour; the catalogue in one
//! ConfigMap of our own namespace, when it was listed; where a flag asks for it, the status of templates.
//!
//! **Parts.** [`judge`] says whether a group is ours and what its machines are; [`shelf`] is the catalogue as data,
//! [`catalogue`] fills it on a task of its own, and [`archive`] and [`store`] keep it for the next process; [`goal`] says
//! what should stand on a group and [`plan`] whose the present values are; [`decide`] puts these together. [`admit`] checks
//! what users write. [`acs`] is what CloudStack has otherwise.
//!
//! **Invariants.** No worker waits for the cloud. A list that failed is never mistaken for a type that does not exist. A
//! key that somebody declares by server-side apply, or fights for, is left alone. Credentials never touch a disk.
//!
//! **Failure modes.** Without the cloud the last list goes on; without any list groups wait, are told why once, and are
//! annotated as soon as it answers. Kinds that the server does not know are waited for.

pub mod acs;
pub mod admit;
pub mod apply;
pub mod archive;
pub mod catalogue;
pub mod cloud;
pub mod config;
pub mod decide;
pub mod explain;
pub mod facts;
pub mod goal;
pub mod guard;
pub mod judge;
pub mod labels;
pub mod memory;
pub mod metal;
pub mod metrics;
pub mod names;
pub mod near;
pub mod observe;
pub mod offer;
pub mod plan;
pub mod quantity;
pub mod record;
pub mod rights;
pub mod room;
pub mod sees;
pub mod shelf;
pub mod status;
pub mod store;
pub mod table;
pub mod template;
pub mod wake;

use std::sync::{Arc, RwLock};
use std::time::Duration;

use api::key::ObjectKey;
use kit::manager::{self, Manager, Stage};
use kit::queue::Priority;
use kit::room::{Driver, Room};
use kit::teller::Teller;
use kit::write::Writer;

use crate::acs::cards::Cards;
use crate::catalogue::Catalogue;
use crate::cloud::Ways;
use crate::config::Config;
use crate::facts::World;
use crate::metrics::CapacityMetrics;
use crate::room::{Annotator, Parts};
use crate::shelf::Rules;
use crate::store::Store;

/// Every group is looked at again this often: what is in memory costs no request, and a refresh of the catalogue is
/// asked for by whoever looks.
pub const LOOK: Duration = Duration::from_secs(600);

/// Adds the room to a manager.
///
/// # Errors
/// When a kind cannot be followed.
pub fn mount<C: Ways>(
    manager: &Manager,
    config: Config,
    cloud: C,
) -> Result<Arc<Driver<Annotator<C>>>, manager::Error> {
    let (world, config) = (World::follow(manager, &config)?, Arc::new(config));
    let (client, clock) = (manager.client().clone(), manager.clock().clone());
    let metrics = CapacityMetrics::register(manager);
    metrics.gate(config.machine_api_migration);
    tracing::info!(enabled = config.machine_api_migration, gate = config::MACHINE_API_MIGRATION, "feature gate");
    let rules = Rules { ttl: config.catalogue_ttl };
    let store = config.store.then(|| {
        let key = ObjectKey::namespaced(config.own_namespace.as_str(), names::CATALOGUE);
        let writer = Writer::new(client.clone(), Annotator::<C>::NAME);
        Arc::new(Store::new(writer, key, clock.clone(), manager.leadership(), config.dry_run))
    });
    if let Some(store) = store.clone() {
        // Before the lease is given back, so that whoever comes next finds what was listed last.
        manager.spawn(Stage::Decide, "capacity store", |stop| store.run(stop));
    }
    let (catalogue, orders) = Catalogue::new(cloud, clock.clone(), rules, metrics.clone(), store);
    let shown = Arc::clone(&catalogue);
    metrics.show(manager.metrics(), move || shown.standing());
    let name = Annotator::<C>::NAME;
    let (table, cards) = (Arc::new(RwLock::default()), Arc::new(Cards::default()));
    let annotator = Annotator::new(Parts {
        world: world.clone(),
        config: Arc::clone(&config),
        catalogue: Arc::clone(&catalogue),
        table: Arc::clone(&table),
        cards: Arc::clone(&cards),
        writer: Writer::new(client, name),
        events: Teller::start(manager, name),
        clock: clock.clone(),
        metrics,
    });
    let driver = Driver::new(manager, annotator);
    wake::groups(&world, driver.work(), config.claims);
    wake::secrets(manager, &world, &config, &catalogue, &cards, driver.work());
    wake::table(manager, &world, &config, &table, driver.work());
    let (work, filling) = (Arc::clone(driver.work()), Arc::clone(&catalogue));
    manager.spawn(Stage::Watch, "capacity catalogue", |stop| async move {
        let wake = move |waited: Vec<facts::GroupKey>| {
            waited.into_iter().for_each(|key| work.add_now(key, Priority::Urgent));
        };
        filling.run(orders, wake, stop).await;
    });
    wake::again(manager, &world, driver.work(), LOOK);
    let (ready, keys) = (world.clone(), world);
    manager.drive(&driver, async move { ready.settled().await }, move |accepts| keys.keys(accepts));
    Ok(driver)
}
