//! The end of a cluster.

use api::names::clusters::{ALLOW_DELETE_WHEN_PAUSED_ANNOTATION, MANAGED_BY_CLI_ANNOTATION};
use api::reasons::clusters::Reason;

use super::{LEAVING, Need, Step, Thought, Told, tell};
use crate::snapshot::Snapshot;

/// What is done about a cluster that goes.
pub(super) fn think(s: &Snapshot) -> Result<Thought, Need> {
    let cluster = &s.cluster;
    if !cluster.has_finalizer() {
        return Ok(Thought { silent: true, ..Thought::default() });
    }
    if cluster.is_self_managed() {
        if cluster.is_on(MANAGED_BY_CLI_ANNOTATION) {
            return Ok(Thought {
                steps: vec![Step::Release, Step::Wait { until: None }],
                silent: true,
                ..Thought::default()
            });
        }
        let told = "a cluster that manages itself is not deleted through this API";
        let steps = vec![tell(true, Reason::SelfManagedDeleteRefused, told)];
        return Ok(Thought { steps, again: Some(s.config.cluster_resync), ..Thought::default() });
    }
    if cluster.is_paused() && !cluster.is_on(ALLOW_DELETE_WHEN_PAUSED_ANNOTATION) {
        return Ok(Thought { again: Some(s.config.cluster_resync), ..Thought::default() });
    }
    let left = s.leftovers.as_ref().ok_or(Need::Leftovers)?;
    if let Some((target, leaving)) = &left.capi {
        let steps = if *leaving { Vec::new() } else { vec![Step::Dissolve { target: target.clone() }] };
        return Ok(Thought { steps, failure: Told::Clear, again: Some(LEAVING), ..Thought::default() });
    }
    let mut steps = Vec::new();
    if !left.rest.is_empty() {
        steps.push(Step::Delete { targets: left.rest.clone(), reason: None });
    }
    steps.extend([Step::Release, Step::Wait { until: None }]);
    Ok(Thought { steps, silent: true, ..Thought::default() })
}
