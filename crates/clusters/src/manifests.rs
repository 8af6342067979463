//! The ConfigMaps with the manifests of network plugins: which of them clusters use, and how often each has changed.
//!
//! Only those that are used are followed, one by one and by their metadata; what is in one is read when it is needed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::key::ObjectKey;
use api::own::anywhere::{Bundles, CiliumBundle};
use k8s_openapi::api::core::v1::ConfigMap;
use kit::feed::Seen;
use kit::lone;
use kit::manager::{Manager, Stage};
use kit::queue::{Priority, Work};
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use crate::config::Config;
use crate::facts::{ClusterFacts, World};

/// Clusters that come together are thought about together.
const TOGETHER: Duration = Duration::from_secs(1);

/// What stands in a manifest is believed for this long, unless it is seen to change.
const TEXT: Duration = Duration::from_secs(5);

/// What stands in a ConfigMap.
pub(crate) type Text = Arc<BTreeMap<String, String>>;

/// What lately stood in manifests: clusters that come together read it once for all.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    all: Mutex<BTreeMap<ObjectKey, (u64, Text, Instant)>>,
}

impl Texts {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, (u64, Text, Instant)>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What stands in a manifest that has changed so often, if that was read a moment ago.
    pub(crate) fn known(&self, map: &ObjectKey, changes: u64, now: Instant) -> Option<Text> {
        let all = self.lock();
        let (seen, text, at) = all.get(map)?;
        (*seen == changes && now.saturating_duration_since(*at) < TEXT).then(|| Arc::clone(text))
    }

    /// It was read at `now`; what counts no longer is not kept.
    pub(crate) fn keep(&self, map: &ObjectKey, changes: u64, text: Text, now: Instant) {
        let mut all = self.lock();
        all.retain(|_, (_, _, at)| now.saturating_duration_since(*at) < TEXT);
        all.insert(map.clone(), (changes, text, now));
    }
}

/// How often manifests have changed; clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Manifests {
    changes: Arc<Mutex<BTreeMap<ObjectKey, u64>>>,
}

impl Manifests {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, u64>> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How often a manifest was seen to change.
    pub(crate) fn changes(&self, map: &ObjectKey) -> u64 {
        self.lock().get(map).copied().unwrap_or_default()
    }

    fn changed(&self, map: &ObjectKey) {
        let mut all = self.lock();
        let count = all.entry(map.clone()).or_default();
        *count = count.saturating_add(1);
    }

    fn keep(&self, wanted: &BTreeSet<ObjectKey>) {
        self.lock().retain(|map, _| wanted.contains(map));
    }
}

/// The ConfigMap that a bundle names for its plugin. Whoever writes bundles has nothing read for it anywhere else.
pub(crate) fn named(cilium: &CiliumBundle, system: &str) -> Option<ObjectKey> {
    let map = cilium.manifest_config_map_ref.as_ref().filter(|map| !map.name.is_empty())?;
    let there = map.namespace.is_empty() || map.namespace == system;
    there.then(|| ObjectKey::namespaced(system, map.name.as_str()))
}

/// The ConfigMap of the plugin that a bundle has for a version of Kubernetes.
pub(crate) fn of(bundles: &Bundles, version: &str, system: &str) -> Option<ObjectKey> {
    named(bundles.spec.entry(version)?.cilium.as_ref()?, system)
}

/// The ConfigMap that a cluster uses: its bundle is stored before anything follows from it.
fn used(world: &World, config: &Config, cluster: &ClusterFacts) -> Option<ObjectKey> {
    let pin = cluster.status.resolved_bundles.as_ref()?;
    let key = ObjectKey::namespaced(pin.namespace.as_str(), pin.name.as_str());
    let Seen::At(bundles) = world.bundles.get(&key) else { return None };
    of(&bundles, &cluster.object.spec.kubernetes_version, config.system_namespace())
}

