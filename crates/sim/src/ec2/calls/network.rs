//! Networks and images: what an account has before it launches anything.

use super::super::wire::refusal::Refusal;
use super::super::wire::xml::Xml;
use super::super::world::filters::{Filters, tag_values};
use super::super::world::place::{DhcpOptions, Group, Image, Subnet, Vpc};
use super::super::world::time::written;
use super::Call;
use super::shared::{all_found, check_ids, tags_at, write_tags};

pub(super) fn images(call: &mut Call<'_>, xml: &mut Xml) -> Result<(), Refusal> {
    let ids = call.fields.texts("ImageId")?;
    let owners = call.fields.texts("Owner")?;
    call.fields.texts("ExecutableBy")?;
    call.fields.flag("IncludeDeprecated")?;
    call.fields.flag("IncludeDisabled")?;
    let known = &[
        "architecture",
        "creation-date",
        "image-id",
        "image-type",
        "is-public",
        "name",
        "owner-id",
        "platform",
        "root-device-type",
        "state",
        "tag-key",
        "tag:",
        "virtualization-type",
    ];
    let filters = Filters::parse(&mut call.fields, known)?;
    let paging = call.paging(1, 1_000)?;
    let dry_run = call.fields.flag("DryRun")?;
    call.finish(dry_run)?;
    Call::not_both(&ids, &paging, "imageIdsSet")?;
    check_ids(&ids, "ami", "InvalidAMIID.Malformed")?;
    let there = |id: &str| call.place.images.contains_key(id);
    let missing: Vec<&str> = ids.iter().map(String::as_str).filter(|id| !there(id)).collect();
    if !missing.is_empty() {
        let text = format!("The image id '[{}]' does not exist", missing.join(", "));
        return Err(Refusal::bad("InvalidAMIID.NotFound", text));
    }
    let (view, account) = (call.view, call.place.account.clone());
    let owned = |image: &Image| {
        owners.is_empty()
            || owners.iter().any(|owner| *owner == image.owner || owner == "self" && image.owner == account)
    };
    let found: Vec<&Image> = call
        .place
        .images
        .values()
        .filter(|image| (ids.is_empty() || ids.contains(&image.id)) && owned(image))
        .filter(|image| {
            filters.pass(|name| match name {
                "architecture" => vec![image.architecture.clone()],
                "creation-date" => vec![written(image.created)],
                "image-id" => vec![image.id.clone()],
                "image-type" => vec!["machine".to_owned()],
                "is-public" => vec!["false".to_owned()],
                "name" => vec![image.name.clone()],
                "owner-id" => vec![image.owner.clone()],
                "platform" => image.platform.iter().cloned().collect(),
                "root-device-type" => vec!["ebs".to_owned()],
                "state" => vec![image.state.clone()],
                "virtualization-type" => vec!["hvm".to_owned()],
                _ => tag_values(name, &tags_at(&image.tags, view)).unwrap_or_default(),
            })
        })
        .collect();
    let page = call.cut(found, |image| image.id.clone(), &paging, 1_000)?;
    xml.list("imagesSet", page.items, |xml, image| {
        xml.text("imageId", &image.id);
        xml.text("imageLocation", format!("{}/{}", image.owner, image.name));
        xml.text("imageState", &image.state);
        xml.text("imageOwnerId", &image.owner);
        xml.text("creationDate", written(image.created));
        xml.text("isPublic", false);
        xml.text("architecture", &image.architecture);
        xml.text("imageType", "machine");
        xml.maybe("platform", image.platform.as_ref());
        xml.text("name", &image.name);
        xml.text("rootDeviceType", "ebs");
        xml.text("rootDeviceName", &image.root_device);
        xml.list("blockDeviceMapping", [()], |xml, ()| {
            xml.text("deviceName", &image.root_device);
            xml.node("ebs", |xml| {
                xml.text("snapshotId", image.id.replace("ami-", "snap-"));
                xml.text("volumeSize", image.size);
                xml.text("deleteOnTermination", true);
                xml.text("volumeType", "gp3");
                xml.text("encrypted", false);
            });
        });
        xml.text("virtualizationType", "hvm");
        xml.text("hypervisor", "xen");
        xml.text("enaSupport", true);
        write_tags(xml, &tags_at(&image.tags, view));
    });
    xml.maybe("nextToken", page.next);
    Ok(())
}

