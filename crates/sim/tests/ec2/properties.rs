//! What holds whatever is asked, in whatever order.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;
use sim::ec2::world::host::{HostKind, HostState};
use sim::ec2::world::time::between;

use crate::support::{ACCOUNT, Bench, REGION, ZONE};

#[derive(Clone, Debug)]
enum Deed {
    Allocate { kind: usize, token: usize, quantity: u32 },
    Launch { host: usize, kind: usize, token: usize },
    Terminate { instance: usize },
    Release { host: usize },
    Fail { host: usize },
    Modify { host: usize, kind: usize },
    Pass(u64),
}

const KINDS: [&str; 5] = ["m5.12xlarge", "m5.24xlarge", "m5.metal", "c5.18xlarge", "mac2.metal"];
const WISHES: [&str; 6] = [
    "InstanceType=m5.12xlarge",
    "InstanceType=m5.24xlarge",
    "InstanceFamily=m5",
    "InstanceFamily=c5",
    "InstanceType=mac2.metal",
    "InstanceType=m5.metal&HostRecovery=on",
];

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        4 => (0..WISHES.len(), 0usize..4, 1u32..3).prop_map(|(kind, token, quantity)| Deed::Allocate { kind, token, quantity }),
        6 => (0usize..8, 0..KINDS.len(), 0usize..6).prop_map(|(host, kind, token)| Deed::Launch { host, kind, token }),
        3 => (0usize..8).prop_map(|instance| Deed::Terminate { instance }),
        3 => (0usize..8).prop_map(|host| Deed::Release { host }),
        1 => (0usize..8).prop_map(|host| Deed::Fail { host }),
        1 => (0usize..8, 0..KINDS.len()).prop_map(|(host, kind)| Deed::Modify { host, kind }),
        4 => prop_oneof![0u64..10, 0u64..1_000, 0u64..100_000].prop_map(Deed::Pass),
    ]
}

/// Checks everything that must hold of the world at a moment.
fn check(bench: &mut Bench) -> Result<(), TestCaseError> {
    let now = bench.now;
    let quota = bench.world.settings.host_quota;
    let carries: BTreeMap<&str, usize> = KINDS
        .iter()
        .chain(&["m5.large"])
        .map(|kind| (*kind, bench.world.find_type(kind).unwrap().per_host() as usize))
        .collect();
    let place = bench.world.place(ACCOUNT, REGION, now).unwrap();
    let mut families: BTreeMap<String, u32> = BTreeMap::new();
    for host in place.hosts.values().filter(|host| host.allocated <= now) {
        let load: Vec<_> = place.on_host(&host.id, now).collect();
        let used: u32 = load.iter().map(|instance| instance.vcpus).sum();
        prop_assert!(used <= host.server.vcpus, "{}: {used} of {} processors", host.id, host.server.vcpus);
        if let HostKind::Type(name) = &host.kind {
            let most = carries.get(name.as_str()).copied();
            prop_assert!(most.is_some_and(|most| load.len() <= most), "{}: {} instances", host.id, load.len());
            prop_assert!(load.iter().all(|instance| instance.kind == *name));
        }
        let state = *host.state.at(now).unwrap();
        if state == HostState::Released {
            prop_assert!(load.is_empty(), "a released host is empty");
        }
        if host.alive(now) {
            *families.entry(host.kind.family().to_owned()).or_default() += 1;
        }
        let (paid, empty) = place.paid(host, now);
        prop_assert!(empty <= paid);
    }
    for (family, count) in families {
        prop_assert!(count <= quota, "{count} {family} hosts");
    }
    for instance in place.instances.values().filter(|instance| !instance.ended(now)) {
        let on = instance.host.at(now).cloned().flatten();
        prop_assert!(on.is_some_and(|id| place.hosts.contains_key(&id)));
    }
    Ok(())
}

