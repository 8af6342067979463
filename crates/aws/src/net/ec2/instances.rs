//! Instances on the wire.

use api::names::InstanceId;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::read::{address, each, groups, ipv6, moment, need, parsed, tags, text};
use crate::errors::strip_prefix;
use crate::net::wire::{Form, Node};
use crate::port::{
    Affinity, Instance, InstanceInterface, InstanceState, MetadataOptions, RunInstance, StateChange, StateReason,
    Tenancy,
};

/// A page whose answer stays well below the limit of what is read: an instance takes up to 10 KiB.
const PAGE: u32 = 200;

pub(super) fn run(request: &RunInstance) -> Form {
    let placement = &request.placement;
    let mut form = Form::new()
        .with("MinCount", 1)
        .with("MaxCount", 1)
        .with("ClientToken", &request.token)
        .with("ImageId", &request.image)
        .with("InstanceType", &request.instance_type)
        .maybe("DryRun", request.dry_run.then_some(true))
        .maybe("KeyName", request.key_name.as_ref())
        .maybe("IamInstanceProfile.Name", request.profile.as_ref())
        .maybe("UserData", request.user_data.as_ref().map(|data| STANDARD.encode(data.expose())))
        .with("NetworkInterface.1.DeviceIndex", 0)
        .with("NetworkInterface.1.SubnetId", &request.subnet)
        .maybe("NetworkInterface.1.AssociatePublicIpAddress", request.public_ip)
        .list("NetworkInterface.1.SecurityGroupId", &request.security_groups)
        .maybe("Placement.Tenancy", placement.tenancy.as_ref())
        .maybe("Placement.HostId", placement.host.as_ref())
        .maybe("Placement.Affinity", placement.affinity.as_ref())
        .maybe("Placement.HostResourceGroupArn", placement.host_resource_group_arn.as_ref())
        .maybe("Placement.GroupName", placement.group_name.as_ref())
        .maybe("Placement.PartitionNumber", placement.partition);
    for (at, device) in request.block_devices.iter().enumerate() {
        let name = |rest: &str| format!("BlockDeviceMapping.{}.{rest}", at + 1);
        form = form
            .with(&name("DeviceName"), &device.device_name)
            .with(&name("Ebs.DeleteOnTermination"), true)
            .maybe(&name("Ebs.VolumeSize"), device.size)
            .maybe(&name("Ebs.VolumeType"), device.volume_type.as_ref())
            .maybe(&name("Ebs.Iops"), device.iops)
            .maybe(&name("Ebs.Throughput"), device.throughput)
            .maybe(&name("Ebs.Encrypted"), device.encrypted)
            .maybe(&name("Ebs.KmsKeyId"), device.kms_key_id.as_ref());
    }
    for (at, arn) in request.license_configuration_arns.iter().enumerate() {
        form = form.with(&format!("LicenseSpecification.{}.LicenseConfigurationArn", at + 1), arn);
    }
    metadata(form, "MetadataOptions.", &request.metadata)
        .tag_specifications(&["instance", "volume", "network-interface"], &request.tags)
}

pub(super) fn metadata(form: Form, prefix: &str, options: &MetadataOptions) -> Form {
    form.maybe(&format!("{prefix}HttpEndpoint"), options.http_endpoint.as_ref())
        .maybe(&format!("{prefix}HttpTokens"), options.http_tokens.as_ref())
        .maybe(&format!("{prefix}HttpPutResponseHopLimit"), options.http_put_response_hop_limit)
        .maybe(&format!("{prefix}HttpProtocolIpv6"), options.http_protocol_ipv6.as_ref())
        .maybe(&format!("{prefix}InstanceMetadataTags"), options.instance_metadata_tags.as_ref())
}

pub(super) fn launched(root: Node<'_>) -> Result<Instance, String> {
    let mut found = Vec::new();
    each(root, "instancesSet", &mut found, instance)?;
    found.into_iter().next().ok_or_else(|| "it names no instance".to_owned())
}