/// Follows the manifests that clusters use, and wakes those whose manifest changes.
pub(crate) fn follow(
    manager: &Manager,
    world: &World,
    config: &Arc<Config>,
    manifests: &Manifests,
    work: &Arc<Work<ObjectKey>>,
) {
    let news = Arc::new(Notify::new());
    let tell = Arc::clone(&news);
    world.clusters.observe(move |delta| {
        let choice = |facts: Option<&Arc<ClusterFacts>>| {
            let facts = facts?;
            Some((facts.status.resolved_bundles.clone(), facts.object.spec.kubernetes_version.clone()))
        };
        if choice(delta.old.as_ref()) != choice(delta.new.as_ref()) {
            tell.notify_one();
        }
    });
    let tell = Arc::clone(&news);
    world.bundles.observe(move |_| tell.notify_one());
    let (all, settings, counts) = (world.clone(), Arc::clone(config), manifests.clone());
    let (queue, seen) = (Arc::clone(work), manifests.clone());
    let (names, wanted) = mpsc::unbounded_channel();
    let changed = {
        let (all, settings) = (world.clone(), Arc::clone(config));
        move |map: &ObjectKey| {
            seen.changed(map);
            for (key, cluster) in all.clusters.all() {
                if used(&all, &settings, &cluster).as_ref() == Some(map) {
                    queue.add_now(key, Priority::Background);
                }
            }
        }
    };
    let (client, clock) = (manager.client().clone(), manager.clock().clone());
    manager.spawn(Stage::Watch, "clusters manifests", |stop| async move {
        let choose = async {
            loop {
                news.notified().await;
                let maps = all.clusters.all().into_iter().filter_map(|(_, cluster)| used(&all, &settings, &cluster));
                let maps: BTreeSet<ObjectKey> = maps.collect();
                counts.keep(&maps);
                // The receiver lives as long as this task.
                let _ = names.send(maps.into_iter().collect::<Vec<_>>());
                tokio::time::sleep(TOGETHER).await;
            }
        };
        tokio::select! {
            () = lone::follow::<ConfigMap>(client, clock, wanted, changed, stop) => {}
            () = choose => {}
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_manifest_is_found_by_its_bundle_and_version() {
        let entry = |version: &str, map: serde_json::Value| json!({"kubeVersion": version, "cilium": {"version": "v1", "manifestConfigMapRef": map}});
        let spec = json!({"number": 1, "versionsBundles": [
            entry("1.30", json!({"name": "a"})), entry("1.31", json!({"name": "b", "namespace": "eksa-system"})),
            entry("1.32", json!({})), {"kubeVersion": "1.33"}, entry("1.34", json!({"name": "c", "namespace": "n"})),
        ]});
        let bundles = Bundles { metadata: Default::default(), spec: serde_json::from_value(spec).unwrap() };
        let found = |version: &str| of(&bundles, version, "eksa-system").map(|key| key.to_string());
        assert_eq!(found("1.30").as_deref(), Some("eksa-system/a"));
        assert_eq!(found("1.31").as_deref(), Some("eksa-system/b"));
        assert_eq!([found("1.32"), found("1.33"), found("1.34"), found("1.35")], [None, None, None, None]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_stands_in_a_manifest_is_believed_for_a_moment_and_until_it_changes() {
        let (texts, key) = (Texts::default(), |name: &str| ObjectKey::namespaced("n", name));
        let now = kit::clock::Clock::simulated("2030-01-01T00:00:00Z".parse().unwrap(), 1).instant();
        let text = Text::default();
        texts.keep(&key("a"), 1, Arc::clone(&text), now);
        assert_eq!(texts.known(&key("a"), 1, now + TEXT / 2), Some(text));
        let others = [(key("a"), 2, now), (key("b"), 1, now), (key("a"), 1, now + TEXT)];
        assert!(others.iter().all(|(map, changes, now)| texts.known(map, *changes, *now).is_none()));
        texts.keep(&key("b"), 1, Text::default(), now + TEXT);
        assert_eq!(texts.lock().len(), 1);
    }

    #[test]
    fn changes_are_counted_for_as_long_as_somebody_uses_the_manifest() {
        let (manifests, key) = (Manifests::default(), |name: &str| ObjectKey::namespaced("n", name));
        for name in ["a", "b", "a"] {
            manifests.changed(&key(name));
        }
        manifests.keep(&[key("a")].into());
        assert_eq!([manifests.changes(&key("a")), manifests.changes(&key("b"))], [2, 0]);
    }
}
