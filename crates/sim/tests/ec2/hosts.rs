//! Hosts: how they are asked for, become ready, fill up, fail, and are given back.

use std::collections::BTreeSet;
use std::time::Duration;

use sim::ec2::world::host::HostState;

use crate::support::{ACCOUNT, Bench, REGION, ZONE};

#[test]
fn a_wish_for_hosts_must_be_complete_and_possible() {
    let mut bench = Bench::new();
    for (parameters, code) in [
        ("InstanceType=m5.large&Quantity=1", "MissingParameter"),
        ("AvailabilityZone=us-east-1a&Quantity=1", "MissingParameter"),
        ("AvailabilityZone=us-east-1a&InstanceType=m5.large", "MissingParameter"),
        (
            "AvailabilityZone=us-east-1a&AvailabilityZoneId=use1-az1&InstanceType=m5.large&Quantity=1",
            "InvalidParameterCombination",
        ),
        ("AvailabilityZone=us-east-1z&InstanceType=m5.large&Quantity=1", "InvalidParameterValue"),
        ("AvailabilityZone=us-west-2a&InstanceType=m5.large&Quantity=1", "InvalidParameterValue"),
        (
            "AvailabilityZone=us-east-1a&InstanceType=m5.large&InstanceFamily=m5&Quantity=1",
            "InvalidParameterCombination",
        ),
        ("AvailabilityZone=us-east-1a&InstanceType=m5.nope&Quantity=1", "InvalidParameterValue"),
        ("AvailabilityZone=us-east-1a&InstanceFamily=zz9&Quantity=1", "InvalidParameterValue"),
        ("AvailabilityZone=us-east-1a&InstanceFamily=mac2&Quantity=1", "InvalidHostConfiguration"),
        ("AvailabilityZone=us-east-1a&InstanceFamily=m4&Quantity=1", "InvalidHostConfiguration"),
        ("AvailabilityZone=us-east-1a&InstanceType=t2.micro&Quantity=1", "UnsupportedHostConfiguration"),
        (
            "AvailabilityZone=us-east-1a&InstanceType=mac2.metal&Quantity=1&HostRecovery=on",
            "UnsupportedHostConfiguration",
        ),
        ("AvailabilityZone=us-east-1a&InstanceType=m5.large&Quantity=0", "InvalidQuantity"),
        ("AvailabilityZone=us-east-1a&InstanceType=m5.large&Quantity=-1", "InvalidQuantity"),
        ("AvailabilityZone=us-east-1a&InstanceType=m5.large&Quantity=1&AutoPlacement=maybe", "InvalidAutoPlacement"),
        ("AvailabilityZone=us-east-1a&InstanceType=m5.large&Quantity=1&HostRecovery=yes", "InvalidParameterValue"),
        ("AvailabilityZone=us-east-1a&InstanceType=m5.large&AssetId.1=a", "InvalidParameterCombination"),
        ("AvailabilityZone=us-east-1a&InstanceType=m5.large&Quantity=2&AssetId.1=a&OutpostArn=o", "InvalidQuantity"),
    ] {
        let answer = bench.call("AllocateHosts", parameters);
        assert_eq!((answer.status, answer.code().as_str()), (400, code), "{parameters}: {}", answer.body);
    }
    assert!(bench.world.hosts(bench.now).is_empty());
}

