//! HostClaimQuota: how many hosts tenants may hold, and how urgent their claims may be.
#![allow(clippy::duplicated_attributes, reason = "printer columns repeat their types and priorities")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema;

/// Whom the quota binds, what it counts and how much it allows.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "berth.dev",
    version = "v1alpha1",
    kind = "HostClaimQuota",
    plural = "hostclaimquotas",
    shortname = "hcq",
    category = "berth",
    status = "HostClaimQuotaStatus",
    derive = "PartialEq",
    doc = "A limit on the hosts that the claims of some namespaces may hold; every quota that matches a claim must allow it.",
    printcolumn(name = "Used", type_ = "integer", json_path = ".status.used.hosts"),
    printcolumn(name = "Hard", type_ = "integer", json_path = ".spec.hard.hosts"),
    printcolumn(name = "Shared", type_ = "boolean", json_path = ".spec.shared"),
    printcolumn(name = "Ready", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].status"#),
    printcolumn(name = "Reason", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].reason"#),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "MaxPriority", type_ = "integer", json_path = ".spec.maxPriority", priority = "1"),
    printcolumn(name = "Tenants", type_ = "integer", json_path = ".status.used.tenants", priority = "1"),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].message"#,
        priority = "1"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct HostClaimQuotaSpec {
    /// The namespaces whose claims the quota binds.
    pub tenants: QuotaTenants,

    /// The hosts the quota counts; absent or empty counts every host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::label_selector")]
    pub host_selector: Option<LabelSelector>,

    /// The namespaces of the hosts the quota counts; absent or empty counts hosts of every namespace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 64),
        inner(length(min = 1, max = 63), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub infra_namespaces: Vec<String>,

    /// How much the quota allows.
    pub hard: QuotaLimits,

    /// The greatest priority a claim of these tenants may have; absent sets no bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = -1_000_000_000, max = 1_000_000_000))]
    pub max_priority: Option<i32>,

    /// True: the tenants share one allowance; false: each namespace has its own.
    #[serde(default)]
    pub shared: bool,
}

/// A choice of namespaces: those named and those selected.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "(has(self.names) && self.names.size() > 0) || has(self.namespaceSelector)",
    "message": "at least one of names and namespaceSelector must be given"
}]))]
pub struct QuotaTenants {
    /// Namespaces by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 256),
        inner(length(min = 1, max = 63), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub names: Vec<String>,

    /// Namespaces by label; an empty selector takes every namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::label_selector")]
    pub namespace_selector: Option<LabelSelector>,
}

/// Upper bounds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuotaLimits {
    /// The number of hosts that may be held at one time.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub hosts: i32,
}

/// What the tenants hold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostClaimQuotaStatus {
    /// The generation of the spec this status was computed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,

    /// How much of the quota is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "QuotaUse::json_schema")]
    pub used: Option<QuotaUse>,

    /// State of the quota: Ready says whether it is in force and kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

/// Hosts held, in total and by namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuotaUse {
    /// Hosts held by all tenants together, reservations for reuse included.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub hosts: i32,

    /// Number of namespaces that hold at least one host.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub tenants: i32,

    /// Hosts by namespace; of more than 256 namespaces those that hold most are listed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 256),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["namespace"])
    )]
    pub namespaces: Vec<NamespaceUse>,
}

/// Hosts held by the claims of one namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NamespaceUse {
    /// The namespace.
    #[schemars(length(min = 1, max = 63))]
    pub namespace: String,

    /// Hosts its claims hold, reservations for reuse included.
    #[schemars(range(min = 0))]
    pub hosts: i32,
}

crate::conditioned!(HostClaimQuotaStatus);
