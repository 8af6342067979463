//! Reads: pages, filters, lag.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::support::{Bench, REGION};

fn pages(bench: &mut Bench, action: &str, parameters: &str, item: &str) -> (usize, Vec<String>) {
    let (mut count, mut all, mut token) = (0, Vec::new(), String::new());
    loop {
        let more =
            if token.is_empty() { String::new() } else { format!("&NextToken={}", crate::support::encode(&token)) };
        let answer = bench.call(action, &format!("{parameters}{more}")).ok();
        count += 1;
        all.extend(answer.all(item));
        match answer.all("nextToken").pop() {
            Some(next) => token = next,
            None => return (count, all),
        }
        assert!(count < 200, "endless");
    }
}

#[test]
fn the_catalogue_comes_in_pages_of_a_hundred() {
    let mut bench = Bench::new();
    let (count, names) = pages(&mut bench, "DescribeInstanceTypes", "", "instanceType");
    assert_eq!(names.len(), bench.world.types.len());
    assert_eq!(count, names.len().div_ceil(100));
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
    bench.call("DescribeInstanceTypes", "MaxResults=101").refused(400, "InvalidParameterValue");
    bench
        .call("DescribeInstanceTypes", "InstanceType.1=m5.large&MaxResults=5")
        .refused(400, "InvalidParameterCombination");
    let refused = bench
        .call("DescribeInstanceTypes", "InstanceType.1=m5.xlrage&InstanceType.2=m5.large")
        .refused(400, "InvalidInstanceType");
    assert!(refused.body.contains("[m5.xlrage]"), "{}", refused.body);
    let some = bench.call("DescribeInstanceTypes", "InstanceType.1=m5.large&InstanceType.2=g6f.large").ok();
    assert_eq!(some.all("instanceType").len(), 2);
    assert_eq!((some.one("logicalGpuCount").as_str(), some.one("manufacturer").as_str()), ("1", "NVIDIA"));
}

#[test]
fn types_can_be_filtered_and_spoilt() {
    let mut bench = Bench::new();
    let macs = bench
        .call("DescribeInstanceTypes", "Filter.1.Name=processor-info.supported-architecture&Filter.1.Value.1=arm64_mac")
        .ok();
    assert_eq!(macs.all("instanceType").len(), 7);
    bench.world.types.truncate(3);
    bench.world.types[0].name = String::new();
    bench.world.types[1].vcpus = 0;
    bench.world.types[2].memory = 0;
    let answer = bench.call("DescribeInstanceTypes", "").ok();
    assert_eq!(answer.all("instanceType").len(), 2, "a nameless entry");
    assert_eq!((answer.all("defaultVCpus").len(), answer.all("sizeInMiB").len()), (2, 2), "entries without figures");
}

#[test]
fn offerings_are_told_by_region_zone_and_zone_id() {
    let mut bench = Bench::new();
    let (_, by_region) = pages(&mut bench, "DescribeInstanceTypeOfferings", "", "instanceType");
    assert_eq!(by_region.len(), bench.world.types.len());
    let only = "Filter.1.Name=instance-type&Filter.1.Value.1=m5.large";
    let zones = bench.call("DescribeInstanceTypeOfferings", &format!("LocationType=availability-zone&{only}")).ok();
    assert_eq!(zones.all("location").len(), 6);
    let ids = bench.call("DescribeInstanceTypeOfferings", &format!("LocationType=availability-zone-id&{only}")).ok();
    assert!(ids.all("location").contains(&"use1-az1".to_owned()));
    let rare = "LocationType=availability-zone&Filter.1.Name=instance-type&Filter.1.Value.1=u-6tb1.metal";
    let rare = bench.call("DescribeInstanceTypeOfferings", rare).ok().all("location");
    assert!(rare.len() < 6 && rare.contains(&"us-east-1a".to_owned()), "{rare:?}");
    bench.call("DescribeInstanceTypeOfferings", "LocationType=planet").refused(400, "InvalidParameterValue");
    let missing = ('a'..='f').map(|c| format!("us-east-1{c}")).find(|zone| !rare.contains(zone)).unwrap();
    let ask = format!("AvailabilityZone={missing}&InstanceType=u-6tb1.metal&Quantity=1");
    bench.call("AllocateHosts", &ask).refused(400, "UnsupportedHostConfiguration");
}

#[test]
fn hosts_come_in_pages_and_a_token_fits_its_own_listing_only() {
    let mut bench = Bench::new();
    bench.call("AllocateHosts", "AvailabilityZone=us-east-1a&InstanceType=m5.large&Quantity=12").ok();
    let (count, ids) = pages(&mut bench, "DescribeHosts", "MaxResults=5", "hostId");
    assert_eq!((count, ids.len()), (3, 12));
    let first = bench.call("DescribeHosts", "MaxResults=5").ok();
    let token = crate::support::encode(&first.one("nextToken"));
    bench.call("DescribeHosts", &format!("MaxResults=7&NextToken={token}")).ok();
    for wrong in [
        format!("MaxResults=5&NextToken={token}&Filter.1.Name=state&Filter.1.Value.1=pending"),
        "NextToken=nonsense".to_owned(),
        format!("NextToken={}", token.replace("ey", "fz")),
    ] {
        bench.call("DescribeHosts", &wrong).refused(400, "InvalidNextToken");
    }
    bench.call("DescribeTags", &format!("NextToken={token}")).refused(400, "InvalidNextToken");
    for wrong in ["MaxResults=4", "MaxResults=501", "MaxResults=x"] {
        bench.call("DescribeHosts", wrong).refused(400, "InvalidParameterValue");
    }
    bench
        .call("DescribeHosts", &format!("HostId.1={}&MaxResults=5", ids[0]))
        .refused(400, "InvalidParameterCombination");
}

