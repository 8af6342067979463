//! The same suite of the client against two servers: the strict simulator of this project, and an EC2 that somebody else
//! wrote, where `BERTH_EC2_ENDPOINT` is its address, for instance moto's.
//!
//! Only what both model is asserted; `strict.rs` has tokens, occupancy and refusals.
#![cfg(feature = "net")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::collections::BTreeSet;
use std::time::Duration;

use aws::credentials::Source;
use aws::errors::Kind;
use aws::net::{Aws, Client, Meter, Options, Scope, Trust};
use aws::place::Endpoints;
use aws::port::{
    Affinity, AllocateHosts, Architecture, BlockDevice, Ec2, Filter, HostQuery, HostShape, HostState, Image,
    ImageQuery, InstanceQuery, InstanceState, Keys, LocationType, MetadataOptions, ModifyHosts, Placement, RunInstance,
    Sts, Switch, Tags, Tenancy, TypeQuery,
};
use kit::clock::Clock;
use sim::ec2::Handle;
use sim::ec2::world::settings::Throttle;

/// A server and a client of it.
struct Place {
    client: Client,
    /// Whose images there are.
    owner: &'static str,
    /// The oddest key and value of a tag that it takes: EC2 itself refuses some characters, and somebody else none.
    odd: (&'static str, &'static str),
    // It ends with this.
    _strict: Option<Handle>,
}

impl Place {
    async fn open() -> Self {
        if let Some(url) = std::env::var_os("BERTH_EC2_ENDPOINT").and_then(|url| url.into_string().ok()) {
            let odd = ("odd & <key>", "ä=\"1\"");
            return Self { client: client(&url, "AKIDEXAMPLE", "x"), owner: "amazon", odd, _strict: None };
        }
        let mut options = sim::ec2::Options::default();
        options.settings.throttle = Throttle::Off;
        // Somebody else's server does everything at once.
        let delays = &mut options.settings.delays;
        for delay in [&mut delays.allocate, &mut delays.launch, &mut delays.shut_down, &mut delays.vacate] {
            *delay = Duration::ZERO;
        }
        let strict = sim::ec2::start(options).await.unwrap();
        let client = client(&strict.endpoint, &strict.access_key, &strict.secret);
        Self { client, owner: "self", odd: ("odd +/@ key", "ä=1"), _strict: Some(strict) }
    }

    fn tags(&self, value: &str) -> Tags {
        let pairs = [("berth-test", value), self.odd];
        pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
    }

    /// An image that everything here can be launched from.
    async fn image(&self) -> Image {
        let query = ImageQuery { owners: vec![self.owner.to_owned()], ..ImageQuery::default() };
        let fits = |image: &Image| image.root_device.is_some() && image.architecture == Some(Architecture::X86_64);
        self.client.ec2().describe_images(&query).await.unwrap().into_iter().find(fits).expect("an image")
    }
}

fn client(url: &str, id: &str, secret: &str) -> Client {
    let flag = |service: &str| format!("{service}={url}").parse().unwrap();
    let scope = Scope {
        region: "us-east-1".parse().unwrap(),
        source: Source::Keys(Keys { id: id.to_owned(), secret: secret.to_owned().into(), session: None }),
        endpoints: Endpoints::new().flag(flag("ec2")).flag(flag("sts")),
        trust: Trust::System,
    };
    Aws::new(Options::new("berth/0"), Clock::system(), Meter::default()).client(&scope).unwrap()
}

