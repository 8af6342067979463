//! What wakes a group: itself, its template, its cluster, its region, its Secret, and time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use api::key::ObjectKey;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kit::feed::{Feed, Project};
use kit::lone;
use kit::manager::{Manager, Stage};
use kit::queue::{Priority, Work, slot};
use kube::Api;
use tokio::sync::mpsc;

use crate::acs::cards::Cards;
use crate::catalogue::Catalogue;
use crate::cloud::Ways;
use crate::config::{ClaimRules, Config};
use crate::facts::{
    ACS, ACS_CLUSTER, AcsCluster, GroupFacts, GroupKey, GroupKind, MANAGED_POOL, METAL, POOL, Shape, World,
    place_value, template_value,
};
use crate::names::{CLUSTER_API_NAMESPACE, MACHINE_API_NAMESPACE};
use crate::room::BUNDLE;
use crate::table::Table;

/// How many parts a look at all groups is done in.
const SLOTS: u64 = 64;

type Queue = Arc<Work<GroupKey>>;

fn add(work: &Queue, kind: GroupKind, keys: impl IntoIterator<Item = ObjectKey>) {
    for key in keys {
        work.add_now(GroupKey { kind, key }, Priority::Background);
    }
}

fn add_all(world: &World, work: &Queue) {
    for key in world.keys(&|_| true) {
        work.add_now(key, Priority::Background);
    }
}

/// The groups with a value in an index that every kind of group has.
fn by(world: &World, work: &Queue, index: &str, value: &str) {
    fn found<P: Project>(feed: &Feed<P>, index: &str, value: &str) -> Vec<ObjectKey> {
        feed.by(index, value).into_iter().map(|(key, _)| key).collect()
    }
    add(work, GroupKind::OpenShiftSet, found(&world.openshift_sets, index, value));
    add(work, GroupKind::Deployment, found(&world.deployments, index, value));
    add(work, GroupKind::Set, found(&world.sets, index, value));
    if let Some(pools) = &world.pools {
        add(work, GroupKind::Pool, found(&pools.groups, index, value));
    }
}

/// Wakes groups when they change, or anything they depend on does.
pub fn groups(world: &World, work: &Queue, rules: ClaimRules) {
    own(&world.openshift_sets, work, GroupKind::OpenShiftSet);
    own(&world.deployments, work, GroupKind::Deployment);
    own(&world.sets, work, GroupKind::Set);
    let (all, queue) = (world.clone(), Arc::clone(work));
    world.openshift_sets.observe(move |delta| {
        // A mirror of the same name is annotated, or not, by who owns this one.
        let owner = |facts: Option<&Arc<GroupFacts>>| match facts.map(|facts| &facts.shape) {
            Some(Shape::MachineApi { api, .. }) => Some(api.authoritative.clone()),
            _ => None,
        };
        if delta.key.namespace() == Some(MACHINE_API_NAMESPACE)
            && owner(delta.old.as_ref()) != owner(delta.new.as_ref())
        {
            let mirror = ObjectKey::namespaced(CLUSTER_API_NAMESPACE, delta.key.name());
            if !all.sets.is_empty() {
                add(&queue, GroupKind::Set, [mirror]);
            }
        }
    });
    let (all, queue) = (world.clone(), Arc::clone(work));
    world
        .templates
        .observe(move |delta| by(&all, &queue, "template", &template_value("AWSMachineTemplate", &delta.key)));
    let (all, queue) = (world.clone(), Arc::clone(work));
    world.clusters.observe(move |delta| by(&all, &queue, "cluster", &delta.key.to_string()));
    place(&world.aws_clusters, world, work, "AWSCluster");
    place(&world.managed_planes, world, work, "AWSManagedControlPlane");
    place(&world.rosa_planes, world, work, "ROSAControlPlane");
    if let Some(pools) = &world.pools {
        own(&pools.groups, work, GroupKind::Pool);
        let (all, queue) = (world.clone(), Arc::clone(work));
        pools.scaling.observe(move |delta| by(&all, &queue, "template", &template_value(POOL, &delta.key)));
        let (all, queue) = (world.clone(), Arc::clone(work));
        pools.managed.observe(move |delta| by(&all, &queue, "template", &template_value(MANAGED_POOL, &delta.key)));
    }
    if let Some(acs) = &world.acs {
        let (all, queue) = (world.clone(), Arc::clone(work));
        acs.templates.observe(move |delta| by(&all, &queue, "template", &template_value(ACS, &delta.key)));
        place(&acs.clusters, world, work, ACS_CLUSTER);
    }
    if let Some(metal) = &world.metal {
        let (all, queue) = (world.clone(), Arc::clone(work));
        metal.templates.observe(move |delta| by(&all, &queue, "template", &template_value(METAL, &delta.key)));
        hosts(&metal.hosts, world, work, rules);
        hosts(&metal.hardware, world, work, rules);
        let (all, queue, named) = (world.clone(), Arc::clone(work), metal.clone());
        metal.policies.observe(move |delta| {
            // The first policy of a namespace closes it to everybody else, and the last one that goes opens it again.
            if rules.without_policy && delta.old.is_some() != delta.new.is_some() {
                named.everybody().iter().for_each(|tenant| by(&all, &queue, "metal", tenant));
                return;
            }
            for policy in delta.old.iter().chain(&delta.new) {
                named.tenants(policy).iter().for_each(|tenant| by(&all, &queue, "metal", tenant));
            }
        });
        let (all, queue) = (world.clone(), Arc::clone(work));
        metal.spaces.observe(move |delta| by(&all, &queue, "metal", delta.key.name()));
    }
    let (all, queue) = (world.clone(), Arc::clone(work));
    world.infrastructures.observe(move |_| add_all(&all, &queue));
}

