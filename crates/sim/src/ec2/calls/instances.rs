//! Instances, and what is attached to them.

use jiff::Timestamp;

use super::super::wire::params::Fields;
use super::super::wire::refusal::Refusal;
use super::super::wire::xml::Xml;
use super::super::world::filters::{Filters, tag_values};
use super::super::world::host::HostState;
use super::super::world::instance::{Instance, InstanceState, Interface, MetadataOptions, Volume};
use super::super::world::time::written;
use super::Call;
use super::shared::{all_found, check_ids, tags_at, write_tags};

const FILTERS: &[&str] = &[
    "affinity",
    "architecture",
    "availability-zone",
    "client-token",
    "host-id",
    "image-id",
    "instance-id",
    "instance-state-code",
    "instance-state-name",
    "instance-type",
    "instance.group-id",
    "key-name",
    "network-interface.network-interface-id",
    "network-interface.subnet-id",
    "owner-id",
    "private-ip-address",
    "reservation-id",
    "subnet-id",
    "tag-key",
    "tag:",
    "tenancy",
    "vpc-id",
];

pub(super) fn describe(call: &mut Call<'_>, xml: &mut Xml) -> Result<(), Refusal> {
    let ids = call.fields.texts("InstanceId")?;
    let filters = Filters::parse(&mut call.fields, FILTERS)?;
    let paging = call.paging(5, 1_000)?;
    call.fields.flag("IncludeManagedResources")?;
    let dry_run = call.fields.flag("DryRun")?;
    call.finish(dry_run)?;
    Call::not_both(&ids, &paging, "instancesSet")?;
    check_ids(&ids, "i", "InvalidInstanceID.Malformed")?;
    let (view, settings) = (call.view, call.settings);
    let seen = |id: &str| call.place.instances.get(id).is_some_and(|instance| instance.visible(view, settings));
    all_found(&ids, seen, "InvalidInstanceID.NotFound", "instance")?;
    let account = call.place.account.clone();
    let found: Vec<&Instance> = call
        .place
        .instances
        .values()
        .filter(|instance| instance.visible(view, settings) && (ids.is_empty() || ids.contains(&instance.id)))
        .filter(|instance| filters.pass(|name| filter_values(instance, name, &account, view)))
        .collect();
    let page = call.cut(found, |instance| instance.id.clone(), &paging, 1_000)?;
    let mut launches: Vec<Vec<&Instance>> = Vec::new();
    for instance in page.items {
        let same = |launch: &&mut Vec<&Instance>| launch.first().is_some_and(|i| i.reservation == instance.reservation);
        match launches.iter_mut().find(same) {
            Some(launch) => launch.push(instance),
            None => launches.push(vec![instance]),
        }
    }
    xml.list("reservationSet", launches, |xml, launch| write_reservation(call, xml, &launch, view));
    xml.maybe("nextToken", page.next);
    Ok(())
}

fn filter_values(instance: &Instance, name: &str, account: &str, view: Timestamp) -> Vec<String> {
    let one = |value: &str| vec![value.to_owned()];
    let state = instance.state.at(view).copied().unwrap_or(InstanceState::Pending);
    let each = |f: fn(&Interface) -> &String| instance.interfaces.iter().map(f).cloned().collect();
    match name {
        "affinity" => instance.affinity.iter().cloned().collect(),
        "architecture" => one(&instance.architecture),
        "availability-zone" => one(&instance.zone),
        "client-token" => instance.client_token.iter().cloned().collect(),
        "host-id" => instance.host.at(view).cloned().flatten().into_iter().collect(),
        "image-id" => one(&instance.image),
        "instance-id" => one(&instance.id),
        "instance-state-code" => vec![state.code().to_string()],
        "instance-state-name" => one(state.as_str()),
        "instance-type" => one(&instance.kind),
        "instance.group-id" => instance.interfaces.iter().flat_map(|i| i.groups.iter().cloned()).collect(),
        "key-name" => instance.key.iter().cloned().collect(),
        "network-interface.network-interface-id" => each(|i| &i.id),
        "network-interface.subnet-id" | "subnet-id" => each(|i| &i.subnet),
        "owner-id" => one(account),
        "private-ip-address" => each(|i| &i.private_ip),
        "reservation-id" => one(&instance.reservation),
        "tenancy" => one(&instance.tenancy),
        "vpc-id" => one(&instance.vpc),
        _ => tag_values(name, &tags_at(&instance.tags, view)).unwrap_or_default(),
    }
}

