//! Bare-metal hosts, their hardware, and the templates that choose among them.

use std::collections::BTreeMap;

use api::key::ObjectKey;
use api::views::{BareMetalHost, HardwareData, HardwareDetails, Metal3MachineTemplate};
use kit::feed::{Feed, Project};
use kit::manager::{self, Manager};
use serde_json::Value;

use crate::offer::Arch;

/// Feeds of bare metal, followed only where they are asked for.
#[derive(Clone)]
pub struct Metal {
    /// Templates.
    pub templates: Feed<MetalTemplates>,
    /// Hosts.
    pub hosts: Feed<Hosts>,
    /// Hardware.
    pub hardware: Feed<HardwareList>,
}

impl Metal {
    /// Starts, or joins, the feeds.
    ///
    /// # Errors
    /// When a kind cannot be followed.
    pub fn follow(manager: &Manager) -> Result<Self, manager::Error> {
        Ok(Self { templates: manager.feed()?, hosts: manager.feed()?, hardware: manager.feed()? })
    }

    /// Waits until every index is complete, or known to have nothing to hold.
    pub async fn settled(&self) {
        self.templates.settled().await;
        self.hosts.settled().await;
        self.hardware.settled().await;
    }
}

/// Whether a host can be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostUse {
    /// It can.
    Free,
    /// Somebody has it.
    Taken,
    /// It is not ready for anybody.
    Other,
}

/// What inspection found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hardware {
    /// Threads.
    pub cpus: u64,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// The root disk in GiB.
    pub root_gib: Option<u64>,
    /// The architecture.
    pub arch: Option<Arch>,
}

impl Hardware {
    fn of(details: &HardwareDetails) -> Option<Self> {
        let positive = |number: i64| u64::try_from(number).ok().filter(|number| *number > 0);
        let disk = details.storage.first().and_then(|disk| positive(disk.size_bytes));
        Some(Self {
            cpus: positive(details.cpu.count)?,
            memory_mib: positive(details.ram_mebibytes)?,
            root_gib: disk.map(|bytes| bytes >> 30),
            arch: details.cpu.arch.as_deref().and_then(Arch::read),
        })
    }
}

/// A host, as decisions use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostFacts {
    /// Its labels.
    pub labels: BTreeMap<Box<str>, Box<str>>,
    /// Whether it can be had.
    pub used: HostUse,
    /// Its hardware, if the host itself tells.
    pub hardware: Option<Hardware>,
}

/// Bare-metal hosts.
pub struct Hosts;

impl Project for Hosts {
    type Source = BareMetalHost;
    type Slim = HostFacts;
    const INDEXES: &'static [&'static str] = &["namespace"];

    fn slim(source: BareMetalHost) -> HostFacts {
        let used = match source.status.provisioning.state.as_str() {
            "available" | "ready" if source.spec.consumer_ref.is_none() => HostUse::Free,
            "available" | "ready" | "provisioned" | "provisioning" | "externally provisioned" => HostUse::Taken,
            _ => HostUse::Other,
        };
        let labels = source.metadata.labels.unwrap_or_default();
        HostFacts {
            labels: labels.into_iter().map(|(key, value)| (key.into(), value.into())).collect(),
            used,
            hardware: source.status.hardware.as_ref().and_then(Hardware::of),
        }
    }

    fn keys(_: usize, key: &ObjectKey, _: &HostFacts) -> Vec<Box<str>> {
        vec![key.namespace().unwrap_or_default().into()]
    }
}

/// What inspection found, kept apart from hosts.
pub struct HardwareList;

impl Project for HardwareList {
    type Source = HardwareData;
    type Slim = Option<Hardware>;

    fn slim(source: HardwareData) -> Option<Hardware> {
        source.spec.hardware.as_ref().and_then(Hardware::of)
    }
}

/// Templates of bare-metal machines, reduced to their selectors.
pub struct MetalTemplates;

impl Project for MetalTemplates {
    type Source = Metal3MachineTemplate;
    type Slim = Value;

    fn slim(source: Metal3MachineTemplate) -> Value {
        source.host_selector
    }
}