fn own<P: Project>(feed: &Feed<P>, work: &Queue, kind: GroupKind) {
    let queue = Arc::clone(work);
    feed.observe(move |delta| queue.add_now(GroupKey { kind, key: delta.key.clone() }, Priority::Urgent));
}

/// Wakes the groups on bare metal in the namespace of a host, and in those that its policies, or the lack of any, admit.
fn hosts<P: Project>(feed: &Feed<P>, world: &World, work: &Queue, rules: ClaimRules) {
    let (all, queue) = (world.clone(), Arc::clone(work));
    feed.observe(move |delta| {
        let namespace = delta.key.namespace().unwrap_or_default();
        by(&all, &queue, "metal", namespace);
        let tenants = all.metal.as_ref().map(|metal| metal.tenants_of(namespace, rules)).unwrap_or_default();
        tenants.iter().filter(|tenant| ***tenant != *namespace).for_each(|tenant| by(&all, &queue, "metal", tenant));
    });
}

/// Wakes the groups of the clusters that name a place.
fn place<P: Project>(feed: &Feed<P>, world: &World, work: &Queue, kind: &'static str) {
    let (all, queue) = (world.clone(), Arc::clone(work));
    feed.observe(move |delta| at_place(&all, &queue, kind, &delta.key));
}

fn at_place(world: &World, work: &Queue, kind: &str, key: &ObjectKey) {
    for (cluster, _) in world.clusters.by("place", &place_value(kind, key.namespace(), key.name())) {
        by(world, work, "cluster", &cluster.to_string());
    }
}

/// Looks at every group once in `period`, a part at a time.
pub fn again(manager: &Manager, world: &World, work: &Queue, period: Duration) {
    let (all, queue) = (world.clone(), Arc::clone(work));
    manager.spawn(Stage::Watch, "capacity again", |stop| async move {
        let pause = period / u32::try_from(SLOTS).unwrap_or(u32::MAX);
        for turn in (0..SLOTS).cycle() {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
            for key in all.keys(&|key| slot(key, SLOTS) == turn) {
                queue.add_now(key, Priority::Background);
            }
        }
    });
}

