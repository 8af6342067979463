//! What the host controller reads and writes of a BareMetalHost.

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{GROUP, VERSION};

/// A host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Host {
    /// Name, labels, annotations, finalizers.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What admins and consumers ask for.
    #[serde(default)]
    pub spec: Spec,
    /// What the host controller reports; absent until it has seen the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
}

/// What is asked of a host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Spec {
    /// Whether power should be on.
    pub online: bool,
    /// Access to the management controller; a host without it cannot be managed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bmc: Option<Value>,
    /// The network card it boots from.
    #[serde(rename = "bootMACAddress", skip_serializing_if = "Option::is_none")]
    pub boot_mac: Option<String>,
    /// Who uses it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consumer_ref: Option<Consumer>,
    /// What is to be on its disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<Image>,
    /// Another way to get there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custom_deploy: Option<CustomDeploy>,
    /// Secret with the user data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_data: Option<SecretRef>,
    /// Secret with the network data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_data: Option<SecretRef>,
    /// Secret with the meta data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meta_data: Option<SecretRef>,
    /// Whether disks are wiped: `metadata` or `disabled`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub automated_cleaning_mode: Option<String>,
    /// Somebody else put the system on it.
    pub externally_provisioned: bool,
    /// Power may never be cut.
    pub disable_power_off: bool,
    /// How it is inspected; `disabled` for not at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inspection_mode: Option<String>,
}

/// Who uses a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Consumer {
    /// Group and version.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// Kind.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Namespace; the tenant.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Which of several of this name; may be empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

/// An image.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Image {
    /// Where it is; empty for none, as the operator writes it.
    pub url: String,
    /// Its checksum, or where that is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checksum: Option<String>,
    /// How the checksum was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checksum_type: Option<String>,
    /// Its format.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    /// Secret to pull it with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oci_auth_secret_name: Option<String>,
}

/// Another way to deploy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CustomDeploy {
    /// Its name.
    pub method: String,
}

/// A named secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SecretRef {
    /// Its name.
    pub name: String,
    /// Its namespace; empty for the host's own.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
}

/// What is reported of a host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// In words and reasons.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// `OK`, `discovered`, `error`, `delayed`, `detached` or `servicing`.
    pub operational_status: String,
    /// Class of the error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_type: Option<String>,
    /// The error in words; empty for none.
    pub error_message: String,
    /// Failures in a row.
    pub error_count: i64,
    /// Failed deployments in a row.
    pub provisioning_fail_count: i64,
    /// Observed power.
    pub powered_on: bool,
    /// Where it stands.
    pub provisioning: Provisioning,
    /// What inspection found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hardware: Option<Value>,
    /// When the status was last written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<String>,
    /// When each operation began and ended.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub operation_history: BTreeMap<String, Span>,
}

/// Where a host stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Provisioning {
    /// The provisioner's own name for it.
    #[serde(rename = "ID")]
    pub id: String,
    /// See [`super::state`].
    pub state: String,
    /// How it boots.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot_mode: Option<String>,
    /// What is on the disk.
    pub image: Image,
    /// How it got there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custom_deploy: Option<CustomDeploy>,
}

/// Beginning and end of an operation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Span {
    /// When it began.
    pub start: Option<String>,
    /// When it ended.
    pub end: Option<String>,
}

/// A condition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// Which one.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Why, for programs.
    pub reason: String,
    /// Why, for people.
    pub message: String,
    /// Since when.
    pub last_transition_time: String,
}

impl Resource for Host {
    type DynamicType = ();
    type Scope = kube::core::NamespaceResourceScope;

    fn kind(_: &()) -> Cow<'_, str> {
        "BareMetalHost".into()
    }

    fn group(_: &()) -> Cow<'_, str> {
        GROUP.into()
    }

    fn version(_: &()) -> Cow<'_, str> {
        VERSION.into()
    }

    fn plural(_: &()) -> Cow<'_, str> {
        "baremetalhosts".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl Host {
    /// The value of an annotation.
    #[must_use]
    pub fn note(&self, key: &str) -> Option<&str> {
        self.metadata.annotations.as_ref()?.get(key).map(String::as_str)
    }

    /// Whether it is being deleted.
    #[must_use]
    pub fn deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// Whether it is held by this finalizer.
    #[must_use]
    pub fn held_by(&self, finalizer: &str) -> bool {
        self.metadata.finalizers.iter().flatten().any(|held| held == finalizer)
    }

    /// Its state; empty before anybody looked at it.
    #[must_use]
    pub fn state(&self) -> &str {
        self.status.as_ref().map_or("", |status| &status.provisioning.state)
    }

    /// The revision this was read at.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.metadata.resource_version.as_deref().and_then(|text| text.parse().ok()).unwrap_or_default()
    }

    /// Its image, unless that is empty.
    #[must_use]
    pub fn image(&self) -> Option<&Image> {
        self.spec.image.as_ref().filter(|image| !image.url.is_empty())
    }

    /// Its way to deploy, unless that is empty.
    #[must_use]
    pub fn custom_deploy(&self) -> Option<&CustomDeploy> {
        self.spec.custom_deploy.as_ref().filter(|deploy| !deploy.method.is_empty())
    }
}
