//! The phases of a cluster that is to be carried out, and what is kept of one that is.

use std::collections::BTreeSet;
use std::time::Duration;

use api::names::clusters::SKIP_IP_CHECK_ANNOTATION;
use api::own::anywhere::ResolvedBundles;
use api::reasons::clusters::Reason;
use kit::kinds::Kind;
use kit::write::Target;
use serde_json::Value;

use super::network::{self, Network};
use super::{ENDPOINT, Need, SOON, Step, Thought, Told, judge, tell};
use crate::compare;
use crate::conditions::info;
use crate::manifest::word;
use crate::phase::{self, Failure, Outcome, Phase};
use crate::render::{self, Template};
use crate::snapshot::{Checks, Endpoint, Generated, Snapshot};

/// An endpoint that is being tried is known by then.
const TRYING: Duration = Duration::from_secs(5);

/// What a phase came to.
enum Turn {
    /// On to the next phase.
    Go,
    /// The pass ends here.
    End(Outcome),
}

/// A cluster that is to be carried out.
pub(super) fn work(s: &Snapshot) -> Result<Thought, Need> {
    let mut thought = Thought { bundles: bundles(s), ..Thought::default() };
    if !s.strangers.is_empty() {
        thought.steps.push(Step::Own { children: s.strangers.clone() });
    }
    // Behind a control plane that is as it was, the plugin is as it was told last, whatever keeps a change from beginning.
    if let Turn::End(_) = plane_ready(s) {
        let waiting = "the network plugin waits for the control plane";
        thought.network = Some(Err(info(Reason::ControlPlaneNotReady, waiting)));
    }
    for one in phase::ORDER {
        let turn = match one {
            Phase::ValidateControlPlaneIp => endpoint(s, &mut thought)?,
            Phase::ValidateDatacenterConfig => datacenter(s, &mut thought),
            Phase::ValidateMachineConfig => machines(s, &mut thought)?,
            Phase::CleanupStatusAfterValidate => cleanup(s, &mut thought)?,
            Phase::ReconcileControlPlane => control_plane(s, &mut thought)?,
            Phase::CheckControlPlaneReady => plane_ready(s),
            Phase::ReconcileCni => cni(s, &mut thought)?,
            Phase::ReconcileWorkers => workers(s, &mut thought)?,
        };
        if let Turn::End(outcome) = turn {
            if let Outcome::Again(pause) = outcome {
                thought.again = Some(pause);
            }
            thought.ended = Some((one, outcome));
            return Ok(thought);
        }
    }
    thought.reconciled = true;
    thought.verified = true;
    Ok(thought)
}

fn bundles(s: &Snapshot) -> Option<ResolvedBundles> {
    let bundles = s.bundles.as_ref().ok()?;
    Some(ResolvedBundles {
        name: bundles.metadata.name.clone().unwrap_or_default(),
        namespace: bundles.metadata.namespace.clone().unwrap_or_default(),
        number: Some(bundles.spec.number),
        eksa_version: s.bundled_for.clone(),
    })
}

/// Which bundle it is, whatever version it was found by. A server whose CRD lacks that field does not keep it, and what is
/// never stored must not be waited for.
fn which(bundles: Option<&ResolvedBundles>) -> Option<(&str, &str, Option<i64>)> {
    bundles.map(|bundles| (bundles.name.as_str(), bundles.namespace.as_str(), bundles.number))
}

fn stop(thought: &mut Thought, failure: Failure) -> Turn {
    thought.failure = Told::Set(failure.clone());
    Turn::End(Outcome::Stop(Some(failure)))
}

fn endpoint(s: &Snapshot, thought: &mut Thought) -> Result<Turn, Need> {
    if s.capi.is_some() || s.cluster.is_on(SKIP_IP_CHECK_ANNOTATION) {
        return Ok(Turn::Go);
    }
    Ok(match &s.endpoint {
        Endpoint::NotAsked => return Err(Need::Endpoint),
        // Whoever tries it wakes the cluster.
        Endpoint::Trying => Turn::End(Outcome::Again(TRYING)),
        Endpoint::Free => Turn::Go,
        Endpoint::Unresolved => {
            let told = "the name of the endpoint has no address yet";
            thought.steps.push(tell(true, Reason::EndpointNotResolved, told));
            Turn::Go
        }
        Endpoint::Taken(failure) => {
            thought.again = Some(ENDPOINT);
            stop(thought, failure.clone())
        }
    })
}

