//! HostDeployPolicy: whose claims may take the hosts of a namespace, and what such claims may ask for.
#![allow(clippy::duplicated_attributes, reason = "printer columns repeat their types and priorities")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema;

/// Whom the policy admits, to which hosts, and with what permissions.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "metal3.io",
    version = "v1alpha1",
    kind = "HostDeployPolicy",
    plural = "hostdeploypolicies",
    shortname = "hdp",
    category = "berth",
    namespaced,
    status = "HostDeployPolicyStatus",
    derive = "PartialEq",
    doc = "Opens the hosts of its namespace to the claims of other namespaces; a claim needs one policy that admits it.",
    printcolumn(
        name = "Accepted",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Accepted")].status"#
    ),
    printcolumn(name = "Reason", type_ = "string", json_path = r#".status.conditions[?(@.type=="Accepted")].reason"#),
    printcolumn(name = "Bound", type_ = "integer", json_path = ".status.boundHosts"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "MaxHosts", type_ = "integer", json_path = ".spec.maxHosts", priority = "1"),
    printcolumn(name = "Names", type_ = "string", json_path = ".spec.hostClaimNamespaces.names", priority = "1"),
    printcolumn(
        name = "NameMatches",
        type_ = "string",
        json_path = ".spec.hostClaimNamespaces.nameMatches",
        priority = "1"
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Accepted")].message"#,
        priority = "1"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct HostDeployPolicySpec {
    /// The namespaces whose claims are admitted; absent admits none, empty admits every namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "HostClaimNamespaces::json_schema")]
    pub host_claim_namespaces: Option<HostClaimNamespaces>,

    /// The hosts of the policy's namespace that it opens; absent or empty opens all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::label_selector")]
    pub host_selector: Option<LabelSelector>,

    /// The most hosts one admitted namespace may hold through this policy; absent sets no bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1_000_000))]
    pub max_hosts: Option<i32>,

    /// What an image url must start with, one of these; absent or empty allows every url.
    #[serde(default, rename = "imageURLPrefixes", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(min = 1, max = 1024)), extend("x-kubernetes-list-type" = "atomic"))]
    pub image_url_prefixes: Vec<String>,

    /// Which labels and annotations of hosts tenants get to see.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "MetadataCopy::json_schema")]
    pub metadata_copy: Option<MetadataCopy>,

    /// A regular expression for the label keys that selectors may use; absent allows every key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub selectable_labels: Option<String>,

    /// Whether a claim may detach its host from management.
    #[serde(default, skip_serializing_if = "is_false")]
    pub allows_detaching: bool,

    /// Whether a claim may use a deploy method of the site instead of an image.
    #[serde(default, skip_serializing_if = "is_false")]
    pub allows_custom_deploy: bool,

    /// Whether a claim may choose how disks are cleaned at release.
    #[serde(default, skip_serializing_if = "is_false")]
    pub allows_cleaning_override: bool,

    /// Whether pausing a claim pauses its host, which stops maintenance too.
    #[serde(default, skip_serializing_if = "is_false")]
    pub allows_pause: bool,

    /// Whether a host that a tenant calls unhealthy is taken from everybody, not from that tenant alone.
    #[serde(default, skip_serializing_if = "is_false")]
    pub trusts_tenant_health: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
fn is_false(value: &bool) -> bool {
    !value
}

/// A choice of namespaces; everything that is given must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostClaimNamespaces {
    /// Namespaces by name; given but empty admits none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::namespace_names")]
    pub names: Option<Vec<String>>,

    /// A regular expression without look-around or back references, found anywhere in the name unless ^ and $ bind it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub name_matches: Option<String>,

    /// Labels that the Namespace object must carry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "atomic"))]
    pub has_labels: Vec<NamespaceLabel>,
}

impl HostClaimNamespaces {
    /// Whether a namespace is among them: `matches` says whether its name fits the pattern, `label` what its labels say.
    pub fn admits<'a>(
        &self,
        name: &str,
        matches: impl FnOnce() -> bool,
        label: impl Fn(&str) -> Option<&'a str>,
    ) -> bool {
        let has = |wanted: &NamespaceLabel| {
            let value = wanted.value.as_deref().filter(|value| !value.is_empty());
            label(&wanted.name).is_some_and(|found| value.is_none_or(|value| found == value))
        };
        self.names.as_ref().is_none_or(|names| names.iter().any(|listed| listed == name))
            && (self.name_matches.is_none() || matches())
            && self.has_labels.iter().all(has)
    }
}

/// A label of a Namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NamespaceLabel {
    /// The key of the label.
    #[schemars(length(min = 1, max = 317))]
    pub name: String,

    /// The value it must have; absent or empty only asks that the label is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub value: Option<String>,
}

/// Which labels and annotations of hosts tenants get to see.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MetadataCopy {
    /// A regular expression that the whole key of a label must match; absent shows none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub labels_match: Option<String>,

    /// A regular expression that the whole key of an annotation must match; absent shows none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub annotations_match: Option<String>,
}

/// Whether the policy is in force and what is held through it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostDeployPolicyStatus {
    /// The generation of the spec this status was computed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,

    /// The number of hosts that are held through this policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub bound_hosts: Option<i32>,

    /// State of the policy: Accepted says whether it can be used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

crate::conditioned!(HostDeployPolicyStatus);