#[tokio::test]
async fn a_host_is_allocated_found_tagged_and_released() {
    let place = Place::open().await;
    let ec2 = place.client.ec2();
    let request = AllocateHosts {
        token: "foreign-1".parse().unwrap(),
        zone: "us-east-1a".parse().unwrap(),
        shape: HostShape::Type("m5.large".parse().unwrap()),
        quantity: 2,
        recovery: None,
        maintenance: None,
        outpost_arn: None,
        asset_ids: Vec::new(),
        tags: place.tags("one"),
    };
    let ids = ec2.allocate_hosts(&request).await.unwrap();
    assert_eq!(ids.len(), 2);
    let found = ec2.describe_hosts(&HostQuery::Ids(ids.clone())).await.unwrap();
    assert_eq!(found.iter().map(|host| host.id.clone()).collect::<BTreeSet<_>>(), ids.iter().cloned().collect());
    for host in &found {
        assert_eq!(host.state, HostState::Available);
        assert_eq!(host.zone.as_ref().unwrap().as_str(), "us-east-1a");
        assert_eq!(host.instance_type.as_deref(), Some("m5.large"));
        assert_eq!(host.tags, place.tags("one"));
    }
    let change = ModifyHosts { hosts: vec![ids[1].clone()], recovery: Some(Switch::On), ..ModifyHosts::default() };
    assert_eq!(ec2.modify_hosts(&change).await.unwrap().verdict(&ids[1]), Some(Ok(())));
    let changed = ec2.describe_hosts(&HostQuery::Ids(vec![ids[1].clone()])).await.unwrap();
    assert_eq!(changed[0].recovery.as_deref(), Some("on"));
    let resource = [ids[0].to_string()];
    ec2.create_tags(&resource, &Tags::from([("berth-test".to_owned(), "two".to_owned())])).await.unwrap();
    let tagged = ec2.describe_hosts(&HostQuery::by_tag_key("berth-test")).await.unwrap();
    assert!(tagged.iter().any(|host| host.id == ids[0] && host.tags["berth-test"] == "two"), "{tagged:?}");
    ec2.delete_tags(&resource, &["berth-test".to_owned()]).await.unwrap();
    let listed = ec2.describe_tags(&[Filter::new("resource-id", resource.clone())]).await.unwrap();
    assert_eq!(listed.iter().map(|tag| tag.key.as_str()).collect::<Vec<_>>(), [place.odd.0]);
    let judged = ec2.release_hosts(&ids).await.unwrap();
    assert!(ids.iter().all(|id| judged.verdict(id) == Some(Ok(()))), "{judged:?}");
}

#[tokio::test]
async fn an_instance_is_launched_found_and_ended() {
    let place = Place::open().await;
    let ec2 = place.client.ec2();
    let subnet = ec2.describe_subnets(&[], &[Filter::new("availability-zone", ["us-east-1a"])]).await.unwrap();
    let subnet = subnet.first().expect("a default subnet");
    let vpc = subnet.vpc.clone().unwrap();
    let vpcs = ec2.describe_vpcs(std::slice::from_ref(&vpc)).await.unwrap();
    assert_eq!(vpcs[0].id, vpc);
    let groups = ec2.describe_security_groups(&[], &[Filter::new("vpc-id", [vpc.as_str()])]).await.unwrap();
    let image = place.image().await;
    let request = RunInstance {
        token: "foreign-2".parse().unwrap(),
        dry_run: false,
        image: image.id,
        instance_type: "m5.large".parse().unwrap(),
        subnet: subnet.id.clone(),
        security_groups: vec![groups[0].id.clone()],
        public_ip: Some(false),
        key_name: None,
        profile: None,
        block_devices: Vec::new(),
        metadata: MetadataOptions { http_tokens: Some("required".to_owned()), ..MetadataOptions::default() },
        user_data: Some(b"#cloud-config\n".to_vec().into()),
        placement: Placement { tenancy: Some(Tenancy::Default), ..Placement::default() },
        license_configuration_arns: Vec::new(),
        tags: place.tags("instance"),
    };
    let launched = ec2.run_instance(&request).await.unwrap();
    let found = ec2.describe_instances(&InstanceQuery::Ids(vec![launched.id.clone()])).await.unwrap();
    let one = &found[0];
    assert_eq!((&one.id, &one.state, one.instance_type.as_str()), (&launched.id, &InstanceState::Running, "m5.large"));
    assert_eq!((one.subnet.as_ref(), &one.tags), (Some(&subnet.id), &place.tags("instance")));
    assert!(one.private_ip.is_some() && one.interfaces.len() == 1 && !one.volumes.is_empty(), "{one:?}");
    let tagged = ec2.describe_instances(&InstanceQuery::by_tag("berth-test", "instance")).await.unwrap();
    assert!(tagged.iter().any(|instance| instance.id == one.id));
    let interface = one.interfaces[0].id.clone().unwrap();
    ec2.set_interface_security_groups(&interface, std::slice::from_ref(&groups[0].id)).await.unwrap();
    let filter = [Filter::new("attachment.instance-id", [one.id.as_str()])];
    let interfaces = ec2.describe_network_interfaces(&filter).await.unwrap();
    assert_eq!(interfaces[0].security_groups, [groups[0].id.clone()]);
    let volumes = ec2.describe_volumes(&filter).await.unwrap();
    assert!(volumes[0].attached_to.contains(&one.id), "{volumes:?}");
    let ended = ec2.terminate_instances(std::slice::from_ref(&one.id)).await.unwrap();
    assert_eq!(ended[0].id, one.id);
    let unknown = InstanceQuery::Ids(vec!["i-0123456789abcdef0".parse().unwrap()]);
    let error = ec2.describe_instances(&unknown).await.unwrap_err();
    assert_eq!((error.kind(), error.code()), (Kind::NotFound, Some("InvalidInstanceID.NotFound")));
    assert!(error.request_id().is_some());
}

