//! A gate that numbers effects and can stop a process before, at or after any of them.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use tokio::sync::{Notify, OwnedMutexGuard, oneshot};

/// Where, around one effect, a process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Moment {
    /// Before the call reaches the store.
    Before,
    /// After the commit, before the answer.
    Committed,
    /// After the answer.
    Answered,
}

/// One thing a process did to the world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effect {
    /// Counts from 1 over the whole run, restarts included.
    pub number: u64,
    /// Method and path, or what an outside simulator calls it.
    pub what: String,
    /// The addressed type, or empty.
    pub resource: String,
}

#[derive(Default)]
struct State {
    seen: u64,
    effects: Vec<Effect>,
    plan: Option<(u64, Moment)>,
    unchecked: bool,
    waiting: Option<oneshot::Sender<()>>,
}

/// Shared by everything a process can have an effect on: API server handles and outside simulators.
///
/// Effects pass one at a time. An outside simulator calls [`Gate::enter`] before it does something and
/// [`Pass::committed`] after; if the process is to die there, the call never returns.
#[derive(Clone)]
pub struct Gate {
    state: Arc<Mutex<State>>,
    turn: Arc<tokio::sync::Mutex<()>>,
    to_driver: Arc<Notify>,
    dead: Arc<AtomicBool>,
    ignored: Arc<Vec<String>>,
}

/// Leave to have one effect.
pub struct Pass {
    gate: Gate,
    number: Option<u64>,
    _turn: Option<OwnedMutexGuard<()>>,
}

impl Gate {
    pub(crate) fn new(ignored: Vec<String>) -> Self {
        Self {
            state: Arc::default(),
            turn: Arc::default(),
            to_driver: Arc::default(),
            dead: Arc::default(),
            ignored: Arc::new(ignored),
        }
    }

    /// The next process of the same run begins: same count, no plan.
    pub(crate) fn revive(&self) {
        let mut state = self.state();
        state.plan = None;
        state.waiting = None;
        drop(state);
        self.dead.store(false, Ordering::SeqCst);
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn plan(&self, at: Option<(u64, Moment)>) {
        self.state().plan = at;
    }

    /// How many effects there were so far.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.state().seen
    }

    /// All effects so far, in order.
    #[must_use]
    pub fn effects(&self) -> Vec<Effect> {
        self.state().effects.clone()
    }

    /// Whether the process of this gate has been stopped.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.dead.load(Ordering::SeqCst)
    }

    pub(crate) fn kill(&self) {
        self.dead.store(true, Ordering::SeqCst);
        self.to_driver.notify_one();
    }

    /// True when an effect happened since the last call.
    pub(crate) fn take_unchecked(&self) -> bool {
        std::mem::take(&mut self.state().unchecked)
    }

    pub(crate) fn release(&self) {
        if let Some(waiting) = self.state().waiting.take() {
            // Whoever waited may have been stopped meanwhile.
            let _ = waiting.send(());
        }
    }

    pub(crate) async fn changed(&self) {
        self.to_driver.notified().await;
    }

    /// Waits for its turn to have an effect; never returns once the process is to be dead.
    pub async fn enter(&self, what: &str, resource: &str) -> Pass {
        if self.is_dead() {
            std::future::pending::<()>().await;
        }
        if self.ignored.iter().any(|r| r == resource) {
            return Pass { gate: self.clone(), number: None, _turn: None };
        }
        let turn = self.turn.clone().lock_owned().await;
        if self.is_dead() {
            std::future::pending::<()>().await;
        }
        let (number, plan) = {
            let mut state = self.state();
            state.seen += 1;
            let number = state.seen;
            state.effects.push(Effect { number, what: what.into(), resource: resource.into() });
            (number, state.plan)
        };
        if plan == Some((number, Moment::Before)) {
            self.kill();
            std::future::pending::<()>().await;
        }
        Pass { gate: self.clone(), number: Some(number), _turn: Some(turn) }
    }
}

impl Pass {
    /// Reports that the effect is done; the driver looks at the world before the answer goes out.
    pub async fn committed(self) {
        let Some(number) = self.number else { return };
        let (tell, told) = oneshot::channel();
        let plan = {
            let mut state = self.gate.state();
            state.unchecked = true;
            state.waiting = Some(tell);
            state.plan
        };
        if plan == Some((number, Moment::Committed)) {
            self.gate.kill();
            std::future::pending::<()>().await;
        }
        self.gate.to_driver.notify_one();
        // A driver that is gone holds nobody back.
        let _ = told.await;
        if plan == Some((number, Moment::Answered)) {
            // Later requests hang; the answer to this one still goes out.
            self.gate.kill();
        }
    }
}
