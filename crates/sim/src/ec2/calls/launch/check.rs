//! What a launch names must exist and fit together.

use super::super::super::catalogue::{InstanceType, offered};
use super::super::super::wire::refusal::Refusal;
use super::super::super::world::instance::Volume;
use super::super::super::world::place::{Image, Subnet, Tags};
use super::super::super::world::time::History;
use super::super::Call;
use super::super::shared::check_ids;
use super::wish::Wish;

pub(super) fn subnet(call: &Call<'_>, wish: &Wish) -> Result<Subnet, Refusal> {
    let region = call.place.region;
    let zone = wish.placement.zone.as_deref();
    if let Some(zone) = zone.filter(|zone| !region.zones().any(|known| known == *zone)) {
        return Err(Refusal::bad("InvalidParameterValue", format!("Invalid availability zone: [{zone}]")));
    }
    match &wish.subnet {
        Some(id) => {
            let subnet = call.place.subnets.get(id).ok_or_else(|| {
                Refusal::bad("InvalidSubnetID.NotFound", format!("The subnet ID '{id}' does not exist"))
            })?;
            if zone.is_some_and(|zone| zone != subnet.zone) {
                let text = format!("The subnet {id} is not in the Availability Zone of the request");
                return Err(Refusal::bad("InvalidParameterValue", text));
            }
            Ok(subnet.clone())
        }
        None => {
            let found = call.place.subnets.values().filter(|s| s.is_default);
            let mut fitting: Vec<&Subnet> = found.filter(|s| zone.is_none_or(|zone| zone == s.zone)).collect();
            fitting.sort_by(|a, b| a.zone.cmp(&b.zone));
            fitting.first().map(|subnet| (*subnet).clone()).ok_or_else(|| {
                Refusal::bad("MissingInput", "No subnets found for the default VPC. Please specify a subnet.")
            })
        }
    }
}

pub(super) fn image(call: &Call<'_>, wish: &Wish) -> Result<Image, Refusal> {
    let id = &wish.image;
    check_ids(std::slice::from_ref(id), "ami", "InvalidAMIID.Malformed")?;
    let image = call
        .place
        .images
        .get(id)
        .ok_or_else(|| Refusal::bad("InvalidAMIID.NotFound", format!("The image id '[{id}]' does not exist")))?;
    if image.state != "available" {
        let text = format!("The image ID '{id}' is not available: {}", image.state);
        return Err(Refusal::bad("InvalidAMIID.Unavailable", text));
    }
    Ok(image.clone())
}

pub(super) fn kind(call: &Call<'_>, wish: &Wish, image: &Image, subnet: &Subnet) -> Result<InstanceType, Refusal> {
    let name = &wish.kind;
    let kind =
        call.types.iter().find(|kind| kind.name == *name).ok_or_else(|| {
            Refusal::bad("InvalidParameterValue", format!("Invalid value '{name}' for InstanceType."))
        })?;
    if !offered(name, &subnet.zone) {
        let text = format!(
            "Your requested instance type ({name}) is not supported in your requested Availability Zone ({}).",
            subnet.zone
        );
        return Err(Refusal::bad("Unsupported", text));
    }
    if !kind.architectures.contains(&image.architecture) {
        let text = format!(
            "The architecture '{}' of the specified instance type does not match the architecture '{}' of the specified AMI.",
            kind.architectures.join(", "),
            image.architecture
        );
        return Err(Refusal::bad("InvalidParameterValue", text));
    }
    Ok(kind.clone())
}

pub(super) fn check_network(call: &Call<'_>, wish: &Wish, subnet: &Subnet) -> Result<(), Refusal> {
    for id in &wish.groups {
        let known = call.place.groups.get(id);
        let known = known.ok_or_else(|| {
            Refusal::bad("InvalidGroup.NotFound", format!("The security group '{id}' does not exist"))
        })?;
        if known.vpc != subnet.vpc {
            let text = format!("Security group {id} and subnet {} belong to different networks.", subnet.id);
            return Err(Refusal::bad("InvalidParameter", text));
        }
    }
    if let Some(key) = wish.key.as_ref().filter(|key| !call.place.keys.contains(key)) {
        return Err(Refusal::bad("InvalidKeyPair.NotFound", format!("The key pair '{key}' does not exist")));
    }
    Ok(())
}

pub(super) fn volumes(wish: &Wish, image: &Image) -> Result<Vec<Volume>, Refusal> {
    let blank = |name: &str, size: u32| Volume {
        id: String::new(),
        device: name.to_owned(),
        size,
        kind: "gp2".to_owned(),
        encrypted: false,
        delete: true,
        tags: History::new(jiff::Timestamp::MIN, Tags::new()),
    };
    let mut all = vec![blank(&image.root_device, image.size)];
    for device in &wish.devices {
        let root = device.name == image.root_device;
        let size = match device.size {
            Some(size) => size,
            None if root => image.size,
            None => {
                return Err(Refusal::bad(
                    "InvalidBlockDeviceMapping",
                    format!("The device {} has no size", device.name),
                ));
            }
        };
        if root && size < image.size {
            let text = format!("Volume of size {size}GB is smaller than snapshot, expect size >= {}GB", image.size);
            return Err(Refusal::bad("InvalidBlockDeviceMapping", text));
        }
        let volume = Volume {
            kind: device.kind.clone(),
            encrypted: device.encrypted,
            delete: device.delete,
            ..blank(&device.name, size)
        };
        match all.iter_mut().find(|known| known.device == device.name) {
            Some(known) if root => *known = volume,
            Some(_) => {
                let text = format!("Duplicate device name {}", device.name);
                return Err(Refusal::bad("InvalidBlockDeviceMapping", text));
            }
            None => all.push(volume),
        }
    }
    Ok(all)
}

/// Checks what does not depend on the state of hosts, and gives the tenancy.
pub(super) fn check_placement(wish: &Wish, kind: &InstanceType, image: &Image) -> Result<String, Refusal> {
    let tenancy = wish.placement.tenancy.clone().unwrap_or_else(|| "default".to_owned());
    if tenancy == "host" {
        if kind.server.is_none() {
            let text = format!("The instance type {} is not supported on Dedicated Hosts", kind.name);
            return Err(Refusal::bad("UnsupportedHostConfiguration", text));
        }
        if image.licensed {
            let text = format!(
                "The image {} is licensed by its vendor and cannot be launched onto a Dedicated Host",
                image.id
            );
            return Err(Refusal::bad("UnsupportedOperation", text));
        }
    } else if kind.is_mac() {
        return Err(Refusal::bad(
            "Unsupported",
            "The requested configuration is currently not supported. Please check the documentation for supported configurations.",
        ));
    }
    Ok(tenancy)
}