/// Writes the instances of one launch.
pub(super) fn write_reservation(call: &Call<'_>, xml: &mut Xml, launch: &[&Instance], view: Timestamp) {
    xml.maybe("reservationId", launch.first().map(|instance| &instance.reservation));
    xml.text("ownerId", &call.place.account);
    xml.texts("groupSet", Vec::<String>::new());
    xml.list("instancesSet", launch, |xml, instance| write_instance(call, xml, instance, view));
}

fn domain(call: &Call<'_>, vpc: &str) -> String {
    let options = call.place.vpcs.get(vpc).and_then(|vpc| call.place.dhcp.get(&vpc.dhcp));
    options.and_then(|options| options.domain.split_whitespace().next()).unwrap_or("ec2.internal").to_owned()
}

fn write_instance(call: &Call<'_>, xml: &mut Xml, instance: &Instance, view: Timestamp) {
    let state = instance.state.at(view).copied().unwrap_or(InstanceState::Pending);
    let gone = state == InstanceState::Terminated;
    let interface = instance.interfaces.first().filter(|_| !gone);
    let dns = interface.map(|i| format!("ip-{}.{}", i.private_ip.replace('.', "-"), domain(call, &instance.vpc)));
    xml.text("instanceId", &instance.id);
    xml.text("imageId", &instance.image);
    write_state(xml, "instanceState", state);
    xml.text("privateDnsName", dns.as_deref().unwrap_or_default());
    let public = interface.and_then(|i| i.public_ip.as_ref());
    xml.text("dnsName", public.map(|ip| public_name(call, ip)).unwrap_or_default());
    xml.maybe("keyName", instance.key.as_ref());
    xml.text("amiLaunchIndex", instance.index);
    xml.text("instanceType", &instance.kind);
    xml.text("launchTime", written(instance.launched));
    xml.node("placement", |xml| {
        xml.text("availabilityZone", &instance.zone);
        xml.maybe("availabilityZoneId", call.place.region.zone_id(&instance.zone));
        xml.text("groupName", "");
        xml.text("tenancy", &instance.tenancy);
        xml.maybe("hostId", instance.host.at(view).and_then(Option::as_ref));
        xml.maybe("affinity", instance.affinity.as_ref());
    });
    xml.node("monitoring", |xml| xml.text("state", "disabled"));
    if !gone {
        xml.maybe("subnetId", interface.map(|i| &i.subnet));
        xml.text("vpcId", &instance.vpc);
        xml.maybe("privateIpAddress", interface.map(|i| &i.private_ip));
        xml.maybe("ipAddress", public);
    }
    if matches!(state, InstanceState::ShuttingDown | InstanceState::Terminated) {
        xml.node("stateReason", |xml| {
            xml.text("code", "Client.UserInitiatedShutdown");
            xml.text("message", "Client.UserInitiatedShutdown: User initiated shutdown");
        });
    }
    xml.text("architecture", &instance.architecture);
    xml.text("rootDeviceType", "ebs");
    xml.text("rootDeviceName", &instance.root_device);
    let volumes: &[Volume] = if gone { &[] } else { &instance.volumes };
    xml.list("blockDeviceMapping", volumes, |xml, volume| {
        xml.text("deviceName", &volume.device);
        xml.node("ebs", |xml| {
            xml.text("volumeId", &volume.id);
            xml.text("status", "attached");
            xml.text("attachTime", written(instance.launched));
            xml.text("deleteOnTermination", volume.delete);
        });
    });
    xml.text("virtualizationType", "hvm");
    xml.text("clientToken", instance.client_token.as_deref().unwrap_or_default());
    write_tags(xml, &tags_at(&instance.tags, view));
    xml.text("hypervisor", "xen");
    let interfaces: &[Interface] = if gone { &[] } else { &instance.interfaces };
    xml.list("networkInterfaceSet", interfaces, |xml, interface| {
        write_interface(call, xml, instance, interface, false)
    });
    write_groups(call, xml, interface.map_or(&[][..], |i| &i.groups));
    if let Some(profile) = &instance.profile {
        let arn = if profile.starts_with("arn:") {
            profile.clone()
        } else {
            format!("arn:{}:iam::{}:instance-profile/{profile}", call.place.region.partition(), call.place.account)
        };
        xml.node("iamInstanceProfile", |xml| {
            xml.text("arn", arn);
            xml.text("id", "AIPABERTHSIMULATOR000");
        });
    }
    xml.text("ebsOptimized", instance.ebs_optimized);
    xml.text("enaSupport", true);
    xml.text("sourceDestCheck", interface.is_none_or(|i| i.source_dest_check));
    write_metadata(xml, "metadataOptions", &instance.metadata);
}

