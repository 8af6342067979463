//! CloudStackDatacenterConfig: where machines may run, and with whose credentials.
#![allow(clippy::duplicated_attributes, reason = "printer columns repeat their types and priorities")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::schema;
use super::shared::Named;
use crate::status::Condition;

/// Where machines may run.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "anywhere.eks.amazonaws.com",
    version = "v1alpha1",
    kind = "CloudStackDatacenterConfig",
    plural = "cloudstackdatacenterconfigs",
    shortname = "csdc",
    category = "berth",
    namespaced,
    status = "CloudStackDatacenterConfigStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "Availability zones of CloudStack that the machines of clusters may run in.",
    printcolumn(name = "Valid", type_ = "boolean", json_path = ".status.specValid"),
    printcolumn(
        name = "Reachable",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="EndpointReachable")].status"#
    ),
    printcolumn(name = "Reason", type_ = "string", json_path = r#".status.conditions[?(@.type=="Valid")].reason"#),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Failure", type_ = "string", json_path = ".status.failureMessage", priority = "1"),
    printcolumn(name = "Validated", type_ = "date", json_path = ".status.lastValidated", priority = "1")
)]
#[serde(rename_all = "camelCase")]
pub struct CloudStackDatacenterConfigSpec {
    /// The zones; at least one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "atomic"))]
    pub availability_zones: Vec<AvailabilityZone>,

    /// The older way to name the domain of all zones; admission stores it with each zone.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024))]
    pub domain: String,

    /// The older way to name the account of all zones; admission stores it with each zone.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub account: String,

    /// The older way to name the API of all zones; admission stores it with each zone.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 2048))]
    pub management_api_endpoint: String,

    /// The older way to list zones; admission stores them as availabilityZones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "atomic"))]
    pub zones: Vec<Zone>,
}

/// A zone of CloudStack, and how it is asked for machines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "!has(self.account) || self.account == '' || (has(self.domain) && self.domain != '')",
        "message": "domain: domain required with account"
    },
    {
        "rule": "self.name.size() <= 63 && self.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",
        "message": "name: must be a lower-case DNS name of at most 63 characters"
    },
    {
        "rule": "self.credentialsRef != ''",
        "message": "credentialsRef: required"
    },
    {
        "rule": "self.managementApiEndpoint.matches('(?i)^https?://[^/?#]')",
        "message": "managementApiEndpoint: not an http(s) URL"
    }
]))]
pub struct AvailabilityZone {
    /// Its name, unique here; machines may be pinned to it and nodes labelled by it.
    #[schemars(length(max = 253))]
    pub name: String,

    /// The Secret with its credentials, in the namespace eksa-system.
    #[schemars(length(max = 253))]
    pub credentials_ref: String,

    /// The zone and its network.
    #[schemars(schema_with = "Zone::json_schema")]
    pub zone: Zone,

    /// The path of the domain without the leading ROOT/; empty for the domain of the credentials.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024))]
    pub domain: String,

    /// The account in the domain.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub account: String,

    /// The url of the API.
    #[schemars(length(max = 2048))]
    pub management_api_endpoint: String,
}

/// A zone and its network, each by id or name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "(has(self.id) && self.id != '') || (has(self.name) && self.name != '')",
        "message": "zone: set id or name"
    },
    {
        "rule": "(has(self.network.id) && self.network.id != '') || (has(self.network.name) && self.network.name != '')",
        "message": "network: set id or name"
    }
]))]
pub struct Zone {
    /// Id of the zone.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub id: String,

    /// Name of the zone.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub name: String,

    /// The network that machines are attached to.
    #[schemars(schema_with = "Named::json_schema")]
    pub network: Named,
}

/// How a datacenter stands.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CloudStackDatacenterConfigStatus {
    /// Whether the last definitive check of observedGeneration passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec_valid: Option<bool>,

    /// What has to be put right.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 4096))]
    pub failure_message: String,

    /// The generation that was checked last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,

    /// When it was checked last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub last_validated: Option<Time>,

    /// What the zones were found to be.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "atomic"))]
    pub availability_zones: Vec<ResolvedZone>,

    /// State of the datacenter: Valid sums up the others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

crate::conditioned!(CloudStackDatacenterConfigStatus);

/// What a zone was found to be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResolvedZone {
    /// Name of the availability zone.
    #[schemars(length(max = 253))]
    pub name: String,

    /// Id of the zone in CloudStack.
    #[serde(default, rename = "zoneID", skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub zone_id: String,

    /// Id of the domain.
    #[serde(default, rename = "domainID", skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub domain_id: String,

    /// Id of the network.
    #[serde(default, rename = "networkID", skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub network_id: String,

    /// Type of the network.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 64))]
    pub network_type: String,
}
