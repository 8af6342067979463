//! At most once, by client token.

use crate::support::{ACCOUNT, Bench, REGION, Signer};

const ASK: &str = "AvailabilityZone=us-east-1a&InstanceType=m5.large&Quantity=1&AutoPlacement=off";

#[test]
fn the_same_request_under_one_token_allocates_once() {
    let mut bench = Bench::new();
    let first = bench.call("AllocateHosts", &format!("{ASK}&ClientToken=t")).ok().one("item");
    for order in [format!("ClientToken=t&{ASK}"), format!("{ASK}&ClientToken=t")] {
        assert_eq!(bench.call("AllocateHosts", &order).ok().one("item"), first);
    }
    assert_eq!(bench.world.hosts(bench.now).len(), 1);
    let found = bench.call("DescribeHosts", "Filter.1.Name=client-token&Filter.1.Value.1=t").ok();
    assert_eq!(found.one("hostId"), first);
}

#[test]
fn without_a_token_every_request_allocates() {
    let mut bench = Bench::new();
    bench.call("AllocateHosts", ASK).ok();
    bench.call("AllocateHosts", ASK).ok();
    assert_eq!(bench.world.hosts(bench.now).len(), 2);
}

#[test]
fn another_request_under_a_used_token_is_refused_whatever_differs() {
    let mut bench = Bench::new();
    bench.call("AllocateHosts", &format!("{ASK}&ClientToken=t")).ok();
    let tag = "TagSpecification.1.ResourceType=dedicated-host&TagSpecification.1.Tag.1.Key=k&TagSpecification.1.Tag.1.Value=v";
    for other in [
        ASK.replace("Quantity=1", "Quantity=2"),
        ASK.replace("m5.large", "m5.xlarge"),
        ASK.replace("=off", "=on"),
        format!("{ASK}&HostRecovery=on"),
        format!("{ASK}&{tag}"),
    ] {
        bench.call("AllocateHosts", &format!("{other}&ClientToken=t")).refused(400, "IdempotentParameterMismatch");
    }
    assert_eq!(bench.world.hosts(bench.now).len(), 1);
}

#[test]
fn a_token_is_good_for_one_zone_region_account_and_operation() {
    let mut bench = Bench::new();
    bench.call("AllocateHosts", &format!("{ASK}&ClientToken=t")).ok();
    let zone = ASK.replace("1a", "1b");
    bench.call("AllocateHosts", &format!("{zone}&ClientToken=t")).ok();
    assert_eq!(bench.world.hosts(bench.now).len(), 2, "another zone has a host of its own");
    bench.signer.region = "eu-west-1".into();
    let there = ASK.replace("us-east-1a", "eu-west-1a");
    bench.call("AllocateHosts", &format!("{there}&ClientToken=t")).ok();
    bench.world.add_user("210987654321", "AKIAOTHER", "s");
    bench.signer = Signer { access_key: "AKIAOTHER".into(), secret: "s".into(), ..Signer::default() };
    bench.call("AllocateHosts", &format!("{ASK}&ClientToken=t")).ok();
    assert_eq!(bench.world.hosts(bench.now).len(), 4);
    bench.signer = Signer::default();
    bench.pass(2);
    let host =
        bench.world.hosts(bench.now).into_iter().find(|h| h.zone == "us-east-1a" && h.account == ACCOUNT).unwrap().id;
    let launch = bench.on(&host, "m5.large");
    bench.call("RunInstances", &format!("{launch}&ClientToken=t")).ok();
}

#[test]
fn the_zone_id_names_the_same_zone_as_its_name() {
    let mut bench = Bench::new();
    let by_id = ASK.replace("AvailabilityZone=us-east-1a", "AvailabilityZoneId=use1-az1");
    bench.call("AllocateHosts", &format!("{ASK}&ClientToken=t")).ok();
    bench.call("AllocateHosts", &format!("{by_id}&ClientToken=t")).refused(400, "IdempotentParameterMismatch");
}

