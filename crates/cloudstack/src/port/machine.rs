//! Virtual machines, and the jobs that change them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kit::open;
use kit::secret::Secret;

use super::ids::{
    AffinityGroupId, DiskOfferingId, JobId, NetworkId, ServiceOfferingId, TemplateId, VirtualMachineId, ZoneId,
};
use super::place::{Owner, Pick};
use crate::errors::{Kind, kind_of};

/// Tags by key; a key occurs once.
pub type Tags = BTreeMap<String, String>;

/// The most user data a server takes unless it is configured otherwise, in bytes before encoding.
pub const USER_DATA: usize = 32_768;

open! {
    /// Where a virtual machine is on its way.
    MachineState {
        /// It is being started.
        Starting = "Starting",
        /// It runs.
        Running = "Running",
        /// It is being stopped.
        Stopping = "Stopping",
        /// It is stopped, or was never started.
        Stopped = "Stopped",
        /// It moves to another host.
        Migrating = "Migrating",
        /// It is thrown away and can be brought back for a while.
        Destroyed = "Destroyed",
        /// It is being removed for good.
        Expunging = "Expunging",
        /// It could not be made; it must be destroyed.
        Error = "Error",
        /// The server has lost sight of it.
        Unknown = "Unknown",
    }
}

impl MachineState {
    /// Whether nothing of it is left to be removed.
    #[must_use]
    pub fn is_going(&self) -> bool {
        matches!(self, Self::Destroyed | Self::Expunging)
    }
}

/// Which virtual machines, of all the caller can see.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MachineQuery {
    /// In this zone.
    pub zone: Option<ZoneId>,
    /// Whose.
    pub owner: Owner,
    /// Which one.
    pub pick: Option<Pick<VirtualMachineId>>,
    /// With all of these tags.
    pub tags: Tags,
}

/// A network interface of a virtual machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nic {
    /// Its network.
    pub network: Option<NetworkId>,
    /// Its IPv4 address.
    pub address: Option<String>,
    /// Its IPv6 address.
    pub address6: Option<String>,
    /// Its hardware address.
    pub mac: Option<String>,
    /// Whether it is the first one.
    pub default: bool,
}

/// A virtual machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VirtualMachine {
    /// Its id.
    pub id: VirtualMachineId,
    /// Its host name, unique within its network.
    pub name: String,
    /// The name shown to humans.
    pub display_name: Option<String>,
    /// Where it is on its way.
    pub state: MachineState,
    /// Its zone.
    pub zone: Option<ZoneId>,
    /// The name of its zone.
    pub zone_name: Option<String>,
    /// Its account.
    pub account: Option<String>,
    /// The path of the account's domain, `ROOT/a/b`; where the server does not say it, the last part of it.
    pub domain: Option<String>,
    /// When it was asked for.
    pub created: Option<Timestamp>,
    /// What it was made of.
    pub template: Option<TemplateId>,
    /// Its compute offering.
    pub offering: Option<ServiceOfferingId>,
    /// Its network interfaces.
    pub nics: Vec<Nic>,
    /// Its affinity groups.
    pub affinity_groups: Vec<AffinityGroupId>,
    /// Its tags.
    pub tags: Tags,
}

/// A virtual machine to be made and started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deploy {
    /// The host name. It is what makes the request safe to repeat: a network takes a name once.
    pub name: String,
    /// The zone.
    pub zone: ZoneId,
    /// The compute offering.
    pub offering: ServiceOfferingId,
    /// The template.
    pub template: TemplateId,
    /// The networks, the default one first.
    pub networks: Vec<NetworkId>,
    /// A data disk.
    pub disk: Option<DataDisk>,
    /// Affinity groups.
    pub affinity_groups: Vec<AffinityGroupId>,
    /// Whose machine.
    pub owner: Owner,
    /// What the guest reads at its first start, not yet encoded.
    pub user_data: Option<Secret<Vec<u8>>>,
    /// Whether it is started at once.
    pub start: bool,
}

/// A data disk to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataDisk {
    /// The offering.
    pub offering: DiskOfferingId,
    /// The size in GB, if the offering leaves it to the user.
    pub size_gb: Option<u64>,
}

/// A virtual machine that is being made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Started {
    /// Its id.
    pub id: VirtualMachineId,
    /// The job that makes it.
    pub job: JobId,
}

/// Why a job failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text} (error {code})")]
pub struct JobFailure {
    /// The server's code.
    pub code: u16,
    /// The server's own words.
    pub text: String,
}

impl JobFailure {
    /// What the code means.
    #[must_use]
    pub fn kind(&self) -> Kind {
        kind_of(self.code, &self.text)
    }
}

/// How far a job is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobStatus {
    /// It waits or works.
    Pending,
    /// It is done; with the machine it was about, if the answer tells.
    Done(Option<Box<VirtualMachine>>),
    /// It failed; what it began to make is still there.
    Failed(JobFailure),
}

/// A job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its id.
    pub id: JobId,
    /// How far it is.
    pub status: JobStatus,
    /// The id of the thing it is about.
    pub about: Option<String>,
}

/// What a server says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Its version, `4.20.3.1`.
    pub version: Option<String>,
}
