//! What wakes a machine: itself, its Machine, its Cluster, its Metal3Cluster, its claim, its data, its bootstrap Secret
//! and the kubeconfig of its cluster.

use std::sync::Arc;

use api::key::ObjectKey;
use kit::queue::{Priority, Work};

use crate::facts::{OwnerFacts, World};

type Queue = Arc<Work<ObjectKey>>;

fn of_cluster(world: &World, queue: &Queue, cluster: &ObjectKey) {
    for (key, _) in world.machines.by("cluster", &cluster.to_string()) {
        queue.add_now(key, Priority::Background);
    }
}

fn machine(namespace: Option<&str>, owner: &OwnerFacts) -> Option<ObjectKey> {
    let reference = owner.infrastructure.as_ref().filter(|reference| reference.kind == "Metal3Machine")?;
    Some(ObjectKey::namespaced(namespace.unwrap_or_default(), reference.name.as_str()))
}

/// Wakes machines when they change, or anything they depend on does.
pub fn machines(world: &World, work: &Queue) {
    let queue = Arc::clone(work);
    world.machines.observe(move |delta| queue.add_now(delta.key.clone(), Priority::Urgent));
    let queue = Arc::clone(work);
    world.owners.observe(move |delta| {
        for owner in [&delta.old, &delta.new].into_iter().flatten() {
            if let Some(key) = machine(delta.key.namespace(), owner) {
                queue.add_now(key, Priority::Urgent);
            }
        }
    });
    let (all, queue) = (world.clone(), Arc::clone(work));
    world.clusters.observe(move |delta| of_cluster(&all, &queue, &delta.key));
    let (all, queue) = (world.clone(), Arc::clone(work));
    world.places.observe(move |delta| {
        for (cluster, _) in all.clusters.by("place", &delta.key.to_string()) {
            of_cluster(&all, &queue, &cluster);
        }
    });
    // Claims and wishes for data have the name of their machine.
    let queue = Arc::clone(work);
    world.claims.observe(move |delta| queue.add_now(delta.key.clone(), Priority::Urgent));
    let queue = Arc::clone(work);
    world.data_claims.observe(move |delta| queue.add_now(delta.key.clone(), Priority::Urgent));
    let queue = Arc::clone(work);
    world.datas.observe(move |delta| {
        for data in [&delta.old, &delta.new].into_iter().flatten() {
            let namespace = delta.key.namespace().unwrap_or_default();
            queue.add_now(ObjectKey::namespaced(namespace, data.claim.name.as_str()), Priority::Urgent);
        }
    });
    let (all, queue) = (world.clone(), Arc::clone(work));
    world.secrets.observe(move |delta| {
        // Machines whose cluster could not be entered wait for its kubeconfig.
        if let Some(cluster) = delta.key.name().strip_suffix("-kubeconfig").filter(|_| delta.old.is_none()) {
            let namespace = delta.key.namespace().unwrap_or_default();
            of_cluster(&all, &queue, &ObjectKey::namespaced(namespace, cluster));
        }
        for (key, owner) in all.owners.by("secret", &delta.key.to_string()) {
            if let Some(key) = machine(key.namespace(), &owner) {
                queue.add_now(key, Priority::Urgent);
            }
        }
    });
}
