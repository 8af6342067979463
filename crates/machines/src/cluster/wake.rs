//! What wakes a Metal3Cluster: itself, its Cluster, and the machines of the cluster when they go.

use std::sync::Arc;

use api::key::ObjectKey;
use kit::queue::{Priority, Work};

use crate::facts::World;

type Queue = Arc<Work<ObjectKey>>;

fn of_cluster(world: &World, queue: &Queue, namespace: Option<&str>, cluster: &str) {
    let key = ObjectKey::namespaced(namespace.unwrap_or_default(), cluster);
    if let kit::feed::Seen::At(cluster) = world.clusters.get(&key)
        && let Some(place) = cluster.infrastructure.as_ref().filter(|place| place.kind == "Metal3Cluster")
    {
        let namespace = namespace.unwrap_or_default();
        queue.add_now(ObjectKey::namespaced(namespace, place.name.as_str()), Priority::Background);
    }
}

/// Wakes Metal3Clusters when they change, or anything they depend on does.
pub fn places(world: &World, work: &Queue) {
    let queue = Arc::clone(work);
    world.places.observe(move |delta| queue.add_now(delta.key.clone(), Priority::Urgent));
    let queue = Arc::clone(work);
    world.clusters.observe(move |delta| {
        for cluster in [&delta.old, &delta.new].into_iter().flatten() {
            if let Some(place) = cluster.infrastructure.as_ref().filter(|place| place.kind == "Metal3Cluster") {
                let namespace = delta.key.namespace().unwrap_or_default();
                queue.add_now(ObjectKey::namespaced(namespace, place.name.as_str()), Priority::Urgent);
            }
        }
    });
    let (all, queue) = (world.clone(), Arc::clone(work));
    world.machines.observe(move |delta| {
        if let (None, Some(old)) = (&delta.new, &delta.old)
            && let Some(cluster) = &old.cluster
        {
            of_cluster(&all, &queue, delta.key.namespace(), cluster);
        }
    });
    let (all, queue) = (world.clone(), Arc::clone(work));
    world.owners.observe(move |delta| {
        if let (None, Some(old)) = (&delta.new, &delta.old)
            && let Some(cluster) = &old.cluster
        {
            of_cluster(&all, &queue, delta.key.namespace(), cluster);
        }
    });
}