#[test]
fn a_refused_request_leaves_its_token_unused() {
    let mut bench = Bench::new();
    bench.world.settings.host_quota = 0;
    bench.call("AllocateHosts", &format!("{ASK}&ClientToken=t")).refused(400, "HostLimitExceeded");
    bench.world.settings.host_quota = 9;
    let other = ASK.replace("m5.large", "m5.xlarge");
    bench.call("AllocateHosts", &format!("{other}&ClientToken=t")).ok();
}

#[test]
fn a_used_token_is_answered_even_when_quota_and_capacity_are_gone() {
    let mut bench = Bench::new();
    let first = bench.call("AllocateHosts", &format!("{ASK}&ClientToken=t")).ok().one("item");
    bench.world.settings.host_quota = 0;
    bench.world.script.run_short("AllocateHosts", "*", "*");
    assert_eq!(bench.call("AllocateHosts", &format!("{ASK}&ClientToken=t")).ok().one("item"), first);
}

#[test]
fn tokens_are_forgotten_after_their_time() {
    let mut bench = Bench::new();
    bench.call("AllocateHosts", &format!("{ASK}&ClientToken=t")).ok();
    bench.pass(24 * 3_600 - 1);
    bench.call("AllocateHosts", &format!("{ASK}&ClientToken=t")).ok();
    assert_eq!(bench.world.hosts(bench.now).len(), 1);
    bench.pass(1);
    bench.call("AllocateHosts", &format!("{ASK}&ClientToken=t")).ok();
    assert_eq!(bench.world.hosts(bench.now).len(), 2);
}

#[test]
fn tokens_have_a_form() {
    let mut bench = Bench::new();
    for (token, good) in
        [("x".repeat(64), true), ("x".repeat(65), false), (String::new(), false), ("%C3%A9".into(), false)]
    {
        let answer = bench.call("AllocateHosts", &format!("{ASK}&ClientToken={token}"));
        assert_eq!(answer.status == 200, good, "{token}: {}", answer.body);
        assert!(good || answer.code() == "InvalidClientToken");
    }
}

#[test]
fn a_launch_is_repeated_by_its_token_until_its_instance_is_gone() {
    let mut bench = Bench::new();
    let host = bench.host("m5.large");
    let launch = format!("{}&ClientToken=t", bench.on(&host, "m5.large"));
    let first = bench.call("RunInstances", &launch).ok();
    let id = first.one("instanceId");
    assert_eq!(first.one("clientToken"), "t");
    bench.pass(10);
    let again = bench.call("RunInstances", &launch).ok();
    assert_eq!(again.one("instanceId"), id);
    assert_eq!(again.all("name")[0], "running", "the state in the answer is the present one");
    let other = launch.replace("m5.large", "m5.xlarge");
    let mismatch = bench.call("RunInstances", &other);
    assert_ne!(mismatch.status, 200);
    bench.call("RunInstances", &format!("{launch}&KeyName=default")).refused(400, "IdempotentParameterMismatch");
    bench.call("TerminateInstances", &format!("InstanceId.1={id}")).ok();
    bench.pass(5);
    bench.call("RunInstances", &launch).refused(400, "IdempotentInstanceTerminated");
    bench.pass(24 * 3_600 - 1);
    bench.call("RunInstances", &launch).refused(400, "IdempotentInstanceTerminated");
    bench.pass(1);
    bench.call("RunInstances", &launch).ok();
}

#[test]
fn a_launch_token_is_zonal_when_a_subnet_is_named_and_regional_when_not() {
    let mut bench = Bench::new();
    let image = bench.image("x86_64");
    let base = format!("ImageId={image}&InstanceType=m5.large&MinCount=1&MaxCount=1&ClientToken=t");
    let (a, b) = (bench.subnet("us-east-1a"), bench.subnet("us-east-1b"));
    bench.call("RunInstances", &format!("{base}&SubnetId={a}")).ok();
    bench.call("RunInstances", &format!("{base}&SubnetId={b}")).ok();
    assert_eq!(bench.world.instances(bench.now).len(), 2);
    bench.call("RunInstances", &base).ok();
    bench.call("RunInstances", &base).ok();
    assert_eq!(bench.world.instances(bench.now).len(), 3);
    assert_eq!(bench.world.place(ACCOUNT, REGION, bench.now).unwrap().instances.len(), 3);
}
