//! What a machine of some type offers, whichever provider makes it.

use aws::port::{Architecture, TypeFacts};

use crate::names::NVIDIA_RESOURCE;

/// The processor architecture of a node, as Kubernetes spells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Arch {
    /// 64-bit x86.
    Amd64,
    /// 64-bit Arm.
    Arm64,
    /// 64-bit Power.
    Ppc64le,
    /// IBM Z.
    S390x,
}

impl Arch {
    /// Every architecture that OpenShift and Cluster API know.
    pub const ALL: [Self; 4] = [Self::Amd64, Self::Arm64, Self::Ppc64le, Self::S390x];

    /// The value of the label `kubernetes.io/arch`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
            Self::Ppc64le => "ppc64le",
            Self::S390x => "s390x",
        }
    }

    /// Reads the value of the label, or how a kernel spells it.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        match text {
            "amd64" | "x86_64" => Some(Self::Amd64),
            "arm64" | "aarch64" => Some(Self::Arm64),
            "ppc64le" => Some(Self::Ppc64le),
            "s390x" => Some(Self::S390x),
            _ => None,
        }
    }
}

/// Who makes an accelerator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Vendor {
    /// NVIDIA.
    Nvidia,
    /// AMD.
    Amd,
    /// Intel's Habana.
    Habana,
    /// AWS.
    Neuron,
}

impl Vendor {
    /// Every vendor, by the word of the flag `--dra-driver`.
    pub const ALL: [(&'static str, Self); 4] =
        [("nvidia", Self::Nvidia), ("amd", Self::Amd), ("habana", Self::Habana), ("neuron", Self::Neuron)];

    /// The vendor that a word stands for.
    #[must_use]
    pub fn read(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find_map(|(name, vendor)| (name == word).then_some(vendor))
    }

    /// The vendor whose name is among these words.
    #[must_use]
    pub fn among(words: &str) -> Option<Self> {
        words.split(|letter: char| !letter.is_ascii_alphanumeric()).find_map(Self::of_manufacturer)
    }

    /// The vendor by the name EC2 gives the manufacturer.
    fn of_manufacturer(name: &str) -> Option<Self> {
        let known = [("nvidia", Self::Nvidia), ("amd", Self::Amd), ("habana", Self::Habana)];
        known.into_iter().find_map(|(word, vendor)| name.eq_ignore_ascii_case(word).then_some(vendor))
    }

    /// The extended resource that the vendor's device plugin offers.
    #[must_use]
    pub fn resource(self) -> &'static str {
        match self {
            Self::Nvidia => NVIDIA_RESOURCE,
            Self::Amd => "amd.com/gpu",
            Self::Habana => "habana.ai/gaudi",
            Self::Neuron => "aws.amazon.com/neuron",
        }
    }
}

/// Accelerators of one vendor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accelerators {
    /// Whose they are; `None` when a table names only the resource.
    pub vendor: Option<Vendor>,
    /// The extended resource.
    pub resource: Box<str>,
    /// How many.
    pub count: u64,
    /// Cores in all of them, where a resource counts cores.
    pub cores: u64,
}

/// A disk, in the unit it was given in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disk {
    /// Powers of two.
    Gib(u64),
    /// Powers of ten.
    Gb(u64),
}

impl Disk {
    /// As a quantity.
    #[must_use]
    pub fn text(self) -> String {
        match self {
            Self::Gib(size) => format!("{size}Gi"),
            Self::Gb(size) => format!("{size}G"),
        }
    }
}

/// What one machine offers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// Processors.
    pub vcpus: u64,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// Accelerators that a resource is known for.
    pub accelerators: Option<Accelerators>,
    /// GPUs of any maker: what the older keys count.
    pub gpus: u64,
    /// Of these, NVIDIA's.
    pub nvidia: u64,
    /// The architecture; `None` when machines may differ in it.
    pub arch: Option<Arch>,
    /// Whether the architecture is only assumed.
    pub assumed: bool,
    /// Disks that come with the machine.
    pub disk: Option<Disk>,
    /// Network interfaces, and addresses of each.
    pub network: Option<(u64, u64)>,
    /// Whether nodes run Windows, where the provider knows.
    pub windows: Option<bool>,
    /// What it leaves open.
    pub choice: Choice,
}

/// What a type leaves open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// Nothing.
    #[default]
    None,
    /// Figures that are 0 are for the user to choose.
    User,
    /// Several types have its name.
    Several,
}