#[test]
fn five_hundred_hosts_are_a_page() {
    let mut bench = Bench::new();
    bench.call("AllocateHosts", "AvailabilityZone=us-east-1a&InstanceType=m5.large&Quantity=501").ok();
    let (count, ids) = pages(&mut bench, "DescribeHosts", "", "hostId");
    assert_eq!((count, ids.len()), (2, 501));
}

#[test]
fn hosts_are_filtered_by_what_is_documented_and_nothing_else() {
    let mut bench = Bench::new();
    let tag = "TagSpecification.1.ResourceType=dedicated-host&TagSpecification.1.Tag.1.Key=owner&TagSpecification.1.Tag.1.Value=x";
    let one = bench.allocate(&format!("InstanceType=m5.large&ClientToken=t&{tag}"));
    bench.allocate("InstanceFamily=c5&AvailabilityZone=us-east-1b");
    bench.pass(2);
    for (name, value) in [
        ("client-token", "t"),
        ("instance-type", "m5.large"),
        ("availability-zone", "us-east-1a"),
        ("tag-key", "owner"),
    ] {
        let answer = bench.call("DescribeHosts", &format!("Filter.1.Name={name}&Filter.1.Value.1={value}")).ok();
        assert_eq!(answer.one("hostId"), one, "{name}");
    }
    let state = |value: &str| format!("Filter.1.Name=state&Filter.1.Value.1={value}");
    assert_eq!(bench.call("DescribeHosts", &state("available")).ok().all("hostId").len(), 2);
    assert!(bench.call("DescribeHosts", &state("pending")).ok().all("hostId").is_empty());
    for unknown in ["tag:owner", "tag-value", "host-id", "availability-zone-id"] {
        bench
            .call("DescribeHosts", &format!("Filter.1.Name={unknown}&Filter.1.Value.1=x"))
            .refused(400, "InvalidParameterValue");
    }
}

#[test]
fn unknown_and_malformed_hosts_are_errors_not_empty_lists() {
    let mut bench = Bench::new();
    bench.call("DescribeHosts", "HostId.1=h-00000000000000000").refused(400, "InvalidHostID.NotFound");
    for malformed in ["h-1", "i-00000000000000000", "h-0000000000000000g", "h-0000000000000000A"] {
        bench.call("DescribeHosts", &format!("HostId.1={malformed}")).refused(400, "InvalidHostID.Malformed");
    }
}

#[test]
fn reads_lag_behind_writes_by_the_set_time() {
    let mut bench = Bench::new();
    bench.world.settings.lag = Duration::from_secs(30);
    let host = bench.allocate("InstanceType=m5.large&ClientToken=t");
    bench.pass(29);
    assert!(bench.call("DescribeHosts", "").ok().all("hostId").is_empty());
    bench.call("DescribeHosts", &format!("HostId.1={host}")).refused(400, "InvalidHostID.NotFound");
    bench.pass(1);
    assert_eq!(bench.host_state(&host), "pending", "as it was 30 seconds ago");
    bench.pass(2);
    assert_eq!(bench.host_state(&host), "available");
    bench.call("CreateTags", &format!("ResourceId.1={host}&Tag.1.Key=k&Tag.1.Value=v")).ok();
    assert!(bench.call("DescribeHosts", "").ok().all("key").is_empty());
    let id = bench.launch(&host, "m5.large");
    bench.call("DescribeInstances", &format!("InstanceId.1={id}")).refused(400, "InvalidInstanceID.NotFound");
    assert_eq!(bench.release(&host).one("code"), "Client.InvalidHost.Occupied", "writes see the truth");
    bench.pass(30);
    assert_eq!(bench.call("DescribeHosts", "").ok().one("key"), "k");
    bench.call("DescribeInstances", &format!("InstanceId.1={id}")).ok();
}

#[test]
fn with_wobble_a_later_read_may_show_an_older_world() {
    let mut bench = Bench::new();
    bench.world.settings.lag = Duration::from_secs(60);
    bench.world.settings.wobble = true;
    let host = bench.allocate("InstanceType=m5.large");
    bench.pass(30);
    let seen: BTreeSet<u16> =
        (0..50).map(|_| bench.call("DescribeHosts", &format!("HostId.1={host}")).status).collect();
    assert_eq!(seen, BTreeSet::from([200, 400]), "sometimes there, sometimes not");
    bench.pass(30);
    assert!((0..50).all(|_| bench.call("DescribeHosts", &format!("HostId.1={host}")).status == 200));
}