pub(super) fn subnets(call: &mut Call<'_>, xml: &mut Xml) -> Result<(), Refusal> {
    let ids = call.fields.texts("SubnetId")?;
    let known = &[
        "availability-zone",
        "availability-zone-id",
        "cidr-block",
        "default-for-az",
        "map-public-ip-on-launch",
        "owner-id",
        "state",
        "subnet-id",
        "tag-key",
        "tag:",
        "vpc-id",
    ];
    let filters = Filters::parse(&mut call.fields, known)?;
    let paging = call.paging(5, 1_000)?;
    let dry_run = call.fields.flag("DryRun")?;
    call.finish(dry_run)?;
    Call::not_both(&ids, &paging, "subnetIds")?;
    all_found(&ids, |id| call.place.subnets.contains_key(id), "InvalidSubnetID.NotFound", "subnet")?;
    let (view, region) = (call.view, call.place.region);
    let found: Vec<&Subnet> = call
        .place
        .subnets
        .values()
        .filter(|subnet| ids.is_empty() || ids.contains(&subnet.id))
        .filter(|subnet| {
            filters.pass(|name| match name {
                "availability-zone" => vec![subnet.zone.clone()],
                "availability-zone-id" => region.zone_id(&subnet.zone).into_iter().collect(),
                "cidr-block" => vec![format!("{}.0/24", subnet.prefix)],
                "default-for-az" => vec![subnet.is_default.to_string()],
                "map-public-ip-on-launch" => vec![subnet.public.to_string()],
                "owner-id" => vec![call.place.account.clone()],
                "state" => vec![subnet.state.clone()],
                "subnet-id" => vec![subnet.id.clone()],
                "vpc-id" => vec![subnet.vpc.clone()],
                _ => tag_values(name, &tags_at(&subnet.tags, view)).unwrap_or_default(),
            })
        })
        .collect();
    let page = call.cut(found, |subnet| subnet.id.clone(), &paging, 1_000)?;
    let live = || call.place.instances.values().filter(|instance| !instance.ended(view));
    xml.list("subnetSet", page.items, |xml, subnet| {
        let taken = live().flat_map(|i| &i.interfaces).filter(|i| i.subnet == subnet.id).count();
        xml.text("subnetId", &subnet.id);
        xml.text("state", &subnet.state);
        xml.text("vpcId", &subnet.vpc);
        xml.text("cidrBlock", format!("{}.0/24", subnet.prefix));
        xml.text("availableIpAddressCount", subnet.addresses.saturating_sub(u32::try_from(taken).unwrap_or(u32::MAX)));
        xml.text("availabilityZone", &subnet.zone);
        xml.maybe("availabilityZoneId", region.zone_id(&subnet.zone));
        xml.text("defaultForAz", subnet.is_default);
        xml.text("mapPublicIpOnLaunch", subnet.public);
        xml.text("ownerId", &call.place.account);
        write_tags(xml, &tags_at(&subnet.tags, view));
    });
    xml.maybe("nextToken", page.next);
    Ok(())
}

pub(super) fn groups(call: &mut Call<'_>, xml: &mut Xml) -> Result<(), Refusal> {
    let ids = call.fields.texts("GroupId")?;
    let names = call.fields.texts("GroupName")?;
    let filters = Filters::parse(
        &mut call.fields,
        &["description", "group-id", "group-name", "owner-id", "tag-key", "tag:", "vpc-id"],
    )?;
    let paging = call.paging(5, 1_000)?;
    let dry_run = call.fields.flag("DryRun")?;
    call.finish(dry_run)?;
    Call::not_both(&ids, &paging, "securityGroupIds")?;
    for id in &ids {
        if !call.place.groups.contains_key(id) {
            return Err(Refusal::bad("InvalidGroup.NotFound", format!("The security group '{id}' does not exist")));
        }
    }
    let view = call.view;
    let found: Vec<&Group> = call
        .place
        .groups
        .values()
        .filter(|group| ids.is_empty() || ids.contains(&group.id))
        .filter(|group| names.is_empty() || names.contains(&group.name))
        .filter(|group| {
            filters.pass(|name| match name {
                "description" => vec![group.description.clone()],
                "group-id" => vec![group.id.clone()],
                "group-name" => vec![group.name.clone()],
                "owner-id" => vec![call.place.account.clone()],
                "vpc-id" => vec![group.vpc.clone()],
                _ => tag_values(name, &tags_at(&group.tags, view)).unwrap_or_default(),
            })
        })
        .collect();
    let page = call.cut(found, |group| group.id.clone(), &paging, 1_000)?;
    xml.list("securityGroupInfo", page.items, |xml, group| {
        xml.text("ownerId", &call.place.account);
        xml.text("groupId", &group.id);
        xml.text("groupName", &group.name);
        xml.text("groupDescription", &group.description);
        xml.text("vpcId", &group.vpc);
        xml.texts("ipPermissions", Vec::<String>::new());
        xml.texts("ipPermissionsEgress", Vec::<String>::new());
        write_tags(xml, &tags_at(&group.tags, view));
    });
    xml.maybe("nextToken", page.next);
    Ok(())
}

