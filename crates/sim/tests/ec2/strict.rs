//! Only well-formed, well-signed requests for known operations with known parameters are answered.

use std::time::Duration;

use sim::ec2::world::engine::Request;

use crate::support::{Bench, Signer, encode};

#[test]
fn a_well_signed_request_is_answered_with_the_services_own_shape() {
    let mut bench = Bench::new();
    let answer = bench.call("DescribeHosts", "").ok();
    assert!(answer.body.contains("<DescribeHostsResponse xmlns=\"http://ec2.amazonaws.com/doc/2016-11-15/\">"));
    assert!(answer.body.contains("<hostSet/>"), "{}", answer.body);
    assert_eq!(answer.one("requestId").len(), 36);
    assert!(answer.all("nextToken").is_empty());
    let refused = bench.call("Nope", "").refused(400, "InvalidAction");
    assert!(refused.body.contains("<Response><Errors><Error><Code>InvalidAction</Code>"), "{}", refused.body);
    assert!(refused.body.contains("<RequestID>"));
}

#[test]
fn a_get_with_a_query_is_as_good_as_a_form() {
    let mut bench = Bench::new();
    let mut request = Request {
        method: "GET".into(),
        path: "/".into(),
        query: "Version=2016-11-15&Action=DescribeAvailabilityZones&Filter.1.Name=zone-type&Filter.1.Value.1=availability-zone".into(),
        headers: vec![("host".into(), "ec2.test".into())],
        body: Vec::new(),
    };
    bench.signer.sign(&mut request, bench.now);
    assert_eq!(bench.send(&request).ok().all("zoneName").len(), 6);
}

/// What a test does to a good request.
type Change = fn(&mut Request);

#[test]
fn requests_of_another_form_are_refused() {
    let mut bench = Bench::new();
    let good = bench.signer.form("Action=DescribeHosts&Version=2016-11-15", bench.now);
    let cases: [(&str, Change, u16, &str); 7] = [
        ("path", |r| r.path = "/x".into(), 404, "InvalidAction"),
        ("method", |r| r.method = "PUT".into(), 405, "InvalidAction"),
        ("query", |r| r.query = "a=b".into(), 400, "MalformedQueryString"),
        ("json", |r| r.headers[0].1 = "application/json".into(), 400, "MalformedQueryString"),
        ("bytes", |r| r.body = vec![0xff, 0xfe], 400, "MalformedQueryString"),
        ("escape", |r| r.body = b"Action=%zz".to_vec(), 400, "MalformedQueryString"),
        ("unsigned", |r| r.headers.retain(|(name, _)| name != "authorization"), 400, "MissingParameter"),
    ];
    for (what, change, status, code) in cases {
        let mut request = good.clone();
        // The headers were sorted for the signature; the content type is the first.
        assert_eq!(request.headers[0].0, "content-type");
        change(&mut request);
        let answer = bench.send(&request);
        assert_eq!((answer.status, answer.code().as_str()), (status, code), "{what}: {}", answer.body);
    }
}

#[test]
fn action_and_version_must_be_given_and_known() {
    let mut bench = Bench::new();
    for (body, code) in [
        ("Version=2016-11-15", "MissingAction"),
        ("Action=&Version=2016-11-15", "MissingAction"),
        ("Action=DescribeHosts", "NoSuchVersion"),
        ("Action=DescribeHosts&Version=2014-01-01", "NoSuchVersion"),
        ("Action=MonitorInstances&Version=2016-11-15", "InvalidAction"),
        ("Action=GetCallerIdentity&Version=2016-11-15", "InvalidAction"),
        ("Action=DescribeHosts&Action=DescribeHosts&Version=2016-11-15", "MalformedQueryString"),
    ] {
        let request = bench.signer.form(body, bench.now);
        bench.send(&request).refused(400, code);
    }
}

#[test]
fn a_signature_that_does_not_fit_is_refused() {
    let mut bench = Bench::new();
    let body = "Action=DescribeHosts&Version=2016-11-15";
    let wrong_secret = Signer { secret: "other".into(), ..Signer::default() };
    let wrong_key = Signer { access_key: "AKIANOBODY".into(), ..Signer::default() };
    let stray_session = Signer { session: Some("x".into()), ..Signer::default() };
    for signer in [wrong_secret, wrong_key, stray_session] {
        let request = signer.form(body, bench.now);
        bench.send(&request).refused(401, "AuthFailure");
    }
    let mut tampered = bench.signer.form(body, bench.now);
    tampered.body = b"Action=DescribeVpcs&Version=2016-11-15".to_vec();
    bench.send(&tampered).refused(401, "AuthFailure");
    let mut lying = bench.signer.form(body, bench.now);
    lying.headers.retain(|(name, _)| name != "authorization" && name != "x-amz-date");
    lying.headers.push(("x-amz-content-sha256".into(), "UNSIGNED-PAYLOAD".into()));
    bench.signer.sign(&mut lying, bench.now);
    bench.send(&lying).refused(401, "AuthFailure");
    let mut bare = bench.signer.form(body, bench.now);
    bare.headers.retain(|(name, _)| name != "x-amz-date");
    bench.send(&bare).refused(400, "IncompleteSignature");
    let mut extra = bench.signer.form(body, bench.now);
    extra.headers.push(("x-amz-security-token".into(), "unsigned".into()));
    bench.send(&extra).refused(400, "IncompleteSignature");
    let elsewhere = Signer { region: "mars-1".into(), ..Signer::default() };
    let request = elsewhere.form(body, bench.now);
    bench.send(&request).refused(401, "AuthFailure");
    let other = Signer { service: "s3".into(), ..Signer::default() };
    let request = other.form(body, bench.now);
    bench.send(&request).refused(403, "SignatureDoesNotMatch");
}

