//! What wakes clusters and datacenters: themselves, what they refer to, what was made of them, and secrets.

use std::sync::Arc;

use api::key::ObjectKey;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kit::feed::{Feed, Project};
use kit::queue::{Priority, Work};

use crate::config::Config;
use crate::facts::{Belonging, DatacenterFacts, World, moved};

type Queue = Arc<Work<ObjectKey>>;

fn by(world: &World, queue: &Queue, index: &str, value: &str) {
    for (key, _) in world.clusters.by(index, value) {
        queue.add_now(key, Priority::Background);
    }
}

fn everybody(world: &World, queue: &Queue) {
    for key in world.clusters.keys(|_| true) {
        queue.add_now(key, Priority::Background);
    }
}

/// Clusters that an object names as its owners.
fn owners(queue: &Queue, namespace: Option<&str>, meta: &ObjectMeta) {
    for owner in meta.owner_references.iter().flatten() {
        let group = owner.api_version.split('/').next().unwrap_or_default();
        if owner.kind == "Cluster" && group == api::names::clusters::GROUP {
            let key = ObjectKey::namespaced(namespace.unwrap_or_default(), owner.name.as_str());
            queue.add_now(key, Priority::Background);
        }
    }
}

/// Of an object whose owners have changed, the clusters that refer to it and that it does not name: all become owners, one
/// after the other, and only those that are none may have to act.
fn strangers(world: &World, queue: &Queue, (index, child): (&str, &ObjectKey), old: &ObjectMeta, new: &ObjectMeta) {
    if old.owner_references == new.owner_references {
        return;
    }
    let named = |uid: &str| new.owner_references.iter().flatten().any(|owner| owner.uid == uid);
    for (key, cluster) in world.clusters.by(index, &child.to_string()) {
        if !cluster.is_self_managed() && !named(cluster.uid()) {
            queue.add_now(key, Priority::Background);
        }
    }
}

/// Wakes clusters when they change, or anything they depend on does. A status that only we write wakes nobody.
pub fn clusters(world: &World, config: &Arc<Config>, work: &Queue) {
    let (all, queue) = (world.clone(), Arc::clone(work));
    world.clusters.observe(move |delta| {
        let same = match (&delta.old, &delta.new) {
            // An index that has caught up with our write tells so by an equal pair, and somebody waits for that.
            (Some(old), Some(new)) => !Arc::ptr_eq(old, new) && old.same_but_for_status(new),
            _ => false,
        };
        if !same {
            queue.add_now(delta.key.clone(), Priority::Urgent);
            // Others may wait for its name, its endpoint or its versions.
            by(&all, &queue, "manager", delta.key.name());
            by(&all, &queue, "name", delta.key.name());
        }
    });
    let (all, queue) = (world.clone(), Arc::clone(work));
    world.datacenters.observe(move |delta| {
        if let (Some(old), Some(new)) = (&delta.old, &delta.new)
            && !Arc::ptr_eq(old, new)
            && old.same_for_clusters(new)
        {
            let (old, new) = (&old.object.metadata, &new.object.metadata);
            strangers(&all, &queue, ("datacenter", &delta.key), old, new);
            return;
        }
        by(&all, &queue, "datacenter", &delta.key.to_string());
        for facts in delta.old.iter().chain(&delta.new) {
            owners(&queue, delta.key.namespace(), &facts.object.metadata);
        }
    });
    let (all, queue) = (world.clone(), Arc::clone(work));
    world.machines.observe(move |delta| {
        if let (Some(old), Some(new)) = (&delta.old, &delta.new)
            && !Arc::ptr_eq(old, new)
            && old.same_for_clusters(new)
        {
            let (old, new) = (&old.object.metadata, &new.object.metadata);
            strangers(&all, &queue, ("machine", &delta.key), old, new);
            return;
        }
        by(&all, &queue, "machine", &delta.key.to_string());
        for facts in delta.old.iter().chain(&delta.new) {
            owners(&queue, delta.key.namespace(), &facts.object.metadata);
        }
    });
    let (all, queue) = (world.clone(), Arc::clone(work));
    world.oidcs.observe(move |delta| by(&all, &queue, "identity", &delta.key.to_string()));
    let (all, queue) = (world.clone(), Arc::clone(work));
    world.iams.observe(move |delta| by(&all, &queue, "identity", &delta.key.to_string()));
    // Bundles and releases change rarely, and anybody may wait for one.
    let (all, queue) = (world.clone(), Arc::clone(work));
    world.bundles.observe(move |_| everybody(&all, &queue));
    let (all, queue) = (world.clone(), Arc::clone(work));
    world.releases.observe(move |_| everybody(&all, &queue));
    generated(&world.capi, world, config, work);
    generated(&world.planes, world, config, work);
    generated(&world.groups, world, config, work);
    generated(&world.checks, world, config, work);
    generated(&world.provider, world, config, work);
    generated(&world.templates, world, config, work);
    generated(&world.configs, world, config, work);
    let (all, queue, settings) = (world.clone(), Arc::clone(work), Arc::clone(config));
    world.nodes.observe(move |delta| {
        // How many machines are left is told only of clusters that go.
        let gone = delta.new.is_none() && delta.key.namespace() == Some(settings.system_namespace());
        let cluster = delta.old.as_ref().and_then(|machine| machine.cluster.as_deref()).filter(|_| gone);
        if let Some(cluster) = cluster {
            by(&all, &queue, "name", cluster);
        }
    });
    let (all, queue, settings) = (world.clone(), Arc::clone(work), Arc::clone(config));
    world.secrets.observe(move |delta| {
        if delta.key.namespace() != Some(settings.system_namespace()) {
            return;
        }
        if let Some(cluster) = delta.key.name().strip_suffix("-kubeconfig") {
            by(&all, &queue, "name", cluster);
        }
        for (datacenter, _) in all.datacenters.by("secret", delta.key.name()) {
            by(&all, &queue, "datacenter", &datacenter.to_string());
        }
    });
}