fn datacenter(s: &Snapshot, thought: &mut Thought) -> Turn {
    let Some(datacenter) = &s.datacenter else { return Turn::End(Outcome::Stop(None)) };
    match phase::datacenter(&datacenter.object) {
        Outcome::Continue => Turn::Go,
        Outcome::Stop(Some(failure)) => stop(thought, failure),
        outcome => Turn::End(outcome),
    }
}

fn machines(s: &Snapshot, thought: &mut Thought) -> Result<Turn, Need> {
    let zones: BTreeSet<&str> = s
        .datacenter
        .iter()
        .flat_map(|datacenter| &datacenter.object.spec.availability_zones)
        .map(|zone| zone.name.as_str())
        .collect();
    for group in &s.cluster.object.spec.worker_node_group_configurations {
        if let Some(zone) = group.failure_domains.iter().find(|zone| !zones.contains(zone.as_str())) {
            let message = format!("worker group {}: availability zone \"{zone}\" is not in the datacenter", group.name);
            return Ok(stop(thought, Failure { reason: Reason::MachineConfigInvalid, message }));
        }
    }
    match s.checked.as_ref().ok_or(Need::Machines)? {
        Checks::Datacenter(message) => {
            let failure = Failure { reason: Reason::DatacenterConfigInvalid, message: message.clone() };
            Ok(stop(thought, failure))
        }
        Checks::Passing { message, at_least } => {
            let told = format!("CloudStack API not reachable: {message}");
            if s.capi.is_none() {
                let failure = Failure { reason: Reason::DatacenterConfigInvalid, message: told.clone() };
                thought.failure = Told::Set(failure);
            }
            thought.steps.push(Step::Fail { message: told, at_least: *at_least });
            Ok(Turn::End(Outcome::Stop(None)))
        }
        Checks::Judged { machines, warnings } => {
            for (name, fault) in machines {
                let Some(machine) = s.machines.get(name) else { continue };
                thought.steps.extend(judge::verdict(s, name, machine, fault.as_deref()));
            }
            let told = warnings.iter().map(|warning| tell(true, Reason::ValidationFailed, warning.clone()));
            thought.steps.extend(told);
            let faults: Vec<&str> = machines.values().flatten().map(String::as_str).collect();
            if faults.is_empty() {
                return Ok(Turn::Go);
            }
            let failure = Failure { reason: Reason::MachineConfigInvalid, message: cut(&faults.join("; ")) };
            Ok(stop(thought, failure))
        }
    }
}

/// Takes a failure back that is past, and stores that before anything follows from it: objects are never made for a cluster
/// that says it cannot be.
fn cleanup(s: &Snapshot, thought: &mut Thought) -> Result<Turn, Need> {
    thought.failure = Told::Clear;
    if !s.tells_failure() {
        return Ok(Turn::Go);
    }
    // What cannot be rendered is told by the next phase, in the same words as before.
    if s.generated.as_ref().ok_or(Need::Generated)?.is_err() {
        return Ok(Turn::Go);
    }
    thought.steps.push(Step::Look);
    Ok(Turn::End(Outcome::Continue))
}

/// The most that is told of failed checks.
const LONGEST: usize = 1_500;

pub(crate) fn cut(text: &str) -> String {
    text.get(..text.floor_char_boundary(LONGEST)).unwrap_or_default().to_owned()
}