#[test]
fn a_request_more_than_five_minutes_off_has_expired() {
    let mut bench = Bench::new();
    let request = bench.signer.form("Action=DescribeHosts&Version=2016-11-15", bench.now);
    bench.pass(300);
    bench.send(&request).ok();
    bench.pass(1);
    bench.send(&request).refused(400, "RequestExpired");
    bench.now = jiff::Timestamp::from_second(bench.now.as_second() - 602).unwrap();
    bench.send(&request).refused(400, "RequestExpired");
    bench.world.settings.max_skew = None;
    bench.send(&request).ok();
    bench.world.settings.max_skew = Some(Duration::ZERO);
    bench.send(&request).refused(400, "RequestExpired");
}

#[test]
fn every_operation_refuses_parameters_it_does_not_know() {
    let mut bench = Bench::new();
    let host = bench.host("m5.large");
    let instance = bench.launch(&host, "m5.large");
    let launch = bench.on(&host, "m5.large");
    let cases = [
        ("AllocateHosts", "AvailabilityZone=us-east-1a&InstanceType=m5.large&Quantity=1".to_owned()),
        ("DescribeHosts", String::new()),
        ("ReleaseHosts", format!("HostId.1={host}")),
        ("ModifyHosts", format!("HostId.1={host}")),
        ("DescribeHostReservations", String::new()),
        ("RunInstances", launch),
        ("StopInstances", format!("InstanceId.1={instance}")),
        ("StartInstances", format!("InstanceId.1={instance}")),
        ("TerminateInstances", format!("InstanceId.1={instance}")),
        ("DescribeInstances", String::new()),
        ("ModifyInstanceMetadataOptions", format!("InstanceId={instance}")),
        ("DescribeVolumes", String::new()),
        ("DescribeNetworkInterfaces", String::new()),
        ("DescribeInstanceTypes", String::new()),
        ("DescribeInstanceTypeOfferings", String::new()),
        ("DescribeRegions", String::new()),
        ("DescribeAvailabilityZones", String::new()),
        ("DescribeImages", String::new()),
        ("DescribeSubnets", String::new()),
        ("DescribeSecurityGroups", String::new()),
        ("DescribeVpcs", String::new()),
        ("DescribeDhcpOptions", String::new()),
        ("CreateTags", format!("ResourceId.1={host}&Tag.1.Key=k&Tag.1.Value=v")),
        ("DeleteTags", format!("ResourceId.1={host}&Tag.1.Key=k")),
        ("DescribeTags", String::new()),
    ];
    for (action, parameters) in &cases {
        for stray in ["Nonsense=1", "Filter.1.Nonsense=1&Filter.1.Name=x", "HostIds.1=x"] {
            let answer = bench.call(action, &format!("{parameters}&{stray}"));
            assert_eq!(answer.status, 400, "{action} {stray}: {}", answer.body);
            assert!(
                ["UnknownParameter", "InvalidParameterValue"].contains(&answer.code().as_str()),
                "{action} {stray}: {}",
                answer.body
            );
        }
    }
    for (action, parameters) in &cases {
        // What is still on its way to another state can be neither stopped nor started.
        if ["StopInstances", "StartInstances"].contains(action) {
            bench.pass(120);
        }
        bench.call(action, parameters).ok();
    }
}

#[test]
fn host_operations_know_no_dry_run_and_the_others_do() {
    let mut bench = Bench::new();
    let host = bench.host("m5.large");
    for (action, parameters) in [
        ("AllocateHosts", "AvailabilityZone=us-east-1a&InstanceType=m5.large&Quantity=1".to_owned()),
        ("DescribeHosts", String::new()),
        ("ReleaseHosts", format!("HostId.1={host}")),
    ] {
        bench.call(action, &format!("{parameters}&DryRun=true")).refused(400, "UnknownParameter");
    }
    let launch = bench.on(&host, "m5.large");
    bench.call("RunInstances", &format!("{launch}&DryRun=true")).refused(412, "DryRunOperation");
    assert!(bench.world.instances(bench.now).is_empty(), "a dry run launches nothing");
    let tag = format!("ResourceId.1={host}&Tag.1.Key=k&Tag.1.Value=v&DryRun=true");
    bench.call("CreateTags", &tag).refused(412, "DryRunOperation");
    assert!(bench.call("DescribeTags", "").ok().all("key").is_empty());
    bench.call("DescribeInstances", "DryRun=maybe").refused(400, "InvalidParameterValue");
}

#[test]
fn texts_survive_the_wire_unharmed() {
    let mut bench = Bench::new();
    let value = "a/b c+d=e:@_-. é 日本";
    let host = bench.allocate(&format!(
        "InstanceType=m5.large&TagSpecification.1.ResourceType=dedicated-host&TagSpecification.1.Tag.1.Key=owner&TagSpecification.1.Tag.1.Value={}",
        encode(value)
    ));
    let hosts = bench.world.hosts(bench.now);
    assert_eq!(hosts[0].tags["owner"], value);
    assert_eq!(bench.call("DescribeHosts", &format!("HostId.1={host}")).ok().one("value"), value);
}

#[test]
fn secrets_are_not_kept_in_the_log() {
    let mut bench = Bench::new();
    let host = bench.host("m5.large");
    let launch = bench.on(&host, "m5.large");
    bench.call("RunInstances", &format!("{launch}&UserData=c2VjcmV0LWJ5dGVz")).ok();
    let kept = format!("{:?}", bench.world.log.entries());
    assert!(!kept.contains("c2VjcmV0") && kept.contains("*** 16 bytes"), "user data is replaced by its length");
}
