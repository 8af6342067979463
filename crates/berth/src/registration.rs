//! How Cluster API knows Berth's hooks: the ExtensionConfig, who relies on it, and taking it back in the right order.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use anyhow::{Context, bail};
use api::key::ObjectKey;
use api::views::ClusterClass;
use kit::kinds::{Kind, Kinds};
use kube::api::{Api, DeleteParams, DynamicObject, Preconditions};
use kube::runtime::wait::await_condition;
use kube::runtime::wait::conditions::is_deleted;
use kube::{Client, ResourceExt};

use crate::cli::UnregisterOptions;
use crate::screen::{self, Screen};

/// How long a deleted ExtensionConfig may take to go.
const GONE: Duration = Duration::from_secs(60);

/// ExtensionConfigs at whichever version is served; none without Cluster API.
pub async fn configs(client: &Client) -> Result<Option<Api<DynamicObject>>, Box<kube::Error>> {
    let kind = Kind {
        group: "runtime.cluster.x-k8s.io".to_owned(),
        version: String::new(),
        kind: "ExtensionConfig".to_owned(),
        plural: "extensionconfigs".to_owned(),
    };
    let versions = kind.at(&["v1beta2", "v1alpha1"]);
    let served = Kinds::new(client.clone()).first_served(&versions).await?;
    Ok(served.map(|kind| Api::all_with(client.clone(), &kind.resource())))
}

/// Every ClusterClass that Cluster API knows.
pub async fn classes(client: &Client) -> Result<Vec<ClusterClass>, Box<kube::Error>> {
    Ok(crate::look::every(client).await?.unwrap_or_default())
}

/// The classes that name a handler of this ExtensionConfig, each with those handlers.
pub fn referrers(classes: &[ClusterClass], config: &str) -> BTreeMap<ObjectKey, Vec<String>> {
    let mut found = BTreeMap::new();
    for class in classes {
        let external = class.spec.patches.iter().filter_map(|patch| patch.external.as_ref());
        let named = external.flat_map(|e| [&e.generate_patches, &e.validate_topology, &e.discover_variables]).flatten();
        let ours = |handler: &&String| handler.split_once('.').is_some_and(|(_, name)| name == config);
        let handlers: Vec<String> = named.filter(ours).cloned().collect();
        if !handlers.is_empty() {
            found.insert(ObjectKey::of(class), handlers);
        }
    }
    found
}

/// Deletes the ExtensionConfig and waits until it is gone, unless a ClusterClass still relies on it.
pub async fn unregister(options: UnregisterOptions) -> anyhow::Result<()> {
    let agent = concat!("berth-unregister/", env!("CARGO_PKG_VERSION"));
    let client = crate::connect(&options.cluster, agent).await?;
    let screen = Screen::standard_output();
    let say = |end: End| anyhow::Ok(std::io::stdout().write_all(end.words(screen, &options.name).as_bytes())?);
    let Some(configs) = configs(&client).await.context("asking whether Cluster API is there")? else {
        return say(End::NoClusterApi);
    };
    let name = &options.name;
    let Some(config) = configs.get_opt(name).await.with_context(|| format!("reading ExtensionConfig {name}"))? else {
        return say(End::NotThere);
    };
    let classes = classes(&client).await.context("reading ClusterClasses")?;
    let referrers = referrers(&classes, name);
    if !referrers.is_empty() && !options.force {
        bail!("{}", refusal(screen, name, &referrers).trim_end());
    }
    let uid = config.uid();
    let preconditions = Preconditions { uid: uid.clone(), resource_version: None };
    let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
    match configs.delete(name, &params).await {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        Err(error) => return Err(error).with_context(|| format!("deleting ExtensionConfig {name}")),
    }
    let uid = uid.unwrap_or_default();
    let gone = await_condition(configs, name, is_deleted(&uid));
    let Ok(gone) = tokio::time::timeout(GONE, gone).await else {
        bail!("ExtensionConfig {name} is deleted but not gone after {} s", GONE.as_secs());
    };
    gone.with_context(|| format!("waiting until ExtensionConfig {name} is gone"))?;
    say(End::Gone)
}

/// How it ends well.
enum End {
    /// Nobody could have been told of hooks.
    NoClusterApi,
    /// Nobody was.
    NotThere,
    /// They were taken back.
    Gone,
}

impl End {
    fn words(&self, screen: Screen, name: &str) -> String {
        let words = match self {
            Self::NoClusterApi => "Cluster API is not installed; there is nothing to take back".to_owned(),
            Self::NotThere => format!("there is no ExtensionConfig {name}"),
            Self::Gone => format!("ExtensionConfig {name} is gone; Cluster API calls no hook of Berth any more"),
        };
        screen::text(screen, &words)
    }
}

/// Why it is not done, and for whose sake.
fn refusal(screen: Screen, name: &str, referrers: &BTreeMap<ObjectKey, Vec<String>>) -> String {
    let needed = format!(
        "ExtensionConfig {name} is still needed: clusters of these ClusterClasses could not be reconciled without it"
    );
    let classes: Vec<String> = referrers.iter().map(|(key, names)| format!("{key}: {}", names.join(", "))).collect();
    let way = "remove the external patch from them, or repeat with --force";
    format!("{}{}{}", screen::text(screen, &needed), screen::list(screen, &classes), screen::text(screen, way))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screen::tests::at_widths;
    use serde_json::json;

    fn class(name: &str, external: serde_json::Value) -> ClusterClass {
        let patches = json!([{"name": "inline", "definitions": []}, {"name": "vip", "external": external}]);
        let class = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "ClusterClass",
            "metadata": {"name": name, "namespace": "team-a"}, "spec": {"patches": patches}});
        serde_json::from_value(class).unwrap()
    }

    #[test]
    fn a_class_relies_on_the_config_whose_name_ends_its_handlers() {
        let classes = [
            class("new", json!({"generatePatchesExtension": "any-name.vip-allocator"})),
            class("old", json!({"validateExtension": "vip-allocator-validate-topology.vip-allocator"})),
            class("other", json!({"generatePatchesExtension": "vip-allocator-generate-patches.other"})),
            class("longer", json!({"generatePatchesExtension": "x.vip-allocator-2"})),
        ];
        let found: Vec<String> = referrers(&classes, "vip-allocator").keys().map(ToString::to_string).collect();
        assert_eq!(found, ["team-a/new", "team-a/old"]);
        assert!(referrers(&classes, "nobody").is_empty());
    }

    #[test]
    fn what_is_said_when_the_hooks_are_taken_back_and_when_they_are_not() {
        let classes = [
            class(
                "a-class-with-a-name",
                json!({"generatePatchesExtension": "vip-allocator-generate-patches.vip-allocator",
                "validateTopologyExtension": "vip-allocator-validate-topology.vip-allocator"}),
            ),
            class("old", json!({"validateExtension": "vip-allocator-validate-topology.vip-allocator"})),
        ];
        let referrers = referrers(&classes, "vip-allocator");
        insta::assert_snapshot!(at_widths(|screen| {
            let ends = [End::NoClusterApi, End::NotThere, End::Gone].map(|end| end.words(screen, "vip-allocator"));
            format!("{}\n{}", refusal(screen, "vip-allocator", &referrers), ends.join("\n"))
        }));
    }
}
