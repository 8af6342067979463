//! HostClaimKind: one kind of compute that host claims can ask for, and who serves it.
#![allow(clippy::duplicated_attributes, reason = "printer columns repeat their types and priorities")]

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema;

/// What the kind is and what a claim of it may ask for.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "berth.dev",
    version = "v1alpha1",
    kind = "HostClaimKind",
    plural = "hostclaimkinds",
    shortname = "hck",
    category = "berth",
    status = "HostClaimKindStatus",
    derive = "PartialEq",
    doc = "One kind of compute that host claims can ask for: who serves it, what arguments it takes, what it can do.",
    printcolumn(name = "Controller", type_ = "string", json_path = ".spec.controllerName"),
    printcolumn(
        name = "Available",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Available")].status"#
    ),
    printcolumn(name = "Reason", type_ = "string", json_path = r#".status.conditions[?(@.type=="Available")].reason"#),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Heartbeat", type_ = "date", json_path = ".status.lastHeartbeat", priority = "1"),
    printcolumn(name = "Recyclable", type_ = "boolean", json_path = ".spec.recyclable", priority = "1"),
    printcolumn(name = "Capabilities", type_ = "string", json_path = ".spec.capabilities", priority = "1"),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Available")].message"#,
        priority = "1"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct HostClaimKindSpec {
    /// Name of the controller that serves claims of this kind, as a DNS subdomain; it cannot be changed.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"),
        extend("x-kubernetes-validations" = [{
            "rule": "self == oldSelf",
            "message": "controllerName cannot be changed; create another HostClaimKind"
        }])
    )]
    pub controller_name: String,

    /// The arguments a claim of this kind may carry, by name; a claim with any other argument is refused.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64, "x-kubernetes-validations" = [{
        "rule": "self.all(name, name.size() <= 63 && name.matches('^[A-Za-z][A-Za-z0-9]*$'))",
        "message": "argument names start with a letter, hold letters and digits only, and have at most 63 characters"
    }]))]
    pub args_schema: BTreeMap<String, ArgSchema>,

    /// What machines of this kind can do; a claim that asks for anything else is told so.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    #[schemars(with = "Vec<Capability>", length(max = 11), extend("x-kubernetes-list-type" = "set"))]
    pub capabilities: BTreeSet<Capability>,

    /// Whether a machine of this kind can be given to another claim after its release.
    #[serde(default)]
    pub recyclable: bool,
}

/// What one argument of a claim may be; arguments are always strings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "!(self.required && has(self.default))",
        "message": "an argument that has a default cannot be required"
    },
    {
        "rule": "!has(self.default) || !has(self.enum) || self.enum.size() == 0 || self.default in self.enum",
        "message": "default must be one of the values of enum"
    },
    {
        "rule": "!has(self.default) || self.default.size() <= self.maxLength",
        "message": "default is longer than maxLength"
    }
]))]
pub struct ArgSchema {
    /// Whether a claim must carry the argument.
    #[serde(default)]
    pub required: bool,

    /// What the argument means, for people who write claims.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024))]
    pub description: String,

    /// A regular expression without look-around or back references that the whole value must match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256))]
    pub pattern: Option<String>,

    /// The values allowed; empty allows any.
    #[serde(default, rename = "enum", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 253)), extend("x-kubernetes-list-type" = "set"))]
    pub allowed: Vec<String>,

    /// The greatest length of the value, in characters.
    #[serde(default = "longest_argument")]
    #[schemars(range(min = 1, max = 4096))]
    pub max_length: i32,

    /// The value of the argument when a claim does not carry it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub default: Option<String>,
}

impl Default for ArgSchema {
    fn default() -> Self {
        Self {
            required: false,
            description: String::new(),
            pattern: None,
            allowed: Vec::new(),
            max_length: longest_argument(),
            default: None,
        }
    }
}

/// Claims themselves allow 4096 characters per argument.
fn longest_argument() -> i32 {
    4096
}

/// One thing a kind of compute may be able to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub enum Capability {
    /// Machines can be switched on and off.
    Power,
    /// Machines can be rebooted on request.
    Reboot,
    /// Machines can be detached from management and attached again.
    Detach,
    /// Network data reaches the guest.
    NetworkData,
    /// Metadata reaches the guest.
    MetaData,
    /// User data reaches the guest.
    UserData,
    /// The claim's image URL can be deployed.
    Image,
    /// The host selector chooses among existing machines.
    Selector,
    /// The failure domain is honoured.
    FailureDomain,
    /// A released machine can be kept for the next claim of the same group.
    NodeReuse,
    /// A custom deploy method can be used instead of an image.
    CustomDeploy,
}

impl Capability {
    /// Every capability there is.
    pub const ALL: &'static [Self] = &[
        Self::Power,
        Self::Reboot,
        Self::Detach,
        Self::NetworkData,
        Self::MetaData,
        Self::UserData,
        Self::Image,
        Self::Selector,
        Self::FailureDomain,
        Self::NodeReuse,
        Self::CustomDeploy,
    ];
}

/// Whether the kind is served.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostClaimKindStatus {
    /// The generation of the spec this status was computed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,

    /// When the controller of the kind last reported that it is alive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub last_heartbeat: Option<Time>,

    /// State of the kind: Available says whether claims of it are served.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

crate::conditioned!(HostClaimKindStatus);