#[tokio::test]
async fn an_instance_is_rehearsed_and_launched_on_a_host_of_its_own() {
    let place = Place::open().await;
    let ec2 = place.client.ec2();
    let hosts = AllocateHosts {
        token: "foreign-3".parse().unwrap(),
        zone: "us-east-1a".parse().unwrap(),
        shape: HostShape::Type("c5.large".parse().unwrap()),
        quantity: 1,
        recovery: Some(Switch::On),
        maintenance: None,
        outpost_arn: None,
        asset_ids: Vec::new(),
        tags: place.tags("own"),
    };
    let host = ec2.allocate_hosts(&hosts).await.unwrap().remove(0);
    let subnet = ec2.describe_subnets(&[], &[Filter::new("availability-zone", ["us-east-1a"])]).await.unwrap();
    let subnet = subnet.first().expect("a default subnet");
    let groups = [Filter::new("vpc-id", [subnet.vpc.clone().unwrap().as_str()])];
    let group = ec2.describe_security_groups(&[], &groups).await.unwrap().remove(0).id;
    let image = place.image().await;
    let root = BlockDevice {
        device_name: image.root_device.clone().unwrap(),
        size: Some(20),
        volume_type: Some("gp3".to_owned()),
        iops: None,
        throughput: None,
        encrypted: None,
        kms_key_id: None,
    };
    let placement = Placement {
        tenancy: Some(Tenancy::Host),
        host: Some(host.clone()),
        affinity: Some(Affinity::Host),
        ..Placement::default()
    };
    let launch = RunInstance {
        token: "foreign-4".parse().unwrap(),
        dry_run: false,
        image: image.id,
        instance_type: "c5.large".parse().unwrap(),
        subnet: subnet.id.clone(),
        security_groups: vec![group],
        public_ip: None,
        key_name: None,
        profile: None,
        block_devices: vec![root],
        metadata: MetadataOptions { http_tokens: Some("optional".to_owned()), ..MetadataOptions::default() },
        user_data: Some(vec![b'x'; 16 << 10].into()),
        placement,
        license_configuration_arns: Vec::new(),
        tags: place.tags("launched"),
    };
    let rehearsal = RunInstance {
        dry_run: true,
        placement: Placement { tenancy: Some(Tenancy::Host), ..Placement::default() },
        ..launch.clone()
    };
    let said = ec2.run_instance(&rehearsal).await.unwrap_err();
    assert_eq!((said.kind(), said.code()), (Kind::DryRun, Some("DryRunOperation")), "{said}");
    let launched = ec2.run_instance(&launch).await.unwrap();
    // moto does not look instances up by their token.
    let found = ec2.describe_instances(&InstanceQuery::by_tag("berth-test", "launched")).await.unwrap();
    assert_eq!(found.iter().map(|instance| &instance.id).collect::<Vec<_>>(), [&launched.id], "found by its tag");
    let one = &found[0];
    // moto says tenancy `default` whatever was asked for; the strict simulator does not.
    assert_eq!(one.host.as_ref(), Some(&host), "{one:?}");
    assert_eq!((&one.tags, one.zone.as_ref().unwrap().as_str()), (&place.tags("launched"), "us-east-1a"));
    let volumes = ec2.describe_volumes(&[Filter::new("attachment.instance-id", [one.id.as_str()])]).await.unwrap();
    assert!(!volumes.is_empty(), "{volumes:?}");
    let required = MetadataOptions { http_tokens: Some("required".to_owned()), ..MetadataOptions::default() };
    ec2.modify_instance_metadata_options(&one.id, &required).await.unwrap();
    let after = ec2.describe_instances(&InstanceQuery::Ids(vec![one.id.clone()])).await.unwrap();
    assert_eq!(after[0].metadata.http_tokens.as_deref(), Some("required"));
    assert_eq!(ec2.terminate_instances(std::slice::from_ref(&one.id)).await.unwrap()[0].id, one.id);
    let judged = ec2.release_hosts(std::slice::from_ref(&host)).await.unwrap();
    assert_eq!(judged.verdict(&host), Some(Ok(())));
}

