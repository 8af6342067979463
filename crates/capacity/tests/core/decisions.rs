//! What is told, when it is repeated, and what must hold of every plan.

use std::sync::Arc;

use api::reasons::capacity::Reason;
use api::views::TemplateStatus;
use capacity::config::{Config, Headroom, Keys};
use capacity::decide::{Sight, Snapshot, Standing, Step, decide};
use capacity::facts::{GroupFacts, TemplateFacts};
use capacity::guard::guard;
use capacity::judge::Skip;
use capacity::memory::Memory;
use capacity::names::{ACCELERATOR, CPU, LABELS, LEGACY_CPU, LEGACY_MEMORY, MEMORY, TAINTS};
use capacity::offer::Offer;
use capacity::status::Trouble;
use jiff::Timestamp;
use proptest::prelude::*;

use crate::build::{annotations, around, aws, catalogue, deployment, known, openshift, plain_deployment};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

fn standing(standing: Standing) -> Snapshot {
    let mut snapshot = known(
        true,
        openshift(&[], aws("m5.xlarge")),
        catalogue("m5.xlarge"),
        around("m5.xlarge", None),
        Config::default(),
    );
    snapshot.standing = standing;
    snapshot
}

fn told(steps: &[Step]) -> Vec<(Reason, bool)> {
    let tell = |step: &Step| match step {
        Step::Tell { reason, warning, .. } => Some((*reason, *warning)),
        _ => None,
    };
    steps.iter().filter_map(tell).collect()
}

#[test]
fn a_trouble_is_told_once_an_hour_and_waits() {
    let trouble = Trouble::unknown("m5.xlrage", "us-east-1", &["m5.xlarge".to_owned()], Some("m5.large"));
    for part in ["instance type", "\"m5.xlrage\"", "unknown", "us-east-1", "m5.xlarge", "describe m5.large"] {
        assert!(trouble.message.contains(part), "{}", trouble.message);
    }
    let mut snapshot = standing(Standing::Stuck { trouble: trouble.clone(), again: None });
    let steps = decide(&snapshot);
    assert_eq!(told(&steps), [(Reason::FailedUpdate, true)]);
    assert_eq!(steps.last(), Some(&Step::Wait { until: None }));
    snapshot.memory.tell(trouble.reason, &trouble.message, snapshot.now);
    assert_eq!(decide(&snapshot), [Step::Wait { until: None }]);
    snapshot.now = at(3600);
    assert_eq!(told(&decide(&snapshot)), [(Reason::FailedUpdate, true)]);
    let other = Trouble::passing("another".to_owned());
    snapshot.standing = Standing::Stuck { trouble: other, again: Some(at(9)) };
    let steps = decide(&snapshot);
    assert_eq!(
        (told(&steps), steps.last()),
        (vec![(Reason::ReconcileError, true)], Some(&Step::Wait { until: Some(at(9)) }))
    );
}

#[test]
fn what_is_left_alone_or_asked_about_costs_nothing() {
    assert_eq!(decide(&standing(Standing::Skipped(Skip::Paused))), []);
    assert_eq!(decide(&standing(Standing::Asking)), [Step::Wait { until: None }]);
}

fn annotated(name: &str) -> GroupFacts {
    let mut group = openshift(&[], aws(name));
    let snapshot = known(true, group.clone(), catalogue(name), around(name, None), Config::default());
    for step in decide(&snapshot) {
        if let Step::Annotate(plan) = step {
            group.annotations = annotations(&[]);
            for (key, value) in plan.changes {
                group.annotations.insert(key.into(), value.unwrap_or_default().into());
            }
        }
    }
    group
}

#[test]
fn a_success_after_a_failure_is_told_only_if_asked_for() {
    let mut snapshot =
        known(true, annotated("m5.xlarge"), catalogue("m5.xlarge"), around("m5.xlarge", None), Config::default());
    assert_eq!(decide(&snapshot), []);
    snapshot.memory.troubled = true;
    assert_eq!(decide(&snapshot), []);
    snapshot.config = Arc::new(Config { success_events: true, ..Config::default() });
    assert_eq!(told(&decide(&snapshot)), [(Reason::CapacityAnnotated, false)]);
}

