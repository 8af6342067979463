//! Dedicated hosts on the wire.

use api::names::HostId;

use super::read::{each, figure, judged, moment, need, parsed, tags, text, yes};
use crate::net::wire::{Form, Node};
use crate::port::{AllocateHosts, Host, HostRoom, HostShape, HostState, HostedInstance, Judged, ModifyHosts, Switch};

/// The largest page EC2 gives.
const PAGE: u32 = 500;

pub(super) fn allocate(request: &AllocateHosts) -> Form {
    let form = Form::new()
        .with("AvailabilityZone", &request.zone)
        .with("AutoPlacement", "off")
        .with("ClientToken", &request.token)
        .with("Quantity", request.quantity)
        .maybe("HostRecovery", request.recovery.map(Switch::as_str))
        .maybe("HostMaintenance", request.maintenance.map(Switch::as_str))
        .maybe("OutpostArn", request.outpost_arn.as_ref())
        .list("AssetId", &request.asset_ids)
        .tag_specifications(&["dedicated-host"], &request.tags);
    match &request.shape {
        HostShape::Type(name) => form.with("InstanceType", name),
        HostShape::Family(name) => form.with("InstanceFamily", name),
    }
}

pub(super) fn allocated(root: Node<'_>) -> Result<Vec<HostId>, String> {
    let id = |item: Node<'_>| item.text().parse().map_err(|_| "a host without a readable id".to_owned());
    root.items("hostIdSet").map(id).collect()
}

pub(super) fn release(hosts: &[HostId]) -> Form {
    Form::new().list("HostId", hosts)
}

pub(super) fn modify(request: &ModifyHosts) -> Form {
    Form::new()
        .list("HostId", &request.hosts)
        .maybe("HostRecovery", request.recovery.map(Switch::as_str))
        .maybe("HostMaintenance", request.maintenance.map(Switch::as_str))
        .maybe("AutoPlacement", request.auto_placement.map(Switch::as_str))
}

pub(super) fn each_judged(root: Node<'_>) -> Result<Judged<HostId>, String> {
    judged(root)
}

pub(super) fn page_size(form: Form) -> Form {
    form.page_size(PAGE)
}

pub(super) fn described(root: Node<'_>, found: &mut Vec<Host>) -> Result<(), String> {
    each(root, "hostSet", found, host)
}

fn host(node: Node<'_>) -> Result<Host, String> {
    let properties = node.child("hostProperties");
    let property = |name| properties.and_then(|properties| text(properties, name));
    let capacity = node.child("availableCapacity");
    let mut instances = Vec::new();
    each(node, "instances", &mut instances, hosted)?;
    Ok(Host {
        id: need(node, "a host", "hostId")?,
        state: HostState::from(node.get("state").unwrap_or_default()),
        zone: parsed(node, "availabilityZone"),
        instance_type: property("instanceType"),
        instance_family: property("instanceFamily"),
        client_token: text(node, "clientToken"),
        allocated: moment(node, "allocationTime"),
        released: moment(node, "releaseTime"),
        room: capacity.into_iter().flat_map(|node| node.items("availableInstanceCapacity")).filter_map(room).collect(),
        free_vcpus: capacity.and_then(|node| parsed(node, "availableVCpus")),
        instances,
        auto_placement: text(node, "autoPlacement"),
        recovery: text(node, "hostRecovery"),
        maintenance: text(node, "hostMaintenance"),
        reservation: text(node, "hostReservationId"),
        owner: parsed(node, "ownerId"),
        in_resource_group: yes(node, "memberOfServiceLinkedResourceGroup"),
        tags: tags(node),
    })
}

fn room(node: Node<'_>) -> Option<HostRoom> {
    Some(HostRoom {
        instance_type: text(node, "instanceType")?,
        available: figure(node, "availableCapacity"),
        total: figure(node, "totalCapacity"),
    })
}

// An instance that cannot be read is an error: without it the host would look empty.
fn hosted(node: Node<'_>) -> Result<HostedInstance, String> {
    Ok(HostedInstance {
        id: need(node, "an instance of a host", "instanceId")?,
        instance_type: text(node, "instanceType").unwrap_or_default(),
        owner: parsed(node, "ownerId"),
    })
}
