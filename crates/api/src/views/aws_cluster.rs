//! `AWSCluster` of the Cluster API provider for AWS, as far as machines depend on it.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

use super::aws_provider::{AwsIdentityRef, AwsPlaceSpec, INFRASTRUCTURE_GROUP};
use super::soft::{or_default, soft, soft_structs, text};
use crate::meta::lean_meta;
use crate::names::hosts::EXTERNALLY_MANAGED_ANNOTATION;

/// The network of a cluster on EC2.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct AWSCluster {
    /// Metadata without `managedFields`.
    #[serde(default, deserialize_with = "lean_meta")]
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(default, deserialize_with = "or_default")]
    pub spec: AwsClusterSpec,
    /// What is there.
    #[serde(default, deserialize_with = "or_default")]
    pub status: AwsClusterStatus,
}

crate::view! { AWSCluster, group: INFRASTRUCTURE_GROUP, versions: ["v1beta2", "v1beta1"], plural: "awsclusters", scope: Namespaced }

impl AWSCluster {
    /// Whether somebody else keeps the network; machines then use only what they name themselves.
    pub fn is_externally_managed(&self) -> bool {
        let annotations = self.metadata.annotations.as_ref();
        annotations.is_some_and(|annotations| annotations.contains_key(EXTERNALLY_MANAGED_ANNOTATION))
    }
}

/// What is wanted of the network of a cluster on EC2.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "RawClusterSpec")]
pub struct AwsClusterSpec {
    /// The region.
    pub region: Option<String>,
    /// The partition, such as `aws-us-gov`.
    pub partition: Option<String>,
    /// The identity by which the provider acts.
    pub identity_ref: Option<AwsIdentityRef>,
    /// The SSH key of machines that name none; empty means none.
    pub ssh_key_name: Option<String>,
    /// Tags of everything that belongs to the cluster.
    pub additional_tags: BTreeMap<String, String>,
    /// The name of the image to look for.
    pub image_lookup_format: Option<String>,
    /// The owner of the image to look for.
    pub image_lookup_org: Option<String>,
    /// The operating system of the image to look for.
    pub image_lookup_base_os: Option<String>,
    /// The virtual private cloud.
    pub vpc_id: Option<String>,
    /// The subnets, in the order they are listed.
    pub subnets: Vec<AwsSubnet>,
    /// Security groups to use instead of the provider's, by role.
    pub security_group_overrides: BTreeMap<String, String>,
}

impl AwsClusterSpec {
    /// Where the cluster is, and whose account it is in.
    pub fn place(&self) -> AwsPlaceSpec {
        AwsPlaceSpec { region: self.region.clone(), identity_ref: self.identity_ref.clone() }
    }
}

/// A subnet of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AwsSubnet {
    /// The id, or a name of the user's while the provider makes the subnet.
    #[serde(default, deserialize_with = "or_default")]
    pub id: String,
    /// The id, where `id` is a name.
    #[serde(default, rename = "resourceID", deserialize_with = "text")]
    pub resource_id: Option<String>,
    /// The zone.
    #[serde(default, deserialize_with = "text")]
    pub availability_zone: Option<String>,
    /// Whether it has a route to the internet.
    #[serde(default, deserialize_with = "or_default")]
    pub is_public: bool,
    /// Whether it has IPv6 addresses.
    #[serde(default, deserialize_with = "or_default")]
    pub is_ipv6: bool,
    /// The type of the zone, where it is not an availability zone.
    #[serde(default, deserialize_with = "text")]
    pub zone_type: Option<String>,
    /// Its tags.
    #[serde(default, deserialize_with = "or_default")]
    pub tags: BTreeMap<String, String>,
}

impl AwsSubnet {
    /// The id that EC2 knows.
    pub fn real_id(&self) -> &str {
        self.resource_id.as_deref().unwrap_or(&self.id)
    }

    /// Whether it lies at the edge, in a local or wavelength zone.
    pub fn is_edge(&self) -> bool {
        self.zone_type.as_deref().is_some_and(|zone| zone != "availability-zone")
    }
}

