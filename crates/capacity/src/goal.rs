//! What should stand on an object, from what its machines offer and what the flags ask for.

use std::collections::BTreeMap;

use crate::admit::is_label_value;
use crate::config::{Config, DiskFrom, Headroom, Keys, LegacyGpus, MaxPods, NeuronResource, NodeLabel};
use crate::names;
use crate::offer::{Accelerators, Arch, Disk, Offer, Vendor};

/// Which keys one object gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// The older ones.
    pub legacy: bool,
    /// Those that every current cluster-autoscaler reads.
    pub upstream: bool,
}

impl Profile {
    /// The keys of an object of OpenShift's Machine API, or else of Cluster API.
    #[must_use]
    pub fn of(keys: Keys, machine_api: bool) -> Self {
        match keys {
            Keys::Auto => Self { legacy: true, upstream: !machine_api },
            Keys::Legacy => Self { legacy: true, upstream: false },
            Keys::Upstream => Self { legacy: false, upstream: true },
            Keys::Both => Self { legacy: true, upstream: true },
        }
    }
}

/// What is known of a group of machines beside its type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Around {
    /// The instance type, as people write it.
    pub instance_type: String,
    /// The region, where the provider has such.
    pub region: Option<String>,
    /// The zone.
    pub zone: Option<String>,
    /// The size of the root disk in GiB.
    pub root_gib: Option<u64>,
    /// Whether nodes run Windows.
    pub windows: bool,
}

/// What should stand on an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Goal {
    /// Which keys are written.
    pub legacy: bool,
    /// Whether upstream keys are introduced, or only existing copies kept in step.
    pub upstream: bool,
    /// The older keys, which are ours alone.
    pub fixed: BTreeMap<&'static str, String>,
    /// Keys that a user may override; `None` means that the key is not wanted.
    pub values: BTreeMap<&'static str, Option<String>>,
    /// The architecture; `None` when nothing is said about it.
    pub arch: Option<&'static str>,
    /// Whether the architecture is only assumed.
    pub assumed: bool,
    /// Further labels, which a user may override.
    pub labels: BTreeMap<String, String>,
    /// The type the values describe.
    pub instance_type: String,
    /// The region they are from.
    pub region: String,
}

impl Goal {
    /// The goal for one object.
    #[must_use]
    pub fn of(offer: &Offer, around: &Around, profile: Profile, config: &Config) -> Self {
        let legacy_gpus = match config.legacy_gpus {
            LegacyGpus::All => offer.gpus,
            LegacyGpus::Nvidia => offer.nvidia,
        };
        let mut fixed = BTreeMap::new();
        if profile.legacy {
            fixed.insert(names::LEGACY_CPU, offer.vcpus.to_string());
            fixed.insert(names::LEGACY_MEMORY, offer.memory_mib.to_string());
            fixed.insert(names::LEGACY_GPU, legacy_gpus.to_string());
        }
        let pods = pods(offer, config);
        let mut values = BTreeMap::new();
        if profile.upstream {
            let (cpu, memory) = left(offer, config.headroom).unzip();
            values.insert(names::CPU, cpu);
            values.insert(names::MEMORY, memory);
            let (count, resource, driver) = accelerators(offer.accelerators.as_ref(), config);
            values.insert(names::GPU_COUNT, count);
            values.insert(names::GPU_TYPE, resource);
            values.insert(names::DRA_DRIVER, driver);
            values.insert(names::EPHEMERAL_DISK, disk(offer, around, config).map(Disk::text));
            values.insert(names::MAX_PODS, pods.map(|pods| pods.to_string()));
            // A key without the flag is a user's, and nobody looks at it.
            values.extend(volumes(config).map(|limits| (names::CSI_DRIVER, Some(limits))));
        } else {
            values.insert(names::CPU, Some(offer.vcpus.to_string()));
            values.insert(names::MEMORY, Some(format!("{}Mi", offer.memory_mib)));
            // A copy of the older keys says what they imply, and OpenShift takes every GPU for NVIDIA's.
            let implied = if legacy_gpus > 0 { names::NVIDIA_RESOURCE } else { "" };
            values.insert(names::GPU_COUNT, Some(legacy_gpus.to_string()));
            values.insert(names::GPU_TYPE, Some(implied.to_owned()));
            values.extend(pods.map(|pods| (names::MAX_PODS, Some(pods.to_string()))));
        }
        if profile.legacy {
            values.insert(names::LEGACY_MAX_PODS, pods.map(|pods| pods.to_string()));
        }
        Self {
            legacy: profile.legacy,
            upstream: profile.upstream,
            fixed,
            values,
            arch: offer.arch.map(Arch::as_str),
            assumed: offer.assumed,
            labels: labels(offer, around, config),
            instance_type: around.instance_type.clone(),
            region: around.region.clone().unwrap_or_default(),
        }
    }

    /// Whether a key is written where it is missing.
    #[must_use]
    pub fn introduces(&self, key: &str) -> bool {
        if key == names::LEGACY_MAX_PODS { self.legacy } else { self.upstream }
    }
}