#[tokio::test]
async fn the_catalogue_is_read_whole_and_by_name() {
    let place = Place::open().await;
    let ec2 = place.client.ec2();
    let all = ec2.describe_instance_types(&TypeQuery::All).await.unwrap();
    assert!(all.types.len() > 1000 && all.nameless == 0, "{} types", all.types.len());
    assert!(all.types.iter().all(|facts| facts.vcpus > 0 && facts.memory_mib > 0 && !facts.architectures.is_empty()));
    assert!(
        all.types.iter().any(|facts| !facts.gpus.is_empty()) && all.types.iter().any(|facts| !facts.neuron.is_empty())
    );
    let names = TypeQuery::Names(vec!["m5.xlarge".parse().unwrap()]);
    let one = ec2.describe_instance_types(&names).await.unwrap().types;
    assert_eq!((one.len(), one[0].vcpus, one[0].memory_mib, one[0].dedicated_hosts), (1, 4, 16384, true));
    assert_eq!((one[0].interfaces, one[0].ipv4_per_interface), (4, 15));
    let unknown = TypeQuery::Names(vec!["m5.xlrage".parse().unwrap()]);
    let error = ec2.describe_instance_types(&unknown).await.unwrap_err();
    assert_eq!((error.kind(), error.code()), (Kind::Terminal, Some("InvalidInstanceType")));
}

#[tokio::test]
async fn places_and_the_caller_are_known() {
    let place = Place::open().await;
    let ec2 = place.client.ec2();
    let regions = ec2.describe_regions().await.unwrap();
    assert!(regions.iter().any(|region| region.name == "us-east-1"));
    let zones = ec2.describe_availability_zones().await.unwrap();
    assert!(zones.iter().any(|zone| zone.name.as_str() == "us-east-1a" && zone.id.is_some()));
    let filter = [Filter::new("instance-type", ["m5.large"])];
    let offered = ec2.describe_instance_type_offerings(&LocationType::Zone, &filter).await.unwrap();
    assert!(offered.iter().any(|offering| offering.location == "us-east-1a"));
    assert_eq!(place.client.get_caller_identity().await.unwrap().account.as_str().len(), 12);
}
