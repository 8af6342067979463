//! HostClaim: a tenant's wish for one machine, whoever owns the machines and whatever kind they are.
#![allow(clippy::duplicated_attributes, reason = "printer columns repeat their types and priorities")]

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::host_claim_status::HostClaimStatus;
use super::schema;

/// The kind of claims that name none.
pub const BAREMETAL: &str = "baremetal";

/// What machine is wanted and what is to run on it.
#[derive(CustomResource, Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "metal3.io",
    version = "v1alpha1",
    kind = "HostClaim",
    plural = "hostclaims",
    shortname = "hc",
    category = "berth",
    namespaced,
    status = "HostClaimStatus",
    derive = "PartialEq",
    doc = "A wish for one machine: which machines fit, what is to run on it, and which machine was found.",
    printcolumn(name = "Host", type_ = "string", json_path = ".status.bareMetalHost.name"),
    printcolumn(name = "Ready", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].status"#),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Associated")].reason"#
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Kind", type_ = "string", json_path = ".spec.kind", priority = "1"),
    printcolumn(
        name = "Associated",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Associated")].status"#,
        priority = "1"
    ),
    printcolumn(name = "Power", type_ = "boolean", json_path = ".status.poweredOn", priority = "1"),
    printcolumn(name = "State", type_ = "string", json_path = ".status.provisioningState", priority = "1"),
    printcolumn(
        name = "Host Namespace",
        type_ = "string",
        json_path = ".status.bareMetalHost.namespace",
        priority = "1"
    ),
    printcolumn(name = "Resource", type_ = "string", json_path = ".status.resourceID", priority = "1"),
    printcolumn(name = "Failure Domain", type_ = "string", json_path = ".status.failureDomain", priority = "1"),
    printcolumn(name = "Priority", type_ = "integer", json_path = ".spec.priority", priority = "1"),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].message"#,
        priority = "1"
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "has(self.poweredOn) || has(self.online)",
        "message": "poweredOn must be given (or online, its older name)"
    },
    {
        "rule": "!has(self.poweredOn) || !has(self.online) || self.poweredOn == self.online",
        "message": "poweredOn and online are two names of one field and must not differ; give poweredOn alone"
    },
    {
        "rule": "!(has(self.image) && has(self.customDeploy))",
        "message": "image and customDeploy exclude each other; give one of them, or neither to reserve a host only"
    }
]))]
pub struct HostClaimSpec {
    /// Whether the machine is to be switched on; required, unless online is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub powered_on: Option<bool>,

    /// The older name of poweredOn; admission stores it under the new name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub online: Option<bool>,

    /// The kind of compute that is claimed, one of the cluster's HostClaimKinds; it cannot be changed.
    #[serde(default = "baremetal")]
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"),
        extend("x-kubernetes-validations" = [{
            "rule": "self == oldSelf",
            "message": "kind cannot be changed; create another HostClaim"
        }])
    )]
    pub kind: String,

    /// Arguments for the controller of the kind; they cannot be changed once a machine was found.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(
        schema_with = "schema::texts::<64, 4096>",
        extend("x-kubernetes-validations" = [{
            "rule": "self.all(name, name.size() >= 1 && name.size() <= 63)",
            "message": "argument names have 1 to 63 characters"
        }])
    )]
    pub args: BTreeMap<String, String>,

    /// Which machines fit; empty fits every machine.
    #[serde(default, skip_serializing_if = "HostSelector::is_empty")]
    #[schemars(schema_with = "HostSelector::json_schema")]
    pub host_selector: HostSelector,

    /// The image to deploy; without image and customDeploy the host is only reserved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "HostImage::json_schema")]
    pub image: Option<HostImage>,

    /// A deploy method of the site instead of an image; a policy must allow it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "CustomDeploy::json_schema")]
    pub custom_deploy: Option<CustomDeploy>,

    /// The Secret with the user data, in the namespace of the claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "SecretReference::json_schema")]
    pub user_data: Option<SecretReference>,

    /// The Secret with the network data, in the namespace of the claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "SecretReference::json_schema")]
    pub network_data: Option<SecretReference>,

    /// The Secret with the metadata, in the namespace of the claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "SecretReference::json_schema")]
    pub meta_data: Option<SecretReference>,

    /// Who uses the claim, for information.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "ConsumerReference::json_schema")]
    pub consumer_ref: Option<ConsumerReference>,

    /// The failure domain the machine should be in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256))]
    pub failure_domain: Option<String>,

    /// Whether another failure domain may be taken when the wished one has no free machine.
    #[serde(default)]
    pub failure_domain_mode: FailureDomainMode,

    /// The reuse group: after release the machine is kept for the next claim of the same group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub node_reuse: Option<String>,

    /// How disks are cleaned when the machine is released; absent leaves it to the host, and a policy must allow it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "CleaningMode::json_schema")]
    pub automated_cleaning_mode: Option<CleaningMode>,

    /// Claims with a higher priority get a free machine first; quotas set the bounds.
    #[serde(default)]
    #[schemars(range(min = -1_000_000_000, max = 1_000_000_000))]
    pub priority: i32,

    /// What happens when the machine fails before it is provisioned.
    #[serde(default)]
    pub on_host_failure: OnHostFailure,
}

impl HostClaimSpec {
    /// Whether the machine is to be switched on, whichever name of the field is stored.
    #[must_use]
    pub fn wants_power(&self) -> bool {
        self.powered_on.or(self.online).unwrap_or_default()
    }
}

