//! Whether an identity may look at everything the room looks at: asked for once, so that a missing right is told before it
//! is missed.

use api::names::hosts::{ALLOCATION_ID_TAG, MACHINE_NAME_TAG};
use aws::errors::{Error, Kind};
use aws::port::{Ec2, Filter, HostQuery, ImageQuery, InstanceQuery, TypeQuery};

/// A question that EC2 did not answer.
#[derive(Clone, Debug)]
pub struct Failed {
    /// The action, as policies name it.
    pub action: &'static str,
    /// What EC2 said.
    pub error: Error,
}

/// The reads that are denied; other failures say nothing about rights.
pub async fn denied(ec2: &impl Ec2) -> Vec<Failed> {
    let mut failed = failures(ec2).await;
    failed.retain(|failed| failed.error.kind() == Kind::Permission);
    failed
}

/// The reads that fail, for whatever reason.
pub async fn failures(ec2: &impl Ec2) -> Vec<Failed> {
    let tagged = |key: &str| vec![Filter::new("tag-key", [key])];
    let named: Vec<Filter> = tagged(MACHINE_NAME_TAG);
    // An id that nobody has: what counts is whether the question is allowed.
    let images = ImageQuery { owners: vec!["self".to_owned()], filters: named.clone(), ..ImageQuery::default() };
    let types = TypeQuery::Names("m5.large".parse().into_iter().collect());
    let answers = [
        ("ec2:DescribeAvailabilityZones", ec2.describe_availability_zones().await.err()),
        ("ec2:DescribeDhcpOptions", ec2.describe_dhcp_options(&[]).await.err()),
        ("ec2:DescribeHosts", ec2.describe_hosts(&HostQuery::by_tag_key(ALLOCATION_ID_TAG)).await.err()),
        ("ec2:DescribeImages", ec2.describe_images(&images).await.err()),
        ("ec2:DescribeInstanceTypes", ec2.describe_instance_types(&types).await.err()),
        ("ec2:DescribeInstances", ec2.describe_instances(&InstanceQuery::Matching(named.clone())).await.err()),
        ("ec2:DescribeNetworkInterfaces", ec2.describe_network_interfaces(&named).await.err()),
        ("ec2:DescribeSecurityGroups", ec2.describe_security_groups(&[], &named).await.err()),
        ("ec2:DescribeSubnets", ec2.describe_subnets(&[], &named).await.err()),
        ("ec2:DescribeTags", ec2.describe_tags(&[Filter::new("key", [MACHINE_NAME_TAG])]).await.err()),
        ("ec2:DescribeVolumes", ec2.describe_volumes(&named).await.err()),
        ("ec2:DescribeVpcs", ec2.describe_vpcs(&[]).await.err()),
    ];
    answers.into_iter().filter_map(|(action, error)| Some(Failed { action, error: error? })).collect()
}