#[test]
fn regions_and_zones_are_told_and_unknown_ones_refused() {
    let mut bench = Bench::new();
    let enabled = bench.call("DescribeRegions", "").ok().all("regionName");
    let all = bench.call("DescribeRegions", "AllRegions=true").ok();
    assert!(enabled.len() < all.all("regionName").len());
    assert!(all.all("optInStatus").contains(&"not-opted-in".to_owned()));
    assert!(!all.body.contains("cn-north-1") && !all.body.contains("us-gov-west-1"), "another partition");
    bench.call("DescribeRegions", "RegionName.1=mars-1").refused(400, "InvalidParameterValue");
    assert_eq!(bench.call("DescribeRegions", "RegionName.1=af-south-1").ok().one("optInStatus"), "not-opted-in");
    bench.call("DescribeAvailabilityZones", "ZoneName.1=us-east-1z").refused(400, "InvalidParameterValue");
    bench.signer.region = "cn-north-1".into();
    assert_eq!(bench.call("DescribeRegions", "").ok().all("regionName").len(), 2);
    assert_eq!(bench.call("DescribeAvailabilityZones", "").ok().all("zoneName").len(), 3);
}

#[test]
fn tags_are_created_replaced_and_deleted() {
    let mut bench = Bench::new();
    let host = bench.host("m5.large");
    let resource = format!("ResourceId.1={host}");
    bench.call("CreateTags", &format!("{resource}&Tag.1.Key=a&Tag.1.Value=1&Tag.2.Key=b&Tag.2.Value=2")).ok();
    bench.call("CreateTags", &format!("{resource}&Tag.1.Key=a&Tag.1.Value=3")).ok();
    bench.call("DeleteTags", &format!("{resource}&Tag.1.Key=a&Tag.1.Value=1")).ok();
    bench.call("DeleteTags", &format!("{resource}&Tag.1.Key=b")).ok();
    let tags = bench.call("DescribeTags", &format!("Filter.1.Name=resource-id&Filter.1.Value.1={host}")).ok();
    assert_eq!((tags.one("key").as_str(), tags.one("value").as_str()), ("a", "3"), "only a tag with that value goes");
    assert_eq!(tags.one("resourceType"), "dedicated-host");
    let many: Vec<String> = (1..=50).map(|n| format!("Tag.{n}.Key=k{n}")).collect();
    bench.call("CreateTags", &format!("{resource}&{}", many.join("&"))).refused(400, "TagLimitExceeded");
    bench.call("CreateTags", "ResourceId.1=h-00000000000000000&Tag.1.Key=a").refused(400, "InvalidHostID.NotFound");
    bench.call("CreateTags", "ResourceId.1=zz-1&Tag.1.Key=a").refused(400, "InvalidID");
    let vpc =
        bench.world.place(crate::support::ACCOUNT, REGION, bench.now).unwrap().vpcs.keys().next().unwrap().clone();
    let both = format!("ResourceId.1={vpc}&ResourceId.2=h-00000000000000000&Tag.1.Key=a");
    bench.call("CreateTags", &both).refused(400, "InvalidHostID.NotFound");
    assert!(bench.call("DescribeVpcs", "").ok().all("key").is_empty(), "all or nothing");
    let instance = bench.launch(&host, "m5.large");
    bench.call("CreateTags", &format!("ResourceId.1={instance}&Tag.1.Key=a&Tag.1.Value=x")).ok();
    assert!(bench.call("DescribeInstances", "").ok().body.contains("<value>x</value>"));
}

#[test]
fn networks_and_images_are_told_and_filtered() {
    let mut bench = Bench::new();
    let private = "Filter.1.Name=map-public-ip-on-launch&Filter.1.Value.1=false";
    assert_eq!(bench.call("DescribeSubnets", private).ok().all("subnetId").len(), 6);
    bench.call("DescribeSubnets", "SubnetId.1=subnet-1").refused(400, "InvalidSubnetID.NotFound");
    assert_eq!(bench.call("DescribeSecurityGroups", "GroupName.1=node").ok().all("groupName"), ["node"]);
    bench.call("DescribeSecurityGroups", "GroupId.1=sg-1").refused(400, "InvalidGroup.NotFound");
    let arm =
        "Owner.1=self&Filter.1.Name=architecture&Filter.1.Value.1=arm64&Filter.2.Name=state&Filter.2.Value.1=available";
    let image = bench.call("DescribeImages", arm).ok();
    assert_eq!((image.one("architecture").as_str(), image.one("volumeSize").as_str()), ("arm64", "8"));
    assert!(bench.call("DescribeImages", "Owner.1=999999999999").ok().all("imageId").is_empty());
    let vpc = bench.call("DescribeVpcs", "").ok();
    let dhcp = bench.call("DescribeDhcpOptions", &format!("DhcpOptionsId.1={}", vpc.one("dhcpOptionsId"))).ok();
    assert!(dhcp.body.contains("ec2.internal"));
}