impl Offer {
    /// What EC2 says about an instance type.
    #[must_use]
    pub fn of_ec2(facts: &TypeFacts) -> Self {
        let units = |count: u32, logical: u32| u64::from(if count > 0 { count } else { logical });
        let total = |fits: &dyn Fn(&str) -> bool| -> u64 {
            facts.gpus.iter().filter(|g| fits(&g.manufacturer)).map(|g| units(g.count, g.logical)).sum()
        };
        let first = facts.gpus.iter().find_map(|gpu| Vendor::of_manufacturer(&gpu.manufacturer));
        let gpus = first.map(|vendor| Accelerators {
            vendor: Some(vendor),
            resource: vendor.resource().into(),
            count: total(&|name| Vendor::of_manufacturer(name) == Some(vendor)),
            cores: 0,
        });
        let neuron = || Accelerators {
            vendor: Some(Vendor::Neuron),
            resource: Vendor::Neuron.resource().into(),
            count: facts.neuron.iter().map(|device| u64::from(device.count)).sum(),
            cores: facts.neuron.iter().map(|device| u64::from(device.count) * u64::from(device.cores)).sum(),
        };
        // The list is scanned: older types name i386 first.
        let usual = facts.architectures.iter().find_map(|found| match found {
            Architecture::X86_64 => Some(Arch::Amd64),
            Architecture::Arm64 => Some(Arch::Arm64),
            _ => None,
        });
        let mac = || {
            facts.architectures.iter().find_map(|found| match found {
                Architecture::X86_64Mac => Some(Arch::Amd64),
                Architecture::Arm64Mac => Some(Arch::Arm64),
                _ => None,
            })
        };
        let (arch, assumed) = usual.or_else(mac).map_or((Arch::Amd64, true), |arch| (arch, false));
        Self {
            vcpus: facts.vcpus.into(),
            memory_mib: facts.memory_mib,
            accelerators: gpus.or_else(|| Some(neuron())).filter(|found| found.count > 0),
            gpus: total(&|_| true),
            nvidia: total(&|name| Vendor::of_manufacturer(name) == Some(Vendor::Nvidia)),
            arch: Some(arch),
            assumed,
            disk: (facts.storage_gb > 0).then_some(Disk::Gb(facts.storage_gb)),
            choice: Choice::None,
            network: (facts.interfaces > 0 && facts.ipv4_per_interface > 0)
                .then(|| (facts.interfaces.into(), facts.ipv4_per_interface.into())),
            windows: None,
        }
    }

    /// The least that any of several offers: what whoever gets one of them can rely on.
    #[must_use]
    pub fn least<'a>(all: impl Iterator<Item = &'a Self>) -> Option<Self> {
        all.cloned().reduce(|one, other| {
            let agreed = |a: Option<Accelerators>, b: Option<Accelerators>| match (a, b) {
                (Some(a), Some(b)) if a.resource == b.resource => {
                    Some(Accelerators { count: a.count.min(b.count), cores: a.cores.min(b.cores), ..a })
                }
                _ => None,
            };
            let disk = match (one.disk, other.disk) {
                (Some(Disk::Gib(a)), Some(Disk::Gib(b))) => Some(Disk::Gib(a.min(b))),
                (Some(Disk::Gb(a)), Some(Disk::Gb(b))) => Some(Disk::Gb(a.min(b))),
                _ => None,
            };
            Self {
                vcpus: one.vcpus.min(other.vcpus),
                memory_mib: one.memory_mib.min(other.memory_mib),
                accelerators: agreed(one.accelerators, other.accelerators),
                gpus: one.gpus.min(other.gpus),
                nvidia: one.nvidia.min(other.nvidia),
                arch: one.arch.filter(|_| one.arch == other.arch),
                assumed: one.assumed || other.assumed,
                disk,
                network: one.network.zip(other.network).map(|(a, b)| (a.0.min(b.0), a.1.min(b.1))),
                windows: one.windows.filter(|_| one.windows == other.windows),
                choice: one.choice,
            }
        })
    }

    /// Whether figures are missing without which nobody can plan.
    #[must_use]
    pub fn is_incomplete(&self) -> bool {
        self.vcpus == 0 || self.memory_mib == 0
    }
}

/// Makers of GPUs that no resource is known for, of which people should hear once.
pub fn strange_makers(facts: &TypeFacts) -> impl Iterator<Item = &str> {
    facts.gpus.iter().map(|gpu| gpu.manufacturer.as_str()).filter(|name| Vendor::of_manufacturer(name).is_none())
}

#[cfg(test)]
mod tests {
    use aws::port::{Gpu, NeuronDevice};

    use super::*;

    fn plain() -> TypeFacts {
        TypeFacts {
            name: "m5.xlarge".into(),
            vcpus: 4,
            memory_mib: 16384,
            architectures: vec![Architecture::X86_64],
            gpus: Vec::new(),
            neuron: Vec::new(),
            storage_gb: 0,
            interfaces: 4,
            ipv4_per_interface: 15,
            dedicated_hosts: true,
            bare_metal: false,
        }
    }