#[test]
fn tags_are_checked_as_the_service_does() {
    let mut bench = Bench::new();
    let base =
        "AvailabilityZone=us-east-1a&InstanceType=m5.large&Quantity=1&TagSpecification.1.ResourceType=dedicated-host";
    let many: Vec<String> = (1..=51).map(|n| format!("TagSpecification.1.Tag.{n}.Key=k{n}")).collect();
    let long = "x".repeat(129);
    for (tags, code) in [
        ("TagSpecification.1.Tag.1.Key=aws:x".to_owned(), "InvalidParameterValue"),
        ("TagSpecification.1.Tag.1.Key=".to_owned(), "InvalidParameterValue"),
        (format!("TagSpecification.1.Tag.1.Key={long}"), "InvalidParameterValue"),
        (
            format!("TagSpecification.1.Tag.1.Key=k&TagSpecification.1.Tag.1.Value={long}{long}"),
            "InvalidParameterValue",
        ),
        ("TagSpecification.1.Tag.1.Key=a%3Cb".to_owned(), "InvalidParameterValue"),
        ("TagSpecification.1.Tag.1.Key=k&TagSpecification.1.Tag.2.Key=k".to_owned(), "InvalidParameterValue"),
        ("TagSpecification.2.ResourceType=dedicated-host".to_owned(), "InvalidParameterValue"),
        ("TagSpecification.2.ResourceType=instance".to_owned(), "InvalidParameterValue"),
        (many.join("&"), "TagLimitExceeded"),
    ] {
        let answer = bench.call("AllocateHosts", &format!("{base}&{tags}"));
        assert_eq!((answer.status, answer.code().as_str()), (400, code), "{tags}: {}", answer.body);
    }
}

#[test]
fn a_host_is_pending_first_and_takes_no_instance_until_it_is_available() {
    let mut bench = Bench::new();
    let host = bench.allocate("InstanceType=m5.large");
    assert_eq!(bench.host_state(&host), "pending");
    let launch = bench.on(&host, "m5.large");
    bench.call("RunInstances", &launch).refused(400, "InsufficientCapacityOnHost");
    bench.pass(2);
    assert_eq!(bench.host_state(&host), "available");
    bench.call("RunInstances", &launch).ok();
}

#[test]
fn a_host_for_one_type_says_its_type_and_one_for_a_family_its_family() {
    let mut bench = Bench::new();
    let one = bench.allocate("InstanceType=m5.xlarge");
    let answer = bench.call("DescribeHosts", &format!("HostId.1={one}")).ok();
    let properties = answer.one("hostProperties");
    assert!(properties.contains("<instanceType>m5.xlarge</instanceType>") && !properties.contains("instanceFamily"));
    assert_eq!(answer.one("allowsMultipleInstanceTypes"), "off");
    assert_eq!((answer.one("totalCapacity").as_str(), answer.one("availableVCpus").as_str()), ("24", "96"));
    let family = bench.allocate("InstanceFamily=m5");
    let answer = bench.call("DescribeHosts", &format!("HostId.1={family}")).ok();
    let properties = answer.one("hostProperties");
    assert!(properties.contains("<instanceFamily>m5</instanceFamily>") && !properties.contains("instanceType"));
    assert_eq!(answer.one("allowsMultipleInstanceTypes"), "on");
    assert_eq!(answer.all("totalCapacity").len(), 9, "every size of the family");
}

#[test]
fn occupancy_is_counted_by_type_and_by_family() {
    let mut bench = Bench::new();
    let one = bench.host("m5.12xlarge");
    bench.launch(&one, "m5.12xlarge");
    bench.launch(&one, "m5.12xlarge");
    let launch = bench.on(&one, "m5.12xlarge");
    let refused = bench.call("RunInstances", &launch).refused(400, "InsufficientCapacityOnHost");
    assert!(refused.body.contains(&format!("Dedicated host {one} has insufficient capacity")), "{}", refused.body);
    let other = bench.on(&one, "m5.large");
    bench.call("RunInstances", &other).refused(400, "InvalidHostConfiguration");

    let family = bench.allocate("InstanceFamily=m5");
    bench.pass(2);
    bench.launch(&family, "m5.16xlarge");
    let answer = bench.call("DescribeHosts", &format!("HostId.1={family}")).ok();
    assert_eq!(answer.one("availableVCpus"), "32");
    bench.launch(&family, "m5.8xlarge");
    let launch = bench.on(&family, "m5.large");
    bench.call("RunInstances", &launch).refused(400, "InsufficientCapacityOnHost");
    let stranger = bench.on(&family, "c5.large");
    bench.call("RunInstances", &stranger).refused(400, "InvalidHostConfiguration");
}

