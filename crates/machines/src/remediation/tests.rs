use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::key::ObjectKey;
use api::own::metal3::{Metal3RemediationSpec, RemediationStrategy};
use api::reasons::machines::Reason;
use jiff::Timestamp;
use kit::feed::Version;
use kit::kinds::Kind;
use kit::write::Target;
use proptest::prelude::*;
use serde_json::json;

use super::decide::{Phase, Step, asks_for_node, decide, phase};
use super::facts::{PatientFacts, PowerFacts, RemediationFacts};
use super::guard::guard;
use super::names::{FINALIZER, OUT_OF_SERVICE, power_off};
use super::observe::{NodeState, Sight, Snapshot};
use super::status::report;
use crate::data::facts::{Head, Owner};

fn kind(plural: &str) -> Kind {
    Kind { group: "g".into(), version: "v1".into(), kind: plural.into(), plural: plural.into() }
}

/// A machine that is ill, with its host and its Node, as a small world of its own.
#[derive(Clone, Debug)]
struct Ward {
    now: Timestamp,
    remediation: RemediationFacts,
    patient: Option<PatientFacts>,
    claim: Option<PowerFacts>,
    node: Option<NodeState>,
    taints: bool,
    /// Whether the Node comes back with the host.
    heals: bool,
    /// Whether the machine is well once it was rebooted, so that its treatment is deleted.
    well: bool,
    offs: u32,
    taken_while_on: bool,
    gone: bool,
    handed_over: bool,
    blamed: bool,
}

impl Ward {
    fn new(taints: bool) -> Self {
        let strategy = RemediationStrategy { type_: "Reboot".to_owned(), retry_limit: 2, timeout_seconds: 300 };
        Self {
            now: Timestamp::UNIX_EPOCH,
            remediation: RemediationFacts {
                head: Head { uid: "ru".into(), generation: 1, ..Head::default() },
                machine: Some(Owner { name: "machine".into(), uid: "xu".into() }),
                annotations: None,
                labels: None,
                spec: Metal3RemediationSpec { strategy: Some(strategy) },
                status: Default::default(),
            },
            patient: Some(PatientFacts {
                uid: "xu".into(),
                deleting: false,
                cluster: Some("c".into()),
                metal: Some("m".into()),
                node: Some("n".into()),
                handed_over: false,
            }),
            claim: Some(PowerFacts {
                uid: "cu".into(),
                deleting: false,
                machine: Some("mu".into()),
                wanted: true,
                on: Some(true),
                held_off: BTreeSet::new(),
                unhealthy: false,
            }),
            node: Some(Self::fresh_node(true)),
            taints,
            heals: true,
            well: false,
            offs: 0,
            taken_while_on: false,
            gone: false,
            handed_over: false,
            blamed: false,
        }
    }

    fn fresh_node(labelled: bool) -> NodeState {
        let labels = if labelled { BTreeMap::from([("role".to_owned(), "db".to_owned())]) } else { BTreeMap::new() };
        NodeState { name: "n".to_owned(), uid: "nu".into(), version: "1".into(), labels, ..NodeState::default() }
    }

    fn snapshot(&self) -> Snapshot {
        let target = |name: &str| Target { kind: kind("k"), key: ObjectKey::namespaced("team", name), uid: "u".into() };
        let version = Version { uid: "u".into(), resource_version: "1".into() };
        let mut s = Snapshot {
            key: ObjectKey::namespaced("team", "r"),
            now: self.now,
            kind: kind("metal3remediations"),
            remediation: Arc::new(self.remediation.clone()),
            version: version.clone(),
            patient: self.patient.clone().map(Arc::new),
            patient_target: Some(target("machine")),
            claim: self.claim.clone().map(|claim| (Arc::new(claim), version)),
            claim_target: Some(target("m")),
            node: Sight::NotAsked,
            taints: self.taints,
            paused: false,
        };
        if asks_for_node(&s) {
            s.node = self.node.clone().map_or(Sight::None, |node| Sight::There(Box::new(node)));
        }
        s
    }

