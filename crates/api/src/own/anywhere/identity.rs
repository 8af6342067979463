//! OIDCConfig and AWSIamConfig: who tells a cluster who its users are.
#![allow(clippy::duplicated_attributes, reason = "printer columns repeat their types and priorities")]

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An issuer of tokens that the API server believes.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "anywhere.eks.amazonaws.com",
    version = "v1alpha1",
    kind = "OIDCConfig",
    plural = "oidcconfigs",
    category = "berth",
    namespaced,
    status = "IdentityStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "An issuer of tokens that the API server of a cluster believes.",
    printcolumn(name = "Issuer", type_ = "string", json_path = ".spec.issuerUrl"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Client", type_ = "string", json_path = ".spec.clientId", priority = "1")
)]
#[serde(rename_all = "camelCase")]
pub struct OIDCConfigSpec {
    /// The client that tokens must be for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024))]
    pub client_id: String,

    /// The claim that holds the groups of a user.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub groups_claim: String,

    /// What is put before the name of a group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub groups_prefix: String,

    /// The url of the issuer.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 2048))]
    pub issuer_url: String,

    /// Claims that a token must have, with their values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "atomic"))]
    pub required_claims: Vec<RequiredClaim>,

    /// The claim that holds the name of a user.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub username_claim: String,

    /// What is put before the name of a user.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub username_prefix: String,
}

/// A claim that a token must have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RequiredClaim {
    /// Name of the claim.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub claim: String,

    /// Value of the claim.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024))]
    pub value: String,
}

/// Users and roles of AWS that the API server knows.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "anywhere.eks.amazonaws.com",
    version = "v1alpha1",
    kind = "AWSIamConfig",
    plural = "awsiamconfigs",
    category = "berth",
    namespaced,
    status = "IdentityStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "Users and roles of AWS that a cluster knows; kept and shown only.",
    printcolumn(name = "Region", type_ = "string", json_path = ".spec.awsRegion"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct AWSIamConfigSpec {
    /// The region that is asked.
    #[schemars(length(max = 64))]
    pub aws_region: String,

    /// Where the mapping of users is kept.
    #[schemars(length(max = 16), inner(length(max = 64)), extend("x-kubernetes-list-type" = "atomic"))]
    pub backend_mode: Vec<String>,

    /// Roles and who they are in the cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 512), extend("x-kubernetes-list-type" = "atomic"))]
    pub map_roles: Vec<MappedRole>,

    /// Users and who they are in the cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 512), extend("x-kubernetes-list-type" = "atomic"))]
    pub map_users: Vec<MappedUser>,

    /// The partition of AWS.
    #[serde(default = "aws")]
    #[schemars(length(max = 64))]
    pub partition: String,
}

fn aws() -> String {
    "aws".to_owned()
}

/// A role and who it is in the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MappedRole {
    /// The role.
    #[serde(rename = "roleARN")]
    #[schemars(length(max = 2048))]
    pub role_arn: String,

    /// Who it is.
    #[schemars(length(max = 1024))]
    pub username: String,

    /// Groups it is in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 253)), extend("x-kubernetes-list-type" = "atomic"))]
    pub groups: Vec<String>,
}

/// A user and who it is in the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MappedUser {
    /// The user.
    #[serde(rename = "userARN")]
    #[schemars(length(max = 2048))]
    pub user_arn: String,

    /// Who it is.
    #[schemars(length(max = 1024))]
    pub username: String,

    /// Groups it is in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 253)), extend("x-kubernetes-list-type" = "atomic"))]
    pub groups: Vec<String>,
}

/// Nothing is told of an identity provider; others may have written here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct IdentityStatus {}
