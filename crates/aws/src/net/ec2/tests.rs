//! Requests and answers in the documented shapes.

use proptest::prelude::*;

use super::*;
use crate::errors::Kind;
use crate::port::{
    Affinity, Architecture, BlockDevice, HostShape, HostState, InstanceState, OptIn, Placement, Switch, Tenancy,
};

fn pairs(form: &Form) -> Vec<(String, String)> {
    let body = form.encode("Do", "v");
    url::form_urlencoded::parse(body.as_bytes()).into_owned().skip(2).collect()
}

fn expect(form: &Form, expected: &[(&str, &str)]) {
    let expected: Vec<(String, String)> = expected.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    assert_eq!(pairs(form), expected);
}

fn document(text: &str) -> Document {
    Document::parse(text.as_bytes()).unwrap()
}

fn list<T>(text: &str, read: impl Fn(Node<'_>, &mut Vec<T>) -> Result<(), String>) -> Result<Vec<T>, String> {
    let mut found = Vec::new();
    read(document(text).root(), &mut found).map(|()| found)
}

fn allocation(shape: HostShape) -> AllocateHosts {
    AllocateHosts {
        token: "dh-1".parse().unwrap(),
        zone: "us-west-2a".parse().unwrap(),
        shape,
        quantity: 2,
        recovery: None,
        maintenance: None,
        outpost_arn: None,
        asset_ids: Vec::new(),
        tags: Tags::from([("Name".to_owned(), "a b".to_owned())]),
    }
}

#[test]
fn an_allocation_names_either_type_or_family_and_never_places_automatically() {
    let common = [
        ("AvailabilityZone", "us-west-2a"),
        ("AutoPlacement", "off"),
        ("ClientToken", "dh-1"),
        ("Quantity", "2"),
        ("TagSpecification.1.ResourceType", "dedicated-host"),
        ("TagSpecification.1.Tag.1.Key", "Name"),
        ("TagSpecification.1.Tag.1.Value", "a b"),
    ];
    let by_type = allocation(HostShape::Type("m5.metal".parse().unwrap()));
    expect(&hosts::allocate(&by_type), &[&common[..], &[("InstanceType", "m5.metal")]].concat());
    let by_family = allocation(HostShape::Family("m5".parse().unwrap()));
    expect(&hosts::allocate(&by_family), &[&common[..], &[("InstanceFamily", "m5")]].concat());
    let mut full = by_type;
    full.tags = Tags::new();
    full.recovery = Some(Switch::On);
    full.maintenance = Some(Switch::Off);
    full.outpost_arn = Some("arn:o".to_owned());
    full.asset_ids = vec!["a1".to_owned(), "a2".to_owned()];
    expect(
        &hosts::allocate(&full),
        &[
            &common[..4],
            &[
                ("HostRecovery", "on"),
                ("HostMaintenance", "off"),
                ("OutpostArn", "arn:o"),
                ("AssetId.1", "a1"),
                ("AssetId.2", "a2"),
                ("InstanceType", "m5.metal"),
            ],
        ]
        .concat(),
    );
}

#[test]
fn a_change_of_hosts_names_them_and_what_shall_be_otherwise() {
    let hosts = vec!["h-0123456789abcdef0".parse().unwrap(), "h-0123456789abcdef1".parse().unwrap()];
    let named = [("HostId.1", "h-0123456789abcdef0"), ("HostId.2", "h-0123456789abcdef1")];
    let bare = ModifyHosts { hosts, ..ModifyHosts::default() };
    expect(&hosts::modify(&bare), &named);
    let full = ModifyHosts {
        recovery: Some(Switch::On),
        maintenance: Some(Switch::Off),
        auto_placement: Some(Switch::Off),
        ..bare
    };
    let wishes = [("HostRecovery", "on"), ("HostMaintenance", "off"), ("AutoPlacement", "off")];
    expect(&hosts::modify(&full), &[&named[..], &wishes].concat());
}

#[test]
fn a_launch_says_exactly_what_was_asked() {
    let request = RunInstance {
        token: "ri-1".parse().unwrap(),
        dry_run: true,
        image: "ami-0123456789abcdef0".parse().unwrap(),
        instance_type: "m5.large".parse().unwrap(),
        subnet: "subnet-0123456789abcdef0".parse().unwrap(),
        security_groups: vec!["sg-01234567".parse().unwrap(), "sg-89abcdef".parse().unwrap()],
        public_ip: Some(false),
        key_name: Some("default".to_owned()),
        profile: Some("nodes".to_owned()),
        block_devices: vec![BlockDevice {
            device_name: "/dev/xvda".to_owned(),
            size: Some(80),
            volume_type: Some("gp3".to_owned()),
            throughput: Some(125),
            encrypted: Some(true),
            ..BlockDevice::default()
        }],
        metadata: MetadataOptions {
            http_tokens: Some("required".to_owned()),
            http_put_response_hop_limit: Some(2),
            ..MetadataOptions::default()
        },
        user_data: Some(b"#cloud-config".to_vec().into()),
        placement: Placement {
            tenancy: Some(Tenancy::Host),
            host: Some("h-0123456789abcdef0".parse().unwrap()),
            affinity: Some(Affinity::Host),
            ..Placement::default()
        },
        license_configuration_arns: vec!["arn:l".to_owned()],
        tags: Tags::from([("a".to_owned(), "b".to_owned())]),
    };
    assert!(!format!("{request:?}").contains("cloud-config"));
    let mut expected = vec![
        ("MinCount", "1"),
        ("MaxCount", "1"),
        ("ClientToken", "ri-1"),
        ("ImageId", "ami-0123456789abcdef0"),
        ("InstanceType", "m5.large"),
        ("DryRun", "true"),
        ("KeyName", "default"),
        ("IamInstanceProfile.Name", "nodes"),
        ("UserData", "I2Nsb3VkLWNvbmZpZw=="),
        ("NetworkInterface.1.DeviceIndex", "0"),
        ("NetworkInterface.1.SubnetId", "subnet-0123456789abcdef0"),
        ("NetworkInterface.1.AssociatePublicIpAddress", "false"),
        ("NetworkInterface.1.SecurityGroupId.1", "sg-01234567"),
        ("NetworkInterface.1.SecurityGroupId.2", "sg-89abcdef"),
        ("Placement.Tenancy", "host"),
        ("Placement.HostId", "h-0123456789abcdef0"),
        ("Placement.Affinity", "host"),
        ("BlockDeviceMapping.1.DeviceName", "/dev/xvda"),
        ("BlockDeviceMapping.1.Ebs.DeleteOnTermination", "true"),
        ("BlockDeviceMapping.1.Ebs.VolumeSize", "80"),
        ("BlockDeviceMapping.1.Ebs.VolumeType", "gp3"),
        ("BlockDeviceMapping.1.Ebs.Throughput", "125"),
        ("BlockDeviceMapping.1.Ebs.Encrypted", "true"),
        ("LicenseSpecification.1.LicenseConfigurationArn", "arn:l"),
        ("MetadataOptions.HttpTokens", "required"),
        ("MetadataOptions.HttpPutResponseHopLimit", "2"),
    ];
    let kinds = [("1", "instance"), ("2", "volume"), ("3", "network-interface")];
    let tags: Vec<(String, &str)> = kinds
        .iter()
        .flat_map(|(at, kind)| {
            let name = |rest: &str| format!("TagSpecification.{at}.{rest}");
            [(name("ResourceType"), *kind), (name("Tag.1.Key"), "a"), (name("Tag.1.Value"), "b")]
        })
        .collect();
    expected.extend(tags.iter().map(|(name, value)| (name.as_str(), *value)));
    expect(&instances::run(&request), &expected);
}

const HOST: &str = r#"<DescribeHostsResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
  <requestId>f4dcc9ac-b6d5-4f2f-b5a4-EXAMPLE</requestId>
  <hostSet>
    <item>
      <hostId>h-0123456789abcdef0</hostId>
      <autoPlacement>off</autoPlacement>
      <clientToken>dh-1</clientToken>
      <state>available</state>
      <availabilityZone>us-west-2a</availabilityZone>
      <availabilityZoneId>usw2-az1</availabilityZoneId>
      <ownerId>123456789012</ownerId>
      <allocationTime>2026-01-01T10:00:21.000Z</allocationTime>
      <hostProperties><cores>48</cores><instanceType>m5.large</instanceType><sockets>2</sockets><totalVCpus>96</totalVCpus></hostProperties>
      <availableCapacity>
        <availableInstanceCapacity>
          <item><availableCapacity>47</availableCapacity><instanceType>m5.large</instanceType><totalCapacity>48</totalCapacity></item>
        </availableInstanceCapacity>
        <availableVCpus>94</availableVCpus>
      </availableCapacity>
      <instances><item><instanceId>i-0123456789abcdef0</instanceId><instanceType>m5.large</instanceType><ownerId>123456789012</ownerId></item></instances>
      <hostRecovery>off</hostRecovery>
      <hostMaintenance>on</hostMaintenance>
      <allowsMultipleInstanceTypes>off</allowsMultipleInstanceTypes>
      <memberOfServiceLinkedResourceGroup>false</memberOfServiceLinkedResourceGroup>
      <tagSet><item><key>Name</key><value>a &amp; b</value></item><item><key>empty</key><value/></item></tagSet>
      <fieldOfTheFuture><deep><deeper>1</deeper></deep></fieldOfTheFuture>
    </item>
    <item><hostId>h-0123456789abcdef1</hostId><state>half-asleep</state><availabilityZone>moon-1</availabilityZone><instances/><tagSet/></item>
  </hostSet>
</DescribeHostsResponse>"#;

#[test]
fn hosts_are_read_and_what_is_new_is_passed_over_or_through() {
    let found = list(HOST, hosts::described).unwrap();
    let [first, second] = &found[..] else { panic!("{found:?}") };
    assert_eq!((first.id.as_str(), &first.state), ("h-0123456789abcdef0", &HostState::Available));
    assert_eq!(first.zone.as_ref().unwrap().as_str(), "us-west-2a");
    assert_eq!((first.instance_type.as_deref(), first.instance_family.as_deref()), (Some("m5.large"), None));
    assert_eq!(first.allocated.unwrap().to_string(), "2026-01-01T10:00:21Z");
    assert_eq!((first.room_for(&"m5.large".parse().unwrap()), first.free_vcpus), (Some(47), Some(94)));
    assert_eq!(first.room_for(&"m5.xlarge".parse().unwrap()), None);
    assert_eq!(first.instances[0].id.as_str(), "i-0123456789abcdef0");
    assert_eq!(first.owner.as_ref().unwrap().as_str(), "123456789012");
    assert_eq!((first.client_token.as_deref(), first.maintenance.as_deref()), (Some("dh-1"), Some("on")));
    let tags = Tags::from([("Name".to_owned(), "a & b".to_owned()), ("empty".to_owned(), String::new())]);
    assert_eq!(first.tags, tags);
    assert_eq!((second.state.as_str(), second.zone.as_ref()), ("half-asleep", None));
    assert!(!second.state.is_released() && second.instances.is_empty() && second.tags.is_empty());
}

#[test]
fn a_host_or_its_instance_that_cannot_be_read_is_an_error_not_an_empty_host() {
    let hostless = HOST.replace("<hostId>h-0123456789abcdef1</hostId>", "");
    assert_eq!(list(&hostless, hosts::described), Err("a host without a readable hostId".to_owned()));
    let odd = HOST.replace("<instanceId>i-0123456789abcdef0</instanceId>", "<instanceId>x</instanceId>");
    assert_eq!(list(&odd, hosts::described), Err("an instance of a host without a readable instanceId".to_owned()));
}

#[test]
fn refusals_of_single_hosts_are_values() {
    let text = r#"<ReleaseHostsResponse><requestId>r</requestId>
      <successful><item>h-0123456789abcdef0</item></successful>
      <unsuccessful>
        <item><resourceId>h-0123456789abcdef1</resourceId><error><code>Client.InvalidHost.Occupied</code><message>Dedicated host h-0123456789abcdef1 cannot be released as it is occupied</message></error></item>
        <item><resourceId>h-0123456789abcdef2</resourceId><error><code>HostMinAllocationPeriodUnexpired</code><message>m</message></error></item>
      </unsuccessful></ReleaseHostsResponse>"#;
    let judged = hosts::each_judged(document(text).root()).unwrap();
    assert_eq!(judged.done.len(), 1);
    let kinds: Vec<(&str, Kind)> = judged.refused.iter().map(|(id, error)| (id.as_str(), error.kind())).collect();
    assert_eq!(kinds, [("h-0123456789abcdef1", Kind::HostOccupied), ("h-0123456789abcdef2", Kind::HostTooYoung)]);
    let allocated = "<AllocateHostsResponse><requestId>r</requestId><hostIdSet><item>h-0123456789abcdef0</item><item>h-0123456789abcdef1</item></hostIdSet></AllocateHostsResponse>";
    assert_eq!(hosts::allocated(document(allocated).root()).unwrap().len(), 2);
    assert!(hosts::allocated(document(&allocated.replace("h-0123456789abcdef1", "?")).root()).is_err());
}

const INSTANCE: &str = r#"<item>
  <instanceId>i-0123456789abcdef0</instanceId><imageId>ami-0123456789abcdef0</imageId>
  <instanceState><code>16</code><name>running</name></instanceState>
  <privateDnsName>ip-10-0-0-5.us-west-2.compute.internal</privateDnsName><dnsName/>
  <reason/><keyName>default</keyName><amiLaunchIndex>0</amiLaunchIndex>
  <instanceType>m5.large</instanceType><launchTime>2026-01-01T10:01:00.000Z</launchTime>
  <placement><availabilityZone>us-west-2a</availabilityZone><groupName/><tenancy>host</tenancy><hostId>h-0123456789abcdef0</hostId><affinity>host</affinity></placement>
  <subnetId>subnet-0123456789abcdef0</subnetId><vpcId>vpc-01234567</vpcId><privateIpAddress>10.0.0.5</privateIpAddress>
  <groupSet><item><groupId>sg-01234567</groupId><groupName>n</groupName></item></groupSet>
  <blockDeviceMapping><item><deviceName>/dev/xvda</deviceName><ebs><volumeId>vol-01234567</volumeId><status>attached</status></ebs></item></blockDeviceMapping>
  <clientToken>ri-1</clientToken>
  <stateReason><code>Client.UserInitiatedShutdown</code><message>m</message></stateReason>
  <networkInterfaceSet><item>
    <networkInterfaceId>eni-01234567</networkInterfaceId><privateDnsName>ip-10-0-0-5</privateDnsName><privateIpAddress>10.0.0.5</privateIpAddress>
    <groupSet><item><groupId>sg-01234567</groupId></item></groupSet>
    <attachment><deviceIndex>0</deviceIndex></attachment>
    <association><publicIp>203.0.113.7</publicIp><publicDnsName>ec2-203-0-113-7</publicDnsName></association>
    <ipv6AddressesSet><item><ipv6Address>2001:db8::1</ipv6Address></item></ipv6AddressesSet>
  </item></networkInterfaceSet>
  <metadataOptions><state>applied</state><httpTokens>required</httpTokens><httpPutResponseHopLimit>2</httpPutResponseHopLimit><httpEndpoint>enabled</httpEndpoint></metadataOptions>
  <tagSet><item><key>Name</key><value>m</value></item></tagSet>
</item>"#;

#[test]
fn instances_are_read_from_both_answers_that_carry_them() {
    let described = format!(
        "<DescribeInstancesResponse><reservationSet><item><reservationId>r-1</reservationId><instancesSet>{INSTANCE}</instancesSet></item><item><instancesSet/></item></reservationSet></DescribeInstancesResponse>"
    );
    let found = list(&described, instances::described).unwrap();
    let launched = format!(
        "<RunInstancesResponse><reservationId>r-1</reservationId><instancesSet>{INSTANCE}</instancesSet></RunInstancesResponse>"
    );
    assert_eq!(found, [instances::launched(document(&launched).root()).unwrap()]);
    let one = &found[0];
    assert_eq!((one.id.as_str(), &one.state), ("i-0123456789abcdef0", &InstanceState::Running));
    assert_eq!(one.host.as_ref().unwrap().as_str(), "h-0123456789abcdef0");
    assert_eq!((one.tenancy.as_ref(), one.affinity.as_ref()), (Some(&Tenancy::Host), Some(&Affinity::Host)));
    assert_eq!(one.state_reason.as_ref().unwrap().code, "UserInitiatedShutdown");
    assert_eq!((one.public_dns.as_ref(), one.private_ip.unwrap().to_string().as_str()), (None, "10.0.0.5"));
    let interface = &one.interfaces[0];
    assert_eq!((interface.device_index, interface.ipv6.len()), (Some(0), 1));
    assert_eq!(interface.public_ip.unwrap().to_string(), "203.0.113.7");
    assert_eq!(
        (one.volumes.len(), one.security_groups.len(), one.metadata.http_put_response_hop_limit),
        (1, 1, Some(2))
    );
    let empty = "<RunInstancesResponse><instancesSet/></RunInstancesResponse>";
    assert!(instances::launched(document(empty).root()).is_err());
    let ended = "<TerminateInstancesResponse><instancesSet><item><instanceId>i-0123456789abcdef0</instanceId><currentState><code>32</code><name>shutting-down</name></currentState><previousState><code>16</code><name>running</name></previousState></item></instancesSet></TerminateInstancesResponse>";
    let changes = list(ended, instances::changed).unwrap();
    assert_eq!((&changes[0].before, &changes[0].now), (&InstanceState::Running, &InstanceState::ShuttingDown));
}

#[test]
fn types_are_read_with_every_kind_of_accelerator_and_nameless_ones_are_counted() {
    let text = r#"<DescribeInstanceTypesResponse><instanceTypeSet>
      <item><instanceType>t2.micro</instanceType><bareMetal>false</bareMetal>
        <processorInfo><supportedArchitectures><item>i386</item><item>x86_64</item></supportedArchitectures></processorInfo>
        <vCpuInfo><defaultVCpus>1</defaultVCpus></vCpuInfo><memoryInfo><sizeInMiB>1024</sizeInMiB></memoryInfo>
        <networkInfo><maximumNetworkInterfaces>2</maximumNetworkInterfaces><ipv4AddressesPerInterface>2</ipv4AddressesPerInterface></networkInfo></item>
      <item><instanceType>g6f.large</instanceType><dedicatedHostsSupported>true</dedicatedHostsSupported>
        <gpuInfo><gpus><item><name>L4</name><manufacturer>NVIDIA</manufacturer><count>0</count><logicalGpuCount>1</logicalGpuCount></item></gpus></gpuInfo>
        <networkInfo><maximumNetworkInterfaces>99</maximumNetworkInterfaces><defaultNetworkCardIndex>1</defaultNetworkCardIndex><networkCards><item><networkCardIndex>0</networkCardIndex><maximumNetworkInterfaces>3</maximumNetworkInterfaces></item><item><networkCardIndex>1</networkCardIndex><maximumNetworkInterfaces>4</maximumNetworkInterfaces></item></networkCards></networkInfo></item>
      <item><instanceType>inf2.24xlarge</instanceType><vCpuInfo><defaultVCpus>96</defaultVCpus></vCpuInfo>
        <instanceStorageInfo><totalSizeInGB>900</totalSizeInGB></instanceStorageInfo>
        <neuronInfo><neuronDevices><item><count>6</count><name>Inferentia2</name><coreInfo><count>2</count><version>2</version></coreInfo></item></neuronDevices></neuronInfo></item>
      <item><vCpuInfo><defaultVCpus>1</defaultVCpus></vCpuInfo></item>
      <item><instanceType>zz9 plural.alpha</instanceType><vCpuInfo><defaultVCpus>many</defaultVCpus></vCpuInfo><processorInfo><supportedArchitectures><item>riscv64</item></supportedArchitectures></processorInfo></item>
      <item/>
    </instanceTypeSet><nextToken/></DescribeInstanceTypesResponse>"#;
    let mut found = TypeList::default();
    catalogue::types(document(text).root(), &mut found);
    let [micro, fraction, inferentia, odd] = &found.types[..] else { panic!("{found:?}") };
    assert_eq!(found.nameless, 2);
    assert_eq!((&*micro.name, micro.vcpus, micro.memory_mib, micro.interfaces), ("t2.micro", 1, 1024, 2));
    assert_eq!(micro.architectures, [Architecture::I386, Architecture::X86_64]);
    let gpu = &fraction.gpus[0];
    assert_eq!((gpu.manufacturer.as_str(), gpu.count, gpu.logical), ("NVIDIA", 0, 1));
    assert_eq!((fraction.interfaces, fraction.dedicated_hosts, fraction.vcpus), (4, true, 0));
    let neuron = &inferentia.neuron[0];
    assert_eq!((neuron.count, neuron.cores, inferentia.storage_gb), (6, 2, 900));
    assert_eq!((odd.vcpus, odd.architectures[0].as_str()), (0, "riscv64"));
}

#[test]
fn images_regions_zones_and_offerings_are_read() {
    let text = r#"<DescribeImagesResponse><imagesSet><item><imageId>?</imageId></item><item><imageId>ami-0123456789abcdef0</imageId><imageState>available</imageState><imageOwnerId>123456789012</imageOwnerId><creationDate>2026-01-01T00:00:00.000Z</creationDate><architecture>arm64</architecture><name>n</name><rootDeviceName>/dev/xvda</rootDeviceName><virtualizationType>hvm</virtualizationType><platformDetails>Linux/UNIX</platformDetails><blockDeviceMapping><item><deviceName>/dev/sdb</deviceName><virtualName>ephemeral0</virtualName></item><item><deviceName>/dev/xvda</deviceName><ebs><volumeSize>30</volumeSize></ebs></item></blockDeviceMapping></item></imagesSet></DescribeImagesResponse>"#;
    let mut images = Vec::new();
    catalogue::image_list(document(text).root(), &mut images);
    assert_eq!((images[0].root_size, images[0].architecture.as_ref()), (Some(30), Some(&Architecture::Arm64)));
    let text = "<DescribeRegionsResponse><regionInfo><item><regionName>af-south-1</regionName><optInStatus>not-opted-in</optInStatus></item><item><regionName>us-east-1</regionName></item></regionInfo></DescribeRegionsResponse>";
    let regions = list(text, catalogue::regions).unwrap();
    assert_eq!((&regions[0].opt_in, &regions[1].opt_in), (&OptIn::NotOptedIn, &OptIn::NotRequired));
    let text = "<DescribeAvailabilityZonesResponse><availabilityZoneInfo><item><zoneName>us-west-2-lax-1a</zoneName><zoneId>usw2-lax1-az1</zoneId><zoneState>available</zoneState><zoneType>local-zone</zoneType><optInStatus>opted-in</optInStatus></item><item><zoneName>?</zoneName></item></availabilityZoneInfo></DescribeAvailabilityZonesResponse>";
    let mut zones = Vec::new();
    catalogue::zones(document(text).root(), &mut zones);
    assert_eq!((zones.len(), zones[0].name.region().as_str(), &zones[0].opt_in), (1, "us-west-2", &OptIn::OptedIn));
    let text = "<DescribeInstanceTypeOfferingsResponse><instanceTypeOfferingSet><item><instanceType>m5.large</instanceType><locationType>availability-zone</locationType><location>us-west-2a</location></item></instanceTypeOfferingSet></DescribeInstanceTypeOfferingsResponse>";
    let offered = list(text, catalogue::offered).unwrap();
    assert_eq!((offered[0].location_type.clone(), offered[0].location.as_str()), (LocationType::Zone, "us-west-2a"));
    expect(
        &catalogue::offerings(&LocationType::Zone, &[]),
        &[("LocationType", "availability-zone"), ("MaxResults", "1000")],
    );
}

#[test]
fn networks_disks_and_tags_are_read() {
    let text = "<DescribeSubnetsResponse><subnetSet><item><subnetId>subnet-01234567</subnetId><state>available</state><vpcId>vpc-01234567</vpcId><availableIpAddressCount>251</availableIpAddressCount><availabilityZone>us-west-2a</availabilityZone><mapPublicIpOnLaunch>true</mapPublicIpOnLaunch></item></subnetSet></DescribeSubnetsResponse>";
    let subnets = list(text, network::subnets).unwrap();
    assert_eq!((subnets[0].free_addresses, subnets[0].public_by_default), (Some(251), true));
    let text = "<DescribeVpcsResponse><vpcSet><item><vpcId>vpc-01234567</vpcId><dhcpOptionsId>default</dhcpOptionsId></item></vpcSet></DescribeVpcsResponse>";
    assert_eq!(list(text, network::vpcs).unwrap()[0].dhcp_options.as_deref(), Some("default"));
    let text = "<DescribeDhcpOptionsResponse><dhcpOptionsSet><item><dhcpOptionsId>dopt-1</dhcpOptionsId><dhcpConfigurationSet><item><key>domain-name</key><valueSet><item><value>a.example b.example</value></item></valueSet></item><item><key>domain-name-servers</key><valueSet><item><value>10.2.5.1</value></item></valueSet></item></dhcpConfigurationSet></item></dhcpOptionsSet></DescribeDhcpOptionsResponse>";
    assert_eq!(list(text, network::dhcp_options).unwrap()[0].domain_names, ["a.example", "b.example"]);
    let text = "<DescribeSecurityGroupsResponse><securityGroupInfo><item><groupId>sg-01234567</groupId><groupName>n</groupName><vpcId>vpc-01234567</vpcId><ipPermissions/></item></securityGroupInfo></DescribeSecurityGroupsResponse>";
    assert_eq!(list(text, network::security_groups).unwrap()[0].name.as_deref(), Some("n"));
    let text = "<DescribeNetworkInterfacesResponse><networkInterfaceSet><item><networkInterfaceId>eni-01234567</networkInterfaceId><attachment><instanceId>i-01234567</instanceId></attachment><groupSet><item><groupId>sg-01234567</groupId></item></groupSet></item></networkInterfaceSet></DescribeNetworkInterfacesResponse>";
    let interfaces = list(text, network::interfaces).unwrap();
    assert_eq!(
        (interfaces[0].instance.as_ref().unwrap().as_str(), interfaces[0].security_groups.len()),
        ("i-01234567", 1)
    );
    let text = "<DescribeVolumesResponse><volumeSet><item><volumeId>vol-01234567</volumeId><status>in-use</status><attachmentSet><item><instanceId>i-01234567</instanceId></item></attachmentSet></item></volumeSet></DescribeVolumesResponse>";
    assert_eq!(list(text, network::volumes).unwrap()[0].attached_to.len(), 1);
    let text = "<DescribeTagsResponse><tagSet><item><resourceId>h-01234567</resourceId><resourceType>dedicated-host</resourceType><key>k</key><value/></item></tagSet></DescribeTagsResponse>";
    let tags = list(text, network::tag_list).unwrap();
    assert_eq!(
        (tags[0].resource_type.as_str(), tags[0].key.as_str(), tags[0].value.as_str()),
        ("dedicated-host", "k", "")
    );
    expect(
        &network::query("SubnetId", &["subnet-1"], &[Filter::new("state", ["available"])], 500),
        &[("SubnetId.1", "subnet-1"), ("Filter.1.Name", "state"), ("Filter.1.Value.1", "available")],
    );
}

fn word() -> impl Strategy<Value = String> {
    let names = vec![
        "item",
        "hostSet",
        "hostId",
        "instances",
        "instanceId",
        "reservationSet",
        "instancesSet",
        "instanceTypeSet",
        "instanceType",
        "tagSet",
        "key",
        "value",
        "gpuInfo",
        "gpus",
        "count",
        "networkInfo",
        "networkCards",
        "imagesSet",
        "imageId",
        "blockDeviceMapping",
        "ebs",
        "unsuccessful",
        "successful",
        "error",
        "code",
        "placement",
        "availabilityZoneInfo",
        "zoneName",
        "nextToken",
        "hostIdSet",
    ];
    prop::sample::select(names).prop_map(str::to_owned)
}

fn tree() -> impl Strategy<Value = String> {
    let leaf =
        prop_oneof![Just(String::new()), Just("h-0123456789abcdef0".to_owned()), "[0-9]{0,22}", "[ -%'-;=?-~]{0,12}"];
    leaf.prop_recursive(5, 60, 6, |inner| {
        prop::collection::vec((word(), inner), 0..6)
            .prop_map(|parts| parts.iter().map(|(name, inner)| format!("<{name}>{inner}</{name}>")).collect())
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn no_answer_panics_whatever_its_shape(inner in tree()) {
        if let Ok(document) = Document::parse(format!("<AResponse>{inner}</AResponse>").as_bytes()) {
            let root = document.root();
            let _ = (hosts::allocated(root), hosts::each_judged(root), hosts::described(root, &mut Vec::new()));
            let _ = (instances::launched(root), instances::described(root, &mut Vec::new()));
            let _ = instances::changed(root, &mut Vec::new());
            catalogue::types(root, &mut TypeList::default());
            catalogue::zones(root, &mut Vec::new());
            catalogue::image_list(root, &mut Vec::new());
            let _ = catalogue::offered(root, &mut Vec::new());
            let _ = (network::subnets(root, &mut Vec::new()), network::tag_list(root, &mut Vec::new()));
            let _ = (network::dhcp_options(root, &mut Vec::new()), network::volumes(root, &mut Vec::new()));
        }
    }
}
