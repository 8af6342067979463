//! What machines are made of: templates, offerings, affinity groups.

use super::ids::{AffinityGroupId, DiskOfferingId, ServiceOfferingId, TemplateId, ZoneId};
use super::place::{Owner, Pick};

/// Which templates; only those the caller can deploy are listed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TemplateQuery {
    /// As it is in this zone: without one, a template would come once per zone.
    pub zone: ZoneId,
    /// Whose.
    pub owner: Owner,
    /// Which one.
    pub pick: Option<Pick<TemplateId>>,
}

/// A template in a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// Its id.
    pub id: TemplateId,
    /// Its name.
    pub name: String,
    /// Whether machines can be made of it now.
    pub ready: bool,
    /// Why not, in the server's words.
    pub status: Option<String>,
    /// The zone.
    pub zone: Option<ZoneId>,
    /// Where it was registered from.
    pub url: Option<String>,
    /// `x86_64`, `aarch64`; older servers do not say.
    pub arch: Option<String>,
    /// The name of its operating system.
    pub system: Option<String>,
    /// Bytes of its disk.
    pub size: Option<u64>,
}

/// Which offerings.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OfferingQuery<I> {
    /// Offered in this zone.
    pub zone: Option<ZoneId>,
    /// Which one.
    pub pick: Option<Pick<I>>,
}

impl<I> Default for OfferingQuery<I> {
    fn default() -> Self {
        Self { zone: None, pick: None }
    }
}

/// A compute offering.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceOffering {
    /// Its id.
    pub id: ServiceOfferingId,
    /// Its name.
    pub name: String,
    /// Processors; none if the user chooses.
    pub cpus: Option<u32>,
    /// Megahertz of each.
    pub cpu_mhz: Option<u32>,
    /// Memory in MiB; none if the user chooses.
    pub memory_mib: Option<u64>,
    /// GB of the root disk; none if the template's size counts.
    pub root_disk_gb: Option<u64>,
    /// GPUs; none if it has none or the server does not say.
    pub gpus: Option<u32>,
    /// What the server calls these GPUs, the maker's name among other words.
    pub gpu_card: Option<String>,
    /// Whether the user chooses processors and memory.
    pub customized: bool,
}

/// A disk offering.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskOffering {
    /// Its id.
    pub id: DiskOfferingId,
    /// Its name.
    pub name: String,
    /// Its size in GB; none if the user chooses.
    pub size_gb: Option<u64>,
    /// Whether the user chooses the size.
    pub customized: bool,
}

/// Which affinity groups.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AffinityGroupQuery {
    /// Whose.
    pub owner: Owner,
    /// Which one.
    pub pick: Option<Pick<AffinityGroupId>>,
}

/// An affinity group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AffinityGroup {
    /// Its id.
    pub id: AffinityGroupId,
    /// Its name.
    pub name: String,
    /// `host anti-affinity`, `host affinity` …
    pub kind: String,
}
