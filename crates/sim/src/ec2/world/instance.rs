//! Instances: their way from launch to termination, and what belongs to them.

use std::time::Duration;

use jiff::Timestamp;

use super::super::catalogue::is_mac;
use super::host::HostState;
use super::place::{Place, Tags};
use super::settings::Settings;
use super::time::{History, later};

/// Where an instance is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum InstanceState {
    /// Being started.
    Pending,
    /// Running.
    Running,
    /// On its way to `terminated`.
    ShuttingDown,
    /// Gone for good.
    Terminated,
    /// On its way to `stopped`.
    Stopping,
    /// Stopped.
    Stopped,
}

impl InstanceState {
    /// The service's word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::ShuttingDown => "shutting-down",
            Self::Terminated => "terminated",
            Self::Stopping => "stopping",
            Self::Stopped => "stopped",
        }
    }

    /// The service's number for it.
    #[must_use]
    pub fn code(self) -> u32 {
        match self {
            Self::Pending => 0,
            Self::Running => 16,
            Self::ShuttingDown => 32,
            Self::Terminated => 48,
            Self::Stopping => 64,
            Self::Stopped => 80,
        }
    }
}

/// A network interface of an instance.
#[derive(Clone, Debug)]
pub struct Interface {
    /// Id.
    pub id: String,
    /// Id of its attachment.
    pub attachment: String,
    /// Position.
    pub device: u32,
    /// Subnet.
    pub subnet: String,
    /// Security groups.
    pub groups: Vec<String>,
    /// Address within the subnet.
    pub private_ip: String,
    /// Address outside.
    pub public_ip: Option<String>,
    /// Hardware address.
    pub mac: String,
    /// Text.
    pub description: String,
    /// Drops packets that are not for it.
    pub source_dest_check: bool,
    /// Tags.
    pub tags: History<Tags>,
}

/// A volume of an instance.
#[derive(Clone, Debug)]
pub struct Volume {
    /// Id.
    pub id: String,
    /// Name of the device.
    pub device: String,
    /// GiB.
    pub size: u32,
    /// Kind, `gp3`.
    pub kind: String,
    /// Encrypted.
    pub encrypted: bool,
    /// Goes with the instance.
    pub delete: bool,
    /// Tags.
    pub tags: History<Tags>,
}

/// How an instance reads its own metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetadataOptions {
    /// `optional` or `required`.
    pub tokens: String,
    /// Hops.
    pub hop_limit: u32,
    /// `enabled` or `disabled`.
    pub endpoint: String,
    /// `enabled` or `disabled`.
    pub ipv6: String,
    /// `enabled` or `disabled`.
    pub tags: String,
}

impl Default for MetadataOptions {
    fn default() -> Self {
        let text = str::to_owned;
        Self {
            tokens: text("optional"),
            hop_limit: 1,
            endpoint: text("enabled"),
            ipv6: text("disabled"),
            tags: text("disabled"),
        }
    }
}

/// An instance.
#[derive(Clone, Debug)]
pub struct Instance {
    /// Id.
    pub id: String,
    /// The launch it came from.
    pub reservation: String,
    /// Its number within that launch.
    pub index: u32,
    /// Type.
    pub kind: String,
    /// Virtual processors.
    pub vcpus: u32,
    /// Image.
    pub image: String,
    /// Architecture of the image.
    pub architecture: String,
    /// Root device of the image.
    pub root_device: String,
    /// Zone.
    pub zone: String,
    /// Network.
    pub vpc: String,
    /// `default`, `dedicated` or `host`.
    pub tenancy: String,
    /// `default` or `host`, on hosts.
    pub affinity: Option<String>,
    /// The host it is on.
    pub host: History<Option<String>>,
    /// Where it is on its way.
    pub state: History<InstanceState>,
    /// Since when it exists.
    pub launched: Timestamp,
    /// How often it was stopped.
    pub stops: u32,
    /// How long it keeps its place on a host after its end.
    pub vacate: Duration,
    /// Token of the request.
    pub client_token: Option<String>,
    /// Key.
    pub key: Option<String>,
    /// Profile name or address.
    pub profile: Option<String>,
    /// Optimised volumes.
    pub ebs_optimized: bool,
    /// Bytes of user data, decoded. The content is not kept.
    pub user_data: usize,
    /// Network interfaces, the first one first.
    pub interfaces: Vec<Interface>,
    /// Volumes, the root volume first.
    pub volumes: Vec<Volume>,
    /// How it reads its metadata.
    pub metadata: MetadataOptions,
    /// Tags.
    pub tags: History<Tags>,
}