#[test]
fn whoever_has_accelerators_hears_of_the_label_once() {
    let bare = deployment(plain_deployment(&[]));
    let mut snapshot = known(false, bare, catalogue("p3.8xlarge"), around("p3.8xlarge", None), Config::default());
    let steps = decide(&snapshot);
    assert_eq!(told(&steps), [(Reason::AcceleratorLabelMissing, false)]);
    let [Step::Annotate(_), Step::Tell { message, .. }] = steps.as_slice() else { panic!("{steps:?}") };
    snapshot.memory.tell(Reason::AcceleratorLabelMissing, message, snapshot.now);
    snapshot.now = at(1_000_000);
    assert_eq!(told(&decide(&snapshot)), []);
    // A process that has just started and finds everything written has nothing to say either.
    let found =
        known(true, annotated("p3.8xlarge"), catalogue("p3.8xlarge"), around("p3.8xlarge", None), Config::default());
    assert_eq!(decide(&found), []);
    let mut labelled = annotated("p3.8xlarge");
    labelled.accelerator_label = true;
    let snapshot = known(true, labelled, catalogue("p3.8xlarge"), around("p3.8xlarge", None), Config::default());
    assert_eq!(decide(&snapshot), []);
    let mut listed = annotated("p3.8xlarge");
    listed.annotations.insert(LABELS.into(), format!("{ACCELERATOR}=nvidia,kubernetes.io/arch=amd64").into());
    let snapshot = known(true, listed, catalogue("p3.8xlarge"), around("p3.8xlarge", None), Config::default());
    assert_eq!(decide(&snapshot), []);
}

#[test]
fn a_value_nobody_can_read_is_told_of_and_kept() {
    let group = deployment(plain_deployment(&[(CPU, "lots")]));
    let snapshot = known(false, group, catalogue("m5.xlarge"), around("m5.xlarge", None), Config::default());
    let steps = decide(&snapshot);
    assert_eq!(told(&steps), [(Reason::InvalidAnnotation, true)]);
    let Some(Step::Annotate(plan)) = steps.first() else { panic!("the write comes first: {steps:?}") };
    assert!(!plan.changes.contains_key(CPU));
}

#[test]
fn a_fight_ends_with_one_warning_and_the_other_keys_go_on() {
    let mut group = annotated("m5.xlarge");
    group.annotations.insert(LEGACY_CPU.into(), "8".into());
    group.annotations.insert(LEGACY_MEMORY.into(), "1".into());
    group.writers.insert(LEGACY_CPU.into(), "argocd".into());
    let mut snapshot = known(true, group, catalogue("m5.xlarge"), around("m5.xlarge", None), Config::default());
    for seconds in [0, 10, 20] {
        assert!(!decide(&snapshot).iter().any(|step| matches!(step, Step::Yield { .. })));
        snapshot.memory.write(LEGACY_CPU, Some("4"), at(seconds));
    }
    snapshot.now = at(30);
    let steps = decide(&snapshot);
    guard(&snapshot, &steps).unwrap();
    let [Step::Annotate(plan), Step::Yield { key, message }] = steps.as_slice() else { panic!("{steps:?}") };
    assert_eq!(
        (key.as_ref(), plan.changes.keys().map(String::as_str).collect::<Vec<_>>()),
        (LEGACY_CPU, vec![LEGACY_MEMORY])
    );
    for part in [LEGACY_CPU, "argocd", "\"8\"", "\"4\""] {
        assert!(message.contains(part), "{message}");
    }
    snapshot.memory.yield_to(LEGACY_CPU, at(30));
    snapshot.memory.write(LEGACY_MEMORY, Some("16384"), at(30));
    snapshot.now = at(3000);
    let steps = decide(&snapshot);
    assert!(matches!(steps.as_slice(), [Step::Annotate(plan)] if !plan.changes.contains_key(LEGACY_CPU)), "{steps:?}");
    snapshot.now = at(30 + 3600);
    let Some(Step::Annotate(plan)) = decide(&snapshot).into_iter().next() else { panic!() };
    assert!(plan.changes.contains_key(LEGACY_CPU), "after an hour it is tried again");
}

