//! Instances: what a launch may ask for, and the way to the end.

use crate::support::{ACCOUNT, Bench, REGION, ZONE, encode};

#[test]
fn an_instance_goes_from_pending_to_terminated_and_out_of_sight() {
    let mut bench = Bench::new();
    let host = bench.host("m5.large");
    let id = bench.launch(&host, "m5.large");
    let state =
        |bench: &mut Bench| bench.call("DescribeInstances", &format!("InstanceId.1={id}")).ok().all("name")[0].clone();
    assert_eq!(state(&mut bench), "pending");
    bench.pass(3);
    assert_eq!(state(&mut bench), "running");
    let answer = bench.call("TerminateInstances", &format!("InstanceId.1={id}")).ok();
    assert_eq!(answer.all("name"), ["shutting-down", "running"]);
    assert_eq!(answer.all("code"), ["32", "16"]);
    assert_eq!(state(&mut bench), "shutting-down");
    bench.pass(5);
    assert_eq!(state(&mut bench), "terminated");
    let again = bench.call("TerminateInstances", &format!("InstanceId.1={id}")).ok();
    assert_eq!(again.all("name"), ["terminated", "terminated"], "ending what is over changes nothing");
    bench.pass(3_600);
    bench.call("DescribeInstances", &format!("InstanceId.1={id}")).refused(400, "InvalidInstanceID.NotFound");
    bench.call("TerminateInstances", &format!("InstanceId.1={id}")).refused(400, "InvalidInstanceID.NotFound");
}

#[test]
fn an_instance_is_stopped_and_started_on_its_host() {
    let mut bench = Bench::new();
    let host = bench.host("m5.large");
    let id = bench.launch(&host, "m5.large");
    let one = format!("InstanceId.1={id}");
    let state = |bench: &mut Bench| bench.call("DescribeInstances", &one).ok().all("name")[0].clone();
    bench.call("StopInstances", &one).refused(400, "IncorrectInstanceState");
    bench.pass(3);
    let answer = bench.call("StopInstances", &one).ok();
    assert_eq!(
        (answer.all("name"), answer.all("code")),
        (vec!["stopping".to_owned(), "running".to_owned()], vec!["64".to_owned(), "16".to_owned()])
    );
    bench.call("StartInstances", &one).refused(400, "IncorrectInstanceState");
    bench.pass(5);
    assert_eq!(state(&mut bench), "stopped");
    assert_eq!(bench.call("StopInstances", &one).ok().all("name"), ["stopped", "stopped"], "again changes nothing");
    assert_eq!(bench.call("StartInstances", &one).ok().all("name"), ["pending", "stopped"]);
    bench.pass(3);
    assert_eq!(bench.call("StartInstances", &one).ok().all("name"), ["running", "running"], "again changes nothing");
    bench.call("StopInstances", &one).ok();
    bench.pass(5);
    bench.call("TerminateInstances", &one).ok();
    bench.pass(5);
    for action in ["StopInstances", "StartInstances"] {
        bench.call(action, &one).refused(400, "IncorrectInstanceState");
        bench.call(action, "").refused(400, "MissingParameter");
        let both = format!("{one}&InstanceId.2=i-00000000000000000");
        bench.call(action, &both).refused(400, "InvalidInstanceID.NotFound");
    }
}

#[test]
fn one_unknown_instance_refuses_the_whole_termination() {
    let mut bench = Bench::new();
    let host = bench.host("m5.large");
    let id = bench.launch(&host, "m5.large");
    let both = format!("InstanceId.1={id}&InstanceId.2=i-00000000000000000");
    bench.call("TerminateInstances", &both).refused(400, "InvalidInstanceID.NotFound");
    assert!(!bench.call("DescribeInstances", &format!("InstanceId.1={id}")).ok().body.contains("shutting-down"));
    bench.call("TerminateInstances", "InstanceId.1=x").refused(400, "InvalidInstanceID.Malformed");
    bench.call("TerminateInstances", "").refused(400, "MissingParameter");
}

