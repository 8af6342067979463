//! What is seen inside of a cluster.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::key::ObjectKey;
use api::own::anywhere::CiliumBundle;
use k8s_openapi::api::core::v1::ConfigMap;
use kit::doors::Closed;
use kube::{Api, Client};
use serde_json::Value;

use crate::acs::Clouds;
use crate::cni::{self, Next, Wanted};
use crate::inside;
use crate::manifest::{self, Overlay, SETTINGS};
use crate::manifests::{self, Text};
use crate::room::{Error, Keeper, read};
use crate::snapshot::{Inside, Objects, Plugin, Snapshot};

const MANIFEST: &str = "manifest.yaml";
const CHECK: &str = "preflight.yaml";

fn uri(image: Option<&api::own::anywhere::Image>) -> Option<&str> {
    image.map(|image| image.uri.as_str()).filter(|uri| !uri.is_empty())
}

impl<C: Clouds> Keeper<C> {
    /// How the network plugin of a cluster stands, and what would be applied.
    pub(super) async fn look_inside(&self, s: &Snapshot) -> Result<Inside, Error> {
        // A plugin that was as it should be a moment ago is not looked at again for each group of objects.
        let inputs = self.seen_by(s);
        if let Some(version) = self.memories.plugin(&s.key, &inputs, self.clock.instant()) {
            return Ok(Inside::Seen(Box::new(Plugin {
                next: Next::Nothing,
                check_left: false,
                check_old: false,
                installed: true,
                version,
                objects: Objects::default(),
                check: Objects::default(),
            })));
        }
        let seen = self.look_at_plugin(s).await?;
        if let Inside::Seen(plugin) = &seen
            && plugin.next == Next::Nothing
            && !plugin.check_left
        {
            self.memories.has_plugin(&s.key, inputs, plugin.version.clone(), self.clock.instant());
        }
        Ok(seen)
    }

    /// What a look at the plugin depends on beside the plugin itself: everything users wrote, the manifest, and who the
    /// cluster is.
    fn seen_by(&self, s: &Snapshot) -> String {
        let (system, version) = (self.config.system_namespace(), &s.cluster.object.spec.kubernetes_version);
        let map = s.bundles.as_ref().ok().and_then(|bundles| manifests::of(bundles, version, system));
        let changes = map.map(|map| self.manifests.changes(&map)).unwrap_or_default();
        let kubeconfig = self.world.secret_version(system, &format!("{}-kubeconfig", s.key.name()));
        format!("{} {changes} {}", s.hash, kubeconfig.as_deref().unwrap_or("-"))
    }

    async fn look_at_plugin(&self, s: &Snapshot) -> Result<Inside, Error> {
        let bundle = match self.bundle(s).await? {
            Ok(bundle) => bundle,
            Err(why) => return Ok(Inside::Unusable(why)),
        };
        let client = match self.entered(s).await? {
            Ok(client) => client,
            Err(Closed::NoKubeconfig) => return Ok(Inside::NoKubeconfig),
            Err(Closed::Unusable(why)) => return Ok(Inside::Unreachable(why)),
        };
        let known = self.known_images();
        // The check comes with an upgrade: beside a plugin that was installed just now, for the first time, there is none.
        let check = (!self.memories.take_installed(&s.key)).then_some(bundle.check.as_slice());
        let mut sight = match inside::look(&client, check, &known).await {
            Ok(sight) => sight,
            Err(error) => {
                // Its kubeconfig may be another one by now.
                self.clients.forget(&s.key);
                return Ok(Inside::Unreachable(kit::class::chain(&error)));
            }
        };
        if let Some(seen) = &mut sight.seen {
            // Settings that nobody chose here are not ours to judge; one that was and is taken back is.
            let chosen = |key: &str| bundle.wanted.settings.iter().any(|(wanted, _)| wanted == key);
            seen.settings.retain(|(key, _)| chosen(key) || sight.applied.contains(key));
        }
        let next = cni::next(sight.seen.as_ref(), &bundle.wanted);
        let from = match &next {
            Next::Upgrade { from: Some(minor) } => bundle.from.get(minor),
            _ => None,
        };
        let objects = from.unwrap_or(&bundle.manifest);
        Ok(Inside::Seen(Box::new(Plugin {
            next,
            check_left: sight.check,
            check_old: sight.old_check,
            installed: sight.seen.is_some(),
            version: bundle.version.clone(),
            objects: Objects(Arc::clone(objects)),
            check: Objects(Arc::clone(&bundle.check)),
        })))
    }

    /// The way into the cluster. A kubeconfig that the index shows just as it was read is not read again.
    async fn entered(&self, s: &Snapshot) -> Result<Result<Client, Closed>, Error> {
        let (namespace, name) = (self.config.system_namespace(), format!("{}-kubeconfig", s.key.name()));
        let shown = self.world.secret_version(namespace, &name);
        if let Some(client) = shown.and_then(|version| self.clients.at(&s.key, &version)) {
            return Ok(Ok(client));
        }
        let entered = self.clients.enter(self.writer.client(), &s.key, namespace).await;
        entered.map_err(read(|| format!("Secret {namespace}/{name}")))
    }

