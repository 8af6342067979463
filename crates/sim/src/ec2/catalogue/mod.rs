//! What can be had: about 1,400 instance types, the regions and their zones, and which type is offered where.
//!
//! Nothing here is a copy of a list: a few rules (how names, sizes, memory and accelerators go together) generate it.

mod families;
pub mod regions;
mod rules;

pub use families::all;

/// An accelerator of an instance type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// Model name.
    pub name: String,
    /// Manufacturer, as the service spells it.
    pub manufacturer: String,
    /// Whole devices; 0 for types that get a part of one.
    pub count: u32,
    /// Logical devices, given only for types that get a part of one.
    pub logical: Option<u32>,
    /// Memory of one device in MiB.
    pub memory: u32,
}

/// Inference and training devices of an instance type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neuron {
    /// Model name.
    pub name: String,
    /// Devices.
    pub devices: u32,
    /// Cores of one device.
    pub cores: u32,
    /// Memory of one device in MiB.
    pub memory: u32,
}

/// The physical server behind a dedicated host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Server {
    /// Sockets.
    pub sockets: u32,
    /// Cores.
    pub cores: u32,
    /// Virtual processors to share out.
    pub vcpus: u32,
}

/// One instance type and everything the simulator knows of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceType {
    /// Full name, `m5.large`. A test may empty it to make a nameless entry.
    pub name: String,
    /// Virtual processors; 0 leaves the field out.
    pub vcpus: u32,
    /// Hardware threads per core.
    pub threads: u32,
    /// Memory in MiB; 0 leaves the field out.
    pub memory: u64,
    /// Architectures in the service's order.
    pub architectures: Vec<String>,
    /// Accelerators.
    pub gpus: Vec<Gpu>,
    /// Inference and training devices.
    pub neuron: Option<Neuron>,
    /// Local disks: number and size of one in GB.
    pub disks: Option<(u32, u32)>,
    /// No hypervisor.
    pub bare_metal: bool,
    /// `nitro` or `xen`; unused on bare metal.
    pub hypervisor: String,
    /// Of a current generation.
    pub current: bool,
    /// With processor credits.
    pub burstable: bool,
    /// Network interfaces.
    pub interfaces: u32,
    /// IPv4 addresses of one interface.
    pub addresses: u32,
    /// The server behind it, if dedicated hosts of this type exist.
    pub server: Option<Server>,
    /// A dedicated host may be asked for by family and then carry several types.
    pub by_family: bool,
}

impl InstanceType {
    /// The part of the name before the dot.
    #[must_use]
    pub fn family(&self) -> &str {
        family(&self.name)
    }

    /// A machine that runs macOS: one instance per host and at least a day of allocation.
    #[must_use]
    pub fn is_mac(&self) -> bool {
        is_mac(self.family())
    }

    /// How many instances of this type a host made for this type carries.
    #[must_use]
    pub fn per_host(&self) -> u32 {
        self.server.map_or(0, |server| server.vcpus.checked_div(self.vcpus).unwrap_or(0))
    }
}