/// Follows the Secrets that groups and their clusters name and the authorities of the cloud; when one changes, what was refused is tried
/// again at once.
pub fn secrets<C: Ways>(
    manager: &Manager,
    world: &World,
    config: &Arc<Config>,
    catalogue: &Arc<Catalogue<C>>,
    cards: &Arc<Cards>,
    work: &Queue,
) {
    let (named, wanted) = mpsc::unbounded_channel();
    let (all, settings, kept) = (world.clone(), Arc::clone(config), Arc::clone(cards));
    let announce = move || {
        let secrets = named_secrets(&all, &settings);
        kept.follow(secrets.iter().take(lone::FOLLOWED).cloned());
        let _ = named.send(secrets);
    };
    announce();
    if let Some(acs) = &world.acs {
        let tell = announce.clone();
        acs.clusters.observe(move |delta| {
            let secrets =
                |facts: Option<&Arc<AcsCluster>>| facts.map(|facts| facts.secrets(&delta.key)).unwrap_or_default();
            if secrets(delta.old.as_ref()) != secrets(delta.new.as_ref()) {
                tell();
            }
        });
    }
    let (settings, tell) = (Arc::clone(config), announce.clone());
    let counts = Mutex::new(Counts::default());
    world.openshift_sets.observe(move |delta| {
        let secret = |facts: Option<&Arc<GroupFacts>>| {
            Some(ObjectKey::namespaced(delta.key.namespace().unwrap_or_default(), facts?.secret()?))
        };
        let (old, new) = (secret(delta.old.as_ref()), secret(delta.new.as_ref()));
        let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
        // Thousands may name one Secret: only the first and the last to do so matter.
        let news = old != new && (counts.less(old) | counts.more(new));
        if news && settings.credentials.is_none() {
            tell();
        }
    });
    if let Some(identities) = &world.identities {
        let (all, shelf, queue) = (world.clone(), Arc::clone(catalogue), Arc::clone(work));
        // Anybody may be served by it, and it changes rarely.
        identities.observe(move || {
            announce();
            shelf.forgive();
            add_all(&all, &queue);
        });
    }
    let (all, queue, shelf) = (world.clone(), Arc::clone(work), Arc::clone(catalogue));
    let (settings, kept) = (Arc::clone(config), Arc::clone(cards));
    let changed = move |secret: &ObjectKey| {
        kept.forget(secret);
        shelf.forgive();
        for (cluster, _) in all.acs.iter().flat_map(|acs| acs.clusters.by("secret", &secret.to_string())) {
            at_place(&all, &queue, ACS_CLUSTER, &cluster);
        }
        let of_identity = settings.cluster_identity && secret.namespace() == Some(settings.own_namespace.as_str());
        if of_identity || settings.credentials.as_ref() == Some(secret) {
            add_all(&all, &queue);
        } else {
            by(&all, &queue, "secret", &secret.to_string());
        }
    };
    let (client, clock) = (manager.client().clone(), manager.clock().clone());
    manager
        .spawn(Stage::Watch, "capacity secrets", |stop| lone::follow::<Secret>(client, clock, wanted, changed, stop));
    let (bundle, wanted) = mpsc::unbounded_channel();
    let (all, queue, shelf) = (world.clone(), Arc::clone(work), Arc::clone(catalogue));
    let changed = move |_: &ObjectKey| {
        shelf.forgive();
        add_all(&all, &queue);
    };
    // On a cluster that is not OpenShift there is nothing to follow; its own kinds say so.
    let sets = world.openshift_sets.clone();
    let (client, clock) = (manager.client().clone(), manager.clock().clone());
    manager.spawn(Stage::Watch, "capacity authorities", |stop| async move {
        let ready = async {
            sets.settled().await;
            if sets.phase() == kit::feed::Phase::Synced {
                let _ = bundle.send(vec![ObjectKey::namespaced(BUNDLE.0, BUNDLE.1)]);
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = lone::follow::<ConfigMap>(client, clock, wanted, changed, stop) => {}
            () = ready => {}
        }
    });
}

/// How many name each Secret.
#[derive(Default)]
struct Counts(BTreeMap<ObjectKey, usize>);

impl Counts {
    /// One more names it; says whether it is the first.
    fn more(&mut self, secret: Option<ObjectKey>) -> bool {
        let Some(secret) = secret else { return false };
        let count = self.0.entry(secret).or_default();
        *count += 1;
        *count == 1
    }

    /// One less names it; says whether it was the last.
    fn less(&mut self, secret: Option<ObjectKey>) -> bool {
        let Some(secret) = secret else { return false };
        let Some(count) = self.0.get_mut(&secret) else { return false };
        *count = count.saturating_sub(1);
        let last = *count == 0;
        if last {
            self.0.remove(&secret);
        }
        last
    }
}

/// Every Secret that somebody names, the most needed first: not all may be followed.
fn named_secrets(world: &World, config: &Config) -> Vec<ObjectKey> {
    let mut named: Vec<ObjectKey> = config.credentials.iter().cloned().collect();
    let identities = world.identities.iter().flat_map(|identities| identities.secrets());
    let identities = identities.map(|name| ObjectKey::namespaced(config.own_namespace.as_str(), name));
    named.extend(identities.collect::<BTreeSet<_>>());
    named.extend(world.acs.iter().flat_map(|acs| acs.secrets()));
    if config.credentials.is_none() {
        let all = world.openshift_sets.all();
        let secret = |(key, facts): &(ObjectKey, Arc<GroupFacts>)| {
            Some(ObjectKey::namespaced(key.namespace().unwrap_or_default(), facts.secret()?))
        };
        named.extend(all.iter().filter_map(secret).collect::<BTreeSet<_>>());
    }
    named
}

/// Puts a new table in place of the old one; says whether they differ.
fn replace(shared: &RwLock<Table>, new: Table) -> bool {
    let mut old = shared.write().unwrap_or_else(PoisonError::into_inner);
    let differs = *old != new;
    *old = new;
    differs
}

/// Follows the table of types.
pub fn table(manager: &Manager, world: &World, config: &Arc<Config>, table: &Arc<RwLock<Table>>, work: &Queue) {
    let Some(key) = config.table.clone() else { return };
    let (named, wanted) = mpsc::unbounded_channel();
    let _ = named.send(vec![key.clone()]);
    let (tell, mut told) = mpsc::unbounded_channel();
    let changed = move |_: &ObjectKey| {
        let _ = tell.send(());
    };
    let (client, clock) = (manager.client().clone(), manager.clock().clone());
    let (all, queue, shared) = (world.clone(), Arc::clone(work), Arc::clone(table));
    manager.spawn(Stage::Watch, "capacity table", |stop| async move {
        let _named = named;
        let api: Api<ConfigMap> = Api::namespaced(client.clone(), key.namespace().unwrap_or_default());
        let read = async {
            loop {
                match api.get_opt(key.name()).await {
                    Ok(found) => {
                        let new = Table::parse(&found.and_then(|map| map.data).unwrap_or_default());
                        for (name, fault) in &new.faults {
                            tracing::warn!(table = %key, entry = %name, error = %fault, "entry of the table is not usable");
                        }
                        if replace(&shared, new) {
                            add_all(&all, &queue);
                        }
                        if told.recv().await.is_none() {
                            std::future::pending::<()>().await;
                        }
                    }
                    Err(error) => {
                        tracing::warn!(table = %key, error = %kit::class::chain(&error), "table not read, trying again");
                        tokio::time::sleep(Duration::from_secs(10) + clock.jitter(Duration::from_secs(10))).await;
                    }
                }
            }
        };
        tokio::select! {
            () = lone::follow::<ConfigMap>(client.clone(), clock.clone(), wanted, changed, stop.clone()) => {}
            () = read => {}
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_and_the_last_to_name_a_secret_are_news() {
        let secret = |name: &str| Some(ObjectKey::namespaced("n", name));
        let mut counts = Counts::default();
        assert_eq!([counts.more(secret("a")), counts.more(secret("a")), counts.more(secret("b"))], [true, false, true]);
        assert_eq!(
            [counts.less(secret("a")), counts.less(secret("a")), counts.less(secret("a"))],
            [false, true, false]
        );
        assert!(counts.more(secret("a")) && !counts.more(None) && !counts.less(None));
        assert_eq!(counts.0.len(), 2);
    }
}