fn public_name(call: &Call<'_>, ip: &str) -> String {
    let dashed = ip.replace('.', "-");
    match call.place.region.name {
        "us-east-1" => format!("ec2-{dashed}.compute-1.amazonaws.com"),
        region => format!("ec2-{dashed}.{region}.compute.amazonaws.com"),
    }
}

fn write_state(xml: &mut Xml, name: &str, state: InstanceState) {
    xml.node(name, |xml| {
        xml.text("code", state.code());
        xml.text("name", state.as_str());
    });
}

fn write_groups(call: &Call<'_>, xml: &mut Xml, groups: &[String]) {
    xml.list("groupSet", groups, |xml, id| {
        xml.text("groupId", id);
        xml.maybe("groupName", call.place.groups.get(id).map(|group| &group.name));
    });
}

fn write_interface(call: &Call<'_>, xml: &mut Xml, instance: &Instance, interface: &Interface, alone: bool) {
    let dns = format!("ip-{}.{}", interface.private_ip.replace('.', "-"), domain(call, &instance.vpc));
    xml.text("networkInterfaceId", &interface.id);
    xml.text("subnetId", &interface.subnet);
    xml.text("vpcId", &instance.vpc);
    xml.text("description", &interface.description);
    xml.text("ownerId", &call.place.account);
    xml.text("status", "in-use");
    xml.text("macAddress", &interface.mac);
    xml.text("privateIpAddress", &interface.private_ip);
    xml.text("privateDnsName", &dns);
    xml.text("sourceDestCheck", interface.source_dest_check);
    xml.text("interfaceType", "interface");
    write_groups(call, xml, &interface.groups);
    xml.node("attachment", |xml| {
        xml.text("attachmentId", &interface.attachment);
        xml.text("deviceIndex", interface.device);
        xml.text("status", "attached");
        xml.text("attachTime", written(instance.launched));
        xml.text("deleteOnTermination", true);
        xml.text("networkCardIndex", 0);
        if alone {
            xml.text("instanceId", &instance.id);
            xml.text("instanceOwnerId", &call.place.account);
        }
    });
    let association = |xml: &mut Xml| {
        if let Some(ip) = &interface.public_ip {
            xml.node("association", |xml| {
                xml.text("publicIp", ip);
                xml.text("publicDnsName", public_name(call, ip));
                xml.text("ipOwnerId", "amazon");
            });
        }
    };
    association(xml);
    xml.list("privateIpAddressesSet", [()], |xml, ()| {
        xml.text("privateIpAddress", &interface.private_ip);
        xml.text("privateDnsName", &dns);
        xml.text("primary", true);
        association(xml);
    });
    xml.texts("ipv6AddressesSet", Vec::<String>::new());
    if alone {
        xml.text("availabilityZone", &instance.zone);
        write_tags(xml, &tags_at(&interface.tags, call.view));
    }
}

fn write_metadata(xml: &mut Xml, name: &str, options: &MetadataOptions) {
    xml.node(name, |xml| {
        xml.text("state", "applied");
        xml.text("httpTokens", &options.tokens);
        xml.text("httpPutResponseHopLimit", options.hop_limit);
        xml.text("httpEndpoint", &options.endpoint);
        xml.text("httpProtocolIpv6", &options.ipv6);
        xml.text("instanceMetadataTags", &options.tags);
    });
}