pub(super) fn page_size(form: Form) -> Form {
    form.page_size(PAGE)
}

pub(super) fn described(root: Node<'_>, found: &mut Vec<Instance>) -> Result<(), String> {
    root.items("reservationSet").try_for_each(|reservation| each(reservation, "instancesSet", found, instance))
}

pub(super) fn named(instances: &[InstanceId]) -> Form {
    Form::new().list("InstanceId", instances)
}

pub(super) fn changed(root: Node<'_>, found: &mut Vec<StateChange>) -> Result<(), String> {
    let state = |node: Node<'_>, name: &str| {
        InstanceState::from(node.child(name).and_then(|state| state.get("name")).unwrap_or_default())
    };
    each(root, "instancesSet", found, |node| {
        Ok(StateChange {
            id: need(node, "an instance", "instanceId")?,
            before: state(node, "previousState"),
            now: state(node, "currentState"),
        })
    })
}

fn instance(node: Node<'_>) -> Result<Instance, String> {
    let placement = node.child("placement");
    let placed = |name: &str| placement.and_then(|placement| placement.get(name));
    let reason = node.child("stateReason").and_then(|reason| {
        Some(StateReason {
            code: strip_prefix(reason.get("code")?).to_owned(),
            message: text(reason, "message").unwrap_or_default(),
        })
    });
    let options = node.child("metadataOptions");
    let volume = |item: Node<'_>| item.child("ebs").and_then(|ebs| parsed(ebs, "volumeId"));
    Ok(Instance {
        id: need(node, "an instance", "instanceId")?,
        state: InstanceState::from(node.path(&["instanceState", "name"]).map(Node::text).unwrap_or_default()),
        state_reason: reason,
        instance_type: text(node, "instanceType").unwrap_or_default(),
        image: parsed(node, "imageId"),
        zone: placed("availabilityZone").and_then(|zone| zone.parse().ok()),
        host: placed("hostId").and_then(|host| host.parse().ok()),
        tenancy: placed("tenancy").map(Tenancy::from),
        affinity: placed("affinity").map(Affinity::from),
        host_resource_group_arn: placed("hostResourceGroupArn").map(str::to_owned),
        subnet: parsed(node, "subnetId"),
        vpc: parsed(node, "vpcId"),
        client_token: text(node, "clientToken"),
        launched: moment(node, "launchTime"),
        lifecycle: text(node, "instanceLifecycle"),
        private_dns: text(node, "privateDnsName"),
        private_ip: address(node, "privateIpAddress"),
        public_dns: text(node, "dnsName"),
        public_ip: address(node, "ipAddress"),
        interfaces: node.items("networkInterfaceSet").map(interface).collect(),
        volumes: node.items("blockDeviceMapping").filter_map(volume).collect(),
        security_groups: groups(node),
        metadata: options.map(read_metadata).unwrap_or_default(),
        tags: tags(node),
    })
}

fn interface(node: Node<'_>) -> InstanceInterface {
    let association = node.child("association");
    InstanceInterface {
        id: parsed(node, "networkInterfaceId"),
        device_index: node.child("attachment").and_then(|attachment| parsed(attachment, "deviceIndex")),
        private_dns: text(node, "privateDnsName"),
        private_ip: address(node, "privateIpAddress"),
        public_dns: association.and_then(|association| text(association, "publicDnsName")),
        public_ip: association.and_then(|association| address(association, "publicIp")),
        ipv6: ipv6(node),
        security_groups: groups(node),
    }
}

fn read_metadata(node: Node<'_>) -> MetadataOptions {
    MetadataOptions {
        http_endpoint: text(node, "httpEndpoint"),
        http_tokens: text(node, "httpTokens"),
        http_put_response_hop_limit: parsed(node, "httpPutResponseHopLimit"),
        http_protocol_ipv6: text(node, "httpProtocolIpv6"),
        instance_metadata_tags: text(node, "instanceMetadataTags"),
    }
}
