//! Thinks: what a template needs next.

use api::views::CLUSTER_API_GROUP;

use super::observe::Snapshot;

/// One effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Put our finalizer on the template: data names it as its owner.
    Finalize,
    /// Make its cluster its owner, so that a move takes it along.
    Adopt,
    /// Take our finalizer off the template, after a live look that nothing needs it.
    Unfinalize,
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
        return if kept && !s.needed { vec![Step::Unfinalize] } else { Vec::new() };
    }
    let mut steps = Vec::new();
    if !kept {
        steps.push(Step::Finalize);
    } else if !is_owned(s) {
        steps.push(Step::Adopt);
    }
    steps
}