#[test]
fn an_occupied_host_is_not_released_even_a_while_after_its_instance_ended() {
    let mut bench = Bench::new();
    let host = bench.host("m5.large");
    let instance = bench.launch(&host, "m5.large");
    let refused = bench.release(&host);
    assert_eq!(refused.one("code"), "Client.InvalidHost.Occupied");
    assert_eq!(refused.one("message"), format!("Dedicated host '{host}' cannot be released as it is occupied."));
    assert_eq!(refused.one("resourceId"), host);
    bench.call("TerminateInstances", &format!("InstanceId.1={instance}")).ok();
    bench.pass(5);
    assert!(bench.call("DescribeInstances", &format!("InstanceId.1={instance}")).ok().body.contains("terminated"));
    assert!(!bench.call("DescribeHosts", &format!("HostId.1={host}")).ok().body.contains("instanceId"));
    assert_eq!(bench.release(&host).one("code"), "Client.InvalidHost.Occupied");
    bench.pass(5);
    assert_eq!(bench.release(&host).one("item"), host);
    assert_eq!(bench.host_state(&host), "released");
}

#[test]
fn each_host_of_a_release_is_judged_by_itself() {
    let mut bench = Bench::new();
    let (free, busy) = (bench.host("m5.large"), bench.host("m5.large"));
    bench.launch(&busy, "m5.large");
    let answer =
        bench.call("ReleaseHosts", &format!("HostId.1={busy}&HostId.2={free}&HostId.3=h-00000000000000000")).ok();
    assert!(answer.body.contains(&format!("<successful><item>{free}</item></successful>")), "{}", answer.body);
    assert_eq!(answer.all("code"), ["Client.InvalidHost.Occupied", "Client.InvalidHostID.NotFound"]);
    assert_eq!(bench.release(&free).one("code"), "Client.InvalidHostID.NotFound", "given back already");
    bench.call("ReleaseHosts", "").refused(400, "MissingParameter");
    bench.call("ReleaseHosts", "HostId.1=x").refused(400, "InvalidHostID.Malformed");
}

#[test]
fn a_mac_host_is_kept_for_a_day_and_scrubbed_between_instances() {
    let mut bench = Bench::new();
    let host = bench.host("mac2.metal");
    let refused = bench.release(&host);
    assert_eq!(refused.one("code"), "Client.HostMinAllocationPeriodUnexpired");
    assert_eq!(
        refused.one("message"),
        format!(
            "Unable to release Dedicated Host {host}. mac2.metal hosts must be allocated to your AWS account for at least 24 hour(s). You can release this host any time after 2026-01-02T00:00:00.000Z."
        )
    );
    let instance = bench.launch(&host, "mac2.metal");
    let launch = bench.on(&host, "mac2.metal");
    bench.call("RunInstances", &launch).refused(400, "InsufficientCapacityOnHost");
    bench.call("TerminateInstances", &format!("InstanceId.1={instance}")).ok();
    bench.pass(10);
    assert_eq!(bench.host_state(&host), "pending", "scrubbed");
    bench.call("RunInstances", &launch).refused(400, "InsufficientCapacityOnHost");
    bench.pass(3_600);
    assert_eq!(bench.host_state(&host), "available");
    bench.pass(24 * 3_600);
    assert_eq!(bench.release(&host).one("item"), host);
    let image = bench.image("arm64_mac");
    let subnet = bench.subnet(ZONE);
    let loose = format!("ImageId={image}&InstanceType=mac2.metal&MinCount=1&MaxCount=1&SubnetId={subnet}");
    bench.call("RunInstances", &loose).refused(400, "Unsupported");
}

