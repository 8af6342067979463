//! What the room would do next, in words.

use kit::explain::Next;
use kit::feed::Version;
use serde_json::Value;

use super::Case;
use crate::decide::{self, Step};
use crate::hooks::wire::Status;
use crate::keeper;
use crate::names::Slot;
use crate::scene::{Live, LiveCluster};
use crate::survey::Stance;

/// Who answers Cluster API.
const HOOKS: &str = "hooks";
/// Who does what no call would do.
const HOUSEKEEPER: &str = "housekeeper";

/// What would be done next, first by the hooks, then by the housekeeper.
pub(super) fn next(case: &Case<'_>) -> Vec<Next> {
    let mut next = Vec::new();
    let out = matches!(case.survey.stance, Stance::Out(_));
    if case.is_gated() && !out && case.uncalled().is_none() {
        next.extend(gate(case).into_iter().map(|what| Next { by: HOOKS, what }));
    }
    next.extend(housekeeper(case).into_iter().map(|what| Next { by: HOUSEKEEPER, what }));
    next
}

fn gate(case: &Case<'_>) -> Vec<String> {
    if let Some(setting) = &case.bad_setting {
        return vec![format!("refuse the cluster until the setting is right: {setting}")];
    }
    let variables = case.cluster.spec.topology.as_ref().map(|t| t.variables.clone()).unwrap_or_default();
    let live = LiveCluster { facts: case.facts.clone(), version: Version::of(case.cluster), variables };
    let snapshot = decide::Snapshot {
        asked: case.facts.clone(),
        live: Live::At(Box::new(live)),
        scene: case.scene.clone(),
        waited: true,
        confirmed: true,
    };
    match decide::decide(&snapshot) {
        decide::Next::Do(steps) => steps.iter().map(|step| gate_step(case, step)).collect(),
        decide::Next::Read | decide::Next::Confirm | decide::Next::Await => vec!["wait for the address".to_owned()],
        decide::Next::Answer(answer) => vec![match (answer.status(), answer.retry_after()) {
            (Status::Failure, _) => format!("refuse the cluster: {}", answer.message()),
            (Status::Success, 0) => "let Cluster API go on with the cluster".to_owned(),
            (Status::Success, seconds) => {
                format!("let Cluster API wait and ask again every {seconds} s: {}", answer.message())
            }
        }],
    }
}

fn gate_step(case: &Case<'_>, step: &Step) -> String {
    match step {
        Step::Claim { slot, pool, .. } => format!("create IPAddressClaim {} at {pool}", claim(case, *slot)),
        Step::Adopt { slot } => format!("take over IPAddressClaim {}", claim(case, *slot)),
        Step::Abandon { slot, better } => {
            format!("delete IPAddressClaim {} and ask {better} instead", claim(case, *slot))
        }
        Step::Write { patch, .. } => format!("write to the Cluster: {}", changes(patch)),
    }
}

fn housekeeper(case: &Case<'_>) -> Vec<String> {
    use keeper::decide::Step;
    let kind = case.sight.world.clusters.kind();
    let snapshot = keeper::Snapshot {
        cluster: Some(std::sync::Arc::new(case.facts.clone())),
        scene: case.scene.clone(),
        api_version: kind.api_version().into(),
        stored: case.facts.stored.clone(),
    };
    let told = |step: Step| {
        Some(match step {
            Step::Adopt { slot } => format!("take over IPAddressClaim {}", claim(case, slot)),
            Step::Refer { slot } => {
                format!("let IPAddressClaim {} name its owner as {}", claim(case, slot), kind.api_version())
            }
            Step::Claim { slot, pool, .. } => format!("create IPAddressClaim {} at {pool}", claim(case, slot)),
            Step::Abandon { slot, better } => {
                format!("delete IPAddressClaim {} and ask {better} instead", claim(case, slot))
            }
            Step::Release { slot, why } => format!("delete IPAddressClaim {}: {why}", claim(case, slot)),
            Step::Write { goal } => {
                let variables = case.cluster.spec.topology.as_ref().map(|t| t.variables.clone()).unwrap_or_default();
                format!("write to the Cluster: {}", changes(&goal.patch(&case.facts, &variables)?))
            }
            Step::Point { infrastructure, .. } => {
                format!("give {} {} the endpoint", infrastructure.kind, infrastructure.name)
            }
            Step::Wait { until } => format!("look again at {until:.0}, and at every change before"),
            // An orphan has no Cluster, and a word is no deed.
            Step::Sweep { .. } | Step::Warn { .. } => return None,
        })
    };
    keeper::decide::decide(&snapshot).into_iter().filter_map(told).collect()
}

fn claim(case: &Case<'_>, slot: Slot) -> String {
    format!("{}/{}", case.key.namespace().unwrap_or_default(), slot.claim(case.key.name()))
}

/// The fields that a merge patch sets or takes away.
fn changes(patch: &Value) -> String {
    let mut words = Vec::new();
    if let Some(endpoint) = patch.pointer("/spec/controlPlaneEndpoint") {
        let host = endpoint.get("host").and_then(Value::as_str).unwrap_or_default();
        let port = endpoint.get("port").and_then(Value::as_i64).unwrap_or_default();
        words.push(format!("endpoint {host} port {port}"));
    }
    for (pointer, what) in [("/metadata/annotations", "annotation"), ("/metadata/labels", "label")] {
        for (key, value) in patch.pointer(pointer).and_then(Value::as_object).into_iter().flatten() {
            let short = key.rsplit('/').next().unwrap_or(key);
            words.push(match value.as_str() {
                Some(value) => format!("{what} {short}={value}"),
                None => format!("no {what} {short}"),
            });
        }
    }
    if patch.pointer("/spec/topology/variables").is_some() {
        words.push("the variables that carry addresses".to_owned());
    }
    words.join(", ")
}