#[test]
fn a_template_that_says_everything_makes_our_upstream_keys_go() {
    let group = deployment(plain_deployment(&[]));
    let mut snapshot = known(false, group, catalogue("m5.xlarge"), around("m5.xlarge", None), Config::default());
    let Some(Step::Annotate(plan)) = decide(&snapshot).into_iter().next() else { panic!() };
    let mut group = GroupFacts::clone(&snapshot.group);
    for (key, value) in plan.changes {
        group.annotations.insert(key.into(), value.unwrap_or_default().into());
    }
    snapshot.group = Arc::new(group);
    assert!(decide(&snapshot).is_empty());
    let facts = TemplateFacts { uid: "t".into(), status: template_status("4", "16Gi"), ..TemplateFacts::default() };
    snapshot.template = Some(Sight {
        key: api::key::ObjectKey::namespaced("default", "t"),
        facts: Arc::new(facts),
        windows: Some(false),
    });
    assert!(decide(&snapshot).is_empty(), "not without the flag");
    snapshot.config = Arc::new(Config { defer_to_template: true, ..Config::default() });
    let Some(Step::Annotate(plan)) = decide(&snapshot).into_iter().next() else { panic!() };
    assert_eq!(plan.changes.get(CPU), Some(&None));
    assert!(!plan.changes.contains_key(LEGACY_CPU) && !plan.changes.contains_key(LABELS));
    snapshot.config = Arc::new(Config { defer_to_template: true, template_status: true, ..Config::default() });
    assert!(decide(&snapshot).is_empty(), "what we wrote ourselves is nobody's word but ours");
}

fn template_status(cpu: &str, memory: &str) -> TemplateStatus {
    TemplateStatus {
        capacity: [("cpu".to_owned(), cpu.to_owned()), ("memory".to_owned(), memory.to_owned())].into(),
        architecture: Some("amd64".to_owned()),
        operating_system: Some("linux".to_owned()),
    }
}

#[test]
fn a_template_is_described_once_and_whoever_says_otherwise_has_the_word() {
    let group = deployment(plain_deployment(&[]));
    let config = Config { template_status: true, keys: Keys::Legacy, ..Config::default() };
    let mut snapshot = known(false, group, catalogue("m5.xlarge"), around("m5.xlarge", None), config);
    let described = |snapshot: &Snapshot| {
        decide(snapshot).into_iter().find_map(|step| match step {
            Step::Describe(status) => Some(status),
            _ => None,
        })
    };
    assert_eq!(described(&snapshot), None, "without a template");
    let sight = |status: TemplateStatus, windows| Sight {
        key: api::key::ObjectKey::namespaced("default", "t"),
        facts: Arc::new(TemplateFacts { uid: "t".into(), status, ..TemplateFacts::default() }),
        windows,
    };
    snapshot.template = Some(sight(TemplateStatus::default(), None));
    assert_eq!(described(&snapshot), None, "while its image is being asked for");
    snapshot.template = Some(sight(TemplateStatus::default(), Some(false)));
    let status = described(&snapshot).unwrap();
    assert_eq!(status, template_status("4", "16384Mi"));
    assert_eq!(guard(&snapshot, &decide(&snapshot)), Ok(()));
    snapshot.template = Some(sight(template_status("4", "16Gi"), Some(false)));
    assert_eq!(described(&snapshot), None, "the same in other words");
    snapshot.template = Some(sight(template_status("2", "8Gi"), Some(false)));
    snapshot.memory.describe("t", &status, at(0));
    snapshot.now = at(3599);
    assert_eq!(described(&snapshot), None, "somebody else said so since");
    snapshot.now = at(3600);
    assert_eq!(described(&snapshot), Some(status), "and is asked again after an hour");
    snapshot.template = Some(sight(TemplateStatus::default(), Some(true)));
    assert_eq!(described(&snapshot).unwrap().operating_system.as_deref(), Some("windows"));
}

#[test]
fn labels_and_taints_of_the_template_are_told_where_that_is_asked_for_and_go_with_the_flag() {
    let mut wire = plain_deployment(&[(LABELS, "team=a,node-role.kubernetes.io/db=user")]);
    wire["spec"]["template"]["metadata"] = serde_json::json!({"labels": {
        "node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/db": "ours", "other": "x",
    }});
    wire["spec"]["template"]["spec"]["taints"] =
        serde_json::json!([{"key": "a", "value": "b", "effect": "NoSchedule"}]);
    let config = Config { propagate_labels: true, propagate_taints: true, ..Config::default() };
    let mut snapshot = known(false, deployment(wire), catalogue("m5.xlarge"), around("m5.xlarge", None), config);
    let steps = decide(&snapshot);
    assert_eq!(guard(&snapshot, &steps), Ok(()));
    let Some(Step::Annotate(plan)) = steps.into_iter().next() else { panic!() };
    assert_eq!(plan.changes.get(TAINTS), Some(&Some("a=b:NoSchedule".to_owned())));
    let labels = "kubernetes.io/arch=amd64,node-role.kubernetes.io/db=user,node-role.kubernetes.io/worker=,team=a";
    assert_eq!(plan.changes.get(LABELS), Some(&Some(labels.to_owned())), "a user's value wins");
    let mut group = GroupFacts::clone(&snapshot.group);
    for (key, value) in plan.changes {
        group.annotations.insert(key.into(), value.unwrap_or_default().into());
    }
    snapshot.group = Arc::new(group);
    assert!(decide(&snapshot).is_empty());
    snapshot.config = Arc::new(Config::default());
    let steps = decide(&snapshot);
    assert_eq!(guard(&snapshot, &steps), Ok(()));
    let Some(Step::Annotate(plan)) = steps.into_iter().next() else { panic!() };
    assert_eq!(plan.changes.get(TAINTS), Some(&None));
    let labels = "kubernetes.io/arch=amd64,node-role.kubernetes.io/db=user,team=a";
    assert_eq!(plan.changes.get(LABELS), Some(&Some(labels.to_owned())));
}

