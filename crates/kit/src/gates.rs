//! Readiness gates: why this process is, or is not, fit to be used.
//!
//! Every part that must be in order before traffic may come owns a [`Gate`]. A gate starts blocked, so a part that
//! was forgotten keeps the process out of service instead of letting it in. A gate that waits is shown but does not
//! block: a kind that is not installed is news for the operator, not a reason to restart.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use tokio::sync::watch;

/// The set of gates of one process; clones share it.
#[derive(Clone, Debug)]
pub struct Gates {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    state: Mutex<State>,
    revision: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    gates: BTreeMap<String, (GateState, String)>,
    draining: bool,
}

/// Where one gate stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum GateState {
    /// In order.
    Ready,
    /// Not complete, but no reason to keep traffic away.
    Waiting,
    /// Not in order: the process is not ready.
    Blocked,
}

impl GateState {
    fn mark(self) -> &'static str {
        match self {
            Self::Ready => "[+]",
            Self::Waiting => "[~]",
            Self::Blocked => "[-]",
        }
    }
}

/// One line of a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GateReport {
    /// The gate's name.
    pub name: String,
    /// Where it stands.
    pub state: GateState,
    /// Why, for a human.
    pub detail: String,
}

/// What `/readyz` answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// True when nothing blocks.
    pub ready: bool,
    /// All gates by name.
    pub gates: Vec<GateReport>,
}

impl Report {
    /// The report as one JSON document.
    #[must_use]
    pub fn to_json(&self) -> String {
        // A struct of strings and booleans has no value that serde_json refuses.
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for gate in &self.gates {
            let (mark, name, detail) = (gate.state.mark(), &gate.name, &gate.detail);
            if detail.is_empty() {
                writeln!(f, "{mark}{name}")?;
            } else {
                writeln!(f, "{mark}{name} {detail}")?;
            }
        }
        writeln!(f, "{}", if self.ready { "ready" } else { "not ready" })
    }
}

/// The name of the line that a draining process shows.
pub const SHUTDOWN: &str = "shutdown";

impl Default for Gates {
    fn default() -> Self {
        Self::new()
    }
}

