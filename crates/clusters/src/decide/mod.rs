//! Thinks about one cluster: what is done next, and what is told of it.
//!
//! A thought is made of what is known. Where more must be known first, it says what, and nothing is done: whoever reads the
//! world asks again until the thought is whole. Nothing that costs something is asked before the cheaper checks passed.

mod deletion;
mod gate;
mod judge;
mod network;
mod phases;

use std::time::Duration;

use api::own::anywhere::{CloudStackMachineConfigStatus, ResolvedBundles};
use api::reasons::clusters::Reason;
use jiff::Timestamp;
use kit::write::Target;
use serde_json::Value;

use crate::conditions::Standing;
use crate::owners::Owned;
use crate::phase::{Failure, Outcome, Phase};
use crate::snapshot::{Objects, Snapshot};

pub use gate::{Gate, gate};
pub(crate) use phases::cut;

/// How long a cluster is looked at again that is not ready.
pub const SOON: Duration = Duration::from_secs(10);
/// How long an endpoint that somebody has is tried again.
pub const ENDPOINT: Duration = Duration::from_secs(60);
/// How long a cluster that goes is looked at again.
pub const LEAVING: Duration = Duration::from_secs(60);

/// What has to be known before a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Who has the endpoint.
    Endpoint,
    /// Whether CloudStack has what machines are made of.
    Machines,
    /// What generated objects should be and are.
    Generated,
    /// How the network plugin stands.
    Inside,
    /// What is left of a cluster that goes.
    Leftovers,
}

/// One effect, or a wait.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Puts our finalizer on the cluster.
    Secure,
    /// Names the cluster as an owner of what it refers to.
    Own {
        /// The children that do not know it yet, with the owners they have.
        children: Vec<Child>,
    },
    /// Says how a machine configuration stands.
    Judge {
        /// The machine configuration.
        target: Target,
        /// What is said.
        status: CloudStackMachineConfigStatus,
    },
    /// Marks an object of another controller as made for the cluster.
    Label {
        /// The object.
        target: Target,
    },
    /// Writes a generated object.
    Apply {
        /// The object.
        object: Value,
        /// What changes in it; nothing when it is new.
        paths: Vec<String>,
        /// Whether somebody had changed it.
        drift: bool,
    },
    /// Makes a template.
    Create {
        /// The template.
        object: Value,
    },
    /// Deletes objects that nobody wants any more.
    Delete {
        /// The objects.
        targets: Vec<Target>,
        /// What is told of it.
        reason: Option<Reason>,
    },
    /// Applies objects inside of the cluster.
    Enter {
        /// The objects.
        objects: Objects,
        /// Whether workloads and Services take the place of those that are there.
        replace: bool,
        /// What is told of it.
        reason: Option<Reason>,
        /// What is told of it, in words.
        message: String,
    },
    /// Removes the check before an upgrade from the cluster.
    Leave {
        /// Its objects.
        objects: Objects,
    },
    /// Notes that the network plugin was installed once.
    Mark,
    /// Deletes the Cluster of Cluster API, and with it everything.
    Dissolve {
        /// The Cluster.
        target: Target,
    },
    /// Takes our finalizer off, once nothing is left.
    Release,
    /// Says something on the cluster, unless it was said before.
    Tell {
        /// Whether somebody should look.
        warning: bool,
        /// In one word.
        reason: Reason,
        /// In a sentence.
        message: String,
    },
    /// Ends the pass as failed, to be tried again.
    Fail {
        /// Why.
        message: String,
        /// How long to wait at least.
        at_least: Option<Duration>,
    },
    /// Looks again at once.
    Look,
    /// Waits.
    Wait {
        /// Until then, or with nothing until something changes.
        until: Option<Timestamp>,
    },
}

/// Something that a cluster refers to.
#[derive(Clone, Debug, PartialEq)]
pub struct Child {
    /// The object.
    pub target: Target,
    /// Its owners, and the version at which they were seen.
    pub owned: Owned,
}

/// What becomes of the failure in the status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Told {
    /// It stays as it is.
    #[default]
    Keep,
    /// It is past.
    Clear,
    /// There is one.
    Set(Failure),
}

/// What was thought.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Thought {
    /// What is done, in order.
    pub steps: Vec<Step>,
    /// What becomes of the failure.
    pub failure: Told,
    /// How the network plugin stands; nothing when it was not looked at.
    pub network: Option<Standing>,
    /// The version of the network plugin that is there.
    pub network_version: Option<String>,
    /// Where it ended.
    pub ended: Option<(Phase, Outcome)>,
    /// Whether everything is carried out.
    pub reconciled: bool,
    /// Whether what others carried out is taken over.
    pub adopted: bool,
    /// Whether generated objects were found as they should be.
    pub verified: bool,
    /// The bundle that is used.
    pub bundles: Option<ResolvedBundles>,
    /// When it is looked at again, if no step says.
    pub again: Option<Duration>,
    /// Whether nothing of this cluster is ours to tell.
    pub silent: bool,
}

/// Thinks, or says what has to be known first.
///
/// # Errors
/// What has to be known.
pub fn think(s: &Snapshot) -> Result<Thought, Need> {
    let mut thought = match gate(s) {
        Gate::Delete => deletion::think(s)?,
        Gate::Pause => Thought { again: Some(s.config.cluster_resync), ..Thought::default() },
        Gate::SelfManaged => Thought {
            steps: vec![tell(true, Reason::SelfManagedIgnored, "a cluster that manages itself is left alone")],
            again: Some(s.config.cluster_resync),
            ..Thought::default()
        },
        Gate::Secure => Thought { steps: vec![Step::Secure, Step::Look], ..Thought::default() },
        Gate::Blocked(failure) => judge::blocked(s, failure),
        Gate::Unserved | Gate::Fading => Thought { again: Some(SOON), ..Thought::default() },
        Gate::Adopt => phases::adopt(s),
        Gate::Converged => phases::keep(s)?,
        Gate::Work => phases::work(s)?,
    };
    if let (Told::Set(failure), false) = (&thought.failure, thought.silent)
        && !is_told(s, failure)
    {
        let message = format!("{}: {}", failure.reason, failure.message);
        thought.steps.insert(0, tell(true, Reason::ValidationFailed, message));
    }
    Ok(thought)
}

/// Whether the status says so already.
fn is_told(s: &Snapshot, failure: &Failure) -> bool {
    let status = &s.stored.status;
    status.failure_reason == failure.reason.as_str() && status.failure_message == failure.message
}

fn tell(warning: bool, reason: Reason, message: impl Into<String>) -> Step {
    Step::Tell { warning, reason, message: message.into() }
}

/// The steps of a whole thought, with the wait that follows; nothing while something has to be known.
#[must_use]
pub fn decide(s: &Snapshot) -> Vec<Step> {
    let Ok(thought) = think(s) else { return Vec::new() };
    let ends = |step: &Step| matches!(step, Step::Look | Step::Wait { .. } | Step::Fail { .. });
    // What begins to hold is told once, with the status that says so.
    let stored = crate::status::is_stored(s, &thought);
    let mut steps = if stored { crate::status::announcements(s, &thought) } else { Vec::new() };
    let ready = crate::status::is_ready(s, &thought);
    steps.extend(thought.steps);
    if !steps.iter().any(ends) {
        let pause = match thought.again {
            Some(pause) => Some(pause),
            None if thought.silent => None,
            None => Some(if ready { s.config.cluster_resync } else { SOON }),
        };
        steps.push(Step::Wait { until: pause.map(|pause| s.after(pause)) });
    }
    steps
}

#[cfg(test)]
mod tests;
