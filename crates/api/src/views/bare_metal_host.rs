//! `BareMetalHost` of Metal3: the machine itself, as its owner sees it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

use super::common::ConditionView;
use super::hardware_data::HardwareDetails;
use super::soft::{or_default, soft, soft_structs, text};
use crate::meta::lean_meta;

/// A machine that can be deployed.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct BareMetalHost {
    /// Metadata without `managedFields`.
    #[serde(default, deserialize_with = "lean_meta")]
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(default, deserialize_with = "or_default")]
    pub spec: BareMetalHostSpec,
    /// What is.
    #[serde(default, deserialize_with = "or_default")]
    pub status: BareMetalHostStatus,
}

crate::view! { BareMetalHost, group: super::METAL3_GROUP, versions: ["v1alpha1"], plural: "baremetalhosts", scope: Namespaced }

/// What is wanted of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BareMetalHostSpec {
    /// Who uses the host; nobody else may.
    #[serde(default, deserialize_with = "soft")]
    pub consumer_ref: Option<HostConsumer>,
    /// Whether the host is to be switched on.
    #[serde(default, deserialize_with = "or_default")]
    pub online: bool,
    /// The image to deploy.
    #[serde(default, deserialize_with = "soft")]
    pub image: Option<ImageView>,
    /// A deploy method instead of an image.
    #[serde(default, deserialize_with = "soft")]
    pub custom_deploy: Option<CustomDeployView>,
    /// The Secret with the user data.
    #[serde(default, deserialize_with = "soft")]
    pub user_data: Option<SecretView>,
    /// The Secret with the network data.
    #[serde(default, deserialize_with = "soft")]
    pub network_data: Option<SecretView>,
    /// The Secret with the metadata.
    #[serde(default, deserialize_with = "soft")]
    pub meta_data: Option<SecretView>,
    /// Whether somebody else deploys the host.
    #[serde(default, deserialize_with = "or_default")]
    pub externally_provisioned: bool,
    /// How disks are cleaned: `metadata`, `disabled`, or a word this list does not know.
    #[serde(default, deserialize_with = "text")]
    pub automated_cleaning_mode: Option<String>,
    /// Whether the host cannot be switched off.
    #[serde(default, deserialize_with = "or_default")]
    pub disable_power_off: bool,
    /// The hardware address the host boots from.
    #[serde(default, rename = "bootMACAddress", deserialize_with = "text")]
    pub boot_mac_address: Option<String>,
}

/// Who uses a host.
///
/// The version is left out: it says how the consumer is read, not who it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(from = "RawConsumer")]
pub struct HostConsumer {
    /// API group, empty for core kinds.
    pub group: String,
    /// Kind.
    pub kind: String,
    /// Namespace, empty for cluster-scoped kinds.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Uid, empty when it is to be filled in.
    pub uid: String,
}

/// An image of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageView {
    /// Where it is.
    #[serde(default, deserialize_with = "or_default")]
    pub url: String,
    /// Its checksum, or where that is.
    #[serde(default, deserialize_with = "text")]
    pub checksum: Option<String>,
    /// How the checksum was made.
    #[serde(default, deserialize_with = "text")]
    pub checksum_type: Option<String>,
    /// Its format.
    #[serde(default, deserialize_with = "text")]
    pub format: Option<String>,
    /// The Secret with the credentials of an oci registry.
    #[serde(default, deserialize_with = "text")]
    pub oci_auth_secret_name: Option<String>,
}

/// A deploy method.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct CustomDeployView {
    /// Its name.
    #[serde(default, deserialize_with = "or_default")]
    pub method: String,
}

/// A Secret by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct SecretView {
    /// Its name.
    #[serde(default, deserialize_with = "or_default")]
    pub name: String,
    /// Its namespace; the host's own when there is none.
    #[serde(default, deserialize_with = "text")]
    pub namespace: Option<String>,
}

/// How a host is doing.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BareMetalHostStatus {
    /// How far the host is and what is deployed on it.
    #[serde(default, deserialize_with = "or_default")]
    pub provisioning: HostProvisioning,
    /// `OK`, `discovered`, `error`, `delayed`, `detached`, `servicing`, or a word this list does not know.
    #[serde(default, deserialize_with = "or_default")]
    pub operational_status: String,
    /// What went wrong, as a class.
    #[serde(default, deserialize_with = "text")]
    pub error_type: Option<String>,
    /// What went wrong, in words that may name what tenants must not see.
    #[serde(default, deserialize_with = "text")]
    pub error_message: Option<String>,
    /// How often in a row it went wrong.
    #[serde(default, deserialize_with = "or_default")]
    pub error_count: i64,
    /// How often deploying failed.
    #[serde(default, deserialize_with = "or_default")]
    pub provisioning_fail_count: i64,
    /// Whether the host is switched on; unknown before it was asked.
    #[serde(default, deserialize_with = "soft")]
    pub powered_on: Option<bool>,
    /// The hardware as inspection found it; newer operators keep it in `HardwareData`.
    #[serde(default, deserialize_with = "soft")]
    pub hardware: Option<HardwareDetails>,
    /// Conditions, which older operators do not set.
    #[serde(default, deserialize_with = "or_default")]
    pub conditions: Vec<ConditionView>,
}

/// How far a host is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HostProvisioning {
    /// The state by its name; empty before the host was looked at.
    #[serde(default, deserialize_with = "or_default")]
    pub state: String,
    /// The image that is deployed; a host without one reports an image without url, which reads as none.
    #[serde(default, deserialize_with = "image")]
    pub image: Option<ImageView>,
    /// The deploy method that was used.
    #[serde(default, deserialize_with = "soft")]
    pub custom_deploy: Option<CustomDeployView>,
}

fn image<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<ImageView>, D::Error> {
    soft(deserializer).map(|image| image.filter(|image: &ImageView| !image.url.is_empty()))
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawConsumer {
    #[serde(default, deserialize_with = "or_default")]
    api_version: String,
    #[serde(default, deserialize_with = "or_default")]
    kind: String,
    #[serde(default, deserialize_with = "or_default")]
    namespace: String,
    #[serde(default, deserialize_with = "or_default")]
    name: String,
    #[serde(default, deserialize_with = "or_default")]
    uid: String,
}

impl From<RawConsumer> for HostConsumer {
    fn from(raw: RawConsumer) -> Self {
        let group = raw.api_version.split_once('/').map(|(group, _)| group.to_owned()).unwrap_or_default();
        Self { group, kind: raw.kind, namespace: raw.namespace, name: raw.name, uid: raw.uid }
    }
}

soft_structs!(
    BareMetalHostSpec,
    BareMetalHostStatus,
    HostConsumer,
    ImageView,
    CustomDeployView,
    SecretView,
    HostProvisioning
);