/// What is generated; a cluster that cannot be rendered is told why.
fn generated<'s>(s: &'s Snapshot, thought: &mut Thought) -> Result<Result<&'s Generated, Turn>, Need> {
    Ok(match s.generated.as_ref().ok_or(Need::Generated)? {
        Ok(generated) => Ok(generated),
        Err(error) => {
            let reason = match error {
                render::Error::NoEntry { .. } | render::Error::Incomplete { .. } => Reason::BundleNotFoundForCluster,
                render::Error::NoMachineConfig { .. } | render::Error::NoOidc { .. } => Reason::MissingDependentObjects,
                _ => Reason::ClusterInvalid,
            };
            Err(stop(thought, Failure { reason, message: error.to_string() }))
        }
    })
}

fn key(object: &Value) -> (String, String) {
    (word(object, "/kind").to_owned(), word(object, "/metadata/name").to_owned())
}

/// What is written so that an object is as it should be.
fn write(generated: &Generated, object: &Value, drift: bool) -> Option<Step> {
    match generated.stored.get(&key(object)) {
        None => Some(Step::Apply { object: object.clone(), paths: Vec::new(), drift }),
        Some(stored) => {
            let paths = compare::changes(object, stored);
            (!paths.is_empty()).then(|| Step::Apply { object: object.clone(), paths, drift })
        }
    }
}

fn create(template: &Template) -> Option<Step> {
    (!template.exists).then(|| Step::Create { object: template.object.clone() })
}

fn plane_steps(generated: &Generated, drift: bool) -> Vec<Step> {
    let rendered = &generated.rendered;
    let steps = [
        write(generated, &rendered.infrastructure, drift),
        create(&rendered.control_plane_template),
        write(generated, &rendered.control_plane, drift),
        write(generated, &rendered.cluster, drift),
    ];
    steps.into_iter().flatten().collect()
}

fn worker_steps(generated: &Generated, drift: bool) -> Vec<Step> {
    let mut steps = Vec::new();
    for group in &generated.rendered.groups {
        steps.extend(create(&group.machine_template));
        steps.extend(create(&group.config_template));
        steps.extend(write(generated, &group.deployment, drift));
    }
    steps.extend(generated.rendered.health_checks.iter().filter_map(|check| write(generated, check, drift)));
    steps
}

/// That a template takes the place of another one, told of whoever refers to them.
fn replaced(s: &Snapshot, generated: &Generated) -> Vec<Step> {
    let mut pairs: Vec<(Option<&str>, &Template, &str)> = Vec::new();
    let rendered = &generated.rendered;
    let old = s.plane.as_ref().and_then(|plane| plane.template.as_deref());
    pairs.push((old, &rendered.control_plane_template, "the control plane"));
    for group in &rendered.groups {
        let Some(facts) = s.groups.get(word(&group.deployment, "/metadata/name")) else { continue };
        pairs.push((facts.template.as_deref(), &group.machine_template, &group.name));
        pairs.push((facts.config.as_deref(), &group.config_template, &group.name));
    }
    let told = |(old, new, role): (Option<&str>, &Template, &str)| {
        let old = old.filter(|old| *old != new.name)?;
        let kind = word(&new.object, "/kind").to_owned();
        let before = generated.stored.get(&(kind.clone(), old.to_owned()));
        let spec = |object: Option<&Value>| object.and_then(|object| object.get("spec")).cloned().unwrap_or_default();
        let paths: Vec<String> = crate::change::differences("spec", &spec(before), &spec(Some(&new.object)))
            .into_iter()
            .map(|difference| difference.path)
            .take(8)
            .collect();
        let message = format!("{kind} of {role}: {old} -> {} ({})", new.name, paths.join(", "));
        Some(tell(false, Reason::TemplateReplaced, message))
    };
    pairs.into_iter().filter_map(told).collect()
}