impl Instance {
    /// When it ends or ended.
    #[must_use]
    pub fn end(&self) -> Option<Timestamp> {
        self.state.first(|state| *state == InstanceState::Terminated)
    }

    /// Over by then.
    #[must_use]
    pub fn ended(&self, now: Timestamp) -> bool {
        self.end().is_some_and(|end| end <= now)
    }

    /// Whether it takes up room on a host at a moment; a little longer than it runs.
    #[must_use]
    pub fn occupies(&self, host: &str, now: Timestamp) -> bool {
        let there = self.host.at(now).and_then(Option::as_deref) == Some(host);
        there && self.end().is_none_or(|end| now < later(end, self.vacate))
    }

    /// Can be described at a moment.
    #[must_use]
    pub fn visible(&self, at: Timestamp, settings: &Settings) -> bool {
        self.launched <= at && self.end().is_none_or(|end| at < later(end, settings.terminated_visible))
    }
}

impl Place {
    /// Everything that takes up room on a host at a moment.
    pub fn on_host(&self, host: &str, now: Timestamp) -> impl Iterator<Item = &Instance> {
        self.instances.values().filter(move |instance| instance.occupies(host, now))
    }

    /// Ends an instance; answers its state before and after. Ending one that is ending changes nothing.
    pub fn terminate(
        &mut self,
        now: Timestamp,
        id: &str,
        settings: &Settings,
    ) -> Option<(InstanceState, InstanceState)> {
        let instance = self.instances.get_mut(id)?;
        let before = *instance.state.at(now)?;
        if matches!(before, InstanceState::ShuttingDown | InstanceState::Terminated) {
            return Some((before, before));
        }
        let end = later(now, settings.delays.shut_down);
        instance.state.set(now, InstanceState::ShuttingDown);
        instance.state.set(end, InstanceState::Terminated);
        instance.vacate = settings.delays.vacate;
        let after = *instance.state.at(now)?;
        let host = instance
            .host
            .at(now)
            .cloned()
            .flatten()
            .filter(|_| is_mac(super::super::catalogue::family(&instance.kind)));
        self.tokens.prolong(id, end, settings.token_memory);
        // The disk of a mac is wiped between two tenants.
        if let Some(host) = host.and_then(|id| self.hosts.get_mut(&id))
            && host.state.at(now) == Some(&HostState::Available)
        {
            host.state.set(end, HostState::Pending);
            host.state.set(later(end, settings.delays.scrub), HostState::Available);
        }
        Some((before, after))
    }

    /// Stops an instance; answers its state before and after. Stopping one that is stopping changes nothing.
    pub fn stop(&mut self, now: Timestamp, id: &str, settings: &Settings) -> Option<(InstanceState, InstanceState)> {
        let instance = self.instances.get_mut(id)?;
        let before = *instance.state.at(now)?;
        if before == InstanceState::Running {
            instance.state.set(now, InstanceState::Stopping);
            instance.state.set(later(now, settings.delays.stop), InstanceState::Stopped);
            instance.stops += 1;
        }
        Some((before, *instance.state.at(now)?))
    }

    /// Starts an instance; answers its state before and after. Starting one that runs changes nothing.
    pub fn start(&mut self, now: Timestamp, id: &str, settings: &Settings) -> Option<(InstanceState, InstanceState)> {
        let instance = self.instances.get_mut(id)?;
        let before = *instance.state.at(now)?;
        if before == InstanceState::Stopped {
            instance.state.set(now, InstanceState::Pending);
            instance.state.set(later(now, settings.delays.launch), InstanceState::Running);
        }
        Some((before, *instance.state.at(now)?))
    }

    /// Puts an instance into a state by hand, without further plans.
    pub fn set_instance_state(&mut self, now: Timestamp, id: &str, state: InstanceState) -> bool {
        let Some(instance) = self.instances.get_mut(id) else { return false };
        instance.state.set(now, state);
        true
    }
}
