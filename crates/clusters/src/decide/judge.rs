//! What a cluster says of the machine configurations it refers to.

use api::own::anywhere::CloudStackMachineConfigStatus;
use api::reasons::clusters::Reason;
use kit::kinds::Kind;
use kit::write::Target;

use super::{Step, Thought, Told};
use crate::admit::machine_problem;
use crate::facts::MachineFacts;
use crate::phase::Failure;
use crate::snapshot::Snapshot;

/// A cluster that something keeps from beginning.
pub(super) fn blocked(s: &Snapshot, failure: Failure) -> Thought {
    let mut steps = Vec::new();
    if failure.reason == Reason::MachineConfigInvalid {
        for (name, machine) in &s.machines {
            let problem = machine.problem.as_deref().map(str::to_owned).or_else(|| machine_problem(&machine.object));
            steps.extend(problem.and_then(|problem| verdict(s, name, machine, Some(&problem))));
        }
    }
    Thought { steps, failure: Told::Set(failure), ..Thought::default() }
}

/// What is said of a machine configuration, when that is something else than what is stored.
///
/// Several clusters may refer to one and see it differently; the worst is shown, with the cluster that says so. Who finds
/// it good therefore takes back only what is its own word, or nobody's any more.
pub(super) fn verdict(s: &Snapshot, name: &str, machine: &MachineFacts, fault: Option<&str>) -> Option<Step> {
    let stored = machine.object.status.clone().unwrap_or_default();
    let generation = machine.object.metadata.generation;
    let mine = format!("{}: ", s.key);
    let current = stored.observed_generation.is_some() && stored.observed_generation == generation;
    let complains = current && !stored.failure_message.is_empty();
    let anothers = complains && !stored.failure_message.starts_with(&mine) && speaks(s, &stored.failure_message, name);
    if anothers {
        return None;
    }
    let next = CloudStackMachineConfigStatus {
        spec_valid: Some(fault.is_none()),
        failure_message: fault.map(|fault| format!("{mine}{fault}")).unwrap_or_default(),
        observed_generation: generation,
    };
    (next != stored).then(|| Step::Judge { target: target(s, name, machine), status: next })
}

/// Whether a cluster that complains is there and still refers to the configuration.
fn speaks(s: &Snapshot, message: &str, name: &str) -> bool {
    let who = message.split_once(": ").map(|(who, _)| who).unwrap_or_default();
    s.peers.iter().any(|(peer, machines)| peer.to_string() == who && machines.iter().any(|machine| machine == name))
}

fn target(s: &Snapshot, name: &str, machine: &MachineFacts) -> Target {
    Target {
        kind: Kind::of::<api::raw::CloudStackMachineConfig>(),
        key: api::key::ObjectKey::namespaced(s.key.namespace().unwrap_or_default(), name),
        uid: machine.object.metadata.uid.clone().unwrap_or_default().into(),
    }
}
