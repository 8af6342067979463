//! `ExtensionConfig` of Cluster API: how a runtime extension is registered.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde_json::Value;

use super::common::{ConditionView, Conditions, RawDeprecated, RawNewer};
use super::soft::{or_default, soft, soft_structs, text};
use crate::meta::lean_meta;

/// The registration of a runtime extension.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct ExtensionConfig {
    /// Metadata without `managedFields`.
    #[serde(default, deserialize_with = "lean_meta")]
    pub metadata: ObjectMeta,
    /// Where the extension is and whom it serves.
    #[serde(default, deserialize_with = "or_default")]
    pub spec: ExtensionConfigSpec,
    /// What Cluster API discovered.
    #[serde(default, deserialize_with = "or_default")]
    pub status: ExtensionConfigStatus,
}

crate::view! { ExtensionConfig, group: super::RUNTIME_GROUP, versions: ["v1beta2", "v1alpha1"], plural: "extensionconfigs", scope: Cluster }

/// Where an extension is and whom it serves.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(from = "RawSpec")]
pub struct ExtensionConfigSpec {
    /// The address, where it is not a service.
    pub url: Option<String>,
    /// The service, where it is not a plain address.
    pub service: Option<ExtensionService>,
    /// The certificate authority, in base64; often injected after creation.
    pub ca_bundle: Option<String>,
    /// The namespaces it serves, as written; absent means all.
    pub namespace_selector: Option<Value>,
    /// Settings handed to every handler.
    pub settings: BTreeMap<String, String>,
}

/// The service an extension is reached by.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct ExtensionService {
    /// Namespace.
    #[serde(default, deserialize_with = "or_default")]
    pub namespace: String,
    /// Name.
    #[serde(default, deserialize_with = "or_default")]
    pub name: String,
    /// Path below which the hooks are served.
    #[serde(default, deserialize_with = "text")]
    pub path: Option<String>,
    /// Port.
    #[serde(default, deserialize_with = "soft")]
    pub port: Option<i32>,
}

/// What Cluster API discovered about an extension.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(from = "RawStatus")]
pub struct ExtensionConfigStatus {
    /// The handlers the extension named.
    pub handlers: Vec<ExtensionHandler>,
    /// The conditions; `Discovered` tells whether discovery worked.
    pub conditions: Conditions,
}

/// A handler of an extension.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtensionHandler {
    /// Name, as ClusterClasses refer to it.
    pub name: String,
    /// The hook it handles.
    pub hook: String,
    /// Group and version of the hook.
    pub hook_api_version: String,
    /// How long Cluster API waits for it.
    pub timeout_seconds: Option<i32>,
    /// `Ignore` or `Fail`; any other text is kept.
    pub failure_policy: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawSpec {
    #[serde(default, deserialize_with = "or_default")]
    client_config: RawClientConfig,
    #[serde(default, deserialize_with = "soft")]
    namespace_selector: Option<Value>,
    #[serde(default, deserialize_with = "or_default")]
    settings: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawClientConfig {
    #[serde(default, deserialize_with = "text")]
    url: Option<String>,
    #[serde(default, deserialize_with = "soft")]
    service: Option<ExtensionService>,
    #[serde(default, deserialize_with = "text")]
    ca_bundle: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawStatus {
    #[serde(default, deserialize_with = "or_default")]
    handlers: Vec<RawHandler>,
    #[serde(default, deserialize_with = "or_default")]
    conditions: Vec<ConditionView>,
    #[serde(default, deserialize_with = "soft")]
    v1beta2: Option<RawNewer>,
    #[serde(default, deserialize_with = "or_default")]
    deprecated: RawDeprecated,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawHandler {
    #[serde(default, deserialize_with = "or_default")]
    name: String,
    #[serde(default, deserialize_with = "or_default")]
    request_hook: RawHook,
    #[serde(default, deserialize_with = "soft")]
    timeout_seconds: Option<i32>,
    #[serde(default, deserialize_with = "text")]
    failure_policy: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawHook {
    #[serde(default, deserialize_with = "or_default")]
    api_version: String,
    #[serde(default, deserialize_with = "or_default")]
    hook: String,
}

soft_structs!(ExtensionConfigSpec, ExtensionConfigStatus, ExtensionService, RawClientConfig, RawHandler, RawHook);

impl From<RawSpec> for ExtensionConfigSpec {
    fn from(raw: RawSpec) -> Self {
        let client = raw.client_config;
        Self {
            url: client.url,
            service: client.service.filter(|s| !s.name.is_empty()),
            ca_bundle: client.ca_bundle,
            namespace_selector: raw.namespace_selector,
            settings: raw.settings,
        }
    }
}

impl From<RawStatus> for ExtensionConfigStatus {
    fn from(raw: RawStatus) -> Self {
        let handlers = raw.handlers.into_iter().map(|h| ExtensionHandler {
            name: h.name,
            hook: h.request_hook.hook,
            hook_api_version: h.request_hook.api_version,
            timeout_seconds: h.timeout_seconds,
            failure_policy: h.failure_policy,
        });
        Self {
            handlers: handlers.collect(),
            conditions: Conditions::read(
                raw.conditions,
                raw.v1beta2.map(|n| n.conditions),
                raw.deprecated.v1beta1.map(|o| o.conditions),
            ),
        }
    }
}