/// Takes metadata options; what is not given stays as it is.
pub(super) fn metadata(fields: &mut Fields, old: MetadataOptions) -> Result<MetadataOptions, Refusal> {
    let switch = &["enabled", "disabled"];
    let options = MetadataOptions {
        tokens: fields.one_of("HttpTokens", &["optional", "required"])?.unwrap_or(old.tokens),
        hop_limit: fields.number("HttpPutResponseHopLimit", 1, 64)?.unwrap_or(old.hop_limit),
        endpoint: fields.one_of("HttpEndpoint", switch)?.unwrap_or(old.endpoint),
        ipv6: fields.one_of("HttpProtocolIpv6", switch)?.unwrap_or(old.ipv6),
        tags: fields.one_of("InstanceMetadataTags", switch)?.unwrap_or(old.tags),
    };
    std::mem::take(fields).finish()?;
    Ok(options)
}

pub(super) fn modify_metadata(call: &mut Call<'_>, xml: &mut Xml) -> Result<(), Refusal> {
    let id = call.fields.required("InstanceId")?;
    let dry_run = call.fields.flag("DryRun")?;
    check_ids(std::slice::from_ref(&id), "i", "InvalidInstanceID.Malformed")?;
    let old = call.place.instances.get(&id).filter(|instance| !instance.ended(call.now));
    let old = old.map(|instance| instance.metadata.clone());
    let new = metadata(&mut call.fields, old.clone().unwrap_or_default())?;
    call.finish(dry_run)?;
    all_found(std::slice::from_ref(&id), |_| old.is_some(), "InvalidInstanceID.NotFound", "instance")?;
    if let Some(instance) = call.place.instances.get_mut(&id) {
        instance.metadata = new.clone();
    }
    xml.text("instanceId", id);
    write_metadata(xml, "instanceMetadataOptions", &new);
    Ok(())
}

pub(super) fn terminate(call: &mut Call<'_>, xml: &mut Xml) -> Result<(), Refusal> {
    let ids = known_ids(call, &["Force", "SkipOsShutdown"])?;
    let (now, settings) = (call.now, call.settings);
    let changed = ids.into_iter().filter_map(|id| {
        let (before, after) = call.place.terminate(now, &id, settings)?;
        Some((id, before, after))
    });
    write_changes(xml, changed.collect());
    Ok(())
}

/// Takes the ids of instances that exist, in a request that changes their states.
fn known_ids(call: &mut Call<'_>, flags: &[&str]) -> Result<Vec<String>, Refusal> {
    let ids = call.fields.texts("InstanceId")?;
    for flag in flags {
        call.fields.flag(flag)?;
    }
    let dry_run = call.fields.flag("DryRun")?;
    if ids.is_empty() {
        return Err(Refusal::missing("InstanceId"));
    }
    check_ids(&ids, "i", "InvalidInstanceID.Malformed")?;
    call.finish(dry_run)?;
    let (now, settings) = (call.now, call.settings);
    let known = |id: &str| call.place.instances.get(id).is_some_and(|instance| instance.visible(now, settings));
    // One unknown id refuses the whole request, and none is changed.
    all_found(&ids, known, "InvalidInstanceID.NotFound", "instance")?;
    Ok(ids)
}

/// Refuses the whole request when one instance cannot go there from where it is.
fn all_able(call: &Call<'_>, ids: &[String], from: &[InstanceState], what: &str) -> Result<(), Refusal> {
    for id in ids {
        let state = call.place.instances.get(id).and_then(|instance| instance.state.at(call.now).copied());
        if !state.is_some_and(|state| from.contains(&state)) {
            let text = format!("The instance '{id}' is not in a state from which it can be {what}.");
            return Err(Refusal::bad("IncorrectInstanceState", text));
        }
    }
    Ok(())
}

fn write_changes(xml: &mut Xml, changed: Vec<(String, InstanceState, InstanceState)>) {
    xml.list("instancesSet", changed, |xml, (id, before, after)| {
        xml.text("instanceId", id);
        write_state(xml, "currentState", after);
        write_state(xml, "previousState", before);
    });
}

