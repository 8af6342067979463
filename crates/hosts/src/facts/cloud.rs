//! What decisions use of an AWSCluster.

use std::collections::BTreeMap;

use api::names::hosts::ASSOCIATION_TAG;
use api::views::{AWSCluster, AwsSubnet};
use kit::feed::Project;

/// A subnet as the cluster lists it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubnetFacts {
    /// Its id in EC2.
    pub id: String,
    /// Its zone.
    pub zone: String,
    /// Whether it is public.
    pub public: bool,
    /// Whether it lies in a local or wavelength zone.
    pub edge: bool,
    /// Whether it is kept for something else than machines.
    pub secondary: bool,
}

/// A cluster on EC2: its network, and as whom it is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CloudFacts {
    /// The region.
    pub region: Option<String>,
    /// The SSH key of its machines.
    pub ssh_key: Option<String>,
    /// The tags of everything it has.
    pub tags: BTreeMap<String, String>,
    /// Kind and name of its identity.
    pub identity: Option<(String, String)>,
    /// Its network.
    pub vpc: Option<String>,
    /// The subnets of its network.
    pub subnets: Vec<SubnetFacts>,
    /// Security groups instead of its own, by role.
    pub overrides: BTreeMap<String, String>,
    /// Its security groups, by role.
    pub groups: BTreeMap<String, String>,
    /// The name of its API load balancer.
    pub balancer: Option<String>,
    /// Whether somebody else keeps it.
    pub external: bool,
}

/// Clusters on EC2.
pub struct Clouds;

impl Project for Clouds {
    type Source = AWSCluster;
    type Slim = CloudFacts;

    fn slim(source: AWSCluster) -> CloudFacts {
        CloudFacts::of(source)
    }
}

impl CloudFacts {
    /// The facts of an AWSCluster.
    #[must_use]
    pub fn of(source: AWSCluster) -> Self {
        let external = source.is_externally_managed();
        let AWSCluster { spec, status, .. } = source;
        let subnet = |subnet: AwsSubnet| SubnetFacts {
            id: subnet.real_id().to_owned(),
            zone: subnet.availability_zone.clone().unwrap_or_default(),
            public: subnet.is_public,
            edge: subnet.is_edge(),
            secondary: subnet.tags.get(ASSOCIATION_TAG).is_some_and(|value| value == "secondary"),
        };
        Self {
            region: spec.region,
            ssh_key: spec.ssh_key_name,
            tags: spec.additional_tags,
            identity: spec.identity_ref.map(|identity| (identity.kind, identity.name)),
            vpc: spec.vpc_id,
            subnets: spec.subnets.into_iter().map(subnet).collect(),
            overrides: spec.security_group_overrides,
            groups: status.security_groups,
            balancer: status.api_server_dns_name,
            external,
        }
    }
}
