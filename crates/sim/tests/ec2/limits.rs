//! Request limits on the world's own clock.

use sim::ec2::world::settings::{Settings, Throttle};

use crate::support::{Bench, Signer, ZONE};

fn bench() -> Bench {
    Bench::with(Settings { host_quota: 10_000, ..Settings::default() })
}

fn granted(bench: &mut Bench, action: &str, parameters: &str, tries: usize) -> usize {
    (0..tries)
        .filter(|_| {
            let answer = bench.call(action, parameters);
            assert!(answer.status != 503 || answer.code() == "RequestLimitExceeded", "{}", answer.body);
            answer.status != 503
        })
        .count()
}

#[test]
fn each_operation_has_its_own_bucket_and_it_refills_with_the_clock() {
    let mut bench = bench();
    let ask = "AvailabilityZone=us-east-1a&InstanceType=m5.large&Quantity=1";
    assert_eq!(granted(&mut bench, "AllocateHosts", ask, 60), 50);
    assert_eq!(granted(&mut bench, "DescribeHosts", "", 110), 100);
    assert_eq!(granted(&mut bench, "DescribeVpcs", "", 110), 100, "others are not affected");
    bench.pass(1);
    assert_eq!(granted(&mut bench, "AllocateHosts", ask, 60), 5);
    assert_eq!(granted(&mut bench, "DescribeHosts", "", 110), 20);
    bench.pass(3_600);
    assert_eq!(granted(&mut bench, "AllocateHosts", ask, 60), 50, "never more than its size");
}

#[test]
fn a_listing_of_everything_has_a_smaller_bucket() {
    let mut bench = bench();
    assert_eq!(granted(&mut bench, "DescribeInstances", "", 120), 50);
    assert_eq!(granted(&mut bench, "DescribeInstances", "MaxResults=5", 120), 100);
    assert_eq!(granted(&mut bench, "DescribeHostReservations", "", 10), 5);
}

#[test]
fn launches_and_terminations_also_take_a_token_for_each_instance() {
    let mut bench = bench();
    let (image, subnet) = (bench.image("x86_64"), bench.subnet(ZONE));
    let launch = format!("ImageId={image}&InstanceType=t3.nano&SubnetId={subnet}&MinCount=1");
    bench.call("RunInstances", &format!("{launch}&MaxCount=1000")).ok();
    bench.call("RunInstances", &format!("{launch}&MaxCount=1")).refused(503, "RequestLimitExceeded");
    bench.pass(1);
    bench.call("RunInstances", &format!("{launch}&MaxCount=3")).refused(503, "RequestLimitExceeded");
    let left = bench.call("RunInstances", &format!("{launch}&MaxCount=2"));
    assert_ne!(left.status, 503, "{}", left.body);
}

#[test]
fn limits_are_per_account_and_region_and_can_be_scaled() {
    let mut bench = bench();
    assert_eq!(granted(&mut bench, "DescribeVpcs", "", 110), 100);
    bench.signer.region = "eu-west-1".into();
    assert_eq!(granted(&mut bench, "DescribeVpcs", "", 110), 100);
    bench.world.add_user("210987654321", "AKIAOTHER", "s");
    bench.signer = Signer { access_key: "AKIAOTHER".into(), secret: "s".into(), ..Signer::default() };
    bench.world.settings.throttle = Throttle::Percent(10);
    assert_eq!(granted(&mut bench, "DescribeVpcs", "", 110), 10);
}

#[test]
fn a_refused_signature_costs_no_token() {
    let mut bench = bench();
    let good = bench.signer.clone();
    bench.signer.secret = "wrong".into();
    for _ in 0..200 {
        bench.call("DescribeVpcs", "").refused(401, "AuthFailure");
    }
    bench.signer = good;
    assert_eq!(granted(&mut bench, "DescribeVpcs", "", 110), 100);
}