impl Default for HostClaimSpec {
    fn default() -> Self {
        Self {
            powered_on: None,
            online: None,
            kind: baremetal(),
            args: BTreeMap::new(),
            host_selector: HostSelector::default(),
            image: None,
            custom_deploy: None,
            user_data: None,
            network_data: None,
            meta_data: None,
            consumer_ref: None,
            failure_domain: None,
            failure_domain_mode: FailureDomainMode::default(),
            node_reuse: None,
            automated_cleaning_mode: None,
            priority: 0,
            on_host_failure: OnHostFailure::default(),
        }
    }
}

fn baremetal() -> String {
    BAREMETAL.to_owned()
}

/// Which hosts fit a claim; all terms must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostSelector {
    /// Labels and the value each must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::texts::<32, 63>")]
    pub match_labels: BTreeMap<String, String>,

    /// Further terms, all of which must hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "atomic"))]
    pub match_expressions: Vec<HostRequirement>,

    /// The only namespace whose hosts fit; absent or empty allows every namespace that admits the claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub in_namespace: Option<String>,
}

impl HostSelector {
    /// Whether every host fits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// One term on one label.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "!(self.operator in ['=', '==', '!=']) || (has(self.values) && self.values.size() == 1)",
        "message": "=, == and != need exactly one value"
    },
    {
        "rule": "!(self.operator in ['in', 'notin', 'In', 'NotIn']) || (has(self.values) && self.values.size() > 0)",
        "message": "in and notin need at least one value"
    },
    {
        "rule": "!(self.operator in ['exists', '!', 'Exists', 'DoesNotExist']) || !has(self.values) || self.values.size() == 0",
        "message": "exists and ! take no value"
    },
    {
        "rule": "!(self.operator in ['gt', 'lt', 'Gt', 'Lt']) || (has(self.values) && self.values.size() == 1 && self.values[0].matches('^[+-]?[0-9]{1,18}$'))",
        "message": "gt and lt need exactly one value, a whole number"
    }
]))]
pub struct HostRequirement {
    /// The label the term is about.
    #[schemars(length(min = 1, max = 317))]
    pub key: String,

    // Kept as written: admission brings it into one spelling, but may have been absent.
    /// How the label is compared with the values: =, ==, !=, in, notin, exists, !, gt or lt.
    #[schemars(extend("enum" = OPERATORS))]
    pub operator: String,

    /// One value for =, ==, !=, gt and lt, some for in and notin, none for exists and !.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 63)), extend("x-kubernetes-list-type" = "atomic"))]
    pub values: Vec<String>,
}

/// Every spelling of every operator: the stored one of each, then those of label selectors.
pub const OPERATORS: [&str; 15] =
    ["=", "==", "!=", "in", "notin", "exists", "!", "gt", "lt", "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"];

/// An image to deploy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "self.url.matches('^(?i)(https?|oci)://[^/]')",
        "message": "url must be absolute, with the scheme http, https or oci",
        "fieldPath": ".url"
    },
    {
        "rule": "self.url.matches('^(?i)oci://') || (has(self.format) && self.format == 'live-iso') || (has(self.checksum) && self.checksum != '')",
        "message": "checksum must be given, unless the format is live-iso or the scheme of the url is oci"
    },
    {
        "rule": "!self.url.matches('^(?i)oci://') || !has(self.checksum) || self.checksum == ''",
        "message": "checksum must not be given when the scheme of the url is oci, whose names carry their own",
        "fieldPath": ".checksum"
    }
]))]
pub struct HostImage {
    /// Where the image is: an absolute url with the scheme http, https or oci.
    #[schemars(length(min = 1, max = 4096))]
    pub url: String,

    /// The checksum of the image, or the url of a file that holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub checksum: Option<String>,

    /// How the checksum was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::checksum_type")]
    pub checksum_type: Option<String>,

    /// The format of the image; absent lets the deploying side find out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::image_format")]
    pub format: Option<String>,

    /// The Secret with the credentials of an oci registry, in the namespace of the claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub oci_auth_secret_name: Option<String>,
}

impl HostImage {
    /// Whether both deploy the same thing; the credentials to fetch it with may differ.
    #[must_use]
    pub fn deploys_same(&self, other: &Self) -> bool {
        (&self.url, &self.checksum, &self.checksum_type, &self.format)
            == (&other.url, &other.checksum, &other.checksum_type, &other.format)
    }
}

/// A deploy method of the site.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CustomDeploy {
    /// The name of the method.
    #[schemars(length(min = 1, max = 253))]
    pub method: String,
}

/// A Secret by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct SecretReference {
    /// The name of the Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub name: Option<String>,

    /// The namespace of the claim, or nothing; Secrets of other namespaces are never read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub namespace: Option<String>,
}

/// An object that uses the claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct ConsumerReference {
    /// Group and version of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 317))]
    pub api_version: Option<String>,

    /// Kind of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub kind: Option<String>,

    /// Namespace of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub namespace: Option<String>,

    /// Name of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub name: Option<String>,

    /// Uid of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub uid: Option<String>,

    /// Version of the object that is meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub resource_version: Option<String>,

    /// Part of the object that is meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub field_path: Option<String>,
}

/// How much the wish for a failure domain counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum FailureDomainMode {
    /// Another domain is taken when the wished one has no free machine.
    #[default]
    Preferred,
    /// The claim waits for a machine of the wished domain.
    Required,
}

/// How disks are cleaned when a machine is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub enum CleaningMode {
    /// Partition tables and other metadata are removed.
    Metadata,
    /// Nothing is removed.
    Disabled,
}

impl CleaningMode {
    /// The mode as hosts spell it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Metadata => "metadata",
            Self::Disabled => "disabled",
        }
    }
}

/// What happens when the machine fails before it is provisioned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum OnHostFailure {
    /// The claim keeps the machine and waits for its repair.
    #[default]
    Wait,
    /// The machine is released and another one is searched, three times at most.
    Replace,
}