    fn gpu(manufacturer: &str, count: u32, logical: u32) -> Gpu {
        Gpu { manufacturer: manufacturer.to_owned(), name: "x".to_owned(), count, logical }
    }

    #[test]
    fn architectures_are_found_in_the_list_wherever_they_stand() {
        use Architecture::{Arm64, Arm64Mac, I386, X86_64, X86_64Mac};
        for (list, arch, assumed) in [
            (vec![I386, X86_64], Arch::Amd64, false),
            (vec![X86_64], Arch::Amd64, false),
            (vec![Arm64], Arch::Arm64, false),
            (vec![Arm64, X86_64], Arch::Arm64, false),
            (vec![X86_64Mac], Arch::Amd64, false),
            (vec![Arm64Mac], Arch::Arm64, false),
            (vec![I386], Arch::Amd64, true),
            (vec![], Arch::Amd64, true),
            (vec![Architecture::from("riscv64")], Arch::Amd64, true),
        ] {
            let offer = Offer::of_ec2(&TypeFacts { architectures: list.clone(), ..plain() });
            assert_eq!((offer.arch, offer.assumed), (Some(arch), assumed), "{list:?}");
        }
    }

    #[test]
    fn accelerators_are_counted_and_named_by_their_maker() {
        for (gpus, total, nvidia, named) in [
            (vec![], 0, 0, None),
            (vec![gpu("NVIDIA", 4, 0)], 4, 4, Some((NVIDIA_RESOURCE, 4))),
            (vec![gpu("NVIDIA", 0, 1)], 1, 1, Some((NVIDIA_RESOURCE, 1))),
            (vec![gpu("AMD", 1, 0)], 1, 0, Some(("amd.com/gpu", 1))),
            (vec![gpu("habana", 8, 0)], 8, 0, Some(("habana.ai/gaudi", 8))),
            (vec![gpu("Qualcomm", 8, 0)], 8, 0, None),
            (vec![gpu("NVIDIA", 0, 0)], 0, 0, None),
            (vec![gpu("NVIDIA", 2, 0), gpu("nvidia", 1, 0)], 3, 3, Some((NVIDIA_RESOURCE, 3))),
        ] {
            let offer = Offer::of_ec2(&TypeFacts { gpus: gpus.clone(), ..plain() });
            let found = offer.accelerators.as_ref().map(|a| (a.resource.as_ref(), a.count));
            assert_eq!((offer.gpus, offer.nvidia, found), (total, nvidia, named), "{gpus:?}");
        }
        let facts = TypeFacts { gpus: vec![gpu("Qualcomm", 8, 0)], ..plain() };
        assert_eq!(strange_makers(&facts).collect::<Vec<_>>(), ["Qualcomm"]);
    }

    #[test]
    fn neuron_devices_are_accelerators_but_no_gpus() {
        let neuron = vec![NeuronDevice { name: "Inferentia2".to_owned(), count: 6, cores: 2 }];
        let offer = Offer::of_ec2(&TypeFacts { neuron, ..plain() });
        let found = offer.accelerators.unwrap();
        assert_eq!((found.resource.as_ref(), found.count, found.cores), ("aws.amazon.com/neuron", 6, 12));
        assert_eq!((offer.gpus, offer.nvidia), (0, 0));
    }

    #[test]
    fn without_processors_or_memory_a_type_is_incomplete() {
        assert!(!Offer::of_ec2(&plain()).is_incomplete());
        assert!(Offer::of_ec2(&TypeFacts { vcpus: 0, ..plain() }).is_incomplete());
        assert!(Offer::of_ec2(&TypeFacts { memory_mib: 0, ..plain() }).is_incomplete());
    }

    #[test]
    fn of_several_types_the_least_counts_and_what_they_agree_on() {
        let of = |vcpus, arch, gpus: Vec<Gpu>| {
            Offer::of_ec2(&TypeFacts { vcpus, architectures: vec![arch], gpus, ..plain() })
        };
        let big = of(8, Architecture::X86_64, vec![gpu("NVIDIA", 4, 0)]);
        let small = of(4, Architecture::X86_64, vec![gpu("NVIDIA", 1, 0)]);
        let least = Offer::least([&big, &small].into_iter()).unwrap();
        assert_eq!((least.vcpus, least.arch, least.accelerators.unwrap().count), (4, Some(Arch::Amd64), 1));
        let other = of(16, Architecture::Arm64, vec![]);
        let least = Offer::least([&big, &other].into_iter()).unwrap();
        assert_eq!((least.vcpus, least.arch, least.accelerators, least.gpus), (8, None, None, 0));
        assert_eq!(Offer::least([&big].into_iter()).as_ref(), Some(&big));
        assert_eq!(Offer::least(std::iter::empty()), None);
    }
}