pub(super) fn vpcs(call: &mut Call<'_>, xml: &mut Xml) -> Result<(), Refusal> {
    let ids = call.fields.texts("VpcId")?;
    let known = &["cidr", "dhcp-options-id", "is-default", "owner-id", "state", "tag-key", "tag:", "vpc-id"];
    let filters = Filters::parse(&mut call.fields, known)?;
    let paging = call.paging(5, 1_000)?;
    let dry_run = call.fields.flag("DryRun")?;
    call.finish(dry_run)?;
    Call::not_both(&ids, &paging, "vpcIds")?;
    all_found(&ids, |id| call.place.vpcs.contains_key(id), "InvalidVpcID.NotFound", "vpc")?;
    let view = call.view;
    let found: Vec<&Vpc> = call
        .place
        .vpcs
        .values()
        .filter(|vpc| ids.is_empty() || ids.contains(&vpc.id))
        .filter(|vpc| {
            filters.pass(|name| match name {
                "cidr" => vec![vpc.cidr.clone()],
                "dhcp-options-id" => vec![vpc.dhcp.clone()],
                "is-default" => vec![vpc.is_default.to_string()],
                "owner-id" => vec![call.place.account.clone()],
                "state" => vec!["available".to_owned()],
                "vpc-id" => vec![vpc.id.clone()],
                _ => tag_values(name, &tags_at(&vpc.tags, view)).unwrap_or_default(),
            })
        })
        .collect();
    let page = call.cut(found, |vpc| vpc.id.clone(), &paging, 1_000)?;
    xml.list("vpcSet", page.items, |xml, vpc| {
        xml.text("vpcId", &vpc.id);
        xml.text("ownerId", &call.place.account);
        xml.text("state", "available");
        xml.text("cidrBlock", &vpc.cidr);
        xml.text("dhcpOptionsId", &vpc.dhcp);
        xml.text("instanceTenancy", "default");
        xml.text("isDefault", vpc.is_default);
        write_tags(xml, &tags_at(&vpc.tags, view));
    });
    xml.maybe("nextToken", page.next);
    Ok(())
}

pub(super) fn dhcp(call: &mut Call<'_>, xml: &mut Xml) -> Result<(), Refusal> {
    let ids = call.fields.texts("DhcpOptionsId")?;
    let filters = Filters::parse(&mut call.fields, &["dhcp-options-id", "owner-id", "tag-key", "tag:"])?;
    let paging = call.paging(5, 1_000)?;
    let dry_run = call.fields.flag("DryRun")?;
    call.finish(dry_run)?;
    Call::not_both(&ids, &paging, "dhcpOptionsIds")?;
    all_found(&ids, |id| call.place.dhcp.contains_key(id), "InvalidDhcpOptionID.NotFound", "dhcpOption")?;
    let view = call.view;
    let found: Vec<&DhcpOptions> = call
        .place
        .dhcp
        .values()
        .filter(|options| ids.is_empty() || ids.contains(&options.id))
        .filter(|options| {
            filters.pass(|name| match name {
                "dhcp-options-id" => vec![options.id.clone()],
                "owner-id" => vec![call.place.account.clone()],
                _ => tag_values(name, &tags_at(&options.tags, view)).unwrap_or_default(),
            })
        })
        .collect();
    let page = call.cut(found, |options| options.id.clone(), &paging, 1_000)?;
    xml.list("dhcpOptionsSet", page.items, |xml, options| {
        xml.text("dhcpOptionsId", &options.id);
        xml.text("ownerId", &call.place.account);
        let settings = [("domain-name", options.domain.as_str()), ("domain-name-servers", "AmazonProvidedDNS")];
        xml.list("dhcpConfigurationSet", settings, |xml, (key, value)| {
            xml.text("key", key);
            xml.list("valueSet", [value], |xml, value| xml.text("value", value));
        });
        write_tags(xml, &tags_at(&options.tags, view));
    });
    xml.maybe("nextToken", page.next);
    Ok(())
}