pub(super) fn stop(call: &mut Call<'_>, xml: &mut Xml) -> Result<(), Refusal> {
    let ids = known_ids(call, &["Force", "Hibernate", "SkipOsShutdown"])?;
    all_able(call, &ids, &[InstanceState::Running, InstanceState::Stopping, InstanceState::Stopped], "stopped")?;
    let (now, settings) = (call.now, call.settings);
    let changed = ids.into_iter().filter_map(|id| {
        let (before, after) = call.place.stop(now, &id, settings)?;
        Some((id, before, after))
    });
    write_changes(xml, changed.collect());
    Ok(())
}

pub(super) fn start(call: &mut Call<'_>, xml: &mut Xml) -> Result<(), Refusal> {
    let ids = known_ids(call, &[])?;
    all_able(call, &ids, &[InstanceState::Pending, InstanceState::Running, InstanceState::Stopped], "started")?;
    let (now, settings) = (call.now, call.settings);
    for id in &ids {
        // An instance that is tied to its host starts there or nowhere.
        let host = call.place.instances.get(id).and_then(|instance| instance.host.at(now).cloned().flatten());
        let able = |host: &str| {
            let host = call.place.hosts.get(host);
            host.is_some_and(|host| host.state.at(now) == Some(&HostState::Available))
        };
        if let Some(host) = host.filter(|host| !able(host)) {
            let text = format!("The host '{host}' cannot take the instance '{id}'.");
            return Err(Refusal::bad("InsufficientCapacityOnHost", text));
        }
    }
    let changed = ids.into_iter().filter_map(|id| {
        let (before, after) = call.place.start(now, &id, settings)?;
        Some((id, before, after))
    });
    write_changes(xml, changed.collect());
    Ok(())
}

pub(super) fn volumes(call: &mut Call<'_>, xml: &mut Xml) -> Result<(), Refusal> {
    let ids = call.fields.texts("VolumeId")?;
    let known = &[
        "attachment.device",
        "attachment.instance-id",
        "availability-zone",
        "size",
        "status",
        "tag:",
        "tag-key",
        "volume-id",
        "volume-type",
    ];
    let filters = Filters::parse(&mut call.fields, known)?;
    let paging = call.paging(5, 1_000)?;
    call.fields.flag("IncludeManagedResources")?;
    let dry_run = call.fields.flag("DryRun")?;
    call.finish(dry_run)?;
    Call::not_both(&ids, &paging, "volumeSet")?;
    check_ids(&ids, "vol", "InvalidVolumeID.Malformed")?;
    let view = call.view;
    let live = || call.place.instances.values().filter(|i| i.launched <= view && !i.ended(view));
    let mut found: Vec<(&Instance, &Volume)> = live()
        .flat_map(|instance| instance.volumes.iter().map(move |volume| (instance, volume)))
        .filter(|(_, volume)| ids.is_empty() || ids.contains(&volume.id))
        .filter(|(instance, volume)| {
            filters.pass(|name| match name {
                "attachment.device" => vec![volume.device.clone()],
                "attachment.instance-id" => vec![instance.id.clone()],
                "availability-zone" => vec![instance.zone.clone()],
                "size" => vec![volume.size.to_string()],
                "status" => vec!["in-use".to_owned()],
                "volume-id" => vec![volume.id.clone()],
                "volume-type" => vec![volume.kind.clone()],
                _ => tag_values(name, &tags_at(&volume.tags, view)).unwrap_or_default(),
            })
        })
        .collect();
    let there = |id: &str| live().flat_map(|instance| &instance.volumes).any(|volume| volume.id == id);
    all_found(&ids, there, "InvalidVolume.NotFound", "volume")?;
    found.sort_by(|a, b| a.1.id.cmp(&b.1.id));
    let page = call.cut(found, |(_, volume)| volume.id.clone(), &paging, 1_000)?;
    xml.list("volumeSet", page.items, |xml, (instance, volume)| {
        xml.text("volumeId", &volume.id);
        xml.text("size", volume.size);
        xml.text("availabilityZone", &instance.zone);
        xml.text("status", "in-use");
        xml.text("createTime", written(instance.launched));
        xml.list("attachmentSet", [()], |xml, ()| {
            xml.text("volumeId", &volume.id);
            xml.text("instanceId", &instance.id);
            xml.text("device", &volume.device);
            xml.text("status", "attached");
            xml.text("attachTime", written(instance.launched));
            xml.text("deleteOnTermination", volume.delete);
        });
        xml.text("volumeType", &volume.kind);
        xml.text("encrypted", volume.encrypted);
        write_tags(xml, &tags_at(&volume.tags, view));
    });
    xml.maybe("nextToken", page.next);
    Ok(())
}

