//! Instance types, offerings, images, regions and zones on the wire.

use super::read::{each, figure, need, parsed, tags, text, yes};
use crate::net::wire::{Form, Node};
use crate::port::{
    Architecture, Filter, Gpu, Image, ImageQuery, LocationType, NeuronDevice, Offering, OptIn, RegionInfo, TypeFacts,
    TypeList, ZoneInfo,
};

/// The largest page of types EC2 gives, and the most names it takes.
pub(super) const TYPES: usize = 100;

pub(super) fn all_types() -> Form {
    Form::new().page_size(100)
}

/// Reads a page of types; an entry without a name is counted and passed over.
pub(super) fn types(root: Node<'_>, found: &mut TypeList) {
    for item in root.items("instanceTypeSet") {
        match facts(item) {
            Some(facts) => found.types.push(facts),
            None => found.nameless += 1,
        }
    }
}

fn facts(node: Node<'_>) -> Option<TypeFacts> {
    let name = node.get("instanceType")?.into();
    let part = |name: &str| node.child(name);
    let network = part("networkInfo");
    let default_card: u32 = network.map(|node| figure(node, "defaultNetworkCardIndex")).unwrap_or_default();
    let card = network.and_then(|node| {
        node.items("networkCards").find(|card| figure::<u32>(*card, "networkCardIndex") == default_card)
    });
    // Old answers have no cards, only the sum over all.
    let interfaces = card.or(network).map(|node| figure(node, "maximumNetworkInterfaces")).unwrap_or_default();
    let architectures = part("processorInfo").into_iter().flat_map(|node| node.items("supportedArchitectures"));
    Some(TypeFacts {
        name,
        vcpus: part("vCpuInfo").map(|node| figure(node, "defaultVCpus")).unwrap_or_default(),
        memory_mib: part("memoryInfo").map(|node| figure(node, "sizeInMiB")).unwrap_or_default(),
        architectures: architectures.map(|node| Architecture::from(node.text())).collect(),
        gpus: part("gpuInfo").into_iter().flat_map(|node| node.items("gpus")).map(gpu).collect(),
        neuron: part("neuronInfo").into_iter().flat_map(|node| node.items("neuronDevices")).map(neuron).collect(),
        storage_gb: part("instanceStorageInfo").map(|node| figure(node, "totalSizeInGB")).unwrap_or_default(),
        interfaces,
        ipv4_per_interface: network.map(|node| figure(node, "ipv4AddressesPerInterface")).unwrap_or_default(),
        dedicated_hosts: yes(node, "dedicatedHostsSupported"),
        bare_metal: yes(node, "bareMetal"),
    })
}

fn gpu(node: Node<'_>) -> Gpu {
    Gpu {
        manufacturer: text(node, "manufacturer").unwrap_or_default(),
        name: text(node, "name").unwrap_or_default(),
        count: figure(node, "count"),
        logical: figure(node, "logicalGpuCount"),
    }
}

fn neuron(node: Node<'_>) -> NeuronDevice {
    NeuronDevice {
        name: text(node, "name").unwrap_or_default(),
        count: figure(node, "count"),
        cores: node.child("coreInfo").map(|node| figure(node, "count")).unwrap_or_default(),
    }
}

pub(super) fn offerings(location: &LocationType, filters: &[Filter]) -> Form {
    Form::new().with("LocationType", location).filters(filters).page_size(1000)
}

pub(super) fn offered(root: Node<'_>, found: &mut Vec<Offering>) -> Result<(), String> {
    each(root, "instanceTypeOfferingSet", found, |node| {
        Ok(Offering {
            instance_type: need(node, "an offering", "instanceType")?,
            location_type: LocationType::from(node.get("locationType").unwrap_or_default()),
            location: text(node, "location").unwrap_or_default(),
        })
    })
}

pub(super) fn images(query: &ImageQuery) -> Form {
    let form = Form::new().list("ImageId", &query.ids).list("Owner", &query.owners).filters(&query.filters);
    if query.ids.is_empty() { form.page_size(200) } else { form }
}

/// Reads images; one with an id of a form this version does not know cannot be launched anyway and is passed over.
pub(super) fn image_list(root: Node<'_>, found: &mut Vec<Image>) {
    found.extend(root.items("imagesSet").filter_map(image));
}

fn image(node: Node<'_>) -> Option<Image> {
    let root_device = text(node, "rootDeviceName");
    let is_root = |item: &Node<'_>| item.get("deviceName") == root_device.as_deref();
    let root_disk = node.items("blockDeviceMapping").find(is_root).and_then(|item| item.child("ebs"));
    Some(Image {
        id: parsed(node, "imageId")?,
        name: text(node, "name"),
        owner: text(node, "imageOwnerId"),
        state: text(node, "imageState").unwrap_or_default(),
        architecture: node.get("architecture").map(Architecture::from),
        created: text(node, "creationDate"),
        platform: text(node, "platform"),
        platform_details: text(node, "platformDetails"),
        root_size: root_disk.and_then(|ebs| parsed(ebs, "volumeSize")),
        virtualization: text(node, "virtualizationType"),
        tags: tags(node),
        root_device,
    })
}

pub(super) fn regions(root: Node<'_>, found: &mut Vec<RegionInfo>) -> Result<(), String> {
    each(root, "regionInfo", found, |node| {
        Ok(RegionInfo { name: need(node, "a region", "regionName")?, opt_in: opt_in(node) })
    })
}

/// Reads zones; one of a form this version does not know cannot be used anyway and is passed over.
pub(super) fn zones(root: Node<'_>, found: &mut Vec<ZoneInfo>) {
    found.extend(root.items("availabilityZoneInfo").filter_map(|node| {
        Some(ZoneInfo {
            name: parsed(node, "zoneName")?,
            id: text(node, "zoneId"),
            state: text(node, "zoneState").unwrap_or_default(),
            zone_type: text(node, "zoneType"),
            opt_in: opt_in(node),
        })
    }));
}

fn opt_in(node: Node<'_>) -> OptIn {
    OptIn::from(node.get("optInStatus").unwrap_or("opt-in-not-required"))
}