    fn apply(&mut self, step: &Step) {
        let off = power_off("ru");
        match step {
            Step::Finalize => self.remediation.head.finalizers = vec![Box::from(FINALIZER)].into(),
            Step::PowerOff => {
                if let Some(claim) = &mut self.claim {
                    self.offs += u32::from(claim.held_off.insert(off.into()));
                }
            }
            Step::PowerOn => {
                if let Some(claim) = &mut self.claim {
                    claim.held_off.remove(off.as_str());
                }
            }
            Step::Backup { annotations, labels } => {
                self.remediation.annotations = Some(annotations.as_str().into());
                self.remediation.labels = Some(labels.as_str().into());
            }
            Step::DeleteNode => {
                self.taken_while_on |= self.claim.as_ref().is_some_and(|claim| claim.on != Some(false));
                self.node = None;
            }
            Step::Taint => {
                self.taken_while_on |= self.claim.as_ref().is_some_and(|claim| claim.on != Some(false));
                if let Some(node) = &mut self.node {
                    node.taints.push(json!({"key": OUT_OF_SERVICE, "effect": "NoExecute"}));
                }
            }
            Step::Untaint => {
                if let Some(node) = &mut self.node {
                    node.taints.clear();
                }
            }
            Step::Restore { annotations, labels } => {
                if let Some(node) = &mut self.node {
                    node.annotations.extend(annotations.clone());
                    node.labels.extend(labels.clone());
                }
            }
            Step::Forget => {
                self.remediation.head.finalizers = Box::default();
                (self.remediation.annotations, self.remediation.labels) = (None, None);
            }
            Step::HandOver => {
                self.handed_over = true;
                if let Some(patient) = &mut self.patient {
                    patient.handed_over = true;
                }
            }
            Step::Blame => {
                self.blamed = true;
                if let Some(claim) = &mut self.claim {
                    claim.unhealthy = true;
                }
            }
            Step::Wait { .. } => {}
        }
    }

    /// What others do: the host follows the claim, and its Node follows the host.
    fn others(&mut self) {
        if let Some(claim) = &mut self.claim {
            claim.on = Some(claim.wanted && claim.held_off.is_empty());
            if claim.on == Some(true) && self.heals && self.node.is_none() {
                self.node = Some(Self::fresh_node(false));
            }
        }
        let treated = phase(&self.snapshot()) == Some(Phase::Waiting) && !self.remediation.is_kept();
        if self.well && treated {
            self.remediation.head.deleting = true;
        }
        self.gone |= self.remediation.head.deleting && !self.remediation.is_kept();
    }

    /// One pass; says whether anything was done or stored.
    fn pass(&mut self, cut: usize) -> bool {
        let s = self.snapshot();
        let thought = decide(&s);
        guard(&s, &thought.steps).unwrap();
        for step in thought.steps.iter().take(cut) {
            self.apply(step);
        }
        let busy = thought.steps.iter().any(|step| !matches!(step, Step::Wait { .. }));
        let mut stored = false;
        if let Some(told) = report(&s, None)
            && cut > thought.steps.len()
        {
            let mut next = told.next;
            next.conditions = self.remediation.status.conditions.clone();
            stored = next != self.remediation.status;
            self.remediation.status = next;
        }
        busy || stored
    }

    /// Runs until nothing happens any more for longer than every try together lasts.
    fn run(&mut self) -> Vec<Phase> {
        let mut phases: Vec<Phase> = Vec::new();
        let mut quiet = 0;
        for _ in 0..2000 {
            let moved = self.pass(usize::MAX);
            let before = (self.node.clone(), self.claim.clone());
            self.others();
            if let Some(now) = phase(&self.snapshot())
                && phases.last() != Some(&now)
            {
                phases.push(now);
            }
            quiet = if moved || before != (self.node.clone(), self.claim.clone()) { 0 } else { quiet + 1 };
            if self.gone || quiet > 200 {
                return phases;
            }
            self.now = self.now.checked_add(Duration::from_secs(5)).unwrap();
        }
        panic!("it never comes to rest: {self:?}");
    }
}

#[test]
fn a_machine_that_gets_well_is_rebooted_once_and_its_node_is_as_before() {
    for taints in [false, true] {
        let mut ward = Ward { well: true, ..Ward::new(taints) };
        assert_eq!(ward.run(), [Phase::Running, Phase::Waiting]);
        assert!(ward.gone && !ward.taken_while_on && !ward.handed_over && !ward.blamed);
        assert_eq!(ward.offs, 1);
        let node = ward.node.unwrap();
        assert_eq!((node.labels.get("role").map(String::as_str), node.taints.len()), (Some("db"), 0));
        let claim = ward.claim.unwrap();
        assert!(claim.held_off.is_empty() && claim.on == Some(true));
    }
}

