//! The leader's other duties: what policies and quotas come to, hosts whose claim is gone, and the public catalogue.
//!
//! Each duty is a small room of its own over the same feeds and the same yard.

pub mod catalogue;
pub mod host;
pub mod ledger;
pub mod policy;
pub mod quota;

use std::sync::Arc;

use api::key::ObjectKey;
use kit::feed::Feed;
use kit::manager::Manager;
use kit::queue::{Priority, Work};
use kit::room::Driver;

use crate::config::Config;
use crate::facts::World;
use crate::shared::SharedYard;
use crate::yard::Touched;
use host::Hosts;
use ledger::{Account, Ledger};
use policy::Policies;
use quota::Quotas;

/// The queues of the duties that follow what everybody holds.
#[derive(Clone)]
pub struct Ledgers {
    policies: Arc<Work<ObjectKey>>,
    quotas: Arc<Work<ObjectKey>>,
}

impl Ledgers {
    /// Has these policies and quotas looked at.
    pub fn wake(&self, touched: Touched) {
        for policy in touched.policies {
            self.policies.add_now(policy, Priority::Background);
        }
        for quota in touched.quotas {
            self.quotas.add_now(ObjectKey::cluster_scoped(quota), Priority::Background);
        }
    }
}

/// Adds the duties to a manager. Call it before the yard is opened.
#[must_use]
pub fn mount(manager: &Manager, world: &World, config: &Arc<Config>, yard: &SharedYard) -> Ledgers {
    let policies = keep::<Policies>(manager, world, &world.policies, yard);
    let quotas = keep::<Quotas>(manager, world, &world.quotas, yard);

    let hosts = Driver::new(manager, Hosts::new(manager, world, config, yard));
    host::wake(world, hosts.work(), hosts.room().shared_memory());
    let (ready, feed) = (world.clone(), world.hosts.clone());
    manager.drive(&hosts, async move { ready.settled().await }, move |accepts| feed.keys(accepts));

    Ledgers { policies, quotas }
}

/// Keeps the ledger of one kind of rules; returns its queue.
fn keep<A: Account>(manager: &Manager, world: &World, feed: &Feed<A::Feed>, yard: &SharedYard) -> Arc<Work<ObjectKey>> {
    let driver = Driver::new(manager, Ledger::<A>::new(feed, yard));
    let work = Arc::clone(driver.work());
    feed.observe(move |delta| work.add_now(delta.key.clone(), Priority::Background));
    let (ready, keys) = (world.clone(), feed.clone());
    manager.drive(&driver, async move { ready.settled().await }, move |accepts| keys.keys(accepts));
    Arc::clone(driver.work())
}