pub(super) fn interfaces(call: &mut Call<'_>, xml: &mut Xml) -> Result<(), Refusal> {
    let ids = call.fields.texts("NetworkInterfaceId")?;
    let known = &[
        "attachment.instance-id",
        "group-id",
        "network-interface-id",
        "private-ip-address",
        "status",
        "subnet-id",
        "tag:",
        "tag-key",
        "vpc-id",
    ];
    let filters = Filters::parse(&mut call.fields, known)?;
    let paging = call.paging(5, 1_000)?;
    call.fields.flag("IncludeManagedResources")?;
    let dry_run = call.fields.flag("DryRun")?;
    call.finish(dry_run)?;
    Call::not_both(&ids, &paging, "networkInterfaceIdSet")?;
    check_ids(&ids, "eni", "InvalidNetworkInterfaceId.Malformed")?;
    let view = call.view;
    let live = || call.place.instances.values().filter(|i| i.launched <= view && !i.ended(view));
    let there = |id: &str| live().flat_map(|instance| &instance.interfaces).any(|interface| interface.id == id);
    all_found(&ids, there, "InvalidNetworkInterfaceID.NotFound", "networkInterface")?;
    let mut found: Vec<(&Instance, &Interface)> = live()
        .flat_map(|instance| instance.interfaces.iter().map(move |interface| (instance, interface)))
        .filter(|(_, interface)| ids.is_empty() || ids.contains(&interface.id))
        .filter(|(instance, interface)| {
            filters.pass(|name| match name {
                "attachment.instance-id" => vec![instance.id.clone()],
                "group-id" => interface.groups.clone(),
                "network-interface-id" => vec![interface.id.clone()],
                "private-ip-address" => vec![interface.private_ip.clone()],
                "status" => vec!["in-use".to_owned()],
                "subnet-id" => vec![interface.subnet.clone()],
                "vpc-id" => vec![instance.vpc.clone()],
                _ => tag_values(name, &tags_at(&interface.tags, view)).unwrap_or_default(),
            })
        })
        .collect();
    found.sort_by(|a, b| a.1.id.cmp(&b.1.id));
    let page = call.cut(found, |(_, interface)| interface.id.clone(), &paging, 1_000)?;
    xml.list("networkInterfaceSet", page.items, |xml, (instance, interface)| {
        write_interface(call, xml, instance, interface, true);
    });
    xml.maybe("nextToken", page.next);
    Ok(())
}

pub(super) fn modify_interface(call: &mut Call<'_>, xml: &mut Xml) -> Result<(), Refusal> {
    let id = call.fields.required("NetworkInterfaceId")?;
    let groups = call.fields.texts("SecurityGroupId")?;
    let mut check = call.fields.group("SourceDestCheck")?;
    let source_dest_check = check.flag("Value")?;
    check.finish()?;
    let mut text = call.fields.group("Description")?;
    let description = text.text("Value")?;
    text.finish()?;
    let dry_run = call.fields.flag("DryRun")?;
    call.finish(dry_run)?;
    check_ids(std::slice::from_ref(&id), "eni", "InvalidNetworkInterfaceId.Malformed")?;
    for group in &groups {
        if !call.place.groups.contains_key(group) {
            return Err(Refusal::bad("InvalidGroup.NotFound", format!("The security group '{group}' does not exist")));
        }
    }
    let now = call.now;
    let live = call.place.instances.values_mut().filter(|instance| !instance.ended(now));
    let found = live.flat_map(|instance| instance.interfaces.iter_mut()).find(|interface| interface.id == id);
    let Some(interface) = found else {
        let text = format!("The networkInterface ID '{id}' does not exist");
        return Err(Refusal::bad("InvalidNetworkInterfaceID.NotFound", text));
    };
    if !groups.is_empty() {
        interface.groups = groups;
    }
    if let Some(check) = source_dest_check {
        interface.source_dest_check = check;
    }
    if let Some(description) = description {
        interface.description = description;
    }
    xml.text("return", true);
    Ok(())
}