#[test]
fn a_machine_that_stays_ill_is_rebooted_as_often_as_allowed_and_then_given_up() {
    for (taints, heals) in [(false, true), (true, true), (false, false)] {
        let mut ward = Ward { heals, ..Ward::new(taints) };
        let phases = ward.run();
        let (on, off) = (Phase::Waiting, Phase::Running);
        assert_eq!(phases, [off, on, off, on, off, on, Phase::DeletingMachine]);
        assert_eq!((ward.offs, ward.remediation.status.retry_count), (3, Some(2)));
        assert!(ward.handed_over && ward.blamed && !ward.taken_while_on);
        // It is deleted with its machine, and nothing holds it.
        ward.remediation.head.deleting = true;
        ward.patient = None;
        ward.run();
        assert!(ward.gone);
    }
}

#[test]
fn a_host_that_is_to_be_off_is_not_treated() {
    let mut ward = Ward::new(true);
    ward.claim.as_mut().unwrap().wanted = false;
    assert_eq!(ward.run(), [Phase::Failed]);
    assert_eq!(ward.offs, 0);
    assert_eq!(decide(&ward.snapshot()).reason, Reason::PoweredOff);
}

#[test]
fn a_strategy_that_nobody_knows_and_a_claim_that_is_gone_do_nothing() {
    let mut ward = Ward::new(true);
    ward.remediation.spec.strategy = None;
    assert!(ward.run().is_empty());
    assert_eq!(decide(&ward.snapshot()).reason, Reason::UnsupportedStrategy);
    let mut ward = Ward { claim: None, ..Ward::new(true) };
    assert!(ward.run().is_empty());
    assert_eq!(decide(&ward.snapshot()).reason, Reason::HostClaimMissing);
}

#[test]
fn a_cluster_that_cannot_be_asked_is_asked_again_and_never_forever() {
    let mut ward = Ward::new(true);
    ward.pass(usize::MAX);
    ward.pass(usize::MAX);
    ward.pass(usize::MAX);
    ward.others();
    let mut s = ward.snapshot();
    assert!(asks_for_node(&s));
    s.node = Sight::Dark("The workload cluster does not answer.".to_owned());
    let thought = decide(&s);
    assert_eq!((thought.reason, thought.phase), (Reason::ClusterUnreachable, Some(Phase::Running)));
    assert!(matches!(thought.steps.as_slice(), [Step::Wait { .. }]));
    // A treatment that ends does not wait for it longer than a try lasts.
    let mut remediation = (*s.remediation).clone();
    remediation.head.deleting = true;
    s.remediation = Arc::new(remediation);
    if let Some((claim, _)) = &mut s.claim {
        Arc::make_mut(claim).held_off.clear();
    }
    assert!(matches!(decide(&s).steps.as_slice(), [Step::Wait { .. }]));
    s.now = s.now.checked_add(Duration::from_secs(301)).unwrap();
    assert_eq!(decide(&s).steps, [Step::Forget]);
}

#[test]
fn pods_that_are_leaving_are_waited_for() {
    let mut ward = Ward::new(true);
    for _ in 0..3 {
        ward.pass(usize::MAX);
        ward.others();
    }
    ward.pass(usize::MAX);
    let mut s = ward.snapshot();
    let Sight::There(node) = &mut s.node else { panic!("{:?}", s.node) };
    assert_eq!(node.taints.len(), 1);
    node.busy = true;
    let thought = decide(&s);
    assert_eq!((thought.reason, thought.phase), (Reason::DrainingNode, Some(Phase::Running)));
}

proptest! {
    /// Stopped anywhere in any plan, users deleting the treatment or switching the host off at any time: no Node is taken out
    /// of service while its host is on, nothing of ours stays behind, and no plan breaks a rule.
    #[test]
    fn nothing_is_left_behind_whatever_happens(
        taints in any::<bool>(),
        heals in any::<bool>(),
        cuts in proptest::collection::vec(0usize..4, 0..30),
        deleted_at in 0usize..40,
        off_at in proptest::option::of(0usize..40),
    ) {
        let mut ward = Ward { heals, ..Ward::new(taints) };
        for round in 0..40 {
            let cut = cuts.get(round).copied().map_or(usize::MAX, |cut| if cut == 3 { usize::MAX } else { cut });
            ward.pass(cut);
            if round % 2 == 0 {
                ward.others();
            }
            if round == deleted_at {
                ward.remediation.head.deleting = true;
            }
            if Some(round) == off_at && let Some(claim) = &mut ward.claim {
                claim.wanted = false;
            }
            ward.now = ward.now.checked_add(Duration::from_secs(20)).unwrap();
            ward.gone |= ward.remediation.head.deleting && !ward.remediation.is_kept();
            if ward.gone {
                break;
            }
        }
        ward.run();
        prop_assert!(ward.gone);
        prop_assert!(!ward.taken_while_on);
        let claim = ward.claim.unwrap();
        prop_assert!(claim.held_off.is_empty());
    }
}
