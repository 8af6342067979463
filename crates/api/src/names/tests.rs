use super::*;
use proptest::prelude::*;

#[test]
fn names_are_accepted_and_refused_at_their_edges() {
    fn ok<T: FromStr>(texts: &[&str]) {
        for t in texts {
            assert!(t.parse::<T>().is_ok(), "{t} refused");
        }
    }
    fn no<T: FromStr<Err = NameError>>(texts: &[&str]) {
        for t in texts {
            let error = t.parse::<T>().err().unwrap_or_else(|| panic!("{t} accepted"));
            assert!(error.to_string().contains("must be") || error.to_string().contains("must look"), "{error}");
        }
    }
    let (l63, l64) = ("a".repeat(63), "a".repeat(64));
    ok::<DnsLabel>(&["a", "0", "a-b", &l63]);
    no::<DnsLabel>(&["", "-a", "a-", "A", "a.b", "ä", "a\n", "../a", &l64]);
    ok::<DnsSubdomain>(&["a", "a.b-c.d", &format!("{l63}.{l63}.{l63}.{}", "a".repeat(61))]);
    no::<DnsSubdomain>(&["", ".a", "a.", "a..b", &l64, &format!("{l63}.{l63}.{l63}.{}", "a".repeat(62))]);
    ok::<Region>(&["us-east-1", "us-gov-west-1", "eusc-de-east-1", "ap-southeast-12"]);
    no::<Region>(&["", "us", "us-1", "us-east", "us-east-1a", "US-EAST-1", "us--1", "us-east-1-", "us-east-1 "]);
    ok::<AvailabilityZone>(&["us-east-1a", "us-west-2-lax-1a", "us-east-1-wl1-bos-wlz-1"]);
    no::<AvailabilityZone>(&["", "us-east-1", "us-east-1aa", "us-east-1A", "us-east-1-", "us-east-1-a--b", "a"]);
    ok::<HostId>(&["h-0123456789abcdef0", "h-01234567"]);
    no::<HostId>(&["", "h-", "h-0123", "i-01234567", "h-0123456g", "H-01234567", "h-01234567/"]);
    ok::<InstanceId>(&["i-0123456789abcdef0", "i-01234567"]);
    no::<InstanceId>(&["", "h-01234567", "i-0123456789ABCDEF0"]);
    ok::<SubnetId>(&["subnet-0a1b2c3d"]);
    no::<SubnetId>(&["", "subnet-", "subnet-0a", "sg-0a1b2c3d"]);
    ok::<VpcId>(&["vpc-0a1b2c3d"]);
    ok::<SecurityGroupId>(&["sg-0a1b2c3d4e5f60718"]);
    ok::<ImageId>(&["ami-0a1b2c3d"]);
    ok::<VolumeId>(&["vol-0a1b2c3d"]);
    ok::<NetworkInterfaceId>(&["eni-0a1b2c3d"]);
    no::<NetworkInterfaceId>(&["eni-0a1b2c3", "eni-0A1B2C3D"]);
    ok::<InstanceFamily>(&["m5", "c5n", "r6gd", "u-6tb1", "u7i-12tb", "mac1", "mac2-m2pro", "mac-m4"]);
    no::<InstanceFamily>(&["", "M5", "m5.large", "-m5", "m5-", "m 5", "mm", "5m", "m--5", &"m5".repeat(11)]);
    ok::<InstanceType>(&["m5.large", "u-6tb1.metal", "mac2-m2pro.metal", "u7i-12tb.224xlarge", "m7i.metal-24xl"]);
    no::<InstanceType>(&["", "m5", "m5.", ".large", "m5.Large", "m5.4xlarge.x", "m 5.large"]);
    ok::<ClientToken>(&["a", "dh-6f0c3c2e-0000-4000-8000-000000000001-1", &l64]);
    no::<ClientToken>(&["", "a b", "ä", "a\n", &"a".repeat(65)]);
    ok::<AccountId>(&["123456789012"]);
    no::<AccountId>(&["", "12345678901", "1234567890123", "12345678901a"]);
    ok::<RoleArn>(&["arn:aws:iam::123456789012:role/a", "arn:aws-us-gov:iam::123456789012:role/path/a+b=c,d.e@f-g_h"]);
    no::<RoleArn>(&[
        "",
        "arn:aws:iam::123456789012:user/a",
        "arn:aws:iam::123456789012:role/",
        "arn:aws:iam:us-east-1:123456789012:role/a",
        "arn:aws:iam::12345678901:role/a",
        "arn:aws:iam::123456789012:role/a b",
        "arn:other:iam::123456789012:role/a",
    ]);
    ok::<ClaimUid>(&["6f0c3c2e-0000-4000-8000-000000000001"]);
    no::<ClaimUid>(&["", "a b", "a/b", "ü", &l64]);
    ok::<Uid>(&["6f0c3c2e-0000-4000-8000-000000000001", "system:x_1.2"]);
    no::<Uid>(&["", "a b", "\u{0}", &"a".repeat(129)]);
    ok::<ProviderId>(&["aws:///us-east-1a/i-01234567", "kind://docker/c/n", "metal3://x", "cloudstack:///x"]);
    no::<ProviderId>(&["", "aws", "aws://", "aws:///", "://x", "Aws://x", "aws://a b", "aws://é", &l64]);
}

