//! The control plane of a cluster, and etcd apart from it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::schema;
use super::shared::{HealthCheck, Ref, Taint, free_form};

/// The machines of the control plane and how they are reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "has(self.machineGroupRef) && has(self.machineGroupRef.kind) && self.machineGroupRef.kind == 'CloudStackMachineConfig' && has(self.machineGroupRef.name) && self.machineGroupRef.name != ''",
        "message": "machineGroupRef: must reference a CloudStackMachineConfig by name"
    },
    {
        "rule": "has(self.count) && self.count >= 1",
        "message": "count: must be at least 1"
    }
]))]
pub struct ControlPlane {
    /// How many machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = -1_000_000_000, max = 1_000_000_000))]
    pub count: Option<i32>,

    /// How the API server is reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "Endpoint::json_schema")]
    pub endpoint: Option<Endpoint>,

    /// The CloudStackMachineConfig of its machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "Ref::json_schema")]
    pub machine_group_ref: Option<Ref>,

    /// Taints of its nodes; without the list that of kubeadm, with an empty one none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "atomic"))]
    pub taints: Option<Vec<Taint>>,

    /// Labels of its nodes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::texts::<64, 253>")]
    pub labels: BTreeMap<String, String>,

    /// How its machines are replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "ControlPlaneRollout::json_schema")]
    pub upgrade_rollout_strategy: Option<ControlPlaneRollout>,

    /// Further names and addresses that the API server's certificate is for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128), inner(length(max = 253)), extend("x-kubernetes-list-type" = "atomic"))]
    pub cert_sans: Vec<String>,

    /// When one of its machines counts as unhealthy; each value overrides the cluster's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "HealthCheck::json_schema")]
    pub machine_health_check: Option<HealthCheck>,

    /// Whether somebody else brings the endpoint to the machines, so that kube-vip is not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip_load_balancer_deployment: Option<bool>,

    /// Further arguments of the API server.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::texts::<128, 4096>")]
    pub api_server_extra_args: BTreeMap<String, String>,

    /// Configuration of the kubelet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "free_form")]
    pub kubelet_configuration: Option<Value>,

    /// The audit policy, as YAML, instead of the one that is shipped.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 262144))]
    pub audit_policy_content: String,

    /// A setting of another distribution; refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip_admission_for_system_resources: Option<bool>,
}

impl ControlPlane {
    /// How many machines are wanted.
    #[must_use]
    pub fn replicas(&self) -> i32 {
        self.count.unwrap_or_default()
    }
}

/// How the API server is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Endpoint {
    /// Host, or host and port: [addr]:port for an address of IPv6.
    #[schemars(length(max = 300))]
    pub host: String,
}

/// How machines of the control plane are replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlaneRollout {
    /// How; RollingUpdate is the only way.
    #[serde(default, rename = "type", skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 63))]
    pub type_: String,

    /// How many machines at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "ControlPlaneRollingUpdate::json_schema")]
    pub rolling_update: Option<ControlPlaneRollingUpdate>,
}

/// How many machines of the control plane are replaced at once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "self.maxSurge in [0, 1]",
        "message": "maxSurge: must be 0 or 1"
    }
]))]
pub struct ControlPlaneRollingUpdate {
    /// How many machines there may be more than wanted: 0 or 1.
    #[schemars(range(min = -1_000_000_000, max = 1_000_000_000))]
    pub max_surge: i32,
}

/// Machines that run etcd apart from the control plane.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExternalEtcd {
    /// How many machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = -1_000_000_000, max = 1_000_000_000))]
    pub count: Option<i32>,

    /// The CloudStackMachineConfig of its machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "Ref::json_schema")]
    pub machine_group_ref: Option<Ref>,
}
