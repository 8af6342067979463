//! Whether a machine may be worked on at all.

use api::reasons::hosts::Reason;

use super::{Says, unfit};
use crate::claim::ClaimFacts;
use crate::obstacle::{About, Obstacle};
use crate::snapshot::Snapshot;

/// Where a machine stands before anything is asked of EC2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gate {
    /// Another controller's.
    Ignored,
    /// Nobody owns it yet, or its Cluster is not there.
    Unowned,
    /// It must be left alone.
    Paused(String),
    /// It is being deleted.
    Delete,
    /// It has failed for good.
    Failed,
    /// Something must be there first.
    Waiting(Says),
    /// It asks for something that cannot be done.
    Refused(Obstacle),
    /// It may be worked on.
    Go,
}

fn paused(s: &Snapshot) -> Option<String> {
    if s.machine.is_paused() {
        return Some(format!("the {} is paused by its annotation", s.target.kind.kind));
    }
    let cluster = s.cluster.as_ref().filter(|cluster| cluster.paused);
    cluster.map(|_| format!("Cluster {} is paused", s.cluster_name().unwrap_or_default()))
}

/// The gates of a claim: it needs no owner and no Cluster, and what it asks for must be something that can be done.
fn of_claim(s: &Snapshot, claim: &ClaimFacts) -> Gate {
    if let Some(why) = paused(s) {
        return Gate::Paused(why);
    }
    if s.machine.deleting {
        return Gate::Delete;
    }
    if let Err(error) = &s.machine.journal {
        return Gate::Refused(Obstacle::terminal(About::Instance, error.to_string()));
    }
    // What runs goes on: only what is still to be launched is judged by the rules.
    match claim.fault.as_ref().filter(|_| s.machine.instance().is_none()) {
        Some(fault) => Gate::Refused(Obstacle::terminal(About::Instance, fault.message.clone())),
        None => Gate::Go,
    }
}

/// The first gate that does not open. Deletion needs neither Machine nor Cluster: what the machine carries is enough.
#[must_use]
pub fn gate(s: &Snapshot) -> Gate {
    if let Some(claim) = &s.claim {
        return of_claim(s, claim);
    }
    if let Some(filter) = &s.config.watch_filter
        && s.machine.filter.as_deref() != Some(filter.as_str())
    {
        return Gate::Ignored;
    }
    if s.machine.deleting {
        return paused(s).map_or(Gate::Delete, Gate::Paused);
    }
    if s.machine.owner.is_none() || s.owner.is_none() || s.cluster.is_none() || s.cluster_name().is_none() {
        return Gate::Unowned;
    }
    if let Some(why) = paused(s) {
        return Gate::Paused(why);
    }
    let wait = |reason, message: &str| Gate::Waiting(Says::no(reason, message));
    let kind = s.cluster.as_ref().and_then(|cluster| cluster.infrastructure.as_ref()).map(|r| r.kind.as_str());
    if let Some(kind) = kind.filter(|kind| *kind != "AWSCluster") {
        let message = format!("the infrastructure of the Cluster is of kind {kind}, and only AWSCluster is built");
        return Gate::Refused(Obstacle::terminal(About::Instance, message));
    }
    let Some(_) = &s.cloud else {
        return wait(Reason::WaitingForClusterInfrastructure, "the AWSCluster is not there yet");
    };
    let failed = s.machine.status.failure_reason.is_some() || s.machine.status.failure_message.is_some();
    if failed {
        return Gate::Failed;
    }
    if let Err(error) = &s.machine.journal {
        return Gate::Refused(Obstacle::terminal(About::Instance, error.to_string()));
    }
    if !s.cluster.as_ref().is_some_and(|cluster| cluster.provisioned) {
        return wait(
            Reason::WaitingForClusterInfrastructure,
            "the infrastructure of the Cluster is not provisioned yet",
        );
    }
    if s.owner.as_ref().is_none_or(|owner| owner.data_secret.is_none()) {
        return wait(Reason::WaitingForBootstrapData, "the Machine names no bootstrap data yet");
    }
    if let Some(problem) = &s.machine.problem {
        return Gate::Refused(Obstacle::terminal(About::Instance, problem.to_string()));
    }
    // What runs goes on: only what is still to be launched is judged by the rules.
    if s.machine.instance().is_none()
        && let Some(obstacle) = unfit(&s.machine.spec)
    {
        return Gate::Refused(obstacle);
    }
    Gate::Go
}
