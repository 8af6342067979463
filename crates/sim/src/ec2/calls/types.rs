//! Instance types and where they are offered.

use super::super::catalogue::{InstanceType, offered};
use super::super::wire::refusal::Refusal;
use super::super::wire::xml::Xml;
use super::super::world::filters::Filters;
use super::Call;

const FILTERS: &[&str] = &[
    "bare-metal",
    "burstable-performance-supported",
    "current-generation",
    "dedicated-hosts-supported",
    "hypervisor",
    "instance-storage-supported",
    "instance-type",
    "memory-info.size-in-mib",
    "processor-info.supported-architecture",
    "supported-boot-mode",
    "vcpu-info.default-vcpus",
];

pub(super) fn describe(call: &mut Call<'_>, xml: &mut Xml) -> Result<(), Refusal> {
    let names = call.fields.texts("InstanceType")?;
    let filters = Filters::parse(&mut call.fields, FILTERS)?;
    let paging = call.paging(5, 100)?;
    call.fields.flag("IncludeUnsupportedInRegion")?;
    let dry_run = call.fields.flag("DryRun")?;
    call.finish(dry_run)?;
    Call::not_both(&names, &paging, "InstanceTypes")?;
    if names.len() > 100 {
        return Err(Refusal::value("InstanceType", &names.len().to_string(), "Expecting at most 100 instance types."));
    }
    let region = call.place.region;
    let here = |kind: &InstanceType| kind.name.is_empty() || region.zones().any(|zone| offered(&kind.name, &zone));
    let unknown: Vec<&str> = names
        .iter()
        .map(String::as_str)
        .filter(|name| !call.types.iter().any(|kind| kind.name == *name && here(kind)))
        .collect();
    if !unknown.is_empty() {
        let text = format!("The following supplied instance types do not exist: [{}]", unknown.join(", "));
        return Err(Refusal::bad("InvalidInstanceType", text));
    }
    let found: Vec<&InstanceType> = call
        .types
        .iter()
        .filter(|kind| here(kind) && (names.is_empty() || names.contains(&kind.name)))
        .filter(|kind| filters.pass(|name| filter_values(kind, name)))
        .collect();
    let page = call.cut(found, |kind| kind.name.clone(), &paging, 100)?;
    xml.list("instanceTypeSet", page.items, write_type);
    xml.maybe("nextToken", page.next);
    Ok(())
}

fn filter_values(kind: &InstanceType, name: &str) -> Vec<String> {
    match name {
        "bare-metal" => vec![kind.bare_metal.to_string()],
        "burstable-performance-supported" => vec![kind.burstable.to_string()],
        "current-generation" => vec![kind.current.to_string()],
        "dedicated-hosts-supported" => vec![kind.server.is_some().to_string()],
        "hypervisor" if !kind.bare_metal => vec![kind.hypervisor.clone()],
        "instance-storage-supported" => vec![kind.disks.is_some().to_string()],
        "instance-type" => vec![kind.name.clone()],
        "memory-info.size-in-mib" => vec![kind.memory.to_string()],
        "processor-info.supported-architecture" => kind.architectures.clone(),
        "supported-boot-mode" => boot_modes(kind).iter().map(|mode| (*mode).to_owned()).collect(),
        "vcpu-info.default-vcpus" => vec![kind.vcpus.to_string()],
        _ => Vec::new(),
    }
}

fn boot_modes(kind: &InstanceType) -> &'static [&'static str] {
    match kind.architectures.first().map(String::as_str) {
        Some("arm64" | "arm64_mac" | "x86_64_mac") => &["uefi"],
        _ if kind.hypervisor == "nitro" => &["legacy-bios", "uefi"],
        _ => &["legacy-bios"],
    }
}

fn write_type(xml: &mut Xml, kind: &InstanceType) {
    if !kind.name.is_empty() {
        xml.text("instanceType", &kind.name);
    }
    xml.text("currentGeneration", kind.current);
    xml.text("freeTierEligible", kind.name == "t2.micro" || kind.name == "t3.micro");
    let classes: &[&str] = if kind.is_mac() { &["on-demand"] } else { &["on-demand", "spot"] };
    xml.texts("supportedUsageClasses", classes);
    xml.texts("supportedRootDeviceTypes", ["ebs"]);
    xml.texts("supportedVirtualizationTypes", ["hvm"]);
    xml.text("bareMetal", kind.bare_metal);
    if !kind.bare_metal {
        xml.text("hypervisor", &kind.hypervisor);
    }
    xml.node("processorInfo", |xml| {
        xml.texts("supportedArchitectures", &kind.architectures);
        xml.text("sustainedClockSpeedInGhz", "2.5");
    });
    if kind.vcpus > 0 {
        xml.node("vCpuInfo", |xml| {
            xml.text("defaultVCpus", kind.vcpus);
            xml.text("defaultCores", kind.vcpus.checked_div(kind.threads).unwrap_or(kind.vcpus));
            xml.text("defaultThreadsPerCore", kind.threads);
        });
    }
    if kind.memory > 0 {
        xml.node("memoryInfo", |xml| xml.text("sizeInMiB", kind.memory));
    }
    xml.text("instanceStorageSupported", kind.disks.is_some());
    if let Some((count, size)) = kind.disks {
        xml.node("instanceStorageInfo", |xml| {
            xml.text("totalSizeInGB", u64::from(count) * u64::from(size));
            xml.list("disks", [()], |xml, ()| {
                xml.text("sizeInGB", size);
                xml.text("count", count);
                xml.text("type", "ssd");
            });
            xml.text("nvmeSupport", if kind.hypervisor == "nitro" { "required" } else { "unsupported" });
            xml.text("encryptionSupport", "required");
        });
    }
    xml.node("ebsInfo", |xml| {
        xml.text("ebsOptimizedSupport", "default");
        xml.text("encryptionSupport", "supported");
        xml.text("nvmeSupport", if kind.hypervisor == "nitro" { "required" } else { "unsupported" });
    });
    write_network(xml, kind);
    write_accelerators(xml, kind);
    xml.node("placementGroupInfo", |xml| xml.texts("supportedStrategies", ["cluster", "partition", "spread"]));
    xml.text("hibernationSupported", false);
    xml.text("burstablePerformanceSupported", kind.burstable);
    xml.text("dedicatedHostsSupported", kind.server.is_some());
    xml.text("autoRecoverySupported", !kind.bare_metal && kind.disks.is_none());
    xml.texts("supportedBootModes", boot_modes(kind));
}