    /// Every image of the plugin that any bundle knows.
    fn known_images(&self) -> Vec<String> {
        let mut all = Vec::new();
        for (_, bundles) in self.world.bundles.all() {
            let cilium = bundles.spec.versions_bundles.iter().filter_map(|entry| entry.cilium.as_ref());
            all.extend(cilium.filter_map(|cilium| uri(cilium.image.as_ref())).map(str::to_owned));
        }
        all.sort();
        all.dedup();
        all
    }

    /// The plugin that the bundle of a cluster has for its version.
    async fn bundle(&self, s: &Snapshot) -> Result<Result<Bundle, String>, Error> {
        let spec = &s.cluster.object.spec;
        let entry = s.bundles.as_ref().ok().and_then(|bundles| bundles.spec.entry(&spec.kubernetes_version));
        let Some(cilium) = entry.and_then(|entry| entry.cilium.as_ref()) else {
            let told = format!("unsupported CNI: the bundle has no Cilium for Kubernetes {}", spec.kubernetes_version);
            return Ok(Err(told));
        };
        let Some(map) = manifests::named(cilium, self.config.system_namespace()) else {
            let told = format!("the bundle names no manifest of Cilium in {}", self.config.system_namespace());
            return Ok(Err(told));
        };
        let Some(data) = self.text(&map).await? else {
            return Ok(Err(format!("ConfigMap {map} not found")));
        };
        let overlay = Overlay::of(spec, &self.config.settings.core_registry);
        let told = |why: String| format!("ConfigMap {map}: {why}");
        Ok(Bundle::of(cilium, &data, &overlay, s.cluster.had_cni()).map_err(told))
    }

    /// What stands in a manifest.
    async fn text(&self, map: &ObjectKey) -> Result<Option<Text>, Error> {
        let (changes, now) = (self.manifests.changes(map), self.clock.instant());
        if let Some(text) = self.texts.known(map, changes, now) {
            return Ok(Some(text));
        }
        let namespace = map.namespace().unwrap_or_default();
        let maps: Api<ConfigMap> = Api::namespaced(self.writer.client().clone(), namespace);
        let found = maps.get_opt(map.name()).await.map_err(read(|| format!("ConfigMap {map}")))?;
        let text = found.and_then(|map| map.data).map(Text::new);
        if let Some(text) = &text {
            self.texts.keep(map, changes, Arc::clone(text), now);
        }
        Ok(text)
    }
}

/// The plugin as a cluster is to have it.
struct Bundle {
    version: String,
    wanted: Wanted,
    manifest: Arc<Vec<Value>>,
    /// Manifests for an upgrade from a minor version.
    from: BTreeMap<String, Arc<Vec<Value>>>,
    check: Arc<Vec<Value>>,
}

impl Bundle {
    fn of(
        cilium: &CiliumBundle,
        data: &BTreeMap<String, String>,
        overlay: &Overlay<'_>,
        installed_once: bool,
    ) -> Result<Self, String> {
        let lacks = |what: &str| format!("the bundle names no {what} of Cilium");
        let image = overlay.image(uri(cilium.image.as_ref()).ok_or_else(|| lacks("image"))?);
        let operator = overlay.image(uri(cilium.operator_image.as_ref()).ok_or_else(|| lacks("operator image"))?);
        let objects = |key: &str, text: &str| -> Result<Vec<Value>, String> {
            let read = manifest::read(key, text).map_err(|error| error.to_string())?;
            Ok(manifest::overlay(read, overlay))
        };
        let text = data.get(MANIFEST).ok_or_else(|| format!("key {MANIFEST} missing"))?;
        let whole = objects(MANIFEST, text)?;
        manifest::fits(MANIFEST, &whole, &image, &operator).map_err(|error| error.to_string())?;
        let check = data.get(CHECK).map(|text| manifest::read(CHECK, text)).transpose();
        let check = check.map_err(|error| error.to_string())?.unwrap_or_default();
        let check = manifest::overlay(check, &Overlay { cilium: overlay.cilium, ..*overlay });
        let check = check.into_iter().filter(|object| manifest::word(object, "/kind") != "NetworkPolicy").collect();
        let mut from = BTreeMap::new();
        for (key, text) in data {
            let minor = key.strip_prefix("manifest-from-").and_then(|rest| rest.strip_suffix(".yaml"));
            if let Some(minor) = minor {
                let read = objects(key, text)?;
                manifest::fits(key, &read, &image, &operator).map_err(|error| error.to_string())?;
                from.insert(minor.to_owned(), Arc::new(read));
            }
        }
        let settings = manifest::find(&whole, "ConfigMap", SETTINGS).map(manifest::settings).unwrap_or_default();
        Ok(Self {
            version: cilium.version.clone(),
            wanted: Wanted {
                image,
                operator,
                settings,
                skip_upgrade: overlay.cilium.skip_upgrade == Some(true),
                installed_once,
            },
            manifest: Arc::new(whole),
            from,
            check: Arc::new(check),
        })
    }
}