#[test]
fn what_is_kept_from_pods_is_taken_off_upstream_keys_only() {
    let headroom = Headroom { memory_share: 750, milli_cpu: 100, memory: 0 };
    let config = Config { headroom, ..Config::default() };
    let group = deployment(plain_deployment(&[]));
    let snapshot = known(false, group, catalogue("m5.xlarge"), around("m5.xlarge", None), config);
    let Some(Step::Annotate(plan)) = decide(&snapshot).into_iter().next() else { panic!() };
    let text = |key: &str| plan.changes.get(key).cloned().flatten().unwrap_or_default();
    assert_eq!((text(CPU), text(MEMORY)), ("3900m".to_owned(), "15155Mi".to_owned()));
    assert_eq!((text(LEGACY_CPU), text(LEGACY_MEMORY)), ("4".to_owned(), "16384".to_owned()));
}

fn some_offer() -> impl Strategy<Value = Offer> {
    let names = vec!["m5.xlarge", "m6g.4xlarge", "g4ad.xlarge", "p3.8xlarge", "inf2.24xlarge", "t2.micro"];
    prop::sample::select(names).prop_map(catalogue)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn every_plan_is_safe_and_applied_it_leaves_nothing_to_write(
        offer in some_offer(),
        machine_api: bool,
        present in prop::collection::btree_map(
            prop::sample::select(vec![CPU, LEGACY_CPU, LABELS, "machine.openshift.io/GPU", "capacity.berth.dev/applied"]),
            "[a-z0-9=,]{0,8}", 0..5),
        declared in prop::collection::btree_set(prop::sample::select(vec![CPU, LEGACY_CPU, LABELS]), 0..2),
        writes in prop::collection::vec((0i64..900, prop::sample::select(vec![CPU, LEGACY_CPU])), 0..6),
        now in 0i64..2000,
    ) {
        let pairs: Vec<(&str, &str)> = present.iter().map(|(k, v)| (*k, v.as_str())).collect();
        let mut group = if machine_api { openshift(&pairs, aws("x")) } else { deployment(plain_deployment(&pairs)) };
        group.declared = declared.iter().map(|key| (*key).into()).collect();
        let mut memory = Memory::default();
        for (seconds, key) in &writes {
            memory.write(key, Some("4"), at(*seconds));
        }
        let mut snapshot = known(machine_api, group, offer, around("x", Some(20)), Config::default());
        (snapshot.memory, snapshot.now) = (memory, at(now));
        for _ in 0..2 {
            let steps = decide(&snapshot);
            prop_assert_eq!(guard(&snapshot, &steps), Ok(()));
            for step in steps {
                match step {
                    Step::Annotate(plan) => {
                        let mut group = GroupFacts::clone(&snapshot.group);
                        for (key, value) in plan.changes {
                            match value {
                                Some(value) => drop(group.annotations.insert(key.into(), value.into())),
                                None => drop(group.annotations.remove(key.as_str())),
                            }
                        }
                        snapshot.group = Arc::new(group);
                    }
                    Step::Yield { key, .. } => snapshot.memory.yield_to(&key, snapshot.now),
                    Step::Tell { reason, message, .. } => snapshot.memory.tell(reason, &message, snapshot.now),
                    Step::Describe(_) | Step::Wait { .. } => {}
                }
            }
        }
        prop_assert!(!decide(&snapshot).iter().any(|step| matches!(step, Step::Annotate(_))), "not quiet");
    }
}