fn control_plane(s: &Snapshot, thought: &mut Thought) -> Result<Turn, Need> {
    let generated = match generated(s, thought)? {
        Ok(generated) => generated,
        Err(turn) => return Ok(turn),
    };
    let steps = plane_steps(generated, false);
    if steps.is_empty() {
        return Ok(Turn::Go);
    }
    if which(thought.bundles.as_ref()) != which(s.stored.status.resolved_bundles.as_ref()) {
        // Which bundle it is is stored before it has an effect: whoever is stopped in between goes on with the same one.
        thought.steps.push(Step::Look);
        return Ok(Turn::End(Outcome::Continue));
    }
    if s.capi.is_none() {
        thought.steps.push(tell(false, Reason::ClusterCreating, "the objects of the cluster are written"));
    } else {
        thought.steps.extend(replaced(s, generated));
        thought.steps.extend(zone_removal(s, generated));
    }
    thought.steps.extend(steps);
    thought.steps.push(tell(false, Reason::ControlPlaneApplied, applied(s, "the control plane")));
    thought.steps.push(Step::Look);
    Ok(Turn::End(Outcome::Continue))
}

fn applied(s: &Snapshot, what: &str) -> String {
    format!("{what} is asked for as generation {} says", s.cluster.generation())
}

/// A zone that is taken away keeps its machines while a role has only one.
fn zone_removal(s: &Snapshot, generated: &Generated) -> Option<Step> {
    let names = |object: &Value| -> BTreeSet<String> {
        let zones = object.pointer("/spec/failureDomains").and_then(Value::as_array);
        zones.into_iter().flatten().map(|zone| word(zone, "/name").to_owned()).collect()
    };
    let wanted = &generated.rendered.infrastructure;
    let before = names(generated.stored.get(&key(wanted))?);
    let gone: Vec<String> = before.difference(&names(wanted)).cloned().collect();
    let spec = &s.cluster.object.spec;
    let plane = spec.control_plane_configuration.as_ref().is_some_and(|plane| plane.replicas() == 1);
    let single = spec.worker_node_group_configurations.iter().find(|group| group.count.unwrap_or(1) == 1);
    let role = if plane { Some("the control plane") } else { single.map(|group| group.name.as_str()) };
    let role = role.filter(|_| !gone.is_empty())?;
    let message = format!("availability zone {} keeps its machines: {role} has only one", gone.join(", "));
    Some(tell(true, Reason::ZoneRemovalBlocked, message))
}

fn plane_ready(s: &Snapshot) -> Turn {
    match phase::control_plane(s.plane.as_ref().map(|plane| &plane.report)) {
        Outcome::Continue => Turn::Go,
        outcome => Turn::End(outcome),
    }
}

fn cni(s: &Snapshot, thought: &mut Thought) -> Result<Turn, Need> {
    Ok(match network::think(s)? {
        Network::Stands(standing, version) => {
            thought.network = Some(standing);
            thought.network_version = version;
            thought.steps.extend(network::mark(s));
            Turn::Go
        }
        Network::Acts(standing, steps) => {
            thought.network = Some(standing);
            thought.steps.extend(steps);
            Turn::End(Outcome::Again(SOON))
        }
    })
}

fn workers(s: &Snapshot, thought: &mut Thought) -> Result<Turn, Need> {
    let generated = match generated(s, thought)? {
        Ok(generated) => generated,
        Err(turn) => return Ok(turn),
    };
    if !generated.stored.contains_key(&key(&generated.rendered.cluster)) {
        return Ok(Turn::End(Outcome::Again(Duration::from_secs(5))));
    }
    foreign(generated, thought);
    let steps = worker_steps(generated, false);
    if steps.is_empty() && generated.orphans.is_empty() {
        return Ok(Turn::Go);
    }
    thought.steps.extend(replaced(s, generated).into_iter().filter(|_| !steps.is_empty()));
    let wrote = !steps.is_empty();
    thought.steps.extend(steps);
    if wrote {
        thought.steps.push(tell(false, Reason::WorkersApplied, applied(s, "what workers need")));
    }
    if !generated.orphans.is_empty() {
        let reason = Some(Reason::WorkerGroupDeleted);
        thought.steps.push(Step::Delete { targets: generated.orphans.clone(), reason });
    }
    thought.steps.push(Step::Look);
    Ok(Turn::End(Outcome::Continue))
}