/// What is there of the network of a cluster on EC2.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "RawClusterStatus")]
pub struct AwsClusterStatus {
    /// Whether the network is there.
    pub ready: bool,
    /// The ids of the provider's security groups, by role.
    pub security_groups: BTreeMap<String, String>,
    /// The name of the load balancer of the API server.
    pub api_server_dns_name: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawClusterSpec {
    #[serde(default, deserialize_with = "text")]
    region: Option<String>,
    #[serde(default, deserialize_with = "text")]
    partition: Option<String>,
    #[serde(default, deserialize_with = "soft")]
    identity_ref: Option<AwsIdentityRef>,
    #[serde(default, deserialize_with = "soft")]
    ssh_key_name: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    additional_tags: BTreeMap<String, String>,
    #[serde(default, deserialize_with = "text")]
    image_lookup_format: Option<String>,
    #[serde(default, deserialize_with = "text")]
    image_lookup_org: Option<String>,
    #[serde(default, rename = "imageLookupBaseOS", deserialize_with = "text")]
    image_lookup_base_os: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    network: RawNetwork,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawNetwork {
    #[serde(default, deserialize_with = "or_default")]
    vpc: RawId,
    #[serde(default, deserialize_with = "or_default")]
    subnets: Vec<AwsSubnet>,
    #[serde(default, deserialize_with = "or_default")]
    security_group_overrides: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
struct RawId {
    #[serde(default, deserialize_with = "text")]
    id: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawClusterStatus {
    #[serde(default, deserialize_with = "or_default")]
    ready: bool,
    #[serde(default, deserialize_with = "or_default")]
    network_status: RawNetworkStatus,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawNetworkStatus {
    #[serde(default, deserialize_with = "or_default")]
    security_groups: BTreeMap<String, RawId>,
    #[serde(default, deserialize_with = "or_default")]
    api_server_elb: RawBalancer,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawBalancer {
    #[serde(default, deserialize_with = "text")]
    dns_name: Option<String>,
}

soft_structs!(AwsClusterSpec, AwsClusterStatus, AwsSubnet, RawNetwork, RawId, RawNetworkStatus, RawBalancer);

impl From<RawClusterSpec> for AwsClusterSpec {
    fn from(raw: RawClusterSpec) -> Self {
        Self {
            region: raw.region,
            partition: raw.partition,
            identity_ref: raw.identity_ref,
            ssh_key_name: raw.ssh_key_name,
            additional_tags: raw.additional_tags,
            image_lookup_format: raw.image_lookup_format,
            image_lookup_org: raw.image_lookup_org,
            image_lookup_base_os: raw.image_lookup_base_os,
            vpc_id: raw.network.vpc.id,
            subnets: raw.network.subnets,
            security_group_overrides: raw.network.security_group_overrides,
        }
    }
}

impl From<RawClusterStatus> for AwsClusterStatus {
    fn from(raw: RawClusterStatus) -> Self {
        let groups = raw.network_status.security_groups;
        Self {
            ready: raw.ready,
            security_groups: groups.into_iter().filter_map(|(role, group)| Some((role, group.id?))).collect(),
            api_server_dns_name: raw.network_status.api_server_elb.dns_name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_cluster_reads_to_what_machines_need_of_it() {
        let cluster: AWSCluster = serde_json::from_value(json!({
            "metadata": {"name": "c", "annotations": {"cluster.x-k8s.io/managed-by": ""}},
            "spec": {
                "region": "us-west-2", "partition": "aws", "sshKeyName": "", "additionalTags": {"a": "b"},
                "identityRef": {"kind": "AWSClusterRoleIdentity", "name": "r"}, "imageLookupBaseOS": "ubuntu-24.04",
                "network": {
                    "vpc": {"id": "vpc-1"}, "securityGroupOverrides": {"node": "sg-9"},
                    "subnets": [
                        {"id": "subnet-1", "availabilityZone": "us-west-2a", "isPublic": true, "zoneType": "availability-zone"},
                        {"id": "private-b", "resourceID": "subnet-2", "zoneType": "local-zone", "tags": {"t": "v"}},
                    ],
                },
            },
            "status": {"ready": true, "networkStatus": {
                "securityGroups": {"node": {"id": "sg-1", "name": "n"}, "lb": {"name": "no id yet"}},
                "apiServerElb": {"dnsName": "api.example"},
            }},
        }))
        .unwrap();
        assert!(cluster.is_externally_managed() && cluster.status.ready);
        let spec = &cluster.spec;
        assert_eq!(spec.place().region.as_deref(), Some("us-west-2"));
        assert_eq!(spec.place().identity_ref.unwrap().kind, "AWSClusterRoleIdentity");
        assert_eq!(spec.ssh_key_name.as_deref(), Some(""), "an empty name means no key, not the default one");
        assert_eq!(
            (spec.vpc_id.as_deref(), spec.image_lookup_base_os.as_deref()),
            (Some("vpc-1"), Some("ubuntu-24.04"))
        );
        assert_eq!(spec.subnets.iter().map(AwsSubnet::real_id).collect::<Vec<_>>(), ["subnet-1", "subnet-2"]);
        assert_eq!(spec.subnets.iter().map(AwsSubnet::is_edge).collect::<Vec<_>>(), [false, true]);
        assert_eq!(cluster.status.security_groups, [("node".to_owned(), "sg-1".to_owned())].into());
        assert_eq!(cluster.status.api_server_dns_name.as_deref(), Some("api.example"));
    }

    #[test]
    fn strange_parts_read_as_absent() {
        for wire in [json!({}), json!({"spec": 7, "status": "x"}), json!({"spec": {"network": [], "identityRef": "x"}})]
        {
            let cluster: AWSCluster = serde_json::from_value(wire).unwrap();
            assert_eq!((cluster.spec, cluster.status), (AwsClusterSpec::default(), AwsClusterStatus::default()));
        }
    }
}