#[test]
fn what_a_launch_names_must_exist_and_fit() {
    let mut bench = Bench::new();
    let host = bench.host("m5.large");
    let good = bench.on(&host, "m5.large");
    let (image, arm, subnet) = (bench.image("x86_64"), bench.image("arm64"), bench.subnet(ZONE));
    let other_zone = bench.subnet("us-east-1b");
    let big = encode(&"QUFB".repeat(5_462));
    for (change, code) in [
        (good.replace(&image, "ami-00000000000000000"), "InvalidAMIID.NotFound"),
        (good.replace(&image, "ami-x"), "InvalidAMIID.Malformed"),
        (good.replace(&image, &arm), "InvalidParameterValue"),
        (good.replace(&subnet, "subnet-1"), "InvalidSubnetID.NotFound"),
        (good.replace(&subnet, &other_zone), "InvalidParameterValue"),
        (good.replace("InstanceType=m5.large", "InstanceType=m5.nope"), "InvalidParameterValue"),
        (good.replace(&host, "h-00000000000000000"), "InvalidHostId.NotFound"),
        (good.replace(&host, "h-1"), "InvalidHostId.Malformed"),
        (good.replace("Tenancy=host", "Tenancy=default"), "InvalidParameterCombination"),
        (good.replace("&Placement.Tenancy=host", ""), "InvalidParameterCombination"),
        (good.replace("Tenancy=host", "Tenancy=mine"), "InvalidTenancy"),
        (good.replace("Affinity=host", "Affinity=none"), "InvalidAffinity"),
        (good.replace("&MinCount=1", ""), "MissingParameter"),
        (good.replace("MinCount=1", "MinCount=2"), "InvalidParameterCombination"),
        (format!("{good}&Placement.GroupName=g"), "InvalidParameterCombination"),
        (format!("{good}&Placement.AvailabilityZone=us-east-1b"), "InvalidParameterValue"),
        (format!("{good}&SecurityGroupId.1=sg-1"), "InvalidGroup.NotFound"),
        (format!("{good}&KeyName=nobody"), "InvalidKeyPair.NotFound"),
        (format!("{good}&UserData=!"), "InvalidUserData.Malformed"),
        (format!("{good}&UserData={big}"), "InvalidParameterValue"),
        (
            format!("{good}&NetworkInterface.1.DeviceIndex=0&NetworkInterface.1.SubnetId={subnet}"),
            "InvalidParameterCombination",
        ),
        (
            format!("{good}&BlockDeviceMapping.1.DeviceName=/dev/xvda&BlockDeviceMapping.1.Ebs.VolumeSize=4"),
            "InvalidBlockDeviceMapping",
        ),
        (
            format!("{good}&BlockDeviceMapping.1.DeviceName=/dev/xvda&BlockDeviceMapping.1.Ebs.VolumeType=io2"),
            "InvalidBlockDeviceMapping",
        ),
        (format!("{good}&MetadataOptions.HttpPutResponseHopLimit=65"), "InvalidParameterValue"),
        (format!("{good}&LaunchTemplate.LaunchTemplateId=lt-1"), "UnsupportedOperation"),
    ] {
        let answer = bench.call("RunInstances", &change);
        assert_eq!((answer.status, answer.code().as_str()), (400, code), "{change}: {}", answer.body);
    }
    assert!(bench.world.instances(bench.now).is_empty(), "a refused launch leaves nothing behind");
    bench.call("RunInstances", &good).ok();
}

#[test]
fn the_answer_says_where_the_instance_is_and_what_it_has() {
    let mut bench = Bench::new();
    let host = bench.host("m5.large");
    let base = bench.on(&host, "m5.large");
    let base = base.replace("SubnetId=", "NetworkInterface.1.DeviceIndex=0&NetworkInterface.1.AssociatePublicIpAddress=true&NetworkInterface.1.SubnetId=");
    let tags: String = ["instance", "volume", "network-interface"]
        .iter()
        .zip(1..)
        .map(|(kind, n)| format!("&TagSpecification.{n}.ResourceType={kind}&TagSpecification.{n}.Tag.1.Key=k&TagSpecification.{n}.Tag.1.Value={kind}"))
        .collect();
    let answer = bench
        .call(
            "RunInstances",
            &format!("{base}{tags}&IamInstanceProfile.Name=nodes&BlockDeviceMapping.1.DeviceName=/dev/xvda&BlockDeviceMapping.1.Ebs.VolumeSize=30&MetadataOptions.HttpTokens=required"),
        )
        .ok();
    let placement = answer.one("placement");
    for part in [
        format!("<hostId>{host}</hostId>"),
        "<tenancy>host</tenancy>".to_owned(),
        "<affinity>host</affinity>".to_owned(),
        format!("<availabilityZone>{ZONE}</availabilityZone>"),
    ] {
        assert!(placement.contains(&part), "{placement}");
    }
    assert_eq!(answer.one("httpTokens"), "required");
    assert!(answer.one("iamInstanceProfile").contains(":instance-profile/nodes"));
    assert!(answer.one("ipAddress").starts_with("203.0.113."));
    let id = answer.one("instanceId");
    let volume =
        bench.call("DescribeVolumes", &format!("Filter.1.Name=attachment.instance-id&Filter.1.Value.1={id}")).ok();
    assert_eq!((volume.one("size").as_str(), volume.one("value").as_str()), ("30", "volume"));
    let nic = bench
        .call("DescribeNetworkInterfaces", &format!("Filter.1.Name=attachment.instance-id&Filter.1.Value.1={id}"))
        .ok();
    assert_eq!(nic.one("value"), "network-interface");
    let nic_id = nic.all("networkInterfaceId")[0].clone();
    let group = bench
        .world
        .place(ACCOUNT, REGION, bench.now)
        .unwrap()
        .groups
        .values()
        .find(|g| g.name == "node")
        .unwrap()
        .id
        .clone();
    bench
        .call("ModifyNetworkInterfaceAttribute", &format!("NetworkInterfaceId={nic_id}&SecurityGroupId.1={group}"))
        .ok();
    bench.call("ModifyInstanceMetadataOptions", &format!("InstanceId={id}&HttpPutResponseHopLimit=3")).ok();
    let seen =
        bench.call("DescribeInstances", &format!("Filter.1.Name=instance.group-id&Filter.1.Value.1={group}")).ok();
    assert_eq!(seen.one("httpPutResponseHopLimit"), "3");
    assert_eq!(seen.one("httpTokens"), "required", "what is not named stays");
}

