//! Whether Cluster API asks the hooks about a cluster.

use std::collections::BTreeMap;

use api::views::ExtensionConfig;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{Selector, SelectorExt};

/// Whether Cluster API asks before it renders a cluster of a namespace.
#[derive(Clone, Debug, PartialEq)]
pub enum Call<'a> {
    /// It does, because of this registration.
    Made(&'a ExtensionConfig),
    /// It does not, for this reason.
    Missing(String),
}

/// Finds the registration through which a namespace's clusters are asked about.
#[must_use]
pub fn find<'a>(
    extensions: &'a [ExtensionConfig],
    extension_name: &str,
    namespace: &str,
    labels: &BTreeMap<String, String>,
) -> Call<'a> {
    let handler = format!("{extension_name}-before-create");
    let ours = |config: &&ExtensionConfig| {
        let names = |name: &str| name.split('.').next() == Some(handler.as_str());
        config.status.handlers.iter().any(|h| h.hook == "BeforeClusterCreate" && names(&h.name))
    };
    let mut why = None;
    for config in extensions.iter().filter(ours) {
        let name = config.metadata.name.as_deref().unwrap_or_default();
        match selects(config, namespace, labels) {
            Ok(true) => return Call::Made(config),
            Ok(false) => why = Some(format!("the namespaceSelector of ExtensionConfig {name} leaves {namespace} out")),
            Err(error) => why = Some(format!("the namespaceSelector of ExtensionConfig {name}: {error}")),
        }
    }
    Call::Missing(why.or_else(|| undiscovered(extensions)).unwrap_or_else(|| {
        format!("no ExtensionConfig registers {handler}, so Cluster API renders clusters without asking for an address")
    }))
}

/// A registration that Cluster API could not use may be the one that is looked for.
fn undiscovered(extensions: &[ExtensionConfig]) -> Option<String> {
    extensions.iter().find_map(|config| {
        let discovered = config.status.conditions.get("Discovered")?;
        let name = config.metadata.name.as_deref().unwrap_or_default();
        (discovered.status != "True")
            .then(|| format!("Cluster API could not discover ExtensionConfig {name}: {}", discovered.message))
    })
}

fn selects(config: &ExtensionConfig, namespace: &str, labels: &BTreeMap<String, String>) -> Result<bool, String> {
    let Some(selector) = &config.spec.namespace_selector else { return Ok(true) };
    let selector: LabelSelector = serde_json::from_value(selector.clone()).map_err(|e| e.to_string())?;
    let selector: Selector = selector.try_into().map_err(|e: kube::core::ParseExpressionError| e.to_string())?;
    // Every namespace has this label, also where labels cannot be read.
    let mut labels = labels.clone();
    labels.entry("kubernetes.io/metadata.name".to_owned()).or_insert_with(|| namespace.to_owned());
    Ok(selector.matches(&labels))
}