fn foreign(generated: &Generated, thought: &mut Thought) {
    for name in &generated.foreign {
        let message = format!("MachineDeployment {name} was made by somebody else and is left alone");
        thought.steps.push(tell(true, Reason::ForeignMachineDeployment, message));
    }
}

/// A cluster that is carried out: what somebody changed is set back, when it is time to look.
pub(super) fn keep(s: &Snapshot) -> Result<Thought, Need> {
    // A cluster that was carried out before versions were noted has its own noted while a release still tells it.
    let stored = s.stored.status.resolved_bundles.as_ref();
    let bundles = bundles(s).filter(|found| which(Some(found)) == which(stored));
    let mut thought = Thought { failure: Told::Clear, bundles, ..Thought::default() };
    if !s.strangers.is_empty() {
        thought.steps.push(Step::Own { children: s.strangers.clone() });
    }
    // What another revision rendered is not ours to judge; it stays until its user changes something.
    if !s.due || s.stored.status.render_revision != Some(render::REVISION) {
        return Ok(thought);
    }
    let generated = match s.generated.as_ref().ok_or(Need::Generated)? {
        Ok(generated) => generated,
        Err(error) => {
            thought.steps.push(Step::Fail { message: error.to_string(), at_least: None });
            return Ok(thought);
        }
    };
    let mut steps = plane_steps(generated, true);
    steps.extend(worker_steps(generated, true));
    if !generated.orphans.is_empty() {
        steps.push(Step::Delete { targets: generated.orphans.clone(), reason: Some(Reason::WorkerGroupDeleted) });
    }
    if !steps.is_empty() {
        thought.steps.extend(steps);
        thought.steps.push(Step::Look);
        return Ok(thought);
    }
    foreign(generated, &mut thought);
    if matches!(plane_ready(s), Turn::Go) {
        match network::think(s)? {
            Network::Stands(standing, version) => {
                thought.network = Some(standing);
                thought.network_version = version;
                thought.steps.extend(network::mark(s));
            }
            // A cluster that is out of reach for a while was carried out nevertheless.
            Network::Acts(_, steps) if steps.iter().any(|step| matches!(step, Step::Fail { .. })) => {}
            Network::Acts(standing, steps) => {
                thought.network = Some(standing);
                thought.steps.extend(steps);
                return Ok(thought);
            }
        }
    }
    if !generated.unused.is_empty() {
        thought.steps.push(Step::Delete { targets: generated.unused.clone(), reason: None });
    }
    thought.verified = true;
    Ok(thought)
}

/// A cluster that others carried out: it is labelled and remembered, and nothing of it is rendered.
pub(super) fn adopt(s: &Snapshot) -> Thought {
    let mut thought = Thought { failure: Told::Clear, adopted: true, bundles: bundles(s), ..Thought::default() };
    if !s.strangers.is_empty() {
        thought.steps.push(Step::Own { children: s.strangers.clone() });
    }
    let namespace = s.config.system_namespace();
    let target = |kind: Kind, name: &str, uid: &str| Target {
        kind,
        key: api::key::ObjectKey::namespaced(namespace, name),
        uid: uid.into(),
    };
    let mut add = |kind: Kind, name: &str, mark: &crate::facts::Mark| {
        if mark.owner.is_none() {
            thought.steps.push(Step::Label { target: target(kind, name, &mark.uid) });
        }
    };
    if let Some(capi) = &s.capi {
        add(Kind::of::<api::views::Cluster>(), s.key.name(), &capi.mark);
    }
    if let Some(plane) = &s.plane {
        add(Kind::of::<api::views::KubeadmControlPlane>(), s.key.name(), &plane.mark);
    }
    let wanted = s.cluster.object.spec.worker_node_group_configurations.iter();
    let wanted: BTreeSet<String> = wanted.map(|group| format!("{}-{}", s.key.name(), group.name)).collect();
    // What others made beside them stays theirs.
    for (name, group) in s.groups.iter().filter(|(name, _)| wanted.contains(*name)) {
        add(Kind::of::<api::views::MachineDeployment>(), name, &group.mark);
    }
    thought
}