fn pick(all: &[String], at: usize) -> Option<String> {
    if all.is_empty() { None } else { all.get(at % all.len()).cloned() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn hosts_never_carry_more_than_they_can_and_tokens_hold(deeds in prop::collection::vec(deed(), 1..50)) {
        let mut bench = Bench::new();
        bench.world.settings.host_quota = 6;
        let start = bench.now;
        let (mut hosts, mut instances): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
        let mut tokens: BTreeMap<String, (String, Vec<String>)> = BTreeMap::new();
        for deed in deeds {
            match deed {
                Deed::Allocate { kind, token, quantity } => {
                    let wish = format!("AvailabilityZone={ZONE}&Quantity={quantity}&AutoPlacement=off&{}", WISHES[kind]);
                    let answer = bench.call("AllocateHosts", &format!("{wish}&ClientToken=t{token}"));
                    let ids = answer.all("item");
                    match tokens.get(&format!("t{token}")) {
                        Some((known, given)) if *known == wish => prop_assert_eq!(&ids, given, "the same again"),
                        Some(_) => prop_assert_eq!(answer.code(), "IdempotentParameterMismatch"),
                        None if answer.status == 200 => {
                            prop_assert_eq!(ids.len(), quantity as usize);
                            tokens.insert(format!("t{token}"), (wish, ids.clone()));
                            hosts.extend(ids);
                        }
                        None => prop_assert_eq!(answer.code(), "HostLimitExceeded"),
                    }
                }
                Deed::Launch { host, kind, token } => if let Some(host) = pick(&hosts, host) {
                    let launch = bench.on(&host, KINDS[kind]);
                    let answer = bench.call("RunInstances", &format!("{launch}&ClientToken=t{token}"));
                    if answer.status == 200 {
                        let id = answer.one("instanceId");
                        if !instances.contains(&id) {
                            instances.push(id);
                        }
                    }
                },
                Deed::Terminate { instance } => if let Some(id) = pick(&instances, instance) {
                    let _ = bench.call("TerminateInstances", &format!("InstanceId.1={id}"));
                },
                Deed::Release { host } => if let Some(id) = pick(&hosts, host) {
                    let answer = bench.release(&id);
                    prop_assert_eq!(answer.all("item").len(), 1, "either released or refused");
                },
                Deed::Fail { host } => if let Some(id) = pick(&hosts, host) {
                    let settings = bench.world.settings.clone();
                    let now = bench.now;
                    let place = bench.world.place(ACCOUNT, REGION, now).unwrap();
                    let seed = place.hosts.len() as u64;
                    hosts.extend(place.fail_host(now, &id, &settings, &mut sim::server::Rng::new(seed)));
                },
                Deed::Modify { host, kind } => if let Some(id) = pick(&hosts, host) {
                    let _ = bench.call("ModifyHosts", &format!("HostId.1={id}&InstanceType={}", KINDS[kind]));
                },
                Deed::Pass(seconds) => bench.pass(seconds),
            }
            // Tokens are forgotten after a day, and the model does not model that.
            if between(start, bench.now) > Duration::from_secs(80_000) {
                break;
            }
            check(&mut bench)?;
        }
        let living = bench.world.hosts(bench.now).into_iter().filter(|host| !host.state.is_released()).count();
        let leaks = bench.world.leaks(bench.now, "owner", &BTreeSet::new()).len();
        prop_assert_eq!(living, leaks, "nobody owns any of them");
    }

    #[test]
    fn no_parameters_break_the_world_or_change_it_by_a_refusal(
        calls in prop::collection::vec((0usize..26, prop::collection::vec((0usize..40, 0usize..26), 0..8)), 1..12),
    ) {
        const ACTIONS: [&str; 26] = [
            "AllocateHosts", "DescribeHosts", "ReleaseHosts", "ModifyHosts", "DescribeHostReservations", "RunInstances",
            "TerminateInstances", "DescribeInstances", "ModifyInstanceMetadataOptions", "DescribeVolumes",
            "DescribeNetworkInterfaces", "ModifyNetworkInterfaceAttribute", "DescribeInstanceTypes",
            "DescribeInstanceTypeOfferings", "DescribeRegions", "DescribeAvailabilityZones", "DescribeImages",
            "DescribeSubnets", "DescribeSecurityGroups", "DescribeVpcs", "DescribeDhcpOptions", "CreateTags", "DeleteTags",
            "DescribeTags", "Nonsense", "",
        ];
        const NAMES: [&str; 40] = [
            "AvailabilityZone", "AvailabilityZoneId", "InstanceType", "InstanceFamily", "Quantity", "AutoPlacement",
            "HostRecovery", "ClientToken", "HostId.1", "HostId.2", "HostId.x", "HostId", "InstanceId.1", "InstanceId",
            "Filter.1.Name", "Filter.1.Value.1", "Filter.1.Value", "MaxResults", "NextToken", "DryRun", "ImageId", "MinCount",
            "MaxCount", "SubnetId", "Placement.Tenancy", "Placement.HostId", "Placement", "UserData", "ResourceId.1",
            "Tag.1.Key", "Tag.1.Value", "TagSpecification.1.ResourceType", "TagSpecification.1.Tag.1.Key", "RegionName.1",
            "LocationType", "InstanceType.1", "NetworkInterfaceId", "SecurityGroupId.1", "BlockDeviceMapping.1.Ebs.VolumeSize",
            "NetworkInterface.1.DeviceIndex",
        ];
        const VALUES: [&str; 26] = [
            "", "1", "0", "5", "-1", "999999999999", "x", "true", "on", "off", "us-east-1a", "use1-az1", "m5.large", "m5",
            "mac2.metal", "h-00000000000000000", "i-00000000000000000", "HOST", "IMAGE", "SUBNET", "host", "state",
            "dedicated-host", "%F0%9F%92%A9", "%00", "tag-key",
        ];
        let mut bench = Bench::new();
        let host = bench.host("m5.large");
        let (image, subnet) = (bench.image("x86_64"), bench.subnet(ZONE));
        for (action, parameters) in calls {
            let text: Vec<String> = parameters
                .into_iter()
                .map(|(name, value)| {
                    let value = match VALUES[value] {
                        "HOST" => &host,
                        "IMAGE" => &image,
                        "SUBNET" => &subnet,
                        other => other,
                    };
                    format!("{}={value}", NAMES[name])
                })
                .collect();
            let before = (bench.world.hosts(bench.now), bench.world.instances(bench.now));
            let answer = bench.call(ACTIONS[action], &text.join("&"));
            prop_assert!([200, 400, 412].contains(&answer.status), "{} {:?}: {}", ACTIONS[action], text, answer.body);
            if answer.status != 200 {
                prop_assert!(!answer.code().is_empty());
                let after = (bench.world.hosts(bench.now), bench.world.instances(bench.now));
                prop_assert_eq!(before, after, "{} {:?}", ACTIONS[action], text);
            }
            check(&mut bench)?;
        }
    }
}
