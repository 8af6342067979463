//! CloudStackMachineConfig: what the machines of a role are made of.
#![allow(clippy::duplicated_attributes, reason = "printer columns repeat their types and priorities")]

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::schema;
use super::shared::Named;

/// What the machines of a role are made of.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "anywhere.eks.amazonaws.com",
    version = "v1alpha1",
    kind = "CloudStackMachineConfig",
    plural = "cloudstackmachineconfigs",
    shortname = "csmc",
    category = "berth",
    namespaced,
    status = "CloudStackMachineConfigStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "What machines of a cluster are made of: image, size, disk, users and where they may be together.",
    printcolumn(name = "Template", type_ = "string", json_path = ".spec.template.name"),
    printcolumn(name = "Offering", type_ = "string", json_path = ".spec.computeOffering.name"),
    printcolumn(name = "Valid", type_ = "boolean", json_path = ".status.specValid"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Failure", type_ = "string", json_path = ".status.failureMessage", priority = "1")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "(has(self.template.id) && self.template.id != '') || (has(self.template.name) && self.template.name != '')",
        "message": "template: set id or name"
    },
    {
        "rule": "(has(self.computeOffering.id) && self.computeOffering.id != '') || (has(self.computeOffering.name) && self.computeOffering.name != '')",
        "message": "computeOffering: set id or name"
    },
    {
        "rule": "!has(self.affinity) || self.affinity in ['', 'pro', 'anti', 'no']",
        "message": "affinity: must be pro, anti or no"
    },
    {
        "rule": "!has(self.affinity) || !(self.affinity in ['pro', 'anti']) || !has(self.affinityGroupIds) || self.affinityGroupIds.size() == 0",
        "message": "affinity and affinityGroupIds are mutually exclusive"
    },
    {
        "rule": "has(self.users) && self.users.size() > 0",
        "message": "users: at least one user"
    }
]))]
pub struct CloudStackMachineConfigSpec {
    /// The image; its name carries the Kubernetes version.
    #[schemars(schema_with = "Named::json_schema")]
    pub template: Named,

    /// Processors and memory.
    #[schemars(schema_with = "Named::json_schema")]
    pub compute_offering: Named,

    /// One more disk for data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "DiskOffering::json_schema")]
    pub disk_offering: Option<DiskOffering>,

    /// Accounts on the machines, with password-less sudo; at least one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "atomic"))]
    pub users: Vec<User>,

    /// Whether machines of the role share a host: pro, anti or no; no when it is left out.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 16))]
    pub affinity: String,

    /// Affinity groups that exist in CloudStack, instead of affinity.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 253)), extend("x-kubernetes-list-type" = "atomic"))]
    pub affinity_group_ids: Vec<String>,

    /// Further details of the virtual machine.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::texts::<128, 4096>")]
    pub user_custom_details: BTreeMap<String, String>,

    /// Directories that are moved to another place when a machine starts, and where to.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::texts::<64, 1024>")]
    pub symlinks: BTreeMap<String, String>,
}

/// One more disk for data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "!has(self.customSizeInGB) || self.customSizeInGB >= 0",
        "message": "customSizeInGB: must be >= 0"
    },
    {
        "rule": "self.device == '' || self.device.startsWith('/dev/')",
        "message": "device: must be under /dev/"
    }
]))]
pub struct DiskOffering {
    /// Id of the offering.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub id: String,

    /// Name of the offering.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub name: String,

    /// Size, for offerings that leave it open.
    #[serde(default, rename = "customSizeInGB", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = -1_000_000_000, max = 1_000_000_000))]
    pub custom_size_in_gb: Option<i64>,

    /// Where it is mounted.
    #[schemars(length(max = 1024))]
    pub mount_path: String,

    /// The device it appears as.
    #[schemars(length(max = 1024))]
    pub device: String,

    /// The file system that is made on it.
    #[schemars(length(max = 63))]
    pub filesystem: String,

    /// The label of the file system.
    #[schemars(length(max = 63))]
    pub label: String,
}

impl DiskOffering {
    /// Whether nothing is said: old objects carry a disk offering of empty values for none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let texts = [&self.id, &self.name, &self.mount_path, &self.device, &self.filesystem, &self.label];
        texts.iter().all(|text| text.is_empty()) && self.size() == 0
    }

    /// The size that is asked for, 0 for none.
    #[must_use]
    pub fn size(&self) -> i64 {
        self.custom_size_in_gb.unwrap_or_default()
    }
}

impl CloudStackMachineConfigSpec {
    /// The disk offering, if one is meant.
    #[must_use]
    pub fn disk(&self) -> Option<&DiskOffering> {
        self.disk_offering.as_ref().filter(|disk| !disk.is_empty())
    }
}

/// An account on the machines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct User {
    /// Name of the account.
    #[schemars(length(max = 32))]
    pub name: String,

    /// Keys it may log in with.
    #[schemars(length(max = 64), inner(length(max = 16384)), extend("x-kubernetes-list-type" = "atomic"))]
    pub ssh_authorized_keys: Vec<String>,
}

/// How a machine configuration stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CloudStackMachineConfigStatus {
    /// Whether it can be used by every cluster that refers to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec_valid: Option<bool>,

    /// What has to be put right, after the namespace and name of the cluster that found it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 4096))]
    pub failure_message: String,

    /// The generation that was checked last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,
}
