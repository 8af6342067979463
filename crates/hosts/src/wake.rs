//! What wakes a machine: itself, its Machine, its Cluster, its AWSCluster, and identities.

use std::sync::Arc;

use api::key::ObjectKey;
use kit::queue::{Priority, Work};

use crate::facts::{World, place_value};
use crate::first;
use crate::memory::Hurry;

type Queue = Arc<Work<ObjectKey>>;

fn cluster(world: &World, queue: &Queue, value: &str) {
    first::all(queue, world.machines.by("cluster", value).into_iter().map(|(key, _)| key));
}

/// Wakes machines when they change, or anything they depend on does. A status that only we write wakes nobody.
pub fn machines(world: &World, work: &Queue, hurry: &Arc<Hurry>) {
    let (queue, hurried) = (Arc::clone(work), Arc::clone(hurry));
    world.machines.observe(move |delta| {
        let same = match (&delta.old, &delta.new) {
            // An index that has caught up with our write tells so by an equal pair, and somebody waits for that.
            (Some(old), Some(new)) => !Arc::ptr_eq(old, new) && old.same_but_for_status(new),
            _ => false,
        };
        if !same {
            let stored = delta.new.as_deref().map_or(Priority::Background, first::of_machine);
            queue.add_now(delta.key.clone(), hurried.of(&delta.key).min(stored));
        }
    });
    let (queue, hurried) = (Arc::clone(work), Arc::clone(hurry));
    world.owners.observe(move |delta| {
        let reference = delta.new.as_ref().or(delta.old.as_ref()).and_then(|owner| owner.infrastructure.as_ref());
        if let Some(reference) = reference.filter(|reference| reference.kind == "AWSMachine") {
            let namespace = delta.key.namespace().unwrap_or_default();
            let key = ObjectKey::namespaced(namespace, reference.name.as_str());
            let priority = hurried.of(&key);
            queue.add_now(key, priority);
        }
    });
    let (all, queue) = (world.clone(), Arc::clone(work));
    world.clusters.observe(move |delta| cluster(&all, &queue, &delta.key.to_string()));
    let (all, queue) = (world.clone(), Arc::clone(work));
    world.clouds.observe(move |delta| {
        for (key, _) in all.clusters.by("place", &place_value("AWSCluster", delta.key.namespace(), delta.key.name())) {
            cluster(&all, &queue, &key.to_string());
        }
    });
    let (all, queue) = (world.clone(), Arc::clone(work));
    // An identity may be anybody's, and changes rarely.
    world.identities.observe(move || first::all(&queue, all.machines.keys(|_| true)));
}