#[test]
fn released_hosts_are_seen_for_a_while_and_count_against_the_quota_for_a_while() {
    let mut bench = Bench::new();
    bench.world.settings.host_quota = 1;
    let host = bench.host("m5.large");
    let ask = "AvailabilityZone=us-east-1a&InstanceType=m5.xlarge&Quantity=1";
    let refused = bench.call("AllocateHosts", ask).refused(400, "HostLimitExceeded");
    assert!(
        refused.body.contains("(1) would bring your total up to 2 for the specified group of instance types (m5). This exceeds your current limit of 1."),
        "{}",
        refused.body
    );
    bench.call("AllocateHosts", &ask.replace("m5", "c5")).ok();
    bench.release(&host);
    bench.call("AllocateHosts", ask).refused(400, "HostLimitExceeded");
    bench.pass(300);
    bench.call("AllocateHosts", ask).ok();
    assert_eq!(bench.host_state(&host), "released");
    bench.pass(3_299);
    assert_eq!(bench.host_state(&host), "released");
    bench.pass(1);
    bench.call("DescribeHosts", &format!("HostId.1={host}")).refused(400, "InvalidHostID.NotFound");
}

#[test]
fn quotas_can_differ_by_family_and_are_per_region() {
    let mut bench = Bench::new();
    bench.world.settings.host_quota = 0;
    bench.world.settings.host_quotas.insert("c5".into(), 3);
    bench
        .call("AllocateHosts", "AvailabilityZone=us-east-1a&InstanceFamily=c5&Quantity=4")
        .refused(400, "HostLimitExceeded");
    assert!(bench.world.hosts(bench.now).is_empty(), "all or nothing");
    assert_eq!(
        bench.call("AllocateHosts", "AvailabilityZone=us-east-1a&InstanceFamily=c5&Quantity=3").ok().all("item").len(),
        3
    );
    bench.signer.region = "eu-west-1".into();
    bench.call("AllocateHosts", "AvailabilityZone=eu-west-1a&InstanceFamily=c5&Quantity=3").ok();
}

#[test]
fn a_failing_host_is_assessed_and_broken_and_then_given_back() {
    let mut bench = Bench::new();
    let host = bench.host("m5.large");
    let moved = fail(&mut bench, &host);
    assert_eq!(moved, None);
    assert_eq!(bench.host_state(&host), "under-assessment");
    let launch = bench.on(&host, "m5.large");
    bench.call("RunInstances", &launch).refused(400, "InvalidHostState");
    bench.pass(600);
    assert_eq!(bench.host_state(&host), "permanent-failure");
    assert_eq!(bench.release(&host).one("item"), host);
    assert_eq!(bench.host_state(&host), "released-permanent-failure");
    bench.call("RunInstances", &launch).refused(400, "InvalidHostState");
}

#[test]
fn with_recovery_the_instance_moves_to_a_new_host_with_the_same_tags() {
    let mut bench = Bench::new();
    let tag = "TagSpecification.1.ResourceType=dedicated-host&TagSpecification.1.Tag.1.Key=owner&TagSpecification.1.Tag.1.Value=x";
    let host = bench.allocate(&format!("InstanceType=m5.large&HostRecovery=on&ClientToken=t&{tag}"));
    bench.pass(2);
    let instance = bench.launch(&host, "m5.large");
    let new = fail(&mut bench, &host).unwrap();
    bench.call("DescribeHosts", &format!("HostId.1={new}")).refused(400, "InvalidHostID.NotFound");
    bench.pass(600);
    assert_eq!(bench.host_state(&host), "released-permanent-failure");
    let heir = bench.call("DescribeHosts", &format!("HostId.1={new}")).ok();
    assert_eq!((heir.one("state").as_str(), heir.one("value").as_str()), ("available", "x"));
    assert_eq!(heir.one("instanceId"), instance);
    assert!(heir.all("clientToken").is_empty(), "the new host does not have the old one's token");
    let facts = bench.call("DescribeInstances", &format!("InstanceId.1={instance}")).ok();
    assert_eq!(facts.one("hostId"), new);
}

fn fail(bench: &mut Bench, host: &str) -> Option<String> {
    let settings = bench.world.settings.clone();
    let place = bench.world.place(ACCOUNT, REGION, bench.now).unwrap();
    place.fail_host(bench.now, host, &settings, &mut sim::server::Rng::new(99))
}

