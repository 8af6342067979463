//! The fault script.

use std::time::Duration;

use sim::ec2::wire::refusal::Refusal;
use sim::ec2::world::engine::Reply;
use sim::ec2::world::faults::{Fault, What};

use crate::support::{Bench, ZONE, encode};

const ASK: &str = "AvailabilityZone=us-east-1a&InstanceType=m5.large&Quantity=1&ClientToken=t";

#[test]
fn the_nth_call_fails_before_its_effect() {
    let mut bench = Bench::new();
    bench.world.script.add(Fault::refuse("AllocateHosts", 500, "InternalError").nth(2));
    bench.call("DescribeHosts", "").ok();
    bench.call("AllocateHosts", &ASK.replace("=t", "=a")).ok();
    bench.call("AllocateHosts", &ASK.replace("=t", "=b")).refused(500, "InternalError");
    assert_eq!(bench.world.hosts(bench.now).len(), 1);
    bench.call("AllocateHosts", &ASK.replace("=t", "=b")).ok();
    assert_eq!(bench.world.script.pending(), 0);
}

#[test]
fn a_call_may_fail_after_its_effect_and_is_found_again_by_its_token() {
    let mut bench = Bench::new();
    bench.world.script.add(Fault::on("AllocateHosts", What::RefuseAfter(Refusal::new(500, "InternalError", "x"))));
    bench.world.script.add(Fault::on("AllocateHosts", What::CutAfter).nth(2));
    bench.call("AllocateHosts", ASK).refused(500, "InternalError");
    assert_eq!(bench.world.hosts(bench.now).len(), 1, "it was done all the same");
    assert_eq!(bench.call("AllocateHosts", ASK).status, 0, "the answer is lost");
    let id = bench.call("AllocateHosts", ASK).ok().one("item");
    assert_eq!(bench.world.hosts(bench.now).iter().map(|host| host.id.clone()).collect::<Vec<_>>(), [id]);
    let log = bench.world.log.entries();
    let outcomes: Vec<(u16, &str, bool)> = log.iter().map(|e| (e.status, e.code.as_str(), e.scripted)).collect();
    assert_eq!(outcomes, [(500, "InternalError", true), (0, "Cut", true), (200, "", false)]);
}

#[test]
fn a_lost_request_has_no_effect() {
    let mut bench = Bench::new();
    bench.world.script.add(Fault::on("AllocateHosts", What::CutBefore));
    assert_eq!(bench.call("AllocateHosts", ASK).status, 0);
    assert!(bench.world.hosts(bench.now).is_empty());
}

#[test]
fn throttling_denial_delay_and_garbage_can_be_scripted() {
    let mut bench = Bench::new();
    bench.world.script.add(Fault::throttle("DescribeHosts").times(2));
    bench.call("DescribeHosts", "").refused(503, "RequestLimitExceeded");
    bench.call("DescribeHosts", "").refused(503, "RequestLimitExceeded");
    bench.call("DescribeHosts", "").ok();
    bench.world.script.add(Fault::deny("AllocateHosts"));
    for _ in 0..3 {
        bench.call("AllocateHosts", ASK).refused(403, "UnauthorizedOperation");
    }
    bench.world.script.clear();
    bench.call("AllocateHosts", ASK).ok();
    bench.world.script.add(Fault::on("*", What::Delay(Duration::from_secs(9))));
    let request = bench.signer.form("Action=DescribeHosts&Version=2016-11-15", bench.now);
    match bench.world.handle(bench.now, bench.now, &request) {
        Reply::Answer { delay, status, .. } => assert_eq!((delay, status), (Duration::from_secs(9), 200)),
        other => panic!("{other:?}"),
    }
    let html = What::Raw { status: 502, content_type: "text/html".into(), body: b"<html>".to_vec() };
    bench.world.script.add(Fault::on("DescribeHosts", html));
    let answer = bench.call("DescribeHosts", "");
    assert_eq!((answer.status, answer.body.as_str()), (502, "<html>"));
}

#[test]
fn capacity_runs_short_by_type_and_zone() {
    let mut bench = Bench::new();
    bench.world.script.run_short("AllocateHosts", "m5", "us-east-1a");
    bench.call("AllocateHosts", ASK).refused(500, "InsufficientHostCapacity");
    bench.call("AllocateHosts", &ASK.replace("1a", "1b")).ok();
    bench.call("AllocateHosts", &ASK.replace("m5", "c5").replace("=t", "=u")).ok();
    bench.world.script.restock();
    let host = bench.call("AllocateHosts", ASK).ok().one("item");
    bench.pass(2);
    bench.world.script.run_short("RunInstances", "m5.large", ZONE);
    let launch = bench.on(&host, "m5.large");
    bench.call("RunInstances", &launch).refused(500, "InsufficientInstanceCapacity");
}

#[test]
fn fewer_hosts_than_asked_for_may_come() {
    let mut bench = Bench::new();
    bench.world.script.add(Fault::on("AllocateHosts", What::Partial(2)));
    let answer = bench.call("AllocateHosts", &ASK.replace("Quantity=1", "Quantity=3")).ok();
    assert_eq!(answer.all("item").len(), 2);
}

#[test]
fn single_items_may_be_refused() {
    let mut bench = Bench::new();
    let (a, b) = (bench.host("m5.large"), bench.host("m5.large"));
    let what = What::RefuseItems { id: a.clone(), code: "Client.InvalidHost.Occupied".into(), message: "x".into() };
    bench.world.script.add(Fault::on("ReleaseHosts", what));
    let answer = bench.call("ReleaseHosts", &format!("HostId.1={a}&HostId.2={b}")).ok();
    assert_eq!(answer.one("resourceId"), a);
    assert_eq!((bench.host_state(&a).as_str(), bench.host_state(&b).as_str()), ("available", "released"));
}

#[test]
fn pages_may_be_empty_repeat_themselves_or_end_in_an_empty_token() {
    let mut bench = Bench::new();
    let first = bench.call("DescribeInstanceTypes", "").ok();
    let token = first.one("nextToken");
    let next = |token: &str| format!("NextToken={}", encode(token));
    bench.world.script.add(Fault::on("DescribeInstanceTypes", What::EmptyPage));
    let empty = bench.call("DescribeInstanceTypes", &next(&token)).ok();
    assert!(empty.all("instanceType").is_empty());
    assert_ne!(empty.one("nextToken"), token);
    let second = bench.call("DescribeInstanceTypes", &next(&empty.one("nextToken"))).ok();
    assert_eq!(second.all("instanceType").len(), 100);
    assert_eq!(second.body.replace(&second.one("requestId"), ""), {
        let plain = bench.call("DescribeInstanceTypes", &next(&token)).ok();
        plain.body.replace(&plain.one("requestId"), "")
    });
    bench.world.script.add(Fault::on("DescribeInstanceTypes", What::RepeatToken));
    let repeated = bench.call("DescribeInstanceTypes", &next(&token)).ok();
    assert_eq!(repeated.one("nextToken"), token);
    bench.world.script.add(Fault::on("DescribeInstanceTypes", What::EmptyToken));
    let last = bench.call("DescribeInstanceTypes", "InstanceType.1=m5.large").ok();
    assert!(last.body.contains("<nextToken/>"), "{}", last.body);
    bench.world.script.add(Fault::refuse("DescribeInstanceTypes", 500, "InternalError").nth(3));
    bench.call("DescribeInstanceTypes", "").ok();
    bench.call("DescribeInstanceTypes", &next(&token)).ok();
    bench.call("DescribeInstanceTypes", &next(&second.one("nextToken"))).refused(500, "InternalError");
}
