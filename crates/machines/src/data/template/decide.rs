//! Thinks: what a template needs next.

use api::views::CLUSTER_API_GROUP;
use jiff::Timestamp;

use super::observe::Snapshot;
use super::status;

/// One effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Put our finalizer on the template: data names it as its owner.
    Finalize,
    /// Make its cluster its owner, so that a move takes it along.
    Adopt,
    /// Take our finalizer off the template, after a live look that nothing needs it.
    Unfinalize,
    /// Look again at that time.
    Wait {
        /// When.
        until: Timestamp,
    },
}

/// Whether its cluster owns it.
#[must_use]
pub fn is_owned(s: &Snapshot) -> bool {
    let Some(cluster) = &s.cluster else { return true };
    s.template.owners.iter().any(|owner| {
        let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
        group == CLUSTER_API_GROUP && owner.kind == "Cluster" && owner.uid == *cluster.uid
    })
}

/// The plan for one template.
#[must_use]
pub fn decide(s: &Snapshot) -> Vec<Step> {
    if s.paused {
        return Vec::new();
    }
    let kept = s.template.is_kept();
    if s.template.head.deleting {
        let gone = (kept && !s.needed).then_some(Step::Unfinalize);
        return gone.or_else(|| status::untold(s).map(|until| Step::Wait { until })).into_iter().collect();
    }
    let mut steps = Vec::new();
    if !kept {
        steps.push(Step::Finalize);
    } else if !is_owned(s) {
        steps.push(Step::Adopt);
    }
    steps.extend(status::untold(s).map(|until| Step::Wait { until }));
    steps
}
