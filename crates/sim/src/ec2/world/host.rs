//! Dedicated hosts: what they are, and their way from allocation to release.

use jiff::Timestamp;

use super::super::catalogue::{InstanceType, Server, is_mac};
use super::place::{Place, Tags};
use super::settings::Settings;
use super::time::{History, between, later, written};
use crate::server::Rng;

/// Where a host is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HostState {
    /// Being made ready; takes no instance.
    Pending,
    /// Takes instances.
    Available,
    /// Something is wrong with it; takes no instance.
    UnderAssessment,
    /// Broken for good.
    PermanentFailure,
    /// Given back.
    Released,
    /// Given back after it broke.
    ReleasedPermanentFailure,
}

impl HostState {
    /// The service's word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Available => "available",
            Self::UnderAssessment => "under-assessment",
            Self::PermanentFailure => "permanent-failure",
            Self::Released => "released",
            Self::ReleasedPermanentFailure => "released-permanent-failure",
        }
    }

    /// True once the host is given back and no longer paid for.
    #[must_use]
    pub fn is_released(self) -> bool {
        matches!(self, Self::Released | Self::ReleasedPermanentFailure)
    }
}

/// What instances a host takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostKind {
    /// Instances of one type.
    Type(String),
    /// Instances of all types of a family.
    Family(String),
}

impl HostKind {
    /// The family, which quotas are counted by.
    #[must_use]
    pub fn family(&self) -> &str {
        match self {
            Self::Type(name) => super::super::catalogue::family(name),
            Self::Family(name) => name,
        }
    }
}

/// A dedicated host.
#[derive(Clone, Debug)]
pub struct Host {
    /// Id.
    pub id: String,
    /// Zone.
    pub zone: String,
    /// What it takes.
    pub kind: HostKind,
    /// The server it is.
    pub server: Server,
    /// Takes instances that do not name it.
    pub auto_placement: bool,
    /// Its instances move when it breaks.
    pub recovery: bool,
    /// It may be emptied for maintenance.
    pub maintenance: bool,
    /// Token of the request that made it.
    pub client_token: Option<String>,
    /// Rack it stands on, and the server there.
    pub outpost: Option<String>,
    /// The server on the rack.
    pub asset: Option<String>,
    /// Since when it is paid for.
    pub allocated: Timestamp,
    /// Where it is on its way.
    pub state: History<HostState>,
    /// Tags.
    pub tags: History<Tags>,
    /// A reservation that covers it.
    pub reservation: Option<String>,
}

impl Host {
    /// When it was given back, if it was by then.
    #[must_use]
    pub fn released(&self, now: Timestamp) -> Option<Timestamp> {
        self.state.first(|state| state.is_released()).filter(|at| *at <= now)
    }

    /// Allocated and not yet given back.
    #[must_use]
    pub fn alive(&self, now: Timestamp) -> bool {
        self.allocated <= now && self.released(now).is_none()
    }
}

/// A wish for hosts, checked against the catalogue.
#[derive(Clone, Debug)]
pub struct Allocation {
    /// Zone.
    pub zone: String,
    /// What they shall take.
    pub kind: HostKind,
    /// The server they are.
    pub server: Server,
    /// How many.
    pub quantity: u32,
    /// Take instances that do not name them.
    pub auto_placement: bool,
    /// Their instances move when they break.
    pub recovery: bool,
    /// They may be emptied for maintenance.
    pub maintenance: bool,
    /// Token of the request.
    pub client_token: Option<String>,
    /// Rack to stand on.
    pub outpost: Option<String>,
    /// Servers on the rack, one for each host.
    pub assets: Vec<String>,
    /// Tags.
    pub tags: Tags,
}

/// Why one host of a request was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemRefusal {
    /// Code, with the prefix the service puts before it in answers about single items.
    pub code: String,
    /// Text.
    pub message: String,
}

impl ItemRefusal {
    pub(crate) fn new(code: &str, message: impl Into<String>) -> Self {
        Self { code: code.to_owned(), message: message.into() }
    }

    pub(crate) fn host_not_found(id: &str) -> Self {
        Self::new("Client.InvalidHostID.NotFound", format!("The host ID '{id}' does not exist"))
    }
}

impl Place {
    /// Makes the hosts. Quota and capacity were checked before.
    pub fn allocate(&mut self, now: Timestamp, wish: &Allocation, settings: &Settings, rng: &mut Rng) -> Vec<String> {
        (0..wish.quantity)
            .map(|n| {
                let id = self.fresh_id("h", rng);
                let mut state = History::new(now, HostState::Pending);
                state.set(later(now, settings.delays.allocate), HostState::Available);
                let asset = usize::try_from(n).ok().and_then(|n| wish.assets.get(n)).cloned();
                let host = Host {
                    id: id.clone(),
                    zone: wish.zone.clone(),
                    kind: wish.kind.clone(),
                    server: wish.server,
                    auto_placement: wish.auto_placement,
                    recovery: wish.recovery,
                    maintenance: wish.maintenance,
                    client_token: wish.client_token.clone(),
                    outpost: wish.outpost.clone(),
                    asset,
                    allocated: now,
                    state,
                    tags: History::new(now, wish.tags.clone()),
                    reservation: None,
                };
                self.hosts.insert(id.clone(), host);
                id
            })
            .collect()
    }