/// Wakes the cluster that an object was made for, by its labels; where it has none, by the name of its cluster.
fn generated<P: Project>(feed: &Feed<P>, world: &World, config: &Arc<Config>, work: &Queue)
where
    P::Slim: Belonging,
{
    let (all, queue, settings) = (world.clone(), Arc::clone(work), Arc::clone(config));
    feed.observe(move |delta| {
        if delta.key.namespace() != Some(settings.system_namespace()) {
            return;
        }
        let Some(facts) = delta.new.as_ref().or(delta.old.as_ref()) else { return };
        let mark = facts.mark();
        match (&mark.owner, &mark.cluster) {
            (Some(owner), _) => queue.add_now(owner.clone(), Priority::Urgent),
            (None, Some(cluster)) => by(&all, &queue, "name", cluster),
            (None, None) => by(&all, &queue, "name", delta.key.name()),
        }
    });
}

/// Wakes datacenters when they or their secrets change.
pub fn datacenters(world: &World, config: &Arc<Config>, work: &Queue) {
    let queue = Arc::clone(work);
    let quiet = |old: &Arc<DatacenterFacts>, new: &Arc<DatacenterFacts>| {
        !Arc::ptr_eq(old, new) && !moved(&old.object.metadata, &new.object.metadata)
    };
    world.datacenters.observe(move |delta| {
        let same = matches!((&delta.old, &delta.new), (Some(old), Some(new)) if quiet(old, new));
        if !same {
            queue.add_now(delta.key.clone(), Priority::Urgent);
        }
    });
    let (all, queue, settings) = (world.clone(), Arc::clone(work), Arc::clone(config));
    world.secrets.observe(move |delta| {
        if delta.key.namespace() != Some(settings.system_namespace()) {
            return;
        }
        for (datacenter, _) in all.datacenters.by("secret", delta.key.name()) {
            queue.add_now(datacenter, Priority::Urgent);
        }
    });
}
