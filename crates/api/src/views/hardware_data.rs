//! `HardwareData` of Metal3: what inspection found in a host, in an object of the same name.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

use super::soft::{or_default, soft, soft_structs, text};
use crate::meta::lean_meta;

/// The hardware of the host of the same name.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct HardwareData {
    /// Metadata without `managedFields`.
    #[serde(default, deserialize_with = "lean_meta")]
    pub metadata: ObjectMeta,
    /// The hardware.
    #[serde(default, deserialize_with = "or_default")]
    pub spec: HardwareDataSpec,
}

crate::view! { HardwareData, group: super::METAL3_GROUP, versions: ["v1alpha1"], plural: "hardwaredata", scope: Namespaced }

/// What an object of hardware data holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct HardwareDataSpec {
    /// The hardware; absent before the first inspection.
    #[serde(default, deserialize_with = "soft")]
    pub hardware: Option<HardwareDetails>,
}

/// The hardware of a host, as far as decisions and tenants need it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HardwareDetails {
    /// The name the host had when it was inspected.
    #[serde(default, deserialize_with = "text")]
    pub hostname: Option<String>,
    /// Main memory.
    #[serde(default, deserialize_with = "or_default")]
    pub ram_mebibytes: i64,
    /// Processors.
    #[serde(default, deserialize_with = "or_default")]
    pub cpu: CpuView,
    /// Network interfaces, in the order of inspection.
    #[serde(default, deserialize_with = "or_default")]
    pub nics: Vec<NicView>,
    /// Disks, the one to deploy on first.
    #[serde(default, deserialize_with = "or_default")]
    pub storage: Vec<StorageView>,
}

/// A disk of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StorageView {
    /// Its size.
    #[serde(default, deserialize_with = "or_default")]
    pub size_bytes: i64,
}

/// The processors of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct CpuView {
    /// Their architecture, as `x86_64`.
    #[serde(default, deserialize_with = "text")]
    pub arch: Option<String>,
    /// The number of threads.
    #[serde(default, deserialize_with = "or_default")]
    pub count: i64,
}

/// A network interface of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct NicView {
    /// Its name.
    #[serde(default, deserialize_with = "text")]
    pub name: Option<String>,
    /// Its hardware address.
    #[serde(default, deserialize_with = "text")]
    pub mac: Option<String>,
    /// The address it had when the host was inspected.
    #[serde(default, deserialize_with = "text")]
    pub ip: Option<String>,
}

soft_structs!(HardwareDataSpec, HardwareDetails, CpuView, NicView, StorageView);
