//! What EC2 offers: instance types, images, regions and zones.

use api::names::{AvailabilityZone, ImageId, InstanceType};

use super::common::{Filter, Tags};
use kit::open;

open! {
    /// A processor architecture.
    Architecture {
        /// 64-bit x86.
        X86_64 = "x86_64",
        /// 64-bit Arm.
        Arm64 = "arm64",
        /// 32-bit x86.
        I386 = "i386",
        /// 64-bit x86 of mac hosts.
        X86_64Mac = "x86_64_mac",
        /// 64-bit Arm of mac hosts.
        Arm64Mac = "arm64_mac",
    }
}

open! {
    /// Whether an account may use a region or zone.
    OptIn {
        /// Always.
        NotRequired = "opt-in-not-required",
        /// The account has opted in.
        OptedIn = "opted-in",
        /// The account has not opted in.
        NotOptedIn = "not-opted-in",
    }
}

open! {
    /// What an offering is bound to.
    LocationType {
        /// A region.
        Region = "region",
        /// A zone.
        Zone = "availability-zone",
        /// A zone by its id.
        ZoneId = "availability-zone-id",
        /// An outpost.
        Outpost = "outpost",
    }
}

/// Which instance types to describe.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TypeQuery {
    /// The whole catalogue.
    All,
    /// Exactly these, at most 100; an unknown one is an error of the call (`InvalidInstanceType`).
    Names(Vec<InstanceType>),
}

/// GPUs of one kind in an instance type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// `NVIDIA`, `AMD`, `Habana`, ….
    pub manufacturer: String,
    /// The model.
    pub name: String,
    /// How many whole ones; 0 for types with a part of one.
    pub count: u32,
    /// How many the system sees; 0 when EC2 does not say.
    pub logical: u32,
}

/// Neuron devices of one kind in an instance type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeuronDevice {
    /// The model.
    pub name: String,
    /// How many.
    pub count: u32,
    /// Cores of each.
    pub cores: u32,
}

/// What EC2 says about an instance type; absent figures are 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeFacts {
    /// The name, as EC2 writes it: a type of an unusual form is still a type.
    pub name: Box<str>,
    /// Virtual processors.
    pub vcpus: u32,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// Architectures, in EC2's order.
    pub architectures: Vec<Architecture>,
    /// GPUs.
    pub gpus: Vec<Gpu>,
    /// Neuron devices.
    pub neuron: Vec<NeuronDevice>,
    /// Instance storage in GB (powers of ten).
    pub storage_gb: u64,
    /// Interfaces of the default network card.
    pub interfaces: u32,
    /// IPv4 addresses of each interface.
    pub ipv4_per_interface: u32,
    /// Whether dedicated hosts take it.
    pub dedicated_hosts: bool,
    /// Whether it is a whole server.
    pub bare_metal: bool,
}

/// Instance types as listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TypeList {
    /// The types.
    pub types: Vec<TypeFacts>,
    /// Entries without a name, which were skipped.
    pub nameless: u32,
}

/// A place where an instance type is offered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offering {
    /// The type, as EC2 names it.
    pub instance_type: String,
    /// The kind of place.
    pub location_type: LocationType,
    /// The place.
    pub location: String,
}

/// Which images to describe.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImageQuery {
    /// Exactly these; an unknown one is an error of the call.
    pub ids: Vec<ImageId>,
    /// Of these owners: account numbers, `self`, `amazon`.
    pub owners: Vec<String>,
    /// That match all of these.
    pub filters: Vec<Filter>,
}

/// An image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Its id.
    pub id: ImageId,
    /// Its name.
    pub name: Option<String>,
    /// Whose it is.
    pub owner: Option<String>,
    /// `available`, `pending`, `failed`, ….
    pub state: String,
    /// Its architecture.
    pub architecture: Option<Architecture>,
    /// When it was made, as EC2 writes it: ISO 8601, so later ones sort later.
    pub created: Option<String>,
    /// `windows` or nothing.
    pub platform: Option<String>,
    /// What its licence belongs to: `Linux/UNIX`, `Red Hat Enterprise Linux`, ….
    pub platform_details: Option<String>,
    /// The device name of its root disk.
    pub root_device: Option<String>,
    /// The size of the snapshot behind the root disk, in GiB.
    pub root_size: Option<u32>,
    /// `hvm` or `paravirtual`.
    pub virtualization: Option<String>,
    /// Its tags.
    pub tags: Tags,
}

/// A region as EC2 lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionInfo {
    /// Its name, as EC2 writes it.
    pub name: String,
    /// Whether the account may use it.
    pub opt_in: OptIn,
}

/// A zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneInfo {
    /// Its name.
    pub name: AvailabilityZone,
    /// Its id, the same for all accounts.
    pub id: Option<String>,
    /// `available`, `impaired`, ….
    pub state: String,
    /// `availability-zone`, `local-zone`, `wavelength-zone`.
    pub zone_type: Option<String>,
    /// Whether the account may use it.
    pub opt_in: OptIn,
}
