//! Thinks: what the treatment of a machine needs next, how far it is, and when to look again.
//!
//! A phase ends when everything it has to do is seen to be done; the next one is stored before anything of it is done.

use std::collections::BTreeMap;
use std::time::Duration;

use api::own::metal3::REBOOT;
use api::reasons::machines::Reason;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::Value;

use super::names::{OUT_OF_SERVICE, power_off};
use super::observe::{NodeState, Sight, Snapshot};

/// A Node is not followed, so it is looked at this often while something depends on it.
const NODE_POLL: Duration = Duration::from_secs(5);

/// What is said of a machine that somebody has switched off.
const WANTED_OFF: &str = "The claim asks for the host to be off, so the machine is not treated; see its poweredOn.";

/// How far a treatment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The host is switched off and its Node taken out of service.
    Running,
    /// The host is switched on again and its Node comes back.
    Waiting,
    /// It did not help, and the owner of the machine replaces it.
    DeletingMachine,
    /// Nothing can be done.
    Failed,
}

impl Phase {
    /// The word in the status.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "Running",
            Self::Waiting => "Waiting",
            Self::DeletingMachine => "Deleting machine",
            Self::Failed => "Failed",
        }
    }

    /// The phase that a status names.
    #[must_use]
    pub fn read(word: &str) -> Option<Self> {
        [Self::Running, Self::Waiting, Self::DeletingMachine, Self::Failed].into_iter().find(|p| p.as_str() == word)
    }
}

/// One effect, or a wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Put our finalizer on the treatment, before the host is switched off.
    Finalize,
    /// Have the host kept off.
    PowerOff,
    /// Have the host kept off no more.
    PowerOn,
    /// Store labels and annotations of the Node, which are lost with it.
    Backup {
        /// The annotations.
        annotations: String,
        /// The labels.
        labels: String,
    },
    /// Delete the Node, so that its pods start elsewhere.
    DeleteNode,
    /// Say that the Node is out of service, so that its pods and volumes go elsewhere.
    Taint,
    /// Say that the Node is in service again.
    Untaint,
    /// Put labels and annotations back on the Node that came back.
    Restore {
        /// The annotations that are missing.
        annotations: BTreeMap<String, String>,
        /// The labels that are missing.
        labels: BTreeMap<String, String>,
    },
    /// Take what was stored, and our finalizer, off the treatment.
    Forget,
    /// Ask the owner of the machine to replace it.
    HandOver,
    /// Say on the claim that its host must not be used again.
    Blame,
    /// Look again at that time.
    Wait {
        /// When.
        until: Timestamp,
    },
}

/// A plan, how far it is, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Thought {
    /// The effects, in order.
    pub steps: Vec<Step>,
    /// The phase to store.
    pub phase: Option<Phase>,
    /// How often it was tried again.
    pub retries: Option<i32>,
    /// When it was last tried.
    pub last: Option<Time>,
    /// Why it is as it is.
    pub reason: Reason,
    /// The same for people.
    pub message: String,
    /// Whether the machine is treated and nothing is left to do.
    pub done: bool,
}

