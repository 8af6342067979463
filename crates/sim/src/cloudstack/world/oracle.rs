//! The judge at the end of a run: which machines are left, and whose are they?

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::World;
use super::machine::State;

/// A machine as it is at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineFacts {
    /// Id.
    pub id: String,
    /// Host name.
    pub name: String,
    /// Name of the account.
    pub account: String,
    /// Name of the zone.
    pub zone: String,
    /// Where it is on its way.
    pub state: State,
    /// Tags.
    pub tags: BTreeMap<String, String>,
    /// What the guest read at its first start.
    pub user_data: Vec<u8>,
}

impl World {
    /// Every machine there ever was.
    #[must_use]
    pub fn machine_facts(&self, now: Timestamp) -> Vec<MachineFacts> {
        let zone = |id: &str| self.zones.iter().find(|zone| zone.id == id).map(|zone| zone.name.clone());
        let facts = self.machines.values().map(|machine| MachineFacts {
            id: machine.id.clone(),
            name: machine.name.clone(),
            account: machine.account.clone(),
            zone: zone(&machine.zone).unwrap_or_default(),
            state: machine.state_at(now),
            tags: machine.tags.clone(),
            user_data: machine.user_data.clone(),
        });
        facts.collect()
    }

    /// Machines that are not gone and belong to nobody: those whose tag `key` is missing or names no living owner.
    #[must_use]
    pub fn leaks(&self, now: Timestamp, key: &str, owners: &BTreeSet<String>) -> Vec<MachineFacts> {
        let mut left = self.machine_facts(now);
        left.retain(|machine| {
            machine.state != State::Gone && machine.tags.get(key).is_none_or(|owner| !owners.contains(owner))
        });
        left
    }
}
