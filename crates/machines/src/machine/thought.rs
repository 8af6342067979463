//! What came of thinking about one machine: what to do, and what each condition says.

use api::reasons::machines::Reason;
use jiff::Timestamp;
use kit::conditions::State;

use super::decide::Step;
use super::snapshot::Snapshot;

/// What one condition says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Says {
    /// Whether it holds.
    pub state: State,
    /// Why, in one word.
    pub reason: &'static str,
    /// Why, for people.
    pub message: String,
}

impl Says {
    /// It holds.
    #[must_use]
    pub fn yes(reason: Reason, message: impl Into<String>) -> Option<Self> {
        Some(Self { state: State::True, reason: reason.as_str(), message: message.into() })
    }

    /// It does not hold.
    #[must_use]
    pub fn no(reason: Reason, message: impl Into<String>) -> Option<Self> {
        Some(Self { state: State::False, reason: reason.as_str(), message: message.into() })
    }
}

/// What came of thinking.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Thought {
    /// What to do.
    pub steps: Vec<Step>,
    /// Whether the machine is none of our business.
    pub silent: bool,
    /// Why it is paused.
    pub paused: Option<String>,
    /// What a deletion waits for.
    pub leaving: Option<String>,
    /// What is wrong with the spec.
    pub invalid: Option<String>,
    /// Whether the claim has a host.
    pub associated: Option<Says>,
    /// Whether the data is rendered; none where no data is wanted.
    pub data: Option<Says>,
    /// Whether the claim has what the machine asks for.
    pub synchronized: Option<Says>,
    /// Whether what the machine asks for runs.
    pub provisioned: Option<Says>,
    /// Whether the Node was found.
    pub node: Option<Says>,
    /// Whether the machine has everything Cluster API asks for.
    pub done: bool,
    /// Until when nobody is told of it.
    pub untold: Option<Timestamp>,
}

impl Thought {
    /// The same, and this is to be done.
    pub(super) fn doing(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    /// The same, until something changes.
    pub(super) fn waiting(self) -> Self {
        self.doing(Step::Wait { until: None })
    }

    /// The same, for what was asked for a moment ago: nobody is told of the wait before it has lasted.
    pub(super) fn patiently(mut self, s: &Snapshot) -> Self {
        self.untold = s.moment();
        let until = self.untold;
        self.doing(Step::Wait { until })
    }

    /// Whether anything is about to be changed.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.steps.iter().any(|step| !matches!(step, Step::Wait { .. }))
    }
}

/// What has to be asked before a decision can be made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Questions {
    /// The reuse group.
    pub reuse: bool,
    /// The Nodes of the workload cluster.
    pub nodes: bool,
}
