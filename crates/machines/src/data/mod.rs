//! What machines are told at their first boot: numbers, addresses and documents made of a Metal3DataTemplate.
//!
//! **Promise.** Each Metal3DataClaim of a machine on a claim gets the lowest free number of its template, and a Metal3Data of
//! the name `<template>-<number>`. The data gets an address of every pool the template names, and Secrets with the metadata
//! and the network data, rendered once. Deleting the data claim gives number and addresses back.
//!
//! **Inputs.** Templates, data claims and data; the Metal3Machine, its Machine and its HostClaim, of which only the status is
//! believed; wishes for addresses and addresses, by the contract of Cluster API or of Metal3's own address management.
//!
//! **Rules.** Objects of machines that take their hosts directly are not touched. One claim has one number, two claims never
//! have the same: the number is stored in the claim before the data is made, and the name of the data is made of it. A Secret
//! that is there is never written again. Nothing is rendered before the machine has its host.
//!
//! **Failures.** What a template asks and the host or its machine cannot give is told on the data and waits for a change. A
//! pool without free addresses is waited for.

pub mod claim;
pub mod datum;
pub mod error;
pub mod facts;
pub mod names;
pub mod pools;
pub mod render;
pub mod rights;
pub mod template;

use std::sync::Arc;

use api::key::ObjectKey;
use kit::feed::Delta;
use kit::manager::{self, Manager};
use kit::queue::{Priority, Work};
use kit::room::{Driver, Room};
use kit::write::Writer;

use crate::config::Config;
use facts::{LeaseFacts, World};

/// What is looked at when something changes.
#[derive(Clone)]
struct Wake {
    world: World,
    templates: Arc<Work<ObjectKey>>,
    claims: Arc<Work<ObjectKey>>,
    datas: Arc<Work<ObjectKey>>,
}

impl Wake {
    fn template(&self, key: ObjectKey) {
        self.templates.add_now(key, Priority::Urgent);
    }

    fn claim(&self, key: ObjectKey) {
        self.claims.add_now(key, Priority::Urgent);
    }

    fn data(&self, key: ObjectKey) {
        self.datas.add_now(key, Priority::Urgent);
    }

    /// A data claim changed, or something that its data depends on.
    fn around_claim(&self, claim: &ObjectKey) {
        for data in self.world.datas_of(claim) {
            self.data(data);
        }
        self.claim(claim.clone());
    }

    /// A Metal3Machine changed, or something that its data depends on.
    fn around_machine(&self, machine: &ObjectKey) {
        for claim in self.world.claims_of(machine) {
            self.around_claim(&claim);
        }
    }

    fn lease(&self, delta: &Delta<LeaseFacts>) {
        for owner in [&delta.old, &delta.new].into_iter().flatten().filter_map(|lease| lease.data.as_ref()) {
            self.data(names::beside(&delta.key, &owner.name));
        }
    }

    /// Has everything looked at that a change of any object concerns.
    fn wire(&self) {
        let world = self.world.clone();
        let wake = self.clone();
        world.templates.observe(move |delta| {
            wake.template(delta.key.clone());
            // Each number that is taken is told on the template: whoever has one already is not looked at for that.
            if matches!((&delta.old, &delta.new), (Some(old), Some(new)) if old.rules_like(new)) {
                return;
            }
            let by = delta.key.to_string();
            for (claim, _) in wake.world.claims.by("template", &by) {
                wake.claim(claim);
            }
            for (data, _) in wake.world.datas.by("template", &by) {
                wake.data(data);
            }
        });
        let wake = self.clone();
        world.claims.observe(move |delta| {
            for claim in [&delta.old, &delta.new].into_iter().flatten() {
                if let Some(template) = &claim.template {
                    wake.template(names::beside(&delta.key, template));
                }
            }
            wake.around_claim(&delta.key);
        });
        let wake = self.clone();
        world.datas.observe(move |delta| {
            for data in [&delta.old, &delta.new].into_iter().flatten() {
                wake.template(names::beside(&delta.key, &data.template));
                wake.claim(names::beside(&delta.key, &data.claim));
            }
            // Who chose the name and found it taken chooses again.
            wake.data(delta.key.clone());
        });
        let wake = self.clone();
        world.metal.observe(move |delta| wake.around_machine(&delta.key));
        let wake = self.clone();
        world.machines.observe(move |delta| {
            for (machine, _) in wake.world.metal.by("machine", &delta.key.to_string()) {
                wake.around_machine(&machine);
            }
        });
        let wake = self.clone();
        // The claim of a machine has its name.
        world.hosts.observe(move |delta| wake.around_machine(&delta.key));
        let wake = self.clone();
        world.leases.observe(move |delta| wake.lease(delta));
        let wake = self.clone();
        world.pool_leases.observe(move |delta| wake.lease(delta));
        let wake = self.clone();
        world.addresses.observe(move |delta| {
            for (key, lease) in wake.world.leases.by("address", &delta.key.to_string()) {
                wake.lease(&Delta { key, old: None, new: Some(lease) });
            }
        });
        let wake = self.clone();
        world.pool_addresses.observe(move |delta| {
            for (key, lease) in wake.world.pool_leases.by("address", &delta.key.to_string()) {
                wake.lease(&Delta { key, old: None, new: Some(lease) });
            }
        });
        let wake = self.clone();
        world.secrets.observe(move |delta| {
            for (data, _) in wake.world.datas.by("secret", &delta.key.to_string()) {
                wake.data(data);
            }
        });
        let wake = self.clone();
        world.clusters.observe(move |delta| {
            let by = delta.key.to_string();
            for (template, _) in wake.world.templates.by("cluster", &by) {
                wake.template(template);
            }
            for (claim, _) in wake.world.claims.by("cluster", &by) {
                wake.claim(claim);
            }
            for (data, _) in wake.world.datas.by("cluster", &by) {
                wake.data(data);
            }
        });
    }
}

/// Adds the rooms of templates, data claims and data to a manager.
///
/// # Errors
/// When another room follows one of the kinds in a way that cannot be shared.
pub fn mount(manager: &Manager, config: &Arc<Config>) -> Result<(), manager::Error> {
    let world = World::follow(manager, Arc::clone(config))?;
    let writer = |room| Writer::new(manager.client().clone(), room);
    let templates = template::Templates { world: world.clone(), writer: writer(template::Templates::NAME) };
    let templates = Driver::new(manager, templates);
    let claims = claim::DataClaims {
        world: world.clone(),
        writer: writer(claim::DataClaims::NAME),
        ledger: claim::ledger::Ledger::default(),
    };
    let claims = Driver::new(manager, claims);
    let datas = Driver::new(manager, datum::Datas { world: world.clone(), writer: writer(datum::Datas::NAME) });
    let wake = Wake {
        world: world.clone(),
        templates: Arc::clone(templates.work()),
        claims: Arc::clone(claims.work()),
        datas: Arc::clone(datas.work()),
    };
    wake.wire();
    let ready = |world: &World| {
        let world = world.clone();
        async move { world.settled().await }
    };
    let feed = world.templates.clone();
    manager.drive(&templates, ready(&world), move |accepts| feed.keys(accepts));
    let feed = world.claims.clone();
    manager.drive(&claims, ready(&world), move |accepts| feed.keys(accepts));
    let feed = world.datas.clone();
    manager.drive(&datas, ready(&world), move |accepts| feed.keys(accepts));
    Ok(())
}