impl Gates {
    /// A set without gates, which is ready.
    #[must_use]
    pub fn new() -> Self {
        let inner = Inner { state: Mutex::default(), revision: watch::Sender::new(0) };
        Self { inner: Arc::new(inner) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The gate of that name, made blocked if it did not exist.
    #[must_use = "a gate that nobody opens keeps the process not ready"]
    pub fn gate(&self, name: &str) -> Gate {
        let made = {
            let mut state = self.lock();
            let known = state.gates.contains_key(name);
            if !known {
                state.gates.insert(name.to_owned(), (GateState::Blocked, "not started".to_owned()));
            }
            !known
        };
        if made {
            self.bump();
        }
        Gate { gates: self.clone(), name: name.to_owned() }
    }

    /// Where every gate stands now.
    #[must_use]
    pub fn report(&self) -> Report {
        let state = self.lock();
        let mut gates: Vec<GateReport> = state
            .gates
            .iter()
            .map(|(name, (state, detail))| GateReport { name: name.clone(), state: *state, detail: detail.clone() })
            .collect();
        if state.draining {
            let detail = "draining".to_owned();
            gates.push(GateReport { name: SHUTDOWN.to_owned(), state: GateState::Blocked, detail });
            gates.sort_by(|a, b| a.name.cmp(&b.name));
        }
        Report { ready: gates.iter().all(|gate| gate.state != GateState::Blocked), gates }
    }

    /// Makes the process not ready for ever: it is about to stop.
    pub fn draining(&self) {
        let first = !std::mem::replace(&mut self.lock().draining, true);
        if first {
            tracing::info!(gate = SHUTDOWN, state = ?GateState::Blocked, detail = "draining", "gate changed");
            self.bump();
        }
    }

    /// Completes at the next change after this call, even if the future is polled only later.
    ///
    /// Take it before reading [`Gates::report`], so that no change is missed in between.
    pub fn changed(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut seen = self.inner.revision.subscribe();
        async move {
            // An error means that every handle is gone, and then nothing is left to wait for.
            let _ = seen.changed().await;
        }
    }

    /// Waits until no gate blocks; never returns on a draining process.
    pub async fn until_ready(&self) {
        loop {
            let change = self.changed();
            if self.report().ready {
                return;
            }
            change.await;
        }
    }

    fn bump(&self) {
        self.inner.revision.send_modify(|revision| *revision = revision.wrapping_add(1));
    }

    fn set(&self, name: &str, state: GateState, detail: String) {
        {
            let mut all = self.lock();
            let entry = all.gates.entry(name.to_owned()).or_insert((GateState::Blocked, String::new()));
            if entry.0 == state && entry.1 == detail {
                return;
            }
            // A changing detail is for those who look; a changing state is news.
            if entry.0 == state {
                tracing::debug!(gate = name, ?state, detail, "gate detail changed");
            } else {
                tracing::info!(gate = name, ?state, detail, "gate changed");
            }
            *entry = (state, detail);
        }
        self.bump();
    }
}

/// The handle by which its owner opens or closes one gate; clones share it.
#[derive(Clone, Debug)]
pub struct Gate {
    gates: Gates,
    name: String,
}

impl Gate {
    /// The gate's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// All is in order.
    pub fn ready(&self, detail: impl Into<String>) {
        self.gates.set(&self.name, GateState::Ready, detail.into());
    }

    /// Not complete, shown, but no reason to keep traffic away.
    pub fn waiting(&self, detail: impl Into<String>) {
        self.gates.set(&self.name, GateState::Waiting, detail.into());
    }

    /// Not in order: the process is not ready.
    pub fn blocked(&self, detail: impl Into<String>) {
        self.gates.set(&self.name, GateState::Blocked, detail.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    #[test]
    fn a_new_gate_blocks_until_its_owner_opens_it() {
        let gates = Gates::new();
        assert!(gates.report().ready);
        let gate = gates.gate("feed/claims");
        assert!(!gates.report().ready);
        gate.ready("12 objects");
        assert!(gates.report().ready);
        gate.blocked("watch closed");
        assert!(!gates.report().ready);
    }

    #[test]
    fn a_waiting_gate_is_shown_and_does_not_block() {
        let gates = Gates::new();
        gates.gate("b").waiting("kind x is not installed");
        gates.gate("a").ready("");
        let report = gates.report();
        assert!(report.ready);
        assert_eq!(report.to_string(), "[+]a\n[~]b kind x is not installed\nready\n");
        assert_eq!(
            report.to_json(),
            r#"{"ready":true,"gates":[{"name":"a","state":"ready","detail":""},{"name":"b","state":"waiting","detail":"kind x is not installed"}]}"#
        );
    }

    #[test]
    fn a_draining_process_never_becomes_ready_again() {
        let gates = Gates::new();
        let gate = gates.gate("a");
        gate.ready("");
        gates.draining();
        gate.ready("again");
        let report = gates.report();
        assert!(!report.ready);
        assert_eq!(report.to_string(), "[+]a again\n[-]shutdown draining\nnot ready\n");
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_between_asking_and_waiting_is_not_missed() {
        let gates = Gates::new();
        let gate = gates.gate("a");
        let change = gates.changed();
        gate.ready("");
        tokio::time::timeout(Duration::from_secs(1), change).await.expect("the change is remembered");
        tokio::time::timeout(Duration::from_secs(1), gates.until_ready()).await.expect("it is ready");
    }

    #[tokio::test(start_paused = true)]
    async fn an_equal_state_is_not_announced() {
        let gates = Gates::new();
        let gate = gates.gate("a");
        gate.ready("same");
        let change = gates.changed();
        gate.ready("same");
        assert!(tokio::time::timeout(Duration::from_secs(1), change).await.is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]
        #[test]
        fn ready_means_that_the_last_word_of_no_gate_was_blocked(
            steps in proptest::collection::vec((0..5usize, 0..3u8), 0..40),
        ) {
            let gates = Gates::new();
            let mut last = BTreeMap::new();
            for (gate, word) in steps {
                let handle = gates.gate(&format!("g{gate}"));
                match word {
                    0 => handle.ready(""),
                    1 => handle.waiting(""),
                    _ => handle.blocked(""),
                }
                last.insert(gate, word);
            }
            let report = gates.report();
            prop_assert_eq!(report.ready, last.values().all(|word| *word < 2));
            prop_assert_eq!(report.gates.len(), last.len());
            prop_assert!(report.gates.is_sorted_by(|a, b| a.name < b.name));
        }
    }
}