#[test]
fn a_reserved_host_is_not_released() {
    let mut bench = Bench::new();
    let host = bench.host("m5.large");
    bench.world.place(ACCOUNT, REGION, bench.now).unwrap().hosts.get_mut(&host).unwrap().reservation =
        Some("hr-1".into());
    assert!(bench.release(&host).one("code").starts_with("Client."));
    assert_eq!(bench.call("DescribeHostReservations", "").ok().one("hostReservationId"), "hr-1");
    assert_eq!(bench.world.hosts(bench.now)[0].state, HostState::Available);
}

#[test]
fn hosts_can_be_changed_and_only_known_values_are_taken() {
    let mut bench = Bench::new();
    let host = bench.host("m5.large");
    bench.call("ModifyHosts", &format!("HostId.1={host}&HostRecovery=on&AutoPlacement=on&HostMaintenance=on")).ok();
    let answer = bench.call("DescribeHosts", &format!("HostId.1={host}")).ok();
    assert_eq!(
        [answer.one("hostRecovery"), answer.one("autoPlacement"), answer.one("hostMaintenance")],
        ["on", "on", "on"]
    );
    bench.call("ModifyHosts", &format!("HostId.1={host}&InstanceType=m5.xlarge")).ok();
    assert!(bench.call("DescribeHosts", &format!("HostId.1={host}")).ok().one("hostProperties").contains("m5.xlarge"));
    let refused = bench.call("ModifyHosts", &format!("HostId.1={host}&InstanceType=c5.large")).ok();
    assert_eq!(refused.one("code"), "Client.InvalidHostConfiguration");
    bench.call("ModifyHosts", &format!("HostId.1={host}&HostRecovery=x")).refused(400, "InvalidParameterValue");
}

#[test]
fn a_host_that_takes_everybody_gets_launches_that_name_no_host() {
    let mut bench = Bench::new();
    let closed = bench.host("m5.large");
    let launch = bench.on(&closed, "m5.large").replace(&format!("&Placement.HostId={closed}"), "");
    bench.call("RunInstances", &launch).refused(400, "IncompatibleHostRequirements");
    let open = bench.allocate("InstanceType=m5.large").clone();
    bench.call("ModifyHosts", &format!("HostId.1={open}&AutoPlacement=on")).ok();
    bench.pass(2);
    assert_eq!(bench.call("RunInstances", &launch).ok().one("hostId"), open);
}

#[test]
fn the_oracle_finds_hosts_without_an_owner_and_counts_what_they_cost() {
    let mut bench = Bench::new();
    let tag = |owner: &str| {
        format!(
            "InstanceType=m5.large&TagSpecification.1.ResourceType=dedicated-host&TagSpecification.1.Tag.1.Key=owner&TagSpecification.1.Tag.1.Value={owner}"
        )
    };
    let kept = bench.allocate(&tag("alive"));
    let orphan = bench.allocate(&tag("dead"));
    let nameless = bench.allocate("InstanceType=m5.large");
    let released = bench.allocate(&tag("dead"));
    bench.pass(10);
    bench.release(&released);
    let instance = bench.launch(&kept, "m5.large");
    bench.pass(20);
    bench.call("TerminateInstances", &format!("InstanceId.1={instance}")).ok();
    bench.pass(30);
    let owners = BTreeSet::from(["alive".to_owned()]);
    let mut leaks: Vec<String> =
        bench.world.leaks(bench.now, "owner", &owners).into_iter().map(|host| host.id).collect();
    leaks.sort();
    let mut expected = [orphan, nameless];
    expected.sort();
    assert_eq!(leaks, expected);
    let facts = bench.world.hosts(bench.now);
    let of = |id: &str| facts.iter().find(|host| host.id == id).map(|host| (host.paid, host.empty)).unwrap();
    let seconds = Duration::from_secs;
    assert_eq!(of(&released), (seconds(10), seconds(10)));
    // Empty until the launch after 10 s, then from the instance's end after 35 s on.
    assert_eq!(of(&kept), (seconds(60), seconds(35)));
    assert_eq!(bench.world.bill(bench.now), (seconds(60 * 3 + 10), seconds(35 + 60 * 2 + 10)));
}
