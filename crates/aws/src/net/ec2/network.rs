//! Networks, disks and tags on the wire.

use std::fmt::Display;

use super::read::{address, each, groups, ipv6, need, parsed, tags, text, yes};
use crate::net::wire::{Form, Node};
use crate::port::{DhcpOptions, Filter, NetworkInterface, SecurityGroup, Subnet, TagDescription, Volume, Vpc};

/// Those of these ids, or those that match; EC2 pages only the latter.
pub(super) fn query<I: Display>(name: &str, ids: &[I], filters: &[Filter], page: u32) -> Form {
    let form = Form::new().list(name, ids).filters(filters);
    if ids.is_empty() { form.page_size(page) } else { form }
}

pub(super) fn subnets(root: Node<'_>, found: &mut Vec<Subnet>) -> Result<(), String> {
    each(root, "subnetSet", found, |node| {
        Ok(Subnet {
            id: need(node, "a subnet", "subnetId")?,
            vpc: parsed(node, "vpcId"),
            zone: parsed(node, "availabilityZone"),
            state: text(node, "state").unwrap_or_default(),
            free_addresses: parsed(node, "availableIpAddressCount"),
            public_by_default: yes(node, "mapPublicIpOnLaunch"),
            tags: tags(node),
        })
    })
}

pub(super) fn vpcs(root: Node<'_>, found: &mut Vec<Vpc>) -> Result<(), String> {
    each(root, "vpcSet", found, |node| {
        Ok(Vpc { id: need(node, "a VPC", "vpcId")?, dhcp_options: text(node, "dhcpOptionsId"), tags: tags(node) })
    })
}

pub(super) fn dhcp_options(root: Node<'_>, found: &mut Vec<DhcpOptions>) -> Result<(), String> {
    each(root, "dhcpOptionsSet", found, |node| {
        let named = node.items("dhcpConfigurationSet").filter(|item| item.get("key") == Some("domain-name"));
        let names = named.flat_map(|item| item.items("valueSet")).filter_map(|item| text(item, "value"));
        // Linux takes several names in one value, separated by blanks.
        let domain_names = names.flat_map(|names| names.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        Ok(DhcpOptions {
            id: need(node, "a set of DHCP options", "dhcpOptionsId")?,
            domain_names: domain_names.collect(),
        })
    })
}

pub(super) fn security_groups(root: Node<'_>, found: &mut Vec<SecurityGroup>) -> Result<(), String> {
    each(root, "securityGroupInfo", found, |node| {
        Ok(SecurityGroup {
            id: need(node, "a security group", "groupId")?,
            name: text(node, "groupName"),
            vpc: parsed(node, "vpcId"),
            tags: tags(node),
        })
    })
}

pub(super) fn interfaces(root: Node<'_>, found: &mut Vec<NetworkInterface>) -> Result<(), String> {
    each(root, "networkInterfaceSet", found, |node| {
        Ok(NetworkInterface {
            id: need(node, "a network interface", "networkInterfaceId")?,
            instance: node.child("attachment").and_then(|attachment| parsed(attachment, "instanceId")),
            subnet: parsed(node, "subnetId"),
            private_ip: address(node, "privateIpAddress"),
            ipv6: ipv6(node),
            security_groups: groups(node),
            tags: tags(node),
        })
    })
}

pub(super) fn volumes(root: Node<'_>, found: &mut Vec<Volume>) -> Result<(), String> {
    each(root, "volumeSet", found, |node| {
        Ok(Volume {
            id: need(node, "a volume", "volumeId")?,
            state: text(node, "status").unwrap_or_default(),
            attached_to: node.items("attachmentSet").filter_map(|item| parsed(item, "instanceId")).collect(),
            tags: tags(node),
        })
    })
}

pub(super) fn tag_list(root: Node<'_>, found: &mut Vec<TagDescription>) -> Result<(), String> {
    each(root, "tagSet", found, |node| {
        Ok(TagDescription {
            resource_id: need(node, "a tag", "resourceId")?,
            resource_type: text(node, "resourceType").unwrap_or_default(),
            key: node.child("key").map(Node::text).unwrap_or_default().to_owned(),
            value: text(node, "value").unwrap_or_default(),
        })
    })
}