/// Processors and memory that are left for pods, as quantities; `None` when nothing is left of one.
#[must_use]
pub fn left(offer: &Offer, headroom: Headroom) -> Option<(String, String)> {
    const WHOLE: u128 = 10_000;
    let millis = offer.vcpus.checked_mul(1000)?.checked_sub(headroom.milli_cpu).filter(|millis| *millis > 0)?;
    let share = WHOLE.checked_sub(headroom.memory_share.into())?;
    let bytes = (u128::from(offer.memory_mib) << 20) * share / WHOLE;
    let mebibytes = bytes.checked_sub(headroom.memory.into())? >> 20;
    let cpu = if millis.is_multiple_of(1000) { (millis / 1000).to_string() } else { format!("{millis}m") };
    (mebibytes > 0).then(|| (cpu, format!("{mebibytes}Mi")))
}

type Text = Option<String>;

/// Count, resource and driver of accelerators.
fn accelerators(found: Option<&Accelerators>, config: &Config) -> (Text, Text, Text) {
    let Some(found) = found else { return (None, None, None) };
    let cores = found.vendor == Some(Vendor::Neuron) && config.neuron == NeuronResource::Cores;
    let (count, resource) = if cores {
        (found.cores, "aws.amazon.com/neuroncore".to_owned())
    } else {
        (found.count, found.resource.to_string())
    };
    if count == 0 {
        return (None, None, None);
    }
    let driver = found.vendor.and_then(|vendor| config.dra_drivers.get(&vendor));
    match driver {
        Some(driver) => (Some(count.to_string()), None, Some(driver.clone())),
        None => (Some(count.to_string()), Some(resource), None),
    }
}

/// The disk that pods share.
#[must_use]
pub fn disk(offer: &Offer, around: &Around, config: &Config) -> Option<Disk> {
    let root = around.root_gib.filter(|size| *size > 0).map(Disk::Gib);
    match config.disk {
        DiskFrom::Off => None,
        // Bare-metal hosts have no root volume of their own in the template, only the disk of the host.
        DiskFrom::RootVolume => root.or(offer.disk.filter(|disk| matches!(disk, Disk::Gib(_)))),
        DiskFrom::InstanceStore => offer.disk.or(root),
    }
}

/// How many volumes a node takes, by driver. Only whoever runs the drivers knows: types of instances do not tell.
fn volumes(config: &Config) -> Option<String> {
    let limits: Vec<String> = config.csi_limits.iter().map(|(driver, limit)| format!("{driver}={limit}")).collect();
    (!limits.is_empty()).then(|| limits.join(","))
}

fn pods(offer: &Offer, config: &Config) -> Option<u64> {
    let (interfaces, addresses) = offer.network.unwrap_or_default();
    let usable = interfaces.saturating_sub(config.reserved_interfaces).checked_mul(addresses.saturating_sub(1));
    let usable = usable.filter(|usable| *usable > 0);
    match config.max_pods {
        MaxPods::Off => None,
        MaxPods::Fixed(pods) => Some(pods),
        MaxPods::Eni => usable.map(|usable| usable + 2),
        MaxPods::Prefix => {
            let limit = if offer.vcpus < 31 { 110 } else { 250 };
            usable.map(|usable| usable.saturating_mul(16).saturating_add(2).min(limit))
        }
    }
}

fn labels(offer: &Offer, around: &Around, config: &Config) -> BTreeMap<String, String> {
    let label = |wanted: &NodeLabel| {
        let (key, value) = match wanted {
            NodeLabel::Os => {
                let windows = offer.windows.unwrap_or(around.windows);
                (names::OS, Some(if windows { "windows" } else { "linux" }.to_owned()))
            }
            // A node of a group of several types has one of them, and nobody knows which.
            NodeLabel::InstanceType => {
                (names::INSTANCE_TYPE, Some(around.instance_type.clone()).filter(|name| !name.contains(',')))
            }
            NodeLabel::Region => (names::TOPOLOGY_REGION, around.region.clone()),
            NodeLabel::Zone => (names::TOPOLOGY_ZONE, around.zone.clone()),
        };
        // No node can carry what is no label, and offerings and zones of CloudStack may be called anything.
        Some((key.to_owned(), value.filter(|value| !value.is_empty() && is_label_value(value))?))
    };
    config.node_labels.iter().filter_map(label).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_that_no_node_can_carry_are_not_told() {
        let config = Config { node_labels: [NodeLabel::InstanceType, NodeLabel::Zone].into(), ..Config::default() };
        let around = |name: &str, zone: &str| Around {
            instance_type: name.to_owned(),
            zone: Some(zone.to_owned()),
            ..Around::default()
        };
        let of = |name: &str, zone: &str| labels(&Offer::default(), &around(name, zone), &config).len();
        assert_eq!((of("large", "zone-1"), of("Large Instance", "zone-1"), of("a,b", "My Zone")), (2, 1, 0));
    }

    #[test]
    fn what_is_kept_is_taken_off_and_never_more_than_there_is() {
        let offer = Offer { vcpus: 4, memory_mib: 16384, ..Offer::default() };
        let of = |memory_share, milli_cpu, memory| left(&offer, Headroom { memory_share, milli_cpu, memory });
        let text = |cpu: &str, memory: &str| Some((cpu.to_owned(), memory.to_owned()));
        assert_eq!(of(0, 0, 0), text("4", "16384Mi"));
        assert_eq!(of(750, 0, 0), text("4", "15155Mi"), "rounded down, so that a pod of that size fits");
        assert_eq!(of(0, 100, 1 << 30), text("3900m", "15360Mi"));
        assert_eq!(of(0, 1000, 1), text("3", "16383Mi"));
        assert_eq!(of(0, 4000, 0), None);
        assert_eq!(of(0, 0, 16 << 30), None);
        assert_eq!(of(10_001, 0, 0), None);
    }
}