/// The part of an instance type's name before the dot.
#[must_use]
pub fn family(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

/// True for the families that run macOS.
#[must_use]
pub fn is_mac(family: &str) -> bool {
    family.strip_prefix("mac").is_some_and(|rest| rest.starts_with(['1', '2', '-']))
}

/// Whether a zone has a type. Common families are everywhere; of the others every zone lacks some.
#[must_use]
pub fn offered(name: &str, zone: &str) -> bool {
    let family = family(name);
    let letters: String = family.chars().take_while(char::is_ascii_lowercase).collect();
    let generation = family.chars().find_map(|c| c.to_digit(10)).unwrap_or(0);
    let common = matches!(letters.as_str(), "m" | "c" | "r" | "t") && (3..=7).contains(&generation);
    // The first zone of a region has everything, so that every type can be had somewhere.
    common || zone.ends_with('a') || fnv(&[family, zone]) % 10 < 6
}

/// A stable number for some texts (FNV-1a), for choices that look arbitrary and never change.
#[must_use]
pub fn fnv(parts: &[&str]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for part in parts {
        for byte in part.bytes().chain([0xff]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    // The plain hash of texts that differ only at the end is too regular in its high bits.
    hash ^ (hash >> 29)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn find(name: &str) -> InstanceType {
        all().into_iter().find(|t| t.name == name).unwrap_or_else(|| panic!("no {name}"))
    }

    #[test]
    fn the_catalogue_has_the_size_and_shape_of_the_real_one() {
        let all = all();
        let names: BTreeSet<&str> = all.iter().map(|t| t.name.as_str()).collect();
        assert_eq!(names.len(), all.len(), "every name once");
        assert!((1_300..1_500).contains(&all.len()), "{} types", all.len());
        let count = |f: &dyn Fn(&InstanceType) -> bool| all.iter().filter(|t| f(t)).count();
        let gpu = count(&|t| !t.gpus.is_empty());
        let arm = count(&|t| t.architectures.iter().any(|a| a == "arm64"));
        assert!((50..100).contains(&gpu), "{gpu} with GPU");
        assert!((250..500).contains(&arm), "{arm} arm64");
        assert!(count(&|t| t.neuron.is_some()) >= 10);
        assert_eq!(count(&InstanceType::is_mac), 8);
        for t in &all {
            assert!(t.vcpus > 0 && t.memory > 0 && !t.architectures.is_empty(), "{t:?}");
            assert!(t.interfaces > 0 && t.addresses > 0, "{t:?}");
            assert!(t.server.is_none() || t.per_host() > 0, "{t:?}");
            assert!(t.server.is_some() || !t.by_family, "{t:?}");
        }
    }

    #[test]
    fn well_known_types_have_their_well_known_figures() {
        for (name, vcpus, memory) in [
            ("m5.xlarge", 4, 16_384),
            ("m5.4xlarge", 16, 65_536),
            ("m5.metal", 96, 393_216),
            ("m6g.4xlarge", 16, 65_536),
            ("c5.9xlarge", 36, 73_728),
            ("r5.large", 2, 16_384),
            ("p3.8xlarge", 32, 249_856),
            ("g4ad.xlarge", 4, 16_384),
            ("g6f.large", 2, 8_192),
            ("inf2.24xlarge", 96, 393_216),
            ("t2.micro", 1, 1_024),
            ("t3.nano", 2, 512),
            ("mac1.metal", 12, 32_768),
            ("mac2.metal", 8, 16_384),
            ("u-6tb1.metal", 448, 6_291_456),
        ] {
            let t = find(name);
            assert_eq!((t.vcpus, t.memory), (vcpus, memory), "{name}");
        }
    }

    #[test]
    fn odd_types_are_odd_in_the_way_the_real_ones_are() {
        assert_eq!(find("t2.micro").architectures, ["i386", "x86_64"]);
        assert_eq!(find("m6g.large").architectures, ["arm64"]);
        assert_eq!(find("mac1.metal").architectures, ["x86_64_mac"]);
        assert_eq!(find("mac2.metal").architectures, ["arm64_mac"]);
        let part = find("g6f.large");
        assert_eq!(part.gpus.iter().map(|g| (g.count, g.logical)).collect::<Vec<_>>(), [(0, Some(1))]);
        assert_eq!(find("g4ad.xlarge").gpus[0].manufacturer, "AMD");
        assert_eq!(find("p3.8xlarge").gpus[0].count, 4);
        assert_eq!(find("dl1.24xlarge").gpus[0].manufacturer, "Habana");
        let neuron = find("inf2.24xlarge").neuron.unwrap();
        assert_eq!((neuron.devices, neuron.cores), (6, 2));
    }

    #[test]
    fn hosts_carry_what_their_processors_allow() {
        assert_eq!(find("m5.large").per_host(), 48);
        assert_eq!(find("m5.metal").per_host(), 1);
        assert_eq!(find("mac2.metal").per_host(), 1);
        assert!(find("m5.large").by_family && !find("mac2.metal").by_family && !find("m4.large").by_family);
        assert!(find("t2.micro").server.is_none());
    }

    #[test]
    fn every_region_offers_every_type_somewhere_and_some_zones_lack_some() {
        let all = all();
        assert!(all.iter().all(|t| offered(&t.name, "us-east-1a")));
        assert!(offered("m5.large", "eu-west-1c"));
        let lacking = all.iter().filter(|t| !offered(&t.name, "eu-west-1c")).count();
        assert!(lacking > 100 && lacking < 700, "{lacking}");
    }
}