    /// How many hosts of a family count against the quota: those not given back, and those given back lately.
    #[must_use]
    pub fn counted(&self, family: &str, now: Timestamp, settings: &Settings) -> u32 {
        let counted = self.hosts.values().filter(|host| {
            host.kind.family() == family
                && host.allocated <= now
                && host.released(now).is_none_or(|at| now < later(at, settings.quota_memory))
        });
        u32::try_from(counted.count()).unwrap_or(u32::MAX)
    }

    /// Gives a host back, or says why not.
    pub fn release(&mut self, now: Timestamp, id: &str, settings: &Settings) -> Result<(), ItemRefusal> {
        let not_found = || ItemRefusal::host_not_found(id);
        let host = self.hosts.get(id).filter(|host| host.alive(now)).ok_or_else(not_found)?;
        if self.on_host(id, now).next().is_some() {
            return Err(ItemRefusal::new(
                "Client.InvalidHost.Occupied",
                format!("Dedicated host '{id}' cannot be released as it is occupied."),
            ));
        }
        if let Some(reservation) = &host.reservation {
            return Err(ItemRefusal::new(
                "Client.InvalidHost.Reserved",
                format!("Dedicated host '{id}' cannot be released: it is covered by the reservation {reservation}."),
            ));
        }
        if let HostKind::Type(name) = &host.kind
            && is_mac(host.kind.family())
        {
            let earliest = later(host.allocated, settings.mac_minimum);
            if now < earliest {
                return Err(ItemRefusal::new(
                    "Client.HostMinAllocationPeriodUnexpired",
                    format!(
                        "Unable to release Dedicated Host {id}. {name} hosts must be allocated to your AWS account for at \
                         least {} hour(s). You can release this host any time after {}.",
                        settings.mac_minimum.as_secs() / 3_600,
                        written(earliest)
                    ),
                ));
            }
        }
        let broken = host.state.at(now) == Some(&HostState::PermanentFailure);
        let end = if broken { HostState::ReleasedPermanentFailure } else { HostState::Released };
        if let Some(host) = self.hosts.get_mut(id) {
            host.state.set(now, end);
        }
        Ok(())
    }

    /// How many more instances of a type fit on a host.
    #[must_use]
    pub fn room(&self, host: &Host, wanted: &InstanceType, now: Timestamp) -> u32 {
        let used: u32 = self.on_host(&host.id, now).map(|instance| instance.vcpus).sum();
        match &host.kind {
            HostKind::Type(name) if *name != wanted.name => 0,
            HostKind::Type(_) => {
                let count = u32::try_from(self.on_host(&host.id, now).count()).unwrap_or(u32::MAX);
                let total = host.server.vcpus.checked_div(wanted.vcpus).unwrap_or(0);
                total.saturating_sub(count)
            }
            HostKind::Family(family) if family != wanted.family() => 0,
            HostKind::Family(_) => host.server.vcpus.saturating_sub(used).checked_div(wanted.vcpus).unwrap_or(0),
        }
    }

    /// Lets a host fail: it is assessed, then broken for good. With recovery, its instances move to a new host at that
    /// moment and the old one is given back by itself. Answers the id of the new host.
    pub fn fail_host(&mut self, now: Timestamp, id: &str, settings: &Settings, rng: &mut Rng) -> Option<String> {
        let broken = later(now, settings.delays.assess);
        let host = self.hosts.get_mut(id).filter(|host| host.alive(now))?;
        host.state.set(now, HostState::UnderAssessment);
        if !host.recovery {
            host.state.set(broken, HostState::PermanentFailure);
            return None;
        }
        host.state.set(broken, HostState::ReleasedPermanentFailure);
        let mut heir = host.clone();
        heir.id = self.fresh_id("h", rng);
        heir.allocated = broken;
        heir.client_token = None;
        heir.state = History::new(broken, HostState::Available);
        heir.tags = History::new(broken, heir.tags.at(now).cloned().unwrap_or_default());
        let new = heir.id.clone();
        self.hosts.insert(new.clone(), heir);
        for instance in self.instances.values_mut() {
            if instance.occupies(id, now) && !instance.ended(now) {
                instance.host.set(broken, Some(new.clone()));
            }
        }
        Some(new)
    }

    /// Puts a host into a state by hand, without further plans.
    pub fn set_host_state(&mut self, now: Timestamp, id: &str, state: HostState) -> bool {
        let Some(host) = self.hosts.get_mut(id) else { return false };
        host.state.set(now, state);
        true
    }

    /// How long a host was paid for until now, and how much of that it was empty.
    #[must_use]
    pub fn paid(&self, host: &Host, now: Timestamp) -> (std::time::Duration, std::time::Duration) {
        let end = host.released(now).unwrap_or(now);
        let total = between(host.allocated, end);
        let mut busy: Vec<(Timestamp, Timestamp)> = self
            .instances
            .values()
            .flat_map(|instance| {
                let gone = instance.end().unwrap_or(Timestamp::MAX);
                let periods = instance.host.periods(|at| at.as_deref() == Some(host.id.as_str()));
                periods.into_iter().map(move |(from, to)| (from, to.unwrap_or(Timestamp::MAX).min(gone)))
            })
            .collect();
        busy.sort();
        let (mut at, mut empty) = (host.allocated, std::time::Duration::ZERO);
        for (from, to) in busy {
            empty += between(at, from.min(end));
            at = at.max(to.min(end));
        }
        (total, empty + between(at, end))
    }
}
