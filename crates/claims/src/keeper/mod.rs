//! The leader's other duties: what policies and quotas come to, hosts whose claim is gone, and the public catalogue.
//!
//! Each duty is a small room of its own over the same feeds and the same yard.

pub mod catalogue;
pub mod host;
pub mod policy;
pub mod quota;

use std::sync::Arc;

use api::key::ObjectKey;
use kit::manager::Manager;
use kit::queue::{Priority, Work};
use kit::room::Driver;

use crate::config::Config;
use crate::facts::World;
use crate::room::SharedYard;
use crate::yard::Touched;
use host::Hosts;
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
    let policies = Driver::new(manager, Policies::new(world, yard));
    let work = Arc::clone(policies.work());
    world.policies.observe(move |delta| work.add_now(delta.key.clone(), Priority::Background));
    let (ready, feed) = (world.clone(), world.policies.clone());
    manager.drive(&policies, async move { ready.settled().await }, move |accepts| feed.keys(accepts));

    let quotas = Driver::new(manager, Quotas::new(world, yard));
    let work = Arc::clone(quotas.work());
    world.quotas.observe(move |delta| work.add_now(delta.key.clone(), Priority::Background));
    let (ready, feed) = (world.clone(), world.quotas.clone());
    manager.drive(&quotas, async move { ready.settled().await }, move |accepts| feed.keys(accepts));

    let hosts = Driver::new(manager, Hosts::new(manager, world, config, yard));
    host::wake(world, hosts.work(), hosts.room().shared_memory());
    let (ready, feed) = (world.clone(), world.hosts.clone());
    manager.drive(&hosts, async move { ready.settled().await }, move |accepts| feed.keys(accepts));

    Ledgers { policies: Arc::clone(policies.work()), quotas: Arc::clone(quotas.work()) }
}
