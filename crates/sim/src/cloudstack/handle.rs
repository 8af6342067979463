//! What a test holds: it reads and changes the world behind the server's back, by the means of [`Held`] and more.

use std::collections::BTreeSet;
use std::ops::Deref;

use super::world::World;
use super::world::machine::State;
use super::world::oracle::MachineFacts;
use crate::edge::Held;

/// A running simulator. Cheap to clone; the server stops when the last one is gone.
#[derive(Clone, Debug)]
pub struct Handle {
    /// Where its API is, `http://127.0.0.1:1234/client/api`.
    pub endpoint: String,
    /// Public half of the root administrator's key.
    pub api_key: String,
    /// Secret half of that key.
    pub secret_key: String,
    pub(super) held: Held<World>,
}

impl Deref for Handle {
    type Target = Held<World>;

    fn deref(&self) -> &Held<World> {
        &self.held
    }
}

impl Handle {
    /// Forgets all jobs, as a server does after a while; what they do goes on.
    pub fn forget_jobs(&self) {
        self.world().jobs.clear();
    }

    /// Every machine there ever was.
    #[must_use]
    pub fn machines(&self) -> Vec<MachineFacts> {
        self.with(|world, now| world.machine_facts(now))
    }

    /// Machines that are not gone and whose tag `key` names no living owner.
    #[must_use]
    pub fn leaks(&self, key: &str, owners: &BTreeSet<String>) -> Vec<MachineFacts> {
        self.with(|world, now| world.leaks(now, key, owners))
    }

    /// Puts a machine into a state; false when there is no such machine.
    pub fn set_state(&self, id: &str, state: State) -> bool {
        self.with(|world, now| world.machines.get_mut(id).map(|machine| machine.state.set(now, state)).is_some())
    }

    /// The key of an account's user, by the account's name.
    #[must_use]
    pub fn key_of(&self, account: &str) -> Option<(String, String)> {
        let world = self.world();
        let found = world.accounts.iter().find(|one| one.name == account);
        found.map(|account| (account.api_key.clone(), account.secret_key.clone()))
    }

    /// Replaces the key of an account's user, by the account's name.
    pub fn rotate(&self, account: &str, api_key: &str, secret_key: &str) {
        let mut world = self.world();
        if let Some(account) = world.accounts.iter_mut().find(|one| one.name == account) {
            account.api_key = api_key.to_owned();
            account.secret_key = secret_key.to_owned();
        }
    }
}
