//! What inspection found in a host.

use api::selector::Figures;
use api::views::{HardwareData, HardwareDetails};
use kit::feed::Project;

use super::Texts;

/// HardwareData.
pub struct Hardware;

/// The hardware of a host, as decisions use it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HardwareFacts {
    /// Labels of the HardwareData; none where the host's own status is the source.
    pub labels: Texts,
    /// Annotations of the HardwareData; none where the host's own status is the source.
    pub annotations: Texts,
    /// The name the host had when it was inspected.
    pub hostname: Option<Box<str>>,
    /// The architecture of its processors.
    pub arch: Option<Box<str>>,
    /// Its memory; zero when that was not found.
    pub ram_mib: i64,
    /// The number of its processors; zero when that was not found.
    pub cpu_count: i64,
    /// Its network interfaces, in the order of inspection.
    pub nics: Box<[Nic]>,
}

/// A network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nic {
    /// Its name.
    pub name: Option<Box<str>>,
    /// Its hardware address.
    pub mac: Option<Box<str>>,
    /// The address it had when the host was inspected.
    pub ip: Option<Box<str>>,
}

impl HardwareFacts {
    /// What selectors may ask about.
    #[must_use]
    pub fn figures(&self) -> Figures<'_> {
        Figures { arch: self.arch.as_deref(), ram_mib: self.ram_mib, cpu_count: self.cpu_count, nics: self.nics.len() }
    }

    /// The facts of details as received.
    #[must_use]
    pub fn of(details: HardwareDetails) -> Self {
        let nic = |nic: api::views::NicView| Nic {
            name: nic.name.map(Into::into),
            mac: nic.mac.map(Into::into),
            ip: nic.ip.map(Into::into),
        };
        Self {
            hostname: details.hostname.map(Into::into),
            arch: details.cpu.arch.map(Into::into),
            ram_mib: details.ram_mebibytes,
            cpu_count: details.cpu.count,
            nics: details.nics.into_iter().map(nic).collect(),
            ..Self::default()
        }
    }
}

impl Project for Hardware {
    type Source = HardwareData;
    type Slim = HardwareFacts;

    fn slim(source: HardwareData) -> HardwareFacts {
        HardwareFacts {
            labels: super::texts(source.metadata.labels, |_| true),
            annotations: super::texts(source.metadata.annotations, |key| key != super::LAST_APPLIED),
            ..source.spec.hardware.map(HardwareFacts::of).unwrap_or_default()
        }
    }
}
