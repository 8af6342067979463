//! What comes before the phases: whether there is something to do at all, and whether it can be begun.

use api::own::anywhere::Bundles;
use api::reasons::clusters::Reason;

use crate::admit::{cluster_problem, datacenter_problem, machine_problem};
use crate::phase::Failure;
use crate::snapshot::Snapshot;

/// Where a pass goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gate {
    /// The cluster goes.
    Delete,
    /// It asks to be left alone.
    Pause,
    /// It manages itself.
    SelfManaged,
    /// Our finalizer is not on it yet.
    Secure,
    /// Something has to be put right first.
    Blocked(Failure),
    /// Cluster API or its provider is not there.
    Unserved,
    /// Its Cluster of Cluster API goes, and nobody asked us for that.
    Fading,
    /// Others carried it out.
    Adopt,
    /// It is carried out.
    Converged,
    /// It is to be carried out.
    Work,
}

fn failure(reason: Reason, message: impl Into<String>) -> Failure {
    Failure { reason, message: message.into() }
}

/// Where a pass goes.
#[must_use]
pub fn gate(s: &Snapshot) -> Gate {
    let cluster = &s.cluster;
    if cluster.is_deleting() {
        return Gate::Delete;
    }
    if cluster.is_paused() {
        return Gate::Pause;
    }
    if cluster.is_self_managed() {
        return Gate::SelfManaged;
    }
    if !cluster.has_finalizer() {
        return Gate::Secure;
    }
    if let Some(failure) = obstacle(s) {
        return Gate::Blocked(failure);
    }
    if !s.unserved.is_empty() {
        return Gate::Unserved;
    }
    if s.fading {
        return Gate::Fading;
    }
    if s.is_adopted() {
        return Gate::Adopt;
    }
    if s.is_converged() { Gate::Converged } else { Gate::Work }
}

/// What has to be put right before anything is done.
fn obstacle(s: &Snapshot) -> Option<Failure> {
    if let Some(problem) = &s.cluster.problem {
        return Some(failure(Reason::ClusterInvalid, problem.as_ref()));
    }
    if let Some(message) = missing(s) {
        return Some(failure(Reason::MissingDependentObjects, message));
    }
    if let Some(other) = &s.clash {
        return Some(failure(Reason::ClusterInvalid, format!("name already used by {other}")));
    }
    if let Some(problem) = &s.manager_problem {
        return Some(failure(Reason::ManagementClusterRefInvalid, problem.clone()));
    }
    match &s.bundles {
        Err(failure) => return Some(failure.clone()),
        Ok(bundles) => {
            if let Some(failure) = no_entry(s, bundles) {
                return Some(failure);
            }
        }
    }
    broken_rule(s)
}

/// The first thing that is not there.
fn missing(s: &Snapshot) -> Option<String> {
    let namespace = s.key.namespace().unwrap_or_default();
    let not_found = |kind: &str, name: &str| format!("{kind} {namespace}/{name} not found");
    // Names that are missing or wrong break a rule, which is told with its field.
    let datacenter = s.cluster.datacenter();
    if s.datacenter.is_none() && !datacenter.is_empty() {
        return Some(not_found("CloudStackDatacenterConfig", datacenter));
    }
    let machines = s.cluster.machines();
    if let Some(name) = machines.into_iter().find(|name| !name.is_empty() && !s.machines.contains_key(*name)) {
        return Some(not_found("CloudStackMachineConfig", name));
    }
    let identities = s.cluster.object.spec.identity_provider_refs.iter();
    identities
        .filter(|one| !one.name.is_empty() && ["OIDCConfig", "AWSIamConfig"].contains(&one.kind.as_str()))
        .find(|one| !s.identities.contains_key(&(one.kind.clone(), one.name.clone())))
        .map(|one| not_found(&one.kind, &one.name))
}

/// A version that the bundle has nothing for.
fn no_entry(s: &Snapshot, bundles: &Bundles) -> Option<Failure> {
    let spec = &s.cluster.object.spec;
    let groups = spec.worker_node_group_configurations.iter().map(|group| &group.kubernetes_version);
    let versions = [&spec.kubernetes_version].into_iter().chain(groups).filter(|version| !version.is_empty());
    let lacking = versions.into_iter().find(|version| bundles.spec.entry(version).is_none())?;
    let has: Vec<&str> = bundles.spec.versions_bundles.iter().map(|entry| entry.kube_version.as_str()).collect();
    let has = if has.is_empty() { "none".to_owned() } else { has.join(", ") };
    let name = bundles.metadata.name.as_deref().unwrap_or_default();
    let message = format!("Bundles {name} has no entry for Kubernetes {lacking} (has {has})");
    Some(failure(Reason::BundleNotFoundForCluster, message))
}

/// A rule that admission would have refused; objects may be older than the webhook.
fn broken_rule(s: &Snapshot) -> Option<Failure> {
    for ((kind, name), identity) in &s.identities {
        if let Some(problem) = &identity.problem {
            return Some(failure(Reason::ClusterInvalid, format!("{kind} {name} is invalid: {problem}")));
        }
    }
    if let Some(problem) = cluster_problem(&s.cluster.object, &s.terms) {
        return Some(failure(Reason::ClusterInvalid, problem));
    }
    let datacenter = s.datacenter.as_ref()?;
    let name = s.cluster.datacenter();
    let problem = datacenter.problem.as_deref().map(str::to_owned).or_else(|| datacenter_problem(&datacenter.object));
    if let Some(problem) = problem {
        let message = format!("CloudStackDatacenterConfig {name} is invalid: {problem}");
        return Some(failure(Reason::DatacenterConfigInvalid, message));
    }
    s.machines.iter().find_map(|(name, machine)| {
        let problem = machine.problem.as_deref().map(str::to_owned).or_else(|| machine_problem(&machine.object))?;
        Some(failure(Reason::MachineConfigInvalid, format!("CloudStackMachineConfig {name} is invalid: {problem}")))
    })
}