impl Thought {
    fn step(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    fn turn(mut self, phase: Phase) -> Self {
        self.phase = Some(phase);
        self
    }
}

fn stay(s: &Snapshot, reason: Reason, message: &str) -> Thought {
    let status = &s.remediation.status;
    Thought {
        steps: Vec::new(),
        phase: phase(s),
        retries: status.retry_count,
        last: status.last_remediated.clone(),
        reason,
        message: message.to_owned(),
        done: false,
    }
}

/// The stored phase.
#[must_use]
pub fn phase(s: &Snapshot) -> Option<Phase> {
    s.remediation.status.phase.as_deref().and_then(Phase::read)
}

/// Whether the claim keeps the host off for this treatment.
#[must_use]
pub fn is_held_off(s: &Snapshot) -> bool {
    let key = power_off(&s.remediation.head.uid);
    s.claim.as_ref().is_some_and(|(claim, _)| claim.held_off.contains(key.as_str()))
}

fn power(s: &Snapshot) -> Option<bool> {
    s.claim.as_ref().and_then(|(claim, _)| claim.on)
}

/// Whether nothing is treated any more: what was done is undone, as far as that is needed.
fn is_over(s: &Snapshot) -> bool {
    s.remediation.head.deleting || matches!(phase(s), Some(Phase::DeletingMachine | Phase::Failed))
}

/// Whether the machine is still there to be treated.
fn is_living(s: &Snapshot) -> bool {
    s.patient.as_ref().is_some_and(|patient| !patient.deleting)
}

/// Whether the next decision depends on the Node.
#[must_use]
pub fn asks_for_node(s: &Snapshot) -> bool {
    if s.paused || !s.remediation.is_kept() {
        return false;
    }
    if is_over(s) {
        return is_living(s) && !is_held_off(s);
    }
    match phase(s) {
        Some(Phase::Running) => is_held_off(s) && power(s) == Some(false),
        Some(Phase::Waiting) => !is_held_off(s) && power(s) == Some(true),
        _ => false,
    }
}

/// When the patience with this try ends.
#[must_use]
pub fn deadline(s: &Snapshot) -> Option<Timestamp> {
    let strategy = s.remediation.spec.strategy.clone().unwrap_or_default();
    let patience = Duration::from_secs(u64::try_from(strategy.timeout_seconds).unwrap_or_default());
    s.remediation.status.last_remediated.as_ref()?.0.checked_add(patience).ok()
}

fn poll(s: &Snapshot) -> Timestamp {
    let soon = s.now.checked_add(NODE_POLL).unwrap_or(s.now);
    // Never past the deadline, and never at once.
    deadline(s).filter(|deadline| *deadline > s.now).map_or(soon, |deadline| deadline.min(soon))
}

/// The plan for one treatment.
#[must_use]
pub fn decide(s: &Snapshot) -> Thought {
    if s.paused {
        return stay(s, Reason::Paused, "The cluster is paused.");
    }
    if is_over(s) {
        return settle(s);
    }
    let strategy = s.remediation.spec.strategy.as_ref().map(|strategy| strategy.type_.as_str()).unwrap_or_default();
    if strategy != REBOOT {
        return stay(s, Reason::UnsupportedStrategy, "Only the strategy Reboot is known; correct spec.strategy.type.");
    }
    let (Some(_), Some((claim, _))) = (&s.patient, &s.claim) else {
        return stay(
            s,
            Reason::HostClaimMissing,
            "The machine, or its claim, is not there, so nothing can be rebooted.",
        );
    };
    if claim.deleting {
        let message = "Somebody deletes the claim of the machine, so nothing can be rebooted; replace the machine.";
        return stay(s, Reason::HostClaimDeleted, message);
    }
    if !claim.wanted {
        // Who switched the host off wants it off; there is nothing to heal.
        return stay(s, Reason::PoweredOff, WANTED_OFF).turn(Phase::Failed);
    }
    match phase(s) {
        None => {
            let begin = stay(s, Reason::PoweringOff, "The host is about to be switched off.");
            Thought { last: Some(Time(s.now)), ..begin }.turn(Phase::Running)
        }
        Some(Phase::Running) => run(s),
        Some(Phase::Waiting) => wait(s),
        Some(Phase::DeletingMachine | Phase::Failed) => settle(s),
    }
}

/// Switches the host off and takes its Node out of service. Only a host that is surely off is safe to start its pods elsewhere.
fn run(s: &Snapshot) -> Thought {
    if !s.remediation.is_kept() {
        return stay(s, Reason::PoweringOff, "The host is about to be switched off.").step(Step::Finalize);
    }
    if !is_held_off(s) {
        return stay(s, Reason::PoweringOff, "The host is being switched off.").step(Step::PowerOff);
    }
    if power(s) != Some(false) {
        return stay(s, Reason::PoweringOff, "The host is being switched off.");
    }
    let again = Step::Wait { until: poll(s) };
    let next = || stay(s, Reason::PoweringOn, "The host is about to be switched on.").turn(Phase::Waiting);
    match &s.node {
        Sight::None | Sight::Forbidden => next(),
        Sight::NotAsked => stay(s, Reason::PoweringOff, "The host is off.").step(again),
        Sight::Dark(why) => stay(s, Reason::ClusterUnreachable, why).step(again),
        Sight::There(node) if s.taints => {
            if !is_tainted(node) {
                // Whether anything is left on it is asked later: the taint takes a moment to have its effect.
                let told = stay(s, Reason::DrainingNode, "The Node is being taken out of service.");
                return told.step(Step::Taint).step(again);
            }
            if node.busy {
                return stay(s, Reason::DrainingNode, "Pods or volumes are still on the Node.").step(again);
            }
            next()
        }
        Sight::There(node) => {
            let told = stay(s, Reason::DeletingNode, "The Node is being deleted.");
            let (annotations, labels) = (text(&node.annotations), text(&node.labels));
            let stored = (s.remediation.annotations.as_deref(), s.remediation.labels.as_deref());
            if stored != (Some(annotations.as_str()), Some(labels.as_str())) {
                return told.step(Step::Backup { annotations, labels });
            }
            if node.deleting { told.step(again) } else { told.step(Step::DeleteNode).step(again) }
        }
    }
}

/// Switches the host on, brings its Node back, and looks whether that helped.
fn wait(s: &Snapshot) -> Thought {
    if is_held_off(s) {
        return stay(s, Reason::PoweringOn, "The host is being switched on.").step(Step::PowerOn);
    }
    if s.remediation.is_kept() {
        match &s.node {
            Sight::There(node) => {
                if let Some(steps) = mend(s, node) {
                    let told = stay(s, Reason::RestoringNode, "The Node is being put back into service.");
                    return Thought { steps, ..told };
                }
                return stay(s, Reason::RestoringNode, "The Node is back.").step(Step::Forget);
            }
            Sight::Forbidden => return stay(s, Reason::RestoringNode, "Nodes may not be seen.").step(Step::Forget),
            Sight::None | Sight::NotAsked | Sight::Dark(_) => {}
        }
    }
    let over = deadline(s).is_none_or(|deadline| deadline <= s.now);
    if over {
        return again_or_never(s);
    }
    let thought = match &s.node {
        _ if !s.remediation.is_kept() => {
            let told = stay(s, Reason::Remediated, "The machine was rebooted; its health check decides what follows.");
            Thought { done: true, ..told }
        }
        _ if power(s) != Some(true) => stay(s, Reason::PoweringOn, "The host is being switched on."),
        Sight::Dark(why) => stay(s, Reason::ClusterUnreachable, why),
        _ => stay(s, Reason::WaitingForNode, "The host is on and its Node has not come back yet."),
    };
    // A Node is not followed; everything else wakes us.
    let asked = asks_for_node(s);
    let until = if asked { Some(poll(s)) } else { deadline(s) };
    match until {
        Some(until) => thought.step(Step::Wait { until }),
        None => thought,
    }
}

/// The time is up: once more, or the machine is replaced.
fn again_or_never(s: &Snapshot) -> Thought {
    let limit = s.remediation.spec.strategy.as_ref().map_or(0, |strategy| strategy.retry_limit);
    let tried = s.remediation.status.retry_count.unwrap_or_default();
    if tried < limit {
        let told =
            stay(s, Reason::PoweringOff, "The machine is still ill and is rebooted once more.").turn(Phase::Running);
        return Thought { retries: Some(tried.saturating_add(1)), last: Some(Time(s.now)), ..told };
    }
    let message = "Rebooting did not help; the owner of the machine replaces it.";
    let told = stay(s, Reason::RetryLimitReached, message);
    let mut steps = Vec::new();
    if s.patient.as_ref().is_some_and(|patient| !patient.handed_over && !patient.deleting) {
        steps.push(Step::HandOver);
    }
    if s.claim.as_ref().is_some_and(|(claim, _)| !claim.unhealthy) {
        steps.push(Step::Blame);
    }
    if steps.is_empty() { told.turn(Phase::DeletingMachine) } else { Thought { steps, ..told } }
}

/// Undoes what was done, as far as somebody still needs that, and lets the treatment go.
fn settle(s: &Snapshot) -> Thought {
    let told = match phase(s) {
        Some(Phase::Failed) => stay(s, Reason::PoweredOff, WANTED_OFF),
        Some(Phase::DeletingMachine) => {
            stay(s, Reason::RetryLimitReached, "Rebooting did not help; the owner of the machine replaces it.")
        }
        _ => stay(s, Reason::Deleting, "The treatment ends."),
    };
    if !s.remediation.is_kept() {
        return told;
    }
    if is_held_off(s) {
        return told.step(Step::PowerOn);
    }
    if !is_living(s) {
        return told.step(Step::Forget);
    }
    match &s.node {
        Sight::There(node) => match mend(s, node) {
            Some(steps) => Thought { steps, ..told },
            None => told.step(Step::Forget),
        },
        Sight::Forbidden => told.step(Step::Forget),
        // What was deleted and does not come back has nothing to get back; no longer than one try is waited for it.
        Sight::None if !s.remediation.has_backup() => told.step(Step::Forget),
        Sight::None | Sight::Dark(_) | Sight::NotAsked => {
            if deadline(s).is_none_or(|deadline| deadline <= s.now) {
                return told.step(Step::Forget);
            }
            told.step(Step::Wait { until: poll(s) })
        }
    }
}

/// What a Node that is there needs to be as it was; `None` when it is.
fn mend(s: &Snapshot, node: &NodeState) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    if is_tainted(node) && s.taints {
        steps.push(Step::Untaint);
    }
    // A Node that is still going is the old one.
    if s.remediation.has_backup() && !node.deleting {
        let missing = |backup: &Option<Box<str>>, there: &BTreeMap<String, String>| -> BTreeMap<String, String> {
            let mut kept = parse(backup.as_deref());
            kept.retain(|key, _| !there.contains_key(key));
            kept
        };
        let annotations = missing(&s.remediation.annotations, &node.annotations);
        let labels = missing(&s.remediation.labels, &node.labels);
        if !annotations.is_empty() || !labels.is_empty() {
            steps.push(Step::Restore { annotations, labels });
        }
    }
    (!steps.is_empty()).then(|| {
        steps.push(Step::Wait { until: poll(s) });
        steps
    })
}

/// Whether the Node carries our taint.
#[must_use]
pub fn is_tainted(node: &NodeState) -> bool {
    node.taints.iter().any(|taint| taint.get("key").and_then(Value::as_str) == Some(OUT_OF_SERVICE))
}

fn text(map: &BTreeMap<String, String>) -> String {
    // A map of texts always serializes.
    serde_json::to_string(map).unwrap_or_default()
}

/// What cannot be read any more was changed by somebody and is lost.
fn parse(backup: Option<&str>) -> BTreeMap<String, String> {
    backup.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}
