//! The judge at the end of a run: what is still paid for, and whose is it?

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;

use super::World;
use super::host::HostState;
use super::instance::InstanceState;
use super::place::Tags;

/// A host as it is at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostFacts {
    /// Account.
    pub account: String,
    /// Region.
    pub region: String,
    /// Id.
    pub id: String,
    /// Zone.
    pub zone: String,
    /// Type or family.
    pub kind: String,
    /// Where it is on its way.
    pub state: HostState,
    /// Token of the request that made it.
    pub client_token: Option<String>,
    /// Tags.
    pub tags: Tags,
    /// Instances that take up room on it.
    pub instances: Vec<String>,
    /// For how long it was paid.
    pub paid: Duration,
    /// For how long of that it was empty.
    pub empty: Duration,
}

/// An instance as it is at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceFacts {
    /// Account.
    pub account: String,
    /// Region.
    pub region: String,
    /// Id.
    pub id: String,
    /// Type.
    pub kind: String,
    /// Where it is on its way.
    pub state: InstanceState,
    /// How often it was stopped.
    pub stops: u32,
    /// Host it is on.
    pub host: Option<String>,
    /// Token of the request that made it.
    pub client_token: Option<String>,
    /// Tags.
    pub tags: Tags,
}

impl World {
    /// Every host there ever was, given back ones included.
    #[must_use]
    pub fn hosts(&self, now: Timestamp) -> Vec<HostFacts> {
        let mut facts = Vec::new();
        for ((account, region), place) in &self.places {
            for host in place.hosts.values().filter(|host| host.allocated <= now) {
                let (paid, empty) = place.paid(host, now);
                facts.push(HostFacts {
                    account: account.clone(),
                    region: region.clone(),
                    id: host.id.clone(),
                    zone: host.zone.clone(),
                    kind: match &host.kind {
                        super::host::HostKind::Type(name) | super::host::HostKind::Family(name) => name.clone(),
                    },
                    state: host.state.at(now).copied().unwrap_or(HostState::Pending),
                    client_token: host.client_token.clone(),
                    tags: host.tags.at(now).cloned().unwrap_or_default(),
                    instances: place.on_host(&host.id, now).map(|instance| instance.id.clone()).collect(),
                    paid,
                    empty,
                });
            }
        }
        facts
    }

    /// Every instance there ever was, terminated ones included.
    #[must_use]
    pub fn instances(&self, now: Timestamp) -> Vec<InstanceFacts> {
        let mut facts = Vec::new();
        for ((account, region), place) in &self.places {
            for instance in place.instances.values() {
                facts.push(InstanceFacts {
                    account: account.clone(),
                    region: region.clone(),
                    id: instance.id.clone(),
                    kind: instance.kind.clone(),
                    state: instance.state.at(now).copied().unwrap_or(InstanceState::Pending),
                    stops: instance.stops,
                    host: instance.host.at(now).cloned().flatten(),
                    client_token: instance.client_token.clone(),
                    tags: instance.tags.at(now).cloned().unwrap_or_default(),
                });
            }
        }
        facts
    }

    /// Hosts that are still paid for and belong to nobody: those whose tag `key` is missing or names no living owner.
    #[must_use]
    pub fn leaks(&self, now: Timestamp, key: &str, owners: &BTreeSet<String>) -> Vec<HostFacts> {
        let mut hosts = self.hosts(now);
        hosts
            .retain(|host| !host.state.is_released() && host.tags.get(key).is_none_or(|owner| !owners.contains(owner)));
        hosts
    }

    /// For how long hosts were paid in total, and for how long of that they were empty.
    #[must_use]
    pub fn bill(&self, now: Timestamp) -> (Duration, Duration) {
        self.hosts(now)
            .iter()
            .fold((Duration::ZERO, Duration::ZERO), |(paid, empty), host| (paid + host.paid, empty + host.empty))
    }
}
