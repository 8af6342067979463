//! What the status of a cluster says.

use api::names::clusters::{ALLOW_DELETE_WHEN_PAUSED_ANNOTATION, FINALIZER};
use api::own::anywhere::{InstalledCni, ResolvedBundles};
use api::reasons::READY;
use api::reasons::clusters::{CONTROL_PLANE_INITIALIZED, CONTROL_PLANE_READY, DEFAULT_CNI_CONFIGURED, Reason};
use jiff::{RoundMode, Timestamp, TimestampRound, Unit};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::conditions::{self, Plane, Standing, info};
use crate::decide::{Step, Thought, Told};
use crate::facts::standings;
use crate::render::REVISION;
use crate::snapshot::{Reported, Snapshot};

/// How everything of a cluster stands, the summary first.
fn all(s: &Snapshot, thought: &Thought) -> Vec<(&'static str, Standing)> {
    let stored = &s.stored.status.conditions;
    let once = matches!(conditions::stored(stored, CONTROL_PLANE_INITIALIZED), Some(Ok(())));
    let spec = &s.cluster.object.spec;
    let plane = s.plane.as_ref().map(|facts| {
        let mut plane = Plane { initialized: once, ..facts.plane.clone() };
        if let Some(wanted) = &spec.control_plane_configuration {
            plane.machines.wanted = i64::from(wanted.replicas());
        }
        plane
    });
    let network = thought.network.clone().or_else(|| conditions::stored(stored, DEFAULT_CNI_CONFIGURED));
    let network = network
        .unwrap_or_else(|| Err(info(Reason::ControlPlaneNotReady, "the network plugin waits for the control plane")));
    let groups = standings(&s.cluster.object, |name| s.groups.get(name));
    let mut all = conditions::all(plane.as_ref(), network, &groups);
    if let Some(words) = leaving(s) {
        let summary = all.iter_mut().find(|(type_, _)| *type_ == READY);
        if let Some((_, ready)) = summary {
            *ready = Err(info(Reason::Deleting, words));
        }
    }
    all
}

/// How far the end of a cluster is.
fn leaving(s: &Snapshot) -> Option<String> {
    let cluster = &s.cluster;
    let held = cluster.is_paused() && !cluster.is_on(ALLOW_DELETE_WHEN_PAUSED_ANNOTATION);
    if s.fading && !cluster.is_deleting() {
        return Some("its Cluster of Cluster API is being deleted".to_owned());
    }
    if !cluster.is_deleting() || held || cluster.is_self_managed() {
        return None;
    }
    let mut words = format!("{} machines left", s.nodes);
    let missing = s.leftovers.iter().flat_map(|left| &left.missing_secrets);
    let missing: Vec<&str> = missing.map(String::as_str).collect();
    if s.nodes > 0 && !missing.is_empty() {
        let namespace = s.config.system_namespace();
        let names = missing.join(", ");
        words.push_str(&format!("; secret {namespace}/{names} not found: machines cannot be destroyed without it"));
    }
    Some(words)
}

/// The server stores whole seconds; finer times would differ from what is read back.
fn whole_seconds(now: Timestamp) -> Time {
    Time(now.round(TimestampRound::new().smallest(Unit::Second).mode(RoundMode::Floor)).unwrap_or(now))
}

/// Whether the cluster is as wanted.
#[must_use]
pub fn is_ready(s: &Snapshot, thought: &Thought) -> bool {
    all(s, thought).iter().any(|(type_, standing)| *type_ == READY && standing.is_ok())
}

/// What is told when conditions begin to hold.
#[must_use]
pub fn announcements(s: &Snapshot, thought: &Thought) -> Vec<Step> {
    if thought.silent {
        return Vec::new();
    }
    let stored = &s.stored.status.conditions;
    let told = [
        (CONTROL_PLANE_READY, Reason::ControlPlaneReady, "the control plane is as wanted"),
        (READY, Reason::ClusterReady, "the cluster is as wanted"),
    ];
    let all = all(s, thought);
    let begins = |type_: &str| {
        let now = all.iter().any(|(found, standing)| *found == type_ && standing.is_ok());
        now && !matches!(conditions::stored(stored, type_), Some(Ok(())))
    };
    told.into_iter()
        .filter(|(type_, ..)| begins(type_))
        .map(|(_, reason, message)| Step::Tell { warning: false, reason, message: message.to_owned() })
        .collect()
}

/// The sum of the generations of what the cluster refers to.
fn children(s: &Snapshot) -> i64 {
    let datacenter = s.datacenter.iter().map(|one| one.object.metadata.generation);
    let machines = s.machines.values().map(|one| one.object.metadata.generation);
    let identities = s.identities.values().map(|one| one.metadata.generation);
    datacenter.chain(machines).chain(identities).map(Option::unwrap_or_default).sum()
}

/// The status as it should be. `failed` says that the pass did not come to its end.
#[must_use]
pub fn status(s: &Snapshot, thought: &Thought, failed: bool) -> Reported {
    let mut next = s.stored.clone();
    let status = &mut next.status;
    match &thought.failure {
        Told::Keep => {}
        Told::Clear => {
            status.failure_reason.clear();
            status.failure_message.clear();
        }
        Told::Set(failure) => {
            status.failure_reason = failure.reason.as_str().to_owned();
            status.failure_message.clone_from(&failure.message);
        }
    }
    status.conditions = conditions::fold(&s.stored.status.conditions, all(s, thought), &whole_seconds(s.now));
    if !failed {
        status.observed_generation = Some(s.cluster.generation());
    }
    if let Some(bundles) = &thought.bundles {
        status.resolved_bundles = Some(ResolvedBundles::clone(bundles));
    }
    if let Some(version) = &thought.network_version {
        status.cni = Some(InstalledCni { name: "cilium".to_owned(), version: version.clone() });
    }
    if !failed && (thought.reconciled || thought.adopted) {
        status.reconciled_generation = Some(s.cluster.generation());
        status.children_reconciled_generation = Some(children(s));
        status.inputs_hash.clone_from(&s.hash);
        status.render_revision = Some(if thought.adopted { 0 } else { REVISION });
    }
    // What somebody else wrote stays when it is left out; only an empty word takes its place, and goes with our next write.
    let had = !s.stored.status.failure_reason.is_empty() || !s.stored.status.failure_message.is_empty();
    next.empties = had && next.status.failure_reason.is_empty() && next.status.failure_message.is_empty();
    next
}

/// Whether the status is stored at the end of a pass. When another one follows at once, it will say more; what has to be
/// stored before something follows from it is stored nevertheless.
#[must_use]
pub fn is_stored(s: &Snapshot, thought: &Thought) -> bool {
    if !thought.steps.contains(&Step::Look) {
        return true;
    }
    let (next, stored) = (status(s, thought, false).status, &s.stored.status);
    next.failure_reason != stored.failure_reason
        || next.failure_message != stored.failure_message
        || next.resolved_bundles != stored.resolved_bundles
}

/// Whether there is an object to report on once the steps are done.
#[must_use]
pub fn remains(s: &Snapshot, thought: &Thought) -> bool {
    let released = thought.steps.contains(&Step::Release);
    let ours_alone = s.cluster.finalizers().iter().all(|finalizer| finalizer == FINALIZER);
    !(thought.silent || released && ours_alone)
}
