//! A platform in memory: machines that are made, switched, rebooted and destroyed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use sim::server::Gate;

use crate::contract::Mood;

/// The failure domains there are.
pub const ZONES: [&str; 2] = ["north", "south"];

/// What a failing call says; no tenant may read it.
const COMPLAINT: &str = "https://cloud.internal:8443 refused admin/hunter2 in the account of other-tenant";

/// The parts of the complaint that are nobody's business.
pub const SENSITIVE: [&str; 3] = ["cloud.internal", "hunter2", "other-tenant"];

/// A call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refused(pub String);

/// How far a machine is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It is being made.
    Building,
    /// It runs.
    Running,
    /// It is being destroyed.
    Destroying,
}

/// What a machine is made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// The uid of the claim it is for.
    pub claim: String,
    /// The namespace of that claim.
    pub tenant: String,
    /// What it runs.
    pub image: Option<String>,
    /// Where it is.
    pub zone: String,
    /// What the guest gets.
    pub data: BTreeMap<String, String>,
}

/// A machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The platform's name of it.
    pub id: String,
    /// The token it was made with; a second order with the same token makes nothing.
    pub token: String,
    /// What it was made of.
    pub order: Order,
    /// How far it is.
    pub phase: Phase,
    /// Whether it is switched on.
    pub powered: bool,
    /// How often it was rebooted.
    pub reboots: u32,
    /// The last reboot that was asked for.
    pub last_reboot: Option<String>,
}

struct State {
    mood: Mood,
    machines: BTreeMap<String, Machine>,
}

/// The platform.
pub struct Cloud {
    gate: Gate,
    calls: AtomicUsize,
    state: Mutex<State>,
}

impl Cloud {
    /// An empty one, whose effects pass the gate.
    #[must_use]
    pub fn new(gate: &Gate) -> Self {
        let state = State { mood: Mood::Well, machines: BTreeMap::new() };
        Self { gate: gate.clone(), calls: AtomicUsize::new(0), state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How often it was asked anything.
    pub fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }

    /// Every machine there is.
    pub fn machines(&self) -> Vec<Machine> {
        self.state().machines.values().cloned().collect()
    }

    /// Changes how it behaves; what waited for a better mood happens.
    pub fn set_mood(&self, mood: Mood) {
        let mut state = self.state();
        state.mood = mood;
        if mood == Mood::Well {
            state.machines.retain(|_, machine| machine.phase != Phase::Destroying);
            for machine in state.machines.values_mut() {
                machine.phase = Phase::Running;
            }
        }
    }

    /// Destroys a machine without a word.
    pub fn lose(&self, id: &str) {
        self.state().machines.remove(id);
    }

    fn call(&self) -> Result<(), Refused> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        if self.state().mood == Mood::Failing { Err(Refused(COMPLAINT.to_owned())) } else { Ok(()) }
    }

    /// One effect: it passes the gate, so that tests can stop the caller around it.
    async fn effect<T>(&self, what: &str, change: impl FnOnce(&mut State) -> T) -> Result<T, Refused> {
        self.call()?;
        let pass = self.gate.enter(what, "machines.cloud").await;
        let done = change(&mut self.state());
        pass.committed().await;
        Ok(done)
    }

    /// All machines, as the platform tells its customers.
    ///
    /// # Errors
    /// When it is in the mood for it.
    pub fn list(&self) -> Result<Vec<Machine>, Refused> {
        self.call()?;
        Ok(self.machines())
    }

    /// Makes a machine, unless the token has made one already.
    ///
    /// # Errors
    /// When it is in the mood for it.
    pub async fn create(&self, token: &str, order: Order) -> Result<String, Refused> {
        self.effect("create a machine", |state| {
            if let Some(made) = state.machines.values().find(|machine| machine.token == token) {
                return made.id.clone();
            }
            let id = format!("vm-{token}");
            let phase = if state.mood == Mood::Slow { Phase::Building } else { Phase::Running };
            let (token, powered, reboots, last_reboot) = (token.to_owned(), true, 0, None);
            let machine = Machine { id: id.clone(), token, order, phase, powered, reboots, last_reboot };
            state.machines.insert(id.clone(), machine);
            id
        })
        .await
    }

    /// Switches a machine.
    ///
    /// # Errors
    /// When it is in the mood for it.
    pub async fn power(&self, id: &str, on: bool) -> Result<(), Refused> {
        self.effect("switch a machine", |state| {
            if let Some(machine) = state.machines.get_mut(id) {
                machine.powered = on;
            }
        })
        .await
    }

    /// Reboots a machine and remembers for which request.
    ///
    /// # Errors
    /// When it is in the mood for it.
    pub async fn reboot(&self, id: &str, request: &str) -> Result<(), Refused> {
        self.effect("reboot a machine", |state| {
            if let Some(machine) = state.machines.get_mut(id) {
                machine.reboots += 1;
                machine.last_reboot = Some(request.to_owned());
            }
        })
        .await
    }

    /// Destroys a machine; one that is not there counts as done.
    ///
    /// # Errors
    /// When it is in the mood for it.
    pub async fn destroy(&self, id: &str) -> Result<(), Refused> {
        self.effect("destroy a machine", |state| {
            if state.mood != Mood::Slow {
                state.machines.remove(id);
            } else if let Some(machine) = state.machines.get_mut(id) {
                machine.phase = Phase::Destroying;
            }
        })
        .await
    }
}
