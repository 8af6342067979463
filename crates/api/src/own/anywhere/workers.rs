//! Groups of worker machines.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::schema;
use super::shared::{HealthCheck, Ref, Taint, free_form};

/// A group of equal worker machines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "has(self.machineGroupRef) && has(self.machineGroupRef.kind) && self.machineGroupRef.kind == 'CloudStackMachineConfig' && has(self.machineGroupRef.name) && self.machineGroupRef.name != ''",
        "message": "machineGroupRef: must reference a CloudStackMachineConfig by name"
    },
    {
        "rule": "!has(self.kubernetesVersion) || self.kubernetesVersion == '' || self.kubernetesVersion.matches('^1\\\\.[0-9]{2}$')",
        "message": "kubernetesVersion: quote it, e.g. \"1.30\""
    },
    {
        "rule": "!has(self.failureDomains) || self.failureDomains.size() <= 1",
        "message": "failureDomains: at most one"
    },
    {
        "rule": "!has(self.count) || self.count >= 0",
        "message": "count: must be >= 0"
    }
]))]
pub struct WorkerGroup {
    /// Name of the group; admission stores md-0 for the first one without.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 63))]
    pub name: String,

    /// How many machines; admission stores minCount, or 1, when it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = -1_000_000_000, max = 1_000_000_000))]
    pub count: Option<i32>,

    /// Between which numbers cluster-autoscaler chooses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "Autoscaling::json_schema")]
    pub autoscaling_configuration: Option<Autoscaling>,

    /// The CloudStackMachineConfig of the machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "Ref::json_schema")]
    pub machine_group_ref: Option<Ref>,

    /// Taints of the nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "atomic"))]
    pub taints: Vec<Taint>,

    /// Labels of the nodes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::texts::<64, 253>")]
    pub labels: BTreeMap<String, String>,

    /// How the machines are replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "WorkerRollout::json_schema")]
    pub upgrade_rollout_strategy: Option<WorkerRollout>,

    /// Kubernetes version of the group when it differs from the cluster's: at most two minors behind it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 32))]
    pub kubernetes_version: String,

    /// When a machine of the group counts as unhealthy; each value overrides the cluster's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "HealthCheck::json_schema")]
    pub machine_health_check: Option<HealthCheck>,

    /// Configuration of the kubelet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "free_form")]
    pub kubelet_configuration: Option<Value>,

    /// The availability zone that all machines of the group are in; at most one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(max = 253)), extend("x-kubernetes-list-type" = "atomic"))]
    pub failure_domains: Vec<String>,
}

/// Between which numbers cluster-autoscaler chooses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Autoscaling {
    /// At least so many machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = -1_000_000_000, max = 1_000_000_000))]
    pub min_count: Option<i32>,

    /// At most so many machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = -1_000_000_000, max = 1_000_000_000))]
    pub max_count: Option<i32>,
}

/// How machines of a group are replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkerRollout {
    /// How; RollingUpdate is the only way.
    #[serde(default, rename = "type", skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 63))]
    pub type_: String,

    /// How many machines at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "WorkerRollingUpdate::json_schema")]
    pub rolling_update: Option<WorkerRollingUpdate>,
}

/// How many machines of a group are replaced at once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "self.maxSurge >= 0 && self.maxUnavailable >= 0",
        "message": "maxSurge and maxUnavailable cannot be negative"
    },
    {
        "rule": "self.maxSurge != 0 || self.maxUnavailable != 0",
        "message": "maxSurge and maxUnavailable cannot both be 0"
    }
]))]
pub struct WorkerRollingUpdate {
    /// How many machines there may be more than wanted.
    #[schemars(range(min = -1_000_000_000, max = 1_000_000_000))]
    pub max_surge: i32,

    /// How many machines there may be less than wanted.
    #[schemars(range(min = -1_000_000_000, max = 1_000_000_000))]
    pub max_unavailable: i32,
}