#[test]
fn a_launch_of_several_takes_what_fits_if_it_is_enough() {
    let mut bench = Bench::new();
    let host = bench.host("m5.12xlarge");
    let launch = bench.on(&host, "m5.12xlarge");
    bench
        .call("RunInstances", &launch.replace("MinCount=1&MaxCount=1", "MinCount=3&MaxCount=4"))
        .refused(400, "InsufficientCapacityOnHost");
    let answer = bench.call("RunInstances", &launch.replace("MaxCount=1", "MaxCount=4")).ok();
    assert_eq!(answer.all("instanceId").len(), 2);
    assert_eq!(answer.all("reservationId").len(), 1);
}

#[test]
fn instances_outside_of_hosts_have_a_quota_of_processors_and_subnets_of_addresses() {
    let mut bench = Bench::new();
    bench.world.settings.vcpu_quota = 8;
    let (image, subnet) = (bench.image("x86_64"), bench.subnet(ZONE));
    let launch = format!("ImageId={image}&InstanceType=m5.xlarge&SubnetId={subnet}");
    bench.call("RunInstances", &format!("{launch}&MinCount=3&MaxCount=3")).refused(400, "VcpuLimitExceeded");
    bench.call("RunInstances", &format!("{launch}&MinCount=2&MaxCount=2")).ok();
    bench.call("RunInstances", &format!("{launch}&MinCount=1&MaxCount=1")).refused(400, "VcpuLimitExceeded");
    bench.world.settings.vcpu_quota = 10_000;
    bench.world.place(ACCOUNT, REGION, bench.now).unwrap().subnets.get_mut(&subnet).unwrap().addresses = 3;
    bench
        .call("RunInstances", &format!("{launch}&MinCount=2&MaxCount=2"))
        .refused(400, "InsufficientFreeAddressesInSubnet");
    let answer = bench.call("RunInstances", &format!("{launch}&MinCount=1&MaxCount=5")).ok();
    assert_eq!(answer.all("instanceId").len(), 1);
}

#[test]
fn filters_find_instances_by_token_host_and_tag() {
    let mut bench = Bench::new();
    let host = bench.host("m5.large");
    let launch = bench.on(&host, "m5.large");
    let tags =
        "TagSpecification.1.ResourceType=instance&TagSpecification.1.Tag.1.Key=owner&TagSpecification.1.Tag.1.Value=me";
    let id = bench.call("RunInstances", &format!("{launch}&ClientToken=t&{tags}")).ok().one("instanceId");
    bench.launch(&host, "m5.large");
    for (name, value, count) in [
        ("client-token", "t", 1),
        ("host-id", host.as_str(), 2),
        ("tenancy", "host", 2),
        ("affinity", "host", 2),
        ("tag:owner", "m*", 1),
        ("tag-key", "owner", 1),
        ("tag:owner", "you", 0),
        ("instance-state-name", "pending", 2),
        ("instance-type", "m5.*", 2),
        ("client-token", "other", 0),
    ] {
        let answer = bench.call("DescribeInstances", &format!("Filter.1.Name={name}&Filter.1.Value.1={value}")).ok();
        assert_eq!(answer.all("instanceId").len(), count, "{name}={value}");
    }
    let both = "Filter.1.Name=client-token&Filter.1.Value.1=t&Filter.2.Name=tag:owner&Filter.2.Value.1=me";
    assert_eq!(bench.call("DescribeInstances", both).ok().one("instanceId"), id);
    bench.call("DescribeInstances", "Filter.1.Name=colour&Filter.1.Value.1=red").refused(400, "InvalidParameterValue");
}

#[test]
fn licensed_and_unavailable_images_are_refused_on_hosts() {
    let mut bench = Bench::new();
    let host = bench.host("m5.large");
    let (launch, id) = (bench.on(&host, "m5.large"), bench.image("x86_64"));
    let now = bench.now;
    let change = |bench: &mut Bench, licensed: bool, state: &str| {
        let image = bench.world.place(ACCOUNT, REGION, now).unwrap().images.get_mut(&id).unwrap();
        (image.licensed, image.state) = (licensed, state.to_owned());
    };
    change(&mut bench, true, "available");
    bench.call("RunInstances", &launch).refused(400, "UnsupportedOperation");
    change(&mut bench, false, "deregistered");
    bench.call("RunInstances", &launch).refused(400, "InvalidAMIID.Unavailable");
}