fn write_network(xml: &mut Xml, kind: &InstanceType) {
    let performance = match kind.vcpus {
        0..=16 => "Up to 10 Gigabit",
        17..=64 => "25 Gigabit",
        _ => "100 Gigabit",
    };
    xml.node("networkInfo", |xml| {
        xml.text("networkPerformance", performance);
        xml.text("maximumNetworkInterfaces", kind.interfaces);
        xml.text("maximumNetworkCards", 1);
        xml.text("defaultNetworkCardIndex", 0);
        xml.list("networkCards", [()], |xml, ()| {
            xml.text("networkCardIndex", 0);
            xml.text("networkPerformance", performance);
            xml.text("maximumNetworkInterfaces", kind.interfaces);
        });
        xml.text("ipv4AddressesPerInterface", kind.addresses);
        xml.text("ipv6AddressesPerInterface", kind.addresses);
        xml.text("ipv6Supported", true);
        xml.text("enaSupport", if kind.hypervisor == "nitro" { "required" } else { "supported" });
        xml.text("efaSupported", kind.vcpus >= 96);
    });
}

fn write_accelerators(xml: &mut Xml, kind: &InstanceType) {
    if !kind.gpus.is_empty() {
        xml.node("gpuInfo", |xml| {
            xml.list("gpus", &kind.gpus, |xml, gpu| {
                xml.text("name", &gpu.name);
                xml.text("manufacturer", &gpu.manufacturer);
                xml.text("count", gpu.count);
                xml.maybe("logicalGpuCount", gpu.logical);
                xml.node("memoryInfo", |xml| xml.text("sizeInMiB", gpu.memory));
            });
            let total: u64 = kind.gpus.iter().map(|gpu| u64::from(gpu.count) * u64::from(gpu.memory)).sum();
            xml.text("totalGpuMemoryInMiB", total);
        });
    }
    if let Some(neuron) = &kind.neuron {
        xml.node("neuronInfo", |xml| {
            xml.list("neuronDevices", [neuron], |xml, neuron| {
                xml.text("count", neuron.devices);
                xml.text("name", &neuron.name);
                xml.node("coreInfo", |xml| {
                    xml.text("count", neuron.cores);
                    xml.text("version", 2);
                });
                xml.node("memoryInfo", |xml| xml.text("sizeInMiB", neuron.memory));
            });
            xml.text("totalNeuronDeviceMemoryInMiB", u64::from(neuron.devices) * u64::from(neuron.memory));
        });
    }
}

pub(super) fn offerings(call: &mut Call<'_>, xml: &mut Xml) -> Result<(), Refusal> {
    let kinds = &["region", "availability-zone", "availability-zone-id", "outpost"];
    let by = call.fields.one_of("LocationType", kinds)?.unwrap_or_else(|| "region".to_owned());
    let filters = Filters::parse(&mut call.fields, &["instance-type", "location"])?;
    let paging = call.paging(5, 1_000)?;
    let dry_run = call.fields.flag("DryRun")?;
    call.finish(dry_run)?;
    let region = call.place.region;
    let mut found: Vec<(String, String)> = Vec::new();
    for kind in call.types.iter().filter(|kind| !kind.name.is_empty()) {
        let zones = region.zones().filter(|zone| offered(&kind.name, zone));
        let locations: Vec<String> = match by.as_str() {
            "region" => zones.take(1).map(|_| region.name.to_owned()).collect(),
            "availability-zone" => zones.collect(),
            "availability-zone-id" => zones.filter_map(|zone| region.zone_id(&zone)).collect(),
            _ => Vec::new(),
        };
        found.extend(locations.into_iter().map(|location| (kind.name.clone(), location)));
    }
    found.retain(|(kind, location)| {
        filters.pass(|name| vec![if name == "location" { location.clone() } else { kind.clone() }])
    });
    found.sort();
    let page = call.cut(found, |(kind, location)| format!("{kind}\n{location}"), &paging, 1_000)?;
    xml.list("instanceTypeOfferingSet", page.items, |xml, (kind, location)| {
        xml.text("instanceType", kind);
        xml.text("locationType", &by);
        xml.text("location", location);
    });
    xml.maybe("nextToken", page.next);
    Ok(())
}
