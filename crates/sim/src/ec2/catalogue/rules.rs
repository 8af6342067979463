//! How the parts of an instance type follow from its family and size.

use super::{Gpu, InstanceType, Neuron, Server, is_mac};

/// Processors a family is built with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Chip {
    Intel,
    Amd,
    Arm,
    /// Old enough to run 32-bit images in its small sizes.
    Old,
    IntelMac,
    AppleMac,
}

/// Accelerators of a family: what they are, and how many in each of its sizes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Extra {
    None,
    /// Name, manufacturer, memory of one in MiB, numbers by size.
    Gpu(&'static str, &'static str, u32, &'static [u32]),
    /// The same for a part of one device.
    Slice(&'static str, &'static str, u32),
    /// Name, cores and memory of one device, numbers by size.
    Neuron(&'static str, u32, u32, &'static [u32]),
}

/// Some families that share everything but their names.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) families: &'static str,
    pub(super) chip: Chip,
    /// MiB of memory for each virtual processor.
    pub(super) memory: u64,
    /// Sizes; `metal=72` gives the number of virtual processors where the name does not, `metal=12:32768` also the
    /// memory where it does not follow from them.
    pub(super) sizes: &'static str,
    pub(super) extra: Extra,
    /// GB of local disk for each virtual processor; 0 = none, unless the family's name has a `d`.
    pub(super) disk: u32,
    /// Dedicated hosts exist.
    pub(super) hosts: bool,
}

/// One size of a family; 0 processors for a plain `metal`, which has all that the largest size has.
#[derive(Clone, Copy, Debug)]
struct Size<'a> {
    name: &'a str,
    vcpus: u32,
    memory: Option<u64>,
}

impl<'a> Size<'a> {
    fn parse(text: &'a str) -> Self {
        if let Some((name, figures)) = text.split_once('=') {
            let (vcpus, memory) = figures.split_once(':').unwrap_or((figures, ""));
            return Self { name, vcpus: vcpus.parse().unwrap_or(0), memory: memory.parse().ok() };
        }
        let times = |text: &str| text.parse::<u32>().map_or(4, |n| n * 4);
        let vcpus = match text {
            "medium" | "small" | "micro" | "nano" => 1,
            "large" => 2,
            "metal" => 0,
            _ => match (text.strip_suffix("xlarge"), text.strip_prefix("metal-")) {
                (Some(n), _) => times(n),
                (_, Some(n)) => times(n.trim_end_matches("xl")),
                _ => 1,
            },
        };
        Self { name: text, vcpus, memory: None }
    }
}

impl Row {
    /// The types of all families of the row.
    pub(super) fn types(&self) -> impl Iterator<Item = InstanceType> + '_ {
        self.families.split_whitespace().flat_map(move |family| {
            let sizes: Vec<Size<'_>> = self.sizes.split_whitespace().map(Size::parse).collect();
            let most = sizes.iter().map(|size| size.vcpus).max().unwrap_or(1);
            sizes.into_iter().enumerate().map(move |(at, mut size)| {
                if size.vcpus == 0 {
                    size.vcpus = most;
                }
                self.one(family, size, most, at)
            })
        })
    }

    fn one(&self, family: &str, size: Size<'_>, most: u32, at: usize) -> InstanceType {
        let Size { name: size, vcpus, memory: fixed } = size;
        let burstable = family.starts_with('t') && !family.starts_with("trn");
        let generation = family.chars().find_map(|c| c.to_digit(10)).unwrap_or(1);
        let mac = is_mac(family);
        let bare_metal = size.starts_with("metal");
        let memory = match (burstable, size) {
            (true, "nano") => 512,
            (true, "micro") => 1_024,
            (true, "small") => 2_048,
            (true, "medium") => 4_096,
            (true, "large") => 8_192,
            (true, "xlarge") => 16_384,
            (true, "2xlarge") => 32_768,
            _ => fixed.unwrap_or(u64::from(vcpus) * self.memory),
        };
        let small = matches!(size, "nano" | "micro" | "small" | "medium");
        let architectures: &[&str] = match self.chip {
            Chip::Intel | Chip::Amd => &["x86_64"],
            Chip::Old if small => &["i386", "x86_64"],
            Chip::Old => &["x86_64"],
            Chip::Arm => &["arm64"],
            Chip::IntelMac => &["x86_64_mac"],
            Chip::AppleMac => &["arm64_mac"],
        };
        let nth = |counts: &[u32]| counts.get(at).copied().unwrap_or(1);
        let gpus = match self.extra {
            Extra::Gpu(name, maker, memory, counts) => vec![gpu(name, maker, memory, nth(counts), None)],
            Extra::Slice(name, maker, memory) => vec![gpu(name, maker, memory, 0, Some(1))],
            Extra::None | Extra::Neuron(..) => Vec::new(),
        };
        let neuron = match self.extra {
            Extra::Neuron(name, cores, memory, counts) => {
                Some(Neuron { name: name.to_owned(), devices: nth(counts), cores, memory })
            }
            _ => None,
        };
        let after_generation = family.trim_start_matches(|c: char| !c.is_ascii_digit());
        let per_vcpu = match self.disk {
            0 if after_generation.contains('d') && !family.starts_with("dl") => 37,
            n => n,
        };
        let threads = if matches!(self.chip, Chip::Arm | Chip::AppleMac) || vcpus == 1 { 1 } else { 2 };
        let cores = most.checked_div(threads).unwrap_or(most).max(1);
        let xen = matches!(self.chip, Chip::Old) || generation <= 4 && matches!(family, "m4" | "c4" | "r4");
        InstanceType {
            name: format!("{family}.{size}"),
            vcpus,
            threads,
            memory,
            architectures: architectures.iter().map(|a| (*a).to_owned()).collect(),
            gpus,
            neuron,
            disks: (per_vcpu > 0).then(|| (1.max(vcpus / 32), (per_vcpu * vcpus / 1.max(vcpus / 32)).max(1))),
            bare_metal,
            hypervisor: if xen { "xen" } else { "nitro" }.to_owned(),
            current: !matches!(self.chip, Chip::Old) || burstable,
            burstable,
            interfaces: interfaces(vcpus),
            addresses: addresses(vcpus),
            server: self.hosts.then_some(Server { sockets: if mac || most < 96 { 1 } else { 2 }, cores, vcpus: most }),
            by_family: self.hosts && !xen && !mac,
        }
    }
}

fn gpu(name: &str, maker: &str, memory: u32, count: u32, logical: Option<u32>) -> Gpu {
    Gpu { name: name.to_owned(), manufacturer: maker.to_owned(), count, logical, memory }
}

fn interfaces(vcpus: u32) -> u32 {
    match vcpus {
        0..=1 => 2,
        2..=3 => 3,
        4..=15 => 4,
        16..=47 => 8,
        _ => 15,
    }
}

fn addresses(vcpus: u32) -> u32 {
    match vcpus {
        0..=1 => 4,
        2..=3 => 10,
        4..=15 => 15,
        16..=47 => 30,
        _ => 50,
    }
}