#[test]
fn a_zone_knows_its_region() {
    for (zone, region) in [
        ("us-east-1a", "us-east-1"),
        ("us-west-2-lax-1a", "us-west-2"),
        ("us-east-1-wl1-bos-wlz-1", "us-east-1"),
        ("us-gov-west-1b", "us-gov-west-1"),
    ] {
        assert_eq!(zone.parse::<AvailabilityZone>().unwrap().region().as_str(), region);
    }
}

#[test]
fn a_type_knows_its_family_and_a_role_its_account() {
    assert_eq!("mac2-m2pro.metal".parse::<InstanceType>().unwrap().family().as_str(), "mac2-m2pro");
    let role: RoleArn = "arn:aws:iam::123456789012:role/a/b".parse().unwrap();
    assert_eq!(role.account().as_str(), "123456789012");
}

#[test]
fn provider_ids_point_at_what_they_name() {
    let id = |s: &str| s.parse::<ProviderId>().unwrap();
    let (zone, instance) = ("us-east-1a".parse().unwrap(), "i-0123456789abcdef0".parse().unwrap());
    let aws = ProviderId::aws(&zone, &instance);
    assert_eq!(aws, id("aws:///us-east-1a/i-0123456789abcdef0"));
    assert_eq!(aws.target(), ProviderTarget::Aws { zone, instance });
    assert_eq!(aws.scheme(), "aws");
    let metal = ProviderId::metal3(&"ns".parse().unwrap(), &"claim-1".parse().unwrap(), &"machine-1".parse().unwrap());
    assert_eq!(metal.target(), ProviderTarget::Metal3 { parts: vec!["ns", "claim-1", "machine-1"] });
    assert_eq!(id("metal3://uid").target(), ProviderTarget::Metal3 { parts: vec!["uid"] });
    assert_eq!(id("cloudstack:///vm").target(), ProviderTarget::CloudStack { machine: "vm" });
    for other in ["aws:///us-east-1a/x", "aws://i-01234567", "metal3://a//b", "cloudstack:///a/b", "gce://p/z/n"] {
        assert_eq!(id(other).target(), ProviderTarget::Other, "{other}");
    }
}

#[test]
fn an_error_names_the_thing_the_text_and_the_rule_and_stays_short() {
    let error = "x".repeat(10_000).parse::<HostId>().unwrap_err().to_string();
    assert!(error.starts_with("dedicated host id \"xxx") && error.contains("must be h-"), "{error}");
    assert!(error.len() < 300);
    assert_eq!(field_manager("vip"), "berth-vip");
}

fn round_trip<T>(text: &str) -> Result<(), TestCaseError>
where
    T: FromStr<Err = NameError> + fmt::Display + PartialEq + fmt::Debug + Serialize + serde::de::DeserializeOwned,
{
    let json = serde_json::to_string(text).unwrap();
    match text.parse::<T>() {
        Ok(value) => {
            prop_assert_eq!(value.to_string(), text);
            prop_assert_eq!(serde_json::to_string(&value).unwrap(), json.clone());
            prop_assert_eq!(serde_json::from_str::<T>(&json).unwrap(), value);
        }
        Err(_) => prop_assert!(serde_json::from_str::<T>(&json).is_err()),
    }
    Ok(())
}

fn all_types(text: &str) -> Result<(), TestCaseError> {
    round_trip::<DnsLabel>(text)?;
    round_trip::<DnsSubdomain>(text)?;
    round_trip::<Uid>(text)?;
    round_trip::<ClaimUid>(text)?;
    round_trip::<Region>(text)?;
    round_trip::<AvailabilityZone>(text)?;
    round_trip::<HostId>(text)?;
    round_trip::<InstanceId>(text)?;
    round_trip::<ProviderId>(text)?;
    round_trip::<SubnetId>(text)?;
    round_trip::<InstanceFamily>(text)?;
    round_trip::<InstanceType>(text)?;
    round_trip::<ClientToken>(text)?;
    round_trip::<AccountId>(text)?;
    round_trip::<RoleArn>(text)?;
    if let Ok(id) = text.parse::<ProviderId>() {
        let _ = (id.target(), id.scheme().len());
    }
    Ok(())
}

proptest! {
    #[test]
    fn any_text_is_parsed_losslessly_or_refused_without_panic(text in any::<String>()) {
        all_types(&text)?;
    }

    #[test]
    fn texts_close_to_valid_ones_are_parsed_losslessly_or_refused(
        text in "(h-|i-|aws:///|metal3://|cloudstack:///|)[a-f0-9/.-]{0,20}|[a-z]{2}-[a-z]{4}-[0-9](a|-[a-z]{3}-1a|)"
    ) {
        all_types(&text)?;
    }

    #[test]
    fn every_zone_and_instance_survive_a_provider_id(zone in "[a-z]{2}-[a-z]{4,9}-[1-9][a-f]", id in "i-[0-9a-f]{17}") {
        let (zone, instance): (AvailabilityZone, InstanceId) = (zone.parse().unwrap(), id.parse().unwrap());
        let text = ProviderId::aws(&zone, &instance).to_string();
        let parsed: ProviderId = text.parse().unwrap();
        prop_assert_eq!(parsed.target(), ProviderTarget::Aws { zone, instance });
    }
}

#[test]
fn each_kind_of_claim_has_its_own_finalizer() {
    assert_eq!(claims::finalizer("baremetal"), "metal3.io/hostclaim");
    assert_eq!(claims::finalizer("cloudstack-vm"), "cloudstack-vm.berth.dev/hostclaim");
}
